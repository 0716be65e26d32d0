"""What the tests of the comparison share."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallax.compare.tables import create_suspects
from parallax.views.tables import create_tables
from tests.unit.compare.history import Comparison


@pytest.fixture
def comparison() -> Comparison:
    return Comparison()


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    create_tables(str(tmp_path))
    create_suspects(str(tmp_path))
    return tmp_path
