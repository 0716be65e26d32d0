"""What ``parallax check`` says of those who hear of findings; nobody is sent anything by it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from parallax.check_line import Line, Result
from parallax.check_receivers import receivers
from parallax.config import AlertingSettings
from parallax.lab.ports import free_ports
from tests.receiver import Receiver


def said(**alerting: Any) -> dict[str, Line]:
    return {line.about: line for line in receivers(AlertingSettings.model_validate(alerting))}


def test_what_is_not_configured_is_a_note_each() -> None:
    lines = said()
    assert list(lines) == ["webhooks", "heartbeat", "external_url"]
    assert {line.result for line in lines.values()} == {Result.NOTE}
    for line in lines.values():
        assert line.text.startswith("alerting.")


def test_what_is_in_reach_is_fine_and_is_sent_nothing(tmp_path: Path) -> None:
    with Receiver() as receiver:
        secret = tmp_path / "url"
        secret.write_text(f"{receiver.url}/services/T0/hunter2\n")
        lines = said(
            webhooks=[
                {"name": "slack", "format": "slack", "url_file": str(secret)},
                {"name": "own", "url": f"{receiver.url}/hunter2"},
            ],
            heartbeat_url=f"{receiver.url}/hunter2",
            external_url=receiver.url,
        )
        assert (receiver.tries, receiver.pings) == (0, [])
    assert list(lines) == ["webhook slack", "webhook own", "heartbeat", "external_url"]
    assert {line.result for line in lines.values()} == {Result.FINE}
    host = f"127.0.0.1:{receiver.port}"
    assert lines["webhook slack"].text == f"{host} answers; it is sent slack messages, none by this check."
    assert lines["heartbeat"].text == f"{host} answers; the job asks for it every 60 s while it works."
    assert not any("hunter2" in line.text for line in lines.values())


def test_what_is_out_of_reach_is_named_with_its_option_and_without_its_path() -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    lines = said(webhooks=[{"name": "own", "url": f"{url}/hunter2"}], heartbeat_url=f"{url}/hunter2", external_url=url)
    refused = f"127.0.0.1:{port} cannot be used (Connection refused)"
    assert lines["webhook own"].text.startswith(f"alerting.webhooks, own: {refused}")
    assert lines["heartbeat"].text.startswith(f"alerting.heartbeat_url: {refused}")
    assert "look whether it does where messages are read" in lines["external_url"].text
    (stopped,) = [
        one for one in receivers(AlertingSettings(external_url=url), job_runs=False) if one.about == "external_url"
    ]
    told = f"messages link to {url}; the page is there once the job runs."
    assert stopped == Line("external_url", Result.FINE, told)
    results = [line.result for line in lines.values()]
    assert results == [Result.UNKNOWN, Result.UNKNOWN, Result.NOTE]
    assert not any("hunter2" in line.text for line in lines.values())


def test_a_host_that_speaks_no_tls_is_wrong() -> None:
    with Receiver() as receiver:
        line = said(webhooks=[{"name": "own", "url": f"https://127.0.0.1:{receiver.port}/"}])["webhook own"]
    assert line.result is Result.WRONG
    assert "TLS: " in line.text


def test_pagerduty_needs_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def connect(address: Any, *_: Any) -> socket.socket:
        asked.append(address)
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("parallax.check_receivers.socket.create_connection", connect)
    line = said(webhooks=[{"name": "pager", "format": "pagerduty", "routing_key": "k"}])["webhook pager"]
    assert asked == [("events.pagerduty.com", 443)]
    assert line.result is Result.UNKNOWN
