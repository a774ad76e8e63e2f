"""Cores that queries in real time hold on to, counted before they wait for each other for ever."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.kafka import Cluster, list_topics
from headrace.streams.errors import InvalidFlow
from headrace.streams.outputs import Output, TopicOutput
from headrace.streams.plan import sources
from headrace.streams.versions import resolved

if TYPE_CHECKING:
    from headrace.streams.running.stage import Stage


def require_cores(stage: "Stage") -> None:
    """Refuse a flow that the cores of this machine cannot run; what a cluster has is not known."""
    if not any(map(_is_realtime, stage.outputs)):
        return
    context = stage.flow.spark.sparkContext
    if str(context.master).startswith("local"):
        cluster = Cluster(stage.flow.settings.kafka)
        partitions = {each.name: each.partitions for each in list_topics(cluster)}
        compare_cores(stage.outputs, stage.aliases, partitions, context.defaultParallelism)


def compare_cores(
    outputs: Iterable[Output],
    aliases: Mapping[str, str],
    partitions: Mapping[str, int],
    cores: int,
) -> None:
    """Raise InvalidFlow if outputs in real time read more partitions than there are cores."""
    outputs = list(outputs)
    held = sum(
        partitions.get(topic, 0)
        for output in outputs
        if _is_realtime(output)
        for read in sources(output.node)
        for topic in resolved(read.topics, aliases)
    )
    batches = not all(map(_is_realtime, outputs))
    if held + batches > cores:
        rest = ", and the outputs in batches need one more" if batches else ""
        raise InvalidFlow(
            f"Outputs in real time read {held} partitions here and hold a core for each, all the "
            f"time{rest}; Spark has {cores}. Give it {held + batches} with [streams] master = "
            f'"local[{held + batches}]" (more than the machine has is possible), or leave a '
            "trigger out."
        )


def _is_realtime(output: Output) -> bool:
    return isinstance(output, TopicOutput) and output.trigger is not None
