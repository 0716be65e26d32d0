"""Decides the next action when a repair is undone: its partition goes back to the brokers that held it before. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from parallax.findings.grounds import in_words
from parallax.repair.actions import TAKES_MS, Action, Asked, Assign, Maker, Wait
from parallax.repair.fit import loses, unsure
from parallax.repair.layout import Layout
from parallax.repair.moving import TELL_MS, is_known, waiting
from parallax.repair.record import EventKind
from parallax.repair.seen import Look, shows_the_same
from parallax.repair.steps import MoveStep


def undone(
    goal: tuple[int, ...],
    steps: Sequence[MoveStep],
    look: Look,
    asked: Asked | None,
    planned: Collection[str],
    made: Maker,
) -> Action:
    """The next action of a repair that is being undone.

    It is to wait, to reassign the partition to ``goal``, or to record one of three events: the reassignment is under
    way, is complete, or is not possible (with the reason).

    Args:
        goal: ids of the brokers that held the partition before the repair, the preferred leader first.
        steps: the steps of the repair that reassign the partition.
        look: a look at the partition.
        asked: the last change that this process asked the cluster for; None if there was none.
        planned: the ids of the findings that the plan of the repair knows.
        made: makes the events of this repair.
    """
    layout = look.layout or Layout(error="it was not looked at")
    if layout.error:
        return Wait(layout.error)
    known = {goal, *(state for step in steps for state in (step.before, step.move.replicas))}
    target, waited_ms = layout.moving.get(look.place, look.assigned), made.at_ms - made.repair.at_ms
    if target not in known and is_known(target, known) and waited_ms < TAKES_MS:
        return Wait("no broker shows it yet")
    if target not in known:
        reason = f"somebody else has it reassigned, to brokers {list(target)}: nothing is put back"
        return made.event(EventKind.STOPPED, reason=reason)
    if target != goal:
        return _put_back(goal, steps, look, asked, planned, made)
    if look.place in layout.moving:
        if waited_ms < TELL_MS:
            return Wait("it is being copied")
        return made.event(EventKind.WORKING, reason="the partition is being assigned as it was")
    if out := set(goal) - look.isr:
        return Wait(f"{in_words(out)} {'is' if len(out) == 1 else 'are'} not in sync yet")
    return made.event(EventKind.CLOSED, reason=f"the replicas are assigned as they were: {list(goal)}")


def _put_back(
    goal: tuple[int, ...],
    steps: Sequence[MoveStep],
    look: Look,
    asked: Asked | None,
    planned: Collection[str],
    made: Maker,
) -> Action:
    if (losing := set(look.assigned) - set(goal)) and (found := _lost(losing, steps[0], look, planned, made)):
        return found
    change = Assign(0, goal)
    mine = asked if asked is not None and asked.change == change else None
    if mine is not None and mine.refusal:
        return made.event(EventKind.STOPPED, reason=f"the cluster refused to put it back: {mine.refusal}")
    if mine is not None and look.at_ms - mine.at_ms < TAKES_MS:
        return Wait("no broker shows it yet")
    return change


def _lost(losing: set[int], step: MoveStep, look: Look, planned: Collection[str], made: Maker) -> Action | None:
    """What is done instead, if the copy of a broker that only helped out may be the last right one."""
    source, right = step.source, step.source if step.is_said else None
    held = f"{in_words(losing)} would delete its copy, and may be right"
    if new := sorted(look.findings - set(planned)):
        reason = f"{held}: there is a finding that the plan does not know: {', '.join(new)}. It stays; plan again"
        return made.event(EventKind.CLOSED, reason=reason)
    if look.leader != source:
        reason = (
            f"{held}: broker {source}, which is, has to lead first, and broker {look.leader} does. Have it elected, "
            "and undo again"
        )
        return made.event(EventKind.STOPPED, reason=reason)
    if why := loses(look, source) or shows_the_same(look, source, set(step.wrong) & set(look.assigned), right):
        return made.event(EventKind.STOPPED, reason=why)
    return waiting(made, 0, why) if right is None and (why := unsure(look, source)) else None


__all__ = ["undone"]
