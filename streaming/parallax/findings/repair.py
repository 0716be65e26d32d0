"""Makes the shell commands that repair a finding's replica, or show what is wrong with it.

They use Kafka's own tools and ``parallax``.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Self

from parallax.findings.finding import Finding, shown_offset
from parallax.findings.moves import FEWEST, Move, Purpose, copying, first_of
from parallax.findings.shown import Shown
from parallax.model import UNKNOWN, TopicPartition
from parallax.shell import Shell, file_from


@dataclass(frozen=True, slots=True)
class Repair:
    """The reassignments that replace the accused replica of a finding by a copy of a right one.

    Attributes:
        finding: the finding, whose accused is copied again.
        first: the broker that leads meanwhile: the finding proves it right.
        assigned: the replicas as they are assigned, the preferred leader first.
        moves: the reassignments, each by its purpose.
    """

    finding: Finding
    first: int
    assigned: tuple[int, ...]
    moves: Mapping[Purpose, Move]

    @classmethod
    def of(cls, shown: Shown, sources: Collection[int]) -> Self:
        """Make the repair of a finding. It changes as little of the partition's assignment as possible.

        Args:
            shown: the evidence of the finding.
            sources: the brokers whose replicas may be copied.
        """
        first = first_of(shown.assigned, shown.leader, sources)
        moves = copying(shown.assigned, shown.leader, [shown.finding.broker], first)
        return cls(shown.finding, first, shown.assigned, {move.purpose: move for move in moves})

    def run(self, purpose: Purpose, shell: Shell) -> str:
        """Return the shell lines that carry out the reassignment of one purpose."""
        return self.moves[purpose].command(self.finding.place, shell)

    def as_json(self, purpose: Purpose) -> str:
        """Return the reassignment of one purpose in the JSON form that kafka-reassign-partitions.sh reads."""
        return self.moves[purpose].as_json(self.finding.place)

    @property
    def leaves_one(self) -> bool:
        """Whether dropping the accused would leave only one replica, so that a spare broker is needed meanwhile."""
        return len(self.moves[Purpose.DROP].replicas) < FEWEST

    def describe(self, shell: Shell) -> str:
        """Return the command that shows the leader and the replicas of the finding's topic."""
        return f"kafka-topics.sh {shell.brokers()} --describe --topic {self.finding.topic}"


def show_record(finding: Finding, shell: Shell) -> str:
    """Return the command that shows on each broker the record in which the replicas differ."""
    return show_at(finding.place, shown_offset(finding), shell)


def show_seen(finding: Finding, shell: Shell) -> str:
    """Return the ``parallax seen`` command that shows what consumers of each replica saw where the accused is wrong.

    At the end of a finding no difference is left. So the command asks for the time of the first suspicion then.
    """
    at = finding.decided_at if finding.stands else finding.first_suspected_at + timedelta(seconds=1)
    when, offset = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}", shown_offset(finding)
    words = ("--topic", finding.topic, "--partition", finding.partition, "--offset", offset, "--at", when)
    return shell.parallax("seen", *words)


def delete_again(finding: Finding, shell: Shell) -> str:
    """Return the commands that write a tombstone for a finding's key once more.

    Empty where Kafka's tool cannot write the key. kafka-console-producer.sh reads lines of UTF-8 and splits each at a
    separator into key and value. It writes a value equal to ``null.marker`` as null (Kafka's ``LineMessageReader``).
    Tools of Kafka 3.4 and later read that from a file (KIP-840). Of the options that say it in the command line, 4.2
    deprecates the old one and brings the new one (KIP-1147).

    If only the key's hash is known, the first command shows the record, and nothing is written until the user sets KEY.
    """
    told = "" if finding.key is None else _line(finding.key)
    if told is None:
        return ""
    file = file_from(_READER, "parse.key=true\nnull.marker=NULL")
    login = shell.brokers("--producer.config")
    tool = f"kafka-console-producer.sh {login} --topic {shlex.quote(finding.topic)} --reader-config {_READER}"
    key, before = shlex.quote(told), []
    if finding.key is None:
        key, before = '"${KEY:?set it to the key that show-record shows}"', [show_record(finding, shell)]
    return "\n".join([*before, file, f"printf '%s\\tNULL\\n' {key} | {tool}"])


_READER = "reader.properties"
"""The file that says how the console producer reads a line, as printed commands name it."""


def _line(key: bytes) -> str | None:
    """Return a key as the first field of a line; None where it is not UTF-8, or has a control character."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    is_null, is_cut = text == "NULL", any(unicodedata.category(c) == "Cc" for c in text)
    return None if is_null or is_cut else text


def rebuild_index(place: TopicPartition, broker: int, marker_offset: int) -> str:
    """Return the commands that have a broker rebuild its index of aborted transactions from its log.

    An aborted transaction is listed in the index of the segment that holds its end marker. When a broker starts, Kafka
    recovers each segment whose ``.index`` is missing, and writes all indexes of that segment from its log (Kafka's
    ``LogLoader.loadSegmentFiles`` and ``LogSegment.recover``). That holds after a clean stop as well.

    Args:
        place: the partition.
        broker: the broker whose index is wrong.
        marker_offset: the offset of the end marker; -1 if several transactions are wrong: then all segments are
            recovered.
    """
    if marker_offset == UNKNOWN:
        indexes = "*.index"
    else:
        segment = f"awk -F. '$1 + 0 <= {marker_offset} {{ last = $1 }} END {{ print last }}'"
        indexes = f'"$(ls *.log | {segment}).index"'
    folder = f'"${{LOG_DIR:?set it to the directory of log.dirs that holds {place.name}}}"/{shlex.quote(place.name)}'
    return (
        f"# on the machine of broker {broker}, once the broker is stopped; start it afterwards\n"
        f"(cd {folder} && rm -- {indexes})"
    )


def show_transaction(finding: Finding, brokers: Collection[int], shell: Shell) -> str:
    """Return the commands that show a transaction on each broker: its first record, its end marker, and its producer.

    Args:
        finding: a finding about a transaction.
        brokers: the brokers whose lists of producers are shown.
        shell: how printed commands name the cluster and the job.
    """
    ends = sorted({finding.transaction_start_offset, finding.marker_offset} - {UNKNOWN})
    tool = f"kafka-transactions.sh {shell.brokers()}"
    place = shlex.join(["--topic", finding.topic, "--partition", str(finding.partition)])
    producers = [f"{tool} describe-producers {place} --broker-id {broker}" for broker in sorted(brokers)]
    ids = [f"{tool} list | grep -w {finding.producer_id}"] if finding.producer_id != UNKNOWN else []
    described = f"{tool} describe --transactional-id ID"
    return "\n".join([*(show_at(finding.place, at, shell) for at in ends), *producers, *ids, described])


def show_at(place: TopicPartition, offset: int, shell: Shell) -> str:
    """Return the command that shows on each broker the record at an offset of a partition."""
    named = ("--topic", place.topic, "--partition", place.partition, "--offset", offset)
    return shell.parallax("show-record", *named)


__all__ = ["Repair", "delete_again", "rebuild_index", "show_at", "show_record", "show_seen", "show_transaction"]
