"""Posts messages to all receivers, with a thread for each, so that a slow receiver delays no other."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Protocol
from urllib.parse import unquote

import structlog
import urllib3
from pydantic import SecretStr

from parallax.addresses import is_address
from parallax.alerting.conditions import Suffered
from parallax.alerting.places import Places
from parallax.alerting.webhook.alerts import is_of_the_job
from parallax.alerting.webhook.bodies import Body, bodies
from parallax.alerting.webhook.outbox import MOST_GROUPS, OTHERS, Message, Outbox, Pace
from parallax.alerting.webhook.record import Record
from parallax.config import AlertingSettings, WebhookSettings
from parallax.findings.finding import Finding
from parallax.model import TopicPartition
from parallax.shell import ANYWHERE, Shell

log = structlog.get_logger(__name__)

PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
"""The address of PagerDuty's events (https://developer.pagerduty.com/docs/send-alert-event)."""
_IDLE_S = 60.0
"""The longest that a thread sleeps, in seconds, because the clock that it waits by may be set."""
_TAKEN = range(200, 300)
_CLOSING_S = 5.0
_SLACK_S = 1.0
"""How many seconds longer than its timeout a post is waited for.

Connecting and reading may each take the whole timeout.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a receiver took a message.

    Attributes:
        error: why the message was not taken, one line without a secret; None if it was taken.
        retry_after_s: for how many seconds the receiver wants no more messages.
    """

    error: str | None
    retry_after_s: float = 0.0


class Posts(Protocol):
    """A callable that sends one message to a receiver and returns its answer. `Post` is the real one."""

    def __call__(self, message: Message, /) -> Answer:
        """Send it, and wait for the answer for a bounded time."""


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """How many messages to one receiver were delivered, failed, or wait; for metrics.

    Attributes:
        delivered_total: how many messages it has taken since the job started.
        failed_total: how many tries have failed since the job started.
        waiting: how many message groups have something still to report.
        oldest_s: for how many seconds the first of these groups has waited.
    """

    delivered_total: int = 0
    failed_total: int = 0
    waiting: int = 0
    oldest_s: float = 0.0


class Bounded:
    """Makes HTTP requests, one at a time, and waits for each whole answer only up to a time limit.

    urllib3's own timeout begins again with each part of a slow answer. So each request runs in a thread. One that takes
    longer than the limit is left running, and no other is begun until it has ended.

    Args:
        total_s: how many seconds each request may take.
    """

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self._trying: threading.Thread | None = None

    def __call__(self, ask: Callable[[], Answer]) -> Answer:
        """What it answered, or that it did not in time."""
        answers: list[Answer] = []
        if self._trying is None or not self._trying.is_alive():
            self._trying = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
            self._trying.start()
            self._trying.join(self._total_s + _SLACK_S)
        return answers[0] if answers else Answer(_REASONS[urllib3.exceptions.TimeoutError])


class Post:
    """Posts messages to one receiver, in its format and with its credentials.

    Args:
        settings: the settings of the receiver.
        places: the cluster's name, and the links and commands in messages.
        clock: returns seconds since 1970 UTC, which are part of the signature.
    """

    def __init__(self, settings: WebhookSettings, places: Places, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._places = places
        self._clock = clock
        total_s = settings.timeout_ms / 1000
        self._bounded = Bounded(total_s)
        self._http = urllib3.PoolManager(
            num_pools=1,
            timeout=urllib3.Timeout(total=total_s),
            retries=False,
            ca_certs=settings.ca_file,
            headers={"Content-Type": "application/json", "User-Agent": f"parallax/{version('kafka-parallax')}"},
        )

    def __call__(self, message: Message, /) -> Answer:
        """Post it; redirects are not followed, and of the answer only the beginning is read."""
        return self._bounded(lambda: self._tried(message))

    def _tried(self, message: Message) -> Answer:
        """Post all documents; with the first that is not taken, all of them are to be posted again."""
        for document in bodies(message, self._settings, self._places):
            answer = self._posted(document, message.key)
            if answer.error is not None:
                return answer
        return Answer(None)

    def _posted(self, body: Body, key: str) -> Answer:
        settings, document = self._settings, dict(body)
        try:
            url = secret_of(settings.url, settings.url_file) or PAGERDUTY
            if not is_address(url):
                return Answer(_REASONS[urllib3.exceptions.LocationValueError])
            if settings.routing_key_file is not None:
                document["routing_key"] = secret_of(None, settings.routing_key_file)
            content = json.dumps(document).encode()
            headers = {**self._http.headers, "Idempotency-Key": key}
            if (user := urllib3.util.parse_url(url).auth) is not None:
                headers |= urllib3.util.make_headers(basic_auth=unquote(user))
            if secret := secret_of(settings.secret, settings.secret_file):
                headers["X-Parallax-Signature"] = signature(secret, content, int(self._clock()))
            answer = self._http.request("POST", url, body=content, headers=headers, preload_content=False)
            answer.close()
        except urllib3.exceptions.HTTPError as error:
            return Answer(reason_of(error))
        except (OSError, ValueError) as error:
            return Answer(f"a file of its settings cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'})")
        if answer.status in _TAKEN:
            return Answer(None)
        return Answer(f"it answered {answer.status}", _retry_after(answer.headers.get("Retry-After"), self._clock()))


def signature(secret: str, content: bytes, at: int) -> str:
    """The value of the header ``X-Parallax-Signature``, which proves who sent a body, and when.

    It contains an HMAC-SHA256 over ``<seconds>.<body>``.

    Args:
        secret: the secret that the receiver knows.
        content: the body.
        at: when it is sent, seconds since 1970 UTC.
    """
    mac = hmac.new(secret.encode(), str(at).encode() + b"." + content, hashlib.sha256)
    return f"t={at},v1={mac.hexdigest()}"


def reason_of(error: urllib3.exceptions.HTTPError) -> str:
    """Why an HTTP request failed, in words without its URL, because the URL may contain a secret."""
    for kind, said in _REASONS.items():
        if isinstance(error, kind):
            return said
    return type(error).__name__


_REASONS: Mapping[type[Exception], str] = {
    urllib3.exceptions.NewConnectionError: "no connection to it",
    urllib3.exceptions.TimeoutError: "it did not answer in time",
    urllib3.exceptions.SSLError: "no TLS that both sides accept; look at its certificate and at ca_file",
    urllib3.exceptions.ProtocolError: "it broke off the connection",
    urllib3.exceptions.LocationValueError: "its address is none",
}
"""The first that fits: a connection that is refused is a kind of timeout to urllib3."""


def secret_of(value: SecretStr | None, file: str | None) -> str | None:
    """The secret that the settings give, as text or in a file; None if they give none.

    The file is read each time, so that the secret can be renewed.

    Args:
        value: the secret itself; None if it is not given so.
        file: path of the file that holds it; None if it is not given so.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds no text.
    """
    if file is not None:
        return Path(file).read_text(encoding="utf-8").strip()
    return value.get_secret_value() if value is not None else None


def _retry_after(header: str | None, now: float) -> float:
    """Seconds, from a number of them or a date (RFC 9110, 10.2.3); 0 if it says nothing that can be understood."""
    if header is None:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        at = parsedate_to_datetime(header)
        return max((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return 0.0


class Notifier:
    """Sends messages to one receiver in a thread of its own, each when the outbox says that it is due.

    Args:
        name: the receiver's name.
        outbox: decides which message is next. Its recorded state must be restored (`Outbox.restore`).
        record: the table that holds the state of the outbox.
        post: sends a message.
        clock: returns seconds since 1970 UTC.
    """

    def __init__(
        self, name: str, outbox: Outbox, record: Record, post: Posts, clock: Callable[[], float] = time.time
    ) -> None:
        self._name = name
        self._outbox = outbox
        self._record = record
        self._post = post
        self._clock = clock
        self._changed = threading.Condition()
        self._is_stopped = self._is_unrecorded = False
        self._delivered = self._failed = 0
        self._thread = threading.Thread(target=self._run, name=f"webhook-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread, which sends each message when it is due."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Begin no further message, and wait up to ``timeout_s`` seconds for the one that is being sent."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def observe(self, standing: Sequence[Finding], ended: Sequence[Finding] = ()) -> None:
        """Take in which findings are open and which have ended (`Outbox.observe`). The thread sends what is news."""
        with self._changed:
            self._is_unrecorded |= self._outbox.observe(standing, self._clock(), ended)
            self._changed.notify()

    def observe_job(self, suffered: Sequence[Suffered], pending: Collection[str], *, can_end: bool) -> None:
        """Take in which conditions of the job are true (`Outbox.observe_job`). The thread sends what is news.

        Args:
            suffered: the conditions that are worth a message.
            pending: the names of all conditions that are true, however shortly.
            can_end: whether a condition that is not in ``suffered`` is over. If not, it may just not be known yet.
        """
        with self._changed:
            self._is_unrecorded |= self._outbox.observe_job(suffered, self._clock(), pending, can_end=can_end)
            self._changed.notify()

    def status(self) -> WebhookStatus:
        """How many messages the receiver took, how many tries failed, and how many message groups wait now."""
        with self._changed:
            since = self._outbox.waiting_since()
            oldest = max(self._clock() - min(since), 0.0) if since else 0.0
            return WebhookStatus(self._delivered, self._failed, len(since), oldest)

    def _run(self) -> None:
        while (message := self._next()) is not None:
            try:
                answer = self._post(message)
            except Exception as error:
                log.exception("a message cannot be posted, by a fault of Parallax", receiver=self._name)
                answer = Answer(type(error).__name__)
            with self._changed:
                self._note(message, answer)

    def _next(self) -> Message | None:
        """Wait for the message to be sent next, and have it on record; None if no more is to be sent."""
        while True:
            with self._changed:
                if self._is_stopped:
                    return None
                now = self._clock()
                before = self._outbox.alerts, self._outbox.told
                message = self._outbox.due(now)
                known = self._outbox.alerts, self._outbox.told
                is_unrecorded, self._is_unrecorded = self._is_unrecorded or before != known, False
                if message is None and not is_unrecorded:
                    self._changed.wait(min(max(self._outbox.next_at(now) - now, 0.0), _IDLE_S))
            if is_unrecorded:
                self._record.put(self._name, *known)
            if message is not None:
                return message

    def _note(self, message: Message, answer: Answer) -> None:
        about = {"receiver": self._name, **_about(message.group)}
        if answer.error is None:
            self._outbox.delivered(message, self._clock())
            self._is_unrecorded = True
            self._delivered += 1
            log.info("message delivered", **about, status=str(message.status))
        else:
            wait = self._outbox.failed(message, self._clock(), answer.retry_after_s)
            self._failed += 1
            what = (
                "nothing is lost: it is sent again; correct the receiver's entry in alerting.webhooks where it refuses"
            )
            log.warning("message not delivered", **about, error=answer.error, retry_after_s=round(wait), what=what)


def _about(group: TopicPartition) -> dict[str, object]:
    """Whom a message is about, in words."""
    if is_of_the_job(group):
        return {"about": f"the job itself: {group.topic}"}
    if group == OTHERS:
        return {"about": f"partitions beyond the first {MOST_GROUPS} with findings"}
    return {"topic": group.topic, "partition": group.partition}


class Webhooks:
    """Sends messages to all receivers that the settings name (``alerting.webhooks``).

    Args:
        settings: section ``alerting``.
        storage: ``storage.path``; the table there says what receivers have been sent.
        pace: how long messages wait, and how often they are repeated; None for the settings' choice.
        shell: how commands in messages name the cluster and the job.
    """

    def __init__(
        self, settings: AlertingSettings, storage: str, pace: Pace | None = None, shell: Shell = ANYWHERE
    ) -> None:
        self._notifiers: dict[str, Notifier] = {}
        self._seen: tuple[Sequence[Finding], Sequence[Finding]] | None = None
        if not settings.webhooks:
            return
        record = Record(storage)
        record.keep([one.name for one in settings.webhooks])
        places = Places(settings.cluster, settings.runbook_url, settings.external_url, shell)
        for one in settings.webhooks:
            every = pace or Pace(settings.repeat_hours * 3600)
            outbox = Outbox(every, Random(), places)  # noqa: S311 - jitter
            outbox.restore(*record.of(one.name), time.time())
            self._notifiers[one.name] = Notifier(one.name, outbox, record, Post(one, places))

    def start(self) -> None:
        """Start a thread for each receiver, which sends its messages."""
        for notifier in self._notifiers.values():
            notifier.start()

    def stop(self) -> None:
        """Stop sending.

        Messages that were not delivered are on record, and the next job on this storage path sends them.
        """
        for notifier in self._notifiers.values():
            notifier.stop(_CLOSING_S)

    def observe(self, standing: Sequence[Finding], ended: Sequence[Finding] = ()) -> None:
        """Take in which findings are open and which have ended, for all receivers. It does not wait for messages.

        It does nothing if the findings are the same as before.

        Args:
            standing: all findings that are not over, acknowledged or not.
            ended: the last events of findings that are over, as far as they are known.
        """
        if (standing, ended) == self._seen:
            return
        self._seen = standing, ended
        for notifier in self._notifiers.values():
            notifier.observe(standing, ended)

    def observe_job(self, suffered: Sequence[Suffered], pending: Collection[str], *, can_end: bool) -> None:
        """Take in which conditions of the job are true, for all receivers. It does not wait for messages.

        Args:
            suffered: the conditions that are worth a message.
            pending: the names of all conditions that are true, however shortly.
            can_end: whether a condition that is not in ``suffered`` is over. If not, it may just not be known yet.
        """
        for notifier in self._notifiers.values():
            notifier.observe_job(suffered, pending, can_end=can_end)

    def status(self) -> dict[str, WebhookStatus]:
        """By receiver's name, how many messages it took, how many tries failed, and how many groups wait."""
        return {name: notifier.status() for name, notifier in self._notifiers.items()}
