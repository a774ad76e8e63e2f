"""Reading views over HTTP: rows, filters, pages, positions, and what is refused."""

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from headrace.settings import KafkaSettings, ServeSettings, Settings, TokenSettings
from headrace.views import ReadFailed, ViewDescription, Views, ViewsError, ViewServer
from headrace.views.serving.access import Exposed
from tests.clusters import Cluster, on_one_cluster
from tests.views.serving.conftest import ServerFactory, Written


def people(count: int) -> dict[str, object]:
    return {
        f"u{number}": {"id": f"u{number}", "age": number, "country": "DE" if number % 2 else "FR"}
        for number in range(count)
    }


@pytest.mark.partitions(3)
def test_rows_are_found_by_key_filter_and_order(written: Written, users: Views):
    after = written.put(**people(20))
    assert users.get("users", "u7", after=after) == {"id": "u7", "age": 7, "country": "DE"}
    assert users.get("users", "nobody") is None
    found = users.rows("users", where="country = 'DE' and age > 10", order="age desc", limit=2)
    assert [each["age"] for each in found.rows] == [19, 17]
    assert users.count("users", where="country = 'FR'") == 10
    assert users.rows("users", keys=["u3", "u1", "none"]).keys == ["u3", "u1"]
    assert users.get("users", "u7", after=written.put(u7=None)) is None


@pytest.mark.partitions(2)
def test_pages_are_of_one_state_while_rows_change(written: Written, users: Views):
    after = written.put(**people(10))
    first = users.rows("users", order="age desc", limit=4, after=after)
    after = written.put(u9=None, u0={"id": "u0", "age": 99}, new={"id": "new", "age": 50})
    assert users.count("users", after=after) == 10
    second = users.rows("users", order="age desc", limit=4, cursor=first.next)
    third = users.rows("users", order="age desc", limit=4, cursor=second.next)
    ages = [each["age"] for page in (first, second, third) for each in page.rows]
    assert ages == list(range(9, -1, -1))
    assert third.next is None


def test_every_answer_says_what_it_reflects(written: Written, users: Views):
    position = written.put(a={"id": "a"})
    page = users.rows("users", after=position)
    assert page.position == position
    with pytest.raises(ReadFailed, match="does not reflect") as refused:
        users.get("users", "a", after=f"{written.topic}:0:99", timeout="50ms")
    assert refused.value.status == 504
    assert position in str(refused.value)
    with pytest.raises(ReadFailed, match="is not made of elsewhere"):
        users.get("users", "a", after="elsewhere:0:1")
    with pytest.raises(ReadFailed, match="is no position"):
        users.get("users", "a", after="yesterday")


@on_one_cluster
@pytest.mark.partitions(2)
def test_nobody_who_gives_a_position_reads_something_older(written: Written, users: Views):
    written.put(start={"id": "start"})
    users.count("users")
    stop = threading.Event()
    wrong: list[object] = []
    seen = [0]

    def load() -> None:
        while not stop.is_set():
            written.put(**{f"x{number}": {"id": f"x{number}"} for number in range(200)})

    def write_and_read(number: int) -> None:
        own = Written(written.topic, written.producer)
        for value in range(25):
            after = own.put(**{f"mine{number}": {"id": f"mine{number}", "value": value}})
            row = users.get("users", f"mine{number}", after=after, timeout="60s")
            if row is None or row["value"] != value:
                wrong.append((number, value, row))
            seen[0] += 1

    loading = threading.Thread(target=load)
    readers = [threading.Thread(target=write_and_read, args=(number,)) for number in range(4)]
    loading.start()
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    stop.set()
    loading.join()
    assert not wrong
    assert seen[0] == 100


@on_one_cluster
def test_several_views_are_read_at_one_position(written: Written, serving: ServerFactory):
    server = serving(
        ViewDescription("one", written.topic, ("id",)),
        ViewDescription("two", written.topic, ("id",)),
    )
    views = Views(server.url)
    stop = threading.Event()

    def load() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            written.put(a={"id": "a", "n": number}, b={"id": "b", "n": number})

    loading = threading.Thread(target=load)
    written.put(a={"id": "a", "n": 0}, b={"id": "b", "n": 0})
    loading.start()
    try:
        for _ in range(50):
            found, position = views.together({"one": {"order": "id"}, "two": {"order": "id"}})
            assert found["one"] == found["two"], position
    finally:
        stop.set()
        loading.join()


@on_one_cluster
def test_what_is_wrong_is_said_with_a_remedy(written: Written, users: Views):
    after = written.put(a={"id": "a", "age": 1})
    users.count("users", after=after)
    with pytest.raises(ReadFailed, match="did you mean age"):
        users.rows("users", where="aeg = 1")
    with pytest.raises(ReadFailed, match="did you mean users"):
        users.rows("user")
    with pytest.raises(ReadFailed, match="whole number"):
        users.rows("users", limit=-1)
    with pytest.raises(ReadFailed, match="cursor is not one"):
        users.rows("users", cursor="x")
    injected = "id = 'a'' or 1=1; DROP TABLE rows; --'"
    assert users.rows("users", where=injected).rows == []
    assert users.count("users") == 1


@on_one_cluster
def test_a_record_that_says_nothing_is_counted_and_named(written: Written, users: Views):
    written.producer.produce(written.topic, b"no json", b"k")
    after = written.put(a={"id": "a"}, b={"other": 1})
    users.count("users", after=after)
    (status,) = users.views()
    assert status["rejected"] == 2
    assert "the row has no column id" in status["rejection"]
    assert status["rows"] == 1


@on_one_cluster
def test_tokens_open_their_views_and_nothing_else(
    written: Written, serving: ServerFactory, settings: Settings
):
    tokens = (
        TokenSettings(token="reads-users-only", views=("users",)),
        TokenSettings(token="reads-everything", views=("*",)),
    )
    guarded = Settings(
        kafka=settings.kafka,
        serve=ServeSettings(
            address="127.0.0.1:0", directory=settings.serve.directory, tokens=tokens
        ),
    )
    server = serving(
        ViewDescription("users", written.topic, ("id",)),
        ViewDescription("secrets", written.topic, ("id",)),
        given=guarded,
    )
    after = written.put(a={"id": "a"})
    allowed = Views(server.url, token="reads-users-only")
    assert allowed.count("users", after=after) == 1
    assert [each["name"] for each in allowed.views()] == ["users"]
    for forbidden, status in (
        (lambda: allowed.count("secrets"), 403),
        (lambda: next(iter(allowed.follow("secrets"))), 403),
        (lambda: allowed.together({"users": {}, "secrets": {}}), 403),
        (lambda: Views(server.url).count("users"), 401),
        (lambda: Views(server.url, token="wrong-token").count("users"), 401),
    ):
        with pytest.raises(ReadFailed) as refused:
            forbidden()
        assert refused.value.status == status
    with urllib.request.urlopen(
        f"{server.url}/views/secrets/a?access_token=reads-everything&after={after}"
    ) as it:
        assert json.load(it)["row"] == {"id": "a"}


def test_views_are_not_served_to_the_world_without_tokens(tmp_path: Path, cluster: Cluster):
    settings = Settings(
        kafka=KafkaSettings(bootstrap=cluster.bootstrap),
        serve=ServeSettings(address="0.0.0.0:0", directory=str(tmp_path)),
    )
    with pytest.raises(Exposed, match="without tokens"):
        ViewServer(settings).start()


@on_one_cluster
def test_a_page_that_names_the_machine_otherwise_is_refused(users: Views):
    request = urllib.request.Request(f"{users._url}/views", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request):
        pass
    assert refused.value.code == 403
    refused.value.close()


@on_one_cluster
def test_people_and_programs_are_told_what_can_be_asked(users: Views):
    with urllib.request.urlopen(f"{users._url}/openapi.json") as answer:
        document = json.load(answer)
    assert document["openapi"].startswith("3.")
    assert "/feeds/{name}" in document["paths"]
    with urllib.request.urlopen(f"{users._url}/") as answer:
        assert b"EventSource" in answer.read()
    with urllib.request.urlopen(f"{users._url}/metrics") as answer:
        assert b'headrace_view_rows{view="users"}' in answer.read()
    with urllib.request.urlopen(f"{users._url}/health") as answer:
        assert json.load(answer) == {"status": "ok"}


@on_one_cluster
def test_a_view_that_is_lost_is_built_anew_from_the_log(
    written: Written, serving: ServerFactory, settings: Settings
):
    view = ViewDescription("users", written.topic, ("id",))
    after = written.put(**people(50))
    with ViewServer(settings, [view], declared=False) as server:
        assert Views(server.url).count("users", after=after) == 50
    path = Path(settings.serve.directory) / "users.sqlite"
    path.write_bytes(b"this is no database" * 1000)
    server = serving(view)
    assert Views(server.url).count("users", after=after) == 50
    (status,) = Views(server.url).views()
    assert "cannot be read" in status["rebuilt"]
    server.stop()
    path.unlink()
    assert Views(serving(view).url).count("users", after=after) == 50


@on_one_cluster
def test_two_servers_do_not_share_a_file(
    written: Written, serving: ServerFactory, settings: Settings
):
    view = ViewDescription("users", written.topic, ("id",))
    serving(view)
    second = Views(serving(view).url)
    with pytest.raises(ReadFailed, match="Another process keeps"):
        _until_said(second)


def _until_said(views: Views) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            views.count("users")
        except ReadFailed as failed:
            if "is being opened" not in str(failed):
                raise
        time.sleep(0.05)


def test_a_view_needs_a_name_that_can_be_a_file():
    with pytest.raises(ViewsError, match="cannot be the name"):
        ViewDescription("../evil", "topic")
