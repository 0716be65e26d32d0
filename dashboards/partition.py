"""One partition, with its replicas next to each other. A frozen one is seen at a glance, and one behind."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import timeseries

from dashboards.parts import (
    ANY_IS_BAD,
    GREEN,
    ORANGE,
    RED,
    chosen,
    dashboard,
    lines,
    number,
    of,
    or_none,
    states,
)
from parallax.alerting.audited import Outcome

UID = "parallax-partition"
_BROKER = "broker {{broker_id}}"
_COLOR = {Outcome.CONSISTENT: GREEN, Outcome.DIVERGED: RED, Outcome.OVER: GREEN, Outcome.UNKNOWN: ORANGE}
_OF_ITSELF = "As each replica reports it of itself."


def partition(runbook: str) -> build.Dashboard:
    """The dashboard; its panels link to sections of the runbook."""
    page = (
        dashboard(
            UID,
            "Parallax: partition",
            "The replicas of one partition, and how far each view has read them.",
            runbook,
            place=True,
        )
        .with_variable(
            chosen(
                "topic",
                "Topic",
                'label_values(parallax_replica_high_watermark{cluster=~"$cluster"}, topic)',
                several=False,
            )
        )
        .with_variable(
            chosen(
                "partition",
                "Partition",
                'label_values(parallax_replica_high_watermark{cluster=~"$cluster", topic=~"$topic"}, partition)',
                several=False,
            )
        )
    )
    page = _verdict(page.with_row(build.Row("Verdict")))
    page = _replicas(page.with_row(build.Row("Replicas")))
    return _views(page.with_row(build.Row("Views")))


def _here(metric: str, *matchers: str) -> str:
    return of(metric, *matchers, place=True)


def _verdict(page: build.Dashboard) -> build.Dashboard:
    results = (_here("audit_result", f'result="{result}"') for result in Outcome)
    audited = " or ".join(f"{value} * max({result} == 1)" for value, result in enumerate(results, start=1))
    return (
        page.with_panel(
            number(
                "Divergences",
                "Open findings about this partition.",
                or_none(f"sum({_here('open_findings')})"),
                ANY_IS_BAD,
                runbook="parallaxdivergenceconfirmed",
            )
        )
        .with_panel(
            number(
                "Seen by consumers",
                "Of these, those that consumers read now.",
                or_none(f"sum({_here('open_findings_exposed')})"),
                ANY_IS_BAD,
                runbook="parallaxdivergenceexposed",
            )
        )
        .with_panel(
            number(
                "Offsets without a verdict",
                "Over both views.",
                f"sum({_here('unknown_offsets')})",
                runbook="parallaxcoverageunknown",
            )
        )
        .with_panel(
            number(
                "Since it was last compared",
                "When offsets of this partition last came out of the comparison.",
                f"time() - max({_here('compared_timestamp_seconds')})",
                unit="s",
            )
        )
        .with_panel(
            states(
                "Last audit",
                "What the last audit of the partition came to. Over: it found that replicas differed, and all of that "
                "is over since.",
                (audited, "last audit"),
                {str(value): (str(result), _COLOR[result]) for value, result in enumerate(Outcome, start=1)},
                span=4,
            ).height(4)
        )
        .with_panel(
            number(
                "Since the last audit",
                "When the last audit of this partition ended. Its result is of that time.",
                f"time() - max({_here('audit_result_timestamp_seconds')})",
                unit="s",
            )
        )
        .with_panel(
            lines(
                "Open findings",
                "By kind; a broker that is not named: nothing proves which replica is wrong.",
                (f"sum by (kind, broker_id) ({_here('open_findings')})", "{{kind}} {{broker_id}}"),
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Offsets without a verdict, by reason",
                "The reasons are those of docs/contribute/theory.md, What is unknown.",
                (
                    f"sum by (isolation_level, reason) ({_here('unknown_offsets')}) > 0",
                    "{{isolation_level}}: {{reason}}",
                ),
                stacked=True,
            )
        )
    )


def _replicas(page: build.Dashboard) -> build.Dashboard:
    page = page.with_panel(
        _of_each(
            "Last stable offset: behind the furthest replica",
            "Where one line rises and the others stay at 0, that replica is frozen: read_committed stands still.",
            _behind("replica_last_stable_offset"),
        )
    ).with_panel(
        _of_each(
            "High watermark: behind the furthest replica",
            "A replica that does not replicate falls behind in both.",
            _behind("replica_high_watermark"),
        )
    )
    for title, says, metric in (
        ("High watermark", _OF_ITSELF, "replica_high_watermark"),
        (
            "Last stable offset",
            "Up to where read_committed consumers of that replica may read.",
            "replica_last_stable_offset",
        ),
        ("Log start offset", "One that begins above the others may have lost its head.", "replica_log_start_offset"),
        ("Log end offset", _OF_ITSELF, "replica_log_end_offset"),
    ):
        page = page.with_panel(_of_each(title, says, _each(metric), span=6, floor=None))
    return (
        page.with_panel(
            _of_each(
                "Last stable offset stands still below the high watermark",
                "A long transaction does that on all replicas alike.",
                _each("replica_last_stable_offset_stalled_seconds"),
                unit="s",
            )
        )
        .with_panel(
            _of_each(
                "Until an absent replica may miss something",
                "Below 0, tombstones and end markers that it lacks may be gone from the others.",
                f"{_each('replica_removal_bound_timestamp_seconds')} - time()",
                unit="s",
                floor=None,
            )
        )
        .with_panel(
            _of_each(
                "Frozen, by the comparison",
                "For how long the last stable offset has been behind that of the others.",
                _each("replica_frozen_seconds"),
                unit="s",
            )
        )
    )


def _each(metric: str) -> str:
    return f"max by (broker_id) ({_here(metric)})"


def _behind(metric: str) -> str:
    return f"scalar(max({_here(metric)})) - {_each(metric)}"


def _of_each(title: str, says: str, expr: str, **options: Any) -> timeseries.Panel:
    return lines(title, says, (expr, _BROKER), **options)


def _views(page: build.Dashboard) -> build.Dashboard:
    position = _here("view_position")
    return (
        page.with_panel(
            lines(
                "Position of each view",
                "The next offset that is read of each replica, in each isolation level.",
                (f"max by (broker_id, isolation_level) ({position})", f"{_BROKER} {{{{isolation_level}}}}"),
                floor=None,
            )
        )
        .with_panel(
            lines(
                "Still to be read",
                "Offsets between the position and what the replica shows to that isolation level.",
                (
                    f"max by (broker_id, isolation_level) ({_here('view_lag_offsets')})",
                    f"{_BROKER} {{{{isolation_level}}}}",
                ),
            )
        )
        .with_panel(
            lines(
                "Compared up to",
                "The offset below which all replicas have been read; what is not judged there is unknown.",
                (f"max by (isolation_level) ({_here('compared_up_to_offset')})", "{{isolation_level}}"),
                floor=None,
            )
        )
        .with_panel(
            states(
                "Read whole since the start",
                "Whether every replica has been read up to where it was when the job started.",
                (f"min by (topic, partition) ({_here('initial_reading_complete')})", "{{topic}}-{{partition}}"),
                {"0": ("not yet", ORANGE), "1": ("yes", GREEN)},
                span=6,
            )
        )
        .with_panel(
            lines(
                "Unmatched state",
                "What is kept until the other replicas have shown it, too.",
                (f"sum({_here('comparison_state_bytes')})", "state"),
                unit="bytes",
                span=6,
            )
        )
    )


__all__ = ["UID", "partition"]
