"""Messages survive the death of the process that sends them, and an outage of who receives them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from parallax.findings.acknowledge import acknowledge
from parallax.findings.table import FindingsTable
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog
from parallax.model import FindingStatus
from tests.builders.findings import finding
from tests.receiver import Receiver

_ROUNDS = 6


@contextmanager
def process(storage: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that sends; killed in the end."""
    command = [sys.executable, "-m", "tests.e2e.webhook_process", str(storage), url]
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "streaming"), str(root)])
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=root, env={**os.environ, "PYTHONPATH": path}
    )
    watchdog = Watchdog()
    watchdog.guard([running.pid])
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "started\n"
        yield running
    finally:
        running.kill()
        running.wait()
        running.communicate()
        watchdog.guard(())
        watchdog.close()


def test_every_finding_is_told_and_its_end_through_kill_9_and_an_outage_of_the_receiver(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    draw = Random(seed)
    table = FindingsTable(str(tmp_path))
    with Receiver() as receiver:

        def told(status: str) -> dict[str, set[str]]:
            """The keys of the messages about each finding in a status."""
            found: dict[str, set[str]] = {}
            for message in receiver.messages:
                for alert in message.body["alerts"]:
                    if alert["status"] == status:
                        found.setdefault(alert["labels"]["finding_id"], set()).add(message.headers["Idempotency-Key"])
            return found

        def acknowledged(name: str) -> bool:
            said = (a for message in receiver.messages for a in message.body["alerts"])
            return any(
                a["labels"]["finding_id"] == name
                and (a["status"], a["annotations"].get("acknowledged_by")) == ("firing", "ann")
                and a["annotations"]["acknowledged_comment"] == "known since March"
                for a in said
            )

        names = [f"f{n}" for n in range(_ROUNDS)]
        for n, name in enumerate(names):
            if n % 2:
                receiver.answers.clear()  # it takes what comes and does not say so
            else:
                receiver.status = 503
            table.append([finding(name, partition=n)])
            with process(tmp_path, receiver.url) as running:
                until(lambda: receiver.tries > 0, "a message to be tried")
                if draw.random() < 0.5:
                    receiver.status = 200
                    receiver.answers.set()
                    until(lambda name=name: name in told("firing"), "the finding to be told")
                running.kill()
            receiver.tries = 0
            receiver.status = 200
            receiver.answers.set()
        with process(tmp_path, receiver.url):
            until(lambda: told("firing").keys() == set(names), "every finding to be told")
        assert told("resolved") == {}, "a process that dies or starts ends nothing"
        acknowledge(str(tmp_path), names[0], "known since March", by="ann")
        with process(tmp_path, receiver.url):
            until(lambda: acknowledged(names[0]), "the acknowledgement to be told")
        assert told("resolved") == {}, "it stands"
        assert len(told("firing")[names[0]]) == 2, "it was told once more"
        table.news()
        table.append(
            [replace(finding(name, partition=n), status=FindingStatus.RESOLVED) for n, name in enumerate(names)]
        )
        with process(tmp_path, receiver.url):
            until(lambda: told("resolved").keys() == set(names), "every end to be told")
        for status in ("firing", "resolved"):
            others = {name: len(keys) for name, keys in told(status).items() if name != names[0]}
            assert others == dict.fromkeys(names[1:], 1)
        assert len(told("resolved")[names[0]]) == 1
