"""Settings of sinks: topics whose rows are kept in a store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.settings.address import Address
from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import Choice, Duration, Maybe, Properties, Text, Whole
from headrace.settings.sections import Section, setting
from headrace.settings.tables import Tables, Words


@dataclass(frozen=True, slots=True)
class SinkSettings(Section):
    """One [[sink]]: a topic, how its records are read, and where their rows are kept."""

    topic: str | None = setting(Maybe(Text()), None, "The topic.")
    to: str | None = setting(
        Maybe(Text()),
        None,
        "The store: postgresql://, mariadb://, sqlite:///, duckdb:///, redis://, opensearch:// or "
        "parquet:///.",
        secret=True,
    )
    table: str | None = setting(
        Maybe(Text()), None, "The table, index or prefix there; called as the topic if not set."
    )
    key: tuple[str, ...] = setting(
        Words(), (), "The columns that tell rows apart; without any, rows are added."
    )
    format: str = setting(
        Choice(("json", "avro", "json_schema", "debezium", "text", "raw")),
        "json",
        "How records are written.",
    )
    schema: str | None = setting(
        Maybe(Text()),
        None,
        "The columns, such as id bigint, name string; a registry may know them.",
    )
    options: Mapping[str, str] = setting(
        Properties(), {}, "Options of the format, such as registry."
    )
    name: str | None = setting(
        Maybe(Text()),
        None,
        "What its position is kept under; with another one it begins anew. As topic and table if "
        "not set.",
    )
    dead_letters: str | None = setting(
        Maybe(Text()), None, "A topic for records that do not parse, and rows that are refused."
    )
    on_error: str = setting(
        Choice(("fail", "skip")),
        "fail",
        "What such a record does without that: end the sink, or be counted and left out.",
    )
    on_gap: str = setting(
        Choice(("fail", "skip")),
        "fail",
        "What is done when records were deleted before they were read: fail, or count and go on.",
    )
    batch: int = setting(
        Whole(minimum=1), 20_000, "Records that are written at a time, at most, or about that."
    )
    poll_ms: int = setting(
        Duration(minimum=1), "100ms", "Time between two looks for new records, when there are none."
    )

    def __post_init__(self) -> None:
        # A bare super() does not survive slots=True, which builds the class anew.
        Section.__post_init__(self)
        for key in ("topic", "to"):
            if not getattr(self, key):
                raise InvalidSetting(f"a sink needs {key}.")

    @property
    def source(self) -> str:
        """The topic."""
        return self.topic or ""

    @property
    def address(self) -> str:
        """The store's URL."""
        return self.to or ""

    @property
    def kept_in(self) -> str:
        """The table."""
        return self.table or self.source

    @property
    def called(self) -> str:
        """The sink's name."""
        return self.name or f"{self.source}-to-{self.kept_in}"


@dataclass(frozen=True, slots=True)
class SinksSettings(Section):
    """All sinks, which `headrace sink` runs in one process."""

    listed: ClassVar[str] = "sinks"
    """In the file they are [[sink]], without this name."""

    sinks: tuple[SinkSettings, ...] = setting(
        Tables(SinkSettings), (), "The sinks: a list of tables, see below."
    )
    metrics: str | None = setting(
        Maybe(Address()), None, "Address of the metrics of running sinks; none if not set."
    )
