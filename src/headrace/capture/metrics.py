"""The progress of running captures as text that Prometheus reads, over HTTP."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.capture.progress import CaptureProgress, Condition
from headrace.settings import join_address, split_address

_Value = Callable[[CaptureProgress], float | None]

_UP = (Condition.READING, Condition.FOLLOWING)

_ABOUT: tuple[tuple[str, str, str, _Value], ...] = (
    ("changes_total", "counter", "Changes of rows in this run.", lambda each: each.changes),
    ("rows_read_total", "counter", "Rows that snapshots told.", lambda each: each.rows_read),
    ("transactions_total", "counter", "Transactions told.", lambda each: each.transactions),
    ("restarts_total", "counter", "Times it was started again.", lambda each: each.restarts),
    (
        "behind_bytes",
        "gauge",
        "Log of the database that is not confirmed yet.",
        lambda each: each.behind_bytes,
    ),
    (
        "retained_bytes",
        "gauge",
        "Log that the database keeps for the capture.",
        lambda each: each.retained_bytes,
    ),
    (
        "behind_seconds",
        "gauge",
        "How old the last change was when it was in its topic.",
        lambda each: None if each.behind_ms is None else each.behind_ms / 1000,
    ),
    (
        "snapshot_rows",
        "gauge",
        "Rows that snapshots have read so far.",
        lambda each: sum(table.rows for table in each.tables),
    ),
    (
        "snapshot_rows_expected",
        "gauge",
        "Rows that they are expected to read.",
        lambda each: sum(table.rows if table.done else table.estimate for table in each.tables),
    ),
    (
        "up",
        "gauge",
        "1 while it runs, 0 while it is paused, waits for another try or has failed.",
        lambda each: float(each.condition in _UP),
    ),
)
"""Name, kind, help and value of every metric."""


def exposition(captures: Iterable[CaptureProgress]) -> str:
    """The metrics of captures as Prometheus' text format."""
    captures = list(captures)
    lines = []
    for name, kind, about, value in _ABOUT:
        lines += [
            f"# HELP headrace_capture_{name} {about}",
            f"# TYPE headrace_capture_{name} {kind}",
        ]
        for each in captures:
            if (number := value(each)) is not None:
                lines.append(f'headrace_capture_{name}{{capture="{each.name}"}} {number:.15g}')
    return "\n".join(lines) + "\n"


@contextmanager
def served(address: str, captures: Callable[[], Iterable[CaptureProgress]]) -> Iterator[str]:
    """Serve the metrics at /metrics while the block runs; gives the address, port 0 resolved."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = exposition(captures()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    host, port = split_address(address)
    with ThreadingHTTPServer((host, port), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="capture-metrics", daemon=True)
        thread.start()
        try:
            yield join_address(host, server.server_port)
        finally:
            server.shutdown()
            thread.join()
