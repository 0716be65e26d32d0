"""A lease on an object store: one holder at a time, by conditional puts alone; whoever is silent is taken over."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from parallax.views.lease import LASTS_S, HeldError, Lease, Sight, Step, decide
from parallax.views.objects import Objects


class Time:
    """A clock that goes on only where somebody waits; what is to happen meanwhile happens then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Iterator[None] = iter(())

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        next(self.meanwhile, None)


@pytest.fixture
def store() -> Objects:
    return Objects("s3://bucket/job", MemoryStore())


@pytest.fixture
def time() -> Time:
    return Time()


def lease(store: Objects, time: Time) -> Lease:
    return Lease(store, clock=time.clock, wait=time.wait)


HELD = Sight(7, 3, released=False, owner="a host, pid 1")


@pytest.mark.parametrize(
    ("first", "now", "watched_s", "step"),
    [
        (Sight(), Sight(), 0.0, Step.TAKE),
        (HELD, HELD, 0.0, Step.WAIT),
        (HELD, HELD, LASTS_S - 0.1, Step.WAIT),
        (HELD, HELD, LASTS_S, Step.TAKE),
        (HELD, Sight(7, 4), 1.0, Step.GIVE_UP),
        (HELD, Sight(7, 4), 2 * LASTS_S, Step.GIVE_UP),
        (HELD, Sight(8, -1), LASTS_S, Step.GIVE_UP),
        (HELD, Sight(7, 4, released=True), 1.0, Step.TAKE),
        (Sight(7, -1), Sight(7, -1), LASTS_S, Step.TAKE),
    ],
)
def test_what_is_done_about_a_lease_follows_from_what_is_seen_of_it(
    first: Sight, now: Sight, watched_s: float, step: Step
) -> None:
    assert decide(first, now, watched_s) is step


def test_a_lease_that_nobody_has_is_taken_at_once(store: Objects, time: Time) -> None:
    assert lease(store, time).acquire() == 1
    assert time.now == 0


def test_a_holder_that_lives_is_named_and_keeps_it(store: Objects, time: Time) -> None:
    holder = lease(store, time)
    holder.acquire()
    time.meanwhile = (holder.renew() for _ in itertools.count())
    with pytest.raises(HeldError, match=r"pid \d+"):
        lease(store, time).acquire()
    assert time.now < LASTS_S
    assert holder.lost is None


def test_a_holder_that_is_silent_is_taken_over_when_the_lease_has_run_out_and_learns_of_it(
    store: Objects, time: Time
) -> None:
    silent, said = lease(store, time), []
    silent.acquire()
    assert lease(store, time).acquire(said.append) == 2
    assert LASTS_S <= time.now < LASTS_S + 2
    assert len(said) == 1
    silent.renew()
    assert silent.lost is not None


def test_a_lease_that_was_let_go_is_taken_at_once(store: Objects, time: Time) -> None:
    first = lease(store, time)
    first.acquire()
    first.release()
    assert lease(store, time).acquire() == 2
    assert time.now == 0


def test_of_two_that_wait_for_the_same_lease_one_gets_it(store: Objects, time: Time) -> None:
    lease(store, time).acquire()
    other = lease(store, time)

    def the_other_is_faster() -> Iterator[None]:
        while time.now < LASTS_S - 0.5:
            yield
        assert other._take(2)
        for _ in itertools.count():
            other.renew()
            yield

    time.meanwhile = the_other_is_faster()
    with pytest.raises(HeldError):
        lease(store, time).acquire()
    assert other.epoch == 2


def test_a_put_whose_answer_was_lost_is_known_as_ones_own(store: Objects, time: Time) -> None:
    class Lossy(Objects):
        def create(self, name: str, content: bytes) -> bool:
            super().create(name, content)
            return super().create(name, content)

    assert lease(Lossy(store.uri, store._store), time).acquire() == 1


def test_one_that_was_slow_to_put_does_not_get_the_place_of_an_epoch_that_is_long_over(
    store: Objects, time: Time
) -> None:
    for _ in range(12):
        one = lease(store, time)
        one.acquire()
        one.release()
    assert not lease(store, time)._take(2), "it is lower than what was taken since"
    assert lease(store, time).acquire() == 13


def test_old_epochs_are_removed_and_what_is_no_document_is_nobody(store: Objects, time: Time) -> None:
    for _ in range(20):
        one = lease(store, time)
        one.acquire()
        one.release()
    assert len(store.below("lease")) <= 18
    store.put("lease/0000000021", b"\xff")
    assert lease(store, time).look() == Sight(21, -1, released=False, owner="unknown")
    store.put("lease/0000000021.beat", json.dumps([1]).encode())
    assert lease(store, time).look().beat == -1


class Table:
    """The protocol of a fenced table, and no more: a log to which entries are put where there is none."""

    def __init__(self) -> None:
        self.log: list[int] = []

    def read(self) -> tuple[int, int]:
        return len(self.log), max(self.log, default=0)

    def commit(self, read: tuple[int, int], epoch: int) -> bool:
        """As `parallax.views.fencing` and delta-rs do it: refused behind a higher epoch, and behind any other entry."""
        version, there = read
        if there > epoch or version != len(self.log):
            return False
        self.log.append(epoch)
        return True


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["read", "commit", "take"])), max_size=40))
def test_in_every_order_of_steps_nothing_is_committed_behind_a_fence_of_another(
    steps: list[tuple[int, str]],
) -> None:
    table, held, seen, highest = Table(), [0, 0, 0], [(0, 0)] * 3, 0
    for who, what in steps:
        if what == "take":
            highest += 1
            held[who] = highest
            assert table.commit(table.read(), highest), "the fence"
        elif what == "read":
            seen[who] = table.read()
        elif held[who]:
            was_last = max(table.log) <= held[who]
            done = table.commit(seen[who], held[who])
            assert was_last or not done
    assert table.log == sorted(table.log)
