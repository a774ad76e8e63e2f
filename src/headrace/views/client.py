"""Reading served views from Python, with nothing but the standard library.

views = Views("http://127.0.0.1:8600")
views.get("users", "u1", after=position)          # sees what was written at that position
views.rows("users", where="country = 'DE'", order="name", limit=10)
for event in views.follow("users"):               # a snapshot, then every change, for ever
print(event.name, event.data)
with views.replica("users") as users:             # the same as a dictionary
print(users.rows["u1"])
"""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Self

from headrace.errors import HeadraceError

_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds before another try to connect."""


class ReadFailed(HeadraceError):
    """A server refused or could not answer; the message is the server's."""

    def __init__(self, message: str, code: str, status: int) -> None:
        super().__init__(message)
        self.code = code
        """A word for programs, such as not-reflected."""
        self.status = status


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and what they reflect."""

    rows: list[dict[str, Any]]
    keys: list[str]
    position: str
    token: str
    """Where a feed goes on from this answer."""

    next: str | None = None
    """The cursor of the next page; None if this is the last."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """What a feed says: snapshot, changes, up-to-date, must-refetch or result."""

    name: str
    data: dict[str, Any]
    token: str


class Views:
    """The views of one server."""

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 30.0) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout = timeout

    def views(self) -> list[dict[str, Any]]:
        """Every view that may be read: name, topic, rows, position, lag, and more."""
        found: list[dict[str, Any]] = self._ask("/views")["views"]
        return found

    def get(
        self, view: str, *key: object, after: str | None = None, timeout: str | None = None
    ) -> dict[str, Any] | None:
        """The row of a key, one argument for each of its columns; None if there is none."""
        parts = "/".join(urllib.parse.quote(str(each), safe="") for each in key)
        try:
            found = self._ask(f"/views/{_quoted(view)}/{parts}", after=after, timeout=timeout)
        except ReadFailed as failed:
            if failed.code == "no-such-row":
                return None
            raise
        row: dict[str, Any] = found["row"]
        return row

    def rows(
        self,
        view: str,
        *,
        where: str | None = None,
        order: str | None = None,
        limit: int | None = None,
        keys: Sequence[str] = (),
        cursor: str | None = None,
        after: str | None = None,
        timeout: str | None = None,
    ) -> Page:
        """Rows of a filter, in an order; or those of some keys."""
        found = self._ask(
            f"/views/{_quoted(view)}",
            where=where,
            order=order,
            limit=limit,
            key=keys,
            cursor=cursor,
            after=after,
            timeout=timeout,
        )
        return _page(found)

    def all_rows(
        self, view: str, *, where: str | None = None, order: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Every row, page by page, all as they were at the first."""
        cursor = None
        while True:
            page = self.rows(view, where=where, order=order, limit=10_000, cursor=cursor)
            yield from page.rows
            if (cursor := page.next) is None:
                return

    def count(
        self,
        view: str,
        *,
        where: str | None = None,
        after: str | None = None,
        timeout: str | None = None,
    ) -> int:
        """How many rows a filter wants."""
        path = f"/views/{_quoted(view)}"
        found = self._ask(path, where=where, count="true", after=after, timeout=timeout)
        return int(found["count"])

    def together(
        self, queries: dict[str, dict[str, Any]], *, after: str | None = None
    ) -> tuple[dict[str, list[dict[str, Any]]], str]:
        """Rows of several views at one position, and that position."""
        body = {"views": queries} if after is None else {"views": queries, "after": after}
        found = self._ask("/views", body=json.dumps(body).encode())
        rows = {name: [each["row"] for each in one["rows"]] for name, one in found["views"].items()}
        return rows, found["position"]

    def diff(self, one: str, other: str, *, limit: int = 100) -> dict[str, Any]:
        """How many rows of two views differ, at one position, and the first of them."""
        return self._ask(f"/diff/{_quoted(one)}/{_quoted(other)}", limit=limit)

    def follow(
        self,
        view: str,
        *,
        where: str | None = None,
        key: str | None = None,
        since: str | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[FeedEvent]:
        """What a feed says, for ever: after a disconnect it goes on from where it was."""
        return self._stream(f"/feeds/{_quoted(view)}", {"where": where, "key": key}, since, stopped)

    def follow_result(
        self,
        view: str,
        *,
        where: str | None = None,
        order: str | None = None,
        limit: int | None = None,
        count: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[FeedEvent]:
        """The result of a query, whenever it is another one."""
        given = {"where": where, "order": order, "limit": limit, "count": count or None}
        return self._stream(f"/results/{_quoted(view)}", given, None, stopped)

    def replica(self, view: str, *, where: str | None = None) -> "Replica":
        """A copy of the rows, kept up to date in the background."""
        return Replica(self, view, where)

    def _stream(
        self, path: str, given: dict[str, Any], token: str | None, stopped: Callable[[], bool]
    ) -> Iterator[FeedEvent]:
        failures = 0
        while not stopped():
            try:
                headers = {"Accept": "text/event-stream"}
                if token is not None:
                    headers["Last-Event-ID"] = token
                with self._open(path, given, headers) as answer:
                    for event in _events(answer):
                        token, failures = event.token or token, 0
                        yield event
                        if stopped():
                            return
            except ReadFailed as failed:
                if failed.status < 500:
                    raise
            except (OSError, HTTPException):
                pass
            time.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1

    def _ask(self, path: str, body: bytes | None = None, **given: Any) -> dict[str, Any]:
        with self._open(path, given, {}, body) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _open(
        self,
        path: str,
        given: dict[str, Any],
        headers: dict[str, str],
        body: bytes | None = None,
    ) -> HTTPResponse:
        asked = {name: value for name, value in given.items() if value is not None and value != ()}
        query = urllib.parse.urlencode(asked, doseq=True)
        request = urllib.request.Request(  # noqa: S310 - the address is the caller's own
            f"{self._url}{path}" + (f"?{query}" if query else ""), body, headers
        )
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            found: HTTPResponse = urllib.request.urlopen(request, timeout=self._timeout)  # noqa: S310
        except urllib.error.HTTPError as error:
            raise _failure(error) from None
        return found


@dataclass
class Replica:
    """A view as a dictionary of its rows by key; complete once `wait` has returned."""

    source: Views
    view: str
    where: str | None = None
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    token: str | None = None
    """The state of the view that the rows are of."""

    _ready: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        threading.Thread(target=self._live, name=f"replica-{self.view}", daemon=True).start()
        self.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()

    def wait(self, seconds: float = 30.0) -> None:
        """Return when the rows are those of the view."""
        if not self._ready.wait(seconds):
            raise ReadFailed(f"The feed of {self.view} has not begun yet.", "not-ready", 503)

    def apply(self, event: FeedEvent) -> None:
        """Take in what a feed says."""
        match event.name:
            case "must-refetch":
                self.rows = {}
            case "snapshot":
                if event.data["first"]:
                    self.rows = {}
                self.rows.update({each["key"]: each["row"] for each in event.data["rows"]})
            case "changes":
                for each in event.data["changes"]:
                    if each["op"] == "delete":
                        self.rows.pop(each["key"], None)
                    else:
                        self.rows[each["key"]] = each["row"]
            case "up-to-date":
                self._ready.set()
        self.token = event.token

    def _live(self) -> None:
        follow = self.source.follow(self.view, where=self.where, stopped=self._stop.is_set)
        for event in follow:
            self.apply(event)


def _events(answer: HTTPResponse) -> Iterator[FeedEvent]:
    """The events of an event stream; comments are left out."""
    name, data, token = "", "", ""
    for raw in answer:
        line = raw.decode().rstrip("\n")
        head, _, value = line.partition(": ")
        match head:
            case "event":
                name = value
            case "id":
                token = value
            case "data":
                data = value
            case "" if not line and name:
                yield FeedEvent(name, json.loads(data), token)
                name, data = "", ""


def _page(found: dict[str, Any]) -> Page:
    return Page(
        [each["row"] for each in found["rows"]],
        [each["key"] for each in found["rows"]],
        found["position"],
        found["token"],
        found.get("next"),
    )


def _failure(error: urllib.error.HTTPError) -> ReadFailed:
    try:
        with error:
            told = json.load(error)["error"]
        return ReadFailed(told["message"], told["code"], error.code)
    except (ValueError, KeyError, TypeError):
        return ReadFailed(f"The server answered {error.code} {error.reason}.", "failed", error.code)


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")
