"""Whether stored state fits an operator as it is now, and how stored rows become what it keeps.

A table may be new. A column may be new if it can be null, which it then is in rows that were stored
without it; it may be gone, unless rows are identified by it; and it may have become wider, so that
every value it had is one of the new type. Everything else that changes what is stored is refused.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.streams.state.blobs import schema_from_text, schema_to_text
from headrace.streams.state.errors import StateMismatch
from headrace.streams.state.operator import Description, Kept
from headrace.streams.state.record import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def shape_of(description: Description) -> Shape:
    """What is stored of an operator's description."""
    return Shape(
        description.name,
        description.version,
        {name: _described(kept) for name, kept in sorted(description.tables.items())},
    )


def check_fits(stored: Shape, now: Shape, flow: str) -> None:
    """Raise StateMismatch, with what differs and the ways out, if state cannot be continued."""
    if found := differences(stored, now):
        raise StateMismatch(
            f"Flow {flow}, operator {now.operator}: the stored state does not fit, since "
            f"{'; '.join(found)}. Undo the edit; or give the flow another name, and the new "
            "version runs from the beginning beside the old one; or delete the checkpoint, and "
            "the query begins anew."
        )


def differences(stored: Shape, now: Shape) -> list[str]:
    """Why stored state cannot be continued, in words; nothing if it can."""
    return list(_differences(stored, now))


def conformed(table: Any, schema: Any) -> Any:
    """Stored rows with the columns that a table has now."""
    if table.schema.equals(schema):
        return table
    columns = [
        table.column(each.name).cast(each.type)
        if each.name in table.schema.names
        else pa.nulls(table.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def widens(before: Any, now: Any) -> bool:
    """Whether every value of an Arrow type is the same value of another one, with the same hash.

    >>> widens(pa.int32(), pa.int64()), widens(pa.int64(), pa.float64())
    (True, False)
    """
    if before == now:
        return True
    for family in (pa.types.is_signed_integer, pa.types.is_floating):
        if family(before) and family(now):
            return bool(before.bit_width <= now.bit_width)
    if pa.types.is_decimal(before) and pa.types.is_decimal(now):
        return bool(before.scale == now.scale and before.precision <= now.precision)
    return False


def _described(kept: Kept) -> dict[str, Any]:
    columns = {each.name: str(each.type) for each in kept.schema}
    schema = schema_to_text(kept.schema)
    return {"columns": columns, "key": list(kept.key), "row": list(kept.row), "schema": schema}


def _differences(stored: Shape, now: Shape) -> "Iterator[str]":
    if stored.operator != now.operator:
        yield f"it is of an operator named {stored.operator}"
    if stored.version != now.version:
        yield f"its version was {stored.version} and is {now.version} now"
    for name, before in stored.tables.items():
        if name not in now.tables:
            yield f"the table {name} is gone"
        else:
            yield from _changes(name, before, now.tables[name])


def _changes(table: str, before: "Mapping[str, Any]", now: "Mapping[str, Any]") -> "Iterator[str]":
    for part in ("key", "row"):
        if before[part] != now[part]:
            was, has_become = (", ".join(each[part]) or "nothing" for each in (before, now))
            yield f"the {part} of table {table} was {was} and is {has_become} now"
    old, new = (schema_from_text(each["schema"]) for each in (before, now))
    for each in new:
        if each.name not in old.names:
            if not each.nullable:
                yield f"the new column {each.name} of table {table} cannot be null"
        elif not widens(kind := old.field(each.name).type, each.type):
            yield f"the column {each.name} of table {table} was {kind} and is {each.type} now"
