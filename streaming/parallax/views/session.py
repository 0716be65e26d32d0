"""The Spark session of the job: local, Delta's jars on the class path, everything that is not needed switched off."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from parallax.config import SparkSettings
from parallax.jars import delta_classpath
from parallax.java import find_java
from parallax.source.progress_source import KafkaProgressSource
from parallax.source.replica_source import KafkaReplicaSource

_CONF: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A micro-batch is small: what helps large queries only costs it time.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Each task writes the files of one broker and date side by side; the default sorts all rows by them first.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    "spark.sql.redaction.options.regex": "(?i)secret|password|token|key|jaas|url",
    # Python workers fork from a process that has the libraries loaded.
    "spark.python.daemon.module": "parallax.source.daemon",
    "spark.python.worker.reuse": "true",
}


def build_session(settings: SparkSettings, *, name: str = "parallax", conf: Mapping[str, str] | None = None) -> Any:
    """Start Spark, or return the session that this process has, with both sources registered.

    Args:
        settings: master, memory and ``spark.conf``, which goes before what is set here.
        name: Spark's application name.
        conf: goes before both; for tests.

    Returns:
        The ``SparkSession``.

    Raises:
        SetupError: no JDK 17 or 21, or Delta's jars cannot be resolved.
    """
    jdk = find_java()
    # Spark's launcher looks at JAVA_HOME first; what was checked is what is to be started.
    os.environ.setdefault("JAVA_HOME", str(jdk.path.resolve().parent.parent))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(settings.master)
    chosen = {
        **_CONF,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraClassPath": delta_classpath(),
        **settings.conf,
        **(conf or {}),
    }
    for option, value in chosen.items():
        builder = builder.config(option, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(KafkaReplicaSource)
    spark.dataSource.register(KafkaProgressSource)
    return spark


__all__ = ["build_session"]
