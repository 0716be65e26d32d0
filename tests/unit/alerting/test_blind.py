"""What keeps the job from seeing: every reader says the same, and what was not seen is caught up with first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from parallax.alerting.blind import STALE_S, STALLED_S, Cause, blindness, readable
from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.conditions import Samples, Watch
from parallax.alerting.overdue import LAGGING_S, overdue
from parallax.alerting.page.glance import CALM, State, partitions, verdicts
from parallax.alerting.page.offset_lanes import lanes
from parallax.alerting.page.topic_map import topic_map
from parallax.alerting.state import MonitorState
from parallax.alerting.status import LEAVING_S, Condition
from parallax.alerting.status import Watch as Status
from parallax.compare.suspect import Coverage
from parallax.findings.happenings import FindingsStatus
from parallax.model import MissingRight, TopicPartition, UnknownReason
from parallax.source.feedback import ALL
from parallax.views.pause import Pause
from tests.builders.clock import Clock
from tests.builders.coverage import BROKERS, OBSERVED_AT, broker, progress
from tests.unit.alerting.monitored import Monitor
from tests.unit.alerting.reported import Report, samples

PLACE = TopicPartition("orders", 0)


def grown(offset: int, **more: object) -> dict[str, object]:
    return {"high_watermark": offset, "last_stable_offset": offset, "log_end_offset": offset, **more}


def written(monitor: Monitor, offset: int, away: tuple[int, ...] = (), **place: object) -> None:
    """The logs end at an offset; some brokers do not answer."""
    rows = [progress(broker=b, **grown(offset, reachable=b not in away), **place) for b in BROKERS]  # type: ignore[arg-type]
    monitor.state.update_progress(rows)


def part(monitor: Monitor, compared: int, furthest: int, reason: UnknownReason, **more: object) -> None:
    """Some offsets came out of the comparison, and what lies further up has no verdict yet."""
    left = furthest - max(0, compared)
    waits = max(0, compared) if reason is UnknownReason.NOT_READ_YET else -1
    monitor.compared(
        compared_up_to=(compared, compared), unknown={reason: (left, left)}, waits_from=(waits, waits), **more
    )


def paused(monitor: Monitor, *brokers: int) -> None:
    monitor.state.update_paused({b: Pause(monitor.clock.now, "ann", "disk") for b in brokers})


# What can be compared at all.


@pytest.mark.parametrize(
    ("hidden", "can_be"),
    [
        ({}, True),
        ({"paused": (3,)}, True),
        ({"paused": (2, 3)}, False),
        ({"paused": BROKERS}, False),
        ({"paused": (ALL,)}, False),
        ({"away": (3,)}, True),
        ({"away": BROKERS}, False),
        ({"away": (2,), "paused": (3,)}, False),
    ],
)
def test_the_heartbeat_is_sent_only_while_two_replicas_of_a_partition_can_be_read(
    healthy: Monitor, hidden: dict[str, tuple[int, ...]], can_be: bool
) -> None:
    paused(healthy, *hidden.get("paused", ()))
    written(healthy, 2_000, hidden.get("away", ()))
    healthy.compared()
    watch = Watch()
    watch.look(Samples(ParallaxCollector(healthy.state).of_the_job(), healthy.clock.now))
    assert bool(readable(healthy.state.snapshot())) == can_be
    assert watch.is_working == can_be


# What was not seen is caught up with before all agree.


@pytest.mark.parametrize("whom", [ALL, 3])
def test_what_was_written_during_a_pause_is_compared_before_all_agree(healthy: Monitor, whom: int) -> None:
    paused(healthy, whom)
    for end in (2_000, 5_000):
        written(healthy, end)
        healthy.clock.now += 30
        healthy.compared()
        assert healthy.says().condition is Condition.UNKNOWN
    paused(healthy)
    part(healthy, 100, 5_000, UnknownReason.NOT_READ_YET)
    said = healthy.says()
    assert (said.condition, said.reasons) == (Condition.AGREE_IN_PART, ())
    assert said.notes == ("1 partition is catching up with what was written before it could be compared",)
    healthy.compared(compared_up_to=(5_000, 5_000))
    assert healthy.says().condition is Condition.AGREE


@pytest.mark.parametrize("whom", [ALL, 3])
def test_a_pause_during_the_first_reading_does_not_end_it(monitor: Monitor, whom: int) -> None:
    monitor.state.update_findings(FindingsStatus())
    monitor.state.update_query(Report())
    written(monitor, 0)
    paused(monitor, whom)
    monitor.compared(compared_up_to=(0, 0))
    assert monitor.says().condition is not Condition.AGREE
    written(monitor, 900)
    assert monitor.says().condition is not Condition.AGREE
    paused(monitor)
    part(monitor, 0, 900, UnknownReason.NOT_READ_YET)
    assert monitor.says().condition is Condition.AGREE_IN_PART
    monitor.compared(compared_up_to=(900, 900))
    assert monitor.says().condition is Condition.AGREE


def test_a_broker_that_was_away_at_the_start_is_compared_before_all_agree(monitor: Monitor) -> None:
    monitor.state.update_findings(FindingsStatus())
    monitor.state.update_query(Report())
    written(monitor, 0, away=(3,))
    monitor.compared(compared_up_to=(-1, -1))
    assert monitor.says().condition is Condition.UNKNOWN
    written(monitor, 700, away=(3,))
    part(monitor, -1, 700, UnknownReason.BEFORE_FIRST_READING)
    assert monitor.says().condition is Condition.UNKNOWN
    written(monitor, 700)
    part(monitor, 20, 700, UnknownReason.NOT_READ_YET)
    assert monitor.says().condition is Condition.AGREE_IN_PART
    monitor.compared(compared_up_to=(700, 700))
    assert monitor.says().condition is Condition.AGREE


def test_a_topic_created_while_a_broker_is_away_is_compared_whole_before_all_agree(healthy: Monitor) -> None:
    written(healthy, 100, away=(3,))
    written(healthy, 0, away=(3,), topic="new")
    assert healthy.says().condition is Condition.UNKNOWN
    written(healthy, 100)
    written(healthy, 600, topic="new")
    part(healthy, 5, 600, UnknownReason.NOT_READ_YET, topic="new")
    healthy.compared()
    said = healthy.says()
    assert (said.condition, said.text) == (
        Condition.AGREE_IN_PART,
        "All replicas agree in 1 of 2 partitions; 1 is catching up",
    )
    healthy.compared(topic="new", compared_up_to=(600, 600))
    assert healthy.says().condition is Condition.AGREE


def test_a_log_that_is_truncated_meanwhile_is_caught_up_with_at_its_new_end(healthy: Monitor) -> None:
    written(healthy, 400, away=(3,))
    healthy.says()
    written(healthy, 400)
    assert healthy.says().condition is Condition.AGREE_IN_PART
    written(healthy, 300)
    healthy.compared(compared_up_to=(300, 300))
    assert healthy.says().condition is Condition.AGREE


# What cannot be seen is calm in no reader.


def query_down(monitor: Monitor) -> None:
    monitor.state.update_query(replace(Report(up=False), last_progress=monitor.clock.now))


def stalled(monitor: Monitor) -> None:
    monitor.clock.now += 200


def offline(monitor: Monitor) -> None:
    monitor.state.update_progress([progress(broker=3, reachable=False, problem="not_hosted")])
    monitor.clock.now += LEAVING_S


def findings_fail(monitor: Monitor) -> None:
    monitor.state.update_findings(FindingsStatus(error="no"))


SHOWN = (query_down, stalled, findings_fail)
"""What is not compared, or not kept; the brokers report their offsets all the same."""

BLIND: list[tuple[Callable[[Monitor], None], str, State, tuple[int, ...]]] = [
    (query_down, "query compare is down", State.UNKNOWN, BROKERS),
    (stalled, "nothing has been compared for 3.3 min", State.UNKNOWN, BROKERS),
    (lambda m: m.state.update_storage_full(True), "the storage is full", State.UNKNOWN, BROKERS),
    (lambda m: m.state.update_mismatches({"h:1": "x"}), "another cluster answers", State.UNKNOWN, BROKERS),
    (findings_fail, "findings cannot be kept", State.UNKNOWN, BROKERS),
    (lambda m: paused(m, ALL), "reading is paused", State.UNKNOWN, BROKERS),
    (lambda m: paused(m, 2), "reading is paused", State.UNKNOWN, (2,)),
    (offline, "the broker answered when last asked, but not for this replica", State.UNREACHABLE, (3,)),
    (
        lambda m: m.state.update_progress([progress(broker=3, reachable=False)]),
        "the broker does not answer",
        State.UNREACHABLE,
        (3,),
    ),
    (
        lambda m: m.state.update_refusals([("orders", 0, 2)], MissingRight.READ, "no") and None,
        "the right read is missing",
        State.UNAUTHORIZED,
        (2,),
    ),
]


@pytest.mark.parametrize(("happens", "why", "state", "whom"), BLIND, ids=[one[1] + str(one[3]) for one in BLIND])
def test_what_the_job_cannot_see_is_calm_nowhere(
    healthy: Monitor, happens: Callable[[Monitor], None], why: str, state: State, whom: tuple[int, ...]
) -> None:
    happens(healthy)
    assert healthy.says().condition is Condition.UNKNOWN
    snapshot = healthy.state.snapshot()
    (one,) = partitions(snapshot, "orders")
    assert {b: (r.state, r.why) for b, r in one.replicas.items() if r.state not in CALM} == dict.fromkeys(
        whom, (state, why)
    )
    cells = topic_map(verdicts(snapshot, "orders")).topics[0].cells
    assert [(cells[b].text, cells[b].unseen) for b in whom] == [
        (state.text, why if state is State.UNKNOWN else "")
    ] * len(whom)
    hidden = () if happens in SHOWN else whom
    for lane in lanes(one):
        assert (f"not seen, {why}; last known: " in lane.text) is (lane.broker in hidden)


def test_a_replica_whose_log_is_offline_keeps_no_start_from_ending(monitor: Monitor) -> None:
    monitor.state.update_findings(FindingsStatus())
    monitor.state.update_query(Report())
    written(monitor, 100, away=(3,))
    offline(monitor)
    monitor.read(brokers=BROKERS[:2])
    part(monitor, -1, 100, UnknownReason.BEFORE_FIRST_READING)
    said = monitor.says()
    assert (said.steps, said.reasons) == ((), ("broker 3 answered when last asked, but not for 1 replica",))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_broker_that_is_back_hides_no_replica_of_which_it_was_not_asked_since(
    healthy: Monitor, *, at_once: bool
) -> None:
    back = [progress(broker=3, observed_at=OBSERVED_AT + timedelta(seconds=9))]
    away = [progress(broker=3, partition=n, reachable=False) for n in (0, 1)]
    for rows in [[*back, *away]] if at_once else [away, back]:
        healthy.state.update_progress(rows)
    assert blindness(healthy.state.snapshot()) == ()


def test_a_broker_is_as_it_was_when_it_was_asked_last_in_whatever_order_rows_come(healthy: Monitor) -> None:
    later = OBSERVED_AT + timedelta(seconds=9)
    gone = [progress(broker=3, reachable=False, observed_at=later), progress(broker=3)]
    healthy.state.update_progress(gone)
    assert [one.cause for one in blindness(healthy.state.snapshot())] == [Cause.BROKER_AWAY]
    held = [progress(broker=3, observed_at=later), progress(broker=3, reachable=False, problem="not_hosted")]
    healthy.state.update_progress(held)
    assert blindness(healthy.state.snapshot()) == ()


def test_a_replica_that_alone_does_not_answer_is_offline_whatever_its_error(healthy: Monitor) -> None:
    healthy.state.update_progress([progress(broker=3, partition=1), progress(broker=3, reachable=False)])
    assert [one.cause for one in blindness(healthy.state.snapshot())] == [Cause.REPLICA_OFFLINE]


def test_while_a_difference_is_being_checked_no_cell_says_that_all_agree(healthy: Monitor) -> None:
    healthy.state.update_findings(FindingsStatus(pending={PLACE: 1}))
    assert healthy.says().condition is Condition.UNKNOWN
    (one,) = partitions(healthy.state.snapshot())
    assert {(replica.state, replica.why) for replica in one.replicas.values()} == {
        (State.NOT_FULLY_COMPARED, "a difference is being checked")
    }


def test_what_hides_all_during_a_start_is_no_loading(monitor: Monitor) -> None:
    written(monitor, 100)
    (one,) = partitions(monitor.state.snapshot())
    assert {replica.state for replica in one.replicas.values()} == {State.LOADING}
    monitor.state.update_storage_full(True)
    (one,) = partitions(monitor.state.snapshot())
    assert {(replica.state, replica.why) for replica in one.replicas.values()} == {
        (State.UNKNOWN, "the storage is full")
    }


# Verdicts are waited for from when nothing holds them up.


def waits(monitor: Monitor, seconds: int, away: tuple[int, ...] = ()) -> float:
    """How long a partition has waited, after some time in which the same comes out of the comparison."""
    for _ in range(seconds // 10):
        written(monitor, 100, away)
        part(monitor, 90, 100, UnknownReason.NOT_READ_YET)
        monitor.says()
        monitor.clock.now += 10
    return overdue(monitor.state.snapshot())[PLACE]


def test_a_verdict_is_waited_for_from_when_the_broker_is_back(healthy: Monitor) -> None:
    with pytest.raises(KeyError):
        waits(healthy, 3600, away=(3,))
    assert waits(healthy, 60) <= 60
    assert waits(healthy, 600) > LAGGING_S
    assert healthy.says().condition is Condition.UNKNOWN


@pytest.mark.parametrize(("batch_s", "is_overdue"), [(STALE_S + 60, True), (STALLED_S + 60, False)])
def test_slow_batches_do_not_hide_a_partition_that_never_gets_on_and_a_stall_does(
    healthy: Monitor, batch_s: float, is_overdue: bool
) -> None:
    for _ in range(5):
        part(healthy, 90, 100, UnknownReason.NOT_READ_YET)
        healthy.says()
        healthy.clock.now += batch_s
        assert healthy.says().problems
        written(healthy, 100)
    part(healthy, 90, 100, UnknownReason.NOT_READ_YET)
    assert (overdue(healthy.state.snapshot())[PLACE] > LAGGING_S) is is_overdue


@pytest.mark.parametrize("whom", [ALL, 3])
def test_a_verdict_is_waited_for_from_when_the_reading_goes_on(healthy: Monitor, whom: int) -> None:
    paused(healthy, whom)
    with pytest.raises(KeyError):
        waits(healthy, 3600)
    paused(healthy)
    assert waits(healthy, 60) <= 60


def test_a_query_that_never_got_on_is_stalled_once_the_job_has_run_for_long_enough(monitor: Monitor) -> None:
    began = monitor.clock.now
    monitor.started()
    watch = Watch()
    for seconds, stalled in ((STALLED_S, []), (1, ["read_committed"])):
        monitor.clock.now += seconds
        monitor.compared()
        monitor.state.update_query(replace(Report(), name="read_committed", last_progress=None))
        families = ParallaxCollector(monitor.state).of_the_job()
        found = watch.look(Samples(families, monitor.clock.now))
        assert [one.labels["query"] for one in found if one.alertname == "ParallaxQueryStalled"] == stalled
        assert [one.since for one in blindness(monitor.state.snapshot()) if one.cause is Cause.QUERY_STALLED] == [
            began for _ in stalled
        ]
    assert not watch.is_working


def test_a_partition_of_which_one_replica_is_watched_is_not_said_to_agree() -> None:
    clock = Clock()
    for chosen, others, said, can_be in (
        ([1], BROKERS, "Cannot tell whether the replicas agree", False),
        ([1], (1,), "All replicas agree", True),
        ([1, 2], BROKERS, "All replicas agree", True),
    ):
        monitor = Monitor(clock, MonitorState(clock, brokers=chosen), Status())
        monitor.started()
        monitor.state.update_progress([progress(broker=b, replicas=list(others)) for b in chosen])
        assert monitor.says().headline == said
        assert bool(readable(monitor.state.snapshot())) == can_be
    rows = [
        progress(broker=b, replicas=list(r), partition=n) for n, r in enumerate(((1, 2), (2, 3))) for b in r if b < 3
    ]
    monitor.state.update_progress(rows)
    monitor.compared(partition=1)
    assert monitor.says().text == "All replicas agree in 1 of 2 partitions; 1 has one watched replica"


def test_how_many_replicas_a_broker_does_not_answer_for_is_a_metric(healthy: Monitor) -> None:
    offline(healthy)
    found = samples(healthy.state)
    assert [found["replicas_offline", (str(broker),)] for broker in BROKERS] == [0, 0, 1]
    written(healthy, 100, away=(3,))
    assert ("replicas_offline", frozenset({"3"})) not in samples(healthy.state), "it does not answer at all"


def test_nothing_waits_for_a_verdict_whose_replica_lies_in_an_offline_directory(healthy: Monitor) -> None:
    for _ in range(100):
        written(healthy, 100, away=(3,))
        offline(healthy)
        part(healthy, 90, 100, UnknownReason.NOT_READ_YET)
        healthy.clock.now += 10
        said = healthy.says()
    assert said.reasons == ("broker 3 answered when last asked, but not for 1 replica",)
    snapshot = healthy.state.snapshot()
    assert overdue(snapshot).get(PLACE, 0.0) == 0.0
    assert samples(healthy.state)["verdict_waiting_seconds", ("orders", "0")] == 0.0


def lag_of(monitor: Monitor) -> float:
    """Of one view of broker 3."""
    return samples(monitor.state)["view_lag_seconds", ("orders", "0", "3", "read_committed")]


@pytest.mark.parametrize("whom", [ALL, 3])
def test_what_is_paused_does_not_lag(healthy: Monitor, whom: int) -> None:
    paused(healthy, whom)
    for _ in range(100):
        written(healthy, 5_000)
        healthy.compared()
        healthy.clock.now += 10
        assert lag_of(healthy) <= 10
    paused(healthy)
    for _ in range(40):
        written(healthy, 5_000)
        healthy.clock.now += 10
    assert 390 <= lag_of(healthy) <= 410, "from when it was to be read again"


def test_what_is_overdue_is_worked_out_once_for_a_snapshot(healthy: Monitor) -> None:
    snapshot = healthy.state.snapshot()
    assert overdue(snapshot) is overdue(snapshot)


# Where logs begin.

DIFFERS = UnknownReason.LOG_START_DIFFERS
APART = [broker(1), broker(2), broker(3, log_start_offset=40)]


def says_of(monitor: Monitor, reason: UnknownReason, brokers: list[object]) -> tuple[Condition, str, list[State]]:
    made: Coverage = monitor.compared(unknown={reason: (40, 40)}, brokers=brokers)
    assert made.place == PLACE
    said = monitor.says()
    (one,) = partitions(monitor.state.snapshot())
    return said.condition, (said.reasons or said.notes)[0], [replica.state for replica in one.replicas.values()]


def test_logs_that_begin_apart_though_nothing_deletes_cannot_be_said_to_agree(healthy: Monitor) -> None:
    condition, why, states = says_of(healthy, DIFFERS, APART)
    assert condition is Condition.UNKNOWN
    assert why == (
        "logs of orders-0 begin at different offsets, though no cleanup policy is known to delete records: one may "
        "have lost its beginning"
    )
    assert states == [State.UNKNOWN] * 3


def test_what_all_logs_have_lost_is_told_and_the_rest_agrees(healthy: Monitor) -> None:
    condition, why, states = says_of(healthy, DIFFERS, [broker(b, log_start_offset=40) for b in BROKERS])
    assert condition is Condition.AGREE_IN_PART
    assert why == (
        "all logs of orders-0 have lost their beginning, though no cleanup policy is known to delete records; what "
        "they held there is unknown"
    )
    assert states == [State.NOT_FULLY_COMPARED] * 3


def test_logs_that_retention_shortens_are_known_in_part_and_no_audit_is_promised(
    healthy: Monitor,
) -> None:
    condition, why, states = says_of(healthy, UnknownReason.RETENTION_DIFFERS, APART)
    assert condition is Condition.AGREE_IN_PART
    assert why == (
        "logs of orders-0 begin at different offsets: each replica deletes by retention at its own time; where that "
        "lasts, one may have lost its beginning"
    )
    assert states == [State.NOT_FULLY_COMPARED] * 3
