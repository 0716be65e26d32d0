"""Suspects made by hand about replicas that really differ, and about healthy ones: what the probe makes of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parallax.alerting.page.asking import Asking
from parallax.cli import app
from parallax.config import FindingSettings
from parallax.evidence.ledger import Ledger
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, decide
from parallax.findings.happenings import FindingsStatus
from parallax.findings.history import KeyHistory, ReadLog
from parallax.findings.keys import Key
from parallax.findings.manager import FindingsManager
from parallax.findings.probe import Prober
from parallax.findings.second_opinion import Opinion, Says, opinion
from parallax.findings.table import read_events
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import ScenarioResult
from parallax.lab.waiting import PATIENCE_S
from parallax.model import FindingKind, FindingStatus, Outcome, RowKind, Rule
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from tests.builders.findings import finding
from tests.builders.settings import settings_of
from tests.e2e.play import Played, Recorder

HASHER = ContentHasher(bytes(range(16)))
KEYS = {
    "tombstone": "customer-7",
    "abort": "transfer-1",
    "commit": "order-5",
    "deletion": "price-3",
    "frozen": "account-9",
}
KINDS = {
    "tombstone": FindingKind.DELETED_RECORD_RESURRECTED,
    "abort": FindingKind.ABORTED_RECORD_COMMITTED,
    "commit": FindingKind.COMMITTED_RECORD_ABORTED,
    "deletion": FindingKind.ABORTED_RECORD_COMMITTED,
    "frozen": FindingKind.READ_COMMITTED_FROZEN,
}


@dataclass
class Stage:
    cluster: Cluster
    client: ReplicaClient
    recorder: Recorder
    result: ScenarioResult

    def claim(self, suffix: str) -> Claim:
        """The suspect that a comparison of the recorded views raises about broker 2."""
        topic = next(t for t in self.result.topics if t.endswith(suffix))
        views = {broker: self.recorder.seen[topic, broker] for broker in (1, 3)}
        key = KEYS[suffix]
        mine = [r for r in views[1].records.values() if r.key == key]
        high, low = HASHER.key_hash(key.encode())
        base = Claim(
            suspect_id=f"suspect-{suffix}",
            rule=Rule.LATEST_VALUE if suffix == "tombstone" else Rule.OUTCOME,
            kind=KINDS[suffix],
            topic=topic,
            partition=0,
            broker=2,
            key_hash_hi=high,
            key_hash_lo=low,
            raised_at_ms=int(time.time() * 1000),
        )
        if suffix == "tombstone":
            return replace(base, offset=next(r.offset for r in mine if r.value is None))
        first = next(r for r in mine if r.producer_id >= 0 and r.outcome is not Outcome.NONE)
        marker, kind = min((o, m) for o, m in views[1].markers.items() if o > first.offset)
        return replace(
            base,
            offset=first.offset,
            producer_id=first.producer_id,
            transaction_start_offset=first.offset,
            marker_offset=marker,
            recorded=RecordedByViews(markers=dict.fromkeys((1, 3), "commit" if kind is RowKind.COMMIT else "abort")),
        )


@pytest.fixture(scope="module")
def client(played: Played) -> ReplicaClient:
    return played.client


@pytest.fixture(scope="module")
def diverged(played: Played) -> Stage:
    return Stage(played.lab, played.client, played.recorder, played.gone["legacy"])


@pytest.fixture(scope="module")
def healthy(played: Played) -> Stage:
    return Stage(played.lab, played.client, played.recorder, played.well["legacy"])


@pytest.fixture
def prober(client: ReplicaClient) -> Iterator[Prober]:
    prober = Prober(client, HASHER, FindingSettings(probe_timeout_ms=30_000), payload="key")
    yield prober
    prober.close()


def judged(prober: Prober, claim: Claim, *, live_only: bool = False) -> Decision:
    (answers,) = prober.probe([claim])
    json.dumps(answers.evidence())
    return decide(claim, answers, live_only=live_only)


@pytest.mark.parametrize("suffix", list(KINDS))
def test_a_real_divergence_is_confirmed(diverged: Stage, prober: Prober, suffix: str) -> None:
    got = judged(prober, diverged.claim(suffix))
    assert (got.verdict, got.kind) == (ClaimState.CONFIRMED, KINDS[suffix]), got.reason


@pytest.mark.parametrize("suffix", list(KINDS))
def test_a_real_divergence_stays_open_when_it_is_checked_again(diverged: Stage, prober: Prober, suffix: str) -> None:
    got = judged(prober, diverged.claim(suffix), live_only=True)
    assert got.verdict is ClaimState.CONFIRMED, got.reason


def epoch_of(client: ReplicaClient, claim: Claim, offset: int, broker: int = 1) -> int:
    """The leader epoch in which an offset was written, as the comparison would have it: the first that ends above."""
    ends = ((e, client.end_offset_for_epoch(broker, claim.topic, claim.partition, e)) for e in range(64))
    return next(epoch for epoch, end in ends if end is not None and end[1] > offset)


def second(prober: Prober, claim: Claim) -> Opinion:
    """What the judge in shadow says by the same answers; no policy of the topics deletes anything."""
    place = claim.marker_offset if claim.marker_offset >= 0 else claim.offset
    claim = replace(claim, recorded=replace(claim.recorded, leader_epoch=epoch_of(prober.client, claim, place)))
    (answers,) = prober.probe([claim])
    return opinion(claim, answers, Ledger(0), compacted=True, deletes=False)


@pytest.mark.parametrize("suffix", list(KINDS))
def test_the_judge_in_shadow_accuses_the_same_replica_or_does_not_know(
    diverged: Stage, prober: Prober, suffix: str
) -> None:
    """Where broker 2 has cleaned what it took for aborted, nothing that it shows says how it ended the transaction."""
    got = second(prober, diverged.claim(suffix))
    has_cleaned_it = suffix == "commit"
    assert (got.says, got.accused) == ((Says.UNKNOWN, set()) if has_cleaned_it else (Says.WRONG, {2}))


@pytest.mark.parametrize("suffix", list(KINDS))
def test_the_judge_in_shadow_accuses_nobody_of_a_healthy_partition(healthy: Stage, prober: Prober, suffix: str) -> None:
    assert not second(prober, healthy.claim(suffix)).verdicts


@pytest.mark.parametrize("suffix", ["abort", "commit", "deletion"])
def test_a_missing_marker_is_confirmed_as_the_wrong_outcome_it_has_become(
    diverged: Stage, prober: Prober, suffix: str
) -> None:
    claim = replace(diverged.claim(suffix), kind=FindingKind.MARKER_MISSING)
    assert (got := judged(prober, claim)).kind is KINDS[suffix], got.reason
    assert got.verdict is ClaimState.CONFIRMED


def test_a_missing_marker_at_which_the_last_stable_offset_stands_is_confirmed_as_frozen(
    diverged: Stage, prober: Prober
) -> None:
    got = judged(prober, replace(diverged.claim("frozen"), kind=FindingKind.MARKER_MISSING))
    assert (got.verdict, got.kind) == (ClaimState.CONFIRMED, FindingKind.READ_COMMITTED_FROZEN), got.reason


def test_show_record_shows_what_a_follower_alone_still_has(diverged: Stage, played: Played) -> None:
    """Broker 2 has missed the tombstone of a key, and shows the value before it; the others have cleaned both."""
    topic = next(t for t in diverged.result.topics if t.endswith("tombstone"))
    mine = diverged.recorder.seen[topic, 2].records.values()
    value = next(record for record in mine if record.key == KEYS["tombstone"] and record.value is not None)
    words = ["--topic", topic, "--partition", "0", "--offset", str(value.offset), "--format", "json"]
    ended = CliRunner().invoke(app, ["show-record", "-c", str(played.job.config), *words])
    assert ended.exit_code == 0, ended.stderr
    brokers = json.loads(ended.stdout)["brokers"]
    assert {broker: one["held"] for broker, one in brokers.items()} == {"1": "nothing", "2": "record", "3": "nothing"}
    record = brokers["2"]["record"]
    assert (record["key"], record["value"]) == ({"text": value.key}, {"text": value.value})
    assert brokers["2"]["read_committed"] == "shown"


def test_the_page_asks_each_broker_and_says_in_what_they_differ(diverged: Stage, client: ReplicaClient) -> None:
    topic = next(t for t in diverged.result.topics if t.endswith("tombstone"))
    mine = diverged.recorder.seen[topic, 2].records.values()
    value = next(record for record in mine if record.key == KEYS["tombstone"] and record.value is not None)
    found = Asking(client, "full").ask(finding(topic=topic, offset=value.offset))
    (there, *_), (said,) = found[0].rows, [row for row in found[0].rows if row.name == "value"]
    nothing = "nothing: the cleaner has removed it"
    assert [cell.text for cell in there.cells] == [nothing, "a record", nothing]
    assert [cell.version for cell in there.cells] == ["A", "B", "A"]
    assert [cell.text for cell in said.cells] == ["", value.value, ""]


def test_show_record_shows_that_a_frozen_replica_holds_back_what_the_others_show(
    diverged: Stage, played: Played
) -> None:
    claim = diverged.claim("frozen")
    words = ["--topic", claim.topic, "--partition", "0", "--offset", str(claim.offset), "--format", "json"]
    ended = CliRunner().invoke(app, ["show-record", "-c", str(played.job.config), *words])
    served = {broker: one["read_committed"] for broker, one in json.loads(ended.stdout)["brokers"].items()}
    assert served["2"] == "held_back"
    assert not {"held_back", "unknown"} & {served["1"], served["3"]}


@pytest.mark.parametrize("suffix", ["tombstone", "frozen"])
def test_the_replicas_that_are_right_are_not_accused(diverged: Stage, prober: Prober, suffix: str) -> None:
    assert judged(prober, replace(diverged.claim(suffix), broker=3)).verdict is ClaimState.DISMISSED


def test_the_recorded_offsets_lead_to_the_old_value(diverged: Stage, client: ReplicaClient) -> None:
    claim = diverged.claim("tombstone")

    def recorded(topic: str, partition: int, keys: Sequence[Key]) -> KeyHistory:
        assert (topic, partition, keys) == (claim.topic, 0, [claim.key])
        at = claim.offset
        logs = {broker: ReadLog(0, at + 1, epoch_of(client, claim, at, broker)) for broker in (1, 2, 3)}
        return KeyHistory(logs, {(broker, keys[0]): [0] for broker in logs})

    prober = Prober(client, HASHER, FindingSettings(probe_timeout_ms=30_000), history=recorded)
    got = judged(prober, claim)
    prober.close()
    assert got.verdict is ClaimState.CONFIRMED, got.reason


def test_an_end_marker_where_a_claim_has_a_record_is_among_the_answers(healthy: Stage, prober: Prober) -> None:
    claim = healthy.claim("commit")
    place = claim.marker_offset
    for misplaced in ({"offset": place}, {"transaction_start_offset": place}):
        (answers,) = prober.probe([replace(claim, marker_offset=-1, **misplaced)])
        held = {broker for broker, answer in answers.replicas.items() for m in answer.markers if m.offset == place}
        assert held == {1, 2, 3}


def test_a_log_with_more_bytes_than_a_probe_may_read_is_scanned_and_the_suspect_waits(
    diverged: Stage, client: ReplicaClient
) -> None:
    prober = Prober(client, HASHER, FindingSettings.model_construct(max_scan_bytes=0, probe_timeout_ms=30_000))
    got = judged(prober, diverged.claim("tombstone"))
    prober.close()
    assert got.verdict is ClaimState.PENDING
    assert "the log of broker 2 is being scanned" in got.reason


@pytest.mark.parametrize("suffix", list(KINDS))
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_healthy_replica_is_dismissed(healthy: Stage, prober: Prober, suffix: str, broker: int) -> None:
    got = judged(prober, replace(healthy.claim(suffix), broker=broker))
    assert got.verdict is ClaimState.DISMISSED, got.reason


def test_claims_about_one_partition_are_probed_together(diverged: Stage, prober: Prober) -> None:
    claim = diverged.claim("frozen")
    other = replace(claim, suspect_id="other", kind=FindingKind.DELETED_RECORD_RESURRECTED, producer_id=-1)
    answers = prober.probe([claim, other])
    assert decide(claim, answers[0]).verdict is ClaimState.CONFIRMED
    assert decide(other, answers[1]).verdict is ClaimState.PENDING
    assert answers[1].key == b"account-9"


class Watch:
    """Waits for what the manager commits."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.status = FindingsStatus()

    def __call__(self, status: FindingsStatus) -> None:
        with self.changed:
            self.status = status
            self.changed.notify_all()

    def until(self, condition: Callable[[FindingsStatus], bool], timeout: float = PATIENCE_S) -> FindingsStatus:
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self.status), timeout), self.status
            return self.status


def row(claim: Claim) -> dict[str, object]:
    names = ("suspect_id", "rule", "kind", "topic", "partition", "broker", "offset", "producer_id")
    more = ("transaction_start_offset", "marker_offset", "key_hash_hi", "key_hash_lo")
    observations = json.dumps(claim.recorded.as_json())
    return {n: getattr(claim, n) for n in (*names, *more)} | {
        "observations": observations,
        "raised_at": claim.raised_at_ms,
    }


def test_the_manager_writes_one_finding_for_each_divergence(
    diverged: Stage, client: ReplicaClient, tmp_path: Path
) -> None:
    kafka = {"bootstrap.servers": diverged.cluster.bootstrap_servers}
    settings = settings_of(tmp_path, kafka=kafka, read={"payload": "key"}, findings={"probe_retry_ms": 100})
    watch = Watch()
    manager = FindingsManager(settings, client, HASHER, on_change=watch)
    manager.start()
    try:
        started = time.monotonic()
        manager.offer(row(diverged.claim(suffix)) for suffix in KINDS)
        status = watch.until(lambda s: len(s.open) == len(KINDS) and not s.pending)
        print(f"five suspects confirmed in {time.monotonic() - started:.2f} s")
    finally:
        manager.stop()
    events = read_events(str(tmp_path))
    assert sorted(str(e.kind) for e in events) == sorted(KINDS.values())
    assert not {"contradict", "failed"} & status.second_opinions.keys()
    assert sum(status.second_opinions.values()) >= len(KINDS)
    assert all(e.status is FindingStatus.CONFIRMED and e.broker == 2 for e in events)
    assert {e.key.decode() for e in events if e.key} >= {"customer-7", "transfer-1"}
    assert all(set(json.loads(e.evidence)["replicas"]) == {"1", "2", "3"} for e in events)


def test_an_accused_that_does_not_answer_leaves_the_suspect_pending_until_it_does(
    diverged: Stage, tmp_path: Path
) -> None:
    kafka = {"bootstrap.servers": diverged.cluster.bootstrap_servers}
    settings = settings_of(tmp_path, kafka=kafka, findings={"probe_retry_ms": 100})
    client = ReplicaClient(kafka, timeout_ms=3000)
    watch = Watch()
    manager = FindingsManager(settings, client, HASHER, on_change=watch)
    diverged.cluster.pause_broker(2)
    try:
        manager.start()
        claim = diverged.claim("frozen")
        manager.offer([row(claim)])
        watch.until(lambda s: "broker 2" in s.waits.get(claim.place, ""))
        assert watch.status.open == ()
        diverged.cluster.resume_broker(2)
        watch.until(lambda s: len(s.open) == 1)
    finally:
        diverged.cluster.resume_broker(2)
        manager.stop()
        client.close()
        diverged.cluster.wait_isr(diverged.result.topics, {1, 2, 3})
