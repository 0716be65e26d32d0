"""``parallax storage``: say which cluster a job's storage belongs to."""

from __future__ import annotations

from typing import Annotated

import typer

from parallax.commands.shared import Format, JobConfig, JobData, OutputFormat, one_line_errors, say, used_storage
from parallax.output import as_json

app = typer.Typer(help="A job's storage, and the cluster that it belongs to.")


@app.command("bind")
@one_line_errors
def bind(
    cluster: Annotated[str, typer.Option("--cluster", help="The cluster's id, as `parallax check` shows it.")],
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Bind a job's storage to another cluster. From its next start, the job accepts only that cluster."""
    from parallax.job import moved

    path = used_storage(config, data)
    before = moved(path, cluster, say)
    if output is Format.json:
        typer.echo(as_json({"storage": path, "cluster_id": cluster, "before": before}))
        return
    typer.echo(f"{path} belongs to cluster {cluster}" + (f", and no more to {before}" if before else ""))


# Typer makes a group of an app only where it has a callback or several commands.
@app.callback()
def _group() -> None: ...
