"""A claim with the answers to it, and what a judge makes of them: verdict, reason, and why a finding has ended."""

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
    """Why a claim that held does not hold any more."""

    HEALED = "healed"
    """The accused shows what the others show, or what it showed is superseded."""
    UNPROVEN = "outcome_not_proven"
    """The difference is gone by the outcome of a transaction that no end marker was seen to prove."""
    AGREED = "agreed"
    """All show the same again; which side was right was never proven, so that all may be wrong: it stays open."""
    DIFFERS = "differs_otherwise"
    """What the accused showed is superseded there, and the replicas differ in the key still: another divergence."""
    COMPACTED = "evidence_compacted"
    """The accused does not hold the record any more, so nothing shows what it makes of it; that has not changed."""
    INCOMPARABLE = "nothing_to_compare"
    """The accused goes on showing the record, and no other holds what would show whether it is right."""
    DELETED = "evidence_deleted"
    """The record lies below the log start: retention or DeleteRecords took it, right or wrong."""
    SPREAD = "spread"
    """All replicas show what the accused shows, and it is wrong: nothing is left to compare with."""
    SUPERSEDED = "superseded"
    """All replicas were wrong, and all hold what was written since: a newer record of the key, or a later log start."""
    EXPLAINED = "explained"
    """It is part of a finding on the outcome of a transaction, which was confirmed later."""
    PART = "part_of_incident"
    """It stands, as one of many that are reported together (`parallax.findings.incident`)."""
    GONE = "object_gone"
    """The topic, the partition or the replica is gone."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason.

    Attributes:
        kind: what it is; may say more than the claim did (``marker_missing`` that has turned into a wrong outcome).
        reason: one line for people.
        lone_witness: the difference is proven, but it hangs on a transactional record that one replica alone shows:
            that replica may have its outcome wrong, and the comparison may be about to say so. Worth a moment's wait.
        resolution: where it is dismissed and had been confirmed before: why it does not hold any more.
        was_shown: where it is dismissed: what was recorded proves it, and nobody shows it any more. It is reported as
            one that has ended, and accuses nobody of what is shown now.
        accused: who is proven to be wrong; `NOBODY` where nothing says which side is.
        sides: who shows what, by what they show: those that answered, or were recorded where it says so. Of a
            difference with a direction, those that show otherwise than the accused are its witnesses.
        lost_epoch: the leader epoch of what a truncated log has lost.
        in_part: where findings explain it: what was reported of the replicas goes beyond what they say, so that it is
            open again once they have ended, though nothing of it is to be seen.
        lacks: offset of the value that the accused lacks by the outcome of a transaction, and shows none of the key; -1
            where it is another difference.
        proof_truncated: where it accuses nobody: another leader has written where the record lay that the claim rests
            on, so that it is none of the log that stands.
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
        """The brokers that show, or were recorded to show, otherwise than the accused."""
        return tuple(sorted(frozenset().union(*against(self.sides, self.accused))))

    def is_shared_by_leader(self, accused: int, answers: Answers) -> bool:
        """Whether the leader, too, shows its consumers what the accused shows; of `NOBODY`, what one of the sides does.

        What was truncated is missing on the leader as well that the accused follows. A leader that is frozen stands on
        no side, and shows its consumers what it shows.
        """
        if self.kind is FindingKind.DELETED_RECORD_RESURRECTED and answers.leader_shows_value_of(accused):
            return True
        if self.kind is FindingKind.LOG_TRUNCATED and answers.leader_lacks_it(accused, self.lost_epoch):
            return True
        if self.kind is FindingKind.LOG_HEAD_MISSING and answers.leader_begins_as_late(accused):
            return True
        return any(answers.leader in side and accused in (NOBODY, *side) for side in self.sides.values())

    def may_be_of(self, broker: int) -> bool:
        """Whether what a replica does can be why the others differ: it is named, or nobody is named yet."""
        named = {self.accused, *standing(self.sides)}
        return broker in named or self.verdict is not Verdict.CONFIRMED

    def is_explained_by(self, brokers: Collection[int]) -> bool:
        """Whether what these replicas do is why the others differ: nothing differs that they have no part in."""
        if self.verdict is not Verdict.CONFIRMED or self.accused in brokers:
            return True
        rest = [side for side in self.sides.values() if set(side) - set(brokers)]
        return len(rest) < 2

    @property
    def has_spread(self) -> bool:
        """It is proven, and all replicas share it: there is no other side left."""
        return self.verdict is Verdict.DISMISSED and self.resolution is Resolution.SPREAD

    @property
    def is_unsettled(self) -> bool:
        """What a finding is about is not to be seen any more, and nothing has proven that what is shown is right."""
        return self.verdict is Verdict.DISMISSED and self.resolution is Resolution.AGREED


@dataclass(frozen=True, slots=True)
class Case:
    """A claim with the answers, sorted by who gave them.

    Attributes:
        accused: the answer of the claim's pivot; where the claim accuses nobody, the one that was asked last.
        end_read: offset of the end marker that was read, where the claim goes without it since it need not be the end.
        end_replaced: that one is none of the log that stands: nothing that was proven by it is.
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
        """The logs of all that answered."""
        return self.answers.logs((self.accused, *self.others), is_whole=not self.absent)

    @property
    def is_only_one(self) -> bool:
        """Whether the partition has no other replica than the accused."""
        return not self.others and not self.absent

    def confirmed(
        self, reason: str, kind: FindingKind | None = None, *, accused: int | None = None, sides: Sides | None = None
    ) -> Decision:
        """It is proven: as what the claim says, or as another kind; of whom the claim accuses, or of another."""
        return Decision(
            Verdict.CONFIRMED,
            kind or self.claim.kind,
            reason,
            accused=self.claim.broker if accused is None else accused,
            sides=in_order(sides or {}),
        )

    def differs(self, sides: Sides, reason: str = "", kind: FindingKind | None = None) -> Decision:
        """Judge that the replicas differ, and that nothing says which side is wrong."""
        said = reason or "; ".join(f"{side.text}: {broker_list(on)}" for side, on in in_order(sides).items())
        return self.confirmed(said, kind, accused=NOBODY, sides=sides)

    def dismissed(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        """The contrary is proven, or what it was proven by is gone."""
        return Decision(Verdict.DISMISSED, self.claim.kind, reason, resolution=resolution)

    def not_held(self, reason: str, offset: int) -> Decision:
        """The accused does not hold the record any more, so there is nothing left to show what it makes of it."""
        if self.accused.log_start_offset > offset:
            return self.dismissed(
                f"{reason}: it is below the log start {self.accused.log_start_offset}", Resolution.DELETED
            )
        return self.dismissed(reason, Resolution.COMPACTED)

    def was_shown(self, reason: str, kind: FindingKind, offset: int, sides: Sides) -> Decision:
        """Judge that what was recorded proves it, and that the accused does not hold the record any more.

        Compaction may have taken it, or the whole log may have been replaced since by one that is right, faster than
        any reading noticed. So it says what was shown, and nothing of the log as it is now.
        """
        decision = self.not_held(reason, offset)
        return replace(decision, kind=kind, accused=self.claim.broker, sides=in_order(sides), was_shown=True)

    def pending(self, reason: str) -> Decision:
        """Neither is proven yet."""
        return Decision(Verdict.PENDING, self.claim.kind, reason)

    def unproven(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        """Nobody who answered proves it: wait for those who did not answer, else it is no divergence."""
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
        """No other shows the offset: wait for those whose log reaches beyond it and that do not show it yet.

        A broker that was started again begins with the high watermark of its last checkpoint.
        """
        held_back = [a for a in self.others if shown_to(a, isolation) <= offset < a.log_end_offset]
        if held_back:
            return self.pending(f"{reason}; {names(held_back)} cannot show it yet")
        return self.unproven(reason, resolution)


def shown_to(answer: ReplicaAnswer, isolation: IsolationLevel) -> int:
    """The first offset that a replica does not show to its consumers."""
    is_committed = isolation is IsolationLevel.READ_COMMITTED
    return answer.last_stable_offset if is_committed else answer.high_watermark


def shows_deleted(other: ReplicaAnswer, offset: int, bound: int) -> bool:
    """Whether a replica shows its readers that the key has no value, by what the accused must have seen as well."""
    if other.key is None or other.log_start_offset > offset:
        return False
    if other.key.newest_offset >= bound or other.key.live is not None:
        return False
    if other.key.visible is not None and other.key.visible.offset > offset:
        return True
    return other.key.complete or (offset in other.asked and offset not in other.committed)


def values_shown(case: Case) -> dict[Side, list[int]]:
    """Return what each replica that could be read as far as the claim's offset shows of the key.

    One that was read only from there on may show an older value than that: it stands on a side of its own.
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
    """By what they show of the key, the accused and all that have come as far; None unless another has, and all say it.

    Who is held back below the accused shows nothing there that could be held against what the others show. One that
    has come further may show what these do not yet.
    """
    accused = case.accused
    everyone = [accused, *(a for a in case.others if a.last_stable_offset >= accused.last_stable_offset)]
    if len(everyone) == 1 or len({end for a in everyone for end in (a.last_stable_offset, a.cleaned_below)}) > 1:
        return None
    if any(a.key is None or not a.key.complete or a.key.newest_offset >= a.last_stable_offset for a in everyone):
        return None
    return by_broker({answer.broker: value_shown(answer.live) for answer in everyone})


def names(answers: Sequence[ReplicaAnswer]) -> str:
    """The brokers that answered, for a sentence."""
    return broker_list([a.broker for a in answers])


def verb(subjects: Sequence[ReplicaAnswer | int], plural: str) -> str:
    """A verb as it goes with its subjects: ``shows`` with one, ``show`` with several."""
    return plural if len(subjects) > 1 else f"{plural}s"


def broker_list(brokers: Sequence[int]) -> str:
    """Brokers for a sentence: ``broker 1``, ``brokers 1 and 3``."""
    return ("broker " if len(brokers) == 1 else "brokers ") + " and ".join(str(b) for b in brokers)
