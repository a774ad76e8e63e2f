"""Leader epochs on one node."""

from headrace.log.epochs import EpochStart, LeaderEpochs


def test_a_log_begins_with_epoch_zero() -> None:
    epochs = LeaderEpochs()
    assert epochs.current == 0
    assert epochs.end_of(0, 40) == (0, 40)


def test_an_old_epoch_ended_where_the_next_began() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(2, 10), EpochStart(5, 30)])
    assert epochs.end_of(0, 40) == (0, 10)
    assert epochs.end_of(1, 40) == (0, 10)
    assert epochs.end_of(2, 40) == (2, 30)
    assert epochs.end_of(4, 40) == (2, 30)
    assert epochs.end_of(5, 40) == (5, 40)


def test_an_epoch_of_the_future_is_unknown() -> None:
    assert LeaderEpochs().end_of(1, 40) == (-1, -1)
    assert LeaderEpochs().end_of(-1, 40) == (-1, -1)


def test_an_epoch_before_the_history_ended_where_it_begins() -> None:
    epochs = LeaderEpochs([EpochStart(3, 100), EpochStart(4, 200)])
    assert epochs.end_of(1, 300) == (1, 100)


def test_a_new_epoch_begins_at_the_end() -> None:
    epochs = LeaderEpochs()
    epochs.advance(10)
    epochs.advance(10)
    epochs.advance(20)
    assert epochs.starts == (EpochStart(0, 0), EpochStart(2, 10), EpochStart(3, 20))


def test_an_epoch_that_was_cut_off_leaves_the_history() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(1, 10), EpochStart(2, 20)])
    epochs.advance(15)
    assert epochs.starts == (EpochStart(0, 0), EpochStart(1, 10), EpochStart(3, 15))


def test_a_lost_history_is_read_from_batches() -> None:
    epochs = LeaderEpochs()
    assert epochs.adopt(0, 0)
    assert epochs.adopt(2, 10)
    assert epochs.adopt(2, 20)
    assert not epochs.adopt(1, 30)
    assert epochs.starts == (EpochStart(0, 0), EpochStart(2, 10))


def test_every_offset_has_an_epoch() -> None:
    epochs = LeaderEpochs([EpochStart(1, 5), EpochStart(3, 10)])
    assert [epochs.at(offset) for offset in (0, 5, 9, 10, 99)] == [1, 1, 1, 3, 3]
