"""One module per family of APIs.

A handler takes a request apart, calls a method that means something in the domain, and puts the
reply together; it keeps no state of its own. `produce` and `fetch` read and write their messages by
hand (`produce_wire`, `fetch_wire`), because they carry the data; all others leave that to `kio`.
"""

from importlib import import_module
from typing import Any


def find(family: str, name: str) -> Any:
    """The handler of a name in the module of a family, which is imported if it was not yet."""
    return getattr(import_module(f"headrace.broker.handlers.{family}"), name)
