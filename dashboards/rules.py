"""The alert rules for Prometheus, and the routing for Alertmanager that goes with them.

A finding is one alert, by cluster, topic, partition and its id. What is said of it comes from ``parallax_finding_info``
when the message is written, so a finding that is refined stays the same alert. Its state is one of four, so that no two
alerts are about the same thing. While a job is away, or has not loaded its findings yet, the last state counts: a job
that is down resolves nothing, whatever other jobs there are. Of several targets that have spoken of a finding, the job
that was started last counts: an address or the label ``cluster`` may change with a start.
"""

from __future__ import annotations

from typing import Any

import yaml

from dashboards.parameters import Parameters
from dashboards.partition import UID as PARTITION
from parallax.alerting.listing import ALARMS, FindingState

_FINDING = "cluster, topic, partition, finding_id"
_TARGET = "cluster, job, instance"
_WHERE = "{{ $labels.topic }}-{{ $labels.partition }}"
_FOR = "{{ with $labels.cluster }} of cluster {{ . }}{{ end }}"


class Rules:
    """Makes the rules for some parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters

    def document(self) -> dict[str, Any]:
        """The file of rules, as Prometheus loads it."""
        groups = {
            "parallax-findings": self._findings(),
            "parallax-coverage": self._coverage(),
            "parallax-absences": self._absences(),
            "parallax-guard": self._guard(),
            "parallax-health": self._health(),
        }
        return {"groups": [{"name": name, "rules": rules} for name, rules in groups.items()]}

    # What the rules are made of.

    def _of(self, metric: str, *matchers: str) -> str:
        chosen = ", ".join(filter(None, (self._p.selector, *matchers)))
        return f"parallax_{metric}{{{chosen}}}" if chosen else f"parallax_{metric}"

    def _last(self, metric: str, *matchers: str) -> str:
        """The last sample, through failed scrapes."""
        return f"last_over_time({self._of(metric, *matchers)}[{self._p.gap}])"

    def _alert(
        self,
        name: str,
        expr: str,
        severity: str,
        summary: str,
        description: str,
        *,
        wait: str | None = None,
        **more: str,
    ) -> dict[str, Any]:
        annotations = {"summary": summary, "description": description}
        annotations |= {"runbook_url": f"{self._p.runbook}#{name.lower()}"} | more
        rule: dict[str, Any] = {"alert": name, "expr": expr, "labels": {"severity": severity}}
        return rule | ({"for": wait} if wait else {}) | {"annotations": annotations}

    def _finding(self, state: FindingState) -> dict[str, Any]:
        alarm = ALARMS[state]
        series = self._of("finding_state", f'state="{state}"')
        now = f"max by ({_FINDING}) ({series}) > 0"
        last = f"last_over_time({series}[{self._p.remembered}])"
        away = f"({last} > 0) unless on ({_TARGET}) {self._of('findings_loaded')}"
        # A job says all states of each finding that it lists, so the last that spoke of this one has such a series.
        start = f"last_over_time({self._of('start_time_seconds')}[{self._p.remembered}])"
        began = f"{last} * 0 + ignoring (topic, partition, finding_id, state) group_left () {start} or {last} * 0"
        before = f"max by ({_FINDING}) ({away} and topk by (finding_id) (1, {began}))"
        # While the job is away, the newest of those that there were: a finding that was refined has several. The search
        # for it costs milliseconds, in each annotation of each finding; the template asks only where it has to.
        now_said = 'parallax_finding_info{finding_id="%[1]s"}'
        had = f"last_over_time({now_said}[{self._p.remembered}])"
        only = f"{had} and on () count({had}) == 1"
        each = f"timestamp({now_said})[{self._p.remembered}:15s]"
        newest = f"topk(1, max_over_time({each}))"
        asked = " ".join(f"(printf `{one}` $labels.finding_id | query)" for one in (now_said, only, newest))
        said = f"{{{{ with or {asked} }}}}{{{{ with . | first }}}}"
        end = "{{ end }}{{ end }}"
        more = {
            "kind": f'{said}{{{{ label "kind" . }}}}{end}',
            "broker_id": f'{said}{{{{ label "broker_id" . }}}}{end}',
            "offset": f'{said}{{{{ label "offset" . }}}}{end}',
            "kind_runbook_url": f'{said}{self._p.runbook}#{{{{ label "runbook" . }}}}{end}',
            "command": "parallax findings explain {{ $labels.finding_id }}",
        }
        if self._p.grafana:
            place = "var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}"
            more["dashboard_url"] = f"{self._p.grafana}/d/{PARTITION}?{place}"
        return self._alert(
            alarm.name,
            f"({now}) or {before}",
            alarm.severity.value,
            alarm.headline.format(f"{_WHERE}{_FOR}"),
            f'{said}{{{{ label "summary" . }}}}{end}',
            **more,
        )

    # The rules.

    def _findings(self) -> list[dict[str, Any]]:
        undecided = self._of("suspects_pending")
        return [
            *(self._finding(state) for state in FindingState),
            self._alert(
                "ParallaxFindingAcknowledged",
                f"max by ({_FINDING}) ({self._of('finding_acknowledged')}) > 0",
                "info",
                f"Somebody has acknowledged a finding of {_WHERE}{_FOR}; it stands",
                '{{ with printf `parallax_finding_acknowledged{finding_id="%[1]s"}` $labels.finding_id | query }}'
                '{{ with . | first }}{{ label "by" . }}: {{ label "comment" . }} {{ end }}{{ end }}'
                "While the finding is acknowledged its own alert is suppressed.",
                command="parallax findings explain {{ $labels.finding_id }}",
            ),
            self._alert(
                "ParallaxFindingsUnlisted",
                f"max by (cluster) ({self._last('findings_unlisted')}) > 0",
                "critical",
                f"More findings are open{_FOR} than alerts name one by one",
                "{{ $value }} more findings are open than are listed. `parallax findings` shows all of them.",
            ),
            self._alert(
                "ParallaxSuspectsUndecided",
                f"min by (cluster, topic, partition) (min_over_time({undecided}[{self._p.undecided}])) > 0",
                "warning",
                f"Suspects in {_WHERE}{_FOR} cannot be decided",
                f"{{{{ $value }}}} suspect(s) have waited for a verdict for {self._p.undecided}: a replica that is "
                "needed does not answer, or its log is still being scanned.",
            ),
        ]

    def _coverage(self) -> list[dict[str, Any]]:
        p = self._p
        view = "cluster, topic, partition, isolation_level"
        unknown = self._of("unknown_offsets", 'reason!~"before_first_reading|log_start_differs"')
        starts = self._of("unknown_offsets", 'reason="log_start_differs"')
        lost = f"min by ({view}) (min_over_time({starts}[{p.undecided}]))"
        a_day_ago = f"max by ({view}) (max_over_time({starts}[1h] offset 1d))"
        lag = self._of("view_lag_offsets")
        return [
            # What a replica held before it was first read waits for an audit, which the job runs by itself. While one
            # of the set was never read there is no such audit, and ParallaxInitialReadingIncomplete.
            self._alert(
                "ParallaxCoverageUnknown",
                f"min by ({view}, reason) (min_over_time({unknown}[{p.undecided}])) > 0",
                "warning",
                f"Parts of {_WHERE}{_FOR} are not compared",
                "At least {{ $value }} offsets ({{ $labels.isolation_level }}) have had no verdict for "
                f"{p.undecided}, for the reason {{{{ $labels.reason }}}}.",
            ),
            self._alert(
                "ParallaxInitialReadingIncomplete",
                f"min by (cluster, topic, partition) ({self._last('initial_reading_complete')}) == 0",
                "warning",
                f"A replica of {_WHERE}{_FOR} has not been read yet",
                f"For {p.unread_for}, not every replica of {_WHERE} has been read up to where it was when the job "
                "started. While one has never been read, the whole partition has no verdict.",
                wait=p.unread_for,
            ),
            # What no replica holds any more no reading brings back: the alert ends a day after the last loss.
            self._alert(
                "ParallaxLogStartDiffers",
                f"{lost} > ({a_day_ago} or 0 * {lost})",
                "warning",
                f"Logs of {_WHERE}{_FOR} have lost their beginning",
                "{{ $value }} offsets ({{ $labels.isolation_level }}) are gone from the beginning of a log, or of all, "
                "although no cleanup policy is known to delete records. What they held is unknown.",
            ),
            self._alert(
                "ParallaxBrokerUnreachable",
                f"min by (cluster, broker_id) ({self._last('broker_reachable')}) == 0",
                "warning",
                f"Parallax cannot reach broker {{{{ $labels.broker_id }}}}{_FOR}",
                f"Broker {{{{ $labels.broker_id }}}} has not answered for {p.unreachable_for}; its replicas are not "
                "compared.",
                wait=p.unreachable_for,
            ),
            self._alert(
                "ParallaxReadingPaused",
                f"time() - max by (cluster, broker_id) ({self._last('reading_paused_timestamp_seconds')})"
                f" > {p.paused_s}",
                "warning",
                f"Parallax has not been reading broker {{{{ $labels.broker_id }}}}{_FOR}, as an operator wants it",
                "Reading has been paused for {{ $value | humanizeDuration }}. What is not read is unknown, and what is "
                "cleaned meanwhile stays so: parallax resume has it read on.",
            ),
            # What Parallax may not read nobody watches, as if it did not run.
            self._alert(
                "ParallaxUnauthorized",
                f"max by (cluster, topic, reason) ({self._last('unauthorized_replicas')}) > 0",
                "critical",
                f"Parallax is not authorized to read {{{{ $labels.topic }}}}{_FOR}",
                "{{ $value }} replica(s) of {{ $labels.topic }} cannot be read; missing is {{ $labels.reason }}. "
                "What they hold is unknown until it is granted again.",
            ),
            self._alert(
                "ParallaxViewLagging",
                f"min by (cluster, topic, partition, broker_id, isolation_level) (min_over_time({lag}[{p.undecided}]))"
                f" > {p.lag}",
                "warning",
                f"Reading {_WHERE}{_FOR} from broker {{{{ $labels.broker_id }}}} falls behind",
                "The {{ $labels.isolation_level }} view has been at least {{ $value }} offsets behind the replica for "
                f"{p.undecided}; what compaction removes meanwhile is never seen.",
            ),
        ]

    def _absences(self) -> list[dict[str, Any]]:
        """Before anything diverges. One alert for each broker, for one that is away has replicas of many partitions."""
        p = self._p
        replica = "cluster, topic, partition, broker_id"
        since = f"max by ({replica}) ({self._last('replica_absent_since_timestamp_seconds')})"
        bound = f"min by ({replica}) ({self._last('replica_removal_bound_timestamp_seconds')})"
        share = f"((time() - {since}) / ({bound} - {since}))"
        left = f"({bound} - time())"
        unknown = self._of("replica_removal_bound_unknown", 'reason!="copying"')
        broker = f"Broker {{{{ $labels.broker_id }}}}{_FOR}"
        by_broker = "by (cluster, broker_id)"
        what = "tombstones and end markers that it lacks may be gone from the others"
        return [
            self._alert(
                "ParallaxReplicaAbsentLong",
                f"max {by_broker} ({share} > {p.absent_share} and {left} > 0)",
                "warning",
                f"{broker} has been away for a good part of delete.retention.ms",
                f"{{{{ $value | humanizePercentage }}}} of the time is over after which {what}. Bring it back, or "
                "raise delete.retention.ms of its topics.",
            ),
            self._alert(
                "ParallaxReplicaRemovalNear",
                f"min {by_broker} ({left} < {p.removal_near_s} and {left} > 0 and {share} > 0.75)",
                "critical",
                f"{broker} will soon miss tombstones or end markers for good",
                f"In {{{{ $value | humanizeDuration }}}} {what}. Bring it back before, or raise delete.retention.ms "
                "and pause the cleaning of its topics.",
            ),
            self._alert(
                "ParallaxReplicaRemovalPassed",
                f"max {by_broker} (0 - {left} > 0)",
                "warning",
                f"{broker} may have missed tombstones or end markers for good",
                f"Since {{{{ $value | humanizeDuration }}}} {what}. Audit its topics when it is back, or have it copy "
                "them again.",
            ),
            self._alert(
                "ParallaxReplicaRemovalUnknown",
                f"count {by_broker} (min_over_time({unknown}[{p.undecided}]) > 0)",
                "warning",
                f"Nobody knows until when broker {{{{ $labels.broker_id }}}}{_FOR} misses nothing",
                "{{ $value }} of its replicas are absent, and it is not known since when, or the settings of their "
                "topics cannot be read.",
            ),
            self._alert(
                "ParallaxReplicaLate",
                f"count {by_broker} ({self._last('replica_late_timestamp_seconds')})",
                "warning",
                f"{broker} was back too late",
                "{{ $value }} of its replicas have copied records that may have been cleaned before. Audit their "
                "partitions: parallax audit.",
            ),
        ]

    def _guard(self) -> list[dict[str, Any]]:
        topic = f"{{{{ $labels.topic }}}}{_FOR}"
        by_topic = "by (cluster, topic)"
        overruled = self._of("guard_events_total", 'kind="overruled"')
        return [
            self._alert(
                "ParallaxGuardHolds",
                f"max {by_topic} (time() - {self._last('guard_hold_start_timestamp_seconds')})",
                "warning",
                f"Settings of {topic} are held while a replica is away",
                "For {{ $value | humanizeDuration }} the guard has kept tombstones of {{ $labels.topic }} for longer, "
                "or paused its cleaning. It puts the settings back once the replica is in sync (parallax guard "
                "status); where guard.mode is not act nothing does but parallax guard release {{ $labels.topic }}.",
            ),
            self._alert(
                "ParallaxGuardRefused",
                f"max {by_topic} ({self._last('guard_refused')}) > 0",
                "warning",
                f"The guard does not hold {topic}",
                "A replica is away, and the guard may not, or must not, hold {{ $labels.topic }}, or cannot put back "
                "what it held: parallax guard status says why, and what to run.",
            ),
            self._alert(
                "ParallaxGuardOverruled",
                f"sum by (cluster) (increase({overruled}[1h])) > 0",
                "warning",
                f"Somebody has changed settings that the guard held{_FOR}",
                "The values were left as they are, and the topic is not held again for this absence. A tool that "
                "reverts settings has to leave out what the guard sets.",
            ),
            self._alert(
                "ParallaxGuardStopped",
                f"max by ({_TARGET}) ({self._last('guard_works')}) == 0",
                "critical",
                f"The guard can do nothing{_FOR}",
                f"For {self._p.absent_for} the guard could not read its events, or ask the cluster. What it holds "
                "stays held; nothing new is.",
                wait=self._p.absent_for,
            ),
        ]

    def _absent(self) -> dict[str, Any]:
        p = self._p
        there = self._of("build_info")
        named = self._of("build_info", 'cluster!=""')
        # One that had no label, and answers with one now, was given it by its settings.
        plain = self._of("build_info", 'cluster=""')
        unnamed = f"last_over_time({plain}[{p.remembered}]) unless on (job, instance) {there}"
        seen = f"max by (cluster) (last_over_time({named}[{p.remembered}]) or ({unnamed}))"
        # A target that is away while another of its cluster answers. One that was removed on purpose, or has another
        # address by now, has no ``up``.
        gone = f"max by ({_TARGET}) (last_over_time({there}[{p.remembered}])) unless on ({_TARGET}) {there}"
        one = f"{gone} and on (cluster) {there} and on (job, instance) up == 0"
        return self._alert(
            "ParallaxAbsent",
            f"({seen} unless on (cluster) {there}) or ({one}) or absent_over_time({there}[{p.remembered}])",
            "critical",
            f"Parallax{{{{ with $labels.instance }}}} on {{{{ . }}}}{{{{ end }}}}{_FOR} is not being scraped",
            f"{{{{ with $labels.instance }}}}{{{{ . }}}} has not answered for {p.absent_for}; the replicas that it "
            "reads may be watched by nobody.{{ else }}No Parallax target has answered for "
            f"{p.absent_for}; nobody watches the replicas.{{{{ end }}}} Alerts about findings stay as they were.",
            wait=p.absent_for,
        )

    def _health(self) -> list[dict[str, Any]]:
        p = self._p
        heartbeat = f"max by ({_TARGET}) ({self._last('heartbeat_timestamp_seconds')})"
        start = f"max by ({_TARGET}) ({self._last('start_time_seconds')})"
        progress = f"max by ({_TARGET}, query) ({self._last('query_last_progress_timestamp_seconds')})"
        restarts = self._of("query_restarts_total")
        return [
            self._alert(
                "ParallaxWatchdog",
                "vector(1)",
                "none",
                "Alerting works from Prometheus to the receiver",
                "Always fires. Route it to a receiver that raises an alarm when it stops.",
            ),
            self._absent(),
            # A job that never compared anything has no heartbeat: its start stands in.
            self._alert(
                "ParallaxStalled",
                f"time() - ({heartbeat} or {start}) > {p.stalled_s}",
                "critical",
                f"Parallax runs but compares nothing{_FOR}",
                "Nothing has come out of the comparison on {{ $labels.instance }} for {{ $value | humanizeDuration }}.",
            ),
            self._alert(
                "ParallaxQueryStalled",
                f"time() - {progress} > {p.stalled_s}",
                "critical",
                f"Query {{{{ $labels.query }}}} makes no progress{_FOR}",
                "The streaming query {{ $labels.query }} has made none for {{ $value | humanizeDuration }}.",
            ),
            self._alert(
                "ParallaxQueryRestarting",
                f"sum by ({_TARGET}, query) (increase({restarts}[15m])) > {p.restarts}",
                "warning",
                f"Query {{{{ $labels.query }}}} keeps being restarted{_FOR}",
                "The streaming query {{ $labels.query }} was restarted {{ $value | humanize }} times in 15 minutes.",
            ),
            self._alert(
                "ParallaxFindingsNotWritable",
                f"max by ({_TARGET}) ({self._last('findings_writable')}) == 0",
                "critical",
                f"Parallax cannot keep its findings{_FOR}",
                f"The findings table has not been readable or writable for {p.absent_for}; suspects stay pending.",
                wait=p.absent_for,
            ),
            self._alert(
                "ParallaxMessagesUndelivered",
                f"max by ({_TARGET}, receiver) ({self._last('webhook_pending_seconds')}) > {p.undelivered_s}",
                "warning",
                f"Parallax cannot reach the receiver {{{{ $labels.receiver }}}}{_FOR}",
                "Findings have not been reported to {{ $labels.receiver }} for {{ $value | humanizeDuration }}.",
            ),
            # What a newer version wrote counts in no other alert.
            self._alert(
                "ParallaxFindingsSkipped",
                f"max by ({_TARGET}) ({self._last('findings_skipped_rows')}) > 0",
                "warning",
                f"Parallax leaves out findings that a newer version wrote{_FOR}",
                "{{ $value }} row(s) of the tables findings and suspects hold a kind, rule or status that the running "
                "version does not know. They raise no alert.",
            ),
        ]


_RULES_HEAD = """# Alert rules for Parallax, generated: `python -m dashboards`; --help names its options.
# severity: critical pages, warning opens a ticket.
"""
_ROUTES_HEAD = """# Routing for Alertmanager, generated: `python -m dashboards`. Put in your own receivers.
# One message for all that is wrong with a partition; what a job that is away cannot know pages nobody.
"""


def rules(parameters: Parameters) -> str:
    """The text of the file of rules."""
    return _RULES_HEAD + _yaml(Rules(parameters).document())


def routes() -> str:
    """The text of the configuration of Alertmanager."""
    place = ["cluster", "topic", "partition"]
    target = _TARGET.split(", ")
    watchdog = {"receiver": "dead-man", "matchers": ["alertname = ParallaxWatchdog"], "repeat_interval": "1m"}
    tickets = {"receiver": "ticket", "matchers": ["severity = warning"]}
    notes = {"receiver": "note", "matchers": ["severity = info"]}
    findings = "|".join(alarm.name for alarm in ALARMS.values())
    absent = "alertname = ParallaxAbsent"
    health = "alertname =~ ParallaxStalled|ParallaxQuery.*|ParallaxFindingsNotWritable"
    return _ROUTES_HEAD + _yaml(
        {
            "route": {
                "receiver": "page",
                "group_by": place,
                "group_wait": "10s",
                "group_interval": "30s",
                "repeat_interval": "4h",
                "routes": [watchdog, tickets, notes],
            },
            "inhibit_rules": [
                # Where only one target of a cluster is away, the others' alerts count.
                {
                    "source_matchers": [absent, 'instance = ""'],
                    "target_matchers": [health],
                    "equal": ["cluster"],
                },
                {
                    "source_matchers": [absent, 'instance != ""'],
                    "target_matchers": [health],
                    "equal": target,
                },
                {
                    "source_matchers": ["alertname = ParallaxStalled"],
                    "target_matchers": ["alertname = ParallaxQueryStalled"],
                    "equal": list(target),
                },
                # It stands, so it is not over: Alertmanager sends no resolved message about what it suppresses.
                {
                    "source_matchers": ["alertname = ParallaxFindingAcknowledged"],
                    "target_matchers": [f"alertname =~ {findings}"],
                    "equal": ["cluster", "finding_id"],
                },
            ],
            "receivers": [
                {"name": "page", "webhook_configs": [{"url": "http://127.0.0.1:9465/page"}]},
                {"name": "ticket", "webhook_configs": [{"url": "http://127.0.0.1:9465/ticket"}]},
                {"name": "note", "webhook_configs": [{"url": "http://127.0.0.1:9465/note"}]},
                {
                    "name": "dead-man",
                    "webhook_configs": [{"url": "http://127.0.0.1:9465/dead-man", "send_resolved": False}],
                },
            ],
        }
    )


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
