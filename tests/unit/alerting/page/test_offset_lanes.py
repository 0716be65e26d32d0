"""The lanes of a partition: what each replica holds, how far it was read, and which one stands still."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from parallax.alerting.page.glance import Partition, State, partitions
from parallax.alerting.page.offset_lanes import LEGEND, Scale, drawn_lanes, lanes, scale
from parallax.model import FindingKind, IsolationLevel
from tests.builders.coverage import BROKERS, progress
from tests.pages import Job, shown_again

END = 1_000_000


@pytest.fixture
def frozen(tmp_path: Path) -> Partition:
    """Broker 3 stands still 500 offsets below the end of a long log."""
    job = Job(tmp_path)
    job.follow()
    ends = {"high_watermark": END, "log_end_offset": END}
    stable = {1: END, 2: END, 3: END - 500}
    job.state.update_progress([progress(broker=b, **ends, last_stable_offset=stable[b]) for b in BROKERS])
    for level in IsolationLevel:
        read = stable if level is IsolationLevel.READ_COMMITTED else dict.fromkeys(BROKERS, END)
        job.state.update_positions(level, {("orders", 0, b): read[b] for b in BROKERS})
    (found,) = partitions(job.state.snapshot())
    return replace(found, compared_up_to=(END, END - 500))


def test_there_is_a_lane_for_each_broker_and_isolation_level(frozen: Partition) -> None:
    shown = lanes(frozen)
    assert [(lane.broker, lane.isolation) for lane in shown] == [
        (b, level) for b in BROKERS for level in IsolationLevel
    ]
    assert [lane.behind for lane in shown if lane.broker == 3] == [
        500 if level is IsolationLevel.READ_COMMITTED else 0 for level in IsolationLevel
    ]


def test_a_replica_that_stands_still_is_seen_at_the_end_of_a_long_log(frozen: Partition) -> None:
    on = scale(lanes(frozen))
    assert on.at(END) - on.at(END - 500) > 0.4
    assert drawn_lanes(frozen).count('class="lag"') == 1


def test_the_legend_says_what_everything_that_is_drawn_means(frozen: Partition) -> None:
    known = dict(frozen.replicas) | {2: replace(frozen.replicas[2], state=State.DIVERGED, last_stable_offset=END - 9)}
    drawn = ET.fromstring(drawn_lanes(replace(frozen, replicas=known)))
    assert {one.attrib["class"] for one in drawn if "class" in one.attrib} == {key.drawn for key in LEGEND}


def test_a_replica_that_a_finding_calls_frozen_says_since_when_as_the_finding_does(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.follow()
    job.state.update_progress([progress(broker=b, last_stable_offset=50 if b == 2 else 100) for b in BROKERS])
    found = shown_again(kind=FindingKind.READ_COMMITTED_FROZEN, broker=2, topic="orders", partition=0)
    job.find(found)
    (one,) = partitions(job.state.snapshot())
    since = f"first suspected {found.first_suspected_at:%Y-%m-%d %H:%M:%S} UTC"
    assert one.replicas[2].why == f"read committed frozen, {since}"
    assert [lane.frozen for lane in lanes(one)] == [None, None, None, found.first_suspected_at, None, None]
    assert f"frozen, {since}" in drawn_lanes(one)
    assert ">50, 50 behind, frozen<" in drawn_lanes(one)


def test_some_offsets_behind_are_no_alarm_and_a_replica_that_diverged_is(frozen: Partition) -> None:
    assert 'class="lag alarm"' not in drawn_lanes(frozen)
    known = dict(frozen.replicas) | {3: replace(frozen.replicas[3], state=State.DIVERGED)}
    assert drawn_lanes(replace(frozen, replicas=known)).count('class="lag alarm"') == 1


def test_a_gap_of_one_offset_is_not_drawn_large(frozen: Partition) -> None:
    one = dict(frozen.replicas) | {
        3: replace(frozen.replicas[3], last_stable_offset=END - 1, read_committed=END - 1),
    }
    on = scale(lanes(replace(frozen, replicas=one, compared_up_to=(END, END - 1))))
    assert 0 < on.at(END) - on.at(END - 1) < 0.01


def test_who_does_not_see_it_is_told(frozen: Partition) -> None:
    said = (
        "Broker 3 as read_committed: log start offset 0, last stable offset 999,500, 500 behind the furthest replica, "
        "read up to 999,500, compared up to 999,500."
    )
    assert said in drawn_lanes(frozen)


def test_a_scale_rises_with_the_offsets_and_stays_within_its_borders() -> None:
    for on in (Scale(0, 0, 100), Scale(0, 90, 100), Scale(7, 7, 7)):
        places = [on.at(offset) for offset in range(-5, 120)]
        assert places == sorted(places)
        assert places[0] == 0.0
        assert places[-1] == 1.0


def test_of_logs_that_agree_the_whole_is_shown(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.follow()
    (found,) = partitions(job.state.snapshot())
    assert scale(lanes(found)) == Scale(0, 0, 100)
    assert 'class="lag"' not in drawn_lanes(found)


def test_where_no_offset_is_known_nothing_is_drawn(frozen: Partition) -> None:
    bare = {b: replace(one, log_start_offset=None) for b, one in frozen.replicas.items()}
    assert drawn_lanes(replace(frozen, replicas=bare)) == ""


def test_what_is_drawn_of_a_replica_that_is_not_seen_says_that_it_is_as_it_was_last(frozen: Partition) -> None:
    unseen = dict(frozen.replicas) | {3: replace(frozen.replicas[3], unseen="it does not answer")}
    assert f">{END:,} when last seen<" in drawn_lanes(replace(frozen, replicas=unseen))
