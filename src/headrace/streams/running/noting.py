"""What a flow tells of its views: that they are there and, after each batch, how far they have got.

It is written when all that the batch writes is written, and before Spark notes the batch as done:
a batch whose note is missing comes again, writes nothing, and is noted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.kafka import Cluster, Partition
from headrace.kafka.connection import connect
from headrace.kafka.raw_positions import LATEST, list_offsets
from headrace.kafka.topic_shapes import topic_shape
from headrace.settings import KafkaSettings
from headrace.streams.outputs import Output, TopicOutput
from headrace.streams.plan import DELETED, written
from headrace.streams.running.checkpoints import Checkpoint, read_until
from headrace.streams.running.stage import Stage
from headrace.views.materialized.description import ViewDescription
from headrace.views.registry import Note, RegistryWriter, declaration, position

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ViewNotes:
    """The views of one query, and where that keeps what it has read."""

    kafka: KafkaSettings
    views: tuple[ViewDescription, ...]
    checkpoint: Checkpoint

    def declare(self) -> None:
        """Say that the views are there."""
        self._writer.write(*map(declaration, self.views))

    def note(self, batch: int) -> None:
        """Say what a batch, which is written, has read, and where the views' topics end."""
        sources = read_until(self.checkpoint.place, batch)
        notes = [Note(each.name, batch, sources, self._ends(each.topic)) for each in self.views]
        self._writer.write(*map(position, notes))

    def _ends(self, topic: str) -> "Mapping[int, int]":
        connection = connect(self.kafka)
        numbers = range(topic_shape(connection, topic).partitions)
        ends = list_offsets(connection, [Partition(topic, each) for each in numbers], LATEST)
        return {partition.number: end for partition, end in ends.items()}

    @cached_property
    def _writer(self) -> RegistryWriter:
        return RegistryWriter(Cluster(self.kafka))


def notes_of(stage: Stage, outputs: Sequence[Output], checkpoint: Checkpoint) -> ViewNotes | None:
    """Who is told of the batches of a query; None if no view is made of its outputs."""
    views = tuple(
        ViewDescription(
            name=stage.version.topic(each.view),
            topic=each.topic,
            key=tuple(map(written, each.key)),
            by_record=True,
            columns=tuple(name for name in each.node.columns or () if name != DELETED),
            of=each.view,
            flow=stage.version.title,
        )
        for each in outputs
        if isinstance(each, TopicOutput) and each.view is not None
    )
    return ViewNotes(stage.flow.settings.kafka, views, checkpoint) if views else None
