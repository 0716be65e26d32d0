"""What the tests of the comparison share."""

from __future__ import annotations

import pytest

from tests.unit.compare.history import Comparison


@pytest.fixture
def comparison() -> Comparison:
    return Comparison()
