"""Plays that once went wrong: see the files of ``histories/``."""

from __future__ import annotations

import pytest

from tests.simulation.ops import parse
from tests.simulation.plays import ALL


@pytest.mark.parametrize("name", ALL)
def test_play(name: str) -> None:
    ALL[name].play()


def test_operations_that_are_repeated_are_written_once() -> None:
    assert parse("sync; 2x(tick 5; round); end 1") == parse("sync; tick 5; round; tick 5; round; end 1")
