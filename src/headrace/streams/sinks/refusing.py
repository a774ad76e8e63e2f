"""Rows that a store refuses, as dead letters: each as JSON, and in its headers why.

They are in the topic before the others are in the store, so that none is lost. If that fails in
between, the batch comes again and so do its letters: this one output is at least once, and the
headers `headrace.query`, `headrace.batch` and `headrace.row` tell which letters are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.settings import KafkaSettings
from headrace.streams.sinks.contract import Place
from headrace.views.stores import Refusal, RowRefused

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.views.stores.staging import Staged

_SHOWN: Final = 300
"""How much of a row is shown where it is an error."""


@dataclass(slots=True)
class Refusing:
    """What becomes of the rows of a place that its store refuses."""

    place: Place
    staged: "Staged"
    key: tuple[str, ...]
    kafka: KafkaSettings | None
    topic: str | None
    count: int = 0
    """How many there were."""

    def refuse(self, refused: Sequence[Refusal]) -> None:
        """Write them to the topic, or raise RowRefused if there is none."""
        if not refused:
            return
        letters = self._letters(refused)
        if self.kafka is None or self.topic is None:
            row = letters.column("value")[0].as_py().decode(errors="replace")
            others = f", and {len(refused) - 1:,} others" if len(refused) > 1 else ""
            raise RowRefused(
                f"The store refuses a row{others}: {refused[0].reason}. The row: {row[:_SHOWN]}. "
                'With dead_letters="a topic" such rows go there, and the others are written.'
            )
        from headrace.streams.sinks.topic import Delivery, TopicSink

        sink = TopicSink(self.kafka, self.topic, Delivery.AT_LEAST_ONCE)
        sink.write(self.place, iter([letters]))
        self.count += len(refused)

    def _letters(self, refused: Sequence[Refusal]) -> "pa.RecordBatch":
        import pyarrow as pa

        from headrace.streams.formats.dead_letters import dead_letter_schema
        from headrace.streams.formats.schemas import arrow_schema
        from headrace.views.stores.columns import written

        taken = self.staged.taken([each.row for each in refused])
        rows = taken.to_pylist(maps_as_pydicts="lossy")
        keys = [written({name: row[name] for name in self.key}) for row in rows]
        about = {
            "headrace.query": self.place.query,
            "headrace.batch": str(self.place.batch_id),
            "headrace.place": str(self.place.partition),
        }
        headers = [
            [
                {"key": name, "value": text.encode()}
                for name, text in {
                    "headrace.reason": each.reason,
                    **about,
                    "headrace.row": str(each.row),
                }.items()
            ]
            for each in refused
        ]
        columns = {
            "key": [key.encode() for key in keys] if self.key else [None] * len(rows),
            "value": [written(row).encode() for row in rows],
            "headers": headers,
        }
        schema = arrow_schema(dead_letter_schema())
        return pa.RecordBatch.from_pydict(columns, schema=schema)
