"""The second half of the demo: repairs each divergence by its plan, then reads from the repaired broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Assigned
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parallax.config import Settings
from parallax.counts import counted
from parallax.errors import one_line
from parallax.findings.finding import Finding, current
from parallax.findings.table import FindingsTableError, read_events
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.view import key_text, read_replica
from parallax.lab.waiting import until
from parallax.model import FindingStatus
from parallax.repair import command
from parallax.repair.copies import Said
from parallax.repair.record import Phase
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError

_RESOLVED_WITHIN_S = 90.0
_READ_WITHIN_S = 120.0
_END = -191
"""The code of librdkafka's ``_PARTITION_EOF``."""
_KEPT_FOR_MS = "600000"
"""How many milliseconds the topics keep deletions from here on. The scripts need a second, too short for a copy."""
Say = Callable[[str], None]


@dataclass
class Mended:
    """The results of the demo's repairs.

    Attributes:
        repaired: by topic, the titles of the steps that its repair took.
        wrong: a line for each topic that was not repaired, or whose consumers do not get the right data.
    """

    repaired: dict[str, list[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def report(self, console: Console) -> None:
        """Print a table of what was repaired, and a line for each topic that was not."""
        if self.repaired:
            table = Table("topic", "steps", title="repaired, and read from the broker that was wrong")
            for topic, steps in self.repaired.items():
                table.add_row(topic, "\n".join(steps))
            console.print(table)
        for line in self.wrong:
            console.print(Text(line, style="bold"))


def mend(cluster: Cluster, settings: Settings, findings: Sequence[Finding], mended: Mended, say: Say) -> None:
    """Repair each open finding by its plan; then make the broker that was wrong the leader, and read from it.

    Args:
        cluster: the lab's cluster.
        settings: the settings of the job, which is running; ``repair.mode`` is ``on``.
        findings: the confirmed findings.
        mended: collects what was repaired, and what could not be.
        say: called with each line for people.
    """
    found = sorted((one for one in findings if one.is_open), key=lambda one: one.topic)
    over = sorted({one.topic for one in findings} - {one.topic for one in found})
    mended.wrong += [f"NOT REPAIRED: {topic}: its finding was over before" for topic in over]
    for topic in {one.topic for one in found}:
        admin.set_topic_config(cluster, topic, {"delete.retention.ms": _KEPT_FOR_MS})
    say(f"the topics keep deletions for {int(_KEPT_FOR_MS) // 60_000} min from here on, so that a copy misses none")
    others = {one.topic: next(b for b in sorted(cluster.brokers) if b != one.broker) for one in found}
    right = _right(settings, others)
    for finding in found:
        try:
            _mend(settings, finding, others[finding.topic], mended, say)
        except (command.RepairCommandError, ReplicaError) as error:
            mended.wrong.append(f"NOT REPAIRED: {finding.topic}: {one_line(error)}")
    _await_resolved(settings, found, mended, say)
    for finding in found:
        _read(cluster, finding, right[finding.topic], mended, say)


def _right(settings: Settings, brokers: Mapping[str, int]) -> dict[str, Mapping[str, str]]:
    """By topic, the latest value of each key as a broker shows it that was not away."""
    with closing(ReplicaClient(settings.kafka)) as client:
        return {topic: read_replica(client, broker, topic).visible for topic, broker in brokers.items()}


def _mend(settings: Settings, finding: Finding, right: int, mended: Mended, say: Say) -> None:
    made = command.plan(settings, finding.place, {}, say)
    if made.missing:
        say(f"{finding.topic}: {' '.join(made.missing)}")
        say(f"{finding.topic}: the demo has written it, and knows that broker {right} is right: --right {right}")
        made = command.plan(settings, finding.place, {}, say, Said(right=right))
    for step in made.steps:
        say(f"PLAN {finding.topic}, step {step.number}: {step.title}")
    if made.missing or not made.steps:
        mended.wrong.append(f"NO PLAN: {finding.topic}: {' '.join(made.missing) or 'nothing to repair'}")
        return
    began = time.monotonic()
    over = command.run(settings, made, lambda text: say(f"{finding.topic}: {text}"))
    if over.phase is not Phase.OVER:
        mended.wrong.append(f"NOT REPAIRED: {finding.topic}: {over.reason}")
        return
    mended.repaired[finding.topic] = [step.title for step in made.steps]
    say(f"REPAIRED {finding.topic} in {time.monotonic() - began:.1f} s")


def _await_resolved(settings: Settings, findings: Sequence[Finding], mended: Mended, say: Say) -> None:
    """Wait until the job itself has seen that it is over."""
    wanted = {one.finding_id for one in findings if one.topic in mended.repaired}

    def left() -> set[str]:
        try:
            known = current(read_events(settings.storage.path))
        except FindingsTableError:
            return wanted
        return {one for one in wanted if known[one].status is not FindingStatus.RESOLVED}

    try:
        until(lambda: not left(), "the job to see that they are over", timeout=_RESOLVED_WITHIN_S)
        say(f"the job has seen the end of {counted(len(wanted), 'finding')}")
    except LabError:
        for one in findings:
            if one.finding_id in left():
                mended.wrong.append(f"NOT RESOLVED: {one.topic}")


def _read(cluster: Cluster, finding: Finding, right: Mapping[str, str], mended: Mended, say: Say) -> None:
    broker = finding.broker
    try:
        admin.elect_leaders(cluster, finding.topic, broker=broker)
        shown = consumed(cluster.bootstrap_servers, finding.topic)
    except LabError as error:
        mended.wrong.append(f"NOT READ: {finding.topic}: {one_line(error)}")
        return
    different = sorted(key for key in shown.keys() | right.keys() if shown.get(key) != right.get(key))
    if different:
        mended.wrong.append(f"READ WRONGLY: {finding.topic}, led by broker {broker}: keys {', '.join(different[:5])}")
        return
    keys = counted(len(shown), "key")
    say(f"{finding.topic}: broker {broker} leads now, and a consumer of it reads what is right ({keys})")


def consumed(bootstrap_servers: str, topic: str) -> dict[str, str]:
    """By key, the latest value that a plain read_committed consumer gets from the leader of partition 0.

    Deleted keys are left out.

    Args:
        bootstrap_servers: the lab's brokers.
        topic: the topic's name.

    Raises:
        LabError: the topic could not be read to its end within two minutes.
    """
    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "after-the-repair",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    latest: dict[str, str | None] = {}
    consumer = Consumer(options)
    try:
        consumer.assign([Assigned(topic, 0, OFFSET_BEGINNING)])

        def is_at_its_end() -> bool:
            message = consumer.poll(1.0)
            if message is None:
                return False
            if message.error() is not None:
                return bool(message.error().code() == _END)
            value = message.value()
            latest[key_text(message.key() or b"")] = None if value is None else key_text(value)
            return False

        until(is_at_its_end, f"{topic} to be read to its end", timeout=_READ_WITHIN_S, interval=0)
    finally:
        consumer.close()
    return {key: value for key, value in latest.items() if value is not None}


__all__ = ["Mended", "consumed", "mend"]
