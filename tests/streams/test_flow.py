"""Describing flows: what is remembered, what is refused, and that nothing is started for it."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from headrace.settings import KafkaSettings, Settings
from headrace.streams import Flow, InvalidFlow, Stream, Table, UnknownColumn
from headrace.streams.errors import InvalidName
from headrace.streams.formats import FormatError
from headrace.streams.outputs import DeadLetterOutput, TopicOutput
from headrace.streams.plan import ReadTopics, sources

CLICKS = "user_id string, url string, price double, at timestamp"


@pytest.fixture
def flow() -> Flow:
    return Flow("shop")


@pytest.fixture
def clicks(flow: Flow) -> Stream:
    return flow.stream("clicks", CLICKS, time="at")


def read_of(stream: Stream) -> ReadTopics:
    (read,) = sources(stream.node)
    return read


class TestStreams:
    def test_every_verb_gives_a_new_stream(self, clicks: Stream):
        cheap = clicks.where("price < 1")
        assert cheap is not clicks
        assert clicks.node.inputs == ()
        assert cheap.node.inputs == (clicks.node,)

    def test_columns_are_known_without_spark(self, clicks: Stream):
        assert clicks.columns == ("user_id", "url", "price", "at")
        assert clicks.select("url", "price * 2 as double", n="1").columns == ("url", "double", "n")
        assert clicks.with_columns(price="price / 2", day="date(at)").columns == (
            *("user_id", "url", "price", "at"),
            "day",
        )
        assert clicks.select("*", "1 as one").columns == (*clicks.columns, "one")

    def test_only_spark_knows_what_a_function_makes(self, clicks: Stream):
        assert clicks.pipe(lambda df: df).columns is None
        assert clicks.select("upper(url)").columns is None

    def test_positions_become_options(self, flow: Flow):
        assert read_of(flow.stream("a", CLICKS, start="latest")).start == "latest"
        begun = datetime(2026, 11, 16, tzinfo=UTC)
        assert read_of(flow.stream("a", CLICKS, start=begun)).start == "2026-11-16T00:00:00+00:00"
        offsets = {"a": {0: 42, 1: 7}}
        assert read_of(flow.stream("a", CLICKS, start=offsets)).start == '{"a": {"0": 42, "1": 7}}'

    def test_several_topics_or_a_pattern_can_be_read(self, flow: Flow):
        assert read_of(flow.stream(["a", "b"], CLICKS)).topics == ("a", "b")
        assert read_of(flow.stream(pattern="shop-.*", schema=CLICKS)).pattern == "shop-.*"

    def test_what_a_record_tells_besides_its_value_can_be_had(self, flow: Flow):
        stream = flow.stream("a", "x int", include=["offset", "headers"])
        assert stream.columns == ("x", "_offset", "_headers")

    def test_raw_records_need_no_schema(self, flow: Flow):
        assert flow.stream("a", format="raw").columns == ("key", "value")

    def test_the_representation_says_what_it_is(self, clicks: Stream):
        assert repr(clicks) == "<Stream of flow 'shop': user_id, url, price, at>"


class TestRefusals:
    @pytest.mark.parametrize("name", ["", "a b", "a/b", ".hidden", "-x", "x" * 300])
    def test_names_must_be_usable_as_directories(self, name: str):
        with pytest.raises(InvalidName, match="cannot be the name of a flow: use"):
            Flow(name)

    def test_a_column_that_is_not_there_is_named_with_a_suggestion(self, clicks: Stream):
        with pytest.raises(UnknownColumn, match=r"^select: .* prise; did you mean price\?"):
            clicks.select("prise")
        with pytest.raises(UnknownColumn, match=r"topic out: .* usr_id; did you mean user_id\?"):
            clicks.flow.topic("out", clicks, key="usr_id")
        with pytest.raises(UnknownColumn, match=r"time='when' is no column; there are user_id,"):
            clicks.flow.stream("clicks", CLICKS, time="when")

    def test_case_does_not_matter_as_it_does_not_to_spark(self, clicks: Stream):
        assert clicks.select("URL").columns == ("URL",)

    def test_two_outputs_need_two_names(self, flow: Flow, clicks: Stream):
        flow.topic("out", clicks)
        with pytest.raises(InvalidFlow, match=r'output out already; .*output="out-2"'):
            flow.topic("out", clicks)
        flow.topic("out", clicks, output="out-2")
        assert [each.name for each in flow.outputs] == ["out", "out-2"]

    def test_streams_of_another_flow_are_refused(self, clicks: Stream):
        with pytest.raises(InvalidFlow, match="belong to flow shop, and flow other cannot"):
            Flow("other").topic("out", clicks)

    def test_what_is_no_stream_is_refused(self, flow: Flow):
        with pytest.raises(InvalidFlow, match="writes a Stream or a Table, not 'clicks'"):
            flow.topic("out", "clicks")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "topics, or the topics of a pattern"),
            ({"topics": "a", "pattern": "b"}, "give one of the two"),
            ({"topics": "a b"}, "cannot be the name of a topic"),
            ({"topics": "a", "on_error": "ignore"}, "no on_error='ignore'"),
            ({"topics": "a", "on_gap": "skp"}, "did you mean skip?"),
            ({"topics": "a", "include": ["ofset"]}, "did you mean offset?"),
            ({"topics": "a", "start": "yesterday"}, "start='yesterday' is no position: say"),
            ({"topics": "a", "start": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
            ({"topics": "a", "max_records_per_batch": 0}, "must be at least 1"),
        ],
    )
    def test_arguments_that_make_no_sense_are_refused(
        self, flow: Flow, arguments: dict[str, object], message: str
    ):
        with pytest.raises(InvalidFlow) as raised:
            flow.stream(**{"schema": CLICKS, **arguments})  # type: ignore[arg-type]
        assert message in str(raised.value)

    @pytest.mark.parametrize(
        "arguments", [{}, {"schema": "x no_such_type"}, {"schema": "x int", "format": "jsn"}]
    )
    def test_schemas_and_formats_are_checked_at_once(self, flow: Flow, arguments: dict[str, str]):
        with pytest.raises(FormatError):
            flow.stream("a", **arguments)  # type: ignore[arg-type]

    def test_verbs_without_arguments_are_refused(self, clicks: Stream):
        with pytest.raises(InvalidFlow, match="at least one column"):
            clicks.select()
        with pytest.raises(InvalidFlow, match="as in total="):
            clicks.with_columns()
        with pytest.raises(InvalidFlow, match="takes a function"):
            clicks.pipe("upper")  # type: ignore[arg-type]


class TestTables:
    def test_a_table_tells_what_is_deleted(self, flow: Flow):
        users = flow.table("users", "id string, name string", key="id")
        assert isinstance(users, Table)
        assert users.columns == ("id", "name", "_deleted")
        assert users.key == ("id",)

    def test_the_key_stays_whatever_is_selected(self, flow: Flow):
        users = flow.table("users", "id string, name string, age int", key="id")
        chosen = users.where("age > 17").select("name")
        assert chosen.columns == ("id", "name", "_deleted")
        assert isinstance(chosen, Table)
        assert isinstance(chosen.changes(), Stream)

    def test_its_key_must_be_a_column(self, flow: Flow):
        with pytest.raises(UnknownColumn, match=r"key='idd' is no column; did you mean id\?"):
            flow.table("users", "id string", key="idd")

    def test_changes_of_debezium_are_unwrapped(self, flow: Flow):
        users = flow.table("users", "id int", key="id", format="debezium")
        assert users.columns == ("id", "_op", "_ts", "_deleted")

    def test_it_is_written_by_its_key(self, flow: Flow):
        flow.topic("copy", flow.table("users", "id string", key="id"))
        (output,) = flow.outputs
        assert isinstance(output, TopicOutput)
        assert output.key == ("id",)


class TestDelivery:
    def test_once_is_the_default_and_at_least_once_can_be_asked_for(self, flow: Flow):
        rows = flow.stream("orders", "x int")
        flow.topic("one", rows)
        flow.topic("two", rows, delivery="at_least_once")
        one, two = flow.outputs
        assert isinstance(one, TopicOutput)
        assert isinstance(two, TopicOutput)
        assert (one.delivery, two.delivery) == ("exactly_once", "at_least_once")
        assert two.label == ("topic two", "at least once")

    def test_what_nobody_can_promise_is_refused(self, flow: Flow):
        with pytest.raises(InvalidFlow, match="no delivery='at_most_once'; did you mean at_least"):
            flow.topic("one", flow.stream("orders", "x int"), delivery="at_most_once")


class TestDeadLetters:
    def test_they_are_a_query_of_their_own(self, flow: Flow):
        orders = flow.stream("orders", "x int", dead_letters="bad-orders")
        flow.topic("one", orders)
        flow.topic("two", orders.where("x > 1"))
        letters = [each for each in flow.outputs if isinstance(each, DeadLetterOutput)]
        assert [(each.name, each.topic) for each in letters] == [
            ("bad-orders.dead-letters", "bad-orders")
        ]
        assert read_of(orders).options["on_error"] == "skip"

    def test_two_streams_may_share_their_topic(self, flow: Flow):
        for topic in ("a", "b"):
            flow.topic(f"{topic}-out", flow.stream(topic, "x int", dead_letters="bad"))
        names = [each.name for each in flow.outputs if isinstance(each, DeadLetterOutput)]
        assert names == ["bad.dead-letters", "bad.dead-letters-2"]


def test_the_cluster_can_be_named_in_the_program():
    settings = Settings(kafka=KafkaSettings(bootstrap="one:9092", properties={"a": "b"}))
    kafka = Flow("shop", settings=settings, bootstrap="two:9092").settings.kafka
    assert (kafka.bootstrap, kafka.properties) == ("two:9092", {"a": "b"})


def test_describing_and_drawing_starts_no_java():
    code = (
        "import sys; from headrace.streams import Flow\n"
        "flow = Flow('a'); s = flow.stream('t', 'x int', time='x').where('x > 1')\n"
        "flow.topic('o', s, key='x'); print(flow); flow._repr_html_()\n"
        "from pyspark import SparkContext; assert SparkContext._gateway is None"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("flow a\n\nstream t  time x\n")
