"""A week of what a healthy job exposes, scraped every minute, with all that happens where nothing is wrong.

Every night the job is restarted, some nights by kill; on the third it is another version, on the fifth it is given
the name of its cluster, on the sixth another name. On the last day Prometheus is told to call the job and its address
otherwise, while it runs. Every day a topic is created and deleted again. On the second day the brokers are restarted
one by one. On the fourth an operator pauses a broker for half an hour, and a replica is copied to another one. All
the time offsets come that are read a moment later, and suspects are raised and dismissed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from parallax.alerting.listing import FindingState
from parallax.guard.holds import EventKind
from parallax.model import IsolationLevel, UnknownReason
from tests.rules.promtool import Values, series

HOUR, DAY = 60, 1440
WEEK = 7 * DAY
"""In minutes, each a scrape."""
BROKERS = (1, 2, 3)
QUERIES = ("read_uncommitted", "read_committed", "progress", "compare")

STOPPED = tuple(day * DAY + 3 * HOUR for day in range(1, 7))
"""The minutes at which the job is stopped."""
AWAY = 3
"""Minutes from a stop to the next start."""
STARTING = 3
"""Minutes from a start to the first comparison."""
_UPGRADED, _NAMED, _RENAMED = STOPPED[2], STOPPED[4], STOPPED[5]
_RELABELLED = 6 * DAY + 12 * HOUR
_ROLLED = {broker: DAY + 12 * HOUR + 6 * place for place, broker in enumerate(BROKERS)}
_PAUSED = range(3 * DAY + 9 * HOUR, 3 * DAY + 9 * HOUR + 30)
_COPIED = range(3 * DAY + 14 * HOUR, 3 * DAY + 15 * HOUR)

_REASONS = (
    UnknownReason.NOT_READ_YET,
    UnknownReason.BEFORE_FIRST_READING,
    UnknownReason.RETENTION_DIFFERS,
    UnknownReason.DELETED_UNREAD,
    UnknownReason.LOG_START_DIFFERS,
)
"""Of all, those that are not 0 at times, and one that never is anything else."""

Sample = tuple[str, dict[str, str], float]


def week(minutes: int = WEEK, cluster: str = "", instance: str = "a") -> dict[str, Values]:
    """The values of each series.

    Args:
        minutes: how many of the week.
        cluster: of the job; by default it has none until it is given one.
        instance: of its target.
    """
    found: dict[tuple[Any, ...], list[float | None]] = {}
    for n in range(minutes):
        name = cluster or ("europe" if n >= _RENAMED else "eu" if n >= _NAMED else "")
        target = {"job": "parallax", "instance": instance}
        if n >= _RELABELLED and not cluster:
            target = {"job": "kafka/parallax", "instance": f"{instance}.example:9464"}
        for metric, labels, value in (*_scrape(n), *_storage(n, instance)):
            own = {"cluster": name} if name and metric != "up" else {}
            key = metric, *target.items(), *own.items(), *labels.items()
            if key not in found:
                found[key] = [None] * minutes
            found[key][n] = value
    return {series(key[0], dict(key[1:])): values for key, values in found.items()}


def _scrape(n: int) -> Iterator[Sample]:
    """What one scrape finds."""
    started = max((at + AWAY for at in STOPPED if n >= at + AWAY), default=0)
    if any(at <= n < at + AWAY for at in STOPPED):
        yield "up", {}, 0
        return
    yield "up", {}, 1
    yield from _job(n, started)
    yield from _brokers(n)
    if n - started >= 2:
        yield from _findings(n)
    for topic, partition, began in _partitions(n):
        yield from _partition(n, started, topic, partition, began)


def _storage(n: int, instance: str) -> Iterator[Sample]:
    """The storage of a job, which is the same whatever the job is called."""
    if not any(at <= n < at + AWAY for at in STOPPED):
        yield "storage_info", {"storage_id": f"of-{instance}"}, 1


def _job(n: int, started: int) -> Iterator[Sample]:
    now = 60.0 * n
    yield "build_info", {"version": "2" if n >= _UPGRADED else "1", "pyspark": "4", "delta": "4"}, 1
    yield "start_time_seconds", {}, 60.0 * started
    yield "initial_readings_outstanding", {}, float(n - started < STARTING)
    yield "partitions_watched", {}, 3
    if n - started > 0:
        yield "partitions_readable", {}, 3
    yield "guard_works", {}, 1
    for kind in EventKind:
        yield "guard_events_total", {"kind": str(kind)}, float(n > _ROLLED[1]) if kind is EventKind.HELD else 0
    yield "storage_full", {}, 0
    yield "cluster_mismatch", {}, 0
    yield "nothing_watched", {}, 0
    yield "webhook_pending_seconds", {"receiver": "on-call"}, 60.0 * (n % 300 == 0)
    for query in QUERIES:
        yield "query_up", {"query": query}, float(n - started > 0)
        yield "query_restarts_total", {"query": query}, float(n - started > 400)
        yield "query_last_progress_timestamp_seconds", {"query": query}, now - 20
    if n - started >= STARTING:
        yield "heartbeat_timestamp_seconds", {}, now - 5
        yield "maintenance_last_success_timestamp_seconds", {}, 60.0 * (n - n % HOUR)
        yield "audit_last_timestamp_seconds", {}, 60.0 * (n - n % DAY)


def _findings(n: int) -> Iterator[Sample]:
    yield "findings_loaded", {}, 1
    yield "findings_writable", {}, 1
    yield "findings_unlisted", {}, 0
    yield "findings_skipped_rows", {}, 0
    yield "findings_judging_errors_total", {}, 0
    # An open finding on the sixth day would be no quiet week: this one was resolved before it, and says so for an hour.
    if n < HOUR:
        for state in FindingState:
            yield "finding_state", {"topic": "orders", "partition": "0", "finding_id": "f0", "state": state}, 0


def _brokers(n: int) -> Iterator[Sample]:
    for broker in BROKERS:
        yield "broker_reachable", {"broker_id": str(broker)}, float(not _is_rolled(n, broker))
        # It is up, and still loads its logs; or the brokers learn one by one that a topic is deleted.
        yield "replicas_offline", {"broker_id": str(broker)}, float(_is_rolled(n - 2, broker) or n % DAY == 18 * HOUR)
    if n in _PAUSED:
        yield "reading_paused_timestamp_seconds", {"broker_id": "3"}, 60.0 * _PAUSED.start


def _is_rolled(n: int, broker: int) -> bool:
    return _ROLLED[broker] <= n < _ROLLED[broker] + 4


def _partitions(n: int) -> Iterator[tuple[str, int, int]]:
    """Topic, partition, and since when it is there."""
    yield "orders", 0, 0
    yield "orders", 1, 0
    day, minute = divmod(n, DAY)
    if 10 * HOUR <= minute < 18 * HOUR:
        yield f"of-day-{day}", 0, day * DAY + 10 * HOUR


def _partition(n: int, started: int, topic: str, partition: int, began: int) -> Iterator[Sample]:
    place = {"topic": topic, "partition": str(partition)}
    now, age = 60.0 * n, n - max(began, started)
    is_ending = topic != "orders" and n % DAY >= 18 * HOUR - 12
    yield "initial_reading_complete", place, float(age >= 5)
    if n % HOUR < 3 or is_ending:
        yield "suspects_pending", place, 1
    if age >= STARTING:
        yield "compared_timestamp_seconds", place, now - 5
        # Until a topic that was deleted is forgotten, and while what was written during a start is caught up with.
        yield "verdict_waiting_seconds", place, 300.0 * (is_ending or age < 8) + 5 * (n % 4)
        for level in IsolationLevel:
            view = place | {"isolation_level": level.option}
            for reason in _REASONS:
                yield "unknown_offsets", view | {"reason": str(reason)}, _unknown(n, age, reason, is_ending=is_ending)
    for broker in BROKERS:
        replica = place | {"broker_id": str(broker)}
        yield from _replica(n, age, replica, is_away=_is_rolled(n, broker), is_ending=is_ending)


def _unknown(n: int, age: int, reason: UnknownReason, *, is_ending: bool) -> float:
    is_so: Mapping[UnknownReason, Any] = {
        UnknownReason.NOT_READ_YET: n % 4 == 0 or age < 8 or is_ending or any(_is_rolled(n, b) for b in BROKERS),
        UnknownReason.BEFORE_FIRST_READING: age < 40,
        UnknownReason.RETENTION_DIFFERS: n % 360 < 5,
        UnknownReason.DELETED_UNREAD: True,
    }
    return 40.0 * bool(is_so.get(reason))


def _replica(n: int, age: int, replica: dict[str, str], *, is_away: bool, is_ending: bool) -> Iterator[Sample]:
    yield "replica_high_watermark", replica, 1000.0 + n
    yield "replica_last_stable_offset", replica, 1000.0 + n
    behind = 120.0 * (is_away or is_ending) + 15 * (n % 4) + 300 * (age < 5)
    for level in IsolationLevel:
        yield "view_lag_seconds", replica | {"isolation_level": level.option}, behind
        yield "view_lag_offsets", replica | {"isolation_level": level.option}, behind
    is_copying = n in _COPIED and replica["broker_id"] == "2"
    if is_away or is_copying:
        presence = {"presence": "copying" if is_copying else "away"}
        yield "replica_absent_since_timestamp_seconds", replica | presence, 60.0 * (n - n % 6)
    if is_away:
        yield "replica_removal_bound_timestamp_seconds", replica, 60.0 * (n - n % 6 + DAY)
    elif is_copying or age < 3:
        reason = {"reason": "copying" if is_copying else "before_watch"}
        yield "replica_removal_bound_unknown", replica | reason, 1
