"""What views refuse or cannot do."""

from headrace.errors import HeadraceError


class ViewsError(HeadraceError):
    """A view cannot be described, kept or read; the message says what to do."""


class InvalidView(ViewsError):
    """A view is described in a way that cannot work."""


class UnknownView(ViewsError):
    """There is no view of that name."""

    def __init__(self, name: str, known: "list[str]") -> None:
        from difflib import get_close_matches

        close = get_close_matches(name, known, n=1, cutoff=0.5)
        if close:
            remedy = f"did you mean {close[0]}?"
        else:
            remedy = f"there are {', '.join(known)}." if known else "none is served here yet."
        super().__init__(f"There is no view {name}; {remedy}")


class StoreDamaged(ViewsError):
    """What a view keeps cannot be read any more, or is of something else; it is built anew."""


class StoreUnavailable(ViewsError):
    """The database in which a view is kept does not answer."""
