"""``parallax lead``: who may lead the partitions of a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from parallax.commands.shared import Config, Format, OutputFormat, one_line_errors
from parallax.output import as_json
from parallax.shell import Shell


@one_line_errors
def lead(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    config: Config,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this partition; may be repeated.")] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show which replicas may lead, which may not, and why. Exit code 1: one may not. 3: of one nobody can tell."""
    from parallax.config import load
    from parallax.repair.lead import document, exit_code, in_words, look

    settings = load(config)
    found = look(settings, topic, partition or ())
    if output is Format.json:
        typer.echo(as_json([document(one) for one in found]))
    else:
        shell = Shell.of(settings.kafka, config)
        typer.echo("\n".join(in_words(one, shell) for one in found))
    if code := exit_code(found):
        raise typer.Exit(code)
