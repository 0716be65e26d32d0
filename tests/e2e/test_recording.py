"""Files that tasks have written, as people query them: by Spark, whose Delta reads what delta-rs has committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from parallax.config import validate
from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, RowKind
from parallax.views.queries import view_queries
from tests.e2e.transactional import transactions

PLAIN = ["topic", "partition", "broker", "kind", "offset", "timestamp", "leader_epoch", "producer_id", "producer_epoch"]
PLAIN += ["outcome", "key_hash_hi", "key_hash_lo", "content_hash", "key_size", "value_size", "payload"]


@pytest.mark.release
def test_spark_reads_what_was_recorded_as_a_batch_and_as_a_stream(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    transactions(kafka, topic)
    document = {
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "read": {"trigger_ms": 200, "payload": "full"},
    }
    specs = [spec for spec in view_queries(validate(document)) if spec.name != "progress"]
    queries = [spec.start(spark) for spec in specs]
    try:
        until(lambda: all(records(tmp_path, i) == 18 for i in IsolationLevel), "six offsets of each replica")
    finally:
        for query in queries:
            query.stop()
    key = Path(document["storage"]["path"], "hash_key").read_text().strip()
    for isolation in IsolationLevel:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topics": topic, "payload": "full"}
        options |= {"isolation.level": isolation.option, "hash.key": key}
        shown = spark.read.format("kafka-replica").options(**options).load()
        recorded = spark.read.format("delta").load(path(tmp_path, isolation))
        wanted = sorted(map(str, shown.where(f"kind != {int(RowKind.POSITION)}").select(PLAIN).collect()))
        assert sorted(map(str, recorded.where(f"kind != {int(RowKind.POSITION)}").select(PLAIN).collect())) == wanted
        assert len(wanted) == 18
        streamed: list[Any] = []
        stream = spark.readStream.format("delta").load(path(tmp_path, isolation)).select(PLAIN).writeStream
        stream = stream.option("checkpointLocation", str(tmp_path / isolation.option)).trigger(availableNow=True)
        query = stream.foreachBatch(lambda rows, _: streamed.extend(rows.collect())).start()  # noqa: B023
        assert query.awaitTermination(300)
        assert sorted(map(str, streamed)) == sorted(map(str, recorded.select(PLAIN).collect()))
        # What the log says of the files leaves none out that holds what is asked for.
        assert recorded.where("offset = 4").count() == shown.where("offset = 4").count() == 3


def records(folder: Path, isolation: IsolationLevel) -> int:
    table = DeltaTable(path(folder, isolation)).to_pyarrow_dataset()
    return table.count_rows(filter=pc.field("kind") != int(RowKind.POSITION))


def path(folder: Path, isolation: IsolationLevel) -> str:
    return str(folder / "data" / isolation.option)
