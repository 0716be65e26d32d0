"""Checks every few seconds which conditions of the job are true, and gives them to the receivers.

It also has the heartbeat sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import structlog
from prometheus_client.core import Metric

from parallax.alerting.conditions import Samples, Watch
from parallax.alerting.webhook.heartbeat import Heartbeat
from parallax.alerting.webhook.sender import Webhooks

log = structlog.get_logger(__name__)

_EVERY_S = 5.0
_CLOSING_S = 5.0


class JobWatch:
    """A thread that evaluates the conditions of the job regularly, for messages and for the heartbeat.

    Args:
        families: returns the metrics that decide conditions
            (`parallax.alerting.collector.ParallaxCollector.of_the_job`).
        webhooks: sends messages to receivers.
        heartbeat: sends the heartbeat while the job works.
        every_s: seconds from one evaluation to the next.
    """

    def __init__(
        self,
        families: Callable[[], Iterable[Metric]],
        webhooks: Webhooks,
        heartbeat: Heartbeat,
        every_s: float = _EVERY_S,
    ) -> None:
        self._families = families
        self._webhooks = webhooks
        self._heartbeat = heartbeat
        self._every_s = every_s
        self._watch = Watch()
        self.looks = 0
        """How often it has looked."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-watch", daemon=True)

    def start(self) -> None:
        """Start the thread that evaluates the conditions."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread.

        Call it before you stop the job, because that makes conditions true that must not be reported.
        """
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING_S)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self._look()
            except Exception:
                log.exception("the state of the job is unknown, by a fault of Parallax")

    def _look(self) -> None:
        suffered = self._watch.look(Samples(self._families(), time.time()))
        self._webhooks.observe_job(suffered, self._watch.pending, can_end=self._watch.can_end)
        self._heartbeat.beat(is_working=self._watch.is_working)
        self.looks += 1
