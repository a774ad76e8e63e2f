"""What versions of a flow are called, where they write, and what is refused."""

from dataclasses import dataclass

import pytest

from headrace.streams import Flow, InvalidFlow
from headrace.streams.errors import InvalidName
from headrace.streams.outputs import DeadLetterOutput, SinkOutput, TopicOutput
from headrace.streams.versions import Version, checked_version


@dataclass(frozen=True)
class Table:
    """A sink, as far as a description looks at it."""

    name: str

    def begin(self, batch: object) -> None: ...

    def write(self, place: object, rows: object) -> None: ...


@dataclass(frozen=True)
class TwinTable(Table):
    def beside(self, version: str) -> "TwinTable":
        return TwinTable(f"{self.name}_{version}")


def described() -> Flow:
    flow = Flow("shop")
    orders = flow.stream("orders", "customer string", dead_letters="bad")
    flow.topic("large", orders, topic="customer")
    return flow


def test_the_first_version_is_the_flow_as_it_is():
    flow = described()
    assert Version("shop").outputs(flow.outputs) == flow.outputs


def test_another_version_writes_topics_of_its_own_dead_letters_included():
    large, bad = Version("shop", "v2").outputs(described().outputs)
    assert isinstance(large, TopicOutput)
    assert (large.name, large.topic, large.topic_of_row) == (
        "large",
        "large.v2",
        "concat(customer, '.v2')",
    )
    assert isinstance(bad, DeadLetterOutput)
    assert bad.topic == "bad.v2"


def test_a_sink_that_cannot_write_beside_itself_cannot_be_rebuilt():
    flow = described()
    flow.sink("db", flow.stream("orders", "x int"), Table("orders"))  # type: ignore[arg-type]
    with pytest.raises(InvalidFlow, match=r"goes to Table, .* a method beside\(version\)"):
        Version("shop", "v2").outputs(flow.outputs)


def test_a_sink_that_can_is_asked_to():
    flow = Flow("shop")
    flow.sink("db", flow.stream("orders", "x int"), TwinTable("orders"))  # type: ignore[arg-type]
    (found,) = Version("shop", "v2").outputs(flow.outputs)
    assert isinstance(found, SinkOutput)
    assert str(found.sink) == "TwinTable(name='orders_v2')"


@pytest.mark.parametrize("name", ["", "as", "a/b", "-x", "a@b", "..", "x" * 41, "v 2"])
def test_names_that_cannot_be_a_version_s_are_refused(name: str):
    with pytest.raises(InvalidName):
        checked_version(name)


def test_a_topic_that_would_get_too_long_a_name_is_refused():
    flow = Flow("shop")
    flow.topic("x" * 200, flow.stream("orders", "x int"))
    with pytest.raises(InvalidName, match="longer than the 249 characters"):
        Version("shop", "v" * 50).outputs(flow.outputs)
