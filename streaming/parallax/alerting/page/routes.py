"""The addresses of the status page, such as ``/findings/{finding_id}``, and what answers at each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from parallax.alerting.page.asking import Asking, AskingError
from parallax.alerting.page.auth import Users, is_from_elsewhere
from parallax.alerting.page.compared import Compared
from parallax.alerting.page.lanes_over_time import drawn_over_time, lanes_over_time
from parallax.alerting.page.render import Renderer, Wanted
from parallax.alerting.page.timeline import Recent, Tracks
from parallax.alerting.page.versions import Versions
from parallax.alerting.starting import is_asked
from parallax.alerting.state import MonitorState, Snapshot
from parallax.alerting.status import Status
from parallax.errors import one_line
from parallax.findings.acknowledge import AcknowledgeError, acknowledge
from parallax.findings.finding import current
from parallax.findings.in_brief import freezes
from parallax.findings.naming import FindingNotNamedError, named
from parallax.findings.report import OnRecord
from parallax.findings.table import FindingsTableError, read_events
from parallax.model import FindingStatus, TopicPartition

_LONGEST_FORM = 20_000
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # With no-referrer, a browser would send the page's own forms with ``Origin: null``.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every answer: nothing is loaded from elsewhere, and no other site may frame the page."""


class Page:
    """Answers the requests for the status page, at all of its addresses.

    Args:
        state: the state of the job, which is shown.
        storage: ``storage.path``, with the findings table and recorded progress.
        status: returns the cluster's status at the moment of a snapshot.
        users: the users who may see the page, and act on findings.
        renderer: makes the HTML.
        on_record: returns what tables other than the findings table say about a finding.
        compared: how far partitions were compared over the last hour.
        asking: asks the brokers for the records of a finding when a user wants it; None if users cannot.
    """

    def __init__(
        self,
        state: MonitorState,
        storage: str,
        status: Callable[[Snapshot], Status],
        users: Users,
        renderer: Renderer,
        on_record: OnRecord,
        compared: Compared,
        asking: Asking | None = None,
    ) -> None:
        self._state = state
        self._storage = storage
        self._recent = Recent(storage)
        self._status = status
        self._users = users
        self._renderer = renderer
        self._on_record = on_record
        self._compared = compared
        self._asking = asking

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes for Starlette. Their handlers run in its pool of threads, because they read tables."""
        return [
            Route("/", self._overview),
            Route("/topics/{topic}", self._topic),
            Route("/topics/{topic}/{partition:int}", self._partition),
            Route("/findings", self._findings),
            Route("/findings/{finding_id}", self._finding),
            Route("/findings/{finding_id}/acknowledge", self._acknowledge, methods=["POST"]),
            Route("/findings/{finding_id}/records", self._records, methods=["POST"]),
            Mount("/static", StaticFiles(directory=Path(str(files("parallax.alerting.page") / "static")))),
        ]

    def message(self, heading: str, text: str, status: int) -> Response:
        """A page that shows only a heading and a text.

        Args:
            heading: the heading.
            text: the text.
            status: the HTTP status code.
        """
        return HTMLResponse(self._renderer.page("message.html", heading=heading, text=text), status)

    def _overview(self, request: Request) -> Response:
        wanted = Wanted.of(request.query_params)
        snapshot = self._state.snapshot()
        return HTMLResponse(self._renderer.overview(snapshot, self._status(snapshot), wanted))

    def _findings(self, request: Request) -> Response:
        try:
            known = current(read_events(self._storage)).values()
        except FindingsTableError as error:
            return self.message("The findings cannot be read", str(error), 503)
        wanted = Wanted.of(request.query_params, tuple(FindingStatus))
        return HTMLResponse(self._renderer.findings(known, self._status(self._state.snapshot()), wanted))

    def _topic(self, request: Request) -> Response:
        topic, snapshot = request.path_params["topic"], self._state.snapshot()
        html = self._renderer.topic(snapshot, self._status(snapshot), topic, Wanted.of(request.query_params))
        return HTMLResponse(html) if html is not None else self._not_followed(snapshot, f"topic {topic}")

    def _partition(self, request: Request) -> Response:
        place = TopicPartition(request.path_params["topic"], request.path_params["partition"])
        tracks: Tracks = {}
        error = ""
        try:
            tracks = self._recent.of(place)
        except TableNotFoundError:
            error = "Nothing has been recorded yet."
        except (DeltaError, OSError, pa.ArrowException) as failure:
            error = f"The recorded progress cannot be read: {one_line(failure)}"
        snapshot = self._state.snapshot()
        known = (*snapshot.findings.standing, *snapshot.findings.ended)
        frozen = freezes(one for one in known if one.place == place)
        over_time = drawn_over_time(lanes_over_time(tracks, self._compared.of(place, snapshot), frozen))
        html = self._renderer.partition(snapshot, self._status(snapshot), place, over_time, error)
        if html is None:
            return self._not_followed(snapshot, f"partition {place.name}")
        return HTMLResponse(html)

    def _finding(self, request: Request) -> Response:
        return self._finding_page(request)

    def _finding_page(self, request: Request, problem: str = "", said: str = "") -> Response:
        try:
            events = read_events(self._storage)
            standing = current(events)
            finding = named(standing, request.path_params["finding_id"])
        except FindingNotNamedError as error:
            return self._no(str(error))
        except FindingsTableError as error:
            return self.message("The findings cannot be read", str(error), 503)
        user = self._user(request)
        token = self._users.token(user, finding.finding_id) if user else ""
        snapshot = self._state.snapshot()
        html = self._renderer.finding(
            finding,
            events,
            standing.values(),
            self._on_record(finding),
            self._status(snapshot),
            again=snapshot.findings.asked_again.get(finding.finding_id),
            token=token,
            user=user,
            problem=problem,
            said=said,
            can_ask=self._asking is not None,
        )
        return HTMLResponse(html, 400 if problem else 200)

    async def _acknowledge(self, request: Request) -> Response:
        return await self._acted(request, self._acknowledged)

    async def _records(self, request: Request) -> Response:
        return await self._acted(request, self._asked)

    async def _acted(self, request: Request, act: Callable[[Request, str, str], Response]) -> Response:
        """What somebody does by a form of a finding's page; refused where it was not sent by that user from there."""
        from starlette.concurrency import run_in_threadpool

        if int(request.headers.get("content-length") or _LONGEST_FORM) >= _LONGEST_FORM:
            return self.message("Too long", "The reason is longer than can be kept.", 413)
        async with request.form(max_files=0, max_fields=5) as form:
            given, reason = str(form.get("token") or ""), str(form.get("reason") or "")
        user = self._user(request)
        if not user:
            return self.message("Not here", "Nobody can act on this page: alerting.users is not set.", 403)
        if is_from_elsewhere(request) or not self._users.is_token(given, user, request.path_params["finding_id"]):
            return self.message("Refused", "This form was not sent from the current page. Load the page again.", 403)
        return await run_in_threadpool(act, request, user, reason)

    def _acknowledged(self, request: Request, user: str, reason: str) -> Response:
        finding_id = request.path_params["finding_id"]
        try:
            acknowledge(self._storage, finding_id, reason, by=user)
        except AcknowledgeError as error:
            return self._finding_page(request, problem=str(error).removeprefix("--reason: "), said=reason)
        except FindingNotNamedError as error:
            return self._no(str(error))
        except FindingsTableError as error:
            return self.message("The findings cannot be written", str(error), 503)
        return RedirectResponse(f"/findings/{finding_id}", 303)

    def _asked(self, request: Request, user: str, _: str) -> Response:
        if self._asking is None:
            return self.message("Not here", "This page cannot ask the brokers.", 404)
        try:
            finding = named(current(read_events(self._storage)), request.path_params["finding_id"])
        except FindingNotNamedError as error:
            return self._no(str(error))
        except FindingsTableError as error:
            return self.message("The findings cannot be read", str(error), 503)
        found: Sequence[Versions] = ()
        problem = ""
        try:
            found = self._asking.ask(finding)
        except AskingError as error:
            problem = str(error)
        status, token = self._status(self._state.snapshot()), self._users.token(user, finding.finding_id)
        html = self._renderer.asked(finding, found, problem, status, token=token, asked_s=time.time())
        return HTMLResponse(html, 503 if problem else 200)

    def _user(self, request: Request) -> str:
        return self._users.named(request.headers.get("authorization")) or ""

    def _not_followed(self, snapshot: Snapshot, what: str) -> Response:
        """The answer about a topic or partition that the job is not known to follow."""
        if is_asked(snapshot):
            return self._no(f"The job does not follow {what}.")
        text = f"The job cannot say yet whether it follows {what}: the brokers have not said what they hold."
        return self.message("Not known yet", text, 503)

    def _no(self, text: str) -> Response:
        return self.message("Not found", text, 404)
