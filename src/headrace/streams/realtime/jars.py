"""Spark's Kafka connector: fetched when it is first used, and kept for the next time.

Spark fetches packages by Ivy, and by itself also looks into the machine's Maven directory, where
it takes a description without its jar for a find. So it is given settings of its own, with the
public repository that Ivy knows and a directory that nobody else writes to.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.errors import SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Each by itself, since what the connector says it depends on is not all published."""

_CLASS: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <resolvers><ibiblio name="public" m2compatible="true"/></resolvers>
</ivysettings>
"""
_SETTINGS_PROPERTY: Final = "spark.jars.ivySettings"
_CACHE_PROPERTY: Final = "spark.jars.ivy"

_DISPATCHERS: Final = "dispatcher-"
"""What the threads are called that start those which read what tasks send back."""


def cache_directory() -> Path:
    """Where the jars are kept."""
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "headrace" / "connector"


def ivy_settings(directory: Path) -> Path:
    """The file that tells Ivy where to look, written into the directory that jars are kept in."""
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "ivysettings.xml"
    settings.write_text(_SETTINGS, encoding="utf-8")
    return settings


def file_name(package: str) -> str:
    """What Spark calls the jar of a package in the directory that it keeps jars in.

    >>> file_name("org.apache.kafka:kafka-clients:3.9.2")
    'org.apache.kafka_kafka-clients-3.9.2.jar'
    """
    group, artifact, version = package.split(":")
    return f"{group}_{artifact}-{version}.jar"


def ensure_connector(spark: "SparkSession", directory: Path | None = None) -> None:
    """Make Spark's Kafka connector known to a session; doing it again changes nothing.

    Raises SparkFailed if it has to be fetched and cannot be.
    """
    if _is_known(spark):
        return
    directory = directory or cache_directory()
    for package in PACKAGES:
        kept = directory / "jars" / file_name(package)
        if kept.is_file():
            spark.sql(f"ADD JAR '{kept}'")
        else:
            _fetch(spark, package, directory)
    _let_results_be_read(spark)


def see_connector(spark: "SparkSession") -> None:
    """Let the calling thread, and those that Spark starts for it, find the connector's classes.

    Java looks for them where the thread does, and only the one that added the jars looks there.
    """
    java: Any = spark.sparkContext._jvm
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    java.java.lang.Thread.currentThread().setContextClassLoader(loader)


def _is_known(spark: "SparkSession") -> bool:
    java: Any = spark.sparkContext._jvm
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    try:
        java.java.lang.Class.forName(_CLASS, False, loader)
    except Exception:
        return False
    return True


def _fetch(spark: "SparkSession", package: str, directory: Path) -> None:
    java: Any = spark.sparkContext._jvm
    system = java.java.lang.System
    settings = ivy_settings(directory)
    before = {name: system.getProperty(name) for name in (_SETTINGS_PROPERTY, _CACHE_PROPERTY)}
    if before[_SETTINGS_PROPERTY] is None:
        # Whoever has settings of their own, for a mirror, keeps them.
        system.setProperty(_SETTINGS_PROPERTY, str(settings))
    system.setProperty(_CACHE_PROPERTY, str(directory))
    errors = system.err
    # Ivy tells Java's stderr what it does, in forty lines.
    system.setErr(java.java.io.PrintStream(java.java.io.ByteArrayOutputStream()))
    try:
        spark.sql(f"ADD JAR ivy://{package}?transitive=false")
    except Exception as error:
        lines = str(error).strip().splitlines()
        raise SparkFailed(
            f'trigger="realtime" needs Spark\'s Kafka connector, and {package} could not be '
            f"fetched: {lines[0] if lines else type(error).__name__} It is fetched once, from the "
            "public Maven repository or the one that spark.jars.ivySettings in [streams.properties]"
            f" names. Without a network, put the jars into {directory / 'jars'}, as "
            f"{file_name(package)} and so on; or leave the trigger out."
        ) from None
    finally:
        system.setErr(errors)
        for name, value in before.items():
            if value is None:
                system.clearProperty(name)
            else:
                system.setProperty(name, value)


def _let_results_be_read(spark: "SparkSession") -> None:
    """Let what reads the results of tasks find the connector's classes.

    A task of real-time mode sends its offsets back as objects of the connector. The threads that
    read them may be older than the jar, and look for classes where they did when they read their
    first result; so Spark is given a new reader, whose threads the dispatchers start.
    """
    java: Any = spark.sparkContext._jvm
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    for thread in java.java.lang.Thread.getAllStackTraces().keySet():
        if thread.getName().startswith(_DISPATCHERS):
            thread.setContextClassLoader(loader)
    context = spark._jsparkSession.sparkContext()
    scheduler = context.taskScheduler()
    reader = java.org.apache.spark.scheduler.TaskResultGetter(context.env(), scheduler)
    getattr(scheduler, "taskResultGetter_$eq")(reader)
