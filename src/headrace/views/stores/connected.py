"""What databases have in common whose connections stay open from one transaction to the next."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from headrace.views.stores.errors import StoreError
from headrace.views.stores.relational import RelationalSession


class ConnectedSession(RelationalSession):
    """A connection that transactions are made with."""

    beginning: ClassVar[str] = "BEGIN"
    """The statement that begins a transaction."""

    _connection: Any
    """The driver's own; a subclass opens it."""

    def __init__(self, *errors: type[Exception]) -> None:
        super().__init__()
        self._errors = errors
        """What the driver raises."""

    def close(self) -> None:
        """See `Session`."""
        with suppress(*self._errors):
            self._connection.close()

    @abstractmethod
    def _meaning(self, error: Any) -> StoreError:
        """What the driver has raised, as what it means to whoever writes."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained():
            self._run(self.beginning)
            try:
                yield
            except BaseException:
                with suppress(*self._errors):
                    self._run("ROLLBACK")
                raise
            self._run("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise self._meaning(error) from None
