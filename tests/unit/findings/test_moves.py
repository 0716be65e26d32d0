from __future__ import annotations

import pytest

from parallax.findings.moves import Move, Purpose, copying
from parallax.model import TopicPartition
from parallax.shell import Shell

PLACE = TopicPartition("orders", 0)
SHELL = Shell.of({"bootstrap.servers": "one:9092"})


def told(moves: tuple[Move, ...]) -> list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    return [(move.purpose.value, move.replicas, move.gone, move.copied) for move in moves]


def test_a_wrong_leader_gives_way_first_and_comes_first_again_at_the_end() -> None:
    assert told(copying([3, 1, 2], 3, [3], 1)) == [
        ("lead", (1, 3, 2), (), ()),
        ("drop", (1, 2), (3,), ()),
        ("copy", (1, 3, 2), (), (3,)),
        ("order", (3, 1, 2), (), ()),
    ]


def test_where_one_that_is_right_leads_and_comes_first_nothing_is_elected() -> None:
    assert told(copying([1, 2, 3], 1, [2], 1)) == [("drop", (1, 3), (2,), ()), ("copy", (1, 2, 3), (), (2,))]


def test_of_two_replicas_another_broker_stands_in() -> None:
    assert told(copying([1, 2], 1, [2], 1, spare=4)) == [("drop", (1, 4), (2,), (4,)), ("copy", (1, 2), (4,), (2,))]


def test_of_two_that_are_wrong_one_is_copied_before_the_other_is_deleted() -> None:
    assert [move.replicas for move in copying([1, 2, 3], 1, [3, 2], 1)] == [(1, 3), (1, 2, 3), (1, 2), (1, 2, 3)]


@pytest.mark.parametrize("assigned", [[1, 3, 2], [3, 1, 2]])
def test_an_election_needs_no_assignment_where_the_one_that_is_to_lead_comes_first(assigned: list[int]) -> None:
    lead, *_ = copying(assigned, 3, [3], 1)
    assert lead.elects
    assert ("kafka-reassign-partitions.sh" in lead.command(PLACE, SHELL)) is (assigned[0] == 3)
    assert lead.command(PLACE, SHELL).splitlines()[-1] == (
        "kafka-leader-election.sh --bootstrap-server one:9092 --election-type preferred --topic orders --partition 0"
    )


def test_what_copies_is_waited_for() -> None:
    (drop, copy) = copying([1, 2, 3], 1, [2], 1)
    assert [move.command(PLACE, SHELL).splitlines()[-1].split()[-1] for move in (drop, copy)] == ["--verify"] * 2
    order = Move(Purpose.ORDER, (3, 1, 2))
    assert order.command(PLACE, SHELL).splitlines()[-1].split()[-1] == "--execute"
