"""What a repair does next: what is on record and a look at the partition in, one action out. Pure.

Nothing is changed before it is on record. What was intended is looked for before it is done once more: after a kill
nobody knows whether it was. Whatever is not as planned stops it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parallax.model import UNKNOWN, RowKind
from parallax.repair.plan import Plan, Step, not_safe
from parallax.repair.record import Event, EventKind, Phase, Repair
from parallax.repair.seen import END_MARKERS, OUTCOMES, Look, disturbed
from parallax.replica.changes import EndMarker

TAKES_MS = 30_000
"""A marker that not every replica shows after so long is a case for a person."""


KEPT_ROWS = 1_000
"""Rows of one transaction on one replica that are put on record; of the others their number."""


@dataclass(frozen=True, slots=True)
class Put:
    """Put an event on record; only then does it count."""

    event: Event


@dataclass(frozen=True, slots=True)
class Write:
    """Have the leader write an end marker."""

    step: int
    leader: int
    marker: EndMarker


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again in a moment; ``why`` in a phrase."""

    why: str


Action = Put | Write | Wait


@dataclass(frozen=True, slots=True)
class Asked:
    """What this process knows of a step that it asked the cluster for; nothing after a kill.

    Attributes:
        step: its number.
        at_ms: when.
        refusal: why it was refused; empty where it was not, or nobody answered.
    """

    step: int
    at_ms: int
    refusal: str = ""


def following(repair: Repair, plan: Plan, look: Look, owner: str, asked: Asked | None = None) -> Action | None:
    """The next action of a repair; None once it is not running any more.

    Args:
        repair: as it is on record.
        plan: of it.
        look: at its partition, with the transactions of all its steps.
        owner: the process that acts.
        asked: what this process knows of its last request.
    """
    if repair.phase is not Phase.RUNNING:
        return None
    made = _Maker(repair, look.at_ms, owner)
    step = next((step for step in plan.steps if step.number not in repair.proven), None)
    if step is None:
        return made.event(EventKind.OVER, reason="every step is done, and every replica shows it")
    if another := _another(plan, look):
        return made.event(EventKind.STOPPED, step.number, reason=another)
    if not repair.is_kept:
        return made.event(EventKind.KEPT, document=kept(plan, look))
    intended = repair.intended.get(step.number)
    if intended is not None and (found := _after(repair, step, intended, look, made)) is not None:
        return found
    if why := _unlike(plan, step, look):
        return made.event(EventKind.STOPPED, step.number, reason=why)
    wanted = _intention(step, look)
    if intended is None or {**wanted, "below": intended["below"]} != intended:
        return made.event(EventKind.INTENDED, step.number, document=wanted)
    mine = asked if asked is not None and asked.step == step.number else None
    if mine is not None and mine.refusal:
        return made.event(EventKind.STOPPED, step.number, reason=f"the leader refused the end marker: {mine.refusal}")
    if mine is not None and look.at_ms - mine.at_ms < TAKES_MS:
        return Wait("the leader did not answer; the marker may still come")
    marker = EndMarker(
        look.place,
        step.producer_id,
        intended["producer_epoch"],
        intended["coordinator_epoch"],
        step.end == "commit",
    )
    return Write(step.number, look.leader, marker)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes events of a repair."""

    repair: Repair
    at_ms: int
    owner: str

    def event(
        self, kind: EventKind, step: int = 0, *, reason: str = "", document: Mapping[str, Any] | None = None
    ) -> Put:
        repair = self.repair
        where = repair.place
        return Put(Event(kind, repair.repair_id, *where, self.at_ms, self.owner, step, dict(document or {}), reason))


def _after(repair: Repair, step: Step, intended: Mapping[str, Any], look: Look, made: _Maker) -> Action | None:
    """What comes after a step that was intended, by what the replicas show; None where nothing shows it done."""
    ends = written(step, step.end, intended["below"], look)
    theirs = {"commit": "abort", "abort": "commit"}[step.end]
    if others := written(step, theirs, intended["below"], look):
        reason = f"somebody else has ended it by {theirs.upper()}, at offset {min(others)}"
        return made.event(EventKind.STOPPED, step.number, reason=reason)
    if not ends and not lacking(step, None, look):
        # Where delete.retention.ms is short the cleaner may have taken the marker with its transaction already.
        return made.event(EventKind.PROVEN, step.number, reason="no replica holds the transaction open any more")
    if not ends:
        since = repair.answered.get(step.number)
        if since is None:
            return None
        if look.at_ms - since > TAKES_MS:
            reason = "the leader says that it has written the marker, and no replica shows it"
            return made.event(EventKind.STOPPED, step.number, reason=reason)
        return Wait("no replica shows the marker yet")
    at = min(ends)
    if ended := _ended_as_well(step, intended["below"], at, look):
        return made.event(EventKind.STOPPED, step.number, reason=ended)
    left = lacking(step, at, look)
    if not left:
        return made.event(EventKind.PROVEN, step.number, reason=f"end marker at offset {at}")
    if look.at_ms - max(repair.answered.get(step.number, 0), repair.at_ms) > TAKES_MS:
        return made.event(EventKind.STOPPED, step.number, reason=left)
    return Wait(left)


def written(step: Step, end: str, below: int, look: Look) -> set[int]:
    """Where end markers of a type and of the producer of a step are shown, at or above an offset."""
    logs = (look.log_of(broker, step.producer_id, step.start_offset) for broker in look.assigned)
    return {at for log in logs for at, kind in log.ends if at >= below and kind == end}


def lacking(step: Step, marker_offset: int | None, look: Look) -> str:
    """What some replica does not show yet of what a step was to bring about; empty once all do.

    Args:
        step: the step.
        marker_offset: where its marker is; None where no replica shows it.
        look: at the partition.
    """
    for broker in look.assigned:
        replica = look.replicas[broker]
        if replica.error or replica.marks is None:
            return f"broker {broker} does not say what it holds ({replica.error})"
        log = look.log_of(broker, step.producer_id, step.start_offset)
        if log.error:
            return f"what broker {broker} holds could not be read ({log.error})"
        if marker_offset is not None and (marker_offset, step.end) not in log.ends:
            return f"broker {broker} does not show the end marker at offset {marker_offset}"
        if replica.holds(step.producer_id, step.start_offset):
            return f"broker {broker} still holds the transaction open"
        stable = replica.marks.last_stable_offset
        if stable <= step.start_offset:
            if replica.is_open_from(stable):
                continue  # another transaction holds it back, which began before this one
            return f"the last stable offset of broker {broker} is still {stable}"
        first = next((row for row in log.records if row.offset == step.start_offset), None)
        if first is not None and first.outcome is not OUTCOMES[step.end]:
            return f"broker {broker} shows the record at offset {step.start_offset} as {first.outcome.name.lower()}"
    return ""


def _ended_as_well(step: Step, below: int, marker_offset: int, look: Look) -> str:
    """That the producer wrote between the last look and the marker, which has ended that transaction as well."""
    log = look.log_of(look.leader, step.producer_id, step.start_offset)
    first = next((row.offset for row in log.records if below <= row.offset < marker_offset), UNKNOWN)
    if first == UNKNOWN:
        return ""
    return (
        f"the producer began a transaction at offset {first} in the moment before the marker (offset {marker_offset}), "
        f"which ended that one by {step.end.upper()} as well; tell the owner of the producer"
    )


def outdated(plan: Plan, look: Look) -> str:
    """Why a plan may not even be begun: what is not as it was planned; empty where all of it is."""
    wrong = (_unlike(plan, step, look) for step in plan.steps)
    return _another(plan, look) or next(filter(None, wrong), "")


def _another(plan: Plan, look: Look) -> str:
    """Why a partition is not the one that a plan was made for any more."""
    if look.cluster_id != plan.cluster_id:
        return f"the brokers are of cluster {look.cluster_id}, and the plan is for {plan.cluster_id}"
    if look.topic_id != plan.topic_id:
        return f"{plan.topic} was deleted and created again since the plan was made"
    return ""


def _unlike(plan: Plan, step: Step, look: Look) -> str:
    """Why a step may not be done: what is not as it was planned; plan again then."""
    if (look.leader, look.leader_epoch) != (plan.leader, plan.leader_epoch):
        return f"another leader was elected since the plan was made: broker {look.leader}, epoch {look.leader_epoch}"
    if look.assigned != plan.replicas:
        return f"the partition was reassigned since the plan was made: its replicas are {list(look.assigned)}"
    if why := disturbed(look):
        return why
    if new := sorted(look.findings - set(plan.findings)):
        return f"there is a finding that the plan does not know: {', '.join(new)}"
    if why := _unproven(step, look):
        return why
    holders = look.holders(step.producer_id, step.start_offset)
    if tuple(holders) != step.holders:
        return f"brokers {list(step.holders)} held the transaction open when the plan was made, and {holders} do now"
    one = next(
        (t for t in look.transactions if (t.producer_id, t.start_offset) == (step.producer_id, step.start_offset)), None
    )
    return "the transaction was not looked at" if one is None else not_safe(look, one, step.end, step.marker_offset)


def _unproven(step: Step, look: Look) -> str:
    """That findings do not prove any more, or contradict, how a step ends a transaction."""
    types = {end.type for end in look.proven.get((step.producer_id, step.start_offset), ())}
    if types - {step.end}:
        return f"a finding proves that the transaction was ended otherwise than by {step.end.upper()}"
    return f"finding {step.finding} does not prove any more how it ended" if step.finding and not types else ""


def _intention(step: Step, look: Look) -> dict[str, Any]:
    """How a step is going to be done: by the epochs that the leader remembers, lest it refuses the marker as old."""
    states = [replica.remembered(step.producer_id) for replica in look.replicas.values()]
    known = [state for state in states if state is not None]
    leads = look.replicas[look.leader].remembered(step.producer_id)
    marks = look.replicas[look.leader].marks
    return {
        "producer_epoch": max((state.producer_epoch for state in known), default=0),
        "coordinator_epoch": UNKNOWN if leads is None else leads.coordinator_epoch,
        "below": UNKNOWN if marks is None else marks.log_end_offset,
    }


def kept(plan: Plan, look: Look) -> dict[str, Any]:
    """What each replica shows of what a plan is going to change: offsets, keyed hashes and outcomes, no bytes."""
    found = []
    for step in plan.steps:
        for broker in look.assigned:
            log = look.log_of(broker, step.producer_id, step.start_offset)
            rows = [
                [row.offset, END_MARKERS.get(row.kind, row.kind.name.lower()), row.key, row.content, row.outcome.name]
                for row in log.rows
                if row.kind in (*END_MARKERS, RowKind.RECORD)
            ]
            found.append({"step": step.number, "broker": broker, "rows": rows[:KEPT_ROWS], "count": len(rows)})
    marks = {
        str(broker): None
        if one.marks is None
        else [one.marks.log_start_offset, one.marks.last_stable_offset, one.marks.high_watermark]
        for broker, one in look.replicas.items()
    }
    return {"leader": look.leader, "log_start_last_stable_high_watermark": marks, "held": found}


__all__ = ["TAKES_MS", "Action", "Asked", "Put", "Wait", "Write", "following", "kept", "lacking", "outdated", "written"]
