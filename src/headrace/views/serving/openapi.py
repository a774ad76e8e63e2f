"""What the HTTP interface is, for programs: an OpenAPI document."""

from typing import Any

from headrace import __version__

_AFTER = (
    "after",
    "Wait until the view reflects these records, as in orders:0:4711; commas between several.",
)
_TIMEOUT = ("timeout", "How long to wait for that, as in 5s; then the answer is 504.")
_WHERE = ("where", "Which rows, as in country = 'DE' and total >= 100.")
_ORDER = ("order", "In which order, as in total desc, name.")
_LIMIT = ("limit", "Rows at most.")
_COUNT = ("count", "true for the number of rows only.")
_KEY = ("key", "A key; repeat it for several.")
_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def document() -> dict[str, Any]:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace views",
            "version": __version__,
            "description": "Tables that are kept up to date from topics: rows, and their changes.",
        },
        "paths": {
            "/views": {
                "get": _operation(
                    "Every view and how it stands; with names, rows of several at one position.",
                    ("names", "Views to be read at one position, with commas between them."),
                    _LIMIT,
                    _AFTER,
                    _TIMEOUT,
                ),
                "post": _operation("Rows of several views at one position, each with its query."),
            },
            "/views/{name}": {
                "parameters": [_NAME],
                "get": _operation(
                    "Rows of a view.",
                    _WHERE,
                    _ORDER,
                    _LIMIT,
                    ("offset", "Rows to leave out first."),
                    ("cursor", "`next` of the page before: goes on in the same state of the view."),
                    _KEY,
                    _COUNT,
                    _AFTER,
                    _TIMEOUT,
                ),
            },
            "/views/{name}/{key}": {
                "parameters": [_NAME, {**_NAME, "name": "key"}],
                "get": _operation("One row.", _AFTER, _TIMEOUT),
            },
            "/feeds/{name}": {
                "parameters": [_NAME],
                "get": _operation(
                    "An event stream: a snapshot, then every change.",
                    _WHERE,
                    ("key", "Only the row of this key."),
                    media="text/event-stream",
                ),
            },
            "/feeds/{name}/poll": {
                "parameters": [_NAME],
                "get": _operation(
                    "The same by long polls.",
                    _WHERE,
                    ("key", "Only the row of this key."),
                    ("since", "`token` of the answer before."),
                    ("wait", "How long to wait for something new, as in 20s."),
                ),
            },
            "/results/{name}": {
                "parameters": [_NAME],
                "get": _operation(
                    "An event stream of a query's whole result, whenever it is another one.",
                    _WHERE,
                    _ORDER,
                    _LIMIT,
                    _COUNT,
                    media="text/event-stream",
                ),
            },
            "/diff/{one}/{other}": {
                "parameters": [{**_NAME, "name": "one"}, {**_NAME, "name": "other"}],
                "get": _operation("Two views compared, row by row, at one position.", _LIMIT),
            },
            "/health": {"get": _operation("Whether the server answers.")},
            "/metrics": {"get": _operation("Metrics for Prometheus.", media="text/plain")},
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _operation(
    summary: str, *parameters: tuple[str, str], media: str = "application/json"
) -> dict[str, Any]:
    return {
        "summary": summary,
        "parameters": [
            {"name": name, "in": "query", "description": about, "schema": {"type": "string"}}
            for name, about in parameters
        ],
        "responses": {
            "200": {"description": "The answer.", "content": {media: {}}},
            "default": {
                "description": "What is wrong, and what to do.",
                "content": {"application/json": {}},
            },
        },
    }
