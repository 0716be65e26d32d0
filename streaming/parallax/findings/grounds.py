"""Collects what the explanation of a finding needs to know of the replicas.

Which of them are proven right, which may be copied, and what is proven of the leader?
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from parallax.counts import brokers_text
from parallax.findings.cleared import cleared, holds_open, outcomes_of, shows_against_its_end
from parallax.findings.finding import Finding, effect_in, evidence_of, has_spread, is_blocking, is_shared
from parallax.findings.repair import Repair
from parallax.findings.shown import Shown
from parallax.kinds import OPEN_KINDS, OUTCOME_KINDS, STOPS_AT
from parallax.model import NOBODY, UNKNOWN, FindingKind
from parallax.shell import Shell
from parallax.sides import Shows, Side, outcomes_on


class Leads(Enum):
    """What a finding proves of the leader: it is the accused, shows the same, is right, or nothing."""

    ACCUSED = auto()
    """The accused leads."""
    ALIKE = auto()
    """A replica leads that shows what the accused shows."""
    RIGHT = auto()
    """A replica leads that is proven right."""
    UNPROVEN = auto()
    """Nothing is proven of the replica that leads."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What is known of the replicas when one finding is explained; made by `grounds_of`.

    Attributes:
        shown: the evidence of the finding.
        leads: what the finding proves of the replica that leads.
        right: the brokers whose replicas the finding proves right.
        sources: the brokers in ``right`` that may be copied. A copy makes the accused what its source is. So every
            other finding of the partition that is not over must prove the source right too, unless it accuses the same
            broker or has spread.
        ``beside``: the other findings that keep a replica in ``right`` from being copied.
        candidates: for a transaction that the accused holds open, where no replica is proven right: the brokers that
            have ended it. Such a replica may be copied once a person finds it right.
        is_leader_accused: whether another finding of the partition accuses the leader, or accuses nobody.
        shell: the options with which printed commands name the cluster and the job.
    """

    shown: Shown
    leads: Leads
    right: Sequence[int]
    sources: Sequence[int]
    beside: Sequence[Finding]
    candidates: Sequence[int]
    is_leader_accused: bool
    shell: Shell

    @property
    def repair(self) -> Repair | None:
        """How to give the accused a copy of a right replica.

        None if no replica may be copied, or if the finding is over.
        """
        return Repair.of(self.shown, self.sources) if self.finding.stands and self.sources else None

    @property
    def if_right(self) -> Repair | None:
        """How to give the accused a copy of a replica in ``candidates``, once a person finds that replica right.

        None without candidates. If the leader is a candidate, it is the source. Then no other leader has to be elected.
        """
        if not self.candidates:
            return None
        leader = self.shown.leader
        return Repair.of(self.shown, [leader] if leader in self.candidates else self.candidates)

    @property
    def finding(self) -> Finding:
        """The finding that is explained."""
        return self.shown.finding

    @property
    def is_leader_undisputed(self) -> bool:
        """Whether all replicas that differ from the accused show the same, the leader among them.

        It is False if another finding of the partition accuses the leader, or accuses nobody.
        """
        against = self.shown.against
        return len(against) == 1 and self.shown.leader in against[0] and not self.is_leader_accused

    @property
    def consumers(self) -> str:
        """What happens to consumers of the accused, as the end of a sentence that begins with "consumers".

        For a freeze it names the offset at which they stop.
        """
        consumers = effect_in(self.finding).consumers
        if self.finding.kind is not FindingKind.READ_COMMITTED_FROZEN:
            return consumers
        answers = evidence_of(self.finding).get("replicas", {})
        stands = answers.get(str(self.finding.broker), {}).get("last_stable_offset")
        return consumers.replace(
            STOPS_AT,
            "their last stable offset" if stands is None or has_spread(self.finding) else f"offset {stands}",
        )

    @property
    def is_of_the_index(self) -> bool:
        """Whether only the accused's index of aborted transactions is wrong, which a broker can rebuild from its log.

        It is taken to be true for an incident. The incident's evidence does not show it for every transaction.
        """
        finding = self.finding
        if finding.kind is not FindingKind.OUTCOME_CONTRADICTS_MARKER:
            return False
        return finding.is_incident or shows_against_its_end(self.shown)

    @property
    def unlisted(self) -> int:
        """The offset of the ABORT marker that the accused's index does not list (`is_of_the_index`).

        It is -1 if there are many, as in an incident, or if the index lists a transaction that was committed.
        """
        is_one = not self.finding.is_incident and outcomes_on(self.shown.sides, self.finding.broker) == {"committed"}
        return self.finding.marker_offset if is_one else UNKNOWN

    @property
    def silent(self) -> frozenset[int]:
        """The brokers whose answers do not show that their replicas are wrong as well, for a finding that has spread.

        Brokers that did not answer are among them.
        """
        sharing = self.shown.answered
        if self.finding.kind in OUTCOME_KINDS:
            sharing = frozenset(broker for broker in sharing if outcomes_of(self.shown, broker))
        if self.finding.kind in OPEN_KINDS:
            sharing = frozenset(broker for broker in sharing if holds_open(self.shown, broker))
        return frozenset(self.shown.replicas) - sharing


def grounds_of(finding: Finding, others: Iterable[Finding], shell: Shell) -> Grounds:
    """Collect what is known of the replicas, to explain a finding.

    Args:
        finding: the finding's last event.
        others: the last events of other findings; those about other partitions are ignored.
        shell: the options with which printed commands name the cluster and the job.
    """
    shown = Shown.of(finding)
    right = cleared(shown)
    sources, beside = set(right), []
    candidates = _may_be_right(shown) if not right else frozenset()
    is_leader_accused = False
    for other in others:
        is_beside = other.stands and other.place == finding.place and other.finding_id != finding.finding_id
        if not is_beside or other.broker == finding.broker or is_shared(other):
            continue
        also_right = cleared(Shown.of(other))
        candidates &= set(also_right)
        is_leader_accused |= other.broker in (shown.leader, NOBODY)
        if not set(right) <= set(also_right):
            beside.append(other)
        sources &= set(also_right)
    leads, may_be_copied = _leads(shown, right), sorted(candidates)
    return Grounds(shown, leads, right, sorted(sources), beside, may_be_copied, is_leader_accused, shell)


def _may_be_right(shown: Shown) -> frozenset[int]:
    """Return who has ended a transaction that the accused holds open; it is not proven that they ended it rightly."""
    finding = shown.finding
    if finding.kind not in OPEN_KINDS or finding.broker == NOBODY or finding.is_incident or has_spread(finding):
        return frozenset()
    return shown.sides.get(Side(Shows.ENDED), frozenset()) & shown.answered - shown.alike - shown.was_accused


def _leads(shown: Shown, right: Collection[int]) -> Leads:
    """Return where the leader is.

    An incident's evidence does not name the leader; whether consumers see the divergence says enough.
    """
    finding = shown.finding
    if shown.leader in (finding.broker, NOBODY) and finding.exposed:
        return Leads.ACCUSED
    if shown.leader == finding.broker:
        return Leads.ACCUSED
    is_alike = finding.exposed and finding.kind is FindingKind.LOG_TRUNCATED
    is_alike |= is_blocking(finding) and holds_open(shown, shown.leader)
    if shown.leader in shown.showing or is_alike:
        return Leads.ALIKE
    return Leads.RIGHT if shown.leader in right else Leads.UNPROVEN


def one_of(brokers: Collection[int]) -> str:
    """Return brokers for a sentence that means one of them: ``broker 1``, or ``broker 1, 2 or 3``."""
    *words, last = map(str, sorted(brokers))
    return f"broker {', '.join(words)} or {last}" if words else f"broker {last}"


def are(brokers: Collection[int], one: str, many: str) -> str:
    """Return brokers with a verb, to begin a sentence: ``Broker 1 shows``, or ``Brokers 1 and 2 show``.

    Args:
        brokers: their ids.
        one: the verb for one broker.
        many: the verb for several.
    """
    return f"{brokers_text(brokers).capitalize()} {one if len(brokers) == 1 else many}"


__all__ = ["Grounds", "Leads", "are", "grounds_of", "one_of"]
