"""A small HTTP endpoint for Prometheus and for whoever asks whether the broker is well."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from headrace.broker.event_loop import reason_of
from headrace.broker.metrics import render
from headrace.errors import HeadraceError
from headrace.settings import join_address

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

LONGEST_LINE = 8 * 1024
REQUEST_SECONDS = 10.0
"""How long a client may take to send its request."""


class CannotMonitor(HeadraceError):
    """The address for metrics is taken, or not one of this machine's."""


class Monitor:
    """Serves `GET /metrics` and `GET /health`."""

    def __init__(self, core: "BrokerCore") -> None:
        self._core = core
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self.address = ""

    async def start(self, host: str, port: int) -> None:
        """Begin to listen."""
        try:
            self._server = await asyncio.start_server(
                self._serve, host or None, port, limit=LONGEST_LINE
            )
        except OSError as error:
            raise CannotMonitor(
                f"cannot serve metrics on {join_address(host, port)}: {reason_of(error)}; choose "
                "another address (metrics)"
            ) from error
        self.address = join_address(host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, and let go of whoever has not sent a request yet."""
        if self._server is not None:
            self._server.close()
        tasks = [task for task in self._serving.values() if task is not None]
        for writer in tuple(self._serving):
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving[writer] = asyncio.current_task()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = (await reader.readline()).decode("latin-1").split()
                while (await reader.readline()).strip():
                    pass
            if not writer.is_closing():
                writer.write(self._answer(request))
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            return
        finally:
            del self._serving[writer]
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, request: list[str]) -> bytes:
        if len(request) < 2 or request[0] not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", "text/plain", "only GET is served\n")
        path = request[1].partition("?")[0]
        if path == "/metrics":
            return _response(
                "200 OK", "text/plain; version=0.0.4; charset=utf-8", render(self._core)
            )
        if path in ("/health", "/healthz"):
            return self._health()
        return _response("404 Not Found", "text/plain", "try /metrics or /health\n")

    def _health(self) -> bytes:
        failed = [
            f"{partition.topic}-{partition.index}: {partition.log.failure}"
            for partition in self._core.partitions()
            if partition.log.failure
        ]
        if failed:
            return _response("503 Service Unavailable", "text/plain", "\n".join(failed) + "\n")
        damaged = [
            f"{partition.topic}-{partition.index}: {damage}"
            for partition in self._core.partitions()
            for damage in partition.log.damage
        ]
        warnings = ["damaged", *damaged] if damaged else []
        archiving = self._core.archiving
        if archiving is not None and archiving.failure is not None:
            warnings += ["archiving fails", archiving.failure]
        # A restart would not help, so these are no reason to be taken for dead.
        return _response("200 OK", "text/plain", "\n".join(warnings or ["ok"]) + "\n")


def _response(status: str, kind: str, body: str) -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + content
