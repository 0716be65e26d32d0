"""A second opinion on generated histories: `parallax.judge`, held against the oracle, by itself or beside the product.

At every look (each ``round`` and ``probe`` of a history, and at its end) the judge is given what the readers were given
so far and all that the replicas show. What must hold:

- **sound**: who is accused was wrong in that while it was looked; of those that differ, one was; who is right in every
  world was right.
- **known**: what is wrong at the end is accused, a difference, or undecided by what the judge itself names as missing.

Verified: lineage, room, worlds, verdicts, on whole looks. Not verified: questions, lives of findings, audits, texts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from parallax.evidence.ledger import Ledger
from parallax.evidence.room import Span, in_time, without
from parallax.judge.case import Case, Partition
from parallax.judge.judging import Judgement, judge
from parallax.judge.verdicts import About, Verdict
from tests.simulation import advice, oracle, properties
from tests.simulation.history import Op
from tests.simulation.monitor import Finding, Monitor
from tests.simulation.properties import Moment, Place, Said
from tests.simulation.readers import Row
from tests.simulation.seeing import ENDS, Reports, look_at
from tests.simulation.world import World

LOOKS = frozenset({"round", "probe"})
_SAID = {About.OUTCOME: "transaction", About.FREEZE: "transaction"}
UNSOUND, MISSED = "unsound", "missed"


@dataclass
class Watching(Monitor):
    """A monitor whose readers tell a ledger as well."""

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.cluster.limits.delete_retention)
        self.reports = Reports(self.ledger)
        self.differed: dict[Any, int] = {}
        super().__post_init__()
        if not (self.late or self.eventful):
            self.ledger.led(0, 0)
            self.reports.begin(self.positions)

    def give(self, view: int, broker: int, rows: list[Row]) -> None:
        """Hand over rows to the comparison, and to the ledger."""
        for row in rows:
            self.reports.take(view, broker, row, self.cluster.now)
        super().give(view, broker, rows)


@dataclass
class Reading(Watching):
    """Readers alone: nothing is compared, probed or found."""

    def give(self, view: int, broker: int, rows: list[Row]) -> None:
        """Hand over rows to the ledger."""
        super().give(view, broker, rows)
        self.queues[view, broker].clear()

    def batch(self, take: float = 1.0, crash: bool = False, repeat: bool = False) -> None:
        """Compare nothing."""

    def probe(self, between: Callable[[], bool] | None = None) -> list[Finding]:
        """Ask nothing."""
        return []

    def restart(self) -> None:
        """Forget nothing: there is nothing but the ledger, which a table holds."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something that a look said and is not true, or that the last one did not say.

    Attributes:
        what: `UNSOUND` or `MISSED`, and of what.
        text: the verdict or the place, and what is true.
    """

    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"


def said(verdict: Verdict) -> Said:
    """What a verdict says, in the words of the properties."""
    return Said(
        kind=str(verdict.about) + ("" if verdict.accused is not None else " without direction"),
        accused=verdict.accused,
        sides=verdict.sides,
        about=_SAID.get(verdict.about, str(verdict.about)),
        producer_id=verdict.producer,
        start=verdict.offset if verdict.about in _SAID else -1,
        offset=verdict.offset,
        key=verdict.key,  # type: ignore[arg-type]
        marker=verdict.end_marker,
        everywhere=verdict.everywhere,
    )


@dataclass
class Second(World):
    """A history with the judge, and nothing of the product but its readers."""

    watching: ClassVar[type[Monitor]] = Reading
    mistakes: list[Mistake] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    """Spent on looking and judging."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.moments: list[Moment] = []
        """All in which replicas were wrong in something else."""
        self.case: Case | None = None
        self.last: Judgement | None = None

    def apply(self, op: Op) -> None:
        """Apply one operation; look at what it has come to where it is a look of the monitor."""
        super().apply(op)
        if op[0] not in _READ_ONLY:
            self._note()
        if op[0] in LOOKS:
            self.look(self._stirred(op), f"at {op}, t={self.cluster.now}")

    def _stirred(self, op: Op) -> Callable[[], bool] | None:
        """What may happen between the answers of two replicas."""
        return self.stirring(op[1]) if op[1] else None

    def settle(self) -> None:
        """A cluster at rest for some rounds, and the last look."""
        for _ in self.rounds_at_rest():
            pass
        self.conclude()

    def _audit(self) -> None:
        """Every look is as strong as an audit."""

    def _note(self) -> None:
        now = self.judge.now()
        if not self.moments or self.moments[-1] != now:
            self.moments.append(now)

    # -- looking -------------------------------------------------------------------------------------------------------

    def look(self, between: Callable[[], bool] | None, where: str) -> Judgement:
        """Look at all replicas, judge, and hold the judgement against the oracle."""
        started, spent = time.perf_counter(), 0.0
        cluster, watching, looks = self.cluster, self.monitor, {}
        assert isinstance(watching, Watching)
        epoch, first = cluster.leader_epoch, len(self.moments)
        self._note()
        for broker in sorted(cluster.replicas):
            if between is not None:
                paused = time.perf_counter()
                between()
                self._note()
                spent += time.perf_counter() - paused
            if (one := look_at(cluster, broker)) is not None:
                looks[broker] = one
                watching.ledger.look(one, leads=broker == cluster.leader)
        if cluster.leader_epoch != epoch:
            looks = {}
            self.counts["judged looks void by an election"] += 1
        p = self.profile
        if p.siblings:
            watching.ledger.elsewhere |= {
                name: ENDS[end] for name, end in cluster.elsewhere.items() if name[1] % 3 or not p.seed % 3
            }
        partition = Partition(
            leader=cluster.leader,
            in_sync=frozenset(cluster.isr),
            replicas=frozenset(cluster.replicas),
            compacted=p.compacted,
            deletes=p.trims or not p.compacted,
            unclean=p.unclean,
        )
        latest = max((r.lso for r in cluster.replicas.values() if r.up), default=-1) if between is not None else -1
        self.case = Case(watching.ledger, partition, looks, latest)
        self.last = judge(self.case, watching.differed)
        watching.differed = dict(self.last.differed)
        self.seconds += time.perf_counter() - started - spent
        self._hold(self.last, self.moments[max(0, first - 1) :], where)
        return self.last

    def _hold(self, judgement: Judgement, moments: list[Moment], where: str) -> None:
        self.counts["judged looks"] += 1
        self.counts["judged keys, at both levels"] += len(judgement.worlds)
        for worlds in judgement.worlds:
            self.counts[f"worlds {_size(worlds)}"] += 1
        self.counts["judged keys of too many worlds"] += len(judgement.too_many)
        for verdict in judgement.verdicts:
            kind = _kind(verdict)
            self.counts[f"said {kind}"] += 1
            untrue = self._untrue(verdict, self.moments if verdict.past else moments)
            if untrue is not None:
                self.mistakes.append(Mistake(f"{UNSOUND} {kind}", f"{where}: {verdict}; {untrue}"))
        for one in judgement.unsettled:
            wrong = [b for b in one.proof.judged if any(b in m and one.key in m[b].unlike for m in moments)]
            some = "all wrong" if len(wrong) == len(one.proof.judged) else "some wrong" if wrong else "all right"
            self.counts[f"said unsettled, in truth {some}"] += 1
        for key, brokers in judgement.right.items():
            for broker in brokers:
                if all(broker in moment and key in moment[broker].keys for moment in moments):
                    text = f"{where}: {broker} about key {key}; {moments[-1][broker]}"
                    self.mistakes.append(Mistake(f"{UNSOUND} right about a key", text))

    def _untrue(self, verdict: Verdict, moments: list[Moment]) -> str | None:
        """What is untrue of a verdict by the oracle; None: nothing."""
        one = replace(said(verdict), everywhere=False)
        broken = properties.confirmed(one, moments, self.cluster)
        if broken is not None:
            if (
                verdict.about is About.KEY
                and properties.confirmed(one, [self._by_those_that_are_there()], self.cluster) is None
            ):
                # A mistake of the property: it takes what a stale replica holds, or one that is down, for the truth.
                self.counts["judged rightly, where the property took a stale or absent replica for the truth"] += 1
                return None
            return str(broken)
        for broker in verdict.right & self.cluster.replicas.keys():
            about = replace(one, accused=broker if one.accused is None else one.accused)
            if not advice.is_right(about, broker, self.cluster, self.profile.compacted):
                return f"broker {broker} is called right"
        return None

    def _by_those_that_are_there(self) -> Moment:
        """What is wrong by a truth that ends at the furthest high watermark of those in sync.

        It begins at the furthest log start of those that are up. What a broker deleted that is down since, and told
        nobody, consumers of the others get still.
        """
        cluster = self.cluster
        truth = oracle.Truth(cluster.history, max(cluster.replicas[b].hw for b in cluster.isr))
        start = oracle.compared_from(cluster, up=True)
        return {b: oracle.wrong_in(truth, r, start, self.profile.compacted) for b, r in cluster.replicas.items()}

    # -- the end -------------------------------------------------------------------------------------------------------

    def conclude(self) -> None:
        """Look once more: what is wrong is said, or undecided by what the judge names."""
        self.look(None, "at the end")
        if self.profile.late or self.profile.cap is not None:
            return
        now, truth = self.judge.now(), oracle.truth_of(self.cluster)
        for place in properties.places(truth, now):
            how = self.how(place, truth, now)
            self.counts[f"known {place.what}: {how or MISSED}"] += 1
            if how is None:
                self.mistakes.append(Mistake(f"{MISSED} {place.what}", f"{place}; {now[place.broker]}"))

    def how(self, place: Place, truth: oracle.Truth, now: Moment) -> str | None:
        """How the last look speaks of a place; None: it does not, and names nothing that would decide."""
        assert self.last is not None
        if (how := spoken(self.last.verdicts, place, truth, now)) is not None:
            return how
        if place.what == "key" and any(one.key == place.key for one in self.last.unsettled):
            return "unsettled"
        return next(self._missing(place, truth, now), None)

    def _missing(self, place: Place, truth: oracle.Truth, now: Moment) -> Iterator[str]:
        """What the judge names as missing that would decide a place; last, what nobody can know."""
        case, last = self.case, self.last
        assert case is not None
        assert last is not None
        offsets = properties.difference(self.cluster, truth, place)
        if place.what == "key":
            yield from self._missing_of_a_key(place, offsets | ({truth.latest.get(place.key, -1)} - {-1}))
        elif place.what == "outcome":
            turned = {o for span, part in now[place.broker].turned if span == place.span for o in part}
            yield from self._missing_of_an_outcome(place.broker, turned)
        else:
            yield from self._missing_of(About.FREEZE if place.what == "progress" else About.RECORD, place)
        if place.what == "record" and lies_in(offsets, case.room.gaps):
            yield "undecided: room"
        if offsets & {fact.offset for fact in case.doubted}:
            yield "undecided: lineage"
        # Of a record it counts where that lies, not where its transaction ends.
        if (place.offset if place.what == "record" else max(offsets, default=case.start)) < case.start:
            yield "undecided: below a log start"
        replaced = self.cluster.dropped.keys() | self.cluster.cuts.keys()
        was_copied = place.what == "outcome" and place.broker in replaced
        if was_copied and not properties.holds(self.cluster, now, place):
            yield "nothing: its log was replaced between two readings, and nothing of the record is left"

    def _missing_of_a_key(self, place: Place, offsets: set[int]) -> Iterator[str]:
        case, last = self.case, self.last
        assert case is not None
        assert last is not None
        if any((one.about, one.broker, one.key) == (About.KEY, place.broker, place.key) for one in last.undecided):
            yield "undecided"
        is_known = any(fact.key == place.key and fact.end is None for fact in case.ledger.facts.values())
        if not is_known and lies_in(offsets, case.room.gaps):
            yield "undecided: nothing of it was shown"

    def _missing_of(self, about: About, place: Place) -> Iterator[str]:
        assert self.last is not None
        named = {(one.about, one.broker, one.offset) for one in self.last.undecided}
        if (about, place.broker, place.offset) in named:
            yield "undecided: its end"

    def _missing_of_an_outcome(self, broker: int, turned: set[int]) -> Iterator[str]:
        case, last = self.case, self.last
        assert case is not None
        assert last is not None
        if any(one.broker == broker and one.offset in turned for one in last.undecided):
            yield "undecided: its end was missed"
        groups = (case.transactions.of.get(offset) for offset in turned)
        if any(group is not None and group.end is None for group in groups):
            yield "undecided: its end"
        if turned and max(turned) < case.start:
            yield "undecided: below a log start"
        if lies_in(turned, unread(case, broker)):
            yield "undecided: read late"


def _kind(verdict: Verdict) -> str:
    past = ", past" if verdict.past else ""
    return f"{verdict.about}{past}{'' if verdict.accused is not None else ', without direction'}"


def spoken(verdicts: Iterable[Verdict], place: Place, truth: oracle.Truth, now: Moment) -> str | None:
    """How verdicts speak of a place: one of `SPOKEN`; None where they do not."""
    covering = [verdict for verdict in verdicts if properties.covers(said(verdict), place, truth, now)]
    if any(verdict.accused is not None and not verdict.past for verdict in covering):
        return "accused"
    if any(not verdict.past for verdict in covering):
        return "a difference"
    return "accused, and gone" if place.what == "outcome" and covering else None


SPOKEN = frozenset({"accused", "a difference", "accused, and gone"})


def lies_in(offsets: Iterable[int], spans: Iterable[tuple[int, int]]) -> bool:
    """Whether an offset lies in one of some spans, whose ends are left out."""
    every = list(spans)
    return any(start <= offset < end for offset in offsets for start, end in every)


def unread(case: Case, broker: int) -> list[Span]:
    """The ranges of offsets that a broker's readers have not passed in time, ascending.

    A cleaner may have removed tombstones or end markers there before they were read.
    """
    return without(case.top, in_time(case.lineage, case.ledger.timely_of(broker)))


def _size(worlds: int) -> str:
    return next((f"at most {limit}" for limit in (1, 3, 15, 255) if worlds <= limit), "more than 255")


_READ_ONLY = frozenset({"read", "progress", "batch", "tick", "checkpoint", "coordinator", "round", "probe"})
