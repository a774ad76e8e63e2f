"""MariaDB and MySQL, captured through their binary log.

`source` is the whole; `setup` checks the server and makes the table of marks, `dump` asks for the
log and cuts it into events, which `binlog` decodes: `tablemap` what tables look like in them,
`cells` the values of rows and `statements` DDL. `stream` gives them out, `gtid` is positions,
`catalog` knows tables, `chunks` reads them for snapshots.
"""

from headrace.capture.mariadb.source import MariadbSource

__all__ = ["MariadbSource"]
