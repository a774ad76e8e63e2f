"""What the console makes of what flows, captures and sinks tell."""

from pathlib import Path
from typing import Any

from headrace.console.observing.captures import CaptureRow, TableSeen
from headrace.console.observing.flows import FlowsGatherer
from headrace.console.observing.sinks import SinksGatherer
from headrace.kafka.statuses import SILENCE_MS
from headrace.settings import StreamsSettings
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.registry import Registry, RegistryFile, StoredOutput
from headrace.streams.versions import FIRST, Version


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 100_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def output(state: str = "running", **told: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("read", "written", "rejected", "lost", "late", "restarts"), 0)
    return {
        **counts,
        "output": "totals",
        "state": state,
        "lag": 3,
        "error": None,
        "reads": ["orders"],
        "writes": "totals",
        "dead_letters": ["rejected"],
        **told,
    }


def status(at_ms: int, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "flow": "shop",
        "name": "1",
        "at_ms": at_ms,
        "host": "here",
        "process": 7,
        "outputs": list(outputs),
    }


def gatherer(tmp_path: Path, clock: Clock) -> FlowsGatherer:
    return FlowsGatherer(StreamsSettings(checkpoints=str(tmp_path)), clock=clock)


def test_a_flow_is_as_its_worst_output(tmp_path: Path) -> None:
    clock = Clock()
    flows = gatherer(tmp_path, clock)
    told = status(clock.ms, output(), output("waiting", rejected=2, late=1, error="no luck"))
    row = flows.gather({"flow/shop": told}).rows["shop"]
    assert (row.state, row.healthy, row.dropped, row.error) == ("waiting", False, 3, "no luck")
    assert row.reads == ["orders"]
    assert row.writes == ["rejected", "totals"]
    assert row.lag == 3


def test_whoever_falls_silent_is_gone_unless_it_had_ended(tmp_path: Path) -> None:
    clock = Clock()
    flows = gatherer(tmp_path, clock)
    statuses = {
        "flow/shop": status(clock.ms, output()),
        "flow/done": status(clock.ms, output("finished")),
    }
    clock.ms += SILENCE_MS + 1
    rows = flows.gather(statuses).rows
    assert rows["shop"].state == "silent"
    assert not rows["shop"].healthy
    assert rows["done"].state == "finished"
    assert rows["done"].healthy


def test_rates_are_taken_between_two_reports_and_survive_a_new_start(tmp_path: Path) -> None:
    clock = Clock()
    flows = gatherer(tmp_path, clock)
    flows.gather({"flow/shop": status(clock.ms, output(read=100))})
    clock.ms += 2_000
    row = flows.gather({"flow/shop": status(clock.ms, output(read=300))}).rows["shop"]
    assert row.rate == 100.0
    clock.ms += 1_000
    row = flows.gather({"flow/shop": status(clock.ms, output(read=50))}).rows["shop"]
    assert row.rate == 50.0, "a run that was started again counts from nothing"


def test_a_flow_that_says_nothing_is_known_by_what_is_stored(tmp_path: Path) -> None:
    stored = StoredOutput({"orders": "orders"}, (), "totals", "totals")
    RegistryFile(LocalPlace(tmp_path)).change(
        lambda registry: Registry().noted(Version("quiet", FIRST), {"totals": stored})
    )
    row = gatherer(tmp_path, Clock()).gather({}).rows["quiet"]
    assert (row.state, row.runs, row.reads, row.writes) == ("known", False, ["orders"], ["totals"])


def test_a_batch_knows_what_it_has_read(tmp_path: Path) -> None:
    told = {
        "flow": "shop",
        "output": "totals",
        "number": 4,
        "started_ms": 1_000,
        "took_ms": 500,
        "rows": 5,
        "reads": {"orders": {"0": [10, 15]}},
    }
    (batch,) = gatherer(tmp_path, Clock()).gather({"batch/shop/totals/4": told}).batches
    assert batch.has_read("orders", 0, 10)
    assert batch.has_read("orders", 0, 14)
    assert not batch.has_read("orders", 0, 15)
    assert not batch.has_read("orders", 1, 10)
    assert not batch.has_read("others", 0, 10)
    assert batch.ended_ms == 1_500


def test_a_capture_says_how_much_of_its_tables_is_read() -> None:
    tables = (TableSeen("a", "t.a", 25, 100, False, 1), TableSeen("b", "t.b", 100, 100, True, 3))
    row = CaptureRow(
        "shop", "", "reading tables", False, 0, None, None, None, "", 0, None, 0, "", tables
    )
    assert row.progress == 0.625
    assert row.schema_changes == 2
    assert row.healthy


def test_a_sink_is_shown_with_its_rate_and_its_failure() -> None:
    clock = Clock()
    told: dict[str, Any] = {
        "name": "orders-to-copy",
        "topic": "orders",
        "store": "sqlite:///copy.db",
        "condition": "copying",
        "rows": 10,
        "rejected": 0,
        "lost": 0,
        "behind": 4,
        "restarts": 0,
        "failure": None,
        "at_ms": clock.ms,
    }
    statuses = {"sink/orders-to-copy": told}
    sinks = SinksGatherer(lambda: statuses, clock=clock)
    sinks.gather()
    clock.ms += 1_000
    told |= {"rows": 30, "at_ms": clock.ms}
    row = sinks.gather().rows["orders-to-copy"]
    assert (row.rate, row.health, row.detail) == (20.0, "ok", "sqlite, 4 behind")
    told |= {"condition": "waiting for another try", "failure": "it is locked"}
    row = sinks.gather().rows["orders-to-copy"]
    assert (row.health, row.rate, row.failure) == ("bad", 0.0, "it is locked")
