"""How answers look: JSON, with the position that it reflects; errors say what to do."""

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from headrace.views.errors import StoreDamaged, StoreUnavailable, UnknownView, ViewsError
from headrace.views.feeds.tokens import InvalidToken
from headrace.views.filters import InvalidFilter
from headrace.views.materialized.lookup import HistoryGone
from headrace.views.positions import InvalidPosition
from headrace.views.serving.view import NotOpened, NotReflected, PositionUnknown

POSITION_HEADER = "Headrace-Position"
"""The header that says what an answer reflects."""

_STATUS: dict[type[ViewsError], tuple[int, str]] = {
    InvalidFilter: (400, "invalid-filter"),
    InvalidPosition: (400, "invalid-position"),
    InvalidToken: (400, "invalid-token"),
    PositionUnknown: (400, "unknown-position"),
    UnknownView: (404, "unknown-view"),
    HistoryGone: (410, "history-gone"),
    NotOpened: (503, "not-ready"),
    StoreDamaged: (503, "not-ready"),
    StoreUnavailable: (503, "not-ready"),
    NotReflected: (504, "not-reflected"),
}


class InvalidRequest(ViewsError):
    """A request that cannot be understood."""


class NoSuchRow(ViewsError):
    """There is no row of that key."""


class NotAllowed(ViewsError):
    """A reader has no token, or one that does not open this view."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def answer(body: bytes, position: str | None = None, status: int = 200) -> Response:
    """JSON, with its position in a header."""
    headers = {"Cache-Control": "no-store"}
    if position is not None:
        headers[POSITION_HEADER] = position
    return Response(body, status, headers, media_type="application/json")


def json_answer(value: Any, position: str | None = None, status: int = 200) -> Response:
    """The same of something that is not JSON yet."""
    return answer(orjson.dumps(value), position, status)


def refusal(error: ViewsError) -> Response:
    """What a reader is told instead of an answer."""
    status, code = _code(error)
    response = json_answer({"error": {"code": code, "message": str(error)}}, status=status)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def refused(_: Request, error: Exception) -> Response:
    """The same, for Starlette."""
    assert isinstance(error, ViewsError)
    return refusal(error)


def _code(error: ViewsError) -> tuple[int, str]:
    match error:
        case NotAllowed():
            return error.status, "not-allowed"
        case NoSuchRow():
            return 404, "no-such-row"
        case InvalidRequest():
            return 400, "invalid-request"
    return next(
        (found for kind, found in _STATUS.items() if isinstance(error, kind)), (500, "failed")
    )
