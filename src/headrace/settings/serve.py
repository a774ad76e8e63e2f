"""The [serve] section and the [[view]] tables: which views are served, where, and to whom."""

from dataclasses import dataclass
from typing import ClassVar

from headrace.settings.address import Address
from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import Choice, Duration, Maybe, Text, Whole
from headrace.settings.sections import Section, setting
from headrace.settings.tables import Tables, Words


@dataclass(frozen=True, slots=True)
class TokenSettings(Section):
    """One [[serve.tokens]]: a secret, and the views that it opens."""

    token: str | None = setting(
        Maybe(Text()), None, "What a reader sends as its bearer token.", secret=True
    )
    views: tuple[str, ...] = setting(
        Words(), ("*",), "The views that it may read; * and ? are wildcards."
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.token is None or len(self.token) < 8:
            raise InvalidSetting("a token needs at least 8 characters.")


@dataclass(frozen=True, slots=True)
class ServeSettings(Section):
    """How views are kept and served; durations are milliseconds."""

    address: str = setting(Address(), "127.0.0.1:8600", "Where views are served.")
    store: str = setting(
        Text(),
        "sqlite",
        "Where rows are kept: sqlite, or the URL of a PostgreSQL or Redis.",
        secret=True,
    )
    directory: str = setting(Text(), "headrace-views", "Where SQLite keeps its files.")
    history: int = setting(
        Whole(minimum=0), 100_000, "Changes that each view remembers, for feeds that go on."
    )
    timeout_ms: int = setting(
        Duration(minimum=0), "10s", "How long a read with `after` waits, if it does not say."
    )
    heartbeat_ms: int = setting(
        Duration(minimum=100), "15s", "After how long a silent feed says that it is there."
    )
    origins: tuple[str, ...] = setting(
        Words(), (), "Origins whose pages may read, as in https://shop.example.com."
    )
    tokens: tuple[TokenSettings, ...] = setting(
        Tables(TokenSettings), (), "Who may read: a list of tables, see below; everybody if none."
    )


@dataclass(frozen=True, slots=True)
class ViewSettings(Section):
    """One [[view]]: a view of a topic that no flow has declared."""

    name: str | None = setting(Maybe(Text()), None, "What readers call it.")
    topic: str | None = setting(Maybe(Text()), None, "The topic that it is of.")
    key: tuple[str, ...] = setting(
        Words(), (), "Columns that rows are found by; the records' keys if not set."
    )
    format: str = setting(
        Choice(("json", "debezium")), "json", "Rows as JSON, or changes in Debezium's envelope."
    )

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        for key in ("name", "topic"):
            if not getattr(self, key):
                raise InvalidSetting(f"a view needs {key}.")

    @property
    def called(self) -> str:
        """Its name."""
        return self.name or ""

    @property
    def source(self) -> str:
        """Its topic."""
        return self.topic or ""


@dataclass(frozen=True, slots=True)
class ViewsSettings(Section):
    """All views that the file names; those of flows are served besides."""

    listed: ClassVar[str] = "views"
    """In the file they are [[view]], without this name."""

    views: tuple[ViewSettings, ...] = setting(
        Tables(ViewSettings), (), "The views: a list of tables, see below."
    )
