"""What a view is, before anything of it is kept."""

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from headrace.views.errors import InvalidView

FORMATS: Final = ("json", "debezium")
"""What values of records can be: rows, or changes of rows in Debezium's envelope."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,199}")


@dataclass(frozen=True, slots=True)
class ViewDescription:
    """A view of a topic. Two views with equal descriptions have equal rows."""

    name: str
    """What its store is called; readers may know it by another name, see `Names`."""

    topic: str
    key: tuple[str, ...] = ()
    """Columns that rows are found by; without any, the key of the record as it is."""

    format: str = "json"
    by_record: bool = False
    """Whether the key is that of the record, and `key` only says what it is made of."""

    columns: tuple[str, ...] = ()
    """Its columns, where somebody knows them beforehand."""

    of: str = ""
    """The name that readers know it by once it is promoted; its own if empty."""

    flow: str = ""
    """The flow, with its version, that writes the topic, if one does."""

    generation: str = ""
    """Makes a view that is built anew another one, though all else is the same."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidView(
                f"{self.name!r} cannot be the name of a view: use letters, digits and _ . @ -, up "
                "to 200 of them, with a letter, digit or _ first."
            )
        if not self.topic:
            raise InvalidView(f"View {self.name} needs the topic that it is of.")
        if self.format not in FORMATS:
            raise InvalidView(
                f"View {self.name} has the format {self.format!r}; it can be "
                f"{' or '.join(FORMATS)}."
            )

    @property
    def served_as(self) -> str:
        """The name that readers know it by, once it is promoted."""
        return self.of or self.name

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "ViewDescription":
        """What was stored; fields that a later version added are left out."""
        known = {each: stored[each] for each in cls.__slots__ if each in stored}
        return cls(**{**known, "key": tuple(known["key"]), "columns": tuple(known["columns"])})

    def is_built_like(self, other: "ViewDescription") -> bool:
        """Whether a store of the other is one of this, too."""
        return self._made_of == other._made_of

    @property
    def _made_of(self) -> tuple[object, ...]:
        return self.topic, self.key, self.format, self.by_record, self.generation
