"""The real-time lane: rows in milliseconds, through Spark's real-time mode and its own connector.

`refusals` says what cannot be described there, `jars` fetches the connector when it is first used,
`properties` says in Java's words how brokers want to be spoken to, `connector` reads and writes,
and `running` looks after such a query. Delivery is at least once: whatever was written since the
last checkpoint is written again after a failure.
"""
