"""What is to be erased, as people write it on a command line."""

import base64
import sys
from enum import StrEnum
from pathlib import Path

import typer


class KeyEncoding(StrEnum):
    """How keys are written."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


def key_from(text: str, encoding: KeyEncoding, option: str) -> bytes:
    """A key's bytes; a usage error names the option, and not the key."""
    try:
        match encoding:
            case KeyEncoding.TEXT:
                return text.encode(errors="surrogateescape")
            case KeyEncoding.HEX:
                return bytes.fromhex(text)
            case KeyEncoding.BASE64:
                return base64.b64decode(text, validate=True)
    except ValueError:
        raise typer.BadParameter(f"a key is not {encoding}.", param_hint=option) from None


def keys_in(path: Path, encoding: KeyEncoding) -> list[bytes]:
    """The keys in a file, one per line; empty lines do not count, but one key there must be."""
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    lines = (line.removesuffix(b"\r") for line in data.split(b"\n"))
    keys = [
        key_from(line.decode(errors="surrogateescape"), encoding, "--keys-file")
        for line in lines
        if line
    ]
    if not keys:
        where = "stdin" if str(path) == "-" else path
        raise typer.BadParameter(f"there are no keys in {where}.", param_hint="--keys-file")
    return keys


def header_from(text: str) -> tuple[str, bytes]:
    """A header's name and value."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f'"{text}" is not NAME=VALUE.', param_hint="--header")
    return name, value.encode(errors="surrogateescape")
