"""The state of a store as JSON, as every store keeps it."""

from dataclasses import asdict
from typing import Any

import orjson

from headrace.views.materialized.store import StoreState


def state_text(state: StoreState) -> str:
    """As it is stored."""
    return orjson.dumps(asdict(state), option=orjson.OPT_NON_STR_KEYS).decode()


def state_from(stored: str | bytes) -> StoreState:
    """What was stored; ValueError, KeyError or TypeError if it is something else."""
    known: dict[str, Any] = orjson.loads(stored)
    offsets = {int(number): offset for number, offset in known.pop("offsets").items()}
    return StoreState(**{**known, "offsets": offsets, "columns": tuple(known["columns"])})


def row_text(row: bytes | None) -> str | None:
    """A row as databases have it."""
    return None if row is None else row.decode()


def row_bytes(row: str | None) -> bytes | None:
    """And back."""
    return None if row is None else row.encode()
