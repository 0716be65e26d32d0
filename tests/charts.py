"""The Helm chart, rendered as a user renders it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from parallax.jars import cache_folder, made_once

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
    with made_once(kept) as missing:
        if missing:
            work = Path(tempfile.mkdtemp(prefix=".helm-", dir=kept.parent))
            try:
                install = ["go", "install", f"helm.sh/helm/v3/cmd/helm@{HELM}"]
                subprocess.run(install, env=os.environ | {"GOBIN": str(work)}, check=True)
                work.chmod(0o755)
                work.rename(kept)
            finally:
                shutil.rmtree(work, ignore_errors=True)
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
