"""What tests say when a request must be refused."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.errors import GroupError
from tests.broker.groups.simulation import let_tasks_run


@contextlib.contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    """The block must be refused with an error code."""
    with pytest.raises(GroupError) as caught:
        yield
    assert caught.value.code is code, str(caught.value)


async def refusal(task: "asyncio.Task[Any]") -> ErrorCode:
    """The code with which a request has been refused; it must have been answered."""
    await let_tasks_run()
    assert task.done(), "the request still waits"
    with pytest.raises(GroupError) as caught:
        await task
    return caught.value.code
