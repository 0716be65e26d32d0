"""Write the dashboards, the alert rules, Alertmanager's routing and what the runbook says of the rules.

``--check`` says whether they are up to date.

``python -m dashboards --out FOLDER --grafana URL --selector 'namespace="kafka"' ...``: every one of `Parameters` is an
option.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.job import job
from dashboards.overview import overview
from dashboards.parameters import Parameters
from dashboards.partition import partition
from dashboards.routes import routes
from dashboards.rules import rules
from dashboards.runbook import with_alerts
from dashboards.templates import with_slack

ROOT = Path(__file__).resolve().parent.parent


def generated(parameters: Parameters) -> dict[str, str]:
    """The text of each file, by its path in the project."""
    pages = [_plain(make(parameters.runbook)) for make in (overview, partition, job)]
    files = {f"dashboards/{page['uid']}.json": f"{json.dumps(page, indent=2)}\n" for page in pages}
    of_prometheus = rules(parameters)
    return files | {
        "deploy/prometheus/parallax-rules.yaml": of_prometheus,
        "deploy/alertmanager/alertmanager.yaml": routes(),
        "deploy/alertmanager/parallax.tmpl": with_slack(_read("deploy/alertmanager/parallax.tmpl")),
        "docs/runbook.md": with_alerts(_read("docs/runbook.md"), of_prometheus),
    }


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _plain(builder: Any) -> dict[str, Any]:
    """The dashboard as Grafana imports it, each panel with an id of its own."""
    page: dict[str, Any] = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
    for number, panel in enumerate(page["panels"], start=1):
        panel["id"] = number
    # What the builders do not know: that a constant is hidden, and Prometheus' own fields of annotations.
    for variable in page["templating"]["list"]:
        if variable["type"] == "constant":
            variable["hide"] = 2
    for annotation in page["annotations"]["list"]:
        annotation.update(titleFormat="{{kind}}", textFormat="{{topic}}-{{partition}} {{broker_id}}")
    return page


def main() -> int:
    """Write or check; 1 where a file is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say what is not up to date")
    parser.add_argument("--out", type=Path, default=ROOT, help="folder to write to; the project's by default")
    for field in fields(Parameters):
        kind = int if isinstance(field.default, int) else str
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default, help="(%(default)s)")
    given = vars(parser.parse_args())
    check, out = given.pop("check"), given.pop("out")
    try:
        files = generated(Parameters(**given))
    except ValueError as error:
        parser.error(str(error))
    if check:
        stale = [name for name, text in files.items() if not _holds(out / name, text)]
        if stale:
            sys.stderr.write(f"run: make dashboards ({', '.join(stale)} not up to date)\n")
        return int(bool(stale))
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
