"""Whether anybody listens at an address, and in the system's own words why not."""

import socket

from headrace.settings import split_address

_SECONDS = 3.0
"""How long one address may take to accept a connection."""


def reason_nobody_answers(addresses: str) -> str | None:
    """None if one of the addresses accepts a connection, else why the last one does not.

    A plain connection settles within milliseconds what librdkafka, which retries for as long as
    it is asked to, only reports after its timeout.
    """
    reason = "no address was given"
    for address in addresses.split(","):
        host, port = split_address(address)
        try:
            socket.create_connection((host, port), _SECONDS).close()
        except socket.gaierror:
            reason = f"the name {host} is not known"
        except TimeoutError:
            reason = f"no answer within {_SECONDS:g} s"
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
        else:
            return None
    return reason
