"""A process that holds a lease until it is killed, and says so."""

import sys
import threading

from headrace.kafka.lease import leased
from headrace.settings import KafkaSettings


def main(bootstrap: str, name: str, holder: str) -> None:
    """Take the lease, and wait to lose it."""
    lost = threading.Event()
    settings = KafkaSettings(bootstrap=bootstrap)
    with leased(settings, name, holder=holder, lost=lambda taken: lost.set()):
        print("held", flush=True)
        lost.wait()
        print("lost", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
