"""The model of the cluster against worked examples of what Kafka's brokers do."""

from __future__ import annotations

import pytest

from tests.simulation.cluster import Cluster
from tests.simulation.records import End, Limits
from tests.simulation.replica import Replica

RETENTION = 1_000
FOREVER = 10**9


def cluster(expiration: int = FOREVER) -> Cluster:
    return Cluster(Limits(delete_retention=RETENTION, producer_expiration=expiration))


def plain(c: Cluster, key: int, value: int | None) -> int:
    c.write([(key, value)])
    return c.leading.leo - 1


def turn(c: Cluster, ms: int = 200) -> None:
    """Let time pass, close the segment with a filler record, replicate, and clean every live broker once."""
    c.tick(ms)
    plain(c, 99, c.now)
    c.sync()
    for broker in c.replicas:
        c.clean(broker)


def offsets(replica: Replica) -> list[int]:
    return [r.offset if r else b.base for b, r in replica.held(0, replica.leo) if not (r and r.key == 99)]


def markers(replica: Replica) -> list[tuple[int, End]]:
    return [(b.base, b.marker) for b in replica.batches if b.marker is not None]


def at(replica: Replica, offset: int):
    return next((b for b in replica.batches if b.base <= offset <= b.last), None)


LEGACY, VERSION2 = 0, 1


def test_a_new_disk_is_copied_from_what_the_leader_holds_now() -> None:
    c = cluster()
    plain(c, 1, 10)
    plain(c, 1, 11)
    turn(c)
    assert c.wipe(1)
    assert (c.leader, c.replicas[1].leo, c.replicas[1].up, c.isr) == (2, 0, False, {2, 3})
    turn(c)
    c.start(1)
    c.sync()
    assert offsets(c.replicas[1]) == offsets(c.replicas[2]) == [1]
    assert c.isr == {1, 2, 3}
    assert c.replicas[1].epochs == [(0, 1), (1, 3)]


def test_a_replica_that_is_given_back_begins_again_and_remembers_what_it_had_ended() -> None:
    c = cluster()
    c.write([(1, 10)], writer=LEGACY)
    c.end(LEGACY, End.COMMIT)
    c.sync()
    assert c.unassign(1)
    assert (c.leader, set(c.replicas), c.isr) == (2, {2, 3}, {2, 3})
    assert c.assign(1)
    assert (c.replicas[1].leo, c.replicas[1].ended) == (0, [])
    assert [e.end for e in c.replicas[1].past] == [End.COMMIT]
    assert not c.assign(1)
    c.sync()
    assert offsets(c.replicas[1]) == [0, 1]


def test_the_last_replica_in_sync_keeps_its_disk() -> None:
    c = cluster()
    c.stop(2)
    c.stop(3)
    assert not c.wipe(1)
    assert not c.unassign(1)


def test_an_unclean_election_takes_from_all_what_the_new_leader_lacks() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.sync()
    c.stop(3)
    plain(c, 1, 11)
    c.write([(2, 20)], writer=LEGACY)
    c.sync()
    assert not c.usurp(1)
    assert c.usurp(3)
    assert (c.leader, c.isr, [r.up for r in c.replicas.values()]) == (3, {3}, [False, False, True])
    assert [b.base for b in c.lost] == [1, 2]
    assert not c.writers[LEGACY].open
    plain(c, 1, 12)
    c.start(1)
    c.sync()
    assert [(b.base, b.leader_epoch) for b in c.replicas[1].batches] == [(0, 0), (1, 1)]
    assert (c.cuts[1][0].start, c.cuts[1][0].end, c.isr) == (1, 3, {1, 3})
    assert c.replicas[1].epoch_end(0) == (0, 1)


def test_a_log_that_is_truncated_below_its_start_begins_there() -> None:
    """As ``UnifiedLog.truncateTo`` has it: a log never begins above its end."""
    c = cluster()
    plain(c, 1, 10)
    c.sync()
    c.stop(3)
    for value in (11, 12):
        c.tick(200)
        plain(c, 1, value)
    c.sync()
    c.usurp(3)
    assert all(c.damage(1, Replica.lose_head) for _ in range(2))
    assert c.replicas[1].log_start == 2
    plain(c, 1, 13)
    c.start(1)
    c.sync()
    log = c.replicas[1]
    assert (log.log_start, log.leo, log.segments, log.epochs) == (1, 2, [1], [(1, 1)])


def test_a_leader_without_records_gives_up_its_epoch_for_a_log_that_goes_on_below() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.sync()
    plain(c, 1, 11)
    c.stop(1)
    assert c.leader == 2
    assert c.usurp(1)
    assert c.lost == []
    c.start(2)
    c.sync()
    assert [(b.base, b.leader_epoch) for b in c.replicas[2].batches] == [(0, 0), (1, 0)]
    assert (c.replicas[2].epochs, c.replicas[2].epoch_end(0)) == ([(0, 0)], (0, 2))


def test_an_end_marker_that_all_have_lost_leaves_its_transaction_open_on_all() -> None:
    c = cluster()
    c.write([(1, 10)], writer=LEGACY)
    c.sync()
    c.stop(3)
    c.end(LEGACY, End.COMMIT)
    c.sync()
    c.usurp(3)
    c.start(1)
    c.sync()
    assert [c.replicas[b].open_transactions() for b in (1, 3)] == [{100: (0, 0)}] * 2
    assert [e.end for e in c.replicas[1].past] == [End.COMMIT]
    assert c.writers[LEGACY].open


def test_a_log_tells_where_an_epoch_ends() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.sync()
    c.lead(2)
    c.lead(3)
    plain(c, 1, 11)
    c.sync()
    assert c.replicas[1].epochs == [(0, 0), (2, 1)]
    assert [c.replicas[1].epoch_end(epoch) for epoch in (0, 1, 2, 3)] == [(0, 1), (0, 1), (2, 2), None]


def test_a_record_is_dropped_only_once_a_later_one_of_its_key_lies_below_the_active_segment() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.tick(200)
    plain(c, 1, 11)
    c.sync()
    assert c.clean(1)
    assert offsets(c.replicas[1]) == [0, 1]
    turn(c)
    assert offsets(c.replicas[1]) == [1]


def test_a_pass_needs_something_new_in_a_closed_segment() -> None:
    c = cluster()
    plain(c, 1, 10)
    assert not c.clean(1)
    turn(c)
    assert not c.clean(1)


def test_a_tombstone_outlives_its_first_pass_by_the_delete_retention() -> None:
    c = cluster()
    plain(c, 1, 10)
    tombstone = plain(c, 1, None)
    turn(c)
    assert offsets(c.leading) == [tombstone]
    assert at(c.leading, tombstone).horizon == c.now + RETENTION
    turn(c)
    assert offsets(c.leading) == [tombstone]
    turn(c, RETENTION)
    assert offsets(c.leading) == []


def test_a_replica_that_lags_gets_the_delete_horizon_with_the_batch() -> None:
    c = cluster()
    c.stop(3)
    tombstone = plain(c, 1, None)
    turn(c)
    c.start(3)
    c.sync()
    assert at(c.replicas[3], tombstone).horizon == at(c.leading, tombstone).horizon is not None


@pytest.mark.parametrize("end", [End.ABORT, End.COMMIT])
def test_version_2_marker_goes_in_three_passes_and_leaves_an_empty_control_batch(end: End) -> None:
    c = cluster()
    c.write([(1, 10)], VERSION2)
    c.end(VERSION2, end)
    plain(c, 1, 11)
    turn(c)
    assert offsets(c.leading) == [1, 2]
    assert at(c.leading, 0) is None
    assert at(c.leading, 1).horizon is None
    turn(c)
    assert at(c.leading, 1).horizon == c.now + RETENTION
    turn(c, RETENTION)
    remnant = at(c.leading, 1)
    assert remnant.control
    assert remnant.marker is None
    assert remnant.horizon is None


def test_legacy_data_batch_stays_empty_and_holds_its_marker_until_the_producer_expires() -> None:
    c = cluster(expiration=5_000)
    c.write([(1, 10)], LEGACY)
    c.end(LEGACY, End.ABORT)
    for _ in range(4):
        turn(c, RETENTION)
    assert at(c.leading, 0).records == ()
    assert markers(c.leading) == [(1, End.ABORT)]
    assert at(c.leading, 1).horizon is None
    for _ in range(6):
        turn(c, RETENTION)
    assert at(c.leading, 0) is None
    assert markers(c.leading) == []


def test_legacy_marker_goes_once_the_producer_has_written_a_newer_data_batch() -> None:
    c = cluster()
    c.write([(1, 10)], LEGACY)
    c.end(LEGACY, End.ABORT)
    c.write([(2, 20)], LEGACY)
    c.end(LEGACY, End.COMMIT)
    for _ in range(4):
        turn(c, RETENTION)
    assert at(c.leading, 0) is None
    assert markers(c.leading) == [(3, End.COMMIT)]


def test_a_commit_marker_stays_while_a_record_of_its_transaction_is_the_latest_of_its_key() -> None:
    c = cluster()
    c.write([(1, 10)], VERSION2)
    c.end(VERSION2, End.COMMIT)
    for _ in range(4):
        turn(c, RETENTION)
    assert markers(c.leading) == [(1, End.COMMIT)]
    assert at(c.leading, 1).horizon is None


def test_the_last_batch_below_the_bound_is_kept_empty() -> None:
    c = cluster()
    c.write([(1, 10)], VERSION2)
    c.tick(200)
    c.end(VERSION2, End.ABORT)
    c.sync()
    assert c.clean(1)
    assert at(c.leading, 0).records == ()
    turn(c)
    assert at(c.leading, 0) is None


def test_the_cleaner_leaves_the_segment_of_the_last_stable_offset_alone() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.write([(2, 20)], LEGACY)
    for _ in range(4):
        turn(c)
    assert c.leading.lso == 1
    assert offsets(c.leading) == [0, 1]
    assert c.leading.cleanable_to() == 0


def test_an_earlier_aborted_transaction_says_nothing_of_the_records_of_the_next() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.write([(2, 20)], VERSION2)
    c.end(VERSION2, End.ABORT)
    turn(c)
    c.write([(1, None)], VERSION2)
    c.end(VERSION2, End.COMMIT)
    turn(c)
    turn(c)
    assert 0 not in offsets(c.leading)


def test_an_open_transaction_never_expires() -> None:
    c = cluster(expiration=500)
    c.write([(1, 10)], LEGACY)
    turn(c, 10_000)
    assert list(c.leading.open_transactions().values()) == [(0, 0)]


def test_an_empty_data_batch_opens_the_transaction_on_a_follower_and_its_marker_ends_it() -> None:
    c = cluster()
    c.stop(3)
    c.write([(1, 10)], LEGACY)
    c.end(LEGACY, End.ABORT)
    turn(c)
    turn(c)
    c.start(3)
    c.fetch(3, 1)
    assert c.replicas[3].open_transactions() == {100: (0, 0)}
    c.sync()
    assert c.replicas[3].open_transactions() == {}
    assert c.replicas[3].lso == c.leading.lso


def test_followers_trail_with_the_high_watermark_by_a_fetch() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.fetch(2)
    c.fetch(3)
    assert (c.leading.hw, c.replicas[2].hw) == (0, 0)
    c.fetch(2)
    c.fetch(3)
    assert (c.leading.hw, c.replicas[2].hw, c.replicas[3].hw) == (1, 0, 1)
    c.fetch(2)
    assert c.replicas[2].hw == 1


def test_an_ended_transaction_is_stable_only_once_its_marker_is_replicated() -> None:
    c = cluster()
    c.write([(1, 10)], LEGACY)
    c.sync()
    c.end(LEGACY, End.COMMIT)
    assert (c.leading.hw, c.leading.lso) == (1, 0)
    c.sync()
    assert [r.lso for r in c.replicas.values()] == [2, 2, 2]


def test_a_deposed_leader_drops_what_the_new_one_never_got() -> None:
    c = cluster()
    c.write([(1, 10)], LEGACY)
    c.sync()
    c.end(LEGACY, End.ABORT)
    c.stop(1)
    assert c.leader == 2
    assert c.writers[LEGACY].open
    c.start(1)
    c.end(LEGACY, End.COMMIT)
    c.sync()
    assert markers(c.replicas[1]) == [(1, End.COMMIT)]
    assert c.replicas[1].aborted == []
    assert {r.lso for r in c.replicas.values()} == {2}


# -- the four divergences, as they were reproduced on real brokers -------------------------------------------------


def lose(c: Cluster, passes: int = 5) -> None:
    for _ in range(passes):
        turn(c, RETENTION)


def back(c: Cluster) -> None:
    c.start(2)
    c.sync()


def test_lost_tombstone_leaves_the_old_value_on_the_replica_that_was_away() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.sync()
    c.stop(2)
    plain(c, 1, None)
    lose(c)
    back(c)
    assert [offsets(r) for r in c.replicas.values()] == [[], [0], []]


@pytest.mark.parametrize("writer", [LEGACY, VERSION2])
def test_lost_abort_marker_and_a_later_commit_turn_aborted_into_committed(writer: int) -> None:
    c = cluster()
    c.write([(1, 10)], writer)
    c.sync()
    c.stop(2)
    c.end(writer, End.ABORT)
    if writer == LEGACY:
        c.write([(2, 20)], writer)
        c.end(writer, End.COMMIT)
    lose(c)
    if writer == VERSION2:
        c.write([(2, 20)], writer)
        c.end(writer, End.COMMIT)
    back(c)
    assert 0 in offsets(c.replicas[2])
    assert c.replicas[2].ended[0].end is End.COMMIT
    assert c.replicas[2].lso == c.leading.lso


def test_lost_commit_marker_and_a_later_abort_hide_what_was_committed() -> None:
    c = cluster()
    plain(c, 1, 10)
    c.write([(1, None)], VERSION2)
    c.sync()
    c.stop(2)
    c.end(VERSION2, End.COMMIT)
    lose(c)
    first = c.leading.leo
    c.write([(2, 20)], VERSION2)
    c.end(VERSION2, End.ABORT)
    back(c)
    pid = c.writers[VERSION2].producer_id
    assert [(a.producer_id, a.first) for a in c.replicas[2].aborted] == [(pid, 1)]
    assert [(a.producer_id, a.first) for a in c.replicas[1].aborted] == [(pid, first)]
    assert offsets(c.replicas[2])[0] == 0


def test_lost_marker_pins_the_last_stable_offset() -> None:
    c = cluster()
    c.write([(1, 10)], VERSION2)
    c.sync()
    c.stop(2)
    c.end(VERSION2, End.COMMIT)
    plain(c, 1, 11)
    lose(c)
    back(c)
    assert c.replicas[2].lso == 0
    assert c.replicas[2].hw == c.leading.hw == c.leading.lso
    c.tick(FOREVER)
    assert c.replicas[2].lso == 0


def test_an_outage_below_the_delete_retention_loses_nothing() -> None:
    c = cluster()
    c.write([(1, 10)], VERSION2)
    plain(c, 3, 30)
    c.sync()
    c.stop(2)
    c.end(VERSION2, End.ABORT)
    plain(c, 3, None)
    for _ in range(4):
        turn(c, RETENTION // 5)
    back(c)
    lose(c)
    assert [r.lso for r in c.replicas.values()] == [c.leading.hw] * 3
    assert [[o for o in offsets(r) if o < 5] for r in c.replicas.values()] == [[], [], []]
