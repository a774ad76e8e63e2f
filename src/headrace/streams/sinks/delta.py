"""Batches into Delta tables, exactly once: each is one transaction of the table.

Delta keeps for every application that says so the number of its last transaction, in the commit of
that transaction. Here the application is the query and the number is the batch's, so a batch that
comes again is recognised by Delta itself, and so is one of somebody whose time is over.

    stream    the batch is appended
    table     MERGE: rows replace those with the same key, or delete them

Which sessions can do that is in `delta_library`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.sinks.contract import Batch, Outcome, Written
from headrace.views.stores import RowRefused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APPLICATION: Final = "spark.databricks.delta.write.txnAppId"
_TRANSACTION: Final = "spark.databricks.delta.write.txnVersion"
_DELETED: Final = "_deleted"
_ORDER: Final = "_headrace_order"


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """Keeps rows in a Delta table, which is made if it is missing; columns are added to it."""

    location: str
    table: str
    key: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where the table is; of directories the whole path, since Java may be elsewhere."""
        place = f"{self.location.rstrip('/')}/{self.table}"
        return place if "://" in place else str(Path(place).absolute())

    def write_batch(self, batch: Batch, rows: "DataFrame") -> Written:
        """Write a batch as one transaction; nothing if it is there already.

        Raises RowRefused, and writes nothing, if a part of a row's key is null.
        """
        spark = rows.sparkSession
        kept = (_latest(rows, self.key) if self.key else rows).persist()
        try:
            count = kept.count()
            if not count:
                return Written(Outcome.WRITTEN)
            before = _last_commit(spark, self.path)
            if self.key:
                _require_keys(kept, self.key)
                if before is None:
                    # Not a part of the transaction, which would count as done then.
                    empty = kept.drop(_DELETED).limit(0)
                    empty.write.format("delta").mode("ignore").save(self.path)
                    before = _last_commit(spark, self.path)
            if self.key:
                with _transaction(spark, batch):
                    self._merge(kept)
            else:
                self._append(batch, kept)
            if _last_commit(spark, self.path) == before:
                return Written(Outcome.REPEATED)
            return Written(Outcome.WRITTEN, count)
        finally:
            kept.unpersist()

    def _append(self, batch: Batch, rows: "DataFrame") -> None:
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        writer.options(txnAppId=batch.query, txnVersion=str(batch.id)).save(self.path)

    def _merge(self, rows: "DataFrame") -> None:
        condition = " AND ".join(f"kept.{_quoted(name)} = new.{_quoted(name)}" for name in self.key)
        names = [_quoted(name) for name in rows.columns if name != _DELETED]
        values = {name: f"new.{name}" for name in names}
        merge = (
            _tables(rows.sparkSession)
            .forPath(rows.sparkSession._jsparkSession, self.path)
            .alias("kept")
            .merge(rows.alias("new")._jdf, condition)
            .withSchemaEvolution()
        )
        if _DELETED in rows.columns:
            merge = merge.whenMatched(f"new.{_DELETED}").delete()
            merge = merge.whenNotMatched(f"NOT new.{_DELETED}").insertExpr(values)
        else:
            merge = merge.whenNotMatched().insertExpr(values)
        merge.whenMatched().updateExpr(values).execute()


@contextmanager
def _transaction(spark: "SparkSession", batch: Batch) -> Iterator[None]:
    """Let the one commit that is made inside say of which batch it is; MERGE has no options."""
    spark.conf.set(_APPLICATION, batch.query)
    spark.conf.set(_TRANSACTION, str(batch.id))
    try:
        yield
    finally:
        spark.conf.unset(_APPLICATION)
        spark.conf.unset(_TRANSACTION)


def _latest(rows: "DataFrame", key: tuple[str, ...]) -> "DataFrame":
    """Of each key the row that came last; those of one key are in one partition, in order."""
    from pyspark.sql import Window
    from pyspark.sql.functions import col, monotonically_increasing_id, row_number

    numbered = rows.withColumn(_ORDER, monotonically_increasing_id())
    last = Window.partitionBy(*map(_quoted, key)).orderBy(col(_ORDER).desc())
    return numbered.withColumn(_ORDER, row_number().over(last)).where(f"{_ORDER} = 1").drop(_ORDER)


def _require_keys(rows: "DataFrame", key: tuple[str, ...]) -> None:
    """Refuse the batch for a row that no key tells from others."""
    missing = " OR ".join(f"{_quoted(name)} IS NULL" for name in key)
    if found := rows.where(missing).head(1):
        row = found[0].asDict(recursive=True)
        (name, *_) = (name for name in key if row[name] is None)
        raise RowRefused(
            f"The store refuses a row: {name} is null, and it is a part of the key. The row: "
            f"{row}. A Delta table takes a batch as a whole, so there are no dead letters; leave "
            "such rows out with where()."
        )


def _last_commit(spark: "SparkSession", path: str) -> int | None:
    """The version of a table; None if there is no table."""
    tables, session = _tables(spark), spark._jsparkSession
    if not tables.isDeltaTable(session, path):
        return None
    return int(tables.forPath(session, path).history(1).collectAsList().get(0).getLong(0))


def _tables(spark: "SparkSession") -> Any:
    """Delta's own way to its tables, in Java."""
    java: Any = spark.sparkContext._jvm
    return java.io.delta.tables.DeltaTable


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
