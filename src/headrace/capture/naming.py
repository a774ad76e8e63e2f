"""What things are called: those that captures make in databases, and databases in messages."""

import hashlib
import re
from typing import Final

PREFIX: Final = "headrace_"
"""With which all begins that a capture makes in a database."""


def object_name(name: str, longest: int) -> str:
    """A name that databases allow, for a capture.

    What they do not allow is replaced, and then a digest tells such names apart.

    >>> object_name("shop", 64), object_name("Shop-1", 64)
    ('headrace_shop', 'headrace_shop_1_a8f11fba')
    """
    allowed = re.sub(r"[^a-z0-9_]", "_", name.lower())
    if allowed == name and len(name) <= longest - len(PREFIX):
        return PREFIX + name
    digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{PREFIX}{allowed}"[: longest - len(digest) - 1] + f"_{digest}"


def shown(url: str) -> str:
    """A URL without its password.

    >>> shown("postgresql://shop:secret@localhost/shop")
    'postgresql://shop:***@localhost/shop'
    """
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)
