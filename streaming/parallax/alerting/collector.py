"""The one Prometheus collector: a snapshot of the job's state, written as metrics at each scrape.

Names follow Prometheus' conventions (https://prometheus.io/docs/practices/naming/). To bound the number of series, no
record's key is a label. A producer id is a label only in the metric of hanging transactions. An offset is one only in
the metric with the texts of alerts. Everything else is in the findings table.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from parallax.alerting.audited import Outcome, last_audits
from parallax.alerting.blind import offline, readable
from parallax.alerting.detail import MOST_REPLICAS, Detail, Series
from parallax.alerting.leaders import may_lead, unsafe_elections
from parallax.alerting.listing import MOST, FindingState, Listed, what_came_of_it, what_it_was
from parallax.alerting.overdue import overdue
from parallax.alerting.places import Places
from parallax.alerting.state import MonitorState, Replica, ReplicaState, Snapshot
from parallax.findings.acknowledgement import acknowledgement_of
from parallax.findings.explain import section_of
from parallax.findings.finding import Finding, shown_offset
from parallax.findings.incident import group_of, tally_of
from parallax.findings.summary import counted_in_words, seen_of_many
from parallax.guard import outages
from parallax.guard.absences import Absence
from parallax.guard.holds import EventKind
from parallax.guard.run import GuardStatus
from parallax.model import FindingStatus, IsolationLevel, TopicPartition, UnknownReason, broker_label
from parallax.views.pause import called

_PARTITION = ("topic", "partition")
_REPLICA = ("topic", "partition", "broker_id")
_VIEW = ("topic", "partition", "broker_id", "isolation_level")
_FINDING = ("kind", "severity", "topic", "partition", "broker_id")
_OPEN = (*_FINDING, "status")


class ParallaxCollector(Collector):
    """Exposes the job's state (`MonitorState`) as Prometheus metrics.

    Each scrape takes one snapshot. It asks no broker and reads no table.

    Args:
        state: the state of the job.
        series: whether all partitions have series of their own, or only those with something to report.
        places: the cluster's name, and links and commands for the texts of alerts; None: no name, and the defaults.
    """

    def __init__(self, state: MonitorState, series: Series = Series.ALL, places: Places | None = None) -> None:
        self._state = state
        self._places = places or Places()
        self._detail = None if series is Series.ALL else Detail()
        self._is_reduced = series is Series.DIFFERING
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """All metric families of the job at this moment, including those without a sample yet."""
        snapshot = self._state.snapshot()
        shown, unknown, lags = snapshot, _unknown(snapshot), _lags(snapshot)
        if self._detail is not None:
            with self._lock:
                lasting = [key[:2] for key, n in unknown.items() if n] + [
                    key[0][:2] for key, lag in lags.items() if lag
                ]
                reduced = self._detail.of(snapshot, {TopicPartition(*place) for place in lasting})
                self._is_reduced |= len(snapshot.replicas) > MOST_REPLICAS  # and stays so: no series comes and goes
            if self._is_reduced:
                shown = reduced
                unknown, lags = _unknown(shown), _lags(shown)
        yield from _partitions(snapshot, shown)
        yield from _replicas(shown)
        yield from _views(shown, lags)
        yield from _comparison(shown, unknown, overdue(snapshot))
        yield from _comparison_errors(snapshot)
        yield from _leaders(shown)
        yield from _unsafe_elections(snapshot)
        yield from _findings(snapshot)
        yield from _each_finding(snapshot, self._places)
        yield from _audits(shown)
        yield from _brokers(snapshot)
        yield from _absences(snapshot)
        yield from _guard(snapshot)
        yield from _queries(snapshot)
        yield from _job(snapshot, self._places)

    def of_the_job(self) -> list[Metric]:
        """The metric families whose size does not grow with the number of partitions. They may be computed often."""
        snapshot = self._state.snapshot()
        each, job = (partial(of, places=self._places) for of in (_each_finding, _job))
        parts = (_unsafe_elections, _findings, each, _brokers, _absences, _guard, _queries, job)
        return [family for part in parts for family in part(snapshot)]


class OfCluster(Collector):
    """Adds the label ``cluster`` to every sample of a collector.

    One Prometheus may scrape the jobs of many clusters.

    Args:
        inner: the collector.
        cluster: the label's value.
    """

    def __init__(self, inner: Collector, cluster: str) -> None:
        self._inner = inner
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        """The metric families of the wrapped collector, with the label ``cluster`` on every sample."""
        for family in self._inner.collect():
            for sample in family.samples:
                sample.labels["cluster"] = self._cluster
            yield family


def _labels(replica: Replica) -> list[str]:
    return [replica[0], str(replica[1]), str(replica[2])]


def _gauge(
    name: str, text: str, labels: Iterable[str], samples: Iterable[tuple[list[str], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"parallax_{name}", text, labels=list(labels))
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family


def _counter(
    name: str, text: str, labels: Iterable[str], samples: Iterable[tuple[list[str], float]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"parallax_{name}", text, labels=list(labels))
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _partitions(snapshot: Snapshot, shown: Snapshot) -> Iterator[Metric]:
    watched, detailed = ({replica[:2] for replica in one.replicas} for one in (snapshot, shown))
    yield _gauge("partitions_watched", "Partitions whose replicas have reported.", (), [([], len(watched))])
    yield _gauge(
        "partitions_detailed",
        "Watched partitions that have series of their own. Where it is less than those that are watched, "
        "alerting.series leaves out those with nothing to report.",
        (),
        [([], len(detailed))],
    )
    initial = snapshot.initially_read.values()
    yield _gauge(
        "initial_readings_outstanding",
        "Partitions with a replica that is not read yet up to where it was when the job started. 0 while "
        "nothing is known of any.",
        (),
        [([], sum(not read for read in initial))] if initial else [],
    )


def _replicas(snapshot: Snapshot) -> Iterator[Metric]:
    texts = {
        "high_watermark": "High watermark that the replica reports of itself (offset).",
        "last_stable_offset": "Last stable offset that the replica reports of itself.",
        "log_start_offset": "Log start offset of the replica.",
        "log_end_offset": "Log end offset of the replica.",
    }
    for field, text in texts.items():
        samples = [(_labels(r), getattr(s, field)) for r, s in snapshot.replicas.items()]
        yield _gauge(f"replica_{field}", text, _REPLICA, samples)
    yield _gauge(
        "replica_last_stable_offset_stalled_seconds",
        "How long the last stable offset has not moved while it is below the high watermark; else 0. An open "
        "transaction does that too.",
        _REPLICA,
        [(_labels(r), _stalled(s, snapshot.taken_at)) for r, s in snapshot.replicas.items()],
    )
    yield _gauge(
        "replica_frozen_seconds",
        "How long the replica's last stable offset has trailed the other replicas'. Also when all trail where "
        "one of them was before.",
        _REPLICA,
        [(_labels(r), s.frozen_for_s) for r, s in snapshot.replicas.items()],
    )


def _stalled(state: ReplicaState, now: float) -> float:
    return 0.0 if state.stands_since is None else max(0.0, now - state.stands_since)


_View = tuple[Replica, IsolationLevel]
_Unknown = tuple[str, int, IsolationLevel, UnknownReason]


def _views(snapshot: Snapshot, lags: Mapping[_View, float | None]) -> Iterator[Metric]:
    labelled = {key: [*_labels(key[0]), key[1].option] for key in sorted(snapshot.positions)}
    yield _gauge(
        "view_position",
        "Next offset that the view will record of this replica.",
        _VIEW,
        [(labels, snapshot.positions[key]) for key, labels in labelled.items()],
    )
    yield _gauge(
        "view_lag_offsets",
        "Offsets between the view's position and what the replica shows: its high watermark, or its last "
        "stable offset in read_committed. 0: all is read.",
        _VIEW,
        [(labels, lags.get(key)) for key, labels in labelled.items()],
    )
    yield _gauge(
        "view_lag_seconds",
        "How long the oldest unread record has been visible on the replica, as noticed since the job started. "
        "0: nothing is unread. Time in which the replica cannot be read, or is paused, does not count.",
        _VIEW,
        [
            (
                labels,
                max(0.0, snapshot.taken_at - snapshot.behind_since.get(key, snapshot.taken_at)) if lags[key] else 0.0,
            )
            for key, labels in labelled.items()
            if lags.get(key) is not None
        ],
    )


def _lags(snapshot: Snapshot) -> dict[_View, float | None]:
    return {
        (replica, isolation): _lag(snapshot.replicas.get(replica), isolation, at)
        for (replica, isolation), at in snapshot.positions.items()
    }


def _lag(state: ReplicaState | None, isolation: IsolationLevel, position: int) -> float | None:
    """Offsets still to read; a position beyond what was reported last (a newer answer) is no negative lag."""
    if state is None:
        return None
    committed = isolation is IsolationLevel.READ_COMMITTED
    shown = state.last_stable_offset if committed else state.high_watermark
    return None if shown is None else max(0, shown - position)


def _comparison(
    snapshot: Snapshot, unknown: Mapping[_Unknown, int], late: Mapping[TopicPartition, float]
) -> Iterator[Metric]:
    by_view = [
        ([topic, str(partition), isolation.option], coverage, int(isolation))
        for (topic, partition), coverage in sorted(snapshot.coverage.items())
        for isolation in IsolationLevel
    ]
    labels = (*_PARTITION, "isolation_level")
    yield _gauge(
        "compared_up_to_offset",
        "Offset below which all replicas have been read. What has no verdict there is in parallax_unknown_offsets.",
        labels,
        [(names, c.compared_up_to[view] if c.compared_up_to[view] >= 0 else None) for names, c, view in by_view],
    )
    yield _gauge(
        "unknown_offsets",
        "Offsets that have no verdict, by reason (docs/contribute/theory.md, What is unknown).",
        (*labels, "reason"),
        [
            ([topic, str(partition), isolation.option, str(reason)], n)
            for (topic, partition, isolation, reason), n in sorted(unknown.items())
        ],
    )
    yield _gauge(
        "deferred_offsets",
        "Offsets left to a comparison of the tables because the state had reached its cap.",
        labels,
        [(names, sum(max(0, d.end - d.start) for d in c.deferred if d.view == view)) for names, c, view in by_view],
    )
    partitions = [([t, str(p)], c) for (t, p), c in sorted(snapshot.coverage.items())]
    yield _gauge(
        "comparison_state_bytes",
        "Size of the unmatched state of a topic partition.",
        _PARTITION,
        [(names, c.state_bytes) for names, c in partitions],
    )
    yield _gauge(
        "verdict_waiting_seconds",
        "How long verdicts have waited at the same offset without a known cause. 0: the comparison advances, "
        "or another metric has the cause. Such causes are a replica that is not read, a hanging transaction "
        "and a query that is down. The wait starts when such a cause ends.",
        _PARTITION,
        [(names, late.get(c.place, 0.0)) for names, c in partitions],
    )
    initial = sorted(snapshot.initially_read.items())
    yield _gauge(
        "initial_reading_complete",
        "1 once every replica of the partition has been read up to where it was when the job started, else 0.",
        _PARTITION,
        [([topic, str(partition)], float(read)) for (topic, partition), read in initial],
    )
    yield _gauge(
        "compared_timestamp_seconds",
        "When the partition was last compared. It advances at least every five minutes, also without new records.",
        _PARTITION,
        [(names, c.compared_at / 1000) for names, c in partitions],
    )


def _comparison_errors(snapshot: Snapshot) -> Iterator[Metric]:
    yield _counter(
        "comparison_partition_errors",
        "How often a fault of Parallax kept a partition from being compared, since the job started. The "
        "comparison starts again, and the partition is unknown until an audit of it has ended.",
        _PARTITION,
        [([topic, str(partition)], n) for (topic, partition), n in sorted(snapshot.comparison_errors.items())],
    )


def _unknown(snapshot: Snapshot) -> dict[_Unknown, int]:
    found: dict[_Unknown, int] = {
        (*place, isolation, reason): c.unknown_for(reason)[int(isolation)]
        for place, c in snapshot.coverage.items()
        for isolation in IsolationLevel
        for reason in UnknownReason
    }
    for view, offsets in _refused_offsets(snapshot).items():
        found[*view, UnknownReason.UNAUTHORIZED] = offsets
    return found


def _refused_offsets(snapshot: Snapshot) -> dict[tuple[str, int, IsolationLevel], int]:
    """Offsets beyond the furthest position that may not be read; at least one, for nobody knows of the next.

    Where the end of the log may be asked, that is how many there are; else nothing is known but that it may have grown.
    """
    found = {
        (topic, partition, isolation): 1
        for topic, partition, _ in snapshot.refused
        if partition >= 0
        for isolation in IsolationLevel
    }
    furthest = dict.fromkeys(found, 0)
    for ((topic, partition, _), isolation), at in snapshot.positions.items():
        view = topic, partition, isolation
        if view in furthest:
            furthest[view] = max(furthest[view], at)
    for (topic, partition, _), refusal in snapshot.refused.items():
        for view in ((topic, partition, isolation) for isolation in IsolationLevel if partition >= 0):
            found[view] = max(found[view], (refusal.log_end_offset or 0) - furthest[view])
    return found


def _leaders(snapshot: Snapshot) -> Iterator[Metric]:
    yield _gauge(
        "replica_may_lead",
        "1 for each replica, by whether it may lead. unsafe: a finding proves it wrong. unknown: nobody can tell, for "
        "a part was not compared, it is absent, or a finding leaves it open. safe: nothing is known against it. "
        "`parallax lead` says why.",
        (*_REPLICA, "state"),
        [
            ([*_labels((*place, broker)), str(fitness.may)], 1.0)
            for place, replicas in sorted(may_lead(snapshot).items())
            for broker, fitness in sorted(replicas.items())
        ],
    )


def _unsafe_elections(snapshot: Snapshot) -> Iterator[Metric]:
    yield _gauge(
        "preferred_leader_unsafe",
        "1 for a replica that a finding proves wrong, and that the next election of preferred leaders makes the "
        "leader: it is in sync, comes first in the assignment, and does not lead now. 2 for one that may have been "
        "changed since that proof, e.g. by a repair: whether it is wrong is not known yet. 0 for a wrong one that "
        "leads now.",
        _REPLICA,
        [(_labels(replica), float(choice)) for replica, choice in unsafe_elections(snapshot).items()],
    )


def _findings(snapshot: Snapshot) -> Iterator[Metric]:
    status = snapshot.findings
    yield _gauge(
        "open_findings",
        "Open divergences without the acknowledged ones. confirmed: replicas differ. spread: all replicas are "
        "wrong by now. unsettled: none is proven wrong any more, and nothing proves that all are right.",
        _OPEN,
        _by_status(status.open),
    )
    yield _gauge(
        "open_findings_exposed",
        "The open divergences that consumers see: the accused replica leads the partition, or one that shows "
        "the same. Without an accused, one that differs leads. Or all replicas are wrong.",
        _OPEN,
        _by_status(status.open, lambda f: f.exposed),
    )
    yield _gauge(
        "acknowledged_findings",
        "Open divergences that somebody has acknowledged: nobody is called for them.",
        _FINDING,
        _counted(status.acknowledged),
    )
    yield _gauge(
        "incident_keys",
        "Keys (or records without a key, or transactions) that an open incident counts.",
        _FINDING,
        _keys(status.open),
    )
    yield _counter(
        "findings_confirmed",
        "How often a divergence was confirmed, or its kind refined; kept across restarts.",
        _FINDING,
        [([*map(str, k[:-1]), broker_label(k[-1])], n) for k, n in sorted(status.confirmed_total.items())],
    )
    yield _counter("findings_resolved", "Findings that were seen to be over.", (), [([], status.resolved_total)])
    yield _gauge(
        "hanging_transaction_start_timestamp_seconds",
        "Since when a transaction hangs on all replicas: no coordinator will end it, or it is open for longer "
        "than transaction.max.timeout.ms (label standing). The start is its coordinator's if one lists it, else when "
        "Parallax first saw it open.",
        (*_PARTITION, "producer_id", "standing"),
        [
            ([h.one.place.topic, str(h.one.place.partition), str(h.one.producer_id), h.standing_in_words], h.since)
            for h in snapshot.hanging[:MOST]
        ],
    )
    yield _gauge(
        "suspects_pending",
        "Suspects that wait for a verdict.",
        _PARTITION,
        [([topic, str(partition)], n) for (topic, partition), n in sorted(status.pending.items())],
    )
    yield _counter("suspects_dismissed", "Suspects that a probe has cleared.", (), [([], status.dismissed_total)])
    yield _counter(
        "transactions_not_listed",
        "Claims about transactions that no coordinator lists: they hang, or DESCRIBE on their ids is missing.",
        ("topic",),
        [([topic], n) for topic, n in sorted(status.unlisted_total.items())],
    )
    yield _counter("probes", "Probes that came back.", (), [([], status.probes_total)])
    yield _counter(
        "probe_bytes",
        "Bytes of records that probes have read from the broker since the job started.",
        ("broker_id",),
        [([str(b)], n) for b, n in sorted(status.probe_bytes.items())],
    )
    yield _counter(
        "second_opinions",
        "Claims that a second judge has judged by the answers to a probe, by how the two compare: same, "
        "judge_knows_more, judge_knows_less, contradict or failed. Findings ignore it.",
        ("result",),
        [([how], n) for how, n in sorted(status.second_opinions.items())],
    )
    yield _counter(
        "findings_judging_errors",
        "Claims that a fault of Parallax kept from being judged. Each is tried again later.",
        (),
        [([], status.judging_errors_total)],
    )
    yield _gauge("last_probe_timestamp_seconds", "When a probe last came back.", (), [([], status.last_probe_at)])
    yield _gauge(
        "findings_writable",
        "1 while findings can be read and written, 0 while they cannot.",
        (),
        [([], float(status.error is None))],
    )
    yield _gauge(
        "findings_skipped_rows",
        "Rows of the tables findings, members and suspects that Parallax ignores: a newer version wrote them.",
        (),
        [([], status.skipped)],
    )


def _each_finding(snapshot: Snapshot, places: Places) -> Iterator[Metric]:
    labels = (*_PARTITION, "finding_id")
    named = [([one.finding.topic, str(one.finding.partition), one.finding.finding_id], one) for one in snapshot.listed]
    yield _gauge(
        "finding_state",
        "1 for the state of an open finding, 0 for the others: spread to all replicas, unsettled, exposed to "
        "consumers, else confirmed or (a kind that pages nobody) warning. An acknowledged finding keeps its "
        "state. All are 0 for an hour after it is over.",
        (*labels, "state"),
        [([*names, str(state)], float(one.state is state)) for names, one in named for state in FindingState],
    )
    yield _gauge(
        "finding_info",
        "What alerts say of an open finding and, for an hour after it is over, how it ended. The value is the "
        "number of the event: of two series of one finding, the larger is the newer. The label record_offset is "
        "the offset at which the replicas differ, as the commands name it. The label turn says what the last change "
        "of its state was. The label runbook names a section of docs/runbook.md. The label command explains the "
        "finding. The label page_url is its page if alerting.external_url is set.",
        (*labels, *_INFO),
        [
            ([*names, *_said(one, places)], one.finding.sequence + 0.5 * (one.is_over and not one.is_ended))
            for names, one in named
        ],
    )
    said_of = [(names, acknowledgement_of(one.finding) if one.state else None) for names, one in named]
    yield _gauge(
        "finding_acknowledged",
        "When an open finding was acknowledged. 0: it was not, it has become worse since, or it is over. Each "
        "listed finding has it, so that the last value holds while the job is down.",
        labels,
        [(names, said.at.timestamp() if said else 0.0) for names, said in said_of],
    )
    yield _gauge(
        "finding_acknowledgement_info",
        "Who acknowledged an open finding, and why. The value is when.",
        (*labels, "by", "comment"),
        [([*names, said.by, said.reason], said.at.timestamp()) for names, said in said_of if said],
    )
    yield _gauge(
        "findings_unlisted",
        f"Open findings beyond the first {MOST}, which have series of their own. Acknowledged ones come last.",
        (),
        [([], snapshot.left_out)],
    )
    yield _gauge(
        "findings_loaded",
        "1 after the job has read the findings from their table. Absent before.",
        (),
        [([], 1.0)] if snapshot.findings_loaded else [],
    )


_INFO = (
    *("kind", "severity", "broker_id", "record_offset", "runbook", "turn", "headline", "summary"),
    *("command", "page_url"),
)
"""The labels of the metric ``parallax_finding_info``, without those that identify the finding."""


def _said(one: Listed, places: Places) -> list[str]:
    finding = one.finding
    summary = finding.summary
    if one.is_over:
        summary = what_came_of_it(finding, places.shell) if one.is_ended else what_it_was(summary)
    elif finding.is_incident:
        # The count of an incident moves with its keys: as a label it would make a new series each time.
        group = group_of(finding)
        seen = seen_of_many(group, finding.status, is_exposed=finding.exposed)
        summary = f"This holds for many {counted_in_words(group)}; the command says how many. {seen}"
    return [
        str(finding.kind),
        str(finding.severity),
        broker_label(finding.broker),
        "" if finding.is_incident else str(shown_offset(finding)),
        section_of(finding),
        "" if one.is_over else one.turn,
        one.headline,
        summary,
        places.explain(finding.finding_id),
        places.page_of_finding(finding.finding_id),
    ]


def _keys(findings: Iterable[Finding]) -> list[tuple[list[str], float | None]]:
    """How many keys, or transactions, the incidents count, by their labels."""
    found: Counter[tuple[str, ...]] = Counter()
    for f in findings:
        if f.is_incident:
            labels = (str(f.kind), str(f.severity), f.topic, str(f.partition), broker_label(f.broker))
            found[labels] += tally_of(f).count
    return [(list(labels), count) for labels, count in found.items()]


def _counted(
    findings: Iterable[Finding], which: Callable[[Finding], bool] = lambda _: True
) -> list[tuple[list[str], float | None]]:
    """How many of the findings of each label are of the kind that is asked for; 0 if none is."""
    counts: dict[tuple[str, ...], int] = {}
    for f in findings:
        label = (str(f.kind), str(f.severity), f.topic, str(f.partition), broker_label(f.broker))
        counts[label] = counts.get(label, 0) + int(which(f))
    return [(list(label), count) for label, count in counts.items()]


def _by_status(
    findings: Sequence[Finding], which: Callable[[Finding], bool] = lambda _: True
) -> list[tuple[list[str], float | None]]:
    """The same, by status as well."""
    return [
        ([*label, str(status)], count)
        for status in (FindingStatus.CONFIRMED, FindingStatus.SPREAD, FindingStatus.UNSETTLED)
        for label, count in _counted((f for f in findings if f.status is status), which)
    ]


def _audits(snapshot: Snapshot) -> Iterator[Metric]:
    audits = snapshot.audits
    results = [([topic, str(partition)], found) for (topic, partition), found in last_audits(snapshot).items()]
    yield _gauge(
        "audit_result",
        "1 for what the last audit of the partition came to, 0 for the others: consistent, unknown, diverged while "
        "something that it found is not over, or over once all of that is.",
        (*_PARTITION, "result"),
        [([*names, str(of)], float(one.outcome is of)) for names, one in results for of in Outcome],
    )
    yield _gauge(
        "audit_result_timestamp_seconds",
        "When the last audit of the partition ended.",
        _PARTITION,
        [(names, one.ended_at) for names, one in results],
    )
    yield _gauge("audit_last_timestamp_seconds", "When the last audit ended.", (), [([], audits.ended_at)])
    yield _counter("audit_runs", "Audits, by how they ended.", ("result",), [([r], n) for r, n in audits.runs.items()])
    yield _counter(
        "spot_checks",
        "Aborted records that Parallax read again on a broker that came back, by how it shows them: still "
        "aborted, committed now, gone from its log, or unknown.",
        ("result",),
        [([result], n) for result, n in sorted(audits.spots.items())],
    )
    yield _counter(
        "audit_read_bytes",
        "Bytes of records that audits have read from the broker since the job started.",
        ("broker_id",),
        [([str(b)], n) for b, n in sorted(audits.read_bytes.items())],
    )


def _brokers(snapshot: Snapshot) -> Iterator[Metric]:
    yield _gauge(
        "broker_reachable",
        "1 if the broker answered when it was last asked for its offsets, if only to refuse; else 0.",
        ("broker_id",),
        [([str(b)], float(up)) for b, up in sorted(snapshot.reachable.items())],
    )
    yield _gauge(
        "replicas_offline",
        "Replicas that the broker does not answer for though it answers, as when their log directory is offline. 0: it "
        "answers for all.",
        ("broker_id",),
        [([str(b)], len(replicas)) for b, replicas in offline(snapshot).items()],
    )
    yield _gauge(
        "cluster_mismatch",
        "1 while another cluster than the storage's answers at an address of bootstrap.servers or of a broker; else 0.",
        (),
        [([], float(bool(snapshot.mismatches)))],
    )
    yield _gauge(
        "reading_paused_timestamp_seconds",
        "Since when reading from the broker is paused. broker_id all: from every broker.",
        ("broker_id",),
        [([called(broker)], pause.since) for broker, pause in sorted(snapshot.paused.items())],
    )
    yield _gauge(
        "unauthorized_replicas",
        "Replicas that the brokers do not let Parallax read, by topic and by the right that is missing.",
        ("topic", "reason"),
        [([topic, str(right)], n) for (topic, right), n in sorted(snapshot.unauthorized.items())],
    )


def _bound(one: Absence) -> float | None:
    """A time that never comes while the topic is held: a bound that moves with each look would seem to be near."""
    if one.is_held:
        return math.inf
    return None if one.bound_ms is None or one.unclear is not None else one.bound_ms / 1000


def _absences(snapshot: Snapshot) -> Iterator[Metric]:
    absent = sorted(snapshot.absences.absent, key=lambda one: one.replica)
    yield _gauge(
        "replica_absent_since_timestamp_seconds",
        "When an absent replica was last known to lack nothing, or when a replica was first seen to copy its "
        "log. Absent for a replica in sync.",
        (*_REPLICA, "presence"),
        [([*_labels(one.replica), str(one.presence)], one.since_ms / 1000) for one in absent],
    )
    yield _gauge(
        "replica_removal_bound_timestamp_seconds",
        "When the first tombstone or end marker that an absent replica lacks may be gone from the replicas "
        "that it copies. +Inf: nothing of that is cleaned. Absent: not known.",
        _REPLICA,
        [(_labels(one.replica), _bound(one)) for one in absent],
    )
    yield _gauge(
        "replica_removal_bound_unknown",
        "1 for an absent replica whose removal bound is not known, by reason (docs/operate/guard.md).",
        (*_REPLICA, "reason"),
        [([*_labels(one.replica), str(one.unclear)], 1.0) for one in absent if one.unclear and not one.is_held],
    )
    yield _gauge(
        "replica_late_timestamp_seconds",
        "When a replica was last seen to have copied records that may have been cleaned before. It goes when "
        "an audit has compared the partition. reason is passed if the bound had passed, else why no bound was "
        "known.",
        (*_REPLICA, "reason"),
        [
            ([*_labels(one.replica), str(one.absence.unclear or "passed")], one.at_ms / 1000)
            for one in sorted(snapshot.absences.late, key=lambda o: o.replica)
        ],
    )
    yield from _outages(snapshot)


def _outages(snapshot: Snapshot) -> Iterator[Metric]:
    said, now = snapshot.absences, snapshot.taken_at
    yield _gauge(
        "replica_outage_info",
        "What alerts say of a broker's outage, until all replicas are back and late ones are audited. For "
        "three minutes after that, its outcome. The value is the time.",
        ("broker_id", "headline", "now", "outcome"),
        [
            (
                [
                    str(one.broker),
                    outages.headline(one, said.absent, said.late, now),
                    outages.outage_in_words(
                        one,
                        said.absent,
                        said.late,
                        now,
                        is_audited=snapshot.audits_at is not None,
                        shell=snapshot.shell,
                    ),
                    one.outcome,
                ],
                now,
            )
            for one in said.outages
        ],
    )
    yield _gauge(
        "replica_outage_end_timestamp_seconds",
        "When the outage of a broker ended, for three minutes afterwards. Its alerts say how it ended.",
        ("broker_id",),
        [([str(one.broker)], one.ended_ms / 1000) for one in said.outages if one.ended_ms is not None],
    )


def _guard(snapshot: Snapshot) -> Iterator[Metric]:
    status = snapshot.guard
    holds = sorted(status.holds, key=lambda hold: hold.topic) if status is not None else []
    yield _gauge(
        "guard_hold",
        "1 for a topic whose settings the guard has changed or is changing, by phase and level "
        "(docs/operate/guard.md).",
        ("topic", "phase", "level"),
        [([hold.topic, str(hold.phase), str(hold.level)], 1.0) for hold in holds],
    )
    yield _gauge(
        "guard_hold_start_timestamp_seconds",
        "When the guard began to hold the topic.",
        ("topic",),
        [([hold.topic], hold.began_ms / 1000) for hold in holds],
    )
    yield _gauge(
        "guard_hold_bytes",
        "Size of a held topic, by the largest replica of each partition. Its growth since the hold began is "
        "what the hold costs.",
        ("topic",),
        [([topic], size) for topic, size in sorted(status.sizes.items())] if status is not None else [],
    )
    yield _gauge(
        "guard_refused",
        "1 for a topic that the guard would hold and may not, or does not in the mode advise.",
        ("topic", "kind"),
        [([e.topic, str(e.kind)], 1.0) for e in sorted(status.refused, key=lambda e: e.topic)] if status else [],
    )
    yield _counter(
        "guard_events",
        "Events of the guard, by kind; kept across restarts.",
        ("kind",),
        [([kind], n) for kind, n in sorted(_guard_events(status).items())] if status is not None else [],
    )
    yield _gauge(
        "guard_works",
        "1 while the guard can do its work, 0 while it cannot. Absent where guard.mode is off.",
        (),
        [([], float(status.error is None))] if status is not None and not status.is_off else [],
    )


def _guard_events(status: GuardStatus) -> dict[str, int]:
    """Events by kind. A guard that works says 0 of a kind that it has not seen yet: so the first one is an increase."""
    knows_all = status.error is None and not status.is_off
    return (dict.fromkeys(map(str, EventKind), 0) if knows_all else {}) | status.events


def _queries(snapshot: Snapshot) -> Iterator[Metric]:
    queries = sorted(snapshot.queries.items())
    label = ("query",)
    yield _gauge("query_up", "1 while the query runs, else 0.", label, [([n], float(q.up)) for n, q in queries])
    yield _gauge(
        "query_last_progress_timestamp_seconds",
        "When the query last made progress. When the job started, until its first.",
        label,
        [([n], snapshot.got_on_at(q)) for n, q in queries],
    )
    yield _gauge(
        "query_batch_seconds",
        "Duration of the query's last micro-batch, once it was planned.",
        label,
        [([n], q.batch_seconds) for n, q in queries],
    )
    yield _counter(
        "query_rows",
        "Rows that the query has read since the job started. The comparison reads many recorded rows as one.",
        label,
        [([n], q.rows) for n, q in queries],
    )
    yield _counter(
        "query_restarts", "How often the query was restarted.", label, [([n], q.restarts) for n, q in queries]
    )
    yield _counter(
        "query_checkpoints_set_aside",
        "How often the query's checkpoint was unusable and was rebuilt from the tables.",
        label,
        [([n], q.checkpoints_set_aside) for n, q in queries],
    )


def _job(snapshot: Snapshot, places: Places) -> Iterator[Metric]:
    yield _gauge(
        "heartbeat_timestamp_seconds",
        "When the comparison last finished offsets or, with all compared, last looked for more. It shows "
        "end-to-end progress, not only a live process.",
        (),
        [([], snapshot.heartbeat)],
    )
    yield _gauge("start_time_seconds", "When the job started.", (), [([], snapshot.started_at)])
    yield _counter(
        "maintenance_runs",
        "Runs of the tables' upkeep, by result.",
        ("result",),
        [([r], n) for r, n in sorted(snapshot.maintenance.items())],
    )
    yield _gauge(
        "maintenance_last_success_timestamp_seconds",
        "When the upkeep of the tables last succeeded.",
        (),
        [([], snapshot.maintained_at)],
    )
    lease = () if snapshot.lease is None else (snapshot.lease,)
    yield _gauge(
        "storage_lease_epoch",
        "Number of the lease on an object store. It grows with each job that takes the storage.",
        (),
        [([], epoch) for epoch, _ in lease],
    )
    yield _gauge(
        "storage_lease_renewed_timestamp_seconds",
        "When the lease on the object store was last renewed.",
        (),
        [([], renewed) for _, renewed in lease if renewed is not None],
    )
    yield _gauge(
        "storage_full",
        "1 while nothing is recorded because a disk is full: that of storage.path, or of Spark's temporary files.",
        (),
        [([], int(snapshot.storage_full))],
    )
    yield _gauge(
        "nothing_watched",
        "1 while topics.include and topics.pattern match no topic; else 0.",
        (),
        [([], int(snapshot.nothing_since is not None))],
    )
    yield _gauge(
        "storage_info",
        "Id of the job's storage. Alerts know the job by it under other labels or at another address. Always 1.",
        ("storage_id",),
        [([snapshot.storage_id], 1)] if snapshot.storage_id is not None else [],
    )
    yield _gauge(
        "job_info",
        "The label options is what commands of Parallax need to name this job: its settings file, as it was given. "
        "The label page_url is the status page if alerting.external_url is set. Always 1.",
        ("options", "page_url"),
        [([snapshot.shell.options, places.page_of()], 1)] if snapshot.shell.is_known else [],
    )
    yield _gauge(
        "partitions_readable",
        "Watched partitions that can be compared now: two of their replicas, or the only one, can be read. At 0, as "
        "while all reading is paused, nobody watches anything.",
        (),
        [([], len(readable(snapshot)))],
    )
    tables = sorted(snapshot.tables.items())
    label = ("table",)
    yield _gauge("table_files", "Files of the table after its last upkeep.", label, [([n], t.files) for n, t in tables])
    yield _gauge("table_bytes", "Size of the table's files.", label, [([n], t.size) for n, t in tables])
    yield _counter(
        "table_shared_rows",
        "Rows taken out of a view because other replicas show them alike (storage.record: differing or blocks).",
        label,
        [([n], saved.rows) for n, saved in sorted(snapshot.shared.items())],
    )
    build = GaugeMetricFamily("parallax_build_info", "Versions; always 1.", labels=["version", "pyspark", "delta"])
    build.add_metric([_version("kafka-parallax"), _version("pyspark"), _version("delta-spark")], 1)
    yield build


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"
