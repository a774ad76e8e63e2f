"""From a description to queries that can start: everything that can be refused is refused here."""

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.streams.connectors import StreamingKafka
from headrace.streams.errors import InvalidFlow
from headrace.streams.names import did_you_mean
from headrace.streams.outputs import DeadLetterOutput, Output, TopicOutput
from headrace.streams.plan import sources
from headrace.streams.running.checkpoints import Checkpoint, checkpoint_of
from headrace.streams.running.places import LocalPlace, Place, SparkPlace, is_local
from headrace.streams.running.query import Prepared
from headrace.streams.running.state import output_mode, state_shape
from headrace.streams.sinks.contract import Sink
from headrace.streams.writing import compile_output

if TYPE_CHECKING:
    from headrace.streams.flow import Flow


def place_of(flow: "Flow") -> Place:
    """Where the flow's checkpoints are; a URL needs Spark to be reached."""
    checkpoints = flow.settings.streams.checkpoints
    if is_local(checkpoints):
        return LocalPlace(Path(checkpoints).expanduser().absolute() / flow.name)
    return SparkPlace(flow.spark, f"{checkpoints.rstrip('/')}/{flow.name}")


def checkpoints_of(flow: "Flow") -> dict[Output, Checkpoint]:
    """The checkpoint of every output, each of which fits what the output has become."""
    if not flow.outputs:
        raise InvalidFlow(
            f"Flow {flow.name} writes nothing; add an output such as flow.topic(name, stream)."
        )
    place = place_of(flow)
    found = {output: checkpoint_of(flow, output, place) for output in flow.outputs}
    for checkpoint in found.values():
        checkpoint.check()
    return found


def require_topics(flow: "Flow") -> None:
    """Refuse a flow that reads a topic that does not exist, and suggest one that does."""
    from headrace.kafka import Cluster
    from headrace.kafka.topics import list_topics

    present = [each.name for each in list_topics(Cluster(flow.settings.kafka))]
    for output in flow.outputs:
        for read in sources(output.node):
            for topic in read.topics:
                if topic not in present:
                    visible = [name for name in present if not name.startswith("__")]
                    raise InvalidFlow(
                        f"Flow {flow.name} reads the topic {topic}, which does not exist at "
                        f"{flow.settings.kafka.bootstrap}; {did_you_mean(topic, visible)}"
                    )


def prepare(flow: "Flow", output: Output, checkpoint: Checkpoint) -> Prepared:
    """Compile an output's query, and refuse a change that its stored state cannot follow."""
    group = f"{flow.name}.{output.name}"
    connector = StreamingKafka(flow.spark, flow.settings.kafka, group)
    rows = compile_output(output, connector)
    shape = state_shape(rows)
    checkpoint.check_state(shape)
    sink = _sink(flow, output)
    return Prepared(flow.name, output, rows, sink, checkpoint, output_mode(shape))


def _sink(flow: "Flow", output: Output) -> Sink:
    from headrace.streams.sinks.topic import TopicSink

    kafka = flow.settings.kafka
    match output:
        case TopicOutput():
            return TopicSink(kafka, output.topic, partitions=output.partitions)
        case DeadLetterOutput():
            return TopicSink(kafka, output.topic)
        case _:
            return output.sink
