"""What an operator is advised is held against the oracle: the property notices each lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings import explain, finding, grounds, steps
from tests.simulation import kinds
from tests.simulation.advice import Advice, States, Were, conditional, lies, read
from tests.simulation.cluster import Cluster
from tests.simulation.histories import THREE_SIDES
from tests.simulation.history import Op
from tests.simulation.ops import STANDARD, parse
from tests.simulation.properties import Said
from tests.simulation.records import End
from tests.simulation.tombstones import VERSION2, cluster, lose_tombstone, miss_tombstone, turn
from tests.simulation.world import Violation, World

KEPT = Said("of a key", 3, frozenset(), "key", offset=1, key=7)
"""Broker 3 shows key 7, which is deleted."""


def told(advice: Advice, said: Said, c: Cluster, beside: Said | None = None, *were_right: int) -> list[str]:
    others = [] if beside is None else [(beside, Were(brokers(*were_right), frozenset(c.replicas) - {*were_right}))]
    return [broken.text.partition(";")[0] for broken in lies(advice, said, others, States((c,), compacted=True))]


def kept() -> Cluster:
    c = cluster()
    lose_tombstone(c)
    return c


def brokers(*ids: int) -> frozenset[int]:
    return frozenset(ids)


TRUE = {
    "who may lead and who must not": Advice(safe=brokers(1, 2), unsafe=brokers(3)),
    "who is right and who is wrong": Advice(right=brokers(1, 2), wrong=brokers(3)),
    "that the leader is right": Advice(spared=brokers(1), right=brokers(1)),
    "that nothing is proven of the leader": Advice(leader_unproven=brokers(1)),
    "a copy of one that is right": Advice(
        right=brokers(1), sources=brokers(1), copied=brokers(3), assigned=((1, 2), (1, 2, 3))
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_what_is_true_may_be_said(name: str) -> None:
    assert told(TRUE[name], KEPT, kept()) == []


ENDED = brokers(1, 2)
COPY_OF_1 = Advice(sources=brokers(1), copied=brokers(3), assigned=((1, 2), (1, 2, 3)), condition=brokers(1))


def test_what_may_be_done_only_where_a_broker_is_right_is_held_against_the_truth_where_it_is() -> None:
    c = kept()
    assert told(Advice(only={1: COPY_OF_1}, ended=ENDED), KEPT, c) == []
    of_right = replace(COPY_OF_1, copied=brokers(2), assigned=((1, 3), (1, 2, 3)))
    lie = "broker 2 is said to be wrong and was right"
    assert told(Advice(only={1: of_right}, ended=ENDED), KEPT, c) == [lie]
    of_wrong = replace(of_right, sources=brokers(3), assigned=((3, 1), (3, 1, 2)), condition=brokers(3))
    assert told(Advice(only={3: of_wrong}, ended=brokers(3)), KEPT, c) == [], "nobody who looks finds it right"


def test_a_condition_is_said_in_words_and_as_data_and_of_one_that_has_ended_it() -> None:
    anyway = "what may be done only where a broker is right is advised anyway, or of one that has not ended it"
    assert anyway in told(Advice(condition=brokers(1)), KEPT, kept())
    assert anyway in told(Advice(only={1: COPY_OF_1}), KEPT, kept())
    text = "have broker 3 drop its copy."
    run = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
    only = "Only where broker 1 is found right: "
    (read_so,) = conditional([(None, "Anyway.", ""), (1, f"{only}{text}", f"cat\n{run}\nE")]).values()
    assert read_so == Advice(copied=brokers(3), condition=brokers(1), assigned=((1, 2),))
    with pytest.raises(AssertionError, match="its words do not say only where"):
        conditional([(1, f"H{text[1:]}", run)])


LIES = {
    "broker 3 is called safe to lead and was wrong": Advice(safe=brokers(1, 3)),
    "broker 1 is said to have to be kept from leading and was right": Advice(unsafe=brokers(1, 3)),
    "broker 3 is called right and was wrong": Advice(right=brokers(1, 3)),
    "broker 1 is said to be wrong and was right": Advice(wrong=brokers(1, 3)),
    "all replicas are said to share it, and broker 1 was right": Advice(everywhere=True),
    "brokers [2] are said to lead, and [1] did": Advice(spared=brokers(2)),
    "broker 3 is put first and not called right": Advice(assigned=((3, 1, 2),)),
    "the assignment to (1, 3) is not that of the partition without []": Advice(right=brokers(1), assigned=((1, 3),)),
    "brokers are to lead that are not called right, or several": Advice(first=brokers(2)),
    "[3] are to be copied, and from whom is not said": Advice(copied=brokers(3)),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_noticed(lie: str) -> None:
    assert lie in told(LIES[lie], KEPT, kept())


def test_who_lacks_only_what_was_written_behind_it_is_right_in_it_and_no_source_of_a_copy() -> None:
    c = kept()
    assert c.write([(KEPT.key, 5)])
    c.sync()
    for broker in (1, 3):
        log = c.replicas[broker]
        log.batches = [batch for batch in log.batches if 5 not in {record.value for record in batch.records}]
    lie = "broker 1 is called right and was wrong"
    assert told(Advice(right=brokers(1)), KEPT, c) == []
    assert lie in told(Advice(right=brokers(1), sources=brokers(1)), KEPT, c)
    assert told(Advice(right=brokers(3)), KEPT, c) == [lie.replace("1", "3")], "it shows what was deleted"


def test_all_share_it_where_those_that_do_not_are_yet_to_be_copied() -> None:
    c = kept()
    lie = "all replicas are said to share it, and broker 2 was right"
    assert told(Advice(everywhere=True), replace(KEPT, everywhere=True), c)[-1] == lie
    for broker in (1, 2):
        assert c.unassign(broker)
        c.assign(broker)
    assert c.replicas[1].leo == 0
    assert told(Advice(everywhere=True, exposed=True), replace(KEPT, everywhere=True), c) == []
    c.replicas[1].leo = KEPT.offset + 1
    assert told(Advice(everywhere=True, exposed=True), replace(KEPT, everywhere=True), c) == [lie.replace("2", "1")]


def test_who_was_wrong_while_another_finding_was_probed_may_be_kept_from_leading() -> None:
    c, other = kept(), replace(KEPT, accused=1, key=8)
    advice, states = Advice(unsafe=brokers(1, 3)), States((c,), compacted=True)
    both = Were(right=brokers(1, 2, 3), wrong=brokers(1))
    assert list(lies(advice, KEPT, [(other, both)], states)) == []
    (lie,) = lies(advice, KEPT, [(other, both._replace(wrong=brokers()))], states)
    assert lie.text.startswith("broker 1 is said to have to be kept from leading and was right")


def test_consumers_of_a_leader_that_shows_what_the_accused_shows_meet_it() -> None:
    c = kept()
    c.lead(3)
    lie = "it is said not to be exposed, and consumers of broker 3 met it"
    assert told(Advice(), KEPT, c) == [lie]
    assert told(Advice(exposed=True), KEPT, c) == []
    assert told(Advice(), replace(KEPT, accused=None, sides=brokers(1, 3)), c) == [lie]
    assert told(Advice(), replace(KEPT, accused=None, sides=brokers(1, 2)), c) == []
    spared = told(Advice(spared=brokers(3), exposed=True), KEPT, c)
    assert spared == ["consumers are said not to meet it on the leader, and broker 3 was wrong"]


@pytest.mark.parametrize(("start", "meets"), [(1, False), (2, True), (3, True)])
def test_consumers_meet_a_lost_head_on_a_leader_that_begins_no_lower_than_the_accused(start: int, meets: bool) -> None:
    c = cluster()
    for key in range(4):
        c.write([(key, 1)])
    c.sync()
    c.replicas[3].log_start, c.leading.log_start = 2, start
    said = Said("log_head_missing", 3, frozenset(), "head", offset=2)
    lie = "it is said not to be exposed, and consumers of broker 1 met it"
    assert told(Advice(), said, c) == [lie] * meets


def test_a_copy_must_not_destroy_what_is_right_by_another_finding() -> None:
    """Broker 3 shows key 7, which is deleted; what is said of key 5, which 3 alone has deleted, stands beside it."""
    c = cluster()
    c.write([(5, 1)])
    lose_tombstone(c)
    miss_tombstone(c, 5, 1, 2)
    copy = Advice(right=brokers(1), sources=brokers(1), copied=brokers(3), exposed=True)
    beside = Said("of a key", 1, frozenset(), "key", offset=6, key=5)
    assert told(copy, KEPT, c) == []
    (lie,) = told(copy, KEPT, c, beside)
    assert lie.startswith("a copy of broker 1 destroys what is right")
    assert told(copy, KEPT, c, replace(beside, everywhere=True)) == []
    assert told(copy, KEPT, c, beside, 1) == []


def without_commit() -> Cluster:
    """Broker 2 lacks the COMMIT of the first transaction, which was cleaned on 1 while it was away."""
    c = cluster((1, 2))
    c.write([(7, 1)], VERSION2)
    c.sync()
    c.stop(2)
    c.end(VERSION2, End.COMMIT)
    c.write([(7, 2)])
    for _ in range(5):
        turn(c, 1_001)
    c.start(2)
    c.sync()
    return c


def test_who_ended_another_transaction_wrongly_is_right_in_this_one() -> None:
    """Broker 2 lacks the COMMIT of the first transaction, and the ABORT of the second ends both of them there."""
    c = without_commit()
    second = c.leading.leo
    c.write([(8, 1)], VERSION2)
    c.end(VERSION2, End.ABORT)
    c.sync()
    producer = c.writers[VERSION2].producer_id
    of_both = Said("of a transaction", 1, frozenset(), "transaction", producer, 0, 0, marker=second + 1)
    of_second = replace(of_both, start=second, offset=second)
    right = Advice(right=brokers(2), wrong=frozenset())
    assert told(right, of_second, c) == []
    assert told(right, of_both, c) == ["broker 2 is called right and was wrong"]


def test_who_lacks_what_was_written_since_is_right_in_a_transaction_that_it_has_cleaned() -> None:
    """The ABORT of a later transaction ends the first one on broker 2, which lacks its COMMIT."""
    c = without_commit()
    c.write([(8, 1)], VERSION2)
    c.end(VERSION2, End.ABORT)
    c.write([(7, 3)])
    c.sync()
    for _ in range(5):
        turn(c, 1_001)
    producer = c.writers[VERSION2].producer_id
    said, right = Said("frozen", 1, frozenset(), "transaction", producer, 0, 0, marker=1), Advice(right=brokers(2))
    assert told(right, said, c) == []
    replica = c.replicas[2]
    replica.batches[:] = [one for one in replica.batches if all(record.key != 7 for record in one.records)]
    assert told(right, said, c) == [], "another cause"


def test_what_is_said_of_a_broker_and_not_known_here_fails() -> None:
    assert read(["Broker 2 is proven wrong, brokers 1, 3 and 4 are right in this."], [], exposed=True) == Advice(
        wrong=brokers(2), right=brokers(1, 3, 4), exposed=True
    )
    with pytest.raises(AssertionError, match="no property holds what is said here"):
        read(["Broker 2 is proven wrong, and wipe broker 1."], [], exposed=True)


SHOWN_BY_TWO: list[Op] = parse(
    THREE_SIDES.replace("cold; ", "") + "lead 1; wipe 3 1; sync; cold; round; tick 500; round"
)
"""A key is deleted behind a newer value, on broker 3 alone, which is then copied from 1: 1 and 3 show that value."""


def scripted(seed: int) -> tuple[Any, list[Op]]:
    profile = kinds.profile(seed, healthy=False)
    return profile, kinds.generate(profile)


def everyone_against(shown: Any) -> list[int]:
    return sorted(frozenset().union(*shown.against))


def alone(known: Callable[..., Any]) -> Callable[..., Any]:
    return lambda one, _others, shell: known(one, (), shell)


BROKEN: dict[str, tuple[Any, str, Any, str, tuple[Any, list[Op]]]] = {
    "all that stand against the accused are called right": (
        grounds,
        "cleared",
        everyone_against,
        "is called right and was wrong",
        (STANDARD, SHOWN_BY_TWO),
    ),
    "consumers are said not to meet it": (
        finding,
        "is_exposed",
        lambda *_: False,
        "it is said not to be exposed",
        scripted(1200000098),
    ),
    "what other findings say is overlooked": (
        explain,
        "grounds_of",
        alone(explain.grounds_of),
        "destroys what is right",
        scripted(1200000047),
    ),
    "what may be done only where a broker is right is advised anyway": (
        steps,
        "_where_right",
        lambda step, _: step,
        "that are not called right",
        scripted(1200000003),
    ),
    "those that were not asked are said to share it": (
        grounds.Grounds,
        "silent",
        frozenset(),
        "all replicas are said to share it",
        scripted(1200014057),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_advice_that_lies_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, broken, noticed, (profile, ops) = BROKEN[name]
    World(profile).run(ops)
    monkeypatch.setattr(module, attribute, broken)
    with pytest.raises(Violation, match=rf"^advice .*{noticed}"):
        World(profile).run(ops)


def test_who_is_wrong_in_a_member_is_noted_at_each_event_of_its_incident() -> None:
    world = World(replace(STANDARD, alone=0, writers=2))
    shown = "write 1 0 -1; end 1; sync; stop 3; unindex 3 9; start 3; sync; round"
    for op in parse(f"{shown}; stop 1; unindex 1 9; start 1; sync; lead 1; kill; round"):
        world.apply(op)
    incident = [event.exposed for event in world.monitor.table if event.is_incident]
    assert incident == [False, True], "the leader has come to show it as well"
    assert [set(were.wrong) for were in world.judge.were.values()] == [{1, 3}]
