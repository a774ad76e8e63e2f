"""`headrace excise`: erase records from a topic's history, for good."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.excise_input import KeyEncoding, header_from, key_from, keys_in
from headrace.cli.excise_report import ExcisionBar, print_receipt
from headrace.cli.failures import FAILED, INTERRUPTED
from headrace.cli.options import BootstrapOption, cluster_of
from headrace.cli.output import complain, print_json, remark

if TYPE_CHECKING:
    from headrace.kafka import Cluster

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def excise(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records are.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", metavar="KEY", help="Erase records with it; repeatable."),
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option("--keys-file", metavar="FILE", help="Keys, one per line; - is stdin."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="Erase records with it; repeatable."
        ),
    ] = None,
    key_encoding: Annotated[
        KeyEncoding, typer.Option("--key-encoding", help="How keys are written.")
    ] = KeyEncoding.TEXT,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Only there; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be erased.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to save the receipt.  [default: here]"),
    ] = None,
    show_keys: Annotated[
        bool, typer.Option("--show-keys", help="Write the keys into the receipt as they are.")
    ] = False,
    transaction_timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="How long to wait for open transactions."),
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the receipt as JSON.")] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Erase records from a topic's history, for good.

    Every record with one of the keys or headers goes, from the log and the archive; all others keep
    their offsets. Ctrl-C ends the command, not the erasing that the broker has begun.
    """
    from headrace.kafka import start_excision

    keys = [key_from(text, key_encoding, "--key") for text in key or []]
    if keys_file is not None:
        keys += keys_in(keys_file, key_encoding)
    headers = [header_from(text) for text in header or []]
    if not keys and not headers:
        raise typer.BadParameter("say what is to go: --key, --keys-file or --header.")
    if receipt is not None and not dry_run:
        _require_writable(receipt)
    if not dry_run and not yes:
        _ask(topic, len(set(keys)), len(headers))
    cluster = cluster_of(context, bootstrap)
    job = start_excision(
        cluster,
        topic,
        keys=keys,
        headers=headers,
        partitions=partition,
        dry_run=dry_run,
        patience_ms=round(1000 * transaction_timeout),
    )
    found = _follow(cluster, job, dry_run=dry_run)
    if show_keys:
        found["criteria"]["plain_keys"] = sorted(each.decode(errors="replace") for each in keys)
    path = None
    if not dry_run:
        path = receipt or Path(f"excision-{job}.json")
        with path.open("x") as file:
            file.write(json.dumps(found, indent=2) + "\n")
    if as_json:
        print_json(found)
    else:
        print_receipt(found, path)
    if found["check"] is not None and not found["check"]["passed"]:
        complain("something is left of the records; the receipt says where. Run this again.")
        raise typer.Exit(FAILED)


def _require_writable(receipt: Path) -> None:
    """A receipt that cannot be saved is better known before anything is erased than after."""
    try:
        receipt.open("x").close()
    except FileExistsError:
        raise typer.BadParameter(
            f"{receipt} exists already and is left as it is, and so is the topic; name another "
            "file.",
            param_hint="--receipt",
        ) from None
    # Without a receipt nothing is left behind, so that the same command can be run again.
    receipt.unlink()


def _ask(topic: str, keys: int, headers: int) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is nobody to ask; say --yes.", param_hint="--yes")
    counted = [f"{keys} key{'' if keys == 1 else 's'}"] if keys else []
    counted += [f"{headers} header{'' if headers == 1 else 's'}"] if headers else []
    typer.confirm(
        f"Erase every record of {topic} with {' or '.join(counted)}, for good?",
        abort=True,
        err=True,
    )


def _follow(cluster: "Cluster", job: str, *, dry_run: bool) -> dict[str, Any]:
    from headrace.kafka import follow_excision

    bar = ExcisionBar()
    try:
        for progress in follow_excision(cluster, job):
            if progress.receipt is not None:
                return progress.receipt
            bar.show(progress.phase, progress.done, progress.total)
    except KeyboardInterrupt:
        bar.clear()
        if not dry_run:
            remark(
                f"The broker goes on with excision {job}; its receipt will be in the broker's data "
                f"directory as excisions/{job}.json."
            )
        raise typer.Exit(INTERRUPTED) from None
    finally:
        bar.clear()
    raise AssertionError("a job ends with a receipt or a refusal")
