"""Judges all replicas of a partition by one answer (look) of each: the entry point of the package."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from parallax.evidence.atoms import Fact
from parallax.judge import keys
from parallax.judge.case import Case
from parallax.judge.freezes import freezes
from parallax.judge.logs import heads, records
from parallax.judge.outcomes import Outcomes
from parallax.judge.verdicts import About, Undecided, Unsettled, Verdict
from parallax.model import IsolationLevel


@dataclass(frozen=True)
class Judgement:
    """All that the judge says of a partition, by one answer (look) of each replica.

    Attributes:
        verdicts: what is true of replicas in every world (possible truth).
        unsettled: keys that replicas differed about and agree on now, without proof that the replicas are right.
        undecided: what is true in some worlds only, with the offsets whose reading would decide it.
        differed: by key, the offset of its newest record when replicas last differed about the key. The next judgement
            needs it.
        worlds: how many choices the evidence left open: a number for each judged key and isolation level, key by key.
        too_many: keys that were not judged, because the evidence leaves too many choices open.
        right: by key, the brokers that are right about it in every world, for consumers of both isolation levels. If
            the looks show only what read_committed consumers get, it is true for these consumers.
    """

    verdicts: tuple[Verdict, ...]
    unsettled: tuple[Unsettled, ...]
    undecided: tuple[Undecided, ...]
    differed: Mapping[Hashable, int]
    worlds: tuple[int, ...]
    too_many: tuple[Hashable, ...]
    right: Mapping[Hashable, frozenset[int]]


def judge(case: Case, differed: Mapping[Hashable, int]) -> Judgement:
    """Judge the replicas of a partition by one answer (look) of each.

    Args:
        case: the partition to judge.
        differed: by key, the offset of its newest record when replicas last differed about the key. It is
            `Judgement.differed` of the judgement before; empty if there was none.

    Returns:
        The judgement. If no replica answered it is empty, with ``differed`` unchanged.
    """
    return _Judging(case, differed).run()


class _Judging:
    def __init__(self, case: Case, differed: Mapping[Hashable, int]) -> None:
        self.case = case
        self.differed = dict(differed)
        self.verdicts: list[Verdict] = []
        self.unsettled: list[Unsettled] = []
        self.undecided: list[Undecided] = []
        self.worlds: list[int] = []
        self.too_many: list[Hashable] = []
        self.right: dict[Hashable, frozenset[int]] = {}

    def run(self) -> Judgement:
        if self.case.looks:
            outcomes = Outcomes(self.case)
            self._take(freezes(self.case, outcomes))
            self._take([*outcomes.verdicts, *outcomes.undecided])
            if self.case.partition.compacted:
                self._keys()
            self._take([*records(self.case), *heads(self.case)])
        return Judgement(
            tuple(self.verdicts),
            tuple(self.unsettled),
            tuple(self.undecided),
            self.differed,
            tuple(self.worlds),
            tuple(self.too_many),
            self.right,
        )

    def _take(self, found: Iterable[Verdict | Undecided]) -> None:
        for one in found:
            if isinstance(one, Verdict):
                self.verdicts.append(one)
            else:
                self.undecided.append(one)

    def _keys(self) -> None:
        facts, doubted = defaultdict[Hashable, list[Fact]](list), defaultdict[Hashable, list[Fact]](list)
        for offset in sorted(self.case.facts):
            fact = self.case.facts[offset]
            if fact.end is None:
                # A key of which nothing is left but below a log start is looked at too, to say that it is unknown.
                facts[fact.key] += [fact] if offset >= self.case.start else []
        for broker in self.case.looks:
            for key in self.case.shown(broker):
                facts[key] += []  # A key that replicas show is looked at, even with no record in the current log.
        for fact in self.case.doubted:
            if fact.end is None and fact.offset >= self.case.start:
                doubted[fact.key].append(fact)
        for key in {**facts, **doubted}:
            if any(look.tells_of(key) for look in self.case.looks.values()):
                self._key(key, facts.get(key, []), doubted.get(key, []))

    def _levels(self) -> tuple[IsolationLevel, ...]:
        """The isolation levels of which the looks say what consumers are given."""
        is_whole = all(look.keys is None for look in self.case.looks.values())
        uncommitted = (IsolationLevel.READ_UNCOMMITTED,) if is_whole else ()
        return IsolationLevel.READ_COMMITTED, *uncommitted

    def _key(self, key: Hashable, facts: list[Fact], doubted: list[Fact]) -> None:
        """Judge a key at each isolation level; who is wrong at both is wrong once."""
        every = [keys.judge(self.case, key, facts, doubted, level) for level in self._levels()]
        judged_at = [judged for judged in every if judged is not None]
        if len(judged_at) < len(every):
            self.too_many.append(key)
            span = self.case.start, self.case.top
            self.undecided += [Undecided(About.KEY, b, (span,), key=key) for b in self.case.looks]
            return
        committed, *_ = judged_at
        self.worlds += [judged.proof.count for judged in judged_at]
        right = self.right[key] = keys.right_at(judged_at)
        said: set[int | None] = set()
        for judged in judged_at:
            for verdict in self._verdicts(key, judged, right):
                if verdict.accused not in said:
                    said.add(verdict.accused)
                    self.verdicts.append(verdict)
        if None in said:
            self.differed[key] = committed.newest
        elif not said:
            self._settle(key, committed, right)
        for broker in self.case.looks.keys() - right - said:
            missing = [span for judged in judged_at for span in judged.proof.missing]
            if missing:
                self.undecided.append(Undecided(About.KEY, broker, tuple(sorted(set(missing))), key=key))

    def _verdicts(self, key: Hashable, judged: keys.Judged, right: frozenset[int]) -> Iterator[Verdict]:
        proof = judged.proof
        for broker in sorted(proof.wrong):
            yield Verdict(
                about=About.KEY,
                proof=proof,
                accused=broker,
                right=right,
                everywhere=proof.wrong >= self.case.partition.replicas,
                key=key,
                offset=judged.newest,
            )
        if proof.differing and not judged.explained:
            yield Verdict(about=About.KEY, proof=proof, sides=proof.differing, key=key, offset=judged.newest)

    def _settle(self, key: Hashable, judged: keys.Judged, right: frozenset[int]) -> None:
        """A key that replicas differed about, and agree on: settled where all are right, or show what came since."""
        if key not in self.differed:
            return
        since = self.differed[key]
        show_newer = [any(f.offset > since for f in self.case.shown(b).get(key, ())) for b in self.case.looks]
        if self.case.looks.keys() <= right or all(show_newer):
            del self.differed[key]
        elif not judged.proof.judged <= judged.proof.right:
            self.unsettled.append(Unsettled(key, since, judged.proof))
