"""The parts of a soak that need no broker: what is drawn, and what is read of logs, metrics and reports."""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

from prometheus_client.samples import Sample

from parallax.model import NOBODY, FindingKind
from tests.builders.findings import finding
from tests.soak import brokers, watch
from tests.soak.brokers import Held, Left
from tests.soak.chaos import Blow
from tests.soak.hidden import Hidden, Transaction
from tests.soak.plan import BUSY, DELETED, TOPICS, Plan
from tests.soak.report import Report
from tests.soak.tables import Recorded
from tests.soak.traffic import Drafts
from tests.soak.watch import Memory

_CLEANER = """\
10:31:00.877 [kafka-log-cleaner-thread-0] INFO org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread - [x]:
\tLog cleaner thread 0 cleaned log {log} (dirty section = [0, 1040])
\t0.0 MB of log processed in 0.1 seconds (0.0 MB/sec).
\tIndexed 0.0 MB in 0.0 seconds (0.0 Mb/sec, 28.3% of total time)
\tBuffer utilization: 0.0%
\tCleaned 0.0 MB in 0.1 seconds (0.0 Mb/sec, 71.7% of total time)
\tStart size: 0.0 MB (1,040 messages)
\tEnd size: 0.0 MB ({after} messages)
\t63.7% size reduction (82.5% fewer messages)

"""


def test_the_same_seed_draws_the_same_plan_and_another_seed_another() -> None:
    first, again, other = Plan(1, 600), Plan(1, 600), Plan(2, 600)
    assert first.job_kills_s == again.job_kills_s != other.job_kills_s
    assert first.random("chaos").random() == again.random("chaos").random() != first.random("java").random()


def test_outages_leave_time_to_come_back_within_the_delete_retention() -> None:
    for seconds in (90, 600, 3600):
        plan = Plan(1, seconds)
        assert plan.most_away_s + 30 <= plan.delete_retention_s
        assert 0 < plan.job_kills_s[0] < plan.healthy_s


def test_traffic_covers_two_dozen_partitions_of_every_cleanup_policy() -> None:
    assert sum(topic.partitions for topic in TOPICS) >= 24
    assert {topic.policy for topic in TOPICS} == {"compact", "compact,delete", "delete"}


def test_drafts_hold_tombstones_headers_and_big_records_and_null_keys_only_where_allowed() -> None:
    drafts = Drafts(Random(1))
    drawn = [drafts.draw() for _ in range(5000)]
    assert {kind for draft in drawn for kind in draft.kinds} == {
        "null key",
        "tombstone",
        "big record",
        "record with headers",
    }
    assert {draft.topic for draft in drawn if draft.key is None} == {DELETED.name}
    assert {draft.topic for draft in drawn} == {topic.name for topic in BUSY}
    assert all(draft.value is None or len(draft.value) < 1_000_000 for draft in drawn)


def test_passes_of_the_cleaner_are_read_from_the_brokers_logs(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    mine, other = _CLEANER.format(log="soak.compacted-7", after="7"), _CLEANER.format(log="fault.x-0", after="1")
    log.write_text(mine + other + mine)
    assert brokers.cleaning([log], {"soak.compacted"}) == brokers.Cleaning(
        passes=2, removed=2 * 1033, segments_expired=0
    )


def _sample(name: str, value: float, partition: int, isolation: str, reason: str = "") -> Sample:
    labels = {"topic": "soak.idle", "partition": str(partition), "isolation_level": isolation, "reason": reason}
    return Sample(name, labels, value)


def test_a_view_that_is_not_compared_to_its_end_or_not_reported_is_named() -> None:
    up_to = "parallax_compared_up_to_offset"
    samples = [
        _sample(up_to, 10, 0, "read_uncommitted"),
        _sample(up_to, 9, 0, "read_committed"),
        _sample(up_to, 4, 1, "read_uncommitted"),
    ]
    assert watch.not_compared(samples, {("soak.idle", 0): 10, ("soak.idle", 1): 4}) == [
        "soak.idle-0 read_committed: 9 of 10",
        "soak.idle-1 read_committed: None of 4",
    ]
    samples.append(_sample("parallax_unknown_offsets", 3, 1, "read_uncommitted", "skipped"))
    samples.append(_sample("parallax_unknown_offsets", 4, 1, "read_uncommitted", "before_first_reading"))
    assert watch.compared(samples, ["soak.idle"]) == watch.Compared(
        16, {"soak.idle (skipped)": 3}, {"before_first_reading": 4}
    )


def test_cleaning_has_come_to_all_when_markers_and_tombstones_of_each_broker_are_gone() -> None:
    report = Report(Plan(1, 600))
    assert not report.all_have_cleaned([1, 2]), "nothing was counted"
    report.recorded = Recorded(Counter({1: 5, 2: 5}), Counter({1: 5, 2: 5}), 20, 0, {})
    for tombstones, markers, cleaned in (({1: 4, 2: 0}, {1: 0, 2: 4}, True), ({1: 4, 2: 0}, {1: 0, 2: 5}, False)):
        report.held = Held(Counter(), Counter(tombstones), Counter(markers))
        assert report.all_have_cleaned([1, 2]) is cleaned
    assert not report.all_have_cleaned([1, 2, 3])


def test_a_client_has_worked_when_each_of_its_topics_holds_records() -> None:
    for left, worked in (({"a": 2, "b": 1}, True), ({"a": 2, "b": 0}, False), ({"a": 2}, False)):
        report = Report(Plan(1, 600, real_clients=True))
        report.left = {topic: Left(records, 0, 0) for topic, records in left.items()}
        report.check_work({"a client": ("a", "b")})
        assert report.passed is worked


def test_a_report_passes_only_when_every_check_held_and_something_was_checked(tmp_path: Path) -> None:
    report = Report(Plan(1, 600))
    seen = [report.passed]
    for holds in (True, False, True):
        report.check("first", holds)
        seen.append(report.passed)
    assert seen == [False, True, False, False]
    report.blows = [Blow("kill", 1.0, 2, 17.5, 9), Blow("leaders", 30.0, None, 99.0, 6)]
    report.memory = [Memory(float(at), 1, 100, 900, 300, 5) for at in (5, 35, 300, 600)]
    assert report.longest_away_s() == 17.5
    assert [m.at_s for m in report.memory_at().values()] == [35, 300, 600]
    assert "FAIL first" in report.as_text()
    report.recorded = Recorded(Counter({1: 5}), Counter({1: 4}), 20, 0, {})
    report.held = Held(Counter({1: 9}), Counter({1: 3}), Counter({1: 2}))
    file = tmp_path / "report.json"
    report.write(str(file))
    written = json.loads(file.read_text())
    assert written["passed"] is False
    assert (written["recorded"]["tombstones"], written["held"]["markers"]) == ({"1": 5}, {"1": 2})


def written(log: Path, *found: tuple[int, int, int, int]) -> None:
    log.mkdir(parents=True, exist_ok=True)
    (log / "00000000000000000000.txnindex").write_bytes(b"".join(struct.pack(">hqqqq", 0, *one) for one in found))


def test_a_finding_is_true_where_the_index_of_its_broker_ends_a_search_before_its_transaction(tmp_path: Path) -> None:
    right, early = [(9, 2, 3, 4), (9, 5, 7, 8)], [(9, 2, 3, 9), (9, 5, 7, 9)]
    for broker, index in ((1, right), (2, early)):
        written(tmp_path / str(broker) / "soak.compacted-0", *index)
    seen = Hidden({broker: tmp_path / str(broker) for broker in (1, 2)})
    seen.look()
    assert seen.found == {Transaction(2, "soak.compacted", 0, 5, 7)}
    one = finding(kind=FindingKind.OUTCOME_CONTRADICTS_MARKER, topic="soak.compacted", partition=0, broker=2, offset=6)
    assert seen.explains(one)
    assert seen.explains(replace(one, broker=NOBODY))
    others = [replace(one, offset=3), replace(one, offset=8), replace(one, partition=1), replace(one, broker=1)]
    assert seen.unexplained([one, *others]) == others
