from __future__ import annotations

from typing import Any

from parallax.guard.holds import LAG, RATIO, Change, Event, EventKind
from parallax.guard.pauses import PauseWatch, is_paused, on_record
from parallax.guard.seen import Shown, TopicSeen

MINE = str(2**63 - 15)
CHANGES = (Change(RATIO, None, "1.0"), Change(LAG, None, MINE))


def event(kind: EventKind, at: int, **said: Any) -> Event:
    given = {"level": 2, "changes": CHANGES} | said
    return Event(kind, "h", "orders", "a", at, **given)


def seen(ratio: str = "1.0", lag: str = MINE, topic_id: str = "a", brokers: tuple[int, ...] = (1, 3)) -> TopicSeen:
    shown = {RATIO: Shown(ratio, is_own=True), LAG: Shown(lag, is_own=True)}
    return TopicSeen(topic_id, dict.fromkeys(brokers, shown), frozenset(brokers), is_in_sync=False)


HELD = event(EventKind.HELD, 7, shown=(1, 3))


def test_a_broker_begins_no_pass_only_where_both_settings_say_so() -> None:
    assert is_paused(seen(), 1)
    assert not is_paused(seen(ratio="0.99"), 1)
    assert not is_paused(seen(lag="9000000"), 1)
    assert not is_paused(seen(), 2), "it did not answer"


def test_what_was_held_before_a_restart_counts_from_when_all_showed_it() -> None:
    look = PauseWatch([event(EventKind.INTENDED, 5), HELD]).of("orders", seen(), 20, 21)
    assert look.brokers == {1, 3}
    assert look.since == {1: 7, 3: 7}


def test_only_the_first_look_after_a_restart_does_so() -> None:
    watch = PauseWatch([HELD])
    watch.of("orders", seen(ratio="0.5"), 20, 21)
    assert watch.of("orders", seen(), 22, 23).since == {}


def test_a_hold_that_cannot_have_lasted_counts_from_the_first_look() -> None:
    for events, now in (
        ([HELD, event(EventKind.RELEASING, 9)], seen()),
        ([HELD, event(EventKind.OVERRULED, 9)], seen()),
        ([HELD], seen(lag=str(2**63 - 1))),
        ([HELD], seen(topic_id="b")),
        ([event(EventKind.HELD, 7, shown=(1, 3), level=1)], seen()),
        ([], seen()),
    ):
        look = PauseWatch(events).of("orders", now, 20, 21)
        assert (look.brokers, look.since) == ({1, 3}, {})


def test_a_broker_that_had_not_shown_it_counts_from_the_first_look() -> None:
    assert PauseWatch([HELD]).of("orders", seen(brokers=(1, 2, 3)), 20, 21).since == {1: 7, 3: 7}


def test_what_is_on_record_shows_who_cleaned_nothing_when() -> None:
    (hold,) = on_record([HELD, event(EventKind.RELEASING, 9), event(EventKind.RELEASED, 10)])
    assert [sorted(hold.shown(at).brokers) for at in (6, 7, 8, 9)] == [[], [1, 3], [1, 3], []]
