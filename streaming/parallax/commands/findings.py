"""``parallax findings``: list, show, explain and acknowledge findings; and ``parallax report``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parallax.commands.numbers import TIME, TOPIC
from parallax.commands.shared import (
    Format,
    JobConfig,
    JobData,
    OutputFormat,
    Target,
    format_of,
    one_line_errors,
)
from parallax.counts import counted
from parallax.errors import one_line
from parallax.model import FindingKind, FindingStatus
from parallax.output import as_json

if TYPE_CHECKING:
    from parallax.config import Settings
    from parallax.findings.finding import Finding
    from parallax.findings.readers import Readers
    from parallax.findings.report import Facts, OnRecord

app = typer.Typer(invoke_without_command=True)


FindingId = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it.")]

Everything = Annotated[
    bool,
    typer.Option("--all", help="Those that are over too. Suspects that were not confirmed: list --status dismissed."),
]


@app.callback()
@one_line_errors
def findings(
    context: typer.Context,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
    everything: Everything = False,
) -> None:
    """List the open findings. Its commands show, explain or acknowledge one."""
    from parallax.findings.report import Wanted, print_findings

    command = context.invoked_subcommand
    if command is None:
        job = Target(config, data)
        print_findings(job.storage, output.value, Wanted(everything=everything), shell=job.shell)
        _say_if_unwatched(job.storage, output.value)
    elif everything and command != "list":
        raise _not_of(command, "--all")


def _not_of(command: str, option: str) -> Exception:
    from parallax.config import ConfigError

    return ConfigError(f"{option}: findings {command} has no such option; leave it out")


@app.command("list")
@one_line_errors
def list_findings(
    context: typer.Context,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
    everything: Everything = False,
    topic: Annotated[list[str] | None, typer.Option(help="Of this topic; may be repeated.", **TOPIC)] = None,
    kind: Annotated[
        list[FindingKind] | None, typer.Option(metavar="KIND", help="Of this kind; may be repeated.")
    ] = None,
    status: Annotated[
        list[FindingStatus] | None, typer.Option(metavar="STATUS", help="Of this status; may be repeated.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(help="Suspected at this time (UTC) or later.", **TIME),
    ] = None,
) -> None:
    """List the open findings, or those that the options select."""
    from parallax.findings.report import Wanted, print_findings

    wanted = Wanted(
        everything=everything or bool(context.parent is not None and context.parent.params.get("everything")),
        topics=tuple(topic or ()),
        kinds=tuple(kind or ()),
        statuses=tuple(status or ()),
        since=since,
    )
    job = Target.of(context, config, data)
    print_findings(job.storage, format_of(context, output), wanted, shell=job.shell)
    _say_if_unwatched(job.storage, format_of(context, output))


def _say_if_unwatched(storage: str, output: str) -> None:
    """That a list is of the past, to people: where no job runs, nothing new is found and nothing is seen to end."""
    from parallax.views.watching import unwatched_in_words

    if output == Format.text.value and (said := unwatched_in_words(storage)):
        typer.echo(f"{said[0].upper()}{said[1:]}.")


@app.command()
@one_line_errors
def show(
    context: typer.Context,
    finding: FindingId,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show all events of a finding, and what each broker answered last, side by side."""
    from parallax.findings.report import print_finding
    from parallax.repair.account import repairs_of

    job = Target.of(context, config, data)
    print_finding(job.storage, finding, format_of(context, output), shell=job.shell, repairs=repairs_of(job.storage))
    _say_if_unwatched(job.storage, format_of(context, output))


@app.command()
@one_line_errors
def explain(
    context: typer.Context,
    finding: FindingId,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Explain a finding in plain words: what consumers see, who is right, what to run."""
    from parallax.findings.report import print_explanation

    job = Target.of(context, config, data)
    print_explanation(
        job.storage,
        finding,
        format_of(context, output),
        on_record=job.on_record,
        shell=job.shell,
        runbook=job.runbook,
    )
    _say_if_unwatched(job.storage, format_of(context, output))


@app.command()
@one_line_errors
def readers(
    context: typer.Context,
    finding: FindingId,
    config: JobConfig = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show when a wrong replica led, and which consumer groups have read past the wrong offsets. Asks the brokers."""
    from parallax.config import ConfigError
    from parallax.findings.finding import current
    from parallax.findings.naming import named
    from parallax.findings.readers import document, in_words
    from parallax.findings.table import read_events

    job = Target.of(context, config, None)
    if job.settings is None:
        raise ConfigError("findings readers: give -c/--config: it asks the brokers")
    known = named(current(read_events(job.storage)), finding)
    with asking_readers(job.settings) as ask:
        found = ask(known)
    typer.echo(as_json(document(found)) if format_of(context, output) == "json" else in_words(found))


@contextmanager
def asking_readers(settings: Settings) -> Iterator[Callable[[Finding], Readers]]:
    """In a ``with`` block, gives a function that says which consumer groups may have read a finding's records.

    The function takes the finding and asks the brokers. Their connections are closed at the end of the block.

    Args:
        settings: the job's settings, which name the brokers and the storage.
    """
    from parallax.findings.readers import readers as asked
    from parallax.replica.client import ReplicaClient
    from parallax.views.binding import with_cluster

    settings = with_cluster(settings)
    with closing(ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)) as client:
        yield lambda finding: asked(client, settings.storage.path, finding)


@app.command()
@one_line_errors
def acknowledge(
    context: typer.Context,
    finding: Annotated[list[str], typer.Argument(metavar="ID...", help="Their ids, or the beginning of each.")],
    reason: Annotated[str, typer.Option(help="Why no more alarms are wanted. It is recorded.")],
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Record that findings are known. Each stays open, and its alert is suppressed until it is over or worse."""
    from parallax.findings.acknowledge import acknowledge_all
    from parallax.findings.report import as_document

    done = acknowledge_all(Target.of(context, config, data).storage, finding, reason)
    if format_of(context, output) == "json":
        typer.echo(as_json([as_document(one) for one in done]))
        return
    for one in done:
        typer.echo(f"acknowledged: {one.finding_id} ({one.kind} in {one.topic}-{one.partition})")


@one_line_errors
def report(
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write, HTML.")],
    finding: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of findings. Default: all open ones.")
    ] = None,
    config: JobConfig = None,
    data: JobData = None,
    output_format: OutputFormat = Format.text,
) -> None:
    """Write findings with their evidence as one HTML page for a ticket."""
    from parallax.alerting.page.ticket import write_report

    job = Target(config, data)
    alerting = None if job.settings is None else job.settings.alerting
    with _on_record_and_readers(job) as on_record:
        count = write_report(job.storage, finding or (), output, on_record, alerting, job.shell)
    if output_format is Format.json:
        typer.echo(as_json({"file": output, "findings": count}))
        return
    typer.echo(f"{output}: {counted(count, 'finding')}")


@contextmanager
def _on_record_and_readers(job: Target) -> Iterator[OnRecord]:
    """What is on record about a finding, and who may have read it, if the brokers are known and answer."""
    from parallax.findings.readers import in_words
    from parallax.findings.seen import seen_around
    from parallax.replica.errors import ReplicaError

    def recorded(finding: Finding) -> Facts:
        return replace(job.on_record(finding), seen=tuple(seen_around(job.storage, finding)))

    if job.settings is None:
        yield recorded
        return
    with asking_readers(job.settings) as ask:

        def facts(finding: Finding) -> Facts:
            known = recorded(finding)
            try:
                said = in_words(replace(ask(finding), led=()))
            except ReplicaError as error:
                said = f"The brokers could not be asked which consumer groups are past it ({one_line(error)})."
            return replace(known, readers=tuple(said.splitlines()))

        yield facts
