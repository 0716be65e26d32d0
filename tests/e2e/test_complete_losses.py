"""What no replica shows any more, and recorded evidence proves: losses that are complete, and who is right."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from parallax.findings.explain import explain
from parallax.findings.finding import Finding
from parallax.findings.table import read_events
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import ExpectedFinding, ScenarioResult, scripts
from parallax.lab.scenarios.conductor import KEPT, Conductor, Write
from parallax.lab.scenarios.stage import Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import ReplicaView
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus
from parallax.replica.client import ReplicaClient
from tests.e2e.auditing import results, run_here
from tests.e2e.job_process import JobProcess, await_exactly
from tests.e2e.viewing import view

pytestmark = [pytest.mark.timeout(1200), pytest.mark.release]

REPLICAS = (1, 2, 3)
SEVERAL = ("order-1", "order-2", "order-3")

COPIED, CLEANED, ROLLED_BACK, TAKEN_OFF, ALONE = (
    f"lost-{suffix}" for suffix in ("copied", "cleaned", "rolled-back", "taken-off", "alone")
)
COMPLETE = (COPIED, CLEANED, ROLLED_BACK, TAKEN_OFF, ALONE)
LISTED, VANISHED = "lost-listed", "lost-vanished"
FROZEN, POISONED, HIDDEN = "lost-frozen", "lost-poisoned", "lost-hidden"


def kept(write: Write) -> Write:
    """The same script, after which no broker cleans anything once broker 2 is back."""

    def written(stage: Stage) -> Script:
        script = write(stage)
        while True:
            try:
                step = next(script)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Return):
                stage.keep()
            yield step

    return written


def listed_alone(lab: Cluster, client: ReplicaClient) -> Write:
    """A transaction deletes three keys, and of it only broker 2's list of aborted transactions is left anywhere."""

    def deletions(stage: Stage) -> Script:
        old = [stage.put(key, "open") for key in SEVERAL]
        stage.begin()
        gone = [stage.send(key, None) for key in SEVERAL]
        assert [one - gone[0] for one in gone] == [0, 1, 2]
        yield Outage()
        commit = stage.commit()
        assert commit == gone[-1] + 1, "no end marker has room below it"
        yield Cleaning(superseded=old, evidence=[*gone, commit])
        stage.begin()
        stage.send("order-4", "rolled back")
        abort = stage.abort()
        stage.keep()

        def is_wrong(shown: ReplicaView) -> bool:
            return gone[0] in shown.aborted_from and set(SEVERAL) <= shown.visible.keys()

        yield Return(wrong=is_wrong, right=lambda shown: not shown.visible.keys() & set(SEVERAL))
        clean_once(lab, client, stage.topic, *gone, behind=abort)
        return Divergence(FindingKind.COMMITTED_RECORD_ABORTED, gone[0], SEVERAL[0])

    return deletions


def clean_once(lab: Cluster, client: ReplicaClient, topic: str, *offsets: int, behind: int) -> None:
    """Let the cleaner of broker 2 pass once over all up to an offset; a second pass would take more than these."""
    producer = PlainProducer(lab.bootstrap_servers)

    def rolled() -> bool:
        producer.fill([topic], 1)
        folder = lab.brokers[2].folder / "data" / f"{topic}-0"
        return max(int(file.stem) for file in folder.glob("*.log")) > behind

    until(rolled, f"the segment of offset {behind} of {topic} to be closed on broker 2", interval=0.6)
    admin.set_topic_config(lab, topic, dict.fromkeys(KEPT))
    until(lambda: not any(view(client, 2, topic).holds(o) for o in offsets), f"broker 2 to have cleaned {offsets}")
    admin.set_topic_config(lab, topic, KEPT)


def of_topics(result: ScenarioResult, topics: Collection[str]) -> ScenarioResult:
    expected = tuple(one for one in result.expected if one.topic in topics)
    return replace(result, topics=tuple(topics), expected=expected)


class _Unwatched(Conductor):
    """The job is dead from before broker 2 returns until all is played."""

    job: JobProcess

    def _return_victim(self) -> None:
        self.job.kill()
        super()._return_victim()


@dataclass
class Lost:
    """Topics whose replicas differ, and a job that has found it."""

    lab: Cluster
    job: JobProcess
    client: ReplicaClient
    producer: PlainProducer
    expected: Mapping[str, ExpectedFinding]
    result: ScenarioResult

    def standing(self, topic: str) -> Finding:
        (finding,) = [f for f in self.job.findings() if (f.topic, f.broker) == (topic, 2)]
        return finding

    def statuses(self, topic: str) -> list[FindingStatus]:
        """What became of what is said of broker 2, in order, without repetition."""
        told = [event.status for event in read_events(self.job.storage) if (event.topic, event.broker) == (topic, 2)]
        return [one for before, one in zip([None, *told], told, strict=False) if one is not before]

    def await_rechecks(self) -> None:
        """Wait until all that stands has been asked about again, three times."""

        def probes() -> float:
            return self.job.metric("parallax_probes_total") or 0.0

        enough = probes() + 3 * len([f for f in self.job.findings() if f.stands])
        until(lambda: probes() > enough, "all findings to be asked about again", interval=0.5)

    def shown(self, topic: str, broker: int) -> str | None:
        return view(self.client, broker, topic).visible.get(self.expected[topic].key)

    def clean(self, topic: str, *offsets: int, on: Collection[int] = REPLICAS) -> None:
        """Let compaction take records from replicas that hold any."""
        admin.set_topic_config(self.lab, topic, dict.fromkeys(KEPT))

        def compacted() -> bool:
            self.producer.fill([topic], 20)
            return not any(view(self.client, b, topic).holds(offset) for b in on for offset in offsets)

        until(compacted, f"brokers {on} to have cleaned {offsets} of {topic}", timeout=120, interval=0.6)

    def copy_all(self, topic: str) -> None:
        """Make the other replicas copies of that of broker 2, one after the other."""
        admin.elect_leaders(self.lab, topic, broker=2)
        for replicas in ([2, 1], [2, 1, 3], [2, 3], [2, 3, 1]):
            admin.reassign(self.lab, topic, replicas=replicas)


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lost]:
    with (
        Cluster() as lab,
        JobProcess(
            tmp_path_factory.mktemp("lost"),
            lab.bootstrap_servers,
            "lost-.*",
            findings={"recheck_interval_s": 2, "probe_retry_ms": 500},
            read={"payload": "key"},
        ) as job,
        closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)) as client,
    ):
        job.start()
        conductor = _Unwatched(
            "complete losses",
            {
                COPIED: kept(scripts.committed_record_aborted),
                CLEANED: kept(scripts.committed_record_aborted),
                ROLLED_BACK: scripts.aborted_deletion_committed,
                VANISHED: scripts.aborted_deletion_committed,
                TAKEN_OFF: kept(scripts.deleted_record_resurrected),
                ALONE: kept(scripts.aborted_record_committed),
                LISTED: listed_alone(lab, client),
                FROZEN: kept(scripts.read_committed_frozen),
                POISONED: kept(scripts.aborted_record_committed),
                HIDDEN: kept(scripts.committed_record_aborted),
            },
            lab,
            diverges=True,
            producer="legacy",
            topic_prefix="",
            say=lambda _: None,
            await_observed=job.await_observed,
            hold_s=0.0,
            outage="kill",
        )
        conductor.job = job
        result = conductor.play()
        job.start()
        await_exactly(job, of_topics(result, COMPLETE))
        expected = {one.topic: one for one in result.expected}
        yield Lost(lab, job, client, PlainProducer(lab.bootstrap_servers), expected, result)


@pytest.fixture(scope="module")
def complete(lost: Lost) -> Lost:
    """All replicas are wrong by now, of each of these topics in another way."""
    lab = lost.lab
    offsets = {topic: one.offset for topic, one in lost.expected.items() if one.offset is not None}
    old = {topic: lost.shown(topic, 2) for topic in COMPLETE}
    lost.copy_all(COPIED)
    lost.clean(COPIED, offsets[COPIED])
    lost.clean(CLEANED, offsets[CLEANED])
    lost.copy_all(CLEANED)
    deletion = offsets[ROLLED_BACK]
    clean_once(lab, lost.client, ROLLED_BACK, deletion - 1, behind=view(lost.client, 2, ROLLED_BACK).high_watermark)
    assert view(lost.client, 2, ROLLED_BACK).holds(deletion)
    lost.copy_all(ROLLED_BACK)
    admin.elect_leaders(lab, TAKEN_OFF, broker=2)
    for replicas in ([2, 1], [2, 1, 3], [2, 3]):
        admin.reassign(lab, TAKEN_OFF, replicas=replicas)
    admin.reassign(lab, ALONE, replicas=[2])
    for topic in COMPLETE:
        state = lab.partition(topic)
        assert state is not None
        assert {lost.shown(topic, broker) for broker in state.replicas} == {old[topic]}
    return lost


@pytest.mark.parametrize("topic", [FROZEN, POISONED, HIDDEN])
def test_who_is_right_is_said_though_record_and_end_marker_are_cleaned_there(lost: Lost, topic: str) -> None:
    """What proves it is the end marker that the job had recorded."""
    first = lost.expected[topic].offset
    assert first is not None
    assert not any(view(lost.client, b, topic).holds(first + n) for b in (1, 3) for n in range(2))
    said = explain(lost.standing(topic), [f for f in lost.job.findings() if f.topic == topic])
    assert said.right == "Broker 2 is proven wrong, brokers 1 and 3 are right in this."
    assert f"at offset {first + 1}, epoch 0, that brokers 1 and 3 had shown" in said.proof
    assert said.back is not None, "there is a replica to copy"


@pytest.mark.parametrize("topic", COMPLETE)
def test_a_loss_is_reported_as_complete_as_soon_as_no_right_replica_is_left(complete: Lost, topic: str) -> None:
    until(lambda: complete.standing(topic).status is FindingStatus.SPREAD, f"the loss of {topic} to be complete")
    assert complete.statuses(topic) == [FindingStatus.CONFIRMED, FindingStatus.SPREAD]


def test_an_audit_of_replicas_that_are_all_wrong_says_so(complete: Lost) -> None:
    chosen = (CLEANED, ROLLED_BACK)
    ended = run_here(complete.job.config, *(f"--topic={topic}" for topic in chosen), "--format", "json")
    assert {topic: one["result"] for topic, one in results(ended).items()} == dict.fromkeys(chosen, "diverged")


@pytest.mark.parametrize("topic", COMPLETE)
def test_a_complete_loss_stands_until_its_key_is_written_again(complete: Lost, topic: str) -> None:
    assert complete.standing(topic).status is FindingStatus.SPREAD
    first = complete.expected[topic].offset
    assert first is not None
    if topic == ROLLED_BACK:
        complete.clean(topic, first)
        complete.await_rechecks()
    complete.producer.send(topic, complete.expected[topic].key, "as it should be")
    until(lambda: not [f for f in complete.job.findings() if f.topic == topic and f.stands], f"{topic} to be over")
    assert complete.statuses(topic) == [FindingStatus.CONFIRMED, FindingStatus.SPREAD, FindingStatus.RESOLVED]
    assert json.loads(complete.standing(topic).evidence)["resolution"] == "superseded"


def test_of_a_transaction_that_one_list_alone_still_names_its_replica_is_accused_once(lost: Lost) -> None:
    first = lost.expected[LISTED].offset
    assert first is not None
    shown = view(lost.client, 2, LISTED)
    assert first in shown.aborted_from
    assert not any(view(lost.client, b, LISTED).holds(first + n) for b in REPLICAS for n in range(4))
    (found,) = await_exactly(lost.job, of_topics(lost.result, [LISTED]))
    assert (found.kind, found.broker, found.is_open) == (FindingKind.COMMITTED_RECORD_ABORTED, 2, True)


def test_a_value_that_a_rolled_back_deletion_took_from_all_is_not_over(lost: Lost) -> None:
    """The deletion is gone as well, and another one may have come and gone: all may be right."""
    deletion = lost.expected[VANISHED].offset
    assert deletion is not None
    lost.clean(VANISHED, deletion - 1, deletion, on=[2])
    lost.copy_all(VANISHED)
    assert [lost.shown(VANISHED, broker) for broker in REPLICAS] == [None] * 3
    until(lambda: lost.standing(VANISHED).status is FindingStatus.UNSETTLED, "nothing to say that all are right")
    lost.await_rechecks()
    assert lost.statuses(VANISHED) == [FindingStatus.CONFIRMED, FindingStatus.UNSETTLED]
