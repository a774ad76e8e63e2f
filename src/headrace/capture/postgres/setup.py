"""What a capture makes in a PostgreSQL database: a publication and a replication slot.

And what has to be so before it can: every check names the statement that an administrator runs.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headrace.capture.changes import Position
from headrace.capture.errors import CaptureBusy, GivenUp, NotPrepared, PositionLost
from headrace.capture.postgres.catalog import Relation
from headrace.capture.postgres.connection import driver
from headrace.capture.postgres.visibility import running
from headrace.capture.source import Check

OLDEST: Final = 140_000
"""The first version whose log can tell messages."""

FILTERS: Final = 150_000
"""The first version whose publications can have conditions on rows."""

FAILOVER: Final = 170_000
"""The first version whose standbys can keep slots up to date."""

GENERATED: Final = 180_000
"""The first version whose publications tell generated columns."""

_RELEASE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05

_SERVER_SQL: Final = """
SELECT current_setting('wal_level'), current_user, current_database(), pg_is_in_recovery(),
       r.rolsuper,
       r.rolreplication OR EXISTS (
           SELECT 1 FROM pg_roles g WHERE g.rolname IN ('rds_replication', 'cloudsqlreplica')
           AND pg_has_role(current_user, g.oid, 'MEMBER')),
       has_database_privilege(current_database(), 'CREATE'),
       (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_replication_slots')::int
FROM pg_roles r WHERE r.rolname = current_user
"""

_TABLES_SQL: Final = """
SELECT c.oid::bigint, pg_get_userbyid(c.relowner), pg_has_role(current_user, c.relowner, 'USAGE'),
       has_table_privilege(c.oid, 'SELECT'), has_schema_privilege(c.relnamespace, 'USAGE'),
       EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
               AND NOT a.attisdropped AND a.attstorage IN ('e', 'x'))
FROM pg_class c WHERE c.oid = ANY(%s::oid[])
"""

logger = logging.getLogger(__name__)


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def full_name(relation: Relation) -> str:
    """A table as SQL has it."""
    return f"{quoted(relation.name.schema)}.{quoted(relation.name.table)}"


class Setup:
    """The publication and the slot of one capture.

    Args:
        connection: In autocommit mode.
        name: Of both.
        where: The database as people are told of it.
    """

    def __init__(self, connection: Any, name: str, where: str) -> None:
        self._connection = connection
        self._name = name
        self._where = where
        self._version: int = connection.server_version

    def check(self, relations: Sequence[Relation], *, filtered: bool) -> Check:
        """What is missing, and what could be better."""
        return Check(
            tuple(self._problems(relations, filtered=filtered)), tuple(self._advice(relations))
        )

    def make(
        self,
        relations: Sequence[Relation],
        conditions: Sequence[str | None],
        resume: Position | None,
    ) -> Position | None:
        """Make what is not there; the position of the slot if it is new."""
        self._require(relations, conditions)
        self._refuse_unfinished()
        if resume is not None:
            self.require_slot(resume)
        errors = driver().errors
        try:
            self._publish(relations, conditions)
            return self._make_slot() if self.slot() is None else None
        except errors.QueryCanceled:
            raise GivenUp(f"{self._name} was not made in {self._where}.") from None
        except (errors.UniqueViolation, errors.DuplicateObject):
            # What a run that was killed began is finished by the server a moment later.
            raise CaptureBusy(
                f"Another process is making {self._name} in {self._where} at this moment. Try "
                "again later."
            ) from None

    def publish(self, relations: Sequence[Relation], conditions: Sequence[str | None]) -> None:
        """Have the publication tell these tables."""
        self._require(relations, conditions)
        self._publish(relations, conditions)

    def slot(self) -> tuple[bool, str | None, str | None, str | None] | None:
        """Whether the slot is in use, its positions (oldest kept, confirmed) and its state."""
        rows = self._ask(
            "SELECT active, restart_lsn::text, confirmed_flush_lsn::text, wal_status"
            " FROM pg_replication_slots WHERE slot_name = %s",
            self._name,
        )
        return rows[0] if rows else None

    def require_slot(self, position: Position) -> None:
        """PositionLost unless the slot still has all that comes behind a position."""
        found = self.slot()
        remedy = (
            "Changes since then cannot be read any more. Run the capture with --lost snapshot to "
            "read its tables anew, or drop it."
        )
        if found is None:
            raise PositionLost(
                f"The replication slot {self._name} of {self._where} is gone: it was dropped, or a "
                f"failover left it behind. The capture had reached {position}. {remedy}"
            )
        _, kept, confirmed, state = found
        if state == "lost" or kept is None:
            raise PositionLost(
                f"The replication slot {self._name} of {self._where} fell too far behind, and the "
                f"server removed the log that it needs (max_slot_wal_keep_size). {remedy}"
            )
        ahead, behind = self._ask(
            "SELECT %s::pg_lsn > %s::pg_lsn, %s::pg_lsn > pg_current_wal_flush_lsn()",
            confirmed,
            position,
            position,
        )[0]
        if ahead:
            raise PositionLost(
                f"The replication slot {self._name} of {self._where} stands at {confirmed}, beyond "
                f"{position}, which this capture had reached: something else has read from it, or "
                f"it was made anew. {remedy}"
            )
        if behind:
            raise PositionLost(
                f"The log of {self._where} ends before {position}, which this capture had reached: "
                f"this server is not the one that was captured, or it lost commits. {remedy}"
            )

    def drop(self) -> list[str]:
        """Remove both, and say what there was."""
        dropped = []
        if (found := self.slot()) is not None:
            if found[0]:
                self._ask(
                    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                    " WHERE slot_name = %s AND active_pid IS NOT NULL",
                    self._name,
                )
            self._drop_slot()
            dropped.append(f"replication slot {self._name}")
        if self._publication_oid() is not None:
            self._run(f"DROP PUBLICATION {quoted(self._name)}")
            dropped.append(f"publication {self._name}")
        return dropped

    def _require(self, relations: Sequence[Relation], conditions: Sequence[str | None]) -> None:
        if problems := self.check(relations, filtered=any(conditions)).problems:
            raise NotPrepared(self._where, problems)

    def _refuse_unfinished(self) -> None:
        """CaptureBusy if the slot is being made at this moment, as by a run that was killed."""
        found = self.slot()
        if found is not None and found[2] is None and found[3] != "lost":
            raise CaptureBusy(
                f"The replication slot {self._name} of {self._where} is being made by another "
                "process, which waits for transactions that are open. Try again later."
            )

    def _drop_slot(self) -> None:
        in_use = driver().errors.ObjectInUse
        deadline = time.monotonic() + _RELEASE_SECONDS
        while True:
            try:
                self._ask("SELECT pg_drop_replication_slot(%s)", self._name)
            except in_use:
                # A process that was told to end needs a moment to let go.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def _make_slot(self) -> Position:
        with self._connection.cursor() as cursor:
            if others := len(running(cursor)):
                logger.warning(
                    "%s makes a replication slot once the transactions that are open now have "
                    "ended, which are %d; see pg_stat_activity",
                    self._where,
                    others,
                )
        failover = ", failover => true" if self._version >= FAILOVER else ""
        call = f"pg_create_logical_replication_slot(%s, 'pgoutput'{failover})"
        position: str = self._ask(f"SELECT lsn::text FROM {call}", self._name)[0][0]  # noqa: S608
        return position

    def _publication_oid(self) -> int | None:
        rows = self._ask("SELECT oid::bigint FROM pg_publication WHERE pubname = %s", self._name)
        return rows[0][0] if rows else None

    def _publish(self, relations: Sequence[Relation], conditions: Sequence[str | None]) -> None:
        tables = ", ".join(
            full_name(each) + (f" WHERE ({condition})" if condition else "")
            for each, condition in zip(relations, conditions, strict=True)
        )
        if (oid := self._publication_oid()) is None:
            options = "publish_via_partition_root = true"
            if self._version >= GENERATED:
                options += ", publish_generated_columns = stored"
            self._run(
                f"CREATE PUBLICATION {quoted(self._name)} FOR TABLE {tables} WITH ({options})"
            )
            return
        published = {
            row[0]
            for row in self._ask(
                "SELECT prrelid::bigint FROM pg_publication_rel WHERE prpubid = %s", oid
            )
        }
        if published != {each.oid for each in relations} or any(conditions):
            self._run(f"ALTER PUBLICATION {quoted(self._name)} SET TABLE {tables}")

    def _problems(self, relations: Sequence[Relation], *, filtered: bool) -> Iterator[str]:
        if self._version < OLDEST:
            yield f"it is PostgreSQL {self._version // 10_000}; it takes 14 or newer."
            return
        level, user, database, standby, superuser, replicates, creates, slots, most = self._ask(
            _SERVER_SQL
        )[0]
        if level != "logical":
            yield (
                f"wal_level is {level}: run ALTER SYSTEM SET wal_level = 'logical' and restart the "
                "server."
            )
        if standby:
            yield "it is a standby; name the primary."
        if not superuser and not replicates:
            yield f"the role {user} may not replicate: run ALTER ROLE {quoted(user)} REPLICATION."
        if not superuser and not creates and self._publication_oid() is None:
            yield (
                f"the role {user} may not make a publication: run GRANT CREATE ON DATABASE "
                f"{quoted(database)} TO {quoted(user)}."
            )
        if self.slot() is None and slots >= most:
            yield (
                f"all {most} replication slots are taken: drop one that nobody needs, or raise "
                "max_replication_slots and restart the server."
            )
        if filtered and self._version < FILTERS:
            yield "conditions on rows need PostgreSQL 15."
        if not relations:
            yield "no table matches; see \\dt in psql for what there is."
        yield from self._table_problems(relations, user, superuser=superuser)

    def _table_problems(
        self, relations: Sequence[Relation], user: str, *, superuser: bool
    ) -> Iterator[str]:
        rows = {row[0]: row for row in self._ask(_TABLES_SQL, [each.oid for each in relations])}
        for each in relations:
            name = full_name(each)
            _, owner, owns, reads, enters, _ = rows[each.oid]
            if not (superuser or owns):
                yield (
                    f"only the owner of {each.name} may publish it: run GRANT {quoted(owner)} TO "
                    f"{quoted(user)}, or ALTER TABLE {name} OWNER TO a role that both are in."
                )
            elif not enters:
                schema = quoted(each.name.schema)
                yield f"run GRANT USAGE ON SCHEMA {schema} TO {quoted(user)}."
            elif not reads:
                yield (
                    f"the role {user} may not read {each.name}: run GRANT SELECT ON {name} TO "
                    f"{quoted(user)}."
                )
            if unidentified(each):
                yield (
                    f"{each.name} has no primary key, and PostgreSQL would refuse UPDATE and "
                    "DELETE on it once it is captured: add a primary key, or run ALTER TABLE "
                    f"{name} REPLICA IDENTITY FULL, or leave it out."
                )

    def _advice(self, relations: Sequence[Relation]) -> Iterator[str]:
        for each in relations:
            if not each.table.key and each.identity == "f":
                yield (
                    f"{each.name} has no key: its changes are captured, but the rows that are in "
                    "it already are not, and its topic cannot be compacted."
                )
        rows = {row[0]: row for row in self._ask(_TABLES_SQL, [each.oid for each in relations])}
        long = [each for each in relations if rows[each.oid][5] and each.identity != "f"]
        if long:
            names = ", ".join(str(each.name) for each in long)
            yield (
                f"of {names}, the log leaves out long values that an update did not touch; they "
                "are looked up in the table. ALTER TABLE ... REPLICA IDENTITY FULL puts them, and "
                "whole rows before a change, into the log."
            )

    def _ask(self, sql: str, *arguments: object) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return list(cursor.fetchall())

    def _run(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)


def unidentified(relation: Relation) -> bool:
    """Whether the log could not say which row changed."""
    return relation.identity == "n" or (relation.identity == "d" and not relation.table.key)
