"""A copy as Python programs describe and run it."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from headrace.settings import InvalidSetting, KafkaSettings, SinkSettings, load_settings
from headrace.views.copying.errors import InvalidCopy
from headrace.views.copying.progress import CopyProgress
from headrace.views.copying.running import CopyRun


class Copy:
    """A topic whose rows are kept in a store.

        with Copy("orders", to="sqlite:///shop.db", key=["id"], schema="id bigint, total double"):
            ...

    Args:
        topic: The topic.
        to: The store's URL.
        key: The columns that tell rows apart; without any, rows are only added.
        once: Whether it ends when all is copied that was there at its start.
        kafka: The cluster; the one of headrace.toml if None.
        options: What else a [[sink]] in headrace.toml can say, under the same names.
    """

    def __init__(
        self,
        topic: str,
        *,
        to: str,
        key: Sequence[str] = (),
        once: bool = False,
        kafka: KafkaSettings | None = None,
        **options: Any,
    ) -> None:
        try:
            self.settings = SinkSettings(topic=topic, to=to, key=tuple(key), **options)
        except (InvalidSetting, TypeError) as error:
            raise InvalidCopy(f"This copy cannot be: {error}") from None
        self._run = CopyRun(self.settings, kafka or load_settings().kafka, once=once)

    @property
    def progress(self) -> CopyProgress:
        """How far it has got."""
        return self._run.progress

    def start(self) -> Self:
        """Begin; returns at once."""
        self._run.start()
        return self

    def run(self) -> CopyProgress:
        """Copy until it fails, the program is interrupted or, with `once`, all is copied."""
        self.start()
        try:
            self._run.wait()
        finally:
            self._run.ask_to_stop()
        return self.progress

    def stop(self) -> None:
        """End it, and wait for that; raises what it failed with."""
        self._run.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
