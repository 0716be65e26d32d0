"""A finding whose replica may have been changed is looked at immediately, and until then nobody knows what it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from parallax.findings.happenings import Changed
from parallax.findings.renewed import Joined
from parallax.model import TopicPartition
from parallax.repair.record import Event, EventKind
from parallax.repair.renewing import Renewing
from parallax.repair.table import RepairTable
from tests.builders.answers import answers, silent
from tests.builders.claims import claim
from tests.unit.findings.lives import COMMITTED_WRONGLY, RECHECK_S, START, Life
from tests.unit.findings.replies import wrong

PLACE = TopicPartition("orders", 0)


def changed(life: Life, broker: int = 2) -> None:
    at_ms = int((START + timedelta(seconds=life.now)).timestamp() * 1000)
    life.do(Changed({(life.last.place, broker): at_ms}))


def unconfirmed(life: Life) -> Mapping[str, frozenset[int]]:
    return life.machine.status().unconfirmed


def test_a_finding_is_not_known_to_be_true_between_a_change_and_the_next_look() -> None:
    life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
    life.wait(5)
    assert unconfirmed(life) == {}
    assert not life.probes
    changed(life)
    assert unconfirmed(life) == {life.last.finding_id: frozenset({2})}
    assert life.probes, "it is asked about immediately, and not when its turn comes"
    life.wait(1)
    life.answer(lambda _: answers(silent(2)))
    assert unconfirmed(life) == {life.last.finding_id: frozenset({2})}, "nothing was answered"
    life.wait(RECHECK_S + 1)
    life.answer(wrong)
    assert unconfirmed(life) == {}
    assert life.statuses == ["confirmed"]


def test_a_change_before_the_last_look_changes_nothing() -> None:
    life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
    life.do(Changed({(life.last.place, 2): int(START.timestamp() * 1000) - 60_000}))
    assert (unconfirmed(life), life.probes) == ({}, [])


def row(second: int, *isr: int) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "isr": [*isr], "observed_at": START + timedelta(seconds=second)}


def test_a_broker_that_comes_back_into_the_set_in_sync_may_have_another_log() -> None:
    joined, at_ms = Joined(), int(START.timestamp() * 1000)
    assert joined.take_in([row(0, 1, 2, 3)], {PLACE}) == {}
    assert joined.take_in([row(9, 1, 3, 2), row(5, 1, 3)], {PLACE}) == {(PLACE, 2): at_ms + 9000}
    assert joined.take_in([row(10, 1, 2, 3)], {PLACE}) == {}
    assert joined.take_in([row(11, 1)], ()) == {}
    assert joined.take_in([row(12, 1, 2)], {PLACE}) == {}, "nobody followed it meanwhile"


def test_each_step_of_a_repair_counts_once_as_a_change_of_its_replicas(tmp_path: Path) -> None:
    renewing = Renewing(str(tmp_path))
    assert renewing() == {}
    table = RepairTable(str(tmp_path))

    def record(kind: EventKind, at_ms: int) -> None:
        document = {"replicas": [1, 2, 3], "steps": [{"number": 1}]} if kind is EventKind.BEGUN else {}
        table.append(Event(kind, "a" * 32, "orders", 0, at_ms, "me", 1, document))

    record(EventKind.BEGUN, 1000)
    assert renewing() == {}, "nothing is changed yet"
    record(EventKind.ANSWERED, 2000)
    record(EventKind.BEAT, 3000)
    assert renewing() == {(PLACE, broker): 2000 for broker in (1, 2, 3)}
    assert renewing() == {}
    record(EventKind.PROVEN, 4000)
    assert renewing() == {(PLACE, broker): 4000 for broker in (1, 2, 3)}
