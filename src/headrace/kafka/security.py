"""How brokers want to be spoken to, from the properties that librdkafka takes.

Whatever says how to encrypt and who we are must be understood in full: a property of that kind that
is not known here is refused, never ignored. Properties that only tune librdkafka do not matter to
the raw connections that this is for.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.kafka.errors import InvalidClientProperties
from headrace.kafka.tls import tls_context

_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_UNDERSTOOD: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)

_MUST_BE_UNDERSTOOD: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are, to a broker that wants to know by SASL."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username})"


@dataclass(frozen=True, slots=True)
class Security:
    """Whether connections are encrypted, and how we say who we are."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


def security_from(properties: Mapping[str, str]) -> Security:
    """What librdkafka's properties say about TLS and SASL.

    Raises `InvalidClientProperties` for one that is not understood, or that lacks another.
    """
    for name in properties:
        if name.startswith(_MUST_BE_UNDERSTOOD) and name not in _UNDERSTOOD:
            raise InvalidClientProperties(
                f"The property {name} works with librdkafka only, and what reads and writes in "
                f"bulk does not use it. Understood are: {', '.join(sorted(_UNDERSTOOD))}."
            )
    protocol = properties.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        raise InvalidClientProperties(
            f"security.protocol = {protocol} is none of plaintext, ssl, sasl_plaintext, sasl_ssl."
        )
    return Security(
        tls=tls_context(properties) if protocol.endswith("ssl") else None,
        credentials=_credentials(properties) if protocol.startswith("sasl") else None,
    )


def _credentials(properties: Mapping[str, str]) -> Credentials:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
    if mechanism not in _MECHANISMS:
        raise InvalidClientProperties(
            f"sasl.mechanism = {mechanism} is not available; use one of {', '.join(_MECHANISMS)}."
        )
    missing = [name for name in ("sasl.username", "sasl.password") if name not in properties]
    if missing:
        raise InvalidClientProperties(
            f"sasl.mechanism = {mechanism} needs {' and '.join(missing)}."
        )
    return Credentials(mechanism, properties["sasl.username"], properties["sasl.password"])
