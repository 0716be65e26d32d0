"""What the product tells of a simulated partition, in the words of properties.py; the only place that knows both."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from parallax.compare.rules.outcome import open_disputes
from parallax.compare.state import PartitionState
from parallax.compare.suspect import Coverage
from parallax.findings.decide import Resolution
from parallax.findings.explain import explain
from parallax.findings.finding import Finding, claim_of, evidence_of, has_spread, was_only_shown
from parallax.findings.shown import Shown
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus, Rule, UnknownReason
from tests.reasons import UNTIL_AUDITED
from tests.simulation.advice import Advice, conditional, read
from tests.simulation.audits import settled
from tests.simulation.content import key_of_halves
from tests.simulation.monitor import RECHECK_S, Monitor
from tests.simulation.properties import Ended, Said, Unknown
from tests.simulation.readers import RC, RU


def said(event: Finding, others: Iterable[Finding] = ()) -> Said:
    """What an event of the findings table says.

    Args:
        event: of the table.
        others: events among which there is one of the same finding that names its sides, if this one does not.
    """
    claim = claim_of(event)
    nobody = event.broker == NOBODY
    return Said(
        kind=str(event.kind),
        accused=None if nobody else event.broker,
        sides=_sides([event, *(e for e in others if e.finding_id == event.finding_id)]) if nobody else frozenset(),
        about=_about(event),
        producer_id=event.producer_id,
        start=event.transaction_start_offset,
        offset=claim.first_offset,
        key=None if claim.key is None else key_of_halves(*claim.key),
        marker=event.marker_offset,
        alike=_alike(event),
        everywhere=event.status in (FindingStatus.SPREAD, FindingStatus.UNSETTLED),
        many=event.is_incident,
        epoch=claim.lost_epoch,
    )


def advice(event: Finding, others: Iterable[Finding] = ()) -> Advice:
    """What is printed for an operator of an event of the findings table.

    Args:
        event: of a finding that stands.
        others: the last events of those that stand beside it.
    """
    explained = explain(event, others)
    steps = [(step.only_where_right, step.text, step.run) for step in explained.steps]
    anyway = [text for only, text, _ in steps if only is None]
    sentences = [explained.now, explained.after, explained.right, explained.may_lead, *anyway]
    assignments = [text for text in (explained.away, explained.back) if text is not None]
    return read(sentences, assignments, exposed=event.exposed, only=conditional(steps))


def _cut_since(monitor: Monitor, event: Finding) -> frozenset[int]:
    before, offset = monitor.cuts_before[event.finding_id], claim_of(event).first_offset
    return frozenset(
        broker
        for broker, (cuts, start) in monitor.cluster.lost_so_far().items()
        if cuts > before.get(broker, (0, 0))[0] or start > max(offset, before.get(broker, (0, 0))[1])
    )


def _sides(events: Iterable[Finding]) -> frozenset[int]:
    sides = [json.loads(event.evidence or "{}").get("sides", {}) for event in events]
    return frozenset(int(broker) for side in sides for brokers in side.values() for broker in brokers)


def _alike(event: Finding) -> frozenset[int]:
    """Whom a finding that accuses a replica says to show the same value of its key."""
    if event.broker == NOBODY or event.is_incident:
        return frozenset()
    if _about(event) == "transaction":
        return Shown.of(event).beside
    if _about(event) != "key":
        return frozenset()
    sides = evidence_of(event).get("sides", {}).items()
    return frozenset(b for text, side in sides if text.startswith("value") and event.broker in side for b in side)


def _about(event: Finding) -> str:
    if event.kind is FindingKind.LOG_TRUNCATED:
        return "cut"
    if event.kind is FindingKind.LOG_HEAD_MISSING:
        return "head"
    if event.kind in TRANSACTION_KINDS or event.rule is Rule.OUTCOME:
        return "transaction"
    keyless = event.key_hash_hi == 0 == event.key_hash_lo
    return "record" if event.kind is FindingKind.CONTENT_MISMATCH or keyless else "key"


def unknown(monitor: Monitor) -> Unknown:
    """What the monitor counts as unknown, in both views; an audit has settled what it compared."""
    coverage = settled(monitor.coverage, monitor.audited)
    waiting = [(span.start, span.end) for span in coverage.unread if span.reason in UNTIL_AUDITED]
    ranges = [(span.start, span.end) for span in coverage.unread if span.reason not in UNTIL_AUDITED]
    for view in (RU, RC):
        first = UnknownReason.BEFORE_FIRST_READING
        never_read = _count(coverage, first, view) - _counted(coverage, first, view)
        beyond = max(0, coverage.compared_up_to[view]), _furthest(coverage, view)
        waiting += [beyond] * (never_read > 0)
        ranges += [beyond] * any(_count(coverage, reason, view) for reason in _BEYOND)
        ranges += _at_the_start(coverage, view)
        gone = _count(coverage, UnknownReason.SKIPPED, view) - _counted(coverage, UnknownReason.SKIPPED, view)
        gone += _count(coverage, UnknownReason.DELETED_UNREAD, view)
        ranges += [(0, max((b.log_start_offset for b in coverage.brokers), default=0))] * (gone > 0)
    ranges += _unjudged(monitor, coverage)
    ranges += [(d.start, d.end if d.end >= 0 else _furthest(coverage, d.view)) for d in coverage.deferred]
    if _count(coverage, UnknownReason.UNDECIDED, RU):
        ranges.append((max(b.last_stable_offset for b in coverage.brokers), _furthest(coverage, RU)))
    if monitor.audited is None:
        return Unknown(tuple(ranges), tuple(waiting))
    return Unknown(tuple(ranges), tuple(waiting), monitor.audited.started_at, min(monitor.audited.compared_up_to))


_BEYOND = (UnknownReason.NOT_READ_YET, UnknownReason.REPLICA_SET_UNKNOWN, UnknownReason.UNAUTHORIZED)
_AT_THE_START = (UnknownReason.LOG_START_DIFFERS, UnknownReason.RETENTION_DIFFERS)


def _unjudged(monitor: Monitor, coverage: Coverage) -> list[tuple[int, int]]:
    """Where differences wait for a verdict; the coverage only says how many offsets that are."""
    if not _count(coverage, UnknownReason.UNJUDGED, RC):
        return []
    state = PartitionState.from_bytes(monitor.state)
    disputed = state.pending["offset"][open_disputes(state.pending)]
    return [(o, o + 1) for o in (*state.candidates["offset"].tolist(), *disputed.tolist())]


def _count(coverage: Coverage, reason: UnknownReason, view: int) -> int:
    return max(0, coverage.unknown_for(reason)[view])


def _counted(coverage: Coverage, reason: UnknownReason, view: int) -> int:
    """How many of them the coverage names the place of."""
    return sum(span.count for span in coverage.unread if (span.view, span.reason) == (view, reason))


def _furthest(coverage: Coverage, view: int) -> int:
    return max(((b.read_uncommitted, b.read_committed)[view] for b in coverage.brokers), default=0)


def _at_the_start(coverage: Coverage, view: int) -> list[tuple[int, int]]:
    """What lies below the largest log start, as many offsets of it as are counted."""
    start = max((b.log_start_offset for b in coverage.brokers), default=0)
    return [(start - count, start) for reason in _AT_THE_START if (count := _count(coverage, reason, view))]


def _says_that_all_are_right(event: Finding, monitor: Monitor) -> bool:
    """Whether a finding that is resolved has healed; or accused nobody, so that it ends only where all are right.

    Or where none of those that differed holds the record any more: then it says that what is left may be wrong.
    """
    resolution = evidence_of(event).get("resolution")
    stood = event.broker == NOBODY and not was_only_shown(event)
    if stood and resolution == Resolution.COMPACTED:
        return any(_holds_still(event, broker, monitor) for broker in said(event, monitor.events).sides)
    return resolution == Resolution.HEALED or (stood and resolution not in _ELSEWHERE)


def _holds_still(event: Finding, broker: int, monitor: Monitor) -> bool:
    offset, replica = claim_of(event).first_offset, monitor.cluster.replicas.get(broker)
    return replica is not None and any(record is not None for _, record in replica.held(offset, offset + 1))


def _is_of_the_key_alone(event: Finding) -> bool:
    """Whether it ended as superseded: the key's value is of later, and of a transaction's outcome that says nothing."""
    return event.rule is Rule.OUTCOME and evidence_of(event).get("resolution") == Resolution.SUPERSEDED


_ELSEWHERE = frozenset({Resolution.EXPLAINED, Resolution.PART, Resolution.GONE, Resolution.DELETED})
"""Ends of what another finding speaks of, or of what is there no more."""


def at_the_end(monitor: Monitor) -> Ended:
    """Have all findings looked at again, and tell what has become of them.

    What one of them had explained is a suspect again once that one is over, and is looked at by itself then.
    """
    monitor.clock += RECHECK_S
    monitor.probe()
    if monitor.pending:
        monitor.clock += RECHECK_S
        monitor.probe()
    return become(monitor)


def become(monitor: Monitor) -> Ended:
    """What has become of all findings, as they were looked at last."""
    last = {event.finding_id: event for event in monitor.events if event.status is not FindingStatus.DISMISSED}
    stood = {event.finding_id: event for event in monitor.events if event.stands}
    resolved = [event for event in last.values() if event.status is FindingStatus.RESOLVED]
    as_healed = [event for event in resolved if _says_that_all_are_right(event, monitor)]
    by_key = [event for event in as_healed if _is_of_the_key_alone(event)]
    return Ended(
        standing=tuple(said(event, monitor.events) for event in last.values() if event.stands),
        healed=tuple(
            replace(
                one := said(event, monitor.events),
                cut_since=_cut_since(monitor, event),
                about="key" if event in by_key else one.about,
            )
            for event in as_healed
        ),
        gone=tuple(
            # Of all replicas, where it had spread: its end says so.
            replace(
                said(event, monitor.events),
                everywhere=event.finding_id in stood and has_spread(stood[event.finding_id]),
            )
            for event in resolved
            if event not in as_healed or event in by_key
        ),
    )
