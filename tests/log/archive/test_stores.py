"""What an archive relies on, held by every kind of store."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.log.archive.location import open_store
from headrace.log.archive.store import CHUNK_BYTES, ArchiveStore
from headrace.log.errors import ArchiveRefused, ArchiveUnavailable
from tests.log.archive.s3 import s3_bucket


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket for all tests; each has a prefix of its own in it."""
    with s3_bucket() as location:
        yield location


@pytest.fixture(params=["directory", "file url", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveStore:
    """An empty store of each kind."""
    match request.param:
        case "directory":
            return open_store(str(tmp_path / "some" / "archive"))
        case "file url":
            return open_store(f"file://{tmp_path}/archive")
        case _:
            return open_store(f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}")


def content(store: ArchiveStore, key: str) -> bytes:
    return b"".join(store.get(key))


def test_what_was_put_is_got(store: ArchiveStore) -> None:
    store.put("a/b/one", [b"some", b" ", b"bytes"])
    assert content(store, "a/b/one") == b"some bytes"


def test_a_put_takes_the_place_of_what_was_there(store: ArchiveStore) -> None:
    store.put("one", [b"a long time ago"])
    store.put("one", [b"now"])
    assert content(store, "one") == b"now"


def test_an_object_may_be_empty(store: ArchiveStore) -> None:
    store.put("nothing", [])
    assert content(store, "nothing") == b""


def test_a_large_object_comes_back_whole(store: ArchiveStore) -> None:
    data = os.urandom(3 * CHUNK_BYTES + 17)
    store.put("large", (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)))
    assert content(store, "large") == data


def test_what_is_not_there_is_not_found(store: ArchiveStore) -> None:
    with pytest.raises(FileNotFoundError):
        content(store, "a/b/none")


def test_objects_are_listed_below_a_path(store: ArchiveStore) -> None:
    for key in ("a/1", "a/b/2", "ab/3", "4"):
        store.put(key, [key.encode()])
    assert {found.key for found in store.list("a")} == {"a/1", "a/b/2"}
    assert {(found.key, found.size) for found in store.list("")} == {
        ("a/1", 3),
        ("a/b/2", 5),
        ("ab/3", 4),
        ("4", 1),
    }
    assert list(store.list("none")) == []


def test_what_was_deleted_is_gone_and_may_be_deleted_again(store: ArchiveStore) -> None:
    store.put("a/one", [b"1"])
    store.delete("a/one")
    store.delete("a/one")
    assert list(store.list("")) == []
    with pytest.raises(FileNotFoundError):
        content(store, "a/one")


def test_a_put_that_breaks_off_leaves_what_was_there(store: ArchiveStore) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ArchiveUnavailable("enough")

    store.put("one", [b"whole"])
    with pytest.raises(ArchiveUnavailable):
        store.put("one", broken())
    assert content(store, "one") == b"whole"


def test_a_directory_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"a file")
    with pytest.raises(ArchiveUnavailable, match="mounted, writable"):
        open_store(str(tmp_path / "taken")).put("a/one", [b"1"])


def test_a_store_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(ArchiveUnavailable, match="check the network"):
        content(open_store("s3://bucket/prefix"), "one")


def test_a_location_that_makes_no_sense_is_refused() -> None:
    pytest.importorskip("obstore")
    with pytest.raises(ArchiveRefused, match="s3://bucket/prefix"):
        open_store("gopher://somewhere")
