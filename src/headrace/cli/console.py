"""`headrace console`: the web page, in this process until it is told to stop."""

import logging
from typing import Annotated

import typer

from headrace.cli.options import BootstrapOption, settings_of
from headrace.cli.output import remark

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@app.command()
def console(
    context: typer.Context,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address to serve the page at.")
    ] = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Serve the console, for any Kafka cluster, until Ctrl-C or SIGTERM.

    It prints a line with its address when it is ready. Where others than this machine can connect
    it wants a token, [console] token or HEADRACE_CONSOLE_TOKEN, and does not start without.
    """
    from headrace.console.serving import serve

    logging.basicConfig(level="WARNING", format=_LOG_FORMAT)
    logging.getLogger("headrace.console.audit").setLevel("INFO")
    settings = settings_of(context, {"kafka.bootstrap": bootstrap, "console.listen": listen})
    remark(f"looking at the cluster at {settings.kafka.bootstrap}")
    serve(settings, lambda address: print(f"Console at http://{address}", flush=True))
