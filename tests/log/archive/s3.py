"""A store with S3's protocol on this machine."""

import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.testing.probe import free_ports

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def s3_server() -> Iterator[str]:
    """A server in a process of its own; its address."""
    pytest.importorskip("moto")
    pytest.importorskip("obstore")
    (port,) = free_ports(1)
    command = [sys.executable, "-c", SERVER, str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@contextmanager
def s3_bucket() -> Iterator[str]:
    """A bucket that is there while the block lasts, as does what it takes to get at it."""
    with s3_server() as address, pytest.MonkeyPatch.context() as environment:
        for name, value in credentials(address).items():
            environment.setenv(name, value)
        bucket = f"bucket-{uuid.uuid4().hex[:8]}"
        make_bucket(address, bucket)
        yield f"s3://{bucket}/some/prefix"


def credentials(address: str) -> dict[str, str]:
    """The variables by which a store is found and believes its user."""
    return {
        "AWS_ENDPOINT": address,
        "AWS_ACCESS_KEY_ID": "headrace",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


def make_bucket(address: str, name: str) -> None:
    request = urllib.request.Request(f"{address}/{name}", method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
