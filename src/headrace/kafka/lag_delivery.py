"""Getting alarms to their receivers: a log line, a webhook, a command, a mail.

Receivers may be slow, broken or away, and must never hold up the monitor. Each has a thread and a
short queue of its own; what does not get through after a few attempts, or does not fit, is counted
and logged.
"""

import json
import logging
import smtplib
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Protocol
from urllib.parse import urlsplit

from headrace.kafka.lag_alerts import AlertState
from headrace.settings import LagSettings, split_address

log = logging.getLogger("headrace.lag")

Receiver = Callable[[bytes], None]
"""Takes an alarm as JSON or a letter; raises OSError or SubprocessError if it could not."""

QUEUE_LENGTH = 100
"""Alarms that wait for one receiver; more are dropped."""

BACKOFF_SECONDS = (1.0, 5.0, 25.0)
"""How long to wait before each further attempt."""

TIMEOUT_SECONDS = 10.0
"""How long a receiver may take."""


class Receivers(Protocol):
    """Where the alarms of a rule go."""

    @property
    def webhook(self) -> str | None:
        """Address that they are posted to."""
        ...

    @property
    def command(self) -> tuple[str, ...] | None:
        """Program that gets them."""
        ...

    @property
    def mail(self) -> str | None:
        """Address that they are mailed to."""
        ...


class Alarm(Protocol):
    """What is delivered; an `Alert` about lag is one."""

    @property
    def kind(self) -> str:
        """What it is about, in a word."""
        ...

    @property
    def state(self) -> AlertState:
        """Whether it begins or ends."""
        ...

    @property
    def rule(self) -> Receivers:
        """The rule that it was raised by."""
        ...

    def as_json(self) -> Mapping[str, object]:
        """What receivers are told."""
        ...


@dataclass(frozen=True, slots=True)
class MailRelay:
    """Where mail is handed over, and who it is from."""

    address: str
    sender: str


def relay_of(settings: LagSettings) -> MailRelay | None:
    """The mail server that the settings name, if they do."""
    if settings.mail_relay is None:
        return None
    return MailRelay(settings.mail_relay, settings.mail_from)


class Delivery:
    """Sends alarms to where their rules say; `failed` counts those that never arrived."""

    def __init__(
        self, *, relay: MailRelay | None = None, backoff: Sequence[float] = BACKOFF_SECONDS
    ) -> None:
        self._relay = relay
        self._backoff = backoff
        self._outlets: dict[object, _Outlet] = {}

    @property
    def failed(self) -> int:
        """Alarms that a receiver did not take, or that did not fit into its queue."""
        return sum(each.failed for each in self._outlets.values())

    def send(self, alerts: Iterable[Alarm]) -> None:
        """Log each alarm and hand it to its receivers; returns at once."""
        for alert in alerts:
            log.log(
                logging.WARNING if alert.state is AlertState.FIRING else logging.INFO,
                "%s alert %s",
                alert.kind,
                alert,
            )
            message = json.dumps(alert.as_json()).encode() + b"\n"
            webhook, command = alert.rule.webhook, alert.rule.command
            if webhook is not None:
                # An address may hold a token, so only its host is ever named.
                name = f"webhook {urlsplit(webhook).hostname}"
                self._outlet(webhook, name, _poster(webhook)).put(message)
            if command is not None:
                self._outlet(command, f"command {command[0]}", _runner(command)).put(message)
            if alert.rule.mail is not None and self._relay is not None:
                to = alert.rule.mail
                letter = _letter(self._relay, to, alert, message)
                self._outlet(("mail", to), f"mail to {to}", _mailer(self._relay, to)).put(letter)

    def close(self, seconds: float = TIMEOUT_SECONDS) -> None:
        """Give what is queued one last attempt within the time; the rest counts as failed."""
        for outlet in self._outlets.values():
            outlet.finish()
        deadline = time.monotonic() + seconds
        for outlet in self._outlets.values():
            outlet.join(deadline - time.monotonic())

    def _outlet(self, key: object, name: str, receiver: Receiver) -> "_Outlet":
        if key not in self._outlets:
            self._outlets[key] = _Outlet(name, receiver, self._backoff)
        return self._outlets[key]


class _Outlet:
    """One receiver, the alarms that wait for it, and its thread."""

    def __init__(self, name: str, receiver: Receiver, backoff: Sequence[float]) -> None:
        self.failed = 0
        self._name = name
        self._receiver = receiver
        self._backoff = backoff
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._finishing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"headrace {name}", daemon=True)
        self._thread.start()

    def put(self, message: bytes) -> None:
        """Queue an alarm, or drop it if too many wait already."""
        with self._changed:
            fits = len(self._waiting) < QUEUE_LENGTH
            if fits:
                self._waiting.append(message)
                self._changed.notify()
        if not fits:
            self._fail(f"{QUEUE_LENGTH} others wait already")

    def finish(self) -> None:
        """Wait no longer between attempts, and stop when nothing waits any more."""
        with self._changed:
            self._finishing.set()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait for the last attempts; what is not through by then has failed."""
        self._thread.join(max(seconds, 0))
        if self._thread.is_alive():
            with self._changed:
                unsent = 1 + len(self._waiting)
                self._waiting.clear()
            self._fail("it took too long at the end", unsent)

    def _run(self) -> None:
        while (message := self._next()) is not None:
            self._deliver(message)

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._waiting:
                if self._finishing.is_set():
                    return None
                self._changed.wait()
            return self._waiting.popleft()

    def _deliver(self, message: bytes) -> None:
        for pause in (*self._backoff, None):
            try:
                self._receiver(message)
            except (OSError, subprocess.SubprocessError) as error:
                if pause is None or self._finishing.wait(pause):
                    self._fail(_reason(error))
                    return
            else:
                return

    def _fail(self, reason: str, alerts: int = 1) -> None:
        self.failed += alerts
        log.error("%s did not get an alert: %s (%d so far)", self._name, reason, self.failed)


def _poster(address: str) -> Receiver:
    def post(message: bytes) -> None:
        request = urllib.request.Request(  # noqa: S310 - settings admit http and https only
            address, message, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):  # noqa: S310
            pass

    return post


def _runner(command: Sequence[str]) -> Receiver:
    def run(message: bytes) -> None:
        subprocess.run(
            list(command),
            input=message,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS,
            check=True,
            start_new_session=True,  # the Ctrl-C that ends the monitor is not meant for it
        )

    return run


def _letter(relay: MailRelay, to: str, alert: Alarm, message: bytes) -> bytes:
    letter = EmailMessage()
    letter["From"], letter["To"] = relay.sender, to
    letter["Subject"] = f"Headrace: {alert}"
    letter.set_content(f"{alert}\n\n{message.decode()}")
    return letter.as_bytes()


def _mailer(relay: MailRelay, to: str) -> Receiver:
    def mail(letter: bytes) -> None:
        host, port = split_address(relay.address)
        with smtplib.SMTP(host, port, timeout=TIMEOUT_SECONDS) as server:
            if server.has_extn("starttls"):
                server.starttls()
            server.sendmail(relay.sender, [to], letter)

    return mail


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    match error:
        case urllib.error.HTTPError():
            return f"it answered {error.code}"
        case urllib.error.URLError():
            return str(error.reason)
        case subprocess.CalledProcessError():
            said = error.stderr.decode(errors="replace").strip().splitlines()
            return f"it exited with {error.returncode}" + (f": {said[-1]}" if said else "")
        case subprocess.TimeoutExpired():
            return f"it took longer than {TIMEOUT_SECONDS:g} s"
    return str(error)
