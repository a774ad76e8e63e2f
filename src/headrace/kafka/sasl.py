"""Saying who we are by SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802).

A conversation is a generator: it yields what to send and is sent what the broker answered; when it
ends, we believe the broker too.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator
from typing import Final

from headrace.kafka.security import Credentials

Conversation = Generator[bytes, bytes, None]
"""Yields our messages, takes the broker's."""

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_FEWEST_ITERATIONS: Final = 4096
"""What RFC 7677 asks for; with fewer, whoever pretends to be the broker could guess passwords."""


def conversation(credentials: Credentials, nonce: str | None = None) -> Conversation:
    """What to say to a broker; ValueError if its answers show that it does not know us.

    The nonce is random unless a test gives one.
    """
    if credentials.mechanism == "PLAIN":
        return _plain(credentials)
    return _scram(credentials, nonce or secrets.token_urlsafe(24))


def _plain(credentials: Credentials) -> Conversation:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _scram(credentials: Credentials, nonce: str) -> Conversation:
    name = _HASHES[credentials.mechanism]
    username = credentials.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={username},r={nonce}"
    challenge = (yield f"n,,{first}".encode()).decode()
    given = _attributes(challenge)
    if "e" in given or not {"r", "s", "i"} <= given.keys():
        raise ValueError(given.get("e", "its challenge makes no sense"))
    if not given["r"].startswith(nonce):
        raise ValueError("the broker's nonce does not continue ours")
    if int(given["i"]) < _FEWEST_ITERATIONS:
        raise ValueError(f"{given['i']} iterations would give the password away")
    salted = hashlib.pbkdf2_hmac(
        name, credentials.password.encode(), base64.b64decode(given["s"]), int(given["i"])
    )
    last = f"c=biws,r={given['r']}"
    signed = f"{first},{challenge},{last}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verdict = _attributes((yield f"{last},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    if not hmac.compare_digest(expected, base64.b64decode(verdict.get("v", ""))):
        raise ValueError(verdict.get("e", "the broker does not know the password either"))


def _attributes(message: str) -> dict[str, str]:
    """The parts of a message such as "r=nonce,s=salt,i=4096"."""
    return {part[0]: part[2:] for part in message.split(",")}
