"""The second opinion: compares what `parallax.judge` and `findings.decide` make of the same answers to a probe.

Agreements and contradictions are only counted. A contradiction is also logged. The finding follows ``decide`` in any
case.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from parallax.evidence.ledger import Ledger
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState as Decided
from parallax.findings.decide import Decision, Resolution, named
from parallax.findings.decide.case import broker_list
from parallax.findings.effect import whole
from parallax.findings.looks import case_of, is_transactional
from parallax.findings.questions import wanted
from parallax.judge.case import Case
from parallax.judge.judging import Judgement, judge
from parallax.judge.outcomes import Outcomes
from parallax.judge.verdicts import About, Verdict
from parallax.kinds import KINDS, Family
from parallax.model import NOBODY, Rule, broker_label

log = structlog.get_logger(__name__)

_OF_A_PROBE = 16
"""So many claims of a probe get a second opinion; a page has a thousand."""
_LOGGED = 1_000
"""How many suspects are remembered whose contradiction was logged."""


class Says(StrEnum):
    """One word for what the judge, or `decide`, says of a claim."""

    WRONG = "wrong"
    """It is proven which replica is wrong."""
    DIFFER = "differ"
    """Replicas differ, and nothing proves which is wrong."""
    ALL_WRONG = "all wrong"
    RIGHT = "right"
    """All replicas are right."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the judge says of one claim.

    Attributes:
        verdicts: the judge's verdicts on what the claim is about, without verdicts on records that no replica holds any
            more.
        right: the brokers that are proven right about what the claim is about.
        is_over: whether all replicas have answered, and all of them are right about it.
        accused: the brokers that the verdicts accuse.
    """

    verdicts: tuple[Verdict, ...] = ()
    right: frozenset[int] = frozenset()
    is_over: bool = False
    accused: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        accused = frozenset(v.accused for v in self.verdicts if v.accused is not None)
        object.__setattr__(self, "accused", accused)

    @property
    def says(self) -> Says:
        """The opinion in one word, to be compared with the decision."""
        if any(verdict.everywhere for verdict in self.verdicts):
            return Says.ALL_WRONG
        if self.accused:
            return Says.WRONG
        if self.verdicts:
            return Says.DIFFER
        return Says.RIGHT if self.is_over else Says.UNKNOWN


def opinion(claim: Claim, answers: Answers, ledger: Ledger, *, compacted: bool, deletes: bool) -> Opinion:
    """Return what the judge says of a claim.

    Args:
        claim: the claim.
        answers: the replicas' answers, given under one leader.
        ledger: all other evidence about the partition.
        compacted: whether the topic's policy compacts.
        deletes: whether records may be deleted from the head of the log.
    """
    known, wants = ledger.part(*_component(claim, answers)), wanted([claim], tuple(answers.replicas))
    case = case_of(claim, answers, known, wants.offsets | wants.markers, compacted=compacted, deletes=deletes)
    judgement = judge(case, {})
    verdicts = tuple(v for v in judgement.verdicts if not v.past and _is_about(claim, v))
    right = frozenset[int]().union(*(v.right for v in verdicts))
    if _is_of_a_key(claim):
        right |= judgement.right.get(claim.key, frozenset())
    is_whole = case.looks.keys() == case.partition.replicas
    return Opinion(verdicts, right, is_whole and all(_is_over(claim, case, judgement)))


def _component(claim: Claim, answers: Answers) -> tuple[frozenset[Hashable], frozenset[int], frozenset[int]]:
    """Return the keys, producers and offsets that a claim is about; the answers may show another producer's record."""
    shown = [record for answer in answers.replicas.values() for record in answer.uncommitted.values()]
    producers = {claim.producer_id, *(record.producer_id for record in shown if is_transactional(record))}
    keys = frozenset[Hashable]({claim.key} - {None})
    return keys, frozenset(producers), frozenset({claim.offset, claim.transaction_start_offset, claim.marker_offset})


def _is_of_a_key(claim: Claim) -> bool:
    return KINDS[claim.kind].family is Family.KEY and claim.key is not None


def _is_about(claim: Claim, verdict: Verdict) -> bool:
    match KINDS[claim.kind].family:
        case Family.KEY:
            about_it = verdict.about is About.KEY and verdict.key == claim.key
            return about_it or (claim.rule is Rule.OUTCOME and _is_of_its_transaction(claim, verdict))
        case Family.TRANSACTION:
            return _is_of_its_transaction(claim, verdict)
        case Family.CONTENT:
            return verdict.about is About.RECORD and verdict.offset == claim.offset
        case Family.HEAD:
            return verdict.about is About.HEAD
        case Family.TRUNCATION:
            return False


def _is_of_its_transaction(claim: Claim, verdict: Verdict) -> bool:
    if verdict.about not in (About.OUTCOME, About.FREEZE) or verdict.producer != claim.producer_id:
        return False
    start = claim.transaction_start_offset if claim.transaction_start_offset >= 0 else claim.offset
    is_within = start <= verdict.offset and (claim.marker_offset < 0 or verdict.offset < claim.marker_offset)
    return is_within or verdict.end_marker == claim.marker_offset >= 0


def _is_over(claim: Claim, case: Case, judgement: Judgement) -> Iterator[bool]:
    """Return the conditions that must all hold where nothing about a claim is wrong."""
    replicas = case.partition.replicas
    match KINDS[claim.kind].family:
        case Family.KEY if claim.key is not None:
            yield judgement.right.get(claim.key, frozenset()) >= replicas
        case Family.TRANSACTION:
            group = case.transactions.of.get(claim.first_offset)
            yield group is not None and Outcomes(case).shows_its_end(group, claim.first_offset) >= replicas
            yield not any(v.past and _is_about(claim, v) for v in judgement.verdicts)
            # A replica's outcome of a record that it was not asked for may differ, even if the end marker is the same.
            records = [case.facts[offset].place for offset in group.offsets] if group is not None else []
            yield all(p in look.facts or look.lacks(p) for look in case.looks.values() for p in records)
        case Family.CONTENT:
            held = [f for look in case.looks.values() for f in look.facts.values() if f.offset == claim.offset]
            yield len(held) > 1 and len(set(held)) == 1
        case Family.HEAD:
            yield not case.partition.deletes and case.partition.compacted
        case _:
            yield False


def said_by(decision: Decision) -> Says:
    """Return a decision in one word, to be compared with the judge's opinion."""
    if decision.verdict is Decided.CONFIRMED:
        return Says.DIFFER if decision.accused == NOBODY else Says.WRONG
    if decision.has_spread:
        return Says.ALL_WRONG
    is_over = decision.verdict is Decided.DISMISSED and decision.resolution is Resolution.HEALED
    return Says.RIGHT if is_over and not decision.was_shown else Says.UNKNOWN


class Agreement(StrEnum):
    """How the judge's opinion on a claim compares with the decision on it (`agreement`).

    `JUDGE` means that the judge proves more than the decision, `DECIDED` that the decision proves more.
    """

    SAME = "same"
    JUDGE = "judge_knows_more"
    DECIDED = "judge_knows_less"
    CONTRADICT = "contradict"
    FAILED = "failed"
    """Judging raised an error: a fault of the program."""


def agreement(claim: Claim, decision: Decision, judged: Opinion) -> Agreement:
    """Return how the judge's opinion on a claim compares with the decision on it.

    They contradict each other if one says that a replica is wrong, or one of several, and the other calls all of these
    right. If they accuse two different replicas, that is no contradiction, since both may be wrong.
    """
    ours, theirs = judged.says, said_by(decision)
    if theirs is Says.WRONG and ours is Says.WRONG:
        if decision.accused in judged.accused:
            return Agreement.SAME
        return Agreement.CONTRADICT if decision.accused in judged.right else Agreement.DECIDED
    if ours is theirs:
        return Agreement.SAME
    if Says.UNKNOWN in (ours, theirs):
        return Agreement.DECIDED if ours is Says.UNKNOWN else Agreement.JUDGE
    if ours is Says.RIGHT or (theirs is Says.RIGHT and claim.broker in {NOBODY, *judged.accused}):
        return Agreement.CONTRADICT
    # The rest differs in how many replicas are named.
    known = (Says.RIGHT, Says.DIFFER, Says.WRONG, Says.ALL_WRONG)
    return Agreement.JUDGE if known.index(ours) > known.index(theirs) else Agreement.DECIDED


class SecondOpinions:
    """Asks the judge about the claims of each probe, and counts how often it agrees with the decision. Thread-safe.

    The judge gets only the answers to that probe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._logged: dict[str, None] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """By `Agreement` of judge and decision: how many claims had it so far."""
        with self._lock:
            return dict(self._counts)

    def hear(self, claims: Sequence[Claim], answers: Sequence[Answers]) -> None:
        """Compare judge and decision for the first 16 claims of a probe, and count the results; never raises.

        A claim whose replica is gone is not counted, nor one whose pivot another replica has replaced.

        Args:
            claims: the claims that the probe asked about.
            answers: the answers about each claim, in the same order.
        """
        for claim, said in list(zip(claims, answers, strict=False))[:_OF_A_PROBE]:
            try:
                how = self._beside(claim, said)
            except Exception:
                how = Agreement.FAILED
                log.exception("a second opinion could not be had, by a fault of Parallax", **_named(claim))
            if how is not None:
                with self._lock:
                    self._counts[how] += 1

    def _beside(self, claim: Claim, answers: Answers) -> Agreement | None:
        """Return how far judge and decision agree; None where a claim's replica is gone."""
        if answers.gone is not None or answers.pivot != NOBODY:
            return None
        claim = named(claim, answers)
        decided = whole(claim, answers, live_only=claim.confirmed_at_ms > 0 or claim.freed).decision
        # Where no policy is known, records may have been deleted.
        deletes = answers.cleanup_policy is None or "delete" in answers.cleanup_policy
        judged = opinion(claim, answers, Ledger(0), compacted=True, deletes=deletes)
        how = agreement(claim, decided, judged)
        if how is Agreement.CONTRADICT and self._is_new(claim):
            log.warning(
                "the judge in shadow says something else than the probe",
                text=f"{said_by(decided)}: {decided.reason}",
                why=_words(judged),
                what="the finding goes by the probe; please report it",
                **_named(claim),
            )
        return how

    def _is_new(self, claim: Claim) -> bool:
        with self._lock:
            is_new = claim.suspect_id not in self._logged
            self._logged[claim.suspect_id] = None
            while len(self._logged) > _LOGGED:
                del self._logged[next(iter(self._logged))]
            return is_new


def _words(judged: Opinion) -> str:
    """What the judge says, for a line of the log."""
    match judged.says:
        case Says.WRONG | Says.ALL_WRONG:
            return f"wrong in every possible truth: {broker_list(sorted(judged.accused))}"
        case Says.DIFFER:
            sides = frozenset[int]().union(*(verdict.sides for verdict in judged.verdicts))
            return f"one is wrong, and nothing says which: {broker_list(sorted(sides))}"
        case says:
            return f"{says} in every possible truth: all replicas" if says is Says.RIGHT else str(says)


def _named(claim: Claim) -> dict[str, object]:
    return {
        "suspect": claim.suspect_id,
        "kind": str(claim.kind),
        "topic": claim.topic,
        "partition": claim.partition,
        "broker": broker_label(claim.broker),
    }
