"""``parallax seen``: show what consumers had seen at a given time, by what the job has recorded."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from parallax.commands.numbers import NUMBER, OFFSET, TIME, TOPIC, BrokerIds
from parallax.commands.shared import (
    Config,
    Format,
    OutputFormat,
    one_line_errors,
    used_settings,
)
from parallax.model import IsolationLevel
from parallax.moments import utc_text
from parallax.output import as_json, bytes_as_text, printable

NOT_KNOWN = 3


class IsolationName(StrEnum):
    """The isolation level of a consumer, as an option of ``parallax seen``."""

    read_committed = "read_committed"
    read_uncommitted = "read_uncommitted"


@one_line_errors
def seen(
    config: Config,
    topic: Annotated[str, typer.Option(help="The topic.", **TOPIC)],
    at: Annotated[datetime, typer.Option(help="The time, UTC.", **TIME)],
    key: Annotated[str | None, typer.Option(help="The record's key; bytes as the shell gives them.")] = None,
    offset: Annotated[int | None, typer.Option(help="Or an offset.", **OFFSET)] = None,
    partition: Annotated[int | None, typer.Option(help="The partition. With --key: all by default.", **NUMBER)] = None,
    broker: BrokerIds = None,
    isolation: Annotated[
        IsolationName, typer.Option(help="read_committed or read_uncommitted: of the consumer.")
    ] = IsolationName.read_committed,
    output: OutputFormat = Format.text,
) -> None:
    """Show what a consumer of each replica had seen of a key, or at an offset, at a given time.

    The tables say it; no broker is asked. Keys are looked up by their hash. Exit code 3: it is unknown of a
    replica.
    """
    from parallax.config import ConfigError
    from parallax.findings.seen import seen as asked
    from parallax.findings.sight import What, document, in_words
    from parallax.replica.decode import ContentHasher
    from parallax.views.hash_key import hash_key
    from parallax.views.shown import Asked

    if (key is None) == (offset is None):
        raise ConfigError("--key, --offset: give one of them")
    if key is None and partition is None:
        raise ConfigError("--partition: an offset is of one partition; give its number")
    settings = used_settings(config)
    hashed, name = None, f"offset {offset}"
    if key is not None:
        hasher = ContentHasher(bytes.fromhex(hash_key(settings.storage.path, settings.read)))
        raw = os.fsencode(key)  # What is not UTF-8 comes as surrogates.
        hashed, name = hasher.key_hash(raw), f"key {printable(bytes_as_text(raw))}"
    level = IsolationLevel[isolation.name.upper()]
    if at > datetime.now(UTC):
        raise ConfigError("--at: it is in the future; give a time that is over, in UTC")
    found = asked(settings.storage.path, Asked(topic, partition, hashed, offset, level, at), broker or ())
    if not found:
        raise ConfigError(f"--topic: the views hold nothing of {topic} from then; check topic, partition and broker")
    if key is not None and partition is None:
        shows = {one.partition for one in found if one.row is not None}
        found = [one for one in found if one.partition in shows] or found
    if output is Format.json:
        typer.echo(as_json([document(one) for one in found]))
    else:
        for number in sorted({one.partition for one in found}):
            typer.echo(f"{topic}-{number}, {name}, {isolation} at {utc_text(at)}:")
            typer.echo("\n".join(f"  {in_words(one)}" for one in found if one.partition == number))
    if any(one.what is What.UNKNOWN for one in found):
        raise typer.Exit(NOT_KNOWN)


__all__ = ["seen"]
