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
    """An id names no finding, or several. The message is one line that says what to do.

    If the id is that of a dismissed suspect, the message says why the suspect is no finding.
    """


def matching(ids: Iterable[str], wanted: str) -> list[str]:
    """Return the finding ids that equal a text, or begin with it if it is long enough.

    Args:
        ids: all finding ids.
        wanted: what the user wrote.
    """
    prefix = wanted.strip().lower()
    found = [one for one in ids if one.startswith(prefix) and len(prefix) >= min(_SHORTEST_PREFIX, len(one))]
    return [one for one in found if one == prefix] or found


def named(standing: Mapping[str, Finding], wanted: str) -> Finding:
    """Return the finding that an id or the beginning of one names; dismissed suspects are no findings.

    Args:
        standing: the last event of each finding, by its id.
        wanted: what the user wrote.

    Raises:
        FindingNotNamedError: there is none, or there are several.
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
