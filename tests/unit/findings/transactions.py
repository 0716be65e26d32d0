"""Many transactions of one cause, and what the replicas answer about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parallax.findings.answers import Answers, MarkerShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.model import FindingKind, Rule
from tests.builders.answers import NOTHING, answers, newest, replica
from tests.builders.claims import claim
from tests.unit.findings.floods import Flood

CONTRADICTS = FindingKind.OUTCOME_CONTRADICTS_MARKER
COMMITTED_WRONGLY = FindingKind.ABORTED_RECORD_COMMITTED
END = 100_000_000


def start_of(number: int) -> int:
    return 1_000 + 10 * number


def turned(number: int, kind: FindingKind = CONTRADICTS, **fields: Any) -> Claim:
    """Broker 2 shows the record of an aborted transaction as committed, and the ABORT two offsets behind it."""
    start = start_of(number)
    recorded = RecordedByViews(outcomes={2: "committed"}, markers={2: "abort"})
    of: dict[str, Any] = {
        "name": f"txn-{number}",
        "offset": start,
        "transaction_start_offset": start,
        "marker_offset": start + 2,
    }
    of |= {"key_hash_hi": 1, "key_hash_lo": number, "recorded": recorded, "raised_at_ms": 10**12}
    return claim(kind, **(of | fields))


def missed(number: int, **fields: Any) -> Claim:
    """Broker 2 shows that record as committed, and lacks the ABORT that the others show."""
    recorded = RecordedByViews(outcomes={2: "committed"}, markers={1: "abort", 3: "abort"})
    return turned(number, **({"name": f"missed-{number}", "kind": COMMITTED_WRONGLY, "recorded": recorded} | fields))


def shows(broker: int, claim: Claim, outcome: str | None, marker: str | None) -> ReplicaAnswer:
    start, end = claim.transaction_start_offset, claim.marker_offset
    held = {} if outcome is None else {start: RecordShown(start, outcome, producer_id=claim.producer_id)}
    markers = () if marker is None else (MarkerShown(end, claim.producer_id, marker),)
    return replica(broker, END, committed=held, uncommitted=held, asked=frozenset({start}), markers=markers)


def by_index(claim: Claim) -> Answers:
    """Broker 2 contradicts its own end markers; of the others nothing is left."""
    if claim.rule is Rule.LATEST_VALUE:
        return by_key(claim)
    others = {b: shows(b, claim, None, None) for b in (1, 3)}
    return Answers(others | {2: shows(2, claim, "committed", "abort")}, leader=1)


def by_key(claim: Claim) -> Answers:
    at = claim.offset
    alive = newest(at)
    none = NOTHING
    return answers(replica(1, END, key=none), replica(2, END, key=alive), replica(3, END, key=none))


def healed(claim: Claim) -> Answers:
    """The index of broker 2 is rebuilt: it aborts what its end markers do."""
    if claim.rule is Rule.LATEST_VALUE:
        return by_key(claim)
    others = {b: shows(b, claim, "aborted", "abort") for b in (1, 3)}
    return Answers(others | {2: shows(2, claim, "aborted", "abort")}, leader=1)


Answering = Callable[[Claim], Answers]


def flood(count: int, answering: Answering = by_index, make: Callable[[int], Claim] = turned) -> Flood:
    life = Flood()
    life.suspect(*map(make, range(count)))
    life.settle(answering)
    return life
