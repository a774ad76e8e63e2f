"""Joins before anything runs: what they are called, what columns they have, what is refused."""

from datetime import timedelta
from typing import Any

import pytest

from headrace.streams import Flow
from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.outputs import TopicOutput
from headrace.streams.rows import Stream, Table


@pytest.fixture
def flow() -> Flow:
    return Flow("shop")


def searches(flow: Flow) -> Stream:
    return flow.stream("searches", "session string, query string, at timestamp", time="at")


def clicks(flow: Flow) -> Stream:
    return flow.stream("clicks", "session string, user int, at timestamp", time="at")


def users(flow: Flow) -> Table:
    return flow.table("users", "user int, name string, city int", key="user")


def cities(flow: Flow) -> Table:
    return flow.table("cities", "city int, name string", key="city")


def test_the_columns_of_both_sides_are_there_once_each(flow: Flow):
    joined = searches(flow).join(clicks(flow), on="session", within="1 hour")
    assert joined.columns == ("session", "query", "at", "user", "at_right")
    looked_up = clicks(flow).lookup(users(flow), on="user")
    assert looked_up.columns == ("session", "user", "at", "name", "city")
    table = users(flow).join(cities(flow), on="city")
    assert table.columns == ("user", "name", "city", "name_right", "_deleted")


def test_a_table_is_told_apart_by_what_is_needed_of_both_keys(flow: Flow):
    people, places = users(flow), cities(flow)
    assert people.join(places, on="city").key == ("user",)
    assert people.join(places, on="city", how="left").key == ("user",)
    assert people.join(places, on="city", how="full").key == ("user", "city")
    assert places.join(people, on="city").key == ("user",)
    assert people.join(people, on="city", suffix="_2").key == ("user", "user_2")
    assert people.group_by("city").agg(n="count(*)").key == ("city",)
    assert people.top(3, by="city", order="name desc").key == ("city", "user")


def test_a_flow_with_joins_can_be_printed(flow: Flow):
    joined = searches(flow).join(
        clicks(flow), on="session", within=("0 s", "1 hour"), how="left", condition="user > 0"
    )
    flow.topic("journeys", joined.lookup(users(flow), on="user", wait="1 minute"))
    flow.topic(
        "people", users(flow).join(cities(flow), on="city").group_by("city").agg(n="count(*)")
    )
    drawn = str(flow)
    assert "left join within 0 s before to 1 hour after  on session and user > 0" in drawn
    assert "lookup  on user, waits 1 minute" in drawn
    assert "inner join of tables  on city" in drawn
    assert "group by city  n = count(*)" in drawn


def test_the_topic_of_a_table_is_compacted_and_that_of_windows_is_not(flow: Flow):
    from headrace.streams.windows import tumbling

    flow.topic("people", users(flow))
    flow.topic("minutes", clicks(flow).window(tumbling("1 minute")).agg(n="count(*)"))
    flow.topic("clicked", clicks(flow))
    compacted = {
        output.name: output.compacted for output in flow.outputs if isinstance(output, TopicOutput)
    }
    assert compacted == {"people": True, "minutes": False, "clicked": False}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on": "user"}, "no column user"),
        ({"how": "outer"}, "how"),
        ({"within": "soon"}, "within"),
        ({"within": (timedelta(seconds=-2), "1 s")}, "leaves no time"),
        ({"late": "correct"}, "late"),
        ({"on": ()}, "at least one column"),
    ],
)
def test_what_makes_no_sense_between_streams_is_refused(
    flow: Flow, arguments: dict[str, Any], message: str
):
    right = clicks(flow)
    with pytest.raises((InvalidFlow, UnknownColumn), match=message):
        searches(flow).join(right, **{"on": "session", "within": "1 hour", **arguments})


def test_streams_and_tables_are_not_mixed_up(flow: Flow):
    stream: Any = clicks(flow)
    table: Any = users(flow)
    with pytest.raises(InvalidFlow, match=r"stream.lookup\(table"):
        stream.join(table, on="user", within="1 hour")
    with pytest.raises(InvalidFlow, match=r"stream.table\(key"):
        table.join(stream, on="user")
    with pytest.raises(InvalidFlow, match="looked up in a Table"):
        stream.lookup(searches(flow), on="session")
    with pytest.raises(InvalidFlow, match="belong to flow other"):
        clicks(flow).lookup(users(Flow("other")), on="user")


def test_what_makes_no_sense_of_a_lookup_is_refused(flow: Flow):
    timeless = flow.stream("clicks", "user int")
    with pytest.raises(InvalidFlow, match="told apart by user"):
        clicks(flow).lookup(users(flow), on={"session": "name"})
    with pytest.raises(InvalidFlow, match="when things happened"):
        timeless.lookup(users(flow), wait="1 minute")
    with pytest.raises(InvalidFlow, match="say which moment"):
        clicks(flow).lookup(users(flow), keep="1 day")


def test_what_makes_no_sense_of_the_past_of_a_table_is_refused(flow: Flow):
    timeless = flow.stream("sales", "user int, at timestamp", max_records_per_batch=9)
    past = timeless.table(key="user", valid_from="at")
    with pytest.raises(InvalidFlow, match="must name the column of the stream's event time"):
        timeless.lookup(users(flow), at="at", wait="1 minute")
    with pytest.raises(InvalidFlow, match="only known of one that is read"):
        clicks(flow).lookup(past, at="at", wait="1 minute")
    with pytest.raises(InvalidFlow, match="say what its event time is"):
        clicks(flow).lookup(past, at="at")
    timed = flow.stream("sales", "user int, at timestamp", time="at", max_records_per_batch=9)
    clicks(flow).lookup(timed.table(key="user", valid_from="at"), at="at")


def test_the_past_as_it_was_known_later_is_said_in_a_drawing(flow: Flow):
    kept = clicks(flow).lookup(users(flow).where("city > 0"), at="at", wait="1 minute")
    assert kept.node.label == ("lookup", "on user, at at, waits 1 minute")


def test_what_makes_no_sense_between_tables_is_refused(flow: Flow):
    with pytest.raises(InvalidFlow, match="say which columns"):
        users(flow).join(cities(flow))
    with pytest.raises(InvalidFlow, match="at least 1"):
        users(flow).top(0, by="city", order="name")
    with pytest.raises(InvalidFlow, match="no column with a direction"):
        users(flow).top(1, by="city", order="name and user")
    with pytest.raises(InvalidFlow, match="rename yours"):
        users(flow).group_by("city").agg(city="count(*)")
