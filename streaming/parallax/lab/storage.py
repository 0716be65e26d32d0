"""Formats the storage of a KRaft broker quickly.

Kafka's StorageTool runs once per version, and the files that it made are copied for each broker.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from parallax.jars import cache_folder, class_path, made_once
from parallax.java import Java
from parallax.lab.errors import LabError

_TEMPLATE_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={data}
"""


def kafka_uuid() -> str:
    """A random cluster id in Kafka's form: 16 bytes in URL-safe base64, without padding or a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # as org.apache.kafka.common.Uuid.randomUuid does
            return text


def format_storage(data: Path, *, java: Java, jars: Path, version: str, cluster_id: str, node_id: int) -> None:
    """Format a broker's log folder, as Kafka's StorageTool does, so that the broker can start.

    The files of one run of StorageTool are copied to every broker of every lab. Only three ids in ``meta.properties``
    differ, and they are replaced. The feature levels are in a checkpoint next to that file. From Kafka 4.4 on they are
    in a checkpoint of ``__cluster_metadata-0`` (KAFKA-19648).

    Args:
        data: the log folder, which must not exist.
        java: the JVM for StorageTool.
        jars: the folder of Kafka's jars.
        version: Kafka's version.
        cluster_id: the cluster's id, e.g. from `kafka_uuid`.
        node_id: the broker's id.

    Raises:
        LabError: StorageTool failed.
    """
    template = prepared_folder(java, jars, version)
    # Not what `parallax.lab.archive` keeps and makes there.
    shutil.copytree(template, data, ignore=shutil.ignore_patterns(".*", "*.jsa"))
    text = (data / "meta.properties").read_text(encoding="utf-8")
    for name, value in (("node.id", str(node_id)), ("directory.id", kafka_uuid()), ("cluster.id", cluster_id)):
        text = re.sub(rf"^{re.escape(name)}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    (data / "meta.properties").write_text(text, encoding="utf-8")


def prepared_folder(java: Java, jars: Path, version: str) -> Path:
    """The cache folder with the files that StorageTool makes for a Kafka version; a missing one is made.

    Args:
        java: the JVM for StorageTool.
        jars: the folder of Kafka's jars.
        version: Kafka's version.

    Raises:
        LabError: StorageTool failed, or the cache cannot be written.
    """
    folder = cache_folder() / f"prepared-{version}"
    with made_once(folder) as missing:
        if missing:
            _prepare(java, jars, version, folder)
    return folder


def _prepare(java: Java, jars: Path, version: str, folder: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".prepared-{version}-", dir=folder.parent))
    try:
        _run_storage_tool(java.path, jars, work)
        (work / "data").rename(folder)
    except OSError as error:
        raise LabError(f"{folder}: cannot be written ({error.strerror}); set PARALLAX_CACHE elsewhere") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_storage_tool(java: Path, jars: Path, work: Path) -> None:
    properties = work / "server.properties"
    properties.write_text(_TEMPLATE_PROPERTIES.format(data=work / "data"), encoding="utf-8")
    command: list[str | Path] = [java, "-XX:TieredStopAtLevel=1", "-cp", class_path(jars), "kafka.tools.StorageTool"]
    command += ["format", "-t", kafka_uuid(), "-c", properties]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines()
        raise LabError(f"Kafka's StorageTool could not format a log folder: {lines[-1] if lines else 'no output'}")
