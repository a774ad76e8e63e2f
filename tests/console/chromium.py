"""A real browser for the console: Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SCREENSHOTS = Path(__file__).parents[2] / "console-screenshots"
"""Where pictures of what tests saw are kept; not in the repository."""

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000
"""How long something may take to appear on a busy machine."""


def chromium() -> str | None:
    """The browser's program, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def running_browser() -> "Iterator[Browser]":
    """A browser while a block runs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=list(_ARGUMENTS), timeout=PATIENCE_MS
        )
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody who looks at a console, and to whom the browser's own complaints are told."""

    def __init__(self, context: "BrowserContext", address: str, name: str) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self._address = address
        self._name = name
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)

    def go(self, path: str) -> "Page":
        """Open a page and wait until it is alive."""
        self.page.goto(f"{self._address}{path}", wait_until="domcontentloaded")
        self.page.wait_for_selector(".hr-main .hr-title")
        return self.page

    def picture(self, name: str = "") -> None:
        """Keep what is seen now."""
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name or self._name}.png")

    def _heard(self, message: "object") -> None:
        kind, text = message.type, message.text  # type: ignore[attr-defined]
        # The server that a page has just lost is told of by the page itself.
        if kind == "error" and "net::ERR" not in text and "WebSocket" not in text:
            self.complaints.append(text)
