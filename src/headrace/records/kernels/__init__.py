"""Compiled loops over the bytes of record batches.

`compiled` says how functions are compiled; `batches` hops over headers; `records` takes records
apart into columns; `writing` puts columns together into records. The reading kernels trust nothing:
a number is read inside the bounds of its record, a record inside its batch, and every pass of a
loop consumes at least one byte. Kernels allocate nothing and report what is wrong as a number.
"""
