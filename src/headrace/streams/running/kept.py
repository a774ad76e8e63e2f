"""What a flow keeps between batches, looked up in its checkpoints.

    for query in kept_by(spark, root, version):
        for operator in query.operators:
            print(query.output, operator.name, operator.watermark, operator.tables)

What is read is the state after the last batch that is done, whether the flow runs or not. Spark
reads it, so a session is needed, but no cluster.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.streams.names import did_you_mean
from headrace.streams.running.checkpoints import committed_in, manifest_in
from headrace.streams.running.errors import VersionRefused
from headrace.streams.running.places import Place, root_of
from headrace.streams.running.promoting import require_known
from headrace.streams.running.registry import RegistryFile
from headrace.streams.session import stateful_session
from headrace.streams.state.errors import StateError
from headrace.streams.state.inspecting import OperatorState, operators, state_rows
from headrace.streams.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.streams.flow import Flow


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A table of an operator, and where it is."""

    output: str
    """The output that its query is named after."""

    operator: OperatorState
    name: str
    location: str

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are looked up by."""
        return next(each.key for each in self.operator.tables if each.name == self.name)

    def rows(self, spark: "SparkSession", key: Mapping[str, str] | None = None) -> "DataFrame":
        """Its rows; with `key`, those whose columns have these values, as text.

        Raises StateError for a column that rows are not looked up by.
        """
        from pyspark.sql.functions import col

        found = state_rows(spark, self.location, self.name, operator=self.operator.number)
        for column, value in (key or {}).items():
            if column not in self.key:
                raise StateError(
                    f"Table {self.name} of output {self.output} is not kept by {column}; "
                    f"{did_you_mean(column, self.key)}"
                )
            found = found.where(col(f"`{column}`").cast("string") == value)
        return found


@dataclass(frozen=True, slots=True)
class QueryState:
    """What one query of a flow keeps."""

    output: str
    location: str
    operators: tuple[OperatorState, ...]
    by_spark: tuple[str, ...]
    """What Spark keeps for it by itself, in words."""

    @property
    def tables(self) -> Iterator[KeptTable]:
        """Every table of every operator."""
        for operator in self.operators:
            for table in operator.tables:
                yield KeptTable(self.output, operator, table.name, self.location)


def version_of(root: Place, flow: str, name: str | None = None) -> Version:
    """A version of a flow, by default the current one; VersionRefused if none has run here."""
    registry = RegistryFile(root).read()
    if not registry.flows:
        raise VersionRefused(
            f"No flow has run with the checkpoints in {root.address} yet. If {flow} has its "
            "checkpoints elsewhere, name that directory with --checkpoints, or in headrace.toml as "
            "[streams] checkpoints."
        )
    version = registry.current(flow) if name is None else Version(flow, name)
    require_known(registry, version)
    return version


def kept_by(spark: "SparkSession", root: Place, version: Version) -> list[QueryState]:
    """The state of every query of a version that has any; StateError if none has."""
    place = root.child(version.title)
    outputs = RegistryFile(root).read().flows[version.flow].versions[version.name]
    queries = sorted({each.query or name for name, each in outputs.items()})
    stateful = stateful_session(spark)
    found = [each for name in queries if (each := _kept(stateful, place.child(name), name))]
    if not found:
        raise StateError(
            f"Flow {version.title} keeps no state: nothing that its outputs "
            f"{', '.join(queries)} do needs to remember anything, or no batch is done yet."
        )
    return found


def chosen(queries: list[QueryState], operator: str) -> list[QueryState]:
    """The queries with an operator, by its name, its output's, or both with a dot in between.

    Raises StateError if there is none.
    """
    found: list[QueryState] = []
    names: list[str] = []
    for query in queries:
        named = {f"{query.output}.{each.name}": each for each in query.operators}
        kept = tuple(
            each for full, each in named.items() if operator in (full, each.name, query.output)
        )
        names += named
        if kept:
            found.append(QueryState(query.output, query.location, kept, ()))
    if not found:
        raise StateError(f"There is no operator {operator}; {did_you_mean(operator, names)}")
    return found


def tables_of(queries: list[QueryState], name: str | None = None) -> list[KeptTable]:
    """All tables, or those of a name; StateError if there is none."""
    tables = [each for query in queries for each in query.tables]
    if not (found := [each for each in tables if name in (None, each.name)]):
        names = dict.fromkeys(each.name for each in tables)
        raise StateError(f"No operator keeps a table {name}; {did_you_mean(str(name), names)}")
    return found


def rows_kept(flow: "Flow", table: str, operator: str | None = None) -> "DataFrame":
    """The rows of a table that a flow's current version keeps."""
    root = root_of(flow.settings.streams, lambda: flow.spark)
    queries = kept_by(flow.spark, root, version_of(root, flow.name))
    if operator is not None:
        queries = chosen(queries, operator)
    named = tables_of(queries, table)
    if len(named) > 1:
        outputs = ", ".join(f'operator="{each.output}"' for each in named)
        raise StateError(f"Several operators keep a table {table}; say which one: {outputs}.")
    return named[0].rows(stateful_session(flow.spark))


def _kept(spark: "SparkSession", place: Place, output: str) -> QueryState | None:
    manifest = manifest_in(place)
    if manifest is None or committed_in(place) is None:
        return None
    location = place.child("spark").address
    if manifest.operators:
        return QueryState(output, location, tuple(operators(spark, location)), ())
    return QueryState(output, location, (), manifest.state) if manifest.state else None
