"""What becomes of records, format by format, is written in `golden`."""

from pathlib import Path

import pytest

from tests.streams.formats.batches import Golden, decode, golden_cases, shown

CASES = [
    pytest.param(case, id=f"{path.stem}: {case.name}")
    for path in sorted((Path(__file__).parent / "golden").glob("*.txt"))
    for case in golden_cases(path)
]


@pytest.mark.parametrize("case", CASES)
def test_records_become_what_is_written(case: Golden):
    decoded = decode(case.format, case.schema, case.records, **case.options)
    assert shown(decoded, len(case.records)) == case.expected
