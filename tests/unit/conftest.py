"""What holds for every unit test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from parallax import moments


@pytest.fixture(autouse=True)
def _one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a test records over midnight are of the date on which it began, unless it says otherwise."""
    began = moments.today()
    monkeypatch.setattr(moments, "today", lambda: began)


@pytest.fixture(autouse=True)
def _logs_as_by_default() -> Iterator[None]:
    """A command sets up the logs of its process, and a test's process runs many, also end to end before these."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
