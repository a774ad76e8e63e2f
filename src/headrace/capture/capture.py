"""A capture as Python programs describe and run it."""

from types import TracebackType
from typing import Any, Self

from headrace.capture.errors import InvalidCapture
from headrace.capture.progress import CaptureProgress
from headrace.capture.running import CaptureRuns
from headrace.kafka import Cluster
from headrace.settings import CaptureSettings, InvalidSetting, KafkaSettings, load_settings


class Capture:
    """A database whose changes become streams.

        with Capture("postgresql://shop@localhost/shop", tables=["orders"], to="shop"):
            ...

    Args:
        url: The database.
        tables: Its tables; * and ? are wildcards.
        to: How the names of its topics begin.
        kafka: The cluster; the one of headrace.toml if None.
        options: What else a [[capture]] in headrace.toml can say, under the same names.
    """

    def __init__(
        self,
        url: str,
        *,
        tables: "list[str] | tuple[str, ...]",
        to: str,
        kafka: KafkaSettings | None = None,
        **options: Any,
    ) -> None:
        try:
            self.settings = CaptureSettings(url=url, tables=tuple(tables), to=to, **options)
        except (InvalidSetting, TypeError) as error:
            raise InvalidCapture(f"This capture cannot be: {error}") from None
        self._cluster = Cluster(kafka or load_settings().kafka)
        self._runs: CaptureRuns | None = None

    @property
    def progress(self) -> CaptureProgress:
        """How far it has got."""
        if self._runs is None:
            return CaptureProgress(self.settings.called)
        return self._runs.runs[0].progress

    def start(self) -> Self:
        """Begin; returns at once."""
        self._runs = CaptureRuns([self.settings], self._cluster).start()
        return self

    def run(self) -> None:
        """Capture until it fails or the program is interrupted."""
        self.start()
        assert self._runs is not None
        try:
            self._runs.runs[0].wait()
        finally:
            self.stop()

    def stop(self) -> None:
        """End it, and wait for that; raises what it failed with."""
        if self._runs is not None:
            self._runs.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
