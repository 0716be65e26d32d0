"""The Helm chart, rendered as a user renders it."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from parallax.jars import cache_folder

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "parallax"
HELM = "v3.19.4"
KUBERNETES = "1.34"


@cache
def helm() -> Path:
    """Helm, from its Go module where it is not on PATH."""
    found = shutil.which("helm")
    if found:
        return Path(found)
    kept = cache_folder() / f"helm-{HELM}"
    if not (kept / "helm").exists():
        made = {"GOBIN": str(kept)}
        subprocess.run(["go", "install", f"helm.sh/helm/v3/cmd/helm@{HELM}"], env=os.environ | made, check=True)
    return kept / "helm"


def rendered(release: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """What ``helm template`` prints."""
    command = [helm(), "template", release, CHART, "--kube-version", KUBERNETES, *options]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def documents(result: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    """The objects in it, by kind."""
    assert result.returncode == 0, result.stderr
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for document in yaml.safe_load_all(result.stdout):
        if document:
            by_kind.setdefault(document["kind"], []).append(document)
    return by_kind


__all__ = ["CHART", "KUBERNETES", "documents", "helm", "rendered"]
