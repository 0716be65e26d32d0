"""A finding in plain words, for whoever has to act: what happened, what consumers see, who is right, what to run.

Says nothing that the evidence does not prove: a replica is called right only where `parallax.findings.cleared` clears
it, and what consumers of the leader read is known only where the leader stands on a side. A copy is advised only from a
replica that is right in this and makes nothing wrong that another finding of the partition may be right about.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from parallax.findings.cleared import Shown, cleared, holds_open, outcomes_of, shows_against_its_end
from parallax.findings.decide import Resolution
from parallax.findings.finding import Finding, evidence_of, has_spread, is_blocking, is_unsettled, leans_on
from parallax.kinds import KINDS, OUTCOME_KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus

RUNBOOK = "docs/runbook.md"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one finding; each part is one or two sentences, or empty where there is nothing to say.

    Attributes:
        happened: what the replicas show.
        asked: when they were asked.
        now: what consumers see now.
        after: what they see after another replica was elected leader.
        right: which replicas the evidence proves to be right, and which it says nothing of.
        steps: what to do, in order.
        away: assignment without the accused, as kafka-reassign-partitions.sh reads it; None where it is no repair.
        back: the assignment of all replicas, one that is right first; None where none is known.
        runbook: the section that says more.
    """

    happened: str
    asked: str
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


@dataclass(frozen=True, slots=True)
class _Known:
    """All that an explanation goes by.

    Attributes:
        leads: where the leader stands.
        right: the replicas that the finding proves right.
        sources: those of them of which no other finding of the partition leaves open whether the accused is right
            where they are wrong.
        beside: the other findings that do.
    """

    shown: Shown
    leads: _Leads
    right: Sequence[int]
    sources: Sequence[int]
    beside: Sequence[Finding]

    @property
    def finding(self) -> Finding:
        return self.shown.finding

    @property
    def consumers(self) -> str:
        return KINDS[self.finding.kind].consumers

    @property
    def is_of_the_index(self) -> bool:
        """Whether it is the index of aborted transactions alone that is wrong: the log holds what it is rebuilt from.

        Of an incident it is not known of each transaction that it counts.
        """
        finding = self.finding
        if finding.kind is not FindingKind.OUTCOME_CONTRADICTS_MARKER:
            return False
        return finding.is_incident or shows_against_its_end(self.shown)

    @property
    def silent(self) -> frozenset[int]:
        """Of a finding that all share: those that did not answer, or show nothing of it."""
        sharing = self.shown.answered
        if self.finding.kind in OUTCOME_KINDS:
            sharing = frozenset(broker for broker in sharing if outcomes_of(self.shown, broker))
        if self.finding.kind in _OPEN:
            sharing = frozenset(broker for broker in sharing if holds_open(self.shown, broker))
        return frozenset(self.shown.replicas) - sharing


_OPEN = frozenset({FindingKind.MARKER_MISSING, FindingKind.READ_COMMITTED_FROZEN})


def explain(finding: Finding, others: Iterable[Finding] = ()) -> Explanation:
    """Explain a finding by its last event.

    Args:
        finding: its last event.
        others: the last events of other findings; those that stand about the same partition count.
    """
    known = _known(finding, others)
    away = back = None
    if finding.stands and known.sources:
        rest = [broker for broker in (*known.sources, *sorted(known.shown.replicas)) if broker != finding.broker]
        away = None if known.is_of_the_index else _assignment(finding, rest)
        back = _assignment(finding, [*rest, finding.broker])
    return Explanation(
        happened=finding.summary,
        asked=_asked(finding),
        now=f"{_now(known)}{_blocked(finding)}" if finding.stands else _over(finding),
        after=_after(known) if finding.stands else "",
        right=_right(known) if finding.stands else "",
        steps=_steps(known) if finding.stands else (),
        away=away,
        back=back,
        runbook=runbook_of(finding),
    )


def _known(finding: Finding, others: Iterable[Finding]) -> _Known:
    """A new copy makes the accused what its source is: so the source must not be wrong where the accused is right."""
    shown = Shown.of(finding)
    right = cleared(shown)
    sources, beside = set(right), []
    for other in others:
        is_beside = other.stands and other.place == finding.place and other.finding_id != finding.finding_id
        if not is_beside or other.broker == finding.broker or has_spread(other):
            continue
        also_right = cleared(Shown.of(other))
        if not set(right) <= set(also_right):
            beside.append(other)
        sources &= set(also_right)
    return _Known(shown, _leads(shown, right), right, sorted(sources), beside)


def _leads(shown: Shown, right: Collection[int]) -> _Leads:
    """An incident's evidence does not name the leader: whether consumers meet it says enough."""
    finding = shown.finding
    if shown.leader in (finding.broker, NOBODY) and finding.exposed:
        return _Leads.ACCUSED
    if shown.leader == finding.broker:
        return _Leads.ACCUSED
    if shown.leader in shown.showing or (finding.exposed and finding.kind is FindingKind.LOG_TRUNCATED):
        return _Leads.ALIKE
    return _Leads.RIGHT if shown.leader in right else _Leads.UNPROVEN


def _assignment(finding: Finding, replicas: Sequence[int]) -> str:
    partition = {"topic": finding.topic, "partition": finding.partition, "replicas": list(dict.fromkeys(replicas))}
    return json.dumps({"version": 1, "partitions": [partition]})


def _brokers(brokers: Collection[int]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {_listed(brokers, 'and')}"


def _one_of(brokers: Collection[int]) -> str:
    return f"broker {_listed(brokers, 'or')}"


def _listed(brokers: Collection[int], last: str) -> str:
    *words, end = [str(broker) for broker in sorted(brokers)]
    return f"{', '.join(words)} {last} {end}" if words else end


def _are(brokers: Collection[int], one: str, many: str) -> str:
    """Brokers at the beginning of a sentence, with their verb."""
    return f"{_brokers(brokers).capitalize()} {one if len(brokers) == 1 else many}"


def _asked(finding: Finding) -> str:
    asked = f"This rests on what the replicas answered until {finding.decided_at:%Y-%m-%d %H:%M:%SZ}."
    return f"{asked} It may not hold where a replica was moved or copied since." if finding.stands else asked


_OVER = {
    Resolution.PART: "It stands, as part of an incident, which is reported in its place: explain that one.",
    Resolution.EXPLAINED: "Another finding, named above, is about the same cause: explain that one.",
    Resolution.HEALED: "It has ended: the replicas agree. What consumers had read before stays as they read it.",
}


def _over(finding: Finding) -> str:
    if finding.status is FindingStatus.DISMISSED:
        return _OVER[Resolution.EXPLAINED] if leans_on(finding) else "It was suspected, and not confirmed."
    ended = "It has ended, and that proves no replica right: see above how."
    return next((text for how, text in _OVER.items() if evidence_of(finding).get("resolution") == how), ended)


def _now(known: _Known) -> str:
    shown, finding, leader = known.shown, known.finding, known.shown.leader
    if has_spread(finding):
        if known.silent:
            sharing = shown.replicas.keys() - known.silent
            unknown = f"Of {_brokers(known.silent)} it is not known what they read."
            return f"Consumers of {_brokers(sharing)} {known.consumers}. {unknown}" if sharing else unknown
        return f"Consumers of every replica {known.consumers}."
    if is_unsettled(finding):
        return f"The replicas show the same. If that is what is wrong, consumers {known.consumers}."
    if finding.broker == NOBODY:
        if finding.exposed:
            return f"One of the sides leads. Whether consumers read the wrong one is not known: they {known.consumers}."
        return "None of those that are known to differ leads."
    if known.leads is _Leads.ACCUSED:
        named = "The leader shows it" if finding.is_incident else f"Broker {finding.broker} leads the partition"
        return f"{named}: consumers {known.consumers}."
    if known.leads is _Leads.ALIKE:
        shows = f"shows what broker {finding.broker} does"
        if finding.kind is FindingKind.LOG_TRUNCATED:
            shows = "lacks it as well"
        return f"Broker {leader} leads the partition and {shows}: consumers {known.consumers}."
    said = "nothing is proven of what it shows, so consumers that read from the leader may be misled as well."
    if known.leads is _Leads.RIGHT:
        said = "consumers that read from the leader do not meet it."
    leads = f"Broker {leader} leads" if leader != NOBODY else "Who leads is not known here"
    return f"{leads}: {said} Those that fetch from {_one_of(shown.showing)} (client.rack) {known.consumers}."


def _blocked(finding: Finding) -> str:
    if not is_blocking(finding):
        return ""
    at = evidence_of(finding)["blocked_at"]
    return f" Consumers of broker {finding.broker} in read_committed get nothing beyond offset {at}."


def _after(known: _Known) -> str:
    if has_spread(known.finding):
        silent = f", unless it is of {_one_of(known.silent)}" if known.silent else ""
        return f"No election is known to change anything{silent}."
    if is_unsettled(known.finding):
        return "No election changes anything: all replicas show the same."
    if known.finding.broker == NOBODY:
        return f"After an election consumers may read another side: they {known.consumers}."
    if known.leads not in (_Leads.ACCUSED, _Leads.ALIKE):
        return f"If {_one_of(known.shown.showing)} becomes the leader, consumers {known.consumers}."
    if not known.right:
        return "No other replica is proven right: what consumers read after an election is not known."
    return f"Once {_one_of(known.right)} leads, consumers read what is right in this from then on."


def _right(known: _Known) -> str:
    shown, finding, right = known.shown, known.finding, known.right
    if has_spread(finding):
        if known.silent:
            return f"None of those that show it: they share it. Nothing is proven of {_brokers(known.silent)}."
        return "None: all replicas share it."
    if is_unsettled(finding):
        return "Of none it is proven: all may be wrong."
    if finding.broker == NOBODY:
        return "Of none it is proven. Wipe, reassign or re-elect nothing on this evidence."
    said = f"Broker {finding.broker} is proven wrong"
    if right:
        said += f", {_brokers(right)} {'is' if len(right) == 1 else 'are'} right in this"
    alike = shown.alike - {finding.broker}
    if now := alike & shown.showing:
        said += f". {_are(now, 'shows', 'show')} the same"
    if before := alike - shown.showing:
        said += f". {_are(before, 'was', 'were')} read to show the same"
    if not right:
        return f"{said}. Which of the others is right is not proven."
    others = shown.replicas.keys() - shown.alike - set(right)
    return f"{said}. Nothing is proven of {_brokers(others)}." if others else f"{said}."


def _steps(known: _Known) -> tuple[str, ...]:
    finding = known.finding
    if has_spread(finding):
        return _where_all_share_it(known)
    if is_unsettled(finding):
        compare = f"Compare what the replicas show ({_show(finding)}) with the system that wrote it."
        return (
            f"{compare} Where it is wrong, write it once more: that ends the finding.",
            f"Where it is right: parallax findings acknowledge {finding.finding_id} --reason '...'",
        )
    if finding.broker == NOBODY:
        return (f"Compare what the sides show ({_show(finding)}) with the system that wrote it.", _WRITE_AGAIN)
    if known.is_of_the_index:
        return _rebuild(known)
    first = _who_leads(known)
    if finding.kind is FindingKind.LOG_TRUNCATED:
        return (first, _LOST)
    if not known.right:
        find = "Find out which replica is right before any is copied or wiped: the evidence does not prove it. Compare "
        return (first, f"{find}what they show ({_show(finding)}) with the system that wrote it.")
    if not known.sources:
        return (first, _wait_for_others(known))
    return (first, *_copy_again(known))


def _rebuild(known: _Known) -> tuple[str, ...]:
    """It is the index that is wrong, and not the log: that takes a stop of the broker, and no copy."""
    holds = (
        "No copy is needed for that: its log holds the end marker. Where its cleaner has taken values by the wrong "
        "index, the finding stands after it and says so."
    )
    if known.finding.is_incident:
        holds = "That takes no copy where its log holds the end markers: the runbook says what to do where it does not."
    broker = known.finding.broker
    index = f"Have broker {broker} rebuild its index of aborted transactions, as the runbook says. {holds}"
    if known.right:
        return (_who_leads(known), index)
    return (f"{index} Another broker leads while it is stopped: what consumers read of that is not proven.",)


_WRITE_AGAIN = "Have what is right written once more, be it a value or a deletion: every replica takes that over."
_LOST = (
    "Have what was lost written once more by the system that wrote it, unless another replica holds it still: wipe "
    "none before that is known."
)


_END_IT = (
    "Have the transaction ended as the runbook says: an ABORT loses what was committed. Wipe no replica, above all "
    "none that did not answer: one that has ended it may be right."
)
_LOWER = (
    "Let a broker lead whose log begins lower and is not empty: the others take over the log start of the one that "
    "leads, and lose what lies below."
)


def _show(finding: Finding) -> str:
    return f"parallax findings show {finding.finding_id}{' --format json' if finding.is_incident else ''}"


def _where_all_share_it(known: _Known) -> tuple[str, ...]:
    acknowledge = f"parallax findings acknowledge {known.finding.finding_id} --reason '...'"
    if known.finding.kind in _OPEN:
        return (_END_IT, f"Where it cannot be ended: {acknowledge}")
    if known.silent:
        spare = f"Wipe nothing on {_brokers(known.silent)}: what is held there may be right."
        return (spare, _WRITE_AGAIN, f"Where nothing can be written: {acknowledge}")
    return (
        "Write what is right once more: no copy of a replica can repair it.",
        f"Where nothing can be written: {acknowledge}",
    )


def _who_leads(known: _Known) -> str:
    finding, first = known.finding, known.sources[0] if known.sources else NOBODY
    if known.leads in (_Leads.ACCUSED, _Leads.ALIKE) and not known.sources:
        if finding.kind is FindingKind.LOG_HEAD_MISSING:
            return f"{_LOWER} See {_show(finding)}."
        if known.right:
            return "Elect no other leader yet: it may be wrong where the present one is right."
        return "Elect no other leader on this evidence: it proves nobody right."
    if not known.sources or known.shown.leader in known.sources:
        keep = f"Keep {_brokers(known.shown.alike)} from leading"
        return f"{keep}: no preferred election, and do not restart the present leader."
    why = "" if known.is_of_the_index else ", for a new copy is taken from the leader"
    return (
        f"Let broker {first} lead{why}: run kafka-reassign-partitions.sh with the assignment of all replicas, which "
        f"copies nothing and puts broker {first} first, and then "
        "kafka-leader-election.sh --election-type preferred --topic "
        f"{finding.topic} --partition {finding.partition}."
    )


def _wait_for_others(known: _Known) -> str:
    named = " and ".join(f"{other.finding_id} ({other.kind})" for other in known.beside)
    first = "that one" if len(known.beside) == 1 else "those"
    return (
        f"Have nothing copied or wiped yet: broker {known.finding.broker} may be the right one in finding {named} of "
        f"this partition. Settle {first} first; where each waits for the other, have what is right written once more."
    )


def _copy_again(known: _Known) -> tuple[str, ...]:
    check = (
        f"Check with kafka-topics.sh --describe that {_one_of(known.sources)} leads, and that the replicas are still "
        "those of the assignments below."
    )
    drop = (
        f"Have broker {known.finding.broker} drop its copy: kafka-reassign-partitions.sh --reassignment-json-file FILE "
        "--execute with the first assignment below; wait until --verify says that it is done. The partition has one "
        "replica less until the next step is done."
    )
    if known.finding.kind is FindingKind.DELETED_RECORD_RESURRECTED:
        drop = f"{_DELETE_AGAIN} Else: {drop[:1].lower()}{drop[1:]}"
    return (check, drop, "Give it a new copy: the same with the second assignment.", _BY_ITSELF)


_BY_ITSELF = "The finding is resolved by itself once the replicas are seen to agree."
_DELETE_AGAIN = "Where the system that wrote it still has the key deleted, a deletion written once more is enough."


def runbook_of(finding: Finding, runbook: str = RUNBOOK) -> str:
    """Where the runbook, at an address or a path, says what to do about a finding."""
    if has_spread(finding):
        section = "parallaxlosscomplete"
    elif is_unsettled(finding):
        section = "parallaxdivergenceunsettled"
    else:
        section = "without-direction" if finding.broker == NOBODY else KINDS[finding.kind].runbook
    return f"{runbook}#{section}"
