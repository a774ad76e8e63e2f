"""`make chaos`: a long run of the checker, whose seed decides what happens.

python -m tests.chaos --seconds 300 --seed 42
"""

import argparse
import contextlib
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.bugs import BUGS
from tests.chaos.checker import Anomaly, check
from tests.chaos.history import Event, Outcome, read_history, write_history
from tests.chaos.nemeses import EVERYTHING, FROM_OUTSIDE
from tests.chaos.run import Plan, execute
from tests.chaos.targets import apache_kafka_target, headrace_target

SHOWN = 20
"""How many anomalies are printed; all are in the history."""

SHORTEST_SECONDS = 5.0
"""The shortest round in which clients get anything done between two faults."""

Arguments = argparse.Namespace


def main() -> int:
    """Run, judge, and say what was found; 1 if a promise was broken."""
    arguments = parse_arguments()
    if arguments.judge:
        return _report(check(read_history(arguments.judge)), read_history(arguments.judge))
    deadline = time.monotonic() + arguments.seconds
    rounds = 0
    # Every round has a fresh data directory and a seed of its own, which repeats it alone.
    while rounds == 0 or time.monotonic() < deadline:
        seed = arguments.seed if rounds == 0 else f"{arguments.seed}.{rounds}"
        seconds = min(arguments.round, max(deadline - time.monotonic(), SHORTEST_SECONDS))
        rounds += 1
        history = _round(arguments, seed, seconds)
        anomalies = check(history)
        if _report(anomalies, history):
            arguments.histories.mkdir(parents=True, exist_ok=True)
            path = arguments.histories / f"chaos-{seed}.jsonl"
            write_history(path, history)
            print(f"the history is in {path}; this repeats the run:")
            print(f"  {_command(arguments, seed, seconds)}")
            return 1
    print(f"{rounds} rounds, no promise broken")
    return 0


def _round(arguments: Arguments, seed: str, seconds: float) -> Sequence[Event]:
    faults: tuple[str, ...] = arguments.faults
    with contextlib.ExitStack() as resources:
        if arguments.apache_kafka:
            target = resources.enter_context(apache_kafka_target())
            plan_faults = faults or FROM_OUTSIDE
        else:
            target = resources.enter_context(  # type: ignore[assignment]
                headrace_target(flush=arguments.flush, bug=arguments.bug)
            )
            plan_faults = faults or EVERYTHING
        plan = Plan(
            seed,
            seconds,
            plan_faults,
            partitions=arguments.partitions,
            transactions=not arguments.no_transactions,
        )
        print(f"seed {seed}: {seconds:.0f} s of {', '.join(plan_faults)}", flush=True)
        return execute(plan, target, _progress if sys.stderr.isatty() else None)


def _progress(line: str) -> None:
    print(f"\r{line}   ", end="", file=sys.stderr, flush=True)


def _report(anomalies: Sequence[Anomaly], history: Sequence[Event]) -> int:
    kinds = Counter(type(event).__name__ for event in history)
    acknowledged = sum(
        getattr(event, "outcome", None) is Outcome.OK and type(event).__name__ == "Delivered"
        for event in history
    )
    print(
        f"{kinds['Fault']} faults, {kinds['Send']} records sent, {acknowledged} acknowledged, "
        f"{kinds['End']} transactions ended, {kinds['Poll']} polls: "
        f"{len(anomalies) or 'no'} anomalies"
    )
    for anomaly in anomalies[:SHOWN]:
        print(f"  {anomaly}")
    if len(anomalies) > SHOWN:
        print(f"  ... {dict(Counter(str(anomaly.promise) for anomaly in anomalies))}")
    return int(bool(anomalies))


def _command(arguments: Arguments, seed: str, seconds: float) -> str:
    words = ["python -m tests.chaos", f"--seed {seed}", f"--seconds {seconds:.0f}"]
    words += [f"--flush {arguments.flush}", f"--partitions {arguments.partitions}"]
    if arguments.faults:
        words.append(f"--faults {','.join(arguments.faults)}")
    if arguments.bug:
        words.append(f"--bug {arguments.bug}")
    if arguments.no_transactions:
        words.append("--no-transactions")
    if arguments.apache_kafka:
        words.append("--apache-kafka")
    return " ".join(words)


def parse_arguments(words: Sequence[str] | None = None) -> Arguments:
    """What a command line asks for; a usage error if that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=_seconds, default=60, help="how long to go on")
    parser.add_argument("--round", type=_seconds, default=60, help="the longest of a single round")
    parser.add_argument("--seed", default="", help="decides everything; made up if not given")
    parser.add_argument("--flush", default="ack", choices=("ack", "interval", "os"))
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument(
        "--faults", type=_faults, default=(), help=f"some of {','.join(EVERYTHING)}"
    )
    parser.add_argument("--no-transactions", action="store_true", help="idempotent producers only")
    parser.add_argument("--apache-kafka", action="store_true", help="run against Apache Kafka")
    parser.add_argument("--bug", choices=sorted(BUGS), help="put a bug in on purpose")
    parser.add_argument("--histories", type=Path, default=Path("chaos-histories"))
    parser.add_argument("--judge", type=Path, metavar="FILE", help="check an old history again")
    arguments = parser.parse_args(words)
    from_inside = set(arguments.faults) - set(FROM_OUTSIDE)
    if arguments.apache_kafka and from_inside:
        parser.error(f"Apache Kafka can only be given {','.join(FROM_OUTSIDE)}")
    arguments.seed = arguments.seed or secrets.token_hex(4)
    return arguments


def _faults(written: str) -> tuple[str, ...]:
    faults = tuple(filter(None, written.split(",")))
    if unknown := [fault for fault in faults if fault not in EVERYTHING]:
        known = ", ".join(EVERYTHING)
        raise argparse.ArgumentTypeError(f"there is no fault {unknown[0]}; there are {known}")
    return faults


def _seconds(written: str) -> float:
    seconds = float(written)
    if not seconds >= SHORTEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{written} is too short; say {SHORTEST_SECONDS:g} or more"
        )
    return seconds


if __name__ == "__main__":
    sys.exit(main())
