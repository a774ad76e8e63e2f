"""Flows, as they tell about themselves from wherever they run, and as they are stored."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.clock import Clock, SystemClock
from headrace.kafka.statuses import SILENCE_MS, Status
from headrace.settings import StreamsSettings
from headrace.streams.running.places import is_local, root_of
from headrace.streams.running.registry import Registry, RegistryFile
from headrace.streams.running.reporting import BATCHES, PREFIX
from headrace.streams.versions import Version

_HISTORY: Final = 120
"""Looks whose rates are remembered, for the charts."""

_ENDED: Final = ("stopped", "finished", "given up")

_ORDER: Final = ("given up", "silent", "waiting", "starting", "running", "stopped", "finished")
"""States of outputs, the one that says most about a flow first."""


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """A batch that a query has told of."""

    flow: str
    output: str
    number: int
    started_ms: int
    took_ms: int
    rows: int
    reads: Mapping[str, Mapping[str, tuple[int, int]]]

    @property
    def ended_ms(self) -> int:
        """When it was done."""
        return self.started_ms + self.took_ms

    def has_read(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a record was among what it read."""
        first, end = self.reads.get(topic, {}).get(str(partition), (0, 0))
        return first <= offset < end


@dataclass(frozen=True, slots=True)
class FlowRow:
    """One version of a flow; `outputs` is what each of its queries told last."""

    title: str
    flow: str
    version: str
    current: bool
    state: str
    heard_ms: int | None
    host: str
    process: int
    outputs: tuple[Mapping[str, Any], ...]
    history: tuple[tuple[int, float], ...] = ()
    """Times, and rows read per second."""

    @property
    def healthy(self) -> bool:
        """Whether all of it does what it should, or was told to do nothing."""
        return self.state in ("running", "starting", "stopped", "finished", "known")

    @property
    def runs(self) -> bool:
        """Whether a process has it now."""
        return self.state in ("running", "starting", "waiting")

    @property
    def rate(self) -> float:
        """Rows read per second, lately."""
        return self.history[-1][1] if self.history else 0.0

    @property
    def lag(self) -> int | None:
        """Records still to be read, by the output that is furthest behind."""
        return max((each["lag"] for each in self.outputs if each["lag"] is not None), default=None)

    @property
    def dropped(self) -> int:
        """Records that did not make it into a result: rejected, lost, late."""
        return sum(each["rejected"] + each["lost"] + each["late"] for each in self.outputs)

    @property
    def restarts(self) -> int:
        """How often one of its queries was started again in this run."""
        return sum(each["restarts"] for each in self.outputs)

    @property
    def error(self) -> str:
        """What last went wrong."""
        return next((each["error"] for each in self.outputs if each["error"]), "")

    @property
    def reads(self) -> list[str]:
        """The topics that it reads."""
        return sorted({topic for each in self.outputs for topic in each["reads"]})

    @property
    def writes(self) -> list[str]:
        """The topics that it writes, dead letters too."""
        written = {each["writes"] for each in self.outputs if each["writes"]}
        return sorted(written | {one for each in self.outputs for one in each["dead_letters"]})


@dataclass(frozen=True, slots=True)
class FlowsSample:
    """All flows at one moment."""

    rows: Mapping[str, FlowRow] = field(default_factory=dict)
    """By title, such as "orders" or "orders@v2"."""

    batches: tuple[BatchSeen, ...] = ()


class FlowsGatherer:
    """Makes flows of statuses and of the registry; remembers rates. Belongs to one thread."""

    def __init__(self, settings: StreamsSettings, *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._history: dict[str, deque[tuple[int, float]]] = {}
        self._read: dict[str, tuple[int, int]] = {}

    def gather(self, statuses: Mapping[str, Status]) -> FlowsSample:
        """All flows, by what was told and by what is stored."""
        now, registry = self._clock.now_ms(), self._registry()
        rows: dict[str, FlowRow] = {}
        for key, told in statuses.items():
            if key.startswith(PREFIX):
                row = self._row(key.removeprefix(PREFIX), told, registry, now)
                rows[row.title] = row
        for flow, stored in registry.flows.items():
            for name, outputs in stored.versions.items():
                title = Version(flow, name).title
                if title not in rows:
                    current = name == stored.current
                    ends = [
                        _unheard(output, sorted(each.reads.values()), each.writes)
                        for output, each in outputs.items()
                    ]
                    rows[title] = FlowRow(
                        title, flow, name, current, "known", None, "", 0, tuple(ends)
                    )
        told_batches = (each for key, each in statuses.items() if key.startswith(BATCHES))
        batches = sorted(map(_batch, told_batches), key=lambda each: each.started_ms)
        return FlowsSample(dict(sorted(rows.items())), tuple(batches))

    def _registry(self) -> Registry:
        """What is stored beside this console; flows that keep theirs elsewhere tell it."""
        if not is_local(self._settings.checkpoints):
            return Registry()
        return RegistryFile(root_of(self._settings, _no_spark)).read()

    def _row(self, title: str, told: Status, registry: Registry, now: int) -> FlowRow:
        outputs = tuple(told["outputs"])
        state = _state(told, now)
        known = registry.flows.get(told["flow"])
        return FlowRow(
            title,
            told["flow"],
            told["name"],
            known is None or known.current == told["name"],
            state,
            told["at_ms"],
            told["host"],
            told["process"],
            outputs,
            self._rates(title, outputs, told["at_ms"], now, alive=state not in _ENDED),
        )

    def _rates(
        self,
        title: str,
        outputs: Iterable[Mapping[str, Any]],
        at_ms: int,
        now: int,
        *,
        alive: bool,
    ) -> tuple[tuple[int, float], ...]:
        """Rows per second, by how many had been read at two times at which it was told."""
        history = self._history.setdefault(title, deque(maxlen=_HISTORY))
        read = sum(each["read"] for each in outputs)
        then, before = self._read.get(title, (at_ms, read))
        if at_ms > then and alive:
            # A run that was started again counts from nothing.
            grown = read - before if read >= before else read
            history.append((at_ms, grown * 1000 / (at_ms - then)))
        elif now - at_ms > SILENCE_MS or not alive:
            history.append((now, 0.0))
        self._read[title] = (at_ms, read)
        return tuple(history)


def _state(told: Status, now: int) -> str:
    states = {str(each["state"]) for each in told["outputs"]}
    if now - told["at_ms"] > SILENCE_MS and not states <= set(_ENDED):
        return "silent"
    return next((each for each in _ORDER if each in states), "starting")


def _batch(told: Status) -> BatchSeen:
    return BatchSeen(
        told["flow"],
        told["output"],
        told["number"],
        told["started_ms"],
        told["took_ms"],
        told["rows"],
        {
            topic: {number: (first, end) for number, (first, end) in partitions.items()}
            for topic, partitions in told["reads"].items()
        },
    )


def _unheard(output: str, reads: list[str], writes: str | None) -> dict[str, Any]:
    """An output of a flow that has told nothing."""
    counts = dict.fromkeys(("read", "written", "rejected", "lost", "late", "implausible"), 0)
    return {
        **counts,
        "output": output,
        "state": "known",
        "batch": None,
        "batch_ms": None,
        "rate": 0.0,
        "lag": None,
        "restarts": 0,
        "error": None,
        "time": None,
        "state_rows": 0,
        "state_bytes": 0,
        "split_ms": {},
        "reads": reads,
        "patterns": [],
        "writes": writes,
        "sink": None,
        "dead_letters": [],
    }


def _no_spark() -> Any:
    raise AssertionError("a local directory needs no Spark")
