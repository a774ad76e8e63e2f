"""What is around every page: where one can go, which cluster it is, and whether it answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nicegui import app, ui

from headrace.clock import SystemClock
from headrace.console.auditing import Audit
from headrace.console.observing.observatory import Observatory
from headrace.console.wording import ago

if TYPE_CHECKING:
    from headrace.console.alerting.watch import AlertWatch

_STYLE: Final = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
_REFRESH_SECONDS: Final = 1.0

PAGES: Final = (
    ("/", "Map", "account_tree"),
    ("/topics", "Topics", "reorder"),
    ("/groups", "Groups", "groups"),
    ("/flows", "Flows", "waves"),
    ("/captures", "Captures", "storage"),
    ("/views", "Views", "table_view"),
    ("/trace", "Trace", "route"),
    ("/alerts", "Alerts", "notifications"),
    ("/processes", "Processes", "memory"),
)
"""Address, name and icon of every page."""

_IS_DARK: Final = "document.body.classList.contains('body--dark')"
_REMEMBER: Final = "document.cookie = 'headrace_theme={};path=/;max-age=31536000;samesite=strict'"


@dataclass(frozen=True, slots=True)
class Console:
    """What every page has to work with."""

    observatory: Observatory
    audit: Audit
    alerts: "AlertWatch"

    @property
    def bootstrap(self) -> str:
        """The cluster that is looked at."""
        return self.observatory.cluster.bootstrap


def now_ms() -> int:
    """The time that pages compare with."""
    return SystemClock().now_ms()


@contextmanager
def frame(console: Console, title: str, *, at: str) -> Iterator[None]:
    """A page of that title; `at` is the address of the entry that is marked in the menu."""
    ui.add_css(_STYLE)
    ui.colors(primary="#0b7285", positive="#12855c", negative="#c8333a", warning="#a86a06")
    ui.page_title(f"{title} · Headrace")
    theme = ui.context.client.request.cookies.get("headrace_theme", "")
    dark = ui.dark_mode({"dark": True, "light": False}.get(theme))
    with ui.header().classes("hr-header items-center no-wrap gap-3"):
        menu = ui.button(icon="menu").props("flat dense round").classes("lt-md")
        menu.props('aria-label="Menu"').style("color: inherit")
        ui.link("Headrace", "/").classes("hr-brand").style("text-decoration: none")
        ui.label(console.bootstrap).classes("hr-sub hr-mono hr-hide-small ellipsis")
        ui.space()
        standing = ui.label().classes("hr-tag")

        async def toggle() -> None:
            # The system may have chosen, so only the browser knows which it is.
            wanted = not await ui.run_javascript(_IS_DARK)
            ui.run_javascript(_REMEMBER.format("dark" if wanted else "light"))
            dark.set_value(wanted)

        ui.button(icon="contrast", on_click=toggle).props(
            'flat dense round aria-label="Light or dark"'
        ).style("color: inherit")
    with (
        ui.left_drawer(bordered=False)
        .props("width=188 breakpoint=1023")
        .classes("hr-drawer column no-wrap gap-0") as drawer
    ):
        menu.on_click(drawer.toggle)
        for address, name, icon in PAGES:
            _entry(address, name, icon, current=address == at)
    with ui.column().classes("hr-main"):
        banner = ui.label().classes("hr-banner").props("role=alert")
        banner.visible = False

        def refresh() -> None:
            seen = console.observatory.topics.seen
            firing = len(console.alerts.firing)
            banner.visible = bool(seen.failure)
            if seen.failure:
                banner.text = f"{seen.failure} What is shown was seen {ago(seen.at_ms, now_ms())}."
            word, health = ("live", "ok") if seen.at_ms else ("connecting", "idle")
            if seen.failure:
                word, health = "no answer", "bad"
            elif firing:
                word, health = f"{firing} alert{'s' if firing > 1 else ''}", "warn"
            standing.text = word
            standing.classes(replace=f"hr-tag hr-{health}")

        refresh()
        ui.timer(_REFRESH_SECONDS, refresh)
        yield


def live(refresh: Callable[[], None], seconds: float = _REFRESH_SECONDS) -> None:
    """Show something now, and again every so often for as long as somebody looks."""
    refresh()
    ui.timer(seconds, refresh)


def _entry(address: str, name: str, icon: str, *, current: bool) -> None:
    with ui.link(target=address).classes("hr-nav") as entry:
        if current:
            entry.props('aria-current="page"')
        ui.icon(icon)
        ui.label(name)


def on_exception(error: Exception) -> None:
    """What goes wrong in a handler is said where it happened."""
    if ui.context.slot_stack:
        ui.notify(str(error), type="negative", multi_line=True)


def install() -> None:
    """Say errors of handlers on the page."""
    app.on_exception(on_exception)
