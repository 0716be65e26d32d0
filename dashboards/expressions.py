"""What the alert rules ask Prometheus: the last that is known of a series, what has held for a time, which job works.

A series may be missing for two reasons, which count differently. Its job answers, and has no such series: then it is
over. Or nobody has said anything: a scrape has failed, or the job is away or starting, which takes minutes until it has
compared something. Then the last value counts for a while (`Expressions.known`), and what fires goes on
(`Expressions.or_unheard`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from dashboards.parameters import Parameters
from parallax.alerting.listing import ALARMS, FindingState, Turn
from parallax.model import Severity

FINDING = "cluster, topic, partition, finding_id"
REPLICA = "cluster, topic, partition, broker_id"
TARGET = "cluster, job, instance"
WORKS = "cluster:parallax_works:min"
"""1 where all jobs of a cluster work, 0 where one does not. Nothing once `TARGETS` has none."""
HEARD = "storage:parallax_heard_timestamp_seconds:max"
"""When a job with loaded findings last reported a storage, under the labels of a target."""
STATES = "finding:parallax_states:max"
"""The open findings, by each state that a job gives them. Two jobs may give one two."""
STANDS = "finding:parallax_state:max"
"""The findings that stand, each by the gravest of its states."""
SHOWN = "finding:parallax_shown"
"""The alert that each finding has, by the state that it is of (`Expressions.shown`)."""
ACKNOWLEDGED = "finding:parallax_acknowledged:max"
"""The findings that stand and are acknowledged: since when."""
SILENT = "target:parallax_silent:max"
"""Those of `TARGETS` that say nothing now (`Expressions.silent`)."""
UNHEARD = "cluster:parallax_silent:max"
"""The same, and once more each of their clusters, as alerts are labelled that name no target."""
SAID = "finding:parallax_said"
"""What was said last of each finding, as the labels of ``parallax_finding_info``.

It stays for a while after the end.
"""
OPTIONS = "cluster:parallax_options"
"""By which options the commands of Parallax name the job of a target, or of a cluster (`Expressions.of_job`)."""
PAGE = "cluster:parallax_page"
"""The address of that job's status page, likewise."""
ABSENT = "ParallaxAbsent"
"""The alert about a job, or a cluster, that says nothing."""
FORMER = "storage:parallax_former:max"
"""The targets whose job has other labels now, or another address. The id of its storage says that it is the same."""
TARGETS = "target:parallax_target:max"
"""The targets that have answered within a day. Beyond that, those that are down and that Prometheus still has."""

ELECTION = "replica:parallax_unsafe_election:max"
"""The wrong replicas that the next election of preferred leaders makes leaders, by `parallax.alerting.leaders.Choice`.

One that leads already is not among them.
"""
HAPPENED = 3
"""The last value of an alert whose danger has become real. The wrong replica was elected."""
UNANSWERED = -2
"""The last value of an alert: the broker does not answer at all any more."""
OUTGROWN = 2
"""The last value of an alert: the acknowledged finding has become worse."""

ANSWERS = "broker:parallax_answers:max"
"""The brokers that have answered a job when it last asked, with 0."""

SERVES = "broker:parallax_serves:max"
"""The brokers that answer for all of their replicas: 0. Those that do not answer at all: `UNANSWERED`."""

_BEFORE = "offset 1s"
"""Behind a recorded series: its value of the evaluation before, wherever in its group it is recorded."""


_KEPT = "1h"
"""For how long what the rules have recorded of a target counts while Prometheus itself evaluates nothing."""


def _state_in(states: Iterable[str]) -> str:
    """The matcher of some states' series."""
    return f'state=~"{"|".join(states)}"'


_PAGING, _TICKETS = (
    [str(state) for state, one in ALARMS.items() if (one.severity is Severity.CRITICAL) is wanted]
    for wanted in (True, False)
)
_CRITICAL, _LESS_GRAVE = _state_in(_PAGING), _state_in(_TICKETS)
"""The states whose alerts page, and those whose alerts open a ticket."""
_GRAVER = {state: _state_in(_PAGING[:rank]) for rank, state in enumerate(_PAGING) if rank}
"""For each state that pages, those that are graver; the gravest has none."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds(duration: str) -> int:
    """A duration as Prometheus writes it (``1h30m``), in seconds.

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch(r"(\d+[smhdw])+", duration):
        raise ValueError(f"{duration!r} is no duration such as 15m or 1h30m")
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhdw])", duration))


class Heard(NamedTuple):
    """What some job says now of the things that an alert is about.

    Attributes:
        by: the labels of such a thing.
        series: the series, or an expression, with these labels.
        is_recorded: whether it is a recorded series, whose value of the evaluation before is known.
    """

    by: str
    series: str
    is_recorded: bool = False


def firing(*alertnames: str) -> str:
    """The alerts of these names that fire."""
    how = f'="{alertnames[0]}"' if len(alertnames) == 1 else f'=~"{"|".join(alertnames)}"'
    return f'ALERTS{{alertname{how}, alertstate="firing"}}'


class Expressions:
    """Makes expressions for some parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters

    def of(self, metric: str, *matchers: str) -> str:
        """A metric, by its name without ``parallax_``, and label matchers."""
        chosen = ", ".join(filter(None, (self._p.selector, *matchers)))
        return f"parallax_{metric}{{{chosen}}}" if chosen else f"parallax_{metric}"

    def known(self, metric: str, *matchers: str, wait: str, told_with: str = "") -> str:
        """A metric as it is; while its job says nothing, or has just started, its last value counts.

        The last value counts for a third of the time that an alert waits. So what is about to become an alert has been
        seen for most of that time, and what ended just before its job did begins none. An alert that does not wait must
        look back at no value: it has `or_unheard` only.

        A metric that is absent while all is well is also absent after a start. It needs another metric (``told_with``),
        which the job has once it has given all values of the first. Without that, what no longer exists would stay
        pending.
        """
        series = self.of(metric, *matchers)
        held = f"{seconds(wait) // 3}s"
        settled = f"{self.of('start_time_seconds')} < time() - {seconds(held)}"
        settled += f" or {self.of(told_with)}" if told_with else ""
        return f"({series} or last_over_time({series}[{held}]) unless on ({TARGET}) ({settled}))"

    def stands(self, recorded: str, metric: str, by: str = FINDING) -> str:
        """The findings of which a metric is above 0; if a job is away, or has not loaded them, its last word.

        It is what a series records. While Prometheus has a target of the cluster, and no job of it has loaded findings,
        what was recorded goes on.

        A job gives all states of each finding that it lists. Once it has loaded a finding under other labels, the
        series under the old labels do not count. A last word does not count either if another job reports the finding,
        or its end.
        """
        series = self.of(metric)
        now = f"max by ({by}) ({series}) > 0"
        said = self._remembered(series)
        not_there = f"unless on ({TARGET}) {FORMER}"
        over = f"(max by ({FINDING}, job, instance) ({said}) == 0 {not_there})"
        away = f"({said} > 0) unless on ({TARGET}) {self.of('findings_loaded')} {not_there}"
        kept = f"last_over_time({recorded}[{_KEPT}] {_BEFORE}) and on (cluster) ({self._untold()})"
        told = f"unless on ({FINDING}) {series} unless on ({FINDING}) {over}"
        return f"({now}) or max by ({by}) ({away} {told}) or max by ({by}) ({kept} {told})"

    def _untold(self) -> str:
        """The clusters of which no job has loaded findings, though Prometheus has a target."""
        return f"{TARGETS} unless on (cluster) {self.of('findings_loaded')}"

    def states(self) -> str:
        """What `STATES` records."""
        return self.stands(STATES, "finding_state", by=f"{FINDING}, state")

    def state(self) -> str:
        """What `STANDS` records."""
        return f" or on ({FINDING}) ".join(f'{STATES}{{state="{state}"}}' for state in FindingState)

    def shown(self) -> str:
        """What `SHOWN` records: 1 for a finding by its state, and once more for the state whose alert ends (`ended`).

        A page goes on until its finding is over, whatever the state is by then: an end in between would be sent as
        resolved, and by another message than the finding's own end. So a finding that becomes worse has a further alert
        (`dashboards.routes` makes it a page of its own), and one that becomes less grave has no other page. While it
        is less grave than any page says, the page is suppressed.

        A ticket ends with its state. The new state is shown one evaluation later. One that was over by then had no
        alert: the ticket says what came of the finding.
        """
        last = f"{SHOWN} {_BEFORE}"
        ends = f"({SHOWN}{{{_LESS_GRAVE}}} {_BEFORE} > 0 unless {STANDS})"
        goes_on = f"({last} > 0 and on ({FINDING}) {STANDS} unless {ends})"
        changes = f"0 * ({ends} and on ({FINDING}) {STANDS})"
        over = self._once_more(last)
        begins = f"{STANDS} unless on ({FINDING}) {ends}"
        for state, graver in _GRAVER.items():
            begins += f' unless ({STANDS}{{state="{state}"}} and on ({FINDING}) {SHOWN}{{{graver}}} {_BEFORE} > 0)'
        return f"({begins}) or {goes_on} or {changes} or {over}"

    def in_state(self, state: str) -> str:
        """The findings that have the alert of a state: 1, and in their last evaluation `ended`."""
        return f'max by ({FINDING}) ({SHOWN}{{state="{state}"}})'

    def ended(self) -> str:
        """The findings that were open at the last evaluation and are not now.

        The value is 0 if a job says what came of the finding, else -1. The alert fires once more with it: Prometheus
        sends an end with the annotations of the last firing, and in this evaluation they use the past tense.
        """
        was = f"max by ({FINDING}) ({STANDS} {_BEFORE})"
        said = f"0 * max by ({FINDING}) ({self.of('finding_state')}) or -1 * {was}"
        return f"(({said}) and {was} unless on ({FINDING}) {STANDS})"

    def _once_more(self, series: str) -> str:
        """Series of findings by a value of `ended`, where they have ended."""
        return f"0 * {series} + on ({FINDING}) group_left () {self.ended()}"

    def acknowledged(self) -> str:
        """What `ACKNOWLEDGED` records."""
        return self.stands(ACKNOWLEDGED, "finding_acknowledged")

    def each_acknowledged(self, name: str) -> str:
        """The alerts with a given name about acknowledged findings, each with the time of its acknowledgement.

        The label is that of `outgrown`, which has the same time if the finding becomes worse than that. The alert fires
        once more then, with `OUTGROWN`: nothing else ends an acknowledgement while its finding is open.
        """
        fires = f"max by ({FINDING}, outgrown) ({firing(name)})"
        ended = f"{ACKNOWLEDGED} {_BEFORE} unless on ({FINDING}) {ACKNOWLEDGED}"
        worse = f"{OUTGROWN} * ({fires} and on ({FINDING}) ({ended}) and on ({FINDING}) {STANDS})"
        known = f'count_values by ({FINDING}) ("outgrown", {ACKNOWLEDGED})'
        return f"{known} or {worse} or {self._once_more(fires)}"

    def outgrown(self, name: str) -> str:
        """The alerts with a given name about open findings that became worse than what somebody knew of them.

        What somebody knew is the acknowledgement that the finding has outgrown. Or it is the earlier page, if the
        finding was less grave for a time and is critical again. Or it is another alert of this name, which suppresses
        that of the new state. The alert begins when the finding is no longer acknowledged, or no longer less grave, and
        goes on until the finding is over, as each page does (`shown`). An acknowledgement from before the finding was
        over and began again does not count.
        """
        fires = f"max by ({FINDING}, outgrown) ({firing(name)})"
        paged, is_ticket = f"{SHOWN}{{{_CRITICAL}}} {_BEFORE} > 0", f"{SHOWN}{{{_LESS_GRAVE}}}"
        outgrown = f"{ACKNOWLEDGED} {_BEFORE} unless on ({FINDING}) {ACKNOWLEDGED} unless on ({FINDING}) {is_ticket}"
        again = f"({paged}) and on ({FINDING}) ({is_ticket} {_BEFORE} == 0)"
        graver = f"({SHOWN}{{{_CRITICAL}}} unless {SHOWN} {_BEFORE}) and on ({FINDING}) {fires}"
        now = f"0 * max by ({FINDING}) ({again} or {graver}) + time()"
        begins = f'count_values by ({FINDING}) ("outgrown", {outgrown} or on ({FINDING}) {now})'
        over = self._once_more(fires)
        return (
            f"(({begins} and on ({FINDING}) {STANDS}{{{_CRITICAL}}} or {fires}) and on ({FINDING}) {STANDS}) or {over}"
        )

    def eased(self, name: str) -> str:
        """The alerts with a given name about findings that still page, and are less grave than they were.

        A page stays as it is while its finding is critical, so it says nothing new. The last change of a finding's
        state is what the job says (`SAID`). The alert goes on until the finding is over, or has changed otherwise.
        """
        fires = f"max by ({FINDING}) ({firing(name)})"
        now = f'max by ({FINDING}) ({STANDS}{{{_CRITICAL}}} and on (finding_id) {SAID}{{turn="{Turn.LESS}"}})'
        return f"{now} or {self._once_more(fires)}"

    def of_job(self, label: str) -> str:
        """A label of ``parallax_job_info``, of each target, and once more of each cluster.

        So alerts find it that are labelled with their target, and those that name none. While no job says it, what was
        said last counts. Several values are none.
        """
        named = self.of("job_info", f'{label}!=""')
        remembered = self._remembered(named)

        def one(by: str) -> str:
            known = f"count by ({by}, {label}) ({named} or on ({by}) {remembered})"
            return f"{known} and on ({by}) count by ({by}) ({known}) == 1"

        return f"({one('cluster')}) or ({one(TARGET)})"

    def said(self) -> str:
        """What `SAID` records."""
        series, newest = self.of("finding_info"), "topk by (finding_id) (1, "
        kept = f"{newest}last_over_time({SAID}[{_KEPT}] {_BEFORE}) and on (cluster) ({self._untold()}))"
        return f"{newest}{series}) or on (finding_id) {newest}{self._remembered(series)}) or on (finding_id) {kept}"

    def _remembered(self, series: str) -> str:
        return f"last_over_time({series}[{self._p.remembered}])"

    def silent(self) -> str:
        """What `SILENT` records: jobs that are away, or were started and have compared nothing yet.

        If no other job of the cluster answers, they stay for as long as they are among `TARGETS`. Else they stay until
        ParallaxAbsent names the target.
        """
        there = self.of("build_info")
        everybody = f"{TARGETS} unless on (cluster) {there}"
        named = firing(ABSENT)
        settled = f"{self.of('start_time_seconds')} < time() - {seconds(self._p.gap)}"
        settled = f"({settled} and on ({TARGET}) {self.of('heartbeat_timestamp_seconds')})"
        starting = f"max by ({TARGET}) ({there} unless on ({TARGET}) {settled})"
        return f"max by ({TARGET}) ({everybody}) or ({self._gone()} unless on ({TARGET}) {named}) or {starting}"

    def unheard(self) -> str:
        """What `UNHEARD` records."""
        return f"{SILENT} or max by (cluster) ({SILENT})"

    def or_unheard(self, expr: str, name: str, heard: Heard | None = None) -> str:
        """What fires; -1 for what has fired if its job now says nothing, and no other job speaks of it.

        It looks back at no value and begins no alert. What a job saw only for a moment before it went away is no alert.
        If a job says by a recorded series that it is over, it fires once more with the value of that, to end by other
        words than it went on by.
        """
        fires = firing(name)
        goes_on = f"max without (alertname, alertstate, severity) ({fires} and on ({TARGET}) {UNHEARD})"
        if heard is None:
            return f"({expr}) or -1 * {goes_on}"
        now = f"on ({heard.by}) ({heard.series})"
        found = f"({expr}) or -1 * ({goes_on} unless {now})"
        if not heard.is_recorded:
            return found
        fires = f"max without (alertname, alertstate, severity) ({fires})"
        new = f"({heard.series} unless on ({heard.by}) {heard.series} {_BEFORE})"
        return f"{found} or 0 * {fires} + on ({heard.by}) group_left () {new}"

    def elected(self, name: str) -> str:
        """`ELECTION` as it fires, and once more when it is over: with `HAPPENED`, or with 0.

        While nobody speaks, it is -1. In the last evaluation the alert says what is so then. Prometheus sends an end
        with these annotations.
        """
        fires = f"max without (alertname, alertstate, severity) ({firing(name)})"
        was = f"({fires} and {ELECTION} {_BEFORE} or {fires} and on ({TARGET}) {UNHEARD} {_BEFORE})"
        over = f"({was} unless {ELECTION} unless on ({TARGET}) {UNHEARD})"
        real = f"max by ({REPLICA}) ({self.of('preferred_leader_unsafe')}) == 0"
        return f"{self.or_unheard(ELECTION, name)} or {HAPPENED} * ({over} and {real}) or 0 * {over}"

    def settled(self, metric: str, by: str, *matchers: str) -> Heard:
        """What jobs say that are not silent, by a metric that each has of all that it watches."""
        return Heard(by, f"{self.of(metric, *matchers)} unless on ({TARGET}) {SILENT}")

    def election(self, wait: str) -> str:
        """What `ELECTION` records, for an alert that waits a time."""
        series = self.known("preferred_leader_unsafe", wait=wait, told_with="heartbeat_timestamp_seconds")
        return f"max by ({REPLICA}) ({series}) > 0"

    def answers(self) -> str:
        """What `ANSWERS` records."""
        return f"0 * (max by (cluster, broker_id) ({self.of('broker_reachable')}) == 1)"

    def serves(self) -> str:
        """What `SERVES` records."""
        offline, reachable = self.of("replicas_offline"), self.of("broker_reachable")
        told = f"max by (cluster, broker_id) ({UNANSWERED} + ({reachable} == 0) or {offline} == 0)"
        return f"{told} unless on (cluster, broker_id) ({offline} > 0)"

    def heard(self) -> str:
        """What `HEARD` records."""
        loaded = f"{self.of('storage_info')} and on ({TARGET}) {self.of('findings_loaded')}"
        return f"max by ({TARGET}, storage_id) ({loaded}) * 0 + time()"

    def former(self) -> str:
        """What `FORMER` records."""
        heard = self._remembered(HEARD)
        return f"max by ({TARGET}) ({heard} unless on ({TARGET}, storage_id) topk by (storage_id) (1, {heard}))"

    def _clusters(self) -> str:
        """The clusters that `TARGETS` are of, each by its newest name."""
        return f"max by (cluster) ({TARGETS})"

    def targets(self) -> str:
        """What `TARGETS` records. One that is called otherwise by now is not among them."""
        answered = f"max by ({TARGET}) ({self._remembered(self.of('build_info'))})"
        kept = f"last_over_time({TARGETS}[{_KEPT}] {_BEFORE}) and on (job, instance) up == 0"
        return f"({answered} or {kept}) unless on ({TARGET}) {FORMER}"

    def absent(self) -> str:
        """The clusters of which no target answers, and targets that do not while another of their cluster does."""
        there = self.of("build_info")
        one = f"{self._gone()} and on (cluster) {there}"
        storage = self.of("storage_info")
        # It has not loaded its findings yet, and answers under its new name.
        renamed = f"{self._remembered(storage)} and on (storage_id) {storage}"
        nobody = f"absent_over_time({there}[{self._p.remembered}]) unless on () {TARGETS}"
        return f"({self._clusters()} unless on (cluster) ({there} or {renamed})) or ({one}) or {nobody}"

    def _gone(self) -> str:
        """Targets that do not answer. One that was removed on purpose, or is called otherwise by now, has no ``up``."""
        return f"{TARGETS} unless on ({TARGET}) {self.of('build_info')} and on (job, instance) up == 0"

    def works(self) -> str:
        """What `WORKS` records: whether what the jobs of a cluster say can be trusted, good news included."""
        there = f"max by ({TARGET}) ({self.of('build_info')})"
        heartbeat = f"time() - {self.of('heartbeat_timestamp_seconds')} < {self._p.stalled_s}"
        can_keep = f"{self.of('findings_writable')} == 1"
        conditions = (heartbeat, self.of("findings_loaded"), can_keep)
        works = " and ".join((there, *(f"on ({TARGET}) ({condition})" for condition in conditions)))
        stalled = f"time() - {self.of('query_last_progress_timestamp_seconds')} > {self._p.stalled_s}"
        nothing = f"{self.of('partitions_readable')} == 0"
        suffers = (f"{self.of('storage_full')} > 0", f"{self.of('cluster_mismatch')} > 0", stalled, nothing)
        works = " unless ".join((f"{works}", *(f"on ({TARGET}) ({condition})" for condition in suffers)))
        blind = f"({there} unless on ({TARGET}) ({works})) or ({self._gone()})"
        return f"(max by (cluster) ({works}) unless on (cluster) ({blind})) or {self._clusters()} * 0"
