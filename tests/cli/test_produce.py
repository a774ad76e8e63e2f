"""`headrace produce` against both clusters; `headrace tail --json` shows what arrived."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Headrace
from tests.conftest import TopicFactory


def arrived(on_cluster: Headrace, topic: str) -> list[dict[str, Any]]:
    shown = on_cluster("tail", topic, "--from", "earliest", "--no-follow", "--json")
    assert shown.exit_code == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_arguments_are_records(on_cluster: Headrace, topic: str):
    result = on_cluster("produce", topic, "one", "two")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"Produced 2 records to {topic}.\n"
    assert [each["value"] for each in arrived(on_cluster, topic)] == ["one", "two"]


def test_lines_of_stdin_are_records(on_cluster: Headrace, topic: str):
    assert on_cluster("produce", topic, stdin=b"one\ntwo\r\n\n\xff\n").exit_code == 0
    assert [each["value"] for each in arrived(on_cluster, topic)] == [
        "one",
        "two",
        "",
        {"base64": "/w=="},
    ]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_file_is_produced_whole_with_every_codec(
    on_cluster: Headrace, topic: str, tmp_path: Path, compression: str
):
    lines = [f"line {number}" for number in range(2_000)]
    file = tmp_path / "lines"
    file.write_text("\n".join(lines))
    result = on_cluster("produce", topic, "-f", str(file), "-z", compression, "-q")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [each["value"] for each in arrived(on_cluster, topic)] == lines


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_acks_can_be_chosen(on_cluster: Headrace, topic: str, acks: str):
    assert on_cluster("produce", topic, "x", "--acks", acks).exit_code == 0
    # Only acks=all promises that the record can be read at once.
    assert on_cluster("tail", topic, "--from", "earliest", "-n", "1", "--raw").stdout == "x\n"


def test_keys_and_headers_are_given_to_every_record(on_cluster: Headrace, topic: str):
    on_cluster("produce", topic, "a", "b", "-k", "key", "-H", "trace=1", "-H", "trace=2=3")
    assert [(each["key"], each["headers"]) for each in arrived(on_cluster, topic)] == [
        ("key", [["trace", "1"], ["trace", "2=3"]])
    ] * 2


def test_keys_come_before_the_separator(on_cluster: Headrace, topic: str):
    on_cluster("produce", topic, "-K", "\\t", stdin="k1\tv1\nk2\tv2\tmore\n")
    assert [(each["key"], each["value"]) for each in arrived(on_cluster, topic)] == [
        ("k1", "v1"),
        ("k2", "v2\tmore"),
    ]


@pytest.mark.partitions(3)
def test_a_partition_can_be_chosen(on_cluster: Headrace, topic: str):
    on_cluster("produce", topic, "a", "b", "-p", "2")
    assert [each["partition"] for each in arrived(on_cluster, topic)] == [2, 2]


def test_a_partition_that_is_not_there_is_named(on_cluster: Headrace, topic: str):
    result = on_cluster("produce", topic, "a", "-p", "77")
    assert result.exit_code == 1
    assert result.stderr == f"headrace: {topic} has no partition 77; its only one is 0.\n"


@pytest.mark.partitions(8)
def test_a_key_lands_where_the_java_client_would_put_it(on_cluster: Headrace, topic: str):
    on_cluster("produce", topic, "x", "-k", "foobar")
    # Kafka's Utils.murmur2("foobar") is -790332482; made positive, modulo 8.
    assert [each["partition"] for each in arrived(on_cluster, topic)] == [
        (-790332482 & 0x7FFFFFFF) % 8
    ]


def test_bad_lines_are_reported_and_the_others_arrive(on_cluster: Headrace, topic: str):
    result = on_cluster("produce", topic, "-K", ":", stdin="a:1\nb\nc:3\n")
    assert result.exit_code == 1
    assert result.stderr == (
        f"headrace: record 2: has no key separator :.\nProduced 2 records to {topic}, 1 failed.\n"
    )
    assert [each["key"] for each in arrived(on_cluster, topic)] == ["a", "c"]


def test_a_record_that_the_broker_refuses_is_reported(
    on_cluster: Headrace, new_topic: TopicFactory
):
    topic = new_topic(1, {"max.message.bytes": "10000"})
    result = on_cluster("produce", topic, stdin="x" * 20_000 + "\n")
    assert result.exit_code == 1
    assert "headrace: record 1: Broker: Message size too large." in result.stderr
    assert f"Produced 0 records to {topic}, 1 failed." in result.stderr


def test_a_compacted_topic_wants_keys(on_cluster: Headrace, new_topic: TopicFactory):
    topic = new_topic(1, {"cleanup.policy": "compact"})
    result = on_cluster("produce", topic, "nokey")
    assert result.exit_code == 1
    assert f"record 1: the broker refuses it; {topic} is compacted" in result.stderr
    assert "every record needs a key" in result.stderr


def test_a_name_that_no_topic_can_have_is_explained(on_cluster: Headrace):
    result = on_cluster("produce", "bad topic!", "x")
    assert result.exit_code == 1
    assert 'record 1: "bad topic!" cannot be the name of a topic' in result.stderr


def test_only_the_first_failures_are_told_one_by_one(on_cluster: Headrace, topic: str):
    result = on_cluster("produce", topic, "--json", stdin="nonsense\n" * 30)
    assert result.exit_code == 1
    assert result.stderr.count("headrace: record ") == 10
    assert f"Produced 0 records to {topic}, 30 failed." in result.stderr


def test_json_lines_make_whole_records(on_cluster: Headrace, topic: str):
    on_cluster(
        "produce",
        topic,
        "--json",
        stdin="\n".join(
            [
                '{"key": "k", "value": {"n": 1}, "headers": {"a": "b"}, "timestamp": 1700000000}',
                '{"key": null, "value": null, "timestamp": "2026-01-02T03:04:05.678Z"}',
                '{"value": {"base64": "AP8="}, "headers": [["a", null], ["a", "2"]]}',
            ]
        ),
    )
    first, second, third = arrived(on_cluster, topic)
    assert (first["key"], first["value"], first["headers"]) == ("k", {"n": 1}, [["a", "b"]])
    assert first["timestamp"] == "1970-01-20T16:13:20.000Z"
    assert (second["key"], second["value"]) == (None, None)
    assert second["timestamp"] == "2026-01-02T03:04:05.678Z"
    assert third["value"] == {"base64": "AP8="}
    assert third["headers"] == [["a", None], ["a", "2"]]


def test_what_tail_prints_can_be_produced_again(on_cluster: Headrace, new_topic: TopicFactory):
    source, copy = new_topic(), new_topic()
    on_cluster("produce", source, '{"n": 1.50}', "text", "-k", "k", "-H", "h=v")
    printed = on_cluster("tail", source, "--from", "earliest", "--no-follow", "--json").stdout
    assert on_cluster("produce", copy, "--json", stdin=printed).exit_code == 0
    kept = ("key", "value", "headers", "timestamp")
    assert [[each[name] for name in kept] for each in arrived(on_cluster, copy)] == [
        [each[name] for name in kept] for each in arrived(on_cluster, source)
    ]


def test_a_missing_file_is_named(on_cluster: Headrace, topic: str):
    result = on_cluster("produce", topic, "-f", "nowhere")
    assert result.exit_code == 1
    assert result.stderr == "headrace: nowhere: No such file or directory.\n"


def test_the_position_of_what_was_written_can_be_handed_to_a_view(on_cluster: Headrace, topic: str):
    on_cluster("produce", topic, "one")
    result = on_cluster("produce", topic, "two", "three", "--position")
    assert (result.exit_code, result.stdout) == (0, f"{topic}:0:2\n")
