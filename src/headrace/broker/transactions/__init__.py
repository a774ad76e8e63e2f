"""Transactions: atomic writes to several partitions and to group offsets.

No sockets and no wire format here. `state` is what is known of a transactional id, `decisions` what
requests make of it, `entries` and `store` how it survives a crash. `coordinator` takes the
requests, `ending` leads a decided transaction through its markers, `recovery` cleans up after a
power loss, and `participants` is what the coordinator needs from the rest of the broker.
"""
