"""The kinds of value a setting can have: what may be written, and what it becomes.

A kind reads what a person wrote (`parse`) and accepts or refuses a value (`accept`). Both raise
ValueError with a message that reads well after "where: name = value". TOML gives typed values and
the environment gives strings, so every kind understands both.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from headrace.settings.units import format_duration, format_size, parse_duration, parse_size

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

UNLIMITED = -1
"""The value of a limit that is switched off; people may also write "unlimited"."""

_SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class Kind(Protocol[T_co]):
    """One kind of value."""

    def parse(self, raw: object) -> T_co:
        """The value that `raw` stands for, if it is acceptable."""
        ...

    def accept(self, value: object) -> T_co:
        """The value itself, if a setting of this kind may have it."""
        ...


class Text:
    """Any text that is not empty."""

    def parse(self, raw: object) -> str:
        """The text without surrounding blanks."""
        return self.accept(raw).strip()

    def accept(self, value: object) -> str:
        """Refuse what is not text, or blank."""
        if not isinstance(value, str) or not value.strip():
            raise ValueError("must be text")
        return value


class Choice(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> str:
        """The chosen word, in lower case."""
        return self.accept(raw.strip().lower() if isinstance(raw, str) else raw)

    def accept(self, value: object) -> str:
        """Refuse any other word."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)}")
        return value


class Switch:
    """True or false."""

    def parse(self, raw: object) -> bool:
        """The truth value of a TOML boolean or of a word such as "yes" or "off"."""
        return self.accept(_SWITCHES.get(raw.strip().lower()) if isinstance(raw, str) else raw)

    def accept(self, value: object) -> bool:
        """Refuse anything but a boolean."""
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value


class Whole(NamedTuple):
    """A whole number within bounds."""

    minimum: int = 0
    maximum: int | None = None

    def parse(self, raw: object) -> int:
        """The number."""
        digits = isinstance(raw, str) and raw.strip().removeprefix("-").isdecimal()
        return self.accept(int(str(raw)) if digits else raw)

    def accept(self, value: object) -> int:
        """Refuse what is not a whole number or is out of bounds."""
        return _bounded(value, self.minimum, self.maximum, str, "must be a whole number")


class Size(NamedTuple):
    """A number of bytes: an integer, or text such as "512 MB" or "1 GiB"."""

    minimum: int = 0
    maximum: int | None = None
    unlimited: bool = False

    def parse(self, raw: object) -> int:
        """The number of bytes."""
        if self.unlimited and _says_unlimited(raw):
            return UNLIMITED
        return self.accept(parse_size(raw) if isinstance(raw, str) else raw)

    def accept(self, value: object) -> int:
        """Refuse what is not a number of bytes or is out of bounds."""
        if self.unlimited and value == UNLIMITED:
            return UNLIMITED
        expected = 'must be a size such as "512 MB", or a number of bytes'
        return _bounded(value, self.minimum, self.maximum, format_size, expected)


class Duration(NamedTuple):
    """A time span such as "250ms" or "7 days", kept as whole milliseconds.

    A bare number is refused, because nobody can tell seconds from milliseconds by looking at it;
    zero means the same in every unit and is the exception.
    """

    minimum: int = 0
    maximum: int | None = None
    unlimited: bool = False

    def parse(self, raw: object) -> int:
        """The number of milliseconds."""
        if self.unlimited and _says_unlimited(raw):
            return UNLIMITED
        if isinstance(raw, (int, float)) and not isinstance(raw, bool) and raw != 0:
            raise ValueError(f'needs a unit, as in "{raw}ms" or "{raw}s"')
        if isinstance(raw, str):
            return self.accept(0 if raw.strip() == "0" else parse_duration(raw))
        return self.accept(raw)

    def accept(self, value: object) -> int:
        """Refuse what is not a number of milliseconds or is out of bounds."""
        if self.unlimited and value == UNLIMITED:
            return UNLIMITED
        expected = 'must be a duration such as "30s" or "7 days"'
        return _bounded(value, self.minimum, self.maximum, format_duration, expected)


class Location:
    """A path; a relative one starts at the working directory, and ~ is the home directory."""

    def parse(self, raw: object) -> Path:
        """The path."""
        written = isinstance(raw, str) and raw.strip()
        return self.accept(Path(str(raw)).expanduser() if written else raw)

    def accept(self, value: object) -> Path:
        """Refuse anything but a path."""
        if not isinstance(value, Path):
            raise ValueError("must be a path")
        return value


class Properties:
    """A table of names and plain values that is passed on as it is, with values as text."""

    def parse(self, raw: object) -> Mapping[str, str]:
        """The table; true and false are written in lower case, as Kafka's clients expect."""
        return dict(_flattened(self.accept(raw)))

    def accept(self, value: object) -> Mapping[str, str]:
        """Refuse anything but a table."""
        if not isinstance(value, Mapping):
            raise ValueError("must be a table")
        return value


class Maybe(NamedTuple, Generic[T]):
    """Another kind of value, or None when nobody sets it."""

    kind: Kind[T]

    def parse(self, raw: object) -> T | None:
        """What the other kind makes of it."""
        return None if raw is None else self.kind.parse(raw)

    def accept(self, value: object) -> T | None:
        """Accept None as well as what the other kind accepts."""
        return None if value is None else self.kind.accept(value)


def _says_unlimited(raw: object) -> bool:
    return raw == UNLIMITED or (
        isinstance(raw, str) and raw.strip().lower() in ("unlimited", str(UNLIMITED))
    )


def _bounded(
    value: object,
    minimum: int,
    maximum: int | None,
    written: Callable[[int], str],
    expected: str,
) -> int:
    # bool is an int in Python, but "partitions = true" is a mistake.
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(expected)
    if value < minimum:
        raise ValueError(f"must be at least {written(minimum)}")
    if maximum is not None and value > maximum:
        raise ValueError(f"must be at most {written(maximum)}")
    return value


def _flattened(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    # In TOML an unquoted security.protocol = "..." is a table inside a table: same meaning here.
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{name}.")
        elif isinstance(value, bool):
            yield f"{prefix}{name}", str(value).lower()
        elif isinstance(value, (str, int, float)):
            yield f"{prefix}{name}", str(value)
        else:
            raise ValueError(f"has {prefix}{name}, which must be text, a number or a boolean")
