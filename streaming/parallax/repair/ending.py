"""Decides the next action in a step that writes an end marker, by what replicas show. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from parallax.model import UNKNOWN
from parallax.repair.actions import TAKES_MS, Action, Asked, Maker, Wait, Write
from parallax.repair.markers import not_safe
from parallax.repair.record import UNWRITTEN, WARNED, EventKind, Repair
from parallax.repair.seen import OUTCOMES, Look, disturbed
from parallax.repair.steps import EndStep
from parallax.replica.changes import EndMarker


def after(repair: Repair, step: EndStep, intended: Mapping[str, Any], look: Look, made: Maker) -> Action | None:
    """The next action after the intention to write an end marker was recorded, by what the replicas show.

    It is to record that the step is proven, to record that the repair has stopped, or to wait. None if the leader has
    yet to be asked: it has not answered that it wrote the marker, no replica shows the marker, and not every replica
    shows the effect of one.

    Args:
        repair: the repair's state.
        step: the step.
        intended: how the marker was going to be written, as `intention` returned it.
        look: a look at the partition.
        made: makes events.
    """
    found = written(step, intended["below"], look)
    if not found and not lacking(step, None, look):
        # Where delete.retention.ms is short the cleaner may have taken the marker with its transaction already.
        document = {} if step.number in repair.answered else {UNWRITTEN: True}
        reason = "no replica holds the transaction open any more"
        return made.event(EventKind.PROVEN, step.number, reason=reason, document=document)
    if not found:
        since = repair.answered.get(step.number)
        if since is None:
            return None
        if look.at_ms - since > TAKES_MS:
            reason = "the leader says that it has written the marker, and no replica shows it"
            return made.event(EventKind.STOPPED, step.number, reason=reason)
        return Wait("no replica shows the marker yet")
    at, end = min(found)  # the first one ended the transaction; what follows is of the producer's later ones
    if end != step.end:
        reason = f"somebody else has ended it by {end.upper()}, at offset {at}"
        return made.event(EventKind.STOPPED, step.number, reason=reason)
    told = step.number in repair.warned  # once that was said, whoever resumes knows it
    if not told and (ended := _ended_as_well(step, intended["below"], at, look, step.number in repair.answered)):
        return made.event(EventKind.STOPPED, step.number, reason=ended, document={WARNED: True})
    left = lacking(step, at, look)
    if not left:
        return made.event(EventKind.PROVEN, step.number, reason=f"end marker at offset {at}")
    if look.at_ms - max(repair.answered.get(step.number, 0), repair.at_ms) > TAKES_MS:
        return made.event(EventKind.STOPPED, step.number, reason=left)
    return Wait(left)


def written(step: EndStep, below: int, look: Look) -> set[tuple[int, str]]:
    """The end markers of the step's producer that at least one replica shows, each as offset and type.

    Args:
        step: the step.
        below: the lowest offset that counts.
        look: a look at the partition.
    """
    logs = (look.log_of(broker, step.producer_id, step.start_offset) for broker in look.assigned)
    return {(at, end) for log in logs for at, end in log.ends if at >= below}


def lacking(step: EndStep, marker_offset: int | None, look: Look) -> str:
    """Why the step is not proven yet: which replica does not show the marker or its effect. Empty once all do.

    The effect is that the transaction is not open, and that its first record has the right outcome.

    Args:
        step: the step.
        marker_offset: the offset of the marker that the step wrote; None if no replica shows it.
        look: a look at the partition.
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
            return f"the last stable offset of broker {broker} is still {stable}"
        first = next((row for row in log.records if row.offset == step.start_offset), None)
        if first is not None and first.outcome is not OUTCOMES[step.end]:
            return f"broker {broker} shows the record at offset {step.start_offset} as {first.outcome.name.lower()}"
    return ""


def _ended_as_well(step: EndStep, below: int, marker_offset: int, look: Look, is_answered: bool) -> str:
    """That the step's marker has ended, or may have ended, a transaction which the producer began since the last look.

    Nothing in a marker says whether the repair or a coordinator wrote it. Each transaction of the producer gets one of
    its coordinator. So a marker was the repair's own if the transaction has another one, and was not if the leader is
    not known to have written one for the repair, and the coordinator, asked before the log was read, has ended all.

    Args:
        step: the step.
        below: the lowest offset that the step's marker can have.
        marker_offset: the offset of the first marker from there on.
        look: a look at the partition.
        is_answered: whether the leader has answered that it wrote the step's marker.
    """
    log = look.log_of(look.leader, step.producer_id, step.start_offset)
    first = next((row.offset for row in log.records if below <= row.offset < marker_offset), UNKNOWN)
    if first == UNKNOWN:
        return ""
    following = next((end for end in log.ends if end[0] > marker_offset), None)
    is_sure = following is None and is_answered
    if following is not None and not any(marker_offset < row.offset < following[0] for row in log.records):
        if following[1] == step.end:
            return ""  # one of the two is of its coordinator, and says the same
        is_sure = True
    if following is None and not is_answered and look.has_ended(step.producer_id, step.start_offset):
        return ""
    began = (
        f"the producer began a transaction at offset {first} in the moment before the marker (offset {marker_offset})"
    )
    how = f"ended that one by {step.end.upper()} as well"
    if is_sure:
        return f"{began}, which {how}; tell the owner of the producer, and resume"
    return f"{began}. If the repair wrote that marker, it {how}: ask the owner of the producer, and resume"


def unlike(
    step: EndStep,
    look: Look,
    leader: tuple[int, int],
    replicas: tuple[int, ...],
    before: Collection[tuple[int, int]] = (),
) -> str:
    """Why a step may not write its end marker: what has changed since it was planned. Empty if it may.

    Args:
        step: the step.
        look: a look at its partition.
        leader: id of the leader, and leader epoch, when the step was planned.
        replicas: ids of the brokers that held the partition when the step was planned.
        before: transactions that earlier steps of the plan end, each as producer id and first offset.
    """
    if (look.leader, look.leader_epoch) != leader:
        return f"another leader was elected since the plan was made: broker {look.leader}, epoch {look.leader_epoch}"
    if look.assigned != replicas:
        return f"the partition was reassigned since the plan was made: its replicas are {list(look.assigned)}"
    if why := disturbed(look) or _unproven(step, look):
        return why
    holders = look.holders(step.producer_id, step.start_offset)
    if tuple(holders) != step.holders:
        return f"brokers {list(step.holders)} held the transaction open when the plan was made, and {holders} do now"
    one = look.transaction(step.producer_id, step.start_offset)
    return "it was not looked at" if one is None else not_safe(look, one, step.end, step.marker_offset, before)


def _unproven(step: EndStep, look: Look) -> str:
    """That findings do not prove any more, or contradict, how a step ends a transaction."""
    ends = look.proven.get((step.producer_id, step.start_offset), ())
    types = {end.type for end in ends}
    if types - {step.end}:
        return f"a finding proves that the transaction was ended otherwise than by {step.end.upper()}"
    markers = {end.marker_offset for end in ends if end.finding == step.finding}
    if markers - {step.marker_offset}:
        return f"finding {step.finding} goes by another end marker by now than when the plan was made"
    return f"finding {step.finding} does not prove any more how it ended" if step.finding and not types else ""


def intention(step: EndStep, look: Look) -> dict[str, Any]:
    """What to record before an end marker is written: the epochs to give it, and the lowest offset that it can have.

    Returns:
        ``producer_epoch``: the newest that any replica remembers of the producer; 0 if none does. The leader refuses a
        marker with a lower one.
        ``coordinator_epoch``: the one that the leader remembers; -1 if it remembers none.
        ``below``: the leader's log end offset; no marker of this step has a lower offset.
    """
    states = [replica.remembered(step.producer_id) for replica in look.replicas.values()]
    known = [state for state in states if state is not None]
    leads = look.replicas[look.leader].remembered(step.producer_id)
    marks = look.replicas[look.leader].marks
    return {
        "producer_epoch": max((state.producer_epoch for state in known), default=0),
        "coordinator_epoch": UNKNOWN if leads is None else leads.coordinator_epoch,
        "below": UNKNOWN if marks is None else marks.log_end_offset,
    }


def following(step: EndStep, look: Look, intended: Mapping[str, Any], asked: Asked | None, made: Maker) -> Action:
    """The next action while no replica shows the end marker: ask the leader to write it, wait, or stop the repair.

    Args:
        step: the step.
        look: a look at the partition.
        intended: how the marker is going to be written, as an event of the repair has put on record.
        asked: the last change that this process asked the cluster for; None if there was none.
        made: makes events.
    """
    mine = asked if asked is not None and asked.change.step == step.number else None
    if mine is not None and mine.refusal:
        return made.event(EventKind.STOPPED, step.number, reason=f"the leader refused the end marker: {mine.refusal}")
    if mine is not None and look.at_ms - mine.at_ms < TAKES_MS:
        return Wait("the leader did not answer; the marker may still come")
    epochs = intended["producer_epoch"], intended["coordinator_epoch"]
    marker = EndMarker(look.place, step.producer_id, *epochs, step.end == "commit")
    return Write(step.number, look.leader, marker)


__all__ = ["after", "following", "intention", "lacking", "unlike", "written"]
