"""What is left of a failure when Spark's hundred lines are taken away."""

import textwrap

from headrace.kafka.errors import ClusterUnreachable
from headrace.streams.running.failures import root_cause

IN_A_WORKER = textwrap.dedent(
    """
    An exception was thrown from the Python worker. Please see the stack trace below.
    Traceback (most recent call last):
      File "/opt/venv/lib/python3.11/site-packages/pyspark/worker.py", line 3500, in main
        process()
      File "/srv/shop/flow.py", line 12, in discount
        return price / 0
               ~~~~~~^~~
    ZeroDivisionError: division by zero
    SQLSTATE: 39000
    \tat org.apache.spark.api.python.BasePythonRunner
    """
)

OURS = textwrap.dedent(
    """
    Traceback (most recent call last):
      File "/opt/venv/lib/python3.11/site-packages/headrace/kafka/connection.py", line 1, in ask
        raise error
    headrace.kafka.errors.ClusterUnreachable: Cannot reach a Kafka cluster at one:9092.
    """
)

OF_JAVA = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Disk is full "
    "SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: shop.large\nCurrent Offsets: {}"
)


def test_the_user_s_function_is_named_with_its_line():
    cause = root_cause(RuntimeError(IN_A_WORKER))
    assert cause.kind == "ZeroDivisionError"
    assert cause.message == (
        "ZeroDivisionError: division by zero (in discount, /srv/shop/flow.py line 12)"
    )
    assert "BasePythonRunner" in cause.detail


def test_our_own_errors_say_what_to_do_by_themselves():
    cause = root_cause(RuntimeError(OURS))
    assert cause.message == "Cannot reach a Kafka cluster at one:9092."
    assert cause.passing
    assert root_cause(ClusterUnreachable("one:9092", "refused")).passing


def test_java_s_exceptions_are_cut_to_what_they_say():
    cause = root_cause(RuntimeError(OF_JAVA))
    assert cause.message == "Disk is full"
    assert not cause.passing


def test_a_worker_that_is_slow_to_start_is_nobody_s_fault():
    assert root_cause(RuntimeError("Python worker failed to connect back.")).passing


def test_a_cluster_without_leaders_is_waited_for():
    said = "headrace.kafka.errors.ClusterUnready: Cannot fetch at one:9092: no leader."
    assert root_cause(RuntimeError(OURS.replace(OURS.splitlines()[-1], said))).passing


def test_a_registry_that_is_down_is_waited_for_and_one_that_refuses_us_is_not():
    said = "headrace.streams.formats.errors.{}: the schema registry at http://one did not answer."
    for kind, passing in (("RegistryUnreachable", True), ("RegistryFailed", False)):
        told = OURS.replace(OURS.splitlines()[-1], said.format(kind))
        assert root_cause(RuntimeError(told)).passing is passing


class OfAJavaThatIsGone(Exception):
    def __str__(self) -> str:
        raise ConnectionRefusedError


def test_an_exception_that_can_say_nothing_any_more_is_called_by_its_name():
    cause = root_cause(OfAJavaThatIsGone())
    assert cause.message == "OfAJavaThatIsGone, and Spark's Java is gone"


def test_an_exception_without_a_word_is_called_by_its_name():
    assert root_cause(ValueError()).message == "ValueError"
