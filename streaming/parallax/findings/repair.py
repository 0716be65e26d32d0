"""The commands that repair a replica, in the order in which they are run: Kafka's own tools, to be pasted as they are.

A new copy is taken from the leader. So a replica that is right has to lead first, and whichever is first in the
assignment is the one that an election of the preferred leader makes the leader: it has to be one that is right until
the finding is resolved. Otherwise the order of the replicas stays as it was assigned.
"""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from parallax.findings.cleared import Shown
from parallax.findings.finding import Finding
from parallax.model import UNKNOWN
from parallax.shell import Shell, file_from


@dataclass(frozen=True, slots=True)
class Repair:
    """In which order the replicas of a partition are assigned while one of them gets a new copy.

    Attributes:
        finding: accuses the replica.
        first: the broker that is to lead: it is right in the finding.
        assigned: the replicas as they are assigned, the preferred leader first.
        back: all of them, with ``first`` in front.
        away: these without the accused.
    """

    finding: Finding
    first: int
    assigned: tuple[int, ...]
    back: tuple[int, ...]
    away: tuple[int, ...]

    @classmethod
    def of(cls, shown: Shown, sources: Collection[int]) -> Self:
        """The assignments that take a copy from one of ``sources`` and change as little as can be."""
        assigned = shown.assigned
        candidates = (assigned[0], shown.leader, *assigned)
        first = next(broker for broker in candidates if broker in sources)
        back = (first, *(broker for broker in assigned if broker != first))
        away = tuple(broker for broker in back if broker != shown.finding.broker)
        return cls(shown.finding, first, assigned, back, away)

    def as_json(self, replicas: Sequence[int]) -> str:
        """An assignment as kafka-reassign-partitions.sh reads it."""
        partition = {"topic": self.finding.topic, "partition": self.finding.partition, "replicas": list(replicas)}
        return json.dumps({"version": 1, "partitions": [partition]})

    @property
    def is_first_already(self) -> bool:
        """Whether the broker that is to lead is the preferred leader."""
        return self.assigned[0] == self.first

    @property
    def is_to_be_reordered(self) -> bool:
        """Whether the accused was the preferred leader, which it may be again once it is right."""
        return self.assigned[0] == self.finding.broker

    def lead(self, shell: Shell) -> str:
        """Has ``first`` lead; nothing is copied."""
        finding = self.finding
        election = f"--election-type preferred --topic {finding.topic} --partition {finding.partition}"
        elect = f"kafka-leader-election.sh {shell.brokers('--admin.config')} {election}"
        return elect if self.is_first_already else f"{self._assign('all', self.back, shell)}\n{elect}"

    def describe(self, shell: Shell) -> str:
        """Shows who leads and which replicas there are."""
        return f"kafka-topics.sh {shell.brokers()} --describe --topic {self.finding.topic}"

    def drop(self, shell: Shell) -> str:
        """Has the accused drop its copy."""
        return self._assign(f"without-{self.finding.broker}", self.away, shell, is_awaited=True)

    def copy(self, shell: Shell) -> str:
        """Gives the accused a new copy."""
        return self._assign("all", self.back, shell, is_awaited=True)

    def reorder(self, shell: Shell) -> str:
        """Gives the replicas the order back in which they were assigned."""
        return self._assign("as-before", self.assigned, shell)

    def _assign(self, name: str, replicas: Sequence[int], shell: Shell, *, is_awaited: bool = False) -> str:
        file = f"parallax-{self.finding.topic}-{self.finding.partition}-{name}.json"
        tool = f"kafka-reassign-partitions.sh {shell.brokers()} --reassignment-json-file {file}"
        lines = [file_from(file, self.as_json(replicas)), f"{tool} --execute"]
        return "\n".join([*lines, f"{tool} --verify"] if is_awaited else lines)


def show_record(finding: Finding, shell: Shell) -> str:
    """The command that shows on each broker what a finding is about (`Finding.record_offset`)."""
    return _record_at(finding, finding.record_offset, shell)


def delete_again(finding: Finding, shell: Shell) -> str:
    """The commands that write the deletion of a finding's key once more; empty where Kafka's tool cannot be given it.

    kafka-console-producer.sh reads lines of UTF-8, which a separator cuts into key and value; a value that is
    ``null.marker`` is written as null (Kafka's ``LineMessageReader``). Where only the key's hash is known, the record
    is shown first, and nothing is written as long as KEY is not given.
    """
    told = "" if finding.key is None else _line(finding.key)
    if told is None:
        return ""
    login = shell.brokers("--producer.config")
    properties = "--property parse.key=true --property null.marker=NULL"
    tool = f"kafka-console-producer.sh {login} --topic {shlex.quote(finding.topic)} {properties}"
    if finding.key is not None:
        return f"printf '%s\\tNULL\\n' {shlex.quote(told)} | {tool}"
    given = '"${KEY:?set it to the key that show-record shows}"'
    return f"{show_record(finding, shell)}\nprintf '%s\\tNULL\\n' {given} | {tool}"


def _line(key: bytes) -> str | None:
    """A key as the first field of a line; None where it cannot be one: not UTF-8, or with a control character."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    is_null, is_cut = text == "NULL", any(unicodedata.category(c) == "Cc" for c in text)
    return None if is_null or is_cut else text


def show_transaction(finding: Finding, brokers: Collection[int], shell: Shell) -> str:
    """The commands that show a transaction on each broker: its first record, its end marker, and its producer.

    Args:
        finding: about a transaction.
        brokers: whose lists of producers are asked for.
        shell: how printed commands name the cluster and the job.
    """
    ends = sorted({finding.transaction_start_offset, finding.marker_offset} - {UNKNOWN})
    tool = f"kafka-transactions.sh {shell.brokers()}"
    place = shlex.join(["--topic", finding.topic, "--partition", str(finding.partition)])
    producers = [f"{tool} describe-producers {place} --broker-id {broker}" for broker in sorted(brokers)]
    ids = [f"{tool} list | grep -w {finding.producer_id}"] if finding.producer_id != UNKNOWN else []
    described = f"{tool} describe --transactional-id ID"
    return "\n".join([*(_record_at(finding, at, shell) for at in ends), *producers, *ids, described])


def _record_at(finding: Finding, offset: int, shell: Shell) -> str:
    place = ("--topic", finding.topic, "--partition", finding.partition, "--offset", offset)
    return shell.parallax("show-record", *place, by_settings=True)


__all__ = ["Repair", "delete_again", "show_record", "show_transaction"]
