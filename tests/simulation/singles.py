"""What incidents say, as findings of single keys: so that the properties hold of them as of any other."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from parallax.findings.claim import Claim
from parallax.findings.decide import Resolution
from parallax.findings.finding import Finding
from parallax.findings.incident import tally_of
from parallax.model import FindingStatus


@dataclass
class Singles:
    """Fed with the events of incidents, each with the members that stand.

    Attributes:
        known: by incident and member, the last event that was reported of the member.
    """

    known: dict[str, dict[str, Finding]] = field(default_factory=dict)

    def of(self, event: Finding, members: Iterable[Claim]) -> list[Finding]:
        """The events of single keys that the event of an incident stands for."""
        standing = {claim.suspect_id: claim for claim in members}
        tally = tally_of(event)
        about = {claim.key or claim.offset for claim in standing.values()}
        assert tally.count == len(about), f"an incident must count what is wrong: {tally.count}, not {about}"
        known = self.known.setdefault(event.finding_id, {})
        made = []
        for name, claim in standing.items():
            if name not in known or known[name].status is not event.status:
                made.append(_single(event, claim))
        only_healed = set(tally.ended) <= {str(Resolution.HEALED)}
        ended = json.dumps({"resolution": str(Resolution.HEALED if only_healed else Resolution.COMPACTED)})
        for name, last in known.items():
            if name not in standing and last.stands:
                made.append(replace(last, status=FindingStatus.RESOLVED, evidence=ended, decided_at=event.decided_at))
        known |= {one.suspect_id: one for one in made}
        return made


def _single(event: Finding, claim: Claim) -> Finding:
    """The event that one member would have by itself."""
    recorded = claim.recorded.as_json()
    evidence = {"recorded": recorded, "sides": recorded.get("sides", {}), "pivot": claim.pivot}
    return replace(
        event,
        finding_id=f"{event.finding_id}:{claim.suspect_id}",
        suspect_id=claim.suspect_id,
        offset=claim.offset,
        producer_id=claim.producer_id,
        marker_offset=claim.marker_offset,
        key_hash_hi=claim.key_hash_hi,
        key_hash_lo=claim.key_hash_lo,
        evidence=json.dumps(evidence),
    )
