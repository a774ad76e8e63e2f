"""Who is let in."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace.console.guarding import Guard, TokenMissing, require_token
from headrace.settings import ConsoleSettings

TOKEN = "open-sesame"


async def _page(request: Request) -> PlainTextResponse:
    return PlainTextResponse("inside")


def client(token: str | None, host: str = "localhost") -> httpx.AsyncClient:
    app = Guard(Starlette(routes=[Route("/{path:path}", _page)]), token=token)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{host}:8090")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_this_machine_needs_no_token(host: str) -> None:
    async with client(None, host) as visitor:
        assert (await visitor.get("/topics")).text == "inside"


async def test_a_name_that_somebody_else_points_here_is_refused() -> None:
    async with client(None, "rebound.example") as visitor:
        assert (await visitor.get("/")).status_code == 403


async def test_a_page_of_somebody_else_is_refused_and_our_own_is_not() -> None:
    async with client(None) as visitor:
        theirs = await visitor.get("/", headers={"origin": "https://elsewhere.example"})
        ours = await visitor.get("/", headers={"origin": "http://localhost:8090"})
    assert (theirs.status_code, ours.status_code) == (403, 200)


async def test_without_the_token_nothing_is_shown_and_a_form_asks_for_it() -> None:
    async with client(TOKEN, "shop.example") as visitor:
        plain = await visitor.get("/topics")
        form = await visitor.get("/topics", headers={"accept": "text/html"})
    assert (plain.status_code, form.status_code) == (401, 401)
    assert "inside" not in plain.text + form.text
    assert TOKEN not in plain.text + form.text
    assert "<form" in form.text


async def test_whoever_knows_the_token_is_let_in_and_stays_so() -> None:
    async with client(TOKEN, "shop.example") as visitor:
        wrong = await visitor.post("/login", data={"token": "wrong"})
        right = await visitor.post("/login", data={"token": TOKEN})
        assert (wrong.status_code, right.status_code) == (401, 303)
        cookie = right.headers["set-cookie"]
        assert TOKEN not in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert (await visitor.get("/topics")).text == "inside"


async def test_programs_say_the_token_in_a_header() -> None:
    async with client(TOKEN) as visitor:
        right = await visitor.get("/", headers={"authorization": f"Bearer {TOKEN}"})
        wrong = await visitor.get("/", headers={"authorization": "Bearer nearly"})
    assert (right.status_code, wrong.status_code) == (200, 401)


async def test_a_cookie_that_was_made_up_does_not_help() -> None:
    async with client(TOKEN) as visitor:
        visitor.cookies.set("headrace_console", "0" * 64)
        assert (await visitor.get("/")).status_code == 401


async def test_websockets_are_guarded_as_well() -> None:
    sent = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    guard = Guard(Starlette(), token=TOKEN)
    await guard({"type": "websocket", "headers": [], "path": "/"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 4403}]


@pytest.mark.parametrize("listen", ["0.0.0.0:8090", "192.168.1.7:8090", "shop.example:8090"])
def test_off_loopback_a_token_is_required(listen: str) -> None:
    with pytest.raises(TokenMissing, match="HEADRACE_CONSOLE_TOKEN"):
        require_token(ConsoleSettings(listen=listen))
    require_token(ConsoleSettings(listen=listen, token=TOKEN))


def test_a_token_is_in_no_text_about_the_settings() -> None:
    assert TOKEN not in repr(ConsoleSettings(token=TOKEN))
