"""One quiet SparkSession, set up for flows.

Whoever has a session of their own uses that; `spark_session` is for everybody else. It finds Java,
starts Spark with the settings of [streams], silences what Spark says to programmers of Spark, and
says when it begins and when it is done.
"""

import atexit
import logging
import os
import signal
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.settings import StreamsSettings, split_address
from headrace.streams.errors import SparkFailed, SparkMissing
from headrace.streams.gateway import end_java, start_java
from headrace.streams.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = """\
status = error
appender.nothing.type = Null
appender.nothing.name = nothing
rootLogger.level = off
rootLogger.appenderRef.nothing.ref = nothing
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
"""Log4j's configuration: nothing is said, since what fails reaches the caller as an exception.

Without an appender Spark would fall back on its own configuration, and if the gateway had no level
of its own, Spark would announce the one that it chose for it.
"""

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""What PySpark logs every exception by that it raises, as a page of JSON."""

_LOCAL_CHECKPOINTS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""For checkpoints in a directory, where renaming is atomic.

What Spark takes otherwise starts several processes (`stat`, `chmod`) for each of the two files that
every batch writes, and writes a checksum file beside each: on two busy cores 220 and 290 ms of a
batch instead of 12 and 14.
"""

_BATCHES_BY_ROWS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
}
"""For rows on their way to Python: batches that are limited by their rows instead of their bytes.

With a limit of bytes, Spark measures a batch again after each row, which takes as long as all else
that it does to the row; the largest number switches that off. A thousand rows, each as large as a
broker takes by default, are a gigabyte, half of what an Arrow column can hold.
"""

_LOCAL_FILES = "spark.hadoop.fs.file.impl"
_SECRETS = "(?i)url|password|secret|token|pem"
"""What options of a source are not shown: Spark's own, and those that open a Kafka cluster."""

STATE_LIMIT = "spark.headrace.state.limit"
STATE_MEMORY = "spark.headrace.state.memory"
"""Properties of a session that operators with state find their limits in, in bytes."""

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def spark_session(
    settings: StreamsSettings | None = None, *, name: str = "headrace", delta: bool = False
) -> "SparkSession":
    """The session of this process, started if there is none yet; a few seconds the first time.

    One that is there already is used as it is, with whatever it was set up for. With `delta`, one
    that is started can write Delta tables.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkMissing(
            "Flows run on Spark, which is not installed; `pip install 'headrace[spark]'`."
        ) from None
    if (running := SparkSession.getActiveSession()) is not None:
        return running
    if (running := SparkSession._instantiatedSession) is not None and not _stopped(running):
        return running
    return _start(settings or StreamsSettings(), find_java(), name, delta=delta)


def stateful_session(spark: "SparkSession") -> "SparkSession":
    """A session of the same Spark whose queries can keep state by key.

    Spark copies what its store holds through Hadoop's local file system with checksums, and the
    session for other queries has the one without, which is quicker (`_LOCAL_CHECKPOINTS`).
    """
    stateful = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if stateful.conf.isModifiable(name) and stateful.conf.get(name, None) != value:
            stateful.conf.set(name, value)
    if spark.conf.get(_LOCAL_FILES, None) is not None:
        stateful.conf.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
        stateful.conf.set("fs.file.impl.disable.cache", "true")
    return stateful


def stop_session() -> None:
    """Stop the session of this process and the Java behind it, if there is one."""
    from pyspark import SparkContext

    from headrace.streams.fork_server import end_servers

    context = SparkContext._active_spark_context
    if context is not None:
        context.stop()
    end_java()
    end_servers()


def configuration(settings: StreamsSettings, *, scratch: Path) -> dict[str, str]:
    """Spark's properties for flows; [streams] properties win over what is chosen here."""
    cores = _cores(settings.master)
    memory = f"{settings.memory >> 20}m"
    java_options = f"-Dlog4j2.configurationFile=file:{scratch / 'log4j2.properties'}"
    chosen = {
        "spark.driver.extraJavaOptions": java_options,
        "spark.driver.memory": memory,
        "spark.executor.memory": memory,
        "spark.log.structuredLogging.enabled": "false",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        # Over TCP, a Python task waited 40 ms between its function and its partition, as long as
        # an acknowledgement may be delayed.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.reuse": "true",
        # Tasks share the cores already, as Spark says to other libraries by OMP_NUM_THREADS.
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.partitions or cores),
        STATE_LIMIT: str(settings.state_limit),
        STATE_MEMORY: str(settings.state_memory),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stopTimeout": "0",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.redaction.options.regex": _SECRETS,
        **_BATCHES_BY_ROWS,
        **_addresses(settings),
        **({} if "://" in settings.checkpoints else _LOCAL_CHECKPOINTS),
    }
    return {**chosen, **settings.properties}


def _addresses(settings: StreamsSettings) -> dict[str, str]:
    addresses: dict[str, str] = {}
    if settings.ui is not None:
        host, port = split_address(settings.ui)
        addresses |= {"spark.ui.enabled": "true", "spark.ui.port": str(port), "spark.ui.host": host}
    if _is_here(settings.master):
        # Nobody on other machines has business with a Spark that is on this one.
        addresses |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return addresses


def _is_here(master: str) -> bool:
    """Whether all of Spark is on this machine: inside this process, or a cluster on loopback."""
    host = master.removeprefix("spark://").partition(":")[0]
    return master.startswith("local") or host.startswith("127.") or host == "localhost"


def _start(
    settings: StreamsSettings, java: Java, name: str, *, delta: bool = False
) -> "SparkSession":
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    from headrace.streams.fork_server import end_servers, start_server
    from headrace.streams.worker_daemon import forks_of, write_launcher

    began = time.monotonic()
    scratch = tempfile.TemporaryDirectory(prefix="headrace-spark-")
    atexit.register(scratch.cleanup)
    home = Path(scratch.name)
    properties = configuration(settings, scratch=home)
    advice = ""
    if delta:
        from headrace.streams.sinks.delta_library import reason_not_started, with_library

        properties = with_library(properties)
        advice = reason_not_started(properties)
    installed = _is_installed(settings.master, properties)
    if installed:
        properties["spark.pyspark.python"] = str(write_launcher(home, sys.executable))
        start_server(forks_of(home))
    java.write_launcher(home, installed_workers=installed)
    (home / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    builder = SparkSession.builder.master(settings.master).appName(name)
    for key, value in properties.items():
        builder = builder.config(key, value)
    java_home = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    # PySpark asks the environment, and not its configuration, what runs the tasks.
    os.environ["PYSPARK_PYTHON"] = properties["spark.pyspark.python"]
    announcement = _Announcement("Starting Spark ...")
    ours = False
    try:
        with _keeping_ctrl_c():
            ours = start_java(
                {"spark.master": settings.master, "spark.app.name": name, **properties}
            )
            session = builder.getOrCreate()
    except BaseException as error:
        announcement.withdraw()
        failed = SparkFailed(f"Spark did not start at {settings.master}: {error}{advice}")
        end_servers()
        if ours:
            end_java()
        if not isinstance(error, Exception):
            raise
        raise failed from error
    finally:
        if java_home is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = java_home
    session.sparkContext.setLogLevel("OFF")
    for each in _LOGGERS:
        PySparkLogger.getLogger(each).setLevel(logging.CRITICAL)
    announcement.replace_by(
        f"Spark {session.version} at {settings.master} on Java {java.version} ({java.found_by}), "
        f"started in {time.monotonic() - began:.1f} s"
    )
    return session


@contextmanager
def _keeping_ctrl_c() -> Iterator[None]:
    """Leave Ctrl-C to whoever handles it; PySpark takes it for itself when it starts.

    Where nobody does, PySpark's way is a good one: it cancels jobs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if handler not in (signal.default_int_handler, None):
            signal.signal(signal.SIGINT, handler)


class _Announcement:
    """A line on stderr that another takes the place of, where that is a terminal."""

    def __init__(self, line: str) -> None:
        self._rewritten = sys.stderr.isatty()
        print(line, end="" if self._rewritten else "\n", file=sys.stderr, flush=True)

    def replace_by(self, line: str) -> None:
        self.withdraw()
        print(line, file=sys.stderr, flush=True)

    def withdraw(self) -> None:
        if self._rewritten:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _is_installed(master: str, properties: Mapping[str, str]) -> bool:
    """Whether the Python processes of this Spark find PySpark by themselves, as this one does.

    From the zip file that Spark offers them, a process takes 1.3 s of a core to import what takes
    0.4 s as it was installed, and each start of a query starts one or more of them.
    """
    import pyspark

    if not master.startswith("local") or properties["spark.pyspark.python"] != sys.executable:
        return False
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return str(Path(pyspark.__file__).parents[1]) in places


def _stopped(session: "SparkSession") -> bool:
    return bool(session.sparkContext._jsc is None)


def _cores(master: str) -> int:
    """Cores that a master's name promises; for a cluster, which may have any, those here."""
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    if inside.isdecimal():
        return int(inside)
    return 1 if master == "local" else len(os.sched_getaffinity(0))
