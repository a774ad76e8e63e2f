"""Headrace: event streaming for Python.

`records` knows the layout of record batches, `log` stores them, `broker` serves them over the
Kafka protocol; `kafka` and everything above talk to any Kafka-speaking cluster.
"""

from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.broker.embedded import Broker

__version__ = "0.1.0"

__all__ = ["Broker", "HeadraceError", "__version__"]


def __getattr__(name: str) -> object:
    # The broker is imported when it is first used, so that `import headrace` costs nothing.
    if name == "Broker":
        from headrace.broker.embedded import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
