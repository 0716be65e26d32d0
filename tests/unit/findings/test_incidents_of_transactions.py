"""Many transactions that the same replica has ended wrongly: one finding with a count, and everything stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from parallax.findings import incidents
from parallax.findings.acknowledge import acknowledged
from parallax.findings.answers import Answers, CoordinatorAnswer, OpenTransaction
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.effect import COVERED, COVERED_TOGETHER, unknown_rest
from parallax.findings.explain import explain
from parallax.findings.finding import Finding, evidence_of, leans_on
from parallax.findings.happenings import Answered, News
from parallax.findings.incident import tally_of
from parallax.findings.requests import TransactionRecords
from parallax.model import NOBODY, FindingKind, FindingStatus, Rule
from parallax.sides import parsed
from tests.builders.answers import NOTHING, answers, newest, replica, silent
from tests.unit.findings.floods import ALONE, RESURRECTED, Flood, objects
from tests.unit.findings.lives import RECHECK_S, RETRY_S
from tests.unit.findings.transactions import (
    COMMITTED_WRONGLY,
    CONTRADICTS,
    END,
    Answering,
    by_index,
    by_key,
    flood,
    healed,
    missed,
    shows,
    start_of,
    turned,
)

DIFFERS = FindingKind.VISIBILITY_MISMATCH
FROZEN = FindingKind.READ_COMMITTED_FROZEN


def value(number: int, **fields: Any) -> Claim:
    """The replicas do not show the same value of the key that the transaction wrote."""
    sides = {"no value": (1, 3), f"value at offset {start_of(number)}": (2,)}
    base = {"name": f"key-{number}", "rule": Rule.LATEST_VALUE, "kind": DIFFERS, "broker": NOBODY}
    base |= {
        "transaction_start_offset": -1,
        "marker_offset": -1,
        "recorded": RecordedByViews(sides=parsed(sides), pivot=2),
    }
    return turned(number, **(base | fields))


def by_others(claim: Claim) -> Answers:
    """The others show the record as aborted, and the marker."""
    others = {b: shows(b, claim, "aborted", "abort") for b in (1, 3)}
    return Answers(others | {2: shows(2, claim, "committed", None)}, leader=1)


def away(claim: Claim) -> Answers:
    return answers(replica(1, END), silent(2), replica(3, END))


def compacted(claim: Claim) -> Answers:
    """Nobody holds anything of it any more, and the key was written since."""
    newer = newest(END - 1)
    return Answers({b: replace(shows(b, claim, None, None), key=newer) for b in (1, 2, 3)}, leader=1)


def open_on_two(claim: Claim) -> Answers:
    """Broker 2 holds the transaction open by now, and its last stable offset stands there."""
    start = claim.transaction_start_offset
    held = replica(2, END, open_transactions=(OpenTransaction(claim.producer_id, start),), last_stable_offset=start)
    return Answers({1: shows(1, claim, "aborted", "abort"), 2: held, 3: shows(3, claim, "aborted", "abort")}, leader=1)


def open_on_three(claim: Claim) -> Answers:
    """Broker 3 holds the transaction open, broker 2 shows it as committed, and broker 1 as aborted."""
    start = claim.transaction_start_offset
    held = replica(3, END, open_transactions=(OpenTransaction(claim.producer_id, start),), last_stable_offset=start)
    one, two = shows(1, claim, "aborted", "abort"), shows(2, claim, "committed", None)
    return Answers({1: one, 2: two, 3: held}, leader=1)


def open_on_all(claim: Claim) -> Answers:
    """An unclean election has truncated the end marker everywhere: all hold the transaction open by now."""
    start = claim.transaction_start_offset
    of = {"open_transactions": (OpenTransaction(claim.producer_id, start),), "last_stable_offset": start}
    coordinator = CoordinatorAnswer(claim.producer_id, "t", "CompleteAbort")
    return replace(answers(*(replica(broker, END, **of) for broker in (1, 2, 3)), leader=1), coordinator=coordinator)


def number_of(claim: Claim) -> int:
    return (claim.transaction_start_offset - 1_000) // 10


def where(is_so: Callable[[int], bool], answering: Answering, otherwise: Answering) -> Answering:
    return lambda claim: (answering if is_so(number_of(claim)) else otherwise)(claim)


def rounds(life: Flood, answering: Answering, times: int = 3) -> Flood:
    for _ in range(times):
        life.after(RECHECK_S, answering)
    return life


def said_of_all(life: Flood) -> list[tuple[int, FindingKind, str, int]]:
    """Of each finding that is not over: whom it accuses, of what, its status, and how many transactions it counts."""
    return [(f.broker, f.kind, str(f.status), tally_of(f).count if f.is_incident else 1) for f in life.open]


def where_of_key(key: int, answering: Answering, otherwise: Answering) -> Answering:
    return lambda claim: (answering if claim.key_hash_lo == key else otherwise)(claim)


class TestThousands:
    def test_are_one_finding_with_the_right_count_and_bounded_everything(self) -> None:
        life = flood(5_000)
        life.after(RECHECK_S, by_index)
        (event,) = life.open
        assert event.is_incident
        assert (event.kind, event.broker, event.rule) == (CONTRADICTS, 2, Rule.OUTCOME)
        assert life.counts == [5_000]
        assert "of 5,000 transactions in all (records at offsets 1000 to 50990)" in event.summary
        assert len(life.table) < 12, "as often as the count has doubled"
        assert max(len(e.evidence) for e in life.table) < 20_000
        assert life.machine.status().pending == {}
        assert life.asked < 5_000 + 600, "each was asked about once, and samples"
        assert objects(life.machine) < 4_000, "no object for each"

    def test_fall_in_number_as_they_heal_until_none_is_left(self) -> None:
        life = flood(2_000)
        rounds(life, where(lambda n: n % 2 == 0, by_index, healed))
        assert life.counts == [1_000]
        assert tally_of(life.open[0]).ended == {"healed": 1_000}
        rounds(life, healed)
        assert life.open == []
        assert (life.last.status, evidence_of(life.last)["resolution"]) == (FindingStatus.RESOLVED, "healed")
        assert "none of the transactions of orders-0 was shown wrongly any more (2,000 healed)" in life.last.summary

    def test_keep_their_count_through_a_restart_after_which_nothing_proves_them_again(self) -> None:
        def cleaned(claim: Claim) -> Answers:
            """The cleaner goes by the same index: it has taken the ABORT, and left the record."""
            others = {b: shows(b, claim, None, None) for b in (1, 3)}
            return Answers(others | {2: shows(2, claim, "committed", None)}, leader=1)

        before = rounds(flood(1_000), cleaned)
        assert before.counts == [1_000], "what was proven of them stays so"
        after = before.restarted()
        after.suspected_before(*map(turned, range(1_000)))
        after.settle(cleaned)
        rounds(after, cleaned)
        assert after.counts == [1_000]
        rounds(after, healed, 6)
        assert after.open == []

    def test_that_two_kinds_of_suspects_name_count_once_as_what_says_most(self) -> None:
        life = flood(100)
        assert [(f.kind, tally_of(f).count) for f in life.open] == [(CONTRADICTS, 100)]
        life.suspect(*map(missed, range(60)))
        life.settle(by_others)
        life.after(RECHECK_S, where(lambda n: n < 60, by_others, by_index))
        found = {f.kind: tally_of(f).count for f in life.open}
        assert found == {COMMITTED_WRONGLY: 60, CONTRADICTS: 40}
        life.suspect(*(replace(turned(n), suspect_id=f"again-{n}") for n in range(60)))
        life.settle(by_index)
        life.after(RECHECK_S, where(lambda n: n < 60, by_others, by_index))
        assert {f.kind: tally_of(f).count for f in life.open} == found

    def test_without_direction_are_an_incident_of_transactions_beside_one_of_keys(self) -> None:
        sides = RecordedByViews(sides=parsed({"aborted": (1, 3), "committed": (2,)}), pivot=2)
        unlike = {"kind": DIFFERS, "broker": NOBODY, "marker_offset": -1, "recorded": sides}
        life = flood(50, by_others, lambda n: turned(n, **unlike))
        (event,) = life.open
        assert (event.broker, event.kind, event.rule) == (NOBODY, DIFFERS, Rule.OUTCOME)
        assert "do not show records of 50 transactions alike" in event.summary
        other = {"producer_id": -1, "offset": 5, "key_hash_hi": 2}
        life.suspect(*(value(n, **other, name=f"other-{n}") for n in range(40)))
        life.settle(lambda c: by_key(c) if c.rule is Rule.LATEST_VALUE else by_others(c))
        assert {(f.rule, tally_of(f).count) for f in life.open} == {(Rule.OUTCOME, 50), (Rule.LATEST_VALUE, 40)}
        assert len({f.finding_id for f in life.open}) == 2

    def test_that_were_over_when_they_were_found_are_told_of_once_in_one_event(self) -> None:
        life = flood(1_000, compacted, missed)
        rounds(life, compacted)
        (event,) = life.table
        assert (event.status, event.is_incident) == (FindingStatus.RESOLVED, True)
        assert (
            "none of the transactions of orders-0 was shown wrongly any more (1,000: what had shown it is gone)"
            in event.summary
        )
        assert life.machine.status().pending == {}
        assert life.machine.waits("missed-3") is None
        for hours in (0, 25, 25):
            after = life.restarted(hours * 3600)
            after.suspected_before(*map(missed, range(1_000)))
            after.settle(compacted)
            rounds(after, compacted)
            assert len(after.table) == 1
            life = after

    def test_is_explained_by_its_index_and_never_by_a_copy(self) -> None:
        said = explain(flood(100).open[0])
        assert any("rebuild its index of aborted transactions" in step.text for step in said.steps)
        assert said.away is None

    def test_that_are_acknowledged_open_again_when_there_are_more(self) -> None:
        life = flood(100)
        event = replace(acknowledged(life.open[0], "known", "me", life.moment.at), sequence=99)
        life.do(News([event]))
        assert life.open == []
        life.suspect(*map(turned, range(100, 150)))
        life.settle(by_index)
        life.after(2 * 10 * RECHECK_S, by_index)
        assert life.counts == [150]


class Crowded(Flood):
    """Each transaction has a number of records, of which a probe asks about as many as production does."""

    def __init__(self, records: int, before: Flood) -> None:
        self.records, self.pages, self.asked_together = records, list[int](), list[int]()
        super().__init__(before.table, before.now, members=before.members)

    def settle(self, answering: Answering) -> Crowded:
        while self.probes:
            probes, self.probes = self.probes, []
            self.do(Answered([(probe, self._said(probe.claims, answering)) for probe in probes]))
        return self

    def _said(self, claims: Sequence[Claim], answering: Answering) -> list[Answers]:
        together = min(self.records, COVERED, COVERED_TOGETHER // len(claims))
        self.pages.append(len(claims))
        self.asked_together.append(len(claims) * together)
        left_out = self.records - together
        unknown = unknown_rest(TransactionRecords(left_out=left_out))
        found = []
        for claim in claims:
            said = answering(claim)
            rest = tuple((replace(claim, suspect_id=f"{claim.suspect_id}:{n}"), said) for n in range(1, together))
            found.append(replace(said, rest=rest, rest_left_out=left_out, rest_unknown=unknown))
        return found


class TestOfManyRecordsEach:
    """Where the accused shows nothing any more of the record that is named, the others are asked about as well."""

    @pytest.mark.parametrize("records", [2, 30, COVERED])
    @pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
    def test_end_though_one_probe_cannot_ask_about_all_of_a_page(self, records: int, is_restarted: bool) -> None:
        many = 300 if records < COVERED else 100
        before = flood(many).after(RECHECK_S, by_index)
        life = Crowded(records, before)
        assert life.counts == [many]
        life.suspect(*map(turned, range(many)))
        if not is_restarted:
            life.settle(by_index)
            assert life.machine.status().pending == {}
        life.pages.clear()
        rounds(life, healed)
        assert life.open == []
        assert evidence_of(life.last)["resolution"] == "healed"
        assert max(life.asked_together) <= COVERED_TOGETHER
        large = [size for size in life.pages if size * records > COVERED_TOGETHER]
        assert len(large) <= 4, "a page that was too large says how large the next may be"

    def test_of_more_records_than_are_asked_about_are_not_asked_about_without_end(self) -> None:
        before = flood(40)
        life = Crowded(COVERED + 1, before)
        life.suspect(*map(turned, range(40)))
        rounds(life, healed)
        assert life.counts == [40]
        assert len(life.pages) < 60


class TestFew:
    def test_are_findings_one_by_one(self) -> None:
        life = flood(ALONE)
        assert len(life.open) == ALONE
        assert not any(f.is_incident for f in life.open)

    def test_among_many_that_are_cleared_are_findings_one_by_one(self) -> None:
        life = flood(1_000, where(lambda n: n in (7, 400), by_index, healed))
        assert sorted(f.offset for f in life.open) == [start_of(7), start_of(400)]
        assert not any(f.is_incident for f in life.open)

    def test_that_come_one_after_another_become_one_incident_as_soon_as_they_are_many(self) -> None:
        life = Flood()
        for number in range(ALONE + 1):
            life.suspect(turned(number))
            life.settle(by_index)
        (event,) = life.open
        assert event.is_incident
        assert tally_of(event).count == ALONE + 1
        assert life.machine.status().resolved_total == 0, "none of them is over"
        after = rounds(life.restarted(), by_index)
        assert after.counts == [ALONE + 1]

    def test_that_end_at_one_marker_are_one_transaction(self) -> None:
        life = Flood()
        marker = start_of(ALONE) + 5
        life.suspect(*(missed(n, marker_offset=marker) for n in range(ALONE)))
        life.settle(by_others)
        life.suspect(*(missed(n) for n in range(100, 100 + ALONE)))
        life.settle(by_others)
        life.after(RECHECK_S, by_others)
        assert life.counts == [ALONE + 1]


class TestOfADeletionThatWasRolledBack:
    """Broker 2 shows it as committed, and its cleaner takes the value before it."""

    def shown(self, claim: Claim, *, by_others: bool = True) -> Answers:
        """What all show while broker 2 holds the deletion; whether the others still show the value before it."""
        at = claim.transaction_start_offset
        deletion = newest(at, "committed", value_size=-1, producer_id=claim.producer_id)
        of_two = replace(shows(2, claim, "committed", None), key=deletion)
        others = {b: replace(shows(b, claim, None, None), key=newest(3) if by_others else NOTHING) for b in (1, 3)}
        return Answers(others | {2: of_two}, leader=1)

    def gone(self, claim: Claim) -> Answers:
        """The others are copies of broker 2, and the deletion is cleaned."""
        return Answers({b: replace(shows(b, claim, None, None), key=NOTHING) for b in (1, 2, 3)}, leader=1)

    def test_the_value_is_still_looked_for_after_a_restart(self) -> None:
        life = rounds(flood(40, self.shown, missed).restarted(), self.gone)
        assert [(f.broker, f.status) for f in life.open] == [(2, FindingStatus.UNSETTLED)]

    def test_the_value_is_looked_for_also_if_another_showed_it_later(self) -> None:
        life = rounds(flood(40, partial(self.shown, by_others=False), missed), self.shown)
        life = rounds(life.restarted(), self.gone)
        assert [(f.broker, f.status) for f in life.open] == [(2, FindingStatus.UNSETTLED)]


class TestOneThatIsOpenOnTheAccused:
    def test_is_asked_about_by_itself_and_takes_two_probes(self) -> None:
        answering = where(lambda n: n == 3, open_on_two, by_others)
        life = flood(100, answering, missed)
        assert life.counts == [99]
        assert "asked once more" in (life.machine.waits("missed-3") or "")
        life.after(RETRY_S, answering)
        assert {f.kind for f in life.open} == {COMMITTED_WRONGLY, FROZEN}

    def test_is_a_finding_of_its_own_that_the_incident_counts_no_more(self) -> None:
        answering = where(lambda n: n == 3, open_on_two, by_others)
        life = flood(100, by_others, missed)
        life.suspect(missed(3, name="frozen", kind=FROZEN, rule=Rule.PROGRESS))
        life.settle(answering)
        life.after(RETRY_S, answering)
        rounds(life, answering)
        assert {f.kind: f.is_incident for f in life.open} == {COMMITTED_WRONGLY: True, FROZEN: False}
        assert [tally_of(f).count for f in life.open if f.is_incident] == [99]
        rounds(life, by_others)
        assert life.counts == [100]

    def test_on_all_by_now_accuses_nobody_after_two_probes_in_a_row_and_the_second_is_soon(self) -> None:
        life = flood(100, by_others, missed)
        life.after(RECHECK_S, open_on_all)
        assert {f.status for f in life.open} == {FindingStatus.CONFIRMED}
        life.after(RETRY_S, open_on_all)
        life.after(RETRY_S, open_on_all)
        assert {f.status for f in life.open} == {FindingStatus.SPREAD}

    def test_on_all_by_now_is_one_loss_with_the_finding_that_says_so_of_another_replica(self) -> None:
        life = flood(100, by_others, missed)
        frozen = missed(3, name="frozen", kind=FROZEN, rule=Rule.PROGRESS, broker=3)
        life.suspect(replace(frozen, recorded=RecordedByViews(markers={1: "abort"})))
        on_three = where(lambda n: n == 3, open_on_three, by_others)
        rounds(life.settle(on_three), on_three)
        assert said_of_all(life) == [(2, COMMITTED_WRONGLY, "confirmed", 100), (3, FROZEN, "confirmed", 1)]
        rounds(life, where(lambda n: n == 3, open_on_all, by_others))
        assert said_of_all(life) == [(2, COMMITTED_WRONGLY, "confirmed", 99), (3, FROZEN, "spread", 1)]
        rounds(life, on_three)
        assert said_of_all(life) == [(2, COMMITTED_WRONGLY, "confirmed", 100), (3, FROZEN, "confirmed", 1)]


class TestWhatTransactionsExplain:
    def test_is_dismissed_and_leans_on_the_incident(self) -> None:
        life = flood(100)
        life.suspect(value(5))
        life.settle(by_index)
        assert life.counts == [100]
        assert life.last.status is FindingStatus.DISMISSED
        assert leans_on(life.last) == (life.open[0].finding_id,)

    def test_waits_as_long_as_they_are_suspected(self) -> None:
        life = Flood()
        life.suspect(*map(turned, range(100)), value(5))
        pages, life.probes = life.probes, []
        life.probes = [probe for probe in pages if probe.page is None]
        life.settle(by_index)
        assert "waits for the verdict on outcome_contradicts_marker" in (life.machine.waits("key-5") or "")
        life.probes = [probe for probe in pages if probe.page is not None]
        life.settle(by_index)
        life.after(RETRY_S, by_index)
        assert life.last.status is FindingStatus.DISMISSED

    def test_is_no_incident_of_keys_where_there_are_many(self) -> None:
        life = flood(100)
        life.suspect(*map(value, range(100)))
        life.settle(by_index)
        rounds(life, by_index)
        assert [f.kind for f in life.open] == [CONTRADICTS]
        assert life.machine.status().pending == {}

    def test_is_a_finding_once_the_transaction_has_healed_and_no_other(self) -> None:
        life = flood(100)
        life.suspect(*map(value, range(8)))
        life.settle(by_index)
        rounds(life, where(lambda n: n == 5, healed, by_index))
        assert life.counts[:1] == [99]
        assert [f.offset for f in life.open if not f.is_incident] == [start_of(5)]

    def test_is_a_finding_of_many_once_they_have_healed(self) -> None:
        life = flood(100)
        life.suspect(*map(value, range(100)))
        life.settle(by_index)
        rounds(life, where(lambda n: n < 50, healed, by_index))
        assert {(f.rule, tally_of(f).count) for f in life.open} == {(Rule.OUTCOME, 50), (Rule.LATEST_VALUE, 50)}

    def test_stays_explained_after_a_restart_though_a_copy_shows_the_same_by_now(self) -> None:
        def copied(claim: Claim) -> Answers:
            shows = {b: replica(b, END, key=newest(claim.offset) if b > 1 else NOTHING) for b in (1, 2, 3)}
            return Answers(shows, leader=1) if claim.rule is Rule.LATEST_VALUE else by_index(claim)

        life = flood(100)
        life.suspect(*map(value, range(40)))
        life.settle(by_index)
        after = life.restarted(1)
        after.suspected_before(*life.raised.values())
        rounds(after.settle(copied), copied)
        assert [(f.kind, tally_of(f).count) for f in after.open] == [(CONTRADICTS, 100)]
        rounds(after, where(lambda n: n >= 40, by_index, healed), 6)
        assert {(f.kind, tally_of(f).count) for f in after.open} == {(CONTRADICTS, 60), (DIFFERS, 40)}

    def test_is_a_finding_once_the_transaction_has_healed_while_nobody_looked(self) -> None:
        before = flood(100)
        before.suspect(value(5))
        before.settle(by_index)
        answering = where(lambda n: n == 5, healed, by_index)
        after = before.restarted()
        after.suspected_before(*map(turned, range(100)))
        after.settle(answering)
        rounds(after, answering)
        assert [f.offset for f in after.open if not f.is_incident] == [start_of(5)]

    def test_is_a_finding_once_the_transaction_has_healed_that_was_a_finding_by_itself_by_then(self) -> None:
        life = flood(100)
        life.suspect(value(5))
        life.settle(by_index)
        assert leans_on(life.last) == (life.open[0].finding_id,)
        answering = where(lambda n: n == 5, by_others, by_index)
        by_value = where_of_key(5, lambda c: by_key(c) if c.rule is Rule.LATEST_VALUE else answering(c), answering)
        life.suspect(missed(5))
        life.settle(by_value)
        rounds(life, by_value)
        assert {(f.kind, tally_of(f).count if f.is_incident else 1) for f in life.open} == {
            (CONTRADICTS, 99),
            (COMMITTED_WRONGLY, 1),
        }
        rounds(life, where(lambda n: n == 5, healed, by_index))
        assert life.counts[:1] == [99]
        assert [f.kind for f in life.open if not f.is_incident] == [DIFFERS]

    def test_ends_where_it_was_a_finding_before(self) -> None:
        life = Flood()
        life.suspect(value(5))
        life.settle(by_index)
        for _ in range(8):
            life.after(RETRY_S, by_index)
        assert [f.kind for f in life.open] == [DIFFERS]
        life.suspect(*map(turned, range(100)))
        life.settle(by_index)
        rounds(life, by_index)
        assert [f.kind for f in life.open] == [CONTRADICTS]

    def test_ends_where_it_was_an_incident_before_though_a_replica_is_held_back_by_now(self) -> None:
        def held_back(claim: Claim) -> Answers:
            values = by_key(claim).replicas | {2: replica(2, END, key=NOTHING, last_stable_offset=claim.offset)}
            return Answers(values, leader=1) if claim.rule is Rule.LATEST_VALUE else by_others(claim)

        life = Flood()
        life.suspect(*map(value, range(40)))
        life.settle(by_key)
        for _ in range(8):
            life.after(RETRY_S, by_key)
        assert [(f.kind, tally_of(f).count) for f in life.open] == [(DIFFERS, 40)]
        life.suspect(*map(missed, range(40)))
        rounds(life.settle(held_back), held_back)
        assert [(f.kind, tally_of(f).count) for f in life.open] == [(COMMITTED_WRONGLY, 40)]

    def test_is_not_what_another_transaction_wrote(self) -> None:
        life = flood(100)
        life.suspect(value(300))
        life.settle(by_index)
        for _ in range(8):
            life.after(RETRY_S, by_index)
        assert [f.offset for f in life.open if not f.is_incident] == [start_of(300)]

    @pytest.mark.parametrize("of", [turned, missed])
    def test_is_the_value_of_a_further_key_that_one_of_them_wrote_until_that_has_healed(
        self, of: Callable[..., Claim]
    ) -> None:
        further = value(5, name="further", producer_id=-1, offset=start_of(5) + 1, key_hash_lo=5_000)
        answering = by_index if of is turned else by_others
        life = Flood()
        known = of(5).recorded
        life.suspect(*(of(n) for n in range(100) if n != 5), of(5, recorded=replace(known, keys=(further.key_text,))))
        life.settle(answering)
        life.suspect(further)
        life.settle(where_of_key(5_000, by_key, answering))
        rounds(life, where_of_key(5_000, by_key, answering))
        assert life.counts == [100]
        rounds(life, where_of_key(5_000, by_key, where(lambda n: n == 5, healed, answering)))
        assert [f.offset for f in life.open if not f.is_incident] == [further.offset]

    def test_is_a_finding_of_many_of_their_further_keys_once_they_have_healed(self) -> None:
        further = [
            value(n, name=f"further-{n}", producer_id=-1, offset=start_of(n) + 1, key_hash_lo=5_000 + n)
            for n in range(100)
        ]
        known = turned(0).recorded
        life = Flood()
        life.suspect(*(turned(n, recorded=replace(known, keys=(further[n].key_text,))) for n in range(100)))
        life.settle(by_index)
        life.suspect(*further)
        life.settle(by_index)
        rounds(life, by_index)
        assert life.counts == [100]
        rounds(life, where(lambda n: 0 <= n < 50, healed, by_index))
        assert {(f.rule, tally_of(f).count) for f in life.open} == {(Rule.OUTCOME, 50), (Rule.LATEST_VALUE, 50)}

    def test_is_not_that_a_key_was_deleted_about_which_no_incident_accuses_anybody(self) -> None:
        """An incident of transactions says of no key that its value is wrong."""
        life = flood(100)
        life.suspect(value(5, producer_id=-1, offset=start_of(5) + 4))
        life.settle(by_index)
        assert RESURRECTED not in {f.kind for f in life.open}
        assert [f.offset for f in life.open if not f.is_incident] == [start_of(5) + 4]


def test_a_probe_that_fails_is_made_again() -> None:
    life = Flood()
    life.suspect(*map(turned, range(100)))
    from parallax.findings.happenings import Answered

    (probe,) = life.probes
    life.probes = []
    life.do(Answered([(probe, None)]))
    assert "the probe failed" in (life.machine.waits("txn-7") or "")
    life.after(RETRY_S, by_index)
    assert life.counts == [100]


@pytest.mark.parametrize("answering", [by_index, away])
def test_findings_that_were_single_stay_so_when_they_are_suspected_again(answering: Answering) -> None:
    life = flood(3)
    findings: list[Finding] = life.open
    life.suspect(*(replace(turned(n), suspect_id=f"again-{n}") for n in range(3)), *map(turned, range(50, 50 + ALONE)))
    life.settle(lambda claim: (answering if number_of(claim) < 3 else healed)(claim))
    assert [f.finding_id for f in life.open] == [f.finding_id for f in findings]
    assert incidents.ALONE == ALONE
