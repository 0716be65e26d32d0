"""``parallax audit --dry-run``: what an audit would read from each broker, and how long that would take."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

from parallax.audit.cluster import Looker, topic_traits
from parallax.audit.plan import PartitionPlan, plan, ranges
from parallax.audit.report import size_text
from parallax.audit.result import EXIT_CODES, Result
from parallax.config import Settings
from parallax.model import IsolationLevel, TopicPartition
from parallax.output import console, print_table
from parallax.replica.client import FetchPosition, ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.source.offsets import Range, Reader
from parallax.source.planning import DEFAULT_BYTES_PER_OFFSET
from parallax.source.survey import density

_SAMPLE_BYTES = 64 << 10
_SAMPLES = 64
"""How many replicas of one broker are sampled at most, the longest first. The others count with their mean."""


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """How much an audit would read from one broker.

    Attributes:
        broker: the broker's id.
        partitions: how many of the broker's replicas would be read, each at both isolation levels.
        offsets: how many offsets would be read, of both levels together.
        estimated_bytes: how many bytes these offsets have, estimated from samples at the beginnings of the logs.
        sampled: how many replicas were sampled.
        seconds: how long reading takes at the limit of bytes per second; None without a limit.
    """

    broker: int
    partitions: int
    offsets: int
    estimated_bytes: int
    sampled: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class DryRun:
    """How much an audit would read, in all and from each broker.

    Attributes:
        brokers: a share for each broker that would be read.
        partitions: how many partitions are to be audited.
        readable: how many of these have a replica that can be read.
        unknown: the reasons why partitions would be unknown, as a whole or in part, by partition such as ``orders-0``.
        seconds: how long it takes to read all brokers in parallel at the limit; None without a limit.
    """

    brokers: tuple[BrokerShare, ...]
    partitions: int
    readable: int
    unknown: Mapping[str, tuple[str, ...]]
    seconds: float | None

    @property
    def exit_code(self) -> int:
        """The exit code of ``parallax audit --dry-run``: 3 (unknown) if an audit could read nothing, otherwise 0."""
        return 0 if self.readable else EXIT_CODES[Result.UNKNOWN]


def dry_run(
    settings: Settings, client: ReplicaClient, places: Sequence[TopicPartition], max_bytes_per_second: int | None
) -> DryRun:
    """Estimate what an audit would read.

    It asks brokers for ends of logs, reads small samples, and does not start Spark.

    Args:
        settings: the job's settings.
        client: asks the brokers.
        places: the partitions to audit.
        max_bytes_per_second: limit for each broker; None: no limit.

    Raises:
        ReplicaError: no broker answers.
    """
    kinds = topic_traits(client, [topic for topic, _ in places])
    with Looker(settings, places) as looker:
        plans = plan(places, kinds, looker.look(), settings.topics.brokers)
    wanted = ranges(plans.values())
    densities: dict[tuple[int, TopicPartition], float] = {}
    for broker in sorted({reader.broker for reader in wanted}):
        densities |= _sample(client, broker, wanted)
    return summarise(plans.values(), wanted, densities, max_bytes_per_second)


def _sample(
    client: ReplicaClient, broker: int, wanted: Mapping[Reader, Range]
) -> dict[tuple[int, TopicPartition], float]:
    """Bytes per offset at the start of the longest of a broker's logs; one that cannot be read is left out."""
    whole = {r: s for r, s in wanted.items() if r.broker == broker and r.isolation == IsolationLevel.READ_UNCOMMITTED}
    longest = sorted(whole, key=lambda reader: whole[reader].start - whole[reader].end)[:_SAMPLES]
    found: dict[tuple[int, TopicPartition], float] = {}
    for reader in longest:
        start = whole[reader].start
        position = FetchPosition(reader.topic, reader.partition, start, _SAMPLE_BYTES)
        try:
            (answer,) = client.fetch(
                broker, [position], isolation=IsolationLevel.READ_UNCOMMITTED, max_bytes=_SAMPLE_BYTES
            )
        except ReplicaError:
            break
        sample = density(answer.records, start)
        if sample is not None:
            found[broker, reader.place] = sample.size
    return found


def summarise(
    plans: Collection[PartitionPlan],
    wanted: Mapping[Reader, Range],
    densities: Mapping[tuple[int, TopicPartition], float],
    max_bytes_per_second: int | None,
) -> DryRun:
    """Add up what an audit would read from each broker, and how long that would take. A pure function.

    Args:
        plans: one plan for each partition.
        wanted: by reader, the offsets that it would read.
        densities: by broker and partition, bytes per offset of the replicas that were sampled.
        max_bytes_per_second: limit for each broker; None without one.
    """
    shares = []
    for broker in sorted({reader.broker for reader in wanted}):
        mine = {reader: span.end - span.start for reader, span in wanted.items() if reader.broker == broker}
        sampled = [density for (b, _), density in densities.items() if b == broker]
        mean = sum(sampled) / len(sampled) if sampled else DEFAULT_BYTES_PER_OFFSET
        size = sum(offsets * densities.get((broker, reader.place), mean) for reader, offsets in mine.items())
        seconds = size / max_bytes_per_second if max_bytes_per_second else None
        partitions = len({reader.place for reader in mine})
        shares.append(BrokerShare(broker, partitions, sum(mine.values()), round(size), len(sampled), seconds))
    unknown = {f"{p.topic}-{p.partition}": reasons for p in plans if (reasons := (*p.reasons, *p.beyond))}
    longest = max((s.seconds for s in shares if s.seconds is not None), default=None)
    return DryRun(tuple(shares), len(plans), sum(p.readable for p in plans), unknown, longest)


def _row(share: BrokerShare) -> list[str]:
    when = "-" if share.seconds is None else f"{share.seconds:.0f} s"
    return [str(share.broker), str(share.partitions), str(share.offsets), size_text(share.estimated_bytes), when]


def write(found: DryRun, output: str, to: TextIO) -> None:
    """Write the estimate of a dry run, as a table for people or as JSON.

    Args:
        found: the estimate.
        output: ``json`` for one JSON document, otherwise a table for people.
        to: where to write.
    """
    if output == "json":
        json.dump(asdict(found), to, indent=2)
        to.write("\n")
        return
    shown = console(to)
    headings = ("broker", "partitions", "offsets", "estimated bytes", "at the limit")
    print_table(shown, headings, [_row(share) for share in found.brokers], numbers=headings)
    shown.print()
    for place, reasons in found.unknown.items():
        shown.print(f"{place}: unknown: {'; '.join(reasons)}", markup=False, highlight=False, soft_wrap=True)
    took = "no limit on the bytes" if found.seconds is None else f"some {found.seconds:.0f} s at the limit"
    shown.print(f"Nothing was read but samples. Each log is read twice, once in each isolation level: {took}.")
    shown.print("Starting Spark, a second look and the comparing come on top: a minute or more.")


__all__ = ["BrokerShare", "DryRun", "dry_run", "summarise", "write"]
