"""The archive tier: sealed segments in another place, and a log that reaches back into it.

`store` says what a place has to offer, `directory_store` and `object_store` are such places and
`location` finds the right one. `manifest` describes what is there and why no crash can harm it,
`twins` are its small objects. `archived_log` is what a broker knows of it, `writer` changes it,
`cache` brings it back. `journals` and `owner` are what it takes besides segments to rebuild a
broker from an archive alone.
"""
