"""`Flow`: the queries of a pipeline, their names, and the cluster and Spark that they run on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.settings import Settings
from headrace.streams.errors import InvalidFlow
from headrace.streams.graph import draw
from headrace.streams.launch import Launch, current_launch
from headrace.streams.names import checked_choice, checked_name
from headrace.streams.outputs import DeadLetterOutput, Output, SinkOutput, StoreOutput, TopicOutput
from headrace.streams.picture import picture
from headrace.streams.plan import Expression, Node, ReadTopics, require_columns, sources
from headrace.streams.positions import Position, position_option
from headrace.streams.reading import described_read
from headrace.streams.realtime.refusals import require_possible, require_trigger
from headrace.streams.rows import Rows, Stream, Table
from headrace.streams.stateful import WindowAggregate, operator_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.streams.batch import Batch
    from headrace.streams.connectors import Connector
    from headrace.streams.formats import SchemaLike
    from headrace.streams.running import FlowRun, RunReport
    from headrace.streams.sinks.contract import Sink
    from headrace.streams.time import Watermark


class Flow:
    """A named pipeline from topics to topics, tables and sinks.

        flow = Flow("shop")
        orders = flow.stream("orders", "customer string, price double, at timestamp", time="at")
        flow.topic("large-orders", orders.where("price > 100"), key="customer")
        flow.run()

    Describing a flow starts nothing. The name is what its checkpoints, consumer groups and
    transactions are found by: with another name it is another flow, which begins anew.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: Settings | None = None,
        bootstrap: str | None = None,
        spark: "SparkSession | None" = None,
    ) -> None:
        self._name = checked_name(name, "flow")
        self._launch = current_launch()
        self._settings = settings
        self._bootstrap = bootstrap
        self._spark = spark
        self._reads: list[ReadTopics] = []
        self._outputs: dict[str, Output] = {}
        if self._launch is not None:
            self._launch.defined(self)

    @property
    def name(self) -> str:
        """What checkpoints, groups and transactions of this flow begin with."""
        return self._name

    @property
    def reads(self) -> tuple[ReadTopics, ...]:
        """Every stream and table that was described, in that order, written anywhere or not."""
        return tuple(self._reads)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Every query that a run starts, dead letters included, in the order of description."""
        return tuple(self._outputs.values())

    @property
    def settings(self) -> Settings:
        """The settings given, else those of the command that runs this, else headrace.toml's."""
        if self._settings is None:
            self._settings = (self._launch or Launch()).settings
        if self._bootstrap is not None:
            kafka = replace(self._settings.kafka, bootstrap=self._bootstrap)
            return replace(self._settings, kafka=kafka)
        return self._settings

    @property
    def spark(self) -> "SparkSession":
        """The session given, else the one of this process, started when first needed."""
        from headrace.streams.session import spark_session

        if self._spark is None:
            together = [self, *(self._launch.flows if self._launch is not None else ())]
            delta = any(each._writes_delta for each in together)
            self._spark = spark_session(self.settings.streams, name=self._name, delta=delta)
        return self._spark

    def stream(
        self,
        topics: str | Sequence[str] | None = None,
        schema: "SchemaLike | None" = None,
        *,
        pattern: str | None = None,
        time: str | None = None,
        watermark: "Watermark | None" = None,
        format: str = "json",  # noqa: A002 - the word that everybody knows
        start: Position = "earliest",
        dead_letters: str | None = None,
        on_error: str = "fail",
        on_gap: str = "fail",
        include: Sequence[str] = (),
        max_records_per_batch: int | None = None,
        max_records_per_second: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Stream:
        """The records of topics as rows.

        Args:
            topics: One topic, or several with the same schema.
            schema: Its columns: a DDL string, StructType, dataclass or pydantic model.
            pattern: A regular expression instead of topics; new ones that match are picked up.
            time: The column that says when something happened.
            watermark: What is known of that time: how much out of order events come, whose clocks
                they have, and how long to wait for the silent. By default 10 seconds out of order
                in each partition, and everybody is waited for.
            format: json, avro, json_schema, debezium or raw.
            start: Where the first run begins; later ones go on where they were.
            dead_letters: A topic for records that do not parse, with the reason.
            on_error: Without dead letters, whether such a record makes the flow `fail` or is
                counted and skipped.
            on_gap: What happens if retention was faster than the flow: `fail`, or count and `skip`.
            include: More columns: topic, partition, offset, timestamp, key, headers; their names
                begin with an underscore.
            max_records_per_batch: The most that one batch reads.
            max_records_per_second: The most that is read in a second, on average.
            options: Options of the format, such as its schema registry.
        """
        read = described_read(
            topics,
            schema,
            pattern=pattern,
            time=time,
            watermark=watermark,
            format=format,
            start=start,
            dead_letters=dead_letters,
            on_error=on_error,
            on_gap=on_gap,
            include=include,
            max_records_per_batch=max_records_per_batch,
            max_records_per_second=max_records_per_second,
            options=options,
        )
        return Stream(self, self._added(read))

    def table(
        self,
        topic: str,
        schema: "SchemaLike | None" = None,
        *,
        key: str | Sequence[str],
        format: str = "json",  # noqa: A002 - the word that everybody knows
        valid_from: str | None = None,
        dead_letters: str | None = None,
        on_error: str = "fail",
        options: Mapping[str, str] | None = None,
    ) -> Table:
        """The latest row of each key of a topic; a record without a value deletes its key's row.

        `key` are the columns that tell rows apart; all records of a key are in one partition. What
        of them a value lacks is taken from the record's key, and if that has none either, the
        record does not parse. Changes of Debezium are unwrapped, and their deletions delete.
        `valid_from` is the column that says since when a row holds, for those who look up the past;
        without it, and for deletions, that is the time of the record. The other options are those
        of `stream`.
        """
        columns = (key,) if isinstance(key, str) else tuple(key)
        read = described_read(
            topic,
            schema,
            key=columns,
            valid_from=valid_from,
            format=format,
            dead_letters=dead_letters,
            on_error=on_error,
            options=options,
        )
        return Table(self, self._added(read), columns)

    def topic(
        self,
        name: str,
        rows: Rows,
        *,
        key: Expression | Sequence[Expression] | None = None,
        value: Expression | None = None,
        headers: Mapping[str, Expression] | None = None,
        timestamp: Expression | None = None,
        topic: Expression | None = None,
        partitions: int | None = None,
        compacted: bool | None = None,
        delivery: str = "exactly_once",
        output: str | None = None,
        trigger: str | None = None,
    ) -> None:
        """Write rows to a topic, exactly once; it is created if it is not there.

        Args:
            name: The topic.
            rows: What is written; of a table, its changes.
            key: A column whose text is the record's key, or several, which become JSON.
            value: An expression for the record's value; without it, all columns as JSON.
            headers: Names and the expressions of their values.
            timestamp: The time of the record; without it, the time of writing.
            topic: An expression for the topic of each row; null means `name`.
            partitions: How many it is created with, if not as many as the cluster likes.
            compacted: Whether it is created as a topic that keeps the last record of each key; by
                default for tables, but for the results of windows, which would be kept for ever.
            delivery: `at_least_once` writes without transactions: sooner to be seen, and a batch
                that is repeated is written again.
            output: What the query is called, if not like the topic.
            trigger: `realtime` for Spark's real-time mode: milliseconds instead of batches, AT
                LEAST ONCE instead of exactly once, and built-in expressions of single rows only.
        """
        require_trigger(trigger)
        node = self._own(rows)
        if key is None:
            keys: Sequence[Expression] = rows.key if isinstance(rows, Table) else ()
        else:
            keys = key if isinstance(key, Sequence) and not isinstance(key, str) else (key,)
        named = (*keys, *(each for each in (value, timestamp, topic) if each is not None))
        require_columns((*named, *(headers or {}).values()), node, f"topic {name}")
        described = TopicOutput(
            name=checked_name(output or name, "output"),
            node=node,
            topic=checked_name(name, "topic"),
            key=tuple(keys),
            value=value,
            headers=dict(headers or {}),
            timestamp=timestamp,
            topic_of_row=topic,
            partitions=partitions,
            compacted=_is_kept(rows) if compacted is None else compacted,
            trigger=trigger,
            delivery=checked_choice("delivery", delivery, ("exactly_once", "at_least_once")),
        )
        require_possible(described)
        self._add(described)

    def view(
        self, name: str, table: Rows, *, topic: str | None = None, partitions: int | None = None
    ) -> None:
        """Keep a table as a view, which `headrace serve` answers from and pushes the changes of.

        The changes go to a compacted topic, exactly once, and from there into the store of every
        server; after each batch the flow notes in `headrace.views` what the batch had read, so that
        readers can ask for a view that reflects what they wrote.

        Args:
            name: What readers call it.
            table: Its rows, by the key of the table.
            topic: The topic in between, if not `views.` and the name.
            partitions: How many that is created with, if not as many as the cluster likes.
        """
        if not isinstance(table, Table) or not table.key:
            raise InvalidFlow(
                f"View {name} needs a table with a key, not {table!r}; make one of a stream with "
                'stream.table(key="id"), or with a window or an aggregate.'
            )
        self._add(
            TopicOutput(
                name=checked_name(name, "view"),
                node=self._own(table),
                topic=checked_name(topic or f"views.{name}", "topic"),
                key=table.key,
                partitions=partitions,
                compacted=True,
                view=name,
            )
        )

    def sink(
        self,
        name: "str | Rows",
        rows: Rows | None = None,
        sink: "Sink | None" = None,
        *,
        to: str | None = None,
        table: str | None = None,
        key: str | Sequence[str] | None = None,
        dead_letters: str | None = None,
    ) -> None:
        """Keep rows in a store, exactly once.

            flow.sink(orders, to="postgresql://shop@localhost/shop", table="orders")
            flow.sink("orders", orders, to="duckdb:///shop.duckdb")
            flow.sink("orders", orders, MySink())

        Args:
            name: What the output is called, and the table if it is not named; may be left out.
            rows: What is written. Of a table the rows are kept as they are now, by its key; those
                of a stream are added.
            sink: Anything that keeps the contract of `headrace.streams.sinks`, instead of a store.
            to: The store's URL; `docs/sinks.md` lists what there is.
            table: The table, index or prefix in the store; it is made if it is not there.
            key: The columns that tell rows apart, if not those of the table: of several rows of a
                stream the last one of each key is kept.
            dead_letters: A topic for rows that the store refuses, with the reason; without it such
                a row makes the flow fail.
        """
        if isinstance(name, Rows):
            rows, name = name, ""
        if rows is None or (sink is None) == (to is None):
            raise InvalidFlow(
                'A sink is of rows and goes somewhere, as in flow.sink(orders, to="sqlite:///'
                'shop.db", table="orders"), or to an object that keeps the contract of sinks.'
            )
        if sink is not None:
            self._add(SinkOutput(checked_name(name, "output"), self._own(rows), sink))
            return
        assert to is not None
        self._add(self._stored(name, rows, to, table, key, dead_letters))

    def batch(self, *, start: Position = "earliest", end: Position = "latest") -> "Batch":
        """The same code over a bounded range of the topics, as ordinary DataFrames."""
        from headrace.streams.batch import Batch

        return Batch(self, position_option(start, "start"), position_option(end, "end"))

    def state(self, table: str, *, operator: str | None = None) -> "DataFrame":
        """The rows of a table that this flow keeps between batches, as of the last one done.

        `headrace state show` lists what there is. `operator` says whose table it is, by the name of
        an output, if several keep one of that name.
        """
        from headrace.streams.running.kept import rows_kept

        return rows_kept(self, table, operator)

    def connector(self) -> "Connector":
        """What turns this flow's sources into streaming DataFrames."""
        from headrace.streams.aliases import FollowingAliases
        from headrace.streams.connectors import StreamingKafka, given_connector
        from headrace.streams.running.stage import aliases_for

        if (given := given_connector()) is not None:
            return given
        kafka = StreamingKafka(self.spark, self.settings.kafka, self._name)
        return FollowingAliases(kafka, aliases_for(self))

    def run(
        self,
        *,
        once: bool = False,
        metrics: str | None = None,
        rebuild: str | None = None,
        serve: bool | str = False,
    ) -> "RunReport":
        """Run every query until Ctrl-C, SIGTERM or, with `once`, until all that is there is read.

        With `rebuild="v2"` it is the version of that name that runs, from the beginning and beside
        the current one, into outputs of its own; `headrace flows promote` makes it the current one.

        With `serve`, this process serves views as `headrace serve` does, at the address of
        the settings or at the one given.

        A query that fails is started again, with longer and longer pauses, while the others go on;
        one whose batch fails again and again is given up, and that is raised when the run ends.
        Under `headrace run` its options hold.
        """
        from headrace.streams.running import RunReport, run

        launch = self._launch or Launch(
            once=once, metrics=metrics, rebuild=rebuild, serve=serve, given=self.settings
        )
        if not launch.wants(self):
            return RunReport(self._name, ())
        launch.ran(self)
        return run(self, launch)

    def start(self, *, once: bool = False, rebuild: str | None = None) -> "FlowRun":
        """Run in the background, as `run` does; stop it, wait for it and look at its progress."""
        from headrace.streams.running import FlowRun

        return FlowRun(self, once=once, rebuild=rebuild).start()

    @property
    def _writes_delta(self) -> bool:
        """Whether a Spark that is started for this flow has to be one that knows Delta."""
        wanted = self._launch is None or self._launch.wants(self)
        stored = (each for each in self.outputs if isinstance(each, StoreOutput))
        return wanted and any(each.delta is not None for each in stored)

    def _stored(
        self,
        name: str,
        rows: Rows,
        to: str,
        table: str | None,
        key: str | Sequence[str] | None,
        dead_letters: str | None,
    ) -> StoreOutput:
        from headrace.views.stores import store_of

        if not (name or table):
            raise InvalidFlow('Say which table is written, as in table="orders".')
        node = self._own(rows)
        own = rows.key if isinstance(rows, Table) else ()
        keys = own if key is None else (key,) if isinstance(key, str) else tuple(key)
        require_columns(keys, node, f"sink {table or name}")
        output = StoreOutput(
            name=checked_name(name or str(table), "output"),
            node=node,
            store=store_of(to),
            table=table or name,
            key=keys,
            dead_letters=None if dead_letters is None else checked_name(dead_letters, "topic"),
        )
        if dead_letters is not None and output.delta is not None:
            raise InvalidFlow(
                "A Delta table takes a batch as a whole or not at all, so there are no dead letters"
                "; leave out what it would refuse with where()."
            )
        return output

    def _added(self, read: ReadTopics) -> ReadTopics:
        self._reads.append(read)
        return read

    def _own(self, rows: Rows) -> Node:
        if not isinstance(rows, Rows):
            raise InvalidFlow(f"A flow writes a Stream or a Table, not {rows!r}.")
        if rows.flow is not self:
            raise InvalidFlow(
                f"These rows belong to flow {rows.flow.name}, and flow {self._name} cannot write "
                "them; read the topics in this flow, or let the other write a topic in between."
            )
        return rows.node

    def _add(self, output: Output) -> None:
        if output.name in self._outputs:
            raise InvalidFlow(
                f"Flow {self._name} has an output {output.name} already; give the second one a "
                f'name of its own, as in flow.topic(..., output="{output.name}-2").'
            )
        self._outputs[output.name] = output
        for read in sources(output.node):
            self._add_dead_letters(read)

    def _add_dead_letters(self, read: ReadTopics) -> None:
        if read.dead_letters is None:
            return
        present = [each for each in self._outputs.values() if isinstance(each, DeadLetterOutput)]
        if any(each.node is read for each in present):
            return
        name = f"{read.dead_letters}.dead-letters"
        number = sum(each.topic == read.dead_letters for each in present)
        name = f"{name}-{number + 1}" if number else name
        self._outputs[name] = DeadLetterOutput(name, read, read.dead_letters)

    def __str__(self) -> str:
        return draw(self._name, self._reads, self.outputs)

    def __repr__(self) -> str:
        return f"<Flow {self._name!r} with {len(self._outputs)} outputs>"

    def _repr_html_(self) -> str:
        return picture(self._reads, self.outputs)


def _is_kept(rows: Rows) -> bool:
    """Whether rows are those of a table that does not grow with time."""
    windows = isinstance(operator_of(rows.node), WindowAggregate)
    return isinstance(rows, Table) and bool(rows.key) and not windows
