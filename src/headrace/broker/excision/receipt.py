"""The receipt of an excision: what went, from where, and how anybody can tell.

It names no key: whoever knows one can compute its digest with the receipt's salt and compare.
"""

import hmac
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from headrace import __version__
from headrace.broker.excision.places import Found, Rewritten
from headrace.broker.excision.request import ExcisionRequest
from headrace.log.disk import Disk, write_all
from headrace.log.excision import CheckReport, Findings, Wanted
from headrace.log.framing import TEMPORARY

FORMAT: Final = "headrace-excision-receipt"
"""What a receipt calls itself."""

VERSION: Final = 1
"""The form of receipts."""

RECEIPTS: Final = "excisions"
"""The directory, within the data directory, where receipts are kept."""

_SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that a receipt says, before it is written down."""

    job: str
    cluster_id: str
    topic_id: str
    request: ExcisionRequest
    began_ms: int
    ended_ms: int
    until: Mapping[int, int]
    """For each partition the offset from which on records were written too late."""

    found: Sequence[Found]
    rewritten: Sequence[tuple[int, Rewritten]]
    """Partition and change."""

    readers_of_old_files: int | None
    """How many open files still hold what was replaced; None if that cannot be told."""

    check: CheckReport | None


def receipt_of(outcome: Outcome) -> dict[str, Any]:
    """The receipt as JSON has it."""
    findings = [(each.place.partition, each.findings) for each in outcome.found]
    if not outcome.request.dry_run:
        findings = [(partition, each.change.findings) for partition, each in outcome.rewritten]
    return {
        "format": FORMAT,
        "version": VERSION,
        "job": outcome.job,
        "headrace": __version__,
        "cluster_id": outcome.cluster_id,
        "topic": outcome.request.topic,
        "topic_id": outcome.topic_id,
        "dry_run": outcome.request.dry_run,
        "began": _iso(outcome.began_ms),
        "ended": _iso(outcome.ended_ms),
        "criteria": _criteria(outcome.request.wanted),
        "records": _distinct(findings),
        "bytes": sum(each.bytes for _, each in findings),
        "partitions": [
            {
                "partition": partition,
                "until": until,
                "offsets": _merged(each for number, each in findings if number == partition),
            }
            for partition, until in sorted(outcome.until.items())
        ],
        "files": [_file(partition, each) for partition, each in outcome.rewritten],
        "readers_of_old_files": outcome.readers_of_old_files,
        "check": None if outcome.check is None else _check(outcome.check),
    }


def save_receipt(receipt: dict[str, Any], data: Path, disk: Disk) -> None:
    """Keep a receipt in the data directory; blocks until it is on the disk."""
    directory = data / RECEIPTS
    disk.make_directory(directory)
    path = directory / f"{receipt['job']}.json"
    temporary = path.with_name(path.name + TEMPORARY)
    descriptor = disk.create(temporary)
    try:
        write_all(disk, descriptor, orjson.dumps(receipt, option=orjson.OPT_INDENT_2), 0)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    disk.replace(temporary, path)
    disk.sync_directory(directory)
    disk.sync_directory(data)


def _criteria(wanted: Wanted) -> dict[str, Any]:
    salt = os.urandom(_SALT_BYTES)

    def digest(secret: bytes) -> str:
        return hmac.digest(salt, secret, "sha256").hex()

    return {
        "digest": "hmac-sha256",
        "salt": salt.hex(),
        "keys": sorted(map(digest, wanted.keys)),
        "headers": [{"name": name, "value": digest(value)} for name, value in wanted.headers],
    }


def _distinct(findings: Sequence[tuple[int, Findings]]) -> int:
    """Records, counting one once that was on the local disk and in the archive."""
    partitions = {partition for partition, _ in findings}
    return sum(
        last - first + 1
        for partition in partitions
        for first, last in _merged(each for number, each in findings if number == partition)
    )


def _merged(findings: Iterable[Findings]) -> list[list[int]]:
    merged: list[list[int]] = []
    for first, last in sorted(offsets for each in findings for offsets in each.offsets):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


def _file(partition: int, rewritten: Rewritten) -> dict[str, Any]:
    change = rewritten.change
    return {
        "partition": partition,
        "archived": rewritten.archived,
        "before": rewritten.before,
        "after": rewritten.after,
        "records": change.findings.records,
        "offsets": [list(each) for each in change.findings.offsets],
        "size_before": rewritten.size_before,
        "size_after": change.size,
        "sha256_before": change.sha256_before,
        "sha256_after": change.sha256_after,
    }


def _check(check: CheckReport) -> dict[str, Any]:
    return {
        "passed": check.passed,
        "files": check.files,
        "bytes": check.bytes,
        "strings": check.strings,
        "left": [each._asdict() for each in check.left],
        "unreadable": list(check.unreadable),
        "later": check.later,
        "elsewhere": [each._asdict() for each in check.elsewhere],
        "alike": [each._asdict() for each in check.alike],
    }


def _iso(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
