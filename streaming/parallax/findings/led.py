"""Reads from the recorded progress who led a finding's partition, shortly before the finding and during it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake.exceptions import DeltaError

from parallax.findings.exposure import Led, Reign, led_in_words, reigns
from parallax.findings.finding import Finding, is_reported_elsewhere
from parallax.model import FindingStatus
from parallax.views.looked import asker, within

_BEFORE = timedelta(days=1)
"""How long before a finding was suspected a wrong replica may have led unnoticed."""
_AFTER = timedelta(hours=1)
"""For how long after the end of a finding it is read who led."""
_AT_ONCE = 10
"""Of how many findings that end together it is read who led."""
_NAMED = 3
"""How many periods of leaders the text of an end names."""
FAILURES = (DeltaError, OSError, pa.ArrowException)


def led_around(storage: str, finding: Finding) -> list[Reign]:
    """Return who led a finding's partition and when, from the recorded progress.

    The result begins a day before the finding was first suspected. It ends when the finding was over, or now. An hour
    more is read to know when the last of them stopped.

    Args:
        storage: ``storage.path``.
        finding: the finding's last event.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the progress cannot be read.
    """
    over = datetime.now(UTC) if finding.stands else finding.decided_at
    asked = asker(storage)
    if asked is None:
        return []
    query = f"""SELECT leader, leader_epoch, min(observed_at) AS since, max(observed_at) AS until,
        min(CASE WHEN broker = leader THEN high_watermark END) AS began_at
        FROM progress WHERE {within(finding.place, finding.first_suspected_at - _BEFORE, over + _AFTER)}
        AND leader IS NOT NULL GROUP BY 1, 2 ORDER BY leader_epoch, since"""  # noqa: S608 - our own words
    return [reign for reign in reigns(pa.table(asked.execute(query)).to_pylist()) if reign.since <= over]


def led(storage: str, finding: Finding, most: int | None = None) -> Led:
    """Return when a wrong replica of a finding led, and what consumers could read there.

    It is a part of a finding's explanation. If the progress cannot be read, one sentence says so.

    Args:
        storage: ``storage.path``.
        finding: the finding's last event.
        most: as for `led_in_words`.
    """
    try:
        return led_in_words(finding, led_around(storage, finding), most)
    except FAILURES:
        return Led(("The recorded progress cannot be read: whether a wrong replica led is not known.",))


def with_leaders(storage: str) -> Callable[[Sequence[Finding]], list[Finding]]:
    """Return a function that adds to each finding that ends when a wrong replica led (`Led.added_to`).

    The sentences are those of `led`, of the last periods only. Where more than a few findings end together, the text of
    the others stays as it is: reading the progress takes up to half a second for each.

    Args:
        storage: ``storage.path``.
    """

    def completed(events: Sequence[Finding]) -> list[Finding]:
        ended = [one for one in events if one.status is FindingStatus.RESOLVED and not is_reported_elsewhere(one)]
        said = {one.finding_id: led(storage, one, _NAMED).added_to(one) for one in ended[:_AT_ONCE]}
        return [said.get(one.finding_id, one) for one in events]

    return completed


__all__ = ["FAILURES", "led", "led_around", "with_leaders"]
