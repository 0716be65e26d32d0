"""Rows that wait for a replica that is away stay in the views: what is said is the same, and the state stays small."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parallax.compare import going, sums
from parallax.compare.observations import Observations, ViewRows
from parallax.compare.state import NEVER, PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.sums import Grain
from parallax.compare.suspect import Coverage, suspect_id
from parallax.compare.withheld import Places, RowsGoneError, Views, WithholdingLimits, _Run, compare, is_withholding
from parallax.compare.withholding import waiting
from parallax.config import CompareSettings
from parallax.model import UNKNOWN, Outcome, ReadEvent, RowKind, UnknownReason
from tests.builders.policies import never_compacted
from tests.unit.compare.history import BROKERS, RC, RU, SETTINGS, Row, abort, commit, record, shown, tick
from tests.unit.compare.states import state

LIMITS = WithholdingLimits(worth=2_000, few=10, at_a_time=100, grain=Grain(stride=4, recent=2))
BATCH = 40
AWAY = 2


def log(end: int, *, transactional: bool, seed: int = 1) -> list[Row]:
    """Offsets from 0 on; with transactions, those of three producers lie within each other, some of them aborted."""
    drawn = random.Random(seed)
    rows: list[Row] = []
    going: dict[int, Outcome] = {}
    for offset in range(end):
        pid = drawn.randrange(3)
        if not transactional or drawn.random() < 0.2:
            rows.append(record(offset, f"K{offset}", "V"))
        elif pid in going and drawn.random() < 0.3:
            outcome = going.pop(pid)
            end = commit(offset, pid) if outcome == Outcome.COMMITTED else abort(offset, pid)
            rows.append({**end, "outcome": outcome})
        else:
            going.setdefault(pid, Outcome.ABORTED if drawn.random() < 0.3 else Outcome.COMMITTED)
            rows.append(record(offset, f"K{offset}", "V", pid=pid, outcome=going[pid]))
    return rows


class Compared:
    """A partition, compared with rows withheld and with all of them at once; its state goes through bytes."""

    def __init__(
        self, logs: dict[int, list[Row]], limits: WithholdingLimits = LIMITS, settings: CompareSettings = SETTINGS
    ) -> None:
        self.logs, self.limits, self.settings = logs, limits, settings
        self.at = dict.fromkeys([(view, broker) for view in (RU, RC) for broker in logs], 0)
        self.recorded: list[tuple[int, Row]] = []
        self.batch = self.read_again = 0
        self.key = bytes(range(16))
        self.sizes: list[int] = []
        self.state = self.at_once = b""
        self.said: dict[str, set[str]] = {"later": set(), "at once": set()}
        self.last: StepResult | None = None
        self.whole: StepResult | None = None

    def read(self, end: int, *brokers: int, down: Iterable[int] = (), views: Iterable[int] = (RU, RC)) -> None:
        """One micro-batch in which readers come to an offset."""
        self.read_to({(view, broker): end for broker in brokers for view in views}, down=tuple(down))

    def read_to(self, ends: dict[tuple[int, int], int], **progress: Any) -> None:
        """One micro-batch in which each of some readers comes to an offset of its own."""
        rows: list[Row] = []
        for (view, broker), end in ends.items():
            start, self.at[view, broker] = self.at[view, broker], end
            held = [row for row in self.logs[broker][start:end] if row]
            rows += shown(view, broker, held, end, 1000 + self.batch)
        lso = progress.pop("lso", dict.fromkeys(self.logs, max(ends.values())))
        self.take([*rows, *tick(1000 + self.batch, lso, brokers=tuple(self.logs), **progress)])

    def take(self, rows: list[Row]) -> None:
        self.batch += 1
        self.recorded += [(self.batch, row) for row in rows if "observed_at" not in row]
        seen = Observations.of("t", 0, rows)
        known = PartitionState.from_bytes(self.state)
        self.last = compare(known, seen, self.settings, 0, Views(self.batch, self.again, self.key), limits=self.limits)
        assert known.to_bytes() == PartitionState.from_bytes(self.state).to_bytes(), "its input is not written to"
        told, start = self.last.coverage, int(self.last.state.partition["withheld"][0])
        settled = [offset for offset in (*told.compared_up_to, told.withheld_from) if offset != UNKNOWN]
        assert min(settled, default=UNKNOWN) <= start, "upkeep leaves alone what may be read again"
        self.whole = step(PartitionState.from_bytes(self.at_once), seen, SETTINGS, 0)
        self.state, self.at_once = self.last.state.to_bytes(), self.whole.state.to_bytes()
        for name, result in (("later", self.last), ("at once", self.whole)):
            self.said[name] |= {suspect_id(s.topic, s.partition, s.accusation) for s in result.suspects}

    def again(self, places: Places, start: int, end: int) -> ViewRows:
        since, until = places
        found = [
            row
            for at, row in self.recorded
            if since < at <= until and row["kind"] != RowKind.POSITION and start <= row["offset"] < end
        ]
        self.read_again += len(found)
        self.sizes.append(len(found))
        return Observations.of("t", 0, found).rows

    @property
    def is_withholding(self) -> bool:
        return is_withholding(PartitionState.from_bytes(self.state))

    @property
    def compared_up_to(self) -> tuple[int, int]:
        assert self.last is not None
        return self.last.coverage.compared_up_to

    def agrees(self) -> None:
        """Both have said the same, and know as much."""
        assert self.last is not None
        assert self.whole is not None
        assert self.said["later"] == self.said["at once"]
        assert undated(self.last.coverage) == undated(self.whole.coverage)


def undated(coverage: Coverage) -> Coverage:
    """Without when ranges were noted: one that is judged by pieces notes some a micro-batch before."""
    return replace(coverage, state_bytes=0, unread=tuple(replace(span, since=0) for span in coverage.unread))


def outage(
    logs: dict[int, list[Row]],
    batches: int = 20,
    settings: CompareSettings = SETTINGS,
    before: PartitionState | None = None,
) -> Compared:
    """A replica is away while the others are read on."""
    made = Compared(logs, settings=settings)
    made.state = made.at_once = b"" if before is None else before.to_bytes()
    made.read(BATCH, *BROKERS)
    for n in range(2, batches + 1):
        made.read(n * BATCH, *(b for b in BROKERS if b != AWAY), down=(AWAY,))
    return made


def comes_back(made: Compared, batches: int = 20, *, at_a_time: int = 3) -> None:
    for n in range(1 + at_a_time, batches + at_a_time, at_a_time):
        made.read(min(n, batches) * BATCH, AWAY)
    made.read((batches + 1) * BATCH, *BROKERS)
    made.read((batches + 2) * BATCH, *BROKERS)


def logs_of(batches: int = 22, *, transactional: bool, seed: int = 1) -> dict[int, list[Row]]:
    rows = log(batches * BATCH, transactional=transactional, seed=seed)
    return {broker: list(rows) for broker in BROKERS}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("transactional", [False, True])
def test_what_agrees_is_settled_without_a_row_being_read_once_more(transactional: bool, seed: int) -> None:
    made = outage(logs_of(transactional=transactional, seed=seed))
    assert made.is_withholding
    waiting = PartitionState.from_bytes(made.state)
    assert max(len(waiting.content), len(waiting.pending)) < 3 * BATCH
    whole = PartitionState.from_bytes(made.at_once)
    assert len(whole.content) > 15 * BATCH
    assert made.read_again == 0
    comes_back(made)
    assert not made.is_withholding
    assert made.compared_up_to == (22 * BATCH, 22 * BATCH)
    assert made.read_again < 4 * BATCH * len(BROKERS), "no more than what lies behind the last block"
    assert made.said == {"later": set(), "at once": set()}
    made.agrees()


def test_rows_that_agree_are_read_while_an_absence_below_them_waits() -> None:
    logs, last = logs_of(transactional=False), 2 * BATCH - 1
    for broker in BROKERS:
        logs[broker][last] = {} if broker == 1 else record(last, "of this one alone", "V")
    made = outage(logs)
    assert PartitionState.from_bytes(made.state).partition["withheld"][0] == last + 1
    made.read(4 * BATCH, AWAY)
    assert made.read_again == 2 * 2 * BATCH * len(BROKERS), "all rows of both views that all have passed"
    comes_back(made)
    assert len(made.said["later"]) == 1
    made.agrees()


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("broker", BROKERS)
def test_a_record_that_one_lacks_is_found_when_all_are_back(transactional: bool, broker: int) -> None:
    logs = logs_of(transactional=transactional)
    lost = next(i for i, row in enumerate(logs[broker]) if i > 10 * BATCH and row["kind"] == RowKind.RECORD)
    logs[broker][lost] = {**logs[broker][lost], "content_hash": 5}
    made = outage(logs)
    found_among_those_there = made.said["later"]
    assert bool(found_among_those_there) == bool(made.said["at once"]) == (broker != AWAY)
    comes_back(made)
    assert made.said["later"]
    made.agrees()


def test_sums_that_are_not_looked_at_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "same", lambda _, cuts: np.ones(len(cuts), np.bool_))
    logs = logs_of(transactional=True)
    lost = next(i for i, row in enumerate(logs[1]) if i > 10 * BATCH and row["kind"] == RowKind.RECORD)
    logs[1][lost] = {**logs[1][lost], "content_hash": 5}
    made = outage(logs)
    comes_back(made)
    assert made.said["at once"]
    assert not made.said["later"]


def unlike(kind: str, row: Row) -> Row:
    """What another replica shows instead of a row."""
    if kind == "content":
        return {**row, "content_hash": 5}
    if kind == "outcome":
        is_abort = row["outcome"] == Outcome.COMMITTED
        kinds = {RowKind.COMMIT: RowKind.ABORT, RowKind.ABORT: RowKind.COMMIT}
        turned = {"outcome": Outcome.ABORTED if is_abort else Outcome.COMMITTED}
        return {**row, **turned, "kind": kinds.get(row["kind"], row["kind"])}
    return {}


@pytest.mark.parametrize("batches", [16, 17])
@pytest.mark.parametrize("kind", ["content", "record", "deletion", "marker", "outcome"])
def test_what_differs_among_those_that_are_there_is_found_as_soon_as_without_it(kind: str, batches: int) -> None:
    logs = logs_of(batches + 8, transactional=kind in ("marker", "outcome"))
    first = 15 * BATCH + 3
    at = first
    if kind == "deletion":
        for broker in BROKERS:
            logs[broker][first - 200] = record(first - 200, "deleted", "V")
            logs[broker][first] = record(first, "deleted", None)
    elif kind in ("marker", "outcome"):
        at = next(n for n, row in enumerate(logs[1]) if n > first and row["kind"] in (RowKind.COMMIT, RowKind.ABORT))
    logs[3][at] = unlike(kind, logs[3][at])
    if kind == "outcome":
        pid = logs[1][at]["producer_id"]
        begun = max(n for n in range(at) if logs[1][n]["producer_id"] == pid and logs[1][n]["kind"] != RowKind.RECORD)
        for n in range(begun + 1, at):
            if logs[3][n]["producer_id"] == pid:
                logs[3][n] = unlike(kind, logs[3][n])
    made, found = outage(logs, batches=14), False
    assert made.is_withholding
    for n in range(15, batches + 6):
        made.read(n * BATCH, 1, 3, down=(AWAY,))
        assert made.said["later"] == made.said["at once"]
        found = found or bool(made.said["later"])
    assert found or kind in ("record", "marker"), "what one lacks is judged once all have passed it"
    made.read((batches + 5) * BATCH, AWAY)
    made.read((batches + 6) * BATCH, *BROKERS)
    made.read((batches + 7) * BATCH, *BROKERS)
    made.agrees()


def unlike_at(logs: dict[int, list[Row]], kind: str, at: int) -> int:
    """Let broker 3 show something else at an offset or at the next end marker behind it; returns where."""
    if kind == "deletion":
        for rows in logs.values():
            rows[at - 200], rows[at] = record(at - 200, "deleted", "V"), record(at, "deleted", None)
    elif kind == "marker":
        at = next(n for n, row in enumerate(logs[1]) if n > at and row["kind"] in (RowKind.COMMIT, RowKind.ABORT))
    logs[3][at] = unlike(kind, logs[3][at])
    return at


@pytest.mark.parametrize("kind", ["content", "deletion", "marker"])
def test_what_differs_between_two_is_found_as_soon_though_another_has_stopped_in_between(kind: str) -> None:
    rows = log(60 * BATCH, transactional=kind == "marker")
    logs = {broker: list(rows) for broker in (1, 2, 3, 4)}
    unlike_at(logs, kind, 31 * BATCH + 5)
    made = Compared(logs)
    made.read(BATCH, *logs)
    for n in range(2, 15):
        made.read(n * BATCH, 1, 3, 4, down=(AWAY,))
    assert made.is_withholding
    for n in range(15, 55):
        made.read(n * BATCH, 1, 3, down=(AWAY, 4))
        assert made.said["later"] == made.said["at once"]
    assert bool(made.said["later"]) == (kind != "marker"), "a marker that only one lacks waits for all"
    assert not made.is_withholding
    for broker in (4, AWAY):
        made.read(58 * BATCH, broker)
    for n in (59, 60):
        made.read(n * BATCH, *logs)
    made.agrees()


def test_what_differs_at_one_level_is_found_as_soon_though_the_other_stands_still_for_all() -> None:
    logs = logs_of(60, transactional=False)
    for rows in logs.values():
        rows[10] = record(10, "T", "V", pid=9, outcome=Outcome.UNDECIDED)
    logs[3][30 * BATCH + 5] = unlike("content", logs[3][30 * BATCH + 5])
    made, lso = Compared(logs), dict.fromkeys(BROKERS, 10)

    def read(end: int, *brokers: int) -> None:
        ends = {(view, broker): end if view == RU else 10 for broker in brokers for view in (RU, RC)}
        made.read_to(ends, lso=lso, hw=dict.fromkeys(BROKERS, end), down=(AWAY,))

    read(BATCH, *BROKERS)
    for n in range(2, 15):
        read(n * BATCH, 1, 3)
    assert made.is_withholding
    read(10 * BATCH + 3, AWAY)
    for n in range(15, 40):
        read(n * BATCH, 1, 3)
        assert made.said["later"] == made.said["at once"]
    assert made.said["later"]


def test_an_end_marker_that_one_missed_is_found_as_soon_though_another_is_far_behind() -> None:
    logs = {broker: [record(n, f"K{n}", "V") for n in range(50 * BATCH)] for broker in BROKERS}
    for rows in logs.values():
        for at in (31 * BATCH, 40 * BATCH):
            rows[at - 3] = record(at - 3, "T", "V", pid=9, outcome=Outcome.COMMITTED)
            rows[at] = {**commit(at, 9), "outcome": Outcome.COMMITTED}
    logs[3][31 * BATCH] = {}
    made = outage(logs, batches=29)
    for n in range(30, 50):
        ends = {(view, broker): n * BATCH for view in (RU, RC) for broker in (1, 3)}
        if n * BATCH > 31 * BATCH:
            ends[RC, 3] = 31 * BATCH - 3 if n < 40 else n * BATCH
        ends |= {(view, AWAY): BATCH + (n - 29) * 45 for view in (RU, RC)}
        made.read_to(ends, lso={b: ends[RC, b] for b in BROKERS}, hw=dict.fromkeys(BROKERS, n * BATCH))
        assert made.said["later"] == made.said["at once"]
    assert made.said["later"]


def test_a_difference_that_has_no_room_is_found_when_all_are_back_and_nothing_is_deferred() -> None:
    logs = logs_of(transactional=False)
    logs[1][10 * BATCH + 3] = unlike("content", logs[1][10 * BATCH + 3])
    assert not outage(logs).is_withholding
    made = outage(logs, settings=SETTINGS.model_copy(update={"state_cap_bytes": 40_000}))
    assert made.is_withholding
    assert not made.said["later"]
    comes_back(made)
    assert made.said["later"]
    assert made.compared_up_to == (22 * BATCH, 22 * BATCH)
    assert made.last is not None
    assert made.last.coverage.unknown_for(UnknownReason.DEFERRED) == (0, 0)


@pytest.mark.parametrize("transactional", [False, True])
def test_what_differs_is_compared_if_there_is_room_for_its_rows(transactional: bool) -> None:
    logs = logs_of(60, transactional=transactional)
    unlike_at(logs, "content", 50 * BATCH)
    filled = PartitionState.from_bytes(outage(logs, 52).at_once)
    for share, is_found in ((1.1 + transactional, True), (0.5, False)):
        room = SETTINGS.model_copy(update={"state_cap_bytes": int(2 * share * waiting(filled))})
        made = outage(logs, 52, room)
        assert bool(made.said["later"]) == is_found
        assert made.last is not None
        assert made.last.coverage.deferred == ()


def test_a_replica_that_is_taken_out_of_the_set_is_waited_for_no_longer() -> None:
    made = outage(logs_of(transactional=True))
    gone = [{**row, "replicas": [1, 3]} for row in tick(5000, dict.fromkeys(BROKERS, 20 * BATCH), down=(AWAY,))]
    made.take([row for row in gone if row["broker"] != AWAY])
    assert made.compared_up_to == (20 * BATCH, 20 * BATCH)
    assert not made.is_withholding
    assert not made.said["later"]


def test_a_level_at_which_all_stand_together_holds_up_no_other() -> None:
    made = outage(logs_of(transactional=False))
    made.read(20 * BATCH, AWAY, views=(RU,))
    assert made.compared_up_to == (20 * BATCH, BATCH)


SMALL = SETTINGS.model_copy(update={"state_cap_bytes": 1 << 15})
"""With room for a fifth of the rows that the tests below withhold."""


@pytest.mark.parametrize("speed", [1, 10, 30])
def test_a_replica_that_moves_little_in_each_micro_batch_defers_nothing(speed: int) -> None:
    logs = logs_of(60, transactional=False)
    unlike_at(logs, "content", 100)
    small = SETTINGS.model_copy(update={"state_cap_bytes": 1 << 16})
    made = Compared(logs, settings=small)
    made.read(BATCH, *BROKERS)
    for n in range(2, 60):
        ends = {(view, broker): n * BATCH for view in (RU, RC) for broker in (1, 3)}
        made.read_to(ends | {(view, AWAY): BATCH + n * speed for view in (RU, RC)})
        assert made.last is not None
        assert made.last.coverage.unknown_for(UnknownReason.DEFERRED) == (0, 0)
        assert len(made.state) < small.state_cap_bytes
    made.read(60 * BATCH, *BROKERS)
    assert made.said["later"]
    made.agrees()


@pytest.mark.parametrize("broker", BROKERS)
def test_a_broker_that_fails_while_it_is_read_ends_no_withholding(broker: int) -> None:
    made = outage(logs_of(42, transactional=False), 40, SMALL)
    made.take([row for v in (RU, RC) for row in shown(v, broker, [], made.at[v, broker], 5000, event="unreachable")])
    assert made.is_withholding
    comes_back(made, 40)
    assert made.compared_up_to == (42 * BATCH, 42 * BATCH)
    made.agrees()


@pytest.mark.parametrize("views", [[(RU, RC)], [(RU,), (RC,)]], ids=["both levels", "one level after the other"])
@pytest.mark.parametrize("event", [ReadEvent.LOG_START_ADVANCED, ReadEvent.BATCH_SKIPPED])
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("settings", [SETTINGS, SMALL], ids=["room for all", "little room"])
def test_a_replica_that_comes_back_behind_a_gap_defers_nothing(
    settings: CompareSettings, transactional: bool, event: ReadEvent, views: list[tuple[int, ...]]
) -> None:
    logs = logs_of(42, transactional=transactional)
    at = unlike_at(logs, "content", 35 * BATCH)
    made, start = outage(logs, 34, settings), 30 * BATCH
    moved = {"event": event, "log_start_offset": start, "high_watermark": 34 * BATCH}
    for of in views:
        for view in of:
            made.at[view, AWAY] = start
        made.take([row for view in of for row in shown(view, AWAY, [], start, 5000, **moved)])
        assert made.last is not None
        assert made.last.coverage.unknown_for(UnknownReason.DEFERRED) == (0, 0)
    for n in (32, 34, 40):
        made.read(n * BATCH, AWAY)
    for n in (41, 42):
        made.read(n * BATCH, *BROKERS)
    assert made.compared_up_to == (42 * BATCH, 42 * BATCH)
    assert at > start
    assert made.said["later"]
    made.agrees()


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("leaves_at", [0, 1, 5], ids=["with it", "before it is read", "while it is read"])
def test_a_replica_that_takes_the_place_of_one_that_is_away_defers_nothing(leaves_at: int, transactional: bool) -> None:
    logs = {**logs_of(42, transactional=transactional)}
    logs[4] = list(logs[1])
    unlike_at(logs, "content", 35 * BATCH)
    made = outage({broker: logs[broker] for broker in BROKERS}, 40, SMALL)
    made.logs = logs
    made.at |= {(view, 4): 0 for view in (RU, RC)}
    for n in range(43):
        members = (1, 3, 4) if n >= leaves_at else (1, 2, 3, 4)
        ends = {(view, broker): 41 * BATCH for view in (RU, RC) for broker in (1, 3)}
        ends |= {(view, 4): max(0, n - 1) * BATCH for view in (RU, RC)} if n else {}
        more = {"event": ReadEvent.PARTITION_ADDED} if n == 1 else {}
        rows = []
        for (view, broker), end in ends.items():
            start, made.at[view, broker] = made.at[view, broker], end
            mine = [row for row in logs[broker][start:end] if row]
            rows += shown(view, broker, mine, end, 5000 + n, high_watermark=40 * BATCH, **(more if broker == 4 else {}))
        told = tick(5000 + n, dict.fromkeys(logs, 40 * BATCH), brokers=(1, 2, 3, 4), down=(AWAY,))
        made.take([*rows, *({**row, "replicas": members} for row in told if row["broker"] in members)])
        assert made.last is not None
        assert made.last.coverage.unknown_for(UnknownReason.DEFERRED) == (0, 0)
    assert not made.is_withholding
    assert made.compared_up_to == (41 * BATCH, 41 * BATCH)
    assert made.said["later"]
    made.agrees()


@pytest.mark.parametrize("back", [(4,), (2, 4)], ids=["while another is away", "with another"])
def test_a_replica_that_left_before_it_was_read_is_compared_whole_once_it_is_given_back(
    back: tuple[int, ...],
) -> None:
    logs = logs_of(transactional=False)
    logs[4] = list(logs[1])
    made = Compared(logs)

    def read(n: int, *brokers: int, members: tuple[int, ...] = BROKERS) -> None:
        rows: list[Row] = []
        for view, broker in [(view, broker) for broker in brokers for view in (RU, RC)]:
            start, made.at[view, broker] = made.at[view, broker], n * BATCH
            more = (
                {"event": ReadEvent.PARTITION_ADDED, "high_watermark": n * BATCH} if broker == 4 and not start else {}
            )
            rows += shown(view, broker, logs[broker][start : n * BATCH], n * BATCH, 1000 + n, **more)
        told = tick(1000 + n, dict.fromkeys(logs, n * BATCH), brokers=(*BROKERS, 4))
        made.take([*rows, *({**row, "replicas": members} for row in told if row["broker"] in members)])

    read(1, *BROKERS, members=(*BROKERS, 4))
    for n in range(2, 20):
        read(n, 1, 3)
    assert made.is_withholding
    read(20, 1, 3, *back, members=(*BROKERS, 4))
    read(21, *BROKERS, 4, members=(*BROKERS, 4))
    assert made.said == {"later": set(), "at once": set()}
    assert made.compared_up_to == (21 * BATCH, 21 * BATCH)


def test_before_a_log_that_was_truncated_everything_is_taken_up() -> None:
    made = outage(logs_of(transactional=True))
    cut = [row for view in (RU, RC) for row in shown(view, 1, [], 18 * BATCH, 3000, event=ReadEvent.LOG_TRUNCATED)]
    made.take(cut)
    assert not made.is_withholding
    made.agrees()


@pytest.mark.parametrize("settings", [SETTINGS, SMALL], ids=["room for all", "little room"])
def test_what_a_replica_shows_behind_a_truncation_is_compared_with_what_was_withheld(settings: CompareSettings) -> None:
    logs = logs_of(transactional=False)
    logs[AWAY][15 * BATCH] = unlike("content", logs[AWAY][15 * BATCH])
    made, rows = outage(logs, 19, settings), []
    for view in (RU, RC):
        cut = shown(view, AWAY, [], BATCH - 2, 3000, event=ReadEvent.LOG_TRUNCATED)
        rows += [*cut, *shown(view, AWAY, logs[AWAY][BATCH - 2 : 20 * BATCH], 20 * BATCH, 3000)]
        made.at[view, AWAY] = 20 * BATCH
    made.take(rows)
    for n in (21, 22):
        made.read(n * BATCH, *BROKERS)
    assert len(made.said["later"]) > 1, "the truncation, and the record"
    made.agrees()


def test_rows_that_retention_has_dropped_from_the_views_are_no_rows_that_agree() -> None:
    logs = logs_of(transactional=False)
    logs[AWAY][10 * BATCH] = {**logs[AWAY][10 * BATCH], "content_hash": 5}
    made = outage(logs)
    made.recorded = [(at, row) for at, row in made.recorded if row["offset"] < 5 * BATCH or row["broker"] != 1]
    with pytest.raises(RowsGoneError, match="of broker 1 are not in the views"):
        comes_back(made)


def test_rows_that_an_earlier_version_withheld_are_added_to_by_its_key() -> None:
    made = Compared(logs_of(transactional=False))
    made.key = sums.KEY_BEFORE
    made.read(BATCH, *BROKERS)
    for n in range(2, 15):
        made.read(n * BATCH, 1, 3, down=(AWAY,))
    then = PartitionState.from_bytes(made.state).copy()
    then.partition["keyed"] = False
    made.state, made.key = then.to_bytes(), bytes(range(16))
    comes_back(made)
    assert made.read_again < 4 * BATCH * len(BROKERS)
    made.agrees()
    assert not made.is_withholding


def test_readers_that_are_apart_by_little_have_nothing_withheld() -> None:
    made = Compared(logs_of(transactional=False), replace(LIMITS, worth=1 << 19))
    for n in range(1, 20):
        made.read(n * BATCH, 1, 3)
        made.read(n * BATCH, AWAY)
        assert not made.is_withholding


def test_nothing_is_deferred_and_what_waits_is_told_as_not_read_yet() -> None:
    made = outage(logs_of(transactional=False))
    assert made.last is not None
    coverage = made.last.coverage
    assert coverage.deferred == ()
    assert coverage.unknown_for(UnknownReason.NOT_READ_YET) == (19 * BATCH, 19 * BATCH)
    assert {b.broker: b.read_committed for b in coverage.brokers} == {1: 20 * BATCH, 2: BATCH, 3: 20 * BATCH}


@pytest.mark.parametrize("cap", [SETTINGS.state_cap_bytes, 24_000], ids=["room for all", "no room"])
@pytest.mark.parametrize("kind", ["deletion", "value"])
def test_an_absence_below_is_judged_though_its_explanation_may_lie_among_withheld_rows(kind: str, cap: int) -> None:
    logs = logs_of(30, transactional=False)
    for rows in logs.values():
        rows[5], rows[7] = record(5, "again", "V"), record(7, "again", None if kind == "deletion" else "V2")
    logs[AWAY][7] = {}
    made = Compared(logs, settings=SETTINGS.model_copy(update={"state_cap_bytes": cap}))
    made.read(4, *BROKERS)
    made.read(10, 1, 3, down=(AWAY,))
    for n in range(2, 7):
        made.read(n * BATCH, 1, down=(AWAY, 3))
    assert made.is_withholding
    for n in range(7, 20):
        ends = {(view, 1): n * BATCH for view in (RU, RC)}
        ends |= {(view, AWAY): min(n, 3 * (n - 6)) * BATCH for view in (RU, RC)}
        made.read_to(ends, lso=dict.fromkeys(BROKERS, n * BATCH), down=(3,))
        assert cap == 24_000 or made.said["later"] == made.said["at once"]
    assert made.said["at once"]
    assert made.last is not None
    assert made.last.coverage.unknown_for(UnknownReason.DEFERRED) == (0, int(cap == 24_000))
    assert made.is_withholding


@pytest.mark.parametrize("reads_on", [False, True], ids=["not read meanwhile", "read meanwhile"])
def test_a_replica_that_is_given_back_is_compared_from_where_it_was_read_to(reads_on: bool) -> None:
    made = Compared(logs_of(22, transactional=False))

    def read(n: int, *brokers: int, members: tuple[int, ...] = BROKERS) -> None:
        rows: list[Row] = []
        for view, broker in [(view, broker) for broker in brokers for view in (RU, RC)]:
            start, made.at[view, broker] = made.at[view, broker], n * BATCH
            rows += shown(view, broker, made.logs[broker][start : n * BATCH], n * BATCH, 1000 + n)
        told = tick(1000 + n, dict.fromkeys(BROKERS, n * BATCH), brokers=BROKERS)
        made.take([*rows, *({**row, "replicas": members} for row in told if row["broker"] in members)])

    read(1, *BROKERS)
    for n in range(2, 9):
        read(n, 1, 3)
    assert made.is_withholding
    for n in range(9, 12):
        read(n, *((1, 3) if reads_on else (3,)), members=(AWAY, 3))
    for n in range(12, 18):
        read(n, 1, 3)
    for n in range(18, 22):
        read(n, *BROKERS)
    assert made.said == {"later": set(), "at once": set()}
    assert made.compared_up_to == (21 * BATCH, 21 * BATCH)


@pytest.mark.parametrize("transactional", [False, True])
def test_rows_are_withheld_for_a_replica_that_was_never_read(transactional: bool) -> None:
    logs = logs_of(42, transactional=transactional)
    unlike_at(logs, "content", 35 * BATCH)
    made = Compared(logs, settings=SMALL)
    for n in range(1, 41):
        made.read(n * BATCH, 1, 3, down=(AWAY,))
    assert made.is_withholding
    comes_back(made, 40, at_a_time=2)
    assert made.compared_up_to == (42 * BATCH, 42 * BATCH)
    assert made.said["later"]
    made.agrees()


def test_a_state_that_defers_rows_has_the_rest_withheld_and_defers_no_more() -> None:
    made = Compared(logs_of(transactional=False), settings=SMALL)
    made.read(BATCH, *BROKERS)
    then = PartitionState.from_bytes(made.state)
    then.deferred = np.array([(view, BATCH + 20, NEVER) for view in (RU, RC)], then.deferred.dtype)
    made.state = then.to_bytes()
    for n in range(2, 21):
        made.read(n * BATCH, 1, 3, down=(AWAY,))
    assert made.is_withholding
    comes_back(made)
    assert made.last is not None
    assert made.compared_up_to == (22 * BATCH, 22 * BATCH)
    assert made.last.coverage.unknown_for(UnknownReason.DEFERRED) == (BATCH - 20, BATCH - 20)


def test_rows_that_agree_are_not_read_again_when_a_replica_comes_back_in_one_micro_batch() -> None:
    made = outage(logs_of(42, transactional=True), batches=40)
    assert 38 * BATCH // (1 << LIMITS.grain.stride) > going.MOST
    comes_back(made, 40, at_a_time=39)
    assert made.read_again < 4 * BATCH * len(BROKERS)
    made.agrees()


class TestSums:
    """What rows add up to, however they are cut."""

    def marks(self, cuts: Iterable[int], rows: list[Row], grain: Grain) -> Any:
        table, start = PartitionState().recent_sums, 0
        for end in cuts:
            part = Observations.of("t", 0, [{**row, "view": RU, "broker": 1} for row in rows[start:end]]).rows
            table = sums.added(table, (0, RU), part, sums.digested(part, grain, bytes(16)), end)
            start = end
        return table

    @pytest.mark.parametrize("seed", range(20))
    def test_are_the_same_at_every_common_cut_and_others_where_a_row_is(self, seed: int) -> None:
        drawn, grain = random.Random(seed), Grain(stride=4, recent=2)
        rows = log(200, transactional=True, seed=seed)
        other = list(rows)
        unlike = drawn.randrange(200)
        other[unlike] = {**other[unlike], "offset": unlike, "timestamp": 1}
        found = []
        for one in (rows, other):
            cuts = sorted({*drawn.sample(range(1, 200), drawn.randrange(1, 20)), 200})
            found.append(self.marks(cuts, one, grain))
        marks = dict(enumerate(found))
        readers = {(n, RU): its for n, its in sums.thinned({(n, RU): m for n, m in marks.items()}, grain, 9999).items()}
        readers = {(slot, RU): its for (slot, _), its in zip([(0, 0), (1, 0)], readers.values(), strict=True)}
        known = sums.common_cuts(readers.values(), 0)
        assert set(range(16, 200, 16)) <= set(known.tolist())
        is_marker = rows[unlike]["kind"] != RowKind.RECORD
        assert sums.same(readers, known).tolist() == [is_marker or cut <= unlike for cut in known.tolist()]
        assert sums.counted(readers, "rows", known).tolist() == [2 * cut for cut in known.tolist()]

    def test_of_a_day_take_less_than_a_megabyte(self) -> None:
        grain, blocks = Grain(), 2_816
        table = np.zeros(blocks, PartitionState().sums.dtype)
        table["end"] = np.arange(1, blocks + 1) << grain.stride
        assert 4 * len(sums.thinned({(0, RU): table}, grain, 99_999)[0, RU]) * table.itemsize < 700_000


class TestParts:
    """How much of what was withheld is taken up at a time."""

    def run(self, *positions: int, few: int = 10, at_a_time: int = 100) -> _Run:
        made = state(*range(1, len(positions) + 1), position=[[at, at] for at in positions])
        made.partition["withheld"] = 16
        limits = WithholdingLimits(worth=0, few=few, at_a_time=at_a_time, grain=Grain(stride=4, recent=2))
        return _Run(made, Observations("t", 0), SETTINGS, 0, Views(0, lambda *_: ViewRows.none()), limits, {})

    def marks(self, *ends: int, slot: int = 0, view: int = RU) -> dict[sums.Reader, Any]:
        table = np.zeros(len(ends), PartitionState().sums.dtype)
        table["end"], table["rows"] = ends, [end - 16 for end in ends]
        return {(slot, int(view)): table}

    @pytest.mark.parametrize(
        ("start", "blocks", "reached", "at_a_time", "end"),
        [
            (16, 1, 100, 100, 32),
            (16, 4, 100, 100, 80),
            (16, 4, 100, 40, 48),
            (16, 4, 100, 48, 64),
            (16, 4, 100, 1, 32),
            (16, 4, 79, 100, 64),
            (16, 4, 80, 100, 80),
            (16, 4, 31, 100, 16),
            (20, 2, 100, 100, 48),
        ],
    )
    def test_end_with_a_block_and_have_few_rows_but_at_least_a_block(
        self, start: int, blocks: int, reached: int, at_a_time: int, end: int
    ) -> None:
        marks = self.marks(*range(20, 120, 4))
        assert self.run(100, at_a_time=at_a_time)._next(marks, start, blocks, reached) == end

    @pytest.mark.parametrize(
        ("positions", "few", "is_late"),
        [((26, 26), 10, False), ((26, 26), 9, True), ((36, 26), 9, True), ((36, 36), 0, False), ((15, 36), 99, True)],
        ids=["few are left", "many are left", "one is behind", "none are left", "one has not come to the first"],
    )
    def test_wait_for_a_replica_that_has_many_rows_to_go(
        self, positions: tuple[int, ...], few: int, is_late: bool
    ) -> None:
        assert self.run(*positions, few=few)._is_late(self.marks(26, 36)) is is_late

    def test_wait_for_no_replica_that_is_behind_in_a_view_of_which_nothing_is_withheld(self) -> None:
        run = self.run(36, 36)
        run.state.brokers["position"][0, RC] = 15
        assert not run._is_late(self.marks(26, 36))

    def test_wait_for_no_replica_that_is_not_of_the_set(self) -> None:
        run = self.run(15, 36)
        run.state.brokers["member"][0] = False
        assert not run._is_late(self.marks(26, 36, slot=1))

    def test_have_no_more_rows_than_are_read_at_a_time(self) -> None:
        logs = logs_of(transactional=False)
        logs[1][10 * BATCH + 3] = unlike("content", logs[1][10 * BATCH + 3])
        made = outage(logs, settings=SETTINGS.model_copy(update={"state_cap_bytes": 40_000}))
        made.limits = replace(LIMITS, at_a_time=400)
        comes_back(made)
        made.agrees()
        assert 100 < max(made.sizes) <= 400


def test_as_many_rows_that_are_not_what_was_withheld_are_no_rows_that_agree() -> None:
    logs = logs_of(transactional=False)
    logs[AWAY][10 * BATCH] = {**logs[AWAY][10 * BATCH], "content_hash": 5}
    made = outage(logs)
    made.recorded = [
        (at, {**row, "timestamp": 1} if row["offset"] == 10 * BATCH + 1 else row) for at, row in made.recorded
    ]
    with pytest.raises(RowsGoneError, match=r"(\d+) rows where \1 were withheld"):
        comes_back(made)


def test_an_offset_from_which_nothing_is_withheld_is_none() -> None:
    assert int(PartitionState().partition["withheld"][0]) == NEVER


@pytest.mark.parametrize("transactional", [False, True])
def test_what_is_withheld_is_lost_alike(transactional: bool) -> None:
    whole = log(880, transactional=transactional)
    kept = [{} if n in (333, 334, 601) else row for n, row in enumerate(whole)]
    made = outage(dict.fromkeys(BROKERS, kept), before=never_compacted())
    comes_back(made)
    made.agrees()
    assert made.last is not None
    assert [
        (s.start, s.end) for s in made.last.coverage.unread if s.reason is UnknownReason.LOST_UNREAD and s.view == RU
    ] == [
        (333, 335),
        (601, 602),
    ]
