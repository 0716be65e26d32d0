"""Decides which replicas show the wrong outcome of a transaction that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parallax.findings.answers import ABORTED, COMMITTED, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase, Decision, Resolution, broker_list, names
from parallax.findings.decide.endings import (
    by_outcome,
    ended_by,
    ended_now,
    kind_of,
    live_outcome,
    live_outcomes,
    other_outcome,
    outcomes_of_others,
    recorded_end,
)
from parallax.findings.decide.key_values import FAR, Differing, behind, gone_everywhere, latest_differs
from parallax.findings.decide.lineage import end_shown, has_lost_its_end, is_another_log, is_beyond_all
from parallax.findings.decide.repaired import repaired
from parallax.findings.decide.spread import agreed, older_everywhere, rightly_shown
from parallax.kinds import OPEN_KINDS, OUTCOME_KINDS
from parallax.model import UNKNOWN, FindingKind
from parallax.sides import Shows, Side, Sides, by_broker


def ended(case: ClaimCase) -> Decision:
    """Return the decision on a claim about a transaction that has ended on the accused.

    It compares the outcomes that the replicas show now for the claim's record. For a replica that shows none, the
    recorded outcome counts.
    """
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.first_offset:
        return case.pending(f"broker {accused.broker} has not decided offset {claim.first_offset} yet")
    own = live_outcome(claim, accused)
    if own != COMMITTED and (lost := older_everywhere(case)) is not None:
        return lost
    if own is None:
        return _outcome_without_record(case)
    truth = outcomes_of_others(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    if against and _end_is_known(case, own):
        # Whatever the others show, by a wrong index or by a log that was replaced: the end marker says so.
        return rightly_shown(case, f"offset {claim.first_offset} is {own} on broker {accused.broker}")
    if against and (past := _superseded(case, own, truth)) is not None:
        return past
    if against:
        return _shared_by_those_left(case, own) or _against(case, own, truth, against)
    if truth:
        decision = agreed(case, own)
        if decision.resolution is not Resolution.SPREAD:
            return _by_their_markers(case, own) or _was_shown(case, f"shows it {own} now") or decision
        is_complete = len(live_outcomes(case)) > len(case.others)
        return decision if is_complete else _by_their_markers(case, own) or _by_the_end_marker(case, own)
    was_hidden = case.live_only and claim.kind is FindingKind.COMMITTED_RECORD_ABORTED
    if was_hidden and case.end_replaced and own == COMMITTED:
        # It holds and shows what it was accused of hiding, and the log that proved it is replaced.
        return case.dismissed(
            f"offset {claim.first_offset} is {own} on broker {accused.broker} now", Resolution.UNPROVEN
        )
    reason = f"no other replica shows an outcome for offset {claim.first_offset}"
    return case.not_shown(claim.first_offset, reason, Resolution.INCOMPARABLE)


def _shared_by_those_left(case: ClaimCase, own: str) -> Decision | None:
    """Return the decision that a finding has spread, if all that are left show its outcome.

    Those may hold no replica of the partition any more. What was read of them still proves that all others are wrong.
    """
    live = live_outcomes(case)
    if not case.live_only or len(live) <= len(case.others) or set(live.values()) != {own}:
        return None
    shared = agreed(case, own)
    return shared if shared.has_spread else None


def _against(case: ClaimCase, own: str, truth: Mapping[int, str], against: Sequence[int]) -> Decision:
    """Accuse a replica of an outcome that others contradict, by what they show or were read to show.

    Args:
        case: the claim with its answers.
        own: the outcome that the accused shows.
        truth: by broker, the outcome on the other replicas.
        against: those among them with the other outcome.
    """
    claim, accused = case.claim, case.accused
    gone = "" if claim.first_offset in accused.committed else ", which lists the transaction and has no record there,"
    # A finding names others by what they show now: their logs may have been replaced since they were read.
    now = ended_now(case)
    named = {b: outcome for b, outcome in truth.items() if not case.live_only or b in now}
    witnesses = [b for b in against if b in named]
    decision = case.confirmed(
        f"offset {claim.first_offset} is {own} on broker {accused.broker}{gone} and {other_outcome(own)} "
        f"{f'on {broker_list(witnesses)}' if witnesses else 'as read earlier'}",
        kind_of(own),
        sides=by_outcome(named | {accused.broker: own}),
    )
    return decision.undirected if _lacks_direction(case, own) else replace(decision, lacks=_deleted(case, own))


def _deleted(case: ClaimCase, own: str) -> int:
    """Return the offset of the value that the accused lacks because it shows a rolled-back deletion as committed.

    It is the newest value that others show of the key, below the deletion; -1 if the record is none, or nobody shows
    one. It is remembered, for once they are copied from the accused nobody shows it.
    """
    claim, key = case.claim, case.accused.key
    deletion = None if key is None else key.visible
    if own != COMMITTED or deletion is None or deletion.offset != claim.first_offset or deletion.value_size >= 0:
        return UNKNOWN
    before = (a.live.offset for a in case.others if a.live is not None)
    return max((offset for offset in before if offset < claim.first_offset), default=UNKNOWN)


def _superseded(case: ClaimCase, own: str, truth: Mapping[int, str]) -> Decision | None:
    """Return the decision on a wrong outcome that misleads nobody any more; None if it may still mislead somebody.

    The accused lists the transaction as aborted, and that list stays wrong. But if no other replica holds the record
    and every replica shows the same newer record of the key, no read_committed consumer notices it. Then no election
    changes what consumers get of it. Nothing has healed. The other records of the transaction have claims of their own
    (`parallax.findings.effect`), so its end must be known.

    Args:
        case: the claim with its answers.
        own: the outcome that the accused's list gives the record: ``aborted`` or ``committed``.
        truth: by broker, the outcome on the other replicas.
    """
    claim, everyone = case.claim, (case.accused, *case.others)
    place = claim.first_offset
    is_shown = not all(a.lacks(place) for a in case.others) or (own == COMMITTED and not case.accused.lacks(place))
    if case.absent or is_shown or not claim.begins_at <= place < claim.marker_offset:
        return None
    shown = {a.key.visible.offset if a.key and a.key.complete and a.key.visible else UNKNOWN for a in everyone}
    newer = min(shown)
    if len(shown) > 1 or newer <= place:
        return None
    holding = "no replica holds" if case.accused.lacks(place) else f"only broker {case.accused.broker} holds"
    reason = f"{holding} offset {place} any more, and all show the newer record of its key at offset {newer}"
    if case.live_only or _lacks_direction(case, own):
        return case.not_held(reason, place)
    return case.was_shown(reason, kind_of(own), place, by_outcome({**truth, case.accused.broker: own}))


def _lacks_direction(case: ClaimCase, own: str) -> bool:
    """Whether the accused was seen to hold the transaction open, and no known end marker contradicts what it shows.

    That it held the transaction open does not show how that ended: it may have been repaired since.
    """
    return case.claim.kind in OPEN_KINDS and not _end_is_known(case, other_outcome(own))


def _end_is_known(case: ClaimCase, outcome: str) -> bool:
    """Whether an end marker that was read, or that another replica shows, gives the record this outcome."""
    return recorded_end(case.claim) == outcome or any(_shows_end(case.claim, a, outcome) for a in case.others)


def _by_their_markers(case: ClaimCase, own: str) -> Decision | None:
    """Accuse a replica where others show the same outcome, but one of them holds the end marker that contradicts it.

    That witness's index of aborted transactions is wrong, so the outcome that it shows proves nothing. Its end marker
    does.
    """
    claim = case.claim
    against = [a.broker for a in case.others if _shows_end(claim, a, other_outcome(own))]
    if not against or _shows_end(claim, case.accused, other_outcome(own)):
        return None
    return _by_the_end_marker(case, own)


def _by_the_end_marker(case: ClaimCase, own: str) -> Decision:
    """Accuse a replica that contradicts the transaction's end marker, whatever the others show of the record.

    Replicas that no longer hold the record mislead nobody: if not all others show it, the loss has not spread to them.
    """
    claim = case.claim
    return case.confirmed(
        f"offset {claim.first_offset} is {own} on broker {claim.broker}, and {other_outcome(own)} by its end marker",
        kind_of(own),
        sides=by_outcome(live_outcomes(case)),
    )


def _shows_end(claim: Claim, answer: ReplicaAnswer, outcome: str) -> bool:
    """Whether a replica holds the claim's end marker, and that marker gives the record this outcome."""
    marker = end_shown(claim, answer)
    return marker is not None and ended_by(marker.type) == outcome and not is_another_log(claim, answer)


def _unread_key(case: ClaimCase) -> str | None:
    """Return why a replica's value of the key is not known yet; None where it is known, or never will be."""
    if case.claim.key is None:
        return None
    return next((a.key_error for a in (case.accused, *case.others) if a.key_error is not None), None)


def _outcome_without_record(case: ClaimCase) -> Decision:
    """Judge an accused that no longer holds the record: by the key's latest value, else by what was recorded."""
    claim = case.claim
    if case.accused.key is not None:
        up_to = _explained_up_to(case)
        if (shown := _shown_by_the_key(case, up_to) or behind(case, up_to)) is not None:
            return shown
        if not case.accused.key.complete:
            return case.pending(case.accused.key_error or f"the log of broker {claim.broker} was not read as a whole")
    if (unread := _unread_key(case)) is not None:
        return case.pending(unread)
    if (past := _was_shown(case, "does not hold it any more")) is not None:
        return past
    gone = f"broker {claim.broker} does not hold the record at offset {claim.first_offset} any more"
    if claim.kind in OPEN_KINDS:
        gone = f"broker {claim.broker} holds neither the transaction open nor its record at offset {claim.first_offset}"
    if (lost := gone_everywhere(case, gone)) is not None:
        return lost
    if (healed := repaired(case)) is not None:
        return case.dismissed(healed)
    if case.live_only and case.absent and claim.key is not None and case.accused.log_start_offset <= claim.first_offset:
        # One of these may show another value of the key.
        return case.pending(f"the values of the key were not compared with {names(case.absent)}")
    return case.not_held(gone, claim.first_offset)


def _explained_up_to(case: ClaimCase) -> float:
    """Return up to which offset a value may differ by the claim's transaction: what is above its end is newer."""
    end = max(case.claim.marker_offset, case.end_read)
    return end if end != UNKNOWN else FAR


def _shown_by_the_key(case: ClaimCase, up_to: float) -> Decision | None:
    """Judge by the key: readers of the accused see a value where those of another see none, or the other way round.

    For a finding, that is still the wrong outcome. For a suspect it gives no direction: another replica may have missed
    what deleted the value. It says nothing about the transaction in these cases:

    - The accused was not read to show a wrong outcome.
    - The end by which it was read to show one is cut. Another log may have replaced its own.
    - The value was written behind the transaction's end, so it is newer than the transaction.
    - The accused has aborted the transaction, and another shows an older value: no abort removes what was there before.
    - The accused had committed the transaction and was repaired since, and another shows the transaction's own value.
    """
    recorded = case.claim.recorded.outcomes.get(case.claim.broker)
    # A missing end marker proves no outcome: the key may differ because of what was written since.
    has_outcome = case.claim.kind in OUTCOME_KINDS or recorded is not None
    is_cut = has_lost_its_end(case, case.claim.broker)
    is_proven = case.live_only and not case.claim.freed and has_outcome and not is_cut
    differing = _differing_by_its_outcome(case, recorded, up_to) if is_proven else latest_differs(case, up_to=up_to)
    if differing is None or (recorded is None and not is_proven):
        return None
    if not is_proven:
        # The outcome may differ on another replica, and the comparison may be about to say so.
        difference = case.differs(_by_value(case), differing.reason, FindingKind.VISIBILITY_MISMATCH)
        return replace(difference, lone_witness=True, proof_truncated=is_cut)
    kind = kind_of(recorded) if recorded is not None else case.claim.kind
    decision = case.confirmed(differing.reason, kind, sides=differing.sides)
    return replace(decision, lacks=differing.lacked_by(case.accused.broker))


def _differing_by_its_outcome(case: ClaimCase, recorded: str | None, up_to: float) -> Differing | None:
    """Return a difference in the key that the outcome which was proven wrong on the accused can explain.

    An accused that aborted what was committed lacks no value from before the transaction. What it shows wrongly is such
    an older value. An accused that committed what was aborted lacks no value of the transaction itself, since a replica
    that shows that has committed it as well. What it shows wrongly is the transaction's own value; an older value is
    right.
    """
    claim = case.claim
    start = claim.begins_at
    is_aborted = recorded == ABORTED if recorded is not None else claim.kind is FindingKind.COMMITTED_RECORD_ABORTED

    def is_its_own(value: RecordShown) -> bool:
        return value.outcome == COMMITTED and value.offset >= start and value.producer_id == claim.producer_id

    if is_aborted:
        return latest_differs(
            case,
            of_others=lambda value: value.offset >= start,
            of_its_own=lambda value: value.offset < claim.first_offset,
            up_to=up_to,
        )
    return latest_differs(case, of_others=lambda value: not is_its_own(value), of_its_own=is_its_own, up_to=up_to)


def _was_shown(case: ClaimCase, now: str) -> Decision | None:
    """Judge an accused that was read to show another outcome than the others, and no longer does.

    That it was read to hold a later end marker, without the one that others hold, proves nothing. A replica that is
    read late holds neither the record nor the marker that ended it there.

    Args:
        case: of a suspect; what was a finding has been proven before.
        now: what the accused does instead, for people.
    """
    claim = case.claim
    own = claim.recorded.outcomes.get(claim.broker)
    if own is None or case.live_only or case.accused.log_start_offset > claim.first_offset:
        return None
    if has_lost_its_end(case, case.accused.broker):
        return None  # It had ended it in a truncated log, which may have been right.
    truth = outcomes_of_others(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    if not against:
        return None
    decision = case.was_shown(
        f"offset {claim.first_offset} was {own} on broker {claim.broker} when it was read, and "
        f"{other_outcome(own)} on {broker_list(against)}; broker {claim.broker} {now}",
        kind_of(own),
        claim.first_offset,
        by_outcome(truth | {claim.broker: own}),
    )
    return decision.undirected if _lacks_direction(case, own) else decision


def unlike_outcomes(case: ClaimCase) -> Decision:
    """Return the decision on a claim that replicas show different outcomes, while no end marker says which is right.

    If the claim is true, it is confirmed as a difference without direction.
    """
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.offset:
        undecided = f"broker {accused.broker} has not decided offset {claim.offset} yet"
        return _undecided_again(case) or case.pending(undecided)
    own, truth = _compared_outcomes(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    live = live_outcomes(case)
    stands = len(set(live.values())) > 1
    if own is None and stands:
        # The replica that was asked last no longer holds the record; two others still differ about it.
        unlike = f"{broker_list(sorted(live))} do not show offset {claim.offset} alike"
        return case.differs(by_outcome(live), unlike)
    # On the replica with the other outcome the record may be gone, and a value with it.
    if (own is None or not stands) and (differing := latest_differs(case)) is not None:
        return case.differs(_by_value(case), differing.reason)
    if own is None:
        gone = f"broker {accused.broker} does not hold offset {claim.offset} any more"
        return behind(case) or case.not_held(gone, claim.offset)
    if against:
        sides = by_outcome(truth | {accused.broker: own})
        shown = f"{own} on broker {accused.broker} and {other_outcome(own)} on {broker_list(against)}"
        if not stands:
            return _was_unlike(case, f"offset {claim.offset} was {shown}", sides)
        return case.differs(sides, f"offset {claim.offset} is {shown}; no end marker was read that says which is right")
    if truth:
        return case.unproven(f"every replica that answered shows offset {claim.offset} as {own}")
    return case.not_shown(claim.offset, f"no other replica shows an outcome for offset {claim.offset}")


def _undecided_again(case: ClaimCase) -> Decision | None:
    """Return that a finding is over: its replica's log was cut below what had ended the record, and no others differ.

    The record may be gone, or a new end marker decides it. A replica that cannot be asked may still show what it did.
    """
    if not case.live_only or case.absent or len(set(live_outcomes(case).values())) > 1:
        return None
    offset, broker = case.claim.offset, case.accused.broker
    reason = f"the end marker by which broker {broker} had decided offset {offset} is cut"
    if is_beyond_all(case):
        reason = f"all logs end at offset {offset} or below it by now"
    elif not has_lost_its_end(case, broker):
        return None
    return case.dismissed(reason, Resolution.UNPROVEN)


def _compared_outcomes(case: ClaimCase) -> tuple[str | None, dict[int, str]]:
    """Return the outcome of the replica that was asked last, and by broker the others' outcomes to compare it with.

    For a finding only what is shown now counts. What a replica had shown, and no longer holds, is no difference any
    more.
    """
    claim, accused = case.claim, case.accused
    own = live_outcome(claim, accused)
    if case.live_only:
        truth = live_outcomes(case)
        truth.pop(accused.broker, None)
        return own, truth
    if own is None and accused.log_start_offset <= claim.offset and not has_lost_its_end(case, accused.broker):
        own = claim.recorded.outcomes.get(accused.broker)
    # Of a replica that cannot be asked nobody knows whether its log is still the one that was read.
    absent = {a.broker for a in case.absent}
    return own, {b: outcome for b, outcome in outcomes_of_others(case).items() if b not in absent}


def _was_unlike(case: ClaimCase, reason: str, sides: Sides) -> Decision:
    """Judge outcomes that differed, of which the replicas now show at most one.

    What a replica had shown may not be part of its current log, where nobody can read it wrongly.
    """
    if case.absent:
        return case.pending(f"{reason}; {names(case.absent)} may show it still")
    return case.was_shown(f"{reason}; no two replicas show it otherwise now", case.claim.kind, case.claim.offset, sides)


def _by_value(case: ClaimCase) -> Sides:
    """Return which replicas, past the claim's offset, show a value of the key and which show none."""
    past = (a for a in (case.accused, *case.others) if a.last_stable_offset > case.claim.first_offset)
    shown = {a.broker: Shows.NO_VALUE if a.key.live is None else Shows.SOME_VALUE for a in past if a.key is not None}
    return by_broker({broker: Side(shows) for broker, shows in shown.items()})
