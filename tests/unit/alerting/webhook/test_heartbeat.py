"""The dead man's switch, over real HTTP: sent while the job works, and only then."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import ValidationError

from parallax.alerting.webhook.heartbeat import Heartbeat
from parallax.config import AlertingSettings
from tests.builders.clock import Clock
from tests.patience import PATIENCE_S
from tests.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as one:
        yield one


def heartbeat(clock: Clock, **settings: Any) -> Heartbeat:
    return Heartbeat(AlertingSettings.model_validate(settings), clock)


def counts(beating: Heartbeat) -> dict[str, float]:
    return {s.labels["result"]: s.value for family in beating.collect() for s in family.samples}


def test_it_is_sent_at_its_interval_while_the_job_works(receiver: Receiver) -> None:
    clock = Clock(100.0)
    beating = heartbeat(clock, heartbeat_url=f"{receiver.url}/ping/secret", heartbeat_interval_s=60)
    beating.beat(is_working=True)
    clock.now += 59
    beating.beat(is_working=True)
    assert receiver.pings == ["/ping/secret"]
    clock.now += 1
    beating.beat(is_working=False)
    clock.now += 60
    beating.beat(is_working=True)
    assert receiver.pings == ["/ping/secret"] * 2
    assert counts(beating) == {"success": 2, "failure": 0, "withheld": 1}


def test_a_ping_whose_answer_drips_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parallax.alerting.webhook.heartbeat._TIMEOUT_S", 0.1)
    is_over = threading.Event()

    def drip(listening: socket.socket) -> None:
        with suppress(OSError), listening.accept()[0] as client:
            client.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not is_over.wait(0.05):
                client.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        beating = heartbeat(Clock(100.0), heartbeat_url=f"http://127.0.0.1:{listening.getsockname()[1]}/ping")
        asking = threading.Thread(target=lambda: beating.beat(is_working=True), daemon=True)
        asking.start()
        asking.join(PATIENCE_S)
        assert not asking.is_alive(), "who asks looks at the job as well"
        is_over.set()
    assert counts(beating)["failure"] == 1


def test_a_ping_that_fails_is_counted_and_said_once_without_its_address(receiver: Receiver) -> None:
    clock, url = Clock(100.0), f"{receiver.url}/ping/secret"
    beating = heartbeat(clock, heartbeat_url=url)
    receiver.status = 404
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            beating.beat(is_working=True)
            clock.now += 60
        receiver.status = 200
        beating.beat(is_working=True)
    assert counts(beating) == {"success": 1, "failure": 3, "withheld": 0}
    assert [line["event"] for line in logged] == [
        "the address alerting.heartbeat_url is out of reach",
        "the address alerting.heartbeat_url is in reach again",
    ]
    assert logged[0]["error"] == "it answered 404"
    assert "secret" not in str(logged)


def test_its_address_may_be_in_a_file_that_is_read_each_time(receiver: Receiver, tmp_path: Path) -> None:
    clock, file = Clock(100.0), tmp_path / "url"
    file.write_text(f"{receiver.url}/one\n")
    beating = heartbeat(clock, heartbeat_url_file=str(file))
    beating.beat(is_working=True)
    file.write_text(f"{receiver.url}/two\n")
    clock.now += 60
    beating.beat(is_working=True)
    assert receiver.pings == ["/one", "/two"]
    file.unlink()
    clock.now += 60
    beating.beat(is_working=True)
    assert counts(beating)["failure"] == 1


def test_without_an_address_nothing_is_sent_or_counted() -> None:
    beating = heartbeat(Clock(100.0))
    beating.beat(is_working=True)
    assert counts(beating) == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"heartbeat_url": "hc-ping.com/secret"}, "is no address"),
        ({"heartbeat_url": "https://a/", "heartbeat_url_file": __file__}, "what it holds is no address"),
        ({"heartbeat_url_file": "/nowhere"}, "cannot be read"),
        ({"external_url": "monitor.example"}, "is no address"),
        ({"external_url": "https://ann:secret@monitor.example/"}, "is no address of the page"),
        ({"external_url": "https://monitor.example/?token=secret"}, "without a query"),
    ],
)
def test_addresses_are_looked_at_before_the_job_starts(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AlertingSettings.model_validate(settings)
    (error,) = [e for e in refused.value.errors(include_input=False) if said in e["msg"]]
    assert "secret" not in error["msg"]
