"""Flows: pipelines on Spark, from topics to topics, that a Python program describes.

Three layers. A description: `flow`, `rows` and the nodes of `plan`, which need no Spark. Its
translation: `compile` makes DataFrames of nodes, with rows from a connector. Its running: `running`
starts the queries and looks after them. `source` and `sinks` are the exact ends, `formats` what the
bytes mean, `session` the Spark under it all.
"""

from typing import TYPE_CHECKING

from headrace.streams.errors import InvalidFlow, StreamsError, UnknownColumn

if TYPE_CHECKING:
    from headrace.streams.flow import Flow
    from headrace.streams.rows import Stream, Table

__all__ = ["Flow", "InvalidFlow", "Stream", "StreamsError", "Table", "UnknownColumn"]

_HOMES = {"Flow": "flow", "Stream": "rows", "Table": "rows"}


def __getattr__(name: str) -> object:
    # Imported when first used, so that a worker that needs the source does not load the flows.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"headrace.streams.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
