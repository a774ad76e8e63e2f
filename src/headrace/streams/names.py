"""Names that people give to flows and outputs: they become directories, groups and topics."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from headrace.streams.errors import InvalidFlow, InvalidName

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_LONGEST = 200


def checked_name(name: str, what: str) -> str:
    """The name, if it can be a directory's and a topic's; InvalidName says what it may be.

    >>> checked_name("clicks-per-minute.v2", "flow")
    'clicks-per-minute.v2'
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise InvalidName(
            f"{name!r} cannot be the name of a {what}: use up to {_LONGEST} letters, digits, dots, "
            "dashes and underscores, the first of them no dot or dash."
        )
    return name


def checked_choice(name: str, given: str, choices: Sequence[str]) -> str:
    """What was given for an argument, if it is one of the choices; InvalidFlow says what they are.

    >>> checked_choice("on_gap", "skip", ("fail", "skip"))
    'skip'
    """
    if given not in choices:
        raise InvalidFlow(f"There is no {name}={given!r}; {did_you_mean(str(given), choices)}")
    return given


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """The end of a sentence that says what was meant, or what there is.

    >>> did_you_mean("pric", ["user", "price"])
    'did you mean price?'
    >>> did_you_mean("x", ["user", "price"])
    'there are user, price.'
    """
    known = list(candidates)
    close = get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are {', '.join(known)}." if known else "there are none."
