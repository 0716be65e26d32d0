"""The judge behind the product's own probes: what it makes of each, beside what the product decides of it.

The product runs as ever. After each probe that it makes, the judge is given the answers and, with ``tables``, what the
readers were given so far; without, the answers alone. Each claim has two answers then, which are counted by how they
stand to each other (`parallax.findings.second_opinion.Agreement`), and by who is right: what one says holds if it was
so at some moment of the probe, by the oracle.

Verified: that the judge accuses nobody who is right, on what a probe asks. Not verified: what a probe does not ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from parallax.evidence.ledger import Ledger
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision, named
from parallax.findings.effect import whole
from parallax.findings.requests import Wants
from parallax.findings.second_opinion import Agreement, Opinion, Says, agreement, opinion, said_by
from parallax.judge.verdicts import About, Verdict
from parallax.kinds import KINDS, Family
from parallax.model import NOBODY, UNKNOWN
from tests.simulation import oracle, properties
from tests.simulation.cluster import Cluster
from tests.simulation.content import key_of_halves
from tests.simulation.monitor import Monitor
from tests.simulation.properties import Moment, Said
from tests.simulation.readers import Row
from tests.simulation.second import UNSOUND, Mistake, Second
from tests.simulation.seeing import Reports
from tests.simulation.world import World

_ABOUT = {
    Family.KEY: "key",
    Family.TRANSACTION: "transaction",
    Family.CONTENT: "record",
    Family.TRUNCATION: "cut",
    Family.HEAD: "head",
}
_JUDGED = {About.OUTCOME: "transaction", About.FREEZE: "transaction"}


@dataclass
class Shadowed(Monitor):
    """A monitor that hears of its own probes; its readers tell a ledger."""

    tables: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.cluster.limits.delete_retention)
        self.reports = Reports(self.ledger, key_of=lambda *halves: halves)
        self.learnt: Callable[[Claim, Answers, Ledger, tuple[Cluster, ...]], None] | None = None
        super().__post_init__()
        if not (self.late or self.eventful):
            self.ledger.led(0, 0)
            self.reports.begin(self.positions)

    def give(self, view: int, broker: int, rows: list[Row]) -> None:
        """Hand over rows."""
        for row in rows if self.tables else ():
            self.reports.take(view, broker, row, self.cluster.now)
        super().give(view, broker, rows)

    def heard(self, claims: Sequence[Claim], answers: Sequence[Answers], seen: Sequence[Cluster]) -> None:
        """A probe was made."""
        for claim, said in zip(claims, answers, strict=True):
            if self.learnt is not None:
                self.learnt(claim, said, self.ledger, tuple(seen))


@dataclass
class AnswersAlone(Shadowed):
    """The same, whose readers tell the judge nothing."""

    tables: ClassVar[bool] = False


@dataclass
class AskingMore(Shadowed):
    """The same, with probes that ask for what the judge needs beside what the product asks.

    Where the leader epochs of all that is known of the claim end, and for open transactions whatever is claimed.
    """

    def asking(self, wants: Wants) -> Wants:
        """What each replica is asked for."""
        facts = self.ledger.facts.values()
        writers = {f.producer for f in facts if f.offset in wants.offsets | wants.markers or f.key in wants.keys}
        about = (f for f in facts if f.key in wants.keys or f.producer in writers - {UNKNOWN})
        return replace(wants, epochs=wants.epochs | {fact.place.epoch for fact in about}, producers=True)


@dataclass
class Shadow(Second):
    """A history with the product, and the judge behind its probes."""

    watching: ClassVar[type[Monitor]] = Shadowed
    noted: dict[tuple[str, str], Agreement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.monitor, Shadowed)
        self.monitor.learnt = self._hear_probe

    def apply(self, op: tuple[str, int, int, int]) -> None:
        """As the product's own histories go."""
        World.apply(self, op)

    def settle(self) -> None:
        """As the product's own histories end."""
        World.settle(self)
        self.counts["judged requests to replicas"] += self.monitor.requests

    def _audit(self) -> None:
        World._audit(self)

    def _hear_probe(self, claim: Claim, answers: Answers, ledger: Ledger, seen: tuple[Cluster, ...]) -> None:
        if answers.gone is not None or answers.pivot != NOBODY:
            return
        if len({cluster.leader_epoch for cluster in seen}) > 1:
            self.counts["judged probes void by an election"] += 1
            return
        p = self.profile
        judged = opinion(
            named(claim, answers), answers, ledger, compacted=p.compacted, deletes=p.trims or not p.compacted
        )
        live_only = claim.confirmed_at_ms > 0 or claim.freed
        decided = whole(named(claim, answers), answers, live_only=live_only)
        moments = [self._moment(cluster) for cluster in seen]
        how = agreement(claim, decided.decision, judged)
        family = KINDS[claim.kind].family
        self.counts[f"beside {family}: {how}"] += 1
        self.counts["judged probes of a claim"] += 1
        if how is not Agreement.SAME or judged.says is Says.WRONG:
            ours = self._true(judged.says, [self._untrue_of(v, moments) for v in judged.verdicts], claim, moments)
            theirs = self._decided_truly(decided.claim, decided.decision, moments)
            words = f"judge {judged.says} {ours}, decided {said_by(decided.decision)} {theirs}"
            self.counts[f"beside {family}: {how}: {words}"] += 1
        self._hold_opinion(claim, judged, moments)

    def _moment(self, cluster: Cluster) -> Moment:
        return oracle.Remembering().judge(cluster, self.profile.compacted)

    def _hold_opinion(self, claim: Claim, judged: Opinion, moments: list[Moment]) -> None:
        for verdict in judged.verdicts:
            if (untrue := self._untrue_of(verdict, moments)) is not None:
                text = f"{claim}; {verdict}; {untrue}; moments {moments}"
                self.mistakes.append(Mistake(f"{UNSOUND}, shadow, {verdict.about}", text))
        wrong = self._all_wrong_in(claim, moments)
        if judged.says is Says.RIGHT and wrong:
            self.mistakes.append(Mistake(f"{UNSOUND}, shadow, right", f"{claim}; {wrong}"))

    def _untrue_of(self, verdict: Verdict, moments: list[Moment]) -> str | None:
        key = None if verdict.key is None else key_of_halves(*verdict.key)  # type: ignore[misc]
        return self._untrue(replace(verdict, key=key), moments)

    def _true(self, says: Says, untrue: list[str | None], claim: Claim, moments: list[Moment]) -> str:
        if says is Says.UNKNOWN:
            return ""
        if says is Says.RIGHT:
            return "untruly" if self._all_wrong_in(claim, moments) else "truly"
        return "untruly" if any(untrue) else "truly"

    def _all_wrong_in(self, claim: Claim, moments: list[Moment]) -> list[int]:
        """Who is wrong in what a claim is about, in every moment."""

        def is_wrong(broker: int, moment: Moment) -> bool:
            # As an accusation: of a transaction, what its record's key shows is another matter.
            one = _said_of(claim, broker, frozenset())
            return broker in moment and properties.is_wrong_in(one, moment[broker])

        return [broker for broker in self.cluster.replicas if all(is_wrong(broker, moment) for moment in moments)]

    def _decided_truly(self, claim: Claim, decision: Decision, moments: list[Moment]) -> str:
        match said_by(decision):
            case Says.UNKNOWN:
                return str(decision.resolution) if decision.verdict == "dismissed" else str(decision.verdict)
            case Says.RIGHT:
                return "untruly" if self._all_wrong_in(claim, moments) else "truly"
            case _:
                nobody = decision.accused == NOBODY and not decision.has_spread
                accused = None if nobody else claim.broker if decision.accused == NOBODY else decision.accused
                sides = frozenset(b for on in decision.sides.values() for b in on)
                one = _said_of(claim, accused, sides)
                return "untruly" if properties.confirmed(one, moments, self.cluster) is not None else "truly"


def _said_of(claim: Claim, accused: int | None, sides: frozenset[int]) -> Said:
    family = KINDS[claim.kind].family
    keyless = family is Family.KEY and claim.key is None
    return Said(
        kind=str(claim.kind),
        accused=accused,
        sides=sides if accused is None else frozenset(),
        about="record" if keyless else _ABOUT[family],
        producer_id=claim.producer_id,
        start=claim.transaction_start_offset,
        offset=claim.first_offset,
        key=None if claim.key is None else key_of_halves(*claim.key),
        marker=claim.marker_offset,
    )


@dataclass
class ShadowOfAnswers(Shadow):
    """The same, by the answers to the probe alone."""

    watching: ClassVar[type[Monitor]] = AnswersAlone


@dataclass
class ShadowAskingMore(Shadow):
    """The same, with probes that ask for more."""

    watching: ClassVar[type[Monitor]] = AskingMore
