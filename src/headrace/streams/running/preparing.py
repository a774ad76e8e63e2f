"""From a description to queries that can start: everything that can be refused is refused here."""

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.streams.aliases import FollowingAliases
from headrace.streams.compile import compile_node
from headrace.streams.connectors import StreamingKafka
from headrace.streams.outputs import DeadLetterOutput, Output, StoreOutput, TopicOutput, queries_of
from headrace.streams.running.branches import told
from headrace.streams.running.checkpoints import Checkpoint, checkpoint_of
from headrace.streams.running.noting import notes_of
from headrace.streams.running.query import Prepared
from headrace.streams.running.stage import Stage
from headrace.streams.running.state import inputs_of, output_mode, state_shape
from headrace.streams.session import stateful_session
from headrace.streams.sinks.contract import AnySink
from headrace.streams.stateful import operator_of
from headrace.streams.writing import as_records, compile_output

if TYPE_CHECKING:
    from headrace.streams.flow import Flow


def checkpoints_of(stage: Stage) -> dict[Output, Checkpoint]:
    """The checkpoint of every query, by its first output, each fit for what that has become."""
    title, place, aliases = stage.version.title, stage.place, stage.aliases
    found = {
        each: checkpoint_of(title, each, place, aliases) for each, *_ in queries_of(stage.outputs)
    }
    for checkpoint in found.values():
        checkpoint.check()
    return found


def prepare(stage: Stage, outputs: tuple[Output, ...], checkpoint: Checkpoint) -> Prepared:
    """Compile the query of some outputs, and refuse a change that stored state cannot follow."""
    output = outputs[0]
    if isinstance(output, TopicOutput) and output.trigger is not None:
        return _prepare_realtime(stage, output, checkpoint)
    flow, title = stage.flow, stage.version.title
    kafka = StreamingKafka(flow.spark, flow.settings.kafka, f"{title}.{output.name}")
    if (operator := operator_of(output.node)) is not None:
        kafka = replace(kafka, spark=stateful_session(flow.spark))
        connector = FollowingAliases(kafka, stage.aliases)
        found = told(
            operator, outputs, connector, lambda each: _sink(flow, each), checkpoint.operators
        )
        checkpoint.check_plan(found.shape, inputs_of(found.tagged), found.operators)
        sink = found.branches[0].sink
        noting = notes_of(stage, outputs, checkpoint)
        return Prepared(title, output, found.tagged, sink, checkpoint, "update", found, noting)
    rows = compile_output(output, FollowingAliases(kafka, stage.aliases))
    shape = state_shape(rows)
    checkpoint.check_plan(shape, inputs_of(rows))
    sink = _sink(flow, output)
    noting = notes_of(stage, outputs, checkpoint)
    return Prepared(title, output, rows, sink, checkpoint, output_mode(shape), noting=noting)


def _prepare_realtime(stage: Stage, output: TopicOutput, checkpoint: Checkpoint) -> Prepared:
    from headrace.streams.realtime.connector import RealtimeKafka, written_by_connector
    from headrace.streams.realtime.refusals import require_stateless
    from headrace.streams.realtime.running import RealtimePrepared
    from headrace.streams.sinks.topic import Delivery, TopicSink

    spark, kafka = stage.flow.spark, stage.flow.settings.kafka
    connector = FollowingAliases(RealtimeKafka(spark, kafka), stage.aliases)
    rows = compile_node(output.node, connector)
    require_stateless(rows, output)
    rows, options = written_by_connector(as_records(rows, output), output, kafka)
    checkpoint.check_plan((), inputs_of(rows))
    sink = TopicSink(kafka, output.topic, Delivery.AT_LEAST_ONCE, partitions=output.partitions)
    title = stage.version.title
    return RealtimePrepared(title, output, rows, sink, checkpoint, "update", options=options)


def _sink(flow: "Flow", output: Output) -> AnySink:
    from headrace.streams.sinks.topic import Delivery, TopicSink

    kafka = flow.settings.kafka
    match output:
        case TopicOutput():
            delivery = Delivery(output.delivery)
            return TopicSink(
                kafka,
                output.topic,
                delivery,
                partitions=output.partitions,
                compacted=output.compacted,
            )
        case DeadLetterOutput():
            return TopicSink(kafka, output.topic)
        case StoreOutput(delta=store) if store is not None:
            from headrace.streams.sinks.delta import DeltaSink
            from headrace.streams.sinks.delta_library import require_library

            require_library(flow.spark)
            return DeltaSink(store.location, output.table, output.key)
        case StoreOutput():
            from headrace.streams.sinks.storing import StoreSink

            return StoreSink(output.store, output.table, output.key, kafka, output.dead_letters)
        case _:
            return output.sink
