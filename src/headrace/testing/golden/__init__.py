"""Golden files: events above, the rows that a flow makes of them below, in text that people read.

`cells` is how a value is written, `tables` how rows are, `cases` a file with all that it says,
`playing` runs a case in a harness, and `checking` compares, tells the difference, or writes what
was seen. docs/testing-flows.md describes the format.
"""

from headrace.testing.golden.cases import GoldenCase, golden_cases
from headrace.testing.golden.checking import GoldenMismatch, check_golden
from headrace.testing.golden.errors import GoldenFileError

__all__ = ["GoldenCase", "GoldenFileError", "GoldenMismatch", "check_golden", "golden_cases"]
