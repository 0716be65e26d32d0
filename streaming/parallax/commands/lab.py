"""``parallax demo`` and ``parallax lab``: start real brokers on this machine, and make their replicas diverge."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parallax.commands.numbers import NUMBER
from parallax.commands.shared import Format, OutputFormat, one_line_errors, say, storage_of
from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab.named import listed
from parallax.output import FileKind, as_json
from parallax.output import output as report_to
from parallax.shell import Shell

if TYPE_CHECKING:
    from parallax.lab.commands import LabStatus

app = typer.Typer(help="Three real local Kafka brokers and the scenarios that make their replicas diverge.")


PICTURE = FileKind("an SVG picture", "<svg ")


class ProducerKind(StrEnum):
    """Which producer writes the transactions of scenarios: confluent-kafka (legacy), or Kafka's own in Java."""

    legacy = "legacy"
    java = "java"


KafkaVersion = Annotated[str, typer.Option("--kafka-version", help="Version of the lab's brokers.")]
Producer = Annotated[
    ProducerKind,
    typer.Option(help="legacy: confluent-kafka; java: Kafka's own client with transaction.version 2."),
]


@one_line_errors
def demo(
    kafka_version: KafkaVersion = DEFAULT_KAFKA_VERSION,
    producer: Producer = ProducerKind.legacy,
    data: Annotated[Path | None, typer.Option(help="Folder for the tables; a new temporary one by default.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write what the terminal showed as an SVG picture.")] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Stay up until Ctrl+C: look at the status page.")] = False,
    guard: Annotated[
        bool, typer.Option("--guard", help="Five topics that a guard holds, and five that it does not.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Have each divergence repaired, and read by a consumer afterwards.")
    ] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Start three brokers, make five replicas diverge, and watch Parallax find them."""
    from parallax.config import ConfigError
    from parallax.demo import run_demo

    if guard and repair:
        raise ConfigError("--repair: what a guard has held does not diverge; give one of --guard and --repair")
    switches = {"stay": stay, "guard": guard, "repair": repair}
    with nullcontext() if picture is None else report_to(picture, PICTURE, "--picture") as to:
        code = run_demo(kafka_version, producer.value, data, to, **switches, output=output.value)
    raise typer.Exit(code)


LabName = Annotated[str, typer.Option("--name", help="Which lab; several may run at the same time.")]


def _show_lab(status: LabStatus, output: Format, changed: Collection[int] = ()) -> None:
    """The whole lab, and what to do with it; of some brokers that a command has changed only those."""
    if output is Format.json:
        typer.echo(as_json(asdict(status)))
        return
    if not changed:
        typer.echo(f"lab {status.name}: Kafka {status.version}, bootstrap.servers={status.bootstrap_servers}")
    for broker in status.brokers:
        process = f" (pid {broker.pid})" if broker.pid else ""
        if not changed or broker.id in changed:
            typer.echo(f"  broker {broker.id}  {broker.address}  {broker.condition}{process}")
    if not changed:
        typer.echo(_next(status), err=True)


def _next(status: LabStatus) -> str:
    """What to do with a lab, in lines that can be pasted."""
    from parallax.lab.commands import named

    parallax, of = Shell.of(None).program, named(status.name)
    return f"""
Watch it, and make it diverge in another terminal:
  {parallax} lab config{of} > lab.yaml
  {parallax} run -c lab.yaml
  {parallax} lab scenario frozen{of} --watched-by lab.yaml

Or watch it with alerts and dashboards, as a cluster of your own. This prints how; its DIR/parallax.yaml is then in
place of lab.yaml, and one of the two jobs runs at a time:
  {parallax} init DIR --bootstrap-servers {status.bootstrap_servers}

Find kafka-topics.sh and Kafka's other tools:
  export PATH="$PATH":{shlex.quote(str(status.tools))}"""


@app.command("up")
@one_line_errors
def lab_up(
    kafka_version: KafkaVersion = DEFAULT_KAFKA_VERSION, name: LabName = "default", output: OutputFormat = Format.text
) -> None:
    """Start three local brokers, which stay up until `down`."""
    from parallax.lab import commands

    _show_lab(commands.up(kafka_version, name=name, say=say), output)


@app.command("down")
@one_line_errors
def lab_down(name: LabName = "default", output: OutputFormat = Format.text) -> None:
    """Stop a lab's brokers and remove what they hold."""
    from parallax.lab import commands

    was = commands.down(name=name)
    if output is Format.json:
        typer.echo(as_json({"name": was.name, "stopped": [asdict(broker) for broker in was.brokers]}))
        return
    typer.echo(f"lab {was.name} is down")


@app.command("stop")
@one_line_errors
def lab_stop(
    broker: Annotated[list[int], typer.Argument(metavar="BROKER...", help="The ids of brokers.", **NUMBER)],
    name: LabName = "default",
    output: OutputFormat = Format.text,
) -> None:
    """Stop brokers cleanly. Their data stays; `restart` starts them again."""
    from parallax.lab import commands

    _show_lab(commands.stop(broker, name=name), output, broker)


@app.command("restart")
@one_line_errors
def lab_restart(
    broker: Annotated[
        list[int] | None, typer.Argument(metavar="[BROKER]...", help="The ids of brokers. Default: all.", **NUMBER)
    ] = None,
    name: LabName = "default",
    output: OutputFormat = Format.text,
) -> None:
    """Restart brokers one after the other. A broker that is down is only started."""
    from parallax.lab import commands

    status = commands.restart(broker or (), name=name)
    _show_lab(status, output, broker or [one.id for one in status.brokers])


@app.command("status")
@one_line_errors
def lab_status(name: LabName = "default", output: OutputFormat = Format.text) -> None:
    """Show a lab's brokers: addresses, processes, and which are up."""
    from parallax.lab import commands

    _show_lab(commands.status(name=name), output)


@app.command("config")
@one_line_errors
def lab_config(name: LabName = "default", output: OutputFormat = Format.text) -> None:
    """Print the settings of a job that watches a lab's topics: put them into a file for `parallax run`."""
    import yaml

    from parallax.lab import commands

    text = commands.settings(name=name)
    typer.echo(as_json(yaml.safe_load(text)) if output is Format.json else text, nl=output is Format.json)


_SCENARIO = f"""Play a scenario on a lab that is up.

Kafka cleans what a scenario deletes within seconds. A job has to record it before that: name the job's \
settings file with --watched-by, and the scenario waits for the job. What is lost is lost on broker 2.

\b
{listed()}
"""


@app.command("scenario", help=_SCENARIO)
@one_line_errors
def lab_scenario(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Its name, one of those above.")],
    producer: Producer = ProducerKind.legacy,
    name: LabName = "default",
    watched_by: Annotated[
        Path | None,
        typer.Option("--watched-by", metavar="CONFIG", help="Wait, at each step, for the job of this settings file."),
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Play a scenario on a lab that is up; `parallax.lab.named` lists them."""
    from parallax.lab import commands
    from parallax.lab.watched import recorded_by

    hook = None if watched_by is None else recorded_by(storage_of(watched_by, None))
    result = commands.scenario(scenario, producer=producer.value, name=name, say=say, await_observed=hook)
    if output is Format.json:
        typer.echo(as_json(asdict(result)))
        return
    typer.echo(f"{result.name}: is on the brokers after {result.seconds['whole']:.0f} s")
    for expected in result.expected:
        typer.echo(f"  {expected.kind}: {expected.topic} broker {expected.broker} offset {expected.offset}")
