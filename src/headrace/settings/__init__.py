"""Everything that can be set, from one place.

`broker`, `capture`, `console`, `kafka`, `lag`, `serve`, `sink` and `streams` declare the sections;
`sections`, `kinds` and `tables` are what they are declared with, `sources` reads what was written
in headrace.toml, the environment and the command line, and `loading` makes one `Settings` of it.
"""

from headrace.settings.address import join_address, split_address
from headrace.settings.broker import BrokerSettings
from headrace.settings.capture import CaptureSettings, CapturesSettings
from headrace.settings.console import (
    ConsoleAlert,
    ConsoleSettings,
    PartSettings,
    UpSettings,
)
from headrace.settings.errors import (
    InvalidSetting,
    SettingsError,
    SettingsFileError,
    UnknownSetting,
)
from headrace.settings.kafka import KafkaSettings
from headrace.settings.lag import AlertRule, LagSettings
from headrace.settings.loading import Settings, load_settings
from headrace.settings.serve import ServeSettings, TokenSettings, ViewSettings, ViewsSettings
from headrace.settings.sink import SinkSettings, SinksSettings
from headrace.settings.streams import StreamsSettings
from headrace.settings.units import readable_duration

__all__ = [
    "AlertRule",
    "BrokerSettings",
    "CaptureSettings",
    "CapturesSettings",
    "ConsoleAlert",
    "ConsoleSettings",
    "InvalidSetting",
    "KafkaSettings",
    "LagSettings",
    "PartSettings",
    "ServeSettings",
    "Settings",
    "SettingsError",
    "SettingsFileError",
    "SinkSettings",
    "SinksSettings",
    "StreamsSettings",
    "TokenSettings",
    "UnknownSetting",
    "UpSettings",
    "ViewSettings",
    "ViewsSettings",
    "join_address",
    "load_settings",
    "readable_duration",
    "split_address",
]
