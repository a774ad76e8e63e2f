"""Answers with rows: one, several, those of a filter, or how many they are."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import orjson
from starlette.requests import Request
from starlette.responses import Response

from headrace.views.feeds.encoding import encoded_rows
from headrace.views.feeds.tokens import Token
from headrace.views.materialized import lookup
from headrace.views.materialized.lookup import HistoryGone
from headrace.views.materialized.store import KeyedRow, Snapshot, StoreState
from headrace.views.positions import parse_positions
from headrace.views.serving.access import Access
from headrace.views.serving.answers import NoSuchRow, answer, json_answer
from headrace.views.serving.catalog import Catalog
from headrace.views.serving.parameters import cursor, cursor_from, key_from, query_from, seconds
from headrace.views.serving.view import View


class Reading:
    """The routes that answer at once, or when the view has got as far as was asked for."""

    def __init__(self, catalog: Catalog, access: Access, timeout: float) -> None:
        self._catalog = catalog
        self._access = access
        self._timeout = timeout

    async def views(self, request: Request) -> Response:
        """Every view that the reader may read, and how it stands."""
        self._access.require(request, None)
        listed = []
        for name, view in self._catalog.listed:
            shown = view.description.name
            if self._access.may(request, name or shown):
                described = {"served_by": shown, "description": view.description}
                listed.append({**asdict(await view.status()), "name": name, **described})
        return json_answer({"views": listed, "error": self._catalog.error})

    async def row(self, request: Request) -> Response:
        """One row."""
        view = await self.view_of(request)
        key = key_from(request.scope["raw_path"], view)

        def look(store: Snapshot) -> tuple[list[KeyedRow], StoreState]:
            return store.get([key]), store.state

        rows, state = await view.read(look)
        position = view.position(state)
        if not rows:
            raise NoSuchRow(
                f"View {view.description.name} has no row {key} (at {position or 'its beginning'})."
            )
        token = str(Token(state.handle, state.sequence))
        body = b'{"key":%b,"row":%b,"position":%b,"token":%b}' % (
            orjson.dumps(key),
            rows[0].row,
            orjson.dumps(position),
            orjson.dumps(token),
        )
        return answer(body, position)

    async def rows(self, request: Request) -> Response:
        """The rows of some keys, or those that a filter wants; with `count` only their number."""
        view = await self.view_of(request)
        given = request.query_params
        if keys := given.getlist("key"):
            return await self._several(view, keys)
        if given.get("count", "").lower() in ("true", "1", "yes"):
            return await self._counted(view, given)
        return await self._selected(view, given)

    async def view_of(self, request: Request) -> View:
        """The view of a request, as soon as it reflects what the reader has seen elsewhere."""
        name = request.path_params["name"]
        self._access.require(request, name)
        view = self._catalog.named(name)
        if after := request.query_params.get("after"):
            required = parse_positions(after)
            await view.wait(required, seconds(request.query_params, "timeout", self._timeout))
        return view

    async def _several(self, view: View, keys: list[str]) -> Response:
        rows, state = await view.read(lambda store: (lookup.get(store, keys), store.state))
        return _answered(view, state, b'"rows":%b' % encoded_rows(rows))

    async def _counted(self, view: View, given: Mapping[str, str]) -> Response:
        query = query_from(given, view)
        count, state = await view.read(lambda store: (store.count(query.where), store.state))
        return _answered(view, state, b'"count":%d' % count)

    async def _selected(self, view: View, given: Mapping[str, str]) -> Response:
        query = query_from(given, view)
        begun = cursor_from(given["cursor"]) if "cursor" in given else None
        if begun is not None:
            query = replace(query, offset=begun[2])
        wanted = replace(query, limit=(query.limit or 0) + 1)

        def look(store: Snapshot) -> tuple[list[KeyedRow], StoreState]:
            if begun is None:
                return lookup.select(store, wanted), store.state
            handle, sequence, _ = begun
            if handle != store.state.handle:
                raise HistoryGone(f"the cursor's state {sequence}", store.state.oldest)
            return lookup.select(store, wanted, lookup.past(store, sequence)), store.state

        rows, state = await view.read(look)
        shown = rows[: query.limit]
        following = "null"
        if len(rows) > len(shown) and shown:
            at = (state.handle, state.sequence) if begun is None else begun[:2]
            following = f'"{cursor(*at, query.offset + len(shown))}"'
        return _answered(
            view, state, b'"rows":%b,"next":%b' % (encoded_rows(shown), following.encode())
        )


def _answered(view: View, state: StoreState, body: bytes) -> Response:
    position = view.position(state)
    token = str(Token(state.handle, state.sequence))
    whole = b'{%b,"position":%b,"token":%b}' % (body, orjson.dumps(position), orjson.dumps(token))
    return answer(whole, position)
