from __future__ import annotations

from parallax.guard.absences import Absence
from parallax.guard.clock import Clock
from parallax.guard.horizons import Lap, Part, Reading
from tests.unit.guard.looking import HOUR, LOOK, METADATA, PLACE, SKEW, START, clock, tick

REST = (1, 3)
FIRST_LACKED = 10


def reading(broker: int, at: int, reached: int, **said: int | bool | str | None) -> Reading:
    known: dict[str, object] = {"topic_id": "a", "leader_epoch": 0, "start": FIRST_LACKED, "whole_ms": START + at}
    for name, value in said.items():
        known[name] = START + value if name == "horizon_ms" and isinstance(value, int) else value
    return Reading(PLACE, broker, START + at, reached=reached, **known)  # type: ignore[arg-type]


class Outage:
    """Broker 2 is away since the start, and lacks what lies at and above 10; the leader's log has grown since."""

    def __init__(self) -> None:
        self.clock: Clock = clock()
        self.clock.observe(tick(0, {1: 10, 2: 10, 3: 10}, (1, 2, 3)))
        for at, end in ((100_000, 10), (101_000, 20), (200_000, 20), (201_000, 30), (300_000, 30)):
            self.look(at, end)

    def look(self, at: int, end: int = 30, **said: int | str | None) -> None:
        self.clock.observe(tick(at, {1: end, 2: None, 3: end}, REST, **said))

    def read(self, *readings: Reading, at: int = 300_000, **said: int | str | None) -> Absence:
        """The absence once readings count."""
        self.clock.read(readings)
        self.look(at + METADATA + 1_000, **said)
        return self.absence

    @property
    def absence(self) -> Absence:
        return next(one for one in self.clock.absences() if one.broker == 2)


def bound(at: int) -> int:
    """The bound that follows from a look."""
    return START + at - LOOK + HOUR - SKEW


def test_a_bound_counts_from_the_first_tombstone_and_not_from_the_first_record() -> None:
    outage = Outage()
    assert outage.absence.bound_ms == bound(100_000)
    absence = outage.read(*(reading(b, 300_000, 30, first=20, unstamped=20) for b in REST))
    assert absence.bound_ms == bound(200_000)


def test_where_nothing_was_read_that_can_go_the_bound_counts_from_what_comes_next() -> None:
    absence = Outage().read(*(reading(b, 300_000, 30) for b in REST))
    assert absence.bound_ms == bound(300_000 + METADATA + 1_000)


def test_a_log_that_was_read_in_part_says_something_of_that_part() -> None:
    absence = Outage().read(reading(1, 300_000, 20))
    assert absence.bound_ms == bound(200_000)
    assert absence.read_ms is None


def test_where_everything_is_stamped_the_earliest_horizon_of_any_replica_counts() -> None:
    absence = Outage().read(
        reading(1, 300_000, 30, first=10, horizon_ms=250_000 + HOUR),
        reading(3, 300_000, 30, first=10, horizon_ms=180_000 + HOUR),
    )
    assert absence.bound_ms == START + 180_000 + HOUR - SKEW
    assert (absence.horizon_ms, absence.read_ms) == (absence.bound_ms, START + 300_000)


def test_what_one_replica_has_stamped_says_nothing_of_one_that_was_not_read() -> None:
    absence = Outage().read(reading(1, 300_000, 30, first=10, horizon_ms=250_000 + HOUR))
    assert (absence.bound_ms, absence.read_ms) == (bound(100_000), None)


def test_where_one_replica_has_not_stamped_the_bound_counts_from_when_it_may_have_begun_to() -> None:
    absence = Outage().read(
        reading(1, 300_000, 30, first=10, horizon_ms=250_000 + HOUR),
        reading(3, 300_000, 30, first=10, unstamped=20, horizon_ms=250_000 + HOUR),
    )
    assert absence.bound_ms == bound(200_000)


def test_a_broker_that_stamps_nothing_goes_by_where_the_tombstones_lie() -> None:
    absence = Outage().read(
        reading(1, 300_000, 30, first=20, horizon_ms=250_000 + HOUR),
        reading(3, 300_000, 30, first=20, horizon_ms=250_000 + HOUR, stamps=False),
    )
    assert (absence.bound_ms, absence.read_ms) == (bound(200_000), None)


def test_a_horizon_that_is_earlier_than_can_be_counts_all_the_same() -> None:
    absence = Outage().read(*(reading(b, 300_000, 30, first=10, horizon_ms=HOUR - 100_000) for b in REST))
    assert absence.bound_ms == START + HOUR - 100_000 - SKEW


def test_a_horizon_that_may_be_of_what_another_replica_lacked_is_no_earlier_bound() -> None:
    outage = Outage()
    # These readings began for a replica that lacked more: what they found first lies below what broker 2 lacks.
    absence = outage.read(*(reading(b, 300_000, 30, start=5, first=6, horizon_ms=20_000 + HOUR) for b in REST))
    assert (absence.bound_ms, absence.horizon_ms) == (bound(100_000), None)


def test_a_reading_that_ended_after_the_bound_says_nothing() -> None:
    outage = Outage()
    late = bound(100_000) - START
    outage.look(late - 1_000)
    assert outage.read(*(reading(b, late + 1, 30) for b in REST), at=late).bound_ms == bound(100_000)


def test_a_reading_counts_only_once_newer_metadata_show_no_other_replica() -> None:
    outage = Outage()
    outage.clock.read(reading(b, 300_000, 30) for b in REST)
    outage.look(301_000)
    assert outage.absence.bound_ms == bound(100_000)
    added = 300_000 + METADATA + 1_000
    outage.clock.observe(tick(added, {1: 30, 2: None, 3: 30, 4: 0}, REST))
    # What the new one holds was not read, but where tombstones lie is the same everywhere.
    assert (outage.absence.bound_ms, outage.absence.read_ms) == (bound(added), None)


def test_another_leader_or_a_log_that_was_truncated_makes_a_reading_void() -> None:
    for end, said in ((30, {"epoch": 1}), (25, {})):
        outage = Outage()
        outage.read(*(reading(b, 300_000, 30, first=20, unstamped=20) for b in REST))
        outage.look(320_000, end, **said)
        assert outage.absence.bound_ms == bound(100_000), (end, said)


def test_a_replica_that_did_not_answer_meanwhile_has_to_be_read_again() -> None:
    outage = Outage()
    outage.read(*(reading(b, 300_000, 30, first=20, horizon_ms=250_000 + HOUR) for b in REST))
    outage.clock.observe(tick(320_000, {1: 30, 2: None, 3: None}, REST))
    outage.look(321_000)
    assert (outage.absence.bound_ms, outage.absence.read_ms) == (bound(200_000), None)


def test_a_retention_that_is_lowered_makes_what_was_read_before_void() -> None:
    outage = Outage()
    outage.read(*(reading(b, 300_000, 30, first=20, unstamped=20) for b in REST))
    outage.look(320_000, retention=HOUR // 2)
    assert outage.absence.bound_ms == bound(100_000) - HOUR // 2


def test_a_reading_of_another_topic_of_the_name_says_nothing() -> None:
    absence = Outage().read(*(reading(b, 300_000, 30, topic_id="b") for b in REST))
    assert absence.bound_ms == bound(100_000)


def test_a_lap_goes_on_where_it_stopped_and_reads_again_only_what_had_no_horizon() -> None:
    lap = Lap("a", 0, 10, 10, 10)
    lap.go_on(1_000, 100)
    lap.took(Part(20, first=12, horizon_ms=9_000))
    assert lap.reading(PLACE, 1, 1_500, stamps=True)[6:11] == (20, 12, None, 9_000, None)
    lap.rest(2_000)
    lap.go_on(2_000, 100)
    assert (lap.position, lap.left) == (20, 100)
    lap.took(Part(30, first=25, unstamped=25))
    lap.end(3_000)
    assert lap.reading(PLACE, 1, 2_500, stamps=True)[6:11] == (30, 12, 25, 9_000, 1_000)
    lap.go_on(3_000, 100)
    assert lap.position == 25
    # What this lap has not come to yet may be as it was.
    lap.took(Part(27))
    assert lap.reading(PLACE, 1, 3_500, stamps=True)[6:11] == (30, 12, 27, 9_000, 1_000)
    lap.took(Part(40, first=27, horizon_ms=8_000))
    lap.end(4_000)
    assert lap.reading(PLACE, 1, 3_600, stamps=True)[6:11] == (40, 12, None, 8_000, 3_000)
