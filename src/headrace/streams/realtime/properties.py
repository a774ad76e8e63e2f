"""The client properties of [kafka] in the words of Java's client, which the connector uses.

What says how to encrypt and who we are is translated or refused, never ignored; properties that
only tune librdkafka mean nothing to Java's client and are left out.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.kafka.errors import InvalidClientProperties
from headrace.kafka.security import security_from
from headrace.settings import KafkaSettings

_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def connector_properties(kafka: KafkaSettings) -> dict[str, str]:
    """The connector's options for a cluster.

    Raises `InvalidClientProperties` for properties that do not fit together, or that only
    librdkafka has.
    """
    given = kafka.properties
    credentials = security_from(given).credentials
    found = {"bootstrap.servers": kafka.bootstrap}
    protocol = given.get("security.protocol", "plaintext").upper()
    if protocol != "PLAINTEXT":
        found["security.protocol"] = protocol
    if credentials is not None:
        found["sasl.mechanism"] = credentials.mechanism
        found["sasl.jaas.config"] = (
            f"{_MODULES[credentials.mechanism]} required username={_quoted(credentials.username)} "
            f"password={_quoted(credentials.password)};"
        )
    if protocol.endswith("SSL"):
        found |= _tls(given)
    return {f"kafka.{name}": value for name, value in found.items()}


def _tls(given: Mapping[str, str]) -> dict[str, str]:
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise InvalidClientProperties(
            "enable.ssl.certificate.verification = false is not available in real time: Java's "
            "client always verifies. Name the authority with ssl.ca.location, or leave the "
            "trigger out."
        )
    found: dict[str, str] = {}
    authority = given.get("ssl.ca.pem") or _text(given.get("ssl.ca.location"))
    if authority is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if certificate := _text(given.get("ssl.certificate.location")):
        key = _text(given.get("ssl.key.location")) or certificate
        if "BEGIN RSA PRIVATE KEY" in key or "BEGIN EC PRIVATE KEY" in key:
            raise InvalidClientProperties(
                "ssl.key.location is not in PKCS#8, the only form that Java's client reads: "
                "`openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW` makes it so."
            )
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": key,
        }
        if "ssl.key.password" in given:
            found["ssl.key.password"] = given["ssl.key.password"]
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def _text(location: str | None) -> str | None:
    return None if location is None else Path(location).read_text(encoding="utf-8")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
