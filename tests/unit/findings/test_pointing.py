"""The newest visible record of a key, by where its records are known to lie."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from parallax.findings import pointing
from parallax.findings.answers import RecordShown
from parallax.findings.keys import Key
from parallax.findings.pointing import Known, KnownPlaces, RecordsOfKeys, Replaced, StretchShown, newest_of_keys
from parallax.findings.questions import driven
from parallax.findings.requests import Keys, KeysShown, Points, PointsShown

KEY, OTHER = (0, 5), (0, 6)


def shown(offset: int, key: Key = KEY, outcome: str = "none", value_size: int = 3) -> RecordShown:
    return RecordShown(offset, outcome, key_hash=f"{key[0]:016x}{key[1]:016x}", value_size=value_size)


@dataclass
class Log:
    """A replica's log by its records, what is known of it, and what was asked."""

    records: Mapping[int, tuple[Key, str]]
    known: Mapping[Key, Known] = field(default_factory=dict)
    too_long: int = 1 << 62
    """A stretch of more offsets is not read."""
    most_points: int = 1 << 62
    """After so many steps no more points are read."""
    asked: list[Any] = field(default_factory=list)

    def find(self, start: int, end: int, *keys: Key, held: Collection[int] = ()) -> KeysShown:
        asked = Keys(start, end, {shown(0).key_hash: held} if held else {})
        return driven(newest_of_keys(keys or (KEY,), asked), self.answer)

    def answer(self, request: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, KnownPlaces):
            return self.known
        if isinstance(request, Replaced):
            return None
        if isinstance(request, Points):
            self.most_points -= 1
            if self.most_points < 0:
                return "spent"
            return PointsShown({o: shown(o, *self.records[o]) for o in request.offsets if o in self.records})
        if request.end - request.start > self.too_long:
            return StretchShown(request.start, why="too long")
        visible, newest = {}, {}
        for offset, (key, outcome) in sorted(self.records.items()):
            if request.start <= offset < request.end and key in request.keys:
                newest[key] = offset
                if outcome != "aborted":
                    visible[key] = shown(offset, key, outcome)
        return StretchShown(request.end, visible, newest)

    @property
    def stretches(self) -> list[tuple[int, int]]:
        return [(r.start, r.end) for r in self.asked if isinstance(r, RecordsOfKeys)]

    @property
    def points(self) -> list[int]:
        return sorted(o for r in self.asked if isinstance(r, Points) for o in r.offsets)


def test_if_all_that_was_shown_is_known_only_newest_offsets_and_the_log_end_are_read() -> None:
    offsets = tuple(range(900_000, 0, -1000))
    log = Log(dict.fromkeys(offsets[2:], (KEY, "none")), {KEY: Known(0, 999_000, offsets)})
    found = log.find(0, 1_000_000)
    key = found.keys[KEY]
    assert key.visible is not None
    assert (key.visible.offset, key.complete, key.newest_offset) == (898_000, True, 898_000)
    assert log.stretches == [(999_000, 1_000_000)]
    assert log.points == [898_000, 899_000, 900_000]


def test_a_newer_record_beyond_what_is_known_goes_before_it() -> None:
    log = Log({10: (KEY, "none"), 95: (KEY, "none")}, {KEY: Known(0, 90, (10,))})
    key = log.find(0, 100).keys[KEY]
    assert key.visible is not None
    assert key.visible.offset == 95
    assert log.points == []


def test_an_aborted_record_is_the_newest_and_not_the_visible_one() -> None:
    log = Log({10: (KEY, "none"), 20: (KEY, "aborted")}, {KEY: Known(0, 100, (20, 10))})
    key = log.find(0, 100).keys[KEY]
    assert key.visible is not None
    assert (key.visible.offset, key.newest_offset) == (10, 20)


def test_none_is_complete_only_where_all_was_read_from_the_beginning_of_the_log() -> None:
    whole = Log({}, {KEY: Known(0, 100, (20,))}).find(0, 100)
    assert (whole.keys[KEY].visible, whole.keys[KEY].complete, whole.error) == (None, True, None)
    part = Log({}, {KEY: Known(30, 100, (40,))}, too_long=10).find(0, 100)
    key = part.keys[KEY]
    assert (key.visible, key.complete, key.complete_from, part.error) == (None, False, 30, "too long")


def test_what_lies_below_all_that_is_known_is_read_only_where_nothing_is_visible_above() -> None:
    log = Log({10: (KEY, "none"), 40: (OTHER, "none")}, {KEY: Known(30, 100, ()), OTHER: Known(30, 100, (40,))})
    found = log.find(5, 100, KEY, OTHER)
    assert {k: v.visible.offset for k, v in found.keys.items() if v.visible} == {KEY: 10, OTHER: 40}
    (head,) = [r for r in log.asked if isinstance(r, RecordsOfKeys)]
    assert (head.start, head.end, head.keys, head.head, head.scan) == (5, 30, {KEY}, True, True)


def test_a_hint_below_what_is_known_is_not_taken_for_the_newest() -> None:
    """Between the hint and what is known there may be a newer record."""
    log = Log({10: (KEY, "none"), 20: (KEY, "none")}, {KEY: Known(30, 100, (10,))}, too_long=5)
    assert log.find(0, 100).keys[KEY].visible is None


def test_a_key_of_which_nothing_is_known_is_looked_for_in_the_whole_log_or_is_not_named() -> None:
    assert Log({10: (KEY, "none")}).find(0, 100).keys[KEY].complete
    found = Log({10: (KEY, "none")}, too_long=50).find(0, 100)
    assert (found.keys, found.error) == ({}, "too long")


def test_a_key_that_is_unknown_costs_the_others_nothing() -> None:
    log = Log({10: (KEY, "none"), 40: (OTHER, "none")}, {OTHER: Known(0, 90, (40,))}, too_long=20)
    found = log.find(0, 100, KEY, OTHER)
    assert list(found.keys) == [OTHER]
    assert found.error == "too long"
    assert log.stretches == [(90, 100), (0, 100)]


def test_without_the_end_of_the_log_no_key_is_named() -> None:
    found = Log({10: (KEY, "none")}, {KEY: Known(0, 50, (10,))}, too_long=20).find(0, 100)
    assert (found.keys, found.error) == ({}, "too long")


def test_offsets_below_the_log_start_are_not_read() -> None:
    log = Log({}, {KEY: Known(0, 100, (60, 10))})
    log.find(50, 100)
    assert log.points == [60]
    assert log.stretches == []


def test_a_replica_that_shows_less_than_was_read_is_neither_judged_by_that_nor_scanned() -> None:
    """It was restarted a moment ago, or its log is another one."""
    short = Log({30: (KEY, "none")}, {KEY: Known(0, 200, (150, 60))})
    key = short.find(0, 100).keys[KEY]
    assert key.visible is not None
    assert (key.visible.offset, short.points) == (30, [])
    long = Log({30: (KEY, "none")}, {KEY: Known(0, 200, (150, 60))}, too_long=50)
    assert (long.find(0, 100).keys, long.find(0, 100).error) == ({}, "too long")
    assert not any(r.scan for r in long.asked if isinstance(r, RecordsOfKeys))


def test_an_offset_at_which_two_keys_were_recorded_counts_for_both() -> None:
    """Truncated logs held other records at the same offsets."""
    log = Log({10: (KEY, "none")}, {KEY: Known(0, 100, (10,)), OTHER: Known(0, 100, (10,))})
    found = log.find(0, 100, KEY, OTHER).keys
    assert found[KEY].visible is not None
    assert found[OTHER].visible is None


def test_another_keys_record_at_a_known_offset_is_not_the_keys() -> None:
    assert Log({10: (OTHER, "none")}, {KEY: Known(0, 100, (10,))}).find(0, 100).keys[KEY].visible is None


def test_a_log_that_shows_what_only_others_showed_is_another_and_read_from_its_start() -> None:
    records = {10: (KEY, "none"), 60: (KEY, "none"), 70: (KEY, "none")}
    log = Log(records, {KEY: Known(0, 100, (10,), (60,))})
    key = log.find(0, 100).keys[KEY]
    assert key.visible is not None
    assert key.visible.offset == 70
    assert Replaced(frozenset({KEY})) in log.asked
    assert log.stretches == [(0, 100)]


@pytest.mark.parametrize(
    ("held", "is_another"), [((60,), True), ((10, 60), True), ((10,), False), ((5,), False), ((100,), False)]
)
def test_a_log_that_has_just_shown_what_it_was_known_not_to_hold_is_another_log(
    held: tuple[int, ...], is_another: bool
) -> None:
    log = Log(dict.fromkeys((5, 10, *held), (KEY, "none")), {KEY: Known(7, 100, (20, 10))})
    key = log.find(0, 101, held=held).keys[KEY]
    assert key.visible is not None
    assert (key.visible.offset, key.complete) == (max(10, *held), True)
    assert (Replaced(frozenset({KEY})) in log.asked) is is_another


def test_of_another_log_nothing_counts_that_was_known_of_any_key() -> None:
    log = Log({60: (KEY, "none"), 70: (OTHER, "none")}, {KEY: Known(0, 100, (10,)), OTHER: Known(0, 100, (20,))})
    found = log.find(0, 100, KEY, OTHER, held=(60,)).keys
    assert {k: v.visible.offset for k, v in found.items() if v.visible} == {KEY: 60, OTHER: 70}
    assert log.stretches == [(0, 100)]


def test_where_too_many_known_offsets_hold_nothing_the_older_ones_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointing, "_MOST_STEPS", 2)
    log = Log({1: (KEY, "none")}, {KEY: Known(0, 100, tuple(range(60, 0, -1)))}, too_long=10)
    found = log.find(0, 100)
    key = found.keys[KEY]
    assert (key.visible, key.complete, key.complete_from) == (None, False, 58)
    assert found.error == "too long"


def test_a_key_whose_offsets_could_not_all_be_read_is_not_named_and_holds_up_no_other() -> None:
    records = {90: (OTHER, "none"), 10: (KEY, "none")}
    log = Log(records, {KEY: Known(0, 100, (60, 40, 10)), OTHER: Known(0, 100, (90,))}, most_points=1)
    found = log.find(0, 100, KEY, OTHER)
    assert list(found.keys) == [OTHER]
    assert found.error == "spent"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Known(), Known(3, 9, (4,)), Known(3, 9, (4,))),
        (Known(0, 50, (9,)), Known(40, 90, (60, 45)), Known(0, 90, (60, 45, 9))),
        (Known(0, 50, (9,)), Known(50, 90, (60,)), Known(0, 90, (60, 9))),
        (Known(0, 40, (9,)), Known(50, 90, (60,)), Known(50, 90, (60, 9))),
        (Known(10, 90, (60,), (70, 20)), Known(0, 40, (20,)), Known(0, 90, (60, 20), (70,))),
    ],
)
def test_what_is_known_of_ranges_that_touch_is_known_of_both(one: Known, other: Known, both: Known) -> None:
    assert one.joined(other) == both
    assert other.joined(one) == both
