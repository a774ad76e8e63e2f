"""A flow with all four kinds of joins, to be run as it is and to be killed meanwhile."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.settings import Settings
from headrace.streams import Flow
from headrace.streams.time import Watermark

RECORDS_PER_BATCH = 40
OUTPUTS = ("pairs", "late", "named", "rated", "timelines")


def joined(name: str, source: str, settings: Settings | None = None) -> Flow:
    """Searches with clicks, clicks with users and with rates of their time, posts with readers."""
    flow = Flow(name, settings=settings)
    some = Watermark(out_of_order="2 s")
    limit = RECORDS_PER_BATCH

    searches = flow.stream(
        f"{source}-searches",
        "n int, session int, at timestamp",
        time="at",
        watermark=some,
        max_records_per_batch=limit,
    )
    clicks = flow.stream(
        f"{source}-clicks",
        "n int, session int, user int, at timestamp",
        time="at",
        watermark=some,
        max_records_per_batch=limit,
    )
    pairs = searches.join(clicks, on="session", within="5 s", how="left", late="side")
    flow.topic(f"{name}-pairs", pairs, key="session", partitions=1)
    flow.topic(f"{name}-late", pairs.late.select("session", "_side"), key="session", partitions=1)

    users = flow.table(f"{source}-users", "user int, name string", key="user")
    named = clicks.lookup(users, on="user", wait="5 s")
    flow.topic(f"{name}-named", named, key="user", partitions=1)

    rates = flow.table(
        f"{source}-rates", "user int, rate int, since timestamp", key="user", valid_from="since"
    )
    rated = clicks.lookup(rates, on="user", at="at", keep="1 hour")
    flow.topic(f"{name}-rated", rated, key="user", partitions=1)

    posts = flow.stream(
        f"{source}-posts", "id int, sender int, at int, gone boolean", max_records_per_batch=limit
    ).table(key="id", deleted="gone")
    follows = flow.stream(
        f"{source}-follows", "reader int, sender int, gone boolean", max_records_per_batch=limit
    ).table(key=("reader", "sender"), deleted="gone")
    home = posts.select("id", "sender", "at").join(follows.select("reader", "sender"), on="sender")
    newest = home.top(3, by="reader", order=("at desc", "id"))
    flow.topic(f"{name}-timelines", newest.changes(), key="reader", partitions=1)
    return flow


def records(count: int) -> Mapping[str, list[dict[str, Any]]]:
    """So many records of each topic, some of them late, some of rows that go."""
    chance = random.Random(count)
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    def at(number: int) -> str:
        delay = chance.choices([chance.uniform(0, 2), 30], [95, 5])[0]
        return (begin + timedelta(seconds=number / 5 - delay)).isoformat()

    def event(number: int) -> dict[str, Any]:
        return {"n": number, "session": chance.randint(0, number // 4 + 3), "at": at(number)}

    users, numbers = range(12), range(count)
    return {
        "searches": [event(each) for each in numbers],
        "clicks": [{**event(each), "user": chance.choice(users)} for each in numbers],
        "users": [{"user": each, "name": f"user {each}"} for each in users[:8]],
        "rates": [
            {"user": chance.choice(users), "rate": each, "since": at(each)} for each in range(60)
        ],
        "posts": [
            {
                "id": chance.randint(0, count // 3),
                "sender": chance.choice(users),
                "at": each,
                "gone": chance.random() < 0.2,
            }
            for each in numbers
        ],
        "follows": [
            {
                "reader": chance.choice(users),
                "sender": chance.choice(users),
                "gone": chance.random() < 0.3,
            }
            for _ in numbers
        ],
    }
