"""Makes a class-data archive for brokers, which saves a third of the processor time of a start (JEP 350).

A start spends most of its time on loading classes.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from parallax.jars import Progress, made_once
from parallax.java import Java
from parallax.lab.broker import Broker
from parallax.lab.errors import LabError
from parallax.lab.ports import free_ports
from parallax.lab.properties import BROKER_SETTINGS, server_properties
from parallax.lab.storage import format_storage, kafka_uuid, prepared_folder
from parallax.lab.waiting import until


def archive_options(java: Java, jars: Path, version: str, progress: Progress) -> list[str]:
    """The JVM options that make a broker use the class-data archive; empty if no archive can be made.

    The first call makes the archive, which takes some 10 s. If that fails, e.g. because the JVM lacks the feature, an
    empty file is left in its place. Later calls see the file, and brokers start without an archive. The JVM itself
    ignores an archive that was made by another JVM or from other jars.

    Args:
        java: the JVM of the brokers.
        jars: the folder of Kafka's jars.
        version: Kafka's version, e.g. ``4.2.1``.
        progress: called with a line of text when the archive is made.
    """
    file = prepared_folder(java, jars, version) / f"classes-{java.release}.jsa"
    with made_once(file) as missing:
        if missing:
            progress(f"preparing Kafka {version} for quick starts, once")
            _make(java, jars, version, file)
    return [f"-XX:SharedArchiveFile={file}"] if file.stat().st_size else []


def _make(java: Java, jars: Path, version: str, file: Path) -> None:
    """Start one broker and stop it in good order: the JVM then writes what it has loaded."""
    work = Path(tempfile.mkdtemp(prefix=".archive-", dir=file.parent))
    port, controller_port = free_ports(2)
    broker = Broker(1, port, controller_port, work)
    made = work / "classes.jsa"
    try:
        format_storage(work / "data", java=java, jars=jars, version=version, cluster_id=kafka_uuid(), node_id=1)
        text = server_properties(broker, [broker], BROKER_SETTINGS)
        (work / "server.properties").write_text(text, encoding="utf-8")
        broker.start(java.path, jars, [f"-XX:ArchiveClassesAtExit={made}"])
        until(lambda: _has_started(broker), "a broker to start")
        broker.stop()
    except LabError:
        broker.kill()
    finally:
        if not made.exists():
            made.touch()
        made.replace(file)
        shutil.rmtree(work, ignore_errors=True)


def _has_started(broker: Broker) -> bool:
    """Whether the broker says so in its log (KafkaRaftServer)."""
    if not broker.running:
        raise LabError(f"broker {broker.id} ended: {broker.last_words()}")
    return "Kafka Server started" in broker.log.read_text(encoding="utf-8", errors="replace")
