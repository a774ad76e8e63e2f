"""librdkafka without Python in the loop, so that a figure says something about the broker.

confluent-kafka spends about a microsecond of Python per message, three times what librdkafka
itself needs, and on a small machine that would be most of what a benchmark measures. Here the
very library that confluent-kafka carries is called through ctypes, thousands of messages a call:
a producer hands it arrays of messages that all point at one payload, a consumer counts in
compiled code. Everything is left at librdkafka's defaults unless an argument says otherwise.
"""

import ctypes
import functools
import itertools
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import cimpl

from headrace.errors import HeadraceError

CHUNK_MESSAGES = 8_000
"""Messages handed over by one call: few enough to keep memory warm, enough to forget Python."""

_PRODUCER, _CONSUMER = 0, 1
_BLOCK_WHEN_FULL, _PARTITION_PER_MESSAGE = 0x4, 0x8
_ERROR_BYTES = 512
_FLUSH_TIMEOUT_MS = 120_000
_WAIT_MS = 100
_SILENCE_SECONDS = 30.0


class LoadFailed(HeadraceError):
    """The load could not be generated or did not arrive, so that nothing was measured."""


class _Message(ctypes.Structure):
    _fields_ = (
        ("error", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_length", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


class _Tally(ctypes.Structure):
    _fields_ = (("messages", ctypes.c_int64), ("bytes", ctypes.c_int64), ("errors", ctypes.c_int64))


_handle, _text, _number, _nothing = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, None
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "conf_new": (_handle,),
    "conf_set": (_number, _handle, _text, _text, _text, ctypes.c_size_t),
    "new": (_handle, _number, _handle, _text, ctypes.c_size_t),
    "destroy": (_nothing, _handle),
    "topic_new": (_handle, _handle, _text, _handle),
    "topic_destroy": (_nothing, _handle),
    "produce_batch": (_number, _handle, ctypes.c_int32, _number, _handle, _number),
    "flush": (_number, _handle, _number),
    "poll_set_consumer": (_number, _handle),
    "topic_partition_list_new": (_handle, _number),
    "topic_partition_list_add": (_handle, _handle, _text, ctypes.c_int32),
    "topic_partition_list_set_offset": (_number, _handle, _text, ctypes.c_int32, ctypes.c_int64),
    "topic_partition_list_destroy": (_nothing, _handle),
    "assign": (_number, _handle, _handle),
    "queue_get_consumer": (_handle, _handle),
    "queue_destroy": (_nothing, _handle),
    "consume_callback_queue": (_number, _handle, _number, _handle, _handle),
    "consumer_close": (_number, _handle),
}
"""What each function returns, then what it takes; every name gets the `rd_kafka_` prefix."""


@functools.cache
def _call(name: str) -> Any:
    function = getattr(ctypes.CDLL(cimpl.__file__), f"rd_kafka_{name}")
    function.restype, *function.argtypes = _SIGNATURES[name]
    return function


@functools.cache
def _count_message() -> Any:
    """The consume callback in machine code: adds one message to the tally it is given."""
    from numba import cfunc, types

    words = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
    error_mask = 0xFFFF_FFFF
    length_word = _Message.length.offset // ctypes.sizeof(ctypes.c_int64)

    @cfunc(types.void(words, words))
    def count(message: Any, tally: Any) -> None:
        tally[0] += 1
        tally[1] += message[length_word]
        if message[0] & error_mask:
            tally[2] += 1

    return count


def _client(kind: int, settings: Mapping[str, str]) -> int:
    reason = ctypes.create_string_buffer(_ERROR_BYTES)
    configuration = _call("conf_new")()
    for name, value in settings.items():
        if _call("conf_set")(configuration, name.encode(), value.encode(), reason, _ERROR_BYTES):
            raise LoadFailed(f"librdkafka refused {name}={value}: {reason.value.decode()}")
    client = _call("new")(kind, configuration, reason, _ERROR_BYTES)
    if not client:
        raise LoadFailed(f"librdkafka did not start a client: {reason.value.decode()}")
    return int(client)


class BulkProducer:
    """Sends one payload over and over to a topic's partitions in turn, as fast as it is taken.

    A full queue blocks the caller, as a producer that cares for its messages would. Delivery is
    not reported message by message: ask the broker for the end offset afterwards.
    """

    def __init__(
        self, bootstrap: str, topic: str, payload: bytes, *, partitions: Sequence[int] = (0,)
    ) -> None:
        self._client = _client(_PRODUCER, {"bootstrap.servers": bootstrap})
        self._topic = _call("topic_new")(self._client, topic.encode(), None)
        self._payload = ctypes.create_string_buffer(payload, len(payload))
        address = ctypes.addressof(self._payload)
        self._chunk = (_Message * CHUNK_MESSAGES)(
            *(
                _Message(partition=partition, payload=address, length=len(payload))
                for partition in itertools.islice(itertools.cycle(partitions), CHUNK_MESSAGES)
            )
        )

    def send(self, count: int) -> None:
        """Hand `count` messages to librdkafka, waiting whenever its queue is full."""
        flags = _BLOCK_WHEN_FULL | _PARTITION_PER_MESSAGE
        while count > 0:
            size = min(count, CHUNK_MESSAGES)
            taken = _call("produce_batch")(self._topic, 0, flags, self._chunk, size)
            if taken == 0:
                raise LoadFailed(f"librdkafka took no message: error {self._chunk[0].error}")
            count -= taken

    def flush(self) -> None:
        """Wait until everything sent has been answered."""
        if error := _call("flush")(self._client, _FLUSH_TIMEOUT_MS):
            raise LoadFailed(f"messages were still unanswered after two minutes: error {error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let the client go; what was not flushed is lost."""
        _call("topic_destroy")(self._topic)
        _call("destroy")(self._client)


class BulkConsumer:
    """Reads partitions of a topic from their start and counts what arrives."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: Sequence[int] = (0,)) -> None:
        self._topic = topic.encode()
        self._partitions = partitions
        self._tally = _Tally()
        # A group id is demanded even of a consumer that never joins or commits.
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": "false",
        }
        self._count = _count_message().address
        self._client = _client(_CONSUMER, settings)
        _call("poll_set_consumer")(self._client)
        self._queue = _call("queue_get_consumer")(self._client)

    def assign(self) -> None:
        """Begin to fetch from offset 0 of each partition."""
        chosen = _call("topic_partition_list_new")(len(self._partitions))
        for partition in self._partitions:
            _call("topic_partition_list_add")(chosen, self._topic, partition)
            _call("topic_partition_list_set_offset")(chosen, self._topic, partition, 0)
        error = _call("assign")(self._client, chosen)
        _call("topic_partition_list_destroy")(chosen)
        if error:
            raise LoadFailed(f"librdkafka could not assign partitions: error {error}")

    def receive(self, count: int) -> int:
        """Consume until `count` messages have come in all, and return how many bytes they were."""
        last_arrival = time.monotonic()
        while self._tally.messages < count:
            served = _call("consume_callback_queue")(
                self._queue, _WAIT_MS, self._count, ctypes.byref(self._tally)
            )
            now = time.monotonic()
            if served:
                last_arrival = now
            elif now - last_arrival > _SILENCE_SECONDS:
                raise LoadFailed(
                    f"only {self._tally.messages} of {count} messages came, "
                    f"and none in the last {_SILENCE_SECONDS:.0f} s"
                )
        if self._tally.errors:
            raise LoadFailed(f"{self._tally.errors} consumer errors among {count} messages")
        return int(self._tally.bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the consumer without committing anything."""
        _call("queue_destroy")(self._queue)
        _call("consumer_close")(self._client)
        _call("destroy")(self._client)
