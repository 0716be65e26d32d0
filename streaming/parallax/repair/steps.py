"""The steps of a repair plan: what each one does, and what a person should know before running it. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from parallax.findings.moves import Move, Purpose
from parallax.remedies import Act
from parallax.repair.atoms import Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The texts of a plan's step that a person reads before deciding to run it.

    Attributes:
        number: the step's number in the plan, from 1 to 9,999; 0 for a step that only a person can do.
        act: the kind of step.
        title: what the step does, a sentence that begins with the text of `Act.begin`.
        needs: what the step requires, as phrases.
        changes: what the step changes on the cluster, a sentence.
        takes: how long the step takes, and how many bytes it writes.
        half_way: what is true on the cluster if the step fails half-way.
        undo: how to undo the step.
        by_hand: how to do the same without Parallax.
        warning: what to know or to do before; may be empty.
    """

    number: Annotated[int, Field(ge=0, le=9_999)]
    act: Act
    title: str
    needs: tuple[str, ...]
    changes: str
    takes: str
    half_way: str
    undo: str
    by_hand: str
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndStep(Told):
    """A step that writes an end marker for one transaction.

    Attributes:
        producer_id: the producer of the transaction.
        start_offset: the transaction's first offset.
        end: how the transaction ended, and so the type of the marker: ``commit`` or ``abort``.
        proof: what proves that it ended so.
        finding: the id of the finding with the proof; empty if a person says so.
        marker_offset: the offset at which the original end marker was read on some replica; -1 if none was.
        holders: ids of the brokers whose replicas hold the transaction open.
    """

    kind: Literal["end_marker"] = "end_marker"
    producer_id: int
    start_offset: int
    end: Annotated[str, Field(pattern="^(commit|abort)$")]
    proof: str
    finding: str
    marker_offset: int
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep(Told):
    """A step that reassigns the partition, so that a replica is copied again or another one leads.

    Attributes:
        before: ids of the brokers that hold the partition before the step, the preferred leader first.
        move: the reassignment.
        source: the broker whose replica is right, and leads while anything is copied.
        is_said: whether only a person says that the replica of ``source`` is right, and nothing proves it.
        given_up: up to which offset (exclusive) the person who says so gives up what only other replicas hold, because
            the log of ``source`` begins there; -1 if nothing is given up.
        is_paused: whether a person says that Cruise Control moves no partitions during the repair.
        wrong: ids of all brokers whose replicas are wrong by the plan's findings, in this step or another.
        offsets: the offsets at which findings say that these replicas are wrong.
        mended: ids of the findings that the plan ends by this step or before it.
        known_to: up to this offset the job must have read every replica before a copy is deleted; -1 if it need not.
        proof: what these replicas and the source showed when the findings were judged, by finding.
    """

    kind: Literal["assignment"] = "assignment"
    before: tuple[int, ...]
    move: Move
    source: int
    is_said: bool
    given_up: int
    is_paused: bool
    wrong: tuple[int, ...]
    offsets: tuple[int, ...]
    mended: tuple[str, ...]
    known_to: int
    proof: tuple[Proof, ...]

    def __post_init__(self) -> None:
        """Refuse a step whose reassignment is another than the step says, as in a plan that somebody has edited."""
        before, after, move = {*self.before}, {*self.move.replicas}, self.move
        if ({*move.gone}, {*move.copied}) != (before - after, after - before):
            raise ValueError(f"step {self.number} deletes or copies others than it names")
        is_for_good = move.purpose is Purpose.DROP
        if self.source not in before & after or (is_for_good and not before - after <= {*self.wrong}):
            raise ValueError(f"step {self.number} deletes a copy that it does not call wrong")
        if move.purpose in (Purpose.LEAD, Purpose.ORDER) and before != after:
            raise ValueError(f"step {self.number} is about the order, and deletes or copies")

    @property
    def is_final(self) -> bool:
        """Whether the step deletes a wrong replica or changes who leads, which nothing brings back."""
        return bool(self.dropped) or self.move.elects

    @property
    def read(self) -> frozenset[int]:
        """The offsets at which a look has to say what the replicas show."""
        return frozenset(self.offsets).union(*(atom.read for one in self.proof for atom in one.atoms))

    @property
    def dropped(self) -> tuple[int, ...]:
        """Ids of the brokers whose wrong replica this step deletes; empty unless its purpose is `Purpose.DROP`."""
        return self.move.gone if self.move.purpose is Purpose.DROP else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonStep(Told):
    """A step that only a person can do, on a broker's disk; its number is 0, and no run of the plan does it.

    Attributes:
        broker: the broker.
        finding: the id of the finding that it ends.
        check: the command that shows afterwards whether it worked, and a sentence on what it has to show.
    """

    kind: Literal["person"] = "person"
    broker: int
    finding: str
    check: str


Step = EndStep | MoveStep

__all__ = ["EndStep", "MoveStep", "PersonStep", "Step", "Told"]
