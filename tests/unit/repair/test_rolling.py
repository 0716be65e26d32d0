from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parallax.config import load
from parallax.findings.leading import Fitness, May
from parallax.model import TopicPartition
from parallax.repair import roll as module
from parallax.repair.leading import Led
from parallax.repair.roll import Judged, Rolled, document, in_words, roll
from parallax.repair.rolling import Kept, Outage, alone, elected, may_stop
from parallax.replica.errors import NotHosted
from parallax.replica.types import PartitionMetadata, TopicMetadata
from tests.unit.repair.commands import config

PLACE = TopicPartition("orders", 0)
WRONG, OPEN = Fitness(May.UNSAFE, ("it is wrong",)), Fitness(May.UNKNOWN, ("it is away",))
DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000
KEPT = Kept(is_compacted=True, retention_ms=DAY)
SHORT = Outage(1, 10 * MINUTE, skew_ms=5_000, look_ms=3_000)


def led(leader: int, *replicas: int, isr: tuple[int, ...] = (1, 2, 3), **fitness: Fitness) -> Led:
    return Led(PLACE, leader, replicas, isr, {b: fitness.get(f"b{b}", Fitness()) for b in replicas})


def said(one: Led, kept: Kept = KEPT, outage: Outage = SHORT) -> str:
    return may_stop(one, kept, outage).in_words


def test_the_first_of_the_assignment_that_is_in_sync_would_lead() -> None:
    assert elected(led(1, 1, 3, 2), 1) == 3
    assert elected(led(1, 1, 3, 2, isr=(1, 2)), 1) == 2
    assert elected(led(2, 1, 2, 3), 1) == 2, "who leads goes on"
    assert elected(led(1, 1, 2, 3, isr=(1,)), 1) is None


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (led(1, 1, 2, 3), "safe"),
        (led(1, 1, 2, 3, b2=WRONG), "unsafe (broker 2 would lead: it is wrong)"),
        (led(1, 1, 2, 3, b2=OPEN), "unknown (broker 2 would lead: it is away)"),
        (led(1, 1, 3, 2, b2=WRONG), "safe"),
        (led(1, 1, 2, 3, b1=WRONG), "safe"),
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
        "a wrong one is not the next",
        "it is wrong itself, and gives up its leadership",
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
        kept, outage = Kept(is_compacted=True, retention_ms=retention), Outage(1, takes, 5_000, 3_000)
        assert str(may_stop(one, kept, outage).may) == may, (retention, takes)
    assert "hold the topic first" in said(one, Kept(is_compacted=True, retention_ms=MINUTE))
    assert said(one, Kept(is_compacted=False)) == "safe"
    assert said(one, Kept()) == "unknown (how long the topic keeps tombstones and end markers is not known)"
    assert said(led(1, 1, 2, 3, b2=WRONG), Kept()).startswith("unsafe (broker 2 would lead"), "the graver counts"


def test_a_second_failure_is_a_note_and_no_verdict() -> None:
    assert alone(led(1, 1, 3, 2, b2=WRONG), 1) == "if broker 3 fails meanwhile, broker 2 may lead, and must not"
    assert alone(led(1, 1, 3, 2, isr=(1, 3), b2=WRONG), 1) == ""


def test_the_gravest_partition_decides_and_nothing_watched_is_no_permission() -> None:
    fine, bad = Judged(led(1, 1, 2), Fitness(), ""), Judged(led(1, 1, 2), WRONG, "")
    open_ = Judged(led(1, 1, 2), OPEN, "a note")
    for some, code in (((fine,), 0), ((fine, open_), 3), ((open_, bad), 1), ((), 3)):
        assert Rolled(1, some, 0).exit_code == code
    assert in_words(Rolled(1, (fine, open_, bad), 2)).splitlines() == [
        "broker 1: must not be restarted now (3 partitions watched)",
        "  orders-0: unsafe (it is wrong)",
        "  orders-0: unknown (it is away)",
        "  orders-0: a note",
        "  2 other partitions of it are not watched, and not judged",
    ]
    assert document(Rolled(1, (bad,), 0))["partitions"][0]["would_lead"] == 2
    assert len(in_words(Rolled(1, (bad,) * 30, 0)).splitlines()) == 22


def test_the_partitions_that_the_broker_holds_and_the_job_watches_are_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()

    class Cluster:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def close(self) -> None: ...

        def brokers(self) -> dict[int, tuple[str, int]]:
            return {1: ("one", 9092), 9: ("nine", 9092)}

        def metadata(self, names: object = None) -> dict[str, TopicMetadata]:
            of = PartitionMetadata(1, 4, (1, 2), (1, 2))
            elsewhere = PartitionMetadata(2, 4, (2, 3), (2, 3))
            found = {"orders": {0: of, 1: elsewhere}, "other": {0: of}}
            return {name: TopicMetadata(name, "A", some) for name, some in found.items()}

        def topic_configs(self, topics: list[str], _: object) -> dict[str, dict[str, str]]:
            assert topics == ["orders"]
            return {"orders": {"cleanup.policy": "compact", "delete.retention.ms": "60000"}}

    monkeypatch.setattr(module, "ReplicaClient", Cluster)
    found = roll(load(config(tmp_path)), 1, 600)
    assert ([one.led.place for one in found.partitions], found.unwatched, found.exit_code) == ([PLACE], 1, 1)
    assert json.dumps(document(found))
    assert roll(load(config(tmp_path)), 9, 600).exit_code == 3
    with pytest.raises(NotHosted, match=r"^BROKER: the cluster has no broker 99; it has these: 1, 2, 3, 9$"):
        roll(load(config(tmp_path)), 99, 600)
