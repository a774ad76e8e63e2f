"""Getting alarms out: to a real HTTP server, to a program, and to receivers that are broken."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headrace.kafka import lag_delivery as module
from headrace.kafka.lag_alerts import Alert, AlertState
from headrace.kafka.lag_delivery import Delivery
from headrace.settings import AlertRule


class Hook:
    """A webhook's server, which gives the answers it was told to and then 200s."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.received: list[dict[str, object]] = []
        self.wait = threading.Event()
        self.wait.set()
        self.address = ""


@contextmanager
def webhook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.wait.wait(20)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = hook.answers.pop(0) if hook.answers else 200
            if answer == 200:
                assert self.headers["Content-Type"] == "application/json"
                hook.received.append(json.loads(body))
            self.send_response(answer)
            self.end_headers()

        log_message = staticmethod(lambda *arguments: None)  # type: ignore[assignment]

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.address = f"http://127.0.0.1:{server.server_port}/lag?token=secret"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with webhook() as running:
        yield running


def alert(rule: AlertRule, records: int = 11) -> Alert:
    return Alert(AlertState.FIRING, rule, "billing", "orders", records, 5, 1_000, 0)


def test_a_webhook_is_posted_the_alarm_and_a_log_line_written(
    hook: Hook, caplog: pytest.LogCaptureFixture
):
    delivery = Delivery()
    delivery.send([alert(AlertRule(max_records=10, webhook=hook.address))])
    delivery.close()
    (received,) = hook.received
    assert (received["state"], received["group"], received["records"]) == ("firing", "billing", 11)
    assert delivery.failed == 0
    assert "lag alert firing: group billing is 11 records" in caplog.messages[0]


def test_a_command_gets_the_alarm_on_its_stdin(tmp_path: Path):
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    rule = AlertRule(max_records=10, command=(sys.executable, "-c", code, str(tmp_path / "got")))
    delivery = Delivery()
    delivery.send([alert(rule)])
    delivery.close()
    got = (tmp_path / "got").read_text()
    assert json.loads(got)["topic"] == "orders"
    assert got.endswith("}\n")


def test_a_receiver_that_recovers_gets_the_alarm_after_all(hook: Hook):
    hook.answers = [503, 500]
    delivery = Delivery(backoff=(0.01, 0.01))
    delivery.send([alert(AlertRule(max_records=10, webhook=hook.address))])
    deadline = threading.Event()
    while not hook.received:
        assert not deadline.wait(0.01)
    delivery.close()
    assert (len(hook.received), delivery.failed) == (1, 0)


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        (
            AlertRule(max_records=1, webhook="http://127.0.0.1:1/x?token=secret"),
            "webhook 127.0.0.1 did not get an alert: [Errno 111] Connection refused (1 so far)",
        ),
        (
            AlertRule(max_records=1, command=("no-such-program-here",)),
            "command no-such-program-here did not get an alert: [Errno 2] No such file",
        ),
        (
            AlertRule(
                max_records=1,
                command=(sys.executable, "-c", "import sys; sys.exit('the pager is broken')"),
            ),
            "did not get an alert: it exited with 1: the pager is broken (1 so far)",
        ),
    ],
)
def test_a_receiver_that_is_broken_is_given_up_and_counted(
    rule: AlertRule, complaint: str, caplog: pytest.LogCaptureFixture
):
    delivery = Delivery(backoff=(0.0,))
    delivery.send([alert(rule)])
    delivery.close()
    assert delivery.failed == 1
    assert complaint in caplog.text
    assert "secret" not in caplog.text


def test_a_slow_receiver_drops_what_does_not_fit_and_holds_up_nobody(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(module, "QUEUE_LENGTH", 2)
    slow = AlertRule(max_records=10, webhook=hook.address)
    with webhook() as other:
        quick = AlertRule(max_records=10, webhook=other.address)
        delivery = Delivery()
        hook.wait.clear()
        delivery.send([alert(slow, number) for number in range(6)])
        delivery.send([alert(quick)])
        moment = threading.Event()
        while not other.received:
            assert not moment.wait(0.01)
        assert hook.received == []
        assert delivery.failed >= 3
        assert "2 others wait already" in caplog.text
        hook.wait.set()
        delivery.close()
    assert len(hook.received) + delivery.failed == 6


def test_closing_waits_no_longer_than_it_is_told(hook: Hook):
    delivery = Delivery()
    hook.wait.clear()
    rule = AlertRule(max_records=10, webhook=hook.address)
    delivery.send([alert(rule), alert(rule)])
    delivery.close(0.1)
    assert delivery.failed == 2
    hook.wait.set()
