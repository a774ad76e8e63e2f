"""The properties of librdkafka in the words of Java's client."""

import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.kafka.errors import InvalidClientProperties
from headrace.settings import KafkaSettings
from headrace.streams.realtime.properties import connector_properties


def translated(**properties: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return connector_properties(KafkaSettings(bootstrap="127.0.0.1:9092", properties=named))


def test_without_security_there_is_only_the_address():
    assert translated(linger_ms="5") == {"kafka.bootstrap.servers": "127.0.0.1:9092"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_names_and_passwords_become_a_login_module(mechanism: str, module: str):
    found = translated(
        security_protocol="sasl_plaintext",
        sasl_mechanism=mechanism,
        sasl_username="ada",
        sasl_password='pass"w\\ord',
    )
    assert found["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert found["kafka.sasl.mechanism"] == mechanism
    assert found["kafka.sasl.jaas.config"] == (
        f"org.apache.kafka.common.security.{module} required "
        'username="ada" password="pass\\"w\\\\ord";'
    )


def test_what_only_librdkafka_does_is_refused():
    with pytest.raises(InvalidClientProperties, match="works with librdkafka only"):
        translated(security_protocol="ssl", ssl_keystore_location="x")
    with pytest.raises(InvalidClientProperties, match="Java's client always verifies"):
        translated(security_protocol="ssl", enable_ssl_certificate_verification="false")


def test_the_authority_goes_along_as_text(tmp_path: Path):
    authority = tmp_path / "authority.pem"
    made = (
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=headrace"),
        *("-keyout", str(tmp_path / "key.pem"), "-out", str(authority)),
    )
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    subprocess.run(made, check=True, capture_output=True)
    found = translated(
        security_protocol="ssl",
        ssl_ca_location=str(authority),
        ssl_certificate_location=str(authority),
        ssl_key_location=str(tmp_path / "key.pem"),
        ssl_endpoint_identification_algorithm="none",
    )
    assert found["kafka.ssl.truststore.type"] == "PEM"
    assert found["kafka.ssl.truststore.certificates"] == authority.read_text()
    assert found["kafka.ssl.keystore.certificate.chain"] == authority.read_text()
    assert found["kafka.ssl.keystore.key"] == (tmp_path / "key.pem").read_text()
    assert found["kafka.ssl.endpoint.identification.algorithm"] == ""
