"""The routes, and what holds for all of them."""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headrace.settings import ServeSettings
from headrace.views.errors import ViewsError
from headrace.views.serving.access import Access
from headrace.views.serving.answers import POSITION_HEADER, json_answer, refused
from headrace.views.serving.catalog import Catalog
from headrace.views.serving.comparing import Comparing
from headrace.views.serving.cuts import Cuts
from headrace.views.serving.metrics import exposition
from headrace.views.serving.openapi import document
from headrace.views.serving.page import PAGE
from headrace.views.serving.reading import Reading
from headrace.views.serving.streaming import Streaming


def application(
    catalog: Catalog, settings: ServeSettings, address: str
) -> tuple[Starlette, Streaming]:
    """The ASGI application, and its feeds, which have to be started and stopped."""
    access = Access(address, settings.tokens)
    reading = Reading(catalog, access, settings.timeout_ms / 1000)
    cuts = Cuts(catalog, access, settings.timeout_ms / 1000)
    comparing = Comparing(catalog, access, settings.timeout_ms / 1000)
    streaming = Streaming(catalog, access, settings.heartbeat_ms / 1000)

    async def views(request: Request) -> Response:
        several = "names" in request.query_params
        return await (cuts.named(request) if several else reading.views(request))

    async def health(_: Request) -> Response:
        return json_answer({"status": "ok"})

    async def metrics(request: Request) -> Response:
        access.require(request, None)
        return PlainTextResponse(await exposition(catalog))

    async def openapi(_: Request) -> Response:
        return json_answer(document())

    async def page(_: Request) -> Response:
        return HTMLResponse(PAGE)

    routes = [
        Route("/", page),
        Route("/openapi.json", openapi),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/views", views),
        Route("/views", cuts.posted, methods=["POST"]),
        Route("/views/{name}", reading.rows),
        Route("/views/{name}/{key:path}", reading.row),
        Route("/diff/{one}/{other}", comparing.compare),
        Route("/feeds/{name}", _Asgi(streaming.feed)),
        Route("/feeds/{name}/poll", streaming.poll),
        Route("/results/{name}", _Asgi(streaming.result)),
    ]
    middleware = [
        Middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_headers=["Authorization", "Last-Event-ID"],
            expose_headers=[POSITION_HEADER],
        )
    ]
    handlers = {ViewsError: refused, HTTPException: _not_found}
    return (
        Starlette(
            routes=routes,
            middleware=middleware if settings.origins else [],
            exception_handlers=handlers,
        ),
        streaming,
    )


class _Asgi:
    """A route that sends its answer piece by piece."""

    def __init__(self, answer: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = (
        f"{request.method} {request.url.path}: {error.detail}. /openapi.json says what there is."
    )
    code = error.detail.lower().replace(" ", "-")
    return json_answer({"error": {"code": code, "message": message}}, status=error.status_code)
