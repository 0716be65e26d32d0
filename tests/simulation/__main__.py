"""Run histories: ``python -m tests.simulation --seconds 60``, or as many as asked: ``--histories 200000 --jobs 2``.

Seeds are run in order, in shares; after each share a line says what has been run and where to go on (``--seed``).
Prints totals at the end: histories, what was done to the clusters, what was lost by it, what was found. Every failure
prints its seed, the command that reproduces it, and a shrunken history. Exit code 1 when a property did not hold.

``--second-opinion`` holds `parallax.judge` against the same histories instead of the product; with ``beside`` behind it
both run, and what they say otherwise of what is wrong at the end is counted. With ``asked`` the judge is asked about
what the comparison suspects alone, and held against itself after a look at everything.

``--blocks`` audits what was recorded by blocks as well as by rows, and holds the two against each other. ``--withheld``
and ``--spared`` do so with each micro-batch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from parallax.findings.incidents import ALONE
from tests.simulation.beside import Beside, opinion
from tests.simulation.blocks import Blocks
from tests.simulation.both import BothWays, both_ways
from tests.simulation.planned import Planned
from tests.simulation.second import Second
from tests.simulation.shadow import Shadow, ShadowAskingMore, ShadowOfAnswers
from tests.simulation.spared import Apart
from tests.simulation.withheld import Withheld
from tests.simulation.world import Violation, run

MODES = {"healthy": (True,), "faulty": (False,), "both": (True, False)}
BOTH_WAYS: dict[str, type[BothWays]] = {kind.option: kind for kind in (Blocks, Withheld, Apart)}
"""By option, the histories that are judged in two ways."""

SHARE = 250
"""Seeds that a process runs before it reports."""

GROUPS = {
    "did": "done to the clusters",
    "lost": "replicas that lost something by it",
    "kind": "histories of each kind",
    "confirmed": "findings confirmed",
    "wrong": "places that are wrong at the end, by what is told of them",
    "audited": "the same after an audit",
    "ran": "of the monitor",
    "said": "verdicts of the judge, in all looks",
    "known": "places that are wrong at the end, by what the judge says of them",
    "worlds": "keys that the judge looked at, by how many worlds each had",
    "judged": "of the judge",
    "beside": "what product and judge say otherwise at the end",
}
OPINIONS = {
    "alone": Second,
    "beside": Beside,
    "asked": Planned,
    "behind-probes": Shadow,
    "behind-probes-by-answers": ShadowOfAnswers,
    "behind-probes-that-ask-more": ShadowAskingMore,
}


def main() -> int:
    """The command."""
    arguments = _arguments()
    started = time.monotonic()
    counts: Counter[str] = Counter()
    failures: list[str] = []
    done = 0
    try:
        for first, last, more, found in _shares(arguments, started + arguments.seconds):
            counts += more
            failures += found
            done = max(done, last)
            for failure in found:
                print(failure, end="\n\n")
            spent = time.monotonic() - started
            rate = counts["histories"] / spent
            print(
                f"seeds {first} to {last - 1} done: {counts['histories']} histories in {spent:.0f} s ({rate:.0f}/s), "
                f"{len(failures)} failures; --seed {done} goes on",
                flush=True,
            )
            if len(failures) >= arguments.failures:
                break
    except KeyboardInterrupt:
        print(f"interrupted; --seed {done} goes on")
    _report(counts, len(failures), time.monotonic() - started)
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0**9, help="begin no share after this long")
    parser.add_argument("--count", type=int, default=10**9, help="stop after this many seeds")
    parser.add_argument("--histories", type=int, help="stop after this many histories (two a seed in mode both)")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--mode", choices=sorted(MODES), default="both")
    parser.add_argument("--alone", type=int, default=ALONE, help="more findings of a kind about one replica: incident")
    parser.add_argument("--kills", type=int, default=0, help="in so many operations the job is killed once; 0: never")
    parser.add_argument("--second-opinion", nargs="?", const="alone", choices=sorted(OPINIONS), help="hold the judge")
    twice = parser.add_mutually_exclusive_group()
    for name, of in (
        ("blocks", "audit by blocks and by rows"),
        ("withheld", "judge with rows withheld and with all at once"),
        ("spared", "judge by all rows and without those that are alike by their sums"),
    ):
        twice.add_argument(f"--{name}", action="store_const", const=name, dest="twice", help=of)
    parser.add_argument("--failures", type=int, default=10, help="stop after this many failures")
    arguments = parser.parse_args()
    if arguments.histories is not None:
        arguments.count = min(arguments.count, -(-arguments.histories // len(MODES[arguments.mode])))
    if arguments.count == 10**9 and arguments.seconds == 10.0**9:
        arguments.seconds = 60.0
    return arguments


Share = tuple[int, int, Counter[str], list[str]]


def _shares(arguments: argparse.Namespace, end: float) -> Iterator[Share]:
    """Run shares of the seeds side by side, for as long as there is time; each is yielded when it is done, in order."""
    stop = arguments.seed + arguments.count
    starts = iter(range(arguments.seed, stop, SHARE))
    modes = MODES[arguments.mode]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        running: dict[Future[Share], int] = {}
        waiting: dict[int, Share] = {}
        following = arguments.seed
        try:
            while True:
                while len(running) < arguments.jobs and time.monotonic() < end and (first := next(starts, -1)) >= 0:
                    how = arguments.alone, arguments.kills, arguments.second_opinion, arguments.twice
                    running[pool.submit(work, first, min(first + SHARE, stop), modes, *how)] = first
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    waiting[running.pop(future)] = future.result()
                while following in waiting:
                    share = waiting.pop(following)
                    following = share[1]
                    yield share
        finally:
            pool.shutdown(cancel_futures=True)


def work(
    first: int,
    last: int,
    modes: tuple[bool, ...],
    alone: int = ALONE,
    kills: int = 0,
    second: str | None = None,
    twice: str | None = None,
) -> Share:
    """Run the seeds of ``[first, last)``: what was counted, and the texts of the failures.

    ``second``: an opinion; ``twice``: in which two ways each is judged (`BOTH_WAYS`).
    """
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for seed in range(first, last):
        for healthy in modes:
            counts["histories"] += 1
            try:
                if twice is not None:
                    counts.update(both_ways(BOTH_WAYS[twice], seed, healthy, alone, kills).tally())
                elif second is not None:
                    counts.update(opinion(seed, healthy, alone, kills, kind=OPINIONS[second]).counts)
                else:
                    counts.update(run(seed, healthy, alone, kills).tally())
            except Violation as violation:
                failures.append(str(violation))
                continue
            counts["healthy" if healthy else "faulty"] += 1
    return first, last, counts, failures


def _report(counts: Counter[str], failures: int, spent: float) -> None:
    each = 1000 * spent / max(1, counts["histories"])
    print(f"\n{counts['histories']} histories in {spent:.0f} s ({each:.1f} ms each), {failures} failures")
    print(f"  held: {counts['healthy']} healthy, {counts['faulty']} faulty")
    for group, title in GROUPS.items():
        mine = sorted((name.removeprefix(f"{group} "), n) for name, n in counts.items() if name.startswith(f"{group} "))
        if mine:
            print(f"  {title}:")
        for name, count in mine:
            print(f"    {count:>9}  {name}")


if __name__ == "__main__":
    sys.exit(main())
