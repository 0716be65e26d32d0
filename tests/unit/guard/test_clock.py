from __future__ import annotations

import random
from typing import Any

from parallax.guard.absences import Absence, Late, Presence, Unclear
from parallax.guard.clock import FORGET_MS, TRAILING_MS, Clock
from parallax.guard.known import SETTINGS_MS, Retentions
from parallax.guard.pauses import GAP_MS, Paused
from parallax.model import TopicPartition
from tests.unit.guard.looking import HOUR, LOOK, METADATA, PLACE, SKEW, START, clock, tick

ALL = (1, 2, 3)
REST = (1, 3)


def only(known: Clock) -> Absence:
    (absence,) = known.absences()
    return absence


def bound(at: int, retention: int = HOUR) -> int:
    """The bound that follows from a look, in ms after the start."""
    return START + at - LOOK + retention - SKEW


def test_replicas_in_sync_are_not_absent() -> None:
    known = clock()
    for at in range(0, 10_000, 2_000):
        known.observe(tick(at, {1: at, 2: at, 3: at}, ALL))
    assert known.absences() == []


def test_the_bound_counts_from_the_last_look_at_which_nobody_had_what_the_absent_one_lacks() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 10, 2: None, 3: 10}, REST))
    known.observe(tick(4_000, {1: 10, 2: None, 3: 10}, REST))
    known.observe(tick(6_000, {1: 11, 2: None, 3: 10}, REST))
    known.observe(tick(8_000, {1: 30, 2: None, 3: 30}, REST))
    absence = only(known)
    assert (absence.broker, absence.presence, absence.lacks_from) == (2, Presence.AWAY, 10)
    assert absence.bound_ms == bound(4_000)


def test_while_nothing_is_written_the_bound_moves_on() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    for at in range(2_000, 20_000, 2_000):
        known.observe(tick(at, {1: 10, 2: None, 3: 10}, REST))
        assert only(known).bound_ms == bound(at)


def test_on_a_busy_partition_the_bound_counts_from_before_what_the_absentee_lacked() -> None:
    known = clock()
    for at in range(0, 10_000, 2_000):
        marks = {1: at + 50, 2: at + 40, 3: at + 50}
        known.observe(tick(at, {1: at + 60, 2: at + 50, 3: at + 55}, ALL, marks=marks))
    known.observe(tick(10_000, {1: 10_060, 2: None, 3: 10_055}, REST))
    assert only(known).lacks_from == 8_040
    assert only(known).bound_ms == bound(6_000)


def test_only_what_the_leader_said_counts() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    # The leader does not answer us: what it was given since is not known, whatever a follower has not got yet.
    for at in (2_000, 4_000, 6_000):
        known.observe(tick(at, {1: None, 2: None, 3: 10}, REST, leader=1))
    assert only(known).bound_ms == bound(0)


def test_what_a_leader_said_shortly_before_it_was_deposed_does_not_count() -> None:
    known = clock()
    for at in range(0, 40_000, 2_000):
        known.observe(tick(at, {1: 10, 2: 10 if at < 6_000 else None, 3: 10}, ALL if at < 6_000 else REST))
    assert only(known).bound_ms == bound(38_000)
    known.observe(tick(40_000, {1: 10, 2: None, 3: 25}, (3,), epoch=1))
    of_two = next(a for a in known.absences() if a.broker == 2)
    assert of_two.bound_ms == bound(38_000 - METADATA)
    # What the new one says counts at once, and goes on to count.
    known.observe(tick(42_000, {1: 10, 2: None, 3: 10}, (3,), epoch=1))
    of_two = next(a for a in known.absences() if a.broker == 2)
    assert of_two.bound_ms == bound(42_000)


def test_a_copy_of_what_was_stamped_elsewhere_moves_no_bound() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(20_000, {1: 12, 2: None, 3: 12}, REST))
    # A replica is added that has nothing yet, and then all, and leads.
    known.observe(tick(22_000, {1: 12, 2: None, 3: 12, 4: 0}, REST))
    known.observe(tick(40_000, {1: None, 2: None, 3: None, 4: 12}, (4,), epoch=1))
    of_two = next(a for a in known.absences() if a.broker == 2)
    assert of_two.bound_ms == bound(0)


def test_the_smallest_retention_in_force_since_counts() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    far = SETTINGS_MS * 2
    known.observe(tick(far, {1: 10, 2: None, 3: 10}, REST))
    known.observe(tick(far + 2_000, {1: 11, 2: None, 3: 11}, REST))
    known.observe(tick(far + 4_000, {1: 11, 2: None, 3: 11}, REST, retention=HOUR // 2))
    known.observe(tick(far + 6_000, {1: 11, 2: None, 3: 11}, REST, retention=4 * HOUR))
    assert only(known).bound_ms == bound(far, HOUR // 2)


def test_a_retention_that_was_raised_shortly_before_counts_as_it_was() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(SETTINGS_MS - 10_000, {1: 10, 2: None, 3: 10}, REST, retention=9 * HOUR))
    assert only(known).retention_ms == HOUR
    known.observe(tick(3 * SETTINGS_MS, {1: 10, 2: None, 3: 10}, REST, retention=9 * HOUR))
    assert only(known).retention_ms == 9 * HOUR


def test_without_the_settings_no_bound_is_known() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL, retention=None))
    known.observe(tick(2_000, {1: 10, 2: None, 3: 10}, REST, retention=None))
    assert (only(known).bound_ms, only(known).unclear) == (None, Unclear.SETTINGS)


def test_settings_count_as_known_until_they_are_asked_for_again() -> None:
    every = 4 * SETTINGS_MS
    known = Clock(clock_skew_ms=SKEW, look_ms=LOOK, metadata_ms=every + 2 * LOOK)
    for at in range(0, 2 * every, 10_000):
        isr = ALL if at < every - 20_000 else REST
        looks = tick(at, {1: 10, 2: 10 if isr == ALL else None, 3: 10}, isr)
        known.observe([look._replace(policy_at_ms=START + at // every * every) for look in looks])
    assert only(known).bound_ms == bound(2 * every - 10_000)
    known.observe(
        [look._replace(policy_at_ms=START + every) for look in tick(3 * every, {1: 10, 2: None, 3: 10}, REST)]
    )
    assert only(known).unclear is Unclear.SETTINGS


def test_settings_that_were_seen_only_after_the_absence_began_give_no_bound() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL, retention=None))
    known.observe(tick(2_000, {1: 12, 2: None, 3: 12}, REST, retention=None))
    known.observe(tick(60_000, {1: 12, 2: None, 3: 12}, REST))
    assert only(known).unclear is Unclear.SETTINGS


def test_a_replica_that_was_away_before_the_watch_has_no_bound() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: None, 3: 10}, REST))
    assert (only(known).presence, only(known).unclear) == (Presence.AWAY, Unclear.BEFORE_WATCH)


def test_an_added_replica_has_no_bound_while_it_copies_what_is_older_than_the_watch() -> None:
    known = clock()
    known.observe(tick(0, {1: 100, 3: 100}, REST))
    known.observe(tick(2_000, {1: 100, 3: 100, 2: 40}, REST))
    assert (only(known).presence, only(known).unclear) == (Presence.COPYING, Unclear.COPYING)
    known.observe(tick(4_000, {1: 101, 3: 101, 2: 100}, REST))
    assert only(known).bound_ms == bound(2_000)


def test_a_copy_within_half_the_retention_is_not_late_and_a_longer_one_is() -> None:
    for took, is_late in ((HOUR // 2 - 20_000, False), (HOUR // 2 + 10_000, True)):
        known = clock()
        known.observe(tick(0, {1: 100, 3: 100}, REST))
        known.observe(tick(2_000, {1: 100, 3: 100, 2: 40}, REST))
        known.observe(tick(2_000 + took, {1: 100, 3: 100, 2: 100}, ALL))
        assert bool(known.late()) == is_late


def test_a_replica_that_was_there_and_behind_when_the_watch_began_is_late_as_it_copies() -> None:
    known = clock()
    known.observe(tick(0, {1: 100, 2: 50, 3: 100}, REST))
    assert (only(known).presence, only(known).unclear) == (Presence.BEHIND, Unclear.BEFORE_WATCH)
    (late,) = known.observe(tick(5_000, {1: 100, 2: 80, 3: 100}, REST))
    known.observe(tick(10_000, {1: 100, 2: 100, 3: 100}, ALL))
    assert (late.broker, known.absences()) == (2, [])


def test_an_empty_replica_is_being_added_and_one_that_returns_may_have_its_old_log() -> None:
    known = clock()
    known.observe(tick(0, {1: 100, 2: 0, 3: 100}, REST))
    assert only(known).presence is Presence.COPYING
    known.observe(tick(2_000, {1: 100, 2: 50, 3: 100}, REST))
    assert (only(known).presence, known.late()) == (Presence.COPYING, [])
    known.observe(tick(4_000, {1: 100, 3: 100}, REST))
    known.observe(tick(6_000, {1: 100, 2: 50, 3: 100}, REST))
    assert (only(known).presence, only(known).unclear) == (Presence.BEHIND, Unclear.BEFORE_WATCH)


def test_a_copy_counts_from_when_it_was_last_seen_not_to_have_begun() -> None:
    known = clock()
    known.observe(tick(0, {1: 100, 3: 100}, REST))
    known.observe(tick(HOUR // 2, {1: 100, 2: 40, 3: 100}, REST))
    known.observe(tick(HOUR // 2 + 2_000, {1: 100, 2: 100, 3: 100}, ALL))
    assert [late.broker for late in known.late()] == [2]


def copying() -> Clock:
    """Broker 2 is being added, and copies from broker 1."""
    known = clock()
    known.observe(tick(0, {1: 100, 3: 100}, REST))
    known.observe(tick(2_000, {1: 100, 2: 40, 3: 100}, REST))
    return known


def test_an_added_replica_that_copies_from_two_leaders_is_late() -> None:
    known = copying()
    known.observe(tick(4_000, {1: 100, 2: 40, 3: 100}, (3, 1), epoch=1))
    assert (known.late(), only(known).unclear) == ([], Unclear.BEFORE_WATCH)
    known.observe(tick(6_000, {1: 100, 2: 100, 3: 100}, (3, 1, 2), epoch=1))
    assert [late.broker for late in known.late()] == [2]
    for isr, epoch in (((3, 1, 2), 1), ((1, 2, 3), 2), ((2, 1, 3), 2)):
        known = copying()
        known.observe(tick(4_000, {1: 100, 2: 100, 3: 100}, isr, epoch=epoch))
        assert [late.broker for late in known.late()] == [2], "nobody saw who led in between"


def test_an_added_replica_that_was_in_sync_before_another_one_led_is_not_late() -> None:
    known = copying()
    known.observe(tick(4_000, {1: 100, 2: 100, 3: 100}, (2, 1, 3), epoch=1))
    assert known.late() == [], "it leads itself"
    known = copying()
    known.observe(tick(4_000, {2: 100, 3: 100}, (3, 2), epoch=1))
    assert known.late() == [], "the old leader was taken off once all were in sync"
    known = copying()
    known.observe(tick(4_000, {1: 100, 2: 100, 3: 100}, (1, 2, 3), epoch=1))
    assert known.late() == [], "the same one leads on"


def test_a_replica_in_sync_that_does_not_answer_us_has_what_is_committed() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    for at in range(2_000, 200_000, 10_000):
        known.observe(tick(at, {1: at, 2: None, 3: at}, ALL))
    assert known.absences() == []


def test_a_replica_that_trails_for_long_is_behind_though_it_is_in_sync() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 20, 2: 10, 3: 20}, ALL))
    assert known.absences() == []
    known.observe(tick(TRAILING_MS + 2_000, {1: 20, 2: 10, 3: 20}, ALL))
    assert (only(known).presence, only(known).bound_ms) == (Presence.BEHIND, bound(0))


def test_a_high_watermark_that_stands_still_makes_nobody_absent() -> None:
    known = clock()
    for at in range(0, 3 * TRAILING_MS, 10_000):
        marks = dict.fromkeys(ALL, 10)
        known.observe(tick(at, {1: 20, 2: 20, 3: 20}, ALL, marks=marks))
    assert known.absences() == []


def test_a_replica_that_is_back_within_its_bound_is_not_late() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 12, 2: None, 3: 12}, REST))
    assert known.observe(tick(HOUR - SKEW - LOOK - 1, {1: 12, 2: 12, 3: 12}, ALL)) == []
    assert (known.absences(), known.late()) == ([], [])


def test_a_replica_that_is_back_after_its_bound_is_late_until_an_audit_that_began_since() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 12, 2: None, 3: 12}, REST))
    (late,) = known.observe(tick(HOUR, {1: 12, 2: 12, 3: 12}, ALL))
    assert (late.broker, late.at_ms, known.absences()) == (2, START + HOUR, [])
    known.audited(PLACE, START + HOUR - 1)
    assert known.late() == [late]
    known.audited(TopicPartition("orders", 1), START + HOUR + 1)
    assert known.late() == [late]
    known.audited(PLACE, START + HOUR + 1)
    assert known.late() == []


def late_one() -> Clock:
    """Broker 2 copied something too late, and is in sync."""
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 12, 2: None, 3: 12}, REST))
    known.observe(tick(HOUR, {1: 12, 2: 12, 3: 12}, ALL))
    assert len(known.late()) == 1
    return known


def test_a_replica_is_late_until_its_topic_is_another_one() -> None:
    known = late_one()
    known.observe(tick(HOUR + 1_000, {1: 0, 2: 0, 3: 0}, ALL, topic_id="b"))
    assert known.late() == []


def test_a_replica_is_late_until_it_is_unassigned_for_longer_than_metadata_may_be_old() -> None:
    known = late_one()
    known.observe(tick(HOUR + 1_000, {1: 12, 3: 12}, REST))
    known.observe(tick(HOUR + METADATA, {1: 12, 3: 12}, REST))
    assert len(known.late()) == 1
    known.observe(tick(HOUR + METADATA + 2_000, {1: 12, 3: 12}, REST))
    assert known.late() == []


def test_a_replica_that_old_metadata_did_not_name_stays_late() -> None:
    known = late_one()
    known.observe(tick(HOUR + 1_000, {1: 12, 3: 12}, REST))
    for at in (HOUR + 2_000, HOUR + 3 * METADATA):
        known.observe(tick(at, {1: 12, 2: 12, 3: 12}, ALL))
    known.observe(tick(HOUR + 3 * METADATA + 1_000, {1: 12, 3: 12}, REST))
    assert len(known.late()) == 1


def test_a_replica_that_copies_after_its_bound_is_late_though_the_bound_moves_with_it() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 12, 2: None, 3: 12}, REST))
    known.observe(tick(HOUR - 20_000, {1: 12, 2: None, 3: 12}, REST))
    known.observe(tick(HOUR, {1: 90, 2: 11, 3: 90}, REST))
    known.observe(tick(HOUR + 2_000, {1: 90, 2: 90, 3: 90}, ALL))
    assert [late.broker for late in known.late()] == [2]


def test_a_replica_that_lost_its_own_tail_is_bound_by_what_it_has_left() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(100_000, {1: 20, 2: 20, 3: 20}, ALL))
    known.observe(tick(102_000, {1: 20, 2: None, 3: 20}, REST))
    assert only(known).bound_ms == bound(102_000)
    known.observe(tick(104_000, {1: 20, 2: 12, 3: 20}, REST))
    assert only(known).bound_ms == bound(0)


def test_what_was_seen_of_a_topic_of_the_same_name_does_not_count() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 1, 2: None, 3: 1}, REST, topic_id="b"))
    assert only(known).unclear is Unclear.BEFORE_WATCH


def test_a_topic_that_is_not_compacted_has_no_clock_and_one_of_unknown_policy_has() -> None:
    for policy, count in (("delete", 0), ("compact,delete", 1), (None, 1)):
        known = clock()
        known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL, policy=policy))
        known.observe(tick(2_000, {1: 10, 2: None, 3: 10}, REST, policy=policy))
        assert len(known.absences()) == count


def test_a_replica_that_is_taken_from_a_broker_is_not_absent() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(2_000, {1: 10, 2: None, 3: 10}, REST))
    known.observe(tick(HOUR, {1: 10, 3: 10}, REST))
    assert (known.absences(), known.late()) == ([], [])


def test_partitions_of_which_nothing_is_said_any_more_are_forgotten() -> None:
    known = clock()
    other = TopicPartition("gone", 0)
    known.observe(tick(0, {1: 10, 2: None, 3: 10}, REST, place=other))
    known.observe(tick(FORGET_MS + 1_000, {1: 10, 2: 10, 3: 10}, ALL))
    assert known.absences() == []


def test_a_long_absence_keeps_few_looks() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    for i in range(1, 40):
        known.observe(tick(2_000 * i, {1: 10 + i, 2: 10 + i, 3: 10 + i}, ALL))
    for i in range(40, 500):
        known.observe(tick(2_000 * i, {1: 10 + i, 2: None, 3: 10 + i}, REST))
    assert only(known).bound_ms == bound(39 * 2_000)
    assert max(len(p.ends) for p in known._partitions.values()) <= 24


def test_the_smallest_retention_is_that_of_all_looks_since() -> None:
    rng = random.Random(7)
    for _ in range(200):
        known, seen = Retentions(), []
        for at in range(0, 40 * SETTINGS_MS, 2 * SETTINGS_MS):
            seen.append((at, rng.randint(1, 5)))
            known.see(*seen[-1])
        since = rng.randrange(0, 38) * SETTINGS_MS
        # The value of the look before may have been in force until the next one.
        after = [i for i, (at, _) in enumerate(seen) if at >= since - SETTINGS_MS]
        expected = min(value for _, value in seen[max(0, after[0] - 1) :])
        assert known.smallest_since(since, 38 * SETTINGS_MS) == expected


def test_no_bound_is_later_for_leaving_out_looks() -> None:
    rng = random.Random(3)
    for _ in range(100):
        whole, part = clock(), clock()
        end, mine = 10, 10
        for i in range(14):
            end += rng.choice((0, 0, 1, 5))
            is_away = i > 7
            mine = mine if is_away else end - rng.choice((0, 0, 2))
            looks = tick(2_000 * i, {1: end, 2: None if is_away else mine, 3: end}, REST if is_away else ALL)
            whole.observe(looks)
            part.observe([look for look in looks if i == 13 or (look.broker == 2) or rng.random() < 0.5])
        of_part = only(part).bound_ms
        assert of_part is None or of_part <= (only(whole).bound_ms or 0)


def away(known: Clock, at: int = 2_000) -> None:
    """Broker 2 is away, and lacks something."""
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    known.observe(tick(at, {1: 12, 2: None, 3: 12}, REST))


def held(known: Clock, *times: int, brokers: tuple[int, ...] = REST, **said: Any) -> list[Late]:
    """Looks that show who cleans nothing, in ms after the start; each takes half a second."""
    found = []
    for at in times:
        look = Paused("orders", said.get("topic_id", "a"), frozenset(brokers), START + at, START + at + 500, {})
        found += known.paused([look._replace(since=said.get("since", {}))])
    return found


BOUND = HOUR - SKEW - LOOK


def minutes(since: int, until: int) -> range:
    return range(since, until, 10_000)


def test_while_a_topic_is_held_since_before_its_bound_the_bound_is_not_passed() -> None:
    known = clock()
    away(known)
    held(known, *minutes(BOUND - 60_000, 2 * HOUR))
    assert (only(known).bound_ms, only(known).is_held) == (START + 2 * HOUR - 10_000 + (BOUND - 60_000) % 10_000, True)


def test_a_replica_that_copies_after_its_bound_while_the_topic_is_held_is_not_late() -> None:
    known = clock()
    away(known)
    held(known, *minutes(BOUND - 60_000, 2 * HOUR))
    assert known.observe(tick(2 * HOUR, {1: 12, 2: 12, 3: 12}, ALL)) == []
    assert [one.broker for one in known.unsettled()] == [2], "nobody has looked since whether it is still held"
    assert held(known, 2 * HOUR + 1_000) == []
    assert (known.unsettled(), known.late(), known.absences()) == ([], [], [])


def test_one_that_copies_when_the_hold_is_over_is_late_also_where_nobody_looked_in_between() -> None:
    for looks in ((), (HOUR + 300_000,)):
        known = clock()
        away(known)
        held(known, *minutes(BOUND - 60_000, HOUR + 300_000))
        held(known, *looks, brokers=())
        found = known.observe(tick(HOUR + 301_000, {1: 12, 2: 12, 3: 12}, ALL))
        found += held(known, HOUR + 302_000, brokers=())
        assert [one.broker for one in found] == [2]


def test_one_of_which_nobody_looks_any_more_whether_it_was_held_is_late() -> None:
    known = clock()
    away(known)
    held(known, *minutes(BOUND - 60_000, HOUR + 300_000))
    assert known.observe(tick(HOUR + 301_000, {1: 12, 2: 12, 3: 12}, ALL)) == []
    (late,) = known.observe(tick(HOUR + 301_000 + 2 * GAP_MS, {1: 12, 2: 12, 3: 12}, ALL))
    assert (late.broker, late.at_ms) == (2, START + HOUR + 301_000)


def test_after_the_hold_the_bound_is_the_last_look_that_showed_it() -> None:
    known = clock()
    away(known)
    held(known, *minutes(BOUND - 60_000, BOUND), HOUR)
    held(known, HOUR + 1_000, HOUR + 2_000, brokers=())
    assert (only(known).bound_ms, only(known).is_held) == (START + HOUR, False)


def test_a_hold_does_not_count_if_it_is_late_partial_or_of_another_topic() -> None:
    late = {"times": (BOUND, HOUR, HOUR + 10_000)}
    part = {"times": tuple(minutes(BOUND - 60_000, HOUR)), "brokers": (1,)}
    other = {"times": tuple(minutes(BOUND - 60_000, HOUR)), "topic_id": "b"}
    for said in (late, part, other):
        known = clock()
        away(known)
        held(known, *said.pop("times"), **said)
        assert (only(known).bound_ms, only(known).is_held) == (START + BOUND, False)


def test_a_hold_that_was_not_looked_at_for_a_while_counts_anew() -> None:
    known = clock()
    away(known)
    held(known, BOUND - 60_000, BOUND - 60_000 + GAP_MS + 1, BOUND - 60_000 + 3 * GAP_MS)
    assert not only(known).is_held
    assert only(known).bound_ms == START + BOUND


def test_a_hold_on_record_counts_from_when_it_was_seen() -> None:
    known = clock()
    away(known)
    held(known, 2 * HOUR, since={1: START + HOUR // 2, 3: START + HOUR // 2})
    assert (only(known).bound_ms, only(known).is_held) == (START + 2 * HOUR, True)


def test_a_bound_that_a_deposed_leader_had_told_is_none_for_a_hold_either() -> None:
    known = clock()
    known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    for at in range(2_000, 40_000, 2_000):
        known.observe(tick(at, {1: 10, 2: None, 3: 10}, REST, retention=30_000))
    bound_ms = only(known).bound_ms
    assert bound_ms is not None
    # It is seen to be held just before that bound, and the last looks turn out to be those of a deposed leader.
    held(known, bound_ms - START - 1_000)
    known.observe(tick(bound_ms - START, {1: 10, 2: None, 3: 25}, (3,), epoch=1, retention=30_000))
    of_two = next(one for one in known.absences() if one.broker == 2)
    assert not of_two.is_held
    assert (of_two.bound_ms or 0) < bound_ms


def test_a_bound_that_turns_earlier_while_a_topic_is_held_does_not_undo_the_hold() -> None:
    known = clock()
    away(known)
    known.observe(tick(BOUND - 60_000, {1: 12, 2: None, 3: 12}, REST))
    held(known, *minutes(BOUND - 180_000, BOUND))
    known.observe(tick(BOUND, {1: 12, 2: None, 3: 12}, REST, retention=1_000))
    assert only(known).is_held, "what is lowered while nothing is cleaned removes nothing"


def test_a_hold_that_lowers_what_another_had_raised_does_not_undo_what_was_judged_by_neither() -> None:
    known = clock()
    away(known)
    known.observe(tick(BOUND - 60_000, {1: 12, 2: None, 3: 12}, REST, retention=4 * HOUR))
    held(known, *minutes(BOUND - 60_000, 2 * HOUR))
    assert known.observe(tick(2 * HOUR, {1: 12, 2: 12, 3: 12}, ALL, retention=3 * HOUR)) == []
    assert held(known, 2 * HOUR + 1_000) == []
    assert known.late() == []


def test_a_hold_is_judged_by_a_retention_that_may_have_been_lowered_before_it() -> None:
    for lower, is_held in ((30_000, False), (HOUR // 2, True)):
        known = clock()
        away(known)
        known.observe(tick(100_000, {1: 12, 2: None, 3: 12}, REST))
        other = TopicPartition("orders", 1)
        known.observe(tick(0, {1: 10, 2: 10, 3: 10}, ALL, place=other))
        known.observe(tick(100_000, {1: 12, 2: None, 3: 12}, REST, place=other))
        held(known, 110_000)
        assert [one.is_held for one in known.absences()] == [True, True]
        known.observe(tick(115_000, {1: 12, 2: None, 3: 12}, REST, retention=lower))
        held(known, 116_000)
        assert {one.place: one.is_held for one in known.absences()} == {PLACE: is_held, other: False}
        known.observe(tick(117_000, {1: 12, 2: None, 3: 12}, REST, retention=lower, place=other))
        assert [one.is_held for one in known.absences()] == [is_held, is_held]


def test_a_topic_that_is_too_short_to_be_watched_is_that_whatever_else_is_unclear() -> None:
    known = clock()
    # It is away from the first look on.
    known.observe(tick(0, {1: 10, 2: None, 3: 10}, REST, retention=SKEW + LOOK))
    assert only(known).unclear is Unclear.NO_TIME
    known.observe(tick(2_000, {1: 10, 2: 10, 3: 10}, ALL, retention=SKEW + LOOK))
    assert not any(one.is_of_an_outage for one in known.late())
