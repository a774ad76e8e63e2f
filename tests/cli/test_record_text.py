"""A record as people see it: golden, plain and coloured."""

from typing import Any, cast

import pytest

from headrace.cli.record_text import RecordText
from tests.cli.messages import FakeMessage


def body(message: FakeMessage, *, coloured: bool = False) -> str:
    """All but the first line, without the indent of the first of these."""
    text = RecordText(coloured=coloured).format(cast(Any, message))
    return text.split("\n", 1)[1].removeprefix("  ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (b"", ""),
        (b"plain text", "plain text"),
        (b"two\nlines", "two\n  lines"),
        (b'{"short":[1,2]}', '{"short": [1, 2]}'),
        (b'{"broken": ', '{"broken": '),
        ("Z\u00fcrich".encode(), "Z\u00fcrich"),
        (b"caf\xe9", "caf\\xe9"),
        (b"\x1b[2Jgone\x07", "\\x1b[2Jgone\\x07"),
        (b'{"evil": "\\u001b[2J"}', '{"evil": "\\u001b[2J"}'),
        ("\u202egnp.exe".encode(), "\\u202egnp.exe"),
    ],
)
def test_values_are_laid_out_and_cannot_command_the_terminal(value: bytes | None, shown: str):
    assert body(FakeMessage(value)) == shown


def test_the_first_line_says_where_when_and_which_key():
    first = RecordText(coloured=False).format(cast(Any, FakeMessage(b"x", b"user-7")))
    assert first.startswith("orders-3 @ 41  2023-11-1")
    assert first.splitlines()[0].endswith("  user-7")


def test_headers_come_before_the_value():
    message = FakeMessage(b"x", the_headers=[("trace", b"8c1f"), ("empty", None)])
    assert body(message) == "trace: 8c1f\n  empty: null\n  x"


def test_colour_tells_names_text_numbers_and_words_apart():
    shown = body(FakeMessage(b'{"name":"text","n":-1.5e3,"ok":true}'), coloured=True)
    assert shown == (
        '{\x1b[34m"name"\x1b[0m: \x1b[32m"text"\x1b[0m, '
        '\x1b[34m"n"\x1b[0m: \x1b[33m-1500.0\x1b[0m, \x1b[34m"ok"\x1b[0m: \x1b[35mtrue\x1b[0m}'
    )
