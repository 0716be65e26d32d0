"""A rolling restart of real brokers by the script for Strimzi, with a `kubectl` that restarts the lab's brokers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parents[2] / "deploy" / "strimzi" / "rolling-restart.sh"
KUBECTL = """#!/bin/sh
# Whoever answers on the port stands in for the API server, and for the operator that restarts what is annotated.
case "$*" in
  *" exec "*)
    shift 5 # --namespace, its name, exec, the pod, --, and then the words of the command
    [ "$1 $2" = "parallax roll" ] || exit 64
    {python} -m parallax.cli roll "$3" "$4" "$5" -c {config}
    code=$?
    curl -sS "http://127.0.0.1:{port}/asked/$3/$code"
    exit $code ;;
  *) curl -sSG "http://127.0.0.1:{port}/kubectl" --data-urlencode "words=$*" ;;
esac
"""


@dataclass
class Operator:
    """Restarts brokers, and remembers what happened in its order.

    A pod counts as ready long before its replicas are in sync: its broker starts once the next one was refused.

    Attributes:
        happened: ``("asked", broker, exit code)`` and ``("restarted", broker, replicas in sync before)``.
        restarts: by broker, how often it was restarted: a pod's uid goes by that.
    """

    lab: Cluster
    client: ReplicaClient
    topic: str
    happened: list[tuple[str, int, int]] = field(default_factory=list)
    restarts: dict[int, int] = field(default_factory=dict)

    def answer(self, words: str) -> str:
        """What kubectl prints."""
        if "get pods" in words:
            return "".join(f"pod/lab-broker-{broker}\n" for broker in sorted(self.lab.brokers))
        broker = int(words.partition("pod/lab-broker-")[2].split()[0])
        if " annotate " in words:
            self.happened.append(("restarted", broker, self.fewest_in_sync()))
            self.lab.stop_broker(broker)
            self.restarts[broker] = self.restarts.get(broker, 0) + 1
        return f"uid-{broker}-{self.restarts.get(broker, 0)}"

    def asked(self, broker: int, code: int) -> None:
        """Somebody has asked whether a broker may be restarted."""
        self.happened.append(("asked", broker, code))
        if code:
            self.start()

    def start(self) -> None:
        """Start whichever broker is down."""
        for number, broker in self.lab.brokers.items():
            if not broker.running:
                self.lab.start_broker(number)

    def fewest_in_sync(self) -> int:
        """The fewest replicas that are in sync of any partition of the topic."""
        return min(len(one.isr) for one in self.client.metadata([self.topic])[self.topic].partitions.values())


@contextmanager
def serving(operator: Operator) -> Iterator[int]:
    """Answer kubectl on a port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            text = ""
            if asked.path.startswith("/asked/"):
                _, _, broker, code = asked.path.split("/")
                operator.asked(int(broker), int(code))
            else:
                text = operator.answer(f" {parse_qs(asked.query)['words'][0]} ")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield int(server.server_port)
        finally:
            server.shutdown()


@contextmanager
def writing(lab: Cluster, topic: str) -> Iterator[list[int]]:
    """Write a record every 50 ms with acks=all, and remember the offsets at which they were acknowledged."""
    producer, done, offsets = PlainProducer(lab.bootstrap_servers), threading.Event(), list[int]()

    def write() -> None:
        while not done.wait(0.05):
            offsets.append(producer.send(topic, f"k{len(offsets) % 50}", str(len(offsets))))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield offsets
    finally:
        done.set()
        thread.join(120)


def roll(config: Path, broker: int) -> tuple[int, dict[str, object]]:
    words = [sys.executable, "-m", "parallax.cli", "roll", str(broker), "-c", str(config), "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"refused": done.stderr}


def test_a_rolling_restart_under_traffic_waits_for_each_broker_to_be_back_and_compared(
    hurt: Cluster, topic: str, tmp_path: Path
) -> None:
    hurt.create_topic(topic, replicas=[1, 2, 3], config={"min.insync.replicas": "2", "delete.retention.ms": "3600000"})
    with (
        closing(ReplicaClient({"bootstrap.servers": hurt.bootstrap_servers}, timeout_ms=10_000)) as client,
        JobProcess(tmp_path / "job", hurt.bootstrap_servers, topic) as job,
        writing(hurt, topic) as written,
    ):
        assert roll(job.config, 1)[0] == 2, "no job has ever used its storage"
        job.start()
        operator = Operator(hurt, client, topic)
        kubectl = tmp_path / "kubectl"
        with serving(operator) as port:
            kubectl.write_text(KUBECTL.format(python=sys.executable, config=job.config, port=port))
            kubectl.chmod(0o755)
            around = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PAUSE_S": "1", "PATIENCE_S": "300"}
            ran = subprocess.run(
                ["bash", str(SCRIPT), "lab", "kafka"],
                env=around,
                capture_output=True,
                text=True,
                timeout=800,
                check=False,
            )
        operator.start()
        hurt.wait_ready()
        assert ran.returncode == 0, (ran.stderr, ran.stdout, operator.happened)
        assert [what for what in operator.happened if what[0] == "restarted"] == [
            ("restarted", broker, 3) for broker in (1, 2, 3)
        ], operator.happened
        for before, after in zip(operator.happened, operator.happened[1:], strict=False):
            if after[0] == "restarted":
                assert before == ("asked", after[1], 0), operator.happened
        assert any(what[:2] == ("asked", 1) and what[2] == 3 for what in operator.happened), "nothing was compared yet"
        for number in (2, 3):
            assert ("asked", number, 1) in operator.happened, "the broker before was away"
        count = len(written)
        until(lambda: len(written) > count, "writes to go on")
        until(lambda: roll(job.config, 1)[0] == 0, "all to be compared again")
        assert job.findings() == []
    assert len(set(written)) == len(written) > 100
