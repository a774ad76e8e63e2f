"""What can go wrong between us and a Kafka cluster."""

from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class ClusterError(HeadraceError):
    """The cluster could not be reached, or refused what it was asked."""


class ClusterUnreachable(ClusterError):
    """Nobody listens at the bootstrap addresses."""

    remedy = (
        "Start one with `headrace broker`, or name another with --bootstrap, "
        "HEADRACE_KAFKA_BOOTSTRAP or [kafka] bootstrap in headrace.toml."
    )

    def __init__(self, bootstrap: str, reason: str) -> None:
        reason = reason.rstrip(".?")
        super().__init__(f"Cannot reach a Kafka cluster at {bootstrap}: {reason}. {self.remedy}")


class ClusterSilent(ClusterUnreachable):
    """Somebody listens at the bootstrap addresses, but does not answer as a Kafka broker would."""

    remedy = (
        "Check that it is a Kafka broker and is running, and that [kafka.properties] says how it "
        "wants to be spoken to (security.protocol, sasl.*, ssl.*)."
    )


class InvalidClientProperties(ClusterError):
    """librdkafka does not accept the [kafka.properties] it was given."""


class UnknownTopic(ClusterError):
    """There is no topic of that name."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"There is no topic {topic}. See `headrace topics list`, or create it with "
            f"`headrace topics create {topic}`."
        )


class UnknownPartition(ClusterError):
    """The topic has fewer partitions than that."""

    def __init__(self, topic: str, number: int, count: int) -> None:
        last = "its only one is 0" if count == 1 else f"the last of its {count} is {count - 1}"
        super().__init__(f"{topic} has no partition {number}; {last}.")


class UnknownTopicConfig(ClusterError):
    """Topics have no such configuration."""

    def __init__(self, name: str, suggestion: str | None) -> None:
        remedy = (
            f"did you mean {suggestion}?"
            if suggestion
            else "`headrace topics config` on any topic lists them all."
        )
        super().__init__(f"Topics have no configuration {name}; {remedy}")


class TopicExists(ClusterError):
    """A topic of that name is there already."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"The topic {topic} exists already; `headrace topics config` changes it.")


class UnknownGroup(ClusterError):
    """There is no consumer group of that name."""

    def __init__(self, group: str) -> None:
        super().__init__(f"There is no consumer group {group}. See `headrace groups list`.")


class GroupActive(ClusterError):
    """The group has members, whose positions would overwrite what is being set."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"The group {group} has running members, which would overwrite its offsets. Stop them "
            "first; `headrace groups describe` shows where they run."
        )


class GroupInUse(ClusterError):
    """The group has members, and cannot be deleted under them."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"The group {group} has running members and cannot be deleted. Stop them first; "
            "`headrace groups describe` shows where they run."
        )


class RequestRefused(ClusterError):
    """The cluster answered with an error that has no class of its own here."""

    def __init__(self, attempt: str, error: "KafkaError") -> None:
        super().__init__(f"Cannot {attempt}: {error.str()} ({error.name()}).")
        self.reason = error.name()
        """The error's name in the Kafka protocol, such as TOPIC_ALREADY_EXISTS."""


class ClusterUnready(RequestRefused):
    """The cluster answered "not now" for as long as it was asked: leaders or replicas are away."""
