"""Runs the command ``parallax audit``: takes settings and flags, writes a report, and returns an exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import structlog

from parallax.audit import dry, report
from parallax.audit.cluster import select
from parallax.audit.progress import Shown
from parallax.audit.result import EXIT_CODES, Result
from parallax.config import ConfigError, Settings
from parallax.counts import counted
from parallax.errors import SetupError
from parallax.model import TopicPartition
from parallax.output import FileKind, console, error_line, output, waiting
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.shell import Shell
from parallax.source.survey import check_brokers
from parallax.stores import is_remote, rust_path
from parallax.views.binding import pinned, with_cluster
from parallax.views.hash_key import hash_key

REPORT = FileKind(
    "a report of parallax audit", r'partition +result|broker +partitions|\{\s*"result":|\{\s*"brokers":\s*\[|\s*$'
)
"""Tells by its beginning whether a file is a report of an audit or of a dry run."""


class AuditFailedError(Exception):
    """An audit broke off, so nobody knows whether the replicas agree. ``parallax audit`` then ends with exit code 3."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of ``parallax audit``, as a user gave them.

    Attributes:
        topics: topics to audit; if empty, those that the settings watch.
        partitions: partition numbers to audit of each topic; if empty, all.
        source: what is compared: ``brokers`` for the replicas, ``tables`` for the rows that the job has recorded.
        dry_run: whether only to say what would be read.
        max_bytes_per_second: limit for each broker; 0: no limit; None: ``audit.max_bytes_per_second``.
        output: ``text`` or ``json``.
        file: where the report goes; None: to standard output.
        config: the settings file as it was given, for printed commands.
    """

    topics: Sequence[str] = ()
    partitions: Sequence[int] = ()
    source: str = "brokers"
    dry_run: bool = False
    max_bytes_per_second: int | None = None
    output: str = "text"
    file: Path | None = None
    config: Path | None = None


def run_audit(settings: Settings, flags: Flags) -> int:
    """Run ``parallax audit``: write the report, and return the exit code (`parallax.audit.result.EXIT_CODES`).

    Raises:
        ConfigError: a flag or setting cannot be used.
        ReplicaError: the brokers do not answer, or there is no such topic or partition.
        SetupError: there is no JDK, or jars could not be resolved.
    """
    _check(flags, settings)
    _log_warnings_only()
    settings = with_cluster(settings)
    rate = settings.audit.max_bytes_per_second if flags.max_bytes_per_second is None else flags.max_bytes_per_second
    with ExitStack() as stack:
        to = stack.enter_context(output(flags.file, REPORT))
        client = ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)
        stack.callback(client.close)
        places = select(client, settings, flags.topics, flags.partitions)
        settings = pinned(settings, client)  # Spark's readers make clients of their own
        if flags.source == "brokers":
            check_brokers(client, client.metadata(), settings.topics.brokers or ())
        if flags.dry_run:
            return _dry_run(settings, flags, client, places, rate or None, to)
        try:
            with Shown(console(sys.stderr)) as shown:
                made = _audit(settings, flags, client, places, rate or None, shown, stack)
        except AuditFailedError as error:
            print(error_line(f"the audit failed: {error}", flags.output), file=sys.stderr)  # noqa: T201 - the one line of an error
            return EXIT_CODES[Result.UNKNOWN]
        report.write(made, flags.output, to, Shell.of(settings.kafka, flags.config))
        return made.exit_code


def _dry_run(
    settings: Settings,
    flags: Flags,
    client: ReplicaClient,
    places: Sequence[TopicPartition],
    rate: int | None,
    to: TextIO,
) -> int:
    with waiting("asking the brokers"):
        found = dry.dry_run(settings, client, places, rate)
    dry.write(found, flags.output, to)
    if found.exit_code:
        reasons = next(iter(found.unknown.values()), ("no reason was given",))
        count = counted(found.partitions, "partition")
        line = f"no replica can be read, of {count}: {reasons[0]}"
        print(error_line(line, flags.output), file=sys.stderr)  # noqa: T201 - the one line of an error
    return found.exit_code


def _log_warnings_only() -> None:
    """Standard output is the report's."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def _check(flags: Flags, settings: Settings) -> None:
    if flags.source == "tables":
        if flags.dry_run:
            raise ConfigError("--dry-run says what would be read from brokers; leave out --from tables")
        path = settings.storage.path
        if not is_remote(path) and not (Path(rust_path(path)) / "replica_progress").is_dir():
            raise ConfigError(
                f"storage.path: {path}: no recorded tables there; run the job first, or use --from brokers"
            )


def _audit(
    settings: Settings,
    flags: Flags,
    client: ReplicaClient,
    places: Sequence[TopicPartition],
    rate: int | None,
    shown: Shown,
    stack: ExitStack,
) -> Any:
    from parallax.audit.confirm import standalone
    from parallax.audit.run import Audit
    from parallax.views.session import build_session

    try:
        key = hash_key(settings.storage.path, settings.read)
    except OSError as error:
        raise ConfigError(f"storage.path: {error}") from error
    shown.stage("reading the findings on record")
    confirm = stack.enter_context(standalone(settings, client, key, places))
    shown.stage("starting Spark")
    try:
        spark = build_session(settings.spark, storage=settings.storage.path, name="parallax-audit")
        stack.callback(spark.stop)
        audit = Audit(
            settings, client, spark, places, hash_key=key, confirm=confirm, max_bytes_per_second=rate, watcher=shown
        )
        return audit.of_tables() if flags.source == "tables" else audit.of_brokers()
    except (ReplicaError, SetupError):
        raise
    except Exception as error:
        raise AuditFailedError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


__all__ = ["Flags", "run_audit"]
