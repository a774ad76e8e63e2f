"""A view: a topic with a key, and a store that has the last row of each key.

`description` says what a view is and `records` what its records mean; `store` is what a store
promises, and `sqlite`, `postgres` and `redis` keep it. `following` reads the topic into a store.
`lookup` reads rows, as they are or as they were at an earlier position.
"""
