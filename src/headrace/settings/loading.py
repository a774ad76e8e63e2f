"""One settings object from the file, the environment and the command line; the later one wins."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, cast

from headrace.settings.broker import BrokerSettings
from headrace.settings.capture import CapturesSettings
from headrace.settings.console import ConsoleSettings, UpSettings
from headrace.settings.errors import InvalidSetting, SettingsFileError
from headrace.settings.kafka import KafkaSettings
from headrace.settings.lag import LagSettings
from headrace.settings.sections import Section
from headrace.settings.serve import ServeSettings, ViewsSettings
from headrace.settings.sink import SinksSettings
from headrace.settings.sources import (
    FILE_VARIABLE,
    Sections,
    Written,
    read_environment,
    read_file,
    read_flags,
)
from headrace.settings.streams import StreamsSettings

FILE_NAME = "headrace.toml"
"""The settings file that is read from the working directory when no other is named."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, one attribute per section; a new section is a new field here."""

    broker: BrokerSettings = field(default_factory=BrokerSettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    lag: LagSettings = field(default_factory=LagSettings)
    streams: StreamsSettings = field(default_factory=StreamsSettings)
    capture: CapturesSettings = field(default_factory=CapturesSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    view: ViewsSettings = field(default_factory=ViewsSettings)
    sink: SinksSettings = field(default_factory=SinksSettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    up: UpSettings = field(default_factory=UpSettings)


SECTIONS: Sections = {
    each.name: cast(type[Section], each.default_factory) for each in fields(Settings)
}
"""Every section by the name it has in the file."""


def load_settings(
    config: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """The settings that hold: defaults, then the file, then the environment, then the flags.

    The file is `config`, else the one that HEADRACE_CONFIG names, else headrace.toml in the working
    directory if there is one. Flags are named "section.key". Anything unknown or unusable raises a
    SettingsError that names the place it was written.
    """
    environment = os.environ if environment is None else environment
    written = chain(
        _read_chosen_file(config, environment),
        read_environment(environment, SECTIONS),
        read_flags(flags or {}, SECTIONS),
    )
    values: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    for each in written:
        section, name = values[each.section], each.declaration.field_name
        section[name] = _merged(section.get(name), _parsed(each))
    loaded: dict[str, Any] = {name: SECTIONS[name](**given) for name, given in values.items()}
    return Settings(**loaded)


def _read_chosen_file(config: Path | None, environment: Mapping[str, str]) -> Iterator[Written]:
    named_by = "--config"
    if config is None and environment.get(FILE_VARIABLE):
        config, named_by = Path(environment[FILE_VARIABLE]), FILE_VARIABLE
    if config is not None:
        if not config.is_file():
            raise SettingsFileError(f"The settings file {config} named by {named_by} is not there.")
        return read_file(config, SECTIONS)
    default = Path(FILE_NAME)
    return read_file(default, SECTIONS) if default.is_file() else iter(())


def _merged(earlier: object, later: object) -> object:
    if isinstance(earlier, Mapping) and isinstance(later, Mapping):
        return {**earlier, **later}
    return later


def _parsed(written: Written) -> object:
    try:
        return written.declaration.kind.parse(written.value)
    except ValueError as error:
        # A table may hold passwords, so its contents are not repeated.
        shown = "" if isinstance(written.value, (Mapping, list)) else f" = {_shown(written.value)}"
        stop = "" if str(error).endswith("?") else "."
        raise InvalidSetting(f"{written.place}{shown}: {error}{stop}") from None


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
