"""The command line: ``parallax run | check | pause | resume | audit | demo | findings | guard | lab`` and more.

Exit codes: 0 done (``demo``: exactly the expected findings; ``audit``: consistent), 1 not as expected (``audit``:
diverged; ``check``: something is wrong), 2 wrong usage or environment, 3 unknown (``audit``, ``check``).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version as installed_version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar, cast

import typer
from typer.core import TyperGroup

from parallax.errors import one_line
from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.model import FindingKind, FindingStatus
from parallax.output import as_json, error_line, waiting

if TYPE_CHECKING:
    from parallax.findings.report import OnRecord
    from parallax.lab.commands import LabStatus
    from parallax.views.pause import Paused

P = ParamSpec("P")
R = TypeVar("R")

USAGE_ERROR = 2
_Misused: type[Any] = typer.BadParameter.__mro__[1]
"""What the command line cannot be used for; click's UsageError, which typer does not give by name."""


class _OneLine(TyperGroup):
    """Says of a command line that cannot be used what is wrong with it in one line, JSON where that is asked for."""

    def main(self, *given: Any, **options: Any) -> Any:
        """Run the command line, or show the help where it is empty."""
        if not options.get("standalone_mode", True):
            return super().main(*given, **options)
        args = given[0] if given else options.get("args")
        words = sys.argv[1:] if args is None else list(args)
        try:
            ended = super().main(*given, **options | {"standalone_mode": False})
        except typer.Abort:
            sys.exit(1)
        except _Misused as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                is_json = "--format=json" in words or ("--format", "json") in pairwise(words)
                say(error_line(one_line(error.format_message()), "json" if is_json else "text"))
            sys.exit(error.exit_code)
        sys.exit(ended or 0)


app = typer.Typer(
    name="parallax",
    cls=_OneLine,
    help="Tells Kafka operators when their replicas disagree.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
lab_app = typer.Typer(help="Three real local Kafka brokers and the scenarios that make their replicas diverge.")
app.add_typer(lab_app, name="lab", no_args_is_help=True)
findings_app = typer.Typer(invoke_without_command=True)
app.add_typer(findings_app, name="findings")
storage_app = typer.Typer(help="What a job keeps on record, and which cluster that is of.")
app.add_typer(storage_app, name="storage", no_args_is_help=True)
guard_app = typer.Typer(help="What is held while a replica is away: show it, hold a topic, let go of it.")
app.add_typer(guard_app, name="guard", no_args_is_help=True)


class ProducerKind(StrEnum):
    """The producer that writes the scenarios' transactions."""

    legacy = "legacy"
    java = "java"


class Format(StrEnum):
    """How a command prints what it has to say."""

    text = "text"
    json = "json"


OutputFormat = Annotated[Format, typer.Option("--format", help="text or json.")]


class AuditSource(StrEnum):
    """The records that an audit compares."""

    brokers = "brokers"
    tables = "tables"


KafkaVersion = Annotated[str, typer.Option("--kafka-version", help="Version of the lab's brokers.")]
Producer = Annotated[
    ProducerKind,
    typer.Option(help="legacy: confluent-kafka; java: Kafka's own client with transaction.version 2."),
]


def say(text: str) -> None:
    """Print a line of progress to standard error."""
    typer.echo(text, err=True)


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn every error that a person can mend into one line on standard error (JSON if asked for) and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except _mendable_errors() as error:
            say(error_line(one_line(error), _wanted_format(kwargs)))
            raise typer.Exit(USAGE_ERROR) from None

    return wrapped


def _wanted_format(options: Mapping[str, object]) -> str:
    """The format that a command was asked for; ``text`` where it has none."""
    given = next((value for value in options.values() if isinstance(value, Format)), Format.text)
    context = options.get("context")
    return given.value if context is None else _format_of(cast("typer.Context", context), given)


def _mendable_errors() -> tuple[type[Exception], ...]:
    from parallax.alerting.server import MetricsServerError
    from parallax.config import ConfigError
    from parallax.errors import SetupError
    from parallax.findings.acknowledge import AcknowledgeError
    from parallax.findings.naming import FindingNotNamedError
    from parallax.findings.table import FindingsTableError
    from parallax.guard.command import GuardCommandError
    from parallax.guard.table import GuardTableError
    from parallax.job import JobError
    from parallax.lab.errors import LabError
    from parallax.replica.errors import ReplicaError
    from parallax.views.pause import PauseError

    ours = (
        AcknowledgeError,
        ConfigError,
        FindingsTableError,
        GuardCommandError,
        GuardTableError,
        JobError,
        LabError,
        MetricsServerError,
        FindingNotNamedError,
        PauseError,
    )
    return (*ours, ReplicaError, SetupError)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(installed_version("kafka-parallax"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    del version


@app.command()
@one_line_errors
def run(
    config: Annotated[Path, typer.Option("-c", "--config", help="The settings file; see conf/parallax.yaml.")],
) -> None:
    """Run the always-on job until SIGTERM or SIGINT."""
    from parallax.config import load
    from parallax.job import run_until_signal

    run_until_signal(load(config), say)


@app.command()
@one_line_errors
def demo(
    kafka_version: KafkaVersion = DEFAULT_KAFKA_VERSION,
    producer: Producer = ProducerKind.legacy,
    data: Annotated[Path | None, typer.Option(help="Folder for the tables; a new temporary one by default.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write what the terminal showed as an SVG picture.")] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Stay up until Ctrl+C: look at the status page.")] = False,
    guard: Annotated[
        bool, typer.Option("--guard", help="Five topics that a guard holds beside five that it does not.")
    ] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Start three brokers, make five replicas diverge, and watch them being found."""
    from parallax.demo import run_demo

    raise typer.Exit(
        run_demo(kafka_version, producer.value, data, picture, stay=stay, guard=guard, output=output.value)
    )


JobConfig = Annotated[Path | None, typer.Option("-c", "--config", help="The job's settings file.")]
JobData = Annotated[str | None, typer.Option("--data", help="Or the job's storage.path itself.")]


def _storage(config: Path | None, data: str | None) -> str:
    from parallax.config import ConfigError, load, storage_path
    from parallax.stores import set_environment

    if (config is None) == (data is None):
        raise ConfigError("give either -c/--config or --data")
    if data is None:
        settings = load(config or "")
        set_environment(settings.storage.path, settings.spark.conf, os.environ)
        return settings.storage.path
    try:
        set_environment(data, {}, os.environ)
        return storage_path(data)
    except ValueError as error:
        raise ConfigError(f"--data: {error}; give the storage.path of a job that has run") from None


FindingId = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it.")]


@findings_app.callback()
@one_line_errors
def findings(
    context: typer.Context,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
    everything: Annotated[bool, typer.Option("--all", help="Resolved and dismissed ones too.")] = False,
) -> None:
    """List what the findings table holds, show or explain a finding, or acknowledge it."""
    from parallax.findings.report import Wanted, print_findings

    command = context.invoked_subcommand
    if command is None:
        print_findings(_storage(config, data), output.value, Wanted(everything=everything))
    elif everything and command != "list":
        raise _not_of(command, "--all")


def _is_written(context: typer.Context, parameter: str) -> bool:
    """Whether a parameter of a command stands on the command line."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _not_of(command: str, option: str) -> Exception:
    from parallax.config import ConfigError

    return ConfigError(f"{option}: findings {command} has no such option; leave it out")


def _format_of(context: typer.Context, output: Format) -> str:
    """The format that a command under ``findings`` is to print: it may stand before its name."""
    before = context.parent.params.get("output") if context.parent is not None else None
    return str((output if _is_written(context, "output") else before or output).value)


def _storage_of(context: typer.Context, config: Path | None, data: str | None) -> str:
    """The storage that a command under ``findings`` means: its options may stand before its name."""
    before = context.parent.params if context.parent is not None else {}
    return _storage(config or before.get("config"), before.get("data") if data is None else data)


@findings_app.command("list")
@one_line_errors
def list_findings(
    context: typer.Context,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
    everything: Annotated[bool, typer.Option("--all", help="Resolved and dismissed ones too.")] = False,
    topic: Annotated[list[str] | None, typer.Option(help="Of this topic; may be repeated.")] = None,
    kind: Annotated[list[FindingKind] | None, typer.Option(help="Of this kind; may be repeated.")] = None,
    status: Annotated[list[FindingStatus] | None, typer.Option(help="Of this status; may be repeated.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Suspected then (UTC) or later."),
    ] = None,
) -> None:
    """List the findings that stand, or those that are asked for."""
    from parallax.findings.report import Wanted, print_findings

    wanted = Wanted(
        everything=everything or bool(context.parent is not None and context.parent.params.get("everything")),
        topics=tuple(topic or ()),
        kinds=tuple(kind or ()),
        statuses=tuple(status or ()),
        since=None if since is None else since.replace(tzinfo=UTC),
    )
    print_findings(_storage_of(context, config, data), _format_of(context, output), wanted)


@findings_app.command()
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

    print_finding(_storage_of(context, config, data), finding, _format_of(context, output))


@findings_app.command()
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

    print_explanation(
        _storage_of(context, config, data),
        finding,
        _format_of(context, output),
        on_record=_on_record(context, config, data),
    )


def _on_record(context: typer.Context, config: Path | None, data: str | None) -> OnRecord:
    """What the clock and the guard have on record beside a finding, by the settings of the job where they are given."""
    from parallax.config import GuardSettings, ReadSettings, load
    from parallax.guard.account import beside

    storage = _storage_of(context, config, data)
    before = context.parent.params if context.parent is not None else {}
    path = config or before.get("config")
    settings = None if path is None else load(path)
    read, guard = (ReadSettings(), GuardSettings()) if settings is None else (settings.read, settings.guard)
    return beside(storage, read, guard)


@findings_app.command()
@one_line_errors
def acknowledge(
    context: typer.Context,
    finding: FindingId,
    reason: Annotated[str, typer.Option(help="Why no more alarm is wanted; it is recorded.")],
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Record that a finding is known: its alert ends, and it comes back only if it becomes worse."""
    from parallax.findings.acknowledge import acknowledge as record
    from parallax.findings.report import as_document

    done = record(_storage_of(context, config, data), finding, reason)
    if _format_of(context, output) == "json":
        typer.echo(as_json(as_document(done)))
        return
    typer.echo(f"acknowledged: {done.finding_id} ({done.kind} in {done.topic}-{done.partition})")


BrokerIds = Annotated[
    list[int] | None, typer.Option("--broker", min=0, max=2**31 - 1, help="Of this broker; may be repeated.")
]


@app.command()
@one_line_errors
def pause(
    reason: Annotated[str, typer.Option(help="Why nothing is to be read; it is shown wherever the pause is.")],
    broker: BrokerIds = None,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Have the job read no records, of all brokers or of some; positions stay, and what is not read is unknown."""
    from parallax.people import user
    from parallax.views.pause import pause as begin

    _print_paused(begin(_storage(config, data), broker or (), reason, user()), output)


@app.command()
@one_line_errors
def resume(
    broker: BrokerIds = None,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Have the job read on, of all brokers or of some."""
    from parallax.views.pause import resume as end

    _print_paused(end(_storage(config, data), broker or ()), output)


def _print_paused(standing: Paused, output: Format) -> None:
    from parallax.views.pause import called

    if output is Format.json:
        typer.echo(as_json({called(broker): asdict(one) for broker, one in standing.items()}))
        return
    names = ", ".join(called(broker) for broker in sorted(standing))
    typer.echo(f"not read: {names}; a job that runs follows within seconds" if names else "all brokers are read")


@app.command()
@one_line_errors
def report(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write, HTML.")],
    finding: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Findings; all that stand.")] = None,
    config: JobConfig = None,
    data: JobData = None,
    output_format: OutputFormat = Format.text,
) -> None:
    """Write findings with their evidence as one page that a ticket can hold."""
    from parallax.alerting.page.ticket import write_report
    from parallax.config import load

    storage, alerting = _storage(config, data), None if config is None else load(config).alerting
    count = write_report(storage, finding or (), output, _on_record(context, config, data), alerting)
    if output_format is Format.json:
        typer.echo(as_json({"file": output, "findings": count}))
        return
    typer.echo(f"{output}: {count} finding{'' if count == 1 else 's'}")


@app.command()
@one_line_errors
def audit(
    config: Annotated[Path, typer.Option("-c", "--config", help="The settings file; see conf/parallax.yaml.")],
    topic: Annotated[list[str] | None, typer.Option(help="A topic; may be repeated. Default: all watched.")] = None,
    partition: Annotated[list[int] | None, typer.Option(help="A partition of each topic; may be repeated.")] = None,
    source: Annotated[AuditSource, typer.Option("--from", help="Read the brokers, or what the job recorded.")] = (
        AuditSource.brokers
    ),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be read.")] = False,
    max_bytes_per_second: Annotated[
        int | None, typer.Option(help="From each broker; 0: no limit. Default: audit.max_bytes_per_second.")
    ] = None,
    output_format: OutputFormat = Format.text,
    output: Annotated[Path | None, typer.Option(help="Write the report to a file.")] = None,
) -> None:
    """Compare all replicas of partitions once, from their log starts on; exit 0 consistent, 1 diverged, 3 unknown."""
    from parallax.audit.command import Flags, run_audit
    from parallax.config import load

    flags = Flags(
        topics=tuple(topic or ()),
        partitions=tuple(partition or ()),
        source=source.value,
        dry_run=dry_run,
        max_bytes_per_second=max_bytes_per_second,
        output=output_format.value,
        file=output,
    )
    raise typer.Exit(run_audit(load(config), flags))


@app.command()
@one_line_errors
def check(
    config: Annotated[Path, typer.Option("-c", "--config", help="The settings file; see conf/parallax.yaml.")],
    output: OutputFormat = Format.text,
) -> None:
    """Look at settings, machine, brokers, rights and topics; exit 0 fine, 1 something is wrong, 3 not to be known."""
    import structlog

    from parallax.check import check as look
    from parallax.check import exit_code
    from parallax.config import load

    # What is wrong is a line below, whatever Spark has to say of it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    lines = []
    coming = look(load(config))
    while True:
        with waiting("looking at the machine and the cluster"):
            line = next(coming, None)
        if line is None:
            break
        lines.append(line)
        if output is Format.text:
            typer.echo(f"{line.result:8}{line.about}: {line.text}")
    if output is Format.json:
        typer.echo(as_json([asdict(line) for line in lines]))
    raise typer.Exit(exit_code(lines))


@app.command("fetch-jars")
@one_line_errors
def fetch_jars(kafka_version: KafkaVersion = DEFAULT_KAFKA_VERSION, output: OutputFormat = Format.text) -> None:
    """Fetch Delta's and Kafka's jars into the cache and prepare Spark for quick starts, once."""
    from parallax.jars import delta_jars, kafka_jars, s3_jars
    from parallax.java import find_java
    from parallax.rehearsal import make_archive

    find_java()
    with waiting("fetching jars"):
        delta, kafka = delta_jars(progress=say), kafka_jars(kafka_version, progress=say)
        s3 = s3_jars(progress=say)
    archive = make_archive(say)
    if output is Format.json:
        typer.echo(
            as_json({"delta": delta, "s3": s3, "kafka": kafka, "kafka_version": kafka_version, "archive": archive})
        )


GuardConfig = Annotated[Path, typer.Option("-c", "--config", help="The job's settings file.")]


@guard_app.command("status")
@one_line_errors
def guard_status(config: JobConfig = None, data: JobData = None, output: OutputFormat = Format.text) -> None:
    """Show which topics are held, what was changed, and what puts it back by hand."""
    from parallax.config import load
    from parallax.guard.command import addressed, document, in_words, read_record, refused_in_words
    from parallax.guard.holds import open_holds, stranded

    record, _ = read_record(_storage(config, data))
    settings = None if config is None else load(config)
    kafka = None if settings is None else settings.kafka
    holds = open_holds(record)
    if output is Format.json:
        refused = [
            {"topic": e.topic, "kind": e.kind, "reason": addressed(e.reason, kafka)} for e in record.refused.values()
        ]
        typer.echo(as_json({"holds": [document(hold, kafka) for hold in holds], "refused": refused}))
        return
    typer.echo("\n".join(in_words(hold, kafka) for hold in holds) or "nothing is held")
    mode = "act" if settings is None else settings.guard.mode
    for said in filter(None, (stranded(hold.topic, mode) for hold in holds)):
        say(said)
    for event in record.refused.values():
        typer.echo(refused_in_words(event, kafka))


@guard_app.command("hold")
@one_line_errors
def guard_hold(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    config: GuardConfig,
    output: OutputFormat = Format.text,
) -> None:
    """Hold a topic until it is let go of, or for guard.max_hold_hours: nothing of it is cleaned."""
    _guard_asked(config, [topic], hold=True, output=output)


@guard_app.command("release")
@one_line_errors
def guard_release(
    config: GuardConfig,
    topic: Annotated[str | None, typer.Argument(help="The topic.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are held, or asked for.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Put the settings of a topic back now; it is not held again for the same absence."""
    from parallax.config import ConfigError, load
    from parallax.guard.command import read_record
    from parallax.guard.holds import open_holds

    if (topic is None) != everything:
        raise ConfigError("guard release: give either a topic or --all")
    topics = [topic] if topic is not None else []
    if everything:
        record = read_record(load(config).storage.path)[0]
        asked = {name for name, is_wanted in record.asked.items() if is_wanted}
        topics = sorted({hold.topic for hold in open_holds(record)} | asked)
    _guard_asked(config, topics, hold=False, output=output)


def _guard_asked(config: Path, topics: list[str], *, hold: bool, output: Format) -> None:
    import logging

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
    typer.echo("\n".join(in_words(one, settings.kafka) for one in holds) or "nothing is held")


@storage_app.command("bind")
@one_line_errors
def storage_bind(
    cluster: Annotated[str, typer.Option("--cluster", help="The cluster's id, as `parallax check` shows it.")],
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Move a job's storage to another cluster: from its next start on the job takes answers of that one alone."""
    from parallax.job import moved

    path = _storage(config, data)
    before = moved(path, cluster, say)
    if output is Format.json:
        typer.echo(as_json({"storage": path, "cluster_id": cluster, "before": before}))
        return
    typer.echo(f"{path} belongs to cluster {cluster}" + (f", and no more to {before}" if before else ""))


LabName = Annotated[str, typer.Option("--name", help="Which lab; several may be up at once.")]


def _show_lab(status: LabStatus, output: Format) -> None:
    if output is Format.json:
        typer.echo(as_json(asdict(status)))
        return
    typer.echo(f"lab {status.name}: Kafka {status.version}, bootstrap.servers={status.bootstrap_servers}")
    for broker in status.brokers:
        process = f" (pid {broker.pid})" if broker.pid else ""
        typer.echo(f"  broker {broker.id}  {broker.address}  {broker.condition}{process}")


@lab_app.command("up")
@one_line_errors
def lab_up(
    kafka_version: KafkaVersion = DEFAULT_KAFKA_VERSION, name: LabName = "default", output: OutputFormat = Format.text
) -> None:
    """Start three brokers that stay up."""
    from parallax.lab import commands

    _show_lab(commands.up(kafka_version, name=name, say=say), output)


@lab_app.command("down")
@one_line_errors
def lab_down(name: LabName = "default", output: OutputFormat = Format.text) -> None:
    """Stop a lab's brokers and remove what they hold."""
    from parallax.lab import commands

    was = commands.down(name=name)
    if output is Format.json:
        typer.echo(as_json({"name": was.name, "stopped": [asdict(broker) for broker in was.brokers]}))
        return
    typer.echo(f"lab {was.name} is down")


@lab_app.command("status")
@one_line_errors
def lab_status(name: LabName = "default", output: OutputFormat = Format.text) -> None:
    """Show a lab's brokers."""
    from parallax.lab import commands

    _show_lab(commands.status(name=name), output)


@lab_app.command("scenario")
@one_line_errors
def lab_scenario(
    scenario: Annotated[str, typer.Argument(help="Its name; an unknown one lists them all.")],
    producer: Producer = ProducerKind.legacy,
    name: LabName = "default",
    output: OutputFormat = Format.text,
) -> None:
    """Play a scenario on a lab that is up."""
    from parallax.lab import commands

    result = commands.scenario(scenario, producer=producer.value, name=name, say=say)
    if output is Format.json:
        typer.echo(as_json(asdict(result)))
        return
    typer.echo(f"{result.name}: stands on the brokers after {result.seconds['whole']:.0f} s")
    for expected in result.expected:
        typer.echo(f"  {expected.kind}: {expected.topic} broker {expected.broker} offset {expected.offset}")


def main() -> None:
    """Run the command line."""
    try:
        app()
    except SystemExit as ended:
        _end(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except KeyboardInterrupt:
        _end(130)


def _end(code: int) -> NoReturn:
    """End the process as Python does, but for taking the interpreter down.

    What has read a table by delta-rs may leave a thread of Arrow behind that lets go of Python's objects: where the
    interpreter is being taken down by then, the process aborts (https://github.com/apache/arrow/issues/34314), and a
    command that has done all that it should exits with 134.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # who read it may be gone
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
