"""`python -m examples.shop`, from the root of the repository; `make demo` runs this."""

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from confluent_kafka import KafkaException
from rich.console import Console

from examples.shop.demo import DemoSettings, run
from examples.shop.lines import Lines
from examples.shop.picture import Picture
from examples.shop.screen import Screen
from examples.shop.verdict import Verdict, table
from headrace.errors import HeadraceError


def main() -> int:
    """Run the demo; 0 if every number agrees at the end."""
    arguments = _arguments()
    picture: Path | None = arguments.pop("picture")
    console = Console()
    stop = threading.Event()
    _stop_on_signals(stop)
    console.print("Starting a broker, a shop and two departments ...")
    try:
        verdict = run(DemoSettings(**arguments), _display(console, picture), stop)
    except (HeadraceError, KafkaException) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    _report(verdict, console)
    return 0 if verdict.agrees else 1


def _arguments() -> dict[str, Any]:
    defaults = DemoSettings()
    parser = argparse.ArgumentParser(prog="python -m examples.shop", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=_positive,
        default=os.environ.get("DEMO_SECONDS") or None,
        help="end by itself after this long (DEMO_SECONDS)",
    )
    parser.add_argument(
        "--rate",
        type=_positive,
        default=os.environ.get("RATE") or defaults.rate,
        help="events per second (RATE)",
    )
    parser.add_argument(
        "--cycle-seconds",
        type=_positive,
        default=defaults.cycle_seconds,
        help="how often a member leaves and comes back",
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, help="of the simulation")
    parser.add_argument("--bootstrap", help="host:port of a cluster to use instead of a broker")
    parser.add_argument("--picture", type=Path, help="draw the last screen into this SVG file")
    return vars(parser.parse_args())


def _positive(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return number


def _display(console: Console, picture: Path | None) -> Lines | Picture | Screen:
    if picture is not None:
        return Picture(picture)
    return Screen(console) if console.is_terminal else Lines()


def _stop_on_signals(stop: threading.Event) -> None:
    """The first signal ends the demo in order; a second one ends it at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handle)


def _report(verdict: Verdict, console: Console) -> None:
    console.print(table(verdict))
    redelivered = sum(group.redelivered for group in verdict.groups)
    if redelivered:
        console.print(f"{redelivered:,} events came twice after a member left; they count once.")
    for problem in verdict.problems():
        console.print(f"[red]{problem}[/]")
    if verdict.agrees:
        console.print("[green]All numbers agree.[/] Nothing was lost, nothing was counted twice.")


if __name__ == "__main__":
    sys.exit(main())
