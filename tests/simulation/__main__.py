"""Run histories for as long as asked: ``python -m tests.simulation --seconds 60 --seed 1 --jobs 2``.

Prints what was run and found; every failure prints its seed, the command that reproduces it, and a shrunken history.
Exit code 1 when a property did not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.world import Violation, run

MODES = {"healthy": (True,), "faulty": (False,), "both": (True, False)}


def main() -> int:
    """The command."""
    arguments = _arguments()
    end = time.monotonic() + arguments.seconds
    shares = [
        (arguments.seed + job, arguments.jobs, end, arguments.count, MODES[arguments.mode], arguments.failures)
        for job in range(arguments.jobs)
    ]
    started = time.monotonic()
    if arguments.jobs == 1:
        results = [work(*shares[0])]
    else:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            results = list(pool.map(work, *zip(*shares, strict=True)))
    counts: Counter[str] = sum((r[0] for r in results), Counter())
    failures = [failure for r in results for failure in r[1]]
    for failure in failures:
        print(failure, end="\n\n")
    spent = time.monotonic() - started
    print(f"{counts['histories']} histories in {spent:.0f} s, {len(failures)} failures")
    print("  " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after this long")
    parser.add_argument("--count", type=int, default=10**9, help="stop after this many seeds per job")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--mode", choices=sorted(MODES), default="both")
    parser.add_argument("--failures", type=int, default=5, help="stop a job after this many failures")
    return parser.parse_args()


def work(
    seed: int, stride: int, end: float, count: int, modes: tuple[bool, ...], most: int
) -> tuple[Counter[str], list[str]]:
    """Run seeds ``seed``, ``seed + stride``, ...: what was counted, and the texts of the failures."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for i in range(count):
        if time.monotonic() > end or len(failures) >= most:
            break
        for healthy in modes:
            counts["histories"] += 1
            try:
                world = run(seed + i * stride, healthy)
            except Violation as violation:
                failures.append(str(violation))
                continue
            counts["healthy" if healthy else "faulty"] += 1
            counts.update(world.tally())
    return counts, failures


if __name__ == "__main__":
    sys.exit(main())
