from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parallax.config import load
from parallax.findings.leading import Fitness, May
from parallax.model import TopicPartition
from parallax.repair import roll as module
from parallax.repair.leading import Led
from parallax.repair.roll import Judged, Rolled, document, in_words, roll
from parallax.repair.rolling import Outage, TopicSettings, elected, heard, may_stop, notes, refuses
from parallax.replica.errors import NotHosted, Unauthorized, UnknownTopic, Unreachable
from parallax.replica.types import PartitionMetadata, TopicMetadata
from tests.unit.repair.commands import config

PLACE = TopicPartition("orders", 0)
WRONG, OPEN = Fitness(May.UNSAFE, ("it is wrong",)), Fitness(May.UNKNOWN, ("it is away",))
DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000
KEPT = TopicSettings(is_compacted=True, retention_ms=DAY)
SHORT = Outage(1, 10 * MINUTE, skew_ms=5_000, look_ms=3_000)


def led(leader: int, *replicas: int, isr: tuple[int, ...] = (1, 2, 3), **fitness: Fitness) -> Led:
    return Led(PLACE, leader, replicas, isr, {b: fitness.get(f"b{b}", Fitness()) for b in replicas})


def said(one: Led, topic: TopicSettings = KEPT, outage: Outage = SHORT) -> str:
    return may_stop(one, topic, outage).in_words


def test_the_first_of_the_assignment_that_is_in_sync_would_lead() -> None:
    assert elected(led(1, 1, 3, 2), 1) == 3
    assert elected(led(1, 1, 3, 2, isr=(1, 2)), 1) == 2
    assert elected(led(2, 1, 2, 3), 1) == 2, "who leads goes on"
    assert elected(led(1, 1, 2, 3, isr=(1,)), 1) is None
    assert elected(replace(led(1, 1, 0, 3, isr=(0, 1)), elr=(3,)), 1) == 0


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (led(1, 1, 2, 3), "safe"),
        (led(1, 1, 2, 3, b2=WRONG), "unsafe (broker 2 would lead: it is wrong)"),
        (led(1, 1, 2, 3, b2=OPEN), "unknown (broker 2 would lead: it is away)"),
        (led(1, 1, 3, 2, b2=WRONG), "unsafe (if broker 3 fails meanwhile, broker 2 may lead: it is wrong)"),
        (led(1, 1, 3, 2, b2=OPEN), "unknown (if broker 3 fails meanwhile, broker 2 may lead: it is away)"),
        (led(1, 1, 3, 2, isr=(1, 3), b2=WRONG), "safe"),
        (
            replace(led(1, 1, 3, 2, isr=(1, 3), b2=WRONG), elr=(2,)),
            "unsafe (if broker 3 fails meanwhile, broker 2 may lead: it is wrong)",
        ),
        (
            led(1, 1, 2, 3, b1=WRONG),
            "unsafe (once it is back, an election makes broker 1 the leader: it is wrong)",
        ),
        (led(1, 2, 3, 1, b1=WRONG), "safe"),
        (led(2, 3, 1, 2, b3=WRONG), "unsafe (an election makes broker 3 the leader: it is wrong)"),
        (
            led(2, 3, 1, 2, isr=(1, 2), b3=OPEN),
            "unknown (once it is in sync, an election makes broker 3 the leader: it is away)",
        ),
        (led(2, 1, 2, 3, b1=WRONG), "unsafe (once it is back, an election makes broker 1 the leader: it is wrong)"),
        (led(2, 2, 1, 3, b1=WRONG), "safe"),
        (led(2, 1, 2, 3, b2=WRONG), "unsafe (broker 2 leads on: it is wrong)"),
        (led(1, 1, 2, 3, isr=(1,)), "unsafe (no other replica is in sync: nobody could lead)"),
        (led(2, 2, 1, 3, isr=(2, 3)), "unsafe (broker 1 has not caught up since it was away last)"),
        (led(-1, 1, 2, 3, isr=(1, 2)), "safe"),
    ],
    ids=[
        "all agree",
        "the next leader is wrong",
        "nobody can tell of the next leader",
        "a wrong one comes after the next",
        "nobody can tell of one that comes after the next",
        "a wrong one is not in sync",
        "a wrong one is eligible",
        "it is wrong itself, and leads again as the preferred one",
        "it is wrong itself, and gives up its leadership",
        "another is wrong, and preferred",
        "another is away, and preferred",
        "it is wrong, and preferred",
        "it is wrong, and not preferred",
        "the leader is wrong",
        "it alone is in sync",
        "it is behind",
        "nobody leads yet",
    ],
)
def test_whoever_leads_meanwhile_and_afterwards_has_to_be_safe(one: Led, expected: str) -> None:
    assert said(one) == expected


def test_an_outage_has_to_be_shorter_than_what_it_lacks_is_kept() -> None:
    one = led(1, 1, 2, 3)
    for retention, takes, may in (
        (DAY, HOUR, "safe"),
        (HOUR, HOUR, "unsafe"),
        (HOUR, HOUR - 5_000, "unsafe"),
        (HOUR, HOUR - 5_001, "safe"),
        (8_000, 1, "unsafe"),
    ):
        topic, outage = TopicSettings(is_compacted=True, retention_ms=retention), Outage(1, takes, 5_000, 3_000)
        assert str(may_stop(one, topic, outage).may) == may, (retention, takes)
    assert "hold the topic first" in said(one, TopicSettings(is_compacted=True, retention_ms=MINUTE))
    assert said(one, TopicSettings(is_compacted=False)) == "safe"
    assert said(one, TopicSettings()) == "unknown (how long the topic keeps tombstones and end markers is not known)"
    assert said(led(1, 1, 2, 3, b2=WRONG), TopicSettings()).startswith("unsafe (broker 2 would lead"), (
        "the graver counts"
    )


REFUSED = "producers with acks=all would be refused: 1 replica would be in sync, min.insync.replicas is 2"
ALONE = led(1, 1, 2, 3, isr=(1,))


@pytest.mark.parametrize(
    ("one", "is_unclean", "who", "expected"),
    [
        (ALONE, False, None, "nobody could lead"),
        (ALONE, True, None, "one would lead that lacks records (unclean.leader.election.enable)"),
        (replace(ALONE, elr=(3,)), True, 3, "broker 3 would lead, which is eligible (ELR)"),
    ],
    ids=["nobody", "an unclean election", "an eligible one"],
)
def test_if_it_alone_is_in_sync_it_is_said_who_would_lead(
    one: Led, is_unclean: bool, who: int | None, expected: str
) -> None:
    assert elected(one, 1) == who
    assert said(one, replace(KEPT, is_unclean=is_unclean)) == f"unsafe (no other replica is in sync: {expected})"


def test_producers_that_would_be_refused_wait_for_who_is_behind_and_are_a_note_if_nobody_is() -> None:
    two = replace(KEPT, min_isr=2)
    behind = led(1, 1, 2, 3, isr=(1, 2))
    assert (said(behind, two), notes(behind, two, 1)) == (f"unsafe ({REFUSED})", []), "it is said once"
    assert (said(led(1, 1, 2), two), notes(led(1, 1, 2, isr=(1, 2)), two, 1)) == ("safe", [REFUSED])
    assert (said(led(1, 1, 2, 3), two), notes(led(1, 1, 2, 3), two, 1)) == ("safe", [])


def test_a_restart_that_refuses_producers_whoever_waits_is_safe_and_warned_of() -> None:
    two, one = replace(KEPT, min_isr=2), led(1, 1, 2, isr=(1, 2))
    found = Rolled(1, (Judged(one, may_stop(one, two, SHORT), tuple(notes(one, two, 1)), refuses(one, two, 1)),), ())
    assert found.exit_code == 0
    assert in_words(found).splitlines() == [
        "broker 1: may be restarted now (1 partition watched, 1 would refuse producers with acks=all)",
        f"  orders-0: warning: {REFUSED}",
    ]
    told = document(found)
    assert (told["may_restart"], told["partitions_refusing_producers"]) == ("safe", 1)
    assert not refuses(one, KEPT, 1)
    behind = replace(one, isr=(1,))
    assert not refuses(behind, two, 1), "they are refused now, whoever is restarted"


def test_a_partition_that_no_other_broker_holds_is_a_note_since_nothing_can_be_waited_for() -> None:
    alone, short = led(1, 1, isr=(1,), b1=OPEN), replace(KEPT, retention_ms=1, min_isr=1)
    assert said(alone, short) == "safe"
    assert notes(alone, short, 1) == ["nobody leads it meanwhile: no other broker holds it than broker 1"]


def test_several_reasons_against_one_replica_name_it_once() -> None:
    doubted = Fitness(May.UNKNOWN, ("no job watches", "it was not compared yet"))
    assert said(led(1, 1, 2, 3, b2=doubted)) == (
        "unknown (broker 2 would lead: no job watches and it was not compared yet)"
    )


def test_that_one_may_lead_that_lacks_records_if_a_second_one_fails_is_a_note() -> None:
    behind, unclean = led(1, 1, 3, 2, isr=(1, 3)), replace(KEPT, is_unclean=True)
    assert notes(behind, KEPT, 1) == []
    assert notes(behind, unclean, 1) == ["if broker 3 fails meanwhile, broker 2 may lead, and lacks records"]
    assert notes(replace(behind, elr=(2,)), unclean, 1) == []
    assert notes(led(1, 1, 3, isr=(1, 3)), unclean, 1) == []


def test_one_in_sync_that_does_not_answer_is_not_counted_on_to_lead() -> None:
    mute = heard(led(1, 1, 2, isr=(1, 2)), {2: "connection refused"})
    assert said(mute) == "unknown (broker 2 would lead: it does not answer now (connection refused))"
    third = heard(led(1, 1, 2, 3), {3: "connection refused"})
    assert said(third).startswith("unknown (if broker 2 fails meanwhile, broker 3 may lead: it does not answer now")
    assert said(heard(led(1, 1, 2, b2=WRONG), {2: "refused"})) == "unsafe (broker 2 would lead: it is wrong)"
    assert said(heard(led(1, 1, 2, 3), {})) == "safe"


def test_the_gravest_partition_decides() -> None:
    fine, bad = Judged(led(1, 1, 2), Fitness()), Judged(led(1, 1, 2), WRONG)
    open_ = Judged(led(1, 1, 2), OPEN, ("a note",))
    for some, code in (((fine,), 0), ((fine, open_), 3), ((open_, bad), 1), ((), 0)):
        assert Rolled(1, some, ()).exit_code == code
    others = tuple(TopicPartition("other", number) for number in range(6))
    left_out = "(topics.include and topics.pattern leave them out)"
    named = "other-0, other-1, other-2, other-3, other-4, and 1 more"
    assert in_words(Rolled(1, (fine, open_, bad), others)).splitlines() == [
        "broker 1: must not be restarted now (3 partitions watched)",
        "  orders-0: unsafe (it is wrong)",
        "  orders-0: unknown (it is away)",
        "  orders-0: warning: a note",
        f"  6 other partitions of it are not watched, and not judged {left_out}: {named}",
    ]
    assert document(Rolled(1, (bad,), ()))["partitions"][0]["would_lead"] == 2
    assert len(in_words(Rolled(1, (bad,) * 30, ())).splitlines()) == 22


def test_the_partitions_that_the_broker_holds_and_the_job_watches_are_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    refused_topic: TopicMetadata | None = None
    watched, away, offline = "orders", set[int](), set[int]()

    class Cluster:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def close(self) -> None: ...

        def brokers(self) -> dict[int, tuple[str, int]]:
            return {1: ("one", 9092), 9: ("nine", 9092)}

        def metadata(self, names: object = None) -> dict[str, TopicMetadata]:
            of = PartitionMetadata(1, 4, (1, 2), (1, 2))
            elsewhere = PartitionMetadata(2, 4, (2, 3), (2, 3))
            found = {watched: {0: of, 1: elsewhere}, "other": {0: of}}
            shown = {name: TopicMetadata(name, "A", some) for name, some in found.items()}
            return shown if refused_topic is None else shown | {"orders": refused_topic}

        def topic_configs(self, topics: list[str], _: object) -> dict[str, dict[str, str]]:
            assert topics == ["orders"]
            settings = {"cleanup.policy": "compact", "delete.retention.ms": "60000", "min.insync.replicas": "2"}
            return {"orders": settings | {"unclean.leader.election.enable": "false"}}

        def eligible_leaders(self, topics: list[str]) -> dict[TopicPartition, tuple[int, ...]]:
            assert topics in (["orders"], [])
            return {PLACE: (9,)}

        def log_end_offsets(self, broker: int, places: list[TopicPartition]) -> dict[TopicPartition, Any]:
            assert (broker, places) in ((2, [PLACE]), (9, [PLACE]))
            if broker in away:
                raise Unreachable("connection refused", broker=broker)
            return dict.fromkeys(places, NotHosted("offline") if broker in offline else 7)

    monkeypatch.setattr(module, "ReplicaClient", Cluster)
    found = roll(load(config(tmp_path)), 1, 600)
    assert ([one.led.place for one in found.partitions], found.unwatched, found.exit_code) == (
        [PLACE],
        (TopicPartition("other", 0),),
        1,
    )
    (one,) = found.partitions
    assert (one.led.elr, one.notes) == ((9,), (REFUSED,))
    told = json.loads(json.dumps(document(found)))
    assert (told["partitions_refusing_producers"], told["partitions"][0]["refuses_producers"]) == (1, True)
    for silent in (away, offline):
        silent.add(2)
        (mute,) = roll(load(config(tmp_path)), 1, 600).partitions
        assert "it does not answer now" in mute.led.fitness[2].in_words
        silent.clear()
    nothing = roll(load(config(tmp_path)), 9, 600)
    assert (nothing.partitions, nothing.exit_code) == ((), 0), "no watched partition is on it"
    refused_topic = TopicMetadata("orders", "A", {}, Unauthorized("it may not be described", topic="orders"))
    hidden = roll(load(config(tmp_path)), 1, 600)
    assert (hidden.exit_code, len(hidden.unread)) == (3, 1)
    known = replace(hidden, partitions=(Judged(led(1, 1, 2), Fitness()),))
    assert (known.exit_code, "nobody can tell of orders" in in_words(known)) == (3, True)
    refused_topic = TopicMetadata("orders", "A", {}, UnknownTopic("there is none", topic="orders"))
    assert roll(load(config(tmp_path)), 1, 600).partitions == (), "there is nothing that anybody could lead"
    with pytest.raises(NotHosted, match=r"^BROKER: the cluster has no broker 99; it has these: 1, 2, 9$"):
        roll(load(config(tmp_path)), 99, 600)
    refused_topic, watched = None, "misnamed"
    blind = roll(load(config(tmp_path)), 9, 600)
    assert (blind.exit_code, "nobody can tell of any partition: the job watches none" in in_words(blind)) == (3, True)
