"""The topic sink keeps the contract, on Headrace and on Apache Kafka, and the tests can fail."""

import pytest

from headrace.streams.sinks.topic import Delivery
from headrace.testing.sink_contract import SinkContract, SinkTarget
from tests.clusters import Cluster
from tests.streams.sinks.topic_target import TopicTarget, topic_sink


class TestTopicSink(SinkContract):
    @pytest.fixture
    def target(self, cluster: Cluster, fresh_name: str) -> SinkTarget:
        return TopicTarget(topic_sink(cluster, fresh_name))


@pytest.mark.parametrize(
    "promise",
    [
        SinkContract.test_a_place_is_written_once_however_often_it_comes,
        SinkContract.test_an_older_batch_writes_nothing_and_says_so,
        SinkContract.test_rows_are_seen_all_at_once,
        SinkContract.test_what_fails_in_the_middle_has_written_nothing,
        SinkContract.test_a_slow_attempt_is_fenced_by_the_one_that_replaces_it,
        SinkContract.test_random_histories_write_everything_once,
    ],
    ids=lambda promise: promise.__name__,
)
def test_at_least_once_breaks_the_contract(promise, cluster: Cluster, fresh_name: str) -> None:
    sink = topic_sink(cluster, fresh_name, delivery=Delivery.AT_LEAST_ONCE)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        promise(SinkContract(), TopicTarget(sink))
