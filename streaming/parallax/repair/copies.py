"""Plans the steps that delete wrong replicas and copy them again from a right one, or says why there are none. Pure.

Only replicas that a finding proves wrong are deleted, and only while a replica leads that every finding of the
partition proves right. During a copy at least two replicas hold the partition, and at least ``min.insync.replicas``. So
no replica becomes eligible to lead that was not in sync (KIP-966).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from parallax.counts import agreed, brokers_text, counted
from parallax.findings.moves import Move, Purpose, copying, first_of
from parallax.model import UNKNOWN
from parallax.moments import span_text
from parallax.remedies import Act
from parallax.repair.claims import Claim, Together, together
from parallax.repair.fit import loses, unsure
from parallax.repair.layout import Layout, hindered, slowest
from parallax.repair.seen import Look, contradicted
from parallax.repair.steps import MoveStep
from parallax.replica.changes import MOVE_RIGHTS
from parallax.shell import Shell


@dataclass(frozen=True, slots=True)
class Said:
    """What a person states when a plan is made, because nothing proves it.

    Attributes:
        is_paused: whether the person says that Cruise Control moves no partitions during the repair.
        right: the broker whose replica the person calls right where no finding proves it; None if the person names
            none.
    """

    is_paused: bool = False
    right: int | None = None


NOTHING_SAID = Said()


@dataclass(frozen=True, slots=True)
class Sides:
    """The wrong and the right replicas of a partition, according to findings or to a person.

    Attributes:
        joint: the claims of all findings, joined.
        wrong: the brokers whose replicas are wrong by some finding, in the order of assignment.
        sources: the brokers whose replicas are right by every finding and may be copied, in the order of their ids.
    """

    joint: Together
    wrong: tuple[int, ...]
    sources: tuple[int, ...]

    @property
    def named(self) -> str:
        """The findings' ids as the subject of a sentence: ``Findings 1f2e, 3d4c``."""
        return f"{'Findings' if self.joint.findings[1:] else 'Finding'} {', '.join(self.joint.findings)}"


def sides_by_findings(
    assigned: Sequence[int], left: Collection[Claim], said: Said, known: Collection[tuple[int, int]] = ()
) -> tuple[Sides | None, list[str]]:
    """Return which replicas of a partition have to be copied again, and which may be the source, by its findings.

    Args:
        assigned: the brokers that hold the partition, in the order of assignment.
        left: one claim for each finding that an end marker of the plan does not repair, so that a copy has to.
        said: what a person states.
        known: transactions, each as producer id and first offset. The plan says elsewhere why these cannot be repaired,
            so the sentences leave their findings out if the person calls no replica right.

    Returns:
        A tuple of two:

        - the wrong and the right replicas; None if no finding can be repaired by a copy, if the partition has no wrong
          replica any more, or if no replica is right by all these findings;
        - for each finding that a copy cannot repair, a sentence that says why and what to do.
    """
    lacking = [(one, one.lacks(said.right)) for one in left if one.transaction not in known or said.right is not None]
    missing = [f"Finding {one.finding}: {text}." for one, text in lacking if text]
    joint = together(left, said.right)
    if joint is None:
        return None, missing
    wrong = tuple(broker for broker in assigned if broker in joint.wrong)
    found = Sides(joint, wrong, tuple(sorted(joint.sources & set(assigned))))
    if not wrong:
        why = "the replica that is wrong is none of the partition's any more. Wait for the job"
    elif not found.sources:
        why = f"no replica is proven right by all of them. {Act.WRITE_AGAIN.begin()}"
    else:
        return found, missing
    return None, [*missing, f"{found.named}: {why}."]


def sides(
    look: Look, left: Collection[Claim], said: Said, known: Collection[tuple[int, int]] = ()
) -> tuple[Sides | None, list[str]]:
    """Return the same as `sides_by_findings`, without sources that lack what others hold, or that are contradicted.

    A source is contradicted if it shows something else than when the findings were judged, or if a wrong replica does.

    If a person calls a replica right, it is a source even if its log begins later than another (`loses`).

    Args:
        look: a look at the partition, with what the replicas show at the findings' offsets.
        left: as there.
        said: as there.
        known: as there.
    """
    found, missing = sides_by_findings(look.assigned, left, said, known)
    if found is None:
        return None, missing
    against = {}
    for one in found.sources:
        if why := contradicted(look, found.joint.proof(one), one, found.wrong):
            against[one] = f"{why}. Wait until the job has asked the replicas again, and plan again"
        elif said.right is None and (why := loses(look, one)):
            against[one] = begins_apart(one, why)
    return without(found, against, missing)


def begins_apart(broker: int, why: str) -> str:
    """What to do about a source that may not be copied, or lead, because its log begins late.

    Args:
        broker: the source.
        why: that it does, as `loses` returns it.
    """
    return f"{why}. Plan again once they begin at the same offset, or {_with_right(broker, 'it may go')}"


def without(found: Sides, against: Mapping[int, str], missing: list[str]) -> tuple[Sides | None, list[str]]:
    """The same sides without some sources; none and why, if no source is left.

    Args:
        found: the sides.
        against: by broker that may not be copied, why, and what to do.
        missing: sentences that are returned in any case.
    """
    if able := tuple(one for one in found.sources if one not in against):
        return replace(found, sources=able), missing
    return None, [*missing, f"{found.named}: {next(iter(against.values()))}."]


def _with_right(broker: int, condition: str) -> str:
    return f"with --right {broker} if you know that {condition}"


def copies(
    look: Look, ended: Mapping[tuple[int, int], frozenset[int]], number: int, shell: Shell, said: Said
) -> tuple[list[MoveStep], list[str]]:
    """Return the steps that copy wrong replicas again, and why some wrong replicas get no such step.

    Args:
        look: the look at the partition.
        ended: by transaction that the plan ends by an end marker, as producer id and first offset: the brokers that
            hold it open until then. These need no copy for it.
        number: how many steps the plan has already; the new steps get the numbers after it.
        shell: how commands name the cluster.
        said: what a person states.

    Returns:
        A tuple: the steps in the order in which they are run; and why some wrong replicas get no such step, in
        sentences that say what to do.
    """
    told = {(one.producer_id, one.start_offset) for one in look.transactions if not one.goes_on}
    left = [one for one in look.claims if not one.is_ended_by(ended)]
    found, missing = sides(look, left, said, told)
    mended = tuple(one.finding for one in look.claims if one not in left)
    if found is not None:
        mended += found.joint.findings
    if found is not None and said.right is None:
        found, missing = without(found, _unsure(look, found, mended), missing)
    if found is None:
        return [], missing
    layout, source = (
        look.layout or Layout(error="it was not looked at"),
        first_of(look.assigned, look.leader, found.sources),
    )
    room = _Room(layout, look.assigned, layout.sizes.get(source, 0), list(found.wrong))
    moves = copying(look.assigned, look.leader, found.wrong, source, room.spare)
    some = (hindered(layout, look.place, move, source, is_paused=said.is_paused) for move in moves)
    if why := room.lacking() or next(filter(None, some), ""):
        return [], [*missing, f"{found.named}: {why}."]
    return _steps(look, found.joint, mended, source, moves, room, number, shell, said), missing


def _unsure(look: Look, found: Sides, mended: Collection[str]) -> dict[int, str]:
    """By source of which nobody knows whether it is right about all that is deleted, why, and what to do."""
    lost = f"all that {brokers_text(found.wrong)} holds"
    return {
        one: f"nobody knows whether broker {one} is right about {lost}: {why}. Plan again once that is known, or "
        f"{_with_right(one, 'it is right')}"
        for one in found.sources
        if (why := unsure(look, one, mended, look.known_to))
    }


@dataclass(frozen=True, slots=True)
class _Room:
    """How much is copied, and which broker holds a replica meanwhile.

    Attributes:
        size: bytes of the partition.
        wrong: the brokers that are copied again.
    """

    layout: Layout
    assigned: tuple[int, ...]
    size: int
    wrong: list[int]

    @property
    def spare(self) -> int | None:
        """The broker that replaces each in turn; None if the others are enough."""
        return self.layout.spare(self.assigned, self.size) if self.layout.wants_spare(self.assigned) else None

    def lacking(self) -> str:
        """Why no broker can stand in where one has to, with what to do; empty if one can, or nobody knows."""
        layout, left = self.layout, len(self.assigned) - 1
        if not layout.error and layout.wants_spare(self.assigned) and self.spare is None:
            asks = f", and min.insync.replicas asks for {layout.min_isr}" if layout.min_isr > left else ""
            return (
                f"while one has no copy {left} would be left{asks}, and no other broker has {self.size:,} bytes free "
                "to stand in. Add a broker, or make room on one that holds none of the partition"
            )
        return ""


def _steps(
    look: Look,
    joint: Together,
    mended: tuple[str, ...],
    source: int,
    moves: Collection[Move],
    room: _Room,
    number: int,
    shell: Shell,
    said: Said,
) -> list[MoveStep]:
    before, made, wrong = look.assigned, list[MoveStep](), tuple(room.wrong)
    wrong_still = list(wrong)
    for move in moves:
        offsets = joint.offsets if move.copied or move.purpose is Purpose.DROP else ()
        made.append(
            MoveStep(
                number=number + len(made) + 1,
                act=_act(move),
                title=_title(look, source, move, is_said=said.right is not None),
                needs=_needs(look, joint, source, move, room, is_said=said.right is not None),
                changes=_changes(look, source, move, is_said=said.right is not None),
                takes=_takes(move, room),
                half_way=_half_way(move),
                undo=f"`parallax repair undo` assigns it as it was, {list(look.assigned)}; whoever has no copy by then "
                "copies the leader.",
                by_hand=move.command(look.place, shell),
                warning=_warning(source, move, [one for one in wrong_still if one not in move.gone], room, said),
                before=before,
                move=move,
                source=source,
                is_said=said.right is not None,
                given_up=given_up(look, source, said),
                is_paused=said.is_paused,
                wrong=wrong,
                offsets=offsets,
                mended=mended,
                known_to=look.known_to,
                proof=joint.proof(source),
            )
        )
        before = move.replicas
        wrong_still = [one for one in wrong_still if one not in move.copied]
    return made


def _act(move: Move) -> Act:
    """The step of a copy that a reassignment is."""
    if move.purpose is Purpose.DROP and move.copied:
        return Act.STAND_IN
    return {Purpose.LEAD: Act.LEAD, Purpose.DROP: Act.DROP, Purpose.COPY: Act.COPY, Purpose.ORDER: Act.ORDER}[
        move.purpose
    ]


def _title(look: Look, source: int, move: Move, *, is_said: bool) -> str:
    act, name = _act(move), look.place.name
    wrong = move.copied if act is Act.COPY else move.gone
    named = {"wrong": brokers_text(wrong)} if wrong else {}
    spare = {"spare": brokers_text(move.copied)} if act is Act.STAND_IN else {}
    line = act.begin(right=f"broker {source}", place=name, **named, **spare)
    rest = {
        Act.LEAD: f" {name}: that it is right {GIVEN}." if is_said else f" {name}: it is right about it.",
        Act.DROP: f" of {name}.",
        Act.COPY: f" of {name}, from broker {source}.",
        Act.ORDER: f": {name} was assigned to {list(move.replicas)}.",
    }
    return f"{line}{rest.get(act, '.')}"


GIVEN = "is what was given (--right)"
"""What is said of a replica that only a person calls right."""


def proof(look: Look, joint: Together, source: int, wrong: Collection[int], *, is_said: bool) -> str:
    """Why a replica may be copied, or lead, as a phrase: the findings that prove it right, or that a person says so.

    It ends with what speaks against it, if anything does.

    Args:
        look: a look at the partition.
        joint: the claims of its findings, joined.
        source: the broker whose replica it is.
        wrong: the brokers whose replicas are wrong.
        is_said: whether only a person says that it is right.
    """
    against = "; ".join(filter(None, (loses(look, source), unsure(look, source, joint.findings, look.known_to))))
    rest = f". What speaks against it: {against}" if against else ""
    if is_said:
        return f"that broker {source} is right {GIVEN}. No evidence proves it{rest}"
    return f"broker {source} is right, and {brokers_text(wrong)} wrong, by {' and '.join(joint.findings)}{rest}"


def given_up(look: Look, source: int, said: Said) -> int:
    """Before which offset a person gives up what only other replicas hold (`MoveStep.given_up`); -1 for nothing.

    Args:
        look: a look at the partition.
        source: the broker whose replica the person calls right.
        said: what the person states.
    """
    marks = look.replicas[source].marks
    return UNKNOWN if said.right is None or marks is None or not loses(look, source) else marks.log_start_offset


def _needs(look: Look, joint: Together, source: int, move: Move, room: _Room, *, is_said: bool) -> tuple[str, ...]:
    space = [f"{room.size:,} bytes on {brokers_text(move.copied)}"] if move.copied else []
    return (
        proof(look, joint, source, room.wrong, is_said=is_said),
        *space,
        f"{MOVE_RIGHTS} for the user of the settings",
        "every replica in sync, and nothing else that is being reassigned",
    )


def _changes(look: Look, source: int, move: Move, *, is_said: bool) -> str:
    match move.purpose:
        case Purpose.LEAD:
            reads = "what it shows" if is_said else "what is right"
            return f"Clients go over from broker {look.leader} to broker {source}, and read {reads} from then on."
        case Purpose.DROP:
            held = brokers_text(move.replicas).capitalize()
            return f"{held} hold it then. The copy of {brokers_text(move.gone)} is gone for good."
        case Purpose.COPY:
            rest = f" {brokers_text(move.gone).capitalize()} deletes its copy." if move.gone else ""
            return f"{brokers_text(move.copied).capitalize()} shows what broker {source} shows.{rest}"
        case Purpose.ORDER:
            first = f"Broker {move.replicas[0]}"
            return (
                f"{first} is the preferred leader again, and leads after the next election. Its copy has been compared "
                f"with that of broker {source} by then. So this step does not wait for the job, which ends the finding "
                "at its next look; until then `parallax lead` calls the replica unsafe."
            )


def _takes(move: Move, room: _Room) -> str:
    if not move.copied:
        return "Seconds. Nothing is copied."
    half = span_text(room.layout.retention_ms / 2000)
    return (
        f"{room.size:,} bytes are copied. That has to be over within {half} (half of delete.retention.ms), or the copy "
        f"could miss what is cleaned meanwhile: no throttle below {slowest(room.layout, room.size):,} bytes a second."
    )


def _half_way(move: Move) -> str:
    if move.purpose is Purpose.LEAD:
        return "The order is changed, and the other broker leads still."
    if move.copied and move.gone:
        return f"{brokers_text(move.gone).capitalize()} keeps its copy until {brokers_text(move.copied)} is in sync."
    if move.copied:
        return (
            f"{brokers_text(move.copied).capitalize()} goes on copying by itself; it cannot lead before it is in sync."
        )
    return "Done, or not begun: the controller does it immediately."


def _warning(source: int, move: Move, wrong: list[int], room: _Room, said: Said) -> str:
    if move.purpose is not Purpose.DROP:
        return ""
    found = []
    if said.right is not None:
        found.append(f"If broker {source} is not right, what {brokers_text(move.gone)} shows rightly is lost.")
    if wrong:
        found.append(
            f"If broker {source} fails before the others are copied, {brokers_text(wrong)} may lead, and is wrong."
        )
    elif len(move.replicas) == room.layout.min_isr:
        found.append(
            f"{counted(len(move.replicas), 'replica')} {agreed(len(move.replicas), 'is', 'are')} left, as many as "
            "min.insync.replicas: if one more fails, producers "
            "with acks=all are refused until it is back."
        )
    return " ".join(found)


__all__ = [
    "GIVEN",
    "NOTHING_SAID",
    "Said",
    "Sides",
    "begins_apart",
    "copies",
    "given_up",
    "proof",
    "sides",
    "sides_by_findings",
    "without",
]
