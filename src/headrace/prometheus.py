"""Metrics as text that Prometheus reads, over HTTP, for what runs without a server of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.settings import join_address, split_address


@contextmanager
def served(address: str, exposition: Callable[[], str]) -> Iterator[str]:
    """Serve metrics at /metrics while the block runs; gives the address, port 0 resolved.

    `exposition` is called for every request, from a thread of the server.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = exposition().encode()
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
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield join_address(host, server.server_port)
        finally:
            server.shutdown()
            thread.join()


def escaped(label: str) -> str:
    r"""The value of a label, as it stands between quotes.

    >>> escaped('a "word"')
    'a \\"word\\"'
    """
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def written(number: float) -> str:
    """A number with all its digits.

    >>> written(1_767_261_600.5), written(12_345_678), written(1.0)
    ('1767261600.5', '12345678', '1')
    """
    return str(int(number)) if number == int(number) else repr(float(number))
