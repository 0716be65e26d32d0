"""Mutation score of what judges: ``python -m tests.mutation``; see docs/contribute/proven.md.

Every mutant is tried in a process forked from one that has everything imported. Its trial is the tests that run the
changed statement, of the simulator's histories with fixed seeds and the unit tests that hold the module. The first
test that notices ends the trial. Results are appended to a file, and mutants that are in it already are not tried
again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TextIO

from tests.mutation.mutants import Mutant, is_another_program, mutants
from tests.mutation.reach import Reach
from tests.mutation.trial import HELD, Tried, collect, files_of, reach, trial

ROOT = Path(__file__).parents[2] / "streaming"
SAME = "the same program"
"""The result of a mutant that only changes annotations or decorators: it is not counted."""
TOO_LONG = 2
"""A mutant that takes so many times the CPU of the program as it is, for the same tests, does not come to an end."""
WITH_IO = ("__init__", "feed", "processor", "query", "recorded", "results", "tables", "together")
"""Of ``compare/``: what stands around the decisions. Tests on real tables and in Spark hold it, which are no trial."""
COMPILED = ("quiet",)
"""Of ``compare/``: what is one compiled program. It decides nothing, and each mutant would have to be compiled anew."""
MODULES = (
    *(
        f"{folder}/{path.stem}"
        for folder in ("compare", "compare/rules", "evidence", "findings/decide", "judge")
        for path in sorted((ROOT / "parallax" / folder).glob("*.py"))
        if path.stem not in (*WITH_IO, *COMPILED)
    ),
    *(f"findings/{name}" for name in ("answers", "judging", "ledger", "lifecycle", "questions")),
)
GROUPS = {
    "by-sums": tuple(
        f"compare/{name}"
        for name in ("agreed", "blocks", "footers", "going", "passes", "spared", "sums", "withheld", "withholding")
    ),
    "judge": tuple(name for name in MODULES if name.startswith(("evidence/", "judge/"))),
}
"""By a name for ``--modules``: what compares by sums, where rows need not be read; the second opinion, with its
evidence."""


def main() -> int:
    """The command."""
    arguments = _arguments()
    known = _known(arguments.results)
    chosen: list[Mutant] = []
    for module in arguments.modules:
        found = mutants(ROOT, f"parallax/{module}.py")
        before = {mutant for draw in arguments.but for mutant in _drawn(found, *draw)}
        left = [mutant for mutant in found if mutant not in before]
        chosen += sorted(_drawn(left, arguments.seed, arguments.sample), key=lambda m: m.line)
    held_by = {_held(f"parallax/{module}.py") for module in arguments.modules}
    _import(held_by)
    # In an order drawn over all modules, so that a run that is stopped has tried a fair part of each.
    in_order = random.Random(arguments.seed).sample(chosen, len(chosen))
    reached: dict[str, Reach] = {}
    for name in sorted(held_by):
        paths = [f"parallax/{module}.py" for module in arguments.modules]
        found_of = _reach(name, [path for path in paths if _held(path) == name], arguments.results)
        if isinstance(found_of, str):
            print(f"the program as it is does not pass: {found_of}")
            return 2
        reached[name] = found_of
    with arguments.results.open("a") as results:
        for mutant in in_order:
            if mutant.name not in known:
                known[mutant.name] = _tried(mutant, reached[_held(mutant.path)], results)
    _report(chosen, known)
    return 0


def _drawn(found: list[Mutant], seed: int, sample: int) -> list[Mutant]:
    return random.Random(seed).sample(found, min(sample, len(found)))


def _held(path: str) -> str:
    """Which of `HELD` a module is of."""
    return next(name for name, held in HELD.items() if Path(path).parts[1] in held.packages)


def _reach(name: str, paths: list[str], results: Path) -> Reach | str:
    """What the tests run to which mutants of some packages are put, from a file beside the results.

    Only what is not known yet is run: all if a source has changed, else files of tests that have.
    """
    files, names = files_of(HELD[name]), HELD[name].histories
    sources = sorted(path for folder in (ROOT / "parallax", ROOT.parent / "tests") for path in folder.rglob("*.py"))
    others = [path for path in sources if str(path.relative_to(ROOT.parent)) not in files]
    mark = hashlib.sha256(b"".join(path.read_bytes() for path in others)).hexdigest()
    marks = {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files}
    noted_in = results.with_suffix(f".{name}.json")
    noted = json.loads(noted_in.read_text()) if noted_in.exists() else {}
    known = Reach({}, 0.0, {})
    if (noted.get("mark"), noted.get("paths")) == (mark, paths):
        same = {file for file in files if marks[file] == noted["marks"].get(file)}
        known, names = Reach(**noted["reach"]).only({*names, *same}), ()
        files = [file for file in files if file not in same]
    found = reach(names, files, paths) if names or files else Reach({}, 0.0, {})
    if isinstance(found, Reach):
        found = known.with_more(found)
        noted_in.write_text(json.dumps({"mark": mark, "paths": paths, "marks": marks, "reach": asdict(found)}))
    return found


def _tried(mutant: Mutant, reached: Reach, results: TextIO) -> Tried:
    started = time.monotonic()
    tests = reached.tests_of(mutant, ROOT)
    tried = _trial(mutant, tests, reached.cost_of(tests)) if is_another_program(mutant, ROOT) else Tried(SAME, 0.0)
    line = {"mutant": mutant.name, **asdict(tried), "s": round(time.monotonic() - started, 1), "tests": len(tests)}
    print(json.dumps(line), file=results, flush=True)
    return tried


def _trial(mutant: Mutant, tests: list[str], cost_s: float) -> Tried:
    """Put a mutant to some tests; what ends the trial does not end it without the mutant.

    Args:
        mutant: the change.
        tests: names of the tests.
        cost_s: seconds of CPU that they take.
    """
    tried = trial(mutant, ROOT, tests, _limit_s(cost_s)) if tests else Tried("survived", 0.0)
    if tried.is_too_long:
        tried = trial(mutant, ROOT, tests, _limit_s(trial(None, ROOT, tests).cpu_s))
    if tried.failed and not _passes(tried.failed):
        return _trial(mutant, [test for test in tests if test != tried.failed], cost_s)
    return tried


def _limit_s(cost_s: float) -> int:
    return round(TOO_LONG * cost_s) + 10


@cache
def _passes(test: str) -> bool:
    """Whether the program as it is passes a test that runs alone."""
    return trial(None, ROOT, [test]).result == "survived"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--modules", nargs="+", choices=(*GROUPS, *MODULES), default=MODULES, metavar="MODULE", help=", ".join(GROUPS)
    )
    parser.add_argument(
        "--sample", type=int, default=10**9, help="look at so many places of each module, drawn at random"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument(
        "--but",
        nargs="+",
        type=lambda text: [int(part) for part in text.split(":")],
        default=[],
        metavar="SEED:SAMPLE",
        help="leave out what these draws have looked at",
    )
    parser.add_argument("--results", type=Path, default=Path("build/mutation.jsonl"))
    arguments = parser.parse_args()
    arguments.modules = [one for name in arguments.modules for one in GROUPS.get(name, (name,))]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    return arguments


def _known(results: Path) -> dict[str, Tried]:
    if not results.exists():
        return {}
    lines = (json.loads(line) for line in results.read_text().splitlines())
    return {line["mutant"]: Tried(line["result"], line["cpu_s"]) for line in lines}


def _import(held_by: Iterable[str]) -> None:
    """Import what is changed and what it is put to, so that no trial has to."""
    for module in MODULES:
        importlib.import_module(f"parallax.{module.replace('/', '.')}")
    for name in held_by:
        collect(files_of(HELD[name]))


def _report(chosen: list[Mutant], known: dict[str, Tried]) -> None:
    tried: Counter[str] = Counter()
    alive: Counter[str] = Counter()
    for mutant in chosen:
        if known[mutant.name].result == SAME:
            continue
        tried[mutant.path] += 1
        if known[mutant.name].result == "survived":
            alive[mutant.path] += 1
            print(f"survived: {mutant.name}")
    print(f"{'module':<40} mutants killed score")
    for path, count in [*tried.items(), ("all", tried.total())]:
        killed = count - (alive.total() if path == "all" else alive[path])
        print(f"{path.removeprefix('parallax/'):<40} {count:>7} {killed:>6} {killed / max(1, count):>5.1%}")


if __name__ == "__main__":
    sys.exit(main())
