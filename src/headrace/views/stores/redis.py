"""Redis as a store: a row is a hash `table:key`, and rows without a key are entries of a stream.

A write is one Redis transaction of a few scripts, which Redis runs as a whole and writes to its log
as a whole. Each looks first whether the lane is still ours. Many rows are several scripts; the last
one sets the position, and only if all the others have run to their ends.

The commands of a write are put together by Arrow, column by column, as the bytes that go over the
connection: a row is a piece of text that says how many fields it has, its key, and its fields.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.clock import SystemClock
from headrace.settings.address import shown
from headrace.views.stores.changes import Chunk, joined
from headrace.views.stores.columns import Conversion, as_iso, as_json, converted, single
from headrace.views.stores.contract import (
    VERSION,
    Claim,
    Lane,
    Position,
    Refuse,
    Shape,
)
from headrace.views.stores.errors import (
    ClaimLost,
    InvalidStore,
    StoreError,
    StoreRefused,
    StoreUnreachable,
)
from headrace.views.stores.kinds import Kind, kind_of

POSITIONS: Final = "headrace:positions"
"""What the names of keys begin with in which positions are kept."""

_FENCED: Final = "HEADRACE_FENCED"
_PARTIAL: Final = "HEADRACE_PARTIAL"
_SCRIPT_ROWS: Final = 20_000
"""How many rows one script writes; a command cannot have any number of words."""

_BEGIN: Final = f"""
local lane, epoch = ARGV[1], ARGV[2]
if redis.call('HGET', lane, 'epoch') ~= epoch then return redis.error_reply('{_FENCED}') end
"""
_WRITE: Final = (
    _BEGIN
    + """
local at = 4
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local key = ARGV[at + 1]
  redis.call('DEL', key)
  if words > 0 then redis.call('HSET', key, unpack(ARGV, at + 2, at + 1 + words)) end
  at = at + 2 + words
end
redis.call('HINCRBY', lane, 'applied', 1)
return redis.status_reply('OK')
"""
)
_ADD: Final = (
    _BEGIN
    + """
local at = 4
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call('XADD', ARGV[3], '*', unpack(ARGV, at + 1, at + words))
  at = at + 1 + words
end
redis.call('HINCRBY', lane, 'applied', 1)
return redis.status_reply('OK')
"""
)
_FINISH: Final = (
    _BEGIN
    + f"""
local applied = redis.call('HGET', lane, 'applied') or '0'
redis.call('HDEL', lane, 'applied')
if applied ~= ARGV[3] then return redis.error_reply('{_PARTIAL}') end
redis.call('HSET', lane, 'position', ARGV[4], 'note', ARGV[5], 'changed', ARGV[6])
return redis.status_reply('OK')
"""
)

_CONVERSIONS: Final[dict[Kind, Conversion]] = {
    Kind.INSTANT: as_iso,
    Kind.LOCAL_TIME: as_iso,
    Kind.NESTED: as_json,
}


@dataclass(frozen=True, slots=True)
class RedisStore:
    """A Redis server; not a cluster of several, which has no transactions across its nodes."""

    url: str = field(repr=False)

    def session(self) -> "RedisSession":
        """See `Store`."""
        return RedisSession(self)


class RedisSession:
    """A connection to Redis."""

    def __init__(self, store: RedisStore) -> None:
        self._driver = _driver()
        self._url = store.url
        with self._explained():
            self._client = self._driver.Redis.from_url(store.url, socket_connect_timeout=10)
            self._connection = self._client.connection_pool.get_connection()

    def prepare(self, shape: Shape) -> None:
        """See `Session`; there is nothing to make, but something else may be in the way."""
        for each in shape.columns:
            kind_of(each)
        if shape.key:
            return
        with self._explained():
            kind = self._ask("TYPE", shape.table)
        if kind not in (b"none", b"stream"):
            raise StoreRefused(
                f"{shown(self._url)} has a {kind.decode()} called {shape.table}, to which no rows "
                "can be added; write to another table."
            )

    def position(self, lane: Lane) -> Position | None:
        """See `Session`."""
        with self._explained():
            number, note = self._ask("HMGET", _key_of(lane), "position", "note")
        return None if number is None else Position(int(number), (note or b"").decode())

    def claim(self, lane: Lane) -> Claim:
        """See `Session`."""
        with self._explained():
            epoch = self._ask("HINCRBY", _key_of(lane), "epoch", "1")
            self._ask("HSET", _key_of(lane), "version", str(VERSION))
        return Claim(lane, int(epoch), self.position(lane))

    def apply(
        self,
        claim: Claim,
        position: Position,
        shape: Shape | None,
        chunks: Iterable[Chunk],
        refuse: Refuse,
    ) -> None:
        """See `Session`; Redis takes whatever has a key."""
        lane, epoch = _key_of(claim.lane), str(claim.epoch)
        scripts = [] if shape is None else list(_scripts(shape, chunks, lane, epoch))
        now = str(SystemClock().now_ms())
        finish = _command(
            *("EVAL", _FINISH, "0", lane, epoch),
            *(str(len(scripts)), str(position.number), position.note, now),
        )
        with self._explained():
            self._connection.send_packed_command(
                [_command("MULTI"), *(piece for each in scripts for piece in each), finish]
            )
            self._connection.send_packed_command([_command("EXEC")])
            for _ in range(len(scripts) + 2):
                self._connection.read_response()
            answers = self._connection.read_response()
        self._judge(claim, answers)

    def alive(self) -> bool:
        """See `Session`."""
        try:
            return bool(self._ask("PING") == b"PONG")
        except (self._driver.RedisError, OSError):
            return False

    def close(self) -> None:
        """See `Session`."""
        with suppress(self._driver.RedisError, OSError):
            self._client.connection_pool.release(self._connection)
            self._client.close()

    def _judge(self, claim: Claim, answers: list[Any]) -> None:
        errors = [str(each) for each in answers if isinstance(each, Exception)]
        if any(_FENCED in each for each in errors):
            raise ClaimLost(claim.lane.writer, claim.lane.place)
        if errors:
            # Whatever was done stays, but the position does not say so: it is done again.
            raise StoreUnreachable(f"{shown(self._url)} did not finish a write: {errors[0]}")

    def _ask(self, *words: str) -> Any:
        self._connection.send_packed_command([_command(*words)])
        return self._connection.read_response()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        driver = self._driver
        try:
            yield
        except (driver.AuthenticationError, driver.exceptions.NoPermissionError) as error:
            raise StoreRefused(f"{shown(self._url)} refused: {error}") from None
        except (driver.ConnectionError, driver.TimeoutError, OSError) as error:
            raise StoreUnreachable(f"No connection to {shown(self._url)}: {error}") from None
        except driver.RedisError as error:
            raise self._meaning(error) from None

    def _meaning(self, error: Exception) -> StoreError:
        errors = self._driver.exceptions
        passing = (
            errors.OutOfMemoryError,
            errors.BusyLoadingError,
            errors.ReadOnlyError,
            errors.ExecAbortError,
            errors.TryAgainError,
        )
        if isinstance(error, passing) or str(error).startswith(("BUSY", "MISCONF", "MASTERDOWN")):
            return StoreUnreachable(f"{shown(self._url)} takes nothing now: {error}")
        return StoreRefused(f"{shown(self._url)} refused: {error}")


def _scripts(
    shape: Shape, chunks: Iterable[Chunk], lane: str, epoch: str
) -> Iterator[list[bytes | memoryview]]:
    """The commands that write all chunks, each in pieces."""
    for chunk in joined(chunks, shape.key):
        for rows, words in ((chunk.deletes, _deletions), (chunk.upserts, _rows)):
            for start in range(0, rows.num_rows, _SCRIPT_ROWS):
                count, text = words(shape, rows.slice(start, _SCRIPT_ROWS))
                script = _WRITE if shape.key else _ADD
                head = (b"EVAL", script.encode(), b"0", lane.encode(), epoch.encode())
                given = [*head, shape.table.encode()]
                begin = b"*%d\r\n" % (len(given) + count) + b"".join(map(_word, given))
                yield [begin, text]


def _rows(shape: Shape, rows: pa.Table) -> tuple[int, memoryview]:
    """How many words rows are, and those words."""
    names = shape.columns.names
    texts = [_text(column) for column in converted(rows.select(names), _CONVERSIONS).columns]
    fields = [
        pc.if_else(text.is_valid(), _join(_word(name.encode()), _words(text)), b"")
        for name, text in zip(names, texts, strict=True)
    ]
    present = [text.is_valid().cast(pa.int32()) for text in texts]
    counts = present[0]
    for each in present[1:]:
        counts = pc.add(counts, each)
    counts = pc.multiply(counts, 2)
    parts = [_words(_text(counts)), *fields]
    words = int(pc.sum(counts).as_py()) + rows.num_rows
    if shape.key:
        keys = _keys(shape, converted(rows.select(shape.key), _CONVERSIONS))
        parts.insert(1, _words(keys))
        words += rows.num_rows
    return words, _bytes_of(_join(*parts))


def _deletions(shape: Shape, rows: pa.Table) -> tuple[int, memoryview]:
    keys = _keys(shape, converted(rows.select(shape.key), _CONVERSIONS))
    return 2 * rows.num_rows, _bytes_of(_join(_word(b"0"), _words(keys)))


def _keys(shape: Shape, columns: pa.Table) -> pa.Array:
    """The names of rows: that of the table, and the values of the key."""
    texts = [_text(column) for column in columns.columns]
    if len(texts) > 1:
        # So that two columns are never the same as two others.
        texts = [
            pc.replace_substring(pc.replace_substring(each, b"%", b"%25"), b":", b"%3A")
            for each in texts
        ]
    table, colon = (pa.scalar(each, pa.large_binary()) for each in (shape.table.encode(), b":"))
    return pc.binary_join_element_wise(table, *texts, colon)


def _text(column: pa.Array) -> pa.Array:
    """A column as the bytes that Redis keeps."""
    column = single(column)
    if not pa.types.is_binary(column.type) and not pa.types.is_large_binary(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.large_binary())


def _words(texts: pa.Array) -> pa.Array:
    """Texts as words of a command: the length of each, and the text."""
    lengths = pc.binary_length(texts).cast(pa.string()).cast(pa.large_binary())
    return _join(b"$", lengths, b"\r\n", texts, b"\r\n")


def _word(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def _join(*parts: bytes | pa.Array) -> pa.Array:
    scalars = [
        pa.scalar(part, pa.large_binary()) if isinstance(part, bytes) else part for part in parts
    ]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.large_binary()))


def _bytes_of(texts: pa.Array) -> memoryview:
    """All texts of a column, one behind the other, as they lie in memory."""
    joined_texts = single(texts)
    _, offsets, data = joined_texts.buffers()
    bounds = memoryview(offsets).cast("q")
    first, last = bounds[joined_texts.offset], bounds[joined_texts.offset + len(joined_texts)]
    return memoryview(data)[first:last]


def _command(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(_word(each.encode()) for each in words)


def _key_of(lane: Lane) -> str:
    return f"{POSITIONS}:{lane.writer}:{lane.place}"


def _driver() -> ModuleType:
    try:
        import redis
    except ImportError:
        raise InvalidStore(
            "Writing to Redis needs its client; install it with `pip install 'headrace[redis]'`."
        ) from None
    module: ModuleType = redis
    return module
