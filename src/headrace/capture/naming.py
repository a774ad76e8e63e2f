"""What things are called: those that captures make in databases, and databases in messages."""

import hashlib
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from headrace.capture.errors import InvalidCapture
from headrace.settings.address import shown

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


def database_url(url: str, schemes: Sequence[str], example: str) -> SplitResult:
    """The parts of a URL that names a database; InvalidCapture if it is none of these schemes."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidCapture(f"{shown(url)} is not a URL: {error}.") from None
    if parts.scheme not in schemes or not parts.path.strip("/"):
        raise InvalidCapture(f"{shown(url)} does not name a database; write it as {example}.")
    return parts
