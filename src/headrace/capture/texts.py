"""Rows whose values are still the texts that a database printed, read only when asked for.

Most of what is captured is written on as it came: a whole number is the same in PostgreSQL's log
and in JSON. So a row keeps its texts. Who wants values gets them, as from any other row; an
envelope that knows the `Form` of a text may write it on without reading it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, overload

from headrace.capture.changes import Unavailable

Decode = Callable[[bytes], Any]
"""The value of a text."""

Text = bytes | None | Unavailable
"""What is there of a value: its text, NULL, or nothing."""


class Form(Enum):
    """What a text looks like."""

    WHOLE = "whole"
    """A whole number, as JSON has it."""

    PLAIN = "plain"
    """The value itself, in UTF-8."""

    DECIMAL = "decimal"
    """Digits with a sign and a point, where there is one, or the name of what is no number."""

    MOMENT = "moment"
    """2026-11-18 01:02:03.5+00, in UTC; years beyond 9999, BC and infinities are other words."""

    OTHER = "other"


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """How the texts of a table's rows are read: one object per version, compared by identity."""

    decoders: tuple[Decode, ...]
    forms: tuple[Form, ...]


class TextRow(Sequence[Any]):
    """A row of texts; a sequence of the values that they stand for.

    Args:
        texts: One per column.
        reading: How they are read.
        whole: Whether every column has a text.
    """

    __slots__ = ("reading", "texts", "whole")

    def __init__(self, texts: Sequence[Text], reading: Reading, *, whole: bool) -> None:
        self.texts = texts
        self.reading = reading
        self.whole = whole

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return tuple(self)[place]
        text = self.texts[place]
        return self.reading.decoders[place](text) if isinstance(text, bytes) else text

    def __iter__(self) -> Iterator[Any]:
        for text, decode in zip(self.texts, self.reading.decoders, strict=True):
            yield decode(text) if isinstance(text, bytes) else text

    def __len__(self) -> int:
        return len(self.texts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TextRow | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
