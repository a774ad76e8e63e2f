"""Versions of a flow: the same flow several times, side by side, each with outputs of its own.

The first version is the flow as it is named. Every other has its name behind that of the flow, in
all that it keeps and writes:

    >>> first, second = Version("shop"), Version("shop", "v2")
    >>> first.title, second.title
    ('shop', 'shop@v2')
    >>> first.topic("large-orders"), second.topic("large-orders")
    ('large-orders', 'large-orders.v2')

No flow and no output can have an @ in its name, so a version meets nobody in its directory, its
groups or its transactions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from headrace.streams.errors import InvalidFlow, InvalidName
from headrace.streams.names import checked_name
from headrace.streams.outputs import DeadLetterOutput, Output, SinkOutput, StoreOutput, TopicOutput
from headrace.streams.plan import Expression

if TYPE_CHECKING:
    from headrace.streams.sinks.contract import Sink

FIRST: Final = "v1"
"""What a flow that was never rebuilt is called."""

_LONGEST_TOPIC: Final = 249
"""Characters of a topic's name that Kafka allows."""

_LONGEST: Final = 40


@runtime_checkable
class Rebuildable(Protocol):
    """A sink that can write beside itself, so that its flow can be rebuilt."""

    def beside(self, version: str) -> "Sink":
        """The same sink for another version of the flow: it must write to another place."""
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a flow."""

    flow: str
    name: str = FIRST

    @property
    def title(self) -> str:
        """What its directory, groups, transactions and metrics are called."""
        return self.flow if self.name == FIRST else f"{self.flow}@{self.name}"

    def topic(self, name: str) -> str:
        """The topic that it writes where the flow says `name`."""
        return name if self.name == FIRST else f"{name}.{self.name}"

    def topics(self, outputs: Iterable[Output]) -> dict[str, str]:
        """Every topic that outputs of the flow name, and the one that this version writes."""
        return {
            each.topic: self.topic(each.topic)
            for each in outputs
            if not isinstance(each, SinkOutput | StoreOutput)
        }

    def outputs(self, outputs: Iterable[Output]) -> tuple[Output, ...]:
        """The flow's outputs as this version has them; InvalidFlow if one can be only once."""
        if self.name == FIRST:
            return tuple(outputs)
        return tuple(self._output(each) for each in outputs)

    def _output(self, output: Output) -> Output:
        match output:
            case TopicOutput():
                return replace(
                    output,
                    topic=self._checked(output.topic),
                    topic_of_row=_with_suffix(output.topic_of_row, f".{self.name}"),
                )
            case DeadLetterOutput():
                return replace(output, topic=self._checked(output.topic))
            case StoreOutput():
                letters = output.dead_letters
                return replace(
                    output,
                    table=f"{output.table}_{self.name}",
                    dead_letters=None if letters is None else self._checked(letters),
                )
            case SinkOutput():
                if not isinstance(output.sink, Rebuildable):
                    raise InvalidFlow(
                        f"Flow {self.flow} cannot be rebuilt beside itself: its output "
                        f"{output.name} goes to {type(output.sink).__name__}, and both versions "
                        "would write to the same place. Give that sink a method beside(version), "
                        "which returns one that writes elsewhere."
                    )
                return replace(output, sink=output.sink.beside(self.name))

    def _checked(self, name: str) -> str:
        topic = self.topic(name)
        if len(topic) > _LONGEST_TOPIC:
            raise InvalidName(
                f"Version {self.name} of flow {self.flow} would write the topic {topic}, and that "
                f"is longer than the {_LONGEST_TOPIC} characters that Kafka allows."
            )
        return topic


def checked_version(name: str) -> str:
    """The name, if a version can have it; InvalidName says what it may be."""
    if name == "as":
        raise InvalidName("A rebuild needs a name for the new version, as in --rebuild as v2.")
    if len(name) > _LONGEST:
        raise InvalidName(f"{name!r} is too long for a version; use up to {_LONGEST} characters.")
    return checked_name(name, "version")


def resolved(topics: Iterable[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Topics by their real names, where a name stands for what a version writes."""
    return tuple(aliases.get(each, each) for each in topics)


def _with_suffix(topic: Expression | None, suffix: str) -> Expression | None:
    if topic is None:
        return None
    if isinstance(topic, str):
        return f"concat({topic}, '{suffix}')"
    from pyspark.sql.functions import concat, lit

    return concat(topic, lit(suffix))
