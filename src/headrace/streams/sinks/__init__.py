"""Where flows write, exactly once.

Read `contract` for what a sink promises, `applying` for how a batch is written through one, and
`topic` for the sink that writes to Kafka. `headrace.testing.sink_contract` has the tests that every
sink passes.
"""
