"""What the dashboards show where the monitor is not known to work: nothing that is good, evaluated by promtool."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dashboards.expressions import WORKS, Expressions
from dashboards.parameters import Parameters
from parallax.alerting.conditions import CONDITIONS
from tests.rules import healthy, promtool
from tests.rules.promtool import ROOT, Values, series

PAGES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}
CHOSEN = {"$cluster": ".*", "$topic": "orders", "$partition": "0", "$__rate_interval": "5m"}
DIES = 20
"""The minute at which something happens to the job."""
MINUTES = 60


class Panel(NamedTuple):
    """A panel that has good values.

    Attributes:
        title: of its page and of the panel.
        kind: Grafana's.
        good: comparisons with which its query has the good values alone.
    """

    title: str
    kind: str
    query: str
    good: list[str]


def panels() -> Iterator[Panel]:
    for page in PAGES.values():
        for panel in page["panels"]:
            for target in panel.get("targets", ()):
                query = reduce(lambda text, name: text.replace(name, CHOSEN[name]), CHOSEN, target["expr"])
                if good := list(_good(panel)):
                    yield Panel(f"{page['uid']}: {panel['title']}", panel["type"], query, good)


def _good(panel: Mapping[str, Any]) -> Iterator[str]:
    """A number that is green; where it has no such colour, and on a line, a number that is 0."""
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    if panel["type"] == "state-timeline":
        for value, shown in defaults["mappings"][0]["options"].items():
            if shown["color"] == "green":
                yield f"== {value}"
        return
    if panel["type"] == "timeseries":
        yield "== 0"
    if panel["type"] == "stat":
        steps = defaults["thresholds"]["steps"]
        green = [index for index, step in enumerate(steps) if step["color"] == "green"]
        for index in green:
            low = steps[index]["value"]
            yield f">= {low}" if low is not None else f"< {steps[index + 1]['value']}"
        if not green:
            yield "== 0"


def killed(given: Mapping[str, Values]) -> dict[str, Values]:
    """Nothing is scraped any more."""
    up = [1.0 if n < DIES else 0.0 for n in range(MINUTES)]
    cut = {one: [*values[:DIES], *[None] * (MINUTES - DIES)] for one, values in given.items()}
    return {one: up if one.startswith("up{") else values for one, values in cut.items()}


def stalled(given: Mapping[str, Values]) -> dict[str, Values]:
    """The job answers, and compares nothing."""
    return {
        one: [*values[:DIES], *[values[DIES]] * (MINUTES - DIES)] if "heartbeat" in one else values
        for one, values in given.items()
    }


def starting(given: Mapping[str, Values]) -> dict[str, Values]:
    """The job has just been started, and has neither loaded its findings nor compared anything."""
    return {
        one: [*values[:DIES], *[None] * (MINUTES - DIES)] if "heartbeat" in one or "loaded" in one else values
        for one, values in given.items()
    }


def unable(given: Mapping[str, Values]) -> dict[str, Values]:
    """The job cannot keep what it finds."""
    return _from_then_on(given, "findings_writable", 0.0)


def full(given: Mapping[str, Values]) -> dict[str, Values]:
    """There is no space to record anything."""
    return _from_then_on(given, "storage_full", 1.0)


def misled(given: Mapping[str, Values]) -> dict[str, Values]:
    """Another cluster answers at an address of this one."""
    return _from_then_on(given, "cluster_mismatch", 1.0)


def paused(given: Mapping[str, Values]) -> dict[str, Values]:
    """No partition can be compared: an operator has paused all reading, or no broker answers."""
    return _from_then_on(given, "partitions_readable", 0.0)


def stuck(given: Mapping[str, Values]) -> dict[str, Values]:
    """One query makes no progress, while offsets come out of the comparison."""
    return {
        one: [*values[:DIES], *[values[DIES]] * (MINUTES - DIES)]
        if "last_progress" in one and 'query="progress"' in one
        else values
        for one, values in given.items()
    }


def _from_then_on(given: Mapping[str, Values], metric: str, value: float) -> dict[str, Values]:
    return {
        one: [*values[:DIES], *[value] * (MINUTES - DIES)] if metric in one else values for one, values in given.items()
    }


FINDINGS = series(
    "open_findings",
    {
        "job": "parallax",
        "instance": "a",
        "cluster": "eu",
        "kind": "record_missing",
        "severity": "critical",
        "topic": "orders",
        "partition": "0",
        "broker_id": "2",
        "status": "confirmed",
    },
)
EU = healthy.week(minutes=MINUTES, cluster="eu")
US = healthy.week(minutes=MINUTES, cluster="us", instance="b")

if shutil.which("promtool"):

    @pytest.mark.parametrize("fate", [killed, stalled, starting, unable, full, misled, paused, stuck])
    @pytest.mark.parametrize("others", [{}, US], ids=["the only cluster", "one of two"])
    def test_no_panel_shows_a_good_value_while_a_job_is_not_known_to_work(
        fate: Callable[[Mapping[str, Values]], dict[str, Values]], others: Mapping[str, Values], tmp_path: Path
    ) -> None:
        at = DIES + 8
        asked = [
            (f"({panel.query}) {good}", at, ())
            for panel in panels()
            for good in panel.good
            # A line is what somebody says: it may well be at 0 while there is somebody.
            if panel.kind != "timeseries" or (fate is killed and not others)
        ]
        assert len(asked) > 25
        promtool.run_tests(tmp_path, promtool.document(fate(EU) | others, asked, step_s=60))

    def test_a_tile_that_showed_findings_shows_neither_them_nor_none_once_the_job_is_killed(tmp_path: Path) -> None:
        given = killed(EU | {FINDINGS: [3.0] * MINUTES})
        (tile,) = (p.query for p in panels() if p.title == "parallax-overview: Divergences")
        asked = [(tile, DIES - 1, [("{}", 3)]), *((tile, n, ()) for n in range(DIES, MINUTES))]
        promtool.run_tests(tmp_path, promtool.document(given, asked, step_s=60))

    def test_findings_are_shown_although_the_job_of_another_cluster_is_away(tmp_path: Path) -> None:
        given = killed(US) | EU | {FINDINGS: [3.0] * MINUTES}
        (tile,) = (p.query for p in panels() if p.title == "parallax-overview: Divergences")
        promtool.run_tests(tmp_path, promtool.document(given, [(tile, DIES + 8, [("{}", 3)])], step_s=60))

    def test_where_all_is_well_each_number_of_the_overview_is_shown(tmp_path: Path) -> None:
        tiles = [p.query for p in panels() if p.title.startswith("parallax-overview") and p.kind == "stat"]
        asked = [(f"count({tile})", DIES, [("{}", 1)]) for tile in tiles]
        assert len(asked) > 15
        promtool.run_tests(tmp_path, promtool.document(EU | US, asked, step_s=60))

    @pytest.mark.parametrize("minutes", [2 * healthy.DAY, pytest.param(healthy.WEEK, marks=pytest.mark.release)])
    def test_in_a_quiet_week_the_job_works_but_while_it_is_away_or_starting(minutes: int, tmp_path: Path) -> None:
        away = {n for at in healthy.STOPPED for n in range(at, at + healthy.AWAY + healthy.STARTING)}
        asked = [
            (WORKS, n, [(f'{WORKS}{{cluster="eu"}}', float(n not in away))])
            for n in (*range(healthy.STARTING, minutes, 97), *sorted(n for n in away if n < minutes))
        ]
        promtool.run_tests(tmp_path, promtool.document(healthy.week(minutes, cluster="eu"), asked, step_s=60))


@pytest.mark.parametrize("name", [name for name, one in CONDITIONS.items() if one.is_blind])
def test_what_makes_the_job_blind_is_what_keeps_it_from_working(name: str) -> None:
    assert f"parallax_{CONDITIONS[name].metrics[0]}" in Expressions(Parameters()).works()


@pytest.mark.parametrize("name", PAGES)
def test_whether_the_monitor_works_is_the_first_thing(name: str) -> None:
    row, first, *_ = sorted(PAGES[name]["panels"], key=lambda panel: (panel["gridPos"]["y"], panel["gridPos"]["x"]))
    assert (row["title"], first["title"]) == ("Does the monitor work?", "Monitor")
    texts = first["fieldConfig"]["defaults"]["mappings"][0]["options"]
    assert {value: (shown["text"], shown["color"]) for value, shown in texts.items()} == {
        "0": ("cannot tell", "red"),
        "1": ("works", "green"),
    }
    assert first["fieldConfig"]["defaults"]["noValue"] == "unknown"


def test_nothing_is_0_for_want_of_anything_to_add_up() -> None:
    assert "vector(0)" not in json.dumps(PAGES)
