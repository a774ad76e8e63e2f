"""The one thing a broker reads from a consumer's metadata: which topics it is subscribed to."""

import struct

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of ordinary consumers; Connect and others bring their own."""

_PREFIX = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    r"""The topics in a consumer's subscription, or None if the bytes are not one.

    Every version begins with a version number and the topics, so nothing else needs to be known.

    >>> sorted(subscribed_topics(b"\0\1" b"\0\0\0\2" b"\0\1a" b"\0\1b" b"rest"))
    ['a', 'b']
    """
    topics = set()
    try:
        _version, count = _PREFIX.unpack_from(metadata)
        position = _PREFIX.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            name = metadata[position : position + length]
            if len(name) != length:
                return None
            topics.add(name.decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
