"""Finds a value of a key that consumers of one replica get, and consumers of another do not.

The cause is a transaction that ended differently on the two replicas. Such a difference in values keeps a finding about
the transaction open after its records are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from parallax.findings.answers import KeyShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase, Decision, Resolution, names, shows_deleted, verb
from parallax.model import UNKNOWN
from parallax.sides import Shows, Side, Sides

_A_VALUE, _NO_VALUE = Side(Shows.SOME_VALUE), Side(Shows.NO_VALUE)
FAR = float("inf")
"""Above every offset."""


class Differing(NamedTuple):
    """A value of the key that one replica shows, while another replica shows none.

    Attributes:
        reason: who shows it, in one line for people.
        offset: the value's offset.
        sides: the broker that shows a value, and the broker that shows none.
    """

    reason: str
    offset: int
    sides: Sides

    def lacked_by(self, broker: int) -> int:
        """Return the value's offset if ``broker`` is the one that shows no value; else -1."""
        return self.offset if broker in self.sides[_NO_VALUE] else UNKNOWN


def latest_differs(
    case: ClaimCase,
    *,
    of_others: Callable[[RecordShown], bool] = lambda _: True,
    of_its_own: Callable[[RecordShown], bool] = lambda _: True,
    up_to: float = FAR,
) -> Differing | None:
    """Return a value of the key that the accused shows its consumers and another replica does not, or the reverse.

    A replica is left out while it has not decided the outcome of the claim's record, because it still shows older
    values. A value does not count while its replica may still come to the record that deleted the value on the other
    replica (`behind`).

    Args:
        case: the claim about the record, with its answers.
        of_others: returns whether a value counts that another replica shows and the accused lacks.
        of_its_own: returns whether a value counts that the accused shows and another replica lacks.
        up_to: values above this offset do not count.

    Returns:
        The first such value, or None.
    """
    accused = case.accused
    own = accused.live
    if accused.key is None:
        return None
    for other in _decided(case):
        theirs = other.live
        if own is not None and own.offset < other.last_stable_offset and own.offset <= up_to:
            if not of_its_own(own):
                continue
            if shows_deleted(other, own.offset, accused.last_stable_offset) and not _is_behind(accused, other):
                reason = (
                    f"broker {accused.broker} shows a live value at offset {own.offset}, "
                    f"broker {other.broker} none for that key"
                )
                sides = {_A_VALUE: [accused.broker], _NO_VALUE: [other.broker]}
                return Differing(reason, own.offset, sides)
        elif own is None and theirs is not None and theirs.offset <= up_to:
            if not of_others(theirs) or not _shows_more(case, other):
                continue
            reason = f"broker {other.broker} shows a live value, broker {accused.broker} none for that key"
            sides = {_A_VALUE: [other.broker], _NO_VALUE: [accused.broker]}
            return Differing(reason, theirs.offset, sides)
    return None


def gone_everywhere(case: ClaimCase, now: str) -> Decision | None:
    """Return the decision on a finding whose accused lacked a value that no replica shows any more.

    If nothing newer of the key was surely written either, the finding is not over. Replicas that showed the value may
    have been replaced by copies of a replica that had lost it. Or a tombstone came, and was cleaned on all replicas
    before it was read.

    Args:
        case: the claim about the record, with its answers.
        now: what the accused shows now; the decision's reason begins with this text.

    Returns:
        The decision. None for any other finding, or if some replica shows a value of the key, or if the key was surely
        written since (`_written_since`), or if that is not known.
    """
    claim, everyone = case.claim, (case.accused, *case.others)
    lacked = claim.recorded.lacks
    if lacked == UNKNOWN or not case.live_only or claim.freed or all(a.log_start_offset > lacked for a in everyone):
        return None
    keys = [a.key for a in everyone if a.key is not None and a.key.complete]
    if len(keys) < len(everyone) or any(k.live is not None for k in keys) or _written_since(claim, keys, lacked):
        return None
    gone = f"{now}, and no replica shows the value of offset {lacked} any more that it lacked, nor surely a newer one"
    if case.absent:
        return case.pending(f"{gone}; not reached: {names(case.absent)}")
    return case.dismissed(gone, Resolution.AGREED)


def _written_since(claim: Claim, keys: Sequence[KeyShown], lacked: int) -> bool:
    """Whether a key was surely written behind the value that a claim's accused lacked, by another transaction or none.

    A record of no transaction is enough on one replica, for cleaners may have taken a tombstone from the others. One of
    a transaction must be shown by all: where only some show it, its transaction may have been rolled back.
    """

    def is_newer(shown: RecordShown) -> bool:
        is_its_own = shown.producer_id == claim.producer_id and claim.begins_at <= shown.offset <= claim.marker_offset
        return shown.offset > lacked and not is_its_own

    newer = [key.visible for key in keys if key.visible is not None and is_newer(key.visible)]
    return len(newer) == len(keys) or any(shown.is_plain for shown in newer)


def behind(case: ClaimCase, up_to: float = FAR) -> Decision | None:
    """Return a pending decision if a replica shows a value that another lacks, and may still come to its deletion.

    None if there is no such replica, so that the values can be compared.

    Args:
        case: the claim about the record, with its answers.
        up_to: values above this offset do not count (as for `latest_differs`).
    """
    accused = case.accused
    if accused.key is None:
        return None
    own = accused.key.live
    if own is None:
        showing, lacking = [a for a in _decided(case) if _is_behind(a, accused) and _lacks(case, a, up_to)], [accused]
    else:
        ahead = [a for a in _decided(case) if own.offset < a.last_stable_offset and _is_behind(accused, a)]
        showing = [accused] if own.offset <= up_to else []
        lacking = [a for a in ahead if shows_deleted(a, own.offset, a.last_stable_offset)]
    if not showing or not lacking:
        return None
    lack = f"{names(lacking)} {verb(lacking, 'lack')}"
    return case.pending(f"{names(showing)} may not have decided yet what deleted the value that {lack}")


def _shows_more(case: ClaimCase, other: ReplicaAnswer) -> bool:
    """Whether another replica shows a value that the accused lacks for good."""
    return _lacks(case, other) and not _is_behind(other, case.accused)


def _decided(case: ClaimCase) -> list[ReplicaAnswer]:
    """Return the other replicas whose last stable offset is past the claim's record."""
    return [a for a in case.others if a.last_stable_offset > case.claim.first_offset]


def _is_behind(showing: ReplicaAnswer, lacking: ReplicaAnswer) -> bool:
    """Whether a replica that shows a value may not have come yet to what deleted it on another."""
    return showing.last_stable_offset < lacking.cleaned_below


def _lacks(case: ClaimCase, other: ReplicaAnswer, up_to: float = FAR) -> bool:
    """Whether the accused is past the other's live value, but shows neither it nor a later record of the key.

    Values above ``up_to`` do not count.

    A value that was proven to be deleted does not count: the other replica is accused of showing it.
    """
    accused = case.accused
    theirs, key = other.live, accused.key
    if theirs is None or key is None or not key.complete or not case.claim.deleted_at <= theirs.offset <= up_to:
        return False
    explained = key.visible is not None and key.visible.offset > theirs.offset
    return not explained and accused.log_start_offset <= theirs.offset < accused.last_stable_offset
