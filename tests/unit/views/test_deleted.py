"""Which readers of deleted topics are forgotten, and when."""

from __future__ import annotations

from parallax.model import ReadEvent
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.views.deleted import KEPT_S, Deleted

GONE, OK = Recorded(9, "A", ReadEvent.TOPIC_DELETED), Recorded(9, "A", ReadEvent.OK)
LIVE = {Reader(1, 1, "live", 0): OK}


def of(topic: str, entry: Recorded, *brokers: int) -> dict[Reader, Recorded]:
    return {Reader(1, broker, topic, 0): entry for broker in brokers}


def test_the_readers_of_a_deleted_topic_are_forgotten_some_hours_later_and_no_others() -> None:
    gone = of("gone", GONE, 1, 2)
    known = LIVE | gone
    deleted = Deleted(LIVE, 0)
    deleted.note(gone, 10)
    assert deleted.over(known, 10 + KEPT_S - 1) == set()
    assert deleted.over(known, 10 + KEPT_S) == gone.keys()
    assert deleted.over(LIVE, 10 + 2 * KEPT_S) == set()


def test_what_was_gone_at_the_start_counts_from_the_start() -> None:
    known = LIVE | of("gone", GONE, 1)
    deleted = Deleted(known, 100)
    assert deleted.over(known, 99 + KEPT_S) == set()
    assert deleted.over(known, 100 + KEPT_S) == of("gone", GONE, 1).keys()


def test_a_topic_that_is_back_is_kept_and_counts_anew_when_it_goes_again() -> None:
    deleted = Deleted(LIVE | of("t", GONE, 1, 2), 0)
    deleted.note(of("t", OK, 1), 5)
    known = LIVE | of("t", OK, 1) | of("t", GONE, 2)
    assert deleted.over(known, KEPT_S + 5) == set()
    deleted.note(of("t", GONE, 1, 2), KEPT_S)
    known = LIVE | of("t", GONE, 1, 2)
    assert deleted.over(known, 2 * KEPT_S - 1) == set()
    assert deleted.over(known, 2 * KEPT_S) == of("t", GONE, 1, 2).keys()


def test_a_reader_that_was_told_something_else_keeps_its_topic() -> None:
    for event in (ReadEvent.OK, ReadEvent.UNAUTHORIZED, ReadEvent.NOT_HOSTED, ReadEvent.UNREACHABLE):
        known = LIVE | of("t", GONE, 1) | of("t", OK._replace(event=event), 2)
        deleted = Deleted(LIVE, 0)
        deleted.note(of("t", GONE, 1), 0)
        assert deleted.over(known, 9 * KEPT_S) == set()


def test_the_last_readers_stay() -> None:
    known = of("t", GONE, 1, 2)
    assert Deleted(known, 0).over(known, KEPT_S) == set()
