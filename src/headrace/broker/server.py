"""The listening broker: accepts connections, keeps them in bounds, and stops without losing any."""

import asyncio
import contextlib
import logging
import socket
import time
from typing import TYPE_CHECKING

from headrace.broker import later
from headrace.broker.connection import SCRATCH_BYTES, Connection
from headrace.broker.core import BrokerCore
from headrace.broker.dispatch import Dispatcher
from headrace.broker.event_loop import reason_of
from headrace.broker.housekeeping import Housekeeping
from headrace.broker.scrubbing import Scrubbing
from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.log import SYSTEM_DISK, Disk
from headrace.settings import BrokerSettings, join_address, split_address

if TYPE_CHECKING:
    from headrace.broker.monitor import Monitor

log = logging.getLogger("headrace.broker")

BACKLOG = 1024
STALLED_SECONDS = 30.0
"""A client that stops in the middle of a large request holds memory; it may do so this long."""

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not bound
"""Hosts that mean every interface, and that no client can connect to; and hosts that it can."""

GRACE_SECONDS = 2.0
"""How long clients may take to receive their last replies when the broker stops."""


class CannotListen(HeadraceError):
    """The address is taken, or not one of this machine's."""


class Server:
    """A broker with its sockets; made and used inside a running event loop.

    The data directory is open from the beginning. `listen` lets clients in, and from then on
    everything happens in callbacks; `complete` loads what the first clients did not wait for (see
    `later`) and begins what is done by the clock; `start` does both. `stop` answers what can be
    answered, closes the connections and leaves a clean directory.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock | None = None,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        self.settings = settings
        self.max_request_bytes = settings.max_request_bytes
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.core = BrokerCore(settings, asyncio.get_running_loop(), clock=clock, disk=disk)
        self.metrics = self.core.metrics
        self.dispatch = Dispatcher(self.core).start
        self.host, self.port = split_address(settings.listen)
        self._advertised = split_address(settings.advertise) if settings.advertise else None
        self._connections: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._housekeeping = Housekeeping(self.core, self)
        self._scrubbing = Scrubbing(self.core)
        self._monitor: Monitor | None = None
        self._listener: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where clients on this machine find the broker."""
        return join_address(WILDCARDS.get(self.host, self.host), self.port)

    @property
    def listening(self) -> str:
        """The address listened on, with the port that was picked; it may mean every interface."""
        return join_address(self.host, self.port)

    @property
    def monitor_address(self) -> str | None:
        """Where metrics and health are served, if they are."""
        return self._monitor.address if self._monitor else None

    async def start(self) -> None:
        """Begin to listen, and everything else; nothing is left open if that fails."""
        await self.listen()
        await self.complete()

    async def listen(self) -> None:
        """Let clients in, who can ask for anything; nothing is left open if that fails."""
        try:
            await self.core.recover()
            self._listener = await self._listen()
            self.port = self._listener.sockets[0].getsockname()[1]
            if self.settings.metrics is not None:
                from headrace.broker.monitor import Monitor

                self._monitor = Monitor(self.core)
                await self._monitor.start(*split_address(self.settings.metrics))
            if self.core.archiving is not None:
                self.core.archiving.start()
        except BaseException:
            await self.stop()
            raise

    async def complete(self) -> None:
        """Load what is missing and begin what is done by the clock; stops if that fails."""
        try:
            await later.load()
            self._housekeeping.start()
            self._scrubbing.start()
            self.core.groups.start()
            self.core.transactions.start()
        except BaseException:
            log.exception("the broker stops, because not all of it could be loaded")
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening, answer who waits, close every connection and the data directory."""
        if self._listener is not None:
            self._listener.close()
        if self._monitor is not None:
            await self._monitor.stop()
        await self._housekeeping.stop()
        await self.core.excisions.stop()
        await self._scrubbing.stop()
        if self.core.archiving is not None:
            await self.core.archiving.stop()
        for connection in tuple(self._connections):
            # Otherwise busy producers would keep the disk busy, and this waiting, for ever.
            connection.end()
        self.core.groups.close()
        self.core.transactions.close()
        await self.core.commits.drain()
        for connection in tuple(self._connections):
            connection.close()
        await self._wait_until_disconnected()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.sleep(0)
        await self._housekeeping.remove_deleted()
        await self.core.close()

    def advertised(self, local: object) -> tuple[str, int]:
        """The host and port to tell a client that reached us at a local address.

        A broker that listens on every interface names the one that the client came in by, which is
        the one address the client is known to reach.
        """
        if self._advertised is not None:
            return self._advertised
        if self.host in WILDCARDS and isinstance(local, tuple):
            return str(local[0]), self.port
        return self.host, self.port

    def connected(self, connection: Connection) -> None:
        """A client has connected; one too many is turned away."""
        self.metrics.connections_total += 1
        self.metrics.connections += 1
        self._connections.add(connection)
        if len(self._connections) > self.settings.max_connections:
            connection.refuse(
                f"there are {self.settings.max_connections} connections already (max_connections)"
            )

    def disconnected(self, connection: Connection) -> None:
        """A client has gone."""
        self.metrics.connections -= 1
        self._connections.discard(connection)
        if not self._connections:
            self._all_gone.set()

    async def _wait_until_disconnected(self) -> None:
        self._all_gone = asyncio.Event()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), GRACE_SECONDS)

    def sweep(self) -> None:
        """Close the connections of clients that are idle or stuck in the middle of a request."""
        now = time.monotonic()
        idle = self.settings.idle_connection_ms / 1000
        for connection in tuple(self._connections):
            silent = now - connection.active_at
            if connection.receiving and silent > STALLED_SECONDS:
                connection.refuse(f"no byte of a request for {STALLED_SECONDS:g} s")
            elif silent > idle and not connection.waiting:
                # Whoever has not taken in a byte for so long never will.
                connection.abort()

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        try:
            addresses = await loop.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, address = addresses[0]
            return await loop.create_server(
                lambda: Connection(self, self.core.memory),
                str(address[0]),
                self.port,
                family=family,
                backlog=BACKLOG,
            )
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {self.settings.listen}: {reason_of(error)}; choose another "
                "address (listen), or port 0 for any free one"
            ) from error
