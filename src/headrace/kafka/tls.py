"""TLS to a broker, from the properties that librdkafka takes, and what it means when it fails."""

import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from headrace.kafka.errors import ClusterError, InvalidClientProperties


class BrokerNotTrusted(ClusterError):
    """We and a broker cannot agree on a safe connection; trying again would not change that."""

    def __init__(self, address: str, error: ssl.SSLError) -> None:
        super().__init__(f"No safe connection to the broker at {address}: {_explained(error)}")


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """How to encrypt and whom to believe; InvalidClientProperties if a property does not work."""
    place = properties.get("ssl.ca.location", "probe")
    try:
        context = ssl.create_default_context(
            cafile=None if place == "probe" or Path(place).is_dir() else place,
            capath=place if Path(place).is_dir() else None,
            cadata=properties.get("ssl.ca.pem"),
        )
        _load_certificate(context, properties)
    except (OSError, ValueError) as error:
        raise InvalidClientProperties(f"The ssl.* properties do not work: {error}.") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def is_lasting(error: ssl.SSLError) -> bool:
    """Whether a failure is about certificates or the protocol, and not a connection that broke."""
    broken = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    return not isinstance(error, broken)


def _load_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Let the broker know us, if we have a certificate."""
    password = properties.get("ssl.key.password", "")
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), password)
    elif certificate := properties.get("ssl.certificate.pem"):
        # Python reads keys from files only; this one is ours alone, and gone when it is read.
        descriptor, name = tempfile.mkstemp(prefix="headrace-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{properties.get('ssl.key.pem', '')}\n{certificate}\n")
            context.load_cert_chain(name, password=password)
        finally:
            Path(name).unlink()


def _explained(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not to be trusted ({error.verify_message.rstrip('.')}). Let "
            "ssl.ca.location in [kafka.properties] name the authority that signed it, and let "
            "[kafka] bootstrap use a name or address that the certificate has."
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason:
        return (
            f"it does not accept our certificate ({reason}). Check ssl.certificate.location and "
            "ssl.key.location in [kafka.properties]."
        )
    return (
        f"it does not speak TLS as we do ({reason}). Check the port, and security.protocol in "
        "[kafka.properties]."
    )
