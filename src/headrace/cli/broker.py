"""`headrace broker`: run a broker in this process until it is told to stop."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import assignments_from
from headrace.settings import BrokerSettings, join_address, load_settings, split_address

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_LOG_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"


@app.command()
def broker(
    context: typer.Context,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address to listen on.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0 picks a free one."),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address that clients are told to connect to."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory that holds everything stored.")
    ] = None,
    flush: Annotated[
        str | None,
        typer.Option(
            metavar="ack|interval|os",
            help="Who fsyncs: every acks=all, an interval, or the system when it likes.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics and health checks here."),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="debug|info|warning|error", help="How much to log on stderr."),
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of [broker]."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings file.")
    ] = None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    It prints a line with its address on stdout when clients can connect, and logs on stderr. All
    that is not given here comes from headrace.toml or HEADRACE_BROKER_ variables.
    """
    from headrace.broker.serve import run

    flags = {
        "broker.listen": listen,
        "broker.advertise": advertise,
        "broker.data": data,
        "broker.flush": flush,
        "broker.metrics": metrics,
        "broker.log_level": log_level,
        **{
            f"broker.{key}": value for key, value in assignments_from(assign or [], "--set").items()
        },
    }
    settings = load_settings(config or context.find_root().obj, flags=flags).broker
    if port is not None:
        settings = replace(settings, listen=join_address(split_address(settings.listen)[0], port))
    logging.basicConfig(level=settings.log_level.upper(), format=_LOG_FORMAT, datefmt=_TIME_FORMAT)
    run(settings, on_ready=lambda address: _announce(address, settings))


def _announce(address: str, settings: BrokerSettings) -> None:
    told = f"; clients are told {settings.advertise}" if settings.advertise else ""
    print(
        f"Headrace is ready at {address}{told} (data in {settings.data}, flush={settings.flush})",
        flush=True,
    )
