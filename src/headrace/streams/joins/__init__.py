"""Joins: events and rows of two inputs, put together by what they have in common.

`columns` says what the columns of every join are called. `within` joins a stream with a stream
within a bound of time, `lookup` a stream with a table as it is, `versions` a stream with a table as
it was. Each is an operator on keyed state: what it keeps, and when that leaves, its docstring says.
"""
