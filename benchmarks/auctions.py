"""The events of Nexmark: people who open accounts, the auctions they offer, and the bids on those.

And its side input, a table of ten thousand rows that does not change.

By the public definition: of fifty events in a row one is a person, three are auctions and the rest
are bids; half of the bids go to one hot auction of the last hundred, three in four come from one
hot bidder of the last hundred, and three in four auctions are offered by a hot seller. The random
choices are numpy's, so that the same numbers make the same events, but not those of other
implementations. Ten thousand events are one second of event time.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl

_IN_A_ROW = 50
_AUCTIONS_IN_A_ROW = 3
_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_HOT = 100
_ACTIVE_PEOPLE = 1000
_AUCTIONS_IN_FLIGHT = 100
_SIDE_ROWS = 10_000
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne")
_BEGIN = 1_767_225_600_000
"""2026-01-01, in milliseconds."""

_PER_MILLISECOND = 10

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@dataclass(frozen=True, slots=True)
class Events:
    """All events, by kind, in the order of their time."""

    people: pl.DataFrame
    auctions: pl.DataFrame
    bids: pl.DataFrame
    side: pl.DataFrame
    """What is said of auctions by the rest of their id, in no order of time."""


def events(count: int, seed: int = 7) -> Events:
    """So many events, the same whenever they are asked for; a multiple of fifty is best."""
    chance = np.random.default_rng(seed)
    numbers = np.arange(count, dtype=np.int64)
    place = numbers % _IN_A_ROW
    people = numbers[place == 0]
    auctions = numbers[(place > 0) & (place <= _AUCTIONS_IN_A_ROW)]
    bids = numbers[place > _AUCTIONS_IN_A_ROW]
    return Events(
        _people(people, chance), _auctions(auctions, chance), _bids(bids, chance), _side()
    )


def _people(numbers: _Numbers, chance: np.random.Generator) -> pl.DataFrame:
    count = len(numbers)
    return pl.DataFrame(
        {
            "id": _FIRST_ID + numbers // _IN_A_ROW,
            "name": [f"person {number}" for number in numbers // _IN_A_ROW],
            "city": np.array(_CITIES)[chance.integers(0, len(_CITIES), count)],
            "state": np.array(_STATES)[chance.integers(0, len(_STATES), count)],
            "at": _times(numbers),
        }
    )


def _auctions(numbers: _Numbers, chance: np.random.Generator) -> pl.DataFrame:
    count = len(numbers)
    return pl.DataFrame(
        {
            "id": _last_auction(numbers),
            "seller": _person(numbers, chance, 0),
            "category": _FIRST_CATEGORY + chance.integers(0, _CATEGORIES, count),
            "expires": _times(numbers + chance.integers(1, 20 * 1000 * _PER_MILLISECOND, count)),
            "at": _times(numbers),
        }
    )


def _bids(numbers: _Numbers, chance: np.random.Generator) -> pl.DataFrame:
    count = len(numbers)
    last = _last_auction(numbers)
    hot = last // _HOT * _HOT
    oldest = np.maximum(last - _AUCTIONS_IN_FLIGHT, _FIRST_ID)
    others = oldest + (chance.random(count) * (last - oldest + 1)).astype(np.int64)
    return pl.DataFrame(
        {
            "auction": np.maximum(np.where(chance.random(count) < 0.5, hot, others), _FIRST_ID),
            "bidder": _person(numbers, chance, 1),
            "price": np.round(10 ** (chance.random(count) * 6) * 100).astype(np.int64),
            "at": _times(numbers),
        }
    )


def _side() -> pl.DataFrame:
    keys = np.arange(_SIDE_ROWS, dtype=np.int64)
    return pl.DataFrame({"key": keys, "value": [f"value {key}" for key in keys]})


def _last_auction(numbers: _Numbers) -> _Numbers:
    """The id of the auction that was begun last when an event happens."""
    in_a_row = np.clip(numbers % _IN_A_ROW, 0, _AUCTIONS_IN_A_ROW) - 1
    last = numbers // _IN_A_ROW * _AUCTIONS_IN_A_ROW + in_a_row
    found: _Numbers = np.maximum(_FIRST_ID + last, _FIRST_ID)
    return found


def _person(numbers: _Numbers, chance: np.random.Generator, which: int) -> _Numbers:
    """Three times of four a hot person of the last hundred, else one of the last thousand."""
    last = _FIRST_ID + numbers // _IN_A_ROW
    hot = np.maximum(last // _HOT * _HOT + which, _FIRST_ID)
    oldest = np.maximum(last - _ACTIVE_PEOPLE, _FIRST_ID)
    others = oldest + (chance.random(len(numbers)) * (last - oldest + 1)).astype(np.int64)
    return np.minimum(np.where(chance.random(len(numbers)) < 0.75, hot, others), last)


def _times(numbers: _Numbers) -> pl.Series:
    return pl.Series(_BEGIN + numbers // _PER_MILLISECOND).cast(pl.Datetime("ms", "UTC"))
