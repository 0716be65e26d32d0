"""``parallax repair``: plan what ends a divergence, and run the plan.

Further commands show the repairs on record, resume one, or undo one.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parallax.commands.numbers import NUMBER, OFFSET, STEP, TOPIC
from parallax.commands.shared import (
    Config,
    Format,
    JobConfig,
    JobData,
    OutputFormat,
    one_line_errors,
    say,
    used_settings,
    used_storage,
)
from parallax.output import FileKind, as_json
from parallax.output import output as file_to
from parallax.shell import Shell

if TYPE_CHECKING:
    from parallax.repair.plan import Plan
    from parallax.repair.record import Repair

app = typer.Typer(help="Plan, run and prove the repair of a partition.")

STOPPED, MISSING = 1, 3
"""Exit codes: a repair has stopped; a plan cannot be made for want of something that it names."""


PLAN = FileKind("a plan of parallax repair plan", r'\{\s*"format":\s*\d')


class Outcome(StrEnum):
    """The values of ``--outcome``: whether a transaction was committed or aborted, as the person who owns it says."""

    commit = "commit"
    abort = "abort"


RepairId = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it.")]


@app.command()
@one_line_errors
def plan(
    config: Config,
    finding: Annotated[
        str | None, typer.Argument(metavar="[FINDING]", help="A finding, by its id or the beginning of it.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Or a partition: its topic.", **TOPIC)] = None,
    partition: Annotated[int | None, typer.Option(help="And its number.", **NUMBER)] = None,
    outcome: Annotated[
        list[Outcome] | None,
        typer.Option(help="How a transaction ended, where nothing but its owner can say; may be repeated."),
    ] = None,
    offset: Annotated[
        list[int] | None,
        typer.Option(help="And where that transaction starts; once for each.", **OFFSET),
    ] = None,
    right: Annotated[
        int | None,
        typer.Option(help="The broker whose replica is right, where nothing proves it and you know.", **NUMBER),
    ] = None,
    lead: Annotated[
        bool, typer.Option("--lead", help="Only let a right replica lead, and put wrong ones last; nothing is copied.")
    ] = False,
    automation_paused: Annotated[
        bool, typer.Option("--automation-paused", help="Cruise Control moves nothing until the repair is over.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the plan to a file, for repair run.")
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Plan what ends the findings of a partition, step by step. Changes nothing.

    Exit code 3: the plan lacks something, and names it.
    """
    from parallax.config import ConfigError, load
    from parallax.model import TopicPartition
    from parallax.repair.command import document, place_of
    from parallax.repair.command import plan as made_of
    from parallax.repair.copies import Said

    if (finding is None) == (topic is None) or (topic is None) != (partition is None):
        raise ConfigError("repair plan: give a finding, or --topic and --partition")
    if finding is not None and not finding:
        raise ConfigError("repair plan: the id of the finding is empty; `parallax findings` lists the ids")
    said = dict(zip(offset or (), (one.value for one in outcome or ()), strict=False))
    if not len(said) == len(outcome or ()) == len(offset or ()):
        raise ConfigError("repair plan: give one --offset with each --outcome: which transaction ended so")
    settings = used_settings(config) if finding else load(config)
    place = place_of(settings.storage.path, finding) if finding else TopicPartition(topic or "", partition or 0)
    if lead and said:
        raise ConfigError("repair plan: --lead ends no transaction; leave out --outcome and --offset")
    with nullcontext() if file is None else file_to(file, PLAN) as to:
        made = made_of(settings, place, said, say, Said(automation_paused, right), is_to_lead=lead, config=config)
        if to is not None:
            to.write(as_json(document(made)) + "\n")
    typer.echo(
        as_json(document(made)) if output is Format.json else in_words(made, file, Shell.of(settings.kafka, config))
    )
    if made.missing:
        raise typer.Exit(MISSING)


def in_words(made: Plan, file: Path | None, shell: Shell) -> str:
    """A plan as text for people, with the command that runs it.

    Args:
        made: the plan.
        file: the file that the plan was written to; None if it was not.
        shell: how the command names the cluster and the job.
    """
    lines = [f"{made.place.name}, led by broker {made.leader}, replicas {', '.join(map(str, made.replicas))}"]
    if not made.steps and not made.missing:
        lines.append(made.note or "Nothing that is open here can be repaired.")
    for step in (*made.steps, *made.instead):
        facts = [
            *([("warning", step.warning)] if step.warning else []),
            *(("needs", one) for one in step.needs),
            ("changes", step.changes),
            ("takes", step.takes),
            ("half-way", step.half_way),
            ("undo", step.undo),
        ]
        head = f"Step {step.number}. {step.title}" if step.number else f"Instead, a person can do this. {step.title}"
        lines += ["", head, *(f"  {name + ':':<10}{text}" for name, text in facts)]
        # Commands are pasted as they are.
        lines += ["  by hand:", step.by_hand] if "\n" in step.by_hand else [f"  by hand:  {step.by_hand}"]
        lines += ["  check:", step.check] if step.kind == "person" else []
    lines += ["", *(f"Missing: {one}" for one in made.missing)] if made.missing else []
    if made.steps:
        command = shell.parallax("repair", "run", file or "FILE")
        how = "plan again with -o FILE, and then run" if file is None else "run"
        lines += ["", f"Where repair.mode is on (it is off by default), {how}: {command}"]
    return "\n".join(lines)


@app.command()
@one_line_errors
def run(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="The file that repair plan -o has written.")],
    config: Config,
    step: Annotated[int | None, typer.Option(help="This step alone.", **STEP)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Run a plan, step by step. Exit code 1: it has stopped.

    Each step is recorded first. The next step begins once every replica shows what the step has done.
    """
    from parallax.config import load
    from parallax.repair.command import RepairCommandError, check_may_run, read_plan
    from parallax.repair.command import run as run_plan

    settings = load(config)
    check_may_run(settings)
    made = read_plan(file)
    if step is not None:
        try:
            made = made.only(step)
        except KeyError:
            raise RepairCommandError(f"--step: the plan has no step {step}; it has {len(made.steps)}") from None
    if not yes and not _is_at_a_terminal():
        raise RepairCommandError("repair run: nobody is there to be asked; give --yes")
    _end(run_plan(settings, made, say, None if yes else lambda: _ask(made)), output)


def _is_at_a_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(made: Plan) -> None:
    for one in made.steps:
        say(f"Step {one.number}. {one.title}\n  {one.changes}\n  Undo: {one.undo}")
    if not typer.confirm("Run it?", err=True):
        raise typer.Exit(STOPPED)


@app.command()
@one_line_errors
def resume(repair: RepairId, config: Config, output: OutputFormat = Format.text) -> None:
    """Resume a repair that has stopped, or whose process is gone. Exit code 1: it has stopped again."""
    from parallax.repair.command import resume as go_on

    settings = used_settings(config)
    _end(go_on(settings, repair, say), output)


@app.command()
@one_line_errors
def undo(repair: RepairId, config: Config, output: OutputFormat = Format.text) -> None:
    """Give up a repair. Puts back what can be put back, and names the rest. Exit code 1: putting back failed."""
    from parallax.repair.command import undo as give_up

    settings = used_settings(config)
    _end(give_up(settings, repair, say), output, "closed")


@app.command()
@one_line_errors
def close(repair: RepairId, config: JobConfig = None, data: JobData = None, output: OutputFormat = Format.text) -> None:
    """End a repair on record, and change nothing on the cluster. For one that cannot be undone."""
    from parallax.repair.command import close as end_as_it_is

    _end(end_as_it_is(used_storage(config, data), repair, say), output, "closed")


@app.command()
@one_line_errors
def status(config: JobConfig = None, data: JobData = None, output: OutputFormat = Format.text) -> None:
    """Show every repair on record, and which steps are done.

    With -c, brokers are asked whether an open one can still be undone.
    """
    from parallax.config import load
    from parallax.repair.command import hindrances, read_record

    storage = used_storage(config, data)
    repairs = list(read_record(storage).repairs.values())
    hindered = {} if config is None else hindrances(load(config), repairs)
    if output is Format.json:
        typer.echo(as_json([_document(one, hindered.get(one.repair_id)) for one in repairs]))
        return
    typer.echo(
        "\n".join(_line(one, hindered.get(one.repair_id)) for one in repairs)
        or f"nothing was repaired, by what is on record in {storage}"
    )


def _end(repair: Repair, output: Format, phase: str = "over") -> None:
    typer.echo(as_json(_document(repair)) if output is Format.json else _line(repair))
    if repair.phase != phase:
        raise typer.Exit(STOPPED)


def _line(repair: Repair, hindered: str | None = None) -> str:
    from parallax.moments import time_text
    from parallax.repair.owner import in_words as named
    from parallax.repair.owner import phase_in_words

    done = f"{len(repair.proven)} of {len(repair.plan['steps'])} steps done"
    when = f"{time_text(repair.at_ms)}, by {named(repair.owner)}"
    why = f": {repair.reason}" if repair.reason else ""
    line = f"{repair.repair_id[:8]} {repair.place.name}: {phase_in_words(repair)}, {done} ({when}){why}"
    return f"{line}\n  {hindered[:1].upper()}{hindered[1:]}." if hindered else line


def _document(repair: Repair, hindered: str | None = None) -> dict[str, object]:
    from parallax.moments import time_text
    from parallax.repair.owner import is_interrupted

    return {
        "id": repair.repair_id,
        "topic": repair.place.topic,
        "partition": repair.place.partition,
        "phase": str(repair.phase),
        "is_interrupted": is_interrupted(repair),
        "began": time_text(repair.began_ms),
        "since": time_text(repair.at_ms),
        "owner": repair.owner,
        "steps": len(repair.plan["steps"]),
        "done": sorted(repair.proven),
        "left_assigned": list(repair.left) or None,
        "reason": repair.reason,
        "hindered": hindered,
    }
