"""Judges transactions that a replica holds open although they have ended.

The replica's read_committed consumers get nothing from the first record of such a transaction on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from parallax.evidence.atoms import End, Look, Place
from parallax.evidence.log import Belongs
from parallax.judge.case import Case
from parallax.judge.outcomes import Outcomes
from parallax.judge.verdicts import NOBODY_ELSE, About, Proof, Undecided, Verdict, World
from parallax.model import UNKNOWN


def freezes(case: Case, outcomes: Outcomes) -> Iterator[Verdict | Undecided]:
    """Judge each transaction that a replica of the partition holds open.

    It yields a verdict, or which evidence is missing for one.

    A replica is wrong if it holds a transaction open that has ended, and its log reaches beyond the end. The
    transaction has ended if an end marker of its producer lies behind its first record. If no marker is known, it has
    ended in two cases. Both need a compacted topic, in whose log nothing was ever truncated.

    - Some replica reported an LSO above the transaction's first record, and with it a high watermark H. Then the
      transaction had ended below H, and the accused's log must reach H.
    - Another replica in sync does not hold the transaction open, and its log ends at its high watermark. The accused's
      log must reach as far.

    Example: broker 2 holds the transaction of offset 4 open, its high watermark is 9, and a COMMIT was read at 7:
    broker 2 is wrong. Counter-example: its high watermark is 6. It will copy the COMMIT with what comes next.

    Args:
        case: the partition to judge.
        outcomes: the verdicts about outcomes, which say which brokers are right.
    """
    told = [
        stable
        for stable in case.ledger.stable
        if case.lineage.of(Place(stable.high_watermark - 1, stable.epoch)) is Belongs.YES
        and case.lineage.tops.get(stable.epoch, UNKNOWN) >= stable.high_watermark - 1
    ]
    found: dict[int, list[tuple[int, int, int, list[Place]]]] = defaultdict(list)
    for broker, look in case.looks.items():
        for producer, first in (look.open or {}).items():
            end = case.transactions.first_end(producer, first)
            atoms: list[Place] | None = None
            if end != UNKNOWN and case.is_of_the_log_that_stands(look, end):
                atoms = [case.facts[end].place]
            elif case.partition.compacted and not case.lineage.cut_epochs:
                stable = next(
                    (
                        s
                        for s in told
                        if s.log_start <= first < s.last_stable and s.high_watermark <= look.high_watermark
                    ),
                    None,
                )
                if stable is not None:
                    atoms = [Place(stable.high_watermark - 1, stable.epoch)]
                elif any(_has_ended(case, other, look, producer, first) for other in case.looks.values()):
                    atoms = []
            if atoms is None:
                yield from _undecided(case, broker, first)
            else:
                found[producer].append((broker, first, end, atoms))
    for producer, mine in found.items():
        hanging = frozenset(broker for broker, *_ in mine)
        for broker, first, end, atoms in mine:
            group = case.transactions.of.get(first)
            clear = outcomes.shows_its_end(group, first) - hanging if group is not None else NOBODY_ELSE
            judged = hanging | clear
            proof = Proof.of([World(hanging)], judged, atoms)
            yield Verdict(
                about=About.FREEZE,
                proof=proof,
                accused=broker,
                right=clear,
                everywhere=hanging >= case.partition.replicas and judged <= hanging,
                offset=first,
                producer=producer,
                end_marker=end,
            )


def _undecided(case: Case, broker: int, first: int) -> Iterator[Undecided]:
    """A transaction that a replica holds open, if it is not surely open in truth."""
    group = case.transactions.of.get(first)
    if group is None or group.options != (End.OPEN,):
        missing = case.room.spans(first, case.top) or [(first, first + 1)]
        yield Undecided(About.FREEZE, broker, tuple(missing), offset=first)


def _has_ended(case: Case, other: Look, look: Look, producer: int, first: int) -> bool:
    """Whether another replica in sync, whose log the accused holds to its end, does not hold the transaction open."""
    if other.open is None or producer in other.open:
        return False
    if other.broker not in case.partition.in_sync | {case.partition.leader}:
        return False
    # What lies beyond a high watermark may be an end marker that nobody has replicated.
    if other.has_grown or not other.log_start <= first < other.log_end == other.high_watermark:
        return False
    last, leads = other.log_end - 1, other.broker == case.partition.leader
    if leads and look.broker in case.partition.in_sync and look.log_end == look.high_watermark == other.log_end:
        return True  # The leader's log is the current one, and the accused has all of it.
    return case.is_of_the_log_that_stands(other, last) and case.is_of_the_log_that_stands(look, last)
