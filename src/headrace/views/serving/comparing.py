"""Two views compared, row by row, at one position."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from headrace.views.materialized import lookup
from headrace.views.materialized.store import KeyedRow, Snapshot
from headrace.views.positions import format_positions
from headrace.views.serving.access import Access
from headrace.views.serving.answers import json_answer
from headrace.views.serving.catalog import Catalog
from headrace.views.serving.cuts import agreed
from headrace.views.serving.parameters import seconds, whole
from headrace.views.serving.view import View

_PAGE: Final = 2_000
_EXAMPLES: Final = 100


class Comparing:
    """The route of `headrace views diff`."""

    def __init__(self, catalog: Catalog, access: Access, timeout: float) -> None:
        self._catalog = catalog
        self._access = access
        self._timeout = timeout

    async def compare(self, request: Request) -> Response:
        """`GET /diff/ONE/OTHER`: how many rows differ, and the first of them."""
        names = (request.path_params["one"], request.path_params["other"])
        for name in names:
            self._access.require(request, name)
        one, other = (self._catalog.exactly(name) for name in names)
        given = request.query_params
        most = whole(given, "limit", _EXAMPLES, 10_000)
        chosen, position = await agreed([one, other], seconds(given, "timeout", self._timeout))
        found = {"same": 0, "different": 0, "only_in_one": 0, "only_in_other": 0}
        examples: list[dict[str, Any]] = []
        async for key, first, second in _paired(_rows(one, chosen[0]), _rows(other, chosen[1])):
            kind = _kind(first, second)
            found[kind] += 1
            if kind != "same" and len(examples) < most:
                examples.append({"key": key, "one": first, "other": second})
        body = {**found, "examples": examples, "position": format_positions(position)}
        return json_answer(body, format_positions(position))


async def _rows(view: View, applied: Mapping[int, int]) -> AsyncIterator[tuple[str, Any]]:
    """All rows of a view by key, as they were when so much of its topic was applied."""
    after: str | None = None

    def look(store: Snapshot) -> tuple[list[KeyedRow], str | None]:
        before = lookup.past_offsets(store, applied)
        return lookup.page(store, None, before, after_key=after, limit=_PAGE)

    while True:
        rows, more = await view.read(look)
        for key, row in rows:
            yield key, orjson.loads(row)
        if more is None:
            return
        after = more
        await asyncio.sleep(0)


async def _paired(
    one: AsyncIterator[tuple[str, Any]], other: AsyncIterator[tuple[str, Any]]
) -> AsyncIterator[tuple[str, Any, Any]]:
    """Rows of both by key, with None where one has none."""
    first, second = await anext(one, None), await anext(other, None)
    while first is not None or second is not None:
        if second is None or (first is not None and first[0] < second[0]):
            assert first is not None
            yield first[0], first[1], None
            first = await anext(one, None)
        elif first is None or second[0] < first[0]:
            yield second[0], None, second[1]
            second = await anext(other, None)
        else:
            yield first[0], first[1], second[1]
            first, second = await anext(one, None), await anext(other, None)


def _kind(first: object, second: object) -> str:
    if first is None:
        return "only_in_other"
    if second is None:
        return "only_in_one"
    return "same" if first == second else "different"
