"""What the dashboards are made of: variables, queries, and panels with the project's defaults.

Builders are Grafana's own (grafana-foundation-sdk); what a panel needs in every dashboard is said here once. So is that
no panel shows a good value, neither green nor a 0, while a job is not known to work: what it has to say is unknown
then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import common, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards import expressions

TAG = "parallax"
RUNBOOK = "${runbook}"
"""A hidden variable of each dashboard: an installation may have its runbook elsewhere."""
SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"
Steps = Sequence[tuple[float | None, str]]
ANY_IS_BAD: Steps = ((None, GREEN), (1, RED))
ANY_IS_ODD: Steps = ((None, GREEN), (1, ORANGE))
NEUTRAL: Steps = ((None, BLUE),)

Series = tuple[str, str]
"""A query and its legend."""

_WORKS = f'(min({expressions.WORKS}{{cluster=~"$cluster"}}) == 1)'
"""A series where all jobs of the chosen clusters are known to work; none else."""


def of(metric: str, *matchers: str, place: bool = False) -> str:
    """A metric of the clusters that are chosen.

    Args:
        metric: its name without ``parallax_``.
        matchers: label matchers, e.g. ``status="confirmed"``.
        place: of the topics and partitions that are chosen as well.
    """
    chosen = ['cluster=~"$cluster"']
    if place:
        chosen += ['topic=~"$topic"', 'partition=~"$partition"']
    return f"parallax_{metric}{{{', '.join([*chosen, *matchers])}}}"


def or_none(query: str, none: str = "0") -> str:
    """The query's value; 0 if there is nothing to count and all jobs are known to work."""
    return f"{query} or ({none} * {_WORKS} and on () {of('findings_loaded')})"


def _trusted(query: str, good: str) -> str:
    """The query's values, those that are good only where all jobs are known to work.

    Args:
        query: what is asked.
        good: a comparison that the good values meet.
    """
    bad = {"==": "!=", "<": ">=", ">=": "<"}
    operator, value = good.split()
    return f"({query}) {bad[operator]} {value} or ({query}) and on () {_WORKS}"


def _good(steps: Steps) -> str:
    """The comparison that good values meet: those that are green, or where no colour is, 0."""
    for index, (value, color) in enumerate(steps):
        if color == GREEN:
            return f">= {value:g}" if value is not None else f"< {steps[index + 1][0]:g}"
    return "== 0"


def _thresholds(steps: Steps) -> build.ThresholdsConfig:
    found = [model.Threshold(value=value, color=color) for value, color in steps]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(found)


def _query(expr: str, legend: str, index: int) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(chr(ord("A") + index)).datasource(SOURCE)


def _values(texts: Mapping[str, tuple[str, str]]) -> list[model.ValueMapping]:
    results = {value: model.ValueMappingResult(text=text, color=color) for value, (text, color) in texts.items()}
    return [model.ValueMap(options=results)]


def number(
    title: str,
    says: str,
    expr: str,
    steps: Steps = NEUTRAL,
    *,
    unit: str = "short",
    texts: Mapping[str, tuple[str, str]] | None = None,
    runbook: str = "",
) -> stat.Panel:
    """One number, coloured by its thresholds.

    Args:
        title: of the panel.
        says: what it means, and what to do about it.
        expr: the query.
        steps: from which value on it has which colour.
        unit: Grafana's id of the unit.
        texts: the text for some values, and its colour.
        runbook: the section of the runbook that the panel links to.
    """
    panel = (
        stat.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .with_target(_query(_trusted(expr, _good(steps)), "", 0).instant())
        .unit(unit)
        .thresholds(_thresholds(steps))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .color_mode(common_model.BigValueColorMode.BACKGROUND)
        .graph_mode(common_model.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value("unknown")
        .height(4)
        .span(4)
    )
    if texts:
        panel = panel.mappings(_values(texts))
    return panel.links([_link("Runbook", f"{RUNBOOK}#{runbook}")]) if runbook else panel


def lines(
    title: str,
    says: str,
    *series: Series,
    unit: str = "short",
    stacked: bool = False,
    span: int = 12,
    floor: float | None = 0,
) -> timeseries.Panel:
    """Values over time.

    Args:
        title: of the panel.
        says: what it means.
        series: queries and their legends.
        unit: Grafana's id of the unit.
        stacked: draw areas on one another: what is shown adds up.
        span: width, of 24.
        floor: where the axis begins at the latest; None where the values are far from it.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .targets([_query(expr, legend, i) for i, (expr, legend) in enumerate(series)])
        .unit(unit)
        .decimals(0 if unit == "short" else 1)
        .line_width(1)
        .fill_opacity(25 if stacked else 0)
        .show_points(common_model.VisibilityMode.AUTO)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_model.LegendDisplayMode.TABLE)
            .placement(common_model.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_model.TooltipDisplayMode.MULTI)
            .sort(common_model.SortOrder.DESCENDING)
        )
        .height(9)
        .span(span)
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(common_model.StackingMode.NORMAL).group("A"))
    return panel if floor is None else panel.axis_soft_min(floor)


def rows_of(
    title: str,
    says: str,
    expr: str,
    columns: Mapping[str, str],
    *,
    link: str = "",
    span: int = 24,
) -> table.Panel:
    """A table of what is open now: one row for each series.

    Args:
        title: of the panel.
        says: what it means.
        expr: the query.
        columns: labels that are shown, in order, and their headings; ``Value`` is the number.
        link: an address that each row links to; Grafana puts the row's fields in.
        span: width, of 24.
    """
    order = {label: index for index, label in enumerate(columns)}
    panel = (
        table.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .with_target(_query(expr, "", 0).instant().format(PromQueryFormat.TABLE))
        .with_transformation(
            model.DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": list(columns)}})
        )
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize", options={"indexByName": order, "renameByName": dict(columns), "excludeByName": {}}
            )
        )
        .no_value("none known")
        .filterable(True)
        .height(8)
        .span(span)
    )
    return panel.data_links([_link("Show the partition", link, new=False)]) if link else panel


def states(
    title: str, says: str, series: Series, texts: Mapping[str, tuple[str, str]], *, span: int = 12
) -> statetimeline.Panel:
    """States over time, one line for each series.

    Args:
        title: of the panel.
        says: what it means.
        series: the query and its legend.
        texts: what each value means, and its colour.
        span: width, of 24.
    """
    expr, legend = series
    for value in (value for value, (_, color) in texts.items() if color == GREEN):
        expr = _trusted(expr, f"== {value}")
    return (
        statetimeline.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .with_target(_query(expr, legend, 0))
        .mappings(_values(texts))
        .thresholds(_thresholds(NEUTRAL))
        .show_value(common_model.VisibilityMode.NEVER)
        .height(9)
        .span(span)
    )


def _link(title: str, url: str, *, new: bool = True) -> build.DashboardLink:
    return build.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url).target_blank(new)


def chosen(name: str, label: str, query: str, *, several: bool = True) -> build.QueryVariable:
    """A variable whose values Prometheus knows.

    Args:
        name: of the variable.
        label: what the user sees.
        query: ``label_values(...)``.
        several: several values, or all, may be chosen.
    """
    variable = (
        build.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.NATURAL_ASC)
    )
    if not several:
        return variable
    every = model.VariableOption(selected=True, text="All", value="$__all")
    return variable.multi(True).include_all(True).all_value(".*").current(every)


def dashboard(uid: str, title: str, says: str, runbook: str, *, place: bool = False) -> build.Dashboard:
    """A dashboard with what all have: data source, cluster, links, marks while findings stand, and whether it works.

    Args:
        uid: by which it is found, whatever it is called.
        title: what it is called.
        says: what it is for.
        runbook: the address of the runbook.
        place: it is about the topic and the partition that are chosen.
    """
    page = (
        build.Dashboard(title)
        .uid(uid)
        .description(says)
        .tags([TAG])
        .readonly()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .timezone("browser")
        .time("now-3h", "now")
        .refresh("30s")
        .link(
            build.DashboardLink("Parallax")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
        .link(_link("Runbook", RUNBOOK))
        .with_variable(build.ConstantVariable("runbook").label("Runbook").value(runbook))
        .with_variable(build.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(chosen("cluster", "Cluster", "label_values(parallax_build_info, cluster)"))
        .annotation(
            build.AnnotationQuery()
            .name("Open findings")
            .datasource(SOURCE)
            .enable(True)
            .icon_color(RED)
            .expr(f"sum by (kind, topic, partition, broker_id) ({of('open_findings', place=place)}) > 0")
        )
    )
    return _works(page.with_row(build.Row("Does the monitor work?")))


def _works(page: build.Dashboard) -> build.Dashboard:
    """The first thing to look at: where it does not, nothing else can be trusted."""
    each = "max by (cluster, job, instance)"
    return (
        page.with_panel(
            number(
                "Monitor",
                "Whether each job of the chosen clusters answers, compares, and can keep its findings. While one does "
                "not, panels show what is known to be bad, and else nothing: what they would say is unknown.",
                f'min({expressions.WORKS}{{cluster=~"$cluster"}})',
                ((None, RED), (1, GREEN)),
                texts={"0": ("cannot tell", RED), "1": ("works", GREEN)},
                runbook="parallaxabsent",
            ).span(8)
        )
        .with_panel(
            number(
                "Since offsets were last compared",
                "End to end: read from brokers, recorded, and compared; of the job that is furthest behind.",
                f"time() - min({each} ({of('heartbeat_timestamp_seconds')}))",
                ((None, GREEN), (60, ORANGE), (300, RED)),
                unit="s",
                runbook="parallaxstalled",
            ).span(8)
        )
        .with_panel(
            number(
                "Findings can be kept",
                "Whether the findings table can be read and written.",
                f"min({of('findings_writable')})",
                ((None, RED), (1, GREEN)),
                texts={"0": ("no", RED), "1": ("yes", GREEN)},
                runbook="parallaxfindingsnotwritable",
            ).span(8)
        )
    )
