"""One event in the life of a finding, and what can be read from its evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from parallax.findings import onset
from parallax.findings.about import HAD_SPREAD, KEPT, OLDER_OVER, SAID, SEEN_SAID, SHOWN, VARIANT, record_offset
from parallax.findings.alike import beside, is_exposed, variant_of
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import Decision, Resolution, differed
from parallax.findings.decide.case import UNSETTLED
from parallax.findings.effect import remembered
from parallax.findings.ended import NO_REPAIR, EndText, Repairs, dismissed, resolved
from parallax.findings.proving import PROVEN_BY, ProvingRecord
from parallax.findings.summary import blocked_at, spread, summary, unsettled
from parallax.kinds import (
    KEY_KINDS,
    KINDS,
    TOMBSTONE_KINDS,
    Effect,
    Variant,
    effect_of,
)
from parallax.model import NOBODY, UNKNOWN, FindingKind, FindingStatus, Rule, Severity, TopicPartition
from parallax.moments import from_milliseconds, milliseconds
from parallax.sides import Side, as_document, parsed, standing

SHOWED = "showed"
"""Key in an event's evidence: the brokers that were ever seen to show what the finding reports, sorted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One event of the findings table; the last event of an id is that finding's present state.

    Its fields are the columns of `parallax.findings.table.SCHEMA`.

    Attributes:
        sequence: number of the event in the table, from 1; 0 until the event is appended.
        evidence: as JSON, what each broker answered to the probe, and what the views had recorded of each replica.
        broker: the accused; `NOBODY` for a difference without direction.
        suspect_id: id of the suspect that led to the finding; empty for an incident.
        exposed: whether consumers of the leader meet the divergence: the accused leads, or a replica that shows the
            same. Without direction it is whether a replica of any side leads. It is True if the finding has spread.
    """

    finding_id: str
    sequence: int
    status: FindingStatus
    kind: FindingKind
    rule: Rule
    severity: Severity
    topic: str
    partition: int
    broker: int
    offset: int
    producer_id: int
    transaction_start_offset: int
    marker_offset: int
    key_hash_hi: int
    key_hash_lo: int
    key: bytes | None
    summary: str
    evidence: str
    suspect_id: str
    first_suspected_at: datetime
    decided_at: datetime
    exposed: bool

    @property
    def place(self) -> TopicPartition:
        """The partition that the finding is about."""
        return TopicPartition(self.topic, self.partition)

    @property
    def record_offset(self) -> int:
        """The offset of the record that the finding is about (`parallax.findings.about`)."""
        places = (self.offset, self.transaction_start_offset, self.marker_offset)
        return record_offset(self.kind, self.broker, places, evidence_of(self))

    @property
    def accused_key(self) -> tuple[int, int] | None:
        """The hash of the key whose value the accused shows wrongly, as the finding says.

        It is in two halves. None for any other finding.
        """
        is_accusing = self.kind in KEY_KINDS and self.broker != NOBODY
        return (self.key_hash_hi, self.key_hash_lo) if is_accusing else None

    @property
    def is_incident(self) -> bool:
        """Whether the finding is an incident, which counts many keys or transactions (`parallax.findings.incident`)."""
        return not self.suspect_id

    @property
    def is_open(self) -> bool:
        """Whether the finding alarms: it is not over, and nobody has acknowledged it.

        Texts also call an acknowledged finding open as long as it is not over. For that, see `stands`.
        """
        return self.status in (FindingStatus.CONFIRMED, FindingStatus.SPREAD, FindingStatus.UNSETTLED)

    @property
    def stands(self) -> bool:
        """Whether the divergence is not over, so that the finding is checked again. It may be acknowledged."""
        return self.is_open or self.status is FindingStatus.ACKNOWLEDGED

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Finding:
        """Return the event in a row of the findings table, as pyarrow gives it.

        Raises:
            ValueError: this version does not know the row's status, kind, rule or severity.
        """
        values = {f.name: row[f.name] for f in fields(cls)}
        values["status"] = FindingStatus(row["status"])
        values["kind"] = FindingKind(row["kind"])
        values["rule"] = Rule(row["rule"])
        values["severity"] = Severity(row["severity"])
        return cls(**values)


def made(
    finding_id: str,
    status: FindingStatus,
    claim: Claim,
    decision: Decision,
    answers: Answers,
    known: Finding | None,
    at: datetime,
    *,
    leans_on: Sequence[str] = (),
    left: Mapping[str, Any] | None = None,
    repaired: Repairs = NO_REPAIR,
    otherwise: Mapping[int, datetime] | None = None,
) -> Finding:
    """Make a new event of a single finding (no incident), for the findings table.

    Args:
        finding_id: the finding's id. An event that dismisses a suspect has the suspect's id, if a finding reports the
            suspect already: otherwise it would end that finding.
        status: what the event says, e.g. confirmed or resolved.
        claim: the claim that was judged.
        decision: the decision on the claim.
        answers: the answers that the decision follows from; they become the evidence.
        known: the finding's last event; None for a new finding.
        at: when it was decided.
        leans_on: ids of the findings that explain the suspect, if it is dismissed for that.
        left: for a finding that has ended: what is still to be judged about other replicas (`parallax.findings.left`).
        repaired: for a finding that has ended: what is on record of its repairs (`parallax.findings.ended.resolved`).
        otherwise: by broker, the last look before this one at which it showed otherwise than the accused.
    """
    claim = _of_the_cut(_of_the_tombstone(claim, decision, answers), answers)
    suspected = from_milliseconds(claim.raised_at_ms)
    accused = decision.accused if status is FindingStatus.CONFIRMED else claim.broker
    exposed = _is_exposed(status, accused, claim, decision, answers)
    recorded = _recorded(claim, decision, answers, status).as_json()
    evidence = answers.evidence() | {"reason": decision.reason, "recorded": recorded}
    asked, showing = onset.asked_at(answers, at), _showing(status, claim, decision, answers)
    evidence[SHOWED] = sorted(showed_in(known) | showing)
    evidence |= _proven_by(status, decision, known)
    leader = {answers.leader} - {NOBODY} if exposed and status is FindingStatus.CONFIRMED else set()
    seen = dict(otherwise or {}) | dict.fromkeys(onset.showing_otherwise(claim, decision, answers) - showing, asked)
    before = None if known is None else evidence_of(known)
    evidence[onset.ONSETS] = onset.noted(onset.onsets_in(before or {}), showing | leader, seen, asked)
    evidence[onset.SINCE_EPOCH] = onset.since_epoch(decision.kind, [claim], before)
    variant = _variant(status, claim, decision, answers, known)
    if known is not None and status in (FindingStatus.UNSETTLED, FindingStatus.RESOLVED):
        evidence |= {KEPT: known.record_offset, SHOWN: shown_offset(known)}
    if leans_on:
        evidence["leans_on"] = list(leans_on)
    if status is FindingStatus.CONFIRMED:
        text = summary(claim, decision, answers)
        if (blocked := blocked_at(claim, decision, answers)) is not None:
            evidence["blocked_at"] = blocked
        evidence["pivot"] = claim.pivot
        evidence["sides"] = as_document(decision.sides)
        if accused != NOBODY and known is not None and known.broker == accused and has_compared_all(known):
            # It stays proven when a replica goes away.
            evidence["all_compared"] = True
    elif status is FindingStatus.SPREAD:
        text = spread(claim, decision, variant)
        evidence["resolution"] = str(decision.resolution)
    elif status is FindingStatus.UNSETTLED:
        text = unsettled(claim, decision)
        evidence["resolution"] = str(decision.resolution)
    elif status is FindingStatus.RESOLVED:
        end = resolved(claim, decision, answers, repaired, variant, evidence.get(SHOWN, claim.first_offset))
        text = end.text
        evidence |= _of_the_end(claim, decision, end, is_repaired=bool(repaired.mended)) | dict(left or {})
    else:
        text = dismissed(decision, answers)
    if variant:
        evidence[VARIANT] = str(variant)
    return Finding(
        finding_id=finding_id,
        sequence=0,
        status=status,
        kind=decision.kind,
        rule=claim.rule_of(decision.kind),
        severity=Severity.WARNING if status is FindingStatus.UNSETTLED else KINDS[decision.kind].severity,
        topic=claim.topic,
        partition=claim.partition,
        broker=accused,
        offset=claim.offset,
        producer_id=claim.producer_id,
        transaction_start_offset=claim.transaction_start_offset,
        marker_offset=claim.marker_offset,
        key_hash_hi=claim.key_hash_hi,
        key_hash_lo=claim.key_hash_lo,
        key=answers.key if answers.key is not None or known is None else known.key,
        summary=text,
        evidence=json.dumps(evidence, separators=(",", ":")),
        suspect_id=claim.suspect_id,
        first_suspected_at=suspected if known is None else min(suspected, known.first_suspected_at),
        decided_at=at,
        exposed=exposed,
    )


def _proven_by(status: FindingStatus, decision: Decision, known: Finding | None) -> dict[str, Any]:
    """Return the evidence of what proves a finding. Once every replica is wrong, it stays what it was."""
    proof = proof_in(known) if status is FindingStatus.SPREAD and known is not None else decision.proven_by
    return {} if proof is None else {PROVEN_BY: proof.as_json()}


def proof_in(finding: Finding) -> ProvingRecord | None:
    """Return the record that proves a finding, by its evidence; None where that names none."""
    said = evidence_of(finding).get(PROVEN_BY)
    return None if said is None else ProvingRecord.parse(said)


def _variant(status: FindingStatus, claim: Claim, decision: Decision, answers: Answers, known: Finding | None) -> str:
    """Return what an event is about: what a confirming probe shows; otherwise it stays what it was."""
    if known is None or status is FindingStatus.CONFIRMED:
        return variant_of(claim, decision, answers)
    return variant_in(known)


def _of_the_end(claim: Claim, decision: Decision, end: EndText, *, is_repaired: bool) -> dict[str, Any]:
    """Return the evidence of a resolved finding, in addition to the replicas' answers."""
    said: dict[str, Any] = {"resolution": str(decision.resolution)}
    said |= {SEEN_SAID: end.is_seen_said, SAID: list(end.repairs)}
    if claim.spread:
        said[HAD_SPREAD] = True
    if end.is_older_over:
        said[OLDER_OVER] = True
    if decision.in_part:
        said["explained_in_part"] = True
    if decision.was_shown:
        said["sides"] = as_document(decision.sides)
        said["was_shown"] = True
    if is_repaired:
        said["repaired"] = True
    return said


def _of_the_tombstone(claim: Claim, decision: Decision, answers: Answers) -> Claim:
    """Return the claim on a value as one on the tombstone that proves it.

    When a finding that a deleted record is back is checked again, its offset is taken as the tombstone's.
    """
    proof = decision.proven_by
    if decision.kind not in TOMBSTONE_KINDS or proof is None or proof.offset == claim.offset:
        return claim
    recorded = replace(
        claim.recorded,
        leader_epoch=proof.leader_epoch,
        end_epoch=UNKNOWN,
        record_shown_by=proof.shown_on,
        record_read_ms=answers.asked_at_ms or UNKNOWN,
    )
    return replace(
        claim,
        offset=proof.offset,
        producer_id=UNKNOWN,
        transaction_start_offset=UNKNOWN,
        marker_offset=UNKNOWN,
        recorded=recorded,
    )


def _of_the_cut(claim: Claim, answers: Answers) -> Claim:
    """Return the claim on a truncated log, at the offset where the leader epoch that was read ends now.

    The reader may have noticed it only by the log's end, which had grown by then. Or the log was truncated again since.
    """
    accused = answers.replicas.get(claim.broker)
    end = None if accused is None else accused.epoch_ends.get(claim.lost_epoch)
    return claim if end is None or end >= claim.offset else replace(claim, offset=end)


def _recorded(claim: Claim, decision: Decision, answers: Answers, status: FindingStatus) -> RecordedByViews:
    """Return what is remembered of the replicas from now on; without direction also where each stood first."""
    recorded = remembered(claim, decision, answers)
    if status is FindingStatus.CONFIRMED or (status is FindingStatus.UNSETTLED and recorded.differed is None):
        recorded = replace(recorded, differed=differed(claim, answers))
    if status is FindingStatus.CONFIRMED and decision.accused != NOBODY:
        return replace(recorded, beside=tuple(sorted(beside(claim, decision, answers))))
    if status is not FindingStatus.CONFIRMED:
        return recorded
    sides = {side: set(brokers) for side, brokers in recorded.sides.items()}
    known = standing(recorded.sides)
    for side, brokers in decision.sides.items():
        sides.setdefault(side, set()).update(set(brokers) - known)
    stood = {side: tuple(sorted(brokers)) for side, brokers in sides.items() if brokers}
    return replace(recorded, sides=stood, pivot=claim.pivot)


def _showing(status: FindingStatus, claim: Claim, decision: Decision, answers: Answers) -> frozenset[int]:
    """The brokers that a probe has seen to show what a finding reports; without direction, those of all sides."""
    if status is FindingStatus.SPREAD:
        return frozenset(broker for broker, answer in answers.replicas.items() if answer.error is None)
    if status is not FindingStatus.CONFIRMED:
        return frozenset()
    if decision.accused == NOBODY:
        return frozenset().union(*decision.sides.values())
    return beside(claim, decision, answers) | {decision.accused}


def showed_in(known: Finding | None) -> frozenset[int]:
    """Return the brokers that any probe so far has seen to show what a finding reports, by its last event.

    Events of an earlier version name only the accused, and the broker that led.
    """
    if known is None:
        return frozenset()
    evidence = evidence_of(known)
    leader = int(evidence.get("leader", NOBODY)) if known.exposed and known.stands else NOBODY
    return frozenset({*evidence.get(SHOWED, ()), known.broker, leader}) - {NOBODY}


def _is_exposed(status: FindingStatus, accused: int, claim: Claim, decision: Decision, answers: Answers) -> bool:
    if status in (FindingStatus.SPREAD, FindingStatus.UNSETTLED):
        return status is FindingStatus.SPREAD
    return is_exposed(accused, claim, decision, answers)


def evidence_of(finding: Finding) -> dict[str, Any]:
    """Return the evidence of an event, parsed from JSON; empty if the event has none."""
    document: dict[str, Any] = json.loads(finding.evidence or "{}")
    return document


def has_spread(finding: Finding) -> bool:
    """Whether the finding has spread: at the last probe every replica was wrong in the same way."""
    if finding.status is FindingStatus.ACKNOWLEDGED:
        return bool(evidence_of(finding).get("resolution") == Resolution.SPREAD)
    return finding.status is FindingStatus.SPREAD


def was_spread(finding: Finding) -> bool:
    """Whether the finding is over because what had spread to every replica was overwritten.

    Each replica may still hold what was wrong. So it is asked about as a loss that has spread, and is open again only
    if that is shown again.
    """
    evidence = evidence_of(finding)
    is_overwritten = evidence.get(HAD_SPREAD) is True and evidence.get("resolution") == Resolution.SUPERSEDED
    return finding.status is FindingStatus.RESOLVED and is_overwritten


def is_unsettled(finding: Finding) -> bool:
    """Whether the finding is unsettled: the last probe proved no replica wrong any more, nor all right."""
    if finding.status is FindingStatus.ACKNOWLEDGED:
        return evidence_of(finding).get("resolution") in UNSETTLED
    return finding.status is FindingStatus.UNSETTLED


def is_proof_past(finding: Finding) -> bool:
    """Whether the finding has spread or is unsettled: nothing proves one replica wrong against another any more.

    Then a new proof says more than the finding.
    """
    return has_spread(finding) or is_unsettled(finding)


def is_shared(finding: Finding) -> bool:
    """Whether no election and no copy changes a finding, because all replicas show the same.

    Either all are wrong. Or nobody knows whether they are, and a person has acknowledged that.
    """
    return has_spread(finding) or (finding.status is FindingStatus.ACKNOWLEDGED and are_alike(finding))


def are_alike(finding: Finding) -> bool:
    """Whether the finding is unsettled because all replicas show the same by now; they may be wrong alike."""
    return is_unsettled(finding) and evidence_of(finding).get("resolution") == Resolution.AGREED


def has_proven_direction(finding: Finding) -> bool:
    """Whether a finding accuses a replica by proof, and its evidence names the brokers on each side.

    False for events of old versions, which accused by majority and recorded no sides.
    """
    return finding.broker != NOBODY and "sides" in evidence_of(finding)


def has_compared_all(finding: Finding) -> bool:
    """Whether a probe of a finding found every replica on one of two sides: the accused's or the other one.

    If not, some replica's answer was unknown or put it on a third side. Then the proof against the accused clears no
    other replica.
    """
    return _has_compared_all(evidence_of(finding))


def _has_compared_all(evidence: Mapping[str, Any]) -> bool:
    sides = parsed(evidence.get("sides"))
    is_now = len(sides) == 2 and standing(sides) == {int(broker) for broker in evidence.get("replicas", {})}
    return is_now or evidence.get("all_compared") is True


def is_blocking(finding: Finding) -> bool:
    """Whether the evidence says that the accused's last stable offset also holds back its read_committed consumers."""
    return evidence_of(finding).get("blocked_at") is not None


def sides_of(finding: Finding) -> dict[Side, tuple[int, ...]]:
    """Return by side the brokers that showed the same when the event was decided; empty where unknown."""
    return parsed(evidence_of(finding).get("sides"))


def meeting_of(finding: Finding) -> frozenset[int]:
    """Return the brokers whose consumers get what a finding reports, if the broker leads, by its last event.

    Empty if the replicas agree again. If every replica is wrong, all of them do; they are not named here.
    """
    if finding.status is FindingStatus.UNSETTLED:
        return frozenset()
    sides = [side for side in sides_of(finding).values() if finding.broker in (NOBODY, *side)]
    leader = evidence_of(finding).get("leader", NOBODY) if finding.exposed else NOBODY
    return frozenset({finding.broker, leader, *claim_of(finding).recorded.beside}.union(*sides)) - {NOBODY}


def was_only_shown(finding: Finding) -> bool:
    """Whether a finding was over when it was first reported, because only recorded answers prove it.

    It is not checked again, because no replica shows it any more.
    """
    return finding.status is FindingStatus.RESOLVED and bool(evidence_of(finding).get("was_shown"))


def is_gone(finding: Finding) -> bool:
    """Whether a finding was resolved because its topic, partition or replica is gone for good."""
    return finding.status is FindingStatus.RESOLVED and evidence_of(finding).get("resolution") == Resolution.GONE


def was_explained(finding: Finding) -> bool:
    """Whether a finding was resolved because another finding is its cause and reports the same divergence."""
    resolution = evidence_of(finding).get("resolution")
    return finding.status is FindingStatus.RESOLVED and bool(resolution == Resolution.EXPLAINED)


def is_reported_elsewhere(finding: Finding) -> bool:
    """Whether a finding was resolved because another finding, or an incident, reports the same divergence."""
    is_part = evidence_of(finding).get("resolution") == Resolution.PART
    return was_explained(finding) or (finding.status is FindingStatus.RESOLVED and is_part)


def was_explained_in_part(finding: Finding) -> bool:
    """Whether a finding was resolved because other findings explain a part of it, but not the whole."""
    return was_explained(finding) and evidence_of(finding).get("explained_in_part") is True


def effect_in(finding: Finding) -> Effect:
    """Return the words on what a finding means, for its title and its explanation.

    They are those of the finding's own sentence. Where every replica shows it, or did, they say that.
    """
    effect = effect_of(finding.kind, variant_in(finding))
    return effect.on_all if has_spread(finding) or evidence_of(finding).get(HAD_SPREAD) else effect


def variant_in(finding: Finding) -> str:
    """Return the `Variant` of its kind that a finding's evidence names; empty where it names none."""
    return str(evidence_of(finding).get(VARIANT, ""))


_SHOWN_ELSEWHERE = (Variant.UNDELETED, Variant.OLDER, Variant.DELETED, Variant.TAKEN)


def is_shown_elsewhere(finding: Finding) -> bool:
    """Whether consumers of the accused meet another record of the key than the finding's own."""
    return variant_in(finding) in _SHOWN_ELSEWHERE


def shown_offset(finding: Finding) -> int:
    """Return the offset at which the replicas can be seen to differ, for the commands that show it.

    It is that of the finding's own record, with one exception. If consumers of the accused meet another record of the
    key, and no replica holds the own one any more, it is the offset of the record that they meet, if known. A finding
    that is over or unsettled keeps the offset that it had before. Of an incident it is that of one of its members.
    """
    own, evidence = finding.record_offset, evidence_of(finding)
    if finding.is_incident:
        # Its own offset may be that of a deletion. A proof of a member says what the accused showed of its key.
        proofs = evidence.get("proofs", ())
        return record_offset(finding.kind, finding.broker, (proofs[0]["offset"],), proofs[0]) if proofs else own
    if isinstance(kept := evidence.get(SHOWN), int):
        return kept
    replicas = evidence.get("replicas", {})
    shown = (replicas.get(str(finding.broker), {}).get("key") or {}).get("visible")
    held = {one["offset"] for answer in replicas.values() for name in _RECORDS for one in answer.get(name, ())}
    return own if own in held or not shown or not is_shown_elsewhere(finding) else int(shown["offset"])


_RECORDS = ("committed", "uncommitted")
"""Fields of a replica's answers that hold its records at the offsets asked for."""


Repaired = Callable[[Finding], Repairs]
"""Returns what is on record of a finding's repairs."""


def never_repaired(_: Finding) -> Repairs:
    """Return that no repair is on record."""
    return NO_REPAIR


def claim_of(finding: Finding) -> Claim:
    """Return a finding's claim, made from its last event, for a probe that checks the finding again."""
    evidence = evidence_of(finding)
    recorded = evidence.get("recorded", {})
    if finding.broker == NOBODY and not recorded.get("sides"):
        # The suspect accused somebody, and the verdict did not: what was recorded lacks who is asked last.
        recorded = {**recorded, "sides": evidence.get("sides"), "pivot": evidence.get("pivot")}
    return Claim(
        suspect_id=finding.suspect_id,
        rule=finding.rule,
        kind=FindingKind(finding.kind),
        topic=finding.topic,
        partition=finding.partition,
        broker=finding.broker,
        offset=finding.offset,
        producer_id=finding.producer_id,
        transaction_start_offset=finding.transaction_start_offset,
        marker_offset=finding.marker_offset,
        key_hash_hi=finding.key_hash_hi,
        key_hash_lo=finding.key_hash_lo,
        recorded=RecordedByViews.of(recorded),
        raised_at_ms=milliseconds(finding.first_suspected_at),
        spread=has_spread(finding) or was_spread(finding),
        all_compared=finding.broker == NOBODY or _has_compared_all(evidence),
        confirmed_at_ms=milliseconds(finding.decided_at),
        ended=finding.status is FindingStatus.RESOLVED,
    )


def asked_at(finding: Finding) -> datetime:
    """Return when the replicas gave the answers that an event holds; if unknown, when the event was decided."""
    asked: int = evidence_of(finding).get("asked_at_ms") or 0
    return from_milliseconds(asked) if asked > 0 else finding.decided_at


def asked_ms(finding: Finding) -> int:
    """Return when the replicas gave the answers that ended a finding, milliseconds since 1970 UTC.

    If the finding is not over, it is the time of the event.
    """
    decided = milliseconds(finding.decided_at)
    asked: int = 0 if finding.stands else evidence_of(finding).get("asked_at_ms", 0)
    return min(asked, decided) if asked > 0 else decided


def leans_on(finding: Finding) -> tuple[str, ...]:
    """Return the ids of the findings that explain a dismissed suspect; empty for any other event."""
    if finding.status is not FindingStatus.DISMISSED:
        return ()
    found = evidence_of(finding).get("leans_on")
    named = found if isinstance(found, list) else [found]
    return tuple(name for name in named if isinstance(name, str))


def current(events: Iterable[Finding]) -> dict[str, Finding]:
    """Return the last event of each finding by id, in the order in which the ids first appear.

    If something was confirmed under an id, a later dismissal under the same id is left out, because dismissing a
    suspect does not end a finding.

    Args:
        events: events of the findings table, in the table's order.
    """
    standing: dict[str, Finding] = {}
    for event in events:
        known = standing.get(event.finding_id)
        if event.status is not FindingStatus.DISMISSED or known is None or known.status is FindingStatus.DISMISSED:
            standing[event.finding_id] = event
    return standing
