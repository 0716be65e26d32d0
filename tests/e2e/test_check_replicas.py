"""``parallax check`` on a broker of which a disk has failed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from typer.testing import CliRunner

from parallax.cli import app
from parallax.lab.cluster import Cluster, client_settings
from parallax.lab.storage import kafka_uuid
from parallax.lab.waiting import until
from tests.e2e.job_process import patient


class TwoDisks(Cluster):
    """Brokers with a log directory more, ``data2``."""

    def _prepare(self, broker: Any, java: Any, jars: Any) -> None:
        super()._prepare(broker, java, jars)
        first, second = broker.folder / "data", broker.folder / "data2"
        second.mkdir()
        text = (first / "meta.properties").read_text()
        (second / "meta.properties").write_text(re.sub(r"directory\.id=.*", f"directory.id={kafka_uuid()}", text))
        file = broker.folder / "server.properties"
        file.write_text(re.sub(r"log\.dirs=.*", f"log.dirs={first},{second}", file.read_text()))


def test_a_log_directory_that_failed_and_the_replicas_in_it_are_named(tmp_path: Path) -> None:
    with TwoDisks(brokers=1) as lab:
        names = ["one", "two", "three"]
        lab.create_topics(names, config={"segment.ms": "100", "cleanup.policy": "compact"})
        disk = lab.brokers[1].folder / "data2"
        (lost, *_) = until(lambda: [name for name in names if (disk / f"{name}-0").is_dir()], "a topic on the disk")
        config = tmp_path / "parallax.yaml"
        document: dict[str, Any] = {
            "kafka": {"bootstrap.servers": lab.bootstrap_servers},
            "topics": {"include": names},
            "storage": {"path": str(tmp_path / "data")},
            "alerting": {"metrics_port": 0},
        }
        config.write_text(json.dumps(patient(document)))

        def said() -> list[str]:
            done = CliRunner().invoke(app, ["check", "-c", str(config), "--format", "json"])
            return [f"{line['result']} {line['about']}: {line['text']}" for line in json.loads(done.stdout)]

        assert "ok log directories: all 2 on the brokers that answer are online." in said()
        shutil.rmtree(disk / f"{lost}-0")
        producer = Producer(client_settings(lab.bootstrap_servers))

        def failed() -> list[str] | None:
            producer.produce(lost, b"value", b"key", partition=0)
            producer.flush(1)
            lines = said()
            wanted = ("offline log directories", "replicas cannot be read")
            return lines if all(any(what in line for line in lines) for what in wanted) else None

        lines = until(failed, "the disk to fail")
        (line,) = [line for line in lines if "offline log directories" in line]
        assert line.startswith(f"wrong broker 1: offline log directories: {disk}; ")
        (line,) = [line for line in lines if "replicas cannot be read" in line]
        assert line.startswith("wrong broker 1: ")
        assert f"{lost}-0" in line
