"""What an audit reads is pinned by what the replicas said."""

from __future__ import annotations

from typing import Any

from parallax.audit.inputs import from_brokers, ticks
from parallax.audit.packing import unpack
from parallax.audit.plan import (
    PartitionPlan,
    PolicyHistory,
    TopicTraits,
    behind,
    held_for_too_long,
    plan,
    ranges,
    traits,
    updated,
)
from parallax.compare.state import NEVER
from parallax.replica.errors import Unauthorized
from parallax.source.offsets import Reader

COMPACTED = {"orders": TopicTraits()}
PLACE = ("orders", 0)


def row(broker: int, high: int = 10, stable: int = 10, start: int = 0, **more: Any) -> dict[str, Any]:
    base = {"topic": "orders", "partition": 0, "broker": broker, "observed_at": 1_000_000, "reachable": True}
    base |= {"error": None, "high_watermark": high, "last_stable_offset": stable, "log_start_offset": start}
    return base | {"log_end_offset": high, "leader": 1, "replicas": [1, 2, 3], "topic_id": "id"} | more


def away(broker: int) -> dict[str, Any]:
    return row(broker) | {"reachable": False, "error": f"broker {broker}: refused"}


def planned(*rows: dict[str, Any], **more: Any) -> PartitionPlan:
    return plan([PLACE], COMPACTED, rows, **more)[PLACE]


def test_the_end_is_the_furthest_that_any_replica_shows() -> None:
    one = planned(row(1), row(2, 8, 7), row(3, 10, 9))
    assert one.ends == (10, 10)
    assert behind([one]) == [(PLACE, 2), (PLACE, 3)]
    later = updated({PLACE: one}, [row(1, 20, 20), row(2, 20, 20), row(3, 20, 20)])
    assert later[PLACE].ends == (10, 10)
    assert behind(later.values()) == []


def test_each_replica_is_read_from_its_own_log_start_in_both_levels_and_never_past_the_end() -> None:
    found = ranges([planned(row(1, 12, 12), row(2, 10, 4, start=3), row(3, 12, 12))])
    spans = {(r.broker, r.isolation): (s.start, s.end) for r, s in found.items()}
    assert spans == {
        (1, 0): (0, 12),
        (1, 1): (0, 12),
        (2, 0): (3, 10),
        (2, 1): (3, 4),
        (3, 0): (0, 12),
        (3, 1): (0, 12),
    }
    assert {s.topic_id for s in found.values()} == {"id"}


def test_reading_goes_on_where_the_round_before_ended() -> None:
    found = ranges([planned(row(1), row(2), row(3))], {(PLACE, b): (10, 6) for b in (1, 2, 3)})
    assert {(r.broker, r.isolation): s.start for r, s in found.items()} == {(1, 1): 6, (2, 1): 6, (3, 1): 6}


def test_a_broker_that_does_not_answer_leaves_the_others_to_be_read() -> None:
    one = planned(row(1), away(2), row(3))
    assert one.reasons == ("broker 2: refused",)
    assert one.readable
    assert {reader.broker for reader in ranges([one])} == {1, 3}
    assert Reader(0, 1, "orders", 0) in ranges([one])


def test_a_look_is_taken_in_with_those_that_did_not_answer() -> None:
    silent = {name: value for name, value in away(2).items() if name not in ("high_watermark", "open_transactions")}
    answered = row(1, open_transactions=[{"producer_id": 9, "start_offset": 4}])
    observed = unpack(*PLACE, ticks(PLACE, [answered, silent]))
    assert observed.progress.reachable.tolist() == [True, False]
    assert observed.progress.observed_at.tolist() == [1000, 1000]
    assert observed.open_transactions.start_offset.tolist() == [4]
    assert sorted(observed.replica_sets.broker.tolist()) == [1, 1, 2, 2, 3, 3]


def test_nobody_who_answers_is_not_read() -> None:
    assert not planned(away(1), away(2), away(3)).readable
    assert planned().reasons == ("no broker names its replicas",)


def test_a_replica_that_the_settings_leave_out_is_unknown_and_the_others_are_compared() -> None:
    made = planned(row(1), row(2), chosen=[1, 2])
    assert (made.replicas, made.reasons, made.readable) == ((1, 2), (), True)
    assert made.beyond == ("broker 3 is left out by topics.brokers",)


def test_tiered_storage_is_unknown_and_said_so() -> None:
    tiered = traits({"cleanup.policy": "delete", "remote.storage.enable": "true"})
    one = plan([PLACE], {"orders": tiered}, [row(1), row(2), row(3)])[PLACE]
    assert not one.readable
    assert "remote.storage.enable" in one.reasons[0]


def test_settings_that_cannot_be_read_name_what_is_missing() -> None:
    found = traits(Unauthorized("not authorized", topic="orders"))
    assert found.unknown is not None
    assert "DESCRIBE_CONFIGS" in found.unknown


def test_cleanup_policies_tell_whether_a_topic_is_compacted() -> None:
    assert traits({"cleanup.policy": "compact,delete"}).compacted
    assert not traits({"cleanup.policy": "delete"}).compacted


class TestFromWhereOnNothingWasCompacted:
    LOOK = (row(1, log_end_offset=12), row(2, log_end_offset=11), away(3))

    def planned(self, history: PolicyHistory | None, topic_id: str = "id", *, compacted: bool = False) -> Any:
        known = {} if history is None else {(PLACE, topic_id): history}
        one = plan([PLACE], {"orders": TopicTraits(compacted)}, self.LOOK, None, known)[PLACE]
        return one.strict_from, one.doubted

    def test_is_not_known_of_anything_that_is_there_by_the_policy_of_now_alone(self) -> None:
        assert self.planned(None) == (12, True)
        assert self.planned(PolicyHistory(4), "the topic before") == (12, True)

    def test_is_what_was_recorded(self) -> None:
        assert self.planned(PolicyHistory(4)) == (4, True)
        assert self.planned(PolicyHistory(4, was_compacted=True)) == (4, False)

    def test_is_nowhere_while_it_is_compacted(self) -> None:
        assert self.planned(PolicyHistory(4), compacted=True) == (NEVER, False)

    def test_is_told_to_the_comparison_before_anything_else(self) -> None:
        (one,) = plan([PLACE], {"orders": TopicTraits(compacted=False)}, self.LOOK).values()
        told = from_brokers([one], [self.LOOK], 5, begin=True)[one.place]
        first = unpack(*PLACE, told.opening[0])
        assert (first.progress.compacted.tolist(), first.progress.log_end_offset.tolist()) == ([0], [12])
        assert told.doubted


def holding(broker: int, stable: int = 4, written: int = 0, **more: Any) -> dict[str, Any]:
    """A replica whose last stable offset stands at an open transaction that wrote last so long after 1970, in ms."""
    opened = {"producer_id": 7, "start_offset": 4, "last_timestamp": written}
    later = {"producer_id": 8, "start_offset": 6, "last_timestamp": 10**12}
    return row(broker, 10, stable, observed_at=10**15, open_transactions=[later, opened]) | more


LATE = 10**12 - 20 * 60_000 - 1


def too_long(*rows: dict[str, Any]) -> tuple[str, ...]:
    """What is said where an earlier look showed the same."""
    return held_for_too_long(rows, rows)


def test_from_an_offset_on_at_which_a_late_transaction_holds_all_replicas_nothing_is_compared() -> None:
    (reason,) = too_long(*[holding(b, written=LATE) for b in (1, 2, 3)])
    assert "from offset 4 on: a transaction of producer 7" in reason
    assert "2001-09-09 01:26:39 UTC" in reason
    assert too_long(holding(1, written=LATE), away(2)) != ()


def test_an_ordinary_open_transaction_is_no_fault() -> None:
    assert too_long(*[holding(b, written=LATE + 1) for b in (1, 2, 3)]) == ()
    assert too_long(holding(1, written=LATE), holding(2, written=10**12)) == (), "it has written there since"
    assert too_long(holding(1, written=-1)) == (), "nobody knows when it wrote"


def test_late_transactions_that_come_and_go_are_no_fault() -> None:
    late = [holding(b, written=LATE) for b in (1, 2)]
    assert held_for_too_long(late, late) != ()
    assert held_for_too_long(late, []) == (), "nobody has looked before"
    assert held_for_too_long(late, late[:1]) == (), "nobody has looked before at one of them"
    assert held_for_too_long(late, [holding(b, written=LATE - 1) for b in (1, 2)]) == (), "it has written since"
    another = {"producer_id": 7, "start_offset": 2, "last_timestamp": LATE}
    ended = [row(b, 10, 2, observed_at=10**15, open_transactions=[another]) for b in (1, 2)]
    assert held_for_too_long(late, ended) == (), "another one, which has ended since"


def test_where_no_transaction_holds_back_the_foremost_everything_is_compared() -> None:
    assert too_long(holding(1, written=LATE), row(2)) == (), "a last stable offset that stands behind it"
    assert too_long(row(1), row(2)) == ()
    assert too_long(row(1, 10, 4)) == (), "it does not list its transactions"
    assert too_long(away(1)) == too_long() == ()
