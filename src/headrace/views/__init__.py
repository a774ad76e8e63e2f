"""Derived data that follows the log: kept in stores of others, and served by ours.

`stores` is what rows can be kept in, and `copying` keeps a topic's rows in one without Spark.

A view is a topic with a key and a store that has the last row of each key. `materialized` fills and
reads such stores, `feeds` pushes what changes, `serving` answers over HTTP; `filters` is the
language of readers, `positions` how far something has got, `registry` what flows and servers tell
each other. `client` reads a server from Python.
"""

from headrace.views.client import Page, ReadFailed, Replica, Views
from headrace.views.errors import InvalidView, UnknownView, ViewsError
from headrace.views.materialized.description import ViewDescription
from headrace.views.positions import position_of
from headrace.views.serving.server import ViewServer

__all__ = [
    "InvalidView",
    "Page",
    "ReadFailed",
    "Replica",
    "UnknownView",
    "ViewDescription",
    "ViewServer",
    "Views",
    "ViewsError",
    "position_of",
]
