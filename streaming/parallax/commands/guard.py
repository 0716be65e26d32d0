"""``parallax guard``: show, place and release the guard's holds on topics.

A hold is a change of a topic's settings, so that Kafka removes nothing while a replica is away.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from parallax.commands.numbers import TOPIC
from parallax.commands.shared import (
    Config,
    Format,
    JobConfig,
    JobData,
    OutputFormat,
    one_line_errors,
    say,
    used_storage,
)
from parallax.output import as_json

app = typer.Typer(help="Show, place or release the guard's holds on topics.")


@app.command("status")
@one_line_errors
def guard_status(config: JobConfig = None, data: JobData = None, output: OutputFormat = Format.text) -> None:
    """Show which topics are held, what was changed, and how to put it back by hand."""
    from parallax.config import load
    from parallax.guard.command import addressed, document, in_words, read_record, refused_in_words
    from parallax.guard.holds import Record, open_holds, stranded
    from parallax.guard.table import GuardTable

    storage = used_storage(config, data)
    settings = None if config is None else load(config)
    kafka = None if settings is None else settings.kafka
    is_off = settings is not None and settings.guard.mode == "off"
    record = read_record(storage)[0] if GuardTable.is_there(storage) else Record()
    holds = open_holds(record)
    if output is Format.json:
        refused = [
            {"topic": e.topic, "kind": e.kind, "reason": addressed(e.reason, kafka)} for e in record.refused.values()
        ]
        typer.echo(as_json({"holds": [document(hold, kafka) for hold in holds], "refused": refused}))
        return
    none = f"nothing is held, by what is on record in {storage}"
    if is_off:
        none = f"{none}; the guard is off (guard.mode: off)"
    typer.echo("\n".join(in_words(hold, kafka) for hold in holds) or none)
    mode = "act" if settings is None else settings.guard.mode
    for said in filter(None, (stranded(hold.topic, mode) for hold in holds)):
        say(said)
    for event in record.refused.values():
        typer.echo(refused_in_words(event, kafka))


@app.command("hold")
@one_line_errors
def guard_hold(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", **TOPIC)],
    config: Config,
    output: OutputFormat = Format.text,
) -> None:
    """Hold a topic, so that Kafka's cleaner removes nothing from it.

    No job has to run. It ends when you release it, or after guard.max_hold_hours if a job with guard.mode: act runs.
    """
    _guard_asked(config, [topic], hold=True, output=output)


@app.command("release")
@one_line_errors
def guard_release(
    config: Config,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic.", **TOPIC)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All topics that are held, or asked for.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Put the settings of a held topic back now. The guard does not hold it again for the same absence."""
    from parallax.config import ConfigError
    from parallax.guard.command import read_record
    from parallax.guard.holds import open_holds
    from parallax.guard.table import GuardTable

    if (topic is None) != everything:
        raise ConfigError("guard release: give either a topic or --all")
    storage = used_storage(config, None)
    topics = [topic] if topic is not None else []
    if everything:
        if not GuardTable.is_there(storage):
            # This is the first command for removing Parallax, and most jobs have never had a guard.
            typer.echo(
                "[]" if output is Format.json else f"nothing is held: no guard has ever held anything in {storage}"
            )
            return
        record = read_record(storage)[0]
        asked = {name for name, is_wanted in record.asked.items() if is_wanted}
        topics = sorted({hold.topic for hold in open_holds(record)} | asked)
    _guard_asked(config, topics, hold=False, output=output)


def _guard_asked(config: Path, topics: list[str], *, hold: bool, output: Format) -> None:

    import structlog

    from parallax.config import load
    from parallax.guard.command import ask, document, in_words
    from parallax.job import JobError, lock_storage

    settings = load(config)
    # What is done, or why it is not, is said at the end, in the words of a command.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    is_run = False
    if settings.guard.mode == "act":
        try:
            lock = lock_storage(settings.storage.path)
        except JobError:
            is_run = True
        else:
            if lock is not None:
                lock.close()
    holds = ask(settings, topics, hold=hold, is_run_by_job=is_run) if topics else []
    if hold and not is_run:
        say(
            f"no job with guard.mode: act runs on this storage path: only `parallax guard release {topics[0]}`, or the "
            "next start of one, ends this"
        )
    if output is Format.json:
        typer.echo(as_json([document(one, settings.kafka) for one in holds]))
        return
    typer.echo(
        "\n".join(in_words(one, settings.kafka) for one in holds)
        or f"nothing is held, by what is on record in {settings.storage.path}"
    )
