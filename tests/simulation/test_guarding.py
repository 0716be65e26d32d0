"""Histories of guards; ``python -m tests.simulation.guarding --histories N --seed S`` runs as many as asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest

from parallax.guard.absences import Absence
from parallax.guard.decide import Guard
from parallax.guard.holds import EventKind
from parallax.guard.horizons import Readings, Stand
from parallax.guard.kept import Kept
from parallax.guard.known import Ends, Retentions
from parallax.guard.pauses import Paused, Pauses
from parallax.guard.seen import Shown, TopicSeen
from tests.simulation.guarding import Broken, History

HISTORIES = 100


@pytest.mark.parametrize("first", range(0, 2 * HISTORIES, HISTORIES))
def test_what_is_guarded_is_not_missed_and_settings_are_put_back(first: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(first, first + HISTORIES):
        history = History(seed)
        try:
            history.run()
        except Broken as broken:
            broken.add_note(f"python -m tests.simulation.guarding --seed {seed} --histories 1")
            raise
        done += history.world.done
        done += Counter(dangerous=history.dangerous, guarded=history.guarded)
    said = {str(kind) for kind in EventKind} - {"advised", "asked_hold", "asked_release"}
    assert said <= done.keys(), "every kind of event comes about"
    assert done["dangerous"] > 2, "tombstones that an absent replica lacks do go"
    assert done["guarded"] > 10, "and topics are held before that"
    assert done["sharper"] > 1_000, "what was read moves bounds"
    assert done["back while held"] > 0, "and some come back after their bound, but while nothing was cleaned"


@pytest.mark.parametrize(
    "seed", [30002051, 30002367, 32000076, 32000387, 32001176, 32006782, 32008409, 33008449, 33013548]
)
def test_a_seed_that_once_broke(seed: int) -> None:
    History(seed).run()


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_many_histories_of_guards() -> None:
    for seed in range(1_000_000, 1_003_000):
        History(seed).run()


def first_broken(seeds: range) -> str:
    for seed in seeds:
        try:
            History(seed).run()
        except Broken as broken:
            return str(broken)
    return ""


def _of_one_broker(self: TopicSeen, name: str) -> Shown | None:
    return next((shown.get(name) for _, shown in sorted(self.settings.items())), None)


def _latest(self: Retentions, at_ms: int, now_ms: int) -> int | None:
    return self._known[-1][0] if self._known else None


def _newest(self: Ends, offset: int) -> int | None:
    looks = self._recent or self._sure
    return looks[-1][0] if looks else None


_stand = Readings.stand


def _of_those_read(self: Readings, offset: int, brokers: Collection[int], retention_ms: int) -> Stand | None:
    return _stand(self, offset, self._known.keys() & set(brokers), retention_ms)


def _without_horizons(self: Readings, offset: int, brokers: Collection[int], retention_ms: int) -> Stand | None:
    stand = _stand(self, offset, brokers, retention_ms)
    return None if stand is None else stand._replace(horizon_ms=None)


_keep, _see = Kept.keep, Pauses.see


def _at_any_time(self: Kept, known: Any, absence: Absence, in_force: Retentions) -> None:
    _keep(self, known, absence if absence.bound_ms is None else replace(absence, bound_ms=2**60), in_force)


def _never_over(self: Pauses, look: Paused) -> None:
    _see(self, look._replace(brokers=look.brokers | self.spans.keys()))


@pytest.mark.parametrize(
    ("owner", "name", "instead", "broken", "first"),
    [  # Each begins at the first seed that notices it; where histories change, another of the 400 may.
        (Readings, "stand", _of_those_read, "bound", 167),
        (Readings, "stand", _without_horizons, "bound", 72),
        (Ends, "last_without", _newest, "bound", 3),
        (Retentions, "smallest_since", _latest, "bound", 14),
        (TopicSeen, "agreed", _of_one_broker, "", 1579),
        (Guard, "_stray", lambda *_: None, "", 53),
        (Guard, "_changed_by_others", lambda *_: None, "", 10),
        (Kept, "keep", lambda *_: None, "called late", 13),
        (Kept, "keep", _at_any_time, "", 169),
        (Pauses, "see", _never_over, "", 125),
    ],
    ids=[
        "those that were read",
        "no horizons",
        "newest look",
        "newest retention",
        "one broker",
        "late requests",
        "others",
        "no holds",
        "holds that came too late",
        "holds that are over",
    ],
)
def test_a_guard_or_clock_that_leaves_something_out_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, instead: Callable[..., object], broken: str, first: int
) -> None:
    monkeypatch.setattr(owner, name, instead)
    said = first_broken(range(first, first + 400))
    assert said
    assert broken in said
