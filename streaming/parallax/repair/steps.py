"""The steps of a plan: what each does, and what a person who decides needs to know. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from parallax.findings.moves import Move, Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a person reads about a step of a plan before deciding on it.

    Attributes:
        number: its place in the plan, from 1.
        title: what it does, a sentence.
        needs: what it requires, each a phrase.
        changes: what it changes, a sentence.
        takes: how long, and how much is written.
        half_way: what is true if it fails half-way.
        undo: how it is undone.
        by_hand: how to do the same without Parallax.
        warning: what to know or to do first; may be empty.
    """

    number: int
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
        producer_id: whose transaction it is.
        start_offset: where it begins.
        end: ``commit`` or ``abort``.
        proof: what proves that it ended so.
        finding: the id of the finding with the proof; empty if a person says so.
        marker_offset: where its end marker was read; -1 where none was.
        holders: the brokers that hold it open.
    """

    kind: Literal["end_marker"] = "end_marker"
    producer_id: int
    start_offset: int
    end: str
    proof: str
    finding: str
    marker_offset: int
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep(Told):
    """A step that assigns the partition to other brokers, to copy or to lead.

    Attributes:
        before: the replicas before it, the preferred leader first.
        move: what is done.
        source: the broker that is right, and leads while anything is copied.
        is_said: whether only a person says that it is right, and nothing proves it.
        wrong: the brokers that are wrong, of all such steps.
        offsets: where the findings say that they are wrong.
    """

    kind: Literal["assignment"] = "assignment"
    before: tuple[int, ...]
    move: Move
    source: int
    is_said: bool
    wrong: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def dropped(self) -> tuple[int, ...]:
        """The replicas whose copy the step deletes for good: those that are wrong."""
        return self.move.gone if self.move.purpose is Purpose.DROP else ()


Step = EndStep | MoveStep

__all__ = ["EndStep", "MoveStep", "Step", "Told"]
