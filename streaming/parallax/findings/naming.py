"""Which finding a user means by an id, or by the beginning of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parallax.findings.finding import Finding, leans_on
from parallax.model import FindingStatus

_SHORTEST_PREFIX = 4
_NAMED = 5
"""How many findings a message about an ambiguous id names."""


class FindingNotNamedError(Exception):
    """An id that names no finding, or several; one line that says what to do, of a dismissed suspect why it is none."""


def named(standing: Mapping[str, Finding], wanted: str) -> Finding:
    """The finding that an id or the beginning of one names; dismissed suspects are none.

    Args:
        standing: the last event of each finding, by its id.
        wanted: what the user wrote.

    Raises:
        FindingNotNamedError: there is none, or there are several.
    """
    prefix = wanted.strip().lower()
    there = [f for i, f in standing.items() if i.startswith(prefix)]
    matching = [f for f in there if f.status is not FindingStatus.DISMISSED]
    matching = [f for f in matching if f.finding_id == prefix] or matching
    if not matching and len(there) == 1 and len(prefix) >= min(_SHORTEST_PREFIX, len(there[0].finding_id)):
        raise FindingNotNamedError(f"{wanted!r} is no finding: the suspect was dismissed. {_dismissed(there[0])}")
    if not matching or len(prefix) < min(_SHORTEST_PREFIX, *(len(f.finding_id) for f in matching)):
        raise FindingNotNamedError(
            f"{wanted!r} is the id of no finding; give at least its first {_SHORTEST_PREFIX} characters, as "
            "`parallax findings` shows them"
        )
    if len(matching) > 1:
        raise FindingNotNamedError(f"{wanted!r} is the beginning of several ids: {_listed(matching)}; give more of it")
    return matching[0]


def _dismissed(suspect: Finding) -> str:
    """Why a suspect was dismissed, and what to name in its place: the findings that say the same."""
    instead = " or ".join(leans_on(suspect))
    return f"{suspect.summary.removesuffix('.')}{f'; name {instead} instead' if instead else ''}"


def _listed(findings: Sequence[Finding]) -> str:
    named = [f"{f.finding_id} ({f.kind} in {f.topic}-{f.partition})" for f in findings[:_NAMED]]
    return ", ".join(named) + (" and more" if len(findings) > _NAMED else "")
