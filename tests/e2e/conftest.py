"""Real brokers for the end-to-end tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import pytest

from parallax.config import SparkSettings
from parallax.lab.cluster import Cluster
from parallax.views.session import build_session
from tests.e2e.faulty import Faulty, faulty_job
from tests.e2e.job_process import SHORT_LIVED
from tests.e2e.play import Played, played_once

_NEXT = pytest.StashKey[pytest.Item | None]()
_KEPT = pytest.StashKey[dict[str, tuple[Any, ExitStack]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Remember what comes next, for what modules share."""
    item.session.stash[_NEXT] = nextitem


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing comes next, also where the first failure ends it all."""
    session.stash[_NEXT] = None


@contextmanager
def _kept(request: pytest.FixtureRequest, make: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    """Make what a fixture of modules gives, and keep it for the next module if that uses it as well.

    Brokers that nobody uses any more still take a seventh of a processor from the tests that run beside them.
    """
    name, session = str(request.fixturename), request.session
    kept = session.stash.setdefault(_KEPT, {})
    if name not in kept:
        with ExitStack() as stack:
            value = stack.enter_context(make())
            kept[name] = (value, stack.pop_all())
    value, stack = kept[name]
    yield value
    upcoming = session.stash[_NEXT]
    if upcoming is None or not any(name in item.fixturenames for item in _items_of_module(upcoming)):
        del kept[name]
        stack.close()


def _items_of_module(item: pytest.Item) -> list[pytest.Function]:
    return [one for one in item.session.items if one.path == item.path and isinstance(one, pytest.Function)]


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers shared by modules; use topics of your own (fixture ``topic``) and leave all brokers running."""
    with _kept(request, Cluster) as cluster:
        yield cluster
        _keep_logs_after_failures(request, cluster)


@pytest.fixture(scope="module")
def hurt(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers whose tests hurt them; each leaves all of them running. They look after retention every second."""
    with _kept(request, lambda: Cluster(settings={"log.retention.check.interval.ms": "1000"})) as cluster:
        yield cluster
        _keep_logs_after_failures(request, cluster)


@pytest.fixture(scope="module")
def faulty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    """A job whose brokers and whose disk can be hurt; each test leaves it running."""
    with _kept(request, lambda: faulty_job(tmp_path_factory.mktemp("faulty"))) as faulty:
        yield faulty
        _keep_logs_after_failures(request, faulty.lab)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session in this process; modules come one after the other to the same JVM."""
    session = build_session(SparkSettings(master="local[2]", driver_memory="1g", **SHORT_LIVED))
    yield session
    session.stop()


@pytest.fixture
def make_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Start clusters of a test's own (arguments as of ``Cluster``); they are stopped after the test."""
    with ExitStack() as stack:

        def make(*arguments: Any, **more: Any) -> Cluster:
            cluster = stack.enter_context(Cluster(*arguments, **more))
            stack.callback(_keep_logs_after_failures, request, cluster)
            return cluster

        yield make


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Brokers on which everything was played once, under a job; leave all of them running."""
    with _kept(request, lambda: played_once(tmp_path_factory.mktemp("played"))) as played:
        yield played
        _keep_logs_after_failures(request, played.lab)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; the topic is not created."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-").lower()
    return f"{name[:80]}-{uuid4().hex[:8]}"


def _keep_logs_after_failures(request: pytest.FixtureRequest, cluster: Cluster) -> None:
    if request.session.testsfailed:
        cluster.keep_logs = True
        print(f"the brokers' logs are kept in {cluster.folder}")
