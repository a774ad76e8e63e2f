"""What the columns of a join are called: the left ones as they are, then the right ones.

Join columns that have one name on both sides are one column of the result. Other columns of the
right side whose name the left side has, too, get a suffix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.names import did_you_mean
from headrace.streams.plan import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Naming:
    """Where the columns of a join's result come from."""

    left: tuple[str, ...]
    """The columns of the left side, all of them under their own names."""

    right: Mapping[str, str]
    """The columns of the right side, and what each is called in the result; without those that are
    shared."""

    shared: tuple[str, ...]
    """The join columns that have one name on both sides; they are among the left ones."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the result, in their order."""
        return (*self.left, *self.right.values())

    def fields(self, left: Any, right: Any) -> list[Any]:
        """The Arrow fields of the result, from the schemas of the sides; all of them may be null.

        The type of a shared column is that of the left side.
        """
        found = [left.field(name) for name in self.left]
        found += [right.field(name).with_name(given) for name, given in self.right.items()]
        return [each.with_nullable(True) for each in found]


def naming(
    left: Sequence[str], right: Sequence[str], on: Mapping[str, str], suffix: str = "_right"
) -> Naming:
    """What the columns of a join are called.

    `on` names, for each join column of the left side, the one of the right side that it equals.
    Raises UnknownColumn if one of them is not there, and InvalidFlow if a name would be there twice
    even with the suffix.

    >>> naming(["id", "at"], ["id", "at", "url"], {"id": "id"}).columns
    ('id', 'at', 'at_right', 'url')
    """
    if not on:
        raise InvalidFlow('join needs columns that are equal on both sides, as in on="user_id".')
    for names, known, side in ((on.keys(), left, "left"), (on.values(), right, "right")):
        for name in names:
            if name not in known:
                raise UnknownColumn(
                    f"join: the {side} side has no column {name}; {did_you_mean(name, known)}"
                )
    shared = tuple(name for name, other in on.items() if name == other)
    renamed = {
        name: f"{name}{suffix}" if name in left else name for name in right if name not in shared
    }
    taken = [*left, *renamed.values()]
    for name, given in renamed.items():
        if taken.count(given) > 1:
            raise InvalidFlow(
                f"join: the result would have two columns {given}, one of them {name} of the right "
                f"side; say another suffix than {suffix!r}, or rename a column with select in "
                "front of the join."
            )
    return Naming(tuple(left), renamed, shared)


def visible(names: "Iterable[str]") -> list[str]:
    """The columns that people see, without those that only carry time."""
    return [each for each in names if each not in HIDDEN]
