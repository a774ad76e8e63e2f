"""`headrace archive`: look at an archive, check it, and rebuild a broker from it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import BootstrapOption, JsonOption, cluster_of, now_ms, settings_of
from headrace.cli.output import Cell, complain, print_facts, print_json, print_table, remark
from headrace.cli.transfer import TransferBar, size_text
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.kafka import ArchiveState
    from headrace.log.archive.inspection import Survey
    from headrace.log.archive.manifest import Manifest
    from headrace.log.archive.store import ArchiveStore

app = typer.Typer(
    help="Look at an archive, check it, and rebuild a broker from it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

LocationOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="LOCATION",
        help="Where the archive is.  [default: broker.archive of the settings]",
        show_default=False,
    ),
]


@app.command()
def status(
    context: typer.Context,
    location: LocationOption = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show what an archive has, and how far it is behind the broker.

    The broker is asked for the ends of its logs if it runs; everything else is read from the
    archive.
    """
    from headrace.log.archive.inspection import survey

    store = _store(context, location)
    surveyed = survey(store)
    ends = _ends(context, bootstrap, surveyed)
    user = _user(context, bootstrap, store)
    taken = surveyed.journals_taken_ms
    if as_json:
        print_json(
            {
                "location": str(store),
                "cluster_id": surveyed.identity.cluster_id,
                "journals_copied_ms": taken,
                "failure": None if user is None else user.failure,
                "bytes": sum(found.size for found in surveyed.objects),
                "partitions": [_described(each, ends) for each in surveyed.manifests],
            }
        )
        return
    print_facts(
        {
            "archive": str(store),
            "cluster": surveyed.identity.cluster_id,
            "objects": len(surveyed.objects),
            "size": size_text(sum(found.size for found in surveyed.objects)),
            "journals": "never copied" if taken is None else f"copied {_ago(taken)}",
        }
    )
    if user is not None and user.failure is not None:
        complain(f"The broker cannot archive: {user.failure}")
    if surveyed.manifests:
        print()
        print_table(
            ("PARTITION", "SEGMENTS", "BYTES", "FROM", "TO", "NEWEST", "PENDING"),
            [_row(each, ends) for each in surveyed.manifests],
        )


@app.command()
def verify(context: typer.Context, location: LocationOption = None) -> None:
    """Read every object of an archive and compare it with its checksum.

    The exit code is 1 if anything is damaged or missing. Objects that nothing refers to are named
    too; the broker removes those when it starts.
    """
    from headrace.log.archive.inspection import Trouble, examine, survey

    store = _store(context, location)
    surveyed = survey(store)
    total = sum(each.size for manifest in surveyed.manifests for each in manifest.segments)
    bar = TransferBar("checked", total)
    damaged = garbage = 0
    for finding in examine(store, surveyed, bar.add):
        bar.clear()
        if finding.trouble is Trouble.DAMAGED:
            damaged += 1
            complain(f"{finding.partition}: {finding.detail}")
        else:
            garbage += 1
            remark(finding.detail)
    bar.clear()
    segments = sum(len(manifest.segments) for manifest in surveyed.manifests)
    print(
        f"{segments} segments with {size_text(total)} checked: {damaged} damaged, "
        f"{garbage} left over"
    )
    if damaged:
        raise typer.Exit(1)


@app.command()
def restore(
    context: typer.Context,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="A new directory, for the new broker.")
    ],
    location: LocationOption = None,
    download: Annotated[
        bool,
        typer.Option("--download", help="Bring all records back instead of leaving them there."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Rebuild a broker's data directory from an archive alone.

    The archive then belongs to the new directory: the broker that wrote it must be gone for good,
    for it can no longer archive there. Start the new one with the same broker.archive.
    """
    # kio, which the broker's side imports, would load Hypothesis where that is installed.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from headrace.broker.archive.restoring import restore as rebuild
    from headrace.clock import SystemClock
    from headrace.log import SYSTEM_DISK
    from headrace.log.archive.inspection import find_lost, survey

    store = _store(context, location)
    surveyed = survey(store)
    for finding in find_lost(surveyed):
        complain(f"{finding.partition}: {finding.detail}")
    user = _user(context, bootstrap, store)
    if user is not None and user.failure is None:
        raise HeadraceError(
            f"the broker at {cluster_of(context, bootstrap).bootstrap} archives to {store}; stop "
            "it first, or restore from a copy of the archive"
        )
    if not yes:
        _ask(store, surveyed)
    bar = TransferBar("brought back", 0)
    restored = rebuild(
        store,
        data,
        clock=SystemClock(),
        disk=SYSTEM_DISK,
        download=download,
        progress=bar.show,
    )
    bar.clear()
    for group, where, before, now in restored.set_back:
        remark(
            f"Group {group} was at offset {before} of {where.topic}-{where.partition}, which was "
            f"not archived; it goes on at {now}."
        )
    for topic in restored.unarchived:
        remark(f"{topic} has nothing in the archive and begins without records.")
    print(
        f"Restored {len(restored.topics)} topics into {data}: {restored.partitions} partitions "
        f"with {size_text(restored.archived_bytes)} in the archive"
    )
    remark("The broker that used this archive before can no longer archive there.")
    remark(f"Start it: headrace broker --data {data} --set archive={store}")


def _user(
    context: typer.Context, bootstrap: str | None, store: "ArchiveStore"
) -> "ArchiveState | None":
    """What the broker that can be reached says of an archive, if that is the one it uses."""
    from headrace.kafka import archive_state

    try:
        state = archive_state(cluster_of(context, bootstrap))
    except HeadraceError:
        return None
    return state if state.location == str(store) else None


def _ask(store: "ArchiveStore", surveyed: "Survey") -> None:
    """Have somebody say that the broker which owns an archive is gone; nothing else can tell."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"this takes {store} away from the broker that archives there, and there is nobody to "
            "ask whether that one is gone; if so, say --yes.",
            param_hint="--yes",
        )
    taken = surveyed.journals_taken_ms
    heard = "" if taken is None else f", and was last changed by it {_ago(taken)}"
    typer.confirm(
        f"{store} belongs to a broker of cluster {surveyed.identity.cluster_id}{heard}. That one "
        "can then no longer archive there. Is it gone for good?",
        abort=True,
        err=True,
    )


def _store(context: typer.Context, location: str | None) -> "ArchiveStore":
    from headrace.log.archive.location import open_store

    found = location or settings_of(context).broker.archive
    if found is None:
        raise HeadraceError(
            "which archive? Name it with --from, or set broker.archive in headrace.toml"
        )
    return open_store(found)


def _ends(
    context: typer.Context, bootstrap: str | None, surveyed: "Survey"
) -> dict[tuple[str, int], int]:
    """Where the broker's logs end, if it can be reached."""
    from headrace.kafka import Partition, offset_ranges

    wanted = [Partition(each.partition.topic, each.partition.index) for each in surveyed.manifests]
    try:
        found = offset_ranges(cluster_of(context, bootstrap), wanted)
    except HeadraceError as error:
        remark(f"Without what is pending: {error}")
        return {}
    return {(where.topic, where.number): each.latest for where, each in found.items()}


def _described(manifest: "Manifest", ends: dict[tuple[str, int], int]) -> dict[str, object]:
    return {
        "topic": manifest.partition.topic,
        "topic_id": manifest.partition.topic_id,
        "partition": manifest.partition.index,
        "segments": len(manifest.live_segments),
        "bytes": sum(segment.size for segment in manifest.live_segments),
        "start_offset": manifest.start_offset,
        "end_offset": manifest.end_offset,
        "newest_ms": _newest(manifest),
        "pending_records": _pending(manifest, ends),
    }


def _row(manifest: "Manifest", ends: dict[tuple[str, int], int]) -> tuple[Cell, ...]:
    newest = _newest(manifest)
    return (
        str(manifest.partition),
        len(manifest.live_segments),
        sum(segment.size for segment in manifest.live_segments),
        manifest.start_offset,
        manifest.end_offset,
        None if newest is None else _ago(newest),
        _pending(manifest, ends),
    )


def _pending(manifest: "Manifest", ends: dict[tuple[str, int], int]) -> int | None:
    end = ends.get((manifest.partition.topic, manifest.partition.index))
    return None if end is None else max(end - manifest.end_offset, 0)


def _newest(manifest: "Manifest") -> int | None:
    newest = max((segment.max_timestamp for segment in manifest.live_segments), default=-1)
    return None if newest < 0 else newest


def _ago(moment_ms: int) -> str:
    seconds = max(now_ms() - moment_ms, 0) // 1000
    for scale, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * scale:
            return f"{seconds // scale} {unit} ago"
    return f"{seconds} s ago"
