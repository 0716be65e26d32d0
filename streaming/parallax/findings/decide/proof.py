"""Finds the record or end marker that proves a confirmed claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from parallax.evidence.log import Belongs
from parallax.findings.answers import MarkerShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase, ClaimState, Decision
from parallax.findings.decide.endings import recorded_end
from parallax.findings.decide.lineage import end_shown, rests_on
from parallax.findings.decide.unproven_end import is_end_proven
from parallax.findings.proving import Proving, ProvingRecord
from parallax.kinds import KINDS, Proves
from parallax.model import NOBODY, UNKNOWN


def with_proof(case: ClaimCase, decision: Decision) -> Decision:
    """Return a decision whose reason names what proves it, and which holds that as data.

    It is returned unchanged if it accuses nobody. The same goes where no single record or end marker proves it: then
    its sides say what does.

    Args:
        case: the claim with its answers.
        decision: what its family's judge has decided.
    """
    if decision.verdict is not ClaimState.CONFIRMED or decision.accused == NOBODY:
        return decision
    proof = _PROOFS[KINDS[decision.kind].proof](case)
    if proof is None:
        return decision
    return replace(decision, reason=f"{decision.reason}; {proof.clause}", proven_by=proof)


def tombstone(case: ClaimCase) -> ProvingRecord | None:
    """Return the tombstone that proves the accused's value old: surely committed, newer, and of the current log.

    If the claim is about a tombstone, it is that one. Otherwise it is the oldest one that a replica shows. A tombstone
    at the claim's own offset comes first.
    """
    claim, live = case.claim, case.accused.live
    if live is None or rests_on(case) is not Belongs.YES:
        return None
    everyone = (case.accused, *case.others)
    if claim.proves_deletion:
        holding = [a for a in everyone if any(r.offset == claim.offset for r in _tombstones(a))]
        return _of_the_claim(claim, holding)
    shown = [(a, record) for a in everyone for record in _tombstones(a) if record.offset > live.offset]
    found = [(a, r) for a, r in shown if is_proof(case, r)]
    if not found:
        return None
    first = next((r for _, r in found if r.offset == claim.offset), min((r for _, r in found), key=_offset))
    holding = [a for a, r in found if r.offset == first.offset]
    if first.offset == claim.offset:
        return _of_the_claim(claim, holding, first.leader_epoch)
    return ProvingRecord(Proving.TOMBSTONE, *first.place, shown_on=_brokers(holding))


def is_proof(case: ClaimCase, shown: RecordShown) -> bool:
    """Whether a tombstone that a replica shows proves older values wrong: surely committed, and of the current log."""
    is_claimed = shown.offset == case.claim.offset and case.claim.is_surely_committed
    return (shown.is_plain or is_claimed) and case.logs.counts(shown.place, case.accused.broker)


def _tombstones(answer: ReplicaAnswer) -> Sequence[RecordShown]:
    shown = None if answer.key is None else answer.key.visible
    return () if shown is None or shown.value_size >= 0 else (shown,)


def _of_the_claim(claim: Claim, holding: Sequence[ReplicaAnswer], epoch: int = UNKNOWN) -> ProvingRecord:
    recorded = claim.recorded
    return ProvingRecord(
        Proving.TOMBSTONE,
        claim.offset,
        max(recorded.leader_epoch, epoch),
        UNKNOWN if claim.producer_id == UNKNOWN else claim.marker_offset,
        tuple(sorted(recorded.record_shown_by)),
        recorded.record_read_ms,
        _brokers(holding),
    )


def _end_marker(case: ClaimCase) -> ProvingRecord | None:
    """Return the end marker that the accused has missed; None if it is not known, or not of the current log."""
    claim = case.claim
    if claim.marker_offset == UNKNOWN or rests_on(case) is not Belongs.YES or not is_end_proven(case):
        return None
    shown = {a.broker: end for a in case.others if (end := end_shown(claim, a)) is not None}
    end = next(iter(shown.values()), None)
    read = [b for b in claim.recorded.markers if b != claim.broker and _is_at(claim, b)]
    if end is None and not read:
        return None
    return _marker(claim, end, recorded_end(claim), read, shown)


def _own_end_marker(case: ClaimCase) -> ProvingRecord | None:
    """Return the end marker that the accused shows, or was read to show, and contradicts."""
    claim, accused = case.claim, case.accused
    end = end_shown(claim, accused)
    read = [accused.broker] if accused.broker in claim.recorded.markers else []
    if end is None and not read:
        return None
    marker = claim.recorded.markers.get(accused.broker)
    return _marker(claim, end, marker, read, {} if end is None else {accused.broker: end})


def _marker(
    claim: Claim, end: MarkerShown | None, said: str | None, read: Sequence[int], shown: Mapping[int, MarkerShown]
) -> ProvingRecord:
    what = _ENDS.get(said or "" if end is None else end.type, Proving.END)
    epoch = claim.recorded.leader_epoch if end is None else max(end.leader_epoch, claim.recorded.leader_epoch)
    return ProvingRecord(what, claim.marker_offset, epoch, UNKNOWN, tuple(sorted(read)), UNKNOWN, tuple(sorted(shown)))


_ENDS = {
    "commit": Proving.COMMIT,
    "committed": Proving.COMMIT,
    "abort": Proving.ABORT,
    "aborted": Proving.ABORT,
}


def _is_at(claim: Claim, broker: int) -> bool:
    """Whether the end marker that was read of a replica is the claim's."""
    end = claim.end_on(broker)
    return end is None or end.offset == claim.marker_offset


def _offset(record: RecordShown) -> int:
    return record.offset


def _brokers(answers: Sequence[ReplicaAnswer]) -> tuple[int, ...]:
    return tuple(sorted(answer.broker for answer in answers))


def _nothing(_: ClaimCase) -> None:
    """No single record proves it: what the sides show does, or leader epochs, or where the logs begin."""


_PROOFS: Mapping[Proves, Callable[[ClaimCase], ProvingRecord | None]] = {
    Proves.TOMBSTONE: tombstone,
    Proves.END_MARKER: _end_marker,
    Proves.OWN_END_MARKER: _own_end_marker,
    Proves.RECORD: _nothing,
    Proves.NEWER_EPOCH: _nothing,
    Proves.LOWER_START: _nothing,
    Proves.NOTHING: _nothing,
}


__all__ = ["is_proof", "tombstone", "with_proof"]
