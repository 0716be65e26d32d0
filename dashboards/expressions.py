"""What the alert rules ask Prometheus: the last that is known of a series, what has held for a time, which job works.

A series may be missing for two reasons, which count differently. Its job answers, and has no such series: then it is
over. Or nobody has said anything: a scrape has failed, or the job is away or starting, which takes minutes until it has
compared something. Then the last value counts for a while (`Expressions.known`).
"""

from __future__ import annotations

import re

from dashboards.parameters import Parameters

FINDING = "cluster, topic, partition, finding_id"
TARGET = "cluster, job, instance"
WORKS = "cluster:parallax_works:min"
"""1 where all jobs of a cluster are known to work, 0 where one is not; a day after the last of them, nothing."""
HEARD = "storage:parallax_heard_timestamp_seconds:max"
"""When a storage was last heard of under the labels of a target, by a job that had loaded its findings."""
STANDS = "finding:parallax_state:max"
"""The findings that stand, each by its state."""
SAID = "finding:parallax_said"
"""What was said last of each finding, for a while after its end as well: the labels of ``parallax_finding_info``."""
FORMER = "storage:parallax_former:max"
"""The targets whose job has had other labels, or another address, since: it is known by the id of its storage."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds(duration: str) -> int:
    """A duration as Prometheus writes it (``1h30m``), in seconds.

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch(r"(\d+[smhdw])+", duration):
        raise ValueError(f"{duration!r} is no duration such as 15m or 1h30m")
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhdw])", duration))


def _before(*matchers: str) -> str:
    """`STANDS` as the evaluation before has recorded it, wherever in its group it is recorded."""
    return f"{STANDS}{{{', '.join(matchers)}}} offset 1s"


class Expressions:
    """Makes expressions for some parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters

    def of(self, metric: str, *matchers: str) -> str:
        """A metric, by its name without ``parallax_``, and label matchers."""
        chosen = ", ".join(filter(None, (self._p.selector, *matchers)))
        return f"parallax_{metric}{{{chosen}}}" if chosen else f"parallax_{metric}"

    def known(self, metric: str, *matchers: str, wait: str | None = None) -> str:
        """A metric as it is; while its job says nothing, or has just been started, its last value counts.

        For a third of the time that an alert waits, so that what is about to become one has been seen for most of it;
        for ``gap`` where it does not wait.
        """
        series = self.of(metric, *matchers)
        held = self._p.gap if wait is None else f"{seconds(wait) // 3}s"
        settled = f"{self.of('start_time_seconds')} < time() - {seconds(held)}"
        return f"({series} or last_over_time({series}[{held}]) unless on ({TARGET}) ({settled}))"

    def stands(self, metric: str, *matchers: str, by: str = FINDING) -> str:
        """The findings of which a metric is above 0; of a job that is away, or has not loaded them, its last word.

        A job says all states of each finding that it lists, so once it has loaded them under other labels it has said
        all that there is to say under the former.
        """
        series = self.of(metric, *matchers)
        now = f"max by ({by}) ({series}) > 0"
        away = f"({self._remembered(series)} > 0) unless on ({TARGET}) {self.of('findings_loaded')}"
        return f"({now}) or max by ({by}) ({away} unless on ({TARGET}) {FORMER})"

    def in_state(self, state: str) -> str:
        """The findings that stand in a state: 1; and those that no longer do, for one more evaluation (`ended`).

        One that had another state at the last evaluation comes with the next, when that one's alert ends: so the end of
        the one and the begin of the other are one message.
        """
        mine, other = f'state="{state}"', f'state!="{state}"'
        now = f"max by ({FINDING}) ({STANDS}{{{mine}}})"
        return f"({now} unless on ({FINDING}) {_before(other)}) or ({self.ended(mine)})"

    def ended(self, *matchers: str) -> str:
        """The findings that stood at the last evaluation and do not now: 0 where a job says what came of it, else -1.

        The alert fires once more by that. Prometheus sends what is resolved with the annotations of its last firing:
        this is the evaluation in which they say in the past what it was.
        """
        was, still = _before(*matchers), f"{STANDS}{{{', '.join(matchers)}}}"
        said = f"0 * max by ({FINDING}) ({self.of('finding_state')}) or -1 * max by ({FINDING}) ({was})"
        return f"({said}) and on ({FINDING}) {was} unless on ({FINDING}) {still}"

    def state(self) -> str:
        """What `STANDS` records."""
        return self.stands("finding_state", by=f"{FINDING}, state")

    def said(self) -> str:
        """What `SAID` records."""
        return f"topk by (finding_id) (1, {self._remembered(self.of('finding_info'))})"

    def _remembered(self, series: str) -> str:
        return f"last_over_time({series}[{self._p.remembered}])"

    def heard(self) -> str:
        """What `HEARD` records."""
        loaded = f"{self.of('storage_info')} and on ({TARGET}) {self.of('findings_loaded')}"
        return f"max by ({TARGET}, storage_id) ({loaded}) * 0 + time()"

    def former(self) -> str:
        """What `FORMER` records."""
        heard = self._remembered(HEARD)
        return f"max by ({TARGET}) ({heard} unless on ({TARGET}, storage_id) topk by (storage_id) (1, {heard}))"

    def _clusters(self) -> str:
        """The clusters that a target answered for, each by its newest name."""
        return f"max by (cluster) ({self._remembered(self.of('build_info'))} unless on ({TARGET}) {FORMER})"

    def absent(self) -> str:
        """The clusters of which no target answers, and targets that do not while another of their cluster does."""
        there = self.of("build_info")
        one = f"{self._gone()} and on (cluster) {there}"
        storage = self.of("storage_info")
        # It has not loaded its findings yet, and answers under its new name.
        renamed = f"{self._remembered(storage)} and on (storage_id) {storage}"
        nobody = f"absent_over_time({there}[{self._p.remembered}])"
        return f"({self._clusters()} unless on (cluster) ({there} or {renamed})) or ({one}) or {nobody}"

    def _gone(self) -> str:
        """Targets that do not answer. One that was removed on purpose, or is called otherwise by now, has no ``up``."""
        there = self.of("build_info")
        gone = f"max by ({TARGET}) ({self._remembered(there)}) unless on ({TARGET}) ({there} or {FORMER})"
        return f"{gone} and on (job, instance) up == 0"

    def works(self) -> str:
        """What `WORKS` records: whether what the jobs of a cluster say can be trusted, good news included."""
        there = f"max by ({TARGET}) ({self.of('build_info')})"
        heartbeat = f"time() - {self.of('heartbeat_timestamp_seconds')} < {self._p.stalled_s}"
        can_keep = f"{self.of('findings_writable')} == 1"
        conditions = (heartbeat, self.of("findings_loaded"), can_keep)
        works = " and ".join((there, *(f"on ({TARGET}) ({condition})" for condition in conditions)))
        stalled = f"time() - {self.of('query_last_progress_timestamp_seconds')} > {self._p.stalled_s}"
        suffers = (f"{self.of('storage_full')} > 0", f"{self.of('cluster_mismatch')} > 0", stalled)
        works = " unless ".join((f"{works}", *(f"on ({TARGET}) ({condition})" for condition in suffers)))
        blind = f"({there} unless on ({TARGET}) ({works})) or ({self._gone()})"
        return f"(max by (cluster) ({works}) unless on (cluster) ({blind})) or {self._clusters()} * 0"
