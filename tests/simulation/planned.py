"""A judge that is asked only about what the comparison suspects, beside one that looks at everything.

The comparison, its tables and its suspects are the product's. Of each suspect there is a *component*: a key, a
producer's transactions, or the records of a log that was cut. A look goes by the components that are watched: what a
replica shows of them, and what any answer says of a log (its offsets, its open transactions, where epochs end). What
the whole look says of a place that is wrong, and this one does not, is *missed*, unless the comparison counts the place
as unknown: that is left to an audit, which looks at everything.

Verified: whether suspects name enough. Not verified: how few requests a component needs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar

from parallax.evidence.atoms import Fact, Look, Reading
from parallax.evidence.ledger import Ledger
from parallax.findings.claim import Claim
from parallax.judge.case import Case
from parallax.judge.judging import Judgement, judge
from parallax.judge.outcomes import Outcomes
from parallax.judge.verdicts import About, Verdict
from parallax.model import UNKNOWN, FindingKind
from tests.simulation import oracle, properties
from tests.simulation.content import key_of_halves
from tests.simulation.expected import Shown
from tests.simulation.judging import name_of
from tests.simulation.monitor import Monitor
from tests.simulation.properties import Ended, Moment, Place, Unknown
from tests.simulation.readers import Row
from tests.simulation.second import MISSED, SPOKEN, UNSOUND, Mistake, Second, Watching, lies_in, spoken
from tests.simulation.seeing import Reports
from tests.simulation.world import World

OF_A_LOG = frozenset({FindingKind.LOG_TRUNCATED, FindingKind.CONTENT_MISMATCH, FindingKind.LOG_HEAD_MISSING})
"""Kinds of suspects by which the records of a log are in doubt, whichever keys they have."""


@dataclass
class Components:
    """What is watched.

    Attributes:
        keys: keys that are suspected, or were written by a transaction that is.
        producers: producers of which a transaction is suspected.
        offsets: records that are suspected by themselves.
        logs: a log was cut, or holds other records than another.
    """

    keys: set[Hashable] = field(default_factory=set)
    producers: set[int] = field(default_factory=set)
    offsets: set[int] = field(default_factory=set)
    logs: bool = False

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Components:
        """What these claims are about."""
        found = cls()
        for claim in claims:
            if claim.key is not None:
                found.keys.add(key_of_halves(*claim.key))
            found.keys |= {key_of_halves(*halves(text)) for text in claim.recorded.keys}
            found.producers |= {claim.producer_id} - {UNKNOWN}
            found.offsets |= {claim.offset} - {UNKNOWN}
            found.logs |= claim.kind in OF_A_LOG
        return found

    def grow(self, facts: Iterable[Fact]) -> None:
        """Watch the keys that a suspected transaction has written."""
        self.keys |= {fact.key for fact in facts if fact.end is None and fact.producer in self.producers}

    def part_of(self, look: Look, known: Iterable[Fact]) -> Look:
        """What of a look is asked for: the watched records, how their transactions ended, and what tells of the log."""
        every = [*look.facts.values(), *known]
        writers = self.producers | {
            f.producer for f in every if f.end is None and f.key in self.keys and f.transactional
        }

        def is_asked(fact: Fact) -> bool:
            is_watched = fact.producer in writers if fact.producer != UNKNOWN else fact.key in self.keys
            return self.logs or is_watched or fact.key in self.keys or fact.offset in self.offsets

        facts = {place: fact for place, fact in look.facts.items() if is_asked(fact)}
        listed = frozenset(one for one in look.listed if self.logs or one[0] in writers)
        # What lies where a transaction is listed says whether its batch is empty.
        for _, first in listed:
            held = next((top for top in look.tops if top.offset >= first), None)
            facts |= {held: look.facts[held]} if held in look.facts else {}
        outcomes = {place: end for place, end in look.outcomes.items() if place in facts}
        return replace(look, facts=facts, outcomes=outcomes, listed=listed)

    def speak_of(self, one: Verdict) -> bool:
        """Whether a verdict is about any of them; what a log's own offsets say needs no suspect."""
        match one.about:
            case About.FREEZE | About.HEAD:
                return True
            case About.KEY:
                return one.key in self.keys
            case About.OUTCOME:
                return one.producer in self.producers or one.key in self.keys
            case About.RECORD:
                return self.logs or one.offset in self.offsets or one.key in self.keys

    def records(self, shown: Iterable[Fact]) -> set[int]:
        """The offsets of records of the transactions that are suspected."""
        return {f.offset for f in shown if f.end is None and f.transactional and f.producer in self.producers}


def _is_ended(outcomes: Outcomes, offset: int, replicas: AbstractSet[int]) -> bool:
    """Whether all replicas show the end marker that a record has in every world."""
    group = outcomes.case.transactions.of.get(offset)
    return group is not None and outcomes.shows_its_end(group, offset) >= replicas


def halves(text: str) -> tuple[int, int]:
    """The halves of a key's hash as tables hold them, of its text."""
    high, low = (int(part, 16) for part in (text[:16], text[16:]))
    return tuple(half - (half >> 63 << 64) for half in (high, low))  # type: ignore[return-value]


@dataclass
class Asked(Ledger):
    """A ledger of answers that hold only what was asked for: they say nothing of what they do not hold."""

    def read(self, broker: int, reading: Reading) -> None:
        """Take in what a reader has passed; of a look nothing."""
        if not self.looking:
            super().read(broker, reading)

    looking: bool = False

    def look(self, look: Look, *, leads: bool) -> None:
        """Take in a look."""
        self.looking = True
        super().look(look, leads=leads)
        self.looking = False


@dataclass
class Suspecting(Watching):
    """A monitor whose readers tell two ledgers: one for whole looks, one for those at what is suspected."""

    def __post_init__(self) -> None:
        self.asked = Asked(self.cluster.limits.delete_retention)
        self.told = Reports(self.asked)
        super().__post_init__()
        if not (self.late or self.eventful):
            self.asked.led(0, 0)
            self.told.begin(self.positions)

    def give(self, view: int, broker: int, rows: list[Row]) -> None:
        """Hand over rows."""
        for row in rows:
            self.told.take(view, broker, row, self.cluster.now)
        super().give(view, broker, rows)


@dataclass
class Planned(Second):
    """A history with the product, whole looks, and looks at what is suspected."""

    watching: ClassVar[type[Monitor]] = Suspecting

    def __post_init__(self) -> None:
        super().__post_init__()
        self.components = Components()
        self.differed: Mapping[Hashable, int] = {}
        self.part: Judgement | None = None
        self.over: dict[str, int] = {}
        """By suspect that a look has settled, when that was raised."""
        real = self.judge.end

        def end(findings: Ended, unknown: Unknown, shown: Shown) -> None:
            self._compare(unknown)
            real(findings, unknown, shown)

        self.judge.end = end  # type: ignore[method-assign]

    def settle(self) -> None:
        """As the product's own histories end."""
        World.settle(self)

    def _audit(self) -> None:
        World._audit(self)

    def look(self, between: Callable[[], bool] | None, where: str) -> Judgement:
        """Look at everything, and at what is suspected."""
        first = len(self.moments)
        last = super().look(between, where)
        case, monitor = self.case, self.monitor
        assert case is not None
        assert isinstance(monitor, Suspecting)
        watched = {name: c for name, c in monitor.raised.items() if self.over.get(name) != c.raised_at_ms}
        self.components = Components.of(watched.values())
        known = list(monitor.asked.facts.values())
        shown = [*known, *(fact for look in case.looks.values() for fact in look.facts.values())]
        self.components.grow(shown)
        looks = {broker: self.components.part_of(look, known) for broker, look in case.looks.items()}
        for broker, look in looks.items():
            monitor.asked.look(look, leads=broker == case.partition.leader)
        asked = Case(monitor.asked, case.partition, looks, case.latest_stable)
        part = judge(asked, self.differed)
        self.differed = part.differed
        self.part = replace(part, verdicts=tuple(v for v in part.verdicts if self.components.speak_of(v)))
        for verdict in self.part.verdicts:
            moments = self.moments if verdict.past else self.moments[max(0, first - 1) :]
            if (untrue := self._untrue(verdict, moments)) is not None:
                self.mistakes.append(Mistake(f"{UNSOUND}, asked, {verdict.about}", f"{where}: {verdict}; {untrue}"))
        self.counts["judged suspects, in all looks"] += len(watched)
        if looks.keys() == case.partition.replicas:
            self._settle(watched, asked, shown)
        return last

    def _settle(self, watched: Mapping[str, Claim], asked: Case, shown: Iterable[Fact]) -> None:
        """Watch no more what all replicas are right in, in every world; that nothing is said of it is no end."""
        assert self.part is not None
        replicas, outcomes = asked.partition.replicas, Outcomes(asked)
        for name, claim in watched.items():
            one = Components.of([claim])
            one.grow(shown)
            is_right = all(self.part.right.get(key, frozenset()) >= replicas for key in one.keys)
            if is_right and not one.logs and all(_is_ended(outcomes, o, replicas) for o in one.records(shown)):
                self.over[name] = claim.raised_at_ms
                self.counts["judged suspects that a look has settled"] += 1

    def _compare(self, unknown: Unknown) -> None:
        """Count, for each place that is wrong at the end, what either look says of it."""
        self.look(None, "at the end")
        if self.profile.late or self.profile.cap is not None:
            return
        assert self.part is not None
        now, truth = self.judge.now(), oracle.truth_of(self.cluster)
        for place in properties.places(truth, now):
            whole = self.how(place, truth, now) or MISSED
            part = spoken(self.part.verdicts, place, truth, now)
            if part is None and whole in SPOKEN:
                part = self._left(place, truth, unknown) or self._by_earlier_looks(place, truth, now) or MISSED
            self.counts[f"beside {place.what}: whole {whole.split(':')[0]}, asked {part or 'nothing'}"] += 1
            if part is MISSED:
                text = f"{place}; whole {whole}; watched {self.components}; {now[place.broker]}"
                self.mistakes.append(Mistake(f"{MISSED}, asked, {place.what}", text))

    def _by_earlier_looks(self, place: Place, truth: oracle.Truth, now: Moment) -> str | None:
        """Whether a whole look now, with what readers were given, does not find it either: others saw it before."""
        case, monitor = self.case, self.monitor
        assert case is not None
        assert isinstance(monitor, Suspecting)
        ledger = copy.deepcopy(monitor.asked)
        for broker, look in case.looks.items():
            ledger.look(look, leads=broker == case.partition.leader)
        found = judge(Case(ledger, case.partition, case.looks, case.latest_stable), {}).verdicts
        return None if spoken(found, place, truth, now) else "nothing: only earlier whole looks saw it"

    def _left(self, place: Place, truth: oracle.Truth, unknown: Unknown) -> str | None:
        """Why an audit has to say it; None: nothing says that one is needed."""
        offsets = properties.difference(self.cluster, truth, place)
        if unknown.holds(offsets):
            return "unknown"
        if name_of(place) in self.judge.harmed:
            return "nothing: lost after it was read"
        return "left to an audit" if lies_in(offsets, unknown.until_audited) else None
