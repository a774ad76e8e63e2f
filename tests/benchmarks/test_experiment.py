import json
from dataclasses import replace

import pytest

from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, NothingMeasured, chosen, medians, results, run
from benchmarks.report import Better, Row

FAST = Row("speed", "msg/s", Better.HIGHER, "rate", "ours", "theirs", 1.0)
SAFE = Row("speed_fsync", "msg/s", Better.HIGHER, "rate", "ours, safe", "theirs")


class Sides:
    """Sides that give prepared figures and remember in which order they were asked."""

    def __init__(self, **figures: list[float]) -> None:
        self.asked: list[str] = []
        self._figures = {name: iter(values) for name, values in figures.items()}

    def __getitem__(self, name: str):
        def measure() -> dict[str, float]:
            self.asked.append(name)
            return {"rate": next(self._figures[name])}

        return measure


def experiment_of(sides: Sides, rounds: int, warm_up: int = 1) -> Experiment:
    measures = {"ours": sides["ours"], "theirs": sides["theirs"]}
    return Experiment("speed", measures, (FAST,), rounds=rounds, warm_up=warm_up)


def test_rounds_alternate_between_the_sides_and_turn_round_each_time():
    sides = Sides(ours=[1] * 3, theirs=[1] * 3)
    medians(experiment_of(sides, rounds=2))
    assert sides.asked == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_a_side_is_judged_by_the_median_of_its_rounds_without_the_warm_up():
    sides = Sides(ours=[1000, 10, 30, 20], theirs=[1, 10, 10, 500])
    (result,) = results(experiment_of(sides, rounds=3))
    assert (result.headrace, result.peer, result.ratio) == (20, 10, 2.0)


def test_a_peer_without_a_figure_is_an_error_and_not_a_division_by_zero():
    sides = Sides(ours=[1], theirs=[0])
    with pytest.raises(NothingMeasured, match="theirs shows nothing for speed"):
        results(experiment_of(sides, rounds=1, warm_up=0))


def test_only_the_metrics_asked_for_run_and_only_on_the_sides_they_need():
    sides = Sides(ours=[], theirs=[])
    every = replace(
        experiment_of(sides, rounds=5),
        sides={name: sides[name] for name in ("ours", "ours, safe", "theirs")},
        rows=(FAST, SAFE),
    )
    (one,) = chosen([every], Options(only=("*_fsync",), rounds=2))
    assert one.rows == (SAFE,)
    assert list(one.sides) == ["ours, safe", "theirs"]
    assert one.rounds == 2
    assert chosen([every], Options())[0].rows == (FAST, SAFE)


def test_a_metric_that_does_not_exist_is_refused_with_those_that_do():
    sides = Sides(ours=[], theirs=[])
    with pytest.raises(NothingMeasured, match=r"no metric is named sped; there are speed"):
        chosen([experiment_of(sides, rounds=1)], Options(only=("sped",)))


def test_a_run_ends_in_one_line_of_json(capsys):
    sides = Sides(ours=[1, 3], theirs=[1, 2])
    run("tiny", [experiment_of(sides, rounds=1)], Options())
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["benchmark"] == "tiny"
    assert report["results"][0]["ratio"] == 1.5


def test_options_are_read_from_the_command_line():
    given = ["--quick", "--rounds", "3", "--only", "start", "--only", "sync_*"]
    assert Options.parse("", given) == Options(quick=True, rounds=3, only=("start", "sync_*"))
    assert Options.parse("", []) == Options()
    with pytest.raises(SystemExit):
        Options.parse("", ["--rounds", "0"])


def test_an_error_ends_the_command_with_one_line():
    with pytest.raises(SystemExit, match="NothingMeasured: the disk is full"), command():
        raise NothingMeasured("the disk is full")
