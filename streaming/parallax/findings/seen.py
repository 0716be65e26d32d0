"""Finds out from the views which records consumers of each replica had been given by a certain time."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import pyarrow as pa
from deltalake.exceptions import DeltaError

from parallax.counts import brokers_text
from parallax.errors import one_line
from parallax.findings.exposure import Reign, wrong_reigns
from parallax.findings.finding import Finding, is_shown_elsewhere
from parallax.findings.led import FAILURES, led_around
from parallax.findings.sight import LogSeen, Sight, saw, sights
from parallax.findings.table import FindingsTableError
from parallax.kinds import KEY_KINDS
from parallax.model import IsolationLevel, TopicPartition
from parallax.moments import utc_text
from parallax.views.looked import last_said
from parallax.views.shown import Asked, shown

_LEVEL = IsolationLevel.READ_COMMITTED


def seen(storage: str, asked: Asked, brokers: Collection[int] = ()) -> list[Sight]:
    """Return what a consumer of each replica had been given of a key, or at an offset, by a time.

    The recorded view says it; no broker is asked.

    Args:
        storage: ``storage.path``.
        asked: the key or offset, the time, and the isolation level.
        brokers: ids of the brokers; by default all brokers with rows in the view.

    Raises:
        FindingsTableError: the view cannot be read.
    """
    try:
        rows = shown(storage, asked, brokers).to_pylist()
        partitions = {row["partition"] for row in rows}
        marks = {
            (partition, told["broker"]): LogSeen.of_row(told["at"], told)
            for partition in partitions
            for told in last_said(storage, TopicPartition(asked.topic, partition), asked.at)
        }
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise FindingsTableError(f"the views below {storage} cannot be read ({one_line(error)})") from error
    return sights(rows, asked.isolation, asked.at, asked.offset, marks)


def seen_around(storage: str, finding: Finding) -> list[str]:
    """Say in sentences what read_committed consumers of each replica had been given of a finding's key or record.

    The time is the moment when a wrong replica was last seen to lead; if none led, that of the finding's last event.

    Args:
        storage: ``storage.path``.
        finding: the finding's last event. For an incident, the sentences are about one key or transaction of many.
    """
    at = _moment(storage, finding)
    key = (finding.key_hash_hi, finding.key_hash_lo)
    is_of_key = finding.kind in KEY_KINDS or is_shown_elsewhere(finding)
    of_key = key if is_of_key and key != (0, 0) else None
    offset = None if of_key else finding.record_offset
    asked = Asked(finding.topic, finding.partition, of_key, offset, _LEVEL, at)
    try:
        found = seen(storage, asked)
    except FindingsTableError as error:
        return [f"What consumers had seen is not known: {error}."]
    if not found:
        return []
    of = "of its key" if of_key else f"at offset {offset}"
    by_answer: dict[str, list[int]] = {}
    for one in found:
        by_answer.setdefault(saw(one), []).append(one.broker)
    said = "; ".join(f"of {brokers_text(brokers)} {answer}" for answer, brokers in by_answer.items())
    return [f"What a {_LEVEL.option} consumer had seen {of} at {utc_text(at)}: {said}."]


def _moment(storage: str, finding: Finding) -> datetime:
    try:
        reigns: list[Reign] = led_around(storage, finding)
    except FAILURES:
        reigns = []
    over = [] if finding.stands else [finding.decided_at]
    led = (min([one.until, *over]) for one in wrong_reigns(finding, reigns))
    return max(led, default=finding.decided_at).astimezone(UTC)


__all__ = ["seen", "seen_around"]
