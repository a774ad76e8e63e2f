"""How a program with flows was started: by itself, or by `headrace run` with options of its own."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.settings import Settings, load_settings

if TYPE_CHECKING:
    from headrace.streams.flow import Flow
    from headrace.streams.running.progress import QueryProgress


@dataclass
class Launch:
    """The options that a run has, and the flows that were met on the way to it."""

    once: bool = False
    metrics: str | None = None
    flow: str | None = None
    """The only one to be run, if not all."""

    rebuild: str | None = None
    """The version to be run, beside the current one; None runs that."""

    serve: bool | str = False
    """Whether views are served from the same process, or where."""

    given: Settings | None = None
    flows: list["Flow"] = field(default_factory=list)
    started: list["Flow"] = field(default_factory=list)
    stopped_by: int = 0
    """The signal that cut short a run that was to read everything, if one did."""

    unfinished: list["QueryProgress"] = field(default_factory=list)
    """The queries that had not read everything then."""

    @cached_property
    def settings(self) -> Settings:
        """Those given, else what headrace.toml and the environment say."""
        return self.given if self.given is not None else load_settings()

    def defined(self, flow: "Flow") -> None:
        """A program has made a flow."""
        self.flows.append(flow)

    def wants(self, flow: "Flow") -> bool:
        """Whether a flow is to be run."""
        return self.flow is None or self.flow == flow.name

    def ran(self, flow: "Flow") -> None:
        """A program runs a flow by itself."""
        self.started.append(flow)

    def cut_short(self, by: int, unfinished: "Iterable[QueryProgress]") -> None:
        """A run that was to read everything was told to stop before."""
        self.stopped_by = by
        self.unfinished += unfinished


_current: ContextVar[Launch | None] = ContextVar("headrace_launch", default=None)


def current_launch() -> Launch | None:
    """The launch that the code is run by; None if it is a program of its own."""
    return _current.get()


@contextmanager
def launching(launch: Launch) -> Iterator[Launch]:
    """Let flows that are made inside belong to a launch."""
    token = _current.set(launch)
    try:
        yield launch
    finally:
        _current.reset(token)
