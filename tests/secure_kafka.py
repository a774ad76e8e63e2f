"""An Apache Kafka that wants TLS and passwords, and the certificates of its own authority."""

import contextlib
import datetime
import ipaddress
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.settings import KafkaSettings
from headrace.testing.apache_kafka import ApacheKafka

USER, PASSWORD = "ada", "s3cret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "PASSWORD": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}
_JAAS = "org.apache.kafka.common.security"


class Authority:
    """Signs certificates, into a directory."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _unsigned(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.location = directory / f"{name}.pem"
        """The certificate by which others believe what this signed."""
        self.location.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def certificate(self, name: str, *hosts: str) -> Path:
        """A file with the key and the certificate of somebody, or of the server at some hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        unsigned = _unsigned(subject, self._name, key)
        if hosts:
            unsigned = unsigned.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        place = self._directory / f"{name}.pem"
        place.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + unsigned.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        return place


@dataclass(frozen=True)
class SecureKafka:
    """A broker with a listener for each way in, and what is needed to come in."""

    broker: ApacheKafka
    authority: Path
    certificate: Path
    """Key and certificate of a client that the broker knows."""

    stranger: Path
    """An authority that has signed nothing."""

    def at(self, listener: str, **properties: str) -> KafkaSettings:
        """Settings for a listener; underscores of properties stand for dots."""
        dotted = {name.replace("_", "."): value for name, value in properties.items()}
        protocol = _LISTENERS[listener]
        trusted = {"ssl.ca.location": str(self.authority)} if protocol.endswith("SSL") else {}
        given = {"security.protocol": protocol.lower(), **trusted, **dotted}
        return KafkaSettings(bootstrap=self.broker.address(listener), properties=given)

    def by_password(
        self, listener: str, mechanism: str = "PLAIN", password: str = PASSWORD
    ) -> KafkaSettings:
        """Settings for a listener that wants a password."""
        return self.at(
            listener, sasl_mechanism=mechanism, sasl_username=USER, sasl_password=password
        )


@contextlib.contextmanager
def secure_kafka_cluster() -> Iterator[SecureKafka]:
    """Apache Kafka with every way in that clients have, on one broker."""
    with tempfile.TemporaryDirectory(prefix="headrace-certificates-") as place:
        directory = Path(place)
        authority = Authority(directory)
        broker = authority.certificate("broker", "127.0.0.1", "localhost")
        elsewhere = authority.certificate("elsewhere", "kafka.example.com")
        properties = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.location),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.elsewhere.ssl.keystore.type": "PEM",
            "listener.name.elsewhere.ssl.keystore.location": str(elsewhere),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            **_logins("password"),
            **_logins("both"),
        }
        users = [
            f"{each}=[name={USER},password={PASSWORD}]"
            for each in MECHANISMS
            if each.startswith("SCRAM")
        ]
        kafka = ApacheKafka(
            heap="512m",
            initial_rebalance_delay_ms=0,
            properties=properties,
            listeners=_LISTENERS,
            scram_users=users,
        )
        with kafka:
            yield SecureKafka(
                kafka,
                authority.location,
                authority.certificate("client"),
                Authority(directory, "stranger").location,
            )


def _logins(listener: str) -> dict[str, str]:
    plain = (
        f'{_JAAS}.plain.PlainLoginModule required username="broker" password="unused" '
        f'user_{USER}="{PASSWORD}";'
    )
    scram = f"{_JAAS}.scram.ScramLoginModule required;"
    return {
        f"listener.name.{listener}.{each.lower()}.sasl.jaas.config": (
            plain if each == "PLAIN" else scram
        )
        for each in MECHANISMS
    }


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
