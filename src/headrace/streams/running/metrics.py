"""The progress of running flows as text that Prometheus reads, over HTTP."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.settings import join_address, split_address
from headrace.streams.running.progress import QueryProgress, QueryState

_Value = Callable[[QueryProgress], float | None]

_ABOUT: tuple[tuple[str, str, str, _Value], ...] = (
    ("rows_read_total", "counter", "Rows read in this run.", lambda each: each.read),
    ("rows_written_total", "counter", "Rows written in this run.", lambda each: each.written),
    (
        "records_rejected_total",
        "counter",
        "Records that did not parse and were skipped in this run.",
        lambda each: each.rejected,
    ),
    (
        "records_lost_total",
        "counter",
        "Records that were gone before they were read and were skipped in this run.",
        lambda each: each.lost,
    ),
    (
        "events_late_total",
        "counter",
        "Events that a window did not take in this run, being too late or without a time.",
        lambda each: each.late,
    ),
    ("restarts_total", "counter", "Times it was started again.", lambda each: each.restarts),
    ("rows_per_second", "gauge", "Rows per second in the last batch.", lambda each: each.rate),
    ("lag_records", "gauge", "Records that are still to be read.", lambda each: each.lag),
    ("last_batch", "gauge", "The number of the last finished batch.", lambda each: each.batch),
    (
        "batch_seconds",
        "gauge",
        "How long the last batch took.",
        lambda each: None if each.batch_ms is None else each.batch_ms / 1000,
    ),
    (
        "up",
        "gauge",
        "1 while it runs, 0 while it waits for another try or is given up.",
        lambda each: float(each.state in (QueryState.STARTING, QueryState.RUNNING)),
    ),
)
"""Name, kind, help and value of every metric."""


def exposition(queries: Iterable[QueryProgress]) -> str:
    """The metrics of the queries as Prometheus' text format."""
    queries = list(queries)
    lines = []
    for name, kind, about, value in _ABOUT:
        lines += [f"# HELP headrace_flow_{name} {about}", f"# TYPE headrace_flow_{name} {kind}"]
        for each in queries:
            if (number := value(each)) is not None:
                labels = f'flow="{each.flow}",output="{each.output}"'
                lines.append(f"headrace_flow_{name}{{{labels}}} {number:g}")
    return "\n".join(lines) + "\n"


@contextmanager
def served(address: str, queries: Callable[[], Iterable[QueryProgress]]) -> Iterator[str]:
    """Serve the metrics at /metrics while the block runs; gives the address, port 0 resolved."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = exposition(queries()).encode()
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
        thread = threading.Thread(target=server.serve_forever, name="flow-metrics", daemon=True)
        thread.start()
        try:
            yield join_address(host, server.server_port)
        finally:
            server.shutdown()
            thread.join()
