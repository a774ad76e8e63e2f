"""The source's options: strings from Spark in, one checked value out."""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.clock import Clock, SystemClock
from headrace.kafka import Earliest, Isolation, Latest
from headrace.settings import InvalidSetting, KafkaSettings
from headrace.streams.formats import FORMAT_OPTIONS
from headrace.streams.source.errors import InvalidOption
from headrace.streams.source.starting import Bound, parse_bound

INCLUDABLE: Final = ("topic", "partition", "offset", "timestamp", "key", "headers")
"""What of a record can become a column, besides its value."""

KAFKA_PREFIX: Final = "kafka."

_NAMES: Final = frozenset(
    {
        "bootstrap",
        "topics",
        "pattern",
        "start",
        "end",
        "format",
        "schema",
        "include",
        "key",
        "count_skipped",
        "on_error",
        "on_gap",
        "isolation",
        "max_records_per_batch",
        "max_records_per_second",
        "group",
        "hold_first",
        "parallelism",
        "time",
        "time_from",
        "time_by",
        "time_until",
        "time_max_ahead_ms",
        "time_tick_ms",
    }
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What is read, from where to where, and what becomes of what cannot be."""

    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start: Bound = field(default_factory=Earliest)
    end: Bound = field(default_factory=Latest)
    format: str = "raw"
    format_options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    include: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    count_skipped: bool = False
    on_error: str = "fail"
    on_gap: str = "fail"
    isolation: Isolation = Isolation.READ_COMMITTED
    max_records_per_batch: int | None = None
    max_records_per_second: float | None = None
    group: str | None = None
    hold_first: bool = False
    """Whether the first batch reads nothing, so that tables beside this are loaded in it."""

    parallelism: int = 1
    time: str | None = None
    """The column of event time; with it every task ends with a control row that tells of time."""

    time_from: str = "column"
    """Where time comes from, if not from that column: the `clock` of the batch, which rows then
    have; or the `rows` as those see it who read them, for which rows name their source of time, and
    the control row, which tells the clock only, is a task's first."""

    time_by: str | None = None
    time_until: str | None = None
    time_max_ahead_ms: int | None = None
    time_tick_ms: int | None = None
    """How long nothing may come before a batch without records tells what time it is."""

    @property
    def tells_time(self) -> bool:
        """Whether there are control rows between the others."""
        return (self.time is not None or self.time_from != "column") and self.on_error != "only"

    def wants(self, topic: str) -> bool:
        """Whether records of a topic are to be read."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics


def parse_options(given: Mapping[str, str], clock: Clock | None = None) -> SourceOptions:
    """Check all options; `InvalidOption` says which one is wrong, and what it could be."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if not (name in _NAMES or name in FORMAT_OPTIONS or name.startswith(KAFKA_PREFIX)):
            raise InvalidOption(f"The source has no option {name}; {_suggestion(name)}")
    topics = _words(options.get("topics", ""))
    pattern = options.get("pattern")
    if bool(topics) == (pattern is not None):
        raise InvalidOption(
            'Name what to read with exactly one of the options topics ("a,b") and pattern.'
        )
    now_ms = (clock or SystemClock()).now_ms()
    return SourceOptions(
        kafka=_kafka(options),
        topics=topics,
        pattern=None if pattern is None else _pattern(pattern),
        start=parse_bound(options.get("start", "earliest"), now_ms=now_ms),
        end=parse_bound(options.get("end", "latest"), now_ms=now_ms),
        format=options.get("format", "raw"),
        format_options={name: options[name] for name in FORMAT_OPTIONS & options.keys()},
        schema=options.get("schema"),
        include=_include(options.get("include", "")),
        key=_words(options.get("key", "")),
        count_skipped=_choice(options, "count_skipped", "false", "true") == "true",
        on_error=_choice(options, "on_error", "fail", "skip", "only"),
        on_gap=_choice(options, "on_gap", "fail", "skip"),
        isolation=Isolation(
            _choice(options, "isolation", Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)
        ),
        max_records_per_batch=_positive(options, "max_records_per_batch"),
        max_records_per_second=_rate(options, "max_records_per_second"),
        group=options.get("group") or None,
        hold_first=_choice(options, "hold_first", "false", "true") == "true",
        parallelism=_positive(options, "parallelism") or len(os.sched_getaffinity(0)),
        time=options.get("time") or None,
        time_from=_choice(options, "time_from", "column", "clock", "rows"),
        time_by=options.get("time_by") or None,
        time_until=options.get("time_until") or None,
        time_max_ahead_ms=_positive(options, "time_max_ahead_ms"),
        time_tick_ms=_positive(options, "time_tick_ms"),
    )


def _kafka(options: Mapping[str, str]) -> KafkaSettings:
    properties = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in options.items()
        if name.startswith(KAFKA_PREFIX)
    }
    bootstrap = options.get("bootstrap") or properties.pop("bootstrap.servers", None)
    try:
        if bootstrap is None:
            return KafkaSettings(properties=properties)
        return KafkaSettings(bootstrap=bootstrap, properties=properties)
    except InvalidSetting as error:
        raise InvalidOption(f"bootstrap: {error}") from None


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidOption(f"pattern = {text} is no regular expression: {error}.") from None
    return text


def _include(text: str) -> tuple[str, ...]:
    names = _words(text)
    for name in names:
        if name not in INCLUDABLE:
            raise InvalidOption(f"include = {name}: it can have {', '.join(INCLUDABLE)}.")
    # In one order, whatever the order they are asked for in.
    return tuple(name for name in INCLUDABLE if name in names)


def _choice(options: Mapping[str, str], name: str, usual: str, *others: str) -> str:
    value = options.get(name, usual)
    if value not in (usual, *others):
        raise InvalidOption(f"{name} = {value}: it can be {' or '.join((usual, *others))}.")
    return value


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise InvalidOption(f"{name} = {text} is not a whole number above 0.")
    return int(text)


def _rate(options: Mapping[str, str], name: str) -> float | None:
    text = options.get(name)
    try:
        rate = None if text is None else float(text)
    except ValueError:
        rate = 0.0
    if rate is not None and not 0 < rate < float("inf"):
        raise InvalidOption(f"{name} = {text} is not a number above 0.")
    return rate


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _suggestion(name: str) -> str:
    known = sorted(_NAMES | FORMAT_OPTIONS)
    if near := difflib.get_close_matches(name, known, 1):
        return f"did you mean {near[0]}?"
    return f"it has {', '.join(known)}, and kafka.* for the client's properties."
