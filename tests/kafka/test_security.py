"""How librdkafka's properties become TLS and SASL."""

import ssl

import pytest

from headrace.kafka import InvalidClientProperties
from headrace.kafka.sasl import conversation
from headrace.kafka.security import Credentials, security_from


def test_without_properties_there_is_neither() -> None:
    security = security_from({"linger.ms": "5"})
    assert security.tls is None
    assert security.credentials is None


def test_sasl_over_tls_has_both() -> None:
    security = security_from(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "ada",
            "sasl.password": "secret",
        }
    )
    assert security.credentials == Credentials("SCRAM-SHA-512", "ada", "secret")
    assert "secret" not in repr(security)
    assert security.tls is not None
    assert security.tls.verify_mode is ssl.CERT_REQUIRED
    assert security.tls.check_hostname


def test_a_broker_can_be_believed_without_its_name_or_at_all() -> None:
    nameless = security_from(
        {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}
    )
    assert nameless.tls is not None
    assert (nameless.tls.verify_mode, nameless.tls.check_hostname) == (ssl.CERT_REQUIRED, False)
    blind = security_from(
        {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
    )
    assert blind.tls is not None
    assert blind.tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"security.protocol": "tls"}, "security.protocol = tls"),
        ({"security.protocol": "sasl_ssl"}, "sasl.mechanism = GSSAPI is not available"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, "needs sasl.username and"),
        ({"security.protocol": "ssl", "ssl.ca.location": "no-such-file"}, "No such file"),
        ({"sasl.kerberos.keytab": "x"}, "sasl.kerberos.keytab"),
    ],
)
def test_what_cannot_work_is_refused(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidClientProperties, match=complaint):
        security_from(properties)


NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
"""From the example in RFC 7677."""


def test_scram_speaks_as_its_standard_shows() -> None:
    talk = conversation(Credentials("SCRAM-SHA-256", "user", "pencil"), NONCE)
    assert next(talk) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    answer = talk.send(CHALLENGE.encode())
    assert answer.endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    with pytest.raises(StopIteration):
        talk.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_scram_does_not_believe_a_broker_that_cannot_prove_itself() -> None:
    talk = conversation(Credentials("SCRAM-SHA-256", "user", "pencil"), NONCE)
    next(talk)
    talk.send(CHALLENGE.encode())
    with pytest.raises(ValueError, match="does not know the password"):
        talk.send(b"v=AAAA")


def test_plain_says_it_all_at_once() -> None:
    talk = conversation(Credentials("PLAIN", "ada", "secret"))
    assert next(talk) == b"\0ada\0secret"
