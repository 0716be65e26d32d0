"""For the people who run Parallax: micro-batches, rows, lag, memory, files, probes, restarts."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.parts import GREEN, RED, dashboard, lines, number, of, or_none, rows_of, states

UID = "parallax-job"
_QUERY = "{{query}}"
_RATE = "[$__rate_interval]"


def job(runbook: str) -> build.Dashboard:
    """The dashboard; its panels link to sections of the runbook."""
    page = dashboard(UID, "Parallax: job", "What the monitor does, and what it costs.", runbook)
    page = _queries(page.with_row(build.Row("Streaming queries")))
    page = _probes(page.with_row(build.Row("Probes and audits")))
    return _cost(page.with_row(build.Row("What it costs")))


def _queries(page: build.Dashboard) -> build.Dashboard:
    since = f"time() - max by (query) ({of('query_last_progress_timestamp_seconds')})"
    return (
        page.with_panel(
            lines(
                "Duration of micro-batches",
                "Of the last one of each query. They grow with what there is to read, and with partitions.",
                (f"max by (query) ({of('query_batch_seconds')})", _QUERY),
                unit="s",
                span=8,
            )
        )
        .with_panel(
            lines(
                "Rows",
                "Read by each query in a second; the comparison reads many recorded rows as one.",
                (f"sum by (query) (rate({of('query_rows_total')}{_RATE}))", _QUERY),
                unit="rowsps",
                span=8,
            )
        )
        .with_panel(
            lines(
                "Since the last progress",
                "A query that makes none for `supervisor.no_progress_deadline_s` is restarted.",
                (since, _QUERY),
                unit="s",
                span=8,
            )
        )
        .with_panel(
            lines(
                "Lag by broker",
                "How long ago it showed what the view furthest behind has not read yet.",
                (
                    f"max by (broker_id, isolation_level) ({of('view_lag_seconds')})",
                    "broker {{broker_id}} {{isolation_level}}",
                ),
                unit="s",
                span=8,
            )
        )
        .with_panel(
            states(
                "Queries",
                "Whether each runs.",
                (f"min by (query) ({of('query_up')})", _QUERY),
                {"0": ("down", RED), "1": ("runs", GREEN)},
                span=8,
            )
        )
        .with_panel(
            lines(
                "Restarts, and checkpoints set aside",
                "Since the job started. A checkpoint that cannot be used is rebuilt from the tables.",
                (f"sum by (query) ({of('query_restarts_total')})", f"{_QUERY} restarts"),
                (f"sum by (query) ({of('query_checkpoints_set_aside_total')})", f"{_QUERY} checkpoints"),
                span=8,
            )
        )
    )


def _probes(page: build.Dashboard) -> build.Dashboard:
    errors = f"sum({of('comparison_partition_errors_total')})"
    return (
        page.with_panel(
            lines(
                "Probes and verdicts",
                "In a second: probes that came back, suspects that they cleared, findings that ended.",
                (f"sum(rate({of('probes_total')}{_RATE}))", "probes"),
                (f"sum(rate({of('suspects_dismissed_total')}{_RATE}))", "suspects dismissed"),
                (f"sum(rate({of('findings_resolved_total')}{_RATE}))", "findings resolved"),
                unit="ops",
                span=8,
            )
        )
        .with_panel(
            lines(
                "Suspects that wait",
                "For a verdict, over all partitions.",
                (or_none(f"sum({of('suspects_pending')})"), "suspects"),
                span=8,
            )
        )
        .with_panel(
            lines(
                "Read from brokers by probes and audits",
                "Bytes of records in a second; the settings `max_bytes_per_second` of findings and audits bound it.",
                (f"sum by (broker_id) (rate({of('probe_bytes_total')}{_RATE}))", "probes, broker {{broker_id}}"),
                (f"sum by (broker_id) (rate({of('audit_read_bytes_total')}{_RATE}))", "audits, broker {{broker_id}}"),
                unit="Bps",
                span=8,
            )
        )
        .with_panel(
            lines(
                "Audits",
                "Since the job started: audits by how they ended, and records that brokers which were back were "
                "asked for again, by how they show them.",
                (f"sum by (result) ({of('audit_runs_total')})", "{{result}}"),
                (f"sum by (result) ({of('spot_checks_total')})", "spot checks: {{result}}"),
                span=8,
            )
        )
        .with_panel(
            number(
                "Faults of Parallax",
                "Claims that could not be judged and partitions that could not be compared. Report them.",
                f"sum({of('findings_judging_errors_total')}) + ({or_none(errors)})",
                ((None, GREEN), (1, RED)),
            )
        )
        .with_panel(
            number(
                "Rows left out",
                "Findings and suspects that a newer version wrote.",
                f"sum({of('findings_skipped_rows')})",
                ((None, GREEN), (1, RED)),
                runbook="parallaxfindingsskipped",
            )
        )
    )


def _cost(page: build.Dashboard) -> build.Dashboard:
    return (
        page.with_panel(
            lines(
                "Memory",
                "Of the driver, Spark's JVM and the Python workers.",
                (f"sum by (process) ({of('memory_bytes')})", "{{process}}"),
                unit="bytes",
                stacked=True,
                span=8,
            )
        )
        .with_panel(
            lines(
                "Unmatched state",
                "What the comparison keeps until all replicas have shown it, over all partitions.",
                (f"sum({of('comparison_state_bytes')})", "state"),
                unit="bytes",
                span=8,
            )
        )
        .with_panel(
            lines(
                "Files of the tables",
                "After each upkeep, which makes few large ones of many small ones.",
                (f"sum by (table) ({of('table_files')})", "{{table}}"),
                span=8,
            )
        )
        .with_panel(
            lines(
                "Size of the tables",
                "After each upkeep; `storage.retention_hours` bounds it.",
                (f"sum by (table) ({of('table_bytes')})", "{{table}}"),
                unit="bytes",
                span=8,
            )
        )
        .with_panel(
            number(
                "Since the last upkeep",
                "Of any table.",
                f"time() - max({of('maintenance_last_success_timestamp_seconds')})",
                unit="s",
            )
        )
        .with_panel(
            number(
                "Topics held",
                "By the guard, while a replica is away; their logs grow.",
                or_none(f"count(max by (cluster, topic) ({of('guard_hold')}))"),
                runbook="parallaxguardholds",
            )
        )
        .with_panel(
            rows_of(
                "Versions",
                "Of each job.",
                of("build_info"),
                {
                    "cluster": "Cluster",
                    "instance": "Instance",
                    "version": "Parallax",
                    "pyspark": "PySpark",
                    "delta": "Delta",
                },
                span=8,
            )
        )
    )
