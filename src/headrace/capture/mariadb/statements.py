"""Statements in the log: what DDL does to which tables."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from headrace.capture.changes import TableName


class Deed(Enum):
    """What a statement does to a table."""

    CHANGED = "changed"
    """It was made, or its columns are others."""

    DROPPED = "dropped"
    EMPTIED = "emptied"
    REPLACED = "replaced"
    """Another table has its name from here on, with rows that the log did not tell."""

    WRITTEN = "written"
    """Rows were changed by a statement, and which ones the log does not tell."""


class Effect(NamedTuple):
    """What a statement did to a table; `name.table` is "*" for all of a database."""

    deed: Deed
    name: TableName


_NAME: Final = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[\w$\u0080-\uffff]+)"
_FULL: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_COMMENT: Final = re.compile(r"/\*(?!!|M!).*?\*/|--\s[^\n]*|#[^\n]*", re.DOTALL)
_HINT: Final = re.compile(r"/\*M?!\d*|\*/")
_PARTS: Final = re.compile(_NAME)
_TRUNCATE: Final = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_FULL})", re.IGNORECASE)
_DROP: Final = re.compile(
    rf"DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?({_FULL}(?:\s*,\s*{_FULL})*)", re.IGNORECASE
)
_DATABASE: Final = re.compile(
    rf"DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?({_NAME})", re.IGNORECASE
)
_RENAME: Final = re.compile(
    r"RENAME\s+TABLES?\s+(?:IF\s+EXISTS\s+)?(.*)", re.IGNORECASE | re.DOTALL
)
_PAIR: Final = re.compile(rf"({_FULL})\s+(?:WAIT\s+\d+\s+|NOWAIT\s+)?TO\s+({_FULL})", re.IGNORECASE)
_ALTER: Final = re.compile(
    rf"ALTER\s+(?:ONLINE\s+)?(?:IGNORE\s+)?TABLE\s+(?:IF\s+EXISTS\s+)?({_FULL})(.*)",
    re.IGNORECASE | re.DOTALL,
)
_RENAMED: Final = re.compile(
    rf"\bRENAME\s+(?!COLUMN\b|INDEX\b|KEY\b)(?:TO\s+|AS\s+)?({_FULL})\s*(?:,|$)", re.IGNORECASE
)
_CREATE: Final = re.compile(
    rf"CREATE\s+(OR\s+REPLACE\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?({_FULL})", re.IGNORECASE
)
_WRITE: Final = re.compile(
    rf"(?:INSERT|REPLACE|UPDATE|DELETE|LOAD)\b(?:\s+(?:LOW_PRIORITY|DELAYED|QUICK|IGNORE|INTO|FROM))*"
    rf"\s+({_FULL})",
    re.IGNORECASE,
)


def effects_of(sql: str, database: str) -> Iterator[Effect]:
    """What a statement does; `database` is the one of names without.

    >>> list(effects_of("RENAME TABLE a TO `old`, other.b TO a", "shop"))  # doctest: +ELLIPSIS
    [Effect(deed=<Deed.DROPPED...table='a')), ...]
    """
    sql = _HINT.sub(" ", _COMMENT.sub(" ", sql)).strip().rstrip(";").strip()

    def name(text: str) -> TableName:
        parts = [_plain(each) for each in _PARTS.findall(text)]
        return TableName(parts[0] if len(parts) > 1 else database, parts[-1])

    if found := _TRUNCATE.match(sql):
        yield Effect(Deed.EMPTIED, name(found[1]))
    elif found := _DROP.match(sql):
        for each in re.findall(_FULL, found[1]):
            yield Effect(Deed.DROPPED, name(each))
    elif found := _DATABASE.match(sql):
        yield Effect(Deed.DROPPED, TableName(_plain(found[1]), "*"))
    elif found := _RENAME.match(sql):
        for old, new in _PAIR.findall(found[1]):
            yield Effect(Deed.DROPPED, name(old))
            yield Effect(Deed.REPLACED, name(new))
    elif found := _ALTER.match(sql):
        if renamed := _RENAMED.search(found[2]):
            yield Effect(Deed.DROPPED, name(found[1]))
            yield Effect(Deed.REPLACED, name(renamed[1]))
        else:
            yield Effect(Deed.CHANGED, name(found[1]))
    elif found := _CREATE.match(sql):
        if found[1]:
            yield Effect(Deed.DROPPED, name(found[2]))
        yield Effect(Deed.CHANGED, name(found[2]))
    elif found := _WRITE.match(sql):
        yield Effect(Deed.WRITTEN, name(found[1]))


def _plain(name: str) -> str:
    if name[0] in '`"':
        return name[1:-1].replace(name[0] * 2, name[0])
    return name
