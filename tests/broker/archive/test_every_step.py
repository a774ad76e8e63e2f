"""A process that ends after each single step of what an archive does, and goes on afterwards."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.archive.writer import SegmentFile
from headrace.log.errors import ArchiveError
from tests.broker.archive.world import IDENTITY, World
from tests.log.simulated_disk import Died

STEPS = 400
"""More than any of the stories takes."""


def filled() -> World:
    world = World()
    for _ in range(5):
        world.produce(200)
    return world


def archive_and_drop(world: World) -> None:
    world.archive_all()
    world.retain()


def delete_and_trim(world: World) -> None:
    world.delete_before(world.log.high_watermark // 2)
    world.archive_all()


def rewrite(world: World) -> None:
    """Put the same bytes in an archived segment's place, under another name."""
    world.archive_all()
    old = world.archived.segments[0]
    data = b"".join(world.store.get(IDENTITY.key(old)))
    path = Path("/data/rewritten")
    descriptor = world.disk.create(path)
    world.disk.pwrite(descriptor, data, 0)
    world.disk.close(descriptor)
    source = SegmentFile(
        path,
        world.disk,
        old.base_offset,
        old.end_offset,
        len(data),
        old.max_timestamp,
        old.created_ms,
    )
    world.archive.writer.replace(old, source)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("dies", ["disk", "store"])
@pytest.mark.parametrize("story", [archive_and_drop, delete_and_trim, rewrite])
def test_nothing_is_lost_wherever_the_process_ends(
    story: Callable[[World], None], dies: str, power: bool
) -> None:
    for step in range(STEPS):
        world = filled()
        (world.disk if dies == "disk" else world.store).die_after(step)
        try:
            story(world)
        except Died:
            world.crash(Random(step) if power else None)
            world.check()
            archive_and_drop(world)
            world.check()
            left = {found.key for found in world.archive.writer.objects()}
            named = {IDENTITY.key(segment) for segment in world.archived.segments}
            assert {key for key in left if "manifest" not in key} == named
        else:
            assert step > 10
            return
    raise AssertionError("the story never came to its end")


def test_a_store_that_is_down_costs_nothing_but_time() -> None:
    world = filled()
    world.store.down = True
    with pytest.raises(ArchiveError):
        world.archive_all()
    world.retain()
    world.check()
    assert world.log.start_offset == 0
    world.store.down = False
    archive_and_drop(world)
    world.check()
    assert world.log.start_offset > 0
    assert world.partition.start_offset == 0


def test_what_outlives_the_whole_retention_goes_although_the_store_is_down() -> None:
    world = filled()
    world.store.down = True
    for _ in range(40):
        world.produce(200)
    world.retain()
    assert world.log.size < 2 * world.settings.retention_bytes
    world.check()


def test_a_lost_copy_of_the_manifest_is_asked_of_the_archive() -> None:
    world = filled()
    archive_and_drop(world)
    world.disk.unlink(Path("/data/events-0/archive.manifest"))
    world.crash(None)
    assert world.partition.start_offset == world.log.start_offset
    world.archive_all()
    assert world.partition.start_offset == 0
    world.check()


def test_an_archive_that_lost_its_newest_state_is_refused() -> None:
    world = filled()
    world.archive_all()
    world.store.objects.clear()
    world.crash(None)
    with pytest.raises(ArchiveError, match="older than this broker knows"):
        world.archive_all()
    world.retain()
    assert world.partition.read(0, 100)


def test_replacing_a_segment_leaves_no_byte_of_the_old_one() -> None:
    world = filled()
    world.archive_all()
    old = world.archived.segments[0]
    rewrite(world)
    new = world.archived.segments[0]
    assert (new.base_offset, new.end_offset, new.revision) == (old.base_offset, old.end_offset, 1)
    assert IDENTITY.key(old) not in world.store.objects
    world.retain()
    world.check()
