"""The [lag] section: how consumer groups' lag is measured, kept and watched over."""

from dataclasses import dataclass
from pathlib import Path

from headrace.settings.address import Address
from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import Duration, Location, Maybe, Text, Whole
from headrace.settings.sections import Section, setting
from headrace.settings.tables import CommandLine, Tables, WebAddress, Words


@dataclass(frozen=True, slots=True)
class AlertRule(Section):
    """One [[lag.alerts]]: when to raise an alarm about a group's lag in a topic, and where.

    Every alarm is a log line; a webhook, a command and a mail come on top.
    """

    group: str = setting(Text(), "*", "Groups it is about; * and ? are wildcards.")
    topic: str = setting(Text(), "*", "Topics it is about; * and ? are wildcards.")
    max_records: int | None = setting(
        Maybe(Whole()), None, "Lag in records, of all partitions together, that is still fine."
    )
    max_time_ms: int | None = setting(
        Maybe(Duration()), None, "Lag in time, of the worst partition, that is still fine."
    )
    for_ms: int = setting(Duration(), "0s", "How long it must be exceeded before the alarm.")
    webhook: str | None = setting(
        Maybe(WebAddress()), None, "Address that the alarm is posted to as JSON."
    )
    command: tuple[str, ...] | None = setting(
        Maybe(CommandLine()), None, "Program and arguments that get the alarm as JSON on stdin."
    )
    mail: str | None = setting(Maybe(Text()), None, "Address that it is mailed to, by mail_relay.")

    def __post_init__(self) -> None:
        # A bare super() does not survive slots=True, which builds the class anew.
        Section.__post_init__(self)
        if self.max_records is None and self.max_time_ms is None:
            raise InvalidSetting("an alert needs max_records or max_time.")
        if self.command == ():
            raise InvalidSetting('command names no program; write ["notify", "ops"].')


@dataclass(frozen=True, slots=True)
class LagSettings(Section):
    """How the lag monitor works; durations are milliseconds."""

    interval_ms: int = setting(Duration(minimum=100), "10s", "Time between two measurements.")
    read_uncommitted: tuple[str, ...] = setting(
        Words(), (), "Groups that also read uncommitted records; * and ? are wildcards."
    )
    state: Path = setting(  # noqa: RUF009 - it is a field, whatever its annotation
        Location(), "~/.local/state/headrace", "Directory that the history of lag is kept in."
    )
    history_ms: int = setting(
        Duration(minimum=60_000), "30 days", "How long the history of lag is kept."
    )
    mail_relay: str | None = setting(
        Maybe(Address()), None, "Mail server that alarms are handed to."
    )
    mail_from: str = setting(Text(), "headrace@localhost", "Sender of mailed alarms.")
    alerts: tuple[AlertRule, ...] = setting(
        Tables(AlertRule), (), "When to raise an alarm: a list of tables, see below."
    )
