"""Long values that the log leaves out because an update did not touch them, looked up.

The value is the one that the row has now. If it was changed after the update that is being told,
the log tells that change later on, with the value in full; if the row is gone, the log tells that
later on. So what readers have is right once they have read as far as the lookup had.
"""

import io
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from headrace.capture.changes import UNAVAILABLE
from headrace.capture.postgres.connection import driver
from headrace.capture.postgres.copying import rows_of
from headrace.capture.postgres.pgoutput import RowReader, completed
from headrace.capture.postgres.setup import quoted
from headrace.capture.postgres.visibility import visibility
from headrace.capture.texts import Reading, TextRow

_PATIENCE_SECONDS: Final = 5.0
"""How long to wait for a transaction that the log has told to become visible."""

_PAUSE_SECONDS: Final = 0.01

logger = logging.getLogger(__name__)


class Lookup:
    """Fills in values of rows.

    Args:
        connection: Gives a connection in autocommit mode.
    """

    def __init__(self, connection: Callable[[], Any]) -> None:
        self._connection = connection

    def fill(self, reader: RowReader, row: TextRow, xid: int) -> TextRow:
        """The row with what the table has for the values that are missing.

        Args:
            reader: How its table is read.
            row: As the log tells it.
            xid: The transaction that is being told.
        """
        table = reader.table
        key = [text for place in table.key if isinstance(text := row.texts[place], bytes)]
        if not key or len(key) < len(table.key):
            return row
        missing = [place for place, text in enumerate(row.texts) if text is UNAVAILABLE]
        columns = ", ".join(quoted(table.names[place]) for place in missing)
        same = " AND ".join(f"{quoted(name)} = %s" for name in table.key_names)
        name = f"{quoted(table.name.schema)}.{quoted(table.name.table)}"
        query = f"SELECT {columns} FROM {name} WHERE {same}"  # noqa: S608 - quoted
        found = self._ask(query, [text.decode() for text in key], xid, row.reading)
        if found is None:
            return row
        values = dict(zip(missing, found.texts, strict=True))
        return completed(row, (values.get(place) for place in range(len(row))))

    def _ask(self, query: str, key: list[str], xid: int, reading: Reading) -> TextRow | None:
        psycopg2 = driver()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with self._connection().cursor() as cursor:
                seen = visibility(cursor).sees(xid)
                written = io.BytesIO()
                try:
                    asked = cursor.mogrify(query, key).decode()
                    cursor.copy_expert(f"COPY ({asked}) TO STDOUT", written)
                except (psycopg2.errors.UndefinedTable, psycopg2.errors.UndefinedColumn):
                    # The table is another one by now, and what is told of it will be too.
                    return None
            if rows := rows_of(written.getvalue(), reading):
                return rows[0]
            if seen:
                return None
            if time.monotonic() > deadline:
                logger.warning("a long value is not visible yet and is told as unavailable")
                return None
            time.sleep(_PAUSE_SECONDS)
