"""The home timeline: the newest posts of those whom a reader follows, whatever happens."""

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.tables.changes import CHANGES
from headrace.streams.tables.sides import TableSide
from headrace.streams.tables.top_n import TopN
from tests.streams.sql import query
from tests.streams.tables.buckets import Buckets, Reader, Row, in_order
from tests.streams.tables.chains import JoinChain, Source

POSTS = pa.schema({"id": pa.int64(), "sender": pa.string(), "text": pa.string(), "at": pa.int64()})
FOLLOWS = pa.schema({"reader": pa.string(), "followed": pa.string()})
NEWEST = 2
TIMELINES = f"""
    select id, sender, text, "at", reader, followed from (
        select *, row_number() over (partition by reader order by "at" desc, id) as place
        from posts join follows on sender = followed
    ) where place <= {NEWEST}
"""


class Timelines:
    """Posts joined with follows, and of each reader the newest of them."""

    def __init__(self) -> None:
        self.posts, self.follows = Source(POSTS, ("id",)), Source(FOLLOWS, ("reader", "followed"))
        self.join = JoinChain(
            TableSide(POSTS, self.posts.key, ("sender",), changelog=True),
            TableSide(FOLLOWS, self.follows.key, ("followed",)),
            "inner",
        )
        rows = self.join.operator.description.outputs["main"]
        top = TopN("newest", rows, self.join.operator.key, ("reader",), ("at",), NEWEST)
        assert not top.scattered
        self.top = Buckets(top, {CHANGES: (rows, ("reader",))})
        self.reader = Reader(top.key)

    def batch(self, posts: list[Row], follows: list[Row]) -> list[tuple[Any, ...]]:
        """What changes in timelines: the change, whose timeline, and which post."""
        joined = self.join.joined({"left": posts, "right": follows})
        told = self.reader.apply(self.top.batch({CHANGES: joined}))
        self.posts.write(posts)
        self.follows.write(follows)
        return sorted((row["_change"], row["reader"], row["text"]) for row in told)

    def of(self, reader: str) -> list[str]:
        """A timeline, the newest first."""
        mine = [row for row in self.reader.table.values() if row["reader"] == reader]
        return [row["text"] for row in sorted(mine, key=lambda row: -row["at"])]

    def restart(self) -> None:
        self.join.restart()
        self.top.restart()


def post(number: int, sender: str, text: str) -> Row:
    return {"id": number, "sender": sender, "text": text, "at": number}


def follow(reader: str, followed: str, *, ended: bool = False) -> Row:
    return {"reader": reader, "followed": followed, "_deleted": ended}


def deleted(number: int) -> Row:
    return {"id": number, "_deleted": True}


def test_a_post_appears_in_the_timelines_of_those_who_follow():
    timelines = Timelines()
    timelines.batch([], [follow("ann", "bob"), follow("eve", "bob"), follow("ann", "eve")])
    assert timelines.batch([post(1, "bob", "hello")], []) == [
        ("insert", "ann", "hello"),
        ("insert", "eve", "hello"),
    ]


def test_a_deleted_post_disappears_and_an_older_one_comes_back():
    timelines = Timelines()
    posts = [post(1, "bob", "one"), post(2, "bob", "two"), post(3, "bob", "three")]
    timelines.batch(posts, [follow("ann", "bob")])
    assert timelines.of("ann") == ["three", "two"]
    assert timelines.batch([deleted(3)], []) == [
        ("delete", "ann", "three"),
        ("insert", "ann", "one"),
    ]
    assert timelines.of("ann") == ["two", "one"]


def test_who_follows_after_a_post_sees_it():
    timelines = Timelines()
    timelines.batch([post(1, "bob", "hello"), post(2, "eve", "not mine")], [])
    assert timelines.batch([], [follow("ann", "bob")]) == [("insert", "ann", "hello")]


def test_who_unfollows_sees_the_others_again():
    timelines = Timelines()
    posts = [post(1, "eve", "old"), post(2, "bob", "new"), post(3, "bob", "newer")]
    timelines.batch(posts, [follow("ann", "bob"), follow("ann", "eve"), follow("joe", "bob")])
    assert timelines.batch([], [follow("ann", "bob", ended=True)]) == [
        ("delete", "ann", "new"),
        ("delete", "ann", "newer"),
        ("insert", "ann", "old"),
    ]
    assert timelines.of("joe") == ["newer", "new"]


def test_a_post_that_is_deleted_after_the_unfollow_is_told_to_nobody():
    timelines = Timelines()
    timelines.batch([post(1, "bob", "hello")], [follow("ann", "bob")])
    timelines.batch([], [follow("ann", "bob", ended=True)])
    assert timelines.batch([deleted(1)], []) == []
    assert timelines.batch([], [follow("ann", "bob")]) == []


def test_a_post_that_is_edited_is_updated_where_it_is_seen():
    timelines = Timelines()
    timelines.batch([post(1, "bob", "helo")], [follow("ann", "bob")])
    assert timelines.batch([post(1, "bob", "hello")], []) == [
        ("update_after", "ann", "hello"),
        ("update_before", "ann", "helo"),
    ]


def test_post_and_follow_in_one_batch_meet():
    timelines = Timelines()
    timelines.batch(
        [post(1, "bob", "hello"), deleted(1), post(2, "bob", "again")],
        [follow("ann", "bob"), follow("eve", "bob"), follow("eve", "bob", ended=True)],
    )
    assert timelines.of("ann") == ["again"]
    assert timelines.of("eve") == []


people = st.sampled_from(["ann", "bob", "eve"])
posting = st.builds(
    lambda number, sender, text, gone: {**post(number, sender, text), "_deleted": gone},
    st.integers(1, 8),
    people,
    st.sampled_from(["x", "y"]),
    st.sampled_from([False, False, True]),
)
following = st.builds(
    lambda reader, who, ended: follow(reader, who, ended=ended),
    people,
    people,
    st.sampled_from([False, False, True]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    batches=st.lists(
        st.tuples(st.lists(posting, max_size=5), st.lists(following, max_size=4), st.booleans()),
        max_size=5,
    )
)
def test_timelines_equal_the_sql_after_every_batch(batches: list[Any]):
    timelines = Timelines()
    for posts, follows, restarted in batches:
        if restarted:
            timelines.restart()
        timelines.batch(posts, follows)
        tables = {
            "posts": (POSTS, list(timelines.posts.rows.values())),
            "follows": (FOLLOWS, list(timelines.follows.rows.values())),
        }
        assert timelines.reader.rows == in_order(query(TIMELINES, tables))
