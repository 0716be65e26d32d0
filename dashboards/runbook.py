"""What the runbook says of each alert by its rule: severity, duration of the condition, sender."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

import yaml

from dashboards.findings import KNOWN, WORSE
from parallax.alerting.conditions import CONDITIONS
from parallax.alerting.listing import ALARMS

BY_THE_JOB: Mapping[str, str] = {
    **dict.fromkeys((*CONDITIONS, *(alarm.name for alarm in ALARMS.values())), "webhook"),
    **dict.fromkeys((WORSE, KNOWN), "webhook: in its alert"),
}
"""How the job's own messages speak of an alert. Two have no name there: the alert of the finding's state says it."""
_WIDTH = 110
_MEANING = re.compile(r"^## (Parallax\w+)\n- \*\*Meaning\*\* \([^)]*\):((?: .*\n)(?:  .*\n)*)", re.MULTILINE)


def with_alerts(page: str, rules: str) -> str:
    """The runbook with the facts of each rule behind the word "Meaning" of its section.

    Args:
        page: Markdown. The section of an alert begins with a heading of its name and ``- **Meaning** (...): ``.
        rules: what Prometheus loads, YAML.

    Raises:
        ValueError: an alert has no such section, or a section no alert.
    """
    every = (rule for group in yaml.safe_load(rules)["groups"] for rule in group["rules"])
    alerts = {rule["alert"]: rule for rule in every if "alert" in rule}
    sections = [found[1] for found in _MEANING.finditer(page)]
    if unlike := sorted(alerts.keys() ^ set(sections)):
        raise ValueError(f"docs/runbook.md: {unlike[0]} is not both an alert and a section; mend whichever is wrong")

    def said(found: re.Match[str]) -> str:
        text = f"- **Meaning** ({_facts(alerts[found[1]])}): {' '.join(found[2].split())}"
        wrapped = textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        return f"## {found[1]}\n{wrapped}\n"

    return _MEANING.sub(said, page)


def _facts(rule: Mapping[str, Any]) -> str:
    facts = (rule["labels"]["severity"], rule.get("for", ""), BY_THE_JOB.get(rule["alert"], ""))
    return ", ".join(filter(None, facts))
