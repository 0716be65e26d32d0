"""Decides the next action when a repair is undone: its partition goes back to the brokers that held it before. Pure.

A repair can be undone while it is open. One that is over can be undone if it has left the partition assigned otherwise
(`parallax.repair.record.Repair.left`). One step of a plan alone may do so. Whichever steps were run, the partition goes
back to the brokers that held it when the plan was made.
"""

from __future__ import annotations

from parallax.counts import agreed, brokers_text
from parallax.repair.actions import TAKES_MS, Action, Asked, Assign, Maker, Put, Wait
from parallax.repair.fit import loses, unsure
from parallax.repair.layout import Layout
from parallax.repair.moving import TELL_MS, cancelling, is_known, waiting
from parallax.repair.plan import FORMAT, Plan, new_to
from parallax.repair.record import EventKind, Repair
from parallax.repair.seen import Look, contradicted
from parallax.repair.steps import MoveStep


def undone(plan: Plan, look: Look, asked: Asked | None, made: Maker) -> Action:
    """The next action of a repair that is being undone.

    It is to wait, or to reassign the partition to the brokers that held it when the plan was made. A reassignment under
    way that takes it from one of these is cancelled first. Otherwise it is to record one of three events: the
    reassignment is under way, is complete, or is not possible (with the reason).

    Args:
        plan: the repair's plan, with at least one step that reassigns the partition.
        look: a look at the partition.
        asked: the last change that this process asked the cluster for; None if there was none.
        made: makes the events of this repair.
    """
    layout = look.layout or Layout(error="it was not looked at")
    if layout.error:
        return Wait(layout.error)
    goal, steps = plan.replicas, [step for step in plan.steps if isinstance(step, MoveStep)]
    known = made.repair.states
    target, waited_ms = layout.moving.get(look.place, look.assigned), made.at_ms - made.repair.at_ms
    if target not in known and is_known(target, known) and waited_ms < TAKES_MS:
        return Wait("no broker shows it yet")
    if target not in known:
        reason = (
            f"somebody else has it reassigned, to brokers {list(target)}: nothing is put back. Have it assigned to "
            f"{list(goal)} and undo again, or leave it so: {CLOSE}"
        )
        return made.event(EventKind.STOPPED, reason=reason)
    if look.place in layout.moving and set(goal) - set(target):  # who is put back depends on whether it is complete
        return cancelling(0, look, asked, made, "it is undone")
    if target != goal:
        return _put_back(plan, steps[0], look, asked, made)
    if look.place in layout.moving:
        return _going_back(plan, steps[0], look, asked, made)
    if out := set(goal) - look.isr:
        return Wait(f"{brokers_text(out)} {'is' if len(out) == 1 else 'are'} not in sync yet")
    if waited_ms < TAKES_MS and any(step.number in made.repair.unanswered for step in steps):
        return Wait("no broker has answered a request of the repair; it may still come")
    put_back = f"the replicas are assigned as they were: {list(goal)}"
    said = (put_back, stays(made.repair), _prefers_wrong(goal[0], look))
    return made.event(EventKind.CLOSED, reason="; ".join(filter(None, said)))


def stuck(repair: Repair, topic_id: str, assigned: tuple[int, ...]) -> str:
    """Why a repair can neither go on nor be undone, and what ends it; empty if nothing hinders either.

    Args:
        repair: the repair's state.
        topic_id: Kafka's id of the topic of that name; empty if there is none.
        assigned: ids of the brokers that hold the partition now, the preferred leader first.
    """
    goal = tuple(repair.plan.get("replicas", ()))
    if repair.plan.get("format") != FORMAT:
        why = (
            f"it was recorded in format {repair.plan.get('format')}, and this version goes on with format {FORMAT} only"
        )
    elif not topic_id:
        why = "the topic does not exist any more"
    elif topic_id != repair.plan.get("topic_id"):
        why = "the topic was deleted and created again"
    elif is_known(assigned, repair.states):
        return ""
    elif len(set(assigned)) > len(goal):
        why = f"the partition has more replicas than before it: {list(assigned)} instead of {list(goal)}"
    else:
        why = f"somebody has the partition reassigned: its replicas are {list(assigned)}"
    return f"{why}. It cannot be undone: {CLOSE}"


CLOSE = "`parallax repair close` ends it, and changes nothing on the cluster"


def closed(repair: Repair) -> str:
    """What stays on the cluster of a repair that is closed as it is, in a sentence without its full stop.

    Args:
        repair: the repair's state.
    """
    before = list(repair.plan.get("replicas", ()))
    moved = f"the replicas stay as they are, and were {before} before it" if repair.has_moved or repair.left else ""
    return "; ".join(filter(None, ("nothing is put back", moved, stays(repair))))


def _prefers_wrong(first: int, look: Look) -> str:
    """That a replica which a finding still calls wrong is the preferred leader again; empty if none is."""
    if not any(first in one.wrong for one in look.claims):
        return ""
    return f"broker {first} is preferred again, and a finding still calls it wrong: see `parallax lead`"


def stays(repair: Repair) -> str:
    """The end markers that a repair leaves in the log when it is undone or closed, a phrase; empty if it wrote none.

    Args:
        repair: the repair's state.
    """
    done = sorted(repair.intended.keys() - {step["number"] for step in repair.moves})
    named = f"{agreed(len(done), 'step', 'steps')} {', '.join(map(str, done))}"
    return f"the end markers of {named}, where they were written, stay in the log" if done else ""


def _put_back(plan: Plan, step: MoveStep, look: Look, asked: Asked | None, made: Maker) -> Action:
    if losing := _losing(plan, look):
        found = _against(losing, step, look, plan, made) or _lost(step, look, made)
        if found is not None:
            return found
    change = Assign(0, plan.replicas)
    mine = asked if asked is not None and asked.change == change else None
    if mine is not None and mine.refusal:
        return made.event(EventKind.STOPPED, reason=f"the cluster refused to put it back: {mine.refusal}")
    if mine is not None and look.at_ms - mine.at_ms < TAKES_MS:
        return Wait("no broker shows it yet")
    return change


def _going_back(plan: Plan, step: MoveStep, look: Look, asked: Asked | None, made: Maker) -> Action:
    losing = _losing(plan, look)
    against = _against(losing, step, look, plan, made) if losing else None
    if against is not None:  # nobody looks at a deletion that goes on once the repair is stopped or closed
        return cancelling(0, look, asked, made, against.event.reason)
    if made.at_ms - made.repair.at_ms < TELL_MS:
        return Wait("it is being copied")
    return made.event(EventKind.WORKING, reason="the partition is being assigned as it was")


def _losing(plan: Plan, look: Look) -> set[int]:
    """The brokers that only helped out, and hold a whole copy until the partition is assigned as it was.

    One that is not in sync yet is only being copied: to give it up loses nothing, and stops the copy.
    """
    return (set(look.assigned) - set(plan.replicas)) & look.isr


def _against(losing: set[int], step: MoveStep, look: Look, plan: Plan, made: Maker) -> Put | None:
    """What ends it, also while it goes on, if the copy of a broker that only helped out may be the last right one."""
    source = step.source
    held = f"{brokers_text(losing)} would delete its copy, and may be right"
    if new := new_to(plan, look):
        return made.event(EventKind.CLOSED, reason=f"{held}: {new}. It stays; plan again")
    if look.leader != source:
        reason = (
            f"{held}: broker {source}, which is, has to lead first, and broker {look.leader} does. Have it elected, "
            "and undo again"
        )
        return made.event(EventKind.STOPPED, reason=reason)
    why = contradicted(look, step.proof, source, ())
    return made.event(EventKind.STOPPED, reason=why) if why else None


def _lost(step: MoveStep, look: Look, made: Maker) -> Action | None:
    """What is done before such a copy is given up, if something may be lost with it."""
    if why := loses(look, step.source):
        return made.event(EventKind.STOPPED, reason=why)
    why = "" if step.is_said else unsure(look, step.source, step.mended, step.known_to)
    return waiting(made, 0, why) if why else None


__all__ = ["CLOSE", "closed", "stays", "stuck", "undone"]
