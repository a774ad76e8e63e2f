"""The [console] and [up] sections: the web page, and everything that one command starts."""

from dataclasses import dataclass
from pathlib import Path

from headrace.settings.address import Address
from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import Duration, Location, Maybe, Size, Switch, Text, Whole
from headrace.settings.sections import Section, setting
from headrace.settings.tables import CommandLine, Tables, WebAddress, Words


@dataclass(frozen=True, slots=True)
class ConsoleAlert(Section):
    """One [[console.alerts]]: what of flows and captures is worth an alarm, and where it goes.

    Every alarm is a line in the console; a webhook, a command and a mail come on top. Lag of
    consumer groups is [[lag.alerts]]' business, and is shown in the same place.
    """

    name: str = setting(Text(), "*", "Flows and captures it is about; * and ? are wildcards.")
    max_lag: int | None = setting(
        Maybe(Whole()), None, "Records that a flow may still have to read."
    )
    max_behind_ms: int | None = setting(
        Maybe(Duration()), None, "How far a capture may be behind its database."
    )
    max_dropped: int | None = setting(
        Maybe(Whole()), None, "Records that a flow may reject, lose or find late in a run."
    )
    max_restarts: int | None = setting(
        Maybe(Whole()), None, "How often it may be started again in a run."
    )
    max_retained: int | None = setting(
        Maybe(Size()), None, "Log that a database may keep for a capture."
    )
    down: bool = setting(Switch(), False, "Whether it is an alarm that it does not run.")
    for_ms: int = setting(Duration(), "0s", "How long it must hold before the alarm.")
    webhook: str | None = setting(
        Maybe(WebAddress()), None, "Address that the alarm is posted to as JSON.", secret=True
    )
    command: tuple[str, ...] | None = setting(
        Maybe(CommandLine()), None, "Program and arguments that get the alarm as JSON on stdin."
    )
    mail: str | None = setting(
        Maybe(Text()), None, "Address that it is mailed to, by [lag] mail_relay."
    )

    def __post_init__(self) -> None:
        # A bare super() does not survive slots=True, which builds the class anew.
        Section.__post_init__(self)
        limits = (
            self.max_lag,
            self.max_behind_ms,
            self.max_dropped,
            self.max_restarts,
            self.max_retained,
        )
        if not self.down and all(each is None for each in limits):
            raise InvalidSetting(
                "an alert needs max_lag, max_behind, max_dropped, max_restarts, max_retained or "
                "down."
            )


@dataclass(frozen=True, slots=True)
class ConsoleSettings(Section):
    """The web console; durations are milliseconds."""

    listen: str = setting(Address(), "127.0.0.1:8090", "Address that the page is served at.")
    token: str | None = setting(
        Maybe(Text()),
        None,
        "What people must say to be let in; needed where others than this machine can connect.",
        secret=True,
    )
    registry: str | None = setting(
        Maybe(WebAddress()), None, "Schema registry for Avro records.", secret=True
    )
    views: str | None = setting(
        Maybe(WebAddress()), None, "Where `headrace serve` answers, if not where [serve] says."
    )
    views_token: str | None = setting(
        Maybe(Text()), None, "What the console says to be let in there.", secret=True
    )
    refresh_ms: int = setting(Duration(minimum=100), "2s", "Time between two looks at the cluster.")
    audit: Path = setting(  # noqa: RUF009 - it is a field, whatever its annotation
        Location(), "headrace-audit.jsonl", "File that says what was changed through the console."
    )
    alerts: tuple[ConsoleAlert, ...] = setting(
        Tables(ConsoleAlert), (), "When to raise an alarm: a list of tables, see below."
    )


@dataclass(frozen=True, slots=True)
class PartSettings(Section):
    """One [[up.parts]]: another program that `headrace up` keeps running."""

    name: str | None = setting(Maybe(Text()), None, "What it is called.")
    command: tuple[str, ...] = setting(CommandLine(), (), "The program and its arguments.")
    first: bool = setting(Switch(), False, "Whether captures and flows wait for it.")
    address: str | None = setting(
        Maybe(Address()), None, "Where it answers once it is ready, if it does."
    )
    again: bool = setting(Switch(), True, "Whether it is started again when it ends well.")

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.name is None or not self.command:
            raise InvalidSetting("a part needs name and command.")

    @property
    def called(self) -> str:
        """The part's name."""
        return self.name or ""


@dataclass(frozen=True, slots=True)
class UpSettings(Section):
    """What `headrace up` starts; durations are milliseconds."""

    flows: tuple[str, ...] = setting(Words(), (), "Files with flows; each is a process.")
    broker: bool = setting(Switch(), True, "Whether to start a broker.")
    serve: bool = setting(Switch(), True, "Whether to serve views.")
    console: bool = setting(Switch(), True, "Whether to start the console.")
    parts: tuple[PartSettings, ...] = setting(
        Tables(PartSettings), (), "Other programs: a list of tables, see below."
    )
    state: Path = setting(  # noqa: RUF009 - it is a field, whatever its annotation
        Location(), "headrace-up", "Directory for the logs of all processes, and what runs."
    )
    patience_ms: int = setting(
        Duration(minimum=100), "30s", "How long a process may take to end before it is killed."
    )
    backoff_ms: int = setting(
        Duration(minimum=10), "500ms", "Pause before the first new start; it doubles each time."
    )
    backoff_max_ms: int = setting(Duration(minimum=10), "30s", "Longest pause between starts.")
