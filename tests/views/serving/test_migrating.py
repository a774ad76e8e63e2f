"""A view rebuilt beside itself, compared, promoted and dropped, with readers all the while."""

import threading

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.kafka.cluster import Cluster
from headrace.settings import Settings
from headrace.views import ReadFailed, UnknownView, ViewDescription, Views
from headrace.views.migrating import MigrationRefused, await_built, drop, promote, rebuild
from headrace.views.registry import RegistryWriter, declaration
from tests.clusters import on_one_cluster
from tests.views.serving.conftest import ServerFactory, Written
from tests.views.serving.feeds import until


@pytest.fixture
def name(fresh_name: str) -> str:
    return fresh_name.replace("-", "_")[-60:]


@pytest.fixture
def kafka(settings: Settings) -> Cluster:
    return Cluster(settings.kafka)


@pytest.fixture
def views(written: Written, serving: ServerFactory, kafka: Cluster, name: str) -> Views:
    """A server that has learnt of a view from the registry."""
    written.put(**{f"k{number}": {"id": f"k{number}", "n": number} for number in range(300)})
    RegistryWriter(kafka).write(declaration(ViewDescription(name, written.topic, ("id",))))
    found = Views(serving(declared=True).url)
    assert await_built(found, name) is not None
    return found


def test_a_view_is_rebuilt_compared_promoted_and_dropped(
    written: Written, views: Views, kafka: Cluster, name: str
):
    beside = f"{name}_v2"
    rebuild(kafka, views, name, beside)
    status = await_built(views, beside)
    assert status is not None
    assert status["rows"] == 300
    found = views.diff(name, beside)
    assert (found["same"], found["different"]) == (300, 0)

    feed = views.follow(name)
    until(feed, "up-to-date")
    assert promote(kafka, views, beside) == name
    assert [each.name for each in until(feed, "up-to-date")][-3:] == [
        "must-refetch",
        "snapshot",
        "up-to-date",
    ]
    assert views.count(name, after=written.put(new={"id": "new"})) == 301
    assert until(feed, "changes")[-1].data["changes"][0]["key"] == "new"
    shown = {each["served_by"]: each["name"] for each in views.views()}
    assert shown[name] == ""

    with pytest.raises(MigrationRefused, match="promote another version first"):
        drop(kafka, views, beside)
    drop(kafka, views, name)
    with pytest.raises(UnknownView):
        drop(kafka, views, "nothing")
    assert views.count(name) == 301


@on_one_cluster
def test_readers_switch_at_once_and_never_see_nothing(
    written: Written, views: Views, kafka: Cluster, name: str
):
    rebuild(kafka, views, name, f"{name}_v2")
    await_built(views, f"{name}_v2")
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            try:
                count = views.count(name)
            except ReadFailed as failed:
                wrong.append(str(failed))
            else:
                if count != 300:
                    wrong.append(count)

    reader = threading.Thread(target=read)
    reader.start()
    for shown in (f"{name}_v2", name, f"{name}_v2"):
        promote(kafka, views, shown)
    stop.set()
    reader.join()
    assert not wrong


@on_one_cluster
def test_differences_are_listed_row_by_row(
    written: Written, views: Views, kafka: Cluster, name: str, settings: Settings
):
    other = ViewDescription(f"{name}_by_n", written.topic, ("n",))
    RegistryWriter(kafka).write(declaration(other))
    await_built(views, other.name)
    found = views.diff(name, other.name, limit=2)
    assert found["only_in_one"] == found["only_in_other"] == 300
    assert len(found["examples"]) == 2
    same = views.diff(name, name)
    assert (same["same"], same["examples"]) == (300, [])

    said = CliRunner().invoke(
        app, ["views", "diff", name, other.name, "--server", views._url, "--limit", "1"]
    )
    assert said.exit_code == 1
    assert "300 are only in" in said.output


@on_one_cluster
def test_the_command_lists_rebuilds_promotes_and_drops(
    written: Written, views: Views, kafka: Cluster, name: str
):
    def headrace(*arguments: str) -> str:
        given = ["views", *arguments, "--server", views._url]
        if arguments[0] not in ("list", "diff"):
            given += ["--bootstrap", kafka.bootstrap]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, result.output
        return result.output

    assert "with 300 rows" in headrace("rebuild", name, "--as", f"{name}_v2")
    assert "0 differ" in headrace("diff", name, f"{name}_v2")
    assert f"Readers of {name} are shown {name}_v2" in headrace("promote", f"{name}_v2")
    assert "Dropped" in headrace("drop", name)
    listed = headrace("list")
    assert f"{name}_v2" in listed
    assert "current" in listed
