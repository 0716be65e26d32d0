"""What is wrong is known, or unknown in its very place: the property has teeth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation import events, oracle, properties
from tests.simulation.cluster import Cluster
from tests.simulation.history import Op
from tests.simulation.ops import PLAIN, ROUND, STANDARD, SYNC
from tests.simulation.properties import ENDS_RIGHT, KNOWN, Ended, Said, Unknown, places, shows, was_cut
from tests.simulation.unread import HISTORIES, LOST_TOMBSTONE, behead, cleaned, with_a_head_lost
from tests.simulation.world import World

NOTHING = Ended((), (), ())


def with_a_value_that_is_back() -> World:
    """Broker 2 shows the value at offset 0, which was deleted at offset 1 while it was away; nobody was watching."""
    world = World(STANDARD)
    for op in [("write", PLAIN, 0, 57), SYNC, *LOST_TOMBSTONE, ("start", 2, 0, 0), SYNC]:
        world.apply(op)
    return world


UNKNOWN = {
    "the offset that it shows": (Unknown(((0, 1),), ()), []),
    "the offset that deleted it": (Unknown(((1, 2),), ()), []),
    "other offsets": (Unknown(((2, 9),), ()), [KNOWN]),
    "nothing": (Unknown((), ()), [KNOWN]),
    "an audit that has not ended": (Unknown((), ((2, 9),)), []),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_only_what_is_unknown_of_a_place_excuses_it(name: str) -> None:
    world = with_a_value_that_is_back()
    unknown, expected = UNKNOWN[name]
    world.judge.end(NOTHING, unknown, world.monitor.shown)
    assert [broken.name for broken in world.judge.broken] == expected


def test_after_an_audit_what_differs_still_is_to_be_known() -> None:
    world = with_a_value_that_is_back()
    world.judge.audited(NOTHING, Unknown((), ()), world.monitor.shown)
    assert [broken.name for broken in world.judge.broken] == [KNOWN]


@pytest.mark.parametrize("name", [name for name in HISTORIES if "tombstone" in name])
def test_an_audit_with_a_verdict_settles_what_waited_for_it(name: str) -> None:
    world = World(STANDARD)
    ends = [("start", broker, 0, 0) for broker in world.cluster.replicas]
    for op in [*HISTORIES[name][1], *ends, SYNC, ROUND, ("tick", 1, 0, 0), ROUND]:
        world.apply(op)
    assert events.unknown(world.monitor).until_audited
    world.apply(("tick", 1, 0, 0))
    world.apply(("audit", 0, 0, 0))
    assert world.monitor.audited is not None
    assert events.unknown(world.monitor).until_audited == ()


def all_hanging(*copied: int, log_start: int) -> World:
    """Broker 3 missed the end at offset 1, which cleaners have emptied since; some were copied from it. None was read.

    All logs begin at an offset: they have lost their first segments.
    """
    world = World(STANDARD)
    begun: list[Op] = [("write", 1, 0, 57), SYNC, ("stop", 3, 0, 0), ("end", 1, 1, 0), ("write", PLAIN, 0, 58), SYNC]
    copies: list[Op] = [op for broker in copied for op in (("wipe", broker, 1, 0), SYNC)]
    for op in [*begun, *cleaned(1, 2) * 2, ("start", 3, 0, 0), SYNC, ("lead", 3, 0, 0), *copies]:
        world.do(op)
    for broker in world.cluster.replicas:
        behead(world, broker, log_start)
    return world


@pytest.mark.parametrize(
    ("copied", "log_start", "given", "is_excused"),
    [
        ((1, 2), 2, False, True),
        ((1, 2), 2, True, False),
        ((1, 2), 1, False, False),
        ((1, 2), 0, False, False),
        ((1,), 2, False, False),
    ],
    ids=["none", "a reader", "a log that begins there", "the whole logs", "one that goes on"],
)
def test_a_transaction_that_hangs_everywhere_is_to_be_known_only_by_what_tells_its_end(
    copied: tuple[int, ...], log_start: int, given: bool, is_excused: bool
) -> None:
    world = all_hanging(*copied, log_start=log_start)
    hanging = {broker for broker, wrong in world.judge.now().items() if wrong.stops_at is not None}
    assert hanging == {3, *copied}
    if given:
        world.monitor.shown.markers[1] = {(world.cluster.writers[1].producer_id, 1)}
    world.judge.end(NOTHING, Unknown((), ()), world.monitor.shown)
    broken = [b for b in world.judge.broken if b.what.startswith("progress")]
    assert [b.name for b in broken] == [KNOWN] * len(hanging) * (not is_excused)


def said(about: str, broker: int, offset: int) -> Said:
    return Said(f"of a {about}", broker, frozenset(), about, offset=offset)


def after_an_unclean_election(*then: Op) -> Cluster:
    """Broker 2 leads; it never held what 1 and 3 have at offset 1."""
    world = World(STANDARD)
    lost: list[Op] = [("write", PLAIN, 1, 58), SYNC, ("usurp", 2, 0, 0), ("write", PLAIN, 1, 59)]
    for op in [("write", PLAIN, 0, 57), SYNC, ("stop", 2, 0, 0), *lost, *then, SYNC]:
        world.do(op)
    return world.cluster


@pytest.mark.parametrize("overwritten", [False, True], ids=["held by others", "superseded on all"])
def test_an_audit_is_consistent_with_a_finding_that_is_over_only_where_nobody_is_misled(
    overwritten: bool,
) -> None:
    """Broker 3 has lost its index, and shows an aborted record as committed."""
    world = World(STANDARD)
    cluster = world.cluster
    for op in [("write", 0, 0, 57), ("end", 0, 0, 0), SYNC]:
        world.do(op)
    assert cluster.replicas[3].lose_index(0)
    if overwritten:
        for op in [("write", PLAIN, 0, 58), ("tick", 200, 0, 0), ("write", PLAIN, 90, 1), SYNC]:
            world.do(op)
        for broker in (1, 2):
            world.do(("clean", broker, 0, 0))
    over = Said("any", 3, frozenset(), "transaction", cluster.writers[0].producer_id, 0, 0, key=0, marker=1)
    world.judge.audit(Ended((), (), (over,)), "consistent", cluster.leading.leo)
    assert any(broken.what.startswith("outcome") for broken in world.judge.broken) is not overwritten


@pytest.mark.parametrize("ended", [[], [("end", 0, 0, 0)]], ids=["open", "ended otherwise since"])
def test_who_says_that_an_election_lost_the_end_of_a_transaction_is_not_mistaken(ended: list[Op]) -> None:
    world = World(STANDARD)
    begun: list[Op] = [("write", 0, 0, 57), SYNC, ("stop", 2, 0, 0), ("end", 0, 1, 0), SYNC, ("usurp", 2, 0, 0)]
    for op in [*begun, *ended, ("start", 1, 0, 0), ("start", 3, 0, 0), SYNC]:
        world.do(op)
    producer = world.cluster.writers[0].producer_id
    said = Said("any", 2, frozenset(), "transaction", producer, 0, 0, everywhere=True)
    assert properties.lost_by_an_election(said, world.cluster)
    for other in (replace(said, start=1), replace(said, producer_id=producer + 1), replace(said, about="key")):
        assert not properties.lost_by_an_election(other, world.cluster)


@pytest.mark.parametrize(("broker", "held"), [(1, True), (2, False), (3, True)])
def test_a_log_is_truncated_only_where_it_held_what_was_lost(broker: int, held: bool) -> None:
    cluster = after_an_unclean_election(("start", 1, 0, 0), ("start", 3, 0, 0))
    assert cluster.lost
    assert was_cut(cluster, said("cut", broker, 1)) is held


@pytest.mark.parametrize(("broker", "held"), [(1, False), (2, False), (3, True)])
def test_a_log_of_which_nothing_was_kept_has_given_up_what_it_held(broker: int, held: bool) -> None:
    """Broker 3 gets an empty disk before it follows the new leader, broker 2 once it has led; broker 1 is down."""
    cluster = after_an_unclean_election(("wipe", 3, 1, 0), SYNC, ("wipe", 2, 1, 0))
    assert was_cut(cluster, said("cut", broker, 1)) is held


LOST_ON_TWO: list[Op] = [
    *(("write", 2, 1, 11), SYNC, ("stop", 2, 0, 0), ("stop", 3, 0, 0), ("end", 2, 1, 0), ("write", PLAIN, 1, 22), SYNC),
    *(op for _ in range(6) for op in (("tick", 2001, 0, 0), ("write", PLAIN, 0, 1), SYNC, ("clean", 1, 0, 0))),
    *(("write", 2, 1, 33), ("end", 2, 0, 0), ("start", 2, 0, 0), ("start", 3, 0, 0), SYNC),
]
"""Brokers 2 and 3 have missed the COMMIT at offset 1, and have aborted the record at 0 by a later ABORT."""


@pytest.mark.parametrize("index_lost", [False, True])
def test_who_shows_the_true_outcome_by_a_lost_index_alone_is_no_witness_of_it(index_lost: bool) -> None:
    world = World(STANDARD)
    for op in [*LOST_ON_TWO, *([("stop", 3, 0, 0), ("unindex", 3, 9, 0), ("start", 3, 0, 0), SYNC] * index_lost)]:
        world.do(op)
    truth, now = oracle.truth_of(world.cluster), world.judge.now()
    (outcome,) = [place for place in places(truth, now) if (place.broker, place.what) == (2, "outcome")]
    assert world.cluster.replicas[3].is_aborted(102, 0) is not index_lost
    assert not shows(world.cluster, truth, now, outcome, compacted=True)


def test_who_shows_the_true_outcome_as_it_was_ended_is_a_witness_of_it() -> None:
    world = World(STANDARD)
    for op in [op for op in LOST_ON_TWO if op not in (("stop", 3, 0, 0), ("start", 3, 0, 0))]:
        world.do(op)
    truth, now = oracle.truth_of(world.cluster), world.judge.now()
    (outcome,) = [place for place in places(truth, now) if (place.broker, place.what) == (2, "outcome")]
    assert shows(world.cluster, truth, now, outcome, compacted=True)


def test_the_head_of_a_log_that_is_missing_still_has_not_healed() -> None:
    world = with_a_head_lost(ROUND)
    now = world.judge.now()
    broken = properties.healed(said("head", 2, 2), world.cluster, now, [])
    assert broken is not None
    assert broken.name == ENDS_RIGHT
    assert properties.healed(said("head", 2, 0), world.cluster, now, []) is None
