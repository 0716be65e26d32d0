"""Histories that once failed, shrunken and grouped by the property that they broke: see the files of ``histories/``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from tests.simulation import kinds
from tests.simulation.history import BROKERS, Op, Profile
from tests.simulation.ops import STANDARD, parse

FOLDER = Path(__file__).with_suffix("")


@dataclass(frozen=True)
class History:
    """What must hold, and the operations by which it once did not.

    Attributes:
        seed: cuts the history's micro-batches; without one they are cut as the standard profile says.
        healthy: whether no fault is among the operations, so that nothing may be found.
    """

    holds: str
    ops: str
    seed: int | None = None
    healthy: bool = False
    brokers: tuple[int, ...] = BROKERS

    @property
    def profile(self) -> Profile:
        if self.seed is None:
            return replace(STANDARD, healthy=self.healthy, brokers=self.brokers)
        return replace(kinds.profile(self.seed, healthy=False), compacted=True)

    def parsed(self) -> list[Op]:
        return parse(" ".join(self.ops.split()))


def _of(path: Path) -> list[History]:
    told = tomllib.loads(path.read_text()).get("history", [])
    return [History(**{**one, "brokers": tuple(one.get("brokers", BROKERS))}) for one in told]


ALL = {history.holds: history for path in sorted(FOLDER.glob("*.toml")) for history in _of(path)}
HEALTHY = {name: history for name, history in ALL.items() if history.healthy}
FAULTY = {name: history for name, history in ALL.items() if history.seed is None and not history.healthy}
SHRUNKEN = {name: history for name, history in ALL.items() if history.seed is not None}

_GENERATED = tomllib.loads((FOLDER / "seeds.toml").read_text())
SEEDS: list[int] = _GENERATED["once_failed"]
SEEDS_WITH_KILLS: list[int] = _GENERATED["once_failed_with_kills"]
OLDER_LOGS: dict[str, int] = _GENERATED["an_older_log_leads"]

# A value on all, a newer one while 2 is away, its tombstone while 1 is away as well; 3 has cleaned all of it.
THREE_SIDES = (
    "lead 3; write -1 0 11; sync; stop 2; write -1 0 22; sync; stop 1; write -1 0 -1; "
    + "".join(f"tick 2001; write -1 90 {n}; sync; clean 3; " for n in range(4))
    + "start 2; start 1; sync; cold; "
)
