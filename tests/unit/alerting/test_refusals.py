from __future__ import annotations

from typing import Any

from parallax.alerting.refusals import NOBODY, Change, Refusal, Refusals
from parallax.model import MissingRight

READ, DESCRIBE = MissingRight.READ, MissingRight.DESCRIBE


def row(broker: int = 1, right: str | None = None, problem: str | None = None, **more: Any) -> dict[str, Any]:
    problem = "unauthorized" if right else problem
    base = {"topic": "orders", "partition": 0, "broker": broker, "reachable": problem is None, "error": "broker 1: no"}
    return base | {"problem": problem, "missing_right": right, **more}


def test_the_first_replica_begins_and_the_last_one_ends() -> None:
    made = Refusals()
    assert made.take_in([row(1, "read", log_end_offset=7), row(2, "read")], 100.0) == [
        Change("orders", READ, began=True, replicas=2, error="broker 1: no")
    ]
    assert made.take_in([row(1, "read"), row(2)], 110.0) == []
    assert made.counts == {("orders", READ): 1}
    assert made.take_in([row(1), row(2)], 130.0) == [Change("orders", READ, began=False, seconds=30.0)]
    assert made.counts == {("orders", READ): 0}
    assert not made.standing


def test_how_far_the_log_goes_is_kept_where_it_may_be_asked() -> None:
    made = Refusals()
    made.take_in([row(1, "read", log_end_offset=7), row(2, "describe")], 0.0)
    assert made.standing == {("orders", 0, 1): Refusal(READ, 7), ("orders", 0, 2): Refusal(DESCRIBE)}


def test_an_unreachable_broker_says_nothing_of_rights() -> None:
    made = Refusals()
    made.take_in([row(1, "read")], 0.0)
    assert made.take_in([row(1, problem="unreachable")], 1.0) == []
    assert made.counts == {("orders", READ): 1}


def test_a_replica_that_is_not_there_any_more_is_not_refused() -> None:
    made = Refusals()
    made.take_in([row(1, "read")], 0.0)
    (ended,) = made.take_in([row(1, problem="not_hosted")], 1.0)
    assert not ended.began


def test_another_right_that_is_missing_is_another_change() -> None:
    made = Refusals()
    made.take_in([row(1, "read")], 0.0)
    began, ended = made.take_in([row(1, "describe")], 5.0)
    assert (began.right, began.began, ended.right, ended.began) == (DESCRIBE, True, READ, False)


def test_a_topic_whose_partitions_cannot_be_seen_counts_until_rows_tell_of_it() -> None:
    made = Refusals()
    assert [c.began for c in made.refused([("orders", *NOBODY)], DESCRIBE, "no", 0.0)] == [True]
    assert made.counts == {("orders", DESCRIBE): 1}
    assert [c.began for c in made.take_in([row(1)], 9.0)] == [False]


def test_a_refused_reader_does_not_replace_what_is_known_better() -> None:
    made = Refusals()
    made.take_in([row(1, "describe")], 0.0)
    assert made.refused([("orders", 0, 1)], READ, "no", 1.0) == []
    assert made.standing == {("orders", 0, 1): Refusal(DESCRIBE)}


def test_a_replica_that_no_row_names_any_more_is_forgotten_and_nobody_was_authorized_again() -> None:
    made = Refusals()
    made.take_in([row(1), row(2, "read")], 0.0)
    made.refused([("gone", 0, 1)], READ, "no", 0.0)
    made.refused([("hidden", *NOBODY)], DESCRIBE, "no", 0.0)
    made.take_in([row(1), row(3, "read")], 700.0)
    made.forget({("orders", 0, 2), ("gone", 0, 1), ("hidden", *NOBODY)})
    assert set(made.standing) == {("orders", 0, 3), ("hidden", *NOBODY)}
    assert made.counts == {("orders", READ): 1, ("hidden", DESCRIBE): 1}
    assert made.take_in([row(1), row(3, "read")], 710.0) == []


def test_a_replica_that_becomes_unreachable_stays_refused() -> None:
    made = Refusals()
    made.take_in([row(1, "read")], 0.0)
    made.take_in([row(1, problem="unreachable")], 700.0)
    assert made.counts == {("orders", READ): 1}
