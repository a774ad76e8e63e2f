"""`headrace tail` against both clusters: where it begins and ends, and how it shows records."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cli.conftest import Headrace, process
from tests.clusters import Cluster

START = 1_700_000_000_000
"""When the first of the records was made; each is a second later than the one before."""

Ten = Callable[[str], None]


@pytest.fixture
def produce_ten(cluster: Cluster) -> Ten:
    """Produces the records "0" to "9" to partition 0."""

    def produce(topic: str) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(10):
            producer.produce(topic, str(number), partition=0, timestamp=START + number * 1000)
        assert producer.flush(20) == 0

    return produce


@pytest.fixture
def ten(topic: str, produce_ten: Ten) -> str:
    """A topic that holds the records "0" to "9"."""
    produce_ten(topic)
    return topic


def tailed(on_cluster: Headrace, *arguments: str) -> str:
    """What is shown of the values, which have one digit each."""
    result = on_cluster("tail", *arguments, "--raw")
    assert result.exit_code == 0, result.stderr
    return result.stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("--from earliest --no-follow", "0123456789"),
        ("--from latest --no-follow", ""),
        ("--from 7 --no-follow", "789"),
        ("--from 99 --no-follow", ""),
        ("--from -2 --no-follow", "89"),
        ("--from -99 -F", "0123456789"),
        ("--from 2023-11-14T22:13:25Z -F", "56789"),
        ("--from 2023-11-14T23:13:25.500+01:00 -F", "6789"),
        ("--from 1970-01-01 -F", "0123456789"),
        ("--from -1h -F", ""),
        ("--from earliest -n 3", "012"),
        ("-n 3", "789"),
        ("--from 2 --until 5", "234"),
        ("--from earliest --until 2023-11-14T22:13:23Z", "012"),
        ("--from earliest --until -8", "01"),
        ("--until earliest", ""),
        ("--no-follow", "0123456789"),
    ],
)
def test_it_begins_and_ends_where_it_is_told_to(
    on_cluster: Headrace, ten: str, arguments: str, values: str
):
    assert tailed(on_cluster, ten, *arguments.split()) == values


@pytest.mark.partitions(3)
def test_partitions_can_be_chosen(on_cluster: Headrace, topic: str):
    for partition in range(3):
        on_cluster("produce", topic, str(partition), "-p", str(partition))
    assert sorted(tailed(on_cluster, topic, "-F")) == ["0", "1", "2"]
    assert sorted(tailed(on_cluster, topic, "-F", "-p", "0", "-p", "2")) == ["0", "2"]
    refused = on_cluster("tail", topic, "-p", "3")
    assert refused.exit_code == 1
    assert f"{topic} has no partition 3; the last of its 3 is 2." in refused.stderr


def test_a_topic_that_is_not_there_is_an_error(on_cluster: Headrace, fresh_name: str):
    result = on_cluster("tail", fresh_name)
    assert result.exit_code == 1
    assert f"There is no topic {fresh_name}." in result.stderr


def test_deleted_records_are_mentioned(on_cluster: Headrace, admin: Any, ten: str):
    from confluent_kafka import TopicPartition

    for future in admin.delete_records([TopicPartition(ten, 0, 4)]).values():
        future.result(20)
    result = on_cluster("tail", ten, "--from", "1", "-F", "--raw")
    assert result.stdout.split() == ["4", "5", "6", "7", "8", "9"]
    assert result.stderr == f"headrace: {ten}-0 begins at 4; what was before is deleted.\n"


def test_people_see_place_time_key_headers_and_json_laid_out(on_cluster: Headrace, topic: str):
    line = json.dumps(
        {
            "key": "user-7",
            "value": {
                "total": 12.5,
                "items": ["a book about rivers", "a map of all the headwaters"],
            },
            "headers": {"trace": "8c1f"},
            "timestamp": START,
        }
    )
    on_cluster("produce", topic, "--json", stdin=line)
    shown = on_cluster("tail", topic, "-F").stdout.splitlines()
    assert shown[0].startswith(f"{topic}-0 @ 0  20")
    assert shown[0].endswith("  user-7")
    assert shown[1:] == [
        "  trace: 8c1f",
        "  {",
        '    "total": 12.5,',
        '    "items": [',
        '      "a book about rivers",',
        '      "a map of all the headwaters"',
        "    ]",
        "  }",
    ]


def test_programs_see_one_json_object_per_line(on_cluster: Headrace, ten: str):
    lines = on_cluster("tail", ten, "--from", "8", "-F", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "topic": ten,
            "partition": 0,
            "offset": offset,
            "timestamp": f"2023-11-14T22:13:{20 + offset}.000Z",
            "key": None,
            "value": str(offset),
            "headers": [],
        }
        for offset in (8, 9)
    ]


def test_it_follows_until_ctrl_c(cluster: Cluster, produce_ten: Ten, topic: str):
    with process("tail", topic, "--raw", "-b", cluster.bootstrap) as tail:
        assert tail.stdout is not None
        produce_ten(topic)
        assert [tail.stdout.readline() for _ in range(10)] == [f"{n}\n" for n in range(10)]
        produce_ten(topic)
        assert tail.stdout.readline() == "0\n"
        tail.send_signal(signal.SIGINT)
        _, complaints = tail.communicate(timeout=10)
        assert (tail.returncode, complaints) == (0, "")


def test_whoever_stops_reading_stops_it_quietly(cluster: Cluster, produce_ten: Ten, topic: str):
    arguments = ("tail", topic, "--from", "earliest", "--raw", "-b", cluster.bootstrap)
    with process(*arguments) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        produce_ten(topic)
        assert tail.stdout.readline() == "0\n"
        tail.stdout.close()
        produce_ten(topic)
        assert tail.wait(10) == 0
        assert tail.stderr.read() == ""


def test_reading_creates_no_group(on_cluster: Headrace, ten: str):
    before = on_cluster("groups", "list", "--json").stdout
    tailed(on_cluster, ten, "-F")
    assert on_cluster("groups", "list", "--json").stdout == before
