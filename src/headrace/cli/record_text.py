"""A record as people read it: where and when, the key, the headers, the value laid out."""

import json
import re
from typing import TYPE_CHECKING

from headrace.cli.output import Style, paint
from headrace.cli.record_json import headers_of, time_of

if TYPE_CHECKING:
    from confluent_kafka import Message

_JSON_TOKEN = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)"
)
_TOKEN_STYLES = {
    "name": Style.NAME,
    "text": Style.TEXT,
    "number": Style.NUMBER,
    "word": Style.WORD,
}
_INDENT = "  "
_LINE_WIDTH = 76
"""JSON that is longer than this is laid out over several lines."""


class RecordText:
    """Lays records out for reading; with `coloured`, for a terminal."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured

    def format(self, message: "Message") -> str:
        """The record: a line that identifies it, its headers, its value."""
        lines = [self._identity(message)]
        for name, value in headers_of(message):
            lines.append(
                f"{self._paint(_readable(name.encode()), Style.FAINT)}: {_readable(value)}"
            )
        lines.extend(self._value(message.value()))
        return ("\n" + _INDENT).join(lines)

    def _identity(self, message: "Message") -> str:
        moment = time_of(message)
        written = moment.astimezone().isoformat(" ", "milliseconds") if moment else "no time"
        place = f"{message.topic()}-{message.partition()} @ {message.offset()}"
        key = message.key()
        shown = "" if key is None else f"  {self._paint(_readable(key), Style.KEY)}"
        return f"{self._paint(place, Style.NUMBER)}  {self._paint(written, Style.FAINT)}{shown}"

    def _value(self, value: bytes | None) -> list[str]:
        if value is None:
            return [self._paint("null", Style.WORD)]
        if value[:1] in (b"{", b"["):
            try:
                document = json.loads(value)
            except ValueError:
                return _readable(value).split("\n")
            laid_out = json.dumps(document, ensure_ascii=False)
            if len(laid_out) > _LINE_WIDTH:
                laid_out = json.dumps(document, indent=2, ensure_ascii=False)
            return [self._paint_json(_readable(line.encode())) for line in laid_out.split("\n")]
        return _readable(value).split("\n")

    def _paint(self, text: str, style: Style) -> str:
        return paint(text, style, coloured=self._coloured)

    def _paint_json(self, line: str) -> str:
        if not self._coloured:
            return line
        return _JSON_TOKEN.sub(
            lambda token: paint(token[0], _TOKEN_STYLES[str(token.lastgroup)]), line
        )


def _readable(data: bytes | None) -> str:
    """Text in which nothing can command the terminal: other characters are shown as escapes."""
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )
