"""``parallax show-record``: show what each broker has at one offset, side by side. Nothing is stored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from parallax.commands.numbers import NUMBER, OFFSET, TOPIC, BrokerIds
from parallax.commands.shared import Config, Format, OutputFormat, one_line_errors, say
from parallax.errors import one_line
from parallax.model import IsolationLevel, TopicPartition
from parallax.moments import time_text
from parallax.output import as_json, bytes_as_text, console, error_line, printable, waiting

if TYPE_CHECKING:
    from parallax.config import Settings
    from parallax.replica.at_offset import AtOffset, Record
    from parallax.replica.types import PartitionMetadata, TopicMetadata

NOT_KNOWN = 3
_MOST_SHOWN = 2000
"""How many characters of a key, value or header people are shown; programs get all of it."""


@one_line_errors
def show_record(
    config: Config,
    topic: Annotated[str, typer.Option(help="The topic.", **TOPIC)],
    partition: Annotated[int, typer.Option(help="The partition.", **NUMBER)],
    offset: Annotated[int, typer.Option(help="The offset.", **OFFSET)],
    broker: BrokerIds = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show what each broker has at one offset: key, value, headers, and which consumers get it.

    It asks followers too, which no ordinary consumer can do. It stores nothing. It needs READ and DESCRIBE on the
    topic. Exit code 3: no broker answered.
    """
    from parallax.config import load
    from parallax.replica.errors import OtherCluster, Unreachable

    place = TopicPartition(topic, partition)
    settings = load(config)
    try:
        with waiting("asking the brokers"):
            found = look(settings, place, offset, broker or ())
    except OtherCluster:
        raise
    except Unreachable as error:
        say(error_line(one_line(error), output.value))
        raise typer.Exit(NOT_KNOWN) from None
    if output is Format.json:
        typer.echo(as_json(document(found)))
    else:
        write(found, sys.stdout)
    if all(one.marks is None for one in found.answers.values()):
        raise typer.Exit(NOT_KNOWN)


@dataclass(frozen=True, slots=True)
class Found:
    """What the asked replicas of a partition have at one offset.

    Attributes:
        place: the partition.
        offset: the offset that was asked about.
        where: the partition's leader and replicas.
        answers: by broker id, in rising order, what its replica has there.
    """

    place: TopicPartition
    offset: int
    where: PartitionMetadata
    answers: Mapping[int, AtOffset]


def look(settings: Settings, place: TopicPartition, offset: int, brokers: Sequence[int] = ()) -> Found:
    """Ask replicas of a partition what they have at one offset.

    Args:
        settings: settings that name the cluster.
        place: the partition.
        offset: the offset.
        brokers: ids of the brokers to ask; if empty, all that host the partition.

    Raises:
        ConfigError: there is no such topic or partition, or a broker hosts no replica of it.
        ReplicaError: no broker answers, or the topic may not be described.
    """
    from parallax.replica.at_offset import at_offset
    from parallax.replica.client import ReplicaClient
    from parallax.views.binding import with_cluster

    with closing(ReplicaClient(with_cluster(settings).kafka, timeout_ms=settings.read.request_timeout_ms)) as client:
        where = _where(client.metadata([place.topic]), place, brokers)
        asked = [broker for broker in sorted(where.replicas) if not brokers or broker in brokers]
        return Found(place, offset, where, {broker: at_offset(client, broker, place, offset) for broker in asked})


def _where(found: Mapping[str, TopicMetadata], place: TopicPartition, brokers: Sequence[int]) -> PartitionMetadata:
    from parallax.config import ConfigError
    from parallax.replica.errors import UnknownTopic

    topic = found.get(place.topic)
    if topic is None or isinstance(topic.error, UnknownTopic):
        raise ConfigError(f"--topic: the cluster has no topic {place.topic}; check its name")
    if topic.error is not None:
        raise topic.error
    where = topic.partitions.get(place.partition)
    if where is None:
        highest = max(topic.partitions, default=0)
        raise ConfigError(f"--partition: {place.topic} has no partition {place.partition}; give one up to {highest}")
    if strangers := sorted(set(brokers) - set(where.replicas)):
        hosts = ", ".join(map(str, where.replicas))
        raise ConfigError(f"--broker: broker {strangers[0]} hosts no replica of it; these do: {hosts}")
    return where


# For programs.


def document(found: Found) -> dict[str, Any]:
    """What replicas have at one offset, as a dict that can be written as JSON.

    Keys, values and headers are ``{"text": ...}`` if they are UTF-8, else ``{"hex": ...}``.
    """
    where = found.where
    return {
        "topic": found.place.topic,
        "partition": found.place.partition,
        "offset": found.offset,
        "leader": where.leader,
        "replicas": list(where.replicas),
        "isr": list(where.isr),
        "brokers": {str(broker): _answer(one) for broker, one in found.answers.items()},
    }


def _answer(one: AtOffset) -> dict[str, Any]:
    marks, record = one.marks, one.record
    names = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
    return {
        "held": one.held.name.lower(),
        "error": one.error,
        **{name: None if marks is None else getattr(marks, name) for name in names},
        **{isolation.option: one.served[isolation].name.lower() for isolation in IsolationLevel},
        "record": None if record is None else _record(record),
    }


def _record(record: Record) -> dict[str, Any]:
    headers = None
    if record.headers is not None:
        headers = [{"name": name, "value": _bytes(value)} for name, value in record.headers]
    return {
        "timestamp_ms": record.timestamp_ms,
        "leader_epoch": record.leader_epoch,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "is_transactional": record.is_transactional,
        "key_size": record.key_size,
        "value_size": record.value_size,
        "key": _bytes(record.key),
        "value": _bytes(record.value),
        "headers": headers,
    }


def _bytes(raw: bytes | None) -> dict[str, str] | None:
    if raw is None:
        return None
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"hex": raw.hex()}


# For people.


def bytes_in_words(raw: bytes | None, size: int) -> str:
    """A record's key or value as text for people.

    If it is UTF-8, it is that text, with escapes for what cannot be printed; otherwise its bytes in hexadecimal.

    Args:
        raw: its bytes; None if it is null, or too long to be read.
        size: how many bytes it has; -1 if it is null.
    """
    if raw is None:
        return "null" if size < 0 else f"not shown: {size:,} bytes"
    if not raw:
        return "empty"
    said = printable(bytes_as_text(raw))
    return said if len(said) <= _MOST_SHOWN else f"{said[:_MOST_SHOWN]}... ({size:,} bytes; --format json shows all)"


def _value(record: Record) -> str:
    said = bytes_in_words(record.value, record.value_size)
    return f"{said} (a tombstone)" if record.value_size < 0 else said


def _headers(record: Record) -> str:
    if record.headers is None:
        return "not shown"
    return (
        ", ".join(f"{_name(n)}={bytes_in_words(v, -1 if v is None else len(v))}" for n, v in record.headers) or "none"
    )


def _name(name: str) -> str:
    return bytes_in_words(name.encode(), len(name))


_ROWS: Mapping[str, Callable[[AtOffset], str]] = {
    "at the offset": lambda one: str(one.held),
    "read_uncommitted": lambda one: str(one.served[IsolationLevel.READ_UNCOMMITTED]),
    "read_committed": lambda one: str(one.served[IsolationLevel.READ_COMMITTED]),
    "log start offset": lambda one: "" if one.marks is None else str(one.marks.log_start_offset),
    "last stable offset": lambda one: "" if one.marks is None else str(one.marks.last_stable_offset),
    "high watermark": lambda one: "" if one.marks is None else str(one.marks.high_watermark),
    "log end offset": lambda one: "" if one.marks is None else str(one.marks.log_end_offset),
    "leader epoch": lambda one: "" if one.record is None else str(one.record.leader_epoch),
    "producer id": lambda one: "" if one.record is None or one.record.producer_id < 0 else str(one.record.producer_id),
    "timestamp": lambda one: "" if one.record is None else time_text(one.record.timestamp_ms),
}
_PARTS: Mapping[str, Callable[[Record], str]] = {
    "key": lambda record: bytes_in_words(record.key, record.key_size),
    "value": _value,
    "headers": _headers,
}


def write(found: Found, to: TextIO) -> None:
    """Print what replicas have at one offset, for people.

    It is a table with a column for each broker, then the keys, values and headers of the records.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = console(to, highlight=False)
    shown.print(Text(f"{found.place.name}, offset {found.offset}", style="bold"))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for broker in found.answers:
        table.add_column(_heading(broker, found.where))
    for name, cell in _ROWS.items():
        cells = [cell(one) for one in found.answers.values()]
        if any(cells):
            table.add_row(name, *cells)
    shown.print(table)
    for line in _contents(found):
        shown.print(Text(line), soft_wrap=True)


def _heading(broker: int, where: PartitionMetadata) -> str:
    role = "leader" if broker == where.leader else "in sync" if broker in where.isr else "not in sync"
    return f"broker {broker}\n{role}"


def _contents(found: Found) -> list[str]:
    """What the records hold, each version once with the brokers that show it; and why something is not known."""
    lines = []
    for part, said_of in _PARTS.items():
        versions: dict[str, list[int]] = {}
        for broker, one in found.answers.items():
            if one.record is not None and one.held.name == "RECORD":
                versions.setdefault(said_of(one.record), []).append(broker)
        lines += [f"{part} on {_brokers(brokers)}: {said}" for said, brokers in versions.items()]
    lines += [f"broker {broker}: {one.error}" for broker, one in found.answers.items() if one.error is not None]
    return lines


def _brokers(brokers: Sequence[int]) -> str:
    *first, last = map(str, sorted(brokers))
    return f"brokers {', '.join(first)} and {last}" if first else f"broker {last}"


__all__ = ["Found", "bytes_in_words", "document", "look", "show_record", "write"]
