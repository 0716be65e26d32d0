"""Series as lists of values, and promtool's file of them: what is asked of Prometheus without one that runs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/parallax-rules.yaml"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"] if "alert" in rule
]

Values = Sequence[float | None]
"""A value for each scrape; None where there is none, because the scrape failed or because it has no such series."""


def series(metric: str, labels: Mapping[str, str]) -> str:
    """A series by its name without ``parallax_``."""
    name = metric if metric == "up" else f"parallax_{metric}"
    chosen = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{chosen}}}"


def notation(values: Values) -> str:
    """Values as promtool writes them: arithmetic runs, and a staleness marker where a series ends."""
    words: list[str] = []
    at = 0
    while at < len(values):
        first = values[at]
        end = at + 1
        if first is None:
            while end < len(values) and values[end] is None:
                end += 1
            ended = at > 0
            words += ["stale"] * ended + [f"_x{end - at - ended}"] * (end - at > ended)
        else:
            following = values[end] if end < len(values) else None
            step = 0.0 if following is None else following - first
            while end < len(values) and values[end] == first + step * (end - at):
                end += 1
            words.append(f"{first:.15g}{step:+.15g}x{end - at - 1}" if end - at > 1 else f"{first:.15g}")
        at = end
    return " ".join(words)


def document(
    given: Mapping[str, Values],
    asked: Iterable[tuple[str, int, Sequence[tuple[str, float]]]],
    *,
    step_s: int,
    evaluated_s: int | None = None,
    name: str = "",
) -> dict[str, Any]:
    """A file of tests for promtool.

    Args:
        given: values by series, from time 0 on.
        asked: expressions, the step at which they are asked, and the samples they shall have: labels and value.
        step_s: seconds from one scrape to the next.
        evaluated_s: seconds from one evaluation of the rules to the next; as of the scrapes by default.
        name: of the test.
    """
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{evaluated_s or step_s}s",
        "tests": [
            {
                "name": name,
                "interval": f"{step_s}s",
                "input_series": [{"series": one, "values": notation(values)} for one, values in given.items()],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": f"{step * step_s}s",
                        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
                    }
                    for expr, step, samples in asked
                ],
            }
        ],
    }


def run(*arguments: str) -> None:
    """Run promtool.

    Raises:
        AssertionError: it is not content, in its words.
    """
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


def run_tests(folder: Path, content: Mapping[str, Any]) -> None:
    """Have promtool run a file of tests."""
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False, width=10_000))
    run("test", "rules", str(path))


def said(folder: Path, given: Mapping[str, Values], at_s: int, step_s: int) -> dict[str, list[dict[str, str]]]:
    """The annotations of the alerts that fire at a time, by name and in the order of their labels."""
    content = document(given, (), step_s=step_s)
    content["tests"][0]["alert_rule_test"] = [
        {"eval_time": f"{at_s}s", "alertname": name, "exp_alerts": []} for name in {one["alert"] for one in ALERTS}
    ]
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=10_000))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    found: dict[str, list[dict[str, str]]] = {}
    for labels, words in re.findall(r"Labels:\{(.*)\}\s+Annotations:\{(.*)\}", done.stdout + done.stderr):
        name = re.search(r'alertname="(\w+)"', labels)
        assert name is not None, labels
        texts = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', words)
        found.setdefault(name[1], []).append({word: json.loads(text) for word, text in texts})
    return found
