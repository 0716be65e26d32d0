"""The alert rules and routes, checked and run by promtool and amtool (of Prometheus and of Alertmanager)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy/prometheus/parallax-rules.yaml"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def amtool(*arguments: str) -> str:
    done = subprocess.run(["amtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# A machine with nothing but Python and a JDK has no promtool; continuous integration installs it (.ci/run).
if shutil.which("promtool"):

    def test_promtool_accepts_the_rules() -> None:
        promtool("check", "rules", str(RULES))

    def test_the_rules_fire_and_hold_as_their_tests_say() -> None:
        promtool("test", "rules", *(str(p) for p in sorted((ROOT / "deploy/prometheus/tests").glob("*.yaml"))))


def test_every_alert_has_its_annotations_and_a_section_in_the_runbook() -> None:
    runbook = (ROOT / "docs/runbook.md").read_text()
    sections = {title.lower() for title in re.findall(r"^## (\w+)$", runbook, re.MULTILINE)}
    for alert in ALERTS:
        name = alert["alert"]
        assert name.startswith("Parallax")
        assert alert["labels"]["severity"] in {"critical", "warning", "info"} or name == "ParallaxWatchdog"
        said = {"summary", "description", "runbook_url"} | ({"command"} if "_acknowledged" in alert["expr"] else set())
        of_a_finding = {"kind", "broker_id", "offset", "kind_runbook_url", "command"}
        assert set(alert["annotations"]) == (said | of_a_finding if "parallax_finding_state" in alert["expr"] else said)
        assert alert["annotations"]["runbook_url"].endswith(f"docs/runbook.md#{name.lower()}")
        assert name.lower() in sections


if shutil.which("amtool"):

    def test_amtool_accepts_the_routes_and_routes_by_severity() -> None:
        routes = str(ROOT / "deploy/alertmanager/alertmanager.yaml")
        assert "SUCCESS" in amtool("check-config", routes)
        for labels, receiver in (
            (["severity=critical", "alertname=ParallaxDivergenceConfirmed"], "page"),
            (["severity=warning", "alertname=ParallaxMarkerMissing"], "ticket"),
            (["severity=none", "alertname=ParallaxWatchdog"], "dead-man"),
        ):
            assert amtool("config", "routes", "test", f"--config.file={routes}", *labels).strip() == receiver


def test_every_alert_is_tested() -> None:
    tests = "".join(p.read_text() for p in (ROOT / "deploy/prometheus/tests").glob("*.yaml"))
    for alert in ALERTS:
        assert re.search(rf"(alertname: |alertname=\"){alert['alert']}\b", tests), alert["alert"]
