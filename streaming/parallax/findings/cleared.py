"""Decides which replicas the proof of a finding shows to be right.

Parallax advises a copy only from one of these replicas.

Proof that one replica is wrong does not prove the others right: another may be wrong in another way. So only the proof
that accuses one replica can clear others, and only replicas that answered the probe. Which replicas a proof clears
depends on the finding's kind (`parallax.kinds.KINDS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from parallax.findings.answers import ABORTED, COMMITTED
from parallax.findings.claim import is_direct_end
from parallax.findings.finding import is_proof_past
from parallax.findings.shown import Shown, live_outcomes, outcomes_of_records
from parallax.findings.traceless import value_of, without_trace
from parallax.kinds import KINDS, TRANSACTION_KINDS, WRONG_OUTCOMES, Clears
from parallax.model import NOBODY, UNKNOWN
from parallax.sides import Shows, Side, outcomes_on, values

_OUTCOMES = frozenset({COMMITTED, ABORTED})
_BY_MARKER = {"commit": COMMITTED, "abort": ABORTED}


def cleared(shown: Shown) -> list[int]:
    """Return the brokers whose replicas the finding's proof shows to be right, in order of their ids.

    The list is empty if the finding accuses nobody, has spread, or is unsettled.
    """
    finding = shown.finding
    if finding.broker == NOBODY or is_proof_past(finding):
        return []
    right = CLEARED[KINDS[finding.kind].clears](shown)
    known = frozenset(right) & shown.answered - shown.alike - shown.was_accused
    return sorted(b for b in known if _reaches(shown, b) and not _may_lack_a_value(shown, b))


def _may_lack_a_value(shown: Shown, broker: int) -> bool:
    """Whether a replica shows no value of the key, where the accused commits a deletion that was rolled back.

    The accused's cleaner may have taken the value for the sake of that deletion, and the replica may be a copy.
    """
    finding = shown.finding
    is_deletion = finding.kind in TRANSACTION_KINDS and shown.was_deletion
    own = outcomes_on(shown.sides, finding.broker) or {shown.outcomes.get(finding.broker, "")}
    return is_deletion and COMMITTED in own and value_of(shown, broker) == UNKNOWN


def _reaches(shown: Shown, broker: int) -> bool:
    """Whether a log reaches down to what a finding about a transaction names; what lies below may be lost there."""
    finding = shown.finding
    start = shown.replicas.get(broker, {}).get("log_start_offset", UNKNOWN)
    named = finding.offset if finding.transaction_start_offset == UNKNOWN else finding.transaction_start_offset
    return finding.kind not in TRANSACTION_KINDS or start <= named


def _nobody(shown: Shown) -> Iterable[int]:
    del shown
    return ()


def _no_value(shown: Shown) -> Iterable[int]:
    """Return who shows no value; nobody if a newer value may have replaced the tombstone.

    Then those that show no value may have lost the newer one.
    """
    offsets = values(shown.sides.keys())
    own = [offset for side, offset in offsets.items() if shown.finding.broker in shown.sides[side]]
    if not own or max(offsets.values()) > own[0]:
        return ()
    without = (b for b in shown.sides.get(Side(Shows.NO_VALUE), ()) if not _holds_what_was_deleted(shown, b))
    return (b for b in without if _was_read_whole(shown.replicas.get(b)) and not _is_held_back(shown, b))


def _holds_what_was_deleted(shown: Shown, broker: int) -> bool:
    """Whether a replica holds an aborted record of the key, and no tombstone behind it: it has missed the deletion.

    Its consumers in read_uncommitted get that record. A cleaner takes it in the pass in which it takes older values.
    """
    key = shown.replicas.get(broker, {}).get("key") or {}
    seen = (key.get("visible") or {}).get("offset", UNKNOWN)
    return bool(seen < key.get("newest_offset", UNKNOWN) < shown.finding.offset)


def _is_held_back(shown: Shown, broker: int) -> bool:
    """Whether another replica has decided what this one has not: a newer value may show there one day."""
    own = shown.replicas.get(broker, {})
    stable, mark = own.get("last_stable_offset", UNKNOWN), own.get("high_watermark", UNKNOWN)
    return any(stable < answer.get("last_stable_offset", UNKNOWN) <= mark for answer in shown.replicas.values())


def _was_read_whole(answer: Mapping[str, Any] | None) -> bool:
    """Whether a replica that shows no value was read far enough down to prove that."""
    key = (answer or {}).get("key") or {}
    return bool(key.get("visible") or key.get("complete", True))


def _other_outcome(shown: Shown) -> Iterable[int]:
    wrong = WRONG_OUTCOMES[shown.finding.kind]
    shown_now = _ended_as(shown, ABORTED if wrong == COMMITTED else COMMITTED)
    return {*shown_now, *(b for b in without_trace(shown) if not _is_held_back(shown, b))}


def _own_end(shown: Shown) -> Iterable[int]:
    """Return who shows the other outcome than the accused, if its end marker lies directly behind the record.

    Elsewhere the lower end marker that truly ended the transaction may be cleaned. Then the accused's index is still
    wrong, but all replicas may be.
    """
    finding = shown.finding
    own = outcomes_on(shown.sides, finding.broker)
    own = own or _OUTCOMES & {shown.outcomes.get(finding.broker, "")}  # as recorded, if only a value is left
    if not is_direct_end(finding.offset, finding.marker_offset) or len(own) != 1:
        return ()
    (right,) = _OUTCOMES - own
    return _ended_as(shown, right)


def shows_against_its_end(shown: Shown) -> bool:
    """Whether the accused shows an outcome that contradicts an end marker in its own log."""
    broker = shown.finding.broker
    live = shown.replicas.get(broker, {}).get("markers", ())
    place = (shown.finding.marker_offset, shown.finding.producer_id)
    held = {_BY_MARKER.get(m["type"]) for m in live if (m["offset"], m["producer_id"]) == place}
    said = outcomes_on(shown.sides, broker)
    return len(held) == len(said) == 1 and held != said


def _ended_as(shown: Shown, outcome: str) -> Iterable[int]:
    against = frozenset().union(*shown.against)
    return (broker for broker in against if _endings(shown, broker) == {outcome} and _shows_an_end(shown, broker))


def _shows_an_end(shown: Shown, broker: int) -> bool:
    """Whether a replica shows now how the transaction ended; recorded answers may be of a log that was replaced.

    A cleaner keeps the end marker as long as a record of its transaction is there. So a replica that shows the right
    outcome without the end marker has it by chance: it missed that marker and lost its index of aborted transactions.
    """
    if shown.finding.marker_offset == UNKNOWN:
        return bool(live_outcomes(shown, broker))
    return bool(_live_markers(shown, broker))


def proven_end(shown: Shown) -> str | None:
    """Return how the transaction that the accused holds open truly ended: ``commit`` or ``abort``; None without proof.

    The proof is an end marker directly behind the transaction's first record. All replicas that showed a marker there
    must show the same type. No replica may have ended the transaction otherwise. A marker further up proves nothing: it
    may be of a later transaction, and the right one may have been cleaned.
    """
    finding = shown.finding
    if not is_direct_end(finding.transaction_start_offset, finding.marker_offset):
        return None
    brokers = shown.replicas.keys() | shown.markers.keys()
    types = frozenset().union(*(_by_marker(shown, broker) for broker in brokers))
    ended = shown.sides.get(Side(Shows.ENDED), frozenset())
    if len(types) != 1 or any(_endings(shown, broker) - types for broker in ended):
        return None
    return next(kind for kind, outcome in _BY_MARKER.items() if outcome in types)


def _direct_end(shown: Shown) -> Iterable[int]:
    """Return who ended the transaction as an end marker directly behind its first record says.

    Many that ended it alike prove nothing: they may have missed the same marker, or be copies of one that did.
    """
    finding, ended = shown.finding, shown.sides.get(Side(Shows.ENDED), ())
    if not is_direct_end(finding.transaction_start_offset, finding.marker_offset):
        return ()
    types = frozenset().union(*(_by_marker(shown, broker) for broker in shown.replicas))
    as_said = (broker for broker in ended if len(types) == 1 and _endings(shown, broker) == types)
    return (broker for broker in as_said if not _ended_by_chance(shown, broker))


def _ended_by_chance(shown: Shown, broker: int) -> bool:
    """Whether a replica holds a record of the transaction, and not the end marker that a cleaner leaves with it."""
    return bool(outcomes_of_records(shown, broker)) and not _live_markers(shown, broker)


def _newer_epoch(shown: Shown) -> Iterable[int]:
    sides = shown.against
    return sides[0] if len(sides) == 1 and shown.leader in sides[0] else ()


def _held_record(shown: Shown) -> Iterable[int]:
    return frozenset().union(*(on for side, on in shown.sides.items() if side.shows is Shows.RECORD))


CLEARED: Mapping[Clears, Callable[[Shown], Iterable[int]]] = {
    Clears.NOBODY: _nobody,
    Clears.NO_VALUE: _no_value,
    Clears.OTHER_OUTCOME: _other_outcome,
    Clears.OWN_END: _own_end,
    Clears.DIRECT_END: _direct_end,
    Clears.NEWER_EPOCH: _newer_epoch,
    Clears.HELD_RECORD: _held_record,
}


Unproven = tuple[str, str]
"""Why a replica is not proven right. Both texts end a sentence: one about one broker, one about several."""


def unproven(shown: Shown) -> Mapping[Unproven, frozenset[int]]:
    """Return the brokers that are not proven right, by reason.

    Those that show the same as the accused are left out. It is for a finding that accuses a broker and clears none.
    Each reason ends a sentence, as in "did not answer". It comes in two forms: about one broker, and about several.

    Args:
        shown: what the finding says of the replicas.
    """
    found: dict[Unproven, frozenset[int]] = {}
    for broker in sorted(shown.replicas.keys() - shown.alike):
        why = _unproven(shown, broker)
        found[why] = found.get(why, frozenset()) | {broker}
    return found


def _unproven(shown: Shown, broker: int) -> Unproven:
    if broker not in shown.answered:
        return "did not answer", "did not answer"
    if broker in shown.was_accused:
        return "was accused of the same before", "were accused of the same before"
    if _may_lack_a_value(shown, broker):
        text = "no value of the key, and may be a copy of a log that has lost one by this"
        return f"shows {text}", f"show {text}"
    if not _reaches(shown, broker):
        return "has lost the beginning of the transaction", "have lost the beginning of the transaction"
    return _UNPROVEN[KINDS[shown.finding.kind].clears](shown, broker)


def _no_value_unproven(shown: Shown, broker: int) -> Unproven:
    if broker not in shown.sides.get(Side(Shows.NO_VALUE), ()):
        return "shows another value", "show other values"
    if not _was_read_whole(shown.replicas.get(broker)):
        text = "not read far enough down to show that no value is left there"
        return f"was {text}", f"were {text}"
    if _holds_what_was_deleted(shown, broker):
        return "holds an older record, which was aborted there", "hold an older record, which was aborted there"
    if _is_held_back(shown, broker):
        return "has not decided yet what another has", "have not decided yet what another has"
    return "may have lost a newer value that another shows", "may have lost a newer value that another shows"


def _end_unproven(shown: Shown, broker: int) -> Unproven:
    marker, endings = shown.finding.marker_offset, _endings(shown, broker)
    if not endings:
        return "does not show how the transaction ended", "do not show how the transaction ended"
    if len(endings) > 1:
        return "was read to end the transaction both ways", "were read to end the transaction both ways"
    if marker != UNKNOWN and not _live_markers(shown, broker):
        text = f"the end marker at offset {marker}, which would prove it"
        return f"no longer shows {text}", f"no longer show {text}"
    text = "by an end marker that may be of a later transaction, or that another contradicts"
    return f"ended it {text}", f"ended it {text}"


def _record_unproven(shown: Shown, broker: int) -> Unproven:
    if any(broker in shown.sides[side] for side in values(shown.sides.keys())):
        text = "a newer value, and may have missed that it was deleted"
        return f"shows {text}", f"show {text}"
    return "does not show the record", "do not show the record"


def _epoch_unproven(shown: Shown, _: int) -> Unproven:
    if len(shown.against) > 1:
        return "differs from another of them", "differ from another of them"
    return "is not known to hold what the leader's log holds", "are not known to hold what the leader's log holds"


_UNPROVEN: Mapping[Clears, Callable[[Shown, int], Unproven]] = {
    Clears.NOBODY: lambda *_: ("is not part of the proof", "are not part of the proof"),
    Clears.NO_VALUE: _no_value_unproven,
    Clears.OTHER_OUTCOME: _end_unproven,
    Clears.OWN_END: _end_unproven,
    Clears.DIRECT_END: _end_unproven,
    Clears.NEWER_EPOCH: _epoch_unproven,
    Clears.HELD_RECORD: _record_unproven,
}


def _endings(shown: Shown, broker: int) -> frozenset[str]:
    """Return how a replica has ended the transaction; more than one outcome where the evidence contradicts itself."""
    return outcomes_of(shown, broker) | _by_marker(shown, broker)


def holds_open(shown: Shown, broker: int) -> bool:
    """Whether the broker's replica lists the finding's transaction as open, and not a later one of its producer."""
    finding = shown.finding
    listed = shown.replicas.get(broker, {}).get("open_transactions") or ()
    end = max(finding.transaction_start_offset + 1, finding.marker_offset)
    return any(one["producer_id"] == finding.producer_id and one["start_offset"] < end for one in listed)


def outcomes_of(shown: Shown, broker: int) -> frozenset[str]:
    """Return which outcomes the broker's replica gives the finding's transaction: ``committed``, ``aborted``, or both.

    They follow from the replica's records and its list of aborted transactions. If these say nothing, the outcome that
    the views recorded counts. The result is empty if nothing says it.
    """
    found = outcomes_on(shown.sides, broker) | live_outcomes(shown, broker)
    return _OUTCOMES & found or _OUTCOMES & {shown.outcomes.get(broker, "")}


def _live_markers(shown: Shown, broker: int) -> set[str]:
    """Return the types of the end markers that a replica shows at the finding's place."""
    place = (shown.finding.marker_offset, shown.finding.producer_id)
    live = shown.replicas.get(broker, {}).get("markers", ())
    return {marker["type"] for marker in live if (marker["offset"], marker["producer_id"]) == place}


def _by_marker(shown: Shown, broker: int) -> frozenset[str]:
    """Return the outcome by the end marker that a replica shows, else by the one that it was recorded to show."""
    types = _live_markers(shown, broker) or {shown.markers.get(broker, "")}
    return frozenset(_BY_MARKER[each] for each in types if each in _BY_MARKER)
