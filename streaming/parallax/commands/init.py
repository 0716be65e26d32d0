"""``parallax init``: write out a configuration, alert rules, dashboards and the runbook."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from parallax.commands.shared import Format, OutputFormat, one_line_errors
from parallax.output import as_json


@one_line_errors
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to; this folder by default.")] = Path(),
    servers: Annotated[
        str, typer.Option("--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster's brokers.")
    ] = "127.0.0.1:9092",
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic to watch; may be repeated. Default: all but Kafka's own.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="storage.path: a folder, or s3a://bucket/prefix. Default: DIR/data.")
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Write a configuration, alert rules, dashboards and the runbook into a folder.

    A file that is there already is never replaced: then nothing is written.
    """
    import yaml

    from parallax.config import validate
    from parallax.shipped import CONFIG, Choices, configuration, write_out

    choices = Choices(servers, tuple(topic or ()), storage or str((folder / "data").absolute()))
    validate(yaml.safe_load(configuration(choices)), where=CONFIG)
    written = write_out(folder, choices)
    if output is Format.json:
        typer.echo(as_json({"config": written[0], "files": written}))
        return
    for file in written:
        typer.echo(str(file))
    typer.echo(f"Next: parallax check -c {shlex.quote(str(written[0]))}", err=True)
