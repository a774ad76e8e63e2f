"""A small schema registry, as much of Confluent's interface as readers use."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class RegistryServer:
    """Schemas by id and by subject; `failures` is how many requests fail before one succeeds."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.failures = 0
        self.login: tuple[str, str] | None = None
        self.address = ""

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        number = len(self.schemas) + 1
        self.schemas[number] = {
            "schema": schema if isinstance(schema, str) else json.dumps(schema),
            **({} if kind == "AVRO" else {"schemaType": kind}),
            **({"references": list(references)} if references else {}),
        }
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        self.requests.append(path)
        if self.failures:
            self.failures -= 1
            return 503, {"message": "starting"}
        if self.login:
            token = base64.b64encode(":".join(self.login).encode()).decode()
            if authorization != f"Basic {token}":
                return 401, {"message": "who are you?"}
        match path.strip("/").split("/"):
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["subjects", subject, "versions", version] if unquote(subject) in self.subjects:
                numbers = self.subjects[unquote(subject)]
                found = numbers[-1] if version == "latest" else numbers[int(version) - 1]
                return 200, {"id": found, **self.schemas[found]}
        return 404, {"error_code": 40403, "message": "not found"}


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = registry.answer(self.path, self.headers.get("Authorization"))
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    registry.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
