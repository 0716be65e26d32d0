"""What holds for every unit test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_by_default() -> Iterator[None]:
    """A command sets up the logs of its process, and a test's process runs many."""
    yield
    structlog.reset_defaults()
