"""Whatever happens to the store, the disk and the process: nothing that should be there is lost."""

from contextlib import suppress
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.log.archive.manifest import MANIFEST_FORMAT
from headrace.log.archive.twins import TwinObject
from headrace.log.archive.writer import read_manifest, verify
from headrace.log.errors import ArchiveError
from tests.broker.archive.world import IDENTITY, World
from tests.log.simulated_disk import Died

seeds = st.integers(0, 2**32)


class ArchiveMachine(RuleBasedStateMachine):
    """Drives a partition whose archive and disk fail in every way that they can."""

    @initialize()
    def begin(self) -> None:
        self.world = World()

    @rule(size=st.integers(0, 300), count=st.integers(1, 6))
    def produce(self, size: int, count: int) -> None:
        for _ in range(count):
            self.world.produce(size)

    @rule()
    def archive(self) -> None:
        self.world.archive_all()

    @rule(seed=seeds)
    def archive_with_trouble(self, seed: int) -> None:
        self.world.store.trouble = Random(seed)
        with suppress(ArchiveError):
            self.world.archive_all()
        self.world.store.trouble = None

    @rule()
    def archive_while_the_store_is_down(self) -> None:
        self.world.store.down = True
        with suppress(ArchiveError):
            self.world.archive_all()
        self.world.store.down = False

    @rule()
    def retain(self) -> None:
        self.world.retain()

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        world = self.world
        start = world.partition.start_offset
        world.delete_before(start + int(share * (world.log.high_watermark - start)))

    @rule(steps=st.integers(0, 40), seed=st.none() | seeds)
    def crash_while_archiving(self, steps: int, seed: int | None) -> None:
        self.world.store.die_after(steps)
        self.dying(self.world.archive_all, seed)

    @rule(
        steps=st.integers(0, 60),
        seed=st.none() | seeds,
        action=st.sampled_from(["archive_all", "retain", "produce"]),
    )
    def crash(self, steps: int, seed: int | None, action: str) -> None:
        world = self.world
        world.disk.die_after(steps)
        actions = {
            "archive_all": world.archive_all,
            "retain": world.retain,
            "produce": lambda: world.produce(200),
        }
        self.dying(actions[action], seed)

    def dying(self, action, seed: int | None) -> None:
        with suppress(Died, ArchiveError):
            action()
        self.world.crash(None if seed is None else Random(seed))

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    @invariant()
    def the_archive_has_what_its_manifest_names(self) -> None:
        if not hasattr(self, "world"):
            return
        store = self.world.store
        twin = TwinObject(store, f"{IDENTITY.path}/manifest", MANIFEST_FORMAT)
        manifest = read_manifest(twin)
        if manifest is not None:
            for segment in manifest.segments:
                verify(store, IDENTITY.key(segment), segment)


TestArchive = ArchiveMachine.TestCase
TestArchive.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
