"""Decides the next action in a step that reassigns a partition, by what brokers show. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from parallax.counts import brokers_text
from parallax.model import UNKNOWN
from parallax.moments import span_text
from parallax.repair.actions import TAKES_MS, Action, Asked, Assign, Cancel, Change, Elect, Maker, Wait
from parallax.repair.claims import together
from parallax.repair.fit import loses, unsure
from parallax.repair.layout import Layout, hindered
from parallax.repair.record import MAY_LACK, SLOW, EventKind, Repair
from parallax.repair.seen import Look, contradicted, disturbed
from parallax.repair.steps import MoveStep

TELL_MS = 20_000
"""How often a process that waits for a copy records how far that is; milliseconds."""
UNSURE_MS = 180_000
"""So long a repair waits until the job knows whether what is copied is right; milliseconds. A verdict takes seconds."""
_AGAIN_MS = 2_000
"""After this time an election, or a cancellation, that changed nothing is asked for again; milliseconds."""


def after(repair: Repair, step: MoveStep, intended: Mapping[str, Any], look: Look, made: Maker) -> Action | None:
    """The next action after the intention to reassign a partition was recorded, by what brokers show.

    It is to record that the step is proven, that the repair is at work or that it has stopped; or to wait. None if the
    cluster has yet to be asked for the reassignment, or for the election that belongs to the step.

    Args:
        repair: the repair's state.
        step: the step.
        intended: what `intention` returned before the reassignment.
        look: a look at the partition.
        made: makes events.
    """

    def stop(reason: str) -> Action:
        return made.event(EventKind.STOPPED, step.number, reason=reason)

    layout = look.layout or Layout(error="it was not looked at")
    is_late = look.at_ms - max(repair.answered.get(step.number, 0), repair.at_ms) > TAKES_MS

    def stop_if_late(reason: str) -> Action:
        return stop(reason) if is_late else Wait(reason)

    if layout.error or look.leader == UNKNOWN:
        return stop_if_late(layout.error or "it has no leader at the moment")
    if why := interfered(step, intended, look):
        return stop(why)
    if look.place in layout.moving:
        return _told(repair, step, layout, made)
    if look.assigned == step.move.replicas:
        left = lacking(step, intended, look, layout)
        if not left:
            late = _took_too_long(repair, step, intended, look, layout)
            document = {SLOW: True} if late else {}
            return made.event(EventKind.PROVEN, step.number, reason=f"{_shown(step, look)}{late}", document=document)
        is_to_elect = step.move.elects and look.leader != step.move.replicas[0] and not is_late
        return None if is_to_elect else stop_if_late(left)
    if look.assigned != step.before:
        return stop_if_late(f"its replicas are {list(look.assigned)} still")
    if repair.answered.get(step.number, UNKNOWN) <= repair.resumed_ms:
        return None  # It was not asked for, or was cancelled, and somebody wants it all the same.
    return stop("the reassignment was cancelled by somebody else") if is_late else Wait("no broker shows it yet")


def is_known(assigned: tuple[int, ...], states: Collection[tuple[int, ...]]) -> bool:
    """Whether a partition's replicas are one of some known assignments, or the union of two of them.

    While one assignment replaces another, brokers show the replicas of both: ``[1, 2, 3]`` becomes ``[1, 3]`` by way of
    all three.

    Args:
        assigned: ids of the brokers that hold the partition, as brokers show it.
        states: the known assignments, each as broker ids with the preferred leader first.
    """
    pairs = (set(one) | set(other) for one in states for other in states if one != other)
    return assigned in states or set(assigned) in pairs


def assigned_otherwise(left: tuple[int, ...], look: Look) -> str:
    """That a partition is not assigned as a repair has left it, or will not be in a moment; empty if it is.

    Args:
        left: ids of the brokers that the repair's last step assigned the partition to, the preferred leader first.
        look: a look at the partition.
    """
    now = (look.layout or Layout()).moving.get(look.place, look.assigned)
    return "" if now == left else f"the partition was reassigned since: its replicas are {list(now)}"


def interfered(step: MoveStep, intended: Mapping[str, Any], look: Look) -> str:
    """That somebody, or a failure, has changed what a step goes by; empty if nothing has, or brokers do not say.

    Args:
        step: the step.
        intended: what `intention` returned when the step was begun.
        look: a look at its partition.
    """
    layout = look.layout
    if layout is None or layout.error or look.leader == UNKNOWN:
        return ""
    target = layout.moving.get(look.place)
    if target not in (None, step.move.replicas):
        return f"somebody else has it reassigned, to brokers {list(target or ())}"
    if target is None and not is_known(look.assigned, (step.before, step.move.replicas)):
        return f"the partition was reassigned by somebody else: its replicas are {list(look.assigned)}"
    return _led_otherwise(step, intended, look) or _out_of_sync(step, look)


def _told(repair: Repair, step: MoveStep, layout: Layout, made: Maker) -> Action:
    """That a copy is under way, and how far it is: on record now and then, for `parallax repair status`."""
    whole = layout.sizes.get(step.source, 0)
    copied = (f"broker {b} has {layout.sizes.get(b, 0):,} of {whole:,} bytes" for b in step.move.copied)
    said = ", ".join(copied) or "it is being reassigned"
    if made.at_ms - repair.at_ms < TELL_MS:
        return Wait("it is being copied" if step.move.copied else "it is being reassigned")
    return made.event(EventKind.WORKING, step.number, reason=said)


def _led_otherwise(step: MoveStep, intended: Mapping[str, Any], look: Look) -> str:
    """That another broker leads, or may have led meanwhile: what was copied then is not known to be right."""
    if step.move.elects:
        able = {intended["leader"], step.move.replicas[0]}
        return "" if look.leader in able else f"broker {look.leader} leads, which nobody asked for"
    if look.leader != step.source:
        return f"broker {look.leader} leads, and broker {step.source} has to while anything is copied"
    # The controller counts the epoch up once where a reassignment ends that takes a replica away.
    passed = look.leader_epoch - intended["leader_epoch"]
    if passed > 1:
        return (
            f"the leader's epoch went from {intended['leader_epoch']} to {look.leader_epoch}: another broker may have "
            "led meanwhile"
        )
    return ""


def _out_of_sync(step: MoveStep, look: Look) -> str:
    stay = set(step.before) & set(step.move.replicas) & set(look.assigned)
    out = stay - look.isr
    return f"{brokers_text(out)} fell out of sync" if out else ""


def lacking(step: MoveStep, intended: Mapping[str, Any], look: Look, layout: Layout) -> str:
    """Why a reassignment is not complete and proven yet, e.g. ``broker 4 is not in sync yet``; empty once it is.

    Args:
        step: the step that reassigns the partition.
        intended: what `intention` returned before the reassignment.
        look: a look at the partition.
        layout: what brokers reported of the partition's replicas and their sizes.
    """
    move = step.move
    for broker in move.gone:
        if broker not in layout.free:
            return f"broker {broker} does not say what it holds"
        if broker in layout.sizes:
            return f"broker {broker} has not deleted its copy yet"
    out = set(move.replicas) - look.isr
    if out:
        return f"{brokers_text(out)} {'is' if len(out) == 1 else 'are'} not in sync yet"
    if move.elects and look.leader != move.replicas[0]:
        return f"broker {look.leader} leads still, and not broker {move.replicas[0]}"
    for broker in move.replicas:
        replica = look.replicas[broker]
        if replica.error or replica.marks is None:
            return f"broker {broker} does not say what it holds ({replica.error})"
    for broker in move.copied:
        if why := _unlike_source(step, broker, intended, look):
            return why
    return ""


def _unlike_source(step: MoveStep, broker: int, intended: Mapping[str, Any], look: Look) -> str:
    """That a new copy ends below what its source had, lacks a value, or shows something that the source does not show.

    What gives a key no value may be missing: a cleaner takes tombstones, end markers and aborted records when it likes.
    """
    marks = look.replicas[broker].marks
    if marks is None or broker not in look.shown or step.source not in look.shown:
        return f"what broker {broker} shows could not be read"
    if marks.high_watermark < intended["high_watermark"]:
        return f"broker {broker} shows offsets up to {marks.high_watermark} only"
    if marks.last_stable_offset < intended["last_stable_offset"]:
        return f"the last stable offset of broker {broker} is {marks.last_stable_offset}"
    for offset, row in look.shown[broker].items():
        now, was = look.shown[step.source].get(offset), intended["shown"].get(str(offset))
        if row.kept not in (was, None if now is None else now.kept):
            return f"broker {broker} shows another record at offset {offset} than broker {step.source}"
    for offset, row in look.shown[step.source].items():
        if row.is_visible and row.has_value and offset not in look.shown[broker]:
            return f"broker {broker} lacks the record at offset {offset} that broker {step.source} shows"
    return ""


def _took_too_long(repair: Repair, step: MoveStep, intended: Mapping[str, Any], look: Look, layout: Layout) -> str:
    seconds = (look.at_ms - intended["at_ms"]) / 1000
    if not step.move.copied or (repair.is_timed and seconds <= layout.retention_ms / 2000):
        return ""
    took = (
        f"that took {span_text(seconds)}, more than half of delete.retention.ms"
        if repair.is_timed
        else "how long that took is not known, because clocks of the machines that ran it differ"
    )
    return f"; {took}, so the copy {MAY_LACK}"


def _shown(step: MoveStep, look: Look) -> str:
    move = step.move
    if move.copied:
        place = f", and shows what broker {step.source} shows at {_offsets(step)}" if step.offsets else ""
        named = brokers_text(move.copied)
        return f"{named} {'is' if len(move.copied) == 1 else 'are'} in sync{place}"
    if move.gone:
        return f"{brokers_text(move.gone)} holds nothing of it any more"
    return f"broker {look.leader} leads, replicas {list(look.assigned)}"


def _offsets(step: MoveStep) -> str:
    named = ", ".join(map(str, step.offsets))
    return f"offset {named}" if len(step.offsets) == 1 else f"offsets {named}"


def unlike(step: MoveStep, look: Look, intended: Mapping[str, Any] | None = None) -> str:
    """Why a step may not reassign its partition: what has changed since it was planned. Empty if it may.

    Args:
        step: the step.
        look: a look at its partition.
        intended: what `intention` returned when the step was begun; None if it was not begun.
    """
    layout = look.layout
    if layout is None or layout.error:
        return "which brokers hold it is not known" + (f": {layout.error}" if layout is not None else "")
    if look.place in layout.moving:
        return f"it is being reassigned already, to brokers {list(layout.moving[look.place])}"
    is_begun = intended is not None and look.assigned == step.move.replicas
    if look.assigned != step.before and not is_begun:
        return f"its replicas are {list(look.assigned)}, and the step begins with {list(step.before)}"
    if not step.move.elects and look.leader != step.source:
        return f"broker {look.leader} leads, and broker {step.source} has to"
    return disturbed(look) or (changed(step, look) if step.is_final else "") or unproven(step, look)


def changed(step: MoveStep, look: Look) -> str:
    """Why a plan would not have a step any more: a setting, room, an automation, or where logs begin. Else empty.

    Args:
        step: the step.
        look: a look at its partition.
    """
    layout = look.layout or Layout(error="it was not looked at")
    if why := hindered(layout, look.place, step.move, step.source, is_paused=step.is_paused):
        return why
    marks = look.replicas[step.source].marks if step.source in look.replicas else None
    is_given_up = marks is not None and marks.log_start_offset <= step.given_up
    return "" if is_given_up else loses(look, step.source)


def unsure_of(step: MoveStep, look: Look) -> str:
    """Why nobody knows at the moment whether the source of a step that deletes a copy is right. Empty if it is.

    Args:
        step: the step.
        look: a look at its partition.
    """
    if not step.move.gone or step.is_said:
        return ""
    return unsure(look, step.source, step.mended, step.known_to)


def unproven(step: MoveStep, look: Look) -> str:
    """That findings do not prove any more that what is to be deleted is wrong, and the source right; empty if they do.

    Args:
        step: the step.
        look: a look at its partition.
    """
    wrong = set(step.dropped)
    if not wrong and not step.move.elects:
        # Assignments that give back or reorder are made whatever is proven by then, if their source is still right.
        is_wrong = step.move.gone and any(one.is_against(step.source) for one in look.claims)
        return f"a finding proves that broker {step.source} is wrong" if is_wrong else _otherwise(step, look, ())
    known = together(look.claims, step.source if step.is_said else None)
    if known is None or not wrong <= known.wrong:
        named = brokers_text(wrong or step.wrong)
        return f"no finding proves any more that {named} is wrong, and what may be copied"
    if step.source not in known.sources:
        return f"no finding proves any more that broker {step.source} is right"
    return _otherwise(step, look, wrong or step.wrong)


def judged_otherwise(step: MoveStep, look: Look) -> str:
    """That findings go by something else than when a step was planned, e.g. by other offsets. Empty if they do not.

    Args:
        step: the step; one that neither deletes a copy nor changes who leads goes by no finding.
        look: a look at its partition.
    """
    known = together(look.claims, step.source if step.is_said else None) if step.is_final else None
    if known is None:
        return ""
    some, proof = {step.source, *(step.dropped or step.wrong)}, known.proof(step.source)
    was, now = ({(one.finding, atom) for one in part for atom in one.among(some)} for part in (step.proof, proof))
    both = {one.finding for one in step.proof} & {one.finding for one in proof}
    other = sorted(both & {finding for finding, _ in was ^ now})
    return f"finding {other[0]} goes by something else than when the plan was made" if other else ""


def _otherwise(step: MoveStep, look: Look, wrong: Collection[int]) -> str:
    why = contradicted(look, step.proof, step.source, wrong)
    return f"{why}. Plan again once the job has asked the replicas again" if why else ""


def called_off(step: MoveStep, look: Look, asked: Asked | None, made: Maker, why: str) -> Action | None:
    """What stops a deletion that was asked for and waits for the copy of another broker; None if it is done already.

    Args:
        step: a step that deletes a replica.
        look: a look at its partition.
        asked: the last change that this process asked the cluster for; None if there was none.
        made: makes events.
        why: why nothing may be deleted any more, a sentence.
    """
    target = look.layout.moving.get(look.place) if look.layout is not None else None
    if target is None and look.assigned == step.before:
        answered = made.repair.answered.get(step.number, UNKNOWN)
        is_young = answered > made.repair.resumed_ms and look.at_ms - answered <= TAKES_MS
        if is_young and (asked is None or asked.change != Cancel(step.number)):
            # Brokers learn of it one after the other: the copy may be gone already, so that it cannot be read.
            return Wait("no broker shows it yet")
        return made.event(EventKind.STOPPED, step.number, reason=why)
    return cancelling(step.number, look, asked, made, why) if target == step.move.replicas else None


def cancelling(step: int, look: Look, asked: Asked | None, made: Maker, why: str) -> Action:
    """Cancel the reassignment that is under way, wait until it is cancelled, or stop where the cluster refuses that.

    What it was adding is given up, and nothing else is deleted.

    Args:
        step: the number of the step that asked for the reassignment; 0 while a repair is undone.
        look: a look at the partition.
        asked: the last change that this process asked the cluster for; None if there was none.
        made: makes events.
        why: why it is cancelled, a sentence without its full stop.
    """
    change = Cancel(step)
    mine = asked if asked is not None and asked.change == change else None
    if mine is not None and mine.refusal:
        reason = f"{why}, and the cluster refused to cancel the reassignment: {mine.refusal}"
        return made.event(EventKind.STOPPED, step, reason=reason)
    if mine is not None and look.at_ms - mine.at_ms < _AGAIN_MS:
        return Wait(f"the reassignment is being cancelled: {why}")
    return change


def waiting(made: Maker, step: int, why: str) -> Action:
    """Wait until the job knows whether what is copied is right; after some time stop, since some only a person can end.

    Args:
        made: makes events.
        step: the number of the step that waits.
        why: what is not known yet, a phrase.
    """
    if made.at_ms - made.repair.changed_ms > UNSURE_MS:
        return made.event(EventKind.STOPPED, step, reason=f"{why}. Go on with it once that is known")
    if made.at_ms - made.repair.at_ms > TELL_MS:
        return made.event(EventKind.WORKING, step, reason=f"waiting for the job: {why}")
    return Wait(why)


def intention(step: MoveStep, look: Look) -> dict[str, Any]:
    """What to record before a reassignment, by which the new copies are judged later.

    Returns:
        ``at_ms``, ``leader`` and ``leader_epoch``: those of the look.
        ``high_watermark`` and ``last_stable_offset``: those of the right replica; -1 if it did not answer.
        ``shown``: by offset as text, what the right replica shows at the offsets of findings (`Row.kept`).
    """
    marks = look.replicas[step.source].marks
    return {
        "at_ms": look.at_ms,
        "leader": look.leader,
        "leader_epoch": look.leader_epoch,
        "high_watermark": UNKNOWN if marks is None else marks.high_watermark,
        "last_stable_offset": UNKNOWN if marks is None else marks.last_stable_offset,
        "shown": {str(offset): row.kept for offset, row in look.shown.get(step.source, {}).items()},
    }


def following(step: MoveStep, look: Look, asked: Asked | None, made: Maker) -> Action:
    """The next action while a reassignment is not complete: ask the cluster for it, wait, or stop the repair.

    Args:
        step: the step.
        look: a look at the partition.
        asked: the last change that this process asked the cluster for; None if there was none.
        made: makes events.
    """
    is_assigned = look.assigned == step.move.replicas
    change: Change = Elect(step.number) if is_assigned else Assign(step.number, step.move.replicas)
    mine = asked if asked is not None and asked.change == change else None
    if mine is not None and mine.refusal:
        return made.event(EventKind.STOPPED, step.number, reason=f"the cluster refused it: {mine.refusal}")
    if mine is not None and look.at_ms - mine.at_ms < (_AGAIN_MS if is_assigned else TAKES_MS):
        return Wait("the election changes nothing yet" if is_assigned else "no broker answered; it may still come")
    return change


__all__ = [
    "TELL_MS",
    "UNSURE_MS",
    "after",
    "assigned_otherwise",
    "called_off",
    "cancelling",
    "changed",
    "following",
    "intention",
    "interfered",
    "is_known",
    "judged_otherwise",
    "lacking",
    "unlike",
    "unproven",
    "unsure_of",
    "waiting",
]
