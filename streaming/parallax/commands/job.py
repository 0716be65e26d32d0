"""``parallax run``, ``pause``, ``resume``, ``check`` and ``fetch-jars``: run the job, and see what it needs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parallax.commands.lab import KafkaVersion
from parallax.commands.numbers import BrokerIds
from parallax.commands.shared import (
    Config,
    Format,
    JobConfig,
    JobData,
    OutputFormat,
    mendable_errors,
    one_line_errors,
    say,
    used_storage,
)
from parallax.errors import is_passing, one_line
from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.output import as_json, error_line, waiting
from parallax.shell import Shell

if TYPE_CHECKING:
    from parallax.views.pause import Paused


INTERRUPTED = 1
"""Exit code of a job that may be started again: nothing that a person gave it is wrong."""


@one_line_errors
def run(
    config: Config,
) -> None:
    """Run the always-on job until SIGTERM or SIGINT.

    Exit code 1: something that it needs does not answer, is full, or is taken by another job. Start it again.
    """
    from parallax.config import load
    from parallax.job import run_until_signal
    from parallax.logs import configure_logging, said

    settings = load(config)
    configure_logging()
    try:
        run_until_signal(settings, said, Shell.of(settings.kafka, config.absolute()))
    except mendable_errors() as error:
        if not is_passing(error):
            raise
        say(error_line(one_line(error), "text"))
        raise typer.Exit(INTERRUPTED) from None


@one_line_errors
def pause(
    reason: Annotated[str, typer.Option(help="Why reading is paused. It is shown with the pause.")],
    broker: BrokerIds = None,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Pause reading, from all brokers or from some. It can go on later where it stopped; unread offsets are unknown."""
    from parallax.people import user
    from parallax.views.pause import pause as begin

    storage = used_storage(config, data)
    if config is not None and broker:
        _check_brokers(config, broker)
    _print_paused(begin(storage, broker or (), reason, user()), output)


def _check_brokers(config: Path, brokers: Sequence[int]) -> None:
    """Refuse brokers that the cluster has not, as far as it answers: a pause is wanted most when it does not.

    Raises:
        NotHosted: nobody knows one of them.
    """
    from parallax.config import load
    from parallax.replica.client import ReplicaClient
    from parallax.replica.errors import NotHosted, ReplicaError
    from parallax.source.survey import check_brokers
    from parallax.views.binding import with_cluster

    settings = load(config)
    timeout_ms = settings.read.request_timeout_ms
    try:
        with closing(ReplicaClient(with_cluster(settings).kafka, timeout_ms=timeout_ms)) as client:
            check_brokers(client, client.metadata(None), brokers, "--broker", ", and nothing was paused")
    except NotHosted:
        raise
    except ReplicaError:
        return


@one_line_errors
def resume(
    broker: BrokerIds = None,
    config: JobConfig = None,
    data: JobData = None,
    output: OutputFormat = Format.text,
) -> None:
    """Resume reading, from all brokers or from some."""
    from parallax.views.pause import resume as end

    _print_paused(end(used_storage(config, data), broker or ()), output)


def _print_paused(standing: Paused, output: Format) -> None:
    from parallax.views.pause import called

    if output is Format.json:
        typer.echo(as_json({called(broker): asdict(one) for broker, one in standing.items()}))
        return
    names = ", ".join(called(broker) for broker in sorted(standing))
    typer.echo(f"not read: {names}; a job that runs follows within seconds" if names else "all brokers are read")


@one_line_errors
def check(
    config: Config,
    output: OutputFormat = Format.text,
) -> None:
    """Check settings, machine, brokers, permissions and topics. Exit code 0: fine, 1: something wrong, 3: unknown."""
    import structlog

    # What is wrong is a line below, whatever Spark has to say of it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    said = "loading Parallax"

    def doing(text: str) -> None:
        nonlocal said
        said = text
        show(text)

    with waiting(said) as show:
        from parallax.check import check as look
        from parallax.check import exit_code
        from parallax.config import load

        coming = look(load(config), doing, config)
    lines = []
    while True:
        with waiting(said) as show:
            line = next(coming, None)
        if line is None:
            break
        lines.append(line)
        if output is Format.text:
            typer.echo(f"{line.result:8}{line.about}: {line.text}")
    if output is Format.json:
        typer.echo(as_json([asdict(line) for line in lines]))
    raise typer.Exit(exit_code(lines))


@one_line_errors
def fetch_jars(kafka_version: KafkaVersion = DEFAULT_KAFKA_VERSION, output: OutputFormat = Format.text) -> None:
    """Download Delta's and Kafka's jars into the cache, and prepare Spark for quick starts. Once is enough."""
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
