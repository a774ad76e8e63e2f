"""Lists in the settings: of words, and of tables that are declared like sections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import Text
from headrace.settings.sections import Declaration, Section, declarations

S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class Words:
    """A list of texts; in the environment they are separated by commas."""

    def parse(self, raw: object) -> tuple[str, ...]:
        """The texts, in order."""
        if isinstance(raw, str):
            raw = raw.split(",")
        return tuple(word.strip() for word in self.accept(raw))

    def accept(self, value: object) -> tuple[str, ...]:
        """Refuse what is not a list of texts."""
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError('must be a list such as ["one", "two"]')
        return tuple(Text().accept(each) for each in value)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program and its arguments, as a list: no shell takes it apart."""

    def parse(self, raw: object) -> tuple[str, ...]:
        """The words, as they are."""
        return self.accept(raw)

    def accept(self, value: object) -> tuple[str, ...]:
        """Refuse a command in one piece, and show how it is written."""
        if isinstance(value, str):
            words = ", ".join(f'"{word}"' for word in value.split())
            raise ValueError(f"must be a list; write [{words}]")
        return Words().accept(value)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Where something is posted to: an http:// or https:// address."""

    def parse(self, raw: object) -> str:
        """The address."""
        return self.accept(raw).strip()

    def accept(self, value: object) -> str:
        """Refuse other schemes, and addresses without a host."""
        from urllib.parse import urlsplit

        if isinstance(value, str):
            parts = urlsplit(value.strip())
            if parts.scheme in ("http", "https") and parts.hostname:
                return value
        raise ValueError('must be an address such as "https://hooks.example.com/lag"')


@dataclass(frozen=True, slots=True)
class Tables(Generic[S]):
    """A list of tables, each with the settings of a section; written as [[section.key]]."""

    section: type[S]

    def parse(self, raw: object) -> tuple[S, ...]:
        """The tables as sections; ValueError says which one is wrong and what would be right."""
        if not isinstance(raw, Sequence) or isinstance(raw, str):
            raise ValueError("must be a list of tables; only headrace.toml can have it")
        return tuple(self._table(number, each) for number, each in enumerate(raw, 1))

    def accept(self, value: object) -> tuple[S, ...]:
        """Refuse anything but such sections."""
        if isinstance(value, tuple) and all(isinstance(each, self.section) for each in value):
            return value
        raise ValueError(f"must be a tuple of {self.section.__name__}")

    def _table(self, number: int, raw: object) -> S:
        from difflib import get_close_matches

        if not isinstance(raw, Mapping):
            raise ValueError(f"number {number} must be a table")
        known = {declared.key: declared for declared in declarations(self.section)}
        values = {}
        for key, written in raw.items():
            if key not in known:
                close = get_close_matches(key, known, n=1, cutoff=0.5)
                remedy = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
                raise ValueError(f'number {number} has no setting "{key}"; {remedy}')
            values[known[key].field_name] = _value(number, known[key], written)
        try:
            return self.section(**values)
        except InvalidSetting as error:
            raise ValueError(f"number {number}: {str(error).rstrip('.')}") from None


def _value(number: int, declared: Declaration, written: object) -> object:
    try:
        return declared.kind.parse(written)
    except ValueError as error:
        raise ValueError(f"number {number} has {declared.key}, which {error}") from None
