"""Plays each of the five scripts on two topics in one outage, to show that a guard's hold prevents the divergence.

A guard holds one of the two topics, which have the same settings. A hold keeps tombstones and end markers for longer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from parallax.lab.errors import LabError
from parallax.lab.scenarios import SCENARIOS, Scenario
from parallax.lab.scenarios.conductor import Conductor, _Act, _agree
from parallax.lab.scenarios.stage import SURVIVORS, VICTIM, Return
from parallax.lab.waiting import until

HELD, OPEN = "held.", "open."
_RETENTION_MS = 20_000
"""So a monitor has time to notice that a broker is away, and tombstones go soon."""


class GuardedConductor(Conductor):
    """Plays the scripts on topics that a guard holds, where no replica may diverge, and on others, where they do.

    On a held topic the brokers clean nothing. So the script there does not wait for a cleaner.
    """

    def _config(self) -> dict[str, str]:
        return super()._config() | {"delete.retention.ms": str(_RETENTION_MS)}

    def _is_held(self, act: _Act) -> bool:
        return HELD in act.stage.topic

    def _is_cleaned(self, act: _Act) -> bool:
        return self._is_held(act) or super()._is_cleaned(act)

    def _tick(self, acts: Collection[_Act]) -> None:
        # Those that are held are given as much reason to be cleaned.
        super()._tick([*acts, *(act for act in self._acts if self._is_held(act))])

    def _before(self, acts: Collection[_Act]) -> None:
        self._acts = list(acts)
        super()._before(acts)

    def _watch_victim(self, acts: Collection[_Act]) -> None:
        super()._watch_victim([act for act in acts if not self._is_held(act)])

    def _verify(self, acts: Collection[_Act]) -> None:
        super()._verify([act for act in acts if not self._is_held(act)])
        for act in (act for act in acts if self._is_held(act)):
            try:
                until(self._is_right(act), "what is held to be the same on all brokers")
            except LabError as error:
                raise self._failed([act], "it was held, and is lost all the same") from error
            act.finish()
            act.divergence = None

    def _is_right(self, act: _Act) -> Callable[[], bool]:
        def right() -> bool:
            views, home = self._views(act), act.homecoming
            if not isinstance(home, Return) or home.wrong(views[VICTIM]) or not _agree(views):
                return False
            return all(home.right(views[broker]) for broker in SURVIVORS)

        return right


GUARDED = Scenario(
    "guarded",
    {f"{half}{suffix}": write for half in (OPEN, HELD) for suffix, write in SCENARIOS["all"].scripts.items()},
    conductor=GuardedConductor,
)

__all__ = ["GUARDED", "HELD", "OPEN"]
