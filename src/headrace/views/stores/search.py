"""OpenSearch and Elasticsearch as stores, over their REST interface.

There are no transactions here, so what makes a write happen once is a version with every document:
the server refuses a version that is older than the one it has. A document of a key has the lane's
position as its version, and one without a key has the place where it comes from as its id. A write
that failed in the middle is done again as a whole, which leads to the same documents; somebody
whose time is over has older versions, and changes nothing.

Positions of another writer of the same index, which begins at 0 again, must count as newer. So each
writer has a generation, which is the upper part of its versions.
"""

import base64
import http.client
import json
import ssl
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import orjson
import pyarrow as pa

from headrace.clock import SystemClock
from headrace.settings.address import shown
from headrace.views.stores.changes import ROW, Chunk
from headrace.views.stores.columns import Conversion, as_iso, converted
from headrace.views.stores.contract import (
    VERSION,
    Claim,
    Lane,
    Position,
    Refusal,
    Refuse,
    Shape,
)
from headrace.views.stores.errors import (
    ClaimLost,
    ColumnsRefused,
    StoreRefused,
    StoreUnreachable,
)
from headrace.views.stores.kinds import Kind, kind_of

POSITIONS: Final = "headrace-positions"
"""The index in which positions are kept, and generations."""

TYPES: Final[dict[Kind, dict[str, Any]]] = {
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.INT8: {"type": "byte"},
    Kind.INT16: {"type": "short"},
    Kind.INT32: {"type": "integer"},
    Kind.INT64: {"type": "long"},
    Kind.FLOAT32: {"type": "float"},
    Kind.FLOAT64: {"type": "double"},
    # As text, since a number with a fraction would be stored as a double.
    Kind.DECIMAL: {"type": "keyword"},
    Kind.TEXT: {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 8191}}},
    Kind.BYTES: {"type": "binary"},
    Kind.DATE: {"type": "date"},
    # And not date_nanos, which refuses every time before 1970 and after 2262.
    Kind.INSTANT: {"type": "date"},
    Kind.LOCAL_TIME: {"type": "date"},
}
"""The mapping of columns; an array has that of what is in it."""

_ALSO: Final = {"date": "date_nanos"}
"""What a field of somebody's own index may be instead."""

_SETTINGS: Final = {
    # How long the versions of deleted documents are remembered.
    "index": {"gc_deletes": "1d"}
}
_CONVERSIONS: Final[dict[Kind, Conversion]] = {
    Kind.DECIMAL: lambda column: column.cast(pa.string()),
    Kind.INSTANT: as_iso,
    Kind.LOCAL_TIME: as_iso,
}
_GENERATION_BITS: Final = 47
"""Versions are 63 bits: the lower ones are positions, the upper ones generations."""

_BULK_BYTES: Final = 8 << 20
_TIMEOUT_SECONDS: Final = 60
_CONFLICT: Final = 409
_BUSY: Final = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class SearchStore:
    """An OpenSearch or Elasticsearch cluster."""

    url: str = field(repr=False)
    secure: bool = False

    def session(self) -> "SearchSession":
        """See `Store`."""
        return SearchSession(self)


class SearchSession:
    """A connection to one node of a cluster."""

    def __init__(self, store: SearchStore) -> None:
        parts = urlsplit(store.url)
        self._url = store.url
        host, port = parts.hostname or "localhost", parts.port or 9200
        self._http: http.client.HTTPConnection = (
            http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT_SECONDS, context=ssl.create_default_context()
            )
            if store.secure
            else http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        )
        self._headers = {"Content-Type": "application/json"}
        if parts.username:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            token = base64.b64encode(pair.encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._prepared: dict[str, Shape] = {}

    def prepare(self, shape: Shape) -> None:
        """See `Session`."""
        if self._prepared.get(shape.table) == shape:
            return
        wanted = {each.name: _mapping(each) for each in shape.columns}
        index = quote(shape.table, safe="")
        status, answer = self._ask(
            "PUT",
            f"/{index}",
            {"settings": _SETTINGS, "mappings": {"properties": wanted}},
            also=(400,),
        )
        if status != 200:
            if answer["error"]["type"] != "resource_already_exists_exception":
                raise StoreRefused(f"{shown(self._url)} refused: {answer['error']['reason']}")
            _, found = self._ask("GET", f"/{index}/_mapping")
            present = next(iter(found.values()))["mappings"].get("properties", {})
            self._evolve(shape, index, wanted, present)
        self._prepared[shape.table] = shape

    def position(self, lane: Lane) -> Position | None:
        """See `Session`."""
        found, _, _ = self._stored(lane)
        return found

    def claim(self, lane: Lane) -> Claim:
        """See `Session`."""
        while True:
            position, epoch, sequence = self._stored(lane)
            # Unless somebody else claims it at the same moment.
            if self._store(lane, position, epoch + 1, sequence):
                return Claim(lane, epoch + 1, position)

    def apply(
        self,
        claim: Claim,
        position: Position,
        shape: Shape | None,
        chunks: Iterable[Chunk],
        refuse: Refuse,
    ) -> None:
        """See `Session`; rows are seen one by one, and the position when all are there."""
        _, epoch, sequence = self._stored(claim.lane)
        if epoch != claim.epoch:
            raise ClaimLost(claim.lane.writer, claim.lane.place)
        if shape is not None:
            version = self._generation(shape.table, claim.lane.writer) << _GENERATION_BITS
            refused: list[Refusal] = []
            for lines in _bulks(shape, chunks, claim.lane, position, version + position.number):
                refused += self._written(lines)
            if refused:
                refuse(sorted(refused))
            self._ask("POST", f"/{quote(shape.table, safe='')}/_refresh")
        if not self._store(claim.lane, position, claim.epoch, sequence):
            raise ClaimLost(claim.lane.writer, claim.lane.place)

    def alive(self) -> bool:
        """See `Session`."""
        with suppress(StoreUnreachable, StoreRefused):
            self._ask("GET", "/")
            return True
        return False

    def close(self) -> None:
        """See `Session`."""
        self._http.close()

    def _evolve(
        self, shape: Shape, index: str, wanted: dict[str, Any], present: dict[str, Any]
    ) -> None:
        for name, mapping in wanted.items():
            there = present.get(name, mapping).get("type", "object")
            if there not in (mapping["type"], _ALSO.get(mapping["type"])):
                raise ColumnsRefused(
                    f"The field {name} of the index {shape.table} is {there} there and "
                    f"would be {mapping['type']}; a mapping cannot be changed, so write to another "
                    "index, or cast it in what you write."
                )
        missing = {name: each for name, each in wanted.items() if name not in present}
        if missing:
            self._ask("PUT", f"/{index}/_mapping", {"properties": missing})

    def _stored(self, lane: Lane) -> tuple[Position | None, int, tuple[int, int] | None]:
        """The position and the epoch of a lane, and by which they are changed only as they are."""
        status, found = self._ask("GET", f"/{POSITIONS}/_doc/{_id(lane)}", also=(404,))
        if status == 404 or not found.get("found"):
            return None, 0, None
        kept = found["_source"]
        position = None if kept["position"] is None else Position(kept["position"], kept["note"])
        return position, int(kept["epoch"]), (found["_seq_no"], found["_primary_term"])

    def _store(
        self, lane: Lane, position: Position | None, epoch: int, sequence: tuple[int, int] | None
    ) -> bool:
        """Whether it is kept: nobody has changed it since it was read."""
        kept = {
            "writer": lane.writer,
            "place": lane.place,
            "version": VERSION,
            "epoch": epoch,
            "position": None if position is None else position.number,
            "note": "" if position is None else position.note,
            "changed": SystemClock().now_ms(),
        }
        condition = "op_type=create"
        if sequence is not None:
            condition = f"if_seq_no={sequence[0]}&if_primary_term={sequence[1]}"
        path = f"/{POSITIONS}/_doc/{_id(lane)}?{condition}"
        status, _ = self._ask("PUT", path, kept, also=(_CONFLICT,))
        return status != _CONFLICT

    def _generation(self, table: str, writer: str) -> int:
        """The number of a writer among those of an index; a new one has the next."""
        path = f"/{POSITIONS}/_doc/{quote('generations ' + table, safe='')}"
        status, found = self._ask("GET", path, also=(404,))
        exists = status != 404 and bool(found.get("found"))
        writers: list[str] = found["_source"]["writers"] if exists else []
        if writer in writers:
            return writers.index(writer)
        condition = "op_type=create"
        if exists:
            condition = f"if_seq_no={found['_seq_no']}&if_primary_term={found['_primary_term']}"
        kept = {"version": VERSION, "writers": [*writers, writer]}
        status, _ = self._ask("PUT", f"{path}?{condition}", kept, also=(_CONFLICT,))
        return self._generation(table, writer) if status == _CONFLICT else len(writers)

    def _written(self, lines: "tuple[bytes, list[int]]") -> Iterator[Refusal]:
        """Send documents; those that are refused for what is in them."""
        body, numbers = lines
        _, answer = self._ask("POST", "/_bulk", raw=body)
        if not answer["errors"]:
            return
        for number, item in zip(numbers, answer["items"], strict=True):
            (outcome,) = item.values()
            status = outcome["status"]
            if status in _BUSY:
                raise StoreUnreachable(f"{shown(self._url)} takes nothing now: {outcome}")
            # A conflict means that a newer version is there, and 404 that nothing was to delete.
            if status >= 400 and status not in (_CONFLICT, 404):
                error = outcome["error"]
                yield Refusal(number, f"{error.get('type')}: {error.get('reason')}")

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        also: tuple[int, ...] = (),
    ) -> tuple[int, Any]:
        """The status and the answer of a request; `also` are statuses that are no failure."""
        given = raw if raw is not None else None if body is None else orjson.dumps(body)
        try:
            self._http.request(method, path, given, self._headers)
            response = self._http.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise StoreUnreachable(f"No connection to {shown(self._url)}: {error!r}") from None
        if response.status in _BUSY:
            raise StoreUnreachable(f"{shown(self._url)} takes nothing now ({response.status}).")
        if response.status >= 400 and response.status not in also:
            said = text[:500].decode(errors="replace")
            raise StoreRefused(f"{shown(self._url)} refused {method} {path}: {said}")
        return response.status, json.loads(text or b"{}")


def _bulks(
    shape: Shape, chunks: Iterable[Chunk], lane: Lane, position: Position, version: int
) -> Iterator[tuple[bytes, list[int]]]:
    """Requests for many documents, each with the numbers of its rows."""
    lines: list[bytes] = []
    numbers: list[int] = []
    size = 0
    for number, document, action in _documents(shape, chunks, lane, position, version):
        lines += [orjson.dumps(action), b"\n"]
        if document is not None:
            lines += [orjson.dumps(document, default=_told), b"\n"]
        numbers.append(number)
        size += len(lines[-2])
        if size >= _BULK_BYTES:
            yield b"".join(lines), numbers
            lines, numbers, size = [], [], 0
    if numbers:
        yield b"".join(lines), numbers


def _documents(
    shape: Shape, chunks: Iterable[Chunk], lane: Lane, position: Position, version: int
) -> Iterator[tuple[int, dict[str, Any] | None, dict[str, Any]]]:
    """For each row its number, its document unless it is deleted, and what is done with it."""
    held = {"_index": shape.table, "version": version, "version_type": "external_gte"}
    for chunk in chunks:
        for row in chunk.deletes.to_pylist():
            yield row[ROW], None, {"delete": {**held, "_id": _identity(row, shape)}}
        columns = converted(chunk.upserts.select(shape.columns.names), _CONVERSIONS)
        rows = columns.to_pylist(maps_as_pydicts="lossy")
        for number, row in zip(chunk.upserts.column(ROW).to_pylist(), rows, strict=True):
            if shape.key:
                yield number, row, {"index": {**held, "_id": _identity(row, shape)}}
            else:
                identity = f"{lane.writer}:{lane.place}:{position.number}:{number}"
                yield number, row, {"index": {"_index": shape.table, "_id": identity}}


def _mapping(field: pa.Field) -> dict[str, Any]:
    """How a column is mapped, with what is inside it."""
    kind = field.type
    if kind_of(field) is not Kind.NESTED:
        return TYPES[kind_of(field)]
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {each.name: _mapping(each) for each in kind}}
    return {"type": "object"} if pa.types.is_map(kind) else _mapping(kind.value_field)


def _identity(row: dict[str, Any], shape: Shape) -> str:
    """The id of a document: the text of its key, and of several columns their JSON."""
    values = [row[name] for name in shape.key]
    if len(values) == 1:
        return str(_told(values[0])) if isinstance(values[0], bytes) else str(values[0])
    return orjson.dumps(values, default=_told).decode()


def _told(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _id(lane: Lane) -> str:
    return quote(f"{lane.writer} {lane.place}", safe="")
