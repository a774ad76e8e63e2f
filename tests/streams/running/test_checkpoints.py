"""What a checkpoint remembers of its query, and what it refuses to be continued by."""

import json
from pathlib import Path

import pytest

from headrace.streams import Flow
from headrace.streams.running.checkpoints import Checkpoint, checkpoint_of
from headrace.streams.running.errors import CheckpointMismatch, FlowAlreadyRunning
from headrace.streams.running.lock import locked
from headrace.streams.running.places import LocalPlace


def checkpoint(
    directory: Path, *, flow: str = "shop", topic: str = "orders", out: str = "large"
) -> Checkpoint:
    described = Flow(flow)
    described.topic(out, described.stream(topic, "x int"), output="large")
    return checkpoint_of(described, described.outputs[0], LocalPlace(directory))


def test_a_new_checkpoint_fits_and_so_does_its_own_query(tmp_path: Path):
    first = checkpoint(tmp_path)
    first.check()
    first.check_state(("Aggregate [x]",))
    again = checkpoint(tmp_path)
    again.check()
    again.check_state(("Aggregate [x]",))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"flow": "other"}, "output large of flow shop, and this is output large of flow other"),
        ({"topic": "payments"}, "reads payments as json now, but .* reads orders as json"),
        ({"out": "huge"}, "writes topic huge now, but .* writes topic large"),
    ],
)
def test_what_belongs_to_something_else_is_refused(
    tmp_path: Path, edit: dict[str, str], message: str
):
    checkpoint(tmp_path).check_state(())
    with pytest.raises(CheckpointMismatch, match=message):
        checkpoint(tmp_path, **edit).check()


def test_state_that_would_not_fit_is_refused_with_the_ways_out(tmp_path: Path):
    checkpoint(tmp_path).check_state(("Aggregate [x], [count(1)]",))
    with pytest.raises(CheckpointMismatch) as raised:
        checkpoint(tmp_path).check_state(("Aggregate [y], [count(1)]",))
    for way in ("Undo the edit", "other names", "delete that directory"):
        assert way in str(raised.value)


def test_a_manifest_of_another_version_is_not_guessed_at(tmp_path: Path):
    ours = checkpoint(tmp_path)
    ours.check_state(())
    file = tmp_path / "large" / "headrace.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))
    with pytest.raises(CheckpointMismatch, match="another version of Headrace"):
        ours.check()


def test_the_range_of_a_batch_is_read_from_spark_s_notes(tmp_path: Path):
    notes = tmp_path / "large" / "spark" / "offsets"
    notes.mkdir(parents=True)

    def note(batch: int, **offsets: object) -> None:
        (notes / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'version': 1, **offsets})}")

    note(0, topics={"orders": {"0": 10, "1": 4}}, begins={"orders": {"0": 2, "1": 4}})
    note(1, topics={"orders": {"0": 10, "1": 9}})
    ours = checkpoint(tmp_path)
    assert ours.input_range(0) == "orders-0 offsets 2 to 9"
    assert ours.input_range(1) == "orders-1 offsets 4 to 8"
    assert ours.input_range(7) == "an unknown range"


def test_a_flow_runs_once_at_a_time(tmp_path: Path):
    with locked(tmp_path, "shop"):
        with pytest.raises(FlowAlreadyRunning, match=r"running already, in process \d+") as raised:
            locked(tmp_path, "shop").__enter__()
        assert "Stop that one first" in str(raised.value)
    with locked(tmp_path, "shop"):
        pass
