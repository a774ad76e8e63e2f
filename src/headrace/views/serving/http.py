"""The HTTP server under the routes, told when it is ready and when it is to end."""

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp


class HttpServer(uvicorn.Server):
    """Uvicorn without its log, its signals and its patience with streams that never end."""

    def __init__(
        self, app: ASGIApp, started: Callable[[], None], ending: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )
        self._told_started = started
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._told_started()

    async def shutdown(self, *args: Any, **kwargs: Any) -> None:
        """End feeds before connections are waited for."""
        await self._ending()
        await super().shutdown(*args, **kwargs)
