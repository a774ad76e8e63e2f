"""The aggregates by the names that they have in SQL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.streams.names import did_you_mean
from headrace.streams.windows.aggregates.bloom import Bloom
from headrace.streams.windows.aggregates.collecting import (
    CollectList,
    CollectSet,
    CountDistinct,
    TopK,
)
from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.extremes import AtTime, Extreme, ExtremeBy
from headrace.streams.windows.aggregates.hyperloglog import ApproximateDistinct
from headrace.streams.windows.aggregates.kll import Quantile
from headrace.streams.windows.aggregates.protocol import Aggregate
from headrace.streams.windows.aggregates.sums import Average, Count, Deviation, Rate, Sum


@dataclass(frozen=True, slots=True)
class Function:
    """How a function is called: with some expressions, and after them with some numbers."""

    build: Callable[..., Aggregate]
    usage: str
    expressions: tuple[int, int] = (1, 1)
    """How many there are, at least and at most."""

    numbers: tuple[int, int] = (0, 0)


def _top_k(count: float, capacity: float | None = None) -> TopK:
    wanted = int(count)
    room = max(1000, 10 * wanted) if capacity is None else int(capacity)
    if wanted < 1 or room < wanted:
        raise InvalidAggregate(
            f"top_k of {wanted} values with room for {room} makes no sense; ask for at least one, "
            "and count at least as many as are asked for."
        )
    return TopK(wanted, room)


def _bloom(expected: float = 1000, error: float = 0.01) -> Bloom:
    return Bloom(int(expected), error)


_QUANTILE: Final = Function(lambda share: Quantile((share,)), "quantile(x, 0.95)", numbers=(1, 1))

FUNCTIONS: Final = {
    "count": Function(Count, "count(*) or count(x)", (0, 1)),
    "sum": Function(Sum, "sum(x)"),
    "avg": Function(Average, "avg(x)"),
    "mean": Function(Average, "mean(x)"),
    "min": Function(lambda: Extreme(greatest=False), "min(x)"),
    "max": Function(lambda: Extreme(greatest=True), "max(x)"),
    "min_by": Function(lambda: ExtremeBy(greatest=False), "min_by(x, y)", (2, 2)),
    "max_by": Function(lambda: ExtremeBy(greatest=True), "max_by(x, y)", (2, 2)),
    "first": Function(lambda: AtTime(greatest=False), "first(x)"),
    "last": Function(lambda: AtTime(greatest=True), "last(x)"),
    "stddev": Function(lambda: Deviation(root=True, sample=True), "stddev(x)"),
    "stddev_samp": Function(lambda: Deviation(root=True, sample=True), "stddev_samp(x)"),
    "stddev_pop": Function(lambda: Deviation(root=True, sample=False), "stddev_pop(x)"),
    "variance": Function(lambda: Deviation(root=False, sample=True), "variance(x)"),
    "var_samp": Function(lambda: Deviation(root=False, sample=True), "var_samp(x)"),
    "var_pop": Function(lambda: Deviation(root=False, sample=False), "var_pop(x)"),
    "rate": Function(Rate, "rate() or rate(x)", (0, 1)),
    "count_distinct": Function(CountDistinct, "count_distinct(x)"),
    "approx_count_distinct": Function(ApproximateDistinct, "approx_count_distinct(x)"),
    "quantile": _QUANTILE,
    "approx_percentile": _QUANTILE,
    "percentile_approx": _QUANTILE,
    "median": Function(lambda: Quantile((0.5,)), "median(x)"),
    "quantiles": Function(
        lambda *shares: Quantile(shares, single=False), "quantiles(x, 0.5, 0.95)", numbers=(1, 100)
    ),
    "top_k": Function(_top_k, "top_k(x, 10) or top_k(x, 10, 1000)", numbers=(1, 2)),
    "bloom": Function(_bloom, "bloom(x) or bloom(x, 1000, 0.01)", numbers=(0, 2)),
    "collect_list": Function(CollectList, "collect_list(x)"),
    "array_agg": Function(CollectList, "array_agg(x)"),
    "collect_set": Function(CollectSet, "collect_set(x)"),
}
"""What can be called in the SQL of an aggregate, by its name in lower case."""


def called(name: str, arguments: Sequence[str]) -> tuple[Aggregate, tuple[str, ...]]:
    """The aggregate of a call and the expressions that it is of.

    InvalidAggregate says how it is called.

    >>> called("quantile", ["price", "0.95"])
    (Quantile(shares=(0.95,), single=True), ('price',))
    """
    function = FUNCTIONS.get(name.lower())
    if function is None:
        raise InvalidAggregate(f"There is no aggregate {name}; {did_you_mean(name, FUNCTIONS)}")
    least, most = function.expressions
    fewest, maximum = function.numbers
    if not least + fewest <= len(arguments) <= most + maximum:
        raise InvalidAggregate(f"{name} is called as {function.usage}, not with {len(arguments)}.")
    count = min(most, len(arguments))
    numbers = [_number(each, name, function) for each in arguments[count:]]
    return function.build(*numbers), tuple(arguments[:count])


def _number(text: str, name: str, function: Function) -> Any:
    try:
        return float(text)
    except ValueError:
        raise InvalidAggregate(
            f"{name} is called as {function.usage}: {text} would have to be a number."
        ) from None
