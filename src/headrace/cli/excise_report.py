"""How an excision is shown: while it goes on, and by its receipt."""

import sys
from pathlib import Path
from typing import Any

from headrace.cli.output import print_facts, print_table, remark

_BAR_WIDTH = 24
_MEGABYTE = 1_000_000
_SHOWN_FILES = 5


class ExcisionBar:
    """A line on stderr that is rewritten while the broker works, where stderr is a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, phase: str, done: int, total: int) -> None:
        """Show how far a phase has come."""
        if not self._shown:
            return
        share = min(done / total, 1.0) if total else 0.0
        filled = round(share * _BAR_WIDTH)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        sizes = f"{done / _MEGABYTE:,.0f} of {total / _MEGABYTE:,.0f} MB" if total else ""
        print(f"\r\x1b[K{phase:<9} [{bar}] {sizes}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make room for other lines."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def print_receipt(receipt: dict[str, Any], saved: Path | None) -> None:
    """Print what a person wants to know of a receipt."""
    check = receipt["check"]
    facts: dict[str, str | int | None] = {
        "Topic": receipt["topic"],
        "Records to erase" if receipt["dry_run"] else "Records erased": receipt["records"],
    }
    if check is not None:
        files = receipt["files"]
        facts["Segments rewritten"] = sum(not each["archived"] for each in files)
        facts["Archived replaced"] = sum(each["archived"] for each in files) or None
        facts["Check"] = _verdict(check)
        facts["Receipt"] = str(saved)
    print_facts(facts)
    rows = [
        (each["partition"], sum(last - first + 1 for first, last in each["offsets"]), *_span(each))
        for each in receipt["partitions"]
        if each["offsets"]
    ]
    if rows:
        print()
        print_table(("PARTITION", "RECORDS", "FIRST", "LAST"), rows)
    if check is not None:
        _remark_on(receipt, check)


def _span(partition: dict[str, Any]) -> tuple[int, int]:
    return partition["offsets"][0][0], partition["offsets"][-1][1]


def _verdict(check: dict[str, Any]) -> str:
    looked = f"{check['files']} files, {check['bytes'] / _MEGABYTE:,.1f} MB"
    if check["passed"]:
        return f"nothing is left ({looked})"
    return f"FAILED: left in {len(check['left']) + len(check['unreadable'])} files ({looked})"


def _remark_on(receipt: dict[str, Any], check: dict[str, Any]) -> None:
    for each in check["left"]:
        remark(f"Left in {each['file']}.")
    for each in check["unreadable"]:
        remark(f"{each} cannot be read.")
    if check["later"]:
        remark(
            f"{check['later']} such records were written after this began, and are still there; "
            "run it again for them."
        )
    if receipt["readers_of_old_files"]:
        remark(
            f"{receipt['readers_of_old_files']} readers have not finished with the old files yet; "
            "these go with them."
        )
    if check["alike"]:
        remark(
            "Other records of the topic, which stay, hold the same bytes (a longer key or value "
            f"with an erased one in it, or an equal value): {_names(check['alike'])}."
        )
    if check["elsewhere"]:
        remark(
            "The same keys or bytes are also in other places, left alone: "
            f"{_names(check['elsewhere'])}."
        )


def _names(sightings: list[dict[str, Any]]) -> str:
    names = ", ".join(each["file"] for each in sightings[:_SHOWN_FILES])
    more = len(sightings) - _SHOWN_FILES
    return f"{names} and {more} more" if more > 0 else names
