"""What becomes of a transaction that is reported as hanging: each branch, and histories that no broker would play."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.findings.hanging import Open, Prospect, Standing
from parallax.findings.hanging_life import PASSED, REPLACED, Event, Gone, Hanging, OpenSeen, Over, StableSeen, after
from parallax.findings.hanging_watch import HangingWatch, Standstill
from parallax.model import TopicPartition
from parallax.replica.client import PartitionMetadata, TopicMetadata
from parallax.replica.errors import ReplicaError, UnknownTopic, Unreachable
from parallax.replica.types import ProducerState, TransactionListing, TransactionListings

PLACE = TopicPartition("orders", 0)
ONE = Open(PLACE, 1, 7, 0, 5, 1_000)
IT = Hanging(ONE, 5, "no coordinator knows its producer", hangs=True, stands_since=100.0, seen_at=100.0)


def told(standing: Standing, why: str = "why", started: float | None = None, one: Open = ONE) -> OpenSeen:
    return OpenSeen(one, Prospect(standing, why, started))


@pytest.mark.parametrize(
    ("event", "becomes"),
    [
        (StableSeen(5, 0, True, 200.0), replace(IT, seen_at=200.0)),
        (StableSeen(5, 0, True, 50.0), IT),
        (StableSeen(5, 0, False, 200.0), IT),
        (StableSeen(4, 0, True, 200.0), IT),
        (StableSeen(6, 0, True, 200.0), PASSED),
        (StableSeen(6, 0, False, 200.0), PASSED),
        (StableSeen(8, 8, True, 200.0), replace(IT, at=8, seen_at=200.0)),
        (StableSeen(8, 8, False, 200.0), IT),
        (told(Standing.HANGS, "other"), replace(IT, why="other")),
        (told(Standing.GOES_ON, "listed", 60.0), replace(IT, why="listed", hangs=False, started=60.0)),
        (told(Standing.HIDDEN), IT),
        (told(Standing.UNKNOWN), IT),
        (told(Standing.GOES_ON, one=replace(ONE, producer_id=8)), REPLACED),
        (Gone("its topic was deleted"), Over("its topic was deleted")),
    ],
    ids=[
        "it stands",
        "what is older says nothing new",
        "a log that ends there",
        "a replica that is behind",
        "it is passed, and another stands beyond",
        "it is passed",
        "the log begins beyond it and is held there",
        "the log was emptied beyond it",
        "another reason",
        "a coordinator lists it again",
        "no coordinator may say",
        "no coordinator says",
        "another in its place",
        "the topic is gone",
    ],
)
def test_what_becomes_of_it_by_what_is_seen(event: Event, becomes: Hanging | Over) -> None:
    assert after(IT, event) == becomes


def test_since_when_is_the_earliest_of_what_brokers_and_parallax_have_seen() -> None:
    assert IT.since == 100.0
    assert replace(IT, started=60.0).since == 60.0
    assert replace(IT, started=160.0).since == 100.0


class Play:
    """A partition with a transaction open at 5, its brokers, and a job that is started again and again."""

    def __init__(self) -> None:
        self.now = 10_000.0
        self.end = 8
        self.is_open = True
        self.log_start = 0
        self.topic: str | None = "A"
        self.says = "nothing"
        self.answers = True
        self.shown: dict[int, tuple[int, int, int, float]] = {}
        self.since: dict[int, float] = {}
        self.watch = self.job([])

    @property
    def stable(self) -> int:
        held = 5 if self.is_open and self.topic == "A" else self.end
        return min(max(held, self.log_start), self.end)

    def job(self, known: Sequence[Hanging]) -> HangingWatch:
        self.shown, self.since = {}, {}
        return HangingWatch(self, 60.0, 1000, known, clock=lambda: self.now)  # type: ignore[arg-type]

    def do(self, what: str, broker: int) -> None:
        if what in SAYS:
            self.says = what
        elif what == "report":
            self.report(broker)
        else:
            DO[what](self)
        self.now += 31.0

    def report(self, broker: int) -> None:
        if self.topic is None:
            return
        before = self.shown.get(broker)
        if before is None or before[0] != self.stable or self.stable == self.end:
            self.since[broker] = self.now
        self.shown[broker] = self.stable, self.end, self.log_start, self.now

    def write(self) -> None:
        self.end += 1

    def finish(self) -> None:
        self.is_open, self.end = False, self.end + 1

    def trim(self) -> None:
        self.log_start = min(self.log_start + 3, self.end)

    def delete(self) -> None:
        self.topic = None

    def create(self) -> None:
        if self.topic is None:
            self.topic, self.end, self.log_start = "B", 9, 0

    def restart(self) -> None:
        self.watch = self.job(self.watch.reported)

    def fall_silent(self) -> None:
        self.answers = False

    def answer(self) -> None:
        self.answers = True

    def wait(self) -> None:
        self.now += 400.0

    def stands(self) -> dict[TopicPartition, Standstill]:
        if not self.shown:
            return {}
        at = max(stable for stable, *_ in self.shown.values())
        foremost = {b: one for b, one in self.shown.items() if one[0] == at}
        since = [self.since[b] for b, (stable, end, *_) in foremost.items() if stable < end]
        seen_at = max(one[3] for one in foremost.values())
        return {PLACE: Standstill(at, max(since, default=None), seen_at, max(one[2] for one in foremost.values()))}

    def _answering(self) -> None:
        if not self.answers:
            raise Unreachable("refused")

    def metadata(self, topics: Sequence[str], **_: Any) -> dict[str, TopicMetadata]:
        self._answering()
        partitions = {0: PartitionMetadata(1, 0, (1, 2), (1, 2))}
        gone = TopicMetadata("orders", "", {}, UnknownTopic("no such topic"))
        return {
            name: gone if name == "orders" and self.topic is None else TopicMetadata(name, self.topic or "", partitions)
            for name in topics
        }

    def describe_producers(
        self, _: int, places: Sequence[TopicPartition], **__: Any
    ) -> dict[TopicPartition, list[ProducerState] | ReplicaError]:
        self._answering()
        is_held = self.is_open and self.topic == "A"
        return {place: [ProducerState(7, 0, 0, 1_000, -1, 5)] if is_held else [] for place in places}

    def list_transactions(self, *_: Any, **__: Any) -> TransactionListings:
        self._answering()
        listed = [] if self.says == "nothing" else [TransactionListing("tx", 7, self.says, 1)]
        return TransactionListings(listed, {}, frozenset({1, 2}))

    def describe_transactions(self, *_: Any, **__: Any) -> list[TransactionListing]:
        return [TransactionListing("tx", 7, self.says, 1, frozenset({PLACE}), 9_000_000)]

    def may_describe_transactions(self, **_: Any) -> bool:
        return True

    def broker_configs(self, *_: Any, **__: Any) -> dict[str, str]:
        return {"transaction.max.timeout.ms": "900000"}


SAYS = ("nothing", "Ongoing", "PrepareCommit", "CompleteAbort")
DO: dict[str, Callable[[Play], None]] = {
    "write": Play.write,
    "end": Play.finish,
    "trim": Play.trim,
    "delete": Play.delete,
    "create": Play.create,
    "restart": Play.restart,
    "silent": Play.fall_silent,
    "answers": Play.answer,
    "later": Play.wait,
}
STEPS = [*SAYS, *DO, "report", "report", "report"]


def reported(play: Play) -> None:
    """Play on until it is reported."""
    for _ in range(6):
        play.do("report", 1)
        play.watch.round(play.stands())
    assert play.watch.reported


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([1, 2])), max_size=40))
def test_it_is_over_only_once_it_has_ended_or_its_topic_is_gone_and_then_it_is(steps: list[tuple[str, int]]) -> None:
    play = Play()
    reported(play)
    for what, broker in steps:
        play.do(what, broker)
        if not play.watch.reported:
            break
        try:
            play.watch.round(play.stands())
        except ReplicaError:
            assert not play.answers
        for one, over in play.watch.ended:
            has_passed = over is PASSED and any(stable > one.at for stable, *_ in play.shown.values())
            assert (not play.is_open and has_passed) or play.topic != "A"
            assert over is PASSED or play.topic != "A"
    if play.watch.reported:
        play.do("end", 1)
        play.do("answers", 1)
        for _ in range(4):
            play.do("write", 1)
            play.do("report", 1)
            play.do("report", 2)
            play.watch.round(play.stands())
        assert play.watch.reported == ()
