"""Find the finding that a user means by an id, or by the beginning of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parallax.findings.finding import Finding, leans_on
from parallax.model import FindingStatus

_SHORTEST_PREFIX = 4
AT_LEAST = f"give at least its first {_SHORTEST_PREFIX} characters"
_NAMED = 5
"""How many findings a message about an ambiguous id names."""


class FindingNotNamedError(Exception):
    """A user's id fits no finding, or several. The message is one line that says what to do.

    If the id is that of a dismissed suspect, the message says why the suspect is no finding.
    """


def matching(ids: Iterable[str], wanted: str) -> list[str]:
    """Return the finding ids that a user may mean: the one that equals the text, else those that begin with it.

    A text with fewer than four characters matches none.

    Args:
        ids: all finding ids.
        wanted: the id that the user wrote, or its beginning.
    """
    prefix = wanted.strip().lower()
    found = [one for one in ids if one.startswith(prefix) and len(prefix) >= min(_SHORTEST_PREFIX, len(one))]
    return [one for one in found if one == prefix] or found


def named(standing: Mapping[str, Finding], wanted: str) -> Finding:
    """Return the finding whose id a user wrote, in full or only its beginning. A dismissed suspect is no finding.

    Args:
        standing: the last event of each finding, by its id.
        wanted: the id that the user wrote, or its beginning.

    Raises:
        FindingNotNamedError: the text fits no finding, or several.
    """
    there = matching(standing, wanted)
    meant = [standing[one] for one in there if standing[one].status is not FindingStatus.DISMISSED]
    if not meant and len(there) == 1:
        raise FindingNotNamedError(
            f"{wanted!r} is no finding: the suspect was dismissed. {_dismissed(standing[there[0]])}"
        )
    if not meant:
        raise FindingNotNamedError(f"{wanted!r} is the id of no finding; {AT_LEAST}, as `parallax findings` shows them")
    if len(meant) > 1:
        raise FindingNotNamedError(f"{wanted!r} is the beginning of several ids: {_listed(meant)}; give more of it")
    return meant[0]


def _dismissed(suspect: Finding) -> str:
    """Say why a suspect was dismissed, and which findings to name instead."""
    instead = " or ".join(leans_on(suspect))
    return f"{suspect.summary.removesuffix('.')}{f'; name {instead} instead' if instead else ''}"


def _listed(findings: Sequence[Finding]) -> str:
    named = [f"{f.finding_id} ({f.kind} in {f.topic}-{f.partition})" for f in findings[:_NAMED]]
    return ", ".join(named) + (" and more" if len(findings) > _NAMED else "")
