"""Change feeds: what a view has, then every change of it, to any number of subscribers.

`hub` takes the batches that a view applies and, tick by tick, makes frames of them for each
`channel`: all changes, those of a key, or those of a filter. A frame is encoded once, whoever gets
it. `feed` is one subscriber: it is given a snapshot, then frames; if it reads too slowly for the
frames that are at hand, it is given the latest row of each key from the store's history instead
(`squashing`), so that nothing has to wait for it in memory. `results` tells whole results.
"""
