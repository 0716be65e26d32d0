"""The job looks at itself: receivers are told what it suffers, and the heartbeat falls silent, over real HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from prometheus_client.core import Metric

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.state import MonitorState
from parallax.alerting.webhook.heartbeat import Heartbeat
from parallax.alerting.webhook.outbox import Pace
from parallax.alerting.webhook.sender import Webhooks
from parallax.alerting.webhook.watch import JobWatch
from parallax.config import AlertingSettings
from parallax.findings.happenings import FindingsStatus
from parallax.lab.waiting import until
from parallax.model import MissingRight
from tests.receiver import Receiver
from tests.unit.alerting.reported import in_part

QUICK = Pace(repeat_s=3600, wait_s=0.05, interval_s=0.05, retry_s=0.05, retry_most_s=0.2)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as one:
        yield one


def test_a_job_without_an_alertmanager_says_what_it_suffers_and_beats_only_while_it_works(
    receiver: Receiver, tmp_path: Path
) -> None:
    settings = AlertingSettings.model_validate(
        {
            "cluster": "lab",
            "external_url": "https://monitor.example",
            "webhooks": [{"name": "chat", "format": "slack", "url": f"{receiver.url}/chat"}],
            "heartbeat_url": f"{receiver.url}/ping",
            "heartbeat_interval_s": 1,
        }
    )
    state, webhooks = MonitorState(), Webhooks(settings, str(tmp_path), QUICK)
    webhooks.start()
    watch = JobWatch(
        ParallaxCollector(state).of_the_job, webhooks, Heartbeat(settings, lambda: time.monotonic() * 50), 0.02
    )
    watch.start()
    try:
        until(lambda: watch.looks > 3, "it to have looked")
        assert receiver.pings == [], "nothing was compared yet"
        state.update_findings(FindingsStatus())
        state.update_coverage([in_part(compared_at=int(time.time() * 1000))])
        until(lambda: receiver.pings, "a heartbeat")
        state.update_refusals([("orders", 0, 2)], MissingRight.READ, "not authorized")
        until(lambda: receiver.messages, "the message")
        text = receiver.messages[0].body["text"]
        assert text.startswith(
            "*FIRING* Parallax is not authorized to read orders (cluster lab)\n• The right that is missing"
        )
        assert "<https://monitor.example/|Page>" in text
        state.update_findings(FindingsStatus(error="full"))
        seen = watch.looks
        until(lambda: watch.looks > seen + 1, "it to have seen that")
        silent = len(receiver.pings)
        until(lambda: watch.looks > seen + 20, "it to have looked for a while")
        assert len(receiver.pings) == silent
    finally:
        watch.stop()
        webhooks.stop()


def test_a_fault_in_looking_is_logged_and_it_looks_again(tmp_path: Path) -> None:
    settings = AlertingSettings()

    def fails() -> list[Metric]:
        raise KeyError("a fault")

    with structlog.testing.capture_logs() as logged:
        watch = JobWatch(fails, Webhooks(settings, str(tmp_path)), Heartbeat(settings, time.monotonic), 0.02)
        watch.start()
        until(lambda: len(logged) > 1, "it to look again")
        watch.stop()
    assert {line["log_level"] for line in logged} == {"error"}
