"""Views over HTTP, wherever they are kept: what is read, told and found again is the same."""

import threading
from dataclasses import replace

import pytest

from headrace.settings import Settings
from headrace.views import ViewDescription, Views, ViewServer
from tests.clusters import on_one_cluster
from tests.views.serving.conftest import ServerFactory, Written
from tests.views.serving.feeds import changes_of, until

pytestmark = on_one_cluster


@pytest.fixture(params=["postgres_url", "redis_url"])
def kept(request: pytest.FixtureRequest, settings: Settings) -> Settings:
    """Settings of a server that keeps its views in a database; those in files are tested beside."""
    url = request.getfixturevalue(request.param)
    return replace(settings, serve=replace(settings.serve, store=url))


@pytest.fixture
def view(written: Written, fresh_name: str) -> ViewDescription:
    """A view with a name of its own, since the database is shared."""
    return ViewDescription(fresh_name, written.topic, ("id",))


@pytest.mark.partitions(2)
def test_rows_pages_and_counts(
    written: Written, serving: ServerFactory, kept: Settings, view: ViewDescription
):
    views, name = Views(serving(view, given=kept).url), view.name
    rows = {f"u{number}": {"id": f"u{number}", "age": number} for number in range(20)}
    after = written.put(**rows)
    assert views.get(name, "u7", after=after) == rows["u7"]
    assert views.get(name, "nobody") is None
    assert views.count(name, where="age >= 15") == 5
    assert views.rows(name, keys=["u3", "none", "u1"]).keys == ["u3", "u1"]
    first = views.rows(name, where="age < 10", order="age desc", limit=6)
    views.count(name, after=written.put(u9=None, u0={"id": "u0", "age": 99}))
    second = views.rows(name, where="age < 10", order="age desc", limit=6, cursor=first.next)
    assert [each["age"] for each in first.rows + second.rows] == list(range(9, -1, -1))
    assert second.next is None
    injected = "id = 'u1'' or 1=1; DROP TABLE rows; --'"
    assert views.rows(name, where=injected).rows == []
    assert views.count(name) == 19


def test_a_feed_goes_on_after_a_restart(
    written: Written, serving: ServerFactory, kept: Settings, view: ViewDescription
):
    server = ViewServer(kept, [view], declared=False).start()
    views = Views(server.url)
    views.count(view.name, after=written.put(a={"id": "a", "n": 1}, b={"id": "b", "n": 2}))
    events = views.follow(view.name, where="n >= 2")
    snapshot, _ = until(events, "up-to-date")
    assert [each["key"] for each in snapshot.data["rows"]] == ["b"]
    written.put(a={"id": "a", "n": 3})
    told = until(events, "changes")[-1]
    assert changes_of(told) == [("insert", "a", {"id": "a", "n": 3})]
    server.stop()
    after = written.put(b=None, a={"id": "a", "n": 4}, c={"id": "c", "n": 1})
    views = Views(serving(view, given=kept).url)
    views.count(view.name, after=after)
    later = until(views.follow(view.name, where="n >= 2", since=told.token), "up-to-date")
    assert [each.name for each in later] == ["changes", "up-to-date"], "it is not told anew"
    assert sorted(changes_of(later[0])) == [
        ("delete", "b", None),
        ("update", "a", {"id": "a", "n": 4}),
    ]


def test_several_are_read_at_one_position(
    written: Written, serving: ServerFactory, kept: Settings, view: ViewDescription
):
    other = replace(view, name=f"{view.name}-2")
    views = Views(serving(view, other, given=kept).url)
    written.put(a={"id": "a", "n": 0})
    stop = threading.Event()

    def load() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            written.put(a={"id": "a", "n": number})

    loading = threading.Thread(target=load)
    loading.start()
    try:
        for _ in range(20):
            found, position = views.together({view.name: {}, other.name: {}})
            assert found[view.name] == found[other.name], position
    finally:
        stop.set()
        loading.join()
    assert views.diff(view.name, other.name)["different"] == 0
