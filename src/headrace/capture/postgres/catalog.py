"""What PostgreSQL's catalogs say about tables and types."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.capture.changes import Column, ColumnType, Table, TableName, TypeKind

_KINDS: Final = {
    "bool": TypeKind.BOOLEAN,
    "int2": TypeKind.INT16,
    "int4": TypeKind.INT32,
    "int8": TypeKind.INT64,
    "oid": TypeKind.INT64,
    "float4": TypeKind.FLOAT32,
    "float8": TypeKind.FLOAT64,
    "numeric": TypeKind.DECIMAL,
    "money": TypeKind.DECIMAL,
    "text": TypeKind.TEXT,
    "varchar": TypeKind.TEXT,
    "bpchar": TypeKind.TEXT,
    "name": TypeKind.TEXT,
    "char": TypeKind.TEXT,
    "citext": TypeKind.TEXT,
    "inet": TypeKind.TEXT,
    "cidr": TypeKind.TEXT,
    "macaddr": TypeKind.TEXT,
    "macaddr8": TypeKind.TEXT,
    "bytea": TypeKind.BYTES,
    "bit": TypeKind.BITS,
    "varbit": TypeKind.BITS,
    "date": TypeKind.DATE,
    "time": TypeKind.TIME,
    "timetz": TypeKind.TIME_ZONED,
    "timestamp": TypeKind.TIMESTAMP,
    "timestamptz": TypeKind.TIMESTAMP_ZONED,
    "interval": TypeKind.INTERVAL,
    "uuid": TypeKind.UUID,
    "json": TypeKind.JSON,
    "jsonb": TypeKind.JSON,
    "xml": TypeKind.XML,
    "hstore": TypeKind.MAP,
    "point": TypeKind.POINT,
}
"""Types by PostgreSQL's internal names; those of extensions are known by theirs."""

_HEADER: Final = 4
"""Modifiers of text and numbers count the length word that stands before the value."""

_TYPES_SQL: Final = """
SELECT t.oid::bigint, t.typname, t.typtype, t.typcategory, t.typbasetype::bigint, t.typtypmod,
       t.typelem::bigint,
       ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
FROM pg_type t WHERE t.oid = ANY(%s::oid[])
"""

_COLUMNS_SQL: Final = """
SELECT a.attrelid::bigint, a.attname, a.atttypid::bigint, a.atttypmod, a.attnotnull,
       a.attgenerated::text
FROM pg_attribute a
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

_KEYS_SQL: Final = """
SELECT i.indrelid::bigint, i.indisprimary, i.indisreplident,
       ARRAY(SELECT a.attname::text
             FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
             WHERE k.place <= i.indnkeyatts ORDER BY k.place)
FROM pg_index i
WHERE i.indrelid = ANY(%s::oid[]) AND (i.indisprimary OR i.indisreplident)
"""

_RELATIONS_SQL: Final = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relreplident::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%%'
ORDER BY n.nspname, c.relname
"""


class Relation:
    """A table as the catalogs know it, beyond what a row shows."""

    __slots__ = ("identity", "name", "oid", "table")

    def __init__(self, oid: int, name: TableName, identity: str, table: Table) -> None:
        self.oid = oid
        self.name = name
        self.identity = identity
        """REPLICA IDENTITY: d(efault), f(ull), i(ndex) or n(othing)."""
        self.table = table


class Catalog:
    """Tables and types of one database, asked over one connection; types are remembered.

    Args:
        connection: In autocommit mode.
        generated: Whether the log tells stored generated columns, as it can from version 18 on.
    """

    def __init__(self, connection: Any, *, generated: bool) -> None:
        self._connection = connection
        self._generated = generated
        self._types: dict[int, tuple[Any, ...]] = {}

    def relations(self) -> list[tuple[int, TableName, str]]:
        """Every table that could be captured: its oid, its name and its replica identity.

        Partitions are not among them; the tables that they are parts of are.
        """
        rows = self._ask(_RELATIONS_SQL)
        return [(oid, TableName(schema, name), identity) for oid, schema, name, identity in rows]

    def describe(self, wanted: Iterable[tuple[int, TableName, str]]) -> list[Relation]:
        """These tables with their columns and keys, as they are now."""
        wanted = list(wanted)
        oids = [oid for oid, _, _ in wanted]
        columns: dict[int, list[Any]] = {oid: [] for oid in oids}
        for oid, *column in self._ask(_COLUMNS_SQL, oids):
            if not column[-1] or (column[-1] == "s" and self._generated):
                columns[oid].append(column)
        keys: dict[int, dict[str, list[str]]] = {oid: {} for oid in oids}
        for oid, primary, identity, names in self._ask(_KEYS_SQL, oids):
            keys[oid].update({"d": names} if primary else {})
            keys[oid].update({"i": names} if identity else {})
        self.learn({column[1] for of_table in columns.values() for column in of_table})
        found = []
        for oid, name, identity in wanted:
            described = tuple(
                Column(
                    column,
                    self.type(type_, modifier),
                    nullable=not required,
                    generated=bool(generated),
                )
                for column, type_, modifier, required, generated in columns[oid]
            )
            names = [column.name for column in described]
            # The identity of choice, or the primary key where rows are told whole.
            chosen = keys[oid].get("i" if identity == "i" else "d", [])
            key = tuple(names.index(each) for each in chosen if each in names)
            found.append(Relation(oid, name, identity, Table(name, described, key, oid)))
        return found

    def learn(self, types: Iterable[int]) -> None:
        """Ask about types that are not known yet, and about those that they are made of."""
        missing = {oid for oid in types if oid and oid not in self._types}
        while missing:
            rows = self._ask(_TYPES_SQL, sorted(missing))
            self._types.update({row[0]: row for row in rows})
            parts = {part for row in rows for part in (row[4], row[6]) if part}
            missing = parts - self._types.keys()

    def forget_types(self) -> None:
        """Ask anew from here on: an enum may have more words by now."""
        self._types.clear()

    def type(self, oid: int, modifier: int) -> ColumnType:
        """A type in neutral words."""
        self.learn([oid])
        if oid not in self._types:
            return ColumnType(TypeKind.OTHER, f"type {oid}", native=oid)
        _, name, variety, category, of, of_modifier, element, members = self._types[oid]
        if variety == "d":
            # A domain is its base with conditions, and rows hold values of the base.
            return self.type(of, of_modifier if of_modifier >= 0 else modifier)
        if variety == "e":
            return ColumnType(TypeKind.ENUM, name, members=tuple(members), native=oid)
        if variety in ("r", "m"):
            return ColumnType(TypeKind.RANGE, name, native=oid)
        if category == "A" and element:
            inner = self.type(element, modifier)
            return ColumnType(TypeKind.ARRAY, f"{inner.name}[]", element=inner, native=oid)
        return _described(name, _KINDS.get(name, TypeKind.OTHER), modifier, oid)

    def _ask(self, sql: str, oids: Sequence[int] | None = None) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, (None if oids is None else (list(oids),)) or ())
            return list(cursor.fetchall())


def _described(name: str, kind: TypeKind, modifier: int, oid: int) -> ColumnType:
    if name == "money":
        return ColumnType(kind, name, scale=2, native=oid)
    if kind is TypeKind.DECIMAL and modifier >= _HEADER:
        precision, scale = (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF
        # From version 15 on, a scale may be negative: eleven bits with a sign.
        scale = (scale ^ 1024) - 1024
        return ColumnType(kind, f"{name}({precision},{scale})", precision, scale, native=oid)
    if name in ("varchar", "bpchar") and modifier >= _HEADER:
        length = modifier - _HEADER
        return ColumnType(kind, f"{name}({length})", length=length, native=oid)
    if kind is TypeKind.BITS and modifier >= 0:
        return ColumnType(kind, f"{name}({modifier})", length=modifier, native=oid)
    if kind in (TypeKind.TIME, TypeKind.TIMESTAMP, TypeKind.TIME_ZONED, TypeKind.TIMESTAMP_ZONED):
        return ColumnType(kind, name, modifier if modifier >= 0 else None, native=oid)
    return ColumnType(kind, name, native=oid)
