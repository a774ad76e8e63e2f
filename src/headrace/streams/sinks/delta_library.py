"""Delta's library, which a Spark either has from its start or never.

Jars that are added to a running Spark are loaded twice in `local[*]`, once for the driver and once
for the tasks, and Delta refuses the second time. So whoever starts a Spark for flows that write
Delta tables starts it with the library: with the jars that are kept from the time before, else
with their names, by which Spark fetches them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.errors import SparkFailed
from headrace.streams.realtime.jars import cache_directory, file_name, ivy_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION: Final = "4.4.0"
_LIBRARY: Final = "io.delta:delta-spark_4.2_2.13"
PACKAGES: Final = (
    f"{_LIBRARY}:{_VERSION}",
    f"io.delta:delta-storage:{_VERSION}",
    f"io.delta:delta-kernel-api:{_VERSION}",
    f"io.delta:delta-kernel-defaults:{_VERSION}",
    f"io.delta:delta-kernel-unitycatalog:{_VERSION}",
)
"""All that is needed: the rest of what they depend on is Spark's, or for Unity Catalog."""

_NOT_NEEDED: Final = (
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "com.google.code.findbugs:*",
    "io.unitycatalog:*",
    "org.apache.hadoop:*",
    "org.apache.parquet:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
)

_JARS: Final = "spark.jars"
_PACKAGES: Final = "spark.jars.packages"
_EXCLUDED: Final = "spark.jars.excludes"
_IVY_SETTINGS: Final = "spark.jars.ivySettings"
_IVY_DIRECTORY: Final = "spark.jars.ivy"
_PLACES: Final = (_JARS, _PACKAGES, "spark.driver.extraClassPath")
"""Where jars are named that a Spark has from its start."""

_EXTENSIONS: Final = "spark.sql.extensions"
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_SHUFFLES: Final = "spark.sql.shuffle.partitions"
_SNAPSHOTS: Final = "spark.databricks.delta.snapshotPartitions"
"""In how many tasks the state of a table is put together, 50 unless it is said."""


def with_library(properties: Mapping[str, str], directory: Path | None = None) -> dict[str, str]:
    """Properties of a Spark that is to be started, with Delta's library added to them.

    Whoever names a library of Delta's already, in any of the places for jars, keeps that one.
    """
    found = dict(properties)
    if not any("delta-spark" in found.get(place, "") for place in _PLACES):
        directory = directory or Path(found.get(_IVY_DIRECTORY) or cache_directory())
        kept = [directory / "jars" / file_name(each) for each in PACKAGES]
        if all(each.is_file() for each in kept):
            _add(found, _JARS, *map(str, kept))
        else:
            _add(found, _PACKAGES, *PACKAGES)
            _add(found, _EXCLUDED, *_NOT_NEEDED)
            # Whoever has settings of their own, for a mirror, keeps them.
            found.setdefault(_IVY_SETTINGS, str(ivy_settings(directory)))
            found.setdefault(_IVY_DIRECTORY, str(directory))
    if _EXTENSION not in found.get(_EXTENSIONS, ""):
        _add(found, _EXTENSIONS, _EXTENSION)
    found.setdefault(_CATALOG, _DELTA_CATALOG)
    found.setdefault(_SNAPSHOTS, found.get(_SHUFFLES, "2"))
    return found


def reason_not_started(properties: Mapping[str, str]) -> str:
    """What to say besides if a Spark with these properties does not start; "" if nothing."""
    if PACKAGES[0] not in properties.get(_PACKAGES, "") or _IVY_DIRECTORY not in properties:
        return ""
    jars = Path(properties[_IVY_DIRECTORY]) / "jars"
    names = ", ".join(map(file_name, PACKAGES))
    return (
        f" A sink of Delta tables needs Delta's library for Spark, {PACKAGES[0]}, which had to be "
        "fetched; if that failed, the lines above say why. It is fetched once, from the public "
        f"Maven repository or the one that {_IVY_SETTINGS} in [streams.properties] names. Without "
        f"a network, put the jars into {jars}, as {names}; or write to Parquet files."
    )


def require_library(spark: "SparkSession") -> None:
    """Refuse a session that was started without Delta's library, and say what it needs.

    Raises SparkFailed.
    """
    java: Any = spark.sparkContext._jvm
    context = spark.sparkContext.getConf()
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        java.java.lang.Class.forName(_EXTENSION, False, loader)
    except Exception:
        known = False
    else:
        known = _EXTENSION in (spark.conf.get(_EXTENSIONS, None) or context.get(_EXTENSIONS, ""))
    if known:
        return
    raise SparkFailed(
        "A sink of Delta tables needs a Spark that was started with Delta's library, and the one "
        "that runs was not. A Spark that a run starts has it if a flow of that run writes to "
        "Delta. One of your own, or one that an earlier flow of the program started, needs these "
        "properties from its start, given to its builder or in [streams.properties]: "
        f'{_PACKAGES} = "{PACKAGES[0]}", {_EXTENSIONS} = "{_EXTENSION}" and '
        f'{_CATALOG} = "{_DELTA_CATALOG}".'
    )


def _add(properties: dict[str, str], name: str, *values: str) -> None:
    given = properties.get(name, "")
    properties[name] = ",".join((*([given] if given else []), *values))
