"""Stores for tests: one in memory that fails, tears and dies on demand."""

from collections.abc import Iterable, Iterator
from random import Random

from headrace.log.archive.store import StoredObject
from headrace.log.errors import ArchiveUnavailable
from tests.log.simulated_disk import Died


class MemoryStore:
    """Objects in memory, which outlive the process that is simulated."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.down = False
        self.trouble: Random | None = None
        """If set, every operation may go wrong in one of many ways."""
        self.steps_left: int | None = None
        self.puts: list[str] = []

    def die_after(self, steps: int) -> None:
        """Let the process end, with `Died`, in the middle of some operation to come."""
        self.steps_left = steps

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        self.puts.append(key)
        data = b"".join(chunks)
        self._enter(key)
        fault = self._fault()
        if fault == "before":
            raise ArchiveUnavailable(f"{key} was refused")
        if fault in ("torn", "silently torn"):
            assert self.trouble is not None
            self.objects[key] = data[: self.trouble.randrange(len(data) + 1)]
            if fault == "torn":
                raise ArchiveUnavailable(f"{key} was cut off")
            return
        self.objects[key] = data
        if fault == "after":
            raise ArchiveUnavailable(f"nobody knows whether {key} was put")
        self._leave(key)

    def get(self, key: str) -> Iterator[bytes]:
        self._enter(key)
        if self._fault() == "before":
            raise ArchiveUnavailable(f"{key} cannot be read")
        if key not in self.objects:
            raise FileNotFoundError(key)
        data = self.objects[key]
        for start in range(0, len(data), 100):
            yield data[start : start + 100]

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self._enter(prefix)
        for key, data in sorted(self.objects.items()):
            if not prefix or key.startswith(f"{prefix}/"):
                yield StoredObject(key, len(data))

    def delete(self, key: str) -> None:
        self._enter(key)
        if self._fault() == "before":
            raise ArchiveUnavailable(f"{key} cannot be deleted")
        self.objects.pop(key, None)
        self._leave(key)

    def _enter(self, key: str) -> None:
        if self.down:
            raise ArchiveUnavailable("the store is down")
        self._step(key)

    def _leave(self, key: str) -> None:
        self._step(key)

    def _step(self, key: str) -> None:
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise Died(key)
            self.steps_left -= 1

    def _fault(self) -> str | None:
        if self.trouble is None:
            return None
        faults = [None] * 12 + ["before", "after", "torn", "silently torn"]
        return self.trouble.choice(faults)
