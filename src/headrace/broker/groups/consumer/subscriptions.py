"""Which topics members read: those they name, and those that match their regular expressions."""

from uuid import UUID

from headrace.broker.groups.consumer.expressions import compile_expression
from headrace.broker.groups.consumer.member import Profile
from headrace.broker.groups.consumer.topics import KnownTopics


class Subscriptions:
    """Finds topics; an expression is matched once for as long as no topic comes or goes."""

    def __init__(self, topics: KnownTopics) -> None:
        self._topics = topics
        self._version = topics.version
        self._matches: dict[str, frozenset[str]] = {}

    @property
    def version(self) -> int:
        """A number that changes whenever another answer is possible."""
        return self._topics.version

    def topics_of(self, profile: Profile) -> dict[UUID, int]:
        """The topics that a member reads and that exist, with their numbers of partitions."""
        names = profile.topic_names | self._matching(profile.topic_expression)
        found = (self._topics.get(name) for name in sorted(names))
        return {topic.id: len(topic.partitions) for topic in found if topic is not None}

    def includes(self, profile: Profile, topic: str) -> bool:
        """Whether a member reads a topic."""
        return topic in profile.topic_names or topic in self._matching(profile.topic_expression)

    def _matching(self, expression: str) -> frozenset[str]:
        if not expression:
            return frozenset()
        if self._version != self._topics.version:
            self._version = self._topics.version
            self._matches.clear()
        found = self._matches.get(expression)
        if found is None:
            pattern = compile_expression(expression)
            found = self._matches[expression] = frozenset(
                topic.name for topic in self._topics if pattern.fullmatch(topic.name)
            )
        return found
