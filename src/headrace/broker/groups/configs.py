"""The configuration that a group may have of its own, under the names that Kafka gives it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.settings import ConsumerTimes
from headrace.errors import HeadraceError

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"


class InvalidGroupConfig(HeadraceError):
    """A group configuration that is unknown or has an impossible value."""


@dataclass(frozen=True, slots=True)
class GroupConfigKey:
    """One configuration key of a group: a number of milliseconds."""

    name: str
    lowest: int
    highest: int
    documentation: str


GROUP_CONFIGS: Final = {
    key.name: key
    for key in (
        GroupConfigKey(
            SESSION_TIMEOUT,
            1_000,
            1_800_000,
            "How long a member of a consumer group may be silent.",
        ),
        GroupConfigKey(
            HEARTBEAT_INTERVAL,
            100,
            60_000,
            "How often members of a consumer group are asked to call.",
        ),
    )
}
"""The keys by their names."""

GROUP_CONFIG_LIMITS: Final = {
    key.name.replace("consumer.", f"group.consumer.{bound}."): str(value)
    for key in GROUP_CONFIGS.values()
    for bound, value in (("max", key.highest), ("min", key.lowest))
}
"""The bounds of each key, under the names of the settings that Kafka keeps them in."""


class GroupConfigs:
    """The groups' own configurations; they are kept until they are taken back."""

    def __init__(self, store: OffsetStore, defaults: ConsumerTimes) -> None:
        self._store = store
        self._defaults = {
            SESSION_TIMEOUT: str(defaults.session_timeout_ms),
            HEARTBEAT_INTERVAL: str(defaults.heartbeat_interval_ms),
        }

    def __iter__(self) -> Iterator[str]:
        """The ids of the groups that have a configuration."""
        return iter(sorted(self._store.configs()))

    def own(self, group_id: str) -> Mapping[str, str]:
        """What has been set for a group."""
        return self._store.configs().get(group_id, {})

    def values(self, group_id: str) -> dict[str, str]:
        """Every key with the value that holds for a group."""
        return self._defaults | dict(self.own(group_id))

    def times(self, group_id: str) -> ConsumerTimes:
        """The timeouts that hold for a group."""
        values = self.values(group_id)
        return ConsumerTimes(
            session_timeout_ms=int(values[SESSION_TIMEOUT]),
            heartbeat_interval_ms=int(values[HEARTBEAT_INTERVAL]),
        )

    def configure(
        self, group_id: str, configs: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Replace a group's configuration, or only find out whether that is possible."""
        checked = {name: _checked(name, value) for name, value in configs.items()}
        values = self._defaults | checked
        if int(values[SESSION_TIMEOUT]) <= int(values[HEARTBEAT_INTERVAL]):
            raise InvalidGroupConfig(
                f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}: "
                f"{values[SESSION_TIMEOUT]} is not greater than {values[HEARTBEAT_INTERVAL]}"
            )
        if not validate_only:
            self._store.configure(group_id, checked)


def _checked(name: str, value: str | None) -> str:
    key = GROUP_CONFIGS.get(name)
    if key is None:
        raise InvalidGroupConfig(
            f"Unknown group config name: {name}; there are {', '.join(GROUP_CONFIGS)}"
        )
    try:
        number = int(value or "")
    except ValueError:
        number = -1
    if not key.lowest <= number <= key.highest:
        raise InvalidGroupConfig(
            f"Invalid value {value} for configuration {name}: expected a whole number from "
            f"{key.lowest} to {key.highest}"
        )
    return str(number)
