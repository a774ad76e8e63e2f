"""Headrace: event streaming for Python.

`records` knows the layout of record batches, `log` stores them, `broker` serves them over the
Kafka protocol; `kafka` and everything above talk to any Kafka-speaking cluster.
"""

from headrace.errors import HeadraceError

__version__ = "0.1.0"

__all__ = ["HeadraceError", "__version__"]
