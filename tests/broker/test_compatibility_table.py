"""The compatibility table of the documentation is the broker's table of APIs."""

import re
from pathlib import Path

from headrace.broker.apis import APIS

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
ROW = re.compile(r"^\| (\w+) \| (\d+) \| (\d+)-(\d+) \|", re.MULTILINE)


def test_the_documented_apis_and_versions_are_those_that_are_served() -> None:
    documented = {
        int(key): (name.lower(), int(first), int(last))
        for name, key, first, last in ROW.findall(PAGE.read_text())
    }
    served = {api.key: (api.name.replace("_", ""), api.first, api.last) for api in APIS.values()}
    assert documented == served
