"""Decides on all records of a wrongly ended transaction: a finding ends only when none of them is shown wrongly.

One lost end marker changes the outcome of each record of its transaction. A finding names one of these records. That
record may be overwritten and compacted away while another still misleads consumers.

- If the accused no longer holds the named record, or hides it and no other replica holds it, the prober asks about the
  transaction's other recorded records.
- A finding about a wrong index stays open while the accused lacks a value that its cleaner may have removed.

These are pure functions; `parallax.findings.probe` does the asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from parallax.counts import agreed, counted
from parallax.findings.answers import ABORTED, Answers, ReplicaAnswer, holds_tombstone
from parallax.findings.claim import Claim
from parallax.findings.claim import RecordedByViews as Shown
from parallax.findings.decide import ClaimState, Decision, Resolution, decide
from parallax.findings.decide.lineage import end_shown
from parallax.findings.decide.own_end import needs_the_keys
from parallax.findings.requests import Transaction, TransactionRecords
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule

COVERED = 256
"""At most so many other records of one transaction are asked about in one probe."""
COVERED_TOGETHER = 1024
"""At most so many other records are asked about in one probe, over all of its claims."""


@dataclass(frozen=True, slots=True)
class JudgedRecord:
    """One record of a transaction: the claim about this record, its answers, and the decision on it."""

    claim: Claim
    decision: Decision
    answers: Answers


def remembered(claim: Claim, decision: Decision, answers: Answers) -> Shown:
    """Return what a claim has recorded of the replicas, with what must be known of them once the cleaner has passed.

    That is which value the accused lacks, and the end markers that other replicas show now.

    The markers are kept because the cleaner may remove them. A marker of another leader epoch is left out: it belongs
    to a log that has replaced the one that was read. If the accused contradicts its own end marker, the marker's leader
    epoch is kept, to find out later whether the marker was truncated.

    Args:
        claim: the claim, with what was recorded.
        decision: what the claim's last probe has shown.
        answers: the replicas' answers to that probe.
    """
    found = {a.broker: end for a in answers.replicas.values() if (end := end_shown(claim, a)) is not None}
    shown = {broker: end.type for broker, end in found.items() if broker != claim.pivot}
    proving = found if claim.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER else shown
    epoch = max([claim.recorded.leader_epoch, *(found[broker].leader_epoch for broker in proving)])
    was_deletion = claim.recorded.was_deletion or holds_tombstone(claim.first_offset, answers.replicas.values())
    markers = {**claim.recorded.markers, **shown}
    lacks = claim.recorded.lacks if decision.lacks == UNKNOWN else decision.lacks
    return replace(claim.recorded, markers=markers, leader_epoch=epoch, was_deletion=was_deletion, lacks=lacks)


def about_the_rest(claims: Sequence[Claim], shown: Mapping[str, Mapping[int, ReplicaAnswer]]) -> dict[str, Transaction]:
    """Return, by suspect id, the transactions of which a probe must read more records than the claim's own.

    The accused's answer about the claim's own record is enough while the accused holds that record. It is also enough
    while the accused holds the transaction open, because all records of a transaction have one outcome. It is not
    enough if the accused hides the record and nobody else holds it. It is not enough either if the accused had a wrong
    index of aborted transactions: the cleaner may have removed records by that index. If the end marker is unknown,
    nothing more is asked: nobody can say which records belong to the transaction.

    Args:
        claims: the claims of one probe.
        shown: by suspect id of the claim, the replicas' answers by broker.
    """
    wanted = [c for c in claims if _needs_the_rest(c, shown.get(c.suspect_id, {}))]
    limit = min(COVERED, COVERED_TOGETHER // max(1, len(wanted)))
    return {
        c.suspect_id: Transaction(c.producer_id, c.transaction_start_offset, c.marker_offset, limit) for c in wanted
    }


def _needs_the_rest(claim: Claim, shown: Mapping[int, ReplicaAnswer]) -> bool:
    is_known = 0 <= claim.transaction_start_offset < claim.marker_offset and claim.producer_id >= 0
    accused = shown.get(claim.pivot)
    if not is_known or accused is None or accused.error is not None:
        return False
    if claim.kind not in TRANSACTION_KINDS:
        # Without direction, who showed which outcome of another record does not belong to this one.
        is_of_outcomes = claim.rule is Rule.OUTCOME and claim.kind is FindingKind.VISIBILITY_MISMATCH
        return is_of_outcomes and claim.confirmed_at_ms > 0 and claim.first_offset not in accused.committed
    is_open = accused.open_transactions is None or accused.holds_open(
        claim.producer_id, claim.transaction_start_offset, claim.marker_offset
    )
    is_over = claim.spread or claim.first_offset not in accused.committed or needs_the_keys(claim, accused)
    return not is_open and (is_over or hides_alone(claim, shown))


def hides_alone(claim: Claim, shown: Mapping[int, ReplicaAnswer]) -> bool:
    """Whether the accused alone holds a claim's record, and shows it as aborted: whom that misleads the key shows.

    Args:
        claim: the claim on the record.
        shown: the replicas' answers by broker; that of the accused is among them.
    """
    record = shown[claim.pivot].committed.get(claim.first_offset)
    others = (answer for broker, answer in shown.items() if broker != claim.pivot)
    return record is not None and record.outcome == ABORTED and all(a.lacks(claim.first_offset) for a in others)


def covered(claim: Claim, recorded: TransactionRecords) -> list[Claim]:
    """Return a claim for each record of a claim's transaction, except for the record that the claim itself is about.

    Their suspect ids are ``<suspect id>:<offset>``. If a finding makes the claim and names no key, there is one for the
    claim's own record as well, because that record's key has yet to be read.

    Args:
        claim: the claim on one record of the transaction.
        recorded: the transaction's records, as the views have them.
    """
    return [
        replace(
            claim,
            suspect_id=f"{claim.suspect_id}:{offset}",
            offset=offset,
            key_hash_hi=high,
            key_hash_lo=low,
            recorded=claim.recorded if offset == claim.offset else claim.recorded.of_another(),
        )
        for offset, (high, low) in recorded.records
        if offset != claim.offset or (claim.key is None and claim.confirmed_at_ms)
    ]


def whole(claim: Claim, answers: Answers, *, live_only: bool = False) -> JudgedRecord:
    """Return the gravest decision on any record of a claim's transaction.

    Args:
        claim: says that a replica shows a record of the transaction wrongly, or holds the transaction open.
        answers: the replicas' answers to the probe; ``rest`` has those about the transaction's other records.
        live_only: whether only what the accused shows now counts; see `parallax.findings.decide.decide`.

    Returns:
        The gravest decision, with the claim about its record and the answers. From the gravest on: a record is still
        wrong; all replicas are wrong; a record cannot be judged yet; the finding on a record is over. The answers about
        the other records are kept in ``rest``.
    """
    first = JudgedRecord(claim, decide(claim, answers, live_only=live_only), answers)
    is_gone = first.decision.resolution is Resolution.GONE
    if first.decision.verdict is not ClaimState.DISMISSED or (is_gone and answers.pivot == NOBODY):
        return first
    others = [(replace(c, suspect_id=claim.suspect_id, freed=claim.freed), a) for c, a in answers.rest]
    rest = [JudgedRecord(c, decide(c, a, live_only=live_only), a) for c, a in others]
    if is_gone:
        # It does not end with its replica if all that are left are wrong in the same way, or may be.
        rest = [j for j in rest if j.decision.has_spread or j.decision.verdict is ClaimState.PENDING]
    if claim.broker == NOBODY:
        rest = [j for j in rest if not (j.decision.is_unsettled and _was_written_since(j))]
    gravest = min([first, *rest], key=lambda j: _rank(j.decision))
    decision = gravest.decision
    if gravest is not first:
        beside = [(first.claim, replace(answers, rest=())), *(one for one in others if one[0] is not gravest.claim)]
        gravest = replace(gravest, answers=replace(gravest.answers, rest=tuple(beside)))
    # An index that is right again does not show what the cleaner had removed because of it.
    is_of_one = decision.resolution in _TRACES or claim.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER
    is_of_one |= decision.resolution is Resolution.HEALED and _is_replaced_without_end(gravest)
    if (
        answers.rest_unknown
        and decision.verdict is ClaimState.DISMISSED
        and is_of_one
        and not _is_below(claim, answers)
    ):
        reason = f"{decision.reason}; {answers.rest_unknown}"
        return replace(gravest, decision=replace(decision, verdict=ClaimState.PENDING, reason=reason))
    return gravest


def _was_written_since(judged: JudgedRecord) -> bool:
    """Whether every replica shows a record of the key that another producer wrote behind the transaction's."""
    claim = judged.claim
    keys = [a.key for a in judged.answers.replicas.values() if a.error is None]
    shown = [key.visible for key in keys if key is not None and key.visible is not None]
    newer = [s for s in shown if s.offset > claim.first_offset and s.producer_id != claim.producer_id]
    return len(newer) == len(keys)


def _is_replaced_without_end(judged: JudgedRecord) -> bool:
    """Whether a finding has healed by its key alone: another log shows the same value as the others."""
    claim, accused = judged.claim, judged.answers.replicas.get(judged.claim.pivot)
    if claim.kind not in TRANSACTION_KINDS or accused is None:
        return False
    return claim.first_offset not in accused.committed and end_shown(claim, accused) is None


def _is_below(claim: Claim, answers: Answers) -> bool:
    """Whether the accused's log begins above the whole transaction: none of its records is left there."""
    accused = answers.replicas.get(claim.pivot)
    return accused is not None and UNKNOWN < claim.marker_offset < accused.log_start_offset


_ORDER: Sequence[Resolution] = (
    Resolution.SPREAD,
    Resolution.AGREED,
    Resolution.UNPROVEN,
    Resolution.HEALED,
    Resolution.SUPERSEDED,
)
_TRACES = frozenset(
    {
        Resolution.COMPACTED,
        Resolution.INCOMPARABLE,
        Resolution.DELETED,
        Resolution.SUPERSEDED,
        Resolution.GONE,
    }
)
"""Reasons why a finding about one record is over that leave the other records of its transaction open."""


def _rank(decision: Decision) -> int:
    if decision.verdict is ClaimState.CONFIRMED:
        return 0
    if decision.verdict is ClaimState.PENDING:
        return 2
    if decision.resolution is Resolution.SPREAD:
        return 1
    if decision.was_shown:
        return 3
    return 4 + (_ORDER.index(decision.resolution) if decision.resolution in _ORDER else len(_ORDER))


def unknown_rest(recorded: TransactionRecords) -> str | None:
    """Return a clause that says why a transaction's records are not all asked about; None if all are."""
    if recorded.error is not None:
        return f"the other records of the transaction are not known: {recorded.error}"
    left = recorded.left_out
    was = agreed(left, "was", "were")
    return f"{counted(left, 'more record')} of the transaction {was} not asked about" if left else None
