"""Makes and reads the events of incidents: many keys or transactions that one replica shows wrongly in one way.

An incident is a finding with an id of its own. Its evidence says how many members it counts and at what offsets. It
names some of them, and holds what the replicas answered about a few. The other members become known from the table
``suspects``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from parallax.findings.about import HAD_SPREAD, SAID, VARIANT
from parallax.findings.alike import meeting
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, as_json, claim_from_json
from parallax.findings.decide import Decision, Resolution
from parallax.findings.ended import NO_REPAIR, Repairs, incident_over
from parallax.findings.finding import (
    SHOWED,
    Finding,
    asked_ms,
    claim_of,
    evidence_of,
    has_spread,
    is_unsettled,
    showed_in,
)
from parallax.findings.internal_keys import key_as_text
from parallax.findings.members import OPEN, Array, MemberGroup, MemberRow, Members, State, count
from parallax.findings.onset import ONSETS, SINCE_EPOCH, Onset, noted, onsets_in, since_epoch
from parallax.findings.shown import Shown
from parallax.findings.summary import incident, variant_of_many
from parallax.findings.who_led import WhoLed
from parallax.kinds import KINDS, OUTCOME_KINDS, TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingStatus, Rule, Severity, id_of
from parallax.moments import from_milliseconds
from parallax.sides import as_document

SAMPLES = 16
"""At most so many members are named in an incident's evidence."""
PROOFS = 4
"""At most so many members are in an incident's evidence with what the replicas answered about them."""


@dataclass(frozen=True, slots=True)
class MemberProof:
    """The proof of one member: its claim, the decision of a probe, and the answers that prove it."""

    claim: Claim
    decision: Decision
    answers: Answers

    def meeting(self, accused: int) -> frozenset[int]:
        """Return the brokers whose consumers get what the accused shows of the member, if the broker leads.

        Args:
            accused: the accused of the group that counts the member; `NOBODY` for differences without direction.
        """
        return meeting(accused, self.claim, self.decision, self.answers)

    def as_json(self) -> dict[str, Any]:
        """Return the proof as values for JSON, in the form that an incident's evidence holds."""
        claim = self.claim
        named = {"offset": claim.offset, "key_hash": claim.key_text, "key": key_as_text(self.answers.key)}
        if claim.rule is Rule.OUTCOME:
            named |= {"producer_id": claim.producer_id, "transaction_start_offset": claim.transaction_start_offset}
        sides = as_document(self.decision.sides)
        return named | self.answers.evidence() | {"reason": self.decision.reason, "sides": sides}


@dataclass(frozen=True, slots=True)
class Tally:
    """How many members an incident counts, at which offsets, and what came of the other members.

    Attributes:
        count: how many keys, records without a key, or transactions are proven and still wrong.
        waiting: how many suspects of the same group have no verdict yet.
        ended: by `Resolution`, how many members are over.
        lowest: the lowest offset at which a member is wrong; -1 where none is.
        highest: the highest offset at which a member is wrong; -1 where none is.
        status: spread if all counted members have spread; unsettled if no replica is proven wrong any more in any of
            them, without proof of what is right; else confirmed.
        shown: how many members were over already when they were found: only recorded answers prove them.
        in_part: how many members findings explain in part. They are not counted until those findings have ended.
        on_all: whether some counted member has spread: every replica shows it wrongly, and so does the leader.
        of_others: whether some counted members were proven in another group, and the replicas agree about them by now.
            No probe of their own could prove them, so they stay an incident, however few they are.
        ``beside``: the brokers other than the accused that have shown the same as the accused for some member.
    """

    count: int = 0
    waiting: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    lowest: int = -1
    highest: int = -1
    status: FindingStatus = FindingStatus.CONFIRMED
    shown: int = 0
    in_part: int = 0
    on_all: bool = False
    of_others: bool = False
    beside: tuple[int, ...] = ()


def incident_id(cluster_id: str, group: MemberGroup) -> str:
    """Return the id of a group's incident, 32 hexadecimal digits; it is the same after each restart.

    Args:
        cluster_id: Kafka's id of the cluster.
        group: what the incident's members have in common.
    """
    place = group.place
    what = f"incident:{group.kind}" if group.rule is KINDS[group.kind].rule else f"incident:{group.kind}:{group.rule}"
    return id_of(cluster_id, place.topic, place.partition, group.broker, what)


def incident_event(
    finding_id: str,
    group: MemberGroup,
    tally: Tally,
    members: Members,
    proofs: Sequence[MemberProof],
    led: WhoLed,
    known: Finding | None,
    at: datetime,
    singles: Sequence[Finding] = (),
    repaired: Repairs = NO_REPAIR,
    *,
    shows: bool,
) -> Finding:
    """Make a new event of an incident, for the findings table.

    Args:
        finding_id: the incident's id (`incident_id`).
        group: what the incident's members have in common.
        tally: how many members it counts, and what came of the other members.
        members: the group's members, of which some are named in the evidence.
        proofs: proofs of single members, to be shown as examples; if empty, the proofs of the last event are kept.
        led: who led at the newest look at what the incident counts.
        known: the incident's last event; None for a new incident.
        at: when it was decided.
        singles: single findings that become part of the incident.
        repaired: what is on record of the incident's repairs.
        shows: whether that leader shows some of it as the accused does.
    """
    status = tally.status if tally.count else FindingStatus.RESOLVED
    before = {} if known is None else evidence_of(known)
    exposed = is_led(tally, shows=shows)
    leaders = {led.leader} - {NOBODY} if exposed and status is not FindingStatus.RESOLVED else set()
    showed = leaders | _showed(group, tally, proofs, (known, *singles))
    evidence: dict[str, Any] = {
        "incident": {
            "count": tally.count,
            "waiting": tally.waiting,
            "ended": dict(tally.ended),
            "lowest_offset": tally.lowest,
            "highest_offset": tally.highest,
            "offsets_ever": _ever(tally, known),
            "samples": [as_json(claim) for claim in _samples(members)],
            "shown": tally.shown,
            "in_part": tally.in_part,
            "beside": list(tally.beside),
            "led": led.as_json(),
        },
        "proofs": [proof.as_json() for proof in proofs[:PROOFS]] or before.get("proofs", []),
        VARIANT: str(variant_of_many(group)),
        SHOWED: sorted(showed),
        ONSETS: noted(_onsets(before, singles), showed, {}, at),
        SINCE_EPOCH: _since_epoch(group, members, known),
    }
    if status is FindingStatus.RESOLVED:
        had_spread = known is not None and has_spread(known)
        text, resolution = incident_over(group, _ended(tally), at, repaired, had_spread=had_spread)
        evidence |= {"resolution": resolution, HAD_SPREAD: had_spread, SAID: [*repaired.mended, *repaired.begun]}
        evidence |= {"repaired": True} if repaired.mended else {}
    else:
        text = incident(group, tally.count, (tally.lowest, tally.highest), tally.waiting, status, is_exposed=exposed)
        if status is FindingStatus.SPREAD:
            evidence["resolution"] = str(Resolution.SPREAD)
        elif status is FindingStatus.UNSETTLED:
            is_doubtful = members.are(State.DOUBTFUL).any()
            evidence["resolution"] = str(Resolution.DOUBTFUL if is_doubtful else Resolution.AGREED)
    suspected = from_milliseconds(int(members.rows["raised_at_ms"].min())) if len(members) else at
    return Finding(
        finding_id=finding_id,
        sequence=0,
        status=status,
        kind=group.kind,
        rule=group.rule,
        severity=Severity.WARNING if status is FindingStatus.UNSETTLED else KINDS[group.kind].severity,
        topic=group.place.topic,
        partition=group.place.partition,
        broker=group.broker,
        offset=tally.lowest if known is None or tally.count else known.offset,
        producer_id=-1,
        transaction_start_offset=-1,
        marker_offset=-1,
        key_hash_hi=0,
        key_hash_lo=0,
        key=None,
        summary=text,
        evidence=json.dumps(evidence, separators=(",", ":")),
        suspect_id="",
        first_suspected_at=suspected if known is None else min(suspected, known.first_suspected_at),
        decided_at=at,
        exposed=exposed,
    )


def _showed(
    group: MemberGroup, tally: Tally, proofs: Sequence[MemberProof], before: Iterable[Finding | None]
) -> frozenset[int]:
    """The brokers that any probe of a member so far has seen to show what the incident reports."""
    sides = [on for proof in proofs if group.broker == NOBODY for on in proof.decision.sides.values()]
    now = frozenset({group.broker, *tally.beside}) - {NOBODY}
    return now.union(*map(showed_in, before), *sides)


def _onsets(before: Mapping[str, Any], singles: Iterable[Finding]) -> dict[int, Onset]:
    """By broker, the first look that is on record at which it showed something that the incident reports.

    A finding that becomes part of the incident may know an earlier look than the incident's first. When a replica last
    showed otherwise is not taken from it: that look was at one key, and the replica may have shown others wrongly.
    """
    found = onsets_in(before)
    for single in singles:
        for broker, one in onsets_in(evidence_of(single)).items():
            known = found.get(broker, Onset())
            if one.by is not None and (known.by is None or one.by < known.by):
                found[broker] = known._replace(by=one.by)
    return found


def is_led(tally: Tally, *, shows: bool) -> bool:
    """Whether the leader shows its consumers something that an incident counts.

    It does if a counted member has spread. It does not if no replica is proven wrong in any of them any more.

    Args:
        tally: how many members the incident counts.
        shows: whether the leader shows some of them as the accused does.
    """
    if tally.on_all or tally.status is FindingStatus.UNSETTLED:
        return tally.on_all
    return shows


def group_of(finding: Finding) -> MemberGroup:
    """Return the group of a finding, made of its partition, accused, kind and rule."""
    return MemberGroup(finding.place, finding.broker, finding.kind, finding.rule)


def _since_epoch(group: MemberGroup, members: Members, known: Finding | None) -> int:
    """See `since_epoch`. The offset of what proves a member is the member's own, so the lowest has the lowest epoch."""
    before = None if known is None else evidence_of(known)
    if not len(members):
        return since_epoch(group.kind, [], before)
    lowest = members.claim(int(np.argmin(members.rows["offset"])))
    is_of_marker = group.kind in TRANSACTION_KINDS or group.kind in OUTCOME_KINDS
    return UNKNOWN if is_of_marker else since_epoch(group.kind, [lowest], before)


def _ever(tally: Tally, known: Finding | None) -> list[int]:
    """The lowest and the highest offset at which a member was ever wrong; empty where no member has been counted."""
    offsets = [offset for offset in (tally.lowest, tally.highest) if offset >= 0]
    offsets += wrong_offsets(known) if known is not None else ()
    return [min(offsets), max(offsets)] if offsets else []


def wrong_offsets(event: Finding) -> tuple[int, int] | tuple[()]:
    """Return the lowest and the highest offset at which a member of an incident was ever wrong.

    Members that are over count too. The result is empty if no member has been counted.
    """
    ever = evidence_of(event).get("incident", {}).get("offsets_ever")
    if ever is None:  # of an earlier version
        tally = tally_of(event)
        ever = [tally.lowest, tally.highest] if tally.lowest >= 0 else []
    return (int(ever[0]), int(ever[1])) if ever else ()


def tally_of(event: Finding) -> Tally:
    """Return the numbers about its members that an incident's event holds."""
    said = evidence_of(event).get("incident", {})
    return Tally(
        count=int(said.get("count", 0)),
        waiting=int(said.get("waiting", 0)),
        ended=dict(said.get("ended", {})),
        lowest=int(said.get("lowest_offset", -1)),
        highest=int(said.get("highest_offset", -1)),
        shown=int(said.get("shown", 0)),
        in_part=int(said.get("in_part", 0)),
        beside=tuple(int(broker) for broker in said.get("beside", ())),
    )


def examples(event: Finding) -> list[tuple[int, str | None]]:
    """Return some offsets at which an incident's members are wrong, each with its key, or None if that was not read.

    The result is empty for a single finding.
    """
    if not event.is_incident:
        return []
    evidence = evidence_of(event)
    keys = {int(proof["offset"]): proof["key"] for proof in evidence.get("proofs", [])}
    samples = [int(sample["offset"]) for sample in evidence.get("incident", {}).get("samples", [])]
    return [(offset, keys.get(offset)) for offset in samples or keys]


def decided(events: Iterable[Finding], members: Iterable[MemberRow] = ()) -> dict[str, int]:
    """Return by suspect id when the replicas gave the answers for the suspect's last verdict, ms since 1970 UTC.

    A job that starts does not ask about these suspects again.

    Args:
        events: events of the findings table, the oldest first.
        members: rows of the table ``members``, the oldest first.
    """
    found = {event.suspect_id: asked_ms(event) for event in events}
    for row in {one.key: one for one in members}.values():
        if row.is_decided:
            found[row.claim.suspect_id] = max(row.asked_ms, found.get(row.claim.suspect_id, 0))
    return found


def check_evidence(event: Finding) -> None:
    """Check that all code that reads an event's evidence can read it.

    Raises:
        ValueError: the evidence has another form.
    """
    try:
        if event.is_incident:
            tally_of(event), sampled(event), examples(event)
        else:
            claim_of(event)
    except (AttributeError, LookupError, TypeError, OverflowError, ValueError) as error:
        raise ValueError("its evidence is of another form than that of an event") from error


def sampled(event: Finding) -> list[Claim]:
    """Return the members that an incident's event names, as the claims of their suspects.

    The event names only some of the members that it counts.
    """
    return [claim_from_json(event.place, one) for one in evidence_of(event).get("incident", {}).get("samples", [])]


def shown_of(finding: Finding) -> list[Shown]:
    """Return what replicas showed of a finding. Of an incident it is one for each member with answers on record."""
    if not finding.is_incident:
        return [Shown.of(finding)]
    return [
        Shown.of(
            replace(
                finding,
                suspect_id=finding.finding_id,
                offset=int(proof["offset"]),
                producer_id=int(proof.get("producer_id", UNKNOWN)),
                transaction_start_offset=int(proof.get("transaction_start_offset", UNKNOWN)),
                evidence=json.dumps(proof),
            )
        )
        for proof in evidence_of(finding).get("proofs", [])
    ]


def answered_in(finding: Finding) -> frozenset[int]:
    """Return the brokers whose replicas answered the probe of a finding. Of an incident all probes on record count."""
    return frozenset.intersection(*some) if (some := [one.answered for one in shown_of(finding)]) else frozenset()


def part_of_incident(finding: Finding, incident_id: str, at: datetime) -> Finding:
    """Make the event that resolves a finding because an incident counts it and reports it from now on.

    Args:
        finding: the finding's last event.
        incident_id: the incident's id.
        at: when the finding becomes part of the incident.
    """
    evidence = evidence_of(finding) | {
        "resolution": str(Resolution.PART),
        "incident": incident_id,
        "spread": has_spread(finding),
        "unsettled": is_unsettled(finding),
    }
    return replace(
        finding,
        sequence=0,
        status=FindingStatus.RESOLVED,
        summary=f"Still open, as part of incident {incident_id}, which is reported in its place.",
        evidence=json.dumps(evidence, separators=(",", ":")),
        decided_at=at,
    )


def is_part_of_incident(event: Finding) -> bool:
    """Whether an event resolves a finding because the finding has become part of an incident."""
    return event.status is FindingStatus.RESOLVED and evidence_of(event).get("resolution") == Resolution.PART


def _ended(tally: Tally) -> Mapping[str, int]:
    """Return how all have ended, with those that were over when they were found."""
    compacted = str(Resolution.COMPACTED)
    return {**tally.ended, compacted: tally.ended.get(compacted, 0) + tally.shown} if tally.shown else tally.ended


def counted(group: MemberGroup, members: Members) -> Tally:
    """Count the members of a group for its incident: how many are wrong, and at which offsets.

    It also counts members that were over when they were found, and members that findings explain in part.
    """
    over = Tally(in_part=count(group, members.rows[members.are(State.IN_PART)]))
    if len(rows := members.rows[members.are(State.SHOWN)]):
        lowest, highest = int(rows["offset"].min()), int(rows["offset"].max())
        over = replace(over, lowest=lowest, highest=highest, shown=count(group, rows))
    rows = members.rows[members.are(*OPEN)]
    if not len(rows):
        return over
    statuses = {_STATUS.get(State(state), _OTHERWISE) for state in np.unique(rows["state"]).tolist()}
    return replace(
        over,
        count=count(group, rows),
        lowest=int(rows["offset"].min()),
        highest=int(rows["offset"].max()),
        on_all=bool((rows["state"] == State.SPREAD).any()),
        of_others=bool((rows["freed"] & np.isin(rows["state"], list(_STATUS))).any()),
        status=statuses.pop() if len(statuses) == 1 else _OTHERWISE,
    )


_OTHERWISE = FindingStatus.CONFIRMED
_STATUS = {
    State.SPREAD: FindingStatus.SPREAD,
    State.UNSETTLED: FindingStatus.UNSETTLED,
    State.DOUBTFUL: FindingStatus.UNSETTLED,
}
"""The status of an incident whose members all give it the same. Any other one is confirmed."""


def _samples(members: Members) -> list[Claim]:
    """Return some of the wrong members, spread evenly over the offsets; else some that were wrong.

    Members that may count again come before those that were over when they were found.
    """
    wrong: Array = np.flatnonzero(members.are(*OPEN))
    for state in (State.IN_PART, State.SHOWN):
        wrong = wrong if len(wrong) else np.flatnonzero(members.are(state))
    by_offset = wrong[np.argsort(members.rows["offset"][wrong], kind="stable")]
    if not len(by_offset):
        return []
    return members.claims(by_offset[np.unique(np.linspace(0, len(by_offset) - 1, SAMPLES).astype(np.int64))])
