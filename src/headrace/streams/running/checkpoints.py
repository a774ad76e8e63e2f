"""Where a query keeps its positions and state, and the note there that says whose they are.

    <checkpoints>/<flow>/lock                 held by the process that runs the flow
    <checkpoints>/<flow>/<output>/headrace.json    the manifest
    <checkpoints>/<flow>/<output>/spark/           Spark's own files

The manifest is written before Spark first starts the query and compared before every later start,
so that a checkpoint that does not fit is refused with a reason instead of failing inside Spark.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.streams.outputs import DeadLetterOutput, Output, TopicOutput
from headrace.streams.plan import ReadTopics, sources
from headrace.streams.running.errors import CheckpointMismatch
from headrace.streams.running.places import Place
from headrace.streams.source.offsets import SourceOffsets

if TYPE_CHECKING:
    from headrace.streams.flow import Flow

VERSION = 1
"""Of the manifest's format."""

_MANIFEST = "headrace.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint was made by."""

    flow: str
    output: str
    sources: tuple[str, ...]
    sink: str
    state: tuple[str, ...] = ()
    """The operators that keep state, as Spark describes them; empty for a query without."""

    version: int = VERSION

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """What was stored; ValueError if this version cannot read it."""
        stored: dict[str, Any] = json.loads(text)
        if stored["version"] != VERSION:
            raise ValueError(f"version {stored['version']}")
        return cls(
            flow=stored["flow"],
            output=stored["output"],
            sources=tuple(stored["sources"]),
            sink=stored["sink"],
            state=tuple(stored["state"]),
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The place of one query."""

    place: Place
    manifest: Manifest

    @property
    def spark_location(self) -> str:
        """What Spark is told."""
        return self.place.child("spark").address

    def check(self) -> None:
        """Refuse a checkpoint of another flow, of other sources or for another sink."""
        stored = self._stored()
        if stored is None:
            return
        now = self.manifest
        if (stored.flow, stored.output) != (now.flow, now.output):
            raise CheckpointMismatch(
                f"{self.place.address} is the checkpoint of output {stored.output} of flow "
                f"{stored.flow}, and this is output {now.output} of flow {now.flow}. Let "
                "[streams] checkpoints name another directory, or give the flow its name back."
            )
        if stored.sources != now.sources:
            self._refuse("reads", " and ".join(stored.sources), " and ".join(now.sources))
        if stored.sink != now.sink:
            self._refuse("writes", stored.sink, now.sink)

    def check_state(self, state: tuple[str, ...]) -> None:
        """Refuse a change of what is kept between batches, and remember what it is."""
        stored = self._stored()
        if stored is not None and stored.state != state:
            self._refuse("keeps", _listed(stored.state), _listed(state))
        if stored is None:
            manifest = replace(self.manifest, state=state)
            self.place.write(_MANIFEST, manifest.to_json())

    def input_range(self, batch_id: int) -> str:
        """What a batch reads, by Spark's own notes: offsets of every partition that it advances."""
        before, after = (self._offsets(number) for number in (batch_id - 1, batch_id))
        if not after:
            return "an unknown range"
        ranges = []
        for number, end in enumerate(after):
            earlier = before[number] if number < len(before) else SourceOffsets()
            for partition, last in sorted(end.offsets.items()):
                first = end.begins.get(partition, earlier.offsets.get(partition, 0))
                if first < last:
                    ranges.append(f"{partition} offsets {first} to {last - 1}")
        return ", ".join(ranges) or "no records"

    def _offsets(self, batch_id: int) -> list[SourceOffsets]:
        text = self.place.child("spark").read(f"offsets/{batch_id}") if batch_id >= 0 else None
        # A version, a line of Spark's settings, then a line per source.
        lines = (text or "").splitlines()[2:]
        return [SourceOffsets.from_json(json.loads(line)) for line in lines]

    def _stored(self) -> Manifest | None:
        text = self.place.read(_MANIFEST)
        if text is None:
            return None
        try:
            return Manifest.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointMismatch(
                f"{self.place.address} was written by another version of Headrace ({error}). Run "
                "that version, or delete the directory to begin anew."
            ) from None

    def _refuse(self, verb: str, before: str, now: str) -> None:
        manifest = self.manifest
        raise CheckpointMismatch(
            f"Output {manifest.output} of flow {manifest.flow} {verb} {now} now, but what is "
            f"stored in {self.place.address} is of a query that {verb} {before}, and cannot be "
            "continued by this one. Undo the edit; or give the flow and its outputs other names, "
            "and the new version runs from the beginning beside the old one; or delete that "
            "directory, and the query begins anew and writes its output again."
        )


def checkpoint_of(flow: "Flow", output: Output, place: Place) -> Checkpoint:
    """The checkpoint of an output under the flow's place."""
    reads = tuple(_described(each) for each in sources(output.node))
    manifest = Manifest(flow.name, output.name, reads, _sink_of(output))
    return Checkpoint(place.child(output.name), manifest)


def _described(read: ReadTopics) -> str:
    what = f"topics matching {read.pattern}" if read.pattern else ", ".join(read.topics)
    return f"{'table ' if read.key else ''}{what} as {read.format}"


def _sink_of(output: Output) -> str:
    if isinstance(output, (TopicOutput, DeadLetterOutput)):
        return f"topic {output.topic}"
    return type(output.sink).__name__


def _listed(state: tuple[str, ...]) -> str:
    return "; ".join(state) or "no state"
