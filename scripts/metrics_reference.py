"""Write docs/metrics.md, from the collectors themselves: ``make metrics``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from prometheus_client.core import Metric

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.resources import ResourceCollector
from parallax.alerting.state import MonitorState
from parallax.alerting.webhook.heartbeat import Heartbeat
from parallax.alerting.webhook.metrics import WebhookCollector
from parallax.config import AlertingSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
HEAD = """# Metrics

What `/metrics` serves. This page is generated (`make metrics`). Where `alerting.cluster` is set, each sample has the
label `cluster` as well. Keys and producer ids are never labels, offsets only of `parallax_finding_info`: they
are in the findings table.

| metric | type | labels | what it says |
|---|---|---|---|
"""


def families() -> list[Metric]:
    """All metric families, whether or not they have samples yet."""
    heartbeat = Heartbeat(AlertingSettings(), time.monotonic)
    collectors = (ParallaxCollector(MonitorState()), ResourceCollector(), WebhookCollector(dict), heartbeat)
    return [family for collector in collectors for family in collector.collect()]


def exposed_name(family: Metric) -> str:
    """The name of the family's samples."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def page() -> str:
    """The page as it should be."""
    rows = []
    for family in sorted(families(), key=lambda f: f.name):
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ()))
        rows.append(f"| `{exposed_name(family)}` | {family.type} | {labels} | {family.documentation} |")
    return HEAD + "\n".join(rows) + "\n"


def main() -> int:
    """Write the page, or with ``--check`` say whether it is as it should be."""
    if "--check" in sys.argv:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
