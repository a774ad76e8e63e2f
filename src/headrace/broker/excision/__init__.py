"""Erasing records from history while the broker runs.

`request` is what is asked for, `jobs` who may do it when, `job` the steps in their order, `local`
and `archived` the work on the two places where records are. `process` is the worker that reads and
writes segments, as seen from here, and `worker` the same from within. `receipt` is what remains.
"""
