"""The alert rules for Prometheus, by what they are about.

A condition that has to last waits by ``for``, over ``Expressions.known`` (``Alerts._lasting``). So its alert fires
after its time and not before. Neither a failed scrape nor a restart of the job makes the time begin again.
"""

from __future__ import annotations

from typing import Any

from dashboards.alerts import FOR, NUMBER, REMEDY, RESUME, WHERE, Alerts, Known, Of, agreed, command
from dashboards.expressions import (
    ABSENT,
    ANSWERS,
    FORMER,
    HEARD,
    OPTIONS,
    PAGE,
    REPLICA,
    SERVES,
    SILENT,
    TARGET,
    TARGETS,
    UNANSWERED,
    UNHEARD,
    WORKS,
    Heard,
    firing,
    seconds,
)
from dashboards.findings import FindingAlerts
from dashboards.parameters import Parameters
from dashboards.written import written
from parallax.alerting.conditions import OUTAGE, REMOVAL, UNREACHABLE
from parallax.alerting.listing import Turn
from parallax.guard.absences import NO_OUTAGE
from parallax.guard.endings import ANSWERS as ANSWERS_AGAIN
from parallax.guard.endings import NOT_HELD, SERVES_NONE, SERVES_WHOLE
from parallax.model import PASSING

_REACHABLE = "parallax_broker_reachable"
_UNKNOWN = f'reason!~"{"|".join(["copying", *NO_OUTAGE])}"'
_PASSED = 'reason="passed"'
_OF_AN_OUTAGE = f'reason!~"{"|".join(NO_OUTAGE)}"'

_REACHED = (
    f'{{{{ with query (printf "max({_REACHABLE}{{cluster=%q, broker_id=%q}})" $labels.cluster $labels.broker_id) }}}}'
    f"{{{{ if eq (first .).Value 1.0 }}}}{ANSWERS_AGAIN}{{{{ end }}}}"
    f"{{{{ else }}}}{NOT_HELD}{{{{ end }}}}"
).replace("{broker_id}", "{{ $labels.broker_id }}")
"""How it ended that a broker did not answer. An alert that fires holds this text as well, and receivers may show it."""
_TOLD = "{{ if eq $value 0.0 }}"
"""An alert fires for the last time, for its job has said how it ended."""
_WORSE = f"{{{{ if eq $value {float(UNANSWERED)} }}}}"
"""The same, and it ended because the broker does not answer at all."""
_WHY_UNBOUND = (
    '{{ range query (printf "count by (reason) (parallax_replica_removal_bound_unknown{cluster=%q, broker_id=%q, '
    f'{_UNKNOWN.replace(chr(34), chr(39))}}})" $labels.cluster $labels.broker_id) }}}}'
    ' {{ .Labels.reason }} for {{ printf "%.0f" .Value }}{{ end }}'
)
"""For which reasons no bound is known of the replicas of an alert's broker, and of how many."""
_NOT_ABSENT = (
    "Either Prometheus scrapes a job again, or it no longer expects one: the page shows which. A job that is back "
    "compares what was written meanwhile, as far as it is still there."
)
"""The end of `ABSENT`. Prometheus keeps the text of a moment at which it scraped nothing."""
_HEAD = """# Alert rules for Parallax.
# Checked: promtool, and a real Prometheus. Not run: by the Prometheus operator.
# severity: critical pages, warning opens a ticket, info is for the record.
"""


def rules(parameters: Parameters) -> str:
    """The text of the file of rules."""
    return written(_HEAD, Rules(parameters).document())


class Rules(Alerts):
    """Makes the rules for some parameters."""

    def document(self) -> dict[str, Any]:
        """The file of rules, as Prometheus loads it."""
        recorded = {
            HEARD: self._e.heard(),
            FORMER: self._e.former(),
            TARGETS: self._e.targets(),
            SILENT: self._e.silent(),
            UNHEARD: self._e.unheard(),
            WORKS: self._e.works(),
            ANSWERS: self._e.answers(),
            SERVES: self._e.serves(),
            OPTIONS: self._e.of_job("options"),
            PAGE: self._e.of_job("page_url"),
        }
        # One group: its rules go one after another, each by what was recorded a moment ago.
        rules = [
            *({"record": record, "expr": expr} for record, expr in recorded.items()),
            *FindingAlerts(self._p).rules(),
            *self._coverage(),
            *self._absences(),
            *self._guard(),
            *self._health(),
        ]
        return {"groups": [{"name": "parallax", "rules": rules}]}

    def _coverage(self) -> list[dict[str, Any]]:
        p = self._p
        view = "cluster, topic, partition, isolation_level"
        partition = "cluster, topic, partition"
        starts = self._e.of("unknown_offsets", 'reason="log_start_differs"')
        logs = "storage_id, topic, partition, isolation_level"
        storage = self._e.of("storage_info")

        def of_storage(offsets: str, storages: str) -> str:
            """Offsets with the id of their job's storage: the job may be called otherwise by now."""
            one = f"topk by ({TARGET}) (1, {storages})"  # A job that was given another storage still has two.
            return f"({offsets}) * on ({TARGET}) group_left (storage_id) {one}"

        # The last that was known a day ago, give or take two hours: the job may have been down then.
        a_day_ago = f"last_over_time(max by ({logs}) ({of_storage(starts, storage)})[2d:2h] offset 1d)"

        def unknown(known: Known) -> str:
            # Under steady traffic some offsets are always on their way: what should pass by itself and does not is
            # ParallaxVerdictOverdue's.
            others = "|".join(sorted({"before_first_reading", "deleted_unread", "log_start_differs", *PASSING}))
            offsets = known("unknown_offsets", f'reason!~"{others}"')
            return f"min by ({view}, reason) ({offsets}) > 0"

        def lost(known: Known) -> str:
            offsets = known("unknown_offsets", 'reason="log_start_differs"')
            storages = f"last_over_time({storage}[{seconds(p.undecided) // 3}s])"
            now = f"min by (cluster, {logs}) ({of_storage(offsets, storages)})"
            return f"min by ({view}) ({now} > 0 unless {now} <= on ({logs}) group_left () {a_day_ago})"

        def unread(known: Known) -> str:
            return f"min by ({partition}) ({known('initial_reading_complete')}) == 0"

        def overdue(known: Known) -> str:
            waits = f"min by ({partition}) ({known('verdict_waiting_seconds')}) > {p.lag_s}"
            return f"{waits} unless on ({partition}) ({unread(known)})"

        def lagging(known: Known) -> str:
            lag = f"min by ({partition}, broker_id, isolation_level) ({known('view_lag_seconds')}) > {p.lag_s}"
            away = f"max by (cluster, broker_id) ({known('broker_reachable')}) == 0"
            paused = known("reading_paused_timestamp_seconds")
            all_paused = known("reading_paused_timestamp_seconds", 'broker_id="all"')
            return (
                f"{lag} unless on ({partition}) ({unread(known)}) unless on (cluster, broker_id) ({away} or {paused}) "
                f"unless on (cluster) ({all_paused})"
            )

        was, left = Of("ParallaxReplicaOffline", p).past
        whole, none = (text.format(broker_id="{{ $labels.broker_id }}") for text in (SERVES_WHOLE, SERVES_NONE))
        return [
            # What was deleted before it was read is nobody's to read any more, and on topics of Kafka Streams no fault.
            # What a replica held before it was first read waits for an audit, which the job runs by itself. While one
            # of the set was never read there is no such audit, and ParallaxInitialReadingIncomplete.
            self._lasting(
                "ParallaxCoverageUnknown",
                p.undecided,
                unknown,
                "warning",
                f"Parts of {WHERE}{FOR} are not compared",
                f"For {p.undecided} there have been offsets without a verdict ({{{{ $labels.isolation_level }}}}), now "
                f"{NUMBER}, for the reason {{{{ $labels.reason }}}}.",
                past=(
                    f"Parts of {WHERE}{FOR} were not compared for a time",
                    "No offset has been without a verdict for this reason since: {{ $labels.reason }}.",
                ),
                heard=self._e.settled("unknown_offsets", f"{view}, reason"),
            ),
            self._lasting(
                "ParallaxVerdictOverdue",
                p.lag_for,
                overdue,
                "warning",
                f"The comparison of {WHERE}{FOR} makes no progress",
                "Whether its replicas agree has not been known for {{ $value | humanizeDuration }} from one offset on, "
                "though all of them can be read, and nothing is known to hold the comparison up.",
                past=(
                    f"The comparison of {WHERE}{FOR} made no progress for a time",
                    (
                        "Nothing that is watched there waits that long for a verdict now. The partition's page shows "
                        "how far it is compared."
                    ),
                ),
                heard=self._e.settled("verdict_waiting_seconds", partition),
            ),
            self._lasting(
                "ParallaxInitialReadingIncomplete",
                p.unread_for,
                unread,
                "warning",
                f"A replica of {WHERE}{FOR} has not been read yet",
                f"For {p.unread_for} a job has not read every replica of {WHERE} up to where it was when the job "
                "started. While one has never been read, that job has no verdict on the partition.",
                past=(
                    f"A replica of {WHERE}{FOR} had not been read yet",
                    "No replica that is watched there waits for its first reading now.",
                ),
            ),
            # What no replica holds any more no reading brings back: the alert ends a day after the last loss.
            self._lasting(
                "ParallaxLogStartDiffers",
                p.undecided,
                lost,
                "warning",
                f"Logs of {WHERE}{FOR} have lost their beginning",
                f"{NUMBER} {agreed('offset', 'offsets')} ({{{{ $labels.isolation_level "
                f"}}}}) {agreed('is', 'are')} gone from the beginning of a log, or of all, "
                "although no cleanup policy is known to delete records. What they held is unknown.",
                past=(
                    f"Logs of {WHERE}{FOR} had lost their beginning",
                    "Nothing was lost in the last day. What had been lost stays unknown.",
                ),
                heard=self._e.settled("unknown_offsets", view, 'reason="log_start_differs"'),
            ),
            self._lasting(
                "ParallaxBrokerUnreachable",
                p.unreachable_for,
                # An outage that was alerted of first says so. One that is alerted of later does not end this.
                lambda known: (
                    f"min by (cluster, broker_id) ({known('broker_reachable')}) == 0 unless on (cluster, broker_id) "
                    f"({firing(OUTAGE, REMOVAL)} unless on (cluster, broker_id) {firing(UNREACHABLE)})"
                ),
                "warning",
                f"Parallax cannot reach broker {{{{ $labels.broker_id }}}}{FOR}",
                f"Broker {{{{ $labels.broker_id }}}} has not answered for {p.unreachable_for}: a job of Parallax "
                "cannot compare its replicas.",
                past=(Of("ParallaxBrokerUnreachable", p).past[0], _REACHED),
                heard=Heard("cluster, broker_id", ANSWERS, is_recorded=True),
            ),
            self._lasting(
                "ParallaxReplicaOffline",
                p.unreachable_for,
                lambda known: f"max by (cluster, broker_id) ({known('replicas_offline')}) > 0",
                "warning",
                f"Broker {{{{ $labels.broker_id }}}}{FOR} answers, but not for all of its replicas",
                f"For {p.unreachable_for} broker {{{{ $labels.broker_id }}}} has not answered for some of its "
                f"replicas, now {NUMBER}, as when a log directory is offline. {agreed('It is', 'They are')} "
                f"not read, and not compared. {command('check')} says which.",
                past=(
                    f"{_WORSE}{Turn.WORSE}{{{{ end }}}}{was}",
                    f"{_WORSE}{none}{{{{ else }}}}{_TOLD}{whole}{{{{ else }}}}{left}{{{{ end }}}}{{{{ end }}}}",
                ),
                heard=Heard("cluster, broker_id", SERVES, is_recorded=True),
                turn=f"{_WORSE}{Turn.WORSE}{{{{ end }}}}",
            ),
            self._alert(
                "ParallaxReadingPaused",
                f"time() - max by (cluster, broker_id) ({self._e.of('reading_paused_timestamp_seconds')})"
                f" > {p.paused_s}",
                "warning",
                f"An operator has paused reading{FOR}; brokers: {{{{ $labels.broker_id }}}}",
                "Reading has been paused for {{ $value | humanizeDuration }}. What is not read is unknown, and what is "
                f"cleaned meanwhile stays so: {RESUME} has it read on.",
            ),
            # What Parallax may not read nobody watches, as if it did not run.
            self._alert(
                "ParallaxUnauthorized",
                f"max by (cluster, topic, reason) ({self._e.of('unauthorized_replicas')}) > 0",
                "critical",
                f"Parallax is not authorized to read {{{{ $labels.topic }}}}{FOR}",
                f"{NUMBER} {agreed('replica', 'replicas')} of {{{{ $labels.topic }}}} cannot be read. {REMEDY} "
                "What they hold is unknown until then.",
                heard=self._e.settled("unauthorized_replicas", "cluster, topic, reason"),
            ),
            # A replica that is away or paused, or has not been read whole yet, has an alert of its own.
            self._lasting(
                "ParallaxViewLagging",
                p.lag_for,
                lagging,
                "warning",
                f"Reading {WHERE}{FOR} from broker {{{{ $labels.broker_id }}}} falls behind",
                "The {{ $labels.isolation_level }} view has not read yet what the replica showed "
                "{{ $value | humanizeDuration }} ago; what compaction removes meanwhile is never seen.",
                past=(
                    f"Reading {WHERE}{FOR} from broker {{{{ $labels.broker_id }}}} was behind",
                    "What can be read there is not that far behind now. What was compacted meanwhile was never seen.",
                ),
                heard=self._e.settled("view_lag_seconds", f"{partition}, broker_id, isolation_level"),
            ),
        ]

    def _absences(self) -> list[dict[str, Any]]:
        """Before anything diverges. One alert for each broker, for one that is away has replicas of many partitions."""
        p = self._p
        since = f"max by ({REPLICA}) ({self._e.of('replica_absent_since_timestamp_seconds')})"
        bound = f"min by ({REPLICA}) ({self._e.of('replica_removal_bound_timestamp_seconds')})"
        share = f"((time() - {since}) / ({bound} - {since}))"
        left = f"({bound} - time())"
        by_broker = "by (cluster, broker_id)"

        def late(matcher: str) -> str:
            return f"max by ({REPLICA}) ({self._e.of('replica_late_timestamp_seconds', matcher)})"

        def until_told(name: str, expr: str) -> str:
            """An outage that is over goes on for as long as the job says what came of it: the last word is that."""
            over = f"max {by_broker} ({self._e.of('replica_outage_end_timestamp_seconds')})"
            return f"count {by_broker} ({expr}) or 0 * ({over} and on (cluster, broker_id) {firing(name)})"

        unbound, compares = "replica_removal_bound_unknown", "heartbeat_timestamp_seconds"
        gone, near = f"{left} <= 0", f"({left} < {p.removal_near_s} and {share} > 0.75)"
        return [
            # One story for each broker and outage: it begins, it may become worse, and both end when it is over.
            *(
                self._alert(name, until_told(name, expr), severity, *Of(name, p).present)
                for name, severity, expr in (
                    (
                        OUTAGE,
                        "warning",
                        f"{share} > {p.absent_share} or {gone} or {late(_OF_AN_OUTAGE)}",
                    ),
                    ("ParallaxReplicaRemoval", "critical", f"{near} or {gone} or {late(_PASSED)}"),
                )
            ),
            self._lasting(
                "ParallaxReplicaRemovalUnknown",
                p.undecided,
                lambda known: f"count {by_broker} ({known(unbound, _UNKNOWN, told_with=compares)} > 0)",
                "warning",
                f"Nobody knows until when broker {{{{ $labels.broker_id }}}}{FOR} misses nothing",
                f"Absent replicas of it: {NUMBER}. Why:{_WHY_UNBOUND}.",
                past=(
                    f"Nobody knew until when broker {{{{ $labels.broker_id }}}}{FOR} missed nothing",
                    "None of its replicas is absent without a known bound now.",
                ),
            ),
        ]

    def _guard(self) -> list[dict[str, Any]]:
        topic = f"{{{{ $labels.topic }}}}{FOR}"
        by_topic = "by (cluster, topic)"
        overruled = self._e.of("guard_events_total", 'kind="overruled"')
        return [
            self._alert(
                "ParallaxGuardHolds",
                f"max {by_topic} (time() - {self._e.of('guard_hold_start_timestamp_seconds')})",
                "warning",
                f"The guard holds settings of {topic}",
                "For {{ $value | humanizeDuration }} the guard has kept tombstones of {{ $labels.topic }} for longer, "
                "or paused its cleaning: while a replica is away, or because a person asked for it "
                f"({command('guard', 'status')}). It puts the settings back once the replica is in sync. What a person "
                "asked for, and all where guard.mode is not act, ends only by "
                f"{command('guard', 'release', '{{ $labels.topic }}')}.",
                past=(
                    f"The guard held settings of {topic}",
                    "The guard holds them no longer.",
                ),
            ),
            self._alert(
                "ParallaxGuardRefused",
                f"max {by_topic} ({self._e.of('guard_refused')}) > 0",
                "warning",
                f"The guard does not hold {topic}",
                "A replica is away, and the guard may not, or must not, hold {{ $labels.topic }}, or cannot put back "
                f"what it held: {command('guard', 'status')} says why, and what to run.",
                past=(
                    f"The guard did not hold {topic} for a time",
                    f"It refuses nothing there now. {command('guard', 'status')} says whether it holds the topic.",
                ),
            ),
            self._alert(
                "ParallaxGuardOverruled",
                f"sum by (cluster) (increase({overruled}[1h])) > 0",
                "warning",
                f"Somebody has changed settings that the guard held{FOR}",
                "The values were left as they are, and the topic is not held again for this absence. A tool that "
                "reverts settings has to leave out what the guard sets.",
                past=(
                    f"Somebody had changed settings that the guard held{FOR}",
                    "Nobody has in the last hour. What they set stays set.",
                ),
            ),
            self._lasting(
                "ParallaxGuardStopped",
                self._p.absent_for,
                lambda known: f"max by ({TARGET}) ({known('guard_works')}) == 0",
                "critical",
                f"The guard can do nothing{FOR}",
                f"For {self._p.absent_for} the guard could not read its events, or ask the cluster. What it holds "
                "stays held; nothing new is.",
            ),
        ]

    def _absent(self) -> dict[str, Any]:
        p = self._p
        return self._says(
            ABSENT,
            self._e.absent(),
            "critical",
            f"Parallax{{{{ with $labels.instance }}}} on {{{{ . }}}}{{{{ end }}}}{FOR} is not being scraped",
            f"{{{{ with $labels.instance }}}}{{{{ . }}}} has not answered for {p.absent_for}; the replicas that it "
            "reads may be watched by nobody.{{ else }}No Parallax target has answered for "
            f"{p.absent_for}; nobody watches the replicas.{{{{ end }}}} Alerts that were firing stay as they were.",
            (
                f"Parallax{{{{ with $labels.instance }}}} on {{{{ . }}}}{{{{ end }}}}{FOR} was not scraped for a time",
                _NOT_ABSENT,
            ),
            wait=p.absent_for,
        )

    def _health(self) -> list[dict[str, Any]]:
        p = self._p
        heartbeat = f"max by ({TARGET}) ({self._e.of('heartbeat_timestamp_seconds')})"
        start = f"max by ({TARGET}) ({self._e.of('start_time_seconds')})"
        progress = f"max by ({TARGET}, query) ({self._e.of('query_last_progress_timestamp_seconds')})"
        restarts = self._e.of("query_restarts_total")
        return [
            self._says(
                "ParallaxWatchdog",
                "vector(1)",
                "none",
                "Alerting works from Prometheus to the receiver",
                "Always fires. Route it to a receiver that raises an alarm when it stops. Whether Parallax watches it "
                "does not say.",
                (
                    "Alerting stopped for a time",
                    "Meanwhile Prometheus sent no alert of Parallax to anybody.",
                ),
            ),
            self._absent(),
            # A job that never compared anything has no heartbeat: its start stands in.
            self._alert(
                "ParallaxStalled",
                f"time() - ({heartbeat} or {start}) > {p.stalled_s}",
                "critical",
                f"Parallax runs but compares nothing{FOR}",
                "Nothing has come out of the comparison on {{ $labels.instance }} for {{ $value | humanizeDuration }}.",
            ),
            self._alert(
                "ParallaxQueryStalled",
                f"time() - {progress} > {p.stalled_s}",
                "critical",
                f"Query {{{{ $labels.query }}}} makes no progress{FOR}",
                "The streaming query {{ $labels.query }} has made none for {{ $value | humanizeDuration }}.",
            ),
            # Prometheus extrapolates an increase to the whole time: three restarts become a little more than three.
            self._alert(
                "ParallaxQueryRestarting",
                f"round(sum by ({TARGET}, query) (increase({restarts}[15m]))) > {p.restarts}",
                "warning",
                f"Query {{{{ $labels.query }}}} keeps being restarted{FOR}",
                f"The streaming query {{{{ $labels.query }}}} was restarted {NUMBER} times in 15 minutes.",
                past=(
                    f"Query {{{{ $labels.query }}}} was restarted again and again{FOR}",
                    "It was not in the last 15 minutes.",
                ),
            ),
            self._lasting(
                "ParallaxFindingsNotWritable",
                p.absent_for,
                lambda known: f"max by ({TARGET}) ({known('findings_writable')}) == 0",
                "critical",
                f"Parallax cannot keep its findings{FOR}",
                f"For {p.absent_for} the findings table could not be read or written: suspects stay pending, and no "
                "new finding is reported.",
            ),
            self._lasting(
                "ParallaxStorageFull",
                p.full_for,
                lambda known: f"max by ({TARGET}) ({known('storage_full')}) > 0",
                "critical",
                f"The storage of Parallax is full{FOR}",
                "Recording has stopped for want of space: what is written to Kafka meanwhile is not compared. The "
                "job's log names the disk. Free space there, but delete nothing below storage.path: the job then goes "
                "on by itself.",
            ),
            self._lasting(
                "ParallaxNothingWatched",
                p.absent_for,
                lambda known: f"max by ({TARGET}) ({known('nothing_watched')}) > 0",
                "warning",
                f"Parallax watches nothing{FOR}: no topic matches",
                f"For {p.absent_for} no topic has been there that topics.include names or topics.pattern matches, as "
                "far as {{ $labels.instance }} may see. Correct them, or stop the job where no such topic is to come.",
            ),
            self._lasting(
                "ParallaxOtherCluster",
                p.full_for,
                lambda known: f"max by ({TARGET}) ({known('cluster_mismatch')}) > 0",
                "critical",
                f"An address{FOR} answers as another Kafka cluster",
                "An address of bootstrap.servers, or of a broker, belongs to another cluster than the storage of "
                "{{ $labels.instance }}. Parallax takes nothing from it: what it should read there nobody watches. "
                "The job's log names the address and both ids.",
            ),
            self._alert(
                "ParallaxMessagesUndelivered",
                f"max by ({TARGET}, receiver) ({self._e.of('webhook_pending_seconds')}) > {p.undelivered_s}",
                "warning",
                f"Parallax cannot reach the receiver {{{{ $labels.receiver }}}}{FOR}",
                "Findings have not been reported to {{ $labels.receiver }} for {{ $value | humanizeDuration }}.",
                past=(
                    f"Parallax could not reach the receiver {{{{ $labels.receiver }}}}{FOR}",
                    "Nothing waits for it any more.",
                ),
            ),
            # What a newer version wrote counts in no other alert.
            self._alert(
                "ParallaxFindingsSkipped",
                f"max by ({TARGET}) ({self._e.of('findings_skipped_rows')}) > 0",
                "warning",
                f"Parallax leaves out findings that a newer version wrote{FOR}",
                f"{NUMBER} {agreed('row', 'rows')} of the tables findings and suspects "
                f"{agreed('holds', 'hold')} a kind, rule or status that the running "
                "version does not know. They raise no alert.",
            ),
        ]
