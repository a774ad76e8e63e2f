"""Several views at one position.

Each view is asked at which positions of its sources it can be read: a view of a topic at any offset
that its history reaches back to, a view of a flow after each batch of that flow. The latest
position at which all of them can be read is the one at which they are. Views that share no source
have nothing to agree on, and are read as they are.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from headrace.kafka.positions import Partition
from headrace.views.feeds.encoding import encoded_rows
from headrace.views.materialized import lookup
from headrace.views.materialized.lookup import HistoryGone, Query
from headrace.views.materialized.store import KeyedRow, Snapshot
from headrace.views.positions import Offsets, format_positions, parse_positions
from headrace.views.registry import Note
from headrace.views.serving.access import Access
from headrace.views.serving.answers import InvalidRequest, answer
from headrace.views.serving.catalog import Catalog
from headrace.views.serving.parameters import query_from, seconds
from headrace.views.serving.view import NotOpened, NotReflected, View

_PAUSE_SECONDS = 0.02


class Cuts:
    """The routes that read several views."""

    def __init__(self, catalog: Catalog, access: Access, timeout: float) -> None:
        self._catalog = catalog
        self._access = access
        self._timeout = timeout

    async def named(self, request: Request) -> Response:
        """`GET /views?names=a,b`: the first rows of each."""
        given = dict(request.query_params)
        asked = {name: given for name in given["names"].split(",") if name}
        return await self._answer(request, asked, given)

    async def posted(self, request: Request) -> Response:
        """`POST /views`: each view with a query of its own."""
        try:
            body = orjson.loads(await request.body())
            asked = {
                str(name): {key: str(value) for key, value in query.items()}
                for name, query in body["views"].items()
            }
        except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError):
            raise InvalidRequest(
                'Post {"views": {"NAME": {"where": ..., "order": ..., "limit": ...}, ...}}.'
            ) from None
        return await self._answer(request, asked, {k: str(v) for k, v in body.items()})

    async def _answer(
        self, request: Request, asked: Mapping[str, Mapping[str, str]], given: Mapping[str, str]
    ) -> Response:
        if not asked:
            raise InvalidRequest("Name at least one view.")
        views = {}
        for name in asked:
            self._access.require(request, name)
            views[name] = self._catalog.named(name)
        queries = {name: query_from(asked[name], view) for name, view in views.items()}
        timeout = seconds(given, "timeout", self._timeout)
        if after := given.get("after"):
            required = parse_positions(after)
            await asyncio.gather(*(_own(view, required, timeout) for view in views.values()))
        found, cut = await _read(views, queries, timeout)
        position = format_positions(cut)
        parts = b",".join(
            b'%b:{"rows":%b}' % (orjson.dumps(name), encoded_rows(rows))
            for name, rows in found.items()
        )
        return answer(b'{"views":{%b},"position":%b}' % (parts, orjson.dumps(position)), position)


async def _own(view: View, required: Offsets, patience: float) -> None:
    """Wait for the part of a position that a view knows of."""
    topics = view.topics
    known = {each: offset for each, offset in required.items() if each.topic in topics}
    if known:
        await view.wait(known, patience)


async def _read(
    views: Mapping[str, View], queries: Mapping[str, Query], patience: float
) -> tuple[dict[str, list[KeyedRow]], dict[Partition, int]]:
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        left = deadline - asyncio.get_running_loop().time()
        chosen, position = await agreed(list(views.values()), left)
        try:
            found = {
                name: await view.read(_looking(queries[name], applied))
                for (name, view), applied in zip(views.items(), chosen, strict=True)
            }
        except (HistoryGone, NotOpened):
            if left <= 0:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return found, position


async def agreed(
    views: list[View], patience: float
) -> tuple[list[Mapping[int, int]], dict[Partition, int]]:
    """Offsets of each view's topic at which all are at one position, and that position.

    Waits until there is one; NotReflected if there is none in so many seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while (cut := _cut(views)) is None:
        if loop.time() > deadline:
            for each in views:
                each.require_open()
            names = ", ".join(each.description.name for each in views)
            raise NotReflected(
                f"{names} have not been at the same position lately. They are written by different "
                "queries, which read in different steps; ask again when less is happening, give "
                "it more time with timeout=30s, or read them one by one."
            )
        await asyncio.sleep(_PAUSE_SECONDS)
    return cut


def _looking(query: Query, applied: Mapping[int, int]) -> Any:
    def look(store: Snapshot) -> list[KeyedRow]:
        return lookup.select(store, query, lookup.past_offsets(store, applied))

    return look


def _cut(views: list[View]) -> tuple[list[Mapping[int, int]], dict[Partition, int]] | None:
    """Offsets of each view's topic at which all agree on what they share, and that position."""
    if not all(each.is_open for each in views):
        return None
    of_flows = [each for each in views if each.description.flow]
    of_topics = [each for each in views if not each.description.flow]
    ceiling = _ceiling(of_topics)
    for chosen in _agreeing(of_flows, ceiling):
        position = dict(ceiling)
        for each in chosen:
            position.update(each.sources)
        applied = {id(view): one.outputs for view, one in zip(of_flows, chosen, strict=True)}
        for view in of_topics:
            applied[id(view)] = {
                each.number: offset
                for each, offset in position.items()
                if each.topic == view.description.topic
            }
        return [applied[id(view)] for view in views], position
    return None


def _ceiling(views: list[View]) -> dict[Partition, int]:
    """How far all views of a topic have got, for each topic."""
    known: dict[Partition, list[int]] = {}
    for view in views:
        for partition in view.reached:
            known.setdefault(partition, [])
    for partition, offsets in known.items():
        same = (each for each in views if each.description.topic == partition.topic)
        offsets += [each.reached.get(partition, 0) for each in same]
    return {partition: min(offsets) for partition, offsets in known.items()}


def _agreeing(
    views: list[View], ceiling: Offsets, chosen: Offsets | None = None
) -> Iterator[list[Note]]:
    """A batch of each view, the latest ones, so that all agree on what they share.

    `ceiling` is how far views of topics have got, `chosen` what is agreed on already.
    """
    chosen = chosen or {}
    if not views:
        yield []
        return
    for note in views[0].batches:
        sources = note.sources
        if any(offset > ceiling.get(each, offset) for each, offset in sources.items()):
            continue
        if any(offset != chosen.get(each, offset) for each, offset in sources.items()):
            continue
        for rest in _agreeing(views[1:], ceiling, {**chosen, **sources}):
            yield [note, *rest]
            return
