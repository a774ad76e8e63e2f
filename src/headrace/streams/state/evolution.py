"""Whether stored state fits an operator as it is now.

A table may be new and a table may have new columns that can be null: rows that were stored without
them have nulls there. Everything else that changes what is stored is refused.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.streams.state.blobs import schema_to_text
from headrace.streams.state.errors import StateMismatch
from headrace.streams.state.operator import Description, Kept
from headrace.streams.state.record import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator


def shape_of(description: Description) -> Shape:
    """What is stored of an operator's description."""
    return Shape(
        description.name,
        description.version,
        {name: _described(kept) for name, kept in sorted(description.tables.items())},
    )


def check_fits(stored: Shape, description: Description, flow: str) -> None:
    """Raise StateMismatch, with what differs and the ways out, if state cannot be continued."""
    differences = list(_differences(stored, description))
    if differences:
        raise StateMismatch(
            f"Flow {flow}, operator {description.name}: the stored state does not fit, since "
            f"{'; '.join(differences)}. Undo the edit; or give the flow another name, and the new "
            "version runs from the beginning beside the old one; or delete the checkpoint, and "
            "the query begins anew."
        )


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


def _described(kept: Kept) -> dict[str, Any]:
    columns = {each.name: str(each.type) for each in kept.schema}
    schema = schema_to_text(kept.schema)
    return {"columns": columns, "key": list(kept.key), "row": list(kept.row), "schema": schema}


def _differences(stored: Shape, description: Description) -> "Iterator[str]":
    if stored.operator != description.name:
        yield f"it is of an operator named {stored.operator}"
    if stored.version != description.version:
        yield f"its version was {stored.version} and is {description.version} now"
    for name, before in stored.tables.items():
        kept = description.tables.get(name)
        if kept is None:
            yield f"the table {name} is gone"
            continue
        now = _described(kept)
        for part in ("key", "row"):
            if before[part] != now[part]:
                was, has_become = (", ".join(each[part]) or "nothing" for each in (before, now))
                yield f"the {part} of table {name} was {was} and is {has_become} now"
        for column, kind in before["columns"].items():
            become = now["columns"].get(column)
            if become is None:
                yield f"the column {column} of table {name} is gone"
            elif become != kind:
                yield f"the column {column} of table {name} was {kind} and is {become} now"
        for column in now["columns"].keys() - before["columns"].keys():
            if not kept.schema.field(column).nullable:
                yield f"the new column {column} of table {name} cannot be null"
