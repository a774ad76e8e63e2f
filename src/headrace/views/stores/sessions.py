"""Sessions that outlive a task: a worker writes batch after batch to the same store."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.views.stores.contract import Session, Store

_IDLE: Final[dict[Store, list[Session]]] = defaultdict(list)
_LOCK: Final = threading.Lock()


@contextmanager
def session_of(store: Store) -> Iterator[Session]:
    """A session that nobody else uses meanwhile; one that fails is not used again."""
    session = _idle(store) or store.session()
    try:
        yield session
    except BaseException:
        session.close()
        raise
    with _LOCK:
        _IDLE[store].append(session)


def close_idle() -> None:
    """End every session that nobody uses."""
    with _LOCK:
        found = [each for sessions in _IDLE.values() for each in sessions]
        _IDLE.clear()
    for each in found:
        each.close()


def _idle(store: Store) -> Session | None:
    while True:
        with _LOCK:
            found = _IDLE[store].pop() if _IDLE[store] else None
        if found is None or found.alive():
            return found
        found.close()
