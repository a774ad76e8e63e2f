"""What every format does: Arrow batches of records in, typed rows and rejections out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.streams.formats.errors import UnknownFormat

Flags: TypeAlias = npt.NDArray[np.bool_]
"""One truth value per record."""

Reasons: TypeAlias = dict[int, str]
"""Why rows were rejected, by their index."""

NO_VALUE: Final = (
    'no value (a tombstone); the option tombstones="skip" leaves such records out, '
    '"null" makes rows of nulls of them'
)


class Rejected(NamedTuple):
    """A record that is no row: which of the batch, and why."""

    record: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of a batch of records; each is a row, rejected, or skipped on demand."""

    rows: pa.RecordBatch
    """The rows, in the order of their records."""
    accepted: pa.Int64Array | None
    """Which record each row comes from; None if each record became a row."""
    rejected: Sequence[Rejected]
    """The records that did not parse, in their order."""
    skipped: int = 0
    """How many tombstones were left out, as the option asked."""


class Decoder(Protocol):
    """Turns records into rows; made once per task, used for many batches."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decode the `value` of each record (`raw` also its `key`).

        One record that does not parse costs nothing but itself. What raises is no record's fault.
        """


class Tombstones(NamedTuple):
    """What is done with records that have no value."""

    policy: str

    @classmethod
    def of(cls, options: Mapping[str, str], usual: str = "reject") -> "Tombstones":
        """As the option `tombstones` says."""
        return cls(choice(options, "tombstones", ("reject", "skip", "null"), usual))

    def judge(self, missing: Flags | None, reasons: Reasons) -> Flags | None:
        """Which records are left out; those that are rejected get their reason."""
        if missing is None or self.policy == "null":
            return None
        if self.policy == "skip":
            return missing
        for index in np.flatnonzero(missing).tolist():
            reasons[index] = NO_VALUE
        return None


def choice(options: Mapping[str, str], name: str, choices: Sequence[str], usual: str) -> str:
    """The option's value, which must be one of `choices`."""
    given = options.get(name, usual)
    if given not in choices:
        raise UnknownFormat(f"option {name}={given!r}: choose one of {', '.join(choices)}")
    return given


def missing_values(value: pa.Array) -> Flags | None:
    """Which records have no value; None if all have one."""
    if value.null_count == 0:
        return None
    missing: Flags = value.is_null().to_numpy(zero_copy_only=False)
    return missing


def sift(rows: pa.RecordBatch, reasons: Reasons, skipped: Flags | None = None) -> Decoded:
    """Keep the rows of accepted records; `rows` has one for each record."""
    if not reasons and skipped is None:
        return Decoded(rows, None, ())
    keep = np.ones(rows.num_rows, np.bool_) if skipped is None else ~skipped
    keep[list(reasons)] = False
    accepted = pa.array(np.flatnonzero(keep))
    rejected = [Rejected(index, reasons[index]) for index in sorted(reasons)]
    left_out = rows.num_rows - len(accepted) - len(rejected)
    return Decoded(rows.take(accepted), accepted, rejected, left_out)


def reject(decoded: Decoded, problems: Reasons) -> Decoded:
    """Reject more of the records: those of these rows."""
    if not problems:
        return decoded
    count = decoded.rows.num_rows
    accepted = np.arange(count) if decoded.accepted is None else decoded.accepted.to_numpy()
    keep = np.ones(count, np.bool_)
    keep[list(problems)] = False
    kept = np.flatnonzero(keep)
    more = (Rejected(int(accepted[row]), reason) for row, reason in problems.items())
    return replace(
        decoded,
        rows=decoded.rows.take(pa.array(kept)),
        accepted=pa.array(accepted[kept]),
        rejected=sorted((*decoded.rejected, *more)),
    )
