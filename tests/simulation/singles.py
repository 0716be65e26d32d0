"""What incidents say, as findings of single keys and transactions: the properties hold of them as of any other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from parallax.findings.claim import Claim
from parallax.findings.decide import Resolution
from parallax.findings.finding import Finding, evidence_of
from parallax.findings.incident import tally_of
from parallax.model import FindingKind, FindingStatus, Rule


@dataclass
class Singles:
    """Fed with the events of incidents, each with the members that stand.

    Attributes:
        known: by incident and member, the last event that was reported of the member.
    """

    known: dict[str, dict[str, Finding]] = field(default_factory=dict)

    def of(
        self,
        event: Finding,
        members: Iterable[Claim],
        shown: Iterable[Claim] = (),
        ended: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Finding]:
        """The single events that the event of an incident stands for.

        Args:
            event: of the incident.
            members: what it counts.
            shown: what was over when it was found.
            ended: by suspect, why a member is not wrong any more.
        """
        counted = {claim.suspect_id: claim for claim in members}
        tally = tally_of(event)
        about: dict[object, Claim] = {}
        for claim in sorted(counted.values(), key=lambda claim: claim.begins_at):
            about.setdefault(_counted_as(claim), claim)  # What one end marker ended is one, from its first record on.
        standing = {claim.suspect_id: claim for claim in about.values()}
        assert tally.count == len(about), f"an incident must count what is wrong: {tally.count}, not {set(about)}"
        known = self.known.setdefault(event.finding_id, {})
        made = []
        for name, claim in standing.items():
            if name not in known or known[name].status is not event.status:
                made.append(_single(event, claim))
        for name, last in known.items():
            if name not in counted and last.stands:
                said = json.dumps({"resolution": ended.get(name) or str(Resolution.COMPACTED)})
                made.append(replace(last, status=FindingStatus.RESOLVED, evidence=said, decided_at=event.decided_at))
        over = {claim.suspect_id: claim for claim in shown if claim.suspect_id not in counted}
        made += [_over(event, claim) for name, claim in over.items() if name not in known]
        known |= {one.suspect_id: one for one in made}
        return made


def _counted_as(claim: Claim) -> object:
    """A key, or a record without one, or a transaction: by its end where that is known to be its own."""
    if claim.rule is not Rule.OUTCOME:
        return claim.key or claim.offset
    if claim.kind is FindingKind.VISIBILITY_MISMATCH or claim.marker_offset < 0:
        return claim.producer_id, "from", claim.transaction_start_offset
    return claim.producer_id, "to", claim.marker_offset


def _over(event: Finding, claim: Claim) -> Finding:
    """The event of one that was over when it was found."""
    one = _single(event, claim)
    said = json.loads(one.evidence) | {"resolution": str(Resolution.COMPACTED), "was_shown": True}
    return replace(one, status=FindingStatus.RESOLVED, evidence=json.dumps(said))


def _single(event: Finding, claim: Claim) -> Finding:
    """The event that one member would have by itself.

    Who shows what is as a probe of it found, where the incident's event has that; else as the comparison had read it.
    """
    recorded = claim.recorded.as_json()
    sides = recorded.get("sides", {})
    for proof in evidence_of(event).get("proofs", ()):
        if (proof["offset"], proof["key_hash"]) == (claim.offset, claim.key_text):
            sides = proof["sides"]
    evidence = {"recorded": recorded, "sides": sides, "pivot": claim.pivot}
    return replace(
        event,
        finding_id=f"{event.finding_id}:{claim.suspect_id}",
        suspect_id=claim.suspect_id,
        offset=claim.offset,
        producer_id=claim.producer_id,
        transaction_start_offset=claim.transaction_start_offset,
        marker_offset=claim.marker_offset,
        key_hash_hi=claim.key_hash_hi,
        key_hash_lo=claim.key_hash_lo,
        evidence=json.dumps(evidence),
    )
