"""The root of every exception that Headrace raises on purpose.

Each package derives its own errors from `HeadraceError` next to the code that raises them; a
message says what was wrong, where, and what to do about it.
"""


class HeadraceError(Exception):
    """Something Headrace refused or could not do; the message says what to do next."""
