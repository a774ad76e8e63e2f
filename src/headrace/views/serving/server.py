"""A server of views: in a thread of a program, or as the whole of a process.

with ViewServer(settings, [ViewDescription("users", "shop.public.users", ("id",))]) as server:
print(server.url)
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.kafka.cluster import Cluster
from headrace.settings import Settings, join_address, split_address
from headrace.views.errors import ViewsError
from headrace.views.materialized.description import ViewDescription
from headrace.views.serving.catalog import Catalog, described

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headrace.views.serving.http import HttpServer
    from headrace.views.serving.streaming import Streaming


class CannotServe(ViewsError):
    """The address cannot be listened at, or a package is missing."""


class ViewServer:
    """Serves the views of the settings, those given, and those that flows declare.

    With `declared=False` those of flows are left out.
    """

    def __init__(
        self,
        settings: Settings,
        views: Iterable[ViewDescription] = (),
        *,
        declared: bool = True,
    ) -> None:
        self._settings = settings
        self._views = [*map(described, settings.view.views), *views]
        self._declared = declared
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._server: HttpServer | None = None
        self.address = settings.serve.address
        """Where it serves; a port 0 is resolved once it does."""

    @property
    def url(self) -> str:
        """Its address as a browser wants it."""
        return f"http://{self.address}"

    def start(self) -> Self:
        """Serve in a thread; returns when it answers, and raises what keeps it from that."""
        self._thread = threading.Thread(target=self._run, name="views", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        """End feeds, close stores, and return when all is done."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, after waiting for that."""
        assert self._thread is not None, "a server is started first"
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            runner = _runner()
            with runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        application, server_of = _imported()
        serve = self._settings.serve
        cluster = Cluster(self._settings.kafka)
        cluster.check()
        loop = asyncio.get_running_loop()
        catalog = Catalog(cluster, serve, self._views, loop, declared=self._declared)
        app, streaming = application(catalog, serve, serve.address)
        listening = _listening(serve.address)
        host, _ = split_address(serve.address)
        self.address = join_address(host, listening.getsockname()[1])
        self._server = server_of(app, self._ready.set, streaming.stop)
        try:
            await catalog.start()
            streaming.start()
            await self._server.serve(sockets=[listening])
        finally:
            await streaming.stop()
            await catalog.stop()


def _listening(address: str) -> socket.socket:
    host, port = split_address(address)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CannotServe(
            f"Views cannot be served at {address}: {error.strerror or error}. Choose another "
            "address with --listen or [serve] address."
        ) from None


def _imported() -> "tuple[Callable[..., tuple[ASGIApp, Streaming]], type[HttpServer]]":
    try:
        from headrace.views.serving.application import application
        from headrace.views.serving.http import HttpServer
    except ImportError as error:
        raise CannotServe(
            f"Serving views needs {error.name}: pip install 'headrace[serve]'."
        ) from None
    return application, HttpServer


def _runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
