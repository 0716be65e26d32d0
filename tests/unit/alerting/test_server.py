from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from parallax.alerting.blind import STALE_S
from parallax.alerting.server import MetricsServer, MetricsServerError
from parallax.alerting.state import MonitorState
from parallax.config import AlertingSettings
from parallax.findings.happenings import FindingsStatus
from tests.builders.clock import Clock
from tests.patience import PATIENCE_S
from tests.unit.alerting.reported import Report, in_part


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> MonitorState:
    return MonitorState(clock)


@pytest.fixture
def server(state: MonitorState) -> Iterator[MetricsServer]:
    server = MetricsServer(state, AlertingSettings(metrics_port=0), "/nowhere")
    yield server
    server.close()


def get(server: MetricsServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def problems(server: MetricsServer) -> tuple[int, list[Any]]:
    status, body = get(server, "/readyz")
    return status, json.loads(body)["problems"]


def test_metrics_are_served(server: MetricsServer, state: MonitorState) -> None:
    state.update_query(Report())
    status, body = get(server, "/metrics")
    assert status == 200
    assert 'parallax_query_up{query="compare"} 1.0' in body
    assert "parallax_build_info{" in body


def test_the_memory_of_the_job_is_served_by_process(server: MetricsServer) -> None:
    body = get(server, "/metrics")[1]
    found = re.search(r'parallax_memory_bytes\{process="driver"\} (\S+)', body)
    assert found is not None
    assert 10 << 20 < float(found.group(1)) < 100 << 30
    assert 'parallax_processes{process="driver"} 1.0' in body


def test_another_path_is_not_found(server: MetricsServer) -> None:
    assert get(server, "/else")[0] == 404


def test_health_follows_end_to_end_progress(server: MetricsServer, state: MonitorState, clock: Clock) -> None:
    assert problems(server) == (503, ["nothing has been compared yet"])
    state.update_coverage([in_part(compared_at=int(clock.now * 1000))])
    assert problems(server) == (200, [])
    clock.now += STALE_S + 1
    assert problems(server) == (503, ["nothing has been compared for 2.0 min"])


def test_a_job_that_does_not_compare_yet_is_live_all_the_same(server: MetricsServer) -> None:
    assert get(server, "/livez")[0] == 200
    assert get(server, "/readyz") == get(server, "/healthz")
    assert get(server, "/readyz")[0] == 503


def test_health_names_a_query_that_is_down_and_findings_that_cannot_be_kept(
    server: MetricsServer, state: MonitorState, clock: Clock
) -> None:
    state.update_coverage([in_part(compared_at=int(clock.now * 1000))])
    state.update_query(Report(up=False))
    state.update_findings(FindingsStatus(error="no space left"))
    assert problems(server) == (503, ["query compare is down", "findings: no space left"])


def test_a_port_in_use_is_one_line_that_names_the_setting(state: MonitorState) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MetricsServerError, match=r"alerting\.metrics_port: cannot listen on") as error:
            MetricsServer(state, AlertingSettings(metrics_port=port), "/nowhere")
        assert "\n" not in str(error.value)


def test_a_slow_reader_holds_up_no_scrape(server: MetricsServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)):
        assert get(server, "/metrics")[0] == 200
