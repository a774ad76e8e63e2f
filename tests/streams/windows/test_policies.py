"""Every kind of window with every policy: events in, changes out, without Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.streams.windows import Window, hopping, session, sliding, tumbling
from headrace.streams.windows.aggregates.sums import Count
from headrace.streams.windows.measures import Call
from headrace.streams.windows.operators import window_operator
from headrace.testing import GoldenCase, golden_cases
from headrace.testing.golden.cases import Act, Expect, Send
from headrace.testing.golden.checking import compare
from headrace.testing.golden.playing import Played
from tests.streams.windows.bucket import WindowRun
from tests.streams.windows.times import SECOND, at, of_day

GOLDEN = Path(__file__).parent / "golden" / "policies.txt"
BETWEEN = 4 * SECOND
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC"))])
KINDS: dict[str, Window] = {
    "tumbling": tumbling("5 minutes"),
    "hopping": hopping("4 minutes", "2 minutes"),
    "sliding": sliding("5 minutes"),
    "session": session("2 minutes"),
}


@pytest.mark.parametrize("case", golden_cases(GOLDEN), ids=str)
def test_policies(case: GoldenCase, pytestconfig: pytest.Config):
    compare(case, played(case), update=pytestconfig.getoption("--update-golden"))


def played(case: GoldenCase) -> Played:
    run, found = WindowRun(operator(**case.settings), SCHEMA), Played()
    sent: list[dict[str, Any]] = []
    latest, clock, told, late = 0, 0, 0, 0
    for part in case.parts:
        match part:
            case Send():
                sent += [{"at": at(row["at"])} for row in part.rows]
            case Act("step"):
                latest = max(latest, *(each["at"] for each in sent))
                run.batch(sent, latest, clock)
                sent, clock = [], clock + BETWEEN
            case Expect("changes"):
                found.seen[part] = [change(each) for each in run.changes[told:]]
                told = len(run.changes)
            case Expect("late"):
                found.seen[part] = [{"at": of_day(each["at"])} for each in run.late[late:]]
                late = len(run.late)
    return found


def operator(kind: str, late: str, emit: str, lateness: str | None = None) -> Any:
    return window_operator(
        "windows",
        KINDS[kind],
        by=(),
        aggregates={"n": Call(Count())},
        time="at",
        input_schema=SCHEMA,
        late=late,
        lateness=lateness,
        emit=emit,
    )


def change(told: tuple[Any, ...]) -> dict[str, Any]:
    start, end, count, kind = told
    return {"from": of_day(start), "to": of_day(end), "n": count, "change": kind}
