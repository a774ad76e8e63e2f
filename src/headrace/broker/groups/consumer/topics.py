"""What a group has to know about topics: which there are, and how many partitions they have."""

from collections.abc import Iterator, Sized
from typing import Protocol
from uuid import UUID


class KnownTopic(Protocol):
    """A topic that exists."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def id(self) -> UUID:
        """Its id, which no other topic ever has."""
        ...

    @property
    def partitions(self) -> Sized:
        """Its partitions, numbered from 0."""
        ...


class KnownTopics(Protocol):
    """All topics of the broker."""

    @property
    def version(self) -> int:
        """A number that changes whenever topics or partitions come or go."""
        ...

    def __iter__(self) -> Iterator[KnownTopic]:
        """Every topic."""
        ...

    def get(self, name: str) -> KnownTopic | None:
        """The topic with a name."""
        ...

    def by_id(self, topic_id: UUID) -> KnownTopic | None:
        """The topic with an id."""
        ...
