"""Series as lists of values, and promtool's file of them: what is asked of Prometheus without one that runs.

promtool parses each rule again at each evaluation, and expands the annotations of each alert that fires. So each test
gets the rules and series that its questions depend on: the others change no answer, and cost most of the time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/parallax-rules.yaml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
NAMED: dict[str, dict[str, Any]] = {
    rule.get("record") or rule["alert"]: rule for group in GROUPS for rule in group["rules"]
}
"""All rules, by what they record or by their alert."""
ALERTS = [rule for rule in NAMED.values() if "alert" in rule]

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


def _read(text: str) -> Iterator[str]:
    """The rules whose series an expression, or a template that has one, may read."""
    yield from (name for name, rule in NAMED.items() if "record" in rule and name in text)
    for chosen in re.findall(r"ALERTS\w*({[^}]*})?", text):
        operator, name = re.findall(r'alertname([!=~]+)"(.*?)"', chosen + 'alertname!=""')[0]
        pattern = name if "~" in operator else re.escape(name)
        alerts = (alert["alert"] for alert in ALERTS)
        yield from (alert for alert in alerts if ("!" in operator) != bool(re.fullmatch(pattern, alert)))


def narrowed(test: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rules on which the answers to a test depend, and the test without series that neither they nor it read.

    Annotations are left out where none are asked for.

    Args:
        test: one of ``tests`` of a file for promtool.

    Returns:
        The content of a file of rules, and the test.
    """
    told = {one["alertname"] for one in test.get("alert_rule_test", ())}
    rules = {
        name: rule if name in told else {key: value for key, value in rule.items() if key != "annotations"}
        for name, rule in NAMED.items()
    }
    texts = [one["expr"] for one in test.get("promql_expr_test", ())]
    found: set[str] = set()
    left = told.union(*map(_read, texts))
    while left:
        found |= left
        new = [text for name in left for text in (rules[name]["expr"], *rules[name].get("annotations", {}).values())]
        left = set[str]().union(*map(_read, new)) - found
        texts += new
    kept = [group | {"rules": [rule for name, rule in rules.items() if name in found]} for group in GROUPS]
    read = [one for one in test["input_series"] if any(re.split("[{ ]", one["series"])[0] in text for text in texts)]
    return {"groups": kept}, {**test, "input_series": read}


def _output(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Collecting garbage takes a third of promtool's time by default.
    environment = {**os.environ, "GOGC": "400"}
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, env=environment)


def run(*arguments: str) -> None:
    """Run promtool.

    Raises:
        AssertionError: it is not content, in its words.
    """
    done = _output(*arguments)
    failed = re.sub(r"Unit Testing:.*\n  SUCCESS\n+", "", done.stdout + done.stderr)
    assert done.returncode == 0, failed[-6000:]


def _written(folder: Path, *contents: Mapping[str, Any]) -> list[str]:
    """The paths of files of tests, each with one test and rules of its own."""
    paths = []
    for number, (content, test) in enumerate((one, test) for one in contents for test in one["tests"]):
        rules, kept = narrowed(test)
        asked = {**content, "rule_files": [f"rules-{number}.yaml"], "tests": [kept]}
        for name, written in ((f"rules-{number}.yaml", rules), (f"test-{number}.yaml", asked)):
            (folder / name).write_text(json.dumps(written, ensure_ascii=False))
        paths.append(str(folder / f"test-{number}.yaml"))
    return paths


class _Loader(yaml.SafeLoader):
    """Reads ``0x80`` as the eighty zeros of a series, as promtool does, and not as a number."""


_Loader.add_constructor(
    "tag:yaml.org,2002:int",
    lambda loader, node: node.value if "x" in node.value else yaml.SafeLoader.construct_yaml_int(loader, node),
)


def read_tests(path: Path) -> dict[str, Any]:
    """A file of tests."""
    return yaml.load(path.read_text(), _Loader)


def run_tests(folder: Path, *contents: Mapping[str, Any]) -> None:
    """Have promtool run files of tests."""
    run("test", "rules", *_written(folder, *contents))


def said(folder: Path, given: Mapping[str, Values], at_s: int, step_s: int) -> dict[str, list[dict[str, str]]]:
    """The annotations of the alerts that fire at a time, by name and in the order of their labels."""
    content = document(given, (), step_s=step_s)
    content["tests"][0]["alert_rule_test"] = [
        {"eval_time": f"{at_s}s", "alertname": alert["alert"], "exp_alerts": []} for alert in ALERTS
    ]
    done = _output("test", "rules", *_written(folder, content))
    found: dict[str, list[dict[str, str]]] = {}
    for labels, words in re.findall(r"Labels:\{(.*)\}\s+Annotations:\{(.*)\}", done.stdout + done.stderr):
        name = re.search(r'alertname="(\w+)"', labels)
        assert name is not None, labels
        texts = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', words)
        found.setdefault(name[1], []).append({word: json.loads(text) for word, text in texts})
    return found
