"""The catalogue of topics: what exists, under which name and id, with which configuration.

Every change is an entry in a journal and is in force as soon as it is appended; a handler that made
one waits for the journal to be durable before it answers. The partitions' logs are opened with the
catalogue and closed with it.
"""

import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson
from kio.schema.errors import ErrorCode

from headrace.broker.archive.configs import COPY_DISABLED, archives, check_archiving
from headrace.broker.durability import GroupCommit
from headrace.broker.partition import Partition
from headrace.broker.topic_configs import (
    InvalidConfig,
    check_configs,
    effective,
    log_settings,
)
from headrace.broker.verification import Verification
from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.log import DataDirectory, Journal, PartitionLog
from headrace.log.errors import ArchiveRefused, LogError
from headrace.settings import BrokerSettings

if TYPE_CHECKING:
    from headrace.broker.archive.archive import BrokerArchive

log = logging.getLogger("headrace.broker")

NODE_ID = 1
"""The id of the one node, which leads every partition and holds its only replica."""

CLOSING_THREADS = 8
"""How many logs are closed at a time when the broker stops."""

ENTRY_VERSION = 1
"""The form of the catalogue's journal entries."""

MAX_PARTITIONS = 100_000
"""More partitions in one topic are surely a mistake."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicError(HeadraceError):
    """A topic cannot be made or changed as asked; carries the protocol's code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Removal(Protocol):
    """Files that are no longer part of the data and wait to be unlinked."""

    def remove(self) -> None:
        """Unlink them; may take a while."""
        ...


class TopicRecord(NamedTuple):
    """A topic as the catalogue's journal tells of it."""

    id: str
    """In hexadecimal digits."""
    name: str
    partitions: int
    configs: dict[str, str]


class Topic:
    """A topic and its partitions, with what produce needs of its configuration at hand."""

    __slots__ = (
        "append_time",
        "compacted",
        "configs",
        "id",
        "max_ahead_ms",
        "max_message_bytes",
        "min_insync_replicas",
        "name",
        "partitions",
        "values",
    )

    def __init__(self, name: str, topic_id: uuid.UUID) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        self.configs: dict[str, str] = {}
        self.values: dict[str, str] = {}

    def configure(self, configs: dict[str, str], settings: BrokerSettings) -> None:
        """Put a configuration into force."""
        values = effective(configs, settings)
        self.configs = configs
        self.values = values
        self.append_time = values["message.timestamp.type"] == "LogAppendTime"
        self.compacted = log_settings(values).compaction is not None
        self.max_ahead_ms = int(values["message.timestamp.after.max.ms"])
        self.max_message_bytes = int(values["max.message.bytes"])
        self.min_insync_replicas = int(values["min.insync.replicas"])
        for partition in self.partitions:
            partition.reconfigure(log_settings(values))

    def check_time(self, max_timestamp: int, clock: Clock) -> int | None:
        """The time to stamp a batch with, if the topic does that; refuses times too far ahead."""
        now = clock.now_ms()
        if self.append_time:
            return now
        if max_timestamp - now > self.max_ahead_ms:
            raise TopicError(
                ErrorCode.invalid_timestamp,
                f"a record's timestamp {max_timestamp} lies more than {self.max_ahead_ms} ms in "
                f"the future; see message.timestamp.after.max.ms of {self.name}",
            )
        return None


class Catalogue:
    """All topics of a broker, by name and by id."""

    def __init__(
        self,
        directory: DataDirectory,
        settings: BrokerSettings,
        clock: Clock,
        commits: GroupCommit,
        verification: Verification,
        archive: "BrokerArchive | None" = None,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._commits = commits
        self._verification = verification
        self._archive = archive
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self.journal: Journal = directory.journal("topics")
        self.removals: list[Removal] = []
        self.version = 0
        """Changes whenever topics or partitions come or go."""
        self._replay()

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str | None) -> Topic | None:
        """The topic of a name."""
        return self._by_name.get(name) if name is not None else None

    def by_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        """The topic of an id."""
        return self._by_id.get(topic_id) if topic_id is not None else None

    def find(self, key: str | uuid.UUID | None) -> Topic | None:
        """The topic of a name or an id, whichever the client uses."""
        return self._by_name.get(key) if type(key) is str else self._by_id.get(key)  # type: ignore[arg-type]

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> None:
        """Refuse a topic that could not be created."""
        check_name(name)
        if name in self._by_name:
            raise TopicError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        folded = name.replace(".", "_")
        for other in self._by_name:
            if other.replace(".", "_") == folded:
                raise TopicError(
                    ErrorCode.invalid_topic_exception,
                    f"Topic '{name}' collides with existing topic: {other}",
                )
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise TopicError(
                ErrorCode.invalid_partitions,
                f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}",
            )
        self._check_archiving({}, check_configs(configs))

    def create(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Make a topic; it exists once the journal is durable."""
        self.check_new(name, partitions, configs)
        topic = Topic(name, uuid.uuid4())
        topic.configure(check_configs(configs), self._settings)
        for index in range(partitions):
            topic.partitions.append(self._open(topic, index))
        self._write(
            "create",
            name=name,
            id=topic.id.hex,
            partitions=partitions,
            configs=topic.configs,
        )
        self._add(topic)
        log.info("created topic %s with %d partitions", name, partitions)
        return topic

    def delete(self, topic: Topic) -> None:
        """Take a topic away at once; its files go in the background (`removals`)."""
        if self._archive is not None and archives(topic.values):
            # First, so that no crash leaves objects behind that nobody knows of.
            self._archive.doom(topic.id)
        self._write("delete", id=topic.id.hex)
        del self._by_name[topic.name], self._by_id[topic.id]
        self.version += 1
        for partition in topic.partitions:
            partition.retire()
            partition.log.abandon()
            try:
                removal = self._directory.delete_partition(topic.name, partition.index)
            except LogError as error:
                # The journal says that it is gone, so the next start removes it.
                log.error("cannot remove %s-%d yet: %s", topic.name, partition.index, error)
            else:
                self.removals.append(removal)
        log.info("deleted topic %s", topic.name)

    def grow(self, topic: Topic, partitions: int) -> None:
        """Give a topic more partitions, up to the given number."""
        self.check_growth(topic, partitions)
        added = [self._open(topic, index) for index in range(len(topic.partitions), partitions)]
        self._write("grow", id=topic.id.hex, partitions=partitions)
        topic.partitions.extend(added)
        self.version += 1

    def check_growth(self, topic: Topic, partitions: int) -> None:
        """Refuse a number of partitions that is not a growth."""
        if not len(topic.partitions) < partitions <= MAX_PARTITIONS:
            raise TopicError(
                ErrorCode.invalid_partitions,
                f"The topic {topic.name} currently has {len(topic.partitions)} partition(s); "
                f"{partitions} would not be an increase.",
            )

    def configure(
        self, topic: Topic, configs: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Replace a topic's configuration, or only find out whether that is possible."""
        checked = check_configs(configs)
        self._check_archiving(topic.values, checked)
        if archives(effective(checked, self._settings)) and not archives(topic.values):
            self._refuse_doomed(topic)
        if validate_only:
            return
        self._write("configure", id=topic.id.hex, configs=checked)
        topic.configure(checked, self._settings)
        for partition in topic.partitions:
            self._settle_archive(topic, partition)

    def copying_disabled(self, name: str) -> bool:
        """Whether nothing more of a topic goes to the archive, although it has some."""
        topic = self._by_name.get(name)
        return topic is not None and topic.values[COPY_DISABLED] == "true"

    def compact_if_due(self) -> None:
        """Rewrite the journal when most of its entries are history."""
        if self.journal.entry_count > 100 + 4 * len(self._by_name):
            self.journal.rewrite(
                self._entry(
                    "create",
                    name=topic.name,
                    id=topic.id.hex,
                    partitions=len(topic.partitions),
                    configs=topic.configs,
                )
                for topic in self
            )

    def close(self) -> None:
        """Close every log cleanly; several at a time, because each waits for the disk."""
        logs = [partition.log for topic in self for partition in topic.partitions]
        with ThreadPoolExecutor(CLOSING_THREADS) as threads:
            list(threads.map(PartitionLog.close, logs))
        self.journal.close()

    def _replay(self) -> None:
        for record in replay_topics(self.journal.entries()).values():
            topic = Topic(record.name, uuid.UUID(hex=record.id))
            topic.configure(record.configs, self._settings)
            for index in range(record.partitions):
                topic.partitions.append(self._open(topic, index))
            self._add(topic)
            if self._archive is not None and archives(topic.values):
                # A crash kept its deletion from being journalled here.
                self._archive.keep(topic.id)
        self._remove_strays()

    def _remove_strays(self) -> None:
        """A crash between making a directory and journalling its topic leaves one nobody owns."""
        for name, index, _ in self._directory.partitions():
            topic = self._by_name.get(name)
            if topic is None or index >= len(topic.partitions):
                log.warning("removing %s-%d, which belongs to no topic", name, index)
                self.removals.append(self._directory.delete_partition(name, index))

    def _open(self, topic: Topic, index: int) -> Partition:
        opened = PartitionLog.open(
            self._directory.partition_path(topic.name, index),
            log_settings(topic.values),
            clock=self._clock,
            disk=self._directory.disk,
        )
        partition = Partition(topic.name, index, opened, self._commits, self._verification)
        self._settle_archive(topic, partition)
        return partition

    def _settle_archive(self, topic: Topic, partition: Partition) -> None:
        """Let a partition use the archive if its topic does, and no longer if it does not."""
        directory = self._directory.partition_path(topic.name, partition.index)
        if self._archive is None:
            if archives(topic.values):
                raise ArchiveRefused(
                    f"topic {topic.name} keeps records in an archive, but this broker has none: "
                    "set broker.archive to its location"
                )
            return
        if archives(topic.values):
            if partition.archive is None:
                self._archive.attach(partition, topic.id, directory)
        elif partition.archive is not None or self._archive.keeps_manifest(directory):
            self._archive.doom(topic.id)
            self._archive.detach(partition, directory)

    def _check_archiving(self, before: Mapping[str, str], configs: Mapping[str, str]) -> None:
        after = effective(configs, self._settings)
        check_archiving(before, after, available=self._archive is not None)

    def _refuse_doomed(self, topic: Topic) -> None:
        if self._archive is not None and topic.id.hex in self._archive.doomed:
            raise InvalidConfig(
                f"the archive of {topic.name} is still being deleted; try again in a moment"
            )

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self.version += 1

    def _write(self, change: str, **fields: object) -> None:
        self.journal.append(self._entry(change, **fields))

    @staticmethod
    def _entry(change: str, **fields: object) -> bytes:
        return orjson.dumps({"version": ENTRY_VERSION, "change": change, **fields})


def replay_topics(entries: Iterable[bytes]) -> dict[str, TopicRecord]:
    """The topics that a catalogue's journal tells of, by their ids."""
    found: dict[str, TopicRecord] = {}
    for entry in entries:
        change = orjson.loads(entry)
        topic_id = change["id"]
        match change["change"]:
            case "create":
                found[topic_id] = TopicRecord(
                    topic_id, change["name"], change["partitions"], change["configs"]
                )
            case "delete":
                found.pop(topic_id, None)
            case "grow":
                found[topic_id] = found[topic_id]._replace(partitions=change["partitions"])
            case "configure":
                found[topic_id] = found[topic_id]._replace(configs=change["configs"])
    return found


def check_name(name: str) -> None:
    """Refuse what cannot be a topic's name."""
    if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
        raise TopicError(
            ErrorCode.invalid_topic_exception,
            f"Topic name is invalid: '{name}'; a name has 1 to 249 letters, digits, '.', '_' or "
            "'-' and is not '.' or '..'",
        )
