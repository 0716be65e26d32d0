"""The ways in which a replica on real brokers comes to have each kind of finding, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import Scenario, scripts
from parallax.lab.scenarios.conductor import KEPT, AwaitObserved
from parallax.lab.scenarios.stage import Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.lab.traffic import LegacyTransactionalProducer, PlainProducer, ProducerKind
from parallax.lab.waiting import until
from parallax.model import NOBODY, FindingKind
from tests.e2e.damaged import RIGHT, change_record, lose_index, lose_record
from tests.e2e.job_process import JobProcess
from tests.e2e.play import Part, play

COPIED, AFTER_LEADING = ("drop", "copy"), ("lead", "drop", "copy", "order")
"""The steps of a copy, of a replica that follows, and of one that leads."""
BY_WORD = ("--right", "1")
"""What a person says where nothing proves who is right: broker 1 is."""


@dataclass(frozen=True)
class Way:
    """How one topic comes to have a finding, and what ends it.

    Attributes:
        topic: the topic; broker 2's replica is wrong.
        kind: what the job calls it.
        steps: of the plan: ``commit`` or ``abort`` for an end marker, else the purpose of the reassignment.
        said: what a person says for the plan.
        accused: the brokers that findings of the kind accuse, each in one of its own; -1 for one that accuses nobody.
        also: the kind of another finding, which accuses broker 2.
    """

    topic: str
    kind: FindingKind
    steps: tuple[str, ...] = COPIED
    said: tuple[str, ...] = ()
    accused: tuple[int, ...] = (2,)
    also: FindingKind | None = None

    @property
    def findings(self) -> set[tuple[FindingKind, int]]:
        """All findings about the topic, each as its kind and the broker that it accuses."""
        return {(self.kind, broker) for broker in self.accused} | ({(self.also, 2)} if self.also else set())

    @property
    def leads(self) -> bool:
        """Whether the wrong replica leads when the plan is made."""
        return self.steps == AFTER_LEADING


def _by(producer: ProducerKind) -> tuple[Way, ...]:
    """What only one who writes in transactions can meet."""
    return (
        Way(f"{producer}-commit", FindingKind.READ_COMMITTED_FROZEN, ("commit",)),
        Way(f"{producer}-abort", FindingKind.READ_COMMITTED_FROZEN, ("abort",)),
        Way(f"{producer}-shown", FindingKind.ABORTED_RECORD_COMMITTED, said=BY_WORD),
        Way(f"{producer}-deleted", FindingKind.ABORTED_RECORD_COMMITTED, said=BY_WORD),
        Way(f"{producer}-hidden", FindingKind.COMMITTED_RECORD_ABORTED, said=BY_WORD),
    )


WAYS = (
    *_by("legacy"),
    *_by("java"),
    Way(
        "two-open",
        FindingKind.MARKER_MISSING,
        ("abort", "commit"),
        ("--outcome", "abort", "--offset", "0"),
        also=FindingKind.READ_COMMITTED_FROZEN,
    ),
    Way("copied-tombstone", FindingKind.DELETED_RECORD_RESURRECTED, AFTER_LEADING),
    Way("lost-index", FindingKind.OUTCOME_CONTRADICTS_MARKER),
    Way("lost-record", FindingKind.RECORD_MISSING),
    Way("lost-record-led", FindingKind.RECORD_MISSING, AFTER_LEADING),
    Way("lost-record-of-two", FindingKind.RECORD_MISSING),
    Way("lost-record-of-two-led", FindingKind.RECORD_MISSING, AFTER_LEADING),
    Way("lost-record-twice", FindingKind.RECORD_MISSING, COPIED * 2, accused=(2, 3)),
    Way("lost-value", FindingKind.VISIBILITY_MISMATCH, said=BY_WORD, accused=(NOBODY,)),
    Way("lost-content", FindingKind.CONTENT_MISMATCH, said=BY_WORD, accused=(NOBODY,)),
    Way("lost-newer-content", FindingKind.CONTENT_MISMATCH),
    Way("lost-head", FindingKind.LOG_HEAD_MISSING, said=BY_WORD),
)
BY_HAND = Way("lost-index-by-hand", FindingKind.OUTCOME_CONTRADICTS_MARKER)
"""A person does the steps on the broker's disk."""
WRITTEN_AGAIN = Way("lost-tail", FindingKind.LOG_TRUNCATED, (), accused=(1,))
"""Whoever wrote it writes it once more: each log is cut where the elected one ends, so no replica has it."""
NOT_HAD: Mapping[FindingKind, str] = {}
"""Kinds that no replica can be given here, and why."""


# --- what an outage leaves ------------------------------------------------------------------------------------------


def frozen_by_abort(stage: Stage) -> Script:
    """Broker 2 misses the last end marker of a producer, an ABORT; no other replica has its record any more."""
    stage.begin()
    first = stage.send("transfer-9", "rolled back")
    yield Outage()
    abort = stage.abort()
    stage.put("account-9", "120")
    yield Cleaning(superseded=[first], evidence=[abort])
    yield Return(
        wrong=lambda view: view.high_watermark > abort and view.last_stable_offset == first,
        right=lambda view: view.last_stable_offset == view.high_watermark and "transfer-9" not in view.visible,
    )
    return Divergence(FindingKind.READ_COMMITTED_FROZEN, first, "transfer-9")


def two_left_open(lab: Cluster) -> Callable[[Stage], Script]:
    """Broker 2 misses the last end markers of two producers. The first transaction holds the second one's effect back.

    Only the second one's marker is directly behind its first record, and so proves how it ended.
    """

    def script(stage: Stage) -> Script:
        other = LegacyTransactionalProducer(lab.bootstrap_servers, f"{stage.topic}-other")
        other.begin()
        held = stage._note(other.send(stage.topic, "transfer-9", "rolled back"))
        stage.begin()
        first = stage.send("account-9", "100")
        yield Outage()
        commit = stage.commit()
        other.abort()
        abort = stage._note(stage._next_marker())
        stage.put("account-9", "120")
        yield Cleaning(superseded=[held, first], evidence=[commit, abort])
        yield Return(
            wrong=lambda view: view.high_watermark > abort and view.last_stable_offset == held,
            right=lambda view: view.last_stable_offset == view.high_watermark and "transfer-9" not in view.visible,
        )
        return Divergence(FindingKind.READ_COMMITTED_FROZEN, held, "transfer-9")

    return script


def miss(lab: Cluster, job: JobProcess) -> None:
    """Have broker 2 miss tombstones and end markers while it is away; returns once all of it is found.

    Whoever is away when a finding is confirmed is not known to be right, so that no broker may be stopped before.
    """
    observed = job.await_observed
    of_each = Scenario(
        "missed",
        {
            "commit": scripts.read_committed_frozen,
            "abort": frozen_by_abort,
            "shown": scripts.aborted_record_committed,
            "deleted": scripts.aborted_deletion_committed,
            "hidden": scripts.committed_record_aborted,
        },
    )
    more = {"two-open": two_left_open(lab), "copied-tombstone": scripts.deleted_record_resurrected}
    kinds: tuple[ProducerKind, ...] = ("legacy", "java")
    parts = [Part(of_each, f"{kind}-", kind, observed) for kind in kinds]
    played = play(lab, [*parts, Part(Scenario("more", more), "", await_observed=observed)])
    topics = {topic for one in played for topic in one.topics}
    until(lambda: topics <= {finding.topic for finding in job.findings()}, f"all of {topics} to be found")


# --- what a disk loses ----------------------------------------------------------------------------------------------

Damage = Callable[[Cluster, int, str], None]
"""Hurts the replica of a topic on the disk of a broker that is down."""
_COMPACTED = {"cleanup.policy": "compact", **KEPT}
_NEWER = "lost-newer-content"


@dataclass(frozen=True)
class _Loss:
    """What the disk of broker 2 does to a topic.

    Attributes:
        damage: does it.
        replicas: the brokers that hold the topic.
        config: settings of the topic.
        filling: bytes that each record has beyond its value.
        in_transactions: whether a committed and an aborted transaction are written, else four records.
    """

    damage: Damage
    replicas: tuple[int, ...] = (1, 2, 3)
    config: Mapping[str, str] = field(default_factory=dict)
    filling: int = 0
    in_transactions: bool = False


def _one_record(lab: Cluster, broker: int, topic: str) -> None:
    lose_record(lab, broker, topic, 1)


def _its_content(lab: Cluster, broker: int, topic: str) -> None:
    change_record(lab, broker, topic, 1)


def _its_newer_content(lab: Cluster, broker: int, topic: str) -> None:
    """The last record, which was written when broker 1 led for the second time, is one of an epoch before that."""
    change_record(lab, broker, topic, 4, epoch=0)


def _the_head(lab: Cluster, broker: int, topic: str) -> None:
    admin.lose_head(lab, broker, topic, segments=2)


_LOSSES = {
    "lost-index": _Loss(lose_index, in_transactions=True),
    BY_HAND.topic: _Loss(lose_index, in_transactions=True),
    "lost-record": _Loss(_one_record),
    "lost-record-led": _Loss(_one_record),
    "lost-record-of-two": _Loss(_one_record, (1, 2)),
    "lost-record-of-two-led": _Loss(_one_record, (1, 2)),
    "lost-record-twice": _Loss(_one_record),
    "lost-value": _Loss(_one_record, config=_COMPACTED),
    "lost-content": _Loss(_its_content, config=_COMPACTED),
    _NEWER: _Loss(_its_newer_content),
    # A segment of each record.
    "lost-head": _Loss(_the_head, config=_COMPACTED | {"segment.bytes": str(1 << 20)}, filling=700 << 10),
}


def lose(lab: Cluster, job: JobProcess) -> None:
    """Have the disk of broker 2 lose or change what a job has read; of one topic the disk of broker 3 as well."""
    plain = PlainProducer(lab.bootstrap_servers)
    for topic, loss in _LOSSES.items():
        lab.create_topic(topic, replicas=loss.replicas, config=loss.config)
    job.await_policies([topic for topic, loss in _LOSSES.items() if not loss.config])
    for topic, loss in _LOSSES.items():
        (_write_transactions if loss.in_transactions else _write)(lab, plain, topic, loss.filling)
    for broker in (3, 1):
        admin.elect_leaders(lab, _NEWER, broker=broker)
    _all_observed(plain, job.await_observed)
    lab.stop_broker(2)
    for topic, loss in _LOSSES.items():
        lab.wait_isr(topic, {*loss.replicas} - {2})
        loss.damage(lab, 2, topic)
    lab.start_broker(2)
    _all_in_sync(lab)
    lab.stop_broker(3)
    lab.wait_isr("lost-record-twice", {1, 2})
    _one_record(lab, 3, "lost-record-twice")
    lab.start_broker(3)
    _all_in_sync(lab)


def _write(_: Cluster, plain: PlainProducer, topic: str, filling: int) -> None:
    for number in range(4):
        plain.send(topic, f"k{number}", f"{RIGHT}{'.' * filling}")


def _write_transactions(lab: Cluster, _: PlainProducer, topic: str, __: int) -> None:
    producer = LegacyTransactionalProducer(lab.bootstrap_servers, topic)
    for end in (producer.commit, producer.abort):
        producer.begin()
        producer.send(topic, end.__name__, "written")
        end()


def _all_observed(plain: PlainProducer, observed: AwaitObserved) -> None:
    """Write one more record to each topic, and wait until the job has read it of every replica."""
    last = {topic: plain.send(topic, "last", RIGHT) for topic in _LOSSES}
    for topic, loss in _LOSSES.items():
        for broker in loss.replicas:
            observed(topic, last[topic], broker)


def _all_in_sync(lab: Cluster) -> None:
    for topic, loss in _LOSSES.items():
        lab.wait_isr(topic, loss.replicas)


def cut(lab: Cluster, observed: AwaitObserved) -> None:
    """Elect broker 2, which lacks what broker 1 has shown."""
    plain, topic = PlainProducer(lab.bootstrap_servers), WRITTEN_AGAIN.topic
    lab.create_topic(topic, replicas=[1, 2])
    observed(topic, plain.send(topic, "k0", RIGHT), 2)
    lab.stop_broker(2)
    lab.wait_isr(topic, {1})
    observed(topic, plain.send(topic, "k1", RIGHT), 1)
    lab.stop_broker(1)
    lab.start_broker(2)
    lab.wait_ready()
    assert admin.elect_leaders(lab, topic, unclean=True) == 2
    for number in range(3):
        plain.send(topic, "k0", f"{RIGHT}, {number}")
    lab.start_broker(1)
    lab.wait_isr(topic, {1, 2})
