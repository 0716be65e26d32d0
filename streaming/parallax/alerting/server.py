"""Serves the status page, ``/metrics`` for Prometheus, and the probes ``/livez`` and ``/readyz``.

``/livez`` says whether the process runs. ``/readyz`` says whether the comparison goes on (`parallax.alerting.status`).
A broker that does not answer makes neither fail. Never restart the job because it is not ready: it might then never get
ready.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Callable

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parallax.alerting.collector import OfCluster, ParallaxCollector
from parallax.alerting.connections import BACKLOG, BoundedListener, BoundedProtocol
from parallax.alerting.detail import Series
from parallax.alerting.page.asking import Asking
from parallax.alerting.page.auth import Users
from parallax.alerting.page.compared import Compared
from parallax.alerting.page.render import Renderer
from parallax.alerting.page.routes import HEADERS, Page
from parallax.alerting.places import Places
from parallax.alerting.resources import ResourceCollector
from parallax.alerting.state import MonitorState
from parallax.alerting.status import Watch
from parallax.config import AlertingSettings
from parallax.errors import one_line
from parallax.findings.report import NO_FACTS, OnRecord
from parallax.shell import ANYWHERE, Shell
from parallax.tls import Renewed, of_server, renewed_at_each_handshake

_LOOK_EVERY_S = 10.0
_PROBES = ("/livez", "/readyz", "/healthz")
_CLOSED = "The page shows keys and offsets; it is served to other hosts once alerting.users is set.\n"


class MetricsServerError(Exception):
    """The metrics cannot be served; one line that names the setting and what to do."""


class MetricsServer:
    """The HTTP server of the job, in a thread of its own. It serves as soon as it is made.

    Args:
        state: the state of the job, which is served.
        settings: the settings with address, users, certificate and name of the cluster.
        storage: ``storage.path``.
        more: further collectors of metrics to serve.
        on_record: returns what tables other than the findings table say about a finding.
        shell: how commands on the page and in alerts name the cluster and the job.
        asking: asks the brokers for the records of a finding; None if the page offers no such form.

    Raises:
        MetricsServerError: the address cannot be bound, or the certificate cannot be loaded.
    """

    def __init__(
        self,
        state: MonitorState,
        settings: AlertingSettings,
        storage: str,
        *more: Collector,
        on_record: OnRecord = lambda _: NO_FACTS,
        shell: Shell = ANYWHERE,
        asking: Asking | None = None,
    ) -> None:
        registry = CollectorRegistry()
        places = Places(settings.cluster, settings.runbook_url, settings.external_url, shell)
        for collector in (ParallaxCollector(state, Series(settings.series), places), ResourceCollector(), *more):
            registry.register(OfCluster(collector, settings.cluster) if settings.cluster else collector)
        self._registry = registry
        self._state = state
        self._watch = Watch()
        self._on_record = on_record
        self._asking = asking
        self._compared = Compared()
        self._socket = _bound(settings.metrics_host, settings.metrics_port)
        try:
            self._server = uvicorn.Server(self._configured(settings, storage, shell))
        except MetricsServerError:
            self._socket.close()
            raise
        # A request that is none says nothing of the job; uvicorn warns of each.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="metrics", daemon=True)
        self._thread.start()
        self._closing = threading.Event()
        self._looking = threading.Thread(target=self._look_again, name="status", daemon=True)
        self._looking.start()

    def _configured(self, settings: AlertingSettings, storage: str, shell: Shell) -> uvicorn.Config:
        users = Users(settings.users)
        renderer = Renderer(settings.cluster, settings.runbook_url, shell=shell)
        page = Page(
            self._state, storage, self._watch.look, users, renderer, self._on_record, self._compared, self._asking
        )
        routes = [Route("/metrics", self._metrics), Route("/livez", self._live)]
        routes += [Route(path, self._ready) for path in ("/readyz", "/healthz")]
        app = Starlette(
            routes=[*routes, *page.routes],
            middleware=[
                Middleware(_Guard, users=users, is_local=_is_local(settings.metrics_host)),
                Middleware(GZipMiddleware),
            ],
            exception_handlers={404: lambda *_: page.message("Not found", "There is no such page.", 404)},
        )
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            backlog=BACKLOG,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
            ssl_context_factory=_tls(settings.tls_certificate_file, settings.tls_key_file),
        )
        try:
            config.load()
        except (OSError, ValueError) as error:
            raise MetricsServerError(
                f"alerting.tls_certificate_file and tls_key_file: cannot be loaded ({one_line(error)}); give a "
                "certificate and its key without a password, both PEM"
            ) from error
        return config

    @property
    def port(self) -> int:
        """The port that the server listens on, also where the settings leave the choice to the system."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop the HTTP server."""
        self._closing.set()
        self._looking.join(5.0)
        self._server.should_exit = True
        self._thread.join(5.0)
        self._socket.close()

    def _look_again(self) -> None:
        """Look while nobody else does: how long something has been so is said by who was there all the time."""
        while not self._closing.wait(_LOOK_EVERY_S):
            snapshot = self._state.snapshot()
            self._watch.look(snapshot)
            self._compared.note(snapshot)

    def _metrics(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"Content-Type": content_type})

    def _live(self, request: Request) -> Response:
        del request
        return JSONResponse({"status": "ok"})

    def _ready(self, request: Request) -> Response:
        del request
        status = self._watch.look(self._state.snapshot())
        problems = status.problems
        document = {
            "status": "unhealthy" if problems else "ok",
            "problems": problems,
            "condition": status.condition,
            "text": status.text,
        }
        return JSONResponse(document, 503 if problems else 200)


class _Guard:
    """Lets those through that may see what they ask for, and says to browsers what a page may do.

    Where no password is asked for, only names of this host are answered to: another site could make its own name lead
    here, and read the page by the browser of somebody on this host.
    """

    def __init__(self, app: ASGIApp, users: Users, *, is_local: bool) -> None:
        self._app = app
        self._users = users
        self._is_local = is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, _with_headers(send))

    async def _refusal(self, scope: Scope) -> Response | None:
        path, headers = scope["path"], Headers(scope=scope)
        if path in _PROBES:
            return None
        if self._users:
            user = await run_in_threadpool(self._users.named, headers.get("authorization"))
            asked = {"WWW-Authenticate": 'Basic realm="Parallax", charset="UTF-8"'}
            return None if user is not None else PlainTextResponse("Who are you?\n", 401, asked)
        if path == "/metrics" or (self._is_local and _is_local(_name(headers.get("host", "")))):
            return None
        return PlainTextResponse(_CLOSED, 403)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent


def _name(host: str) -> str:
    """The name in a ``Host`` header, without its port, in small letters and without the root's dot (RFC 4343, 1034)."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def _tls(certificate: str | None, key: str | None) -> Callable[..., ssl.SSLContext] | None:
    """Makes uvicorn's context of a certificate and its key, which may be renewed; None without them."""
    if certificate is None or key is None:
        return None

    return lambda *_: renewed_at_each_handshake(
        Renewed((certificate, key), lambda: of_server(certificate, key), (OSError, ValueError))
    )


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens; without SO_REUSEPORT, by which two jobs could have one port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return BoundedListener.of(socket.create_server((host, port), family=family, backlog=BACKLOG))
    except (OSError, OverflowError, ValueError) as error:
        raise MetricsServerError(
            f"alerting.metrics_port: cannot listen on {host}:{port} ({getattr(error, 'strerror', None) or error}); "
            "choose a free port, or 0 for any"
        ) from error
