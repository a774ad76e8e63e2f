"""A view in Redis: for readers that are there already and want nothing but the row of a key.

    headrace:view:{NAME}:rows         a hash of rows by key, which anybody may read
    headrace:view:{NAME}:changes      the changes of the last time, by sequence
    headrace:view:{NAME}:boundaries   the sequences at which batches end
    headrace:view:{NAME}:state        how far it is

A batch is one MULTI, made only if the state is the one that its writer knows. A filter has every
row read and looked at here, so views that are filtered much are better kept elsewhere. A Redis that
lost its last writes, or all of them, is brought up to date from the topic; then the handle changes.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import orjson

from headrace.views.errors import StoreDamaged, StoreUnavailable
from headrace.views.filters import Filter, Order, matches, sort_key
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.records import Incoming
from headrace.views.materialized.store import (
    FORMAT,
    AppliedBatch,
    Change,
    KeyedRow,
    StoreState,
    applied_state,
    changed,
)
from headrace.views.materialized.stored_state import row_bytes, row_text, state_from, state_text

T = TypeVar("T")

_TRIES: Final = 20
"""How often a look at several things is begun anew because they changed in between."""


class RedisStore:
    """Keeps a view in a Redis that others may use, too."""

    def __init__(self, url: str, view: str, *, history: int) -> None:
        self._url = url
        self._view = view
        self._history = history
        self._connection: Any = None

    def open(self, description: ViewDescription) -> StoreState:
        """Find what there is; another run of Redis may have less than it said it had."""
        stored = self._asked(lambda redis: redis.get(self._key("state")))
        if stored is None:
            return self.reset(description, "it is new")
        try:
            known = orjson.loads(stored)
            described = ViewDescription.from_json(known["description"])
            state = state_from(orjson.dumps(known["state"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(f"View {self._view} is damaged: {error}.") from error
        if known["format"] != FORMAT or not described.is_built_like(description):
            return self.reset(description, "the view is described differently now")
        self._description = description
        if known["run"] != self._run():
            state = replace(state, handle=secrets.token_hex(6))
            self._asked(lambda redis: redis.set(self._key("state"), self._stored(state)))
        return state

    def apply(
        self,
        incoming: Sequence[Incoming],
        offsets: Mapping[int, int],
        *,
        state: StoreState,
        history: bool = True,
    ) -> AppliedBatch:
        """Rows, changes and offsets in one transaction."""
        return self._asked(lambda redis: self._apply(redis, incoming, offsets, state, history))

    def read(self, look: "Callable[[RedisSnapshot], T]") -> T:
        """Look; if the view changes between two things that are looked at, look again."""
        for _ in range(_TRIES):
            try:
                return self._asked(lambda redis: look(RedisSnapshot(redis, self._key)))
            except _Changed:
                continue
        raise StoreUnavailable(f"View {self._view} changes too fast to be read in one piece.")

    def reset(self, description: ViewDescription, reason: str) -> StoreState:
        """Delete everything of the view, and begin with another handle."""
        self._description = description
        state = StoreState(secrets.token_hex(6), columns=description.columns)

        def begin(redis: Any) -> None:
            with redis.pipeline(transaction=True) as batch:
                batch.delete(*map(self._key, ("rows", "changes", "boundaries")))
                batch.zadd(self._key("boundaries"), {"0": 0})
                batch.set(self._key("state"), self._stored(state))
                batch.execute()

        self._asked(begin)
        return state

    def drop(self) -> None:
        """Delete everything of the view."""
        names = ("rows", "changes", "boundaries", "state")
        self._asked(lambda redis: redis.delete(*map(self._key, names)))
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _key(self, part: str) -> str:
        return f"headrace:view:{{{self._view}}}:{part}"

    def _stored(self, state: StoreState) -> bytes:
        return orjson.dumps(
            {
                "format": FORMAT,
                "run": self._run(),
                "description": self._description.to_json(),
                "state": orjson.loads(state_text(state)),
            }
        )

    def _run(self) -> str:
        """The id that Redis gave itself when it was started."""
        found: str = self._asked(lambda redis: redis.info("server"))["run_id"]
        return found

    def _asked(self, ask: Callable[[Any], T]) -> T:
        try:
            import redis
        except ImportError:
            raise StoreUnavailable(
                "Views in Redis need its client: pip install 'headrace[redis]'."
            ) from None
        try:
            if self._connection is None:
                self._connection = redis.Redis.from_url(self._url)
            return ask(self._connection)
        except redis.WatchError:
            raise StoreUnavailable(
                f"View {self._view} is not as this server left it: somebody else has written it."
            ) from None
        except redis.RedisError as error:
            raise StoreUnavailable(f"Redis cannot keep view {self._view}: {error}.") from error

    def _apply(
        self,
        redis: Any,
        incoming: Sequence[Incoming],
        offsets: Mapping[int, int],
        state: StoreState,
        history: bool,
    ) -> AppliedBatch:
        from redis import WatchError

        with redis.pipeline(transaction=True) as batch:
            batch.watch(self._key("state"))
            stored = batch.get(self._key("state"))
            now = (
                None if stored is None else state_from(orjson.dumps(orjson.loads(stored)["state"]))
            )
            if now is None or (now.handle, now.sequence) != (state.handle, state.sequence):
                raise WatchError
            changes: list[Change] = []
            if history:
                changes = changed(incoming, self._present(batch, incoming), state.sequence)
            count = len(changes if history else incoming)
            after = applied_state(state, count, offsets, self._history, history=history)
            written = self._stored(after)
            batch.multi()
            self._write(batch, {each.key: each.row for each in incoming}, changes)
            if count:
                batch.zadd(self._key("boundaries"), {str(after.sequence): after.sequence})
            if after.oldest != state.oldest:
                batch.zremrangebyscore(self._key("changes"), "-inf", after.oldest)
                batch.zremrangebyscore(self._key("boundaries"), "-inf", after.oldest)
            batch.set(self._key("state"), written)
            batch.execute()
        return AppliedBatch(after, tuple(changes), history)

    def _present(self, batch: Any, incoming: Sequence[Incoming]) -> dict[str, bytes]:
        keys = list(dict.fromkeys(each.key for each in incoming))
        found = batch.hmget(self._key("rows"), keys) if keys else []
        return {key: row for key, row in zip(keys, found, strict=True) if row is not None}

    def _write(
        self, batch: Any, rows: Mapping[str, bytes | None], changes: Sequence[Change]
    ) -> None:
        kept = {key: row for key, row in rows.items() if row is not None}
        gone = [key for key, row in rows.items() if row is None]
        if kept:
            batch.hset(self._key("rows"), mapping=kept)
        if gone:
            batch.hdel(self._key("rows"), *gone)
        if changes:
            batch.zadd(
                self._key("changes"), {_change_text(each): each.sequence for each in changes}
            )


class _Changed(Exception):
    """Another batch was applied between two things that belong together."""


class RedisSnapshot:
    """A view as it is while its state is the same."""

    def __init__(self, redis: Any, key: Callable[[str], str]) -> None:
        self._redis = redis
        self._key = key
        self._state: StoreState | None = None

    @property
    def state(self) -> StoreState:
        """The state that everything else is of."""
        if self._state is None:
            self._asked(lambda batch: batch.ping())
        assert self._state is not None
        return self._state

    def get(self, keys: Sequence[str]) -> list[KeyedRow]:
        """By the hash."""
        if not keys:
            return []
        found = self._asked(lambda batch: batch.hmget(self._key("rows"), list(keys)))
        pairs = zip(keys, found, strict=True)
        return [KeyedRow(key, row) for key, row in pairs if row is not None]

    def select(
        self,
        wanted: Filter | None,
        order: Sequence[Order] = (),
        *,
        limit: int | None = None,
        after_key: str | None = None,
    ) -> list[KeyedRow]:
        """All rows are read, and those that are wanted sorted here."""
        found = self._asked(lambda batch: batch.hgetall(self._key("rows")))
        rows = [KeyedRow(key.decode(), row) for key, row in found.items()]
        if after_key is not None:
            rows = [each for each in rows if each.key > after_key]
        if wanted is None and not order:
            return sorted(rows)[:limit]
        parsed = [(each, orjson.loads(each.row)) for each in rows]
        kept = [(each, row) for each, row in parsed if matches(wanted, row)]
        kept.sort(key=lambda pair: sort_key(order, pair[0].key, pair[1]))
        return [each for each, _ in kept[:limit]]

    def count(self, wanted: Filter | None) -> int:
        """All rows are read, unless all are wanted."""
        if wanted is None:
            return int(self._asked(lambda batch: batch.hlen(self._key("rows"))))
        return len(self.select(wanted))

    def changes(self, after: int, until: int) -> list[Change]:
        """By the sorted set."""
        found = self._asked(
            lambda batch: batch.zrangebyscore(self._key("changes"), f"({after}", until)
        )
        return [_change_from(each) for each in found]

    def boundary(self, after: int, at_most: int) -> int:
        """The last one that is near enough, or the first one that is not."""
        name = self._key("boundaries")
        near = self._asked(
            lambda batch: batch.zrevrangebyscore(name, after + at_most, f"({after}", 0, 1)
        )
        if not near:
            near = self._asked(lambda batch: batch.zrangebyscore(name, f"({after}", "+inf", 0, 1))
        return int(near[0]) if near else after

    def _asked(self, ask: Callable[[Any], object]) -> Any:
        """The answer, if the state is still the one that was seen first; else _Changed."""
        with self._redis.pipeline(transaction=True) as batch:
            batch.get(self._key("state"))
            ask(batch)
            stored, found = batch.execute()
        if stored is None:
            raise StoreUnavailable("Nothing is stored of the view.")
        state = state_from(orjson.dumps(orjson.loads(stored)["state"]))
        if self._state is None:
            self._state = state
        elif (state.handle, state.sequence) != (self._state.handle, self._state.sequence):
            raise _Changed
        return found


def _change_text(change: Change) -> bytes:
    before, after = row_text(change.before), row_text(change.after)
    return orjson.dumps(
        [change.sequence, change.key, before, after, change.partition, change.offset]
    )


def _change_from(stored: bytes) -> Change:
    sequence, key, before, after, partition, offset = orjson.loads(stored)
    return Change(sequence, key, row_bytes(before), row_bytes(after), partition, offset)
