"""What clients are told when offsets cannot be stored or the broker is shutting down."""

from types import SimpleNamespace
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from headrace.broker.handlers import groups, offsets
from headrace.broker.protocol import Call, message_codec
from headrace.log.errors import StorageFailed
from tests.broker.groups.group_wire import committing, sayable
from tests.broker.groups.simulation import GROUP, Simulation

ORDERS = SimpleNamespace(name="orders", partitions=[None])


class Core:
    """As much of a broker as the handlers of offsets use, with a disk that can fail."""

    def __init__(self, simulation: Simulation) -> None:
        self.groups = simulation.groups
        self.offsets = simulation.offsets
        self.clock = simulation.clock
        self.topics = SimpleNamespace(get={"orders": ORDERS}.get)
        self.disk_fails = False

    async def journaled(self, _journal: object) -> None:
        if self.disk_fails:
            raise StorageFailed("the disk is gone")


@pytest.fixture
def core(simulation: Simulation) -> Core:
    return Core(simulation)


async def ask(handler: Any, core: Core, api: str, version: int, **content: Any) -> Any:
    schema: Any = load_entity_schema(api, version, EntityType.request)
    request = schema(**sayable(api, version, content))
    call = Call(version, 1, "test", "127.0.0.1", ("127.0.0.1", 9092), message_codec(api, version))
    return await handler(core, request, call)


async def test_a_commit_that_cannot_be_made_safe_is_to_be_tried_again(core: Core):
    core.disk_fails = True
    answer = await ask(
        offsets.offset_commit, core, "offset_commit", 8, **committing(GROUP, "orders", {0: 1, 7: 1})
    )
    assert [one.error_code for one in answer.topics[0].partitions] == [
        ErrorCode.coordinator_not_available,
        ErrorCode.unknown_topic_or_partition,
    ]


async def test_a_deletion_that_cannot_be_made_safe_is_to_be_tried_again(core: Core):
    request = committing(GROUP, "orders", {0: 1})
    await ask(offsets.offset_commit, core, "offset_commit", 8, **request)
    core.disk_fails = True
    deleted = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    answer = await ask(
        offsets.offset_delete, core, "offset_delete", 0, group_id=GROUP, topics=deleted
    )
    assert answer.error_code is ErrorCode.coordinator_not_available
    answer = await ask(groups.delete_groups, core, "delete_groups", 2, groups_names=[GROUP])
    assert answer.results[0].error_code is ErrorCode.coordinator_not_available


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
async def test_a_fetch_during_a_shutdown_carries_its_error_where_the_version_has_room(
    core: Core, version: int
):
    core.groups.close()
    asked = {"group_id": GROUP, "topics": [{"name": "orders", "partition_indexes": [0]}]}
    answer = await ask(offsets.offset_fetch, core, "offset_fetch", version, **asked, groups=[asked])
    if version == 1:
        bearer = answer.topics[0].partitions[0]
        assert bearer.committed_offset == -1
    else:
        bearer = answer.groups[0] if version >= 8 else answer
        assert bearer.topics == ()
    assert bearer.error_code is ErrorCode.coordinator_not_available


async def test_a_fetch_of_stable_offsets_waits_for_the_disk(core: Core):
    asked = {"group_id": GROUP, "topics": [{"name": "orders", "partition_indexes": [0]}]}
    core.disk_fails = True
    hasty = await ask(offsets.offset_fetch, core, "offset_fetch", 7, **asked)
    assert hasty.error_code is ErrorCode.none
    stable = await ask(offsets.offset_fetch, core, "offset_fetch", 7, **asked, require_stable=True)
    assert stable.error_code is ErrorCode.coordinator_not_available
