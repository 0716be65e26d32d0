"""What stands about the cluster in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.alerting.blind import STALE_S, STALLED_S, Cause, blindness
from parallax.alerting.overdue import LAGGING_S
from parallax.alerting.starting import Past
from parallax.alerting.state import MonitorState
from parallax.alerting.status import LEAVING_S, STUCK_S, Condition, Status, health, status_of
from parallax.alerting.unknown import words
from parallax.compare.suspect import UnreadRange
from parallax.config import TopicSettings
from parallax.findings.hanging import Open
from parallax.findings.hanging_life import Hanging
from parallax.findings.happenings import FindingsStatus
from parallax.guard.absences import Absences, Presence
from parallax.model import FindingKind, FindingStatus, MissingRight, TopicPartition, UnknownReason
from parallax.views.pause import Pause
from tests.builders.absences import absence, late
from tests.builders.coverage import BROKERS, broker, coverage, progress
from tests.pages import shown_again
from tests.unit.alerting.monitored import LEVELS, Monitor
from tests.unit.alerting.reported import Report


def test_a_job_that_has_just_begun_is_starting_and_says_how_far_it_is(monitor: Monitor) -> None:
    said = monitor.says()
    assert (said.condition, said.text) == (Condition.STARTING, "Starting: 0 of 5 steps done")
    monitor.state.update_findings(FindingsStatus())
    monitor.state.update_query(Report())
    monitor.state.update_progress([progress(broker=b) for b in BROKERS])
    assert monitor.says().text == "Starting: 3 of 5 steps done"
    assert [stage.value for _, stage in monitor.says().stages] == ["done", "done", "done", "under way", "to come"]
    assert monitor.says().since == monitor.clock.now


def test_replicas_on_brokers_that_are_not_to_be_read_are_waited_for_by_nobody(monitor: Monitor) -> None:
    """With ``topics.brokers``: the rest can agree, and it is said that one is left out."""
    monitor.state = MonitorState(monitor.clock, brokers=[1, 2])
    monitor.state.update_findings(FindingsStatus())
    monitor.state.update_query(Report())
    monitor.state.update_progress([progress(broker=b) for b in (1, 2)])
    monitor.read(brokers=(1, 2))
    monitor.compared(brokers=[broker(1), broker(2)])
    said = monitor.says()
    assert (said.text, said.notes) == (
        "All replicas agree",
        ("broker 3 is not read: topics.brokers leaves it out",),
    )


@pytest.mark.parametrize("last", ["topic_deleted", "not_hosted"])
@pytest.mark.parametrize("is_away", [False, True])
def test_a_topic_that_was_deleted_is_spoken_of_no_more_as_soon_as_its_brokers_say_so(
    healthy: Monitor, last: str, is_away: bool
) -> None:
    def say(*problems: str) -> None:
        rows = [progress("gone", broker=b, reachable=False, problem=p) for b, p in zip(BROKERS, problems, strict=True)]
        healthy.state.update_progress(rows)

    healthy.state.update_progress([progress("gone", broker=b) for b in BROKERS])
    healthy.compared(topic="gone")
    say("topic_deleted", "not_hosted", "unreachable" if is_away else last)
    if is_away:  # A broker that holds something else is away all the same.
        healthy.state.update_progress([progress(broker=3, reachable=False, problem="unreachable")])
        assert healthy.says().reasons == ("broker 3 does not answer",)
        healthy.state.update_progress([progress(broker=3)])
    assert healthy.says().text == "All replicas agree"
    assert {place.topic for place in healthy.state.snapshot().coverage} == {"orders"}
    healthy.state.update_progress([progress("gone", broker=b) for b in BROKERS])
    assert {place.topic for place in healthy.state.snapshot().coverage} == {"orders", "gone"}, "it is there again"


def test_a_topic_that_a_broker_denied_and_nobody_reports_on_any_more_was_deleted(healthy: Monitor) -> None:
    def passes(seconds: float) -> Status:
        healthy.clock.now += seconds
        healthy.state.update_query(replace(Report(), name="progress", last_progress=healthy.clock.now))
        healthy.compared()
        return healthy.says()

    healthy.state.update_progress([progress("gone", broker=b) for b in BROKERS])
    healthy.compared(topic="gone")
    denied = progress("gone", broker=2, reachable=False, problem="not_hosted")
    healthy.state.update_progress([denied])
    passes(20)
    healthy.state.update_progress([denied])
    assert passes(40).reasons == ("broker 2 answered when last asked, but not for 1 replica",), (
        "it may be reported on yet"
    )
    assert passes(20).text == "All replicas agree"


NOTHING = "No topic is watched: none matches topics.include or topics.pattern"


def test_a_topic_of_which_one_broker_holds_nothing_any_more_and_others_do_was_not_deleted(healthy: Monitor) -> None:
    gone = progress(broker=3, reachable=False, problem="not_hosted")
    healthy.state.update_progress([progress(broker=1), progress(broker=2), gone])
    healthy.clock.now += 61
    healthy.state.update_query(replace(Report(), name="progress", last_progress=healthy.clock.now))
    assert "orders" in {replica[0] for replica in healthy.state.snapshot().replicas}


def test_where_no_topic_matches_that_is_said_and_the_job_is_ready(monitor: Monitor) -> None:
    """It does what it can: it is no start that does not get on, and a pod need not be started again."""

    def passes(seconds: float) -> Status:
        monitor.clock.now += seconds
        monitor.state.update_query(replace(Report(), last_progress=monitor.clock.now))
        return monitor.says()

    monitor.state.update_findings(FindingsStatus())
    assert passes(0).condition is Condition.STARTING
    assert passes(59).condition is Condition.STARTING
    for seconds in (1, STUCK_S + 1):
        said = passes(seconds)
        assert (said.condition, said.text, said.steps, said.problems) == (Condition.UNKNOWN, NOTHING, (), ())
        assert monitor.state.snapshot().heartbeat == monitor.clock.now
    monitor.clock.now += STALLED_S + 1
    assert monitor.says().problems, "a job that hangs says that all the same"
    monitor.started()
    assert monitor.says().condition is Condition.AGREE


def test_that_no_topic_is_watched_names_the_setting_and_its_value() -> None:
    topics = TopicSettings(include=["orders", "paid"], pattern="[^_].*")
    assert topics.wanted == "topics.include (orders, paid) or topics.pattern ([^_].*)"
    now = 1_000.0
    state = MonitorState(lambda: now, wanted=TopicSettings(pattern="a.*").wanted)
    state.update_findings(FindingsStatus())
    for at in (now, now + 61):
        now = at
        state.update_query(replace(Report(), last_progress=now))
        state.snapshot()
    (one,) = (one for one in blindness(state.snapshot()) if one.cause is Cause.NOTHING_WATCHED)
    assert one.phrase == "no topic is watched: none matches topics.pattern (a.*)"


def test_where_all_topics_were_deleted_nothing_is_watched(healthy: Monitor) -> None:
    healthy.state.update_progress([progress(broker=b, reachable=False, problem="topic_deleted") for b in BROKERS])
    said = healthy.says()
    assert (said.text, said.problems) == (NOTHING, ())


def test_where_the_job_hangs_nobody_says_that_nothing_is_to_be_watched(healthy: Monitor) -> None:
    healthy.clock.now += 2_000
    said = healthy.says()
    assert said.problems
    assert NOTHING not in (said.text, *said.reasons)
    assert healthy.state.snapshot().nothing_since is None


def test_how_long_the_initial_reading_takes_is_told_by_its_pace(monitor: Monitor) -> None:
    monitor.state.update_progress([progress(broker=b, high_watermark=1000, last_stable_offset=1000) for b in BROKERS])
    monitor.read(100)
    assert monitor.says().steps[3].detail == "0 of 1 partition; 5,400 offsets are left"
    monitor.clock.now += 60
    monitor.read(400)
    assert monitor.says().steps[3].detail == "0 of 1 partition; 3,600 offsets are left, which takes about 2 min"
    monitor.read(1000)
    assert monitor.says().steps[3].is_done


def test_a_start_waits_for_no_broker_that_is_away_and_says_so(monitor: Monitor) -> None:
    monitor.state.update_findings(FindingsStatus())
    monitor.state.update_query(Report())
    monitor.state.update_progress([progress(broker=b, reachable=b != 3) for b in BROKERS])
    monitor.read(brokers=BROKERS[:2])
    monitor.compared(unknown={UnknownReason.NOT_READ_YET: (100, 100)})
    said = monitor.says()
    assert said.steps == ()
    assert said.text == "Cannot tell whether the replicas agree: broker 3 does not answer"


def test_a_start_that_does_not_get_on_is_no_start_any_more(monitor: Monitor) -> None:
    monitor.says()
    monitor.clock.now += STUCK_S + 1
    said = monitor.says()
    assert said.condition is Condition.UNKNOWN
    assert said.reasons == ("the start has made no progress for 10 min",)
    assert said.steps, "what it hangs at is still shown"


def test_a_query_that_is_down_is_said_while_it_starts(monitor: Monitor) -> None:
    monitor.state.update_query(Report(up=False))
    assert monitor.says().text == "Cannot tell whether the replicas agree: query compare is down"


def test_all_agree_since_the_first_look_at_which_nothing_spoke_against_it(healthy: Monitor) -> None:
    began = healthy.clock.now
    healthy.clock.now += 30
    said = healthy.says()
    assert (said.condition, said.text, said.since) == (Condition.AGREE, "All replicas agree", began)
    assert (said.reasons, said.notes, said.steps, said.problems) == ((), (), (), ())


def test_a_topic_that_is_new_is_no_start(healthy: Monitor) -> None:
    healthy.state.update_progress([progress("new", broker=b) for b in BROKERS])
    said = healthy.says()
    assert (said.condition, said.steps) == (Condition.AGREE_IN_PART, ())
    assert said.text == "All replicas agree in 1 of 2 partitions; 1 is catching up"
    assert said.notes == ("1 partition is catching up with what was written before it could be compared",)
    healthy.compared(topic="new")
    assert healthy.says().condition is Condition.AGREE


def test_a_topic_that_is_new_and_empty_is_nothing_to_speak_of(healthy: Monitor) -> None:
    empty = {"high_watermark": 0, "last_stable_offset": 0, "log_end_offset": 0}
    healthy.state.update_progress([progress("new", broker=b, **empty) for b in BROKERS])
    assert healthy.says().condition is Condition.AGREE


@pytest.mark.parametrize(
    "so_far",
    [
        {"compared_up_to": (100, 40)},
        {"unknown": {UnknownReason.UNJUDGED: (0, 3)}, "waits_from": (-1, 97)},
        {"unknown": {UnknownReason.NOT_READ_YET: (100, 100)}, "waits_from": (0, 0)},
    ],
)
def test_all_agree_only_once_what_the_logs_held_at_first_has_its_verdicts(
    monitor: Monitor, so_far: dict[str, object]
) -> None:
    monitor.started()
    monitor.compared(**so_far)
    said = monitor.says()
    assert (said.condition, said.problems) == (Condition.AGREE_IN_PART, ())
    assert said.text == "No difference was found in 1 partition: 1 is catching up"
    monitor.clock.now += 9
    monitor.compared()
    said = monitor.says()
    assert (said.condition, said.since) == (Condition.AGREE, monitor.clock.now)
    monitor.clock.now += 9
    monitor.compared(**so_far)
    assert monitor.says().condition is Condition.AGREE, "what is on its way later is not of the start"


def test_all_agree_since_they_came_to_whatever_was_on_its_way_meanwhile(healthy: Monitor) -> None:
    began = healthy.clock.now
    for pending in (1, 0):
        healthy.clock.now += 9
        healthy.started()
        healthy.state.update_findings(FindingsStatus(pending={TopicPartition("orders", 0): pending}))
        said = healthy.says()
        assert (said.condition is Condition.AGREE, said.since) == (not pending, began if not pending else began + 9)
    healthy.state.update_progress([progress("new", broker=b) for b in BROKERS])
    assert (healthy.says().condition, healthy.says().since) == (Condition.AGREE_IN_PART, healthy.clock.now)
    healthy.compared(topic="new")
    assert (healthy.says().condition, healthy.says().since) == (Condition.AGREE, began)
    healthy.state.update_progress([progress(broker=2, reachable=False)])
    assert healthy.says().condition is Condition.UNKNOWN
    healthy.clock.now += 9
    healthy.started()
    healthy.compared(topic="new")
    assert (healthy.says().condition, healthy.says().since) == (Condition.AGREE, healthy.clock.now)


def test_what_is_known_in_part_and_what_is_known_whole_have_each_their_own_since(healthy: Monitor) -> None:
    for unknown in ({UnknownReason.BEFORE_FIRST_READING: (7, 7)}, {}):
        healthy.clock.now += 9
        began = healthy.clock.now
        healthy.compared(unknown=unknown)
        assert healthy.says().since == began
        healthy.clock.now += 9
        assert healthy.says().since == began


def test_after_a_pause_all_agree_only_once_what_was_written_meanwhile_is_read_and_compared(healthy: Monitor) -> None:
    written = {"high_watermark": 20_100, "last_stable_offset": 20_100, "log_end_offset": 20_100}

    def tick() -> None:
        healthy.clock.now += 30
        healthy.state.update_query(replace(Report(), last_progress=healthy.clock.now))
        healthy.state.update_progress([progress(broker=b, **written) for b in BROKERS])

    healthy.state.update_paused({2: Pause(healthy.clock.now, "ann", "disk")})
    assert healthy.says().condition is Condition.UNKNOWN
    tick()
    healthy.read(20_100, brokers=(1, 3))
    behind = {"compared_up_to": (100, 100), "unknown": {UnknownReason.NOT_READ_YET: (20_000, 20_000)}}
    healthy.compared(**behind, waits_from=(100, 100))
    assert healthy.says().text.startswith("Cannot tell whether the replicas agree: reading is paused: broker 2")
    healthy.state.update_paused({})
    tick()
    healthy.compared(**behind, waits_from=(100, 100))
    assert healthy.says().condition is not Condition.AGREE, "nobody has read what was written in the pause"
    healthy.read(20_100)
    tick()
    healthy.compared(compared_up_to=(20_100, 20_100))
    assert healthy.says().text == "All replicas agree"


def test_a_replica_that_is_far_behind_is_a_reason(healthy: Monitor) -> None:
    ahead = [broker(b, read_committed=20_000) for b in (1, 2)]
    healthy.compared(brokers=[*ahead, broker(3)])
    assert healthy.says().reasons == ("1 replica is more than 10,000 offsets behind",)


def test_once_a_broker_is_back_its_partitions_are_catching_up_and_that_is_all(healthy: Monitor) -> None:
    written = {"high_watermark": 20_100, "last_stable_offset": 20_100, "log_end_offset": 20_100}
    ahead = [broker(b, read_committed=20_100, read_uncommitted=20_100) for b in (1, 2)]
    behind = {"compared_up_to": (100, 100), "unknown": {UnknownReason.NOT_READ_YET: (20_000, 20_000)}}
    healthy.state.update_progress([progress(broker=3, reachable=False)])
    healthy.state.update_progress([progress(broker=b, **written) for b in (1, 2)])
    healthy.read(20_100, brokers=(1, 2))
    healthy.compared(**behind, brokers=[*ahead, broker(3)], waits_from=(100, 100))
    assert healthy.says().reasons == ("broker 3 does not answer",)
    healthy.state.update_progress([progress(broker=3, **written)])
    healthy.compared(**behind, brokers=[*ahead, broker(3)], waits_from=(100, 100))
    said = healthy.says()
    assert (said.condition, said.reasons) == (Condition.AGREE_IN_PART, ())
    assert said.text == "No difference was found in 1 partition: 1 is catching up"


def test_the_title_of_the_page_leaves_out_the_reasons(healthy: Monitor) -> None:
    healthy.state.update_progress([progress(broker=2, reachable=False)])
    said = healthy.says()
    assert said.headline == "Cannot tell whether the replicas agree"
    assert said.text == f"{said.headline}: broker 2 does not answer"


def test_with_a_replica_that_joins_all_agree_only_once_it_is_read_and_compared(healthy: Monitor) -> None:
    four = (*BROKERS, 4)
    healthy.state.update_progress([progress(broker=b, replicas=[*four]) for b in four])
    unread = broker(4, read_uncommitted=0, read_committed=0)
    waits = {"unknown": {UnknownReason.NOT_READ_YET: (100, 100)}, "waits_from": (0, 0), "compared_up_to": (0, 0)}
    healthy.compared(brokers=(*map(broker, BROKERS), unread), **waits)
    assert healthy.says().condition is Condition.AGREE_IN_PART
    healthy.read(brokers=four)
    healthy.compared(brokers=tuple(map(broker, four)))
    assert healthy.says().condition is Condition.AGREE


def test_a_topic_that_was_created_again_is_compared_anew_before_all_agree(healthy: Monitor) -> None:
    for topic_id in ("a", "b"):
        healthy.state.update_progress([progress(broker=b, topic_id=topic_id) for b in BROKERS])
    assert healthy.says().condition is Condition.AGREE_IN_PART
    healthy.clock.now += 1
    healthy.read()
    healthy.compared()
    assert healthy.says().condition is Condition.AGREE


def test_what_is_over_begins_anew(healthy: Monitor) -> None:
    healthy.state.update_progress([progress(broker=3, reachable=False)])
    healthy.clock.now += 10
    assert healthy.says().since == healthy.clock.now
    healthy.state.update_progress([progress(broker=3)])
    healthy.clock.now += 10
    assert healthy.says().since == healthy.clock.now


def test_a_query_that_hangs_while_others_compare_is_a_reason(healthy: Monitor) -> None:
    """What it would have read or compared nobody watches, though it counts as up."""
    healthy.state.update_query(replace(Report(), name="progress", last_progress=healthy.clock.now))
    healthy.clock.now += STALLED_S + 1
    healthy.state.update_query(replace(Report(), last_progress=healthy.clock.now))
    healthy.compared()
    said = healthy.says()
    assert said.condition is Condition.UNKNOWN
    assert said.problems == said.reasons == ("query progress has made no progress for 5.0 min",)


def test_a_job_that_compares_nothing_any_more_cannot_tell(healthy: Monitor) -> None:
    healthy.clock.now += STALE_S + 1
    said = healthy.says()
    assert said.condition is Condition.UNKNOWN
    assert said.problems == said.reasons == ("nothing has been compared for 2.0 min",)


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (UnknownReason.SKIPPED, "offsets were left out of the comparison: 7 skipped"),
        (UnknownReason.DEFERRED, "offsets were left out of the comparison: 7 deferred"),
        (
            UnknownReason.LOST_UNREAD,
            "no replica of orders-0 holds anything at some offsets: what was there was lost before anybody read it",
        ),
    ],
)
def test_what_should_have_been_compared_and_was_not_cannot_be_told(
    healthy: Monitor, reason: UnknownReason, says: str
) -> None:
    healthy.compared(unknown={reason: (7, 7)})
    assert healthy.says().reasons == (says,)
    assert healthy.says().condition is Condition.UNKNOWN


@pytest.mark.parametrize("reason", [UnknownReason.RETENTION_GAP, UnknownReason.BEFORE_FIRST_READING])
def test_what_nobody_could_compare_in_time_is_noted_and_is_no_alarm(healthy: Monitor, reason: UnknownReason) -> None:
    healthy.compared(unknown={reason: (7, 7)})
    said = healthy.says()
    assert said.condition is Condition.AGREE_IN_PART
    assert said.text == "No difference was found in 1 partition: 1 is known in part"
    healthy.compared(partition=1)
    assert healthy.says().text == "All replicas agree in 1 of 2 partitions; 1 is known in part"
    assert said.notes[0].startswith(f"7 {words(reason)}")


def test_what_was_deleted_before_it_was_read_is_noted_with_its_topics_and_is_no_alarm(healthy: Monitor) -> None:
    healthy.compared(topic="app-repartition", unknown={UnknownReason.DELETED_UNREAD: (7, 7)})
    said = healthy.says()
    assert said.condition is Condition.AGREE_IN_PART
    (note,) = said.notes
    assert note == (
        "records of app-repartition-0 were deleted before every replica had been read (retention, or DeleteRecords as "
        "by Kafka Streams): nobody can compare them any more"
    )


def test_what_was_not_read_yet_ends_by_itself_and_what_was_read_too_late_by_an_audit(healthy: Monitor) -> None:
    reason = UnknownReason.BEFORE_FIRST_READING
    gap = UnknownReason.RETENTION_GAP
    new = healthy.compared(topic="new", unknown={reason: (137, 130), gap: (5, 5)})
    first, *others = healthy.says().notes
    assert first == "137 before first reading: not every replica has been read yet; that ends by itself once each has"
    audited = "offsets that nobody could compare in time; the job audits the partition by itself"
    late = f"5 {words(gap)}"
    assert others == [f"{late}: {audited} once all replicas are back and have copied what they lack"]
    healthy.state.update_coverage([replace(new, unread=(UnreadRange(0, 0, 137, reason, 0),))])
    both = f"137 before first reading: written before the job first read that log of some replica; {late}: {audited}"
    (said,) = healthy.says().notes
    assert said.startswith(f"{both} once")
    healthy.state.update_audits_at({new.place: 4e9})
    (said,) = healthy.says().notes
    assert said == f"{both} at 2096-10-02 07:06:40 UTC"


def test_while_a_replica_is_absent_not_all_agree(healthy: Monitor) -> None:
    healthy.state.update_absences(Absences((absence(3, presence=Presence.BEHIND),), ()))
    healthy.compared(partition=1)
    said = healthy.says()
    assert said.condition is Condition.AGREE_IN_PART
    assert said.text == "All replicas agree in 1 of 2 partitions; 1 lacks a replica now"
    assert said.notes == (
        "1 replica of a compacted topic is absent, of broker 3; what is not copied yet cannot be compared",
    )


def test_what_is_on_its_way_is_nothing_to_speak_of(healthy: Monitor) -> None:
    healthy.compared(unknown={UnknownReason.NOT_READ_YET: (20, 20), UnknownReason.UNDECIDED: (3, 3)})
    assert healthy.says().condition is Condition.AGREE


def waited(monitor: Monitor, seconds: float, **more: object) -> Status:
    """What is said after a time in which the same was reported, and came out of the comparison, again and again."""
    for _ in range(int(seconds) // 30 + 1):
        monitor.state.update_progress([progress(broker=b) for b in BROKERS])
        monitor.compared(**more)
        said = monitor.says()
        monitor.clock.now += 30
    return said


@pytest.mark.parametrize(
    ("reason", "counts", "waits_from"),
    [
        (UnknownReason.UNDECIDED, (3, 0), (97, -1)),
        (UnknownReason.UNJUDGED, (0, 3), (-1, 90)),
        (UnknownReason.REPLICA_SET_UNKNOWN, (3, 0), (0, -1)),
        (UnknownReason.NOT_READ_YET, (3, 0), (97, -1)),
    ],
)
def test_what_should_pass_by_itself_and_does_not_cannot_be_told(
    healthy: Monitor, reason: UnknownReason, counts: tuple[int, int], waits_from: tuple[int, int]
) -> None:
    unknown = {reason: counts}
    assert waited(healthy, LAGGING_S, unknown=unknown, waits_from=waits_from).condition is Condition.AGREE
    said = waited(healthy, LAGGING_S, unknown=unknown, waits_from=waits_from)
    assert said.condition is Condition.UNKNOWN
    assert said.reasons == (f"orders-0 waited 10 min for a verdict: 3 {words(reason)}",)
    assert waited(healthy, 0).condition is Condition.AGREE


def test_what_waits_under_traffic_at_ever_other_offsets_is_nothing_to_speak_of(healthy: Monitor) -> None:
    for n in range(40):
        assert (
            waited(healthy, 29, unknown={UnknownReason.NOT_READ_YET: (20, 20)}, waits_from=(n, n)).condition
            is Condition.AGREE
        )


def test_a_partition_of_which_nothing_comes_out_of_the_comparison_cannot_be_told(healthy: Monitor) -> None:
    for _ in range(24):
        healthy.state.update_progress([progress(broker=b) for b in BROKERS])
        healthy.state.update_progress([progress("new", broker=b) for b in BROKERS])
        for level in LEVELS:
            healthy.state.update_positions(level, {("new", 0, b): 100 for b in BROKERS})
        healthy.compared()
        said = healthy.says()
        healthy.clock.now += 30
    assert said.reasons == ("new-0 waited 12 min for a verdict",)


def test_a_topic_that_is_deleted_while_it_is_read_is_none_of_which_anything_is_unknown(healthy: Monitor) -> None:
    healthy.state.update_progress([progress("gone", broker=b, high_watermark=900) for b in BROKERS])
    healthy.state.update_coverage(
        [coverage("gone", unknown={UnknownReason.NOT_READ_YET: (800, 0)}, waits_from=(100, -1))]
    )
    for level in LEVELS:
        healthy.state.update_positions(level, {("gone", 0, b): 100 for b in BROKERS})
    assert waited(healthy, 450).condition is Condition.AGREE_IN_PART, "before it is forgotten"


def test_what_waits_for_a_broker_that_is_away_is_told_of_by_that_alone(healthy: Monitor) -> None:
    for _ in range(24):
        healthy.state.update_progress([progress(broker=b, reachable=b != 3) for b in BROKERS])
        healthy.compared(unknown={UnknownReason.NOT_READ_YET: (3, 3)}, waits_from=(97, 97))
        healthy.clock.now += 30
    assert healthy.says().reasons == ("broker 3 does not answer",)


def test_what_waits_behind_a_replica_that_stands_still_is_told_of_by_the_finding_alone(healthy: Monitor) -> None:
    frozen = replace(shown_again(), kind=FindingKind.READ_COMMITTED_FROZEN)
    healthy.state.update_findings(FindingsStatus(acknowledged=(frozen,)))
    said = waited(healthy, 2 * LAGGING_S, unknown={UnknownReason.NOT_READ_YET: (0, 3)}, waits_from=(-1, 97))
    assert (said.condition, said.reasons) == (Condition.FINDINGS, ())


def test_while_a_transaction_hangs_nothing_beyond_it_can_be_told(healthy: Monitor) -> None:
    one = Open(TopicPartition("orders", 0), 1, 4000, 0, 60, 0)
    healthy.state.update_hanging(
        [Hanging(one, 60, "no coordinator knows its producer", hangs=True, stands_since=900.0)]
    )
    said = waited(healthy, 2 * LAGGING_S, unknown={UnknownReason.UNDECIDED: (3, 0)}, waits_from=(97, -1))
    assert said.condition is Condition.UNKNOWN
    assert said.reasons == ("a transaction hangs in orders-0: nothing beyond is compared in read_committed",)
    healthy.state.update_hanging([])
    assert waited(healthy, 0).condition is Condition.AGREE


def test_a_transaction_that_may_end_yet_is_not_said_to_hang(healthy: Monitor) -> None:
    one = Hanging(Open(TopicPartition("orders", 0), 1, 4000, 0, 60, 0), 60, "it goes on", hangs=False, stands_since=9.0)
    healthy.state.update_hanging([one])
    (said,) = healthy.says().reasons
    assert said.startswith("a transaction is open for too long in orders-0: ")
    other = replace(one, one=replace(one.one, producer_id=4001))
    healthy.state.update_hanging([one, other])
    (said,) = healthy.says().reasons
    assert said.startswith("transactions are open for too long in orders-0: ")


def test_what_brings_others_about_is_told_first(healthy: Monitor) -> None:
    healthy.state.update_storage_full(True)
    healthy.state.update_query(replace(Report(), up=False))
    healthy.clock.now += STALLED_S + 1
    assert healthy.says().text.startswith(
        "Cannot tell whether the replicas agree: the storage is full, and recording has stopped, and "
    )


def test_each_thing_that_keeps_it_from_telling_is_a_reason(healthy: Monitor) -> None:
    state = healthy.state
    state.update_refusals([("secret", 0, 1), ("secret", 0, 2)], MissingRight.READ, "no")
    state.update_paused({2: Pause(0.0, "ann", "disk")})
    state.update_findings(FindingsStatus(pending={TopicPartition("orders", 0): 1}))
    healthy.compared(brokers=[broker(1, read_committed=20_000), broker(2, read_committed=20_000), broker(3)])
    state.update_progress([progress(broker=1, high_watermark=300)])
    healthy.clock.now += LAGGING_S + 1
    healthy.compared(brokers=[broker(1, read_committed=20_000), broker(2, read_committed=20_000), broker(3)])
    state.update_storage_full(True)
    state.update_mismatches({"h:1": "other"})
    away = absence(3)
    state.update_absences(Absences((), (late(away, broker=1),)))
    state.update_audits_at({away.place: 4e9})
    said = healthy.says()
    assert said.reasons == (
        "the storage is full, and recording has stopped",
        "another cluster answers at h:1",
        "reading is paused: broker 2 since 1970-01-01 00:00 UTC, by ann: disk",
        "the right read is missing on secret",
        "1 difference is being checked",
        "reading is 5.0 min behind the brokers",
        (
            "orders-0 on broker 1 copied its log late and may have missed tombstones or end markers that had been "
            "cleaned by then; the job audits the partition by itself at 2096-10-02 07:06:40 UTC"
        ),
    )
    assert said.text.endswith(f"{said.reasons[0]}, and 6 more reasons")


def test_where_it_cannot_be_told_the_time_is_that_of_the_reason_that_is_shown(healthy: Monitor) -> None:
    began = healthy.clock.now
    healthy.state.update_progress([progress(broker=2, reachable=False)])
    assert (healthy.says().reasons[0], healthy.says().since) == ("broker 2 does not answer", began)
    healthy.clock.now += 100
    checked = healthy.clock.now
    healthy.state.update_findings(FindingsStatus(pending={TopicPartition("orders", 0): 1}))
    assert (healthy.says().reasons[0], healthy.says().since) == ("broker 2 does not answer", began)
    healthy.clock.now += 20
    healthy.started()
    healthy.state.update_findings(FindingsStatus(pending={TopicPartition("orders", 0): 1}))
    said = healthy.says()
    assert (said.condition, said.reasons) == (Condition.UNKNOWN, ("1 difference is being checked",))
    assert said.since == checked


def test_findings_go_before_all_else_and_do_not_hide_what_cannot_be_told(healthy: Monitor) -> None:
    one = shown_again(exposed=True)
    healthy.state.update_findings(FindingsStatus(open=(one, shown_again("a1" * 16))))
    said = healthy.says()
    assert (said.condition, said.text) == (Condition.FINDINGS, "2 open findings: 1 seen by consumers")
    assert said.since == one.first_suspected_at.timestamp()
    healthy.state.update_progress([progress(broker=2, reachable=False)])
    said = healthy.says()
    assert said.condition is Condition.FINDINGS
    assert said.reasons == ("broker 2 does not answer",)


def test_findings_that_somebody_knows_of_are_counted_beside_those_that_nobody_does(healthy: Monitor) -> None:
    known = shown_again("a1" * 16, status=FindingStatus.ACKNOWLEDGED)
    healthy.state.update_findings(FindingsStatus(open=(shown_again(exposed=True),), acknowledged=(known,)))
    said = healthy.says()
    assert (said.text, said.notes) == ("2 open findings: 1 seen by consumers, 1 acknowledged", ())


def test_findings_are_told_while_the_job_starts(monitor: Monitor) -> None:
    monitor.state.update_findings(FindingsStatus(open=(shown_again(),)))
    said = monitor.says()
    assert said.text == "1 open finding"
    assert said.steps


def test_what_somebody_knows_of_is_no_alarm_and_is_told(healthy: Monitor) -> None:
    healthy.state.update_findings(FindingsStatus(acknowledged=(shown_again(status=FindingStatus.ACKNOWLEDGED),)))
    said = healthy.says()
    assert (said.condition, said.is_known) == (Condition.FINDINGS, True)
    assert said.text == "1 acknowledged finding is open; no other difference was found"


def test_what_somebody_knows_of_does_not_make_the_rest_compared(healthy: Monitor) -> None:
    healthy.state.update_findings(FindingsStatus(acknowledged=(shown_again(status=FindingStatus.ACKNOWLEDGED),)))
    healthy.state.update_progress([progress("new", broker=b) for b in BROKERS])
    said = healthy.says()
    assert said.text == "1 acknowledged finding is open; no other difference was found, and not everything is compared"


@pytest.mark.parametrize(
    ("unknown", "rest"),
    [
        ({UnknownReason.RETENTION_GAP: (50_000, 50_000)}, ", and not everything is compared"),
        ({UnknownReason.NOT_READ_YET: (0, 99_910)}, "; 99,910 offsets are not compared yet"),
    ],
)
def test_of_the_partition_of_a_known_finding_it_is_said_what_is_not_compared(
    healthy: Monitor, unknown: dict[UnknownReason, tuple[int, int]], rest: str
) -> None:
    healthy.state.update_findings(FindingsStatus(acknowledged=(shown_again(status=FindingStatus.ACKNOWLEDGED),)))
    healthy.compared(unknown=unknown)
    assert healthy.says().more == f"; no other difference was found{rest}"


def test_what_is_on_its_way_is_said_beside_that_all_agree(healthy: Monitor) -> None:
    healthy.compared(unknown={UnknownReason.NOT_READ_YET: (2, 2)})
    assert (healthy.says().headline, healthy.says().more) == ("All replicas agree", "; 2 offsets are not compared yet")
    healthy.compared()
    assert healthy.says().text == "All replicas agree"


def test_what_somebody_knows_of_does_not_hide_what_cannot_be_told(healthy: Monitor) -> None:
    healthy.state.update_findings(FindingsStatus(acknowledged=(shown_again(status=FindingStatus.ACKNOWLEDGED),)))
    healthy.state.update_progress([progress(broker=2, reachable=False)])
    said = healthy.says()
    assert (said.condition, said.is_known, said.notes) == (Condition.FINDINGS, True, ())
    assert said.text == "1 acknowledged finding is open; the rest is unknown: broker 2 does not answer"
    assert said.reasons == ("broker 2 does not answer",)


def test_a_job_that_is_not_ready_never_says_that_all_agree(healthy: Monitor) -> None:
    """Whatever stands; else the page and ``/readyz`` would contradict each other."""
    snapshot = healthy.state.snapshot()
    down = {"compare": replace(snapshot.queries["compare"], up=False)}
    for changed in (
        replace(snapshot, queries=down),
        replace(snapshot, coverage={}),
        replace(snapshot, findings=FindingsStatus(error="full")),
        replace(snapshot, taken_at=snapshot.taken_at + 1000),
    ):
        for past in (Past(), Past(has_started=True)):
            assert health(changed)
            said = status_of(changed, past)
            assert said.problems
            assert said.condition in (Condition.UNKNOWN, Condition.STARTING)


def test_a_replica_that_is_known_to_differ_is_not_among_what_cannot_be_told(healthy: Monitor) -> None:
    one = shown_again()
    healthy.state.update_absences(Absences((), (late(absence(3), broker=1),)))
    assert healthy.says().condition is Condition.UNKNOWN
    healthy.state.update_findings(FindingsStatus(acknowledged=(one,)))
    said = healthy.says()
    assert (said.condition, said.reasons) == (Condition.FINDINGS, ())


def test_a_replica_that_alone_cannot_be_read_on_its_broker_is_a_reason(healthy: Monitor) -> None:
    """Its log directory is offline; the broker answers for others."""
    healthy.state.update_progress([progress(broker=3, partition=1)])
    healthy.state.update_progress([progress(broker=3, reachable=False, problem="not_hosted")])
    healthy.compared(brokers=tuple(broker(b, reachable=b != 3) for b in BROKERS))
    assert healthy.says().condition is Condition.AGREE_IN_PART, "its topic may be about to be deleted"
    healthy.clock.now += LEAVING_S
    assert healthy.says().condition is Condition.UNKNOWN


def test_while_brokers_learn_of_a_deletion_one_by_one_nothing_is_alarming(healthy: Monitor) -> None:
    healthy.state.update_progress([progress("gone", broker=b) for b in BROKERS])
    healthy.compared(topic="gone")
    healthy.state.update_progress([progress("gone", broker=1, reachable=False, problem="not_hosted")])
    said = healthy.says()
    assert (said.condition, said.reasons) == (Condition.AGREE_IN_PART, ()), "neither good nor alarming"
    gone = [progress("gone", broker=b, reachable=False, problem="topic_deleted") for b in BROKERS]
    healthy.clock.now += 2
    healthy.state.update_progress(gone)
    assert healthy.says().condition is Condition.AGREE


def test_what_is_recorded_after_a_time_of_rest_is_compared_in_a_moment_and_nothing_alarms(healthy: Monitor) -> None:
    for _ in range(20):
        healthy.clock.now += 10
        healthy.state.update_query(replace(Report(), last_progress=healthy.clock.now))
        assert healthy.says().condition is Condition.AGREE
    healthy.state.update_progress([progress(broker=b) for b in BROKERS])
    assert healthy.says().condition is Condition.AGREE
    healthy.clock.now += STALE_S + 1
    healthy.state.update_query(replace(Report(), last_progress=healthy.clock.now))
    assert healthy.says().reasons == ("nothing has been compared for 2.0 min",)


def test_after_a_restart_all_agree_only_once_what_was_known_before_is_compared_again(monitor: Monitor) -> None:
    monitor.state.expect([TopicPartition("orders", 0), TopicPartition("late", 0)])
    monitor.started()
    said = monitor.says()
    assert (said.condition, said.text) == (Condition.STARTING, "Starting: 4 of 5 steps done")
    assert said.steps[2].detail == "nothing yet of 1 partition known before"
    monitor.state.update_progress([progress("late", broker=b) for b in BROKERS])
    assert monitor.says().condition is Condition.STARTING
    for level in LEVELS:
        monitor.state.update_positions(level, {("late", 0, b): 100 for b in BROKERS})
    monitor.compared(topic="late")
    assert monitor.says().condition is Condition.AGREE


def test_a_start_does_not_wait_for_what_is_gone_since_it_was_stopped(monitor: Monitor) -> None:
    monitor.state.expect([TopicPartition("orders", 0), TopicPartition("gone", 0)])
    monitor.started()
    assert monitor.says().condition is Condition.STARTING
    monitor.clock.now += 60
    monitor.compared()
    assert monitor.says().condition is Condition.AGREE


def test_where_nobody_has_asked_since_a_query_was_down_not_all_agree(healthy: Monitor) -> None:
    progressing = replace(Report(), name="progress")
    healthy.clock.now += 2
    healthy.state.update_query(replace(progressing, up=False))
    assert healthy.says().condition is Condition.UNKNOWN
    healthy.clock.now += 2
    healthy.state.update_query(replace(progressing, last_progress=healthy.clock.now))
    said = healthy.says()
    assert said.condition is Condition.AGREE_IN_PART, "what the logs hold by now is not known"
    healthy.state.update_progress([progress(broker=b, high_watermark=120, last_stable_offset=120) for b in BROKERS])
    healthy.compared()
    assert healthy.says().condition is Condition.AGREE_IN_PART
    healthy.compared(compared_up_to=(120, 120))
    assert healthy.says().condition is Condition.AGREE
