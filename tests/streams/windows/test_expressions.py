"""The SQL of aggregates, taken apart."""

import pytest

from headrace.streams.windows.aggregates.collecting import CountDistinct
from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.kll import Quantile
from headrace.streams.windows.aggregates.sums import Count, Sum
from headrace.streams.windows.expressions import taken_apart
from headrace.streams.windows.measures import Call


def test_arguments_calls_and_what_is_computed_of_them_are_told_apart():
    parts = taken_apart({"share": "round(SUM(price * (1 - discount)) / count(*), 2)"})
    assert parts.arguments == {"_argument_0": "price * (1 - discount)"}
    assert parts.calls == {
        "Sum(price * (1 - discount))": Call(Sum(), ("_argument_0",)),
        "Count()": Call(Count()),
    }
    assert parts.results == {"share": "round(`Sum(price * (1 - discount))` / `Count()`, 2)"}


def test_state_is_found_under_what_is_computed_however_that_is_spaced_and_ordered():
    before = taken_apart({"a": "sum(x + 1)", "b": "min(lower('A  B'))"})
    after = taken_apart({"c": "min(lower('A B'))", "d": "sum(x /* and */ +\n 1)"})
    assert before.calls.keys() & after.calls.keys() == {"Sum(x + 1)"}
    assert list(taken_apart({"a": "max(`a`)", "b": "max(`A`)"}).results.values()) == [
        "`Extreme(greatest=True)(``a``)`",
        "`Extreme(greatest=True)(``A``)'`",
    ]


def test_what_is_asked_for_twice_is_computed_once():
    parts = taken_apart({"a": "sum(x) / count(*)", "b": "sum( x )", "n": "count(*)"})
    assert list(parts.arguments.values()) == ["x"]
    assert len(parts.calls) == 2
    assert parts.results["b"] == "`Sum(x)`"


def test_texts_and_quoted_names_are_left_alone():
    written = "max(case when kind = 'sum(x), it''s' then `count(*)` else \"min(y)\" end) -- sum(z)"
    parts = taken_apart({"a": written})
    assert list(parts.arguments.values()) == [
        "case when kind = 'sum(x), it''s' then `count(*)` else \"min(y)\" end"
    ]
    (name,) = parts.calls
    assert parts.results == {"a": f"`{name.replace('`', '``')}` -- sum(z)"}


def test_a_column_named_like_an_aggregate_is_a_column():
    parts = taken_apart({"a": "sum(count)"})
    assert list(parts.arguments.values()) == ["count"]


def test_distinct_and_numbers_choose_the_aggregate():
    parts = taken_apart({"d": "count(DISTINCT lower(user))", "q": "quantile(ms, 0.99)"})
    assert parts.arguments == {"_argument_0": "lower(user)", "_argument_1": "ms"}
    assert [each.aggregate for each in parts.calls.values()] == [
        CountDistinct(),
        Quantile((0.99,)),
    ]


def test_a_filter_becomes_part_of_the_argument():
    parts = taken_apart({"f": "count(*) FILTER (WHERE ok) / sum(x) filter (where y > (1))"})
    assert list(parts.arguments.values()) == [
        "CASE WHEN ok THEN 1 END",
        "CASE WHEN y > (1) THEN x END",
    ]
    counted, summed = parts.calls
    assert parts.results == {"f": f"`{counted}` / `{summed}`"}


def test_an_aggregate_of_ones_own_is_applied_to_expressions():
    parts = taken_apart({"mine": Sum().of("a + b")})
    assert parts.arguments == {"_argument_0": "a + b"}
    assert parts.results == {"mine": "`Sum(a + b)`"}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("cuont(*)", "did you mean count"),
        ("price + 1", "has no aggregate"),
        ("sum(x", "not closed"),
        ("sum(avg(x))", "aggregate in an aggregate"),
        ("sum(x, y)", r"called as sum\(x\)"),
        ("sum()", r"called as sum\(x\)"),
        ("quantile(x, y)", "a number"),
        ("quantile(x, 2)", "from 0 to 1"),
        ("sum(distinct x)", "count.distinct x. only"),
        ("sum(x) over (partition by y)", "window"),
        ("top_k(x, 0)", "at least one"),
        ("bloom(x, 10, 3)", "between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_name(written: str, said: str):
    with pytest.raises(InvalidAggregate, match=f"^total=.*{said}"):
        taken_apart({"total": written})
