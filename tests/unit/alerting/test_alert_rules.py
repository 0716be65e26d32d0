"""The alert rules, checked and run by promtool (Debian's package prometheus)."""

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
        assert alert["labels"]["severity"] in {"critical", "warning"} or name == "ParallaxWatchdog"
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        assert alert["annotations"]["runbook_url"].endswith(f"docs/runbook.md#{name.lower()}")
        assert name.lower() in sections


def test_every_alert_is_tested() -> None:
    tests = "".join(p.read_text() for p in (ROOT / "deploy/prometheus/tests").glob("*.yaml"))
    for alert in ALERTS:
        assert re.search(rf"alertname: {alert['alert']}\b", tests), alert["alert"]
