"""What `headrace up` runs: each part is a name and a command."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.settings import Settings, split_address


class CannotSupervise(HeadraceError):
    """The settings describe something that cannot be run."""


class Stage(IntEnum):
    """Parts start when those of earlier stages are ready, and stop when later ones are gone."""

    BROKER = 0
    FIRST = 1
    WORK = 2
    CONSOLE = 3


@dataclass(frozen=True, slots=True)
class Part:
    """One process to keep running."""

    name: str
    kind: str
    """What it is: broker, capture, flow, views, sinks, console or program."""

    command: tuple[str, ...]
    stage: Stage = Stage.WORK
    address: str | None = None
    """Where it answers once it is ready; None if it is ready as soon as it runs."""

    again: bool = True
    """Whether it is started again when it ends well; when it does not, it always is."""

    file: str = ""
    """The file of a flow."""

    def rebuilt_as(self, version: str) -> "Part":
        """The same flow as another version, from the beginning."""
        command = (*self.command, "--rebuild", version)
        return replace(self, name=f"{self.name}@{version}", command=command)


def parts_of(settings: Settings, config: Path | None = None) -> list[Part]:
    """All parts in the order in which they start; CannotSupervise if two have one name."""
    headrace: tuple[str, ...] = (sys.executable, "-m", "headrace")
    if config is not None:
        headrace = (*headrace, "--config", str(config))
    parts = sorted(_parts(settings, headrace), key=lambda part: part.stage)
    names = [part.name for part in parts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise CannotSupervise(f"Two parts are called {twice.pop()}; give one another name.")
    return parts


def _parts(settings: Settings, headrace: tuple[str, ...]) -> Iterator[Part]:
    up = settings.up
    if up.broker:
        yield _broker(settings, headrace)
    if settings.capture.captures:
        yield Part("captures", "capture", (*headrace, "capture", "run"))
    for file in up.flows:
        if not Path(file).is_file():
            raise CannotSupervise(f"[up] flows names {file}, and there is no such file.")
        yield Part(Path(file).stem, "flow", (*headrace, "run", file), file=file)
    if up.serve and (up.flows or settings.view.views):
        address = reachable(settings.serve.address)
        yield Part("views", "views", (*headrace, "serve"), address=address)
    if settings.sink.sinks:
        yield Part("sinks", "sinks", (*headrace, "sink"))
    for each in up.parts:
        yield Part(
            each.called,
            "program",
            each.command,
            Stage.FIRST if each.first else Stage.WORK,
            each.address,
            each.again,
        )
    if up.console:
        yield Part(
            "console",
            "console",
            (*headrace, "console"),
            Stage.CONSOLE,
            reachable(settings.console.listen),
        )


def _broker(settings: Settings, headrace: tuple[str, ...]) -> Part:
    listen, bootstrap = settings.broker.listen, settings.kafka.bootstrap
    ports = [split_address(each)[1] for each in bootstrap.split(",")]
    if split_address(listen)[1] not in ports:
        raise CannotSupervise(
            f"The broker would listen at {listen}, and everything else would look for it at "
            f"{bootstrap}. Let [broker] listen and [kafka] bootstrap name one port; or set [up] "
            "broker = false, if that cluster runs already."
        )
    return Part("broker", "broker", (*headrace, "broker"), Stage.BROKER, reachable(listen))


def reachable(listen: str) -> str:
    """The address at which this machine itself finds what listens there."""
    host, port = split_address(listen)
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "::", "") else listen  # noqa: S104


def listed(parts: Iterable[Part]) -> str:
    """The names of parts, for people."""
    return ", ".join(part.name for part in parts)
