"""Ask whether a version in requirements.lock is known to be vulnerable, by pip-audit: part of ``make lint``.

Exit code 1 where one is, with a line for each vulnerability. What no service could be asked about is a line that
begins with "not audited", and no failure: a machine without a way to the services can still lint.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
OSV = "https://api.osv.dev/v1/query"
SERVICES = ("pypi", "osv")
"""In the order in which they are asked, until one knows the packages."""
_PATIENCE_S = 300


def asked(command: Sequence[str], lock: Path, service: str, osv_url: str) -> tuple[list[Mapping[str, Any]], str]:
    """What a service says of each package of a lock file, or why it says nothing."""
    options = ["-s", service, "--osv-url", osv_url, "-f", "json", "--disable-pip", "--progress-spinner", "off"]
    try:
        done = subprocess.run(
            [*command, "-r", str(lock), *options], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return [], f"no answer within {_PATIENCE_S} s"
    except OSError as error:
        return [], f"{command[0]}: {error.strerror}"
    try:
        return list(json.loads(done.stdout)["dependencies"]), ""
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip() or f"exit code {done.returncode} and no report").splitlines()[-1]
        return [], last.strip()[:200]


def audit(command: Sequence[str], lock: Path, services: Sequence[str], osv_url: str) -> int:
    """Ask the services, print what they say; return the exit code."""
    silent = []
    for service in services:
        packages, problem = asked(command, lock, service, osv_url)
        known = [package for package in packages if "skip_reason" not in package]
        if known:
            return _told(service, known, [package for package in packages if "skip_reason" in package])
        reasons = [str(package["skip_reason"]) for package in packages[:1]]
        silent.append(f"{service}: {problem or (reasons or ['it names no package'])[0]}")
    print(f"not audited: {lock.name}: {'; '.join(silent)}")
    return 0


def _told(service: str, known: Sequence[Mapping[str, Any]], skipped: Sequence[Mapping[str, Any]]) -> int:
    for package in skipped:
        print(f"not audited: {package['name']}: {package['skip_reason']}")
    vulnerable = [package for package in known if package.get("vulns")]
    for package in vulnerable:
        for one in package["vulns"]:
            names = ", ".join([one["id"], *one.get("aliases", ())])
            fixed = ", ".join(one.get("fix_versions", ())) or "no version yet"
            print(f"{package['name']} {package['version']}: {names}; mended in {fixed}", file=sys.stderr)
    if not vulnerable:
        print(f"packages audited by {service}: {len(known)}; none is known to be vulnerable")
    return 1 if vulnerable else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit the lock file; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lock", type=Path, default=LOCK)
    options.add_argument("--service", action="append", choices=SERVICES, help="may be repeated; all by default")
    options.add_argument("--osv-url", default=OSV, help="a mirror of OSV's")
    options.add_argument("--pip-audit", default=str(Path(sys.executable).with_name("pip-audit")))
    chosen = options.parse_args(arguments)
    return audit([chosen.pip_audit], chosen.lock, chosen.service or SERVICES, chosen.osv_url)


if __name__ == "__main__":
    sys.exit(main())
