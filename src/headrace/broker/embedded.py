"""A broker inside a Python program: `with Broker() as broker: ...`."""

import asyncio
import dataclasses
import difflib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headrace.broker.event_loop import new_event_loop
from headrace.broker.later import first_clients_served
from headrace.broker.server import Server
from headrace.errors import HeadraceError
from headrace.settings import BrokerSettings, UnknownSetting


class Broker:
    """A Kafka-protocol broker in a thread of this process.

    Without `data` everything is kept in a temporary directory that `stop` removes. The default
    address is a free port on the loopback interface. All settings of the `[broker]` section can be
    given by name.

    >>> with Broker() as broker:
    ...     broker.bootstrap.startswith("127.0.0.1:")
    True
    """

    def __init__(
        self, data: Path | str | None = None, *, listen: str = "127.0.0.1:0", **settings: Any
    ) -> None:
        _check_names(settings)
        self._temporary = data is None
        self._data = None if data is None else Path(data)
        self._settings = {"listen": listen, **settings}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._stopping: asyncio.Event
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        """The address for a client's `bootstrap.servers`; the broker must be running."""
        if self._thread is None:
            raise HeadraceError("the broker is not running; call start() or use it in a `with`")
        return self._bootstrap

    @property
    def data(self) -> Path:
        """The data directory; the broker must have been started."""
        if self._data is None:
            raise HeadraceError("the broker has no data directory yet; start it first")
        return self._data

    def start(self) -> Self:
        """Start the broker and return once clients can connect."""
        if self._thread is not None:
            raise HeadraceError("the broker is running already")
        if self._temporary:
            self._data = Path(tempfile.mkdtemp(prefix="headrace-"))
        self._process = os.getpid()
        self._started.clear()
        thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)
        thread.start()
        self._started.wait()
        self._raise_failure(thread)
        self._thread = thread
        return self

    def stop(self) -> None:
        """Stop cleanly; more than once does no harm. The data can be opened again afterwards.

        In a forked child this does nothing: the broker runs in the parent.
        """
        if self._thread is None or self._loop is None or self._process != os.getpid():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        thread, self._thread = self._thread, None
        self._remove_temporary()
        self._raise_failure(thread)

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = Server(BrokerSettings(data=self.data, **self._settings))
        await server.listen()
        self._bootstrap = server.address
        self._started.set()
        if await first_clients_served(self._stopping):
            await server.complete()
            await self._stopping.wait()
        await server.stop()

    def _raise_failure(self, thread: threading.Thread) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            thread.join()
            self._remove_temporary()
            raise failure

    def _remove_temporary(self) -> None:
        if self._temporary and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None


def _check_names(settings: Iterable[str]) -> None:
    known = [field.name for field in dataclasses.fields(BrokerSettings)]
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            meant = f'did you mean "{close[0]}"?' if close else f"there are {', '.join(known)}."
            raise UnknownSetting(f'Broker() has no setting "{name}"; {meant}')
