"""Which versions of flows there are, which of them is current, and what topics they write.

    <checkpoints>/.flows.json

One small file for all flows of a checkpoint directory, so that a flow finds what another one calls
"large-orders" today. It is replaced as a whole, by one process at a time.
"""

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from headrace.streams.running.errors import CheckpointMismatch
from headrace.streams.running.places import LocalPlace, Place
from headrace.streams.versions import FIRST, Version

FORMAT: Final = 1
"""Of the file; one of another version is not guessed at."""

_FILE: Final = ".flows.json"
_LOCK: Final = ".flows.lock"


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """One output of a version: what it reads and where it goes."""

    reads: Mapping[str, str] = field(default_factory=dict)
    """The topics by the names that the flow gives, and by those that were read."""

    patterns: tuple[str, ...] = ()
    topic: str | None = None
    """The topic as the flow names it; None for an output that is no topic."""

    writes: str | None = None
    """The topic that is written."""

    query: str | None = None
    """The output under whose name the query runs, if that is another one."""


@dataclass(frozen=True, slots=True)
class StoredFlow:
    """The versions of a flow by their names, and which of them a plain run continues."""

    current: str = FIRST
    versions: Mapping[str, Mapping[str, StoredOutput]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registry:
    """All flows that have run with a checkpoint directory."""

    flows: Mapping[str, StoredFlow] = field(default_factory=dict)

    def current(self, flow: str) -> Version:
        """The version that a plain run continues: the first, until another one is promoted."""
        return Version(flow, self.flows[flow].current if flow in self.flows else FIRST)

    def knows(self, version: Version) -> bool:
        """Whether a version has run before."""
        return version.flow in self.flows and version.name in self.flows[version.flow].versions

    @property
    def aliases(self) -> dict[str, str]:
        """What the names of topics stand for, where that is not the topic of that name."""
        return {
            output.topic: output.writes
            for stored in self.flows.values()
            for output in stored.versions.get(stored.current, {}).values()
            if output.topic is not None and output.writes is not None
            if output.topic != output.writes
        }

    def noted(self, version: Version, outputs: Mapping[str, StoredOutput]) -> "Registry":
        """With a version as it runs now."""
        stored = self.flows.get(version.flow, StoredFlow())
        versions = {**stored.versions, version.name: outputs}
        return self._changed(version.flow, replace(stored, versions=versions))

    def promoted(self, version: Version) -> "Registry":
        """With another current version."""
        return self._changed(version.flow, replace(self.flows[version.flow], current=version.name))

    def without(self, version: Version) -> "Registry":
        """Without a version; a flow of which it was the last is gone, too."""
        stored = self.flows[version.flow]
        versions = {name: each for name, each in stored.versions.items() if name != version.name}
        if not versions:
            flows = {name: each for name, each in self.flows.items() if name != version.flow}
            return Registry(flows)
        return self._changed(version.flow, replace(stored, versions=versions))

    def _changed(self, flow: str, stored: StoredFlow) -> "Registry":
        return Registry({**self.flows, flow: stored})

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps({"version": FORMAT, **asdict(self)}, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Registry":
        """What was stored; ValueError, KeyError or TypeError if this version cannot read it."""
        stored: dict[str, Any] = json.loads(text)
        if stored["version"] != FORMAT:
            raise ValueError(f"version {stored['version']}")
        return cls(
            {
                flow: StoredFlow(
                    each["current"],
                    {
                        version: {name: _output(one) for name, one in outputs.items()}
                        for version, outputs in each["versions"].items()
                    },
                )
                for flow, each in stored["flows"].items()
            }
        )


@dataclass(frozen=True, slots=True)
class RegistryFile:
    """Where the registry of a checkpoint directory is kept."""

    root: Place

    def read(self) -> Registry:
        """What is stored; an empty registry if nothing is."""
        text = self.root.read(_FILE)
        if text is None:
            return Registry()
        try:
            return Registry.from_json(text)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointMismatch(
                f"{_FILE} in {self.root.address} was written by another version of Headrace "
                f"({error}). It says which version of each flow is current: run that version of "
                "Headrace, or repair the file; without it every flow is at its first version."
            ) from None

    def change(self, change: Callable[[Registry], Registry]) -> Registry:
        """Replace what is stored by what a function makes of it, one process at a time."""
        with self._alone():
            before = self.read()
            after = change(before)
            if after != before:
                self.root.write(_FILE, after.to_json())
            return after

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # Where there is only Spark's file system there are no locks; the last writer wins.
        if not isinstance(self.root, LocalPlace):
            yield
            return
        self.root.path.mkdir(parents=True, exist_ok=True)
        with (self.root.path / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _output(stored: Mapping[str, Any]) -> StoredOutput:
    return StoredOutput(
        stored["reads"],
        tuple(stored["patterns"]),
        stored["topic"],
        stored["writes"],
        stored.get("query"),
    )
