"""The comparison of an audit: what it makes of replicas that are read once, from their log starts on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from parallax.audit import compare
from parallax.audit.compare import STATE, Comparer, PartitionInput, dated, parse
from parallax.audit.inputs import from_tables, known_before
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.audit.result import Compared, merged
from parallax.compare.suspect import Coverage, Suspect
from parallax.config import CompareSettings
from parallax.findings.claim import claim_from_row
from parallax.model import FindingKind, Outcome, ReadEvent
from tests.unit.audit.chunked import Reading, chunks, packed
from tests.unit.compare.history import (
    BROKERS,
    RC,
    RU,
    SETTINGS,
    Row,
    abort,
    both,
    commit,
    everywhere,
    record,
    shown,
    tick,
)
from tests.unit.compare.listing import END, emptied, read

COMPACTED = PartitionPlan("t", 0, "id", TopicTraits(), tuple(BROKERS))
NEVER_COMPACTED = replace(COMPACTED, traits=TopicTraits(compacted=False), strict_from=0)
DOUBTED = replace(NEVER_COMPACTED, strict_from=3, doubted=True)
"""Nothing says whether the policy was another one when the first records were written."""


@dataclass
class Audited:
    compared: Compared
    suspects: list[Suspect]
    coverage: Coverage

    @property
    def kinds(self) -> list[tuple[str, int]]:
        return sorted((str(s.kind), s.broker) for s in self.suspects)


def audited(
    readings: Sequence[Reading],
    ends: tuple[int, int],
    *,
    looks: tuple[Sequence[Row], Sequence[Row]] | None = None,
    size: int = 2,
    settings: CompareSettings = SETTINGS,
    plan: PartitionPlan = COMPACTED,
) -> Audited:
    """Two rounds, as an audit has them; the second reads nothing."""
    first, second = looks or (tick(1000, everywhere(ends[1])), tick(9000, everywhere(ends[1])))
    begin = [r for b in BROKERS for v in (RU, RC) for r in shown(v, b, [], 0, 1001)]
    state, suspects = b"", []
    total: Compared | None = None
    for opening, rows, last in (
        ([known_before(plan, 0), packed(first), packed(begin)], chunks(readings, size), False),
        ([packed(second)], [], True),
    ):
        given = PartitionInput(tuple(opening), (), ends, plan.doubted, plan.left_out)
        comparer = Comparer({("t", 0): given}, settings, 1001 if not last else 9001, last, one_order=False)
        at, blobs = zip(*[(STATE, state), *rows], strict=True)
        batch = pa.RecordBatch.from_pydict(
            {"topic": ["t"] * len(at), "partition": [0] * len(at), "at": list(at), "packed": list(blobs)}
        )
        (row,) = [r for b in comparer.compare([batch]) for r in b.to_pylist()]
        compared, raised, coverage = parse(row["result"])
        total = compared if total is None else merged(total, compared)
        suspects += raised
        state = row["packed"]
    assert total is not None
    return Audited(total, suspects, coverage)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_replicas_that_agree_are_compared_to_their_end_and_raise_nothing(size: int) -> None:
    rows = [record(i, f"k{i % 3}", f"v{i}") for i in range(10)]
    found = audited([both(b, rows, 10) for b in BROKERS], (10, 10), size=size)
    assert found.kinds == []
    assert found.compared.reasons() == []
    assert found.compared.compared_up_to == (10, 10)
    assert found.compared.compared_from == 0


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize(("plan", "lost"), [(NEVER_COMPACTED, 2), (DOUBTED, 1), (COMPACTED, 0)])
def test_what_no_replica_holds_is_lost_from_where_nothing_was_compacted(
    plan: PartitionPlan, lost: int, size: int
) -> None:
    rows = [record(i, f"k{i}", "v") for i in range(10) if i not in (1, 4)]
    found = audited([both(b, rows, 10) for b in BROKERS], (10, 10), size=size, plan=plan)
    assert found.kinds == []
    assert found.compared.lost == lost
    assert found.compared.compared_up_to == (10, 10)


def test_replicas_that_are_left_out_are_waited_for_by_nobody() -> None:
    plan = replace(COMPACTED, replicas=(1, 2), left_out=(3,))
    rows = [record(i, f"k{i % 3}", f"v{i}") for i in range(10)]
    looks = tuple([row for row in tick(at, everywhere(10)) if row["broker"] != 3] for at in (1000, 9000))
    found = audited([both(b, rows, 10) for b in (1, 2)], (10, 10), looks=(looks[0], looks[1]), plan=plan)
    assert (found.kinds, found.compared.reasons()) == ([], [])
    assert found.compared.compared_up_to == (10, 10)


def test_what_is_unmatched_stays_small_while_replicas_that_agree_go_by(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = compare.step

    def weighed(*args: Any, **options: Any) -> Any:
        result = real(*args, **options)
        sizes.append(result.state.nbytes)
        return result

    monkeypatch.setattr(compare, "step", weighed)
    monkeypatch.setattr(compare, "STEP_ROWS", 60)
    rows = [record(i, f"k{i}", f"v{i}") for i in range(2000)]
    found = audited([both(b, rows, 2000) for b in BROKERS], (2000, 2000), size=10)
    assert found.compared.compared_up_to == (2000, 2000)
    assert max(sizes) < 10_000


def test_a_replica_that_was_compacted_further_raises_nothing() -> None:
    whole = [record(0, "K", "1"), record(1, "L", "1"), record(2, "K", "2"), record(3, "L", None), record(4, "M", "1")]
    cleaned = [record(2, "K", "2"), record(4, "M", "1")]
    found = audited([both(1, whole, 5), both(2, cleaned, 5), both(3, whole, 5)], (5, 5))
    # The tombstone is a question to the replica that has cleaned it, and the probe answers it.
    assert found.kinds == [("deleted_record_resurrected", 2)]


def test_a_value_that_one_replica_shows_alone_is_a_difference_without_direction() -> None:
    old, other = record(0, "K", "V"), record(2, "L", "1")
    found = audited([both(1, [other], 3), both(2, [old, other], 3), both(3, [other], 3)], (3, 3))
    assert found.kinds == [("visibility_mismatch", -1)]


def test_a_tombstone_that_one_replica_still_holds_gives_the_direction() -> None:
    old, gone, other = record(0, "K", "V"), record(1, "K", None), record(2, "L", "1")
    found = audited([both(1, [gone, other], 3), both(2, [old, other], 3), both(3, [other], 3)], (3, 3))
    assert ("deleted_record_resurrected", 2) in found.kinds


def test_a_marker_that_others_still_hold_tells_whose_outcome_is_wrong() -> None:
    poison, good = record(0, "p", "v", pid=9, outcome=Outcome.ABORTED), record(2, "g", "v", pid=9, outcome=1)
    rest = [good, commit(3, 9)]
    right = [[*shown(RU, b, [poison, abort(1, 9), *rest], 4), *shown(RC, b, [poison, good], 4)] for b in (1, 3)]
    committed = {**poison, "outcome": Outcome.COMMITTED}
    wrong = [*shown(RU, 2, [poison, *rest], 4), *shown(RC, 2, [committed, good], 4)]
    found = audited([*right, wrong], (4, 4))
    assert found.kinds == [("aborted_record_committed", 2)]


def test_outcomes_that_differ_without_a_marker_are_a_difference_without_direction() -> None:
    row = record(0, "p", "v", pid=9, outcome=Outcome.ABORTED)
    committed = {**row, "outcome": Outcome.COMMITTED}
    readings = [[*shown(RU, b, [], 1), *shown(RC, b, [committed if b == 2 else row], 1)] for b in BROKERS]
    found = audited(readings, (1, 1))
    assert found.kinds == [("visibility_mismatch", -1)]
    assert found.compared.disputes == ()


def test_outcomes_that_differ_are_reported_where_the_markers_could_not_be_read() -> None:
    row = record(0, "p", "v", pid=9, outcome=Outcome.ABORTED)
    committed = {**row, "outcome": Outcome.COMMITTED}
    readings = [shown(RC, b, [committed if b == 2 else row], 1) for b in BROKERS]
    found = audited(readings, (1, 1))
    assert found.kinds == []
    assert found.compared.disputes == (0,)
    assert any("outcome of 1 record differs" in reason for reason in found.compared.reasons())


def test_a_last_stable_offset_that_stands_still_from_look_to_look_is_frozen() -> None:
    opened = {2: [(9, 0)]}
    first = [*tick(1000, {1: 5, 2: 0, 3: 5}, everywhere(5), open=opened)]
    second = [*tick(9000, {1: 5, 2: 0, 3: 5}, everywhere(5), open=opened)]
    rows = [record(4, "K", "V")]
    start = record(0, "a", "1", pid=9, outcome=Outcome.COMMITTED)
    readings = [both(b, rows, 5) for b in (1, 3)]
    readings.append(shown(RU, 2, [start, *rows], 5, last_stable_offset=0))
    found = audited(readings, (5, 5), looks=(first, second))
    assert found.kinds == [("read_committed_frozen", 2)]
    assert [str(s) for s in found.compared.stopped] == [
        (
            "broker 2 was read as read_committed up to offset 0 of 5 (its last stable offset was no higher: "
            "a transaction is open there, or it is behind another replica; audit again once that is over)"
        )
    ]


def test_a_reader_that_was_stopped_says_where_and_why() -> None:
    rows = [record(i, f"k{i}", "v") for i in range(4)]
    stopped = [*shown(RU, 2, rows[:2], 2, event=ReadEvent.CORRUPT_BATCH), *shown(RC, 2, rows, 4)]
    found = audited([both(1, rows, 4), stopped, both(3, rows, 4)], (4, 4))
    assert found.kinds == []
    (reason,) = found.compared.reasons()
    assert reason.startswith("broker 2 was read as read_uncommitted up to offset 2 of 4 (a batch there is broken; ")
    assert found.compared.compared_up_to == (2, 4)


def test_what_the_cap_keeps_out_is_reported() -> None:
    settings = CompareSettings(state_cap_bytes=1 << 16)
    rows = [record(i, f"k{i}", "v") for i in range(6000)]
    readings = [both(1, rows, 6000), both(3, rows, 6000), [*shown(RU, 2, [], 6000), *shown(RC, 2, [], 6000)]]
    found = audited(readings, (6000, 6000), size=500, settings=settings)
    assert any("compare.state_cap_bytes" in reason for reason in found.compared.reasons())


def test_a_transaction_whose_end_marker_was_emptied_is_unknown_and_not_left_out() -> None:
    left = [emptied(2, 7), record(4, "l", "v"), abort(8, 7)]
    hidden = record(1, "k", "v", pid=7, outcome=Outcome.ABORTED)
    found = audited([read(b, *[hidden] * (b == 3), *left) for b in BROKERS], (END, END))
    assert (found.compared.skipped, found.compared.deferred) == (2, 0)
    (reason,) = found.compared.reasons()
    assert reason.startswith("2 offsets have no verdict")


def test_all_absences_are_judged_in_one_audit() -> None:
    rows = [record(i, f"k{i}", "v") for i in range(700)]
    found = audited([both(1, rows, 701), both(2, rows[:1], 701), both(3, rows, 701)], (701, 701), size=100)
    assert len(found.suspects) == 699
    assert found.compared.waiting == 0


def test_a_flood_of_suspects_is_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MAX_SUSPECTS", 300)
    rows = [record(i, f"k{i}", "v") for i in range(700)]
    found = audited([both(1, rows, 701), both(2, rows[:1], 701), both(3, rows, 701)], (701, 701), size=100)
    assert len(found.suspects) == 300
    assert found.compared.overflow


def test_in_a_topic_that_is_not_compacted_every_absence_counts() -> None:
    rows = [record(0, "K", "1"), record(1, "K", "2")]
    found = audited([both(1, rows, 2), both(2, rows[1:], 2), both(3, rows, 2)], (2, 2), plan=NEVER_COMPACTED)
    assert found.kinds == [("record_missing", 2)]
    assert found.compared.reasons() == []


class TestATopicThatMayHaveBeenCompactedBefore:
    """One replica was away while the others compacted; the policy is ``delete`` by now, and it is back."""

    OLD = (record(0, "K", "1"), record(1, "K", "2"), record(2, "J", "1"))
    NEW = (record(3, "K", "3"), record(4, "L", "1"))

    def found(self, plan: PartitionPlan, *lost: int) -> Audited:
        cleaned = [self.OLD[2], *(row for row in self.NEW if row["offset"] not in lost)]
        whole = [*self.OLD, *self.NEW]
        return audited([both(1, cleaned, 5), both(2, whole, 5), both(3, whole, 5)], (5, 5), plan=plan)

    def test_what_was_compacted_is_no_loss(self) -> None:
        found = self.found(replace(DOUBTED, doubted=False))
        assert (found.kinds, found.compared.reasons()) == ([], [])

    def test_nor_is_it_called_consistent_where_nothing_was_recorded_of_the_policy(self) -> None:
        found = self.found(DOUBTED)
        assert found.kinds == []
        (reason,) = found.compared.reasons()
        assert "2 offsets (0, 1) are on some replicas and not on others" in reason

    def test_replicas_that_hold_the_same_are_consistent_whatever_the_policy_was(self) -> None:
        rows = [self.OLD[2], *self.NEW]
        found = audited([both(b, rows, 5) for b in BROKERS], (5, 5), plan=DOUBTED)
        assert (found.kinds, found.compared.reasons()) == ([], [])

    def test_the_latest_value_of_a_key_is_compared_all_the_same(self) -> None:
        rows = [*self.OLD[:2], *self.NEW]
        found = audited([both(1, rows, 5), *(both(b, [*self.OLD, *self.NEW], 5) for b in (2, 3))], (5, 5), plan=DOUBTED)
        assert found.kinds == [("visibility_mismatch", -1)]

    @pytest.mark.parametrize("plan", [DOUBTED, replace(DOUBTED, doubted=False)])
    def test_what_was_written_since_is_lost_where_it_is_missing(self, plan: PartitionPlan) -> None:
        assert self.found(plan, 3).kinds == [("record_missing", 1)]

    def test_what_is_below_the_log_start_by_the_end_is_not_counted(self) -> None:
        before = Compared(unlike=(0, 1), compared_from=0)
        assert merged(before, Compared(compared_from=1)).unlike == (1,)


class TestALogThatBeginsAboveTheOthers:
    def look(self, at: int, deletes: int | None) -> list[Row]:
        more = {} if deletes is None else {"deletes": deletes}
        return [{**row, **more, "log_start_offset": 5 if row["broker"] == 2 else 0} for row in tick(at, everywhere(8))]

    def found(self, deletes: int | None, wait: int = 8000) -> Audited:
        rows = [record(i, f"k{i}", "V") for i in range(8)]
        begins = {"log_start_offset": 5}
        of_2 = shown(RU, 2, rows[5:], 8, **begins) + shown(RC, 2, rows[5:], 8, **begins)
        looks = self.look(1000, deletes), self.look(1000 + wait, deletes)
        return audited([both(1, rows, 8), of_2, both(3, rows, 8)], (8, 8), looks=looks)

    def test_is_a_suspect_where_the_topic_is_only_compacted(self) -> None:
        found = self.found(0)
        assert found.kinds == [("log_head_missing", 2)]
        assert (found.compared.compared_from, found.compared.reasons()) == (0, [])

    def test_is_unknown_where_it_was_not_looked_at_for_long_enough(self) -> None:
        found = self.found(0, wait=10)
        assert found.kinds == []
        assert found.compared.reasons() == [
            "a log begins 5 offsets above another although no cleanup policy is known to delete records"
        ]

    @pytest.mark.parametrize("stays", [False, True])
    def test_is_no_suspect_where_what_begins_lower_is_an_empty_log(self, stays: bool) -> None:
        """Broker 3 has a new disk; by the second look it has learnt where the leader's log begins, or not yet."""

        def look(at: int, *, is_empty: bool) -> list[Row]:
            rows = [{**row, "deletes": 0, "log_start_offset": 5} for row in tick(at, everywhere(8))]
            nothing = ("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset")
            return [{**row, **dict.fromkeys(nothing, 0)} if is_empty and row["broker"] == 3 else row for row in rows]

        rows = [record(i, f"k{i}", "V") for i in range(5, 8)]
        readings = [[r for v in (RU, RC) for r in shown(v, b, rows, 8, log_start_offset=5)] for b in (1, 2)]
        looks = look(1000, is_empty=True), look(9000, is_empty=stays)
        found = audited(readings, (8, 8), looks=looks, plan=replace(COMPACTED, starts={1: 5, 2: 5, 3: 0}))
        assert (found.kinds, found.compared.missing_head, found.compared.skipped) == ([], 0, 0)

    def test_an_empty_log_that_was_recorded_last_is_no_witness_either(self) -> None:
        rows = [record(i, f"k{i}", "V") for i in range(5, 8)]
        told = [
            {**row, "topic": "t", "partition": 0, "observed_at": 9_000_000, "cleanup_policy": "compact"}
            for row in tick(9, everywhere(8))
        ]
        for row in told:
            row |= dict.fromkeys(
                ("high_watermark", "last_stable_offset", "log_end_offset"), 0 if row["broker"] == 3 else 8
            )
            row["log_start_offset"] = 0 if row["broker"] == 3 else 5
        made = replace(COMPACTED, ends=(8, 8), starts={1: 5, 2: 5, 3: 0}, marks={1: (8, 8), 2: (8, 8), 3: (0, 0)})
        comparer = Comparer(from_tables([made], told, 2, {}), SETTINGS, 2, last=True, from_log_start=False)
        readings = [[r for v in (RU, RC) for r in shown(v, b, rows, 8, log_start_offset=5)] for b in BROKERS]
        chunked = [(STATE, b""), *chunks(readings, 100)]
        packs = [{"topic": "t", "partition": 0, "at": at, "packed": blob} for at, blob in chunked]
        (row,) = [r for b in comparer.compare([pa.RecordBatch.from_pylist(packs)]) for r in b.to_pylist()]
        compared, raised, _ = parse(row["result"])
        assert (raised, compared.missing_head, compared.skipped) == ([], 0, 0)

    def test_is_no_suspect_where_the_policy_deletes_and_unknown_of_a_compacted_topic(self) -> None:
        found = self.found(1)
        assert (found.kinds, found.compared.compared_from) == ([], 5)
        (reason,) = found.compared.reasons()
        assert "retention or a loss" in reason


class TestWhatWasRecordedTooLate:
    """An audit of the tables: all three hold one record; a second reading, long after the first, brings the next."""

    HOUR = 3_600_000

    def unread(
        self,
        *readings: tuple[int, int],
        retention_ms: int = 24 * HOUR,
        away: tuple[int, int] = (0, 0),
        plan: PartitionPlan = COMPACTED,
    ) -> Any:
        """The ranges that no reading came to in time.

        Args:
            readings: when each was, in ms, and up to where it was read.
            retention_ms: of the topic.
            away: from when on, and until when, broker 3 held no replica of the partition.
            plan: of the audit.
        """
        rows: list[Row] = []
        told: list[Row] = []
        policy = {"compacted": int(plan.traits.compacted), "policy_at": 1}
        for at, end in readings:
            hosts = [b for b in BROKERS if b != 3 or not away[0] <= at < away[1]]
            told += [
                {
                    **r,
                    "delete_retention_ms": retention_ms,
                    "retention_ms": retention_ms,
                    "leader": 1,
                    "replicas": hosts,
                    **policy,
                }
                for r in tick(at - 1, everywhere(end))
                if r["broker"] in hosts
            ]
            # A position row carries what the replica said of itself.
            said = {"high_watermark": end, "last_stable_offset": end, "log_start_offset": 0}
            rows += [r for b in hosts for v in (RU, RC) for r in shown(v, b, [], end, at, **said)]
        for b in BROKERS:
            rows += [
                {**r, "view": v, "broker": b} for v in (RU, RC) for r in (record(0, "K", "1"), record(1, "L", "1"))
            ]
        ends = (readings[-1][1],) * 2
        (given,) = from_tables([replace(plan, ends=ends, starts=dict.fromkeys(BROKERS, 0))], [], 2, {}).values()
        comparer = Comparer({("t", 0): given}, SETTINGS, 2, last=True, from_log_start=False)
        in_order = sorted(rows, key=lambda r: (r["offset"], -int(r["kind"])))
        blobs = [(STATE, b""), (0, packed(told)), *chunks([in_order], 100)]
        at, packs = zip(*blobs, strict=True)
        batch = pa.RecordBatch.from_pydict(
            {"topic": ["t"] * len(at), "partition": [0] * len(at), "at": list(at), "packed": list(packs)}
        )
        (row,) = [r for b in comparer.compare([batch]) for r in b.to_pylist()]
        compared, raised, _ = parse(row["result"])
        assert raised == []
        return sorted((span.view, span.start, span.end, str(span.reason)) for span in compared.unread)

    def test_nothing_is_too_late_that_was_read_from_the_beginning_and_in_time(self) -> None:
        assert self.unread((1000, 0), (2000, 2)) == []

    def test_positions_say_nothing_of_what_lies_between_them_where_nothing_is_compacted(self) -> None:
        found = self.unread((1000, 0), (2000, 0), (3000, 2), plan=NEVER_COMPACTED, away=(2000, 9000))
        assert found == []

    def test_what_lay_there_before_the_first_reading_is_not_known(self) -> None:
        why = "before_first_reading"
        assert self.unread((1000, 2), (2000, 2)) == [(RU, 0, 2, why), (RC, 0, 2, why)]

    def test_what_was_written_during_a_gap_longer_than_the_retention_is_not_known(self) -> None:
        why = "retention_gap"
        assert self.unread((1000, 0), (2000, 1), (2000 + 30 * self.HOUR, 2)) == [(RU, 1, 2, why), (RC, 1, 2, why)]
        assert self.unread((1000, 0), (2000, 1), (2000 + 20 * self.HOUR, 2)) == []

    @pytest.mark.parametrize("shown_from", [1, 1_767_225_000_000])
    def test_a_difference_is_raised_once_all_is_read_as_of_the_start_of_the_reading(self, shown_from: int) -> None:
        value, deleted = record(0, "K", "V"), record(1, "K", None)
        more = [record(o, f"f{o}", "x") for o in range(2, 6)]
        readings = [both(b, [value, *more] if b == 2 else [value, deleted, *more], 6) for b in BROKERS]
        told = [{**one, "topic": "t", "partition": 0, "observed_at": 9_000_000} for one in tick(9, everywhere(6))]
        given = from_tables([replace(COMPACTED, ends=(6, 6), starts=dict.fromkeys(BROKERS, 0))], told, 2, {})
        comparer = Comparer(given, SETTINGS, 2, last=True, from_log_start=False)
        rows = [
            {"topic": "t", "partition": 0, "at": at, "packed": blob}
            for at, blob in [(STATE, b""), *chunks(readings, 100)]
        ]
        (made,) = comparer.compare([pa.RecordBatch.from_pylist(rows)])
        _, (suspect,), _ = parse(made.to_pylist()[0]["result"])
        claim = claim_from_row(dated(suspect, 1_767_225_600_000, shown_from).as_row())
        assert (claim.kind, claim.broker) == (FindingKind.DELETED_RECORD_RESURRECTED, 2)
        assert (claim.raised_at_ms, claim.shown_at_ms) == (1_767_225_600_000, shown_from)
        assert claim.suspect_id == suspect.suspect_id

    def test_what_lies_below_where_a_reassigned_replica_is_read_on_is_unknown(self) -> None:
        why = "before_first_reading"
        readings = ((1000, 0), (2000, 1), (3000, 1), (4000, 1), (5000, 2))
        assert self.unread(*readings) == []
        assert self.unread(*readings, away=(3000, 4000)) == [(RU, 0, 1, why), (RC, 0, 1, why)]
