"""Regular expressions for the names of topics.

Kafka evaluates them with RE2, which knows no look-around and no back-references. Python's `re`
does, so these are refused here: a subscription that works must work on a Kafka cluster too.
"""

import re
import warnings

from kio.schema.errors import ErrorCode

from headrace.broker.groups.errors import GroupError

_BEYOND_RE2 = re.compile(
    r"""
    (?: ^ | [^\\] ) (?: \\\\ )*         # not escaped
    (?:
        \(\? (?: <?[=!] | > | \( | P= ) # look-around, atomic groups, conditions, named references
      | \\ [1-9]                        # back-references
      | [*+?}] \+                       # possessive repetition
    )
    """,
    re.VERBOSE,
)


def compile_expression(source: str) -> re.Pattern[str]:
    """The expression, if it is one that Kafka would accept too.

    >>> bool(compile_expression("orders-[0-9]+").fullmatch("orders-7"))
    True
    """
    if _BEYOND_RE2.search(source):
        raise _invalid(source, "RE2, which Kafka uses, knows no look-around and no references")
    try:
        with warnings.catch_warnings():
            # Python warns of sets within sets, which may mean more one day; here they never do.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(source)
    except (re.error, OverflowError, RecursionError) as error:
        raise _invalid(source, str(error)) from error


def _invalid(source: str, reason: str) -> GroupError:
    return GroupError(
        ErrorCode.invalid_regular_expression,
        f"{source!r} cannot be used as a regular expression for topics: {reason}",
    )
