"""How a command ends when it does not end well: one line on stderr and an exit code."""

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from headrace.errors import HeadraceError

FAILED = 1
"""Something was wrong with the world: settings, cluster, records."""

INTERRUPTED = 130
"""The shell's convention for a command ended by Ctrl-C."""


class FailingGroup(TyperGroup):
    """Commands that may fail: turns exceptions into a line for the person and an exit code.

    Errors in usage are the command line library's business and end with 2. An exception that is
    neither ours nor the system's is a defect and keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read our output has seen enough, as in `headrace tail orders | head`.
            _discard_output()
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except typer.Abort as abort:
            # A question that was interrupted, where one that was answered with no goes on as it is.
            if not isinstance(abort.__context__, KeyboardInterrupt):
                raise
            print(file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except HeadraceError as error:
            _complain(str(error))
            raise typer.Exit(FAILED) from None
        except OSError as error:
            about = f"{error.filename}: " if error.filename else ""
            _complain(f"{about}{error.strerror or error}.")
            raise typer.Exit(FAILED) from None
        return result


def _complain(message: str) -> None:
    # Only now: who asks for help, or runs a broker, should not wait for how tables are printed.
    from headrace.cli.output import complain

    complain(message)


def _discard_output() -> None:
    """Point stdout at nothing, or the interpreter would fail once more when it flushes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
