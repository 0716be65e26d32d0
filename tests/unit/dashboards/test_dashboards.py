"""The dashboards, as far as they can be checked without Grafana; tests/e2e/test_job.py runs their queries."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from dashboards.__main__ import ROOT, generated, main
from dashboards.expressions import seconds
from dashboards.findings import KNOWN, WORSE
from dashboards.parameters import Parameters
from dashboards.rules import rules
from dashboards.runbook import with_alerts
from parallax.alerting.conditions import CONDITIONS
from parallax.alerting.listing import ALARMS

FILES = sorted((ROOT / "dashboards").glob("*.json"))


def panels(page: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (panel for panel in page["panels"] if panel["type"] != "row")


@pytest.fixture(params=FILES, ids=[path.stem for path in FILES])
def page(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


def test_the_files_are_those_that_are_generated() -> None:
    for name, text in generated(Parameters()).items():
        assert (ROOT / name).read_text() == text, "run: make dashboards"


def test_the_runbook_has_the_severity_and_the_time_of_each_rule() -> None:
    page = "## ParallaxOne\n- **Meaning** (info): It is\n  so.\n- **Impact:** None.\n"
    rule = {"alert": "ParallaxOne", "for": "15m", "labels": {"severity": "critical"}}
    text = yaml.safe_dump({"groups": [{"rules": [rule, {"record": "one", "expr": "1"}]}]})
    said = "## ParallaxOne\n- **Meaning** (critical, 15m): It is so.\n- **Impact:** None.\n"
    assert with_alerts(page, text) == said
    assert with_alerts(said, text) == said
    with pytest.raises(ValueError, match="ParallaxOne is not both an alert and a section"):
        with_alerts("## ParallaxOne\n\nIt is so.\n", text)


def test_the_runbook_says_what_the_job_sends_by_itself() -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    marked = re.findall(r"^## (Parallax\w+)\n- \*\*Meaning\*\* \([^)]*webhook(: in its alert)?\)", page, re.MULTILINE)
    assert {name for name, in_another in marked if not in_another} == {*CONDITIONS, *(a.name for a in ALARMS.values())}
    assert {name for name, in_another in marked if in_another} == {WORSE, KNOWN}, "their names are in no message"


def test_alerts_about_findings_link_to_the_dashboard_where_grafana_is_named() -> None:
    text = rules(Parameters(grafana="https://grafana.example"))
    alerts = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    of_findings = [rule for rule in alerts if "alert" in rule and "finding:parallax_state" in rule["expr"]]
    assert of_findings
    for alert in of_findings:
        address, _, query = alert["annotations"]["dashboard_url"].partition("?")
        assert address.removeprefix("https://grafana.example/d/") in {path.stem for path in FILES}
        assert query == "var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}"


def test_every_series_of_the_rules_meets_the_selector() -> None:
    text = rules(Parameters(selector='namespace="kafka"'))
    exprs = [rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    asked = [found for expr in exprs for found in re.findall(r"(?<!:)\bparallax_\w+(\{[^}]*\})?", expr)]
    assert len(asked) > 100
    assert all(found.startswith('{namespace="kafka"') for found in asked)


def test_a_duration_that_is_none_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        patch.object(sys, "argv", ["dashboards", "--check", "--undecided", "15 minutes"]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == 2
    assert "'15 minutes' is no duration such as 15m or 1h30m" in capsys.readouterr().err
    assert seconds("1h30m") == 5400


def test_each_has_a_stable_id_of_its_own() -> None:
    assert [path.stem for path in FILES] == ["parallax-job", "parallax-overview", "parallax-partition"]
    assert [json.loads(path.read_text())["uid"] for path in FILES] == [path.stem for path in FILES]


def test_every_metric_stands_in_the_reference(page: dict[str, Any]) -> None:
    reference = set(re.findall(r"^\| `(parallax_\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
    used = set(re.findall(r"\bparallax_\w+(?=\{)", json.dumps(page)))
    assert len(used) > 10
    assert used <= reference


def test_every_panel_says_what_it_means_and_asks_the_chosen_source_about_the_chosen_clusters(
    page: dict[str, Any],
) -> None:
    for panel in panels(page):
        assert panel["description"], panel["title"]
        for asked in (panel, *panel["targets"]):
            assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            for selector in re.findall(r"(?<!:)\bparallax_\w+(\{[^}]*\})?", target["expr"]):
                assert 'cluster=~"$cluster"' in selector, target["expr"]


def test_every_number_has_its_unit(page: dict[str, Any]) -> None:
    for panel in panels(page):
        if panel["type"] in ("stat", "timeseries"):
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            if "time() -" in panel["targets"][0]["expr"] or "_seconds" in panel["targets"][0]["expr"]:
                assert panel["fieldConfig"]["defaults"]["unit"] == "s", panel["title"]


def test_no_panel_lies_over_another_or_outside_the_page(page: dict[str, Any]) -> None:
    places = [panel["gridPos"] for panel in page["panels"]]
    assert all(p["x"] >= 0 and p["x"] + p["w"] <= 24 for p in places)
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or above, (a, b)


def test_every_link_into_the_runbook_leads_to_a_section(page: dict[str, Any]) -> None:
    text = (ROOT / "docs/runbook.md").read_text()
    sections = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    linked = re.findall(r"\$\{runbook\}#([\w-]+)", json.dumps(page))
    assert linked
    assert set(linked) <= sections


def test_every_variable_that_a_query_uses_is_there(page: dict[str, Any]) -> None:
    there = {variable["name"] for variable in page["templating"]["list"]}
    used = set(re.findall(r"\$\{?(?!_)([a-z]+)", " ".join(t["expr"] for p in panels(page) for t in p["targets"])))
    assert used <= there


def test_what_suppresses_another_alert_of_a_finding_ends_last() -> None:
    """If it ended first, Alertmanager could send what it suppressed once more before that ends."""
    inhibits = yaml.safe_load((ROOT / "deploy/alertmanager/alertmanager.yaml").read_text())["inhibit_rules"]
    order = [
        rule.get("alert", "") for group in yaml.safe_load(rules(Parameters()))["groups"] for rule in group["rules"]
    ]

    def names(matchers: list[str]) -> list[int]:
        (named,) = re.findall(r"^alertname =~? (\S+)$", "\n".join(matchers), re.MULTILINE)
        return [order.index(name) for name in named.split("|")]

    # With `outgrown` only the end of an acknowledgement is suppressed, which fires no more.
    of_findings = [one for one in inhibits if one["equal"] == ["cluster", "finding_id"]]
    assert len(of_findings) == 3
    for one in of_findings:
        assert min(names(one["source_matchers"])) > max(names(one["target_matchers"])), one
