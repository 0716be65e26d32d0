"""A claim with the answers of its replicas (`ClaimCase`), and what is decided from them (`Decision`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parallax.evidence.atoms import NOWHERE, Place
from parallax.evidence.log import Logs
from parallax.findings.answers import Answers, ReplicaAnswer, value_shown
from parallax.findings.claim import Claim
from parallax.findings.proving import ProvingRecord
from parallax.kinds import KINDS, Extent
from parallax.model import NOBODY, UNKNOWN, FindingKind, IsolationLevel
from parallax.sides import Shows, Side, Sides, against, by_broker, in_order, standing


class ClaimState(StrEnum):
    """Whether a claim is confirmed (proven), dismissed (not true, or over), or pending (not decided)."""

    CONFIRMED = "confirmed"
    DISMISSED = "dismissed"
    PENDING = "pending"


class Resolution(StrEnum):
    """Why a claim that had been proven is dismissed now.

    Most values mean that it is over. `AGREED` and `SPREAD` mean that its finding stays open.
    """

    HEALED = "healed"
    """The accused shows what the others show, or what it showed is superseded."""
    UNPROVEN = "outcome_not_proven"
    """The difference is gone, but no end marker was seen that proves how the transaction ended."""
    AGREED = "agreed"
    """The replicas that differed show the same again. Nothing ever proved which side was right, so all may be wrong. It
    is not over: it stays reported.
    """
    DOUBTFUL = "doubtful"
    """What had proven it may have been truncated in an election. What all replicas show since proves neither that one
    is still wrong nor that all are right. It is not over: it stays reported.
    """
    BY_WORD = "repaired_by_word"
    """All replicas show the same again, after a replica was copied from one that a person says is right. Nothing proved
    that one right.
    """
    DIFFERS = "differs_otherwise"
    """What the accused showed is superseded on it.

    The replicas still differ about the key, which is another divergence.
    """
    COMPACTED = "evidence_compacted"
    """The accused no longer holds the record, or it hides the record and no other replica holds it. Only its list of
    aborted transactions may still show how it treats the record. It may still be wrong.
    """
    INCOMPARABLE = "nothing_to_compare"
    """The accused still shows the record, and no other replica holds anything that shows whether it is right."""
    DELETED = "evidence_deleted"
    """The record lies below the log start: retention or DeleteRecords took it, right or wrong."""
    SPREAD = "spread"
    """All replicas show what the accused shows, and it is wrong: nothing is left to compare with."""
    SUPERSEDED = "superseded"
    """All replicas were wrong, and all hold what was written since. That is a newer record, or a later log start."""
    EXPLAINED = "explained"
    """The claim is part of a finding on the outcome of a transaction, which was confirmed later."""
    PART = "part_of_incident"
    """The finding is still true, and an incident reports it as one of many (`parallax.findings.incident`)."""
    GONE = "object_gone"
    """The topic, the partition or the replica is gone."""


UNSETTLED = frozenset({Resolution.AGREED, Resolution.DOUBTFUL})
"""Resolutions that leave a finding open without a proof that any replica is wrong now."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a claim: a verdict with its reason.

    Attributes:
        verdict: confirmed, dismissed or pending.
        kind: the kind of the divergence. It may differ from the claim's kind. E.g. a replica that missed an end marker
            (``marker_missing``) may show a wrong outcome by now.
        reason: why, in one line for people.
        lone_witness: whether the proof rests on a transactional record that only one replica shows. That replica may
            show a wrong outcome, and the comparison may be about to raise a suspect about that. So the claim is
            confirmed only after a short wait.
        resolution: for a dismissed claim that had been confirmed: why the claim is over.
        was_shown: for a dismissed claim: whether what the views recorded proves the claim, although no replica shows
            the difference any more. The claim is then reported as a finding that is over.
        accused: the broker that is proven wrong; `NOBODY` if nothing proves which side is wrong.
        sides: the brokers on each side, by their answers or by what the views recorded; ``reason`` says whose answer
            was only recorded. If a replica is accused, the brokers on other sides are its witnesses.
        lost: the place of the last record that a truncated log has lost.
        lost_below: the offset below which a log has lost its head, as the claim says.
        in_part: for a claim that other findings explain: whether they explain only a part of it. Then the claim's
            finding is opened again once the other findings have ended, even if no replica shows the difference by then.
        lacks: offset of the key's value that another replica shows, while the accused shows none because of a
            transaction's outcome; -1 in any other difference.
        open_on: for a wrong outcome whose transaction the accused holds open by now: the brokers that hold it open
            past its end. ``sides`` then says who had ended it, and how.
        proven_by: the record or end marker that proves a confirmed claim which accuses a replica; None if no single one
            does.
        proof_truncated: for a claim that accuses nobody: whether the record that proves it is not part of the current
            log, because another leader has written there.
    """

    verdict: ClaimState
    kind: FindingKind
    reason: str
    lone_witness: bool = False
    resolution: Resolution = Resolution.HEALED
    accused: int = NOBODY
    sides: Mapping[Side, tuple[int, ...]] = field(default_factory=dict)
    was_shown: bool = False
    lost: Place = NOWHERE
    lost_below: int = UNKNOWN
    proven_by: ProvingRecord | None = None
    proof_truncated: bool = False
    in_part: bool = False
    lacks: int = UNKNOWN
    open_on: tuple[int, ...] = ()

    @property
    def witnesses(self) -> tuple[int, ...]:
        """The brokers that show, or were recorded to show, something else than the accused.

        They are in the order of their ids.
        """
        return tuple(sorted(frozenset().union(*against(self.sides, self.accused))))

    def is_shared_by_leader(self, accused: int, answers: Answers) -> bool:
        """Whether the leader shows its consumers what the accused shows.

        - It does if its replica is on the accused's side, or on any side if nobody is accused. A replica is on no side
          while its last stable offset hides the record.
        - If the accused holds the transaction open by now, the leader also does if it holds it open too.
        - If the accused shows a deleted value of a key, the leader also does if it shows the same value.
        - If the accused's log was truncated or lost its head, the leader also does if it lacks some of that as well.

        Args:
            accused: the broker that the finding accuses; `NOBODY` without direction.
            answers: the replicas' answers to the probe.
        """
        alike = [*self.sides.values(), self.open_on]
        if any(answers.leader in side and accused in (NOBODY, *side) for side in alike):
            return True
        match KINDS[self.kind].extent:
            case Extent.VALUE:
                return answers.leader_shows_value_of(accused)
            case Extent.FROM:
                return answers.leader_lacks_it(accused, self.lost)
            case Extent.BELOW:
                return answers.leader_begins_as_late(self.lost_below)
            case Extent.RECORD | Extent.STOPPED:
                return False

    def may_be_of(self, broker: int) -> bool:
        """Whether a broker's replica is the accused or on a side.

        True for every broker while the claim is not confirmed.
        """
        named = {self.accused, *standing(self.sides)}
        return broker in named or self.verdict is not ClaimState.CONFIRMED

    def is_explained_by(self, brokers: Collection[int]) -> bool:
        """Whether nothing of the difference is left if the given brokers are taken out of the sides.

        That is so if all brokers that are left show the same, or if the claim accuses one of the given brokers. True as
        well if the claim is not confirmed.

        Args:
            brokers: ids of the brokers to take out, e.g. those that another finding accuses.
        """
        if self.verdict is not ClaimState.CONFIRMED or self.accused in brokers:
            return True
        rest = [side for side in self.sides.values() if set(side) - set(brokers)]
        return len(rest) < 2

    @property
    def undirected(self) -> Decision:
        """The same decision, if nothing proves which side is wrong: replicas show a different outcome or value."""
        return replace(self, kind=FindingKind.VISIBILITY_MISMATCH, accused=NOBODY, proven_by=None)

    @property
    def has_spread(self) -> bool:
        """Whether the claim is proven and now true of every replica, so that no right replica is left."""
        return self.verdict is ClaimState.DISMISSED and self.resolution is Resolution.SPREAD

    @property
    def is_unsettled(self) -> bool:
        """Whether nothing is left of a proof, and nothing proves that all replicas are right."""
        return self.verdict is ClaimState.DISMISSED and self.resolution in UNSETTLED


@dataclass(frozen=True, slots=True)
class ClaimCase:
    """One claim with a probe's answers, sorted into the accused's, other replicas' and absent replicas' answers.

    Attributes:
        claim: the claim.
        accused: the answer of the claim's accused. If the claim accuses nobody, the answer of the replica that was
            asked last.
        others: the answers of the other replicas.
        absent: the answers that hold only an error, of the replicas that did not answer.
        answers: everything that the probe was answered.
        live_only: whether only what the accused shows now counts, as for a finding that is checked again. If False,
            what the views recorded of the accused may prove the claim as well.
        end_read: offset of the end marker that was read behind the record, if the marker is ignored because it may not
            have ended the transaction; else -1.
        end_replaced: whether the claim's end marker is not part of the current log. Then it proves nothing any more.
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
        """The logs of all replicas that answered; they say whether a record is of the current log."""
        return self.answers.logs((self.accused, *self.others), is_whole=not self.absent)

    @property
    def is_only_one(self) -> bool:
        """Whether the accused is the partition's only replica."""
        return not self.others and not self.absent

    def confirmed(
        self, reason: str, kind: FindingKind | None = None, *, accused: int | None = None, sides: Sides | None = None
    ) -> Decision:
        """Return the decision that the claim is proven.

        Args:
            reason: why, in one line for people.
            kind: the kind of the divergence; the claim's own if not given.
            accused: the broker that is wrong; the claim's own if not given, `NOBODY` without direction.
            sides: the brokers on each side.
        """
        return Decision(
            ClaimState.CONFIRMED,
            kind or self.claim.kind,
            reason,
            accused=self.claim.broker if accused is None else accused,
            sides=in_order(sides or {}),
        )

    def differs(self, sides: Sides, reason: str = "", kind: FindingKind | None = None) -> Decision:
        """Return the decision that the replicas differ, while nothing proves which side is wrong.

        Args:
            sides: the brokers on each side.
            reason: why, in one line for people; it names the sides if not given.
            kind: the kind of the divergence; the claim's own if not given.
        """
        said = reason or "; ".join(f"{side.text}: {broker_list(on)}" for side, on in in_order(sides).items())
        return self.confirmed(said, kind, accused=NOBODY, sides=sides)

    def dismissed(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        """Return the decision that the claim is not true, or that its proof is gone.

        Args:
            reason: why, in one line for people.
            resolution: why the claim is over, if it had been proven.
        """
        return Decision(ClaimState.DISMISSED, self.claim.kind, reason, resolution=resolution)

    def not_held(self, reason: str, offset: int) -> Decision:
        """Dismiss the claim because the accused no longer shows its record, and so shows no outcome of that record.

        Args:
            reason: why, in one line for people.
            offset: the record's offset. If it lies below the accused's log start, the record was deleted; else it was
                compacted.
        """
        if self.accused.log_start_offset > offset:
            return self.dismissed(
                f"{reason}: it is below the log start {self.accused.log_start_offset}", Resolution.DELETED
            )
        return self.dismissed(reason, Resolution.COMPACTED)

    def was_shown(self, reason: str, kind: FindingKind, offset: int, sides: Sides) -> Decision:
        """Dismiss a claim that recorded answers prove, because the accused no longer shows the record.

        Compaction may have taken the record. Or a right log may have replaced the whole log faster than a reader
        noticed. So the decision says what was shown, and nothing about the current log. Its finding is over when it is
        first reported.

        Args:
            reason: why, in one line for people.
            kind: the kind of the divergence.
            offset: offset of the record that the accused no longer holds.
            sides: the brokers on each side, as the views recorded them.
        """
        decision = self.not_held(reason, offset)
        return replace(decision, kind=kind, accused=self.claim.broker, sides=in_order(sides), was_shown=True)

    def pending(self, reason: str) -> Decision:
        """Return the decision that nothing is proven yet, so that the claim is probed again.

        Args:
            reason: why, in one line for people.
        """
        return Decision(ClaimState.PENDING, self.claim.kind, reason)

    def unproven(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        """Return the decision on a claim that no answer proves.

        If a replica did not answer, it is that the claim is pending, since that replica may prove it. Else the claim is
        dismissed.

        Args:
            reason: why no answer proves it, in one line for people.
            resolution: why the divergence is over, if an earlier probe had proven the claim.
        """
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
        """Return the decision on a claim if no replica except the accused shows anything at an offset.

        The claim is pending while the log of another replica reaches beyond the offset, but does not show the offset to
        consumers yet. That happens after a restart: the broker begins with the high watermark of its last checkpoint.
        Otherwise no answer proves the claim, and `unproven` decides.

        Args:
            offset: the offset at which no other replica shows anything.
            reason: why, in one line for people.
            resolution: why the claim is over, if it had been proven.
            isolation: the isolation level at which a replica must show the offset.
        """
        held_back = [a for a in self.others if shown_to(a, isolation) <= offset < a.log_end_offset]
        if held_back:
            return self.pending(f"{reason}; {names(held_back)} cannot show it yet")
        return self.unproven(reason, resolution)


def shown_to(answer: ReplicaAnswer, isolation: IsolationLevel) -> int:
    """Return the offset below which a replica shows its log to consumers of an isolation level.

    It is the last stable offset in read_committed, else the high watermark.
    """
    is_committed = isolation is IsolationLevel.READ_COMMITTED
    return answer.last_stable_offset if is_committed else answer.high_watermark


def shows_deleted(other: ReplicaAnswer, offset: int, bound: int) -> bool:
    """Whether a replica shows its consumers that the key is deleted, although the accused shows a value of it.

    Args:
        other: the replica's answer.
        offset: the offset of the value that the accused shows.
        bound: the offset below which the accused has seen everything. If the replica's newest record of the key lies
            there or above, the result is False, because the accused may still get to that record.
    """
    if other.key is None or other.log_start_offset > offset:
        return False
    if other.key.newest_offset >= bound or other.key.live is not None:
        return False
    if other.key.visible is not None and other.key.visible.offset > offset:
        return True
    return other.key.complete or (offset in other.asked and offset not in other.committed)


def values_shown(case: ClaimCase) -> dict[Side, list[int]]:
    """Return by side the brokers whose replicas show the same value of the claim's key.

    A replica is left out if its last stable offset is not past the claim's offset, but for where none is past it. There
    all hold that offset open or have lost it, and they differ below.

    A probe may read a replica's records of the key only from some offset X on. If these show no value:

    - If X lies above the claim's offset, the replica is left out. A value between the two may be unread.
    - If there is no such record that is not aborted, the replica is on the side "no value, read from offset X on". It
      is another side than "no value", because the replica may show a value below X.
    """
    shown: dict[int, Side] = {}
    known = [(answer, answer.key) for answer in (case.accused, *case.others) if answer.key is not None]
    past = [(answer, key) for answer, key in known if answer.last_stable_offset > case.claim.offset]
    for answer, key in past or known:
        live = key.live
        if live is None and not key.complete and key.complete_from > case.claim.offset:
            continue
        shown[answer.broker] = value_shown(live)
        if live is None and not key.complete and key.visible is None:
            shown[answer.broker] = Side(Shows.NO_VALUE, key.complete_from)
    return by_broker(shown)


def values_as_far_as_read(case: ClaimCase) -> dict[Side, list[int]] | None:
    """Return by side the brokers whose replicas show the same value of the claim's key, if all have one LSO.

    A replica whose LSO is below the accused's is left out. It cannot contradict the accused. The result is None if only
    the accused is left, or if the LSOs of the rest differ or have moved during the probe. It is None as well if a
    record of the key is unknown, or not below the LSO.
    """
    accused = case.accused
    everyone = [accused, *(a for a in case.others if a.last_stable_offset >= accused.last_stable_offset)]
    if len(everyone) == 1 or len({end for a in everyone for end in (a.last_stable_offset, a.cleaned_below)}) > 1:
        return None
    if any(a.key is None or not a.key.complete or a.key.newest_offset >= a.last_stable_offset for a in everyone):
        return None
    return by_broker({answer.broker: value_shown(answer.live) for answer in everyone})


def names(answers: Sequence[ReplicaAnswer]) -> str:
    """Return the brokers of some answers as text for a sentence: ``broker 1``, ``brokers 1 and 3``."""
    return broker_list([a.broker for a in answers])


def verb(subjects: Sequence[ReplicaAnswer | int], plural: str) -> str:
    """Return a verb in the form that fits its subjects: ``shows`` for one, ``show`` for several.

    Args:
        subjects: the brokers, or their answers.
        plural: the verb for several, e.g. ``show``.
    """
    return plural if len(subjects) > 1 else f"{plural}s"


def broker_list(brokers: Sequence[int]) -> str:
    """Return brokers as text for a sentence: ``broker 1``, ``brokers 1 and 3``."""
    return ("broker " if len(brokers) == 1 else "brokers ") + " and ".join(str(b) for b in brokers)
