"""What the records of a task tell of time, found while they are read."""

from typing import TYPE_CHECKING, Any

from headrace.streams.errors import InvalidFlow
from headrace.streams.time.control import Observation

if TYPE_CHECKING:
    import pyarrow as pa


class Observing:
    """Follows the rows of one task."""

    def __init__(
        self,
        clock: int,
        time: str,
        *,
        by: str | None = None,
        until: str | None = None,
        ahead: int | None = None,
    ) -> None:
        """Take the batch's clock in microseconds, and the columns of a `Watermark`."""
        self._clock = clock
        self._time = time
        self._by = by
        self._until = until
        self._latest = None if ahead is None else clock + ahead
        self._times: dict[str, int] = {}
        self._promises: dict[str, int] = {}
        self._implausible = 0

    def add(self, partition: "str | pa.Array", rows: "pa.RecordBatch") -> None:
        """Look at some rows of a partition, whose name is a source's where no column says it.

        Rows of several partitions have a name each.

        Raises InvalidFlow if a column of time has a type that is none.
        """
        import pyarrow.compute as pc

        times = _microseconds(rows, self._time)
        if self._latest is not None:
            plausible = pc.less_equal(times, self._latest)
            self._implausible += pc.sum(pc.invert(plausible)).as_py() or 0
            times = pc.if_else(plausible, times, None)
        names = self._names(partition, rows)
        _raise(self._times, names, times)
        if self._until is not None:
            _raise(self._promises, names, _microseconds(rows, self._until))

    @property
    def told(self) -> Observation:
        """What there is to tell so far."""
        return Observation(self._clock, self._times, self._promises, self._implausible)

    def _names(self, partition: Any, rows: "pa.RecordBatch") -> Any:
        """The source of all rows, or of each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._by is None:
            return partition
        return pc.coalesce(rows.column(self._by).cast(pa.string()), partition)


def _raise(found: dict[str, int], names: Any, times: Any) -> None:
    """Raise the largest time of each source."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(names, str):
        largest = {names: pc.max(times).as_py()}
    else:
        grouped = pa.table({"name": names, "time": times}).group_by("name")
        each = grouped.aggregate([("time", "max")]).to_pydict()
        largest = dict(zip(each["name"], each["time_max"], strict=True))
    for name, time in largest.items():
        if time is not None:
            found[name] = max(time, found.get(name, time))


def _microseconds(rows: "pa.RecordBatch", column: str) -> Any:
    import pyarrow as pa

    times = rows.column(column)
    if pa.types.is_integer(times.type):
        return times.cast(pa.int64())
    if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type):
        zone = getattr(times.type, "tz", None)
        return times.cast(pa.timestamp("us", zone)).cast(pa.int64())
    raise InvalidFlow(
        f"The column {column} is of type {times.type}, which is no time; declare it as a "
        "timestamp, or as a bigint of microseconds since 1970."
    )
