"""Write the dashboards, or with ``--check`` say whether they are as they should be: ``python -m dashboards``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.job import job
from dashboards.overview import overview
from dashboards.partition import partition

FOLDER = Path(__file__).resolve().parent


def generated() -> dict[str, str]:
    """The text of each file, by its name."""
    return {
        f"{page['uid']}.json": f"{json.dumps(page, indent=2)}\n"
        for page in map(_plain, (overview(), partition(), job()))
    }


def _plain(builder: Any) -> dict[str, Any]:
    """The dashboard as Grafana imports it, each panel with an id of its own."""
    page: dict[str, Any] = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
    for number, panel in enumerate(page["panels"], start=1):
        panel["id"] = number
    for annotation in page["annotations"]["list"]:
        # Prometheus' own fields, which the builders do not know.
        annotation |= {"titleFormat": "{{kind}}", "textFormat": "{{topic}}-{{partition}} {{broker_id}}"}
    return page


def main() -> int:
    """Write or check."""
    files = generated()
    if "--check" in sys.argv:
        stale = [name for name, text in files.items() if _read(FOLDER / name) != text]
        if stale:
            sys.stderr.write(f"run: make dashboards ({', '.join(stale)} not up to date)\n")
        return int(bool(stale))
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
