"""A shop on Headrace: what `make demo` runs.

`__main__` opens and closes it. In between it is a directory with a headrace.toml, which `opening`
writes and `headrace up` runs: a broker, a capture of the database, the flow, its views, the console
and two programs of the shop's own. `database` is the system of record; `visitors` are the people,
of whom `journeys` says what they do and `devices` how it reaches the shop. `flows` is what is made
of it. In the end `accounts` counts the orders in every place, and `verdict` compares. `chaos` kills
something in the middle, if asked to.
"""
