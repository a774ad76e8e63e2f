"""Windows: event time cut into pieces, and what is computed of each.

`kinds` and `policies` describe; `expressions` takes the SQL of aggregates apart; `aggregates` are
what is computed. `operators` makes of all that the operator that runs in a bucket of keyed state:
`aligned` for tumbling and hopping windows, `unaligned` for sliding ones, or `sessions`. Each
follows a batch the same way: `intake` sums events up and tells late ones apart, `speaking` says
which windows have something to say, `measures` computes it, `telling` makes changes of a table of
it.
"""

from headrace.streams.windows.kinds import Window, hopping, session, sliding, tumbling

__all__ = ["Window", "hopping", "session", "sliding", "tumbling"]
