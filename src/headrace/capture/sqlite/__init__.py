"""SQLite, captured through triggers that write what changes into a table beside.

SQLite has no log that others may read. `source` is the whole; `setup` makes the triggers and
tables, whose SQL `triggers` writes, `shapes` says what tables look like, `stream` reads the changes
and `chunks` tables for snapshots.
"""

from headrace.capture.sqlite.source import SqliteSource

__all__ = ["SqliteSource"]
