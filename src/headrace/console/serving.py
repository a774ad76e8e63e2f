"""The console as a server: pages, guard and background observation, until it is told to stop."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from headrace.console.alerting.watch import AlertWatch
from headrace.console.auditing import Audit
from headrace.console.observing.observatory import Observatory
from headrace.errors import HeadraceError
from headrace.settings import Settings, join_address, split_address

_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="7" fill="#0b7285"/>'
    '<path d="M5 12q5-5 11 0t11 0M5 20q5-5 11 0t11 0" fill="none" stroke="#fff" '
    'stroke-width="3" stroke-linecap="round"/></svg>'
)


class ConsoleMissing(HeadraceError):
    """NiceGUI is not installed."""


class AddressTaken(HeadraceError):
    """Somebody else listens there."""


def serve(settings: Settings, ready: Callable[[str], None] = lambda address: None) -> None:
    """Serve the console until SIGINT or SIGTERM; `ready` is told the address.

    Raises TokenMissing, ConsoleMissing or AddressTaken before anything is started.
    """
    if find_spec("nicegui") is None:
        raise ConsoleMissing(
            "The console needs NiceGUI. Install headrace[console], as in "
            "`pip install 'headrace[console]'`."
        )
    from headrace.console.guarding import Guard, require_token

    require_token(settings.console)
    # NiceGUI keeps what pages store in a directory of the working directory; we store nothing.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(settings.lag.state / "console"))
    from nicegui import app, ui

    from headrace.console import frame, pages

    host, port = _free(settings.console.listen)
    observatory = Observatory(settings)
    alerts = AlertWatch(observatory, _history(settings))
    console = frame.Console(observatory, Audit(settings.console.audit), alerts)
    frame.install()
    pages.register(console)
    app.add_middleware(Guard, token=settings.console.token)
    app.on_startup(observatory.start)
    app.on_startup(lambda: ready(join_address(host, port)))
    app.on_shutdown(observatory.stop)
    app.on_shutdown(alerts.close)
    # NiceGUI would take a console that somebody's test has started for a test of its own.
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    ui.run(
        host=host,
        port=port,
        title="Headrace",
        favicon=_ICON,
        dark=None,
        reload=False,
        show=False,
        show_welcome_message=False,
        reconnect_timeout=10.0,
        uvicorn_logging_level="warning",
        binding_refresh_interval=0.5,
    )


def _history(settings: Settings) -> Path:
    return settings.lag.state / "console-alerts.jsonl"


def _free(listen: str) -> tuple[str, int]:
    """The address to listen at, port 0 resolved; AddressTaken if it is not free."""
    import socket

    host, port = split_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise AddressTaken(
                f"The console cannot listen at {listen}: {error.strerror}. Name another address "
                "with --listen or [console] listen."
            ) from None
        return host, int(probe.getsockname()[1])
