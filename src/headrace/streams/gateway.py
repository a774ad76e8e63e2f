"""The Java process under Spark: out of reach of a terminal's signals, and gone when we are."""

import os
import signal
import subprocess
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

_SECONDS = 30
"""How long Java may take to end by itself."""


def start_java(properties: Mapping[str, str]) -> bool:
    """Start Spark's Java where the signals of this process' terminal do not reach it.

    Ctrl-C goes to everything that a terminal runs, and SIGTERM often to a whole process group; Java
    has to outlive both until the batch that is running is done. It ends with this process, however
    that ends, since its stdin does. Whatever is raised meanwhile ends it, too.

    Returns False, and does nothing, if there is one already.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return False
    launch: Callable[..., Any] = launch_gateway
    try:
        configured = SparkConf().setAll(list(properties.items()))
        gateway = launch(configured, popen_kwargs={"start_new_session": True})
    except BaseException as error:
        # PySpark keeps the process to itself until that answers.
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if isinstance(process := frame.f_locals.get("proc"), subprocess.Popen):
                _kill(process)
        raise
    SparkContext._ensure_initialized(gateway=gateway)
    return True


def end_java() -> None:
    """End Spark's Java, if there is one, and wait for that."""
    from pyspark import SparkContext

    if (gateway := SparkContext._gateway) is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    with suppress(Exception):  # of a Java that is gone already
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    if process is None:
        return
    # Spark's gateway ends when its stdin does.
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with all that it has started, of which it is the group's leader."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
