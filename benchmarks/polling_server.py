"""What people write by hand instead of a feed: a table in SQLite that every stream polls.

The same topic, the same web server and the same SQLite. A thread upserts records with a growing
version; each subscriber's stream asks ten times a second for rows with a later version than it has
seen, and encodes them itself. `python -m benchmarks.polling_server BOOTSTRAP TOPIC PORT FILE`.
"""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator

import orjson
import uvicorn
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_POLL_SECONDS = 0.1


def main() -> None:
    """Serve until somebody ends it."""
    bootstrap, topic, port, file = sys.argv[1:]
    database = _connected(file)
    database.execute("CREATE TABLE rows (key TEXT PRIMARY KEY, value TEXT, version INTEGER)")
    database.execute("CREATE INDEX by_version ON rows (version)")
    filling = threading.Thread(target=_fill, args=(bootstrap, topic, file), daemon=True)
    filling.start()

    async def feed(_: Request) -> Response:
        return StreamingResponse(_changes(database), media_type="text/event-stream")

    async def health(_: Request) -> Response:
        (rows,) = database.execute("SELECT count(*) FROM rows").fetchone()
        return JSONResponse({"rows": rows})

    app = Starlette(routes=[Route("/feeds/view", feed), Route("/health", health)])
    uvicorn.run(app, port=int(port), log_level="error", backlog=2048)


async def _changes(database: sqlite3.Connection) -> AsyncIterator[bytes]:
    seen = 0
    while True:
        found = database.execute(
            "SELECT key, value, version FROM rows WHERE version > ? ORDER BY version", (seen,)
        ).fetchall()
        if found:
            seen = found[-1][2]
            changes = [{"key": key, "row": orjson.loads(value)} for key, value, _ in found]
            yield b"event: changes\nid: %d\ndata: %b\n\n" % (
                seen,
                orjson.dumps({"changes": changes}),
            )
        await asyncio.sleep(_POLL_SECONDS)


def _fill(bootstrap: str, topic: str, file: str) -> None:
    database = _connected(file)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "polling"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    version = 0
    while True:
        first = consumer.poll(1.0)
        if first is None:
            continue
        messages = [each for each in (first, *consumer.consume(4_999, 0)) if not each.error()]
        rows = []
        for each in messages:
            version += 1
            rows.append(((each.key() or b"").decode(), (each.value() or b"").decode(), version))
        database.execute("BEGIN")
        database.executemany(
            "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
            "value = excluded.value, version = excluded.version",
            rows,
        )
        database.execute("COMMIT")


def _connected(file: str) -> sqlite3.Connection:
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=30)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    return database


if __name__ == "__main__":
    main()
