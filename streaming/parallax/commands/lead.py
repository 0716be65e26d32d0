"""``parallax lead`` and ``parallax roll``: which replicas may lead, and whether a broker may be restarted now."""

from __future__ import annotations

from typing import Annotated

import typer

from parallax.commands.numbers import NUMBER, SECONDS, TOPIC
from parallax.commands.shared import Config, Format, OutputFormat, one_line_errors, used_settings
from parallax.output import as_json
from parallax.shell import Shell


@one_line_errors
def lead(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", **TOPIC)],
    config: Config,
    partition: Annotated[list[int] | None, typer.Option(help="Only this partition; may be repeated.", **NUMBER)] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show which replicas of a topic may lead, which may not, and why. Exit code 1: one may not. 3: one is unknown."""
    from parallax.repair.lead import document, exit_code, in_words, look

    settings = used_settings(config)
    shell = Shell.of(settings.kafka, config)
    found = look(settings, topic, partition or (), shell)
    if output is Format.json:
        typer.echo(as_json([document(one) for one in found]))
    else:
        typer.echo("\n".join(in_words(one, shell) for one in found))
    if code := exit_code(found):
        raise typer.Exit(code)


@one_line_errors
def roll(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="Its id.", **NUMBER)],
    config: Config,
    outage_s: Annotated[
        float, typer.Option("--outage-s", help="For how many seconds it is away, or behind, at most.", **SECONDS)
    ] = 600,
    output: OutputFormat = Format.text,
) -> None:
    """Say whether a broker may be restarted now, and who leads meanwhile. Exit code 1: it may not. 3: unknown."""
    from parallax.repair.roll import document, in_words
    from parallax.repair.roll import roll as asked

    found = asked(used_settings(config), broker, outage_s)
    typer.echo(as_json(document(found)) if output is Format.json else in_words(found))
    if found.exit_code:
        raise typer.Exit(found.exit_code)
