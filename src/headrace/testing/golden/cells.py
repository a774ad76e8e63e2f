"""One value in a golden file: JSON where it is JSON, and text without quotation marks where not."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

ABSENT: Final = object()
"""The value of an empty cell: there is no such field."""

_ESCAPED_BAR: Final = "\\u007c"


def read_cell(text: str) -> Any:
    r"""The value that a cell says.

    >>> [read_cell(text) for text in ("7", "ada", '"7"', "null", '["a"]', "2026-01-01")]
    [7, 'ada', '7', None, ['a'], '2026-01-01']
    """
    text = text.strip()
    if not text:
        return ABSENT
    try:
        return json.loads(text)
    except ValueError:
        return text


def write_cell(value: Any) -> str:
    r"""The shortest cell that says a value.

    >>> [write_cell(value) for value in (7, "ada", "7", None, "", "a|b", ["a"])]
    ['7', 'ada', '"7"', 'null', '""', '"a\\u007cb"', '["a"]']
    """
    if value is ABSENT:
        return ""
    value = _plain(value)
    if isinstance(value, str) and _is_bare(value):
        return value
    return json.dumps(value, ensure_ascii=False, default=_plain).replace("|", _ESCAPED_BAR)


def _is_bare(text: str) -> bool:
    """Whether a text needs no quotation marks to be read as itself."""
    plain = text.isprintable() and text == text.strip() and "|" not in text
    return plain and read_cell(text) == text


def _plain(value: Any) -> Any:
    """What JSON has no word for, in the words of the files."""
    if isinstance(value, datetime):
        zone = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return zone.isoformat() + ("Z" if value.tzinfo else "")
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"base64:{base64.b64encode(value).decode()}"
    return value
