"""A client that sends bytes as it is told, right or wrong."""

import asyncio
import contextlib
import io
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Self, cast

from kio.index import load_entity_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.broker.protocol import message_codec
from headrace.settings import split_address


def request_module(api: str, version: int) -> Any:
    """The classes of a request; untyped, so that plain numbers and strings will do."""
    return load_entity_module(api, version, EntityType.request)


def request_frame(entity: Any, correlation_id: int = 1, client_id: str = "test") -> bytes:
    """A whole request, its length first."""
    header = struct.pack(">hhih", entity.__api_key__, entity.__version__, correlation_id, 4)
    body = io.BytesIO()
    body.write(header + client_id.encode()[:4].ljust(4))
    if entity.__header_schema__.__version__ == 2:
        body.write(b"\0")
    entity_writer(type(entity))(body, entity)
    return struct.pack(">i", len(body.getvalue())) + body.getvalue()


def response_class(api: str, version: int) -> Any:
    """The response class of an API in one version."""
    module = load_entity_module(api, version, EntityType.response)
    return next(
        one
        for one in vars(module).values()
        if isinstance(one, type) and getattr(one, "__type__", None) is EntityType.response
    )


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in callbacks, which offer no event to wait for."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class RawClient:
    """One connection to a broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: str) -> Self:
        """Connect to HOST:PORT."""
        return cls(*await asyncio.open_connection(*split_address(address)))

    async def receive(self) -> bytes:
        """The next response frame, without its length."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ask(self, entity: Any, correlation_id: int = 1) -> Any:
        """Send a request and read its response."""
        self.writer.write(request_frame(entity, correlation_id))
        return self.read(entity, await self.receive(), correlation_id)

    @staticmethod
    def read(entity: Any, frame: bytes, correlation_id: int = 1) -> Any:
        """The response to a request, from the bytes of its frame."""
        api = type(entity).__module__.split(".")[2]
        codec = message_codec(api, entity.__version__)
        assert struct.unpack_from(">i", frame) == (correlation_id,)
        message, _ = entity_reader(response_class(api, entity.__version__))(
            frame, 5 if codec.flexible_response else 4
        )
        return message

    async def receive_until_closed(self) -> int:
        """Read responses until the broker has closed the connection; how many there were."""
        received = 0
        try:
            async with asyncio.timeout(5):
                while True:
                    await self.receive()
                    received += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            return received

    async def closed_by_broker(self) -> bool:
        """Whether the broker closes the connection, within a few seconds."""
        try:
            async with asyncio.timeout(5):
                return not await self.reader.read(1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def pause_reading(self) -> None:
        """Take in no more replies."""
        cast(asyncio.Transport, self.writer.transport).pause_reading()

    async def close(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


Connect = Callable[[], Awaitable[RawClient]]
"""Connects to the broker under test; the connection is closed after the test."""
