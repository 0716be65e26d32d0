"""Serves ``/metrics`` for Prometheus, and ``/livez`` and ``/readyz`` for whatever keeps the process alive.

Live is the process; ready is that offsets come out of the comparison. A probe that restarts what is merely not ready
would keep it from ever getting there. A broker that is down makes neither false.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from parallax.alerting.collector import OfCluster, ParallaxCollector
from parallax.alerting.resources import ResourceCollector
from parallax.alerting.state import MonitorState, Snapshot


class MetricsServerError(Exception):
    """The metrics cannot be served; one line that names the setting and what to do."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # The default on POSIX lets a second process bind a port that is in use on some systems; here it must fail.
    allow_reuse_port = False


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: a line for each scrape is noise."""


class MetricsServer:
    """An HTTP server in a thread of its own.

    Args:
        state: what is served.
        more: collectors that are served beside it.
        cluster: ``alerting.cluster``, a label of every metric; none where it is empty.
        host: ``alerting.metrics_host``.
        port: ``alerting.metrics_port``; 0 takes a free one.
        stale_after_s: how old the end-to-end heartbeat may be before ``/readyz`` says 503.

    Raises:
        MetricsServerError: the address cannot be bound.
    """

    def __init__(
        self,
        state: MonitorState,
        host: str,
        port: int,
        *more: Collector,
        cluster: str = "",
        stale_after_s: float = 120.0,
    ) -> None:
        registry = CollectorRegistry()
        for collector in (ParallaxCollector(state), ResourceCollector(), *more):
            registry.register(OfCluster(collector, cluster) if cluster else collector)
        metrics = make_wsgi_app(registry)
        self._state = state
        self._stale_after_s = stale_after_s

        def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            path = environ.get("PATH_INFO", "/")
            if path in ("/readyz", "/healthz"):
                return self._health(start_response)
            if path == "/livez":
                return _answer(start_response, [])
            if path in ("/", "/metrics"):
                return metrics(environ, start_response)
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"not found; try /metrics, /livez or /readyz\n"]

        try:
            self._server = make_server(host, port, app, _Server, handler_class=_QuietHandler)
        except (OSError, OverflowError) as error:
            raise MetricsServerError(
                f"alerting.metrics_port: cannot listen on {host}:{port} ({getattr(error, 'strerror', None) or error}); "
                "choose a free port, or 0 for any"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is being served."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)

    def _health(self, start_response: Callable[..., Any]) -> Iterable[bytes]:
        return _answer(start_response, health(self._state.snapshot(), self._stale_after_s))


def _answer(start_response: Callable[..., Any], problems: list[str]) -> Iterable[bytes]:
    body = json.dumps({"status": "unhealthy" if problems else "ok", "problems": problems}).encode()
    status = "503 Service Unavailable" if problems else "200 OK"
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def health(snapshot: Snapshot, stale_after_s: float) -> list[str]:
    """Return what keeps the job from doing its work; empty when offsets come out of the comparison.

    A broker that is down is not among it: the job is well, and says so of the broker.
    """
    problems = []
    if snapshot.heartbeat is None:
        problems.append("nothing has been compared yet")
    elif snapshot.taken_at - snapshot.heartbeat > stale_after_s:
        problems.append(f"nothing has been compared for {snapshot.taken_at - snapshot.heartbeat:.0f} s")
    problems += [f"query {name} is down" for name, query in sorted(snapshot.queries.items()) if not query.up]
    if snapshot.findings.error is not None:
        problems.append(f"findings: {snapshot.findings.error}")
    return problems
