"""Event time: how far it has come, told by what arrives.

`watermarks` describes what is known of a stream's time. `observing` finds, in the tasks of the
source, what the records of a batch tell of each source of time, before any row is left out.
`control` is how that travels, in rows of its own between the others. `tracker` is what a bucket of
keyed state makes of it: one watermark that never goes back, and the source that holds it back.
"""

from headrace.streams.time.watermarks import Watermark

__all__ = ["Watermark"]
