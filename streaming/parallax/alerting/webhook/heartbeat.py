"""Requests a web address regularly while the job watches replicas, so that its silence raises an alarm elsewhere.

https://healthchecks.io and others call this a dead man's switch. The job requests the address only while it compares at
least one partition, and nothing hides all replicas from it. So a job that hangs falls silent, though its process lives.
So does one whose reading is all paused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version
from urllib.parse import unquote

import structlog
import urllib3
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from parallax.addresses import is_address
from parallax.alerting.webhook.sender import Answer, Bounded, reason_of, secret_of
from parallax.config import AlertingSettings

log = structlog.get_logger(__name__)

_WHAT = "whoever waits for it raises an alarm, though the job works; it is tried again at its interval"

_TIMEOUT_S = 5.0
_TAKEN = range(200, 300)


class Heartbeat(Collector):
    """Requests the heartbeat's address at its interval while the job works, and counts the requests as metrics.

    Args:
        settings: section ``alerting``.
        clock: returns seconds that only ever grow.
    """

    def __init__(self, settings: AlertingSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._due_at = 0.0
        self._bounded = Bounded(_TIMEOUT_S)
        self._failures = 0
        self._counts = dict.fromkeys(("success", "failure", "withheld"), 0)
        self._http = urllib3.PoolManager(
            num_pools=1,
            timeout=urllib3.Timeout(total=_TIMEOUT_S),
            retries=False,
            headers={"User-Agent": f"parallax/{version('kafka-parallax')}"},
        )

    @property
    def is_wanted(self) -> bool:
        """Whether the settings name an address for the heartbeat."""
        return self._settings.heartbeat_url is not None or self._settings.heartbeat_url_file is not None

    def beat(self, *, is_working: bool) -> None:
        """Request the heartbeat's address if it is time and the job works. It takes a few seconds at most.

        Args:
            is_working: whether the job compares at least one partition, and sees replicas.
        """
        if not self.is_wanted or self._clock() < self._due_at:
            return
        self._due_at = self._clock() + self._settings.heartbeat_interval_s
        if not is_working:
            self._counts["withheld"] += 1
            return
        error = self._bounded(lambda: Answer(self._error())).error
        self._counts["success" if error is None else "failure"] += 1
        # A line when it begins, and when it ends: not one a minute.
        if error is not None and not self._failures:
            log.warning("the address alerting.heartbeat_url is out of reach", error=error, what=_WHAT)
        if error is None and self._failures:
            log.info("the address alerting.heartbeat_url is in reach again", failed_pings=self._failures)
        self._failures = 0 if error is None else self._failures + 1

    def _error(self) -> str | None:
        """What went wrong, without the address, which is a secret; None if nothing did."""
        try:
            url = secret_of(self._settings.heartbeat_url, self._settings.heartbeat_url_file) or ""
            if not is_address(url):
                return "its file holds no address"
            user = urllib3.util.parse_url(url).auth
            headers = urllib3.util.make_headers(basic_auth=unquote(user)) if user else {}
            answer = self._http.request("GET", url, headers={**self._http.headers, **headers}, preload_content=False)
            answer.close()
        except urllib3.exceptions.HTTPError as error:
            return reason_of(error)
        except (OSError, ValueError) as error:
            return f"its file cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'})"
        return None if answer.status in _TAKEN else f"it answered {answer.status}"

    def collect(self) -> Iterator[Metric]:
        """The metric family that counts the requests, by result."""
        pings = CounterMetricFamily(
            "parallax_heartbeat_pings",
            "Pings of alerting.heartbeat_url since the job started, by result. withheld: the job was not working, or "
            "could compare no partition. Absent without an address.",
            labels=["result"],
        )
        for result, count in self._counts.items() if self.is_wanted else ():
            pings.add_metric([result], count)
        yield pings
