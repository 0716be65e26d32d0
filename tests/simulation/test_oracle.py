"""The oracle finds wrong what is wrong in worked examples."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation import oracle, properties
from tests.simulation.cluster import Cluster
from tests.simulation.oracle import Span, judge
from tests.simulation.records import End, Limits
from tests.simulation.replica import Replica
from tests.simulation.tombstones import FOREVER, VERSION2, cluster, lose_tombstone, miss_tombstone, turn


def without(c: Cluster, broker: int, end: End) -> None:
    """The end marker of the first writer's transaction comes and goes while a broker is away."""
    c.sync()
    c.stop(broker)
    c.end(VERSION2, end)
    for _ in range(5):
        turn(c, 1_001)


def test_a_replica_that_lacks_what_a_cleaner_may_have_taken_is_right() -> None:
    c = cluster()
    for value in (1, 2, 3):
        c.write([(7, value)])
        turn(c, 1_001)
    assert judge(c, compacted=True) == {}


def test_who_missed_the_tombstone_is_wrong_in_its_key_until_it_is_written_again() -> None:
    c = cluster()
    lose_tombstone(c)
    assert judge(c, compacted=True) == {3: oracle.Wrong(keys=frozenset({7}), unlike=frozenset({7}))}
    c.write([(7, 2)])
    c.sync()
    assert judge(c, compacted=True) == {}


def test_all_that_missed_it_are_wrong_however_many_they_are() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.sync()
    miss_tombstone(c, 7, 3, 2)
    assert set(judge(c, compacted=True)) == {2, 3}


def test_who_missed_the_marker_hangs_and_then_has_turned_the_transaction() -> None:
    c = cluster()
    c.write([(7, 1)], VERSION2)
    without(c, 3, End.ABORT)
    c.start(3)
    c.sync()
    hanging = judge(c, compacted=True)[3]
    assert (hanging.stops_at, [s.first for s in hanging.hanging], hanging.turned) == (0, [0], ())
    c.write([(8, 2)], VERSION2)
    c.end(VERSION2, End.COMMIT)
    c.sync()
    turned = judge(c, compacted=True)[3]
    assert (turned.stops_at, turned.keys) == (None, {7})
    assert turned.turned == ((Span(101, 0, c.leading.leo - 1), frozenset({0})),)
    c.write([(7, 3)])
    c.sync()
    assert (judge(c, compacted=True)[3].keys, judge(c, compacted=True)[3].turned) == (set(), turned.turned)


def test_an_end_marker_that_was_never_replicated_has_ended_nothing() -> None:
    c = cluster()
    c.write([(7, 1)], VERSION2)
    c.sync()
    c.end(VERSION2, End.ABORT)
    assert c.lead(2)
    assert [(e.marker, e.end) for e in c.replicas[1].ended] == [(1, End.ABORT)]
    assert judge(c, compacted=True) == {}


def test_an_aborted_tombstone_of_a_key_that_was_deleted_before_misleads_nobody() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.write([(7, None)], VERSION2)
    c.sync()
    c.stop(3)
    c.end(VERSION2, End.ABORT)
    c.write([(7, None)])
    for _ in range(5):
        turn(c, 1_001)
    c.write([(8, 2)], VERSION2)
    c.end(VERSION2, End.COMMIT)
    c.start(3)
    c.sync()
    wrong = judge(c, compacted=True)[3]
    assert (wrong.keys, [offsets for _, offsets in wrong.turned]) == (set(), [frozenset({1})])


def test_an_aborted_record_may_be_shown_to_read_uncommitted_consumers_or_not() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.write([(7, 2)], VERSION2)
    c.end(VERSION2, End.ABORT)
    for _ in range(2):
        c.tick(200)
        c.write([(99, 1)])
        c.sync()
        c.clean(1)
    assert [sum(r.key == 7 for b in c.replicas[at].batches for r in b.records) for at in (1, 2)] == [1, 2]
    assert judge(c, compacted=True) == {}


def test_an_aborted_record_misleads_nobody_though_the_tombstone_behind_it_is_lost() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.write([(7, None)])
    c.write([(7, 2)], VERSION2)
    c.end(VERSION2, End.ABORT)
    c.sync()
    c.stop(3)
    c.write([(7, None)])
    for _ in range(4):
        turn(c, 1_001)
    c.start(3)
    c.sync()
    assert [r.value for b in c.replicas[3].batches for r in b.records if r.key == 7] == [1, None, 2]
    assert judge(c, compacted=True) == {}


def test_a_replica_whose_index_of_aborted_transactions_is_lost_is_wrong() -> None:
    c = cluster()
    c.write([(7, 1)], VERSION2)
    c.end(VERSION2, End.ABORT)
    c.sync()
    c.stop(2)
    assert c.damage(2, lambda replica: replica.lose_index(0))
    c.start(2)
    c.sync()
    assert (set(judge(c, compacted=True)), judge(c, compacted=True)[2].keys) == ({2}, {7})


def test_below_where_another_log_begins_a_replica_may_be_said_to_contradict_itself() -> None:
    c = cluster()
    c.write([(7, 1)], VERSION2)
    c.end(VERSION2, End.ABORT)
    c.sync()
    c.stop(2)
    assert c.damage(2, lambda replica: replica.lose_index(0))
    c.start(2)
    c.sync()
    c.trim(1)
    assert judge(c, compacted=True) == {}
    said = properties.Said("any", 2, frozenset(), "transaction", c.writers[VERSION2].producer_id, 0, 0)
    assert properties.confirmed(said, [{}], c) is None
    of_3 = properties.confirmed(replace(said, accused=3), [{}], c)
    assert of_3 is not None
    assert of_3.name == properties.NEVER_RIGHT


def test_what_had_healed_may_be_lost_again_with_a_log_that_is_truncated() -> None:
    c = cluster()
    lose_tombstone(c)
    now = judge(c, compacted=True)
    said = properties.Said("any", 3, frozenset(), "key", offset=1, key=7)
    assert now[3].keys == {7}
    assert properties.healed(said, c, now, []) is not None
    assert properties.healed(replace(said, cut_since=frozenset({2})), c, now, []) is not None
    assert properties.healed(replace(said, cut_since=frozenset({3})), c, now, []) is None


def test_a_healed_outcome_is_not_that_of_an_earlier_transaction_held_as_one_with_it() -> None:
    """Of a copy that got the first end marker emptied: to it the aborted record and the committed ones are one."""
    c = cluster()
    for end in (End.ABORT, End.COMMIT):
        c.write([(7, 1), (8, 1)], 0)
        c.end(0, end)
    c.sync()
    producer = c.writers[0].producer_id
    said = properties.Said("any", 3, frozenset(), "transaction", producer, start=3, offset=3, marker=5)

    def is_healed(turned: set[int], said: properties.Said = said) -> bool:
        wrong = oracle.Wrong(turned=((Span(producer, 0, 5), frozenset(turned)),))
        return properties.healed(said, c, {3: wrong}, []) is None

    assert is_healed({0, 1})
    assert not is_healed({1, 4})
    assert not is_healed({0, 1}, replace(said, start=0))
    assert not is_healed({3}, replace(said, start=4, offset=4)), "of one transaction, though its first record is gone"
    hanging = oracle.Wrong(hanging=frozenset({Span(producer, 0, 6)}))
    assert properties.healed(said, c, {3: hanging}, []) is not None


def test_what_stands_after_it_was_looked_at_again_is_wrong_still() -> None:
    c = cluster()
    lose_tombstone(c)
    said = properties.Said("any", 3, frozenset(), "key", offset=1, key=7)
    assert properties.stands(said, judge(c, compacted=True), c, []) is None
    c.write([(7, 3)])
    c.sync()
    now = judge(c, compacted=True)
    assert now == {}
    broken = properties.stands(said, now, c, [])
    assert broken is not None
    assert broken.name == properties.NEVER_RIGHT
    for other in (replace(said, everywhere=True), replace(said, many=True)):
        assert properties.stands(other, now, c, []) is None


def test_what_had_healed_by_a_newer_value_may_lack_the_next_one() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.write([(7, None)])
    c.write([(7, 2)])
    c.sync()
    miss_tombstone(c, 7, 3)
    now = judge(c, compacted=True)
    assert now[3].keys == {7}
    assert [oracle.newest_shown(c.replicas[b], 7) for b in (1, 3)] == [-1, 2]
    said = properties.Said("any", 3, frozenset(), "key", offset=1, key=7)
    assert properties.healed(said, c, now, []) is None
    assert properties.healed(replace(said, offset=3), c, now, []) is not None


def test_a_head_that_is_lost_is_missed_and_one_that_was_deleted_is_not() -> None:
    c = cluster()
    c.write([(7, 1)])
    turn(c)
    c.sync()
    c.stop(2)
    assert c.damage(2, Replica.lose_head)
    c.start(2)
    c.sync()
    assert judge(c, compacted=True)[2].keys == {7}
    c.trim(c.replicas[2].log_start)
    c.sync()
    assert judge(c, compacted=True) == {}


def test_the_truth_is_cut_to_what_an_unclean_leader_was_given_and_not_to_what_it_has_cleaned() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.write([(7, 2)])
    turn(c)
    c.stop(3)
    c.write([(7, 3)])
    c.sync()
    assert c.usurp(3)
    assert [r.value for b in c.history for r in b.records if r.key == 7] == [1, 2]
    c.start(1)
    c.start(2)
    c.sync()
    assert judge(c, compacted=True) == {}


def test_an_end_marker_that_the_truth_does_not_have_tells_nobody_the_outcome() -> None:
    """2 and 3 keep, below what they have of the new epoch, what the cluster has lost: both show the wrong outcome."""
    c = cluster((1, 2, 3, 4))
    c.write([(7, 1)], VERSION2)
    c.sync()
    c.stop(4)
    c.end(VERSION2, End.ABORT)
    c.sync()
    assert c.usurp(4)
    c.end(VERSION2, End.COMMIT)
    c.write([(7, 2), (8, 1)], VERSION2)
    c.end(VERSION2, End.COMMIT)
    for _ in range(5):
        turn(c, 1_001)
    c.start(1)
    c.sync()
    c.lead(1)
    turn(c)
    c.start(2)
    c.start(3)
    c.sync()
    held = {b: [batch.marker for batch in r.batches if batch.base == 1] for b, r in c.replicas.items()}
    assert held == {1: [], 2: [End.ABORT], 3: [End.ABORT], 4: []}
    now, truth = judge(c, compacted=True), oracle.truth_of(c)
    turned = [place for place in properties.places(truth, now) if place.what == "outcome"]
    assert [(place.broker, place.offset) for place in turned] == [(2, 0), (3, 0)]
    assert not any(properties.shows(c, truth, now, place, compacted=True) for place in turned)


def lose_the_commit(c: Cluster) -> None:
    """Broker 3 is away while a transaction on key 7 commits; the others clean it with the tombstone of its key."""
    c.write([(7, 1)], VERSION2)
    c.sync()
    c.stop(3)
    c.end(VERSION2, End.COMMIT)
    c.write([(7, None)])
    for _ in range(6):
        turn(c, 1_001)


def test_an_abort_that_others_lack_is_known_only_by_an_emptied_end_marker_behind_it() -> None:
    """A COMMIT was lost on 3, which has aborted the record; 1 and 2 have cleaned it with the tombstone of its key."""
    for expires, told in ((True, False), (False, True)):
        c = Cluster(Limits(delete_retention=1_000, producer_expiration=500 if expires else FOREVER))
        lose_the_commit(c)
        c.write([(8, 1)], VERSION2)
        c.end(VERSION2, End.ABORT)
        c.start(3)
        c.sync()
        now, truth = judge(c, compacted=True), oracle.truth_of(c)
        (place,) = (place for place in properties.places(truth, now) if place.what == "key")
        assert (place.broker, place.key) == (3, 7)
        assert [oracle.values_shown(r, 7, 0) for r in c.replicas.values()] == [(None, None)] * 3
        assert properties.shows(c, truth, now, place, compacted=True) is told


def test_an_emptied_end_marker_tells_nothing_of_a_key_that_was_rightly_aborted_behind_it() -> None:
    """3 lost the COMMIT of key 7, and has aborted it with a record of key 9; what key 9 held is lost on all."""
    c = Cluster(Limits(delete_retention=1_000, producer_expiration=FOREVER))
    c.write([(9, 5)])
    c.sync()
    assert all(replica.lose(0) for replica in c.replicas.values())
    lose_the_commit(c)
    c.write([(9, 1)], VERSION2)
    c.end(VERSION2, End.ABORT)
    c.start(3)
    c.sync()
    now, truth = judge(c, compacted=True), oracle.truth_of(c)
    keys = [place for place in properties.places(truth, now) if place.what == "key"]
    told = {(p.broker, p.key) for p in keys if properties.shows(c, truth, now, p, compacted=True)}
    assert ({(p.broker, p.key) for p in keys}, told) == ({(1, 9), (2, 9), (3, 7), (3, 9)}, {(3, 7)})


def test_a_follower_that_catches_up_over_a_cleaned_log_is_right() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.sync()
    c.stop(3)
    c.write([(8, 1)])
    c.write([(8, None)])
    c.write([(7, 2)])
    turn(c)
    turn(c)
    c.start(3)
    while c.fetch(3, 1):
        assert judge(c, compacted=True) == {}


def test_where_nothing_is_compacted_each_record_counts() -> None:
    c = cluster()
    for key in range(3):
        c.write([(key, 1)])
    c.sync()
    assert c.replicas[2].lose(0)
    assert judge(c, compacted=False)[2].offsets == {0}


def test_a_value_that_was_deleted_below_the_consumers_is_superseded_whatever_follows() -> None:
    c = cluster()
    lose_tombstone(c)
    kept = c.replicas[3]
    truth = oracle.truth_of(c)
    assert oracle.shows_superseded(truth, kept, 7, 0)
    assert not oracle.shows_superseded(truth, c.replicas[1], 7, 0)
    assert not oracle.shows_superseded(truth, kept, 8, 0)
    c.write([(7, 5)])
    assert oracle.shows_superseded(oracle.truth_of(c), kept, 7, 0), "it has not come there yet"
    c.sync()
    assert not oracle.shows_superseded(oracle.truth_of(c), kept, 7, 0)


def test_who_says_that_a_value_was_superseded_below_the_consumers_is_not_mistaken() -> None:
    c = cluster()
    lose_tombstone(c)
    c.stop(3)
    c.write([(7, 5)])
    c.sync()
    now = judge(c, compacted=True)
    assert now == {}, "the newer value is behind what its consumers were given"
    accusing = properties.Said("any", 3, frozenset(), "key", offset=1, key=7)
    differing = replace(accusing, accused=None, sides=frozenset({1, 3}))
    for said in (accusing, differing):
        assert properties.confirmed(said, [now], c) is None
        assert properties.confirmed(replace(said, key=8), [now], c) is not None
    assert properties.confirmed(replace(accusing, accused=1), [now], c) is not None


def hanging(c: Cluster) -> dict[int, oracle.Wrong]:
    """Brokers 2 and 3 missed the end of a transaction at offset 1. Key 7 is written at 0 and again at last."""
    c.write([(7, 1)])
    c.write([(8, 1)], VERSION2)
    c.sync()
    c.stop(2)
    without(c, 3, End.ABORT)
    c.start(2)
    c.start(3)
    c.write([(7, 2)])
    c.sync()
    return judge(c, compacted=True)


def test_two_differ_in_a_key_to_consumers_that_stop_at_one_offset_whatever_is_written_behind() -> None:
    c = cluster()
    now = hanging(c)
    assert {broker: (one.stops_at, one.unlike) for broker, one in now.items()} == {2: (1, set()), 3: (1, set())}
    said = properties.Said("any", None, frozenset({2, 3}), "key", offset=0, key=7)
    assert properties.confirmed(said, [now], c) is not None, "both show the value of offset 0"
    assert c.replicas[2].lose(0)
    now = judge(c, compacted=True)
    assert now[2].unlike == set(), "its cleaner may have come further than its consumers"
    assert properties.confirmed(said, [now], c) is None
    for wrong in (replace(said, accused=3, sides=frozenset()), replace(said, sides=frozenset({1, 3}))):
        assert properties.confirmed(wrong, [now], c) is not None


def test_what_was_said_of_a_key_stands_while_consumers_do_not_come_to_its_newer_value() -> None:
    c = cluster()
    now = hanging(c)
    said = properties.Said("any", None, frozenset({1, 3}), "key", offset=0, key=7)
    frozen = properties.Said("any", 3, frozenset(), "transaction", c.writers[VERSION2].producer_id, 1, 1)
    assert properties.stands(said, now, c, [frozen]) is None
    assert properties.stands(said, now, c, []) is not None, "nothing says why it cannot be looked at again"
    assert properties.stands(replace(said, key=8), now, c, [frozen]) is not None


def test_a_healed_key_may_be_shown_to_consumers_that_another_finding_says_come_less_far() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.write([(8, 1)], VERSION2)
    without(c, 3, End.ABORT)
    c.start(3)
    deleted_at = c.leading.leo
    c.write([(7, None)])
    c.write([(7, 2)])
    c.sync()
    miss_tombstone(c, 7, 3)
    now = judge(c, compacted=True)
    assert (now[3].stops_at, now[3].keys) == (1, {7})
    said = properties.Said("any", 3, frozenset(), "key", offset=deleted_at, key=7)
    frozen = properties.Said("any", 3, frozenset(), "transaction", c.writers[VERSION2].producer_id, 1, 1)
    assert properties.healed(said, c, now, [frozen]) is None
    assert properties.healed(said, c, now, []) is not None
    assert properties.healed(replace(said, offset=deleted_at + 1), c, now, [frozen]) is not None
    elsewhere = {3: replace(now[3], keys=frozenset(), unlike=frozenset())}
    assert properties.stands(said, elsewhere, c, [frozen]) is None
    assert properties.stands(said, elsewhere, c, []) is not None


def test_a_high_watermark_of_a_log_that_was_replaced_says_nothing_of_what_cleaners_took() -> None:
    """3 shows a value whose deletion it lacks. A later deletion is not replicated yet, so it explains nothing on 3.

    Broker 2, which is down, had come further than that in the log that the election replaced.
    """
    c = cluster()
    lose_tombstone(c)
    assert judge(c, compacted=True)[3].keys == {7}
    c.stop(3)
    for _ in range(3):
        c.write([(8, 1)])
    c.sync()
    assert c.usurp(3)
    c.start(1)
    c.sync()
    c.write([(7, None)])
    assert c.replicas[2].hw > c.replicas[3].leo - 1 >= c.replicas[3].hw
    assert oracle.cleaned_to(c) == c.replicas[3].hw
    assert 7 in judge(c, compacted=True)[3].keys


def test_where_nothing_is_compacted_a_key_may_be_unlike_but_is_no_place_of_its_own() -> None:
    c = cluster()
    c.write([(7, 1)])
    c.sync()
    assert c.replicas[2].lose(0)
    assert (judge(c, compacted=False)[2].unlike, judge(c, compacted=False)[2].keys) == ({7}, set())
