"""Names of topics that stand for what a version of another flow writes, followed when reading."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.streams.connectors import Connector
from headrace.streams.plan import ReadTopics
from headrace.streams.versions import resolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FollowingAliases:
    """A connector that reads, under the names of a flow, the topics that they stand for."""

    connector: Connector
    aliases: Mapping[str, str]

    def read(self, node: ReadTopics) -> "DataFrame":
        """The rows of the topics that are meant."""
        return self.connector.read(self._meant(node))

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """What did not parse in the topics that are meant."""
        return self.connector.dead_letters(self._meant(node))

    def _meant(self, node: ReadTopics) -> ReadTopics:
        return replace(node, topics=resolved(node.topics, self.aliases))
