"""Kafka's own tools by the names that documents and commands call them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from parallax.jars import class_path, kafka_jars
from parallax.java import KAFKA_NEEDS, find_java

_CLASSES = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
"""What each of Kafka's scripts starts."""


def run_as_written(commands: str, folder: Path, **environment: str) -> None:
    """Run commands in a shell that finds Kafka's tools; a folder of its own holds them and ``admin.properties``."""
    for script, name in _CLASSES.items():
        java = [str(find_java(KAFKA_NEEDS).path), "-XX:TieredStopAtLevel=1", "-cp", class_path(kafka_jars()), name]
        (folder / script).write_text(f'#!/bin/sh\nexec {shlex.join(java)} "$@"\n')
        (folder / script).chmod(0o755)
    (folder / "admin.properties").touch()
    given = {**os.environ, **environment, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["bash", "-euc", commands]
    ended = subprocess.run(command, cwd=folder, env=given, capture_output=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
