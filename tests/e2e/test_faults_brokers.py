"""Brokers whose answers are late, truncated or garbled: nobody else waits, nothing is lost, and no verdict is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from tests.e2e.faulty import Faulty
from tests.e2e.job_process import JobProcess, Stream, await_exactly
from tests.e2e.proxy import Fault, Proxies

pytestmark = pytest.mark.timeout(1500)

_QUERIES = ("read_uncommitted", "read_committed", "progress", "compare")
_IN_THE_RECORDS = (Fault.FLIP_RECORDS, Fault.FLIP_OFFSET, Fault.FLIP_LENGTH)


@pytest.fixture(scope="module")
def lab(faulty: Faulty) -> Cluster:
    return faulty.lab


@pytest.fixture(scope="module")
def proxies(faulty: Faulty) -> Proxies:
    return faulty.proxies


@pytest.fixture(scope="module")
def job(faulty: Faulty) -> JobProcess:
    """One job that reaches every broker through a proxy; each test leaves it running."""
    return faulty.job


def reachable(job: JobProcess, broker: int) -> float | None:
    return job.metric("parallax_broker_reachable", broker_id=str(broker))


def unknown(job: JobProcess, topic: str) -> float:
    return job.unknown(topic) or 0.0


@pytest.mark.parametrize(
    "faults",
    [
        {2: Fault.FLIP_RECORDS, 3: Fault.SILENCE},
        pytest.param({2: Fault.RESET, 3: Fault.FLIP_OFFSET}, marks=pytest.mark.release),
        pytest.param({2: Fault.REFUSE, 3: Fault.SLOW}, marks=pytest.mark.release),
        pytest.param({2: Fault.FLIP_SIZE, 3: Fault.TRUNCATE}, marks=pytest.mark.release),
        pytest.param({2: Fault.FLIP_ID, 3: Fault.FLIP_LENGTH}, marks=pytest.mark.release),
    ],
    ids=lambda faults: ", ".join(f"{broker} {fault}" for broker, fault in faults.items()),
)
def test_two_brokers_that_are_hurt_hold_up_no_third_and_catch_up(
    lab: Cluster, proxies: Proxies, job: JobProcess, topic: str, faults: Mapping[int, Fault]
) -> None:
    stream = Stream(lab, f"hurt-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    with ExitStack() as stack:
        hurt = {broker: stack.enter_context(proxies.of[broker].hurting(fault)) for broker, fault in faults.items()}
        job.await_observed(stream.topic, stream.write(), 1)
        until(lambda: unknown(job, stream.topic) > 0, "the offsets of the hurt brokers to be unknown", timeout=120)
        for broker, fault in faults.items():
            until(lambda broker=broker: hurt[broker].hits > 0, f"an answer of {broker} that {fault}", timeout=120)  # type: ignore[misc]
            if fault in _IN_THE_RECORDS:
                until(
                    lambda broker=broker: job.events(stream.topic, broker) & {"corrupt_batch", "unsupported"},  # type: ignore[misc]
                    f"the batch of {broker} to be reported as corrupt",
                    timeout=120,
                )
            else:
                until(
                    lambda broker=broker: reachable(job, broker) == 0.0,
                    f"{broker} reported as unreachable",
                    timeout=120,
                )  # type: ignore[misc]
        until(lambda: reachable(job, 1) == 1.0, "broker 1 to be reported as reachable", timeout=120)
        job.await_observed(stream.topic, stream.write(), 1)
    until(lambda: reachable(job, 2) == reachable(job, 3) == 1.0, "both to be reported as reachable again", timeout=120)
    stream.await_recorded_once(job)
    assert unknown(job, stream.topic) == 0.0
    assert [f for f in job.findings() if f.topic == stream.topic] == []
    assert {query: job.metric("parallax_query_restarts_total", query=query) for query in _QUERIES} == dict.fromkeys(
        _QUERIES, 0.0
    ), "no query falls over a broker"


def test_after_all_brokers_were_away_a_divergence_is_found_once(
    lab: Cluster, proxies: Proxies, job: JobProcess, faulty: Faulty, topic: str
) -> None:
    stream = Stream(lab, f"hurt-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    with ExitStack() as stack:
        for proxy in proxies.of.values():
            stack.enter_context(proxy.hurting(Fault.REFUSE))
        until(
            lambda: all(reachable(job, broker) == 0.0 for broker in (1, 2, 3)),
            "all reported as unreachable",
            timeout=120,
        )
        stream.write()
    stream.await_recorded_once(job)
    (finding,) = await_exactly(job, faulty.diverged())
    assert finding.broker == 2
