"""``parallax audit``: compare whole partitions once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from parallax.commands.numbers import BYTES, NUMBER, TOPIC
from parallax.commands.shared import Config, Format, OutputFormat, one_line_errors, used_settings


class AuditSource(StrEnum):
    """What an audit compares: what the brokers hold now, or what the job has recorded in its tables."""

    brokers = "brokers"
    tables = "tables"


@one_line_errors
def audit(
    config: Config,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic; may be repeated. Default: all watched.", **TOPIC)
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(metavar="N", help="A partition of each topic; may be repeated.", **NUMBER)
    ] = None,
    source: Annotated[AuditSource, typer.Option("--from", help="Read the brokers, or what the job recorded.")] = (
        AuditSource.brokers
    ),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the audit would read.")] = False,
    max_bytes_per_second: Annotated[
        int | None, typer.Option(help="From each broker; 0: no limit. Default: the setting of this name.", **BYTES)
    ] = None,
    output_format: OutputFormat = Format.text,
    output: Annotated[Path | None, typer.Option(help="Write the report to a file.")] = None,
) -> None:
    """Compare all replicas once, from their log starts. Exit code 0: consistent, 1: diverged, 3: unknown."""
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
        config=config,
    )
    settings = used_settings(config) if source is AuditSource.tables and not dry_run else load(config)
    raise typer.Exit(run_audit(settings, flags))
