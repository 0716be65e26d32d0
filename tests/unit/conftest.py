"""What holds for every unit test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from parallax import moments

_TODAY = moments.today()


@pytest.fixture(autouse=True)
def _one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a test records over midnight are not of two dates, unless it says so."""
    monkeypatch.setattr(moments, "today", lambda: _TODAY)


@pytest.fixture(autouse=True)
def _logs_as_by_default() -> Iterator[None]:
    """A command sets up the logs of its process, and a test's process runs many."""
    yield
    structlog.reset_defaults()
