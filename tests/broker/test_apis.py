"""The table of APIs names functions that are there."""

import inspect

import pytest

from headrace.broker import handlers
from headrace.broker.apis import APIS, Api
from headrace.broker.private import OPERATIONS


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_has_its_handler(api: Api) -> None:
    named = [*inspect.signature(api.find_handler()).parameters]
    assert len(named) == (4 if api.reads_frame else 3)
    assert (named[0], named[-1]) == ("core", "call")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_private_operation_has_its_handler(operation: str) -> None:
    family, _, name = operation.partition(".")
    assert inspect.iscoroutinefunction(handlers.find(family, name))
