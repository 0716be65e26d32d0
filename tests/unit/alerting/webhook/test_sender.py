"""Messages over real HTTP, to receivers that take, refuse, hang and come back."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog
from pydantic import ValidationError

from parallax.alerting.places import Places
from parallax.alerting.webhook.outbox import Message, Outbox, Pace
from parallax.alerting.webhook.record import Record
from parallax.alerting.webhook.sender import Answer, Notifier, Post, Webhooks, _retry_after
from parallax.config import AlertingSettings
from parallax.findings.acknowledge import acknowledged
from parallax.findings.finding import Finding
from parallax.lab.waiting import until
from parallax.model import FindingStatus
from tests.builders.findings import finding
from tests.receiver import Receiver
from tests.unit.alerting.webhook.messages import message
from tests.unit.replica.servers import free_port

QUICK = Pace(repeat_s=3600, wait_s=0.05, interval_s=0.05, retry_s=0.05, retry_most_s=0.2)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as one:
        yield one


def alerting(*receivers: dict[str, Any]) -> AlertingSettings:
    return AlertingSettings.model_validate({"cluster": "lab", "webhooks": list(receivers)})


Sends = Callable[..., Webhooks]


@pytest.fixture
def sends(tmp_path: Path) -> Iterator[Sends]:
    """Makes the webhooks of a job over one storage path; the one before ends first, as a process does."""
    running: list[Webhooks] = []

    def start(*receivers: dict[str, Any]) -> Webhooks:
        for one in running:
            one.stop()
        running.append(Webhooks(alerting(*receivers), str(tmp_path), QUICK))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def post(**settings: Any) -> Post:
    (one,) = alerting({"name": "hook", **settings}).webhooks
    return Post(one, Places(cluster="lab"), clock=lambda: 1_000_000.0)


def test_a_message_is_signed_and_has_a_key_by_which_it_is_known_again(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("shared\n")
    told = message(finding("a"))
    answer = post(url=receiver.url, secret_file=str(tmp_path / "secret"))(told)
    assert answer.error is None
    (got,) = receiver.messages
    headers, content = got.headers, got.content
    mac = hmac.new(b"shared", b"1000000." + content, hashlib.sha256).hexdigest()
    assert headers["X-Parallax-Signature"] == f"t=1000000,v1={mac}"
    assert headers["Idempotency-Key"] == told.key
    assert headers["Content-Type"] == "application/json"
    assert json.loads(content)["alerts"][0]["labels"]["finding_id"] == "a"


def test_a_secret_in_a_file_is_read_for_each_message(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("first")
    (tmp_path / "url").write_text(receiver.url)
    send = post(format="pagerduty", url_file=str(tmp_path / "url"), routing_key_file=str(tmp_path / "key"))
    send(message(finding("a")))
    (tmp_path / "key").write_text("second\n")
    send(message(finding("a")))
    assert [got.body["routing_key"] for got in receiver.messages] == ["first", "second"]
    (tmp_path / "key").unlink()
    assert "cannot be read (No such file or directory)" in (send(message(finding("a"))).error or "")


@pytest.mark.parametrize(("after", "seconds"), [("7", 7.0), ("Mon, 12 Jan 1970 13:47:40 GMT", 60.0), ("soon", 0.0)])
def test_what_the_receiver_asks_for_is_understood(receiver: Receiver, after: str, seconds: float) -> None:
    receiver.status = 429
    receiver.headers = {"Retry-After": after}
    answer = post(url=receiver.url)(message(finding("a")))
    assert (answer.error, answer.retry_after_s) == ("it answered 429", seconds)


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.status = 302
    receiver.headers = {"Location": "http://169.254.169.254/"}
    assert post(url=receiver.url)(message(finding("a"))).error == "it answered 302"


def test_what_goes_wrong_is_said_without_the_address(receiver: Receiver) -> None:
    receiver.answers.clear()
    assert post(url=receiver.url, timeout_ms=100)(message(finding("a"))).error == "it did not answer in time"
    nobody = f"http://127.0.0.1:{free_port()}/secret"
    assert post(url=nobody)(message(finding("a"))).error == "no connection to it"
    receiver.answers.set()
    https = receiver.url.replace("http:", "https:")
    assert "TLS" in (post(url=https)(message(finding("a"))).error or "")


def test_a_receiver_that_fails_hangs_and_comes_back_is_told_everything_once(receiver: Receiver, sends: Sends) -> None:
    receiver.status = 503
    hooks = sends({"name": "hook", "url": receiver.url, "timeout_ms": 200})
    hooks.observe([finding("a")])
    until(lambda: hooks.status()["hook"].failed_total >= 2, "tries that fail")
    receiver.answers.clear()
    failed = hooks.status()["hook"].failed_total
    until(lambda: hooks.status()["hook"].failed_total > failed, "a try that hangs")
    hooks.observe([finding("a"), finding("b", topic="payments")])
    status = hooks.status()["hook"]
    assert (status.delivered_total, status.waiting) == (0, 2)
    assert status.oldest_s > 0
    receiver.status = 200
    receiver.answers.set()
    until(lambda: hooks.status()["hook"].waiting == 0, "everything to be told")
    assert len(keys(receiver, "firing")) == 2, "a try that timed out may have been taken: the key tells"
    hooks.observe([])
    until(lambda: hooks.status()["hook"].waiting == 0, "the ends to be told")
    assert (len(keys(receiver, "firing")), len(keys(receiver, "resolved"))) == (2, 2)


def keys(receiver: Receiver, status: str) -> set[str]:
    """By what the messages of a status are known again."""
    return {got.headers["Idempotency-Key"] for got in receiver.messages if got.body["status"] == status}


def test_a_receiver_that_hangs_delays_neither_the_job_nor_another_receiver(receiver: Receiver, sends: Sends) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        hangs = {"name": "deaf", "url": f"http://127.0.0.1:{deaf.getsockname()[1]}/", "timeout_ms": 60_000}
        hooks = sends(hangs, {"name": "hook", "url": receiver.url})
        hooks.observe([finding("a")])
        assert hooks.status()["deaf"].failed_total == 0
        until(lambda: receiver.messages, "the other receiver to be told")
        hooks.observe([])
        until(lambda: len(receiver.messages) == 2, "the other receiver to be told of the end")
        status = hooks.status()["deaf"]
        assert (status.failed_total, status.waiting) == (0, 1), "it has not been given up yet"


def test_the_next_process_goes_on_where_the_last_one_was(receiver: Receiver, sends: Sends) -> None:
    hook = {"name": "hook", "url": receiver.url}
    first = sends(hook)
    first.observe([finding("a"), finding("b", topic="payments")])
    until(lambda: first.status()["hook"].delivered_total == 2, "both to be told")
    receiver.status = 500
    first.observe([finding("a"), finding("c", topic="refunds")])
    until(lambda: first.status()["hook"].failed_total >= 1, "the receiver to refuse")
    second = sends(hook)
    receiver.status = 200
    # The findings are not loaded yet: nothing is told to be over but what was seen to be.
    until(lambda: len(receiver.messages) == 4, "what was left to be told")
    second.observe([finding("a")])
    until(lambda: len(receiver.messages) == 5, "what ended while no job ran")
    told = [(m.body["status"], m.body["groupLabels"]["topic"]) for m in receiver.messages]
    assert sorted(told[:2]) == [("firing", "orders"), ("firing", "payments")]
    assert sorted(told[2:4]) == [("firing", "refunds"), ("resolved", "payments")]
    assert told[4:] == [("resolved", "refunds")]


def test_a_fault_of_parallax_in_a_message_is_logged_and_the_message_tried_again(tmp_path: Path) -> None:
    tries: list[Message] = []

    def fails_once(told: Message) -> Answer:
        tries.append(told)
        if len(tries) == 1:
            raise KeyError("a fault")
        return Answer(None)

    notifier = Notifier("hook", Outbox(QUICK, Random(1)), Record(str(tmp_path)), fails_once)
    with structlog.testing.capture_logs() as logged:
        notifier.start()
        notifier.observe([finding("a")])
        until(lambda: notifier.status().delivered_total == 1, "the second try")
        notifier.stop(5)
    assert notifier.status().failed_total == 1
    assert next(line["log_level"] for line in logged) == "error"


def test_a_receiver_whose_answer_drips_is_given_up_in_time_and_holds_one_thread() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def drip() -> None:
        with listening.accept()[0] as client, suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not is_over.wait(0.05):
                client.sendall(b"a")

    threading.Thread(target=drip, daemon=True).start()
    send = post(url=f"http://127.0.0.1:{listening.getsockname()[1]}/hook", timeout_ms=100)
    before = threading.active_count()
    try:
        assert [send(message(finding("a"))).error for _ in range(3)] == ["it did not answer in time"] * 3
        assert threading.active_count() <= before + 1
    finally:
        is_over.set()
        listening.close()


def test_who_is_named_in_the_address_is_sent_as_basic_authentication(receiver: Receiver) -> None:
    url = receiver.url.replace("http://", "http://ann:a%20word@")
    assert post(url=url)(message(finding("a"))).error is None
    (got,) = receiver.messages
    assert got.headers["authorization"] == f"Basic {b64encode(b'ann:a word').decode()}"


@pytest.mark.parametrize("strange", ["http://[::1/hidden", "http://127.0.0.1:99999999/hidden", "token-of-a-receiver"])
def test_what_is_no_address_is_refused_and_out_of_a_file_nothing_is_sent_to_it(
    receiver: Receiver, tmp_path: Path, strange: str
) -> None:
    with pytest.raises(ValidationError, match="is no address"):
        post(url=strange)
    (tmp_path / "url").write_text(receiver.url)
    send = post(url_file=str(tmp_path / "url"))
    (tmp_path / "url").write_text(strange)
    assert send(message(finding("a"))).error == "its address is none"
    assert receiver.messages == []


def test_a_time_to_wait_that_no_calendar_has_is_none() -> None:
    assert _retry_after("Mon, 01 Jan 99999999999999 00:00:00 GMT", 0.0) == 0.0


def test_slack_and_pagerduty_are_told_of_an_acknowledgement_of_what_is_worse_and_of_the_end(
    receiver: Receiver, sends: Sends
) -> None:
    webhooks = sends(
        {"name": "chat", "format": "slack", "url": f"{receiver.url}/chat"},
        {"name": "pager", "format": "pagerduty", "url": f"{receiver.url}/pager", "routing_key": "key"},
    )
    found = finding("a")
    steps: list[tuple[tuple[Finding, ...], tuple[Finding, ...]]] = [
        ((found,), ()),
        ((acknowledged(found, "known since March", "ann", found.decided_at),), ()),
        ((replace(found, summary="Worse than when ann acknowledged it: it counts 9, not 4."),), ()),
        ((), (replace(found, status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed: gone."),)),
    ]
    for number, (standing, ended) in enumerate(steps, 1):
        webhooks.observe(standing, ended)
        until(lambda n=number: len(bodies_at(receiver, "/chat")) == n, "chat to be told")
        until(lambda n=number: len(bodies_at(receiver, "/pager")) >= n, "pager to be told")
        until(lambda: all(status.waiting == 0 for status in webhooks.status().values()), "all to be delivered")
    texts = [body["text"] for body in bodies_at(receiver, "/chat")]
    assert [text.split(" ")[0] for text in texts] == ["*FIRING*", "*ACKNOWLEDGED*", "*FIRING*", "*RESOLVED*"]
    assert "by ann: known since March. Still open: " in texts[1]
    assert "Broker 2 showed it. Healed: gone." in texts[3]
    events = [(body["event_action"], body["dedup_key"]) for body in bodies_at(receiver, "/pager")]
    first, second = events[0][1], events[2][1]
    assert events == [
        ("trigger", first),
        ("acknowledge", first),
        ("trigger", second),
        ("resolve", first),
        ("resolve", second),
    ]
    assert first != second


def bodies_at(receiver: Receiver, path: str) -> list[dict[str, Any]]:
    return [message.body for message in list(receiver.messages) if message.path == path]
