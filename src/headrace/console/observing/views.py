"""Served views, as `headrace serve` tells of them over HTTP."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from headrace.console.wording import count, duration
from headrace.errors import HeadraceError

_TIMEOUT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 4.0
"""How long one question for changes is left open."""


class ViewsUnreachable(HeadraceError):
    """No server of views answers, or it refuses."""


@dataclass(frozen=True, slots=True)
class ViewRow:
    """One view, as its server tells of it."""

    name: str
    topic: str
    flow: str
    columns: tuple[str, ...]
    building: bool
    rows: int | None
    position: str
    lag: int
    behind_ms: int
    progress: float
    subscribers: int
    rejected: int
    error: str

    @property
    def detail(self) -> str:
        """How it stands, in a few words."""
        if self.error:
            return self.error
        if self.building:
            return f"building, {self.progress:.0%}"
        behind = f", {count(self.lag)} behind" if self.lag else ""
        return f"{count(self.rows)} rows{behind}"

    @property
    def staleness(self) -> str:
        """How old what it shows is, at worst."""
        return f"{duration(self.behind_ms)}" if self.lag else "up to date"

    @property
    def health(self) -> str:
        """The colour of it."""
        if self.error:
            return "bad"
        return "warn" if self.building else "ok"

    def reflects(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a record is part of what it shows."""
        for each in self.position.split(","):
            parts = each.rsplit(":", 2)
            if parts[:2] == [topic, str(partition)]:
                return int(parts[2]) >= offset
        return False


@dataclass(frozen=True, slots=True)
class ViewsSample:
    """All views at one moment."""

    rows: Mapping[str, ViewRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a view, and from where on changes are to be asked for."""

    rows: tuple[Mapping[str, Any], ...]
    """Each has its key under "key" and its columns under "row"."""

    position: str
    token: str


class ViewServer:
    """Asks a server of views; any thread may.

    Args:
        address: Where it answers, such as http://127.0.0.1:8600.
        token: What it wants to hear, if it does.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address.rstrip("/")
        self._token = token

    def gather(self) -> ViewsSample:
        """All views; ViewsUnreachable if nobody answers."""
        found = self._get("/views")
        rows = [
            ViewRow(
                each["name"],
                each["topic"],
                each["flow"],
                tuple(each["columns"]),
                each["building"],
                each["rows"],
                each["position"],
                each["lag"],
                each["behind_ms"],
                each["progress"],
                each["subscribers"],
                each["rejected"],
                each["error"],
            )
            for each in found["views"]
        ]
        return ViewsSample({each.name: each for each in sorted(rows, key=lambda one: one.name)})

    def query(self, name: str, where: str = "", order: str = "", limit: int = 100) -> Answer:
        """Rows of a view; ViewsUnreachable says what is wrong with the question."""
        given = {"where": where, "order": order, "limit": str(limit)}
        found = self._get(f"/views/{quote(name, safe='')}", given)
        return Answer(tuple(found["rows"]), found.get("position", ""), found["token"])

    def changes(self, name: str, since: str, where: str = "") -> tuple[list[Any], str]:
        """What has changed since a token, as soon as anything has; and the next token."""
        given = {"since": since, "where": where, "wait": f"{_POLL_SECONDS:g}"}
        found = self._get(f"/feeds/{quote(name, safe='')}/poll", given)
        return found["events"], found["token"]

    def _get(self, path: str, given: Mapping[str, str] | None = None) -> Any:
        said = urlencode({name: value for name, value in (given or {}).items() if value})
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(  # noqa: S310 - settings admit http and https only
            f"{self.address}{path}{f'?{said}' if said else ''}", headers=headers
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ViewsUnreachable(_refusal(error)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ViewsUnreachable(
                f"No views are served at {self.address}: {reason}. Run `headrace serve`, or name "
                "another address with [console] views."
            ) from None


def _refusal(error: urllib.error.HTTPError) -> str:
    """Why a server refused, in its own words if it has any."""
    try:
        said = json.load(error)["error"]["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"The server of views answered {error.code}."
    return str(said)
