"""When alarms are raised about what runs, and when they end."""

import json
import socketserver
import threading
from pathlib import Path

import pytest

from headrace.console.alerting.rules import Measured, RunAlert, RunAlerts
from headrace.console.alerting.watch import AlertWatch
from headrace.console.observing.observatory import Observatory
from headrace.console.supervising.record import PartSeen, UpSeen
from headrace.kafka.lag_alerts import AlertState
from headrace.kafka.lag_delivery import Delivery, MailRelay
from headrace.settings import ConsoleAlert, ConsoleSettings, InvalidSetting, LagSettings, Settings

LAG = Measured("flow orders", "lag", 11)


def measured(value: int, subject: str = "flow orders", measure: str = "lag") -> Measured:
    return Measured(subject, measure, value)


def test_an_alarm_is_raised_once_and_taken_back_once() -> None:
    alerts = RunAlerts([ConsoleAlert(max_lag=10)])
    assert [each.state for each in alerts.judge([measured(11)], 1)] == [AlertState.FIRING]
    assert alerts.judge([measured(50)], 2) == []
    assert alerts.judge([measured(9)], 3) == [], "between the two nothing changes"
    (ended,) = alerts.judge([measured(8)], 4)
    assert ended.state is AlertState.RECOVERED
    assert ended.since_ms == 1
    assert alerts.judge([measured(0)], 5) == []


def test_only_what_holds_for_a_while_is_an_alarm() -> None:
    alerts = RunAlerts([ConsoleAlert(max_lag=10, for_ms=1000)])
    assert alerts.judge([measured(11)], 0) == []
    assert alerts.judge([measured(5)], 500) == []
    assert alerts.judge([measured(11)], 1000) == []
    assert len(alerts.judge([measured(11)], 2000)) == 1


def test_a_rule_is_about_those_that_it_names() -> None:
    alerts = RunAlerts([ConsoleAlert(name="ord*", down=True)])
    found = alerts.judge(
        [measured(1, "flow orders", "down"), measured(1, "capture shop", "down")], 0
    )
    assert [each.measured.subject for each in found] == ["flow orders"]


@pytest.mark.parametrize(
    ("measure", "value", "said"),
    [
        ("lag", 1200, "has 1,200 records to read"),
        ("behind_ms", 90_000, "is 1m 30s behind its database"),
        ("dropped", 3, "has dropped 3 records"),
        ("restarts", 4, "was started again 4 times"),
        ("retained", 5000, "makes its database keep 5,000 bytes of log"),
        ("down", 1, "does not run"),
    ],
)
def test_an_alarm_says_what_is_wrong(measure: str, value: int, said: str) -> None:
    rule = ConsoleAlert(
        max_lag=0, max_behind_ms=0, max_dropped=0, max_restarts=0, max_retained=0, down=True
    )
    (alert,) = RunAlerts([rule]).judge([measured(value, measure=measure)], 0)
    assert said in str(alert)
    assert json.loads(json.dumps(alert.as_json()))["value"] == value


def test_a_rule_without_a_limit_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="an alert needs"):
        ConsoleAlert(name="orders")


def test_alarms_are_remembered_across_starts(tmp_path: Path) -> None:
    settings = Settings(
        console=ConsoleSettings(alerts=(ConsoleAlert(down=True),)), lag=LagSettings(state=tmp_path)
    )
    observatory = Observatory(settings)
    watch = AlertWatch(observatory, tmp_path / "alerts.jsonl")
    part = PartSeen("orders", "flow", "pausing", None, 1, 1, 0, "log")
    watch._heard_parts(UpSeen(1, "", (part,)))
    assert [each.subject for each in watch.firing] == ["process orders"]
    watch.close()
    with (tmp_path / "alerts.jsonl").open("a") as file:
        file.write("not json\n")
    again = AlertWatch(Observatory(settings), tmp_path / "alerts.jsonl")
    assert [each.subject for each in again.history] == ["process orders"]
    again.close()


class _Post(socketserver.StreamRequestHandler):
    """As much of a mail server as a letter needs."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        data: list[bytes] = []
        reading = False
        for line in self.rfile:
            if reading:
                if line == b".\r\n":
                    reading = False
                    self.server.letters.append(b"".join(data))  # type: ignore[attr-defined]
                    self.wfile.write(b"250 taken\r\n")
                else:
                    data.append(line)
            elif line.upper().startswith(b"DATA"):
                reading = True
                self.wfile.write(b"354 go on\r\n")
            elif line.upper().startswith(b"QUIT"):
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 yes\r\n")


def test_an_alarm_is_mailed() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Post) as server:
        server.letters = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        relay = MailRelay(f"127.0.0.1:{server.server_address[1]}", "headrace@shop.example")
        rule = ConsoleAlert(max_lag=10, mail="ops@shop.example")
        delivery = Delivery(relay=relay, backoff=())
        delivery.send([RunAlert(AlertState.FIRING, rule, LAG, 0, 0, 1)])
        delivery.close()
        assert delivery.failed == 0
        (letter,) = server.letters  # type: ignore[attr-defined]
        server.shutdown()
    assert b"To: ops@shop.example" in letter
    assert b"flow orders has 11 records to read" in letter
