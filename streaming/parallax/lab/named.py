"""Names and one-line summaries of the lab's scenarios, for ``--help`` and error texts."""

from __future__ import annotations

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
    "all": "five topics, five divergences, one outage",
    "resurrected": "a tombstone is lost: a deleted record lives on",
    "aborted-committed": "an ABORT is lost: rolled-back data is committed",
    "committed-aborted": "a COMMIT is lost: a deletion is rolled back",
    "deletion-committed": "an ABORT is lost: a rolled-back deletion is committed",
    "frozen": "the last end marker is lost: read_committed stands still",
    "group-offset": "a tombstone is lost: a deleted group's offset lives on",
    "healthy": "as all, but nothing is lost: no finding is expected",
}
"""Summary by name. Broker 2 loses what is lost. `listed` has the same order."""


def listed() -> str:
    """Names and summaries of all scenarios as text, one line each."""
    widest = max(map(len, SUMMARIES))
    return "\n".join(f"{name:<{widest}}  {summary}" for name, summary in SUMMARIES.items())


__all__ = ["SUMMARIES", "listed"]
