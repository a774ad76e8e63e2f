"""Where a query keeps its positions and state, and the note there that says whose they are.

    <checkpoints>/<flow>/lock                      held by the process that runs the flow
    <checkpoints>/<flow>/<output>/headrace.json    the manifest
    <checkpoints>/<flow>/<output>/spark/           Spark's own files
    <checkpoints>/<flow>@<version>/...             the same of another version of the flow

The manifest is written before Spark first starts the query and compared before every later start,
so that a checkpoint that does not fit is refused with a reason instead of failing inside Spark.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.kafka import Partition
from headrace.streams.outputs import DeadLetterOutput, Output, StoreOutput, TopicOutput
from headrace.streams.plan import ReadTopics, sources, written
from headrace.streams.running.errors import CheckpointMismatch
from headrace.streams.running.places import Place
from headrace.streams.source.offsets import VERSION as OFFSETS_VERSION
from headrace.streams.source.offsets import SourceOffsets
from headrace.streams.state.remembering import StoredOperator
from headrace.streams.stateful import operator_of
from headrace.streams.versions import resolved

VERSION = 1
"""Of the manifest's format."""

_MANIFEST = "headrace.json"

_WAYS_OUT = (
    "Undo the edit; or let the new version run from the beginning beside the old one, into outputs "
    "of its own, with `headrace run FILE --rebuild as NAME`; or delete that directory, and the "
    "query begins anew and writes its output again."
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint was made by."""

    flow: str
    output: str
    sources: tuple[str, ...]
    sink: str
    key: tuple[str, ...] = ()
    """What the rows of a table are written under; deletions must find what was written before."""

    state: tuple[str, ...] = ()
    """What is kept between batches, operator by operator; empty for a query without state."""

    inputs: tuple[str, ...] = ()
    """What Spark reads, in its order: it finds positions by the number of the source."""

    operators: tuple[StoredOperator, ...] = ()
    """The operators of ours whose state is kept, the first of them first."""

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
            key=tuple(stored.get("key", ())),
            state=tuple(stored["state"]),
            inputs=tuple(stored.get("inputs", ())),
            operators=tuple(map(StoredOperator.from_json, stored.get("operators", ()))),
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The place of one query."""

    place: Place
    manifest: Manifest
    note: str = ""
    """What else a person should know if it is refused."""

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
        if stored.key != now.key:
            before, after = (", ".join(each) or "no key" for each in (stored.key, now.key))
            self._refuse("writes a table by", before, after)

    @property
    def operators(self) -> tuple[StoredOperator, ...]:
        """What is remembered of the operators with state, if the query has some and has run."""
        stored = self._stored()
        return () if stored is None else stored.operators

    def check_plan(
        self,
        state: tuple[str, ...],
        inputs: tuple[str, ...],
        operators: tuple[StoredOperator, ...] = (),
    ) -> None:
        """Refuse another state, or other sources inside of `pipe`, and remember what they are."""
        manifest = replace(self.manifest, state=state, inputs=inputs, operators=operators)
        stored = self._stored()
        if stored is not None:
            if stored.inputs != inputs:
                self._refuse("reads", ", then ".join(stored.inputs), ", then ".join(inputs))
            if stored.state != state or len(stored.operators) != len(operators):
                self._refuse("keeps", _listed(stored), _listed(manifest))
            for before, now in zip(stored.operators, operators, strict=True):
                self._check_operator(before, now)
        if stored is None or stored.operators != operators:
            self.place.write(_MANIFEST, manifest.to_json())

    def _check_operator(self, stored: StoredOperator, now: StoredOperator) -> None:
        if refused := stored.refusals(now):
            manifest = self.manifest
            raise CheckpointMismatch(
                f"Output {manifest.output} of flow {manifest.flow} cannot continue what is stored "
                f"in {self.place.address}: {'; '.join(refused)}.{self.note} {_WAYS_OUT}"
            )

    def input_range(self, batch_id: int) -> str:
        """What a batch reads, by Spark's own notes: offsets of every partition that it advances."""
        before, after = (_offsets(self.place, number) for number in (batch_id - 1, batch_id))
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

    def _stored(self) -> Manifest | None:
        return manifest_in(self.place)

    def _refuse(self, verb: str, before: str, now: str) -> None:
        manifest = self.manifest
        raise CheckpointMismatch(
            f"Output {manifest.output} of flow {manifest.flow} {verb} {now} now, but what is "
            f"stored in {self.place.address} is of a query that {verb} {before}, and cannot be "
            f"continued by this one.{self.note} {_WAYS_OUT}"
        )


def checkpoint_of(
    title: str, output: Output, place: Place, aliases: Mapping[str, str] | None = None
) -> Checkpoint:
    """The checkpoint of an output under the place of a version that is called `title`."""
    aliases = aliases or {}
    reads = list(sources(output.node))
    followed = {
        topic for read in reads for topic in read.topics if aliases.get(topic, topic) != topic
    }
    manifest = Manifest(
        title,
        output.name,
        tuple(_described(each, aliases) for each in reads),
        _sink_of(output),
        _table_key(output),
    )
    meant = "".join(
        f" {each} means {aliases[each]} since that was promoted." for each in sorted(followed)
    )
    return Checkpoint(place.child(output.name), manifest, meant)


def manifest_in(place: Place) -> Manifest | None:
    """What the checkpoint in a place was made by; None if there is none."""
    text = place.read(_MANIFEST)
    if text is None:
        return None
    try:
        return Manifest.from_json(text)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatch(
            f"{place.address} was written by another version of Headrace ({error}). Run that "
            "version, or delete the directory to begin anew."
        ) from None


def committed_in(place: Place) -> dict[Partition, int] | None:
    """Where the query of a checkpoint goes on; None if it has not finished a batch yet.

    Of a partition that several sources read, where the one furthest behind is.
    """
    commits = place.child("spark").child("commits").names()
    finished = [int(each) for each in commits if each.isdecimal()]
    return read_until(place, max(finished)) if finished else None


def read_until(place: Place, batch_id: int) -> dict[Partition, int]:
    """Where a batch of a checkpoint ends, as `committed_in` has it."""
    found: dict[Partition, int] = {}
    for source in _offsets(place, batch_id):
        for partition, offset in source.offsets.items():
            found[partition] = min(offset, found.get(partition, offset))
    return found


def _offsets(place: Place, batch_id: int) -> list[SourceOffsets]:
    text = place.child("spark").read(f"offsets/{batch_id}") if batch_id >= 0 else None
    # A version, a line of Spark's settings, then a line per source.
    lines = (text or "").splitlines()[2:]
    return [_read_offsets(json.loads(line)) for line in lines]


def _read_offsets(stored: Mapping[str, Any]) -> SourceOffsets:
    # Spark's own connector, which the real-time lane reads with, notes topics and nothing else.
    if "version" not in stored:
        stored = {"version": OFFSETS_VERSION, "topics": stored}
    return SourceOffsets.from_json(stored)


def _described(read: ReadTopics, aliases: Mapping[str, str]) -> str:
    topics = ", ".join(resolved(read.topics, aliases))
    what = f"topics matching {read.pattern}" if read.pattern else topics
    table = f"table by {', '.join(read.key)} of " if read.key else ""
    return f"{table}{what} as {read.format}"


def _table_key(output: Output) -> tuple[str, ...]:
    """The key of a table that is written; of a stream it may change, from one batch to the next."""
    if not isinstance(output, TopicOutput | StoreOutput):
        return ()
    operator = operator_of(output.node)
    keys = [read.key for read in sources(output.node)] if operator is None else [operator.key]
    return tuple(map(written, output.key)) if any(keys) else ()


def _sink_of(output: Output) -> str:
    if isinstance(output, (TopicOutput, DeadLetterOutput)):
        real_time = isinstance(output, TopicOutput) and output.trigger is not None
        return f"topic {output.topic}{' in real time' if real_time else ''}"
    if isinstance(output, StoreOutput):
        # Not where it is: a database may move, and take its tables along.
        return output.label[0]
    return type(output.sink).__name__


def _listed(manifest: Manifest) -> str:
    kept = (*manifest.state, *(f"a {each.meaning}" for each in manifest.operators))
    return "; ".join(kept) or "no state"
