"""Options as people write them."""

import pytest

from headrace.clock import ManualClock
from headrace.kafka import AtTime, Earliest, Isolation, Latest, Partition
from headrace.streams.source import InvalidOption, parse_options
from headrace.streams.source.starting import CommittedBy, GivenOffsets


def test_topics_are_all_that_must_be_said() -> None:
    options = parse_options({"topics": "orders, payments"})
    assert options.topics == ("orders", "payments")
    assert (options.start, options.end) == (Earliest(), Latest())
    assert options.isolation is Isolation.READ_COMMITTED
    assert options.kafka.bootstrap == "127.0.0.1:9092"
    assert options.wants("orders")
    assert not options.wants("order")


def test_a_pattern_has_to_match_the_whole_name() -> None:
    options = parse_options({"pattern": r"shop\..*"})
    assert options.wants("shop.orders")
    assert not options.wants("workshop.orders")


def test_properties_of_the_client_have_a_prefix() -> None:
    options = parse_options({"topics": "t", "bootstrap": "b:1", "kafka.security.protocol": "ssl"})
    assert options.kafka.bootstrap == "b:1"
    assert options.kafka.properties == {"security.protocol": "ssl"}


def test_included_columns_have_one_order() -> None:
    assert parse_options({"topics": "t", "include": "key,topic"}).include == ("topic", "key")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("latest", Latest()),
        ("-10m", AtTime(400_000)),
        ("1970-01-01T00:00:02Z", AtTime(2000)),
        ("group:billing", CommittedBy("billing")),
        ('{"orders": {"1": 42}}', GivenOffsets({Partition("orders", 1): 42})),
    ],
)
def test_a_start_can_be_said_in_many_ways(text: str, bound: object) -> None:
    clock = ManualClock(now_ms=1_000_000)
    assert parse_options({"topics": "t", "start": text}, clock).start == bound


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "exactly one of the options topics"),
        ({"topics": "t", "pattern": "t.*"}, "exactly one of the options topics"),
        ({"topic": "t"}, "no option topic; did you mean topics?"),
        ({"topics": "t", "zzz": ""}, "no option zzz; it has bootstrap, "),
        ({"topics": "t", "include": "value"}, "include = value: it can have topic, partition"),
        ({"topics": "t", "on_gap": "ignore"}, "on_gap = ignore: it can be fail or skip"),
        ({"topics": "t", "isolation": "dirty"}, "it can be read_committed or read_uncommitted"),
        ({"topics": "t", "max_records_per_batch": "0"}, "is not a whole number above 0"),
        ({"topics": "t", "max_records_per_second": "fast"}, "is not a number above 0"),
        ({"topics": "t", "start": "yesterday"}, '"yesterday" is no position; .* group:NAME'),
        ({"topics": "t", "start": '{"t": 3}'}, "are no offsets"),
        ({"topics": "t", "bootstrap": "nowhere"}, "is not HOST:PORT"),
        ({"pattern": "("}, "is no regular expression"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidOption, match=complaint):
        parse_options(given)
