"""Databases become streams: what changes in their tables, exactly once, in topics.

`changes` says in neutral words what a database's log can tell, and `source` what a database has to
do to be captured; `postgres` is one. `envelope` makes records of changes.
"""
