"""Many keys that the same replica shows wrongly: one finding with a count, and everything else stays bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parallax.findings import effect, held
from parallax.findings.acknowledge import acknowledged
from parallax.findings.answers import Answers, OpenTransaction, RecordShown
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.finding import evidence_of
from parallax.findings.happenings import Answered, Append, News
from parallax.findings.incident import is_part_of_incident, tally_of
from parallax.findings.onset import Onset, onsets_in
from parallax.model import NOBODY, FindingKind, FindingStatus, Severity
from parallax.sides import parsed
from tests.builders.answers import NOTHING, answers, newest, replica, silent
from tests.builders.claims import claim
from tests.unit.findings.floods import (
    ALONE,
    DIFFERS,
    END,
    RESURRECTED,
    Flood,
    everywhere,
    flood,
    healthy,
    lost,
    objects,
    resurrected,
    values,
)
from tests.unit.findings.lives import RECHECK_S, RETRY_S
from tests.unit.findings.replies import wrong

NEWER = 200_000


def written_since(claim: Claim) -> Answers:
    return values(newest(END + 1), newest(END + 1))


def away(claim: Claim) -> Answers:
    return answers(replica(1, END, key=NOTHING), silent(2), replica(3, END, key=NOTHING))


def explained(claim: Claim) -> Answers:
    return wrong(claim) if claim.kind is not RESURRECTED else resurrected(claim)


def wrong_where(is_wrong: Callable[[int], bool]) -> Callable[[Claim], Answers]:
    return lambda claim: (resurrected if is_wrong(claim.key_hash_lo) else healthy)(claim)


class TestOneHundredThousand:
    @pytest.mark.parametrize("number", [20_000, pytest.param(100_000, marks=pytest.mark.release)])
    def test_are_one_finding_with_the_right_count_and_bounded_everything(self, number: int) -> None:
        life = flood(range(number), at_once=5_000)
        life.after(RECHECK_S, resurrected)
        (event,) = life.open
        assert event.is_incident
        assert (event.kind, event.broker, event.status) == (RESURRECTED, 2, FindingStatus.CONFIRMED)
        assert tally_of(event).count == number
        assert (tally_of(event).lowest, tally_of(event).highest) == (1_000, number + 999)
        assert f"{number:,} in all (deleted at offsets 1000 to {number + 999})" in event.summary
        assert len(life.table) < 12, "as often as the count has doubled"
        assert max(len(e.evidence) for e in life.table) < 20_000
        assert life.machine.status().pending == {}
        assert life.machine.status().waits == {}
        assert life.asked < number + 2_000, "each was asked about once, and samples"
        assert objects(life.machine) < 2_000, "no object for each"

    def test_half_of_them_healed_leave_the_count(self) -> None:
        life = flood(range(8_000), at_once=8_000).after(RECHECK_S, resurrected)
        assert life.counts == [8_000]
        for _ in range(3):
            life.after(RECHECK_S, wrong_where(lambda key: key % 2 == 0))
        assert life.counts == [4_000]
        assert "4,000 in all" in life.open[0].summary
        assert tally_of(life.open[0]).ended == {"healed": 4_000}

    def test_are_over_when_none_is_wrong_any_more(self) -> None:
        life = flood(range(8_000), at_once=8_000)
        before = life.asked
        life.after(RECHECK_S, healthy)
        assert life.open == []
        assert (life.last.status, evidence_of(life.last)["resolution"]) == (FindingStatus.RESOLVED, "healed")
        assert "none of the keys of orders-0 was shown wrongly any more (8,000 healed)" in life.last.summary
        assert life.asked - before <= 8_000 + held.SAMPLE, "one look at each decides"

    def test_survive_a_restart_in_the_middle(self) -> None:
        before = Flood()
        claims = [lost(key) for key in range(8_000)]
        before.suspect(*claims)
        for _ in range(2):
            probes, before.probes = before.probes, []
            before.do(Answered([(p, [resurrected(c) for c in p.claims]) for p in probes]))
        assert 0 < before.counts[0] < 8_000
        after = before.restarted()
        assert after.counts == before.counts
        after.suspected_before(*claims)  # As they are in their table: no event names them.
        after.settle(resurrected)
        after.after(RECHECK_S, resurrected)
        assert after.counts == [8_000]
        assert [f.finding_id for f in after.open] == [f.finding_id for f in before.open]

    def test_that_a_start_could_not_ask_about_are_not_said_to_have_been_seen(self) -> None:
        before = flood(range(1_000), at_once=1_000)
        after = before.restarted()
        (known,) = after.open
        assert after.machine.not_seen_again() == {}, "nobody wants to know"
        after.machine.look_again(after.moment)
        assert after.machine.not_seen_again() == {known.finding_id: ""}
        after.settle(away)
        why = "0 of the 1,000 keys that it counts are wrong, 1,000 could not be decided"
        assert after.machine.not_seen_again() == {known.finding_id: why}
        for _ in range(4):
            after.after(RECHECK_S, resurrected)
        assert after.machine.not_seen_again() == {}, "each has been seen"

    def test_of_a_healthy_cluster_are_cleared_without_a_word(self) -> None:
        life = flood(range(8_000), healthy, at_once=8_000)
        assert life.table == []
        assert life.machine.status().pending == {}
        assert life.machine.next_due(life.now) is None
        assert life.machine.waits("key-7") is None

    def test_wait_where_nobody_can_decide_and_are_asked_about_ever_more_rarely(self) -> None:
        life = flood(range(1_000), away, at_once=1_000)
        assert life.machine.status().pending == {("orders", 0): 1_000}
        assert life.machine.waits("key-7") == "broker 2 could not be asked: broker 2: no answer within 3000 ms"
        assert life.machine.status().waits == {("orders", 0): life.machine.waits("key-7")}
        waits = []
        for _ in range(4):
            due = life.machine.next_due(life.now)
            assert due is not None
            waits.append(due - life.now)
            life.after(due - life.now, away)
        assert waits == pytest.approx([RETRY_S * 2**n for n in range(4)])
        due = life.machine.next_due(life.now)
        assert due is not None
        life.after(due - life.now, resurrected)
        assert life.counts == [1_000]


class TestManyThatAreRaisedAgain:
    """As an audit raises them."""

    def again(self, life: Flood, count: int = 1_000) -> list[Claim]:
        at = int(life.moment.at.timestamp() * 1000)
        return [lost(key, raised_at_ms=at) for key in range(count)]

    @pytest.mark.parametrize("before", [healthy, away, resurrected])
    def test_while_they_are_being_asked_about_are_asked_about_once_more(
        self, before: Callable[[Claim], Answers]
    ) -> None:
        life = Flood()
        life.suspect(*(lost(key) for key in range(1_000)))
        (page,), life.probes = life.probes, []
        life.now += 6
        again = self.again(life)
        assert all(map(life.machine.is_new, again))
        life.suspect(*again)
        assert not any(map(life.machine.is_new, again))
        assert life.probes == []
        life.now += 4
        life.do(Answered([(page, [before(c) for c in page.claims])]))
        assert all(life.machine.waits(c.suspect_id) for c in again) == (before is not resurrected)
        life.settle(resurrected)
        for _ in range(2):
            life.after(RECHECK_S, resurrected)
        assert life.counts == [1_000]
        assert life.asked <= 1_000 + 2 * held.SAMPLE, "not where the probe had proven them"

    def test_while_a_look_finds_them_right_are_asked_about_at_once(self) -> None:
        life = flood(range(100))
        life.wait(RECHECK_S)
        (sample,), life.probes = life.probes, []
        life.now += 6
        again = self.again(life, 100)
        life.suspect(*again)
        life.do(Answered([(sample, [healthy(c) for c in sample.claims])]))
        assert all(life.machine.waits(c.suspect_id) for c in again)
        life.settle(resurrected)
        assert life.counts == [100]

    def test_after_a_transaction_had_explained_them_are_asked_about_again(self) -> None:
        life = Flood()
        life.suspect(claim(FindingKind.ABORTED_RECORD_COMMITTED, offset=10, marker_offset=END))
        life.answer(explained)
        explains = [lost(key, producer_id=7, marker_offset=1_001 + key) for key in range(100)]
        life.suspect(*explains)
        life.settle(explained)
        asked = life.asked
        life.suspect(*explains)
        assert life.probes == []
        life.suspect(*(replace(c, raised_at_ms=c.raised_at_ms + 1) for c in explains))
        life.settle(explained)
        assert (life.asked - asked, [f.is_incident for f in life.open]) == (100, [False])


class TestFew:
    def test_are_findings_one_by_one(self) -> None:
        life = flood(range(ALONE))
        assert len(life.open) == ALONE
        assert not any(f.is_incident for f in life.open)

    def test_among_many_that_are_cleared_are_findings_one_by_one(self) -> None:
        life = flood(range(1_000), wrong_where(lambda key: key in (7, 400)), at_once=1_000)
        assert sorted(f.offset for f in life.open) == [1_007, 1_400]
        assert not any(f.is_incident for f in life.open)
        assert life.machine.status().dismissed_total == 0

    def test_that_nobody_could_decide_among_many_that_were_cleared_wait_one_by_one(self) -> None:
        life = flood(range(1_000), lambda c: (away if c.key_hash_lo == 7 else healthy)(c), at_once=1_000)
        assert life.machine.status().pending == {("orders", 0): 1}
        life.after(RETRY_S * 2, resurrected)
        assert [f.offset for f in life.open] == [1_007]

    def test_that_come_one_after_another_become_one_incident_as_soon_as_they_are_many(self) -> None:
        life = flood(range(ALONE), at_once=1)
        first = life.open[0]
        life.suspect(lost(ALONE))
        life.settle(resurrected)
        (event,) = life.open
        assert event.is_incident
        assert tally_of(event).count == ALONE + 1
        assert event.first_suspected_at == first.first_suspected_at
        parts = [e for e in life.table if evidence_of(e).get("resolution") == "part_of_incident"]
        assert [evidence_of(e)["incident"] for e in parts] == [event.finding_id] * (ALONE + 1)
        assert life.machine.status().resolved_total == 0, "none of them is over"
        life.suspect(lost(ALONE + 1))
        life.settle(resurrected)
        life.after(RECHECK_S, resurrected)
        assert life.counts == [ALONE + 2]
        assert len([f for f in life.machine.standing() if not f.is_incident]) == 0

    def test_of_which_one_is_deleted_twice_are_no_incident(self) -> None:
        life = flood(range(ALONE), at_once=1)
        life.suspect(lost(3, name="deleted-again", offset=5_000))
        life.settle(resurrected)
        assert len(life.open) == ALONE
        assert not any(f.is_incident for f in life.open)
        (told,) = [e for e in life.table if e.suspect_id == "deleted-again"]
        assert told.status is FindingStatus.DISMISSED
        (known,) = [f for f in life.open if f.offset == 1_003]
        assert known.finding_id in told.summary

    def test_that_are_asked_about_together_count_a_key_once_that_is_a_finding_already(self) -> None:
        only_wrong = wrong_where(lambda key: key < 100)
        life = flood(range(ALONE - 1), at_once=1)
        cleared = [lost(key) for key in range(100, 120)]
        life.suspect(lost(20), lost(3, name="deleted-again", offset=5_000), *cleared)
        life.settle(only_wrong)
        life.after(RECHECK_S, only_wrong)
        assert len(life.open) == ALONE
        assert not any(f.is_incident for f in life.open)
        life.suspect(lost(21), lost(4, name="4-deleted-again", offset=5_001), *cleared)
        life.settle(only_wrong)
        life.after(RECHECK_S, only_wrong)
        assert life.counts == [ALONE + 1]

    def test_a_value_that_was_written_between_two_deletions_and_is_back_is_a_finding_of_its_own(self) -> None:
        life = flood([3])
        life.suspect(lost(3, name="deleted-again", offset=5_000))
        life.settle(lambda claim: values(newest(2_000), NOTHING))
        assert sorted(f.offset for f in life.open) == [1_003, 5_000]


def unlike(key: int) -> Claim:
    """The replicas differ about a key, without direction."""
    sides = {f"value at offset {1_000 + key}": (1, 3), "no value": (2,)}
    return lost(key, kind=DIFFERS, broker=NOBODY, recorded=RecordedByViews(sides=parsed(sides), pivot=2))


def differ(claim: Claim) -> Answers:
    return values(NOTHING, newest(claim.offset))


def some_healed(count: int, *, one_by_one: bool = False) -> Flood:
    """Of some keys five are wrong still."""
    life = flood(range(count), at_once=1 if one_by_one else ALONE)
    for _ in range(4):
        life.after(RECHECK_S, wrong_where(lambda key: key < 5))
    return life


def agreeing_again() -> Flood:
    """A hundred keys differed. Then all replicas agree, and nothing proves which was right. Fifty never differed."""
    never = [replace(unlike(key), suspect_id=f"never-{key}") for key in range(100, 150)]
    life = Flood()
    life.suspect(*map(unlike, range(100)), *never)
    for said in [lambda c: (healthy if c.suspect_id.startswith("never") else differ)(c)] * 2 + [healthy] * 3:
        life.settle(said).after(RECHECK_S, said)
    assert [(tally_of(f).count, f.status) for f in life.open] == [(100, FindingStatus.UNSETTLED)]
    return life


class TestAfterARestart:
    """An incident counts what it counted. A finding that became part of it is a member like any other."""

    @pytest.mark.parametrize("answering", [away, everywhere, healthy])
    @pytest.mark.parametrize(
        "life_before",
        [
            lambda: flood(range(100)),
            lambda: some_healed(ALONE + 1, one_by_one=True),
            lambda: some_healed(2 * ALONE),
            lambda: flood(range(100)).after(RECHECK_S, everywhere).after(RECHECK_S, everywhere),
            agreeing_again,
        ],
        ids=["wrong", "parts", "healed", "spread", "unsettled"],
    )
    def test_all_goes_on_as_without_it(
        self, life_before: Callable[[], Flood], answering: Callable[[Claim], Answers]
    ) -> None:
        life = life_before()
        known = [(f.finding_id, f.status, tally_of(f).count) for f in life.open]
        after = life.restarted(1)
        assert [(f.finding_id, f.status, tally_of(f).count) for f in after.open] == known
        after.suspected_before(*life.raised.values())
        for _ in range(6):
            life.after(RECHECK_S, answering)
            after.settle(answering).after(RECHECK_S, answering)
        assert [(f.status, tally_of(f).count) for f in after.open] == [(f.status, tally_of(f).count) for f in life.open]
        assert after.machine.status().pending == life.machine.status().pending == {}

    @pytest.mark.parametrize("acknowledging", [False, True])
    def test_nothing_is_reported_that_was(self, acknowledging: bool) -> None:
        life = some_healed(ALONE + 1)
        if acknowledging:
            life.commit(Append((acknowledged(life.open[0], "known", "me", life.moment.at),)))
        after = life.restarted(1)
        for _ in range(6):
            after.settle(wrong_where(lambda key: key < 5)).after(RECHECK_S, wrong_where(lambda key: key < 5))
        assert after.counts == ([] if acknowledging else [5])
        assert after.table == life.table


class TestOfAnEarlierVersion:
    """Its events say how many an incident counts, and name some. Nothing is written of the others."""

    def test_are_counted_again_once_they_are_probed(self) -> None:
        before = flood(range(100), at_once=100)
        after = Flood(before.table, before.now + 1)
        assert after.counts == [100]
        after.suspected_before(*map(lost, range(100)))
        after.settle(resurrected).after(RECHECK_S, resurrected)
        assert after.counts == [100]
        after.restarted().settle(away)
        assert after.counts == [100]

    def test_are_counted_if_the_event_names_them_though_all_replicas_agree_by_now(self) -> None:
        before = flood(range(100), at_once=100)
        after = Flood(before.table, before.now + 1)
        after.suspected_before(*map(lost, range(100)))
        for _ in range(3):
            after.settle(everywhere).after(RECHECK_S, everywhere)
        assert [(tally_of(f).count >= 16, f.status) for f in after.open] == [(True, FindingStatus.SPREAD)]


class TestGroups:
    def test_of_another_replica_partition_or_kind_are_incidents_of_their_own(self) -> None:
        life = Flood()
        life.suspect(*(lost(key) for key in range(20)))
        life.suspect(*(lost(key, name=f"p-{key}", partition=1) for key in range(30)))
        life.settle(resurrected)
        life.after(RECHECK_S, resurrected)
        assert {(f.partition, tally_of(f).count) for f in life.open} == {(0, 20), (1, 30)}

    def test_without_direction_name_nobody(self) -> None:
        def unlike(claim: Claim) -> Answers:
            return values(newest(claim.offset), NOTHING)

        life = Flood()
        claims = [lost(key, kind=DIFFERS, broker=NOBODY) for key in range(100)]
        sides = parsed({"value": (2,), "none": (1, 3)})
        life.suspect(*(replace(c, recorded=replace(c.recorded, sides=sides, pivot=2)) for c in claims))
        life.settle(unlike)
        (event,) = life.open
        assert (event.broker, event.kind, tally_of(event).count) == (NOBODY, DIFFERS, 100)
        assert "wipe no replica on this evidence" in event.summary
        life.after(RECHECK_S, unlike)
        assert life.counts == [100]
        # That they agree does not say that they agree on what is right; it ends by what is written since.
        life.after(RECHECK_S, healthy)
        (event,) = life.open
        assert (event.status, event.severity, event.exposed) == (FindingStatus.UNSETTLED, Severity.WARNING, False)
        assert tally_of(event).count == 100
        assert "nothing has proven which was right" in event.summary
        life.after(RECHECK_S, unlike)
        assert [(e.status, e.severity) for e in life.open] == [(FindingStatus.CONFIRMED, Severity.CRITICAL)]
        life.after(RECHECK_S, written_since)
        assert life.open == []

    def test_that_turn_out_to_be_another_kind_are_counted_there(self) -> None:
        def older(claim: Claim) -> Answers:
            return values(newest(3), newest(claim.offset + 1_000_000))

        life = flood(range(100), older, at_once=100)
        (event,) = life.open
        assert (event.kind, event.broker, tally_of(event).count) == (FindingKind.RECORD_MISSING, 2, 100)

    def test_a_key_that_is_suspected_twice_counts_once(self) -> None:
        life = Flood()
        life.suspect(*(lost(key) for key in range(100)))
        life.suspect(*(lost(key, name=f"again-{key}", offset=500_000 + key) for key in range(50)))
        life.settle(resurrected)
        life.after(RECHECK_S, resurrected)
        assert life.counts == [100]

    def test_that_a_transaction_explains_are_no_incident_until_it_ends(self) -> None:
        life = Flood()
        life.suspect(claim(FindingKind.ABORTED_RECORD_COMMITTED, offset=10, marker_offset=END))
        life.answer(explained)
        life.suspect(*(lost(key, producer_id=7, marker_offset=1_001 + key) for key in range(100)))
        life.settle(explained)
        assert [f.kind for f in life.open] == [FindingKind.ABORTED_RECORD_COMMITTED]
        assert life.machine.waits("key-7") is None

        def ended(claim: Claim) -> Answers:
            agree = {b: replica(b, END, key=NOTHING) for b in (1, 2, 3)}
            return Answers(agree, leader=1, gone="gone") if claim.kind is not RESURRECTED else resurrected(claim)

        for _ in range(3):
            life.after(RECHECK_S, ended)
        assert life.counts == [100]

    @pytest.mark.parametrize("end", [-1, 20])
    def test_that_a_frozen_transaction_explained_are_one_once_that_explains_nothing_any_more(self, end: int) -> None:
        """It is found to have ended, by a marker that nobody has read or by one that lies below the keys."""

        def frozen(claim: Claim) -> Answers:
            if claim.kind is RESURRECTED:
                return resurrected(claim)
            held = {"open_transactions": (OpenTransaction(7, 10),), "last_stable_offset": 10}
            return answers(replica(1, END), replica(2, END, **held), replica(3, END))

        def ended(claim: Claim) -> Answers:
            if claim.kind is RESURRECTED:
                return resurrected(claim)
            outcomes = {1: "aborted", 2: "committed", 3: "aborted"}
            held = {b: {10: RecordShown(10, outcome)} for b, outcome in outcomes.items()}
            return answers(*(replica(b, END, committed=held[b], asked=frozenset({10})) for b in held))

        life = Flood()
        life.suspect(claim(FindingKind.READ_COMMITTED_FROZEN, marker_offset=-1))
        life.settle(frozen).after(RECHECK_S, frozen)
        keys = [lost(key, producer_id=7, marker_offset=1_001 + key) for key in range(40)]
        life.suspect(*keys)
        life.settle(frozen)
        assert [f.kind for f in life.open] == [FindingKind.READ_COMMITTED_FROZEN]
        assert not any(map(life.machine.is_new, keys))
        if end >= 0:
            markers = RecordedByViews(markers={1: "abort"})
            kind = FindingKind.ABORTED_RECORD_COMMITTED
            life.suspect(claim(kind, "ended", marker_offset=end, recorded=markers))
        life.settle(ended)
        for _ in range(2):
            life.after(RECHECK_S, ended)
        assert [tally_of(f).count for f in life.open if f.is_incident] == [40]


def test_an_incident_that_counts_one_more_is_reported_by_who_leads_then() -> None:
    life = flood(range(2 * ALONE))
    life.suspect(lost(1_000))
    life.settle(resurrected)
    assert (life.counts, life.open[0].exposed) == ([2 * ALONE], False)
    life.after(RECHECK_S, lambda claim: replace(resurrected(claim), leader=2))
    assert (life.counts, life.open[0].exposed) == ([2 * ALONE + 1], True)


def test_an_incident_goes_by_the_first_look_at_which_a_finding_that_became_part_of_it_saw_it() -> None:
    life = flood(range(ALONE), at_once=1)
    seen = [onsets_in(evidence_of(one)) for one in life.open]
    assert seen[0][1].after is not None, "broker 1 was seen to show one key rightly, and may show others wrongly"
    life.after(RECHECK_S, resurrected)
    life.suspect(lost(ALONE))
    life.settle(resurrected)
    (event,) = life.open
    assert event.is_incident
    assert seen[0][2].by < event.decided_at
    assert onsets_in(evidence_of(event)) == {2: Onset(None, min(one[2].by for one in seen))}


def test_a_probe_that_hangs_about_one_broker_holds_up_no_other() -> None:
    def of_the_accused(claim: Claim) -> Answers:
        return answers(*(replica(b, END, key=newest(3) if b == claim.broker else NOTHING) for b in (1, 2, 3)))

    life = Flood()
    life.suspect(*(lost(key) for key in range(100)))
    hangs, life.probes = life.probes, []
    life.suspect(*(lost(key, name=f"q-{key}", partition=1) for key in range(100)))
    assert life.probes == [], "one at a time about each broker"
    life.suspect(*(lost(key, name=f"b-{key}", broker=3) for key in range(100)))
    life.settle(of_the_accused)
    assert [f.broker for f in life.open] == [3]
    life.probes = hangs
    life.settle(of_the_accused)
    assert [(f.broker, f.partition) for f in life.open] == [(3, 0), (2, 0), (2, 1)]


class TestADifferenceThatAnAccusationOfItsKeyExplained:
    """Broker 3 lacks what was written since of the key, or alone knows of its deletion."""

    def differing(self, key: int, accused: int = 2) -> Claim:
        sides = {f"value at offset {NEWER}": (1, accused), f"no value at offset {NEWER}": (5 - accused,)}
        recorded = RecordedByViews(sides=parsed(sides), pivot=1)
        unlike = {"name": f"unlike-{key}", "kind": DIFFERS, "broker": NOBODY, "offset": NEWER}
        return lost(key, **unlike, recorded=recorded, raised_at_ms=2 * 10**12)

    def unlike(self, claim: Claim, accused: int = 2) -> Answers:
        record = RecordShown(NEWER, "none", value_size=5, key_hash=claim.key_text)
        there = {"committed": {NEWER: record}, "asked": frozenset({NEWER}), "stable_after": END}
        shows = {b: (newest(NEWER) if b in (1, accused) else NOTHING) for b in (1, 2, 3)}
        made = {
            b: replace(replica(b, END, key=key), **(there if key is not NOTHING else {})) for b, key in shows.items()
        }
        return Answers(made, leader=1, isr=(1, 2, 3))

    @pytest.mark.parametrize("number", [1, 20])
    def test_is_judged_again_once_the_incident_counts_the_key_no_more(self, number: int) -> None:
        def since(claim: Claim) -> Answers:
            return self.unlike(claim) if claim.key_hash_lo < number else resurrected(claim)

        life = flood(range(40))
        assert life.counts == [40]
        life.suspect(*map(self.differing, range(number)))
        life.settle(resurrected)
        assert len(life.open) == 1, "one cause, one finding"
        for _ in range(8):
            life.after(RECHECK_S, since)
        found = {f.kind: tally_of(f).count if f.is_incident else 1 for f in life.open}
        assert found == {RESURRECTED: 40 - number, DIFFERS: number}

    def test_is_judged_again_where_many_were_held_back_and_single_findings_have_ended(self) -> None:
        def accused(claim: Claim) -> int:
            return 2 if claim.key_hash_lo < ALONE - 2 else 3

        def at_first(claim: Claim) -> Answers:
            wrong_one = accused(claim)
            return answers(*(replica(b, END, key=newest(3) if b == wrong_one else NOTHING) for b in (1, 2, 3)))

        keys = range(2 * (ALONE - 2))
        life = Flood()
        life.suspect(*(lost(key, broker=accused(lost(key))) for key in keys))
        life.settle(at_first)
        assert {f.is_incident for f in life.open} == {False}
        life.suspect(*(self.differing(key, accused(lost(key))) for key in keys))
        life.settle(at_first)
        for _ in range(8):
            life.after(RECHECK_S, lambda c: self.unlike(c, accused(c)))
        (stands,) = life.open
        assert (stands.kind, tally_of(stands).count) == (DIFFERS, len(keys))


class TestWhatIsReported:
    def test_says_who_leads_and_is_reported_again_when_that_changes(self) -> None:
        life = flood(range(100), at_once=100)
        assert not life.open[0].exposed
        assert "If broker 2 becomes the leader, consumers read what was deleted." in life.open[0].summary
        life.after(RECHECK_S, lambda c: replace(resurrected(c), leader=2))
        assert life.open[0].exposed
        assert "The leader shows that: consumers" in life.open[0].summary

    def test_names_samples_and_shows_what_proves_some(self) -> None:
        (event,) = flood(range(1_000), at_once=1_000).open
        said = evidence_of(event)
        assert [s["offset"] for s in said["incident"]["samples"]][::15] == [1_000, 1_999]
        assert len(said["incident"]["samples"]) == 16
        assert 0 < len(said["proofs"]) <= 4
        for proof in said["proofs"]:
            assert set(proof["replicas"]) == {"1", "2", "3"}
            assert "shows a live value at offset 3" in proof["reason"]

    def test_of_keys_that_all_replicas_show_wrongly_by_now_has_spread(self) -> None:
        life = flood(range(100), at_once=100)
        life.after(RECHECK_S, everywhere)
        life.after(RECHECK_S, everywhere)
        (event,) = life.open
        assert event.status is FindingStatus.SPREAD
        assert tally_of(event).count == 100
        assert event.exposed
        assert "nothing is left to compare with" in event.summary

    def test_is_written_again_after_a_pause_where_it_could_not_be(self) -> None:
        life = Flood()
        life.full = True
        life.suspect(*(lost(key) for key in range(100)))
        life.settle(resurrected)
        assert life.table == []
        assert life.machine.waits("key-7") == "it is proven and not reported yet"
        life.full = False
        life.after(RETRY_S, resurrected)
        assert life.counts == [100]
        assert life.machine.waits("key-7") is None

    def test_that_is_acknowledged_opens_again_when_there_are_more(self) -> None:
        life = flood(range(100), at_once=100)
        event = replace(acknowledged(life.open[0], "known", "me", life.moment.at), sequence=99)
        life.do(News([event]))
        assert life.open == []
        life.after(RECHECK_S, wrong_where(lambda key: key < 50))
        life.after(RECHECK_S, wrong_where(lambda key: key < 50))
        assert life.open == []
        (known,) = life.machine.status().acknowledged
        assert (tally_of(known).count, known.summary.endswith("Acknowledged by me: known.")) == (50, True)
        life.suspect(*(lost(key) for key in range(100, 200)))
        life.settle(wrong_where(lambda key: key < 50 or key >= 100))
        life.after(2 * 10 * RECHECK_S, wrong_where(lambda key: key < 50 or key >= 100))
        assert life.counts == [150]

    def test_that_is_acknowledged_takes_in_a_single_finding_and_stays_acknowledged(self) -> None:
        alone = Flood()
        alone.suspect(lost(7))
        alone.settle(resurrected)
        life = flood(range(100), at_once=100)
        event = replace(acknowledged(life.open[0], "known", "me", life.moment.at), sequence=99)
        life.do(News([event]))
        life.do(News([replace(alone.open[0], sequence=100)]))
        for _ in range(3):
            life.after(10 * RECHECK_S, resurrected)
        statuses = [f.status for f in life.machine.standing() if f.is_incident]
        assert statuses == [FindingStatus.ACKNOWLEDGED]
        assert life.open == []
        assert [is_part_of_incident(e) for e in life.table if e.finding_id == alone.open[0].finding_id] == [True]

    def test_comes_back_when_they_are_wrong_again(self) -> None:
        life = flood(range(100), at_once=100)
        life.after(RECHECK_S, healthy)
        assert life.open == []
        life.after(10 * RECHECK_S, resurrected)
        life.after(RECHECK_S, resurrected)
        assert life.counts == [100]


def gone(_: Claim) -> Answers:
    return answers(gone="the topic orders does not exist any more")


class TestThatArePossiblyGone:
    """A broker that has just started may not know of a topic yet: each must be gone twice in a row."""

    PAGES = 3 * held.PAGE - 200

    def test_suspects_of_all_pages_wait_and_are_asked_about_again(self) -> None:
        life = Flood()
        life.suspect(*(lost(key) for key in range(self.PAGES)))
        life.settle(gone)
        assert sum(life.machine.status().pending.values()) == self.PAGES
        assert "asked once more" in life.waits(f"key-{self.PAGES - 1}")
        for _ in range(3):
            life.after(RECHECK_S, resurrected)
        assert life.counts == [self.PAGES]

    def test_suspects_are_cleared_by_the_second_look(self) -> None:
        life = Flood()
        life.suspect(*(lost(key) for key in range(100)))
        life.settle(gone)
        life.after(RECHECK_S, gone)
        assert life.machine.status().pending == {}
        assert life.table == []

    def test_one_that_was_not_asked_about_is_not_gone(self) -> None:
        life = Flood()
        life.suspect(*(lost(key) for key in range(100)))
        life.settle(gone)
        life.suspect(*(lost(key) for key in range(100, 200)))
        life.settle(gone)
        assert life.machine.status().pending == {("orders", 0): 200}

    def test_an_incident_that_is_gone_ends(self) -> None:
        life = flood(range(1_000), at_once=1_000).after(RECHECK_S, resurrected)
        for said in (gone, resurrected, gone):
            life.after(RECHECK_S, said)
        assert life.counts == [1_000]
        for _ in range(4):
            life.after(RECHECK_S, gone)
        assert life.open == []
        assert tally_of(life.last).ended == {"object_gone": 1_000}


def test_a_probe_that_fails_is_made_again() -> None:
    life = Flood()
    life.suspect(*(lost(key) for key in range(100)))
    (probe,) = life.probes
    life.probes = []
    life.do(Answered([(probe, None)]))
    assert life.probes == []
    assert "the probe failed" in (life.machine.waits("key-7") or "")
    life.after(RETRY_S, resurrected)
    assert life.counts == [100]


def test_a_member_whose_judging_raises_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = effect.decide
    monkeypatch.setattr(effect, "decide", lambda c, *a, **o: 1 / 0 if c.key_hash_lo == 7 else judge(c, *a, **o))
    life = flood(range(100), at_once=100)
    assert life.counts == [99]
    assert {b.claim.suspect_id for b in life.broken} == {"key-7"}
    assert "it could not be judged" in (life.machine.waits("key-7") or "")


def test_what_raised_is_reported_of_each_page_that_came_back_together(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = effect.decide
    monkeypatch.setattr(effect, "decide", lambda c, *a, **o: 1 / 0 if c.key_hash_lo == 7 else judge(c, *a, **o))
    life = Flood()
    life.suspect(*(lost(key) for key in range(100)))
    life.suspect(*(lost(key, name=f"other-{key}", broker=3) for key in range(100)))
    probes, life.probes = life.probes, []
    assert sum(probe.page is not None for probe in probes) == 2
    life.do(Answered([(probe, [resurrected(c) for c in probe.claims]) for probe in probes]))
    assert {b.claim.suspect_id for b in life.broken} == {"key-7", "other-7"}


def test_members_that_cannot_be_asked_about_together_are_looked_at_in_turn() -> None:
    """Plain deletions and those of transactions in alternating blocks: the ones healed first, then the others."""

    def deletion(key: int) -> Claim:
        at = 1_000 + 2 * key
        if key // 20 % 2 == 0:
            return lost(key, offset=at)
        return lost(key, offset=at, producer_id=7, transaction_start_offset=at, marker_offset=at + 1)

    life = Flood()
    for start in range(0, 80, 20):
        life.suspect(*map(deletion, range(start, start + 20)))
        life.settle(resurrected)
    life.after(RECHECK_S, resurrected).after(RECHECK_S, resurrected)
    assert life.counts == [80]
    for _ in range(5):
        life.after(RECHECK_S, lambda claim: healthy(claim) if claim.producer_id < 0 else resurrected(claim))
    assert life.counts == [40]
    for _ in range(5):
        life.after(RECHECK_S, healthy)
    assert life.open == []


@pytest.mark.parametrize("leader", [1, 2])
def test_an_acknowledged_incident_that_all_replicas_have_come_to_share_is_told_of_again(leader: int) -> None:
    def led(claim: Claim) -> Answers:
        return values(newest(3), NOTHING, leader=leader)

    life = flood(range(100), led).after(RECHECK_S, led)
    said = replace(acknowledged(life.table[-1], "known", "me", life.moment.at), sequence=len(life.table) + 1)
    life.table.append(said)
    life.do(News([said]))
    for _ in range(30):  # Each time all of its keys are looked at.
        life.after(RECHECK_S, everywhere)
    assert [event.status for event in life.open] == [FindingStatus.SPREAD]


def test_a_difference_waits_for_who_is_suspected_about_its_key_with_many_others() -> None:
    """After a restart, what a second outage has done to the keys of an incident is suspected, and was not asked about.

    The tombstones that the incident names are over, and leave that the values of their keys differ.
    """

    def showing(offset_of: Callable[[int], int]) -> Callable[[Claim], Answers]:
        return lambda claim: values(newest(offset_of(claim.key_hash_lo)), NOTHING)

    first = [lost(key) for key in range(100)]
    life = Flood()
    life.suspect(*first)
    life.settle(showing(lambda _: 3)).after(RECHECK_S, showing(lambda _: 3))
    at = int(life.moment.at.timestamp() * 1000)
    second = [lost(key, name=f"second-{key}", offset=6_000 + key, raised_at_ms=at) for key in range(100)]
    now = showing(lambda key: 5_000 + key)
    life.suspect(*second)
    life.settle(now).after(RECHECK_S, now)
    after = life.restarted(5)
    after.suspected_before(*first, *second)
    for is_page in (True, False):
        asked = [p for p in after.probes if (p.page is not None and p.page.is_proven) == is_page]
        asked = asked if is_page else [p for p in asked if p.page is None]
        after.probes = [p for p in after.probes if p not in asked]
        after.do(Answered([(probe, [now(c) for c in probe.claims]) for probe in asked]))
    assert [event.kind for event in after.open] == [RESURRECTED]
