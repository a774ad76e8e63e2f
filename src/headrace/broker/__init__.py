"""The Kafka protocol over the log.

Read it along the path of a request: `connection` takes frames from a socket, `dispatch` finds the
handler by the table in `apis`, a module in `handlers` calls `topics`, `partition` or `groups`, and
the `reply` goes back through the connection. `durability` decides when an append is acknowledged,
`housekeeping` does what is due by the clock. `server` is the whole with its socket, `serve` runs it
as a process, `embedded` in a thread.
"""
