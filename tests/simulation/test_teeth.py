"""A rule that is broken on purpose is noticed: the simulator has teeth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parallax.compare import breaks
from parallax.compare.rules import latest, markers, outcome, progress
from parallax.compare.state import CANDIDATE
from parallax.compare.suspect import Accusation
from parallax.findings import decide
from parallax.findings.decide import truncation, values
from parallax.kinds import Family
from parallax.model import FindingKind, IsolationLevel, Rule
from parallax.replica import reader
from tests.simulation.history import Profile, generate
from tests.simulation.kinds import profile
from tests.simulation.teeth import MOST, histories
from tests.simulation.world import Violation, World

NO_CANDIDATES = np.zeros(0, CANDIDATE)

BROKEN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "missed markers are overlooked": (markers, "find_missed", lambda intervals, *_: intervals),
    "unlike outcomes are overlooked": (outcome, "open_disputes", lambda pending: pending["flags"] < 0),
    "absent records are overlooked": (latest, "absences", lambda released, *_, **__: NO_CANDIDATES),
    "frozen replicas are overlooked": (progress, "observe", lambda *_: []),
    "a value that is newer elsewhere is ignored": (values, "_accused_shows", lambda case, _: case.dismissed("")),
}
TRUSTING = {**decide._JUDGES, Family.TRUNCATION: lambda case: case.confirmed("it is shorter")}


def noticed() -> Profile | None:
    for p, ops in histories():
        try:
            World(p).run(ops)
        except Exception:  # noqa: BLE001 - any failure is a notice
            return p
    return None


@pytest.mark.parametrize("name", BROKEN)
def test_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken = BROKEN[name]
    monkeypatch.setattr(module, function, broken)
    assert noticed() is not None


def test_a_disk_that_is_only_copied_again_is_no_truncated_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decide, "_JUDGES", TRUSTING)
    with pytest.raises(Violation, match="log_truncated"):
        run_wiped()


def run_wiped() -> None:
    for seed in range(MOST):
        p = replace(profile(seed, healthy=True), wipes=True)
        World(p).run(generate(p))


CUT_OVERLOOKED: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a truncated log is read on": (breaks, "_truncated", lambda *_: nobody()),
    "a log that knows a newer epoch is taken for a copy": (truncation, "_epoch_end", lambda claim, _: claim.lost_to),
}


def nobody() -> Accusation:
    return Accusation(Rule.CONTENT, FindingKind.CONTENT_MISMATCH, 1, 10**6)


@pytest.mark.parametrize("name", CUT_OVERLOOKED)
def test_a_truncated_log_must_be_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken = CUT_OVERLOOKED[name]
    monkeypatch.setattr(module, function, broken)
    with pytest.raises(Violation, match=r"missed|pending"):
        run_unclean()


def run_unclean() -> None:
    for seed in range(MOST):
        p = replace(profile(seed, healthy=False), unclean=True)
        World(p).run(generate(p))


def as_if_none_were_listed(columns: Any, _aborted: Any, isolation: IsolationLevel) -> Any:
    return OUTCOMES(columns, np.empty((0, 2), np.int64), isolation)


def one_too_low(records: Any, **options: Any) -> Iterator[Any]:
    for columns in DECODE(records, **options):
        yield replace(columns, offset=columns.offset - (columns.offset > 20))


OUTCOMES, DECODE = reader.outcomes, reader.decode_slices
MISREAD: dict[str, tuple[str, Callable[..., Any]]] = {
    "the list of aborted transactions is ignored": ("outcomes", as_if_none_were_listed),
    "offsets are misread from some on": ("decode_slices", one_too_low),
}


@pytest.mark.parametrize("name", MISREAD)
def test_bytes_that_are_misread_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, broken = MISREAD[name]
    monkeypatch.setattr(reader, function, broken)
    with pytest.raises(AssertionError, match="what is decoded must be what the replica holds"):
        run_decoding()


def run_decoding() -> None:
    for p, ops in histories():
        World(replace(p, wired=True)).run(ops)
