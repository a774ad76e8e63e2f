"""Time observed behind the source, where Spark's expressions have made what is to be observed.

A source observes the columns of its records while it reads them. What is computed from several of
them, such as a corrected time, only Spark can compute; so the rows pass this step, which looks at
them, lets them through as they are, and ends each task with a control row in the place of the
source's, which tells the clock only.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.formats.schemas import nullable
from headrace.streams.plan import CONTROL, TIME_SOURCE
from headrace.streams.skipping import counted_implausible
from headrace.streams.time.control import Observation
from headrace.streams.time.observing import Observing
from headrace.streams.time.watermarks import Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BY: Final = "_time_by"
_UNTIL: Final = "_time_until"
_IMPLAUSIBLE: Final = "_implausible"


def observed(rows: "DataFrame", time: str, rules: Watermark) -> "DataFrame":
    """The rows, and control rows that tell of the time in their column `time`."""
    from pyspark.sql.functions import expr, lit

    columns = [each for each in rows.columns if each != TIME_SOURCE]
    made = {_BY: rules.by, _UNTIL: rules.until}
    seen = rows.withColumns(
        {
            **{name: expr(each) for name, each in made.items() if each is not None},
            _IMPLAUSIBLE: lit(None).cast("bigint"),
        }
    )
    schema = nullable(seen.select(*(f"`{each}`" for each in columns), _IMPLAUSIBLE).schema)
    step = _Step(time, rules, tuple(schema.names))
    passed = seen.mapInArrow(step.function(), schema)
    return counted_implausible(passed, passed[_IMPLAUSIBLE]).drop(_IMPLAUSIBLE)


class _Step:
    """What is done with the rows of each task."""

    def __init__(self, time: str, rules: Watermark, columns: tuple[str, ...]) -> None:
        self._time = time
        self._rules = rules
        self._columns = columns

    def function(self) -> Callable[[Iterable[Any]], Iterator[Any]]:
        """What `mapInArrow` wants."""
        return self._pass

    def _pass(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow.compute as pc

        observing: Observing | None = None
        schema = None
        for batch in batches:
            told = batch.column(CONTROL)
            rows = batch.filter(pc.is_null(told)) if told.null_count < len(told) else batch
            if observing is None:
                # The clock comes first in a task, before all rows.
                clock = Observation.from_bytes(told.drop_null()[0].as_py()).clock
                observing = self._observing(clock)
                schema = batch.select(list(self._columns)).schema
            if rows.num_rows:
                observing.add(rows.column(TIME_SOURCE), rows)
                yield rows.select(list(self._columns))
        if observing is not None:
            yield _row(schema, observing.told)

    def _observing(self, clock: int) -> Observing:
        rules = self._rules
        return Observing(
            clock,
            self._time,
            by=None if rules.by is None else _BY,
            until=None if rules.until is None else _UNTIL,
            ahead=rules.ahead,
        )


def _row(schema: Any, told: Observation) -> Any:
    import pyarrow as pa

    values = {CONTROL: told.to_bytes(), _IMPLAUSIBLE: told.implausible or None}
    arrays = [pa.array([values.get(each.name)], each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
