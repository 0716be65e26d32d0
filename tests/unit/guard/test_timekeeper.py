from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.audit.schedule import AuditSchedule
from parallax.audit.waiting import SOON_S
from parallax.guard import late as record
from parallax.guard.absences import Absences, Late, Presence, Unclear
from parallax.guard.holds import Event, EventKind
from parallax.guard.looks import Look
from parallax.guard.outages import SHORT_MS, TOLD_MS, headline
from parallax.guard.pauses import Paused
from parallax.guard.table import GuardTable
from parallax.guard.timekeeper import Timekeeper, recorded
from parallax.guard.words import UNCLEAR, in_words, late_in_short, late_in_words, summed, unwatched_in_words
from parallax.model import TopicPartition
from parallax.views.tables import PROGRESS, rust_uri
from tests.builders.absences import absence
from tests.builders.absences import late as late_copy
from tests.unit.guard.looking import HOUR, LOOK, METADATA, PLACE, SKEW, START, clock, tick
from tests.unit.guard.recording import ALL, REST, history, row, write

IN_TIME = tick(0, {1: 10, 2: 10, 3: 10}, ALL)
AWAY = tick(2_000, {1: 12, 2: None, 3: 12}, REST)
BACK = tick(2 * HOUR, {1: 12, 2: 12, 3: 12}, ALL)


class Keeper:
    """A timekeeper, and what it said last."""

    def __init__(self, storage: Path, now: int = 3 * HOUR) -> None:
        self.said = Absences()
        self.now = now
        self.keeper = Timekeeper(str(storage), clock(), self._take, lambda: (START + self.now) / 1000)
        self.keeper.start()

    def _take(self, said: Absences) -> None:
        self.said = said

    def take_in(self, *ticks: list[Look]) -> None:
        for one in ticks:
            self.keeper.take_in([row(look) for look in one])


def audit(began: int, **said: Any) -> AuditReport:
    one = PartitionResult(*PLACE, Result.CONSISTENT)
    report = AuditReport("brokers", (START + began) / 1000, (START + began + 1) / 1000, (one,))
    return replace(report, **said)


def test_a_replica_that_was_late_is_so_after_a_restart_until_an_audit(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY)
    assert [one.broker for one in keeper.said.absent] == [2]
    keeper.take_in(BACK)
    (late,) = keeper.said.late
    again = Keeper(tmp_path)
    assert again.said.late == (late,)
    again.keeper.audited(audit(2 * HOUR + 1, source="tables"))
    again.keeper.audited(audit(2 * HOUR - 1))
    assert again.said.late == (late,)
    again.keeper.audited(audit(2 * HOUR + 1))
    assert again.said.late == Keeper(tmp_path).said.late == ()


def test_a_record_of_late_replicas_that_is_damaged_is_none(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY, BACK)
    for file in (tmp_path / record.LATE).glob("*.parquet"):
        file.write_bytes(b"damaged")
    assert Keeper(tmp_path).said.late == ()


def test_a_record_that_cannot_be_read_at_the_start_is_read_later_and_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Keeper(tmp_path).take_in(IN_TIME, AWAY, BACK)
    (before,) = record.load(str(tmp_path)) or ()
    now = [3 * HOUR]
    with monkeypatch.context() as patch:
        patch.setattr(record, "load", lambda _: None)
        keeper = Keeper(tmp_path)
        keeper.keeper._now = lambda: (START + now[0]) / 1000
        place = TopicPartition("another", 0)
        other = replace(before, place=place, absence=replace(before.absence, place=place))
        keeper.keeper._clock.remember([other])
        keeper.keeper.take_in([])
    assert record.load(str(tmp_path)) == [before]
    now[0] += 61_000
    keeper.keeper.take_in([])
    assert set(record.load(str(tmp_path)) or ()) == {before, other}


def test_progress_that_cannot_be_read_keeps_no_clock_from_starting(tmp_path: Path) -> None:
    write(tmp_path, *history(away_from=60_000, until=120_000))
    for file in Path(rust_uri(str(tmp_path), PROGRESS)).rglob("*.parquet"):
        file.write_bytes(b"damaged")
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY)
    assert [one.broker for one in keeper.said.absent] == [2]


def test_what_was_recorded_tells_who_is_absent_without_a_job(tmp_path: Path) -> None:
    assert recorded(str(tmp_path), clock(), START) == []
    write(tmp_path, *history(away_from=60_000, until=180_000))
    (absence,) = recorded(str(tmp_path), clock(), START + HOUR)
    assert absence.broker == 2


@pytest.mark.parametrize(
    ("ticks", "said"),
    [
        ((IN_TIME, AWAY), "away; what it lacks is kept until 2023-11-14 23:13:14 UTC at least"),
        (
            (AWAY,),
            "away; until when it misses nothing is unknown: what the others had when it was last seen is not recorded",
        ),
    ],
)
def test_an_absence_in_words(tmp_path: Path, ticks: tuple[list[Look], ...], said: str) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(*ticks)
    assert in_words(keeper.said.absent[0], START / 1000) == said


def test_a_bound_that_has_passed_is_told_in_the_past(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY)
    said = "away; what it lacks was kept until 2023-11-14 23:13:14 UTC, and may be gone by now"
    assert in_words(keeper.said.absent[0], (START + HOUR) / 1000 + 60) == said


def test_a_bound_before_the_absence_is_no_time_until_which_anything_is_kept(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY)
    away = keeper.said.absent[0]
    said = in_words(replace(away, bound_ms=away.since_ms - 1), (START + HOUR) / 1000)
    why = "delete.retention.ms less guard.clock_skew_ms leaves no time"
    assert said == f"away; what it lacks may have been cleaned from the first moment on: {why}"


def test_all_absences_in_one_sentence(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    assert summed(keeper.said, 0) == ""
    keeper.take_in(IN_TIME, AWAY)
    now = START / 1000
    assert summed(keeper.said, now) == "1 of broker 2; what they lack is kept until 2023-11-14 23:13:14 UTC at least"
    assert summed(keeper.said, now + 7200) == "1 of broker 2; what 1 of them lack may be gone by now"
    (one,) = keeper.said.absent
    both = replace(keeper.said, absent=(one, replace(one, unclear=Unclear.NO_TIME, bound_ms=None)))
    assert summed(both, now) == (
        "2 of broker 2; what 1 of them lack is kept until 2023-11-14 23:13:14 UTC at least; of 1 it is not known until "
        "when it is kept"
    )
    keeper.take_in(BACK)
    assert summed(keeper.said, now) == "", "it is not absent any more"


def test_of_a_copy_that_nobody_can_tell_whether_it_was_in_time_no_loss_is_said(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY, BACK)
    (late,) = keeper.said.late
    for unclear in (Unclear.NO_TIME, Unclear.SETTINGS, Unclear.BEFORE_WATCH):
        untold = replace(late, absence=replace(late.absence, unclear=unclear))
        why = f"came back, and nobody can tell whether in time: {UNCLEAR[unclear]}"
        assert late_in_words([untold], {PLACE: 5.0}, 5.0).startswith(f"orders-0 on broker 2 {why}; the job audits")
        assert late_in_short(untold) == f"it {why}"
    said = late_in_words([late, replace(untold, place=TopicPartition("orders", 1))], {}, 5.0)
    assert said.startswith("orders-0 on broker 2 copied its log late")
    assert "; orders-1 on broker 2 came back, and nobody can tell" in said


def test_late_copies_in_words_with_when_the_job_audits_them(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    assert late_in_words(keeper.said.late, {}, 0) == ""
    keeper.take_in(IN_TIME, AWAY, BACK)
    (late,) = keeper.said.late
    copied = "orders-0 on broker 2 copied its log late and may have missed tombstones or end markers"
    said = late_in_words([late], {PLACE: START / 1000 + 60}, START / 1000)
    assert said == (
        f"{copied} that had been cleaned by then; the job audits the partition by itself at 2023-11-14 22:14:20 UTC"
    )
    assert late_in_words([late], {PLACE: 5.0}, 5.0).endswith("; the job audits the partition by itself now")
    assert "by itself once all replicas are back" in late_in_words([late], {}, 5.0)
    assert late_in_words([late], None, 5.0).endswith(
        "; to compare the partition now, and only print what is found: "
        "parallax audit --topic orders --partition 0 -c CONFIG"
    )
    others = [replace(late, place=TopicPartition("orders", n)) for n in range(5)]
    said = late_in_words(others, {PLACE: 60.0}, 5.0)
    assert said.startswith("5 replicas (orders-0 on broker 2, orders-1 on broker 2, orders-2 on broker 2 and 2 more)")
    assert said.endswith("; the job audits the partitions by itself from 1970-01-01 00:01:00 UTC on")


def showing(*times: int) -> list[Paused]:
    """Looks at a hold that was there from before the bound on."""
    return [
        Paused(PLACE.topic, "a", frozenset(REST), START + at, START + at, dict.fromkeys(REST, START)) for at in times
    ]


def test_who_copies_while_the_topic_is_held_is_late_only_if_nobody_looks_again(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY)
    keeper.keeper.paused(showing(2 * HOUR - 500))
    assert in_words(keeper.said.absent[0], 0) == "away; nothing is cleaned, so what it lacks is kept until that ends"
    assert summed(keeper.said, 0) == "1 of broker 2; nothing is cleaned of what 1 of them lack"
    keeper.take_in(BACK)
    assert keeper.said.late == ()
    assert [one.broker for one in Keeper(tmp_path).said.late] == [2], "it is killed before the next look"
    keeper.keeper.paused(showing(2 * HOUR + 500))
    assert keeper.said.late == Keeper(tmp_path).said.late == ()


def test_a_hold_on_record_counts_without_a_job(tmp_path: Path) -> None:
    write(tmp_path, *history(away_from=60_000, until=180_000))
    held = Event(EventKind.HELD, "h", PLACE.topic, "a", START + 200_000, 2, (), shown=REST)
    GuardTable(str(tmp_path)).append(held)
    (absence,) = recorded(str(tmp_path), clock(), START + 2 * HOUR)
    assert absence.is_held


class Auditing:
    """A timekeeper beside the audits of a job that has no interval, over looks of a second each."""

    def __init__(self, storage: Path, unread_delay_s: float = 60.0) -> None:
        self.at = 0
        self.audited: list[int] = []
        self.verdict = Result.CONSISTENT
        self.said = Absences()
        self.schedule = AuditSchedule(
            *(0.0, self._audit, self._take_report, lambda: None),
            unread_delay_s=unread_delay_s,
            clock=lambda: self.at / 1000,
        )
        self.slow: list[Late] = []
        """What the record of repairs has of slow copies; it goes when an audit has begun long after."""
        self.keeper = Timekeeper(
            str(storage), clock(), self._take, lambda: (START + self.at) / 1000, slow=lambda: self.slow
        )
        self.keeper.start()

    def _take(self, said: Absences) -> None:
        self.said = said
        self.schedule.observe_copies(said.copied)
        self.audit_in = self.schedule.due_in()

    def _audit(self, source: str, places: Sequence[TopicPartition]) -> AuditReport:
        assert list(places) == [PLACE]
        self.audited.append(self.at // 1000)
        return audit(self.at, source=source, partitions=(PartitionResult(*PLACE, self.verdict, replicas=ALL),))

    def _take_report(self, report: AuditReport) -> None:
        self.keeper.audited(report)

    def spend(self, seconds: int, ends: dict[int, int | None], isr: tuple[int, ...]) -> list[int]:
        """When audits were run meanwhile, in seconds after the beginning."""
        before = len(self.audited)
        for _ in range(seconds):
            self.at += 1_000
            self.keeper.take_in([row(look) for look in tick(self.at, ends, isr, retention=45_000)])
            self.schedule.run_due()
        return self.audited[before:]

    def away_and_back(self, seconds: int) -> list[int]:
        self.spend(108, {1: 12, 2: None, 3: 12}, REST)
        return self.spend(seconds, dict.fromkeys(ALL, 12), ALL)

    def copied_anew(self, seconds: int) -> list[int]:
        """The partition is reassigned to the others, and back."""
        self.spend(60, {1: 12, 3: 12}, REST)
        self.spend(30, {1: 12, 2: 5, 3: 12}, REST)
        return self.spend(seconds, dict.fromkeys(ALL, 12), ALL)


def test_each_late_copy_is_audited_by_the_job_within_minutes_however_many_there_were(tmp_path: Path) -> None:
    job = Auditing(tmp_path)
    job.spend(60, dict.fromkeys(ALL, 10), ALL)
    assert len(job.away_and_back(100)) == 1
    for _ in range(4):
        back = job.at // 1000 + 90
        (at,) = job.copied_anew(330)
        assert at - back <= SOON_S + 5
        assert job.said.late == ()
    assert job.spend(7200, dict.fromkeys(ALL, 12), ALL) == []


def test_a_late_copy_waits_for_a_replica_that_is_away_and_for_one_that_still_copies(tmp_path: Path) -> None:
    job = Auditing(tmp_path)
    job.spend(60, dict.fromkeys(ALL, 10), ALL)
    assert job.away_and_back(1) == []
    assert job.audit_in == {PLACE: 60.0}
    assert job.spend(600, {1: 12, 2: 12, 3: None}, (1, 2)) == []
    assert (job.audit_in, [one.broker for one in job.said.late]) == ({}, [2])
    assert len(job.spend(90, dict.fromkeys(ALL, 12), ALL)) == 1


def test_a_late_copy_whose_audit_has_no_verdict_is_audited_again_unless_audits_are_off(tmp_path: Path) -> None:
    job = Auditing(tmp_path)
    job.verdict = Result.UNKNOWN
    job.spend(60, dict.fromkeys(ALL, 10), ALL)
    assert len(job.away_and_back(300)) == 3
    job.verdict = Result.CONSISTENT
    job.spend(600, dict.fromkeys(ALL, 12), ALL)
    assert job.said.late == ()
    off = Auditing(tmp_path / "off", unread_delay_s=0.0)
    off.spend(60, dict.fromkeys(ALL, 10), ALL)
    assert off.away_and_back(600) == []


def test_a_copy_by_a_repair_that_took_too_long_is_audited_once_within_minutes(tmp_path: Path) -> None:
    job = Auditing(tmp_path)
    job.spend(60, dict.fromkeys(ALL, 10), ALL)
    unknown: dict[str, Any] = {"lacks_from": None, "retention_ms": None, "bound_ms": None}
    took = absence(2, presence=Presence.COPYING, since_ms=START + 10_000, unclear=Unclear.SLOW, **unknown)
    job.slow = [late_copy(took, START + job.at), late_copy(replace(took, place=TopicPartition("gone", 0)), START)]
    with structlog.testing.capture_logs() as logged:
        assert job.spend(10, dict.fromkeys(ALL, 10), ALL) == []
        (late,) = job.said.late
        assert late_in_short(late) == f"it may have missed tombstones or end markers: {UNCLEAR[Unclear.SLOW]}"
        said = late_in_words([late], job.audit_in, 0.0)
        assert said.startswith("orders-0 on broker 2 may have missed tombstones or end markers: the copy by a repair")
        assert job.said.outages == (), "somebody wanted that copy"
        (at,) = job.spend(600, dict.fromkeys(ALL, 10), ALL)
    assert at <= 60 + 60 + 5
    assert job.said.late == ()
    begun, ended = [one for one in logged if "a repair copied" in one["event"] and "too slowly" in one["event"]]
    assert (begun["event"], begun["topics"]) == ("a repair copied replicas too slowly", "orders")
    assert (ended["broker"], ended["topics"], ended["replicas"], ended["why"]) == (2, "orders", 1, begun["why"])
    assert ended["what"] == (
        "that they may have missed tombstones or end markers is over: an audit has compared them and found no "
        "difference"
    )


def test_a_copy_that_took_too_long_is_asked_for_at_the_next_look_once_a_repair_has_gone_on(tmp_path: Path) -> None:
    job = Auditing(tmp_path)
    job.spend(10, dict.fromkeys(ALL, 10), ALL)
    unknown: dict[str, Any] = {"lacks_from": None, "retention_ms": None, "bound_ms": None}
    took = absence(2, presence=Presence.COPYING, since_ms=START + 5_000, unclear=Unclear.SLOW, **unknown)
    job.slow = [late_copy(took, START + job.at)]
    job.keeper.repaired()
    job.spend(1, dict.fromkeys(ALL, 10), ALL)
    assert [(one.place, one.broker) for one in job.said.late] == [(PLACE, 2)]


def short(at: int, ends: dict[int, int | None], isr: tuple[int, ...]) -> list[Look]:
    """A look at a topic that keeps deletions for no longer than clocks may be apart and a look may take."""
    return tick(at, ends, isr, retention=SKEW + LOOK)


def test_a_topic_that_cannot_be_watched_is_reported_once_and_makes_no_restart_an_outage(
    tmp_path: Path,
) -> None:
    keeper = Keeper(tmp_path)
    with structlog.testing.capture_logs() as logged:
        for start in (0, 100_000):
            keeper.take_in(short(start, {1: 10, 2: 10, 3: 10}, ALL))
            keeper.take_in(short(start + 1_000, {1: 12, 2: None, 3: 12}, REST))
            assert keeper.said.absent[0].unclear is Unclear.NO_TIME
            (outage,) = keeper.said.outages
            now = (START + start) / 1000 + 60
            assert headline(outage, keeper.said.absent, (), now) == "Broker 2 is away (orders)"
            keeper.take_in(short(start + 60_000, {1: 12, 2: 12, 3: 12}, ALL))
            (late,) = keeper.said.late
            assert not late.is_of_an_outage
            assert keeper.said.copied, "it is audited all the same"
            keeper.keeper.audited(audit(3 * HOUR))
    assert keeper.said.unwatched == {"orders": SKEW + LOOK}
    told = [one["event"] for one in logged]
    assert told.count("of some topics nobody can tell whether a broker is back in time") == 1
    assert "replicas were back too late" not in told
    keeper.take_in(tick(200_000, {1: 12, 2: 12, 3: 12}, ALL, retention=SKEW + LOOK + 1))
    assert keeper.said.unwatched == {}


def test_a_replica_that_was_taken_off_and_given_back_is_a_new_copy(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, tick(2_000, {1: 12, 3: 12}, REST), tick(2_000 + 2 * METADATA, {1: 12, 3: 12}, REST))
    keeper.take_in(tick(40_000, {1: 12, 2: 5, 3: 12}, REST))
    (absence,) = keeper.said.absent
    given_back = "2023-11-14 22:13:59 UTC: it was taken off the broker and given back"
    assert in_words(absence, 0) == f"copied again since {given_back}"
    with structlog.testing.capture_logs() as logged:
        keeper.take_in(tick(50_000, {1: 12, 2: 12, 3: 12}, ALL))
    (late,) = keeper.said.late
    assert keeper.said.outages == ()
    assert late_in_short(late) == f"copied again since {given_back}"
    assert late_in_words([late], {}, 0).startswith("orders-0 on broker 2 copied again since 2023-11-14 22:13:59 UTC")
    assert [(one["event"], one["log_level"]) for one in logged] == [("replicas are copied again", "info")]
    assert keeper.said.copied, "it is audited as any other"


def test_the_log_says_when_a_broker_goes_away_when_it_is_back_and_what_came_of_it(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    with structlog.testing.capture_logs() as logged:
        keeper.take_in(IN_TIME, AWAY)
        keeper.now += SHORT_MS
        keeper.take_in(tick(3_000, {1: 12, 2: None, 3: 12}, REST), BACK)
        keeper.keeper.audited(audit(3 * HOUR))
    told = {one["event"]: one for one in logged}
    assert [one["event"] for one in logged] == [
        "a broker is away",
        "replicas were back too late",
        "a broker is back",
        "the outage of a broker is over",
    ]
    away = told["a broker is away"]
    assert (away["broker"], away["replicas"], away["topics"]) == (2, 1, "orders")
    assert (away["complete_until"], away["kept_until"]) == ("2023-11-14 22:13:19 UTC", "2023-11-14 23:13:14 UTC")
    assert told["a broker is back"]["replicas"] == 1
    assert "found no difference" in told["the outage of a broker is over"]["what"]


def test_what_came_of_an_outage_is_told_for_three_minutes(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.take_in(IN_TIME, AWAY, tick(60_000, {1: 12, 2: 12, 3: 12}, ALL))
    (outage,) = keeper.said.outages
    assert outage.outcome.startswith("Broker 2 was back in time")
    keeper.now += TOLD_MS + 1
    keeper.take_in(tick(61_000, {1: 12, 2: 12, 3: 12}, ALL))
    assert keeper.said.outages == ()


@pytest.mark.parametrize("is_audited", [True, False])
def test_who_has_switched_audits_of_late_copies_off_is_not_told_that_the_job_audits_them(is_audited: bool) -> None:
    said = unwatched_in_words({"orders": 1000}, is_audited=is_audited)
    assert ("the job audits what it copied by itself" in said) is is_audited
    assert ("the job does not audit what it copied for that (audit.unread_delay_s is 0)" in said) is not is_audited
