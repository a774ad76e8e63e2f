"""Who is let in: everybody on this machine, or whoever knows the token.

A page on the web must not reach a console on the reader's own machine. Without a token, requests
are answered only if they name this machine as their host, which a name that somebody else points
here does not do. With one, a cookie that is made from the token, and is not the token, says that it
was known.
"""

import hashlib
import hmac
import html
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.settings import ConsoleSettings, split_address

COOKIE: Final = "headrace_console"
_LOGIN: Final = "/login"
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_WEEK_SECONDS: Final = 7 * 24 * 3600
_LONGEST_FORM: Final = 10_000


class TokenMissing(HeadraceError):
    """The console would be open to everybody who can reach it."""


def require_token(settings: ConsoleSettings) -> None:
    """Refuse to serve others than this machine without a token."""
    host, _ = split_address(settings.listen)
    if host not in _LOCAL_NAMES and settings.token is None:
        raise TokenMissing(
            f"At {settings.listen} others than this machine can reach the console, and change what "
            "runs. Set [console] token, or HEADRACE_CONSOLE_TOKEN, to something long, such as "
            f"{secrets.token_urlsafe(24)}; or let it listen at 127.0.0.1."
        )


class Guard:
    """Wraps an application and answers those itself who are not let in."""

    def __init__(self, app: ASGIApp, *, token: str | None) -> None:
        self._app = app
        self._token = token
        # The key changes with every start, so that nobody who was once let in stays so for ever.
        key = secrets.token_bytes(32)
        self._pass = hmac.new(key, (token or "").encode(), hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or not."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if self._token is None:
            allowed = _host_of(headers) in _LOCAL_NAMES
        else:
            allowed = self._is_known(headers)
        if allowed and _is_own_page(headers):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4403})
        else:
            await (await self._answer(Request(scope, receive)))(scope, receive, send)

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if bearer and self._matches(bearer):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value, self._pass)

    def _matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._token or "").encode())

    async def _answer(self, request: Request) -> Response:
        if not _is_own_page(request.headers):
            return PlainTextResponse("Another page's requests are refused.\n", status_code=403)
        if self._token is None:
            return PlainTextResponse(
                "This console answers to localhost only; set [console] token for other names.\n",
                status_code=403,
            )
        if request.url.path == _LOGIN and request.method == "POST":
            return await self._log_in(request)
        if request.url.path == _LOGIN or "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(_form(), status_code=401)
        return PlainTextResponse("Say the console's token.\n", status_code=401)

    async def _log_in(self, request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _LONGEST_FORM:
                return PlainTextResponse("That is no token.\n", status_code=413)
        given = parse_qs(body.decode(errors="replace")).get("token", [""])[0]
        if not self._matches(given.strip()):
            return HTMLResponse(_form("That is not the token."), status_code=401)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            COOKIE,
            self._pass,
            max_age=_WEEK_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


def _is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from no page, or from one of the console itself."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


def _host_of(headers: Mapping[str, str]) -> str:
    host = headers.get("host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _form(problem: str = "") -> str:
    said = f'<p class="problem" role="alert">{html.escape(problem)}</p>' if problem else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Headrace</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
body {{ display: grid; place-items: center; min-height: 100vh; margin: 0; }}
form {{ display: grid; gap: .8rem; width: min(20rem, 86vw); }}
h1 {{ font-size: 1.2rem; margin: 0; }} p {{ margin: 0; opacity: .7; }}
.problem {{ color: #d64545; opacity: 1; }}
input, button {{ font: inherit; padding: .6rem .7rem; border-radius: .5rem; }}
input {{ border: 1px solid #8895a0; background: transparent; color: inherit; }}
button {{ border: 0; background: #0b7285; color: white; cursor: pointer; }}
</style></head><body><form method="post" action="{_LOGIN}">
<h1>Headrace</h1><p>This console asks for its token.</p>{said}
<input type="password" name="token" aria-label="Token" autocomplete="current-password" autofocus>
<button>Enter</button></form></body></html>"""
