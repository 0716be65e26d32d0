"""Kafka's own tools by the names that documents and findings call them, such as ``kafka-topics.sh``.

A lab has Kafka's jars and not its distribution, so the scripts are written here.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from zipfile import ZipFile

from parallax.jars import class_path, kafka_jars
from parallax.java import KAFKA_NEEDS, find_java

_COMMANDS = {
    "kafka-acls.sh": "AclCommand",
    "kafka-configs.sh": "ConfigCommand",
    "kafka-console-consumer.sh": "ConsoleConsumer",
    "kafka-console-producer.sh": "ConsoleProducer",
    "kafka-consumer-groups.sh": "ConsumerGroupCommand",
    "kafka-leader-election.sh": "LeaderElectionCommand",
    "kafka-reassign-partitions.sh": "ReassignPartitionsCommand",
    "kafka-topics.sh": "TopicCommand",
    "kafka-transactions.sh": "TransactionsCommand",
}
"""The class that each script starts, without its package: that changed from version to version."""

_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
"""What Kafka's own scripts log: without it each tool prints a hundred lines of its settings."""


def tools_of(folder: Path) -> Path:
    """The folder of Kafka's tools in a lab's folder."""
    return folder / "bin"


def write_tools(folder: Path, version: str) -> None:
    """Write Kafka's tools as scripts.

    Args:
        folder: the folder to write them into; it is made if it does not exist.
        version: Kafka's version; its jars are fetched if the cache does not have them yet.

    Raises:
        SetupError: there is no JDK, or the jars could not be fetched.
    """
    jars = kafka_jars(version)
    classes = {}
    for jar in sorted(jars.glob(f"kafka*-{version}.jar")):
        with ZipFile(jar) as archive:
            for name in archive.namelist():
                classes[Path(name).stem] = name.removesuffix(".class").replace("/", ".")
    java = [str(find_java(KAFKA_NEEDS).path), "-XX:TieredStopAtLevel=1", _QUIET, "-cp", class_path(jars)]
    folder.mkdir(parents=True, exist_ok=True)
    for script, command in _COMMANDS.items():
        path = folder / script
        path.write_text(f'#!/bin/sh\nexec {shlex.join([*java, classes[command]])} "$@"\n', encoding="utf-8")
        path.chmod(0o755)


__all__ = ["tools_of", "write_tools"]
