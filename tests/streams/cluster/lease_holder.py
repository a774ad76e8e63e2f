"""A process that holds the lease of a flow until it is killed, and says so."""

import signal
import sys

from headrace.settings import KafkaSettings
from headrace.streams.running.lease import only_run


def main(bootstrap: str, flow: str, checkpoints: str) -> None:
    """Take the lease, and keep it."""
    with only_run(KafkaSettings(bootstrap=bootstrap), flow, checkpoints, print):
        print("held", flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
