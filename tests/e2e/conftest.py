"""Real brokers for the end-to-end tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from parallax.lab.cluster import Cluster


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the end-to-end tests after all others and in the order in which they are written.

    The other tests are shuffled. Those of a module here share brokers and often a job, which have a past; one that is
    the same in each run lets a failure be repeated.
    """
    here = Path(__file__).parent
    last = [item for item in items if here in item.path.parents]
    last.sort(key=lambda item: (item.path, item.location[1] or 0, item.name))
    items[:] = [item for item in items if here not in item.path.parents] + last


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers shared by all tests; use topics of your own (fixture ``topic``) and leave all brokers running."""
    with Cluster() as cluster:
        yield cluster
        _keep_logs_after_failures(request, cluster)


@pytest.fixture
def make_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Start clusters of a test's own (arguments as of ``Cluster``); they are stopped after the test."""
    with ExitStack() as stack:

        def make(*arguments: Any, **more: Any) -> Cluster:
            cluster = stack.enter_context(Cluster(*arguments, **more))
            stack.callback(_keep_logs_after_failures, request, cluster)
            return cluster

        yield make


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; the topic is not created."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-").lower()
    return f"{name[:80]}-{uuid4().hex[:8]}"


def _keep_logs_after_failures(request: pytest.FixtureRequest, cluster: Cluster) -> None:
    if request.session.testsfailed:
        cluster.keep_logs = True
        print(f"the brokers' logs are kept in {cluster.folder}")
