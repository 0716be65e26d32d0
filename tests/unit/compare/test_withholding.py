"""When rows of a partition are withheld, and what ends it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.state import (
    CANDIDATE,
    CONTENT,
    DEFERRED,
    DISPUTE,
    EARLY,
    FOLLOWED,
    INTERVAL,
    MARKER,
    NEVER,
    NOT_BEGUN,
    PENDING,
    SUM,
    PartitionState,
)
from parallax.compare.withholding import WithholdingLimits, awaited, begun, begun_to, is_broken, waiting, worth
from parallax.config import CompareSettings
from parallax.model import UNKNOWN, ReadEvent
from tests.unit.compare.history import RC, RU, Row, record, shown, tick
from tests.unit.compare.states import observed, state

CAP = 1 << 20
SETTINGS = CompareSettings(state_cap_bytes=CAP)
FEW = WithholdingLimits(worth=100)
UNTIL = 77


def at(table: np.dtype[Any], *offsets: int, **columns: int) -> Any:
    made = np.zeros(len(offsets), table)
    made["end" if table == INTERVAL else "offset"] = offsets
    for name, value in columns.items():
        made[name] = value
    return made


def apart(behind: int = 10, ahead: int = 50, rows: int = 20) -> PartitionState:
    """Two replicas of which one is behind; so many records wait for it."""
    made = state(1, 2, begun=FOLLOWED, topic_id=1)
    made.partition["topic_id"] = 1
    made.brokers["position"] = made.brokers["shown"] = [[ahead, ahead], [behind, behind]]
    made.content = at(CONTENT, *range(ahead - rows, ahead))
    return made


def withheld_of(reader: tuple[int, int]) -> PartitionState:
    """The same; from offset 50 on rows of one reader are withheld."""
    made = apart()
    made.partition["withheld"] = 50
    made.recent_sums = np.zeros(1, SUM)
    made.recent_sums["slot"], made.recent_sums["view"] = reader
    made.recent_sums["end"] = 55
    return made


def decided(after: PartitionState, limits: WithholdingLimits = FEW, settings: CompareSettings = SETTINGS) -> int:
    """From which offset on rows are withheld after a step."""
    made = begun(after, settings, UNTIL, limits)
    return int(made.partition["withheld"][0])


class TestBegins:
    """Rows are withheld if enough of the state waits for a replica that does not move."""

    def test_at_the_first_offset_that_no_replica_has_shown(self) -> None:
        after = apart()
        made = begun(after, SETTINGS, UNTIL, FEW)
        told = [int(made.partition[name][0]) for name in ("withheld", "withheld_since", "withheld_until")]
        assert told == [50, UNTIL, UNTIL]
        assert decided(after) == 50
        assert int(after.partition["withheld"][0]) == NEVER, "what was given is not changed"

    @pytest.mark.parametrize("column", ["position", "shown"])
    def test_at_the_furthest_offset_that_was_shown_or_reported(self, column: str) -> None:
        after = apart()
        after.brokers[column][0, RC] = 60
        assert decided(after) == 60

    def test_only_once_more_bytes_wait_than_a_limit(self) -> None:
        size = waiting(apart())
        assert decided(apart(), limits=WithholdingLimits(worth=size - 1)) == 50
        assert decided(apart(), limits=WithholdingLimits(worth=size)) == NEVER

    def test_not_before_the_replica_set_is_known(self) -> None:
        after = apart()
        after.partition["members_known"] = False
        assert decided(after) == NEVER

    def test_where_rows_are_deferred_now_and_no_further_ones_are(self) -> None:
        after = apart()
        after.deferred = np.array([(RU, 20, 30), (RU, 40, NEVER)], DEFERRED)
        made = begun(after, SETTINGS, UNTIL, WithholdingLimits(worth=waiting(after)))
        assert int(made.partition["withheld"][0]) == 50
        assert made.deferred["end"].tolist() == [30, 50]
        assert after.deferred["end"].tolist() == [30, NEVER], "what was given is not changed"

    @pytest.mark.parametrize(("member", "withheld"), [(True, NEVER), (False, 50)])
    def test_not_before_all_replicas_of_the_set_are_followed(self, member: bool, withheld: int) -> None:
        stand = [[50, 50], [10, 10], [10, 10]]
        after = state(1, 2, 3, begun=FOLLOWED, position=stand, shown=stand)
        after.content = apart().content
        after.brokers["begun"][2, RC] = NOT_BEGUN
        after.brokers["member"][2] = member
        assert decided(after) == withheld

    @pytest.mark.parametrize("view", [RU, RC])
    def test_for_a_reader_that_is_behind_in_one_view(self, view: int) -> None:
        after = apart(50)
        after.content = at(CONTENT, *range(50, 90))
        assert decided(after) == NEVER
        after.brokers["position"][1, view] = 49
        assert decided(after) == 50

    def test_not_for_a_reader_that_is_behind_and_not_of_the_set(self) -> None:
        after = apart()
        after.brokers["member"][1] = False
        after.content = at(CONTENT, *range(50, 90))
        assert decided(after) == NEVER

    def test_before_an_eighth_of_the_cap_is_full(self) -> None:
        size = waiting(apart())
        for cap, withheld in ((8 * size, NEVER), (8 * size - 8, 50)):
            settings = SETTINGS.model_copy(update={"state_cap_bytes": cap})
            assert decided(apart(), WithholdingLimits(), settings) == withheld

    def test_not_while_replicas_differ_and_there_is_room(self) -> None:
        after = apart()
        after.partition["differed"] = True
        assert decided(after) == NEVER
        room = 2 * waiting(after)
        for cap, withheld in ((room, NEVER), (room - 2, 50)):
            settings = SETTINGS.model_copy(update={"state_cap_bytes": cap})
            assert decided(after, settings=settings) == withheld

    def test_no_more_as_if_replicas_differed_once_little_waits(self) -> None:
        after = apart()
        after.partition["differed"] = True
        decided(after, limits=WithholdingLimits(worth=waiting(after) - 1))
        assert after.partition["differed"][0]
        decided(after, limits=WithholdingLimits(worth=waiting(after)))
        assert not after.partition["differed"][0]


class TestWorth:
    """How many bytes must wait before rows are withheld."""

    def test_is_the_limit_where_replicas_that_are_there_agree(self) -> None:
        assert worth(apart(), SETTINGS, FEW) == 100

    @pytest.mark.parametrize("what", ["differed", "disputes", "early"])
    def test_is_half_of_the_cap_where_they_differ(self, what: str) -> None:
        made = apart()
        if what == "differed":
            made.partition["differed"] = True
        elif what == "disputes":
            made.disputes = np.zeros(1, DISPUTE)
        else:
            made.candidates = at(CANDIDATE, 5, 6)
            assert worth(made, SETTINGS, FEW) == 100
            made.candidates["flags"][1] = EARLY
        assert worth(made, SETTINGS, FEW) == CAP // 2

    def test_is_half_a_megabyte_by_default(self) -> None:
        assert (WithholdingLimits().worth, WithholdingLimits().few, WithholdingLimits().at_a_time) == (
            512 * 1024,
            20_000,
            500_000,
        )


def test_the_sums_at_65_536_offsets_are_kept_by_default() -> None:
    assert WithholdingLimits().marks == 65_536


def test_what_waits_is_all_that_some_replica_has_yet_to_pass() -> None:
    made = apart(rows=0)
    made.brokers["position"][1] = [10, 20]
    ten, twenty = ((made.brokers["position"][1, view]) for view in (RU, RC))
    assert (ten, twenty) == (10, 20)
    assert waiting(made) == 0
    made.content = at(CONTENT, 9, 10, 11)
    assert waiting(made) == 2 * CONTENT.itemsize
    made.content = made.content[:0]
    made.pending = at(PENDING, 19, 20, 21)
    assert waiting(made) == 2 * PENDING.itemsize
    made.markers = at(MARKER, 9, 10)
    assert waiting(made) == 2 * PENDING.itemsize + MARKER.itemsize
    made.intervals = at(INTERVAL, 9, 10, NEVER)
    assert waiting(made) == 2 * PENDING.itemsize + MARKER.itemsize + 2 * INTERVAL.itemsize


class TestEnds:
    """What a micro-batch may show because of which all that is withheld is compared."""

    def of(self, *rows: Row, made: PartitionState | None = None) -> bool:
        return is_broken(apart() if made is None else made, observed(list(rows)))

    def test_is_not_that_readers_go_on(self) -> None:
        read = [shown(view, broker, [record(50, "a", "V")], 51, topic_id=1) for view in (RU, RC) for broker in (1, 2)]
        assert not self.of(*(row for its in read for row in its))
        assert not self.of()

    @pytest.mark.parametrize("topic_id", [0, 1, 2])
    def test_is_that_a_reader_names_another_topic(self, topic_id: int) -> None:
        assert self.of(*shown(RU, 1, [], 50, topic_id=topic_id)) is (topic_id == 2)

    @pytest.mark.parametrize(
        ("event", "of_both", "of_the_other"),
        [
            (ReadEvent.UNREACHABLE, False, False),
            (ReadEvent.UNAUTHORIZED, False, False),
            (ReadEvent.LOG_START_ADVANCED, True, False),
            (ReadEvent.BATCH_SKIPPED, True, False),
            (ReadEvent.NOT_KEPT, True, False),
            (ReadEvent.LOG_TRUNCATED, True, True),
            (ReadEvent.TOPIC_DELETED, True, True),
        ],
    )
    def test_is_a_break_in_what_is_withheld_of_a_reader(
        self, event: ReadEvent, of_both: bool, of_the_other: bool
    ) -> None:
        broken = shown(RC, 1, [], 50, topic_id=1, event=event)
        assert self.of(*broken, made=withheld_of((0, RC))) is of_both
        assert self.of(*broken, made=withheld_of((0, RU))) is of_the_other
        assert self.of(*broken, made=withheld_of((1, RC))) is (event is ReadEvent.TOPIC_DELETED)
        assert self.of(*broken, *shown(RU, 2, [], 50, topic_id=1), made=withheld_of((0, RC))) is of_both

    @pytest.mark.parametrize(("end", "is_so"), [(50, False), (51, True)])
    def test_is_a_break_behind_rows_that_would_be_withheld(self, end: int, is_so: bool) -> None:
        rows = shown(RC, 2, [record(end - 1, "a", "V")], end, topic_id=1)
        moved = shown(RC, 2, [], 60, topic_id=1, event=ReadEvent.LOG_START_ADVANCED)
        assert self.of(*rows, *moved, made=withheld_of((0, RC))) is is_so
        assert not self.of(*moved, *shown(RC, 2, [record(60, "a", "V")], 61, topic_id=1), made=withheld_of((0, RC)))
        assert not self.of(*shown(RU, 2, [], end, topic_id=1), *moved, made=withheld_of((0, RC)))

    @pytest.mark.parametrize("first", [1, 2])
    def test_is_that_a_reader_does_not_say_behind_its_rows_how_far_it_was_read(self, first: int) -> None:
        read = {broker: shown(RU, broker, [record(50, "a", "V")], 51, topic_id=1) for broker in (1, 2)}
        read[first] = read[first][::-1]
        assert self.of(*read[1], *read[2])
        other = shown(RC, first, [], 51, topic_id=1)
        assert self.of(*read[1], *read[2], *other), "its other reader does not speak for it"

    @pytest.mark.parametrize(
        ("told", "is_so"),
        [
            ([(1, 2)], False),
            ([(1,)], False),
            ([(1, 2, 3)], False),
            ([(1,), (1, 2)], True),
            ([(1, 2, 3), (1, 2), (1, 2, 3)], True),
            ([(1, 2), (2,)], False),
            ([(3,)], False),
            ([(1, 2, 4)], True),
        ],
        ids=[
            "as it is",
            "one left",
            "one is new",
            "one left and came back",
            "a new one left and came back",
            "one left later",
            "all are new",
            "one had left",
        ],
    )
    def test_is_that_a_replica_comes_back_and_not_that_one_leaves_or_is_new(
        self, told: list[tuple[int, ...]], is_so: bool
    ) -> None:
        lso, made = dict.fromkeys((1, 2, 3), 0), state(1, 2, 4, position=50, topic_id=1)
        made.brokers["member"][2] = False
        rows = [
            {**row, "replicas": list(members)}
            for n, members in enumerate(told)
            for row in tick(1000 + n, lso)
            if row["broker"] == 1
        ]
        assert self.of(*rows, made=made) is is_so
        assert self.of(*reversed(rows), made=made) is is_so


def test_readers_that_have_only_begun_come_as_far_as_they_and_brokers_that_are_not_known_have() -> None:
    made = apart()
    made.brokers["begun"][1, RC] = NOT_BEGUN

    def to(*rows: Row) -> int:
        return begun_to(made, observed(list(rows)))

    assert to() == 0
    assert to(*shown(RU, 2, [record(60, "a", "V")], 61), *shown(RC, 1, [record(60, "a", "V")], 61)) == 0
    assert to(*shown(RC, 2, [], 50)) == 50
    assert to(*shown(RC, 2, [record(49, "a", "V")], 40)) == 50
    assert to(*shown(RU, 3, [], 70), *shown(RC, 2, [], 50)) == 70
    made.brokers["member"][1] = False
    assert to(*shown(RC, 2, [], 50)) == 0


def test_absences_wait_for_withheld_rows_whose_horizon_is_read_to_and_lies_among_these() -> None:
    made = apart(behind=50)
    made.partition["withheld"] = 50
    made.recent_sums = np.zeros(4, SUM)
    made.recent_sums["slot"], made.recent_sums["view"], made.recent_sums["end"] = [0, 0, 1, 1], [0, 1, 0, 1], 80
    made.candidates = at(CANDIDATE, 1, 2, 3, 4, 5, visible=1)
    made.candidates["horizon"] = [UNKNOWN, 50, 51, 80, 81]
    found, highest = awaited(made)
    assert (found.tolist(), highest) == ([2, 3], 80)
