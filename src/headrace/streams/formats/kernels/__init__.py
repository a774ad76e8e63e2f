"""Compiled loops over the bytes of JSON values.

`tokens` knows the grammar; `objects` finds the fields of many objects at once; `numbers`, `times`
and `texts` turn what was found into columns, one type each.
"""
