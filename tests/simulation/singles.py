"""What incidents say, as findings of single keys and transactions: the properties hold of them as of any other."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from parallax.findings.claim import Claim
from parallax.findings.decide import Resolution
from parallax.findings.finding import Finding, evidence_of
from parallax.findings.incident import tally_of
from parallax.findings.members import OPEN, MemberRow, State
from parallax.model import FindingKind, FindingStatus, Rule

_STATUS = {
    State.SPREAD: FindingStatus.SPREAD,
    State.UNSETTLED: FindingStatus.UNSETTLED,
    State.DOUBTFUL: FindingStatus.UNSETTLED,
}


@dataclass
class Singles:
    """Fed with the events of incidents, each with the members that stand.

    Attributes:
        known: by incident and member, the last event that was reported of the member.
    """

    known: dict[str, dict[str, Finding]] = field(default_factory=dict)

    def of(self, event: Finding, rows: Iterable[MemberRow]) -> list[Finding]:
        """The single events that the event of an incident stands for.

        Args:
            event: of the incident.
            rows: the last row of each of its members.
        """
        mine = {row.claim.suspect_id: row for row in rows}
        tally = tally_of(event)
        known = self.known.setdefault(event.finding_id, {})
        told = {name for name, last in known.items() if last.stands}
        about: dict[object, MemberRow] = {}
        # Of several that tell of one, the one that was told before goes on.
        for row in sorted(mine.values(), key=lambda row: (row.claim.begins_at, row.claim.suspect_id not in told)):
            if row.state in OPEN:
                # What one end marker ended is one, from its first record on.
                about.setdefault(_counted_as(_claim(row)), row)
        assert tally.count == len(about), f"an incident must count what is wrong: {tally.count}, not {set(about)}"
        made = [_single(event, row) for row in about.values()]
        made = [one for one in made if one.suspect_id not in known or known[one.suspect_id].status is not one.status]
        for name, last in known.items():
            row = mine.get(name)
            if last.stands and (row is None or row.state not in OPEN):
                why = "" if row is None else row.resolution
                said = json.dumps({"resolution": why or str(Resolution.COMPACTED)})
                made.append(replace(last, status=FindingStatus.RESOLVED, evidence=said, decided_at=event.decided_at))
        made += [_over(event, row) for name, row in mine.items() if row.state is State.SHOWN and name not in known]
        known |= {one.suspect_id: one for one in made}
        return made

    def standing(self, event: Finding) -> list[Finding]:
        """What an event of an incident reports, after it was handed to `of`: all members that stand, new or not."""
        return [one for one in self.known[event.finding_id].values() if one.stands]


def _claim(row: MemberRow) -> Claim:
    """What the row of a member says, as a claim of the incident."""
    _, broker, kind, rule = row.group
    recorded = replace(row.claim.recorded, pivot=row.claim.pivot)
    return replace(row.claim, broker=broker, kind=kind, rule=rule, recorded=recorded)


def _counted_as(claim: Claim) -> object:
    """A key, or a record without one, or a transaction: by its end where that is known to be its own."""
    if claim.rule is not Rule.OUTCOME:
        return claim.key or claim.offset
    if claim.kind is FindingKind.VISIBILITY_MISMATCH or claim.marker_offset < 0:
        return claim.producer_id, "from", claim.transaction_start_offset
    return claim.producer_id, "to", claim.marker_offset


def _over(event: Finding, row: MemberRow) -> Finding:
    """The event of one that was over when it was found."""
    one = _single(event, row)
    said = json.loads(one.evidence) | {"resolution": str(Resolution.COMPACTED), "was_shown": True}
    return replace(one, status=FindingStatus.RESOLVED, evidence=json.dumps(said))


def _single(event: Finding, row: MemberRow) -> Finding:
    """The event that one member would have by itself.

    Who shows what is as a probe of it found, where the incident's event has that; else as the comparison had read it.
    """
    claim = _claim(row)
    recorded = claim.recorded.as_json()
    sides = recorded.get("sides", {})
    for proof in evidence_of(event).get("proofs", ()):
        if (proof["offset"], proof["key_hash"]) == (claim.offset, claim.key_text):
            sides = proof["sides"]
    evidence = {"recorded": recorded, "sides": sides, "pivot": claim.pivot}
    return replace(
        event,
        finding_id=f"{event.finding_id}:{claim.suspect_id}",
        status=_STATUS.get(row.state, event.status) if event.is_open else event.status,
        suspect_id=claim.suspect_id,
        offset=claim.offset,
        producer_id=claim.producer_id,
        transaction_start_offset=claim.transaction_start_offset,
        marker_offset=claim.marker_offset,
        key_hash_hi=claim.key_hash_hi,
        key_hash_lo=claim.key_hash_lo,
        evidence=json.dumps(evidence),
    )
