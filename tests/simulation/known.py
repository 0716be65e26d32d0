"""What the product is known not to hold yet, by property, by what is said or missed, and by kind of history.

Each entry names a history that shows it in test_known_violations.py, where it is expected to fail: a change that mends
it takes both away. Nothing else is tolerated.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.history import Profile
from tests.simulation.properties import Broken

ANY = "any"
UNCLEAN = "unclean elections"


@dataclass(frozen=True, slots=True)
class Known:
    """A property that does not hold yet.

    Attributes:
        shown_by: the history that shows it, by its name in test_known_violations.py.
        whats: kinds of findings, or of wrong that is not reported.
        where: kinds of histories.
    """

    shown_by: str
    name: str
    whats: frozenset[str]
    where: frozenset[str] = frozenset({ANY})

    def is_of(self, broken: Broken) -> bool:
        """Whether this is what broke."""
        return broken.name == self.name and broken.what in self.whats


VIOLATIONS: tuple[Known, ...] = ()


def kinds_of(p: Profile) -> frozenset[str]:
    """What a history is of, as the entries name it."""
    return frozenset(p.kinds) | {ANY} | ({UNCLEAN} if p.unclean else frozenset())


def entry_of(p: Profile, broken: Broken) -> Known | None:
    """The entry that a violation falls under; None where it is a new one."""
    kinds = kinds_of(p)
    return next((k for k in VIOLATIONS if k.is_of(broken) and k.where & kinds), None)
