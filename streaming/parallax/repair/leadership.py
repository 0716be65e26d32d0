"""Plans the step that makes a right replica lead, and keeps wrong ones from leading, without a copy. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from parallax.counts import brokers_text
from parallax.findings.grounds import are
from parallax.findings.moves import Move, first_of, leading
from parallax.remedies import Act
from parallax.repair.copies import GIVEN, Said, Sides, given_up, proof, sides
from parallax.repair.fit import unsure
from parallax.repair.layout import Layout, hindered
from parallax.repair.seen import Look
from parallax.repair.steps import MoveStep
from parallax.replica.changes import MOVE_RIGHTS
from parallax.shell import Shell


@dataclass(frozen=True, slots=True)
class Leadership:
    """The step that makes a right replica lead, or the reasons why there is none.

    Attributes:
        steps: the one step; empty if none is needed, or none is possible.
        missing: why no step is possible for some or all findings; each is a sentence that says what to do.
        note: why no step is needed, a sentence; empty if one is.
    """

    steps: tuple[MoveStep, ...] = ()
    missing: tuple[str, ...] = ()
    note: str = ""


def leadership(look: Look, shell: Shell, said: Said) -> Leadership:
    """Return the step that makes a right replica the leader and puts wrong ones last, or why there is none.

    Args:
        look: a look at the partition, with its layout, and what the replicas show at the findings' offsets.
        shell: how commands name the cluster.
        said: what a person states.
    """
    if not look.claims:
        command = shell.parallax("lead", look.place.topic, "--partition", look.place.partition)
        return Leadership(note=f"No finding is open here that says who must not lead. What else counts: {command}")
    found, missing = sides(look, look.claims, said)
    if found is None:
        return Leadership(missing=tuple(missing))
    sure = [one for one in found.sources if not unsure(look, one, found.joint.findings)]
    source = first_of(look.assigned, look.leader, sure or found.sources)
    move = leading(look.assigned, source, found.wrong)
    if look.leader == source and not move.is_new:
        right = "and is right" if said.right is None else f"and that it is right {GIVEN}"
        note = f"Broker {source} leads, {right}. {are(found.wrong, 'comes', 'come')} last already."
        return Leadership(missing=tuple(missing), note=note)
    layout = look.layout or Layout(error="it was not looked at")
    if why := hindered(layout, look.place, move, source, is_paused=said.is_paused):
        return Leadership(missing=(*missing, f"{found.named}: {why}."))
    return Leadership((_step(look, found, source, move, shell, said),), tuple(missing))


def _step(look: Look, found: Sides, source: int, move: Move, shell: Shell, said: Said) -> MoveStep:
    name, wrong = look.place.name, brokers_text(found.wrong)
    goes_over = look.leader != source
    clients = f"Clients go over from broker {look.leader} to broker {source}. " if goes_over else ""
    return MoveStep(
        number=1,
        act=Act.LEAD,
        title=f"{Act.LEAD.begin(right=f'broker {source}')} {name}, and put {wrong} last.",
        needs=(
            proof(look, found.joint, source, found.wrong, is_said=said.right is not None),
            f"{MOVE_RIGHTS} for the user of the settings",
            "every replica in sync, and nothing else that is being reassigned",
        ),
        changes=f"{clients}The replicas are assigned as {list(move.replicas)}. The controller elects the first of them "
        f"that is in sync, so {wrong} only if no other is.",
        takes="Seconds. Nothing is copied.",
        half_way="The order is changed, and the other broker leads still.",
        undo=f"Once {wrong} is right again: `parallax repair undo` assigns it as it was, {list(look.assigned)}."
        if move.is_new
        else f"By an election that makes broker {look.leader} the leader.",
        by_hand=move.command(look.place, shell),
        warning=f"Nothing is mended: {wrong} may still lead if no other replica is in sync, and consumers that fetch "
        "from it (client.rack) still meet what is wrong. Plan a repair as well.",
        before=look.assigned,
        move=move,
        source=source,
        is_said=said.right is not None,
        given_up=given_up(look, source, said),
        is_paused=said.is_paused,
        wrong=found.wrong,
        offsets=found.joint.offsets,
        mended=found.joint.findings,
        known_to=look.known_to,
        proof=found.joint.proof(source),
    )


__all__ = ["Leadership", "leadership"]
