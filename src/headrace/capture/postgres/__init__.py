"""PostgreSQL, captured through logical replication.

`source` is the whole; `setup` makes and checks the publication and the slot, `stream` reads the
slot, `pgoutput` decodes what it tells, `values` and `temporal` read the texts of columns, `catalog`
knows tables and types, `chunks` reads tables for snapshots.
"""

from headrace.capture.postgres.source import PostgresSource

__all__ = ["PostgresSource"]
