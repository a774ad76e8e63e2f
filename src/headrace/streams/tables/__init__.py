"""Tables: what is, kept right while what it is made of changes.

`changes` says what changes are and how they are found. `changelog` makes them of upserts and
deletions; `joined` keeps the join of two tables (`sides`, `keys`), `grouped` aggregates of groups
of rows, `top_n` the best rows of each group. `settled` puts changes of several buckets in order.
Each is an operator on keyed state: what it keeps and what it costs, its docstring says.
"""
