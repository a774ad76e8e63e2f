"""The pytest plugin, used the way a project uses it: by a pytest run of its own."""

import pytest

from headrace.testing.plugin import BrokerUnderTest
from headrace.testing.probe import free_ports

pytest_plugins = ["pytester"]

ROUND_TRIP = """
    from confluent_kafka import Consumer, Producer

    def test_what_is_produced_is_consumed(headrace_broker, headrace_topic):
        producer = Producer({"bootstrap.servers": headrace_broker.bootstrap})
        producer.produce(headrace_topic, b"hello")
        assert producer.flush(10) == 0
        consumer = Consumer({
            "bootstrap.servers": headrace_broker.bootstrap,
            "group.id": headrace_topic,
            "auto.offset.reset": "earliest",
        })
        consumer.subscribe([headrace_topic])
        message = consumer.poll(20)
        consumer.close()
        assert message.value() == b"hello"
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project that is strict about markers and warnings."""
    pytester.makepyprojecttoml("""
        [tool.pytest.ini_options]
        addopts = ["--strict-markers", "-p", "no:cacheprovider"]
        filterwarnings = ["error"]
        asyncio_default_fixture_loop_scope = "function"
    """)
    return pytester


def test_a_test_gets_a_broker_and_a_topic(project: pytest.Pytester) -> None:
    project.makepyfile(ROUND_TRIP)
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_session_shares_one_broker_and_tests_share_no_topic(project: pytest.Pytester) -> None:
    project.makepyfile("""
        seen = []

        def test_first(headrace_broker, headrace_topic):
            seen.append((headrace_broker.bootstrap, headrace_topic))

        def test_second(headrace_broker, headrace_topic):
            (bootstrap, topic), = seen
            assert bootstrap == headrace_broker.bootstrap
            assert topic != headrace_topic
            assert topic.startswith("first-")
            assert headrace_topic.startswith("second-")
    """)
    project.runpytest_subprocess().assert_outcomes(passed=2)


def test_the_topic_exists_with_the_marked_shape_and_goes_afterwards(
    project: pytest.Pytester,
) -> None:
    project.makepyfile("""
        import pytest
        from confluent_kafka.admin import AdminClient, ConfigResource

        names = []

        @pytest.mark.headrace_topic(partitions=3, config={"retention.ms": "60000"})
        def test_shape(headrace_broker, headrace_topic):
            admin = AdminClient({"bootstrap.servers": headrace_broker.bootstrap})
            names.append(headrace_topic)
            assert len(admin.list_topics(timeout=10).topics[headrace_topic].partitions) == 3
            resource = ConfigResource(ConfigResource.Type.TOPIC, headrace_topic)
            config = admin.describe_configs([resource])[resource].result(10)
            assert config["retention.ms"].value == "60000"

        def test_gone(headrace_broker):
            admin = AdminClient({"bootstrap.servers": headrace_broker.bootstrap})
            assert names[0] not in admin.list_topics(timeout=10).topics
    """)
    project.runpytest_subprocess().assert_outcomes(passed=2)


def test_an_existing_cluster_is_used_when_named(
    project: pytest.Pytester, headrace_broker: BrokerUnderTest
) -> None:
    project.makepyfile(
        ROUND_TRIP,
        test_address=f"""
        def test_address(headrace_broker):
            assert headrace_broker.bootstrap == "{headrace_broker.bootstrap}"
        """,
    )
    option = f"--headrace-bootstrap={headrace_broker.bootstrap}"
    project.runpytest_subprocess(option).assert_outcomes(passed=2)


def test_the_cluster_can_be_named_in_the_projects_options(project: pytest.Pytester) -> None:
    project.makepyfile("""
        def test_address(headrace_broker):
            assert headrace_broker.bootstrap == "kafka.example:9092"
    """)
    project.runpytest_subprocess("-o", "headrace_bootstrap=kafka.example:9092").assert_outcomes(
        passed=1
    )


def test_a_cluster_that_does_not_answer_ends_the_run_with_one_message(
    project: pytest.Pytester,
) -> None:
    project.makepyfile("""
        def test_one(headrace_topic): ...
        def test_two(headrace_topic): ...
    """)
    (port,) = free_ports(1)
    result = project.runpytest_subprocess(f"--headrace-bootstrap=127.0.0.1:{port}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines([f"*no Kafka cluster answers at 127.0.0.1:{port}*start it*"])


def test_the_brokers_settings_can_be_overridden(project: pytest.Pytester) -> None:
    project.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def headrace_settings():
            return {"auto_create_topics": True, "partitions": 5}
    """)
    project.makepyfile("""
        from confluent_kafka import Producer

        def test_default_partitions(headrace_broker):
            producer = Producer({"bootstrap.servers": headrace_broker.bootstrap})
            producer.produce("appears-by-itself", b"")
            assert producer.flush(10) == 0
            topic = producer.list_topics("appears-by-itself", timeout=10)
            assert len(topic.topics["appears-by-itself"].partitions) == 5
    """)
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_parallel_workers_do_not_meet(project: pytest.Pytester) -> None:
    project.makepyfile(test_one=ROUND_TRIP, test_two=ROUND_TRIP, test_three=ROUND_TRIP)
    project.runpytest_subprocess("-n", "2").assert_outcomes(passed=3)


def test_a_run_without_the_fixtures_starts_nothing(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import sys

        def test_nothing_was_loaded():
            assert "confluent_kafka" not in sys.modules
            assert not [name for name in sys.modules if name.startswith("headrace.broker")]
    """)
    project.runpytest_subprocess().assert_outcomes(passed=1)
