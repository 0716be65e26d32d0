"""What ``parallax lead`` says: who leads, who would be elected, and who may, by what is on record."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from parallax.audit.ledger import Ledger
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.compare.coverage import coverage as measured
from parallax.compare.feed import QUERY
from parallax.compare.kept import kept
from parallax.compare.observations import Observations
from parallax.compare.segments import Manifest, Segment, Store, bucket_of
from parallax.compare.suspect import UnreadRange
from parallax.config import AuditSettings, Settings, load
from parallax.findings.finding import Finding, claim_of
from parallax.findings.groups import group_of_claim
from parallax.findings.hanging import Open
from parallax.findings.hanging_life import Hanging
from parallax.findings.hanging_record import record
from parallax.findings.leading import Fitness, May
from parallax.findings.members import MemberRow, State
from parallax.findings.table import FindingsTable
from parallax.model import FindingKind, FindingStatus, TopicPartition, UnknownReason
from parallax.repair.command import document as plan_document
from parallax.repair.fit import unsure
from parallax.repair.known import known
from parallax.repair.lead import document, exit_code, in_words
from parallax.repair.lead import led as looked
from parallax.repair.leading import ALONE, Doubts, Led, frozen_in_words, uncompared
from parallax.repair.record import SLOW, Event, EventKind
from parallax.repair.table import RepairTable
from parallax.replica.types import PartitionMetadata
from parallax.shell import ANYWHERE
from parallax.views.watching import LOCK
from tests.builders.coverage import coverage
from tests.builders.findings import evidence, finding
from tests.unit.compare.states import state
from tests.unit.repair.commands import config
from tests.unit.repair.looks import NOW, look
from tests.unit.repair.moves import PLAN

PLACE = TopicPartition("orders", 0)
WRONG = Fitness(May.UNSAFE, ("finding f1: consumers of it read a deleted value",))
OPEN = Fitness(May.UNKNOWN, ("it is away",))
COMMAND = "parallax repair plan --topic orders --partition 0 --lead -o lead.plan -c CONFIG"


def led(leader: int, *replicas: int, isr: tuple[int, ...] = (1, 2, 3), **fitness: Fitness) -> Led:
    told = {broker: fitness.get(f"b{broker}", Fitness()) for broker in replicas}
    return Led(PLACE, leader, replicas, isr, told)


def test_a_wrong_leader_and_an_election_that_would_make_one_are_warned_of() -> None:
    assert led(1, 1, 2, 3, b3=WRONG).warnings == []
    assert led(3, 3, 1, 2, b3=WRONG).warnings == ["Broker 3 leads, and must not."]
    (text,) = led(1, 3, 1, 2, b3=WRONG).warnings
    assert text.startswith("The next election of preferred leaders makes broker 3 the leader, and it must not be")
    assert led(1, 3, 1, 2, isr=(1, 2), b3=WRONG).warnings == [], "it is not in sync, and cannot be elected"
    assert led(-1, 3, 1, 2, isr=(3,), b3=WRONG).warnings != []


def test_the_exit_code_is_that_of_the_gravest_replica() -> None:
    assert exit_code([led(1, 1, 2, 3), led(1, 1, 2)]) == 0
    assert exit_code([led(1, 1, 2, 3, b2=OPEN)]) == 3
    assert exit_code([led(1, 1, 2, 3, b2=OPEN), led(1, 1, 2, 3, b3=WRONG)]) == 1
    assert exit_code([]) == 0


def test_the_text_names_the_command_that_keeps_a_wrong_one_from_leading() -> None:
    assert in_words(led(3, 3, 1, 2, isr=(3, 1), b3=WRONG, b2=OPEN), ANYWHERE).splitlines() == [
        "orders-0: broker 3 leads, and is preferred",
        "  broker 3: unsafe (finding f1: consumers of it read a deleted value)",
        "  broker 1: safe",
        "  broker 2, not in sync: unknown (it is away)",
        "  Broker 3 leads, and must not.",
        f"  To keep it from leading, once every replica is in sync: {COMMAND}",
    ]
    assert in_words(led(1, 1, 2, 3, b3=WRONG), ANYWHERE).splitlines()[-1] == f"  To keep it from leading: {COMMAND}"
    assert in_words(led(1, 2, 1), ANYWHERE).splitlines()[0] == "orders-0: broker 1 leads, broker 2 is preferred"
    assert "To keep it" not in in_words(led(1, 2, 1, b2=OPEN), ANYWHERE)
    assert document(led(1, 3, 1, b3=WRONG))["preferred_election_moves_to"] == 3


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (finding("f" * 32, status=FindingStatus.SPREAD, evidence=evidence({"x": [1, 2, 3]})), "all replicas share it"),
        (finding("f" * 32, evidence=evidence({"x": [2], "y": [1, 3]})), "no replica is proven right"),
    ],
)
def test_a_plan_that_would_be_refused_is_not_offered_and_what_it_lacks_is_said(
    settings: Settings, found: Finding, why: str
) -> None:
    FindingsTable(settings.storage.path).append([found])
    (one,) = looked(settings, {PLACE: PartitionMetadata(1, 4, (2, 1, 3), (1, 2, 3))})
    text = in_words(one, ANYWHERE)
    assert (why in text, COMMAND in text) == (True, False), text


def test_no_leader_is_offered_whose_log_begins_later_than_another_one(settings: Settings) -> None:
    known_of = finding("f" * 32, evidence=evidence({"no value": [1, 3], "value at offset 17": [2]}))
    FindingsTable(settings.storage.path).append([known_of])
    (one,) = looked(settings, {PLACE: PartitionMetadata(2, 4, (2, 1, 3), (1, 2, 3))})
    assert COMMAND in in_words(one, ANYWHERE)
    compare(settings.storage.path, starts={1: 10, 3: 10})
    (one,) = looked(settings, {PLACE: PartitionMetadata(2, 4, (2, 1, 3), (1, 2, 3))})
    text = in_words(one, ANYWHERE)
    assert "the log of broker 1 begins at offset 10, and that of broker 2 at 0" in text
    assert COMMAND not in text
    compare(settings.storage.path, 2, starts={3: 10})
    (one,) = looked(settings, {PLACE: PartitionMetadata(2, 4, (2, 1, 3), (1, 2, 3))})
    assert COMMAND in in_words(one, ANYWHERE), "another one has all"


def test_what_a_finding_explains_waits_for_no_verdict_until_that_finding_is_over(settings: Settings) -> None:
    storage = settings.storage.path
    cause = finding("f" * 32)
    explained = finding("e" * 32, status=FindingStatus.DISMISSED, evidence=json.dumps({"leans_on": ["f" * 32]}))
    table = FindingsTable(storage)
    table.append([cause, replace(explained, suspect_id="again")])
    raised = {"suspect_id": "again", "rule": "I2", "kind": "visibility_mismatch", "topic": "orders", "partition": 0}
    times = [cause.decided_at + timedelta(minutes=minutes) for minutes in (5, 6)]
    rows = [raised | {"broker": -1, "raised_at": at} for at in times]
    write_deltalake(f"{storage}/suspects", pa.Table.from_pylist(rows))
    assert known(settings, [PLACE]).pending == {}, "an audit sees it again as long as its cause is there"
    table.append([replace(cause, status=FindingStatus.RESOLVED)])
    assert known(settings, [PLACE]).pending == {PLACE: 2}


INCIDENT = finding("f" * 32, kind=FindingKind.DELETED_RECORD_RESURRECTED, suspect_id="", offset=3)


@pytest.mark.parametrize("status", [FindingStatus.CONFIRMED, FindingStatus.RESOLVED])
def test_an_incident_hides_no_suspect_of_which_no_row_says_that_it_counts_it(
    settings: Settings, status: FindingStatus
) -> None:
    storage = settings.storage.path
    FindingsTable(storage).append([INCIDENT, replace(INCIDENT, status=status)])
    row = {"suspect_id": "s", "rule": "I3", "kind": str(INCIDENT.kind), "topic": "orders", "partition": 0, "broker": 2}
    row |= {"raised_at": INCIDENT.decided_at - timedelta(seconds=5)}
    write_deltalake(f"{storage}/suspects", pa.Table.from_pylist([row]))
    assert known(settings, [PLACE]).pending == {PLACE: 1}
    counted = claim_of(replace(INCIDENT, suspect_id="s"))
    FindingsTable(storage).append([], [MemberRow(group_of_claim(counted), True, counted, State.WRONG, 0)])
    assert known(settings, [PLACE]).pending == {}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "data").mkdir()
    return load(config(tmp_path))


def compare(storage: str, number: int = 1, starts: Mapping[int, int] | None = None) -> None:
    """A comparison that has read three replicas whole, whose logs may begin later than 0."""
    store = Store(f"{storage}/checkpoints/{QUERY}")
    store.prepare()
    bucket = bucket_of(*PLACE, Manifest().buckets)
    states = store.load({bucket: None})[bucket]
    known_state = state(1, 2, 3, position=100, high_watermark=100, last_stable_offset=100, begun=1)
    for row in known_state.brokers:
        row["log_start_offset"] = (starts or {}).get(int(row["broker"]), 0)
    states.put(PLACE, None, known_state)
    segments: dict[int, Segment] = store.save([states])
    store.commit(f"mark-{number}", Manifest(number=number - 1).with_segments(segments))


def words(settings: Settings) -> dict[int, str]:
    found = known(settings, [PLACE]).fitness(PLACE, (1, 2, 3))
    return {broker: one.in_words for broker, one in found.items()}


def test_what_was_never_compared_or_is_watched_by_no_job_is_unknown(settings: Settings) -> None:
    assert set(words(settings).values()) == {
        "unknown (no job watches: start it; it was not compared yet: ask again once it was)"
    }
    compare(settings.storage.path)
    assert set(words(settings).values()) == {"unknown (no job watches: start it)"}
    with (Path(settings.storage.path) / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert set(words(settings).values()) == {"safe"}


def test_one_whose_copy_took_too_long_is_unknown_until_the_job_has_audited_it(settings: Settings) -> None:
    storage = settings.storage.path
    compare(storage)
    told = plan_document(PLAN)
    table = RepairTable(storage)
    for kind, step, more in ((EventKind.BEGUN, 0, told), (EventKind.PROVEN, COPY, {SLOW: True})):
        table.append(Event(kind, "a" * 32, *PLACE, NOW, "me", step, more))
    why = "it may have missed tombstones or end markers: the copy by a repair took longer than half"
    audit = "; the job audits the partition by itself once all replicas are back"
    assert [b for b, text in words(settings).items() if why in text and audit in text] == [3]
    off = settings.model_copy(update={"audit": AuditSettings(unread_delay_s=0)})
    assert "parallax audit --topic orders --partition 0 -c CONFIG" in words(off)[3]
    one = PartitionResult("orders", 0, Result.CONSISTENT, compared_from=0, compared_up_to=(100, 100))
    Ledger(storage).take(AuditReport("brokers", NOW / 1000 + 3_600, NOW / 1000 + 3_601, (one,)))
    assert why not in words(settings)[3]
    table.append(Event(EventKind.BEGUN, "b" * 32, *PLACE, NOW + 3_000_000, "me", 0, told))
    table.append(Event(EventKind.PROVEN, "b" * 32, *PLACE, NOW + 4_000_000, "me", COPY, {SLOW: True}))
    assert why in words(settings)[3], "another one"
    table.append(Event(EventKind.BEGUN, "c" * 32, *PLACE, NOW + 5_000_000, "me", 0, told))
    table.append(Event(EventKind.PROVEN, "c" * 32, *PLACE, NOW + 6_000_000, "me", COPY))
    assert why not in words(settings)[3], "it was copied again in time"


def test_where_a_replica_stands_still_or_a_transaction_hangs_nobody_is_safe(settings: Settings) -> None:
    compare(settings.storage.path)
    FindingsTable(settings.storage.path).append([finding("f" * 32, kind=FindingKind.READ_COMMITTED_FROZEN)])
    text = "a replica of the partition stands still: nothing beyond is compared in read_committed"
    told = words(settings)
    assert [text in told[b] for b in (1, 3)] == [True, True]
    record(settings.storage.path, [Hanging(Open(PLACE, 1, 7, 0, 4, 0), 4, "it hangs", hangs=True, stands_since=1.0)])
    assert "a transaction hangs: nothing beyond is compared in read_committed" in words(settings)[1]
    other = known(settings, [TopicPartition("orders", 9)]).doubts(TopicPartition("orders", 9), (1,))
    assert "hangs" not in " ".join(other.of(1))


def test_what_is_not_compared_yet_speaks_against_a_copy_and_not_against_a_leader() -> None:
    late = coverage(compared_up_to=(60, 60), waits_from=(60, 60), unknown={UnknownReason.NOT_READ_YET: (40, 0)})
    doubts = Doubts.made(late, 0, {})
    assert doubts.of(1) == []
    assert doubts.unread(61) == "offsets from 60 on are not compared yet"
    assert [doubts.unread(below) for below in (60, -1)] == ["", ""], "what came later does not have to be read"
    seen = replace(look(), doubts=doubts)
    assert unsure(seen, 1, below=100) == doubts.unread(100)
    frozen = Doubts.made(coverage(compared_up_to=(100, 60), waits_from=(60, 60)), 0, {}, findings=[STOPPED])
    assert frozen.unread(100) == "", "that read_committed stands still is said already"
    assert frozen.of(1) == [frozen_in_words()]
    assert unsure(replace(seen, doubts=frozen), 1, [STOPPED.finding_id], 100) == "", "the copy ends that"


def test_what_all_replicas_have_lost_speaks_against_each_leader_and_against_no_copy() -> None:
    doubts = Doubts.made(coverage(unknown={UnknownReason.LOST_UNREAD: (2, 1)}), 0, {})
    assert doubts.of(1) == []
    said = doubts.fitness((1, 2), [])
    assert {one.may for one in said.values()} == {May.UNKNOWN}
    assert said[2].why == ("no replica holds 2 offsets that nothing may have removed, so no election helps",)


@pytest.mark.parametrize(("read", "to"), [((40, 40, 40), 40), ((40, 39, 40), 39), ((-1, -1, -1), 0)])
def test_a_copy_waits_for_a_job_that_is_behind_however_evenly_it_has_read(read: tuple[int, ...], to: int) -> None:
    known_state = state(1, 2, 3, position=100, high_watermark=100, last_stable_offset=100, begun=1)
    whole = measured(known_state, Observations(*PLACE), NOW, 60_000)
    assert Doubts.made(whole, 0, {}).unread(100) == ""
    known_state.brokers["position"] = np.array(read)[:, None]
    behind = measured(known_state, Observations(*PLACE), NOW, 60_000)
    assert Doubts.made(behind, 0, {}).unread(100) == f"offsets from {to} on are not compared yet"


def test_a_copy_waits_for_absences_that_nobody_has_judged_yet() -> None:
    flood = coverage(unknown={UnknownReason.UNJUDGED: (0, 5_000)}, waits_from=(-1, 7))
    assert Doubts.made(flood, 0, {}).unread(100) == "offsets from 7 on are not compared yet"


STOPPED = finding("f", kind=FindingKind.READ_COMMITTED_FROZEN)
COPY = 3
"""The number of the plan's step that gives the partition back."""
BEFORE, REFUSED = UnknownReason.BEFORE_FIRST_READING, UnknownReason.UNAUTHORIZED


@pytest.mark.parametrize(
    ("reason", "unread", "until"),
    [
        (BEFORE, (), "before first reading, until every replica is read"),
        (BEFORE, (UnreadRange(0, 0, 40, BEFORE, 0),), "before first reading, until an audit by the job"),
        (REFUSED, (), "unauthorized, until the right is granted"),
    ],
)
def test_what_is_unknown_says_what_ends_that(
    reason: UnknownReason, unread: tuple[UnreadRange, ...], until: str
) -> None:
    assert uncompared(coverage(unknown={reason: (40, 40)}, unread=unread)) == [f"40 offsets without verdict ({until})"]


def test_the_newest_state_of_the_comparison_counts(settings: Settings) -> None:
    for number in (1, 2, 3):
        compare(settings.storage.path, number)
    found = kept(settings.storage.path, [PLACE, TopicPartition("orders", 9)], 60_000)
    assert set(found.coverage) == {PLACE}
    assert found.coverage[PLACE].compared_up_to == (100, 100)
    assert found.at is not None


def test_a_replica_that_alone_is_watched_is_compared_with_none(settings: Settings) -> None:
    compare(settings.storage.path)
    for chosen, brokers, is_alone in (([1], (1, 2, 3), True), ([1, 2], (1, 2, 3), False), ([1], (1,), False)):
        topics = settings.topics.model_copy(update={"brokers": chosen})
        found = known(settings.model_copy(update={"topics": topics}), [PLACE]).fitness(PLACE, brokers)
        assert (ALONE in found[1].why) == is_alone


def test_a_finding_of_the_table_counts_also_where_nobody_watches(settings: Settings) -> None:
    compare(settings.storage.path)
    FindingsTable(settings.storage.path).append([finding("f" * 32), finding("e" * 32, partition=1, broker=1)])
    told = words(settings)
    assert told[2].startswith("unsafe (finding ffffffff: consumers of it")
    assert told[1] == "unknown (no job watches: start it; finding ffffffff does not prove it right)"


def test_metadata_of_a_partition_make_a_line_of_it(settings: Settings) -> None:
    (one,) = looked(settings, {PLACE: PartitionMetadata(1, 4, (2, 1, 3), (1, 2, 3))})
    assert (one.leader, one.preferred, sorted(one.fitness)) == (1, 2, [1, 2, 3])
