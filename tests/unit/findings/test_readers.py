"""Which consumer groups are past a finding, by the answers of coordinators and the recorded progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from parallax.findings.finding import Finding
from parallax.findings.led import with_leaders
from parallax.findings.readers import document, in_words, readers
from parallax.model import NOBODY, FindingKind, FindingStatus, MissingRight, TopicPartition
from parallax.replica.errors import ReplicaError, Unauthorized, Unreachable
from parallax.source.schema import PROGRESS
from parallax.views.tables import PROGRESS as TABLE
from parallax.views.tables import RECORDED_ON
from tests.builders.findings import finding

ONE = finding("f1" * 16)
AT = ONE.first_suspected_at
PARTS = ("explained", "part_of_incident")


@dataclass
class Cluster:
    offsets: Mapping[int, Mapping[str, int | ReplicaError]]
    away: frozenset[int] = frozenset()
    may: bool = True
    asked: list[tuple[int, int]] = field(default_factory=list)

    def brokers(self) -> Mapping[int, object]:
        return dict.fromkeys(self.offsets)

    def groups(self, broker: int) -> list[str]:
        if broker in self.away:
            raise Unreachable("it does not answer", broker=broker)
        return sorted(self.offsets[broker])

    def committed(self, broker: int, ids: Sequence[str], place: TopicPartition) -> Mapping[str, int | ReplicaError]:
        assert place == ONE.place
        self.asked.append((broker, len(ids)))
        return {name: at for name, at in self.offsets[broker].items() if name in ids}

    def may_describe_groups(self) -> bool:
        return self.may


def led(storage: Path, *turns: tuple[int, int, int]) -> None:
    """Rows of progress: leader, minutes after the finding was suspected, and its high watermark."""
    schema = PROGRESS.append(pa.field(RECORDED_ON, pa.date32()))
    rows = []
    for epoch, (leader, minute, mark) in enumerate(turns):
        at = AT + timedelta(minutes=minute)
        row = {"topic": ONE.topic, "partition": 0, "broker": leader, "observed_at": at, "reachable": True}
        row |= {"leader": leader, "leader_epoch": epoch, "high_watermark": mark, RECORDED_ON: at.date()}
        rows.append({name: row.get(name) for name in schema.names})
    write_deltalake(str(storage / TABLE), pa.Table.from_pylist(rows, schema=schema), partition_by=[RECORDED_ON])


def test_groups_are_told_apart_by_whether_they_can_have_read_it_from_a_wrong_leader(tmp_path: Path) -> None:
    led(tmp_path, (1, -60, 90), (2, -30, 100), (1, -10, 120))
    cluster = Cluster({1: {"behind": 17, "idle": 60}, 2: {"reads-on": 119}, 3: {}})
    found = readers(cluster, str(tmp_path), ONE)
    assert {group.name: str(group.came) for group in found.groups} == {
        "behind": "not_yet",
        "idle": "past",
        "reads-on": "past_since",
    }
    assert [one.reign.broker for one in found.leaders] == [2]
    lines = in_words(found).splitlines()
    assert lines[0].startswith("Broker 2, which shows it, began to lead between")
    assert lines[2] == (
        "Group reads-on is past it, and has committed since broker 2 began to lead (leader epoch 1): it may have read "
        "it there (committed offset 119)."
    )
    assert lines[-1] == "Consumers that commit no offsets to Kafka are not known here."
    told = document(found)
    assert told["led"] == [
        {
            "broker": 2,
            "showed_it": "yes",
            "leader_epochs": [1, 1],
            "began": {"after": "2026-01-02T02:03:55+00:00", "by": "2026-01-02T02:34:05+00:00"},
            "ended": {"after": "2026-01-02T02:33:55+00:00", "by": "2026-01-02T02:54:05+00:00"},
        }
    ]
    assert [(one["group"], one["came"], one["committed_since_leader_epochs"]) for one in told["groups"]] == [
        ("behind", "not_yet", []),
        ("idle", "past", []),
        ("reads-on", "past_since", [[1, 1]]),
    ]


@pytest.mark.parametrize(
    ("event", "showed"),
    [
        (replace(ONE, evidence='{"showed": [1, 2]}'), {1: "perhaps", 2: "yes"}),
        (replace(ONE, broker=NOBODY, evidence='{"showed": [1, 2]}'), {1: "perhaps", 2: "perhaps"}),
    ],
    ids=["since when another than the accused showed it is not known", "nobody is proven wrong"],
)
def test_the_document_tells_a_leader_that_showed_it_from_one_that_may_have(
    tmp_path: Path, event: Finding, showed: dict[int, str]
) -> None:
    led(tmp_path, (1, -60, 90), (2, -30, 100))
    told = document(readers(Cluster({1: {}}), str(tmp_path), event))
    assert {one["broker"]: one["showed_it"] for one in told["led"]} == showed


def test_a_wrong_leader_that_is_repaired_and_leads_no_more_is_not_said_to_lead_still(tmp_path: Path) -> None:
    led(tmp_path, (2, -30, 100), (1, 20, 120), (2, 30, 130))
    over = replace(ONE, status=FindingStatus.RESOLVED, decided_at=AT + timedelta(minutes=10))
    found = readers(Cluster({1: {}}), str(tmp_path), over)
    assert [one.reign.ended_by for one in found.leaders] == [AT + timedelta(minutes=20)], "what it led later was right"
    assert ", and stopped between 2026-01-02 02:33:55Z and 2026-01-02 03:24:05Z (leader epoch 0)" in found.led[0]


def test_the_text_on_an_end_has_each_reign_as_readers_has_it_and_never_two_in_one(tmp_path: Path) -> None:
    led(tmp_path, (2, -40, 90), (1, -30, 100), (2, -20, 110), (1, -5, 120), (2, 5, 130))
    text = "Broker 2 showed it. Healed: it was copied again."
    over = replace(ONE, status=FindingStatus.RESOLVED, decided_at=AT + timedelta(minutes=6), summary=text)
    (said,) = with_leaders(str(tmp_path))([over])
    sentences = readers(Cluster({1: {}}), str(tmp_path), over).led
    assert said.summary == " ".join((text, *sentences))
    assert len([one for one in sentences if one.startswith("Broker 2, which showed it")]) == 3
    assert "led still at 2026-01-02 03:09:05Z (leader epoch 4)" in said.summary, "it leads on: that is no end"
    assert sentences[-1] == "Consumers that read it there could read what was deleted, at offset 17."


def test_the_text_on_an_end_repeats_nothing_and_counts_the_reigns_that_it_does_not_name(tmp_path: Path) -> None:
    led(tmp_path, *((2 - turn % 2, turn - 40, 100) for turn in range(10)))
    text = "Not healed. Consumers that read it there could read what was deleted."
    over = replace(ONE, status=FindingStatus.RESOLVED, decided_at=AT, summary=text, evidence='{"seen_said": true}')
    (said,) = with_leaders(str(tmp_path))([over])
    assert said.summary.startswith(f"{text} Before, such replicas led 2 times more. Broker 2, which showed it, began")
    assert (said.summary.count("onsumers that"), said.summary.count("Broker 2, which")) == (1, 3)


def test_what_is_not_over_or_reported_elsewhere_says_nothing_of_leaders(tmp_path: Path) -> None:
    led(tmp_path, (2, -40, 90))
    elsewhere = [replace(ONE, status=FindingStatus.RESOLVED, evidence=f'{{"resolution": "{how}"}}') for how in PARTS]
    assert with_leaders(str(tmp_path))([ONE, *elsewhere]) == [ONE, *elsewhere]


def test_a_log_that_was_truncated_later_had_what_it_lost_while_it_led(tmp_path: Path) -> None:
    led(tmp_path, (2, -40, 90), (3, -30, 100), (2, -20, 110))
    kind, of_it = FindingKind.LOG_TRUNCATED, '{"recorded": {"epochs": {"2": "%s"}}}'
    cut = [replace(ONE, kind=kind, evidence=of_it % epoch) for epoch in (0, 1, "")]
    found = [readers(Cluster({1: {}}), str(tmp_path), one).leaders for one in cut]
    assert [[leader.reign.epochs for leader in one] for one in found] == [[(2, 2)], [(2, 2)], [(0, 0), (2, 2)]]


def test_what_could_not_be_asked_is_said_and_never_taken_for_nobody(tmp_path: Path) -> None:
    refused = Unauthorized("not authorized: DESCRIBE on the group is needed", missing=MissingRight.GROUP)
    cluster = Cluster({1: {"a": 20, "b": refused}, 2: {"c": 20}}, away=frozenset({2}), may=False)
    found = readers(cluster, str(tmp_path), ONE)
    assert [group.name for group in found.groups] == ["a"]
    text = "\n".join(found.unknown)
    assert "DESCRIBE on consumer groups is not granted" in text
    assert "Groups of which broker 2 is the coordinator are not known" in text
    assert "Of 1 group it is not known (b: not authorized" in text


def test_no_group_at_all_is_said_too_and_many_are_asked_in_parts(tmp_path: Path) -> None:
    assert "No consumer group is known" in in_words(readers(Cluster({1: {}}), str(tmp_path), ONE))
    many = Cluster({1: {f"g{n:03}": 99 for n in range(450)}})
    assert len(readers(many, str(tmp_path), ONE).groups) == 450
    assert many.asked == [(1, 200), (1, 200), (1, 50)]
