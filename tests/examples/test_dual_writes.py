"""Writing to a database and an index diverges; following the database does not."""

from pathlib import Path

from examples.dual_writes import write_to_both, write_to_the_database


def test_two_clients_that_write_to_both_leave_them_different(tmp_path: Path) -> None:
    assert write_to_both(tmp_path) > 0


def test_an_index_that_follows_the_database_is_what_that_is(tmp_path: Path) -> None:
    assert write_to_the_database(tmp_path) == 0
