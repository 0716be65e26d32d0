"""Run the benchmarks one after the other: ``python -m benchmarks [NAME ...] [--quick]``."""

from __future__ import annotations

import argparse
import subprocess
import sys

NAMES = (
    *("read", "source", "compare", "spared", "state", "many", "probe"),
    *("page", "latency", "partitions", "cluster", "shared", "audit"),
)


def main() -> int:
    """Run the named benchmarks, each in a process of its own; 1 if any has failed.

    So no benchmark has another's memory or warm caches.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="all by default")
    parser.add_argument("--quick", action="store_true", help="small inputs: shows that they run, not how fast")
    options = parser.parse_args()
    failed = []
    for name in options.names or NAMES:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.bench_{name}", *(["--quick"] if options.quick else [])]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
