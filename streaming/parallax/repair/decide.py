"""Decides what a repair does next, by its record and a look at the partition. Pure.

Each change is recorded before it is made. If the process is killed right after recording it, the record does not say
whether it was made. So a resumed repair first looks at the brokers. Anything that is not as planned stops the repair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parallax.counts import brokers_text
from parallax.model import UNKNOWN, RowKind
from parallax.repair import ending, moving
from parallax.repair.actions import TAKES_MS, Action, Asked, Maker, Wait
from parallax.repair.plan import Plan, ended_by, new_to
from parallax.repair.record import MAY_LACK, EventKind, Phase, Repair
from parallax.repair.seen import END_MARKERS, Look, Row
from parallax.repair.steps import EndStep, MoveStep, Step
from parallax.repair.undoing import CLOSE, undone

KEPT_ROWS = 1_000
"""How many rows of a step and replica are put on record at most, next to their number."""


def following(repair: Repair, plan: Plan, look: Look, owner: str, asked: Asked | None = None) -> Action | None:
    """The next action of a repair: record an event, change something, or wait. None once it is over or stopped.

    Args:
        repair: the repair's state, as it is on record.
        plan: the repair's plan.
        look: a look at the partition that covers all that the steps need.
        owner: the process that takes the action, as `parallax.repair.owner.myself` names it.
        asked: the last change that this process asked the cluster for; None if there was none.
    """
    made = Maker(repair, look.at_ms, owner)
    if repair.phase is Phase.UNDOING:
        return _undoing(plan, look, asked, made)
    if repair.phase is not Phase.RUNNING:
        return None
    step = _next(repair, plan)
    if another := _another(plan, look):
        return made.event(EventKind.STOPPED, 0 if step is None else step.number, reason=another)
    if step is None:
        return _ended(plan, look, made)
    if not repair.is_kept:
        return made.event(EventKind.KEPT, document=kept(plan, look))
    intended = repair.intended.get(step.number)
    if intended is not None and (found := _after(plan, step, intended, look, asked, made)) is not None:
        return found
    if why := _unlike(plan, step, look, intended):
        return made.event(EventKind.STOPPED, step.number, reason=why)
    if isinstance(step, MoveStep) and (why := moving.unsure_of(step, look)):
        return moving.waiting(made, step.number, why)
    return _begin(step, look, intended, asked, made)


def asks_tables(repair: Repair, plan: Plan) -> bool:
    """Whether the next look of a repair has to cover what the job's tables say against the replicas (`Look.doubts`).

    Args:
        repair: the repair's state, as it is on record.
        plan: the repair's plan.
    """
    if repair.phase is Phase.UNDOING:  # a broker that only helped out deletes its copy
        return any(isinstance(step, MoveStep) and step.move.gone and step.move.copied for step in plan.steps)
    step = _next(repair, plan)
    is_asked = step is not None and repair.answered.get(step.number, UNKNOWN) > repair.resumed_ms
    return isinstance(step, MoveStep) and bool(step.move.gone) and not is_asked


def _next(repair: Repair, plan: Plan) -> Step | None:
    return next((step for step in plan.steps if step.number not in repair.proven), None)


def _ended(plan: Plan, look: Look, made: Maker) -> Action:
    """What follows once every step is proven: it is over, unless the partition was reassigned since."""
    moves = [step.move.replicas for step in plan.steps if isinstance(step, MoveStep)]
    left = moves[-1] if moves else plan.replicas
    done = "every step is done and proven"
    if moves and (why := moving.assigned_otherwise(left, look)):
        is_late = made.at_ms - made.repair.at_ms > TAKES_MS
        return made.event(EventKind.STOPPED, reason=f"{done}, and {why}") if is_late else Wait(why)
    stay = f"the replicas stay {list(left)} until `parallax repair undo` assigns them as they were, "
    rest = "" if left == plan.replicas else f"{stay}{list(plan.replicas)}"
    slow = [one for one in plan.steps if isinstance(one, MoveStep) and made.repair.is_slow(one.number)]
    doubts = (f"the copy on {brokers_text(one.move.copied)} took too long, so it {MAY_LACK}" for one in slow)
    return made.event(EventKind.OVER, reason="; ".join(filter(None, (done, *doubts, rest, new_to(plan, look)))))


def _begin(step: Step, look: Look, intended: Mapping[str, Any] | None, asked: Asked | None, made: Maker) -> Action:
    """Put on record how a step is done, and then have it done."""
    if isinstance(step, MoveStep):
        if intended is None:
            return made.event(EventKind.INTENDED, step.number, document=moving.intention(step, look))
        return moving.following(step, look, asked, made)
    how = ending.intention(step, look)
    if intended is None or {**how, "below": intended["below"]} != intended:
        return made.event(EventKind.INTENDED, step.number, document=how)
    return ending.following(step, look, intended, asked, made)


def _undoing(plan: Plan, look: Look, asked: Asked | None, made: Maker) -> Action:
    if another := _another(plan, look):
        return made.event(EventKind.STOPPED, reason=f"{another}: nothing is put back. {CLOSE}")
    return undone(plan, look, asked, made)


def _after(
    plan: Plan, step: Step, intended: Mapping[str, Any], look: Look, asked: Asked | None, made: Maker
) -> Action | None:
    if not isinstance(step, MoveStep):
        return ending.after(made.repair, step, intended, look, made)
    if step.move.gone:  # nobody looks at a deletion that goes on while the repair is stopped
        against = moving.unproven(step, look) or new_to(plan, look) or moving.interfered(step, intended, look)
        called_off = moving.called_off(step, look, asked, made, against) if against else None
        if called_off is not None:
            return called_off
    return moving.after(made.repair, step, intended, look, made)


def outdated(plan: Plan, look: Look) -> str:
    """Why a plan may not be begun any more: what has changed since it was made. Empty if it may be begun.

    Steps that write end markers are compared with what brokers show now, and so is the first step that reassigns the
    partition. Later ones begin with the result of the step before, so of them only what no step changes is compared:
    settings, room, where logs begin, what is known of the replica that is copied, and what the findings go by.

    Args:
        plan: the plan.
        look: a look at its partition.
    """
    moves = [step for step in plan.steps if isinstance(step, MoveStep)]
    begun = [step for step in plan.steps if isinstance(step, EndStep) or step in moves[:1]]
    wrong = (_unlike(plan, step, look, None) for step in begun)
    later = (
        moving.judged_otherwise(step, look) or moving.changed(step, look) or moving.unsure_of(step, look)
        for step in moves
    )
    return _another(plan, look) or next(filter(None, (*wrong, *later)), "")


def _another(plan: Plan, look: Look) -> str:
    """Why a partition is not the one that a plan was made for any more."""
    if look.cluster_id != plan.cluster_id:
        return f"the brokers are of cluster {look.cluster_id}, and the plan is for {plan.cluster_id}"
    if look.topic_id != plan.topic_id:
        return f"{plan.topic} was deleted and created again since the plan was made"
    return ""


def _unlike(plan: Plan, step: Step, look: Look, intended: Mapping[str, Any] | None) -> str:
    """Why a step may not be done: what is not as it was planned; plan again then."""
    if isinstance(step, MoveStep):
        why = moving.unlike(step, look, intended)
    else:
        before = ended_by(one for one in plan.steps if one.number < step.number)
        why = ending.unlike(step, look, (plan.leader, plan.leader_epoch), plan.replicas, before.keys())
    return why or new_to(plan, look)


def kept(plan: Plan, look: Look) -> dict[str, Any]:
    """What each replica shows at the offsets that a plan is about, before anything is changed.

    It is a document for the table of repairs. It has the leader, each replica's offsets, and by step and broker the
    records and end markers: keyed hashes and outcomes, but no bytes of records.

    Args:
        plan: the plan.
        look: a look at its partition.
    """
    found = []
    for step in plan.steps:
        for broker in look.assigned:
            rows = [row.kept for row in _held(step, broker, look) if row.kind in (*END_MARKERS, RowKind.RECORD)]
            found.append({"step": step.number, "broker": broker, "rows": rows[:KEPT_ROWS], "count": len(rows)})
    marks = {
        str(broker): None
        if one.marks is None
        else [one.marks.log_start_offset, one.marks.last_stable_offset, one.marks.high_watermark]
        for broker, one in look.replicas.items()
    }
    return {"leader": look.leader, "log_start_last_stable_high_watermark": marks, "held": found}


def _held(step: Step, broker: int, look: Look) -> list[Row]:
    if isinstance(step, EndStep):
        return list(look.log_of(broker, step.producer_id, step.start_offset).rows)
    return list(look.shown.get(broker, {}).values()) if step.dropped else []


__all__ = ["asks_tables", "following", "kept", "outdated"]
