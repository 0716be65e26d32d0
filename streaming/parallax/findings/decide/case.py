"""A claim with its answers, and the decision on it: verdict, reason, and how a finding ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parallax.evidence.log import Logs
from parallax.findings.answers import Answers, ReplicaAnswer, value_shown
from parallax.findings.claim import Claim
from parallax.model import NOBODY, UNKNOWN, FindingKind, IsolationLevel
from parallax.sides import Shows, Side, Sides, against, by_broker, in_order, standing


class Verdict(StrEnum):
    """The result of a probe for a claim."""

    CONFIRMED = "confirmed"
    DISMISSED = "dismissed"
    PENDING = "pending"


class Resolution(StrEnum):
    """Why a finding is over, or has changed, though its claim had been proven."""

    HEALED = "healed"
    """The accused shows what the others show, or what it showed is superseded."""
    UNPROVEN = "outcome_not_proven"
    """The difference is gone, but no end marker was seen that proves how the transaction ended."""
    AGREED = "agreed"
    """All show the same again. Nothing ever proved which side was right, and all may be wrong: it stays open."""
    BY_WORD = "repaired_by_word"
    """The same, after a replica was copied anew from one that a person says is right. Nothing proved that it was."""
    DIFFERS = "differs_otherwise"
    """What the accused showed is superseded there, but the replicas still differ in the key: another divergence."""
    COMPACTED = "evidence_compacted"
    """The accused no longer holds the record, so nothing shows how it treats it. It may still be wrong."""
    INCOMPARABLE = "nothing_to_compare"
    """The accused still shows the record, and no other replica holds anything that shows whether it is right."""
    DELETED = "evidence_deleted"
    """The record lies below the log start: retention or DeleteRecords took it, right or wrong."""
    SPREAD = "spread"
    """All replicas show what the accused shows, and it is wrong: nothing is left to compare with."""
    SUPERSEDED = "superseded"
    """All replicas were wrong, and all hold what was written since: a newer record of the key, or a later log start."""
    EXPLAINED = "explained"
    """It is part of a finding on the outcome of a transaction, which was confirmed later."""
    PART = "part_of_incident"
    """It is still true, and is reported as one of many in an incident (`parallax.findings.incident`)."""
    GONE = "object_gone"
    """The topic, the partition or the replica is gone."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a claim: a verdict with its reason.

    Attributes:
        verdict: confirmed, dismissed or pending.
        kind: what it is. It may say more than the claim: a ``marker_missing`` may have become a wrong outcome.
        reason: one line for people.
        lone_witness: the difference is proven, but it rests on a transactional record that only one replica shows. That
            replica may have the wrong outcome, and the comparison may be about to say so. It is worth a short wait.
        resolution: for a dismissed claim that had been confirmed: why it no longer holds.
        was_shown: for a dismissed claim: the recorded answers prove it, but nobody shows it any more. It is reported as
            ended, and accuses nobody of what is shown now.
        accused: the replica that is proven wrong; `NOBODY` where nothing says which side is.
        sides: the brokers by what they show. They have answered, or were recorded where the reason says so. In a
            difference with a direction, those that show something else than the accused are its witnesses.
        lost_epoch: the leader epoch of the records that a truncated log has lost.
        in_part: for a claim that other findings explain: they explain only a part of what was reported. It is opened
            again once they have ended, even if no replica shows it then.
        lacks: offset of the value that the accused lacks because of a transaction's outcome, while it shows no value of
            the key; -1 in any other difference.
        proof_truncated: for a claim that accuses nobody: another leader has written where the record lay that proves
            the claim. So that record is not part of the current log.
    """

    verdict: Verdict
    kind: FindingKind
    reason: str
    lone_witness: bool = False
    resolution: Resolution = Resolution.HEALED
    accused: int = NOBODY
    sides: Mapping[Side, tuple[int, ...]] = field(default_factory=dict)
    was_shown: bool = False
    lost_epoch: int = UNKNOWN
    proof_truncated: bool = False
    in_part: bool = False
    lacks: int = UNKNOWN

    @property
    def witnesses(self) -> tuple[int, ...]:
        """The brokers that show something other than the accused, now or when they were recorded."""
        return tuple(sorted(frozenset().union(*against(self.sides, self.accused))))

    def is_shared_by_leader(self, accused: int, answers: Answers) -> bool:
        """Whether the leader, too, shows its consumers what the accused shows.

        If the accused is `NOBODY`, the question is whether the leader is on any side. A frozen leader is on no side.
        It shares a deleted value if it shows that value. It shares a truncated log, or a lost log head, if it lacks the
        same records.
        """
        if self.kind is FindingKind.DELETED_RECORD_RESURRECTED and answers.leader_shows_value_of(accused):
            return True
        if self.kind is FindingKind.LOG_TRUNCATED and answers.leader_lacks_it(accused, self.lost_epoch):
            return True
        if self.kind is FindingKind.LOG_HEAD_MISSING and answers.leader_begins_as_late(accused):
            return True
        return any(answers.leader in side and accused in (NOBODY, *side) for side in self.sides.values())

    def may_be_of(self, broker: int) -> bool:
        """Whether a broker may be the reason for the difference, by this decision."""
        named = {self.accused, *standing(self.sides)}
        return broker in named or self.verdict is not Verdict.CONFIRMED

    def is_explained_by(self, brokers: Collection[int]) -> bool:
        """Whether the difference would be gone without some brokers, since all others show the same."""
        if self.verdict is not Verdict.CONFIRMED or self.accused in brokers:
            return True
        rest = [side for side in self.sides.values() if set(side) - set(brokers)]
        return len(rest) < 2

    @property
    def has_spread(self) -> bool:
        """Whether the claim is proven and true of all replicas, so that no right replica is left."""
        return self.verdict is Verdict.DISMISSED and self.resolution is Resolution.SPREAD

    @property
    def is_unsettled(self) -> bool:
        """Whether replicas that differed agree, while nothing proves that they agree on the truth."""
        return self.verdict is Verdict.DISMISSED and self.resolution is Resolution.AGREED


@dataclass(frozen=True, slots=True)
class Case:
    """A claim with its answers, sorted into those of the accused, of other replicas, and of absent ones.

    Attributes:
        claim: what is claimed of which replica.
        accused: the answer of the claim's pivot. Where the claim accuses nobody, it is the replica that was asked last.
        others: the answers of the other replicas.
        absent: the replicas that did not answer.
        answers: all that the probe got.
        live_only: whether only what is shown now counts, as for a finding that is checked again.
        end_read: offset of the end marker that was read, if the claim ignores it because it may not be the right one.
        end_replaced: whether that marker is not part of the current log. Then nothing that it proved holds.
    """

    claim: Claim
    accused: ReplicaAnswer
    others: Sequence[ReplicaAnswer]
    absent: Sequence[ReplicaAnswer]
    answers: Answers
    live_only: bool
    end_read: int = UNKNOWN
    end_replaced: bool = False

    @property
    def logs(self) -> Logs:
        """The logs of all replicas that answered, for questions about lineage."""
        return self.answers.logs((self.accused, *self.others), is_whole=not self.absent)

    @property
    def is_only_one(self) -> bool:
        """Whether the partition has no other replica than the accused."""
        return not self.others and not self.absent

    def confirmed(
        self, reason: str, kind: FindingKind | None = None, *, accused: int | None = None, sides: Sides | None = None
    ) -> Decision:
        """Return a decision that the claim is proven.

        Args:
            reason: one line for people.
            kind: what it is, if that is not what the claim says.
            accused: the broker that is wrong, if it is not the claim's; `NOBODY` without direction.
            sides: the brokers by what they show.
        """
        return Decision(
            Verdict.CONFIRMED,
            kind or self.claim.kind,
            reason,
            accused=self.claim.broker if accused is None else accused,
            sides=in_order(sides or {}),
        )

    def differs(self, sides: Sides, reason: str = "", kind: FindingKind | None = None) -> Decision:
        """Return a decision that the replicas differ, and that nothing says which side is wrong."""
        said = reason or "; ".join(f"{side.text}: {broker_list(on)}" for side, on in in_order(sides).items())
        return self.confirmed(said, kind, accused=NOBODY, sides=sides)

    def dismissed(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        """Return a decision that the claim is wrong, or that its proof is gone."""
        return Decision(Verdict.DISMISSED, self.claim.kind, reason, resolution=resolution)

    def not_held(self, reason: str, offset: int) -> Decision:
        """Return a decision for an accused that no longer holds the record, and so shows no outcome."""
        if self.accused.log_start_offset > offset:
            return self.dismissed(
                f"{reason}: it is below the log start {self.accused.log_start_offset}", Resolution.DELETED
            )
        return self.dismissed(reason, Resolution.COMPACTED)

    def was_shown(self, reason: str, kind: FindingKind, offset: int, sides: Sides) -> Decision:
        """Return a decision that recorded answers prove the claim, though the accused no longer holds the record.

        Compaction may have taken the record. Or a right log may have replaced the whole log faster than a reading
        noticed. So the decision says what was shown, and nothing about the current log.
        """
        decision = self.not_held(reason, offset)
        return replace(decision, kind=kind, accused=self.claim.broker, sides=in_order(sides), was_shown=True)

    def pending(self, reason: str) -> Decision:
        """Return a decision that nothing is proven yet, with the reason."""
        return Decision(Verdict.PENDING, self.claim.kind, reason)

    def unproven(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        """Return a decision that no answer proves the claim: pending while a replica is absent, else dismissed."""
        if self.absent:
            return self.pending(f"{reason}; not reached: {names(self.absent)} ({self.absent[0].error})")
        return self.dismissed(reason, resolution)

    def not_shown(
        self,
        offset: int,
        reason: str,
        resolution: Resolution = Resolution.HEALED,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Decision:
        """Return a decision for a claim whose offset no replica but the accused shows.

        It waits for replicas whose log reaches beyond the offset but that cannot show it yet: a broker that was
        restarted begins with the high watermark of its last checkpoint. Without such a replica the claim is unproven.
        """
        held_back = [a for a in self.others if shown_to(a, isolation) <= offset < a.log_end_offset]
        if held_back:
            return self.pending(f"{reason}; {names(held_back)} cannot show it yet")
        return self.unproven(reason, resolution)


def shown_to(answer: ReplicaAnswer, isolation: IsolationLevel) -> int:
    """Return the first offset that a replica does not show to its consumers of an isolation level."""
    is_committed = isolation is IsolationLevel.READ_COMMITTED
    return answer.last_stable_offset if is_committed else answer.high_watermark


def shows_deleted(other: ReplicaAnswer, offset: int, bound: int) -> bool:
    """Whether a replica shows its readers that the key has no value at an offset.

    Args:
        other: the answer of the replica.
        offset: where the accused shows a value.
        bound: the accused has seen everything below. If the newest record of the key is there or above, the answer is
            no.
    """
    if other.key is None or other.log_start_offset > offset:
        return False
    if other.key.newest_offset >= bound or other.key.live is not None:
        return False
    if other.key.visible is not None and other.key.visible.offset > offset:
        return True
    return other.key.complete or (offset in other.asked and offset not in other.committed)


def values_shown(case: Case) -> dict[Side, list[int]]:
    """Return the brokers by what they show of the claim's key, if they could be read past its offset.

    A replica may have been read only from a higher offset on, and show nothing there. It may still show an older value
    below, and gets a side of its own.
    """
    shown: dict[int, Side] = {}
    for answer in (case.accused, *case.others):
        if answer.key is None or answer.last_stable_offset <= case.claim.offset:
            continue
        live = answer.key.live
        if live is None and not answer.key.complete and answer.key.complete_from > case.claim.offset:
            continue
        shown[answer.broker] = value_shown(live)
        if live is None and not answer.key.complete and answer.key.visible is None:
            shown[answer.broker] = Side(Shows.NO_VALUE, answer.key.complete_from)
    return by_broker(shown)


def values_as_far_as_read(case: Case) -> dict[Side, list[int]] | None:
    """Return the brokers by what they show of the claim's key; None where they cannot be compared.

    A replica that has not come as far as the accused cannot contradict it, and is left out. At least one other must be
    left, all must have come equally far, and the whole key must be known of each.
    """
    accused = case.accused
    everyone = [accused, *(a for a in case.others if a.last_stable_offset >= accused.last_stable_offset)]
    if len(everyone) == 1 or len({end for a in everyone for end in (a.last_stable_offset, a.cleaned_below)}) > 1:
        return None
    if any(a.key is None or not a.key.complete or a.key.newest_offset >= a.last_stable_offset for a in everyone):
        return None
    return by_broker({answer.broker: value_shown(answer.live) for answer in everyone})


def names(answers: Sequence[ReplicaAnswer]) -> str:
    """Name the brokers that answered, for a sentence."""
    return broker_list([a.broker for a in answers])


def verb(subjects: Sequence[ReplicaAnswer | int], plural: str) -> str:
    """Return a verb in the form for its subjects: ``shows`` with one, ``show`` with several."""
    return plural if len(subjects) > 1 else f"{plural}s"


def broker_list(brokers: Sequence[int]) -> str:
    """Return brokers for a sentence: ``broker 1``, ``brokers 1 and 3``."""
    return ("broker " if len(brokers) == 1 else "brokers ") + " and ".join(str(b) for b in brokers)
