"""`python -m examples.shop`, from the root of the repository; `make demo` runs this."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console

from examples.shop.demo import Demo, Wishes
from examples.shop.opening import opened
from examples.shop.verdict import Verdict, table
from examples.shop.visitors import RATE, positive
from headrace.errors import HeadraceError

_GIGABYTE: Final = 10**9


def main() -> int:
    """Run the demo; 0 if every number agrees at the end."""
    arguments = _arguments()
    console = Console(highlight=False)
    stop = threading.Event()
    _stop_on_signals(stop)
    console.print("Opening a shop: database, log, pipelines, views and a console ...")
    wishes = Wishes(arguments.seconds, arguments.chaos, arguments.seed)
    place = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    demo = Demo(opened(place, arguments.rate), wishes, console.print, stop)
    verdict, agrees = None, False
    try:
        verdict = demo.run()
        agrees = verdict is None or verdict.agrees
    except HeadraceError as error:
        print(f"demo: {error}", file=sys.stderr)
    finally:
        if agrees:
            shutil.rmtree(place, ignore_errors=True)
    if verdict is not None:
        _report(verdict, demo.memory_bytes, console)
    if not agrees:
        print(f"demo: all that is known of it is in {place}, also logs.", file=sys.stderr)
    return 0 if agrees else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.shop", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=positive,
        default=os.environ.get("DEMO_SECONDS") or None,
        help="end by itself after this long (DEMO_SECONDS)",
    )
    parser.add_argument(
        "--rate",
        type=positive,
        default=os.environ.get("RATE") or RATE,
        help="what visitors do in a second (RATE)",
    )
    parser.add_argument(
        "--chaos",
        metavar="PART",
        default=os.environ.get("DEMO_CHAOS") or None,
        help="kill -9 this part halfway through, or 1 for any process (DEMO_CHAOS)",
    )
    parser.add_argument(
        "--seed", type=int, default=os.getpid(), help="of the choice that chaos makes"
    )
    return parser.parse_args()


def _stop_on_signals(stop: threading.Event) -> None:
    """The first signal ends the demo in order; a second one ends it at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handle)


def _report(verdict: Verdict, memory_bytes: int, console: Console) -> None:
    console.print(table(verdict))
    if memory_bytes:
        console.print(f"It took {memory_bytes / _GIGABYTE:.2f} GB of memory at most.")
    for problem in verdict.problems():
        console.print(f"[red]{problem}[/]")
    if verdict.agrees:
        console.print("[green]All numbers agree.[/] Nothing was lost, nothing was counted twice.")


if __name__ == "__main__":
    sys.exit(main())
