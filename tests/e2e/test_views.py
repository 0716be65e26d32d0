"""The queries that record the views, on real brokers: each row once, and no broker holds up another.

A query may break off at the places where a crash hurts most: by an error there, in this process, or with the process.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from parallax.lab.cluster import Cluster
from parallax.model import ReadEvent, RowKind
from parallax.source import feedback
from parallax.source.repeats import RETENTIONS
from parallax.views import sink
from parallax.views.blocks import blocks_of
from parallax.views.sink import ViewSink
from tests.e2e.job_process import kill_with_children
from tests.e2e.recording import VIEWS, Queries, settings, wait

JOB = """
import contextlib, json, sys
import psutil
from parallax.config import validate
from parallax.source import feedback
from parallax.supervisor import Supervised, Supervisor
from parallax.views import sink
from parallax.views.queries import view_queries
from parallax.views.session import build_session

settings, point, batch = validate(json.loads(sys.argv[1])), sys.argv[2], int(sys.argv[3])

def die():
    for process in [*psutil.Process().children(recursive=True), psutil.Process()]:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker ends by itself when its JVM is gone
            process.kill()

def before(module, name, when):
    real = getattr(module, name)
    def wrapped(*arguments):
        if when(*arguments):
            die()
        return real(*arguments)
    setattr(module, name, wrapped)

if point == "before the commit":
    before(sink, "commit", lambda table, files, query, number: number == batch)
elif point == "after the commit":
    before(feedback.Journal, "append", lambda _, moved, *__: any(entry.batch == batch for entry in moved.values()))
elif point == "after the feedback":
    record = sink.ViewSink._record
    sink.ViewSink._record = lambda self, rows, number: (record(self, rows, number), number == batch and die())

spark = build_session(settings.spark)
queries = [Supervised(spec.name, lambda spec=spec: spec.start(spark)) for spec in view_queries(settings)]
supervisor = Supervisor(queries, settings.supervisor)
supervisor.start()
sys.stdin.read()
supervisor.stop()
"""


class Died(Exception):  # noqa: N818 - a death, not an error of the program
    """The query breaks off here."""


def dies(monkeypatch: pytest.MonkeyPatch, point: str, batch: int) -> None:
    """Make every query of this process that records a view break off at a point of a batch."""

    def before(module: Any, name: str, when: Callable[..., bool]) -> None:
        real = getattr(module, name)

        def wrapped(*arguments: Any) -> Any:
            if when(*arguments):
                raise Died
            return real(*arguments)

        monkeypatch.setattr(module, name, wrapped)

    def recorded(sink: ViewSink, rows: Any, number: int) -> None:
        record(sink, rows, number)
        if number == batch:
            raise Died

    if point == "before the commit":
        before(sink, "commit", lambda table, files, query, number: number == batch)
    elif point == "after the commit":
        before(feedback.Journal, "append", lambda _, moved, *__: any(entry.batch == batch for entry in moved.values()))
    else:
        record = ViewSink._record
        monkeypatch.setattr(ViewSink, "_record", recorded)


@contextmanager
def job(document: dict[str, Any], point: str = "never", batch: int = -1) -> Iterator[subprocess.Popen[str]]:
    """The recording queries in a process of their own, which may kill itself at a point of a batch."""
    command = [sys.executable, "-c", JOB, json.dumps(document), point, str(batch)]
    log = Path(document["storage"]["path"]).with_suffix(".log").open("a")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_with_children(psutil.Process(process.pid))
        process.wait(30)
        log.close()


def records(path: Path, view: str) -> Counter[tuple[int, int, int]]:
    """How often each (broker, partition, offset) is recorded."""
    if not DeltaTable.is_deltatable(str(path / view)):
        return Counter()
    columns = ["broker", "partition", "offset", "kind"]
    rows = DeltaTable(str(path / view)).to_pyarrow_table(columns=columns).to_pylist()
    return Counter((r["broker"], r["partition"], r["offset"]) for r in rows if r["kind"] == RowKind.RECORD)


def produce(kafka: Cluster, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "1"})
    for value in values:
        producer.produce(topic, value=b"%d" % value, partition=0)
    assert producer.flush(60) == 0


def everything_once(path: Path, brokers: list[int], count: int) -> bool:
    wanted = Counter({(broker, 0, offset): 1 for broker in brokers for offset in range(count)})
    views = ("read_uncommitted", "read_committed")
    return all(records(path, view) == wanted and blocks_once(path, view, brokers, count) for view in views)


def blocks_once(path: Path, view: str, brokers: list[int], count: int) -> bool:
    """Whether the footers of a view's files tell of each offset of each replica once, and of equal sums."""
    reached = dict.fromkeys(brokers, 0)
    sums = set()
    files = [(uri, blocks_of(pq.read_metadata(uri).metadata)) for uri in DeltaTable(str(path / view)).file_uris()]
    for uri, blocks in sorted(files, key=lambda one: one[1].ranges["start"].tolist()):
        broker = int(uri.split("broker=")[1].split("/")[0])
        for span in blocks.ranges:
            assert span["whole"], "a range of a healthy replica is read whole"
            assert (blocks.places[span["place"]].partition, span["start"]) == (0, reached[broker]), "no offset twice"
            reached[broker] = int(span["end"])
    for broker in brokers:
        parts = [blocks.digests.parts for uri, blocks in files if f"broker={broker}/" in uri]
        sums.add(tuple(sum(int(part[name].sum()) for part in parts) % 2**64 for name in ("records", "low", "high")))
    assert len(sums) == 1, "replicas that show the same have the same sums"
    return {reached[broker] for broker in brokers} == {count} and sums.pop()[0] == count


POINTS = ["before the commit", "after the commit", "after the feedback"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("grouping", "point"),
    [
        ("isolation", "after the commit"),
        *(pytest.param("isolation", point, marks=pytest.mark.release) for point in (POINTS[0], POINTS[2])),
        *(pytest.param("all", point, marks=pytest.mark.release) for point in POINTS),
    ],
)
def test_every_row_is_recorded_once_by_queries_that_break_off(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, grouping: str
) -> None:
    kafka.create_topic(topic)
    document = settings(kafka, topic, tmp_path / "data", grouping=grouping)
    produce(kafka, topic, range(100))
    with monkeypatch.context() as patched:
        dies(patched, point, 0)
        with Queries(spark, document) as first:
            wait(lambda: first.poll() is not None, "a query to break off")
            assert "Died" in str(first.poll())
    produce(kafka, topic, range(100, 150))
    with Queries(spark, document) as second:
        await_everything_once(tmp_path / "data", second)


@pytest.mark.release
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("grouping", "point"), [("isolation", "after the commit"), ("all", "after the feedback")])
def test_every_row_is_recorded_once_through_kill_9(
    kafka: Cluster, topic: str, tmp_path: Path, point: str, grouping: str
) -> None:
    kafka.create_topic(topic)
    document = settings(kafka, topic, tmp_path / "data", grouping=grouping)
    produce(kafka, topic, range(100))
    with job(document, point, 0) as first:
        wait(lambda: first.poll() is not None, "the job to kill itself", seconds=480)
        assert first.returncode == -signal.SIGKILL
    produce(kafka, topic, range(100, 150))
    with job(document) as second:
        await_everything_once(tmp_path / "data", second)


def await_everything_once(path: Path, running: subprocess.Popen[str] | Queries) -> None:
    wait(lambda: sum(records(path, "read_committed").values()) >= 450, "all rows", running, 480)
    wait(lambda: everything_once(path, [1, 2, 3], 150), "every row once", running)


@contextmanager
def silent_listener(port: int) -> Iterator[None]:
    """Accepts connections and never answers."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen(64)
        yield


@pytest.mark.timeout(1500)
def test_a_broker_that_is_gone_or_hangs_holds_up_no_other(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    kafka.create_topic(topic, replicas=[1, 2, 3])
    produce(kafka, topic, range(10))

    def seen(broker: int, count: int) -> bool:
        return all(sum(b == broker for b, _, _ in records(path, view)) >= count for view in VIEWS)

    def reported_unreachable() -> bool:
        rows = DeltaTable(str(path / "replica_progress")).to_pyarrow_table(
            columns=["broker", "reachable", "observed_at"]
        )
        last = max((r for r in rows.to_pylist() if r["broker"] == 2), key=lambda r: r["observed_at"])
        return not last["reachable"]

    def others_are_read_while(trouble: Callable[[Cluster], Any], count: int) -> None:
        with trouble(kafka):
            wait(lambda: leader_is_not_2(kafka, topic), "a leader that answers")
            produce(kafka, topic, range(count - 10, count))
            name = trouble.__name__
            wait(lambda: seen(1, count) and seen(3, count), f"rows of the others while 2 is {name}", running)
            wait(reported_unreachable, f"progress to say that 2 is {name}", running)
        wait(lambda: seen(2, count), f"broker 2 to be read again after it was {name}", running)

    with Queries(spark, settings(kafka, topic, path)) as running:
        wait(lambda: all(seen(broker, 10) for broker in (1, 2, 3)), "the first rows", running, 480)
        others_are_read_while(paused, 20)
        others_are_read_while(refused, 30)
        others_are_read_while(accepts_and_never_answers, 40)
        wait(lambda: everything_once(path, [1, 2, 3], 40), "every row once", running)
    kafka.wait_isr(topic, kafka.brokers)


@pytest.mark.parametrize(("fetch", "times"), [pytest.param("separate", 2, marks=pytest.mark.release), ("shared", 1)])
def test_what_may_be_read_from_a_broker_in_a_second_is_not_exceeded(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path, fetch: str, times: int
) -> None:
    rate, count = 1 << 20, 120 // times
    kafka.create_topic(topic, partitions=2, replicas=[1, 2, 3])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(topic, value=random.Random(number).randbytes(100_000), partition=number % 2)
    assert producer.flush(60) == 0
    path, began = tmp_path / "data", time.monotonic()
    how = {} if fetch == "separate" else {"grouping": "all", "fetch": fetch}
    document = settings(kafka, topic, path, max_bytes_per_second=rate, request_timeout_ms=60_000, **how)
    with Queries(spark, document) as running:
        wait(lambda: all(len(records(path, view)) == 3 * count for view in VIEWS), "all rows", running, 480)
        took = time.monotonic() - began
    # The first answer is not waited for; it holds half a second's bytes, or one batch of the producer's.
    assert took > (times * count * 100_000 - 2 * (1 << 20)) / rate
    for view in VIEWS:
        told = DeltaTable(str(path / view)).to_pyarrow_table(columns=["kind", "position"]).to_pylist()
        events = {row["position"]["event"] for row in told if row["kind"] == RowKind.POSITION}
        assert events <= {ReadEvent.OK, ReadEvent.PARTITION_ADDED}


def test_what_stays_as_it_is_is_recorded_only_as_often_as_it_must_vouch_for_a_reading(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    due_s = 15.0
    retention = {"delete.retention.ms": f"{RETENTIONS * due_s * 1000:.0f}"}
    kafka.create_topic(topic, replicas=[1, 2, 3], config=retention)
    produce(kafka, topic, range(10))
    path = tmp_path / "data"

    def ticks(broker: int = 1, *, reachable: bool = True) -> list[float]:
        columns = ["broker", "observed_at", "reachable"]
        rows = DeltaTable(str(path / "replica_progress")).to_pyarrow_table(columns=columns).to_pylist()
        mine = [r for r in rows if (r["broker"], r["reachable"]) == (broker, reachable)]
        return sorted(r["observed_at"].timestamp() for r in mine)

    def moves() -> list[float]:
        """When something else was said of who leads and who is in sync."""
        columns = ["broker", "observed_at", "leader", "leader_epoch", "isr"]
        rows = DeltaTable(str(path / "replica_progress")).to_pyarrow_table(columns=columns).to_pylist()
        mine = sorted((r for r in rows if r["broker"] == 1), key=lambda r: r["observed_at"])
        said = [(r["observed_at"].timestamp(), (r["leader"], r["leader_epoch"], sorted(r["isr"] or ()))) for r in mine]
        return [at for (_, before), (at, now) in pairwise(said) if before != now]

    with Queries(spark, settings(kafka, topic, path)) as running:
        wait(lambda: everything_once(path, [1, 2, 3], 10), "the rows", running, 480)
        wait(lambda: bool(ticks(2)), "progress of broker 2", running)
        with paused(kafka):  # From now on the brokers list their transactions at different times.
            wait(lambda: bool(ticks(2, reachable=False)), "broker 2 to be away", running)
        away = ticks(2, reachable=False)[-1]
        wait(lambda: ticks(2)[-1] > away, "it to be back", running)
        kafka.wait_isr(topic, kafka.brokers)
        back = time.time()
        wait(lambda: ticks()[-1] > back + 3 * due_s, "progress to be due three times", running, 180)
        recorded = [at for at in ticks() if at > back + due_s]
        lost = sum(at > back + due_s for broker in (1, 2, 3) for at in ticks(broker, reachable=False))
        moved = sum(at > back + due_s for at in moves())
    # A broker that does not answer in time is something new, and so is the next time that it does. So is a follower
    # that is too busy to be in sync; what was so until then is recorded as well.
    assert len(recorded) <= 4 + 3 * lost + 2 * moved, (
        f"{len(recorded)} ticks were recorded in {recorded[-1] - back - due_s:.0f} s"
    )


def leader_is_not_2(kafka: Cluster, topic: str) -> bool:
    state = kafka.partition(topic)
    return state is not None and state.leader in (1, 3)


@contextmanager
def paused(kafka: Cluster) -> Iterator[None]:
    kafka.pause_broker(2)
    try:
        yield
    finally:
        kafka.resume_broker(2)


@contextmanager
def refused(kafka: Cluster) -> Iterator[None]:
    kafka.kill_broker(2)
    yield
    kafka.start_broker(2)


@contextmanager
def accepts_and_never_answers(kafka: Cluster) -> Iterator[None]:
    port = int(kafka.brokers[2].address.rsplit(":", 1)[1])
    kafka.kill_broker(2)
    with silent_listener(port):
        yield
    kafka.start_broker(2)
