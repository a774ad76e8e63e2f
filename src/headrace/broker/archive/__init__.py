"""The broker's side of the archive: `archiving` moves segments there, `reading` gets them back.

`archive` is what a broker with an archive has, `partition` what each of its partitions has,
`configs` which topics may use it. `restoring` makes a data directory from an archive alone, and
`inspection` looks at one from outside.
"""
