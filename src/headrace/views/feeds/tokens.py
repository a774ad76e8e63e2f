"""Where a subscriber is, in a text that it sends to go on from there."""

import base64
import binascii
from typing import NamedTuple

from headrace.views.errors import ViewsError


class InvalidToken(ViewsError):
    """A text that is no token."""


class Token(NamedTuple):
    """A state of a view: everything up to and including a sequence.

    >>> str(Token("a1b2", 17)), Token.parse("a1b2-17-YQ")
    ('a1b2-17', Token(handle='a1b2', sequence=17, key='a'))
    """

    handle: str
    sequence: int
    key: str | None = None
    """While the snapshot of that state is read: the last key that was told of it."""

    def __str__(self) -> str:
        if self.key is None:
            return f"{self.handle}-{self.sequence}"
        told = base64.urlsafe_b64encode(self.key.encode()).decode().rstrip("=")
        return f"{self.handle}-{self.sequence}-{told}"

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Read one; InvalidToken if it is none."""
        parts = text.strip().split("-", 2)
        try:
            if not parts[0].isalnum() or not parts[1].isdecimal():
                raise ValueError
            key = None
            if len(parts) == 3:
                padded = parts[2] + "=" * (-len(parts[2]) % 4)
                key = base64.urlsafe_b64decode(padded).decode()
            return cls(parts[0], int(parts[1]), key)
        except (ValueError, IndexError, binascii.Error):
            raise InvalidToken(
                f'"{text[:60]}" is no token of a feed; begin without one, and send what it gave.'
            ) from None
