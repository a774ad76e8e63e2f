"""What a checkpoint remembers of its query, and what it refuses to be continued by."""

import json
from pathlib import Path

import pytest

from headrace.kafka import Partition
from headrace.streams import Flow
from headrace.streams.running.checkpoints import Checkpoint, checkpoint_of, committed_in
from headrace.streams.running.errors import CheckpointMismatch, FlowAlreadyRunning
from headrace.streams.running.lock import locked
from headrace.streams.running.places import LocalPlace


def checkpoint(
    directory: Path, *, flow: str = "shop", topic: str = "orders", out: str = "large"
) -> Checkpoint:
    described = Flow(flow)
    described.topic(out, described.stream(topic, "x int"), output="large")
    return checkpoint_of(flow, described.outputs[0], LocalPlace(directory))


def test_a_new_checkpoint_fits_and_so_does_its_own_query(tmp_path: Path):
    first = checkpoint(tmp_path)
    first.check()
    first.check_plan(("Aggregate by x",), ("orders",))
    again = checkpoint(tmp_path)
    again.check()
    again.check_plan(("Aggregate by x",), ("orders",))


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
    checkpoint(tmp_path).check_plan((), ("orders",))
    with pytest.raises(CheckpointMismatch, match=message):
        checkpoint(tmp_path, **edit).check()


def test_state_that_would_not_fit_is_refused_with_the_ways_out(tmp_path: Path):
    checkpoint(tmp_path).check_plan(("Aggregate by x",), ("orders",))
    with pytest.raises(CheckpointMismatch) as raised:
        checkpoint(tmp_path).check_plan(("Aggregate by y",), ("orders",))
    for way in ("Undo the edit", "headrace run FILE --rebuild as NAME", "delete that directory"):
        assert way in str(raised.value)


def test_sources_inside_of_a_pipe_keep_their_order(tmp_path: Path):
    checkpoint(tmp_path).check_plan((), ("orders", "refunds"))
    with pytest.raises(CheckpointMismatch, match="reads refunds, then orders now"):
        checkpoint(tmp_path).check_plan((), ("refunds", "orders"))


@pytest.mark.parametrize(
    ("source", "target"), [("id", ["id", "shop"]), (["id", "shop"], "id"), ("shop", "id")]
)
def test_a_table_keeps_the_key_that_it_was_written_under(
    tmp_path: Path, source: str | list[str], target: str | list[str]
):
    def of(table_key: str | list[str], key: str | list[str]) -> Checkpoint:
        flow = Flow("shop")
        table = flow.table("items", "id string, shop string", key=table_key)
        flow.topic("out", table, key=key)
        return checkpoint_of("shop", flow.outputs[0], LocalPlace(tmp_path))

    of("id", "id").check_plan((), ("items",))
    with pytest.raises(CheckpointMismatch, match="table by"):
        of(source, target).check()
    of("id", "id").check()


def test_a_stream_may_get_another_key(tmp_path: Path):
    def of(key: str) -> Checkpoint:
        flow = Flow("shop")
        flow.topic("out", flow.stream("orders", "x int, y int"), key=key)
        return checkpoint_of("shop", flow.outputs[0], LocalPlace(tmp_path))

    of("x").check_plan((), ("orders",))
    of("y").check()


def test_a_name_that_stands_for_another_topic_now_is_explained(tmp_path: Path):
    def of(aliases: dict[str, str]) -> Checkpoint:
        flow = Flow("mailer")
        flow.topic("mails", flow.stream("large", "x int"))
        return checkpoint_of("mailer", flow.outputs[0], LocalPlace(tmp_path), aliases)

    of({}).check_plan((), ("large",))
    with pytest.raises(
        CheckpointMismatch, match=r"reads large\.v2 as json now.* large means large"
    ):
        of({"large": "large.v2"}).check()


def test_where_a_query_goes_on_is_behind_its_last_finished_batch(tmp_path: Path):
    place = LocalPlace(tmp_path)
    assert committed_in(place) is None
    for batch, (first, second) in enumerate([(3, 4), (7, 5), (9, 9)]):
        offsets = [{"version": 1, "topics": {"orders": {"0": each}}} for each in (first, second)]
        lines = ["v1", "{}", *map(json.dumps, offsets)]
        place.child("spark").child("offsets").write(str(batch), "\n".join(lines))
    place.child("spark").child("commits").write("0", "v1\n{}")
    place.child("spark").child("commits").write("1", "v1\n{}")
    assert committed_in(place) == {Partition("orders", 0): 5}


def test_a_manifest_of_another_version_is_not_guessed_at(tmp_path: Path):
    ours = checkpoint(tmp_path)
    ours.check_plan((), ("orders",))
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
