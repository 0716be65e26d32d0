"""A finding in plain words, for whoever has to act: what happened, what consumers see, who is right, what to run.

Says nothing that the evidence does not prove: a replica is called right only where `parallax.findings.cleared` clears
it, and what consumers of the leader read is known only where the leader stands on a side.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from parallax.findings.cleared import Shown, cleared
from parallax.findings.finding import Finding
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


class _Leads(Enum):
    """Where the leader stands, of a finding that accuses somebody."""

    ACCUSED = auto()
    """It is the accused."""
    ALIKE = auto()
    """It shows what the accused shows."""
    RIGHT = auto()
    """It is proven right."""
    UNPROVEN = auto()
    """Nothing is proven of it."""


def explain(finding: Finding) -> Explanation:
    """Explain a finding by its last event."""
    shown = Shown.of(finding)
    right = cleared(shown)
    leads = _leads(shown, right)
    away = back = None
    if finding.stands and right:
        others = [broker for broker in (*right, *sorted(shown.replicas)) if broker != finding.broker]
        away = _assignment(finding, others)
        back = _assignment(finding, [*others, finding.broker])
    return Explanation(
        happened=finding.summary,
        now=_now(shown, leads),
        after=_after(shown, leads, right),
        right=_right(shown, right),
        steps=_steps(shown, leads, can_copy=away is not None),
        away=away,
        back=back,
        runbook=runbook_of(finding),
    )


def _leads(shown: Shown, right: Collection[int]) -> _Leads:
    """An incident's evidence does not name the leader: whether consumers meet it says enough."""
    if shown.leader in (shown.finding.broker, NOBODY) and shown.finding.exposed:
        return _Leads.ACCUSED
    if shown.leader in shown.alike:
        return _Leads.ACCUSED if shown.leader == shown.finding.broker else _Leads.ALIKE
    return _Leads.RIGHT if shown.leader in right else _Leads.UNPROVEN


def _assignment(finding: Finding, replicas: Sequence[int]) -> str:
    partition = {"topic": finding.topic, "partition": finding.partition, "replicas": list(dict.fromkeys(replicas))}
    return json.dumps({"version": 1, "partitions": [partition]})


def _brokers(brokers: Collection[int]) -> str:
    words = [str(broker) for broker in sorted(brokers)]
    if len(words) == 1:
        return f"broker {words[0]}"
    return f"brokers {', '.join(words[:-1])} and {words[-1]}"


def _one_of(brokers: Collection[int]) -> str:
    return f"broker {' or '.join(str(broker) for broker in sorted(brokers))}"


def _now(shown: Shown, leads: _Leads) -> str:
    finding = shown.finding
    consumers = KINDS[finding.kind].consumers
    if not finding.stands:
        return "It is over: see what was said when it ended."
    if finding.status is FindingStatus.SPREAD:
        return f"Consumers of every replica {consumers}."
    if finding.status is FindingStatus.UNSETTLED:
        return f"The replicas show the same. If that is what is wrong, consumers {consumers}."
    if finding.broker == NOBODY:
        if finding.exposed:
            return f"One of the sides leads. Whether consumers read the wrong one is not known: they {consumers}."
        return "None of those that are known to differ leads."
    if leads is _Leads.ACCUSED:
        named = "The leader shows it" if finding.is_incident else f"Broker {finding.broker} leads the partition"
        return f"{named}: consumers {consumers}."
    if leads is _Leads.ALIKE:
        named = f"Broker {shown.leader} leads the partition and shows what broker {finding.broker} does"
        return f"{named}: consumers {consumers}."
    leader = f"Broker {shown.leader} leads" if shown.leader != NOBODY else "The leader is not named here"
    known = (
        "consumers that read from the leader do not meet it."
        if leads is _Leads.RIGHT
        else "nothing is proven of what it shows, so consumers that read from the leader may be misled as well."
    )
    return f"{leader}: {known} Those that fetch from {_one_of(shown.alike)} (client.rack) {consumers}."


def _after(shown: Shown, leads: _Leads, right: Collection[int]) -> str:
    finding = shown.finding
    consumers = KINDS[finding.kind].consumers
    if not finding.stands:
        return "Nothing of it is left to be seen."
    if finding.status in (FindingStatus.SPREAD, FindingStatus.UNSETTLED):
        return "No election changes anything: all replicas show the same."
    if finding.broker == NOBODY:
        return f"After an election consumers may read another side: they {consumers}."
    if leads not in (_Leads.ACCUSED, _Leads.ALIKE):
        return f"If {_one_of(shown.alike)} becomes the leader, consumers {consumers}."
    if not right:
        return "No other replica is proven right: what consumers read after an election is not known."
    return f"Once {_one_of(right)} leads, consumers read what is right in this from then on."


def _right(shown: Shown, right: Collection[int]) -> str:
    finding = shown.finding
    if finding.status is FindingStatus.SPREAD:
        return "None: all replicas share it."
    if finding.status is FindingStatus.UNSETTLED:
        return "Of none it is proven: all may be wrong."
    if finding.broker == NOBODY:
        return "Of none it is proven. Wipe, reassign or re-elect nothing on this evidence."
    said = f"Broker {finding.broker} is proven wrong"
    if right:
        said += f", {_brokers(right)} {'is' if len(right) == 1 else 'are'} right in this"
    if alike := shown.alike - {finding.broker}:
        said += f". {_brokers(alike).capitalize()} {'shows' if len(alike) == 1 else 'show'} the same"
    if not right:
        return f"{said}. Which of the others is right is not proven."
    others = shown.replicas.keys() - shown.alike - set(right)
    return f"{said}. Nothing is proven of {_brokers(others)}." if others else f"{said}."


def _steps(shown: Shown, leads: _Leads, *, can_copy: bool) -> tuple[str, ...]:
    finding = shown.finding
    if not finding.stands:
        return ()
    if finding.status is FindingStatus.SPREAD:
        return (
            "Write what is right once more: no copy of a replica can repair it.",
            f"Where nothing can be written: parallax findings acknowledge {finding.finding_id} --reason '...'",
        )
    if finding.status is FindingStatus.UNSETTLED:
        compare = "Compare what the replicas show (parallax findings show) with the system that wrote it."
        return (
            f"{compare} Where it is wrong, write it once more: that ends the finding.",
            f"Where it is right: parallax findings acknowledge {finding.finding_id} --reason '...'",
        )
    if finding.broker == NOBODY:
        return ("Compare what the sides show (parallax findings show) with the system that wrote it.",)
    keep = (
        f"Keep {_brokers(shown.alike)} from leading: no preferred election, and do not restart the present leader."
        if leads in (_Leads.RIGHT, _Leads.UNPROVEN)
        else "Elect no other leader on this evidence: it proves nobody right."
    )
    if not can_copy:
        find = "Find out which replica is right before any is copied or wiped: the evidence does not prove it. Compare "
        return (keep, f"{find}what they show (parallax findings show) with the system that wrote it.")
    return (keep if leads is _Leads.RIGHT else _LEAD_FIRST, *_copy_again(finding))


_LEAD_FIRST = (
    "Let a broker lead that is right, for a new copy is taken from the leader: put it first in the assignment, then "
    "run kafka-leader-election.sh --election-type preferred."
)


def _copy_again(finding: Finding) -> tuple[str, ...]:
    drop = (
        f"Have broker {finding.broker} drop its copy: kafka-reassign-partitions.sh --reassignment-json-file FILE "
        "--execute with the first assignment below; wait until --verify says that it is done."
    )
    return (
        drop,
        "Give it a new copy: the same with the second assignment.",
        "The finding is resolved by itself once the replicas are seen to agree.",
    )


def runbook_of(finding: Finding, runbook: str = RUNBOOK) -> str:
    """Where the runbook, at an address or a path, says what to do about a finding."""
    if finding.status is FindingStatus.SPREAD:
        section = "parallaxlosscomplete"
    elif finding.status is FindingStatus.UNSETTLED:
        section = "parallaxdivergenceunsettled"
    else:
        section = "without-direction" if finding.broker == NOBODY else KINDS[finding.kind].runbook
    return f"{runbook}#{section}"
