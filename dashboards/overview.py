"""For the person who is paged. Does the monitor work? Is anything diverged? How much is unknown, and why?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards import partition
from dashboards.parts import (
    ANY_IS_BAD,
    ANY_IS_ODD,
    GREEN,
    NEUTRAL,
    ORANGE,
    RED,
    dashboard,
    lines,
    number,
    of,
    or_none,
    rows_of,
    states,
)

UID = "parallax-overview"
_PARTITION = (
    f"/d/{partition.UID}?${{cluster:queryparam}}&${{datasource:queryparam}}"
    "&var-topic=${__data.fields.Topic}&var-partition=${__data.fields.Partition}&${__url_time_range}"
)


def overview(runbook: str) -> build.Dashboard:
    """The dashboard; its panels link to sections of the runbook."""
    page = dashboard(
        UID, "Parallax: overview", "Does the monitor work, is anything diverged, how much is unknown?", runbook
    )
    page = _diverged(page.with_row(build.Row("Is anything diverged?")))
    page = _unknown(page.with_row(build.Row("How much is unknown, and why?")))
    return _monitor(page.with_row(build.Row("How well does the monitor work?")))


def _diverged(page: build.Dashboard) -> build.Dashboard:
    open_findings = of("open_findings", 'status="confirmed"')
    spread = of("open_findings", 'status="spread"')
    unsettled = of("open_findings", 'status="unsettled"')
    exposed = of("open_findings_exposed")
    return (
        page.with_panel(
            number(
                "Divergences",
                "Open findings: replicas that are proven to differ.",
                or_none(f"sum({open_findings})"),
                ANY_IS_BAD,
                runbook="parallaxdivergenceconfirmed",
            )
        )
        .with_panel(
            number(
                "Seen by consumers",
                "Of these, those that consumers read now: the replica that is wrong leads, or one of the sides does.",
                or_none(f"sum({exposed})"),
                ANY_IS_BAD,
                runbook="parallaxdivergenceexposed",
            )
        )
        .with_panel(
            number(
                "Lost on all replicas",
                "Divergences that every replica shares by now: nothing is left to compare with.",
                or_none(f"sum({spread})"),
                ANY_IS_BAD,
                runbook="parallaxlosscomplete",
            )
        )
        .with_panel(
            number(
                "Unsettled",
                "Divergences that are not proven any more, though nothing proves that what is shown is right.",
                or_none(f"sum({unsettled})"),
                ANY_IS_ODD,
                runbook="parallaxdivergenceunsettled",
            ).span(3)
        )
        .with_panel(
            number(
                "Acknowledged",
                "Open findings that somebody has acknowledged: they raise no alert.",
                or_none(f"sum({of('acknowledged_findings')})"),
            ).span(3)
        )
        .with_panel(
            number(
                "Suspects without a verdict",
                "Differences that probes can neither prove nor clear yet.",
                or_none(f"sum({of('suspects_pending')})"),
                ANY_IS_ODD,
                runbook="parallaxsuspectsundecided",
            ).span(3)
        )
        .with_panel(
            number(
                "Partitions watched",
                "Partitions that brokers have reported replicas of.",
                f"count(count by (cluster, topic, partition) ({of('replica_high_watermark')}))",
            ).span(3)
        )
        .with_panel(
            rows_of(
                "Open findings",
                "Where no broker is named, the replicas differ and nothing proves which one is wrong. "
                "`parallax findings list -c CONFIG` shows the evidence.",
                f"{of('open_findings')} > 0",
                {
                    "topic": "Topic",
                    "partition": "Partition",
                    "broker_id": "Broker",
                    "kind": "Kind",
                    "severity": "Severity",
                    "status": "Status",
                    "Value": "Findings",
                },
                link=_PARTITION,
                span=14,
            )
        )
        .with_panel(
            lines(
                "Open findings by kind",
                "How many were open, over time.",
                (f"sum by (kind) ({of('open_findings')})", "{{kind}}"),
                stacked=True,
                span=10,
            ).height(8)
        )
    )


def _unknown(page: build.Dashboard) -> build.Dashboard:
    unknown = of("unknown_offsets")
    by_partition = f"sum by (cluster, topic, partition) ({unknown})"
    return (
        page.with_panel(
            number(
                "Offsets without a verdict",
                "Unknown is never taken for consistent. Some of it is usual: what was written a moment ago.",
                f"sum({unknown})",
                runbook="parallaxcoverageunknown",
            )
        )
        .with_panel(
            number(
                "Partitions with some",
                "Partitions of which some offsets have no verdict.",
                or_none(f"count({by_partition} > 0)"),
            ).span(3)
        )
        .with_panel(
            number(
                "Not read whole since the start",
                "Partitions of which some replica has not been read up to where it was when the job started.",
                or_none(f"sum({of('initial_readings_outstanding')})"),
                ANY_IS_ODD,
                runbook="parallaxinitialreadingincomplete",
            ).span(3)
        )
        .with_panel(
            number(
                "Replicas that may not be read",
                "What Parallax is not authorized to read nobody watches.",
                or_none(f"sum({of('unauthorized_replicas')})"),
                ANY_IS_BAD,
                runbook="parallaxunauthorized",
            ).span(3)
        )
        .with_panel(
            number(
                "Brokers out of reach",
                "Their replicas are not compared until they answer.",
                or_none(f"count({of('broker_reachable')} == 0)"),
                ANY_IS_ODD,
                runbook="parallaxbrokerunreachable",
            ).span(3)
        )
        .with_panel(
            number(
                "Until the first may miss something",
                "From then on a tombstone or end marker that an absent replica lacks may be gone from the others. "
                "Infinite while none is absent.",
                or_none(f"min({of('replica_removal_bound_timestamp_seconds')}) - time()", "Inf"),
                ((None, RED), (0, ORANGE), (3600, GREEN)),
                unit="s",
                runbook="parallaxreplicaremoval",
            ).span(3)
        )
        .with_panel(
            number(
                "Since the last audit",
                "An audit reads every replica from its log start on. The job runs one where something was not read in "
                "time, and at `audit.interval_s`.",
                f"time() - max({of('audit_last_timestamp_seconds')})",
                NEUTRAL,
                unit="s",
            ).span(5)
        )
        .with_panel(
            lines(
                "Unknown offsets by reason",
                "The reasons are those of docs/contribute/theory.md, What is unknown.",
                (f"sum by (reason) ({unknown}) > 0", "{{reason}}"),
                stacked=True,
                span=8,
            ).height(8)
        )
        .with_panel(
            rows_of(
                "Where most is unknown",
                "The twenty partitions with most offsets that have no verdict, by view and reason.",
                f"topk(20, sum by (topic, partition, isolation_level, reason) ({unknown}) > 0)",
                {
                    "topic": "Topic",
                    "partition": "Partition",
                    "isolation_level": "Isolation level",
                    "reason": "Reason",
                    "Value": "Offsets",
                },
                link=_PARTITION,
                span=10,
            )
        )
        .with_panel(
            states(
                "Brokers",
                "Whether each broker answered when it was last asked for its offsets.",
                (f"min by (broker_id) ({of('broker_reachable')})", "broker {{broker_id}}"),
                {"0": ("out of reach", RED), "1": ("answers", GREEN)},
                span=6,
            ).height(8)
        )
    )


def _monitor(page: build.Dashboard) -> build.Dashboard:
    return (
        page.with_panel(
            number(
                "Queries that are down",
                "Streaming queries that do not run; the job restarts them.",
                or_none(f"count({of('query_up')} == 0)"),
                ANY_IS_BAD,
                runbook="parallaxqueryrestarting",
            ).span(6)
        )
        .with_panel(
            number(
                "Slowest query",
                "For how long a streaming query has made no progress.",
                f"max(time() - {of('query_last_progress_timestamp_seconds')})",
                ((None, GREEN), (60, ORANGE), (300, RED)),
                unit="s",
                runbook="parallaxquerystalled",
            ).span(6)
        )
        .with_panel(
            number(
                "Restarts in the last hour",
                "How often a streaming query was restarted.",
                f"sum(increase({of('query_restarts_total')}[1h]))",
                ANY_IS_ODD,
                runbook="parallaxqueryrestarting",
            ).span(6)
        )
        .with_panel(
            number(
                "Largest lag",
                "How long ago a replica showed what the view furthest behind has not read yet.",
                f"max({of('view_lag_seconds')})",
                ((None, GREEN), (600, ORANGE)),
                unit="s",
                runbook="parallaxviewlagging",
            ).span(6)
        )
    )
