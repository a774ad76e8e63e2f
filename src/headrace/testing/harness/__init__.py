"""A flow in a test: events that were written down go in, step by step, and rows come out.

Begin with `flow_harness`. On the way in, `events` makes records of what a test sends, `script`
gives them offsets and cuts them into steps, `source` feeds a step to Spark as one batch, and
`scripted_reading` decodes it with the formats' own code. On the way out, `collecting` is a sink
that keeps the contract in a directory, and `collected` reads it as records and rows. `query` is one
query between the two, `crashes` are the points at which it can be killed, `clock` is the time that
a test decides about.
"""
