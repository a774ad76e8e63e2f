"""A photograph of the console while the demo runs, for the README.

python -m examples.shop.photograph FILE [URL]
"""

import shutil
import sys
from typing import Final

from playwright.sync_api import sync_playwright

from examples.shop.opening import CONSOLE_PORT

WIDTH: Final = 1400
HEIGHT: Final = 900
_SETTLE_MS: Final = 6_000
"""Until rates are known, which takes two looks at the cluster."""


def photograph(url: str, file: str) -> None:
    """Open the page in Chromium, wait until it lives, and keep what is seen."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(url)
        page.wait_for_timeout(_SETTLE_MS)
        page.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    file, *where = sys.argv[1:]
    photograph(where[0] if where else f"http://127.0.0.1:{CONSOLE_PORT}/", file)
