"""The life of suspects and findings: what happened, in; what is to be done, out. No threads, no clock, no table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, ClassVar

import pytest

from parallax.config import FindingSettings
from parallax.findings import effect, ledger
from parallax.findings.acknowledge import acknowledged
from parallax.findings.acknowledgement import acknowledgement_of
from parallax.findings.answers import Answers, CoordinatorAnswer, KeyShown, OpenTransaction, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, Differed, RecordedByViews
from parallax.findings.decide import Resolution
from parallax.findings.ended import Repairs
from parallax.findings.explain import explain
from parallax.findings.finding import claim_of, current, evidence_of, leans_on, was_explained
from parallax.findings.happenings import (
    Answered,
    Append,
    Moment,
    News,
    NotCommitted,
    Probe,
    Suspected,
    Tick,
)
from parallax.findings.lifecycle import Lifecycle
from parallax.findings.shown import Shown
from parallax.model import NOBODY, FindingKind, FindingStatus, Rule, Severity
from parallax.sides import parsed
from tests.builders.answers import NOTHING, OPEN, answers, holding, newest, replica, silent
from tests.builders.claims import KEY, claim, of_key, unmarked
from tests.unit.findings.lives import (
    COMMITTED_WRONGLY,
    MARKER,
    RECHECK_S,
    RESURRECTED,
    RETRY_S,
    START,
    Answering,
    Life,
    NoJitter,
    away,
    deleted,
    gone,
    old_value,
    only_recorded,
    value,
)
from tests.unit.findings.replies import agree, missing, wrong

FROZEN = FindingKind.READ_COMMITTED_FROZEN


class TestASuspect:
    def test_is_probed_at_once_and_confirmed_with_its_evidence(self) -> None:
        life = Life()
        life.suspect(unmarked())
        assert life.waits() == "it has not been probed yet"
        assert life.machine.status().waits == {("orders", 0): life.waits()}
        assert life.answer(missing) == ["s"]
        assert (life.last.status, life.last.kind, life.last.broker) == (FindingStatus.CONFIRMED, MARKER, 2)
        assert life.last.finding_id == unmarked().finding_id("c")
        assert '"open_transactions"' in life.last.evidence
        assert life.machine.waits("s") is None
        assert life.machine.standing() == [life.last]
        assert life.machine.status().probes_total == 1

    def test_whose_producer_no_coordinator_lists_is_counted_and_says_so_in_its_evidence(self) -> None:
        life = Life()
        life.suspect(unmarked())
        life.answer(lambda c: replace(missing(c), coordinator=CoordinatorAnswer.not_listed(7)))
        assert life.machine.status().unlisted_total == {"orders": 1}
        assert "DESCRIBE on it is not granted" in life.last.evidence
        life.suspect(unmarked("other", producer_id=8))
        life.answer(missing)
        assert life.machine.status().unlisted_total == {"orders": 1}

    def test_that_is_cleared_is_dismissed(self) -> None:
        life = Life().confirmed(unmarked(), answering=agree)
        assert life.statuses == ["dismissed"]
        assert life.machine.standing() == []
        assert life.machine.next_due(life.now) is None

    def test_that_only_what_was_recorded_proves_is_reported_as_over_and_never_as_open(self) -> None:
        recorded = RecordedByViews(outcomes={1: "aborted", 2: "committed"})
        life = Life().confirmed(claim(COMMITTED_WRONGLY, recorded=recorded), answering=agree)
        assert life.statuses == ["resolved"]
        assert json.loads(life.last.evidence)["sides"] == {"aborted": [1], "committed": [2]}
        assert "did not hold it any more" in life.last.summary
        assert life.machine.standing() == []
        assert life.machine.status().confirmed_total == {}

    def test_that_is_known_is_left_alone(self) -> None:
        life = Life()
        life.suspect(unmarked(), unmarked())
        life.suspect(unmarked())
        assert [len(p.claims) for p in life.probes] == [1]
        life.answer(missing)
        life.suspect(unmarked(), unmarked(raised_at_ms=10**15))
        assert life.probes == []

    def test_that_nobody_can_decide_waits_twice_as_long_each_time_up_to_a_minute(self) -> None:
        life = Life()
        life.suspect(unmarked())
        life.answer(away)
        waits = []
        for _ in range(9):
            before = life.now
            assert life.until_asked(away) == ["s"]
            waits.append(life.now - before)
        assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])
        assert "broker 2: no answer within 3000 ms" in life.waits()
        assert life.machine.status().pending == {("orders", 0): 1}
        assert life.machine.status().waits == {("orders", 0): life.waits()}
        assert life.until_asked(missing) == ["s"]
        assert life.statuses == ["confirmed"]

    def test_whose_probe_failed_is_probed_again(self) -> None:
        life = Life()
        life.suspect(unmarked())
        life.do(Answered([(life.probes.pop(), None)]))
        assert "the probe failed" in life.waits()
        life.until_asked(missing)
        assert life.statuses == ["confirmed"]

    def test_is_probed_with_those_about_the_same_replica_of_the_same_partition(self) -> None:
        life = Life()
        many = [unmarked(f"s{n}", offset=n, transaction_start_offset=n) for n in range(300)]
        life.suspect(*many, replace(unmarked("third"), partition=1), replace(unmarked("fourth"), broker=3))
        assert sorted(len(p.claims) for p in life.probes) == [1, 1, 44, 256]

    def test_must_be_gone_twice_in_a_row(self) -> None:
        life = Life()
        life.suspect(unmarked())
        for answering in (away, gone, away, gone):
            (life.answer if life.probes else life.until_asked)(answering)
            assert life.statuses == []
        assert "asked once more" in life.waits()
        life.until_asked(gone)
        assert life.statuses == ["dismissed"]


class TestOneThatPagesOnAListOfAMoment:
    """A frozen replica: what convicts it is what a replica does not list at a moment."""

    def test_is_confirmed_by_the_second_of_two_probes_that_agree(self) -> None:
        life = Life()
        life.suspect(claim(FROZEN))
        life.answer(missing)
        assert life.statuses == []
        assert life.waits().endswith("asked once more")
        life.until_asked(missing)
        assert life.now == pytest.approx(RETRY_S)
        assert (life.statuses, life.last.kind) == (["confirmed"], FROZEN)

    def test_is_not_confirmed_by_two_that_disagree(self) -> None:
        def later(c: Claim) -> Answers:
            answers = missing(c)
            held = replica(2, open_transactions=(OpenTransaction(8, 50),), last_stable_offset=50)
            return replace(answers, replicas={**answers.replicas, 2: held})

        life = Life()
        life.suspect(claim(FROZEN))
        for answering in (missing, away, missing, later, missing):
            (life.answer if life.probes else life.until_asked)(answering)
        assert life.statuses == []

    def test_nor_comes_a_resolved_one_back_by_a_single_probe(self) -> None:
        life = Life()
        life.suspect(claim(FROZEN))
        life.answer(missing)
        life.until_asked(missing)
        life.until_asked(agree)
        assert life.statuses == ["confirmed", "resolved"]
        life.until_asked(missing)
        assert life.statuses == ["confirmed", "resolved"]
        before = life.now
        life.until_asked(missing)
        assert life.now - before == pytest.approx(RETRY_S)
        assert life.statuses == ["confirmed", "resolved", "confirmed"]


class TestAClaimWhoseJudgingRaises:
    def test_is_put_off_with_its_error_and_holds_up_no_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        judge = effect.decide

        def breaks(c: Claim, answers: Answers, **options: Any) -> Any:
            if c.suspect_id == "bad":
                raise ValueError("a fault of ours")
            return judge(c, answers, **options)

        monkeypatch.setattr(effect, "decide", breaks)
        life = Life()
        life.suspect(unmarked("bad", offset=50, transaction_start_offset=50), unmarked("good"))
        life.answer(missing)
        assert [(e.suspect_id, str(e.status)) for e in life.table] == [("good", "confirmed")]
        assert [b.claim.suspect_id for b in life.broken] == ["bad"]
        assert life.waits("bad") == "it could not be judged: ValueError: a fault of ours"
        assert life.machine.status().judging_errors_total == 1
        monkeypatch.setattr(effect, "decide", judge)
        assert life.until_asked(agree) == ["bad"]
        assert life.statuses == ["confirmed", "dismissed"]

    def test_keeps_a_finding_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        life = Life().confirmed(unmarked())
        monkeypatch.setattr(effect, "decide", lambda *_, **__: 1 / 0)
        life.until_asked(agree)
        life.until_asked(agree)
        assert life.statuses == ["confirmed"]
        assert life.machine.status().judging_errors_total == 2
        assert life.now == pytest.approx(2 * RECHECK_S)


class TestAFinding:
    def test_is_checked_after_its_interval_and_resolved_and_opens_again(self) -> None:
        life = Life().confirmed(unmarked())
        life.wait(RECHECK_S - 0.1)
        assert life.probes == []
        life.wait(0.1)
        assert life.answer(missing) == ["s"]
        assert life.statuses == ["confirmed"], "nothing has changed"
        life.until_asked(agree)
        resolved_at = life.now
        assert life.statuses == ["confirmed", "resolved"]
        assert life.machine.status().resolved_total == 1
        life.until_asked(missing)
        assert life.now - resolved_at == pytest.approx(10 * RECHECK_S)
        assert life.statuses == ["confirmed", "resolved", "confirmed"]
        assert len({e.finding_id for e in life.table}) == 1

    def test_stays_open_while_the_accused_does_not_answer(self) -> None:
        life = Life().confirmed(unmarked())
        for _ in range(3):
            life.until_asked(away)
        assert life.statuses == ["confirmed"]
        assert life.now == pytest.approx(3 * RECHECK_S)

    def test_says_when_an_election_exposes_it(self) -> None:
        life = Life().confirmed(unmarked())
        assert not life.last.exposed
        life.until_asked(lambda c: missing(c, leader=2))
        assert life.last.exposed
        assert sum(life.machine.status().confirmed_total.values()) == 1

    def test_that_has_turned_is_refined_and_never_back(self) -> None:
        life = Life().confirmed(unmarked())
        life.until_asked(wrong)
        assert [e.kind for e in life.table] == [MARKER, COMMITTED_WRONGLY]
        assert len({e.finding_id for e in life.table}) == 1
        life.until_asked(missing)
        life.until_asked(lambda c: missing(c, leader=2))
        assert [e.kind for e in life.table] == [MARKER, COMMITTED_WRONGLY, COMMITTED_WRONGLY]

    def test_on_an_outcome_says_whether_that_transaction_freezes_the_accused_now(
        self,
    ) -> None:
        """Its end marker was truncated after the accused had ended the transaction wrongly."""

        def frozen(_: Claim) -> Answers:
            held = (OpenTransaction(producer_id=7, start_offset=10),)
            accused = replica(2, open_transactions=held, last_stable_offset=10)
            return Answers({1: replica(1), 2: accused, 3: replica(3)}, leader=1)

        life = Life().confirmed(unmarked())
        life.until_asked(wrong)
        assert life.last.kind is COMMITTED_WRONGLY
        assert "get nothing beyond" not in life.last.summary
        sides = evidence_of(life.last)["sides"]
        for _ in range(3):
            life.until_asked(frozen)
        assert (life.last.kind, len(life.table)) == (COMMITTED_WRONGLY, 3)
        assert "consumers of broker 2 in read_committed get nothing beyond it" in life.last.summary
        assert "last stable offset is stuck at 10" in life.last.summary
        assert "Shown for its key" not in life.last.summary
        assert "Consumers of broker 2 in read_committed get nothing beyond offset 10." in explain(life.last).now
        assert sides == evidence_of(life.last)["sides"], "how it was ended stays proven as it was"
        life.until_asked(missing)
        life.until_asked(missing)
        assert "get nothing beyond" not in life.last.summary

    def test_on_an_outcome_exposes_a_leader_that_holds_its_transaction_open_as_the_accused_does(self) -> None:
        """The logs of 1 and 2 were truncated; what is on record of 1 is how its old log had ended it."""

        def frozen(_: Claim) -> Answers:
            held = (OpenTransaction(producer_id=7, start_offset=10),)
            first, second = (replica(b, open_transactions=held, last_stable_offset=10) for b in (1, 2))
            return Answers({1: first, 2: second, 3: replica(3)}, leader=1)

        life = Life().confirmed(unmarked())
        life.until_asked(wrong)
        assert (life.last.kind, life.last.exposed) == (COMMITTED_WRONGLY, False)
        for _ in range(3):
            life.until_asked(frozen)
        assert (life.last.kind, life.last.exposed, len(life.table)) == (COMMITTED_WRONGLY, True, 3)
        assert "Broker 1 leads the partition and holds that transaction open as well." in life.last.summary
        assert "Broker 1 leads the partition and shows what broker 2 does" in explain(life.last).now

    def test_about_a_transaction_is_reported_again_once_a_replica_that_was_silent_answers(self) -> None:
        """A person may call right only a replica whose answer is in the evidence."""

        def without(broker: int, answered: Callable[[Claim], Answers] = wrong) -> Callable[[Claim], Answers]:
            def some(c: Claim) -> Answers:
                found = answered(c)
                return replace(found, replicas={**found.replicas, broker: silent(broker)})

            return some

        def answered() -> list[int]:
            return sorted(Shown.of(life.last).answered)

        life = Life()
        life.suspect(claim(COMMITTED_WRONGLY))
        life.answer(without(3))
        assert answered() == [1, 2]
        life.until_asked(without(1))
        assert (len(life.table), answered()) == (1, [1, 2]), "one more answers, and one does not any more"
        life.until_asked(wrong)
        assert (len(life.table), answered()) == (2, [1, 2, 3])
        life.until_asked(without(3))
        life.until_asked(wrong)
        assert len(life.table) == 2, "what is known stays known"

    def test_about_a_transaction_keeps_what_was_shown_of_it_when_less_of_it_is_left(self) -> None:
        def at_first(c: Claim) -> Answers:
            return replace(wrong(c), replicas={**wrong(c).replicas, 3: silent(3)})

        def cleaned(c: Claim) -> Answers:
            found = wrong(c)
            return replace(found, replicas={**found.replicas, 1: replica(1, asked=frozenset({10}))})

        life = Life()
        life.suspect(claim(COMMITTED_WRONGLY))
        life.answer(at_first)
        life.until_asked(cleaned)
        assert len(life.table) == 1

    def test_is_refined_by_a_suspect_that_says_more(self) -> None:
        life = Life().confirmed(unmarked())
        life.suspect(claim(COMMITTED_WRONGLY, "more"))
        life.answer(wrong)
        assert [(str(e.status), e.kind) for e in life.table] == [
            ("confirmed", MARKER),
            ("confirmed", COMMITTED_WRONGLY),
        ]
        assert len({e.finding_id for e in life.table}) == 1

    def test_that_is_resolved_is_looked_at_for_a_day(self) -> None:
        life = Life().confirmed(unmarked())
        life.until_asked(agree)
        while life.machine.next_due(life.now) is not None:
            life.until_asked(agree)
        assert timedelta(hours=24) <= timedelta(seconds=life.now) < timedelta(hours=24.2)
        assert life.machine.standing() == []

    def test_is_looked_at_more_rarely_with_many_open(self) -> None:
        life = Life()
        many = [
            unmarked(f"s{n}", offset=1 + n % 90, transaction_start_offset=1 + n % 90, producer_id=n, marker_offset=-1)
            for n in range(200)
        ]
        life.suspect(*many)

        def each(c: Claim) -> Answers:
            held = replica(2, open_transactions=(OpenTransaction(c.producer_id, c.offset),), last_stable_offset=0)
            return Answers({1: replica(1), 2: held, 3: replica(3)}, leader=1)

        life.answer(each)
        assert len(life.machine.standing()) == 200
        life.wait(2 * RECHECK_S)
        assert sum(len(p.claims) for p in life.probes) == 200
        life.answer(each)
        life.wait(RECHECK_S)
        assert life.probes == []
        life.do(News([replace(f, status=FindingStatus.ACKNOWLEDGED) for f in life.machine.standing()]))
        life.wait(RECHECK_S)
        assert life.probes == [], "to acknowledge them asks the brokers no more often"

    def test_answers_to_a_claim_that_was_replaced_meanwhile_count_for_nothing(self) -> None:
        life = Life().confirmed(unmarked())
        life.wait(RECHECK_S)
        (stale,), life.probes = life.probes, []
        life.suspect(claim(COMMITTED_WRONGLY, "more"))
        life.answer(wrong)
        life.do(Answered([(stale, [agree(c) for c in stale.claims])]))
        assert life.statuses == ["confirmed", "confirmed"]

    def test_and_those_to_the_claims_beside_it_count(self) -> None:
        def each_open(c: Claim) -> Answers:
            held = replica(
                2, open_transactions=(OpenTransaction(5, 3), OpenTransaction(c.producer_id, 10)), last_stable_offset=3
            )
            return Answers({1: replica(1), 2: held, 3: replica(3)}, leader=1)

        life = Life().confirmed(unmarked(), unmarked("other", producer_id=8), answering=each_open)
        life.wait(RECHECK_S)
        (asked,), life.probes = life.probes, []
        life.suspect(claim(COMMITTED_WRONGLY, "more"))
        life.answer(wrong)
        before = len(life.table)
        life.do(Answered([(asked, [agree(c) for c in asked.claims])]))
        assert [c.producer_id for c in asked.claims] == [7, 8]
        assert [(str(e.status), claim_of(e).producer_id) for e in life.table[before:]] == [("resolved", 8)]


class TestAFindingThatIsToBeLookedAtAgain:
    def test_is_asked_about_now_and_is_seen_once_there_is_a_verdict(self) -> None:
        life = Life().confirmed(unmarked())
        life.machine.look_again(life.moment)
        assert life.machine.not_seen_again() == {life.last.finding_id: ""}
        assert life.until_asked(away) == ["s"]
        assert life.now == 0.0
        assert "broker 2: no answer within 3000 ms" in life.machine.not_seen_again()[life.last.finding_id]
        assert life.until_asked(missing) == ["s"]
        assert life.machine.not_seen_again() == {}
        assert life.statuses == ["confirmed"]

    def test_or_is_over(self) -> None:
        life = Life().confirmed(unmarked())
        life.machine.look_again(life.moment)
        life.until_asked(agree)
        assert life.machine.not_seen_again() == {}
        assert life.statuses == ["confirmed", "resolved"]


def test_where_nothing_has_happened_everything_is_zero() -> None:
    status = Lifecycle(FindingSettings(), NoJitter()).status()
    counts = (status.dismissed_total, status.resolved_total, status.probes_total, status.judging_errors_total)
    assert counts == (0, 0, 0, 0)
    assert (status.open, status.confirmed_total, status.pending, status.last_probe_at) == ((), {}, {}, None)


def test_a_finding_that_is_asked_about_again_says_when_and_what_came_of_it_without_an_event() -> None:
    life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
    (finding,) = life.table
    assert finding.finding_id not in life.machine.status().asked_again
    life.until_asked_within(3600, wrong)
    stands = life.machine.status().asked_again[finding.finding_id]
    assert stands.in_words == f"asked again {stands.at:%Y-%m-%d %H:%M:%SZ}: it is still true"
    assert stands.at > finding.decided_at
    life.until_asked_within(3600, lambda _: answers(silent(2)))
    unknown = life.machine.status().asked_again[finding.finding_id]
    assert unknown.at > stands.at
    assert "nobody can tell whether it is still true (" in unknown.in_words
    assert life.table == [finding]
    life.until_asked_within(7200, agree)
    assert life.machine.status().asked_again == {}, "its end is an event"


class TestASecondSuspectOfOneCause:
    def test_is_dismissed_under_an_id_of_its_own(self) -> None:
        life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
        life.suspect(unmarked("again"))
        life.answer(wrong)
        finding, dismissal = life.table
        assert (str(dismissal.status), dismissal.suspect_id) == ("dismissed", "again")
        assert dismissal.finding_id == "again" != finding.finding_id
        assert f"Duplicate of finding {finding.finding_id}" in dismissal.summary
        assert current(life.table)[finding.finding_id] == finding
        assert sum(life.machine.status().confirmed_total.values()) == 1

    def test_is_dismissed_though_nothing_can_be_proven_of_it_any_more(self) -> None:
        life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
        life.suspect(unmarked("again"))
        life.answer(lambda c: answers(silent(2)))
        finding, dismissal = life.table
        assert (str(dismissal.status), dismissal.suspect_id) == ("dismissed", "again")
        assert f"Duplicate of finding {finding.finding_id}" in dismissal.summary

    def test_that_each_audit_raises_is_asked_about_each_time_and_dismissed_once(self) -> None:
        life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
        for hour in range(1, 4):
            life.wait(3600)
            life.answer(wrong)
            raised = unmarked("again", raised_at_ms=int(life.moment.at.timestamp() * 1000))
            assert life.machine.is_new(raised)
            life.suspect(raised)
            assert "again" in (life.answer(wrong) if life.probes else life.until_asked(wrong)), hour
            assert life.machine.waits("again") is None
        assert [(e.suspect_id, str(e.status)) for e in life.table] == [("s", "confirmed"), ("again", "dismissed")]
        life.until_asked_within(3600, agree)
        assert [(e.suspect_id, str(e.status)) for e in life.table[2:]] == [("s", "resolved"), ("again", "dismissed")]

    def test_a_cleared_suspect_takes_nothing_back_from_a_finding_that_was_resolved(self) -> None:
        life = Life().confirmed(unmarked())
        life.until_asked(agree)
        life.suspect(claim(COMMITTED_WRONGLY, "again"))
        life.answer(agree)
        assert life.last.finding_id == "again"


class TestASuspectOfWhatHasSpread:
    """No replica that answered showed how the transaction ended, and broker 2 leads with it open; 3 may know."""

    def stuck(self, *brokers: int, silenced: int = NOBODY) -> Answering:
        def answer(_: Claim) -> Answers:
            held = (replica(b, open_transactions=OPEN, last_stable_offset=10) for b in brokers)
            gone = [silent(silenced)] if silenced != NOBODY else []
            others = (replica(b) for b in {1, 2, 3} - {*brokers, silenced})
            return answers(*held, *others, *gone, leader=2)

        return answer

    def spread(self) -> Life:
        life = Life()
        life.suspect(claim(FindingKind.READ_COMMITTED_FROZEN, recorded=RecordedByViews(markers={3: "abort"})))
        life.answer(self.stuck(1, 2, 3))
        life.until_asked(self.stuck(1, 2, 3))
        assert life.statuses == ["spread"]
        return life

    def test_is_no_duplicate_and_proves_the_accused_wrong_again(self) -> None:
        life = self.spread()
        life.suspect(unmarked("again"))
        for _ in range(2):
            life.answer(self.stuck(2))
            life.wait(RETRY_S)
        assert life.statuses == ["spread", "confirmed"]
        assert (life.last.finding_id, life.last.suspect_id) == (life.table[0].finding_id, "again")

    def test_waits_for_a_verdict_while_the_answers_decide_nothing(self) -> None:
        life = self.spread()
        life.suspect(unmarked("again"))
        life.answer(self.stuck(silenced=2))
        assert life.statuses == ["spread"]
        assert "broker 2" in life.waits("again")

    def test_proves_it_again_as_what_had_been_proven_though_it_says_less_itself(self) -> None:
        turned = claim(COMMITTED_WRONGLY, recorded=RecordedByViews(outcomes={1: "aborted", 2: "committed"}))
        life = Life().confirmed(turned, answering=wrong)
        life.until_asked(lambda _: answers(*(holding(b, "committed") for b in (1, 2, 3))))
        assert life.statuses == ["confirmed", "spread"]
        life.suspect(unmarked("again"))
        for _ in range(2):
            life.answer(self.stuck(2))
            life.wait(RETRY_S)
        assert life.statuses == ["confirmed", "spread", "confirmed"]
        assert (life.last.kind, life.last.broker) == (COMMITTED_WRONGLY, 2)

    def test_is_a_duplicate_where_all_still_show_the_same(self) -> None:
        life = self.spread()
        life.suspect(unmarked("again"))
        for _ in range(2):
            life.answer(self.stuck(1, 2, 3))
            life.wait(RETRY_S)
        assert life.statuses == ["spread", "dismissed"]
        assert f"Duplicate of finding {life.table[0].finding_id}" in life.last.summary


class TestTwoVictimsOfOneLostEndMarkerWithoutDirection:
    """Whose end marker it was is not proven, so that neither is accused; they come back one after the other."""

    @staticmethod
    def of(name: str, broker: int, **more: Any) -> Claim:
        made = claim(COMMITTED_WRONGLY, name, recorded=RecordedByViews(end_unproven=True), key_hash_lo=KEY, **more)
        return replace(made, broker=broker)

    @staticmethod
    def shown(by: str) -> Callable[[Claim], Answers]:
        def answer(_: Claim) -> Answers:
            outcomes = dict(zip((1, 2, 3), by.split(), strict=True))
            held = {b: {10: RecordShown(10, outcome)} for b, outcome in outcomes.items()}
            return answers(*(replica(b, committed=held[b], asked=frozenset({10})) for b in held))

        return answer

    def test_are_one_finding_once_it_names_both(self) -> None:
        both = self.shown("aborted committed committed")
        life = Life().confirmed(self.of("first", 2), answering=both)
        assert (life.last.broker, life.last.kind) == (NOBODY, FindingKind.VISIBILITY_MISMATCH)
        life.suspect(self.of("second", 3))
        life.until_asked(both)
        assert [(e.suspect_id, str(e.status)) for e in life.table] == [("first", "confirmed"), ("second", "dismissed")]
        assert leans_on(life.last) == (life.table[0].finding_id,)

    def test_are_two_where_they_are_about_two_transactions(self) -> None:
        both = self.shown("aborted committed committed")
        life = Life().confirmed(self.of("first", 2), answering=both)
        life.suspect(self.of("second", 3, producer_id=8))
        life.until_asked(both)
        assert life.last.status is FindingStatus.CONFIRMED


class TestTheLastRecordOfATransactionThatIsSuspectedByItself:
    """Whether it belongs to the same transaction as the first was not known when both were suspected."""

    LAST: ClassVar[dict[str, Any]] = {"offset": 19, "transaction_start_offset": 19}

    @staticmethod
    def shown(by: str = "aborted committed aborted", *, between: bool = True) -> Callable[[Claim], Answers]:
        """Each offset up to the end marker is held, or there may have been another end marker between."""

        def answer(_: Claim) -> Answers:
            offsets = range(10, 20) if between else (10, 19)
            held = {
                b: {o: RecordShown(o, outcome, producer_id=7) for o in offsets}
                for b, outcome in zip((1, 2, 3), by.split(), strict=True)
            }
            shown = {b: {"committed": held[b], "uncommitted": held[b], "asked": frozenset(offsets)} for b in held}
            return answers(*(replica(b, **shown[b]) for b in held))

        return answer

    def suspects(self, **last: Any) -> tuple[Claim, Claim]:
        first = claim(COMMITTED_WRONGLY, "first", recorded=RecordedByViews(end_unproven=True, markers={1: "abort"}))
        return first, claim(
            COMMITTED_WRONGLY, "last", recorded=RecordedByViews(markers={1: "abort"}), **(self.LAST | last)
        )

    def test_is_no_second_finding_where_the_marker_is_proven_to_have_ended_the_first(self) -> None:
        life = Life()
        life.suspect(*self.suspects())
        life.answer(self.shown())
        assert [(e.suspect_id, str(e.status), e.broker) for e in life.table] == [
            ("first", "confirmed", 2),
            ("last", "dismissed", 2),
        ]
        assert leans_on(life.last) == (life.table[0].finding_id,)

    def test_is_explained_once_the_marker_is_proven_to_have_ended_the_first_as_well(self) -> None:
        first, last = self.suspects()
        life = Life().confirmed(last, answering=self.shown(between=False))
        life.confirmed(first, answering=self.shown())
        assert [str(e.status) for e in life.table] == ["confirmed", "confirmed"]
        while life.now < RECHECK_S:
            life.until_asked(self.shown())
        assert [e.suspect_id for e in life.machine.standing()] == ["first"]
        assert was_explained(next(e for e in reversed(life.table) if e.suspect_id == "last"))

    def test_is_a_finding_where_that_is_not_proven(self) -> None:
        life = Life()
        life.suspect(*self.suspects())
        life.answer(self.shown(between=False))
        assert ("last", "confirmed", 2) in [(e.suspect_id, str(e.status), e.broker) for e in life.table]

    @pytest.mark.parametrize("other", [{"producer_id": 8}, {"marker_offset": 25, "offset": 24}])
    def test_is_a_finding_where_it_is_of_another_transaction(self, other: dict[str, int]) -> None:
        life = Life()
        first, _ = self.suspects()
        life.suspect(first)
        life.answer(self.shown())
        _, last = self.suspects(**other)
        life.suspect(last)
        life.answer(self.of_another(last))
        assert (life.last.suspect_id, str(life.last.status)) == ("last", "confirmed")

    @staticmethod
    def of_another(about: Claim) -> Callable[[Claim], Answers]:
        def answer(_: Claim) -> Answers:
            held = {
                b: {about.offset: RecordShown(about.offset, outcome, producer_id=about.producer_id)}
                for b, outcome in zip((1, 2, 3), ("aborted", "committed", "aborted"), strict=True)
            }
            asked = frozenset({about.offset})
            return answers(*(replica(b, committed=held[b], asked=asked) for b in held))

        return answer


class TestADifferenceOfValueThatAnOutcomeExplains:
    def test_is_dismissed_for_the_finding_in_whatever_order_they_come(self) -> None:
        life = Life()
        life.suspect(value(), claim(COMMITTED_WRONGLY, "t"))
        life.answer(old_value)
        assert [(e.suspect_id, str(e.status)) for e in life.table] == [("t", "confirmed"), ("v", "dismissed")]
        assert json.loads(life.last.evidence)["leans_on"] == [life.table[0].finding_id]

    def test_waits_for_the_verdict_on_a_suspect(self) -> None:
        life = Life()
        life.suspect(value(), claim(COMMITTED_WRONGLY, "t"))
        life.answer(lambda c: away(c) if c.suspect_id == "t" else old_value(c))
        assert life.waits("v").startswith("waits for the verdict on aborted_record_committed at offset 10")
        life.wait(60)
        life.answer(lambda c: agree(c) if c.suspect_id == "t" else old_value(c))
        life.until_asked(old_value)
        assert {(e.suspect_id, str(e.status)) for e in life.table} == {("t", "dismissed"), ("v", "confirmed")}

    def test_of_another_partition_or_cause_stands_for_itself(self) -> None:
        for other in (replace(value(), partition=1), value(offset=60, producer_id=9, key_hash_lo=6)):
            life = Life().confirmed(claim(COMMITTED_WRONGLY, "t"), answering=wrong)
            life.suspect(other)
            life.answer(old_value)
            assert life.last.status is FindingStatus.CONFIRMED

    def test_that_was_confirmed_first_ends_when_the_outcome_is_and_comes_back_only_without_it(self) -> None:
        life = Life().confirmed(value(), answering=old_value)
        assert life.last.kind is RESURRECTED
        life.suspect(claim(COMMITTED_WRONGLY, "t"))
        life.answer(old_value)
        assert life.statuses == ["confirmed", "confirmed"]
        life.wait(RECHECK_S)
        life.answer(old_value)
        ended = next(e for e in life.table if e.status is FindingStatus.RESOLVED)
        assert (ended.finding_id, ended.kind) == (life.table[0].finding_id, RESURRECTED)
        assert json.loads(ended.evidence)["resolution"] == "explained"
        assert f"the same cause as finding {life.table[1].finding_id}" in ended.summary
        assert [f.kind for f in life.machine.standing()] == [COMMITTED_WRONGLY]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_that_was_confirmed_first_is_looked_at_for_as_long_as_the_outcome_stands(self, restarted: bool) -> None:
        life = Life().confirmed(value(), answering=old_value)
        life.suspect(claim(COMMITTED_WRONGLY, "t"))
        life.answer(old_value)
        life.wait(RECHECK_S)
        life.answer(old_value)
        life.wait(timedelta(hours=25).total_seconds())
        life.answer(old_value)
        assert life.statuses.count("resolved") == 1
        assert [f.kind for f in life.machine.standing()] == [COMMITTED_WRONGLY]

        def without_it(c: Claim) -> Answers:
            return old_value(c) if c.kind is RESURRECTED else agree(c)

        while life.statuses.count("resolved") < 2:
            life.until_asked(without_it)
        if restarted:
            life = life.restarted()
        while not life.machine.standing():
            life.until_asked(without_it)
        assert [f.kind for f in life.machine.standing()] == [RESURRECTED]

    def test_that_was_explained_is_looked_at_no_more_once_the_outcome_is_not(self) -> None:
        life = Life().confirmed(value(), answering=old_value)
        life.suspect(claim(COMMITTED_WRONGLY, "t"))
        life.answer(old_value)
        life.until_asked(old_value)
        nothing = {b: replica(b, key=NOTHING) for b in (1, 2, 3)}
        while life.machine.next_due(life.now) is not None:
            life.until_asked(lambda _: Answers(nothing, leader=1))
        assert timedelta(hours=24) <= timedelta(seconds=life.now) < timedelta(hours=25)

    def test_is_judged_again_once_the_finding_is_resolved(self) -> None:
        life = Life().confirmed(claim(COMMITTED_WRONGLY, "t"), value(), answering=old_value)
        assert life.statuses == ["confirmed", "dismissed"]
        life.until_asked(agree)
        assert life.statuses == ["confirmed", "dismissed", "resolved"]
        assert life.answer(old_value) == ["v"]
        assert (life.last.status, life.last.kind) == (FindingStatus.CONFIRMED, RESURRECTED)

    def test_is_judged_again_after_a_restart_between_the_two(self) -> None:
        before = Life().confirmed(claim(COMMITTED_WRONGLY, "t"), value(), answering=old_value)
        before.until_asked(agree)
        assert [c.suspect_id for p in before.probes for c in p.claims] == ["v"]
        life = before.restarted()
        assert life.answer(old_value) == ["v"]
        assert life.last.kind is RESURRECTED
        after = life.restarted()
        assert after.probes == [], "it has had its verdict"

    @pytest.mark.parametrize("restarted", [False, True])
    def test_is_judged_again_once_the_end_of_a_frozen_one_is_known_and_lies_below(self, restarted: bool) -> None:
        def frozen(c: Claim) -> Answers:
            held = replica(2, open_transactions=OPEN, last_stable_offset=10)
            return old_value(c) if c.kind is RESURRECTED else Answers({1: replica(1), 2: held, 3: replica(3)}, leader=1)

        life = Life().confirmed(claim(FROZEN, "t", marker_offset=-1), answering=frozen)
        life.until_asked(frozen)
        assert life.last.kind is FROZEN
        within, behind = value("within", offset=15, marker_offset=16), value("behind", offset=60, marker_offset=61)
        life.suspect(within, replace(behind, key_hash_lo=6))
        life.answer(old_value)
        assert leans_on(life.last) == (life.table[0].finding_id,)
        life.suspect(claim(COMMITTED_WRONGLY, "ended", recorded=RecordedByViews(markers={1: "abort"})))
        life.answer(old_value)
        if restarted:
            life = life.restarted()
        life.answer(old_value)
        assert {(f.kind, f.offset) for f in life.machine.standing()} == {(COMMITTED_WRONGLY, 10), (RESURRECTED, 60)}
        assert [e.suspect_id for e in life.table[-2:] if e.status is FindingStatus.DISMISSED] == ["within"]

    def test_many_that_lean_on_one_finding_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ledger, "LEANING", 2)
        values = [value(f"v{n}", key_hash_lo=n + 1) for n in range(3)]
        life = Life().confirmed(claim(COMMITTED_WRONGLY, "t"), *values, answering=old_value)
        life.until_asked(agree)
        assert sorted(life.answer(old_value)) == ["v1", "v2"]

    def test_that_another_replica_shows_is_not_explained_by_a_frozen_one_whose_end_is_not_known(self) -> None:
        def two_causes(c: Claim) -> Answers:
            if c.kind is not RESURRECTED:
                return missing(c)
            old = newest(3)
            none = replica(1, key=NOTHING)
            return Answers({1: none, 2: replica(2, last_stable_offset=10), 3: replica(3, key=old)}, leader=1)

        later = replace(value(offset=60, marker_offset=61), broker=3)
        life = Life().confirmed(later, claim(FROZEN, "t", marker_offset=-1), answering=two_causes)
        for _ in range(6):
            life.until_asked(two_causes)
        assert {(f.kind, f.broker) for f in life.machine.standing()} == {(RESURRECTED, 3), (FROZEN, 2)}

    @pytest.mark.parametrize("named", [True, False])
    def test_without_direction_is_explained_only_by_an_outcome_of_a_replica_that_it_names(self, named: bool) -> None:
        def answering(c: Claim) -> Answers:
            if c.kind is FROZEN:
                return missing(c)
            value, none = newest(10), NOTHING
            behind = replica(2, key=none) if named else replica(2, last_stable_offset=10)
            first = replica(1, key=value if named else none)
            return Answers({1: first, 2: behind, 3: replica(3, key=value)}, leader=1)

        recorded = RecordedByViews(sides=parsed({"committed": (2, 3), "aborted": (1,)}), pivot=3)
        differs = claim(FindingKind.VISIBILITY_MISMATCH, "v", key_hash_lo=KEY, recorded=recorded)
        differs = replace(differs, rule=Rule.LATEST_VALUE, broker=NOBODY)
        life = Life().confirmed(differs, answering=answering)
        while not life.table:
            life.until_asked(answering)
        life.suspect(claim(FROZEN, "t", marker_offset=-1))
        for _ in range(6):
            life.until_asked(answering)
        standing = {f.kind for f in life.machine.standing()}
        assert standing == ({FROZEN} if named else {FROZEN, FindingKind.VISIBILITY_MISMATCH})

    @pytest.mark.parametrize(("shown", "away", "waits"), [(20, False, False), (30, False, True), (20, True, True)])
    def test_without_direction_does_not_wait_for_a_frozen_replica_that_shows_the_accused_value(
        self, shown: int, *, away: bool, waits: bool
    ) -> None:
        def showing(offset: int) -> KeyShown:
            return newest(offset)

        none = NOTHING
        differs = claim(
            FindingKind.VISIBILITY_MISMATCH, "v", key_hash_lo=KEY, producer_id=-1, recorded=RecordedByViews(pivot=3)
        )
        differs = replace(differs, rule=Rule.LATEST_VALUE, broker=NOBODY)
        first = answers(replica(1, key=none), replica(2, key=none), replica(3, key=showing(10)))
        life = Life().confirmed(differs, answering=lambda _: first)
        frozen = replica(3, key=showing(shown), last_stable_offset=50)
        now = {1: replica(1, key=none), 2: replica(2, key=showing(20)), 3: frozen}
        without = now | {4: silent(4)} if away else now
        life.suspect(replace(value("d", offset=60, marker_offset=61), rule=Rule.LATEST_VALUE))
        for _ in range(8):
            life.until_asked(lambda c: Answers(without if c.broker == NOBODY else now, leader=1))
        standing = {(f.kind, f.broker) for f in life.machine.standing()}
        assert standing == {(RESURRECTED, 2)} | ({(FindingKind.VISIBILITY_MISMATCH, NOBODY)} if waits else set())

    @pytest.mark.parametrize("by", [2, 4])
    def test_without_direction_waits_for_no_replica_that_is_away_once_the_wrong_side_is_proven(self, by: int) -> None:
        value, none = newest(10), NOTHING
        shown = {1: value, 2: none, 3: value}
        recorded = RecordedByViews(sides=parsed({"value": (1, 3), "no value": (2,)}), pivot=3)
        differs = claim(FindingKind.VISIBILITY_MISMATCH, "v", key_hash_lo=KEY, recorded=recorded)
        differs = replace(differs, rule=Rule.LATEST_VALUE, broker=NOBODY)
        first = answers(*(replica(b, key=key) for b, key in shown.items()))
        life = Life().confirmed(differs, answering=lambda _: first)
        assert life.last.broker == NOBODY

        def answering(c: Claim) -> Answers:
            if c.kind is COMMITTED_WRONGLY:
                held = {b: {10: RecordShown(10, "committed" if b == by else "aborted")} for b in (1, by, 3)}
                return answers(*(replica(b, committed=held[b], asked=frozenset({10})) for b in held))
            away = {3: silent(3)}
            return Answers({1: replica(1, key=value), 2: replica(2, key=none)} | away, leader=1)

        outcome = claim(COMMITTED_WRONGLY, "t", recorded=RecordedByViews(markers={1: "abort"}))
        life.suspect(replace(outcome, broker=by))
        for _ in range(4):
            life.until_asked(answering)
        standing = {(f.kind, f.broker) for f in life.machine.standing()}
        alone = {(COMMITTED_WRONGLY, by)}
        assert standing == (alone if by == 2 else alone | {(FindingKind.VISIBILITY_MISMATCH, NOBODY)})

    def test_of_two_that_lost_the_same_marker_what_is_found_of_one_explains_nothing_of_the_other(self) -> None:
        def answering(c: Claim, *, healed: int = 0) -> Answers:
            if c.kind is COMMITTED_WRONGLY:
                shown = {b: "aborted" if b in (1, healed) else "committed" for b in (1, 2, 3)}
                held = {b: {10: RecordShown(10, outcome)} for b, outcome in shown.items()}
                each = {b: replica(b, committed=held[b], asked=frozenset({10})) for b in held}
                return Answers(each, leader=1)
            old, none = newest(10), NOTHING
            return answers(*(replica(b, key=none if b == 1 else old) for b in (1, 2, 3)))

        def standing() -> set[tuple[FindingKind, int]]:
            return {(f.kind, f.broker) for f in life.machine.standing()}

        recorded = RecordedByViews(sides=parsed({"value": (2, 3), "no value": (1,)}), pivot=3)
        differs = claim(FindingKind.VISIBILITY_MISMATCH, "v", key_hash_lo=KEY, recorded=recorded)
        differs = replace(differs, rule=Rule.LATEST_VALUE, broker=NOBODY)
        first = claim(COMMITTED_WRONGLY, "t", recorded=RecordedByViews(markers={1: "abort"}))
        life = Life().confirmed(first, answering=answering)
        life.suspect(differs)
        life.until_asked(answering)
        for _ in range(6):
            life.until_asked(answering)
        assert standing() == {(COMMITTED_WRONGLY, 2), (FindingKind.VISIBILITY_MISMATCH, NOBODY)}
        life.suspect(replace(first, suspect_id="u", broker=3))
        for _ in range(3):
            life.until_asked(answering)
        assert standing() == {(COMMITTED_WRONGLY, 2), (COMMITTED_WRONGLY, 3)}
        for _ in range(40):
            life.until_asked(lambda c: answering(c, healed=2))
        assert standing() == {(COMMITTED_WRONGLY, 3), (FindingKind.VISIBILITY_MISMATCH, NOBODY)}


class TestADifferenceWithoutDirection:
    """Its suspect accused broker 1 of lacking a value; no answer says which side is right."""

    @staticmethod
    def suspect() -> Claim:
        return of_key(FindingKind.RECORD_MISSING, broker=1, offset=30)

    @staticmethod
    def answering(**shown: int | None) -> Answering:
        def show(broker: int, offset: int | None) -> ReplicaAnswer:
            record = None if offset is None else RecordShown(offset, "none", value_size=5)
            return replica(broker, key=KeyShown(record, True, -1 if offset is None else offset))

        return lambda _: answers(*(show(b, shown[f"on_{b}"]) for b in (1, 2, 3)))

    def test_is_checked_again_though_its_suspect_accused_somebody(self) -> None:
        differ = self.answering(on_1=None, on_2=30, on_3=30)
        life = Life().confirmed(self.suspect(), answering=differ)
        assert (life.last.kind, life.last.broker) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)
        again = claim_of(life.last)
        assert (again.pivot, again.recorded.sides) == (1, parsed({"no value": (1,), "value at offset 30": (2, 3)}))
        life.until_asked(differ)
        assert life.statuses == ["confirmed"]
        life.until_asked(self.answering(on_1=50, on_2=50, on_3=50))
        assert life.statuses == ["confirmed", "unsettled"]
        life.until_asked(differ)
        assert life.statuses == ["confirmed", "unsettled", "confirmed"]

    def test_stands_until_what_was_written_since_is_shown_by_all_or_somebody_acknowledges_it(self) -> None:
        differ, alike = self.answering(on_1=None, on_2=30, on_3=30), self.answering(on_1=30, on_2=30, on_3=30)
        life = Life().confirmed(self.suspect(), answering=differ)
        for _ in range(3):
            life.until_asked(alike)
        assert life.statuses == ["confirmed", "unsettled"]
        assert (life.last.severity, life.last.exposed, life.last.is_open) == (Severity.WARNING, False, True)
        assert "Nothing has proven that this is right" in life.last.summary
        known = acknowledged(life.last, "it is what the sink holds", "me", life.last.decided_at)
        for first, answering, statuses in (
            (life.last, self.answering(on_1=150, on_2=150, on_3=150), ["unsettled", "resolved"]),
            (known, alike, ["acknowledged"]),
            (known, differ, ["acknowledged", "confirmed"]),
            (replace(life.table[0], status=FindingStatus.ACKNOWLEDGED), alike, ["acknowledged", "acknowledged"]),
        ):
            later = Life([first])
            for _ in range(2):
                later.until_asked(answering)
            assert later.statuses == statuses
        assert "Nothing has proven that this is right" in later.last.summary, "it says that they agree by now"
        later.until_asked(differ)
        assert later.last.status is FindingStatus.ACKNOWLEDGED, "it was acknowledged while they differed"

    @pytest.mark.parametrize("before", ["confirmed", "unsettled", "acknowledged"])
    def test_ends_by_the_word_of_who_had_a_replica_copied_and_is_over_without_an_acknowledgement(
        self, before: str
    ) -> None:
        differ, alike = self.answering(on_1=None, on_2=30, on_3=30), self.answering(on_1=30, on_2=30, on_3=30)
        said: list[str] = []
        life = Life(repaired=lambda _: Repairs(tuple(said))).confirmed(self.suspect(), answering=differ)
        if before == "unsettled":
            life.until_asked(alike)
        if before == "acknowledged":
            known = acknowledged(life.last, "it is copied tonight", "me", life.last.decided_at)
            life = Life([known], repaired=lambda _: Repairs(tuple(said)))
        said.append("Repair bbbbbbbb copied broker 1 again from broker 2, which a person says is right.")
        life.until_asked(differ)
        assert life.last.stands, "it differs, whatever was said"
        life.until_asked(alike)
        assert life.last.status is FindingStatus.RESOLVED
        assert "Repaired by a person's word: " in life.last.summary
        assert f"{said[0]} Nobody proved which was right." in life.last.summary
        assert explain(life.last).now.startswith("It is over, and that proves no replica right")

    def test_that_turns_out_to_be_a_deleted_record_goes_by_the_tombstone_from_then_on(self) -> None:
        def answering(second: int | None) -> Answering:
            tombstone = KeyShown(RecordShown(60, "none", value_size=-1, leader_epoch=3), True, 60)
            old = newest(10)
            others = NOTHING if second is None else tombstone
            return lambda _: Answers({1: replica(1, key=old), **{b: replica(b, key=others) for b in (2, 3)}}, leader=2)

        suspected = replace(self.suspect(), kind=FindingKind.VISIBILITY_MISMATCH)
        life = Life().confirmed(suspected, answering=answering(60))
        again = claim_of(life.last)
        assert (again.kind, again.broker, again.offset) == (FindingKind.DELETED_RECORD_RESURRECTED, 1, 60)
        assert again.proofs == ((60, 3),)
        assert "deleted at offset 60" in life.last.summary
        life.until_asked(answering(None))
        assert life.statuses == ["confirmed"]

    def test_is_one_with_the_accusation_of_a_replica_that_shows_the_same(self) -> None:
        # The tombstone that proved 1 wrong is cleaned; 3 was copied from 1.
        accusing = replace(self.suspect(), suspect_id="a", kind=RESURRECTED, offset=60)
        sides = parsed({"no value": (2,), "value": (1, 3)})
        differs = replace(self.suspect(), kind=FindingKind.VISIBILITY_MISMATCH, broker=NOBODY, offset=10)
        differs = replace(differs, recorded=RecordedByViews(sides=sides, pivot=3))

        def standing() -> set[tuple[FindingKind, int]]:
            return {(f.kind, f.broker) for f in life.machine.standing()}

        life = Life().confirmed(accusing, answering=self.answering(on_1=10, on_2=None, on_3=None))
        life.suspect(differs)
        for _ in range(4):
            life.until_asked(self.answering(on_1=10, on_2=None, on_3=10))
        assert standing() == {(RESURRECTED, 1)}
        assert life.statuses == ["confirmed", "confirmed", "dismissed"]
        assert "value at offset 10 on brokers 1 and 3" in life.table[1].summary
        for _ in range(6):
            life.until_asked(self.answering(on_1=None, on_2=None, on_3=10))
        assert standing() == {(RESURRECTED, 3)}, "by the same tombstone"

    def test_is_not_one_with_the_accusation_of_a_replica_that_shows_none_as_well_by_now(self) -> None:
        # That 1 showed an older value than 2 proves nothing of one that shows none.
        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=10, on_2=30, on_3=30))
        recorded = RecordedByViews(sides=parsed({"no value": (1, 3), "value": (2,)}), pivot=2)
        differs = replace(self.suspect(), suspect_id="d", kind=FindingKind.VISIBILITY_MISMATCH, offset=31)
        life.suspect(replace(differs, broker=NOBODY, recorded=recorded))
        for _ in range(2):
            life.until_asked(self.answering(on_1=None, on_2=31, on_3=None))
        assert {f.broker for f in life.machine.standing()} == {1, NOBODY}

    def test_whose_replicas_agree_is_one_with_the_accusation_of_one_that_all_were_copied_from(self) -> None:
        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=10, on_2=30, on_3=None))
        assert life.last.broker == NOBODY
        accusing = replace(self.suspect(), suspect_id="a", kind=RESURRECTED, offset=20)
        life.suspect(accusing)
        for _ in range(2):
            life.until_asked(self.answering(on_1=10, on_2=30, on_3=None))
        assert {f.broker for f in life.machine.standing()} == {1, NOBODY}
        for _ in range(4):
            life.until_asked(self.answering(on_1=10, on_2=10, on_3=10))
        assert [(f.broker, f.status) for f in life.machine.standing()] == [(1, FindingStatus.SPREAD)]

    def test_that_is_written_again_and_differs_again_has_to_be_superseded_anew(self) -> None:
        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=None, on_2=30, on_3=30))
        assert claim_of(life.last).recorded.differed == Differed(30, 100, oldest=30)
        later = self.answering(on_1=None, on_2=130, on_3=130)

        def answering(c: Claim) -> Answers:
            return Answers({b: replace(a, last_stable_offset=200) for b, a in later(c).replicas.items()}, leader=1)

        for _ in range(3):
            life.until_asked(answering)
        assert life.statuses == ["confirmed", "confirmed"]
        assert claim_of(life.last).recorded.differed == Differed(130, 200, oldest=130)

    @pytest.mark.parametrize("status", [FindingStatus.CONFIRMED, FindingStatus.ACKNOWLEDGED])
    def test_takes_the_place_of_an_accusation_that_an_earlier_version_made_by_majority(
        self, status: FindingStatus
    ) -> None:
        differ = self.answering(on_1=None, on_2=30, on_3=30)
        accused = Life().confirmed(self.suspect(), answering=self.answering(on_1=10, on_2=30, on_3=30)).last
        assert (accused.kind, accused.broker) == (FindingKind.RECORD_MISSING, 1)
        life = Life([replace(accused, status=status, evidence='{"recorded":{}}')])
        for _ in range(3):
            life.until_asked(differ)
        assert [(e.kind, e.broker) for e in life.table[1:]] == [(FindingKind.VISIBILITY_MISMATCH, NOBODY)]
        assert life.last.is_open
        assert life.last.finding_id == accused.finding_id
        life.until_asked(self.answering(on_1=50, on_2=50, on_3=50))
        assert life.last.status is FindingStatus.UNSETTLED

    def test_does_not_take_the_place_of_an_accusation_that_was_proven(self) -> None:
        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=10, on_2=30, on_3=30))
        for _ in range(2):
            life.until_asked(self.answering(on_1=None, on_2=30, on_3=30))
            assert [(f.kind, f.broker) for f in life.machine.standing()] == [(FindingKind.RECORD_MISSING, 1)]
            # What it shows has changed, once.
            assert life.statuses == ["confirmed", "confirmed"]
        assert life.last.summary.endswith("consumers miss what was written.")
        assert "no value on broker 1, value at offset 30 on brokers 2 and 3" in life.last.summary

    def test_takes_the_place_of_an_accusation_once_those_against_the_accused_differ(self) -> None:
        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=10, on_2=30, on_3=30))
        assert (life.last.broker, life.last.exposed) == (1, True)
        for _ in range(2):
            life.until_asked(self.answering(on_1=10, on_2=30, on_3=None))
            assert life.statuses == ["confirmed", "confirmed"]
        assert (life.last.kind, life.last.broker) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)
        # 3 is copied from 2, and then 1: all may be wrong.
        for _ in range(2):
            life.until_asked(self.answering(on_1=10, on_2=30, on_3=30))
        assert [e.broker for e in life.table] == [1, NOBODY, NOBODY]
        life.until_asked(self.answering(on_1=30, on_2=30, on_3=30))
        assert evidence_of(life.last)["resolution"] == "agreed"

    def test_that_two_findings_come_to_is_reported_by_one_of_them(self) -> None:
        def frozen(_: Claim) -> Answers:
            held: dict[str, Any] = {"open_transactions": OPEN, "last_stable_offset": 10}
            return answers(replica(1, **held), replica(2), replica(3, **held))

        def unlike(_: Claim) -> Answers:
            return answers(holding(1, "aborted"), replica(2), holding(3, "committed"))

        kind = FindingKind.READ_COMMITTED_FROZEN
        both = (claim(kind, f"frozen-{b}", broker=b, marker_offset=-1) for b in (1, 3))
        life = Life().confirmed(*both, answering=frozen)
        life.until_asked(frozen)
        assert [(f.kind, f.broker) for f in life.machine.standing()] == [(kind, 1), (kind, 3)]
        for _ in range(3):
            life.until_asked(unlike)
        assert [(f.kind, f.broker) for f in life.machine.standing()] == [(FindingKind.VISIBILITY_MISMATCH, NOBODY)]
        assert was_explained(life.last)

    def test_takes_the_place_of_an_accusation_whose_tombstone_another_leader_has_replaced(self) -> None:
        accusing = replace(self.suspect(), kind=RESURRECTED, offset=20, recorded=RecordedByViews(leader_epoch=2))
        shown = self.answering(on_1=10, on_2=None, on_3=None)

        def knowing(**of_2: int) -> Answering:
            """All logs are of epoch 2 up to an offset."""
            ends = {"epoch_ends": {2: of_2["up_to"]}, "epochs_known": frozenset({2})}
            return lambda c: replace(
                given := shown(c), replicas={b: replace(a, **ends) for b, a in given.replicas.items()}
            )

        life = Life().confirmed(accusing, answering=knowing(up_to=100))
        for _ in range(2):
            life.until_asked(shown)  # What says so is gone; that it was proven is not.
        assert [(e.kind, e.broker) for e in life.table] == [(RESURRECTED, 1)]
        for _ in range(2):
            life.until_asked(knowing(up_to=20))
        assert [(e.kind, e.broker) for e in life.table[1:]] == [(FindingKind.VISIBILITY_MISMATCH, NOBODY)]
        assert life.last.is_open

    def test_has_not_healed_where_its_tombstone_was_seen_cut_while_the_accused_was_away(self) -> None:
        accusing = replace(self.suspect(), kind=RESURRECTED, offset=20, recorded=RecordedByViews(leader_epoch=2))

        def knowing(up_to: int, *, without: int | None = None, **shown: int | None) -> Answering:
            ends = {"epoch_ends": {2: up_to}, "epochs_known": frozenset({2})}

            def answering(c: Claim) -> Answers:
                given = self.answering(**shown)(c)
                read = {b: silent(b) if b == without else replace(a, **ends) for b, a in given.replicas.items()}
                return replace(given, replicas=read)

            return answering

        ended = []
        for cut in (20, 100):
            life = Life().confirmed(accusing, answering=knowing(100, on_1=10, on_2=None, on_3=None))
            life.until_asked(knowing(cut, without=1, on_1=10, on_2=None, on_3=None))
            # Copies of a log from which the first records of the newer epoch are cleaned do not show where it began.
            for _ in range(2):
                life.until_asked(knowing(100, on_1=None, on_2=None, on_3=None))
            ended.append(evidence_of(life.last)["resolution"])
        assert ended == [Resolution.UNPROVEN, Resolution.HEALED]

    def test_is_reported_again_when_a_replica_is_on_a_side_that_was_not_and_when_one_goes_over(self) -> None:
        def away(**shown: int | None) -> Answering:
            return lambda c: replace(
                given := self.answering(**shown)(c),
                replicas={**given.replicas, 3: silent(3)},
            )

        def sides() -> list[str]:
            return list(evidence_of(life.last)["sides"].values())

        life = Life().confirmed(self.suspect(), answering=away(on_1=None, on_2=30, on_3=30))
        assert sides() == [[1], [2]]
        steps = [
            (self.answering(on_1=None, on_2=30, on_3=30), [[1], [2, 3]], 2),
            (self.answering(on_1=None, on_2=30, on_3=30), [[1], [2, 3]], 2),
            (away(on_1=None, on_2=30, on_3=30), [[1], [2, 3]], 2),
            (self.answering(on_1=None, on_2=50, on_3=50), [[1], [2, 3]], 2),
            (self.answering(on_1=None, on_2=50, on_3=None), [[1, 3], [2]], 3),
            (self.answering(on_1=30, on_2=None, on_3=30), [[2], [1, 3]], 4),
            (away(on_1=30, on_2=None, on_3=None), [[2], [1, 3]], 4),
        ]
        for answering, stand, events in steps:
            life.until_asked(answering)
            assert (sides(), len(life.table)) == (stand, events)

    def test_is_proven_for_good_once_all_had_been_compared(self) -> None:
        def away(c: Claim) -> Answers:
            given = self.answering(on_1=10, on_2=30, on_3=30)(c)
            return replace(given, leader=2, replicas={**given.replicas, 3: silent(3)})

        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=10, on_2=30, on_3=30))
        life.until_asked(away)
        assert [(e.status, e.broker, e.exposed) for e in life.table] == [
            ("confirmed", 1, True),
            ("confirmed", 1, False),
        ]
        life.until_asked(self.answering(on_1=30, on_2=30, on_3=30))
        assert evidence_of(life.last)["resolution"] == "healed"

    def test_has_not_healed_where_an_earlier_version_had_not_compared_all(self) -> None:
        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=10, on_2=30, on_3=30))
        evidence = evidence_of(life.last)
        evidence["sides"] = {"value at offset 10": [1], "value at offset 30": [2]}
        life = Life([replace(life.last, evidence=json.dumps(evidence))])
        life.until_asked(self.answering(on_1=30, on_2=30, on_3=30))
        assert evidence_of(life.last)["resolution"] == "agreed"

    def test_that_gains_one_is_counted_under_whom_it_accuses(self) -> None:
        life = Life().confirmed(self.suspect(), answering=self.answering(on_1=None, on_2=30, on_3=30))
        life.table.append(replace(life.last, sequence=2, broker=1))
        life.do(News([life.last]))
        life.do(News([replace(life.last, sequence=3, exposed=not life.last.exposed)]))
        by_broker = {label[-1]: n for label, n in life.machine.status().confirmed_total.items()}
        assert by_broker == {NOBODY: 1, 1: 1}


class TestADifferenceOfAKeyThatAReplicaIsAccusedAbout:
    """As an audit suspects it, which knows no history: the value at 3 is alive on broker 2, gone from the others."""

    DIFFERS = of_key(FindingKind.VISIBILITY_MISMATCH, "d", broker=NOBODY, offset=3)

    @staticmethod
    def shown(third: int | None = None, second: int | None = 3) -> Answering:
        def key(offset: int | None) -> KeyShown:
            record = None if offset is None else RecordShown(offset, "none", value_size=5)
            return KeyShown(record, True, -1 if offset is None else offset)

        keys = {1: key(None), 2: key(second), 3: key(third)}
        return lambda _: answers(*(replica(b, key=k) for b, k in keys.items()))

    @property
    def suspected(self) -> Claim:
        recorded = RecordedByViews(sides=parsed({"no value": (1, 3), "value at offset 3": (2,)}), pivot=2)
        return replace(self.DIFFERS, recorded=recorded)

    def test_is_no_second_finding(self) -> None:
        life = Life().confirmed(value(), answering=self.shown())
        life.suspect(self.suspected)
        life.answer(self.shown())
        assert [(e.kind, e.status) for e in life.table] == [
            (RESURRECTED, "confirmed"),
            (FindingKind.VISIBILITY_MISMATCH, "dismissed"),
        ]
        assert leans_on(life.last) == (life.table[0].finding_id,)

    @pytest.mark.parametrize(
        ("other", "explained"), [({}, True), ({"partition": 1}, False), ({"key_hash_lo": 6}, False)]
    )
    def test_is_none_either_where_both_are_found_at_once_and_about_one_key(
        self, other: dict[str, int], explained: bool
    ) -> None:
        life = Life()
        life.suspect(replace(self.suspected, **other), value())
        life.answer(self.shown())
        statuses = {e.suspect_id: str(e.status) for e in life.table}
        assert statuses == {"v": "confirmed", self.suspected.suspect_id: "dismissed" if explained else "confirmed"}

    def test_is_one_where_those_that_are_not_accused_differ_as_well(self) -> None:
        life = Life().confirmed(value(), answering=self.shown(third=30))
        life.suspect(self.suspected)
        life.answer(self.shown(third=30))
        assert [f.kind for f in life.machine.standing()] == [RESURRECTED, FindingKind.VISIBILITY_MISMATCH]

    def test_that_was_reported_first_ends_when_a_replica_is_accused(self) -> None:
        life = Life().confirmed(self.suspected, answering=self.shown())
        life.suspect(value())
        life.answer(self.shown())
        life.until_asked(self.shown())
        assert [f.kind for f in life.machine.standing()] == [RESURRECTED]
        assert was_explained(life.last)

    def test_waits_for_a_suspect_that_accuses(self) -> None:
        life = Life()
        life.suspect(value())
        life.probes.clear()
        life.suspect(self.suspected)
        life.answer(self.shown())
        assert life.waits("d") == "waits for the verdict on deleted_record_resurrected at offset 10"

    def test_is_judged_again_when_the_accusation_ends(self) -> None:
        life = Life().confirmed(value(), answering=self.shown())
        life.suspect(self.suspected)
        life.answer(self.shown())
        for _ in range(
            2
        ):  # broker 2 is repaired, and broker 3 shows another value, which is no older than the tombstone
            life.until_asked(self.shown(second=None, third=12))
        assert [f.kind for f in life.machine.standing()] == [FindingKind.VISIBILITY_MISMATCH]

    def test_is_judged_again_when_a_frozen_replica_ends_that_had_a_part_in_it(self) -> None:
        def frozen(c: Claim) -> Answers:
            held = replica(3, open_transactions=(OpenTransaction(8, 50),), last_stable_offset=50)
            answers = Answers({1: replica(1), 2: replica(2), 3: held}, leader=1)
            value = self.shown(third=12)(c)
            stands = replace(value.replicas[3], last_stable_offset=50)
            return answers if c.producer_id == 8 else replace(value, replicas=value.replicas | {3: stands})

        def ended(c: Claim) -> Answers:
            return agree(c) if c.producer_id == 8 else self.shown(third=12)(c)

        stands_still = claim(FROZEN, "t", offset=50, producer_id=8, transaction_start_offset=50, marker_offset=-1)
        life = Life().confirmed(value(), replace(stands_still, broker=3), answering=frozen)
        life.until_asked(frozen)
        accused, held = life.table
        life.suspect(self.suspected)
        life.answer(frozen)
        assert leans_on(life.last) == (accused.finding_id, held.finding_id)
        while life.now < RECHECK_S + RETRY_S:
            life.until_asked(ended)
        life.answer(ended)
        assert [f.kind for f in life.machine.standing()] == [RESURRECTED, FindingKind.VISIBILITY_MISMATCH]


class TestALoneWitness:
    COMMITTED = newest(10, "committed")
    NOTHING = KeyShown(None, True)

    def answers(self, _: Claim) -> Answers:
        third = replica(3, key=self.NOTHING)
        return Answers({1: replica(1, key=self.NOTHING), 2: replica(2, key=self.COMMITTED), 3: third}, leader=1)

    def test_is_given_four_probes_for_a_suspect_about_its_outcome_to_turn_up(self) -> None:
        life = Life()
        life.suspect(replace(value(), kind=FindingKind.RECORD_MISSING, broker=1))
        life.answer(self.answers)
        for _ in range(3):
            assert life.statuses == []
            life.until_asked(self.answers)
        life.until_asked(self.answers)
        assert [e.kind for e in life.table] == [FindingKind.VISIBILITY_MISMATCH]

    def test_is_waited_for_longer_each_time(self) -> None:
        life, waits = Life(), []
        life.suspect(replace(value(), kind=FindingKind.RECORD_MISSING, broker=1))
        life.answer(self.answers)
        for _ in range(3):
            before = life.now
            life.until_asked(self.answers)
            waits.append(life.now - before)
        assert waits == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S]

    def test_is_waited_for_where_a_suspect_about_an_outcome_has_become_a_difference_of_value(self) -> None:
        def answering(_: Claim) -> Answers:
            return answers(replica(1, key=self.COMMITTED), replica(2, key=self.NOTHING))

        suspected = claim(FindingKind.COMMITTED_RECORD_ABORTED, key_hash_lo=KEY)
        life = Life()
        life.suspect(replace(suspected, recorded=RecordedByViews(outcomes={2: "aborted"})))
        life.answer(answering)
        for _ in range(4):
            assert life.statuses == []
            life.until_asked(answering)
        assert [e.kind for e in life.table] == [FindingKind.VISIBILITY_MISMATCH]

    def test_is_not_confirmed_by_probes_that_could_not_see_it(self) -> None:
        life = Life()
        life.suspect(replace(value(), kind=FindingKind.RECORD_MISSING, broker=1))
        absent = Answers({1: silent(1), 2: replica(2), 3: replica(3)})
        life.answer(lambda _: absent)
        for _ in range(9):
            life.until_asked(lambda _: absent)
        life.until_asked(self.answers)
        assert life.statuses == []


class TestADismissedSuspect:
    def raised(self, life: Life, seconds: float = 0.0) -> Claim:
        return unmarked(raised_at_ms=int((START.timestamp() + life.now + seconds) * 1000))

    def test_that_is_raised_again_is_probed_again(self) -> None:
        life = Life().confirmed(unmarked(), answering=agree)
        life.now += 600
        life.suspect(self.raised(life))
        assert life.answer(missing) == ["s"]
        assert life.statuses == ["dismissed", "confirmed"]

    def test_that_was_raised_before_its_verdict_is_not(self) -> None:
        life = Life()
        life.now = 100
        life.suspect(unmarked())
        life.answer(agree)
        life.suspect(self.raised(life, seconds=-1))
        assert life.machine.next_due(life.now) is None

    def test_is_probed_after_twice_the_time_for_each_dismissal(self) -> None:
        life = Life().confirmed(unmarked(), answering=agree)
        waits = []
        for _ in range(9):
            dismissed_at = life.now
            life.suspect(self.raised(life, seconds=0.001))
            assert life.until_asked(agree) == ["s"]
            waits.append(life.now - dismissed_at)
        assert waits == pytest.approx([5, 10, 20, 40, 80, 160, 300, 300, 300], abs=0.01)

    def test_of_a_finding_that_was_resolved_is_probed_at_once_when_it_is_raised_again(self) -> None:
        life = Life().confirmed(unmarked())
        life.until_asked(agree)
        life.suspect(self.raised(life, seconds=1))
        assert life.answer(missing) == ["s"]
        assert life.statuses == ["confirmed", "resolved", "confirmed"]
        assert len({e.finding_id for e in life.table}) == 1

    def test_that_is_raised_in_the_moment_of_its_verdict_is_probed_again(self) -> None:
        life = Life()
        life.now = 100
        life.suspect(unmarked())
        life.answer(agree)
        life.suspect(self.raised(life))
        assert life.until_asked(missing) == ["s"]
        assert life.statuses == ["dismissed", "confirmed"]

    @pytest.mark.parametrize("first", [deleted, old_value])
    @pytest.mark.parametrize("before", [86_400 * 41, 86_400 * 39])
    def test_that_an_audit_raises_needs_live_proof_if_it_may_be_older_than_the_verdict(
        self, first: Answering, before: int
    ) -> None:
        life = Life().confirmed(value(), answering=first)
        if first is old_value:
            life.until_asked(deleted)
        ended = ["dismissed"] if first is deleted else ["confirmed", "resolved"]
        assert life.statuses == ended
        life.wait(86_400 * 40)
        raised_at = self.raised(life).raised_at_ms
        life.suspect(value(raised_at_ms=raised_at, recorded=RecordedByViews(shown_from=raised_at - 1000 * before)))
        life.answer(only_recorded)
        if before > 86_400 * 40:
            assert life.statuses == ended
            life.until_asked(old_value)
        assert life.statuses == [*ended, "confirmed"]

    @pytest.mark.parametrize(("seconds", "found"), [(-1, []), (0, []), (1, ["confirmed"])])
    def test_what_was_recorded_before_a_finding_ended_proves_nothing_after_it(
        self, seconds: float, found: list[str]
    ) -> None:
        life = Life().confirmed(value(), answering=old_value)
        life.until_asked(deleted)
        assert life.statuses == ["confirmed", "resolved"]
        life.suspect(value("again", raised_at_ms=self.raised(life, seconds).raised_at_ms))
        life.answer(only_recorded)
        assert life.statuses[2:] == found

    def test_that_was_raised_before_its_finding_ended_is_not_proven_by_the_value_of_its_key(self) -> None:
        def unlike(_: Claim) -> Answers:
            """The accused holds nothing of the key, and another shows a value: who is right nobody can tell."""
            value = newest(3)
            return answers(*(replica(b, key=NOTHING if b == 2 else value) for b in (1, 2, 3)))

        life = Life().confirmed(unmarked())
        life.until_asked(agree)
        assert life.statuses == ["confirmed", "resolved"]
        raised = self.raised(life, seconds=-1)
        life.suspect(replace(raised, suspect_id="again", kind=COMMITTED_WRONGLY, key_hash_lo=7, marker_offset=20))
        life.answer(unlike)
        assert life.statuses == ["confirmed", "resolved", "dismissed"]

    def test_is_forgotten_after_many_others_and_then_probed_once_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ledger, "HANDLED", 2)
        life = Life()
        life.now = 100
        for n in range(3):
            life.suspect(unmarked(f"s{n}", offset=n, transaction_start_offset=n))
            life.answer(agree)
        life.suspect(*(unmarked(f"s{n}", offset=n, transaction_start_offset=n) for n in range(3)))
        assert life.answer(agree) == ["s0"]


class TestASuspectThatIsRaisedAgainWhileItIsBeingProbed:
    """Replicas that had answered by then said nothing of it, though the probe comes back later: another one hung."""

    @staticmethod
    def raised(life: Life, of: Claim) -> Claim:
        return replace(of, raised_at_ms=int(life.moment.at.timestamp() * 1000))

    def meanwhile(self, life: Life, of: Claim) -> Claim:
        """It is raised after the probe that is under way was sent."""
        life.now += 6
        again = self.raised(life, of)
        assert life.machine.is_new(again)
        life.suspect(again)
        assert not life.machine.is_new(again)
        assert life.probes, "nothing is asked twice at a time"
        assert len(life.probes) == 1
        life.now += 4
        return again

    def test_is_probed_once_more(self) -> None:
        life = Life()
        life.suspect(self.raised(life, value()))
        self.meanwhile(life, value())
        life.answer(deleted)
        assert life.statuses == ["dismissed"]
        assert life.waits("v") == "it has not been probed yet"
        assert life.until_asked(old_value) == ["v"]
        assert life.statuses == ["dismissed", "confirmed"]

    def test_is_so_too_after_a_restart(self) -> None:
        life = Life()
        first = self.raised(life, value())
        life.now += 1
        life.suspect(first)
        again = self.meanwhile(life, value())
        life.answer(deleted)
        life.now += 60
        life = life.restarted()
        assert not life.machine.is_new(first)
        life.suspect(again)
        life.answer(old_value)
        assert life.statuses == ["dismissed", "confirmed"]

    def test_is_no_second_finding_where_the_probe_proves_it(self) -> None:
        life = Life()
        life.suspect(self.raised(life, value()))
        self.meanwhile(life, value())
        life.answer(old_value)
        assert (life.statuses, life.probes) == (["confirmed"], [])

    def test_waits_for_the_next_probe_where_that_one_decides_nothing(self) -> None:
        life = Life()
        life.suspect(self.raised(life, value()))
        self.meanwhile(life, value())
        life.answer(away)
        assert life.statuses == []
        assert life.until_asked(deleted) == ["v"]
        assert life.until_asked_within(3600, deleted) == []
        assert life.statuses == ["dismissed"]

    def test_is_probed_at_once_where_a_look_at_its_finding_finds_that_over(self) -> None:
        life = Life()
        life.suspect(self.raised(life, value()))
        life.answer(old_value)
        life.wait(RECHECK_S)
        self.meanwhile(life, value())
        life.answer(deleted)
        assert life.statuses == ["confirmed", "resolved"]
        assert life.answer(old_value) == ["v"]
        assert life.statuses == ["confirmed", "resolved", "confirmed"]


class TestATableThatCannotBeWritten:
    def test_loses_nothing_and_repeats_nothing(self) -> None:
        life = Life()
        life.full = True
        life.suspect(unmarked())
        life.answer(missing)
        assert life.table == []
        assert life.machine.status().error == "no space left"
        assert life.waits() == "the findings table could not be written"
        life.full = False
        life.until_asked(missing)
        assert life.statuses == ["confirmed"]
        assert life.machine.status().error is None

    def test_has_a_finding_checked_again(self) -> None:
        life = Life().confirmed(unmarked())
        life.full = True
        life.until_asked(agree)
        assert len(life.machine.standing()) == 1
        life.full = False
        life.until_asked(agree)
        assert life.statuses == ["confirmed", "resolved"]


class TestEventsOfOthers:
    def test_the_event_by_which_a_finding_ended_is_known_until_it_is_back_and_over_a_restart(self) -> None:
        life = Life().confirmed(unmarked())
        life.until_asked(agree)
        assert life.machine.status().ended == (life.last,)
        assert Life(life.table).machine.status().ended == (life.last,)
        life.until_asked(missing)
        assert (life.last.is_open, life.machine.status().ended) == (True, ())

    def test_an_acknowledged_finding_stands_and_asks_for_nobody(self) -> None:
        life = Life().confirmed(unmarked())
        life.do(News([replace(life.last, status=FindingStatus.ACKNOWLEDGED, sequence=2)]))
        status = life.machine.status()
        assert (len(status.open), len(status.acknowledged), len(life.machine.standing())) == (0, 1, 1)
        assert sum(status.confirmed_total.values()) == 1
        asked_at = life.now
        life.until_asked(lambda c: missing(c, leader=3))
        assert life.now - asked_at == pytest.approx(RECHECK_S)
        assert life.statuses == ["confirmed"], "it says what was acknowledged"
        life.until_asked(wrong)
        assert life.last.kind is COMMITTED_WRONGLY
        assert life.last.is_open, "it says more than was acknowledged"

    def test_an_acknowledged_finding_is_over_as_soon_as_one_that_is_open(self) -> None:
        life = Life().confirmed(unmarked())
        life.do(News([replace(life.last, status=FindingStatus.ACKNOWLEDGED, sequence=2)]))
        asked_at = life.now
        life.until_asked(agree)
        assert life.last.status is FindingStatus.RESOLVED
        assert life.now - asked_at == pytest.approx(RECHECK_S)

    def test_an_acknowledged_finding_opens_again_only_for_the_election_that_exposes_it(self) -> None:
        life = Life().confirmed(unmarked())
        life.do(News([replace(life.last, status=FindingStatus.ACKNOWLEDGED, sequence=2)]))
        life.until_asked(lambda c: missing(c, leader=2))
        assert (life.last.is_open, life.last.exposed) == (True, True)
        life.do(News([replace(life.last, status=FindingStatus.ACKNOWLEDGED, sequence=4)]))
        for leader in (3, 2, -1):
            life.until_asked(lambda c, leader=leader: missing(c, leader=leader))
            assert (life.last.is_open, life.last.exposed) == (False, leader == 2), "it was acknowledged as exposed"

    def test_an_acknowledged_finding_says_what_is_so_now_and_who_acknowledged_it(self) -> None:
        life = Life().confirmed(unmarked())
        life.until_asked(lambda c: missing(c, leader=2))
        known = acknowledged(life.last, "known", "ann", life.moment.at)
        life.do(News([replace(known, sequence=9)]))
        life.until_asked(lambda c: missing(c, leader=3))
        (stands,) = life.machine.status().acknowledged
        said, then = acknowledgement_of(stands), acknowledgement_of(known)
        assert not stands.exposed
        assert "Broker 2 leads the partition" in known.summary
        assert "leads the partition" not in stands.summary
        assert stands.summary.endswith("Acknowledged by ann: known.")
        assert said == then
        life.until_asked(lambda c: missing(c, leader=3))
        assert life.last.sequence == stands.sequence, "once"
        life.until_asked(wrong)
        assert life.last.is_open, "it is worse than was acknowledged"

    def test_a_difference_that_an_acknowledged_finding_explains_is_no_second_one(self) -> None:
        life = Life().confirmed(claim(COMMITTED_WRONGLY, "t"), answering=wrong)
        life.do(News([replace(life.last, status=FindingStatus.ACKNOWLEDGED, sequence=2)]))
        life.suspect(value())
        life.answer(old_value)
        assert life.statuses == ["confirmed", "dismissed"]

    def test_an_append_that_another_overtook_is_decided_again_and_is_no_fault(self) -> None:
        life = Life()
        life.suspect(unmarked())
        (probe,) = life.probes
        (append,) = life.machine.handle(Answered([(probe, [missing(c) for c in probe.claims])]), life.moment)
        assert isinstance(append, Append)
        life.do(News(append.events))
        life.do(NotCommitted(None))
        assert life.machine.status().error is None
        assert life.machine.waits("s") is None, "it was there all the same"
        assert len(life.machine.standing()) == 1


class TestARestart:
    def test_goes_on_from_the_events_alone(self) -> None:
        before = Life().confirmed(unmarked(), answering=missing)
        before.suspect(unmarked("d", offset=50, transaction_start_offset=50))
        before.answer(agree)
        life = before.restarted()
        assert life.machine.standing() == [before.table[0]]
        status = life.machine.status()
        assert (sum(status.confirmed_total.values()), status.dismissed_total) == (1, 1)
        life.suspect(unmarked(), unmarked("d", offset=50, transaction_start_offset=50))
        assert life.probes == []
        life.until_asked(agree)
        assert life.last.status is FindingStatus.RESOLVED
        assert life.now - before.now == pytest.approx(RECHECK_S)

    def test_looks_no_more_at_what_was_resolved_long_ago(self) -> None:
        before = Life().confirmed(unmarked())
        before.until_asked(agree)
        later = before.now + timedelta(hours=25).total_seconds()
        assert Life(before.table, later).machine.next_due(later) is None


def test_what_failed_together_is_not_probed_again_together() -> None:
    settings = FindingSettings(probe_retry_ms=1000)
    machine = Lifecycle(settings, Random(7))
    now = Moment(0.0, START)
    claims = [replace(unmarked(f"s{n}"), partition=n) for n in range(20)]
    probes = [a for a in machine.handle(Suspected(claims), now) if isinstance(a, Probe)]
    machine.handle(Answered([(p, [away(c) for c in p.claims]) for p in probes]), now)
    due = []
    for tenth in range(11):
        asked = machine.handle(Tick(), Moment(tenth / 10, START))
        due.append(len(asked))
    assert sum(due) == 20
    assert sum(n > 0 for n in due) > 2
    assert sum(due[:7]) == 0, "jitter shortens by a quarter at most"


class TestALossThatHadSpreadAndWasOverwritten:
    """Broker 2 showed an aborted record as committed, all came to show it, and then the key was written again."""

    def answering(self, newer: KeyShown | None, *silenced: int) -> Answering:
        def answer(_: Claim) -> Answers:
            held = (holding(b, "committed", key=newer) for b in (1, 2, 3) if b not in silenced)
            return answers(*held, *(silent(b) for b in silenced))

        return answer

    def over(self) -> Life:
        recorded = RecordedByViews(
            outcomes={1: "aborted", 2: "committed", 3: "aborted"}, markers={1: "abort", 2: "commit", 3: "abort"}
        )
        suspect = claim(FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=KEY, recorded=recorded)
        others = (holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted"))
        life = Life().confirmed(suspect, answering=lambda _: answers(*others))
        life.until_asked(self.answering(newest(10)))
        life.until_asked(self.answering(newest(30)))
        assert life.statuses == ["confirmed", "spread", "resolved"]
        assert evidence_of(life.last)["resolution"] == "superseded"
        return life

    @pytest.mark.parametrize("restarts", [False, True])
    def test_does_not_come_again_when_a_broker_is_away_or_back(self, restarts: bool) -> None:
        life = self.over()
        life = life.restarted(10.0) if restarts else life
        for silenced in ((3,), (1, 3), (), (1,)):
            life.until_asked(self.answering(newest(30), *silenced))
        assert life.statuses == ["confirmed", "spread", "resolved"]

    def test_comes_again_when_what_was_written_is_lost(self) -> None:
        life = self.over()
        life.until_asked(self.answering(newest(10)))
        assert life.statuses == ["confirmed", "spread", "resolved", "spread"]

    def test_stays_one_that_has_spread_when_a_broker_is_away(self) -> None:
        life = self.over()
        life.until_asked(self.answering(newest(10)))
        for silenced in ((3,), (1, 3), ()):
            life.until_asked(self.answering(newest(10), *silenced))
        assert life.statuses[3:] == ["spread"]
