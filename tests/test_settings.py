"""Settings: where they come from, which one wins, and what is said about a mistake."""

import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from headrace.settings import (
    BrokerSettings,
    CaptureSettings,
    InvalidSetting,
    KafkaSettings,
    Settings,
    SettingsError,
    SettingsFileError,
    UnknownSetting,
    join_address,
    load_settings,
    split_address,
)
from headrace.settings.loading import SECTIONS
from headrace.settings.sections import declarations
from headrace.settings.units import format_duration, format_size, parse_duration, parse_size

DAY = 24 * 3600 * 1000


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(file: str = "", environment: dict[str, str] | None = None, **flags: object) -> Settings:
    if file:
        Path("headrace.toml").write_text(file)
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return load_settings(environment=environment or {}, flags=named)


class TestPrecedence:
    def test_defaults_hold_when_nobody_says_anything(self):
        assert load() == Settings(BrokerSettings(), KafkaSettings())

    def test_the_file_in_the_working_directory_is_found(self):
        assert load('[broker]\nflush = "os"').broker.flush == "os"

    def test_the_environment_wins_over_the_file(self):
        settings = load('[broker]\nflush = "os"', {"HEADRACE_BROKER_FLUSH": "interval"})
        assert settings.broker.flush == "interval"

    def test_a_flag_wins_over_the_environment(self):
        settings = load(
            '[broker]\nflush = "os"', {"HEADRACE_BROKER_FLUSH": "interval"}, broker__flush="ack"
        )
        assert settings.broker.flush == "ack"

    def test_a_flag_that_was_not_given_changes_nothing(self):
        assert load('[broker]\nflush = "os"', broker__flush=None).broker.flush == "os"

    def test_an_empty_variable_counts_as_not_set(self):
        assert load(environment={"HEADRACE_BROKER_FLUSH": ""}).broker.flush == "ack"

    def test_a_file_named_by_argument_or_variable_is_read_instead(self, tmp_path: Path):
        load('[broker]\nflush = "os"')
        other = tmp_path / "other.toml"
        other.write_text('[broker]\nflush = "interval"')
        assert load_settings(other, environment={}).broker.flush == "interval"
        by_variable = load_settings(environment={"HEADRACE_CONFIG": str(other)})
        assert by_variable.broker.flush == "interval"

    def test_properties_of_several_sources_are_merged(self):
        settings = load(
            '[kafka.properties]\nsecurity.protocol = "SASL_SSL"\n"sasl.username" = "file"',
            {
                "HEADRACE_KAFKA_PROPERTIES_SASL_USERNAME": "environment",
                "HEADRACE_KAFKA_PROPERTIES_SASL_PASSWORD": "secret",
            },
        )
        assert settings.kafka.properties == {
            "security.protocol": "SASL_SSL",
            "sasl.username": "environment",
            "sasl.password": "secret",
        }


class TestValues:
    def test_the_file_may_use_units_and_types(self):
        broker = load(
            """
            [broker]
            listen = "[::1]:0"
            data = "~/events"
            auto_create_topics = false
            partitions = 8
            segment_bytes = "64 MiB"
            retention = "1h 30m"
            retention_bytes = 5_000_000
            group_initial_rebalance_delay = 0
            """
        ).broker
        assert split_address(broker.listen) == ("::1", 0)
        assert broker.data == Path("~/events").expanduser()
        assert broker.auto_create_topics is False
        assert broker.partitions == 8
        assert broker.segment_bytes == 64 << 20
        assert broker.retention_ms == 90 * 60 * 1000
        assert broker.retention_bytes == 5_000_000
        assert broker.group_initial_rebalance_delay_ms == 0

    def test_the_environment_writes_everything_as_text(self):
        broker = load(
            environment={
                "HEADRACE_BROKER_AUTO_CREATE_TOPICS": "no",
                "HEADRACE_BROKER_PARTITIONS": "8",
                "HEADRACE_BROKER_SEGMENT_BYTES": "2048",
                "HEADRACE_BROKER_METRICS": "127.0.0.1:9308",
            }
        ).broker
        assert broker.auto_create_topics is False
        assert (broker.partitions, broker.segment_bytes) == (8, 2048)
        assert broker.metrics == "127.0.0.1:9308"

    @pytest.mark.parametrize("written", ["-1", '"-1"', '"unlimited"'])
    def test_retention_can_be_switched_off(self, written: str):
        broker = load(f"[broker]\nretention = {written}\nretention_bytes = {written}").broker
        assert (broker.retention_ms, broker.retention_bytes) == (-1, -1)

    def test_properties_become_the_text_that_clients_expect(self):
        properties = load(
            "[kafka.properties]\nlinger.ms = 5\nenable.ssl.certificate.verification = false"
        ).kafka.properties
        assert properties == {"linger.ms": "5", "enable.ssl.certificate.verification": "false"}

    def test_several_bootstrap_addresses_are_one_setting(self):
        assert load('[kafka]\nbootstrap = "a:9092, b:9092"').kafka.bootstrap == "a:9092,b:9092"

    def test_sections_cannot_be_changed_but_can_be_sent_elsewhere(self):
        settings = load()
        with pytest.raises(FrozenInstanceError):
            settings.broker.flush = "os"  # type: ignore[misc]
        assert pickle.loads(pickle.dumps(settings)) == settings

    def test_passwords_are_not_shown(self):
        settings = load(environment={"HEADRACE_KAFKA_PROPERTIES_SASL_PASSWORD": "secret"})
        assert "secret" not in repr(settings)
        database = "postgresql://shop:secret@localhost/shop"
        captures = f'[[capture]]\nurl = "{database}"\ntables = ["t"]\nto = "shop"'
        settings = load(captures)
        assert settings.capture.captures[0].url == database
        assert "secret" not in repr(settings)


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("file", "message"),
        [
            (
                '[broker]\n# why\nflsh = "os"',
                'headrace.toml:3: [broker] has no setting "flsh"; did you mean flush?',
            ),
            (
                '[broker]\nretention_ms = "1 day"',
                'headrace.toml:2: [broker] has no setting "retention_ms"; did you mean retention?',
            ),
            (
                '[broker]\nbootstrap = "a:1"',
                'headrace.toml:2: [broker] has no setting "bootstrap"; it belongs to [kafka].',
            ),
            (
                "[kafka]\n[brokr]",
                "headrace.toml:2: there is no section [brokr]; did you mean broker?",
            ),
            (
                '\nlisten = "a:1"',
                'headrace.toml:2: "listen" stands outside its section; move it under [broker].',
            ),
            (
                "broker = 1",
                "headrace.toml:1: broker is a section; write [broker] above its settings.",
            ),
            (
                'broker.zzz = "a"',
                'headrace.toml:1: [broker] has no setting "zzz"; known are listen, advertise,',
            ),
        ],
    )
    def test_the_file_is_told_line_and_remedy(self, file: str, message: str):
        with pytest.raises(UnknownSetting) as raised:
            load(file)
        assert str(raised.value).startswith(message)

    def test_a_variable_is_told_the_name_that_was_meant(self):
        with pytest.raises(UnknownSetting, match="did you mean HEADRACE_BROKER_LISTEN"):
            load(environment={"HEADRACE_BROKER_LISTN": "a:1"})

    def test_a_table_needs_one_variable_per_entry(self):
        with pytest.raises(UnknownSetting, match="HEADRACE_KAFKA_PROPERTIES_NAME"):
            load(environment={"HEADRACE_KAFKA_PROPERTIES": "x"})

    def test_variables_of_others_are_ignored(self):
        assert load(environment={"HOME": "/", "HEADRACER": "x"}) == Settings()


class TestInvalidValues:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('flush = "always"', '[broker] flush = "always": must be one of ack, interval, os.'),
            ("listen = 9092", '[broker] listen = 9092: "9092" is not HOST:PORT'),
            ('listen = "::1:9092"', "needs brackets around the IPv6 host"),
            ('listen = "localhost:70000"', "has port 70000, and the highest"),
            ("partitions = 0", "[broker] partitions = 0: must be at least 1."),
            ("partitions = true", "[broker] partitions = true: must be a whole number."),
            ("partitions = 1.5", "must be a whole number"),
            ('segment_bytes = "1 gallon"', '"1 gallon" is not a size'),
            ("segment_bytes = 1", "must be at least 1 KiB"),
            ('segment_bytes = "4 GiB"', "must be at most 2147483647 B"),
            ('segment_age = "soon"', '"soon" is not a duration'),
            ("segment_age = 7", 'needs a unit, as in "7ms" or "7s"'),
            ("segment_age = -1", "needs a unit"),
            ('flush_interval = "0.5ms"', "must be a whole number of milliseconds"),
            ('flush_interval = ""', "is not a duration"),
            ('auto_create_topics = "perhaps"', "must be true or false"),
            ("data = 1", "must be a path"),
            ("[kafka]\nproperties = 1", "[kafka] properties = 1: must be a table."),
            ('[kafka]\nbootstrap = "a:0"', "which nobody can connect to"),
            ("[kafka.properties]\nx = [1]", "has x, which must be text, a number or a boolean"),
        ],
    )
    def test_the_file_is_told_what_would_be_right(self, line: str, message: str):
        with pytest.raises(InvalidSetting) as raised:
            load(f"[broker]\n{line}")
        assert str(raised.value).startswith("headrace.toml:")
        assert message in str(raised.value)

    def test_a_variable_is_named(self):
        with pytest.raises(InvalidSetting, match=r'^HEADRACE_BROKER_PARTITIONS = "x": must be'):
            load(environment={"HEADRACE_BROKER_PARTITIONS": "x"})

    def test_a_flag_is_named(self):
        with pytest.raises(InvalidSetting, match=r'^--flush-interval = "x": "x" is not a duration'):
            load(broker__flush_interval="x")

    def test_code_is_held_to_the_same_rules(self):
        with pytest.raises(InvalidSetting, match=r"BrokerSettings\.flush = 'always'"):
            BrokerSettings(flush="always")

    @pytest.mark.parametrize(
        "contradiction",
        [
            {"group_min_session_timeout_ms": 2, "group_max_session_timeout_ms": 1},
            {"max_message_bytes": 4096, "max_request_bytes": 2048},
            {"max_request_bytes": 4 << 20, "request_memory": 2 << 20},
        ],
    )
    def test_settings_that_contradict_each_other_are_refused(self, contradiction: dict[str, int]):
        with pytest.raises(InvalidSetting, match="is larger than"):
            BrokerSettings(**contradiction)  # type: ignore[arg-type]


class TestAlertRules:
    def test_rules_are_tables_with_settings_of_their_own(self):
        first, second = load(
            """
            [lag]
            read_uncommitted = ["audit-*"]
            [[lag.alerts]]
            group = "billing"
            max_records = 1000
            max_time = "5 minutes"
            for = "1 minute"
            webhook = "https://hooks.example.com/lag"
            [[lag.alerts]]
            topic = "orders.*"
            max_records = 0
            command = ["notify", "ops"]
            """
        ).lag.alerts
        assert (first.group, first.topic, first.max_records) == ("billing", "*", 1000)
        assert (first.max_time_ms, first.for_ms) == (300_000, 60_000)
        assert first.webhook == "https://hooks.example.com/lag"
        assert (second.topic, second.max_records, second.for_ms) == ("orders.*", 0, 0)
        assert second.command == ("notify", "ops")

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            ('grup = "a"', 'number 2 has no setting "grup"; did you mean group?'),
            ("zzz = 1", 'number 2 has no setting "zzz"; known are group, topic,'),
            ('group = "a"', "number 2: an alert needs max_records or max_time."),
            ("max_time = 5", "number 2 has max_time, which needs a unit"),
            ("max_records = -1", "number 2 has max_records, which must be at least 0."),
            ('webhook = "ftp://a"', "number 2 has webhook, which must be an address such as"),
            ("max_records = 1\ncommand = []", "number 2: command names no program"),
            ("max_records = 1\ncommand = 7", "number 2 has command, which must be a list"),
            (
                'max_records = 1\ncommand = "notify me"',
                'number 2 has command, which must be a list; write ["notify", "me"].',
            ),
        ],
    )
    def test_a_rule_is_told_what_would_be_right(self, rule: str, message: str):
        with pytest.raises(InvalidSetting) as raised:
            load(f"[lag]\n[[lag.alerts]]\nmax_records = 1\n[[lag.alerts]]\n{rule}")
        assert str(raised.value).startswith(f"headrace.toml:2: [lag] alerts: {message}")

    def test_rules_can_only_be_written_in_the_file(self):
        with pytest.raises(InvalidSetting, match=r"only headrace\.toml can have it"):
            load(environment={"HEADRACE_LAG_ALERTS": "x"})

    def test_a_list_in_the_environment_has_commas(self):
        settings = load(environment={"HEADRACE_LAG_READ_UNCOMMITTED": "audit-*, copy"})
        assert settings.lag.read_uncommitted == ("audit-*", "copy")


class TestTheFile:
    def test_a_named_file_must_exist(self):
        with pytest.raises(SettingsFileError, match=r"nowhere\.toml named by --config is not"):
            load_settings(Path("nowhere.toml"), environment={})
        with pytest.raises(SettingsFileError, match="named by HEADRACE_CONFIG"):
            load(environment={"HEADRACE_CONFIG": "nowhere.toml"})

    def test_broken_toml_is_told_where(self):
        with pytest.raises(SettingsFileError, match="at line 2, column 1"):
            load("[broker]\n==")

    def test_other_encodings_are_refused(self):
        Path("headrace.toml").write_bytes(b"\xff\xfe")
        with pytest.raises(SettingsFileError, match="not UTF-8"):
            load()

    def test_every_error_is_a_settings_error(self):
        for kind in (SettingsFileError, UnknownSetting, InvalidSetting):
            assert issubclass(kind, SettingsError)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1 GiB", 1 << 30), ("512MB", 512_000_000), ("0", 0), ("1.5kb", 1500), (" 7 b ", 7)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int):
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("7 days", 7 * DAY),
        ("30s", 30_000),
        ("250ms", 250),
        ("1.5 h", 5_400_000),
        ("1 week", 7 * DAY),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, milliseconds: int):
    assert parse_duration(text) == milliseconds
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize("address", ["127.0.0.1:9092", "[::1]:0", "broker.example:65535"])
def test_addresses_survive_taking_apart(address: str):
    assert join_address(*split_address(address)) == address


def written(default: object) -> str:
    match default:
        case None:
            return "not set"
        case bool():
            return f"`{str(default).lower()}`"
        case str():
            return f'`"{default}"`'
        case dict() | ():
            return "empty"
    return f"`{default}`"


@pytest.mark.parametrize("name", SECTIONS)
def test_the_book_lists_every_setting_with_its_default(name: str):
    book = (Path(__file__).parents[1] / "docs/configuration.md").read_text(encoding="utf-8")
    chapter = book.split(f"## `[{name}]`")[1].split("\n## ")[0]
    rows = [line for line in chapter.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{declared.key}` | {written(declared.default)} | {declared.about} |"
        for declared in declarations(SECTIONS[name])
    ]


class TestCaptures:
    def test_each_is_a_table_of_its_own(self):
        file = """
            [[capture]]
            url = "postgresql://localhost/shop"
            tables = ["orders", "stock.*"]
            to = "shop"
            heartbeat = "1 minute"
            where = { orders = "id > 0" }
            [[capture]]
            url = "postgresql://localhost/crm"
            tables = ["*"]
            to = "crm"
            name = "customers"
        """
        first, second = load(file).capture.captures
        assert (first.tables, first.called) == (("orders", "stock.*"), "shop")
        assert (first.heartbeat_ms, first.where) == (60_000, {"orders": "id > 0"})
        assert (second.prefix, second.called) == ("crm", "customers")

    def test_a_mistake_names_its_place(self):
        file = '[[capture]]\nurl = "postgresql://localhost/shop"\ntabels = ["orders"]\nto = "shop"'
        with pytest.raises(SettingsError, match=r'toml:1:.*number 1 .*"tabels".*mean tables\?'):
            load(file)

    def test_what_a_capture_cannot_do_without_is_asked_for(self):
        with pytest.raises(SettingsError, match="a capture needs tables"):
            load('[[capture]]\nurl = "postgresql://localhost/shop"\nto = "shop"')

    def test_the_book_lists_every_setting_with_its_default(self):
        book = (Path(__file__).parents[1] / "docs/configuration.md").read_text(encoding="utf-8")
        for declared in declarations(CaptureSettings):
            assert f"- `{declared.key}` ({written(declared.default)}): {declared.about}" in book
