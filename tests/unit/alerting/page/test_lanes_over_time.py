"""Lanes over time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

from parallax.alerting.page.lanes_over_time import LEGEND, Drawn, Lane, drawn_over_time, lanes_over_time
from parallax.alerting.page.timeline import Report, Tracks
from parallax.findings.in_brief import Freeze
from parallax.model import IsolationLevel

BEGAN = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


def at(second: float) -> datetime:
    return BEGAN + timedelta(seconds=second)


def track(*marks: tuple[int, int | None], stable: int | None = None, start: int = 0) -> list[Report]:
    """A replica by when it had which high watermark; ``stable`` is where its last stable offset stands, if it does."""
    return [
        Report(at(s), None, None, None)
        if o is None
        else Report(at(s), start, o if stable is None else min(o, stable), o)
        for s, o in marks
    ]


GOING = [(s, 100 + s) for s in range(0, 601, 10)]
FROZEN: Tracks = {1: track(*GOING), 2: track(*GOING, stable=130)}


def lane(tracks: Tracks, broker: int, level: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Lane:
    (found,) = [one for one in lanes_over_time(tracks) if (one.broker, one.isolation) == (broker, level)]
    return found


def drawn(tracks: Tracks) -> Drawn:
    made = drawn_over_time(lanes_over_time(tracks))
    assert made is not None
    return made


def part(made: Drawn, broker: int, name: str, level: IsolationLevel = IsolationLevel.READ_COMMITTED) -> str:
    (image,) = [image for one, image in made.lanes if (one.broker, one.isolation) == (broker, level)]
    found = [one.attrib["d"] for one in ET.fromstring(image) if one.attrib["class"] == name]
    return found[0] if found else ""


def test_a_frozen_replica_is_said_and_drawn_to_be_behind_the_others() -> None:
    assert lane(FROZEN, 2).said == "130, 570 behind the furthest replica, has not moved since 03:00:30"
    assert (lane(FROZEN, 1).said, lane(FROZEN, 1).is_stuck, lane(FROZEN, 2).is_stuck) == ("700", False, True)
    made = drawn(FROZEN)
    assert part(made, 2, "lag alarm")
    assert not part(made, 1, "lag")
    assert not part(made, 2, "lag alarm", IsolationLevel.READ_UNCOMMITTED)
    assert len(set(re.findall(r" ([0-9.]+)H", part(made, 2, "mark")))) < len(GOING) / 10


def test_a_replica_that_a_finding_calls_frozen_says_since_when_as_the_finding_does() -> None:
    known = {2: [Freeze(at(-3600))]}
    said = "130, 570 behind the furthest replica, frozen, first suspected 2026-01-02 02:00:00 UTC"
    lanes = {(one.broker, one.isolation): one for one in lanes_over_time(FROZEN, frozen=known)}
    committed, uncommitted = (lanes[2, level] for level in sorted(IsolationLevel, reverse=True))
    assert (committed.said, committed.is_stuck) == (said, True)
    assert (uncommitted.said, uncommitted.is_stuck) == ("700", False), "it holds back read_committed only"
    for rest, more in ((None, ", does not answer since 03:05:00"), (130, ", says nothing since 03:00:30")):
        reports = [*track(*[(s, o) for s, o in GOING if s < 40], stable=130), *track(*[(300, None)] * (rest is None))]
        lane_of_2 = next(
            one
            for one in lanes_over_time({1: track(*GOING), 2: reports}, frozen=known)
            if (one.broker, one.isolation) == (2, IsolationLevel.READ_COMMITTED)
        )
        assert "frozen, first suspected 2026-01-02 02:00:00 UTC" in lane_of_2.said
        assert more.removeprefix(", ") in lane_of_2.said


def test_a_freeze_that_is_over_stays_drawn_as_the_alarm_that_it_was() -> None:
    thawed = [
        Report(one.at, 0, 130 if at(30) < one.at < at(300) else one.high_watermark, one.high_watermark)
        for one in track(*GOING)
    ]
    tracks = {1: track(*GOING), 2: thawed}
    of_2, still = (
        next(
            one
            for one in lanes_over_time(tracks, frozen=frozen)
            if (one.broker, one.isolation) == (2, IsolationLevel.READ_COMMITTED)
        )
        for frozen in ({2: [Freeze(at(60), at(290))]}, {})
    )
    assert of_2.said == "700, was frozen until 2026-01-02 03:04:50 UTC, first suspected 2026-01-02 03:01:00 UTC"
    assert (of_2.is_stuck, of_2.stuck) == (False, [(at(30), at(290))])
    assert (still.said, still.stuck) == ("700", [])
    made = drawn_over_time([of_2])
    assert made is not None
    alarm, lag = part(made, 2, "lag alarm"), part(made, 2, "lag")
    assert max(float(x) for x in re.findall(r"H([0-9.]+)", alarm)) == 290 / 600 * 900
    assert min(float(x) for x in re.findall(r"[MH]([0-9.]+)", lag)) == 290 / 600 * 900


def test_a_restart_does_not_make_a_standstill_younger() -> None:
    marks = [(s, None if 200 <= s < 230 else o) for s, o in GOING]
    assert lane({1: track(*GOING), 2: track(*marks, stable=130)}, 2).said.endswith("has not moved since 03:00:30")


def test_the_legend_says_what_everything_that_is_drawn_means() -> None:
    away = track(*GOING[:30], (300, None), (310, None), (320, 420), *GOING[33:], stable=250)
    lanes = lanes_over_time(FROZEN | {3: away, 4: track((0, 5), (590, 400), (600, 400))}, [(at(300), (90, 80))])
    made = drawn_over_time(lanes)
    assert made is not None
    drawn_as = {one.attrib["class"] for _, image in made.lanes for one in ET.fromstring(image)}
    assert drawn_as == {key.drawn for key in LEGEND}
    assert all(f'class="{key.drawn}"' in key.sign and key.means for key in LEGEND)


def test_a_partition_in_which_nothing_happens_has_nobody_who_is_stuck() -> None:
    idle = {broker: track((0, 5), (300, 5)) for broker in (1, 2)}
    assert [(one.said, one.is_stuck) for one in lanes_over_time(idle)] == [
        ("5, has not moved since 03:00:00 or longer", False)
    ] * 4


def test_a_replica_of_which_nothing_was_heard_is_told_from_one_that_did_not_answer() -> None:
    silent = {1: track(*GOING), 2: track((0, 5)), 3: track((0, 5), (300, None), (600, None))}
    assert lane(silent, 2).said == "5, 695 behind the furthest replica, says nothing since 03:00:00"
    assert lane(silent, 3).said == "does not answer since 03:05:00"
    (image,) = [i for one, i in drawn(silent).lanes if one.broker == 3 and one.isolation is lane(silent, 3).isolation]
    assert [one.attrib["x"] for one in ET.fromstring(image) if one.attrib["class"] == "gap"] == ["450.0"]


def test_an_offset_stands_until_the_next_report() -> None:
    made = drawn({1: track((0, 0), (10, 10), (20, 10))})
    assert re.findall(r"[A-Z]", part(made, 1, "mark")) == ["M", "H", "L", "H", "L", "H"]


def test_a_long_log_does_not_flatten_what_happened_at_its_end() -> None:
    made = drawn({1: track((0, 10**9), (600, 10**9 + 200))})
    assert (made.low, made.high) == (10**9 - 50, 10**9 + 200)
    short = drawn({1: track((0, 100), (600, 200), start=50)})
    assert (short.low, short.high) == (50, 200)


def test_how_far_was_compared_is_drawn_from_when_it_is_known() -> None:
    steps = [(at(300), (90, 80)), (at(400), (100, 100))]
    lanes = lanes_over_time({1: track(*GOING)}, steps)
    made = drawn_over_time(lanes)
    assert made is not None
    assert part(made, 1, "done").startswith("M450.0 ")
    assert part(made, 1, "held").count("M") == 1, "one outline, without seams"
    committed = [values[0] for values in made.values]
    assert (committed[0], committed[-1]) == ("100", "700 (compared 100)")
    assert 'up to 100."' in made.lanes[0][1]
    assert [one.compared[0][1] for one in lanes] == [90, 80]


def test_times_and_values_are_a_table_as_well() -> None:
    made = drawn(FROZEN)
    assert (made.times[0], made.times[-1]) == (at(0), at(600))
    assert len(made.times) == len(made.values) <= 14
    assert made.values[-1] == ["700", "700", "700", "130"]


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawn_over_time(lanes_over_time({})) is None
    assert drawn_over_time(lanes_over_time({1: track((0, None))})) is None


def test_before_a_replica_was_first_asked_it_is_not_said_to_be_silent() -> None:
    made = drawn({1: track(*GOING), 2: track((1, 100), (400, None), (600, 700))})
    of_2 = next(n for n, (one, _) in enumerate(made.lanes) if one.broker == 2)
    said = [row[of_2] for row in made.values]
    assert (said[0], said[-1]) == ("not asked yet", "700")
    assert "no answer" not in said[:1]
