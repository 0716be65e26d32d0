"""The judge's verdicts on replicas, and the proof that each of them contains.

A proof is the list of all possible truths (worlds). A verdict that is not true in all of them cannot be made.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from parallax.evidence.atoms import Place
from parallax.evidence.room import Span
from parallax.model import UNKNOWN

NOBODY_ELSE = frozenset[int]()
"""No broker, where brokers that are right are expected."""


class UnprovenError(ValueError):
    """A verdict says more than its proof implies; this is a bug of Parallax."""


class About(StrEnum):
    """What a verdict is about.

    It is a key, an outcome, an open transaction, a record, or the beginning (head) of a log.
    """

    KEY = "key"
    OUTCOME = "outcome"
    FREEZE = "freeze"
    RECORD = "record"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class World:
    """One possible truth about a partition: which replicas are wrong if it is true.

    Example: in the world where key K was deleted, broker 2, which shows a value of K, is wrong.

    Attributes:
        wrong: the brokers that show something else than this truth.
        unsaid: the brokers that may be right or wrong if this is true.
    """

    wrong: frozenset[int]
    unsaid: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of a verdict: all possible truths (worlds) that the evidence leaves open.

    Attributes:
        worlds: the possible truths, without repetition; at least one.
        count: how many choices led to these worlds; several may lead to the same one.
        judged: the brokers whose replicas were compared with the worlds.
        atoms: places of the records and end markers that the worlds depend on, ascending.
        missing: ranges of offsets where one more record, marker or reading would rule out worlds, ascending.
    """

    worlds: tuple[World, ...]
    count: int
    judged: frozenset[int]
    atoms: tuple[Place, ...] = ()
    missing: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        if not self.worlds:
            raise UnprovenError("a proof without a world proves everything")

    @classmethod
    def of(
        cls,
        worlds: Iterable[World],
        judged: Iterable[int],
        atoms: Iterable[Place] = (),
        missing: Iterable[Span] = (),
        *,
        count: int | None = None,
    ) -> Proof:
        """Make a proof from worlds; worlds that are equal are kept once.

        Args:
            worlds: the possible truths.
            judged: the brokers whose replicas were compared with the worlds.
            atoms: places of the records and end markers that the worlds depend on, in any order.
            missing: ranges of offsets where one more record, marker or reading would rule out worlds, in any order.
            count: how many choices led to these worlds; None if it is as many as there are in ``worlds``.
        """
        every = list(worlds)
        distinct, count = tuple(dict.fromkeys(every)), len(every) if count is None else count
        return cls(distinct, count, frozenset(judged), tuple(sorted(set(atoms))), tuple(sorted(set(missing))))

    @property
    def wrong(self) -> frozenset[int]:
        """The brokers that are wrong in every world (possible truth)."""
        return frozenset.intersection(*(world.wrong for world in self.worlds))

    @property
    def right(self) -> frozenset[int]:
        """The brokers that are surely right in every world (possible truth)."""
        return self.judged.difference(*(world.wrong | world.unsaid for world in self.worlds))

    @property
    def differing(self) -> frozenset[int]:
        """A set of brokers: in every world at least one of them is wrong, but none is wrong in all worlds.

        Example: in one world broker 1 is wrong, in the only other one broker 2 is: the result is {1, 2}. Brokers that
        are wrong in every world are left out. If only these are wrong in some world, the result is empty.
        """
        rest = [world.wrong - self.wrong for world in self.worlds]
        return frozenset().union(*rest) if all(rest) else frozenset()

    @property
    def unknown(self) -> frozenset[int]:
        """The brokers that are neither wrong in every world (possible truth) nor surely right in every world."""
        return self.judged - self.wrong - self.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One verdict of the judge, which is true in every world (possible truth): a broker is wrong, or some differ.

    Attributes:
        about: what the verdict is about.
        proof: the proof that implies it.
        accused: the broker that is wrong; None if replicas differ, and it is not known which of them is wrong.
        sides: if there is no accused, the brokers whose replicas differ: at least one of them is wrong. Else empty.
        right: the brokers that are right in every world.
        everywhere: whether all replicas of the partition are wrong.
        past: whether the accused once showed something wrong, and no longer holds the record.
        key: the key that the verdict is about, or the key of its record.
        offset: offset of the record that the verdict is about; `UNKNOWN`: it is about none.
        producer: producer of the transaction that the verdict is about; `UNKNOWN`: it is about none.
        end_marker: offset of the end marker that ended the transaction, or below which it ended; `UNKNOWN`: none is
            known.

    Raises:
        UnprovenError: the proof does not imply the verdict.
    """

    about: About
    proof: Proof
    accused: int | None = None
    sides: frozenset[int] = frozenset()
    right: frozenset[int] = frozenset()
    everywhere: bool = False
    past: bool = False
    key: Hashable = None
    offset: int = UNKNOWN
    producer: int = UNKNOWN
    end_marker: int = UNKNOWN

    def __post_init__(self) -> None:
        proof = self.proof
        if self.accused is None:
            if not all(world.wrong & self.sides for world in proof.worlds):
                raise UnprovenError(f"in some world none of {sorted(self.sides)} is wrong")
            if self.sides & proof.wrong:
                raise UnprovenError(f"of {sorted(self.sides)} {sorted(self.sides & proof.wrong)} are always wrong")
        elif self.accused not in proof.wrong or self.sides:
            raise UnprovenError(f"broker {self.accused} is not wrong in every world")
        if not self.right <= proof.right:
            raise UnprovenError(f"brokers {sorted(self.right - proof.right)} are not right in every world")
        if self.everywhere and not proof.judged <= proof.wrong:
            raise UnprovenError(f"brokers {sorted(proof.judged - proof.wrong)} are not wrong in every world")


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A key that replicas differed about and agree on now, without proof that they agree on the truth.

    Attributes:
        key: the key.
        since: offset of the key's newest record when the replicas last differed.
        proof: the worlds (possible truths) now: no broker is wrong in all of them, and not all brokers are right in all
            of them.
    """

    key: Hashable
    since: int
    proof: Proof

    def __post_init__(self) -> None:
        if self.proof.wrong or self.proof.judged <= self.proof.right:
            raise UnprovenError("what is proven is settled")


@dataclass(frozen=True, slots=True)
class Undecided:
    """A question about one replica that the evidence leaves open, and which offsets would decide it if they were read.

    Attributes:
        about: what the question is about.
        broker: the broker whose replica it is.
        missing: ranges of offsets where one more record, marker or reading would decide the question; never empty.
        key: the key that the question is about; None if it is about none.
        offset: offset of the record or transaction that the question is about; `UNKNOWN` if it is about none.
    """

    about: About
    broker: int
    missing: tuple[Span, ...]
    key: Hashable = None
    offset: int = UNKNOWN

    def __post_init__(self) -> None:
        if not self.missing:
            raise UnprovenError(f"nothing is missing that would decide about broker {self.broker}")
