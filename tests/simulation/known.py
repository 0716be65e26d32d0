"""What the product is known not to hold yet, by property, by what is said or missed, and by kind of history.

Each entry names a history that shows it in test_known_violations.py, where it is expected to fail: whoever mends it
takes both away. Nothing else is tolerated.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.history import Profile
from tests.simulation.properties import ENDS_RIGHT, KNOWN, NEEDLESS, NEVER_RIGHT, ONE_CAUSE, SOUND, Broken

ANY = "any"
UNCLEAN = "unclean elections"
INDEX = "a lost index of aborted transactions"
HEAD = "a lost head of a log"


@dataclass(frozen=True, slots=True)
class Known:
    """A property that does not hold yet.

    Attributes:
        shown_by: the history that shows it, by its name in test_known_violations.py.
        whats: kinds of findings, or of wrong that is not told.
        where: kinds of histories.
    """

    shown_by: str
    name: str
    whats: frozenset[str]
    where: frozenset[str]

    def is_of(self, broken: Broken) -> bool:
        """Whether this is what broke."""
        return broken.name == self.name and broken.what in self.whats


def _known(shown_by: str, name: str, whats: str, *where: str) -> Known:
    return Known(shown_by, name, frozenset(whats.split(" | ")), frozenset(where or (ANY,)))


VIOLATIONS = (
    _known("a transaction that all hold open again", SOUND, "read_committed_frozen", UNCLEAN),
    _known("a marker that all have lost", NEVER_RIGHT, "marker_missing | read_committed_frozen", UNCLEAN),
    _known("a lost index whose record is cleaned away", SOUND, "visibility_mismatch", INDEX),
    _known("a lost head that all have taken over", NEEDLESS, "key", HEAD),
    _known("a lost head where a policy deletes", KNOWN, "key | key, consistent in an audit", HEAD),
    _known("healed by a marker that turned it", ENDS_RIGHT, "read_committed_frozen | marker_missing"),
    _known("unlike markers are told twice", ONE_CAUSE, "visibility_mismatch", UNCLEAN),
    _known("a finding that ends before its key is right", ONE_CAUSE, "deleted_record_resurrected"),
)


def kinds_of(p: Profile) -> frozenset[str]:
    """What a history is of, as the entries name it."""
    return frozenset(p.kinds) | {ANY} | ({UNCLEAN} if p.unclean else set())


def entry_of(p: Profile, broken: Broken) -> Known | None:
    """The entry that a violation falls under; None where it is a new one."""
    kinds = kinds_of(p)
    return next((k for k in VIOLATIONS if k.is_of(broken) and k.where & kinds), None)
