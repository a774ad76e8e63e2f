"""Which tables, columns and rows of a database a capture is about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from headrace.capture.changes import TableName, TypeKind
from headrace.capture.errors import InvalidCapture

MASK = "****"
"""What stands for the value of a masked column."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns with * and ?, as people write them.

    >>> chosen = Selection(("orders", "sales.*"), without=("*.orders.card",))
    >>> chosen.has_table(TableName("public", "orders"), "public")
    True
    >>> chosen.tells(TableName("public", "orders"), "card", in_key=False)
    False
    """

    tables: tuple[str, ...]
    """"schema.table", or "table" of the schema that a database has by default."""

    without: tuple[str, ...] = ()
    """Columns that are left out, as "schema.table.column"; parts in front may be missing."""

    masked: tuple[str, ...] = ()
    """Columns of text whose values are not told, written likewise."""

    where: Mapping[str, str] = field(default_factory=dict)
    """SQL conditions on the rows of tables, by the table's name."""

    def __post_init__(self) -> None:
        if not self.tables:
            raise InvalidCapture('A capture needs tables; name them, or write "*" for all.')
        for each in (*self.tables, *self.where):
            if each.count(".") > 1:
                raise InvalidCapture(f'"{each}" is not a table; write "schema.table".')

    def has_table(self, name: TableName, default: str) -> bool:
        """Whether a table is meant; `default` is the schema of patterns that name none."""
        return any(_matches(pattern, name, default) for pattern in self.tables)

    def unmatched(self, names: Iterable[TableName], default: str) -> list[str]:
        """The patterns that mean none of these tables.

        >>> Selection(("orders", "stock.*")).unmatched([TableName("stock", "items")], "public")
        ['orders']
        """
        names = list(names)
        return [
            pattern
            for pattern in self.tables
            if not any(_matches(pattern, name, default) for name in names)
        ]

    def names_table(self, name: TableName, default: str) -> bool:
        """Whether a table is meant by its very name, and not by a pattern."""
        return any(
            pattern.strip() in (str(name), name.table if name.schema == default else "")
            for pattern in self.tables
        )

    def tells(self, name: TableName, column: str, *, in_key: bool) -> bool:
        """Whether a column of a table is told; InvalidCapture if a key would be left out."""
        if not _matches_column(self.without, name, column):
            return True
        if in_key:
            raise InvalidCapture(f"{name}.{column} cannot be left out: it is part of the key.")
        return False

    def masks(self, name: TableName, column: str, kind: TypeKind, *, in_key: bool) -> bool:
        """Whether the values of a column are hidden; InvalidCapture if they cannot be."""
        if not _matches_column(self.masked, name, column):
            return False
        if kind is not TypeKind.TEXT or in_key:
            raise InvalidCapture(
                f"{name}.{column} cannot be masked: only text outside of the key can. Leave the "
                "column out instead."
            )
        return True

    def condition(self, name: TableName, default: str) -> str | None:
        """What rows of a table have to fulfil, if anything."""
        for pattern, condition in self.where.items():
            if _matches(pattern, name, default):
                return condition
        return None


def not_there(pattern: str) -> str:
    """What people are told of a pattern that means no table."""
    return f"no table is called {pattern}; one that comes by that name will join."


def _matches(pattern: str, name: TableName, default: str) -> bool:
    schema, dot, table = pattern.strip().rpartition(".")
    return fnmatchcase(name.table, table) and (
        fnmatchcase(name.schema, schema) if dot else name.schema == default or table == "*"
    )


def _matches_column(patterns: tuple[str, ...], name: TableName, column: str) -> bool:
    words = (name.schema, name.table, column)
    for pattern in patterns:
        parts = pattern.strip().split(".")
        if len(parts) <= len(words) and all(
            fnmatchcase(word, part)
            for word, part in zip(words[len(words) - len(parts) :], parts, strict=True)
        ):
            return True
    return False
