"""What people and Prometheus see of running queries."""

import io
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from rich.console import Console

from headrace.prometheus import served
from headrace.streams.running.branches import Heard
from headrace.streams.running.display import Lines, display_for, line_of
from headrace.streams.running.metrics import exposition
from headrace.streams.running.progress import RECENT_BATCHES, QueryProgress, QueryState, Tally
from headrace.streams.running.screen import Bar, CatchingUp, Screen
from headrace.streams.sinks.applying import Applied
from headrace.streams.sinks.contract import Batch
from headrace.streams.time.standing import SourceTime, Standing

RUNNING = QueryProgress(
    "shop", "large", QueryState.RUNNING, 7, read=1200, written=80, rate=950.4, batch_ms=120, lag=3
)
WAITING = QueryProgress("shop", "small", QueryState.WAITING, restarts=2, error="Disk is full")


class Progress:
    """Spark's progress of one trigger."""

    def __init__(self, batch: int, rows: int, *, idle: bool = False, end: int = 0) -> None:
        self.batchId = batch
        self.numInputRows = rows
        self.processedRowsPerSecond = 100.0
        self.durationMs = {"triggerExecution": 50, **({} if idle else {"addBatch": 40})}
        self.timestamp = f"2026-01-01T10:00:{batch:02}.000Z"
        self.sources = [Source(end - rows, end)]
        self.sink = Sink()
        self.stateOperators = [StateOperator()]
        self.observedMetrics: dict[str, dict[str, int | None]] = {}


class StateOperator:
    """Something that keeps state."""

    numRowsTotal = 30  # noqa: N815 - Spark's name
    memoryUsedBytes = 4000  # noqa: N815 - Spark's name


class Sink:
    """A sink of ours, of which Spark knows nothing."""

    numOutputRows = -1  # noqa: N815 - Spark's name


class Source:
    """One source of it, with ten records more than were read."""

    def __init__(self, start: int, end: int) -> None:
        self.startOffset: str | None = f'{{"topics": {{"orders": {{"0": {start}}}}}}}'
        self.endOffset = f'{{"topics": {{"orders": {{"0": {end}}}}}}}'
        self.latestOffset = f'{{"topics": {{"orders": {{"0": {end + 10}}}}}}}'


class Query:
    """Spark's query with what it last reported."""

    def __init__(self, *progress: Progress) -> None:
        self.recentProgress = list(progress)
        self.lastProgress = progress[-1] if progress else None


def test_batches_are_added_up_once_and_idle_triggers_are_none():
    tally = Tally("shop", "large")
    tally.look_at(Query())  # type: ignore[arg-type]
    query = Query(Progress(0, 5, end=5), Progress(1, 7, end=12), Progress(2, 0, idle=True, end=12))
    tally.look_at(query)  # type: ignore[arg-type]
    tally.look_at(query)  # type: ignore[arg-type]
    now = tally.now
    assert (now.batch, now.read, now.lag, now.backlog, now.batch_ms) == (1, 12, 10, 15, 50)
    assert now.rate == 0.0


def test_the_last_batches_are_remembered_with_what_they_read():
    tally = Tally("shop", "large")
    query = Query(Progress(0, 5, end=5), Progress(1, 7, end=12), Progress(2, 0, idle=True, end=12))
    tally.look_at(query)  # type: ignore[arg-type]
    first, second = tally.now.recent
    assert (first.number, second.number) == (0, 1)
    assert second.reads == {"orders": {"0": (5, 12)}}
    assert (second.started_ms, second.took_ms) == (1_767_261_601_000, 50)
    assert second.split_ms == {"addBatch": 40}
    assert (tally.now.state_rows, tally.now.state_bytes) == (30, 4000)

    many = Query(*(Progress(number, 1, end=number + 1) for number in range(60)))
    tally = Tally("shop", "large")
    tally.look_at(many)  # type: ignore[arg-type]
    assert len(tally.now.recent) == RECENT_BATCHES
    assert tally.now.recent[-1].number == 59


def test_what_is_written_counts_when_it_is_known_what_was_read_for_it():
    def applied(number: int, rows: int) -> Applied:
        return Applied(Batch("shop.large", number, 1), rows, 0, 0)

    tally = Tally("shop", "large")
    tally.applied(applied(0, 2))
    assert (tally.now.read, tally.now.written) == (0, 0)
    tally.applied(applied(1, 3))
    tally.look_at(Query(Progress(0, 5, end=5)))  # type: ignore[arg-type]
    assert (tally.now.read, tally.now.written) == (5, 2)
    tally.becomes(QueryState.WAITING)
    assert tally.now.written == 2
    tally.becomes(QueryState.STOPPED)
    assert tally.now.written == 5


def test_the_backlog_of_a_first_batch_is_counted_from_where_it_begins():
    progress = Progress(0, 5, end=105)
    (source,) = progress.sources
    source.startOffset = None
    source.endOffset = '{"topics": {"orders": {"0": 105}}, "begins": {"orders": {"0": 100}}}'
    tally = Tally("shop", "large")
    tally.look_at(Query(progress))  # type: ignore[arg-type]
    assert tally.now.backlog == 15


def test_what_was_skipped_is_added_up_and_shown():
    first, second, idle = Progress(0, 6, end=5), Progress(1, 7, end=12), Progress(2, 0, idle=True)
    first.observedMetrics = {
        "headrace.skipped.a": {"_rejected": 3, "_lost": 2, "_implausible": 4, "_rows": 1},
        "headrace.skipped.b": {"_rejected": None, "_lost": None, "_implausible": None, "_rows": 0},
        "another": {"_rejected": 100},
    }
    offsets = '{"topics": {"orders": {"0": 12}}, "lost": {"orders": {"0": %d}}}'
    second.sources[0].startOffset = offsets % 10
    second.sources[0].endOffset = offsets % 14
    tally = Tally("shop", "large")
    tally.look_at(Query(first, second, idle))  # type: ignore[arg-type]
    now = tally.now
    assert (now.read, now.rejected, now.lost, now.implausible) == (12, 3, 6, 4)
    assert line_of(now).endswith("3 rejected, 6 lost, 4 implausible")
    assert line_of(replace(now, late=2)).endswith("3 rejected, 6 lost, 2 late, 4 implausible")
    text = exposition([now])
    assert 'headrace_flow_records_rejected_total{flow="shop",output="large"} 3\n' in text
    assert 'headrace_flow_records_lost_total{flow="shop",output="large"} 6\n' in text
    assert 'headrace_flow_events_implausible_total{flow="shop",output="large"} 4\n' in text
    stream = io.StringIO()
    with Screen(stream) as screen:
        screen.show([now])
    assert "shop.large: 3 rejected, 6 lost" in stream.getvalue()


def test_how_far_time_has_come_is_shown_with_who_holds_it_back():
    ten = 1_767_261_600_000_000
    slow, quick, gone = (
        SourceTime("slow", ten, ten, idle=False),
        SourceTime('"quick"', ten + 90_500_000, ten, idle=False),
        SourceTime("gone", ten - 5_000_000, 0, idle=True),
    )
    tally = Tally("shop", "counts")
    tally.heard(Heard(2, Standing(ten, ten, (gone, quick, slow))))
    tally.heard(Heard())
    now = tally.now
    assert now.late == 2
    assert now.time is not None
    assert now.time.holding == "slow"
    said = "watermark 2026-01-01T10:00:00Z, held back by slow, 1 of 3 idle"
    assert line_of(now).endswith(f"{said}, 2 late")
    stream = io.StringIO()
    screen = Screen(stream)
    screen._console = Console(file=stream, width=300)
    screen._live.console = screen._console
    with screen:
        screen.show([now])
    assert f"shop.counts: {said} (slow at 2026-01-01T10:00:00Z" in stream.getvalue()
    assert "gone idle since 2026-01-01T09:59:55Z" in stream.getvalue()
    text = exposition([now])
    labels = 'flow="shop",output="counts"'
    assert f"headrace_flow_watermark_seconds{{{labels}}} 1767261600\n" in text
    quoted = f'{labels},source="\\"quick\\""'
    assert f"headrace_flow_source_bound_seconds{{{quoted}}} 1767261690.5\n" in text
    assert f'headrace_flow_source_holds_back{{{labels},source="slow"}} 1\n' in text
    assert f'headrace_flow_source_idle{{{labels},source="gone"}} 1\n' in text


def test_lines_are_written_now_and_then_and_at_the_end():
    stream = io.StringIO()
    lines = Lines(stream, every_seconds=1000)
    lines.show([RUNNING])
    assert stream.getvalue() == ""
    ended = QueryProgress("shop", "large", QueryState.FINISHED, read=3, written=1)
    lines.show([ended])
    lines.show([ended])
    assert stream.getvalue() == "shop.large: finished, 3 rows read, 1 written\n"
    assert line_of(replace(ended, read=1, restarts=1)) == (
        "shop.large: finished, 1 row read, 1 written, 1 restart"
    )
    always = Lines(stream, every_seconds=0)
    always.show([WAITING])
    assert stream.getvalue().endswith("shop.small: waiting, 0 rows read, 0 written, 2 restarts\n")


def test_where_nobody_watches_there_are_lines():
    assert isinstance(display_for(io.StringIO(), once=False), Lines)


@pytest.mark.parametrize("kind", [Screen, Bar])
def test_in_a_terminal_it_is_rewritten(kind: type[Screen] | type[Bar]):
    stream = io.StringIO()
    shown = kind(stream)
    shown._console = Console(file=stream, force_terminal=True, width=120)
    with shown:
        shown.show([RUNNING, WAITING])
        shown.say("small failed")
        shown.show([RUNNING, QueryProgress("shop", "small", QueryState.FINISHED)])
    assert "shop.large" in stream.getvalue()
    assert "small failed" in stream.getvalue()


def test_a_rebuild_shows_its_backlog_until_that_is_read():
    stream = io.StringIO()
    shown = CatchingUp(stream)
    behind = QueryProgress("shop@v2", "large", QueryState.RUNNING, 1, 40, lag=60, backlog=100)
    with shown:
        shown.show([behind])
        assert isinstance(shown._shown, Bar)
        shown.show([replace(behind, read=100, lag=0)])
        assert isinstance(shown._shown, Screen)
        shown.say("promote it now")
        shown.show([replace(behind, read=120, lag=3)])
        assert isinstance(shown._shown, Screen)
    assert "promote it now" in stream.getvalue()


def test_prometheus_reads_every_query():
    text = exposition([RUNNING, WAITING])
    assert 'headrace_flow_rows_read_total{flow="shop",output="large"} 1200\n' in text
    assert 'headrace_flow_lag_records{flow="shop",output="large"} 3\n' in text
    assert 'headrace_flow_restarts_total{flow="shop",output="small"} 2\n' in text
    assert 'headrace_flow_up{flow="shop",output="small"} 0\n' in text
    assert 'headrace_flow_lag_records{flow="shop",output="small"}' not in text


def test_metrics_are_served_while_the_flow_runs():
    with served("127.0.0.1:0", lambda: exposition([RUNNING])) as address:
        with urllib.request.urlopen(f"http://{address}/metrics") as answer:
            assert answer.read().decode() == exposition([RUNNING])
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(f"http://{address}/other")
        raised.value.close()
