"""Reads from the recorded progress who led a finding's partition, shortly before the finding and during it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake.exceptions import DeltaError

from parallax.findings.exposure import Reign, led_in_words, reigns
from parallax.findings.finding import Finding
from parallax.views.looked import asker, within

_BEFORE = timedelta(days=1)
"""How long before a finding was suspected a wrong replica may have led unnoticed."""
_AFTER = timedelta(hours=1)
"""For how long after the end of a finding it is read who led."""
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


def led(storage: str, finding: Finding) -> tuple[str, ...]:
    """Return sentences that say when a wrong replica led, and what consumers could read there.

    They are a part of a finding's explanation. If the progress cannot be read, one sentence says so.

    Args:
        storage: ``storage.path``.
        finding: the finding's last event.
    """
    try:
        return tuple(led_in_words(finding, led_around(storage, finding)))
    except FAILURES:
        return ("The recorded progress cannot be read: whether a wrong replica led is not known.",)


__all__ = ["FAILURES", "led", "led_around"]
