"""Every command by its name, imported only when it is run.

There will be many, some of them with large libraries behind them, and a person who asks for help
or starts a broker should wait for none but the one in question. So the list of commands states
their one-line descriptions itself.
"""

from importlib import import_module
from typing import Any, Final

from typer.main import get_command

from headrace.cli.failures import FailingGroup

COMMANDS: Final = {
    "up": "Run all that headrace.toml describes until Ctrl-C or SIGTERM.",
    "console": "Serve the console, for any Kafka cluster, until Ctrl-C or SIGTERM.",
    "broker": "Run a broker until Ctrl-C or SIGTERM.",
    "produce": "Write records to a topic, one per argument or line.",
    "tail": "Show the records of a topic and follow it until Ctrl-C.",
    "topics": "List, create, describe, delete and configure topics.",
    "groups": "List, describe, watch, reset, copy and delete consumer groups.",
    "capture": "Turn what changes in a database into streams.",
    "sink": "Keep the rows of a topic in a store, without Spark.",
    "run": "Run the flows of a Python file until Ctrl-C or SIGTERM.",
    "serve": "Serve views over HTTP, with their changes, until Ctrl-C or SIGTERM.",
    "views": "List views, rebuild, compare and promote versions, drop one.",
    "flows": "List flows and their versions, promote one, drop one.",
    "state": "Look into the state that flows keep.",
    "excise": "Erase records from a topic's history, for good.",
    "archive": "Look at an archive, check it, and rebuild a broker from it.",
}
"""What each command does; its module has the same name and calls itself `app`."""


class Commands(FailingGroup):
    """The root of all commands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Here the suggestion for a misspelt name looks for the right one.
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order in which people get to know them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = get_command(import_module(f"headrace.cli.{cmd_name}").app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List them without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
