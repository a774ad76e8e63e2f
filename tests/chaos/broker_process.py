"""A real broker whose clock and disk can be steered: `python -m tests.chaos.broker_process`."""

import argparse
import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

from headrace.broker.event_loop import new_event_loop
from headrace.settings import BrokerSettings
from tests.chaos.steering import SteeredClock, SteeredDisk, Steering


async def serve(settings: BrokerSettings, clock: SteeredClock, disk: SteeredDisk) -> None:
    """Serve until SIGTERM, and say on the standard output when that begins."""
    from headrace.broker.server import Server

    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    server = Server(settings, clock=clock, disk=disk)
    await server.start()
    print(f"ready on {server.address}", flush=True)
    await stopping.wait()
    await server.stop()


def main() -> None:
    """Start as the command line says."""
    # As in headrace.broker.serve: kio would import it, and it takes longer than all the rest.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from tests.chaos.bugs import BUGS

    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=Path, required=True, help="socket to be steered through")
    parser.add_argument("--settings", type=json.loads, required=True, help="of [broker], as JSON")
    parser.add_argument("--steer", type=json.loads, default=[], help="messages to obey first")
    parser.add_argument("--bug", choices=sorted(BUGS), help="something to do wrong on purpose")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    clock, disk = SteeredClock(), SteeredDisk()
    steering = Steering(clock, disk)
    for message in arguments.steer:
        steering.obey(message)
    steering.listen(arguments.control)
    if arguments.bug:
        BUGS[arguments.bug]()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        settings = arguments.settings | {"data": Path(arguments.settings["data"])}
        runner.run(serve(BrokerSettings(**settings), clock, disk))


if __name__ == "__main__":
    main()
