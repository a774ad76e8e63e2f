"""Asking before something is changed: in a terminal by a question, elsewhere by an option."""

import sys

import typer


def is_agreed(question: str, *, dry_run: bool, execute: bool) -> bool:
    """Whether to go on: as the options say, else as the person in front of the terminal does."""
    if dry_run or execute:
        return execute
    return sys.stdin.isatty() and typer.confirm(question, err=True)


def refuse_contradiction(*, dry_run: bool, execute: bool) -> None:
    """A usage error if both are asked for."""
    if dry_run and execute:
        raise typer.BadParameter("contradicts --dry-run.", param_hint="--execute")


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "partition"), counted(2, "partition")
    ('1 partition', '2 partitions')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
