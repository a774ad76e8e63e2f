"""Thousands of broken requests: each is answered or refused, and none leaves a mark.

`FUZZ_SEED` chooses other requests, and `FUZZ_SECONDS` a longer run.
"""

import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.broker.apis import APIS, Api
from headrace.broker.guard import ProtocolError
from headrace.broker.protocol import get, message_codec, read_client_id
from headrace.broker.topics import MAX_PARTITIONS
from headrace.records import Codec, build_batch
from headrace.records.validate import write_checksum
from tests.broker.process import BrokerProcess
from tests.broker.random_messages import encoded, random_entity, request_class

SEED = int(os.environ.get("FUZZ_SEED", "20260"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", "5"))

TOPICS = ("alpha", "beta", "gamma.delta")
GROWTH_BYTES = 48 << 20
"""How much larger a broker may become by serving all its APIs for the first time."""

PROBE_ID = 0x7EA5E
PROBE = struct.pack(">ihhih", 10, 18, 0, PROBE_ID, -1)
"""A request that is answered at once, unless one before it on the connection still waits."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data", "--flush", "os")
    with broker.running():
        yield broker
        assert broker.stop() == 0


class Fuzzer:
    """Sends frames and notices what the broker makes of them."""

    def __init__(self, broker: BrokerProcess, source: random.Random) -> None:
        self._port = broker.port
        self._source = source
        self._socket: socket.socket | None = None
        self.answered = 0
        self.refused = 0

    def send(self, frames: bytes, *, patience: float = 0.02) -> None:
        """Send bytes in pieces, then a probe; go on when it is answered or the broker hangs up."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), 5)
            self._socket.settimeout(patience)
        try:
            for piece in self._pieces(frames + PROBE):
                self._socket.sendall(piece)
            outcome = self._await_probe()
        except TimeoutError:
            # A long poll, or a length that promises more bytes than were sent.
            outcome = False
        except ConnectionError:
            outcome = False
            self.refused += 1
        if outcome:
            self.answered += 1
        else:
            self.close()

    def close(self) -> None:
        """Leave, whatever is under way."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        if self._source.random() < 0.8:
            yield data
            return
        cut = self._source.randrange(len(data))
        yield data[:cut]
        yield data[cut:]

    def _await_probe(self) -> bool:
        assert self._socket is not None
        received = b""
        while True:
            while len(received) >= 8:
                size, correlation_id = struct.unpack_from(">ii", received)
                if len(received) < 4 + size:
                    break
                if correlation_id == PROBE_ID:
                    return True
                received = received[4 + size :]
            more = self._socket.recv(1 << 16)
            if not more:
                self.refused += 1
                return False
            received += more


def choices(source: random.Random) -> dict[str, tuple[object, ...]]:
    """Names that exist, numbers that a broker can afford, and batches to break."""
    return {
        "string": (*TOPICS, "", "x", "group", "retention.ms", "\n" * 40, "é" * 300, "n" * 32_000),
        "num_partitions": (-1, 0, 1, 2, 5),
        "count": (0, 1, 2, 3),
        "max_wait": (*[timedelta(0)] * 9, timedelta(milliseconds=1), timedelta(days=1)),
        "records": tuple(batch(source) for _ in range(3)),
        "partition": (0, 1, 2, -1),
        "partition_index": (0, 1, 2, -1),
        "index": (0, 1, 2, -1),
    }


def batch(source: random.Random) -> bytes:
    """A record batch, broken more often than not, sometimes under a matching checksum."""
    data = build_batch(
        [(b"key", source.randbytes(source.choice((0, 1, 100, 5_000)))) for _ in range(3)],
        timestamp=source.choice((-1, 0, int(time.time() * 1000), 2**62)),
        codec=source.choice(tuple(Codec)),
    )
    if source.random() < 0.6:
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(min(len(data), source.choice((61, 10_000))))] = source.choice(
                (0, 1, 0x7F, 0x80, 0xFF, source.randrange(256))
            )
        if source.random() < 0.7 and struct.unpack_from(">i", data, 8)[0] == len(data) - 12:
            write_checksum(data)
    if source.random() < 0.1:
        del data[source.randrange(len(data)) :]
    return bytes(data + data if source.random() < 0.05 else data)


def request(api: Api, version: int, source: random.Random) -> bytes:
    """A valid request of an API, its length first."""
    entity = random_entity(request_class(api.name, version), source, choices(source))
    header = struct.pack(">hhih", api.key, version, 1, 4) + b"fuzz"
    if message_codec(api.name, version).flexible_request:
        header += b"\0"
    body = header + encoded(entity)
    return struct.pack(">i", len(body)) + body


def mutated(frame: bytes, source: random.Random) -> bytes:
    """A frame with a few bytes changed, cut out or put in, and mostly with the right length."""
    body = bytearray(frame[4:])
    for _ in range(source.choice((0, 0, 1, 1, 2, 16))):
        place = source.randrange(len(body))
        match source.randrange(4):
            case 0:
                body[place] = source.choice((0, 1, 0x7F, 0x80, 0xFF, body[place] ^ 1))
            case 1:
                body[place : place + 4] = source.choice(
                    (b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4), source.randbytes(4))
                )
            case 2:
                del body[place : place + source.choice((1, 2, 8, 1_000))]
                body = body or bytearray(b"\0")
            case 3:
                body[place:place] = source.randbytes(source.choice((1, 4, 100)))
    size = len(body)
    if source.random() < 0.02:
        size = source.choice((-1, 0, 1, size + 1, 2**31 - 1))
    return struct.pack(">i", size) + body


def affordable(frame: bytes) -> bool:
    """Whether serving a request would not rightly cost a lot: it makes few partitions."""
    key, version = struct.unpack_from(">hh", frame.ljust(8, b"\xff"), 4)
    api = APIS.get(key)
    if api is None or api.name not in ("create_topics", "create_partitions"):
        return True
    if not api.first <= version <= api.last:
        return True
    codec = message_codec(api.name, version)
    view = memoryview(frame)[4:]
    try:
        _, body = read_client_id(view, 8, flexible=codec.flexible_request)
        parsed = codec.read(view, body)
    except ProtocolError:
        return True
    counts = (get(one, "num_partitions", get(one, "count", 0)) for one in parsed.topics)
    return all(not 16 < count <= MAX_PARTITIONS for count in counts)


def resident_bytes(broker: BrokerProcess) -> int:
    """The memory a broker occupies."""
    fields = Path(f"/proc/{broker.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_broken_requests_of_every_api_are_refused_and_leave_no_mark(broker: BrokerProcess) -> None:
    print(f"FUZZ_SEED={SEED}")
    source = random.Random(SEED)
    fuzzer = Fuzzer(broker, source)
    served = [(api, version) for api in APIS.values() for version in range(api.first, api.last + 1)]
    for api, version in served:
        fuzzer.send(request(api, version, source))
    before = resident_bytes(broker)
    deadline = time.monotonic() + SECONDS
    sent = 0
    while time.monotonic() < deadline:
        api, version = source.choice(served)
        count = source.choice((1, 1, 1, 3))
        frames = [mutated(request(api, version, source), source) for _ in range(count)]
        if all(map(affordable, frames)):
            fuzzer.send(b"".join(frames))
            sent += len(frames)
    fuzzer.close()
    survivor = Fuzzer(broker, source)
    survivor.send(b"", patience=10)
    assert survivor.answered == 1
    survivor.close()
    print(f"{sent} requests, {fuzzer.answered} answered, {fuzzer.refused} refused")
    assert "Traceback" not in broker.log, broker.log[-6_000:]
    assert fuzzer.answered
    assert fuzzer.refused
    assert resident_bytes(broker) - before < GROWTH_BYTES
