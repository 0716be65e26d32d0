"""Which rules and series promtool is given for a test."""

from __future__ import annotations

from tests.rules import promtool
from tests.rules.promtool import ALERTS


def test_a_test_gets_the_rules_on_which_its_questions_depend_and_annotations_it_asks_for() -> None:
    def rules(**asked: object) -> dict[str, set[str]]:
        content, _ = promtool.narrowed({"input_series": [], **asked})
        (group,) = content["groups"]
        return {rule.get("alert") or rule["record"]: rule.keys() - {"expr", "for", "labels"} for rule in group["rules"]}

    def asking(expr: str) -> dict[str, set[str]]:
        return rules(promql_expr_test=[{"expr": expr}])

    assert asking("vector(1)") == {}
    heard, former = "storage:parallax_heard_timestamp_seconds:max", "storage:parallax_former:max"
    assert asking(f"count({former})") == {heard: {"record"}, former: {"record"}}, "a rule reads the one before"
    outages = {"ParallaxReplicaOutage", "ParallaxReplicaRemoval"}
    unreachable = asking('ALERTS{alertname="ParallaxBrokerUnreachable"}')
    assert outages < unreachable.keys() > {"target:parallax_silent:max", "ParallaxAbsent"}
    assert unreachable["ParallaxReplicaOutage"] == {"alert"}
    every = {alert["alert"] for alert in ALERTS}
    assert (
        every
        < asking("ALERTS").keys()
        > asking('ALERTS{alertname!="ParallaxWatchdog"}').keys()
        > every - {"ParallaxWatchdog"}
    )
    told = rules(alert_rule_test=[{"alertname": "ParallaxBrokerUnreachable"}])
    assert told["ParallaxBrokerUnreachable"] == {"alert", "annotations"}
    assert told["ParallaxReplicaOutage"] == {"alert"}
    assert told.keys() - unreachable.keys() == {"cluster:parallax_page"}, "it is read by an annotation"


def test_a_test_gets_the_series_that_its_rules_or_its_questions_read() -> None:
    read = ['up{job="a"}', "parallax_build_info", 'parallax_findings_unlisted{cluster="a"}']
    test = {
        "input_series": [{"series": one, "values": "1"} for one in (*read, 'parallax_audit_last{cluster="a"}')],
        "promql_expr_test": [{"expr": 'ALERTS{alertname="ParallaxAbsent"} or parallax_findings_unlisted'}],
    }
    _, kept = promtool.narrowed(test)
    assert [one["series"] for one in kept["input_series"]] == read
