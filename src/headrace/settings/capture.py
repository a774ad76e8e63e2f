"""The [[capture]] tables: which databases become streams, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.settings.address import Address
from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import (
    UNLIMITED,
    Choice,
    Duration,
    Maybe,
    Properties,
    Size,
    Switch,
    Text,
    Whole,
)
from headrace.settings.sections import Section, setting
from headrace.settings.tables import Tables, Words


@dataclass(frozen=True, slots=True)
class CaptureSettings(Section):
    """One [[capture]]: a database, what of it is captured, and how it is told."""

    url: str | None = setting(
        Maybe(Text()),
        None,
        "The database: postgresql://user:password@host/database, likewise mariadb:// and mysql://, "
        "or sqlite:///file.",
        secret=True,
    )
    tables: tuple[str, ...] = setting(Words(), (), "Its tables; * and ? are wildcards.")
    to: str | None = setting(Maybe(Text()), None, "How the names of its topics begin.")
    name: str | None = setting(
        Maybe(Text()), None, "What the capture is called; as its topics begin if not set."
    )
    envelope: str = setting(
        Choice(("debezium", "plain")), "debezium", "Debezium's envelope, or the plain row."
    )
    schemas: bool = setting(Switch(), False, "Whether records carry their schema.")
    tombstones: bool = setting(
        Switch(), True, "Whether a delete is followed by a record without value."
    )
    transactions: bool = setting(
        Switch(), False, "Whether records and a topic of their own tell of transactions."
    )
    decimals: str = setting(
        Choice(("precise", "string", "double")), "precise", "How decimals are written."
    )
    times: str = setting(
        Choice(("adaptive", "iso")), "adaptive", "How dates and times are written."
    )
    intervals: str = setting(Choice(("numeric", "string")), "numeric", "How intervals are written.")
    without: tuple[str, ...] = setting(
        Words(), (), "Columns left out, as table.column; * and ? are wildcards."
    )
    masked: tuple[str, ...] = setting(Words(), (), "Columns of text that are told as ****.")
    where: Mapping[str, str] = setting(
        Properties(), {}, "SQL conditions on rows, by the names of tables."
    )
    outbox: tuple[str, ...] = setting(
        Words(), (), "Tables whose rows are events, for topics that they name."
    )
    snapshot: bool = setting(Switch(), True, "Whether rows that are there already are told.")
    chunk: int = setting(Whole(minimum=1), 8192, "Rows of a table that are read at a time.")
    readers: int = setting(Whole(minimum=1, maximum=64), 2, "Tables that are read at a time.")
    lost: str = setting(
        Choice(("stop", "snapshot")),
        "stop",
        "What to do when the database no longer has what comes next: stop, or read tables anew.",
    )
    retained_limit: int = setting(
        Size(minimum=1 << 20, unlimited=True),
        UNLIMITED,
        "Log that the database may keep for the capture, before that gives it up.",
    )
    heartbeat_ms: int = setting(
        Duration(minimum=100), "10s", "Time after which an idle capture stores its position."
    )
    discovery_ms: int = setting(
        Duration(minimum=100), "10s", "Time between two looks for new tables, and at the lag."
    )
    partitions: int | None = setting(
        Maybe(Whole(minimum=1)), None, "Partitions of new topics; the cluster decides if not set."
    )
    replicas: int | None = setting(
        Maybe(Whole(minimum=1)), None, "Replicas of new topics; the cluster decides if not set."
    )

    def __post_init__(self) -> None:
        # A bare super() does not survive slots=True, which builds the class anew.
        Section.__post_init__(self)
        for key in ("url", "tables", "to"):
            if not getattr(self, key):
                raise InvalidSetting(f"a capture needs {key}.")

    @property
    def called(self) -> str:
        """The capture's name."""
        return self.name or self.to or ""

    @property
    def prefix(self) -> str:
        """How the names of its topics begin."""
        return self.to or ""

    @property
    def address(self) -> str:
        """The database's URL."""
        return self.url or ""


@dataclass(frozen=True, slots=True)
class CapturesSettings(Section):
    """All captures, which `headrace capture run` runs in one process."""

    listed: ClassVar[str] = "captures"
    """In the file they are [[capture]], without this name."""

    captures: tuple[CaptureSettings, ...] = setting(
        Tables(CaptureSettings), (), "The captures: a list of tables, see below."
    )
    metrics: str | None = setting(
        Maybe(Address()), None, "Address of the metrics of running captures; none if not set."
    )
