"""A finding in plain words, for whoever has to act: what happened, what consumers see, who is right, what to run.

Says nothing that the evidence does not prove: where several sides stand against the accused, none of them is called
right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parallax.findings.finding import Finding, evidence_of
from parallax.kinds import KINDS
from parallax.model import NOBODY, FindingStatus

RUNBOOK = "docs/runbook.md"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one finding; each part is one or two sentences.

    Attributes:
        happened: what the replicas show.
        now: what consumers see now.
        after: what they see after another replica was elected leader.
        right: which replicas the evidence proves to be right, and which it says nothing of.
        steps: what to do, in order.
        away: assignment without the accused, as kafka-reassign-partitions.sh reads it; None where it is no repair.
        back: the assignment with it again, once its copy is gone.
        runbook: the section that says more.
    """

    happened: str
    now: str
    after: str
    right: str
    steps: tuple[str, ...]
    away: str | None
    back: str | None
    runbook: str


def explain(finding: Finding) -> Explanation:
    """Explain a finding by its last event."""
    evidence = evidence_of(finding)
    replicas = sorted(int(broker) for broker in evidence.get("replicas", {}))
    leader = int(evidence.get("leader", NOBODY))
    right = proven_right(finding, evidence)
    away = back = None
    if finding.stands and finding.broker != NOBODY and right:
        away = _assignment(finding, [b for b in (*right, *replicas) if b != finding.broker])
        back = _assignment(finding, [*(b for b in (*right, *replicas) if b != finding.broker), finding.broker])
    return Explanation(
        happened=finding.summary,
        now=_now(finding, leader),
        after=_after(finding),
        right=_right(finding, right, replicas),
        steps=_steps(finding, leads_right=leader in right, can_copy=away is not None),
        away=away,
        back=back,
        runbook=runbook_of(finding),
    )


def proven_right(finding: Finding, evidence: Mapping[str, Any]) -> list[int]:
    """The brokers that the proof clears: those that all stand on the one side against the accused.

    Where nobody is accused, or those that differ from the accused differ from one another too, it clears nobody.
    """
    sides: Mapping[str, Sequence[int]] = evidence.get("sides") or {}
    against = [brokers for brokers in sides.values() if brokers and finding.broker not in brokers]
    if finding.broker == NOBODY or finding.status is FindingStatus.SPREAD or len(against) != 1:
        return []
    return sorted(against[0])


def _assignment(finding: Finding, replicas: Sequence[int]) -> str:
    partition = {"topic": finding.topic, "partition": finding.partition, "replicas": list(dict.fromkeys(replicas))}
    return json.dumps({"version": 1, "partitions": [partition]})


def _brokers(brokers: Sequence[int]) -> str:
    words = [str(broker) for broker in brokers]
    if len(words) == 1:
        return f"broker {words[0]}"
    return f"brokers {', '.join(words[:-1])} and {words[-1]}"


def _now(finding: Finding, leader: int) -> str:
    consumers = KINDS[finding.kind].consumers
    if not finding.stands:
        return "It is over: see what was said when it ended."
    if finding.status is FindingStatus.SPREAD:
        return f"Consumers of every replica {consumers}."
    if finding.broker == NOBODY:
        if finding.exposed:
            return f"One of the sides leads. Whether consumers read the wrong one is not known: they {consumers}."
        return "None of those that are known to differ leads."
    if finding.exposed:
        return f"Broker {finding.broker} leads the partition: consumers {consumers}."
    leads = f"Broker {leader} leads" if leader != NOBODY else "Another replica leads"
    return (
        f"{leads}: consumers that read from the leader do not meet it. Those that fetch from broker {finding.broker} "
        f"(client.rack) {consumers}."
    )


def _after(finding: Finding) -> str:
    consumers = KINDS[finding.kind].consumers
    if not finding.stands:
        return "Nothing of it is left to be seen."
    if finding.status is FindingStatus.SPREAD:
        return "No election changes anything: all replicas show the same."
    if finding.broker == NOBODY:
        return f"After an election consumers may read another side: they {consumers}."
    if finding.exposed:
        return "Once a replica leads that is right, consumers read what is right from then on."
    return f"If broker {finding.broker} becomes the leader, consumers {consumers}."


def _right(finding: Finding, right: Sequence[int], replicas: Sequence[int]) -> str:
    if finding.status is FindingStatus.SPREAD:
        return "None: all replicas share it."
    if finding.broker == NOBODY:
        return "Of none it is proven. Wipe, reassign or re-elect nothing on this evidence."
    if not right:
        return f"Broker {finding.broker} is proven wrong. Which of the others is right is not proven."
    others = [broker for broker in replicas if broker not in right and broker != finding.broker]
    verb = "is" if len(right) == 1 else "are"
    said = f"Broker {finding.broker} is proven wrong, {_brokers(right)} {verb} right in this."
    return f"{said} Nothing is proven of {_brokers(others)}." if others else said


def _steps(finding: Finding, *, leads_right: bool, can_copy: bool) -> tuple[str, ...]:
    if not finding.stands:
        return ()
    if finding.status is FindingStatus.SPREAD:
        return (
            "Write what is right once more: no copy of a replica can repair it.",
            f"Where nothing can be written: parallax findings acknowledge {finding.finding_id} --reason '...'",
        )
    if finding.broker == NOBODY:
        return ("Compare what the sides show (parallax findings show) with the system that wrote it.",)
    keep = f"Keep broker {finding.broker} from leading: no preferred election, and do not restart the present leader."
    if not can_copy:
        return (keep, "Find out which replica is right before any is copied: the evidence does not prove it.")
    first = (
        keep
        if leads_right
        else "Let a broker lead that is right, for a new copy is taken from the leader: put it first in the "
        "assignment, then run kafka-leader-election.sh --election-type preferred."
    )
    drop = (
        f"Have broker {finding.broker} drop its copy: kafka-reassign-partitions.sh --reassignment-json-file FILE "
        "--execute with the first assignment below; wait until --verify says that it is done."
    )
    return (
        first,
        drop,
        "Give it a new copy: the same with the second assignment.",
        "The finding is resolved by itself once the replicas are seen to agree.",
    )


def runbook_of(finding: Finding, runbook: str = RUNBOOK) -> str:
    """Where the runbook, at an address or a path, says what to do about a finding."""
    if finding.status is FindingStatus.SPREAD:
        section = "parallaxlosscomplete"
    else:
        section = "without-direction" if finding.broker == NOBODY else KINDS[finding.kind].runbook
    return f"{runbook}#{section}"
