"""Mutation score of what judges: ``python -m tests.mutation``; see docs/contribute/proven.md.

Every mutant is tried in a process forked from one that has everything imported: histories of the simulator with fixed
seeds, the unit tests of the module's package, more histories; the first that notices ends the trial. Results are
appended to a file, and mutants that are in it already are not tried again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from tests.mutation.mutants import Mutant, is_another_program, mutants
from tests.mutation.trial import Tried, trial

ROOT = Path(__file__).parents[2] / "streaming"
SAME = "the same program"
"""The result of a mutant that only changes annotations or decorators: it is not counted."""
UNTOUCHED = "no mutant"
"""What the results name the program as it is by, with the package: it has to pass first."""
TOO_LONG = 2
"""A mutant that takes so many times the CPU of the program as it is does not come to an end."""
WITH_IO = ("__init__", "feed", "processor", "query", "recorded", "results", "tables", "together")
"""Of ``compare/``: what stands around the decisions. Tests on real tables and in Spark hold it, which are no trial."""
COMPILED = ("quiet",)
"""Of ``compare/``: what is one compiled program. It decides nothing, and each mutant would have to be compiled anew."""
MODULES = (
    *(
        f"{folder}/{path.stem}"
        for folder in ("compare", "compare/rules", "findings/decide")
        for path in sorted((ROOT / "parallax" / folder).glob("*.py"))
        if path.stem not in (*WITH_IO, *COMPILED)
    ),
    *(f"findings/{name}" for name in ("answers", "judging", "ledger", "lifecycle", "questions")),
)


def main() -> int:
    """The command."""
    arguments = _arguments()
    known = _known(arguments.results)
    chosen: list[Mutant] = []
    for module in arguments.modules:
        found = mutants(ROOT, f"parallax/{module}.py")
        random.Random(arguments.seed).shuffle(found)
        chosen += sorted(found[: arguments.sample], key=lambda m: m.line)
    _import()
    # In an order drawn over all modules, so that a run that is stopped has tried a fair part of each.
    in_order = random.Random(arguments.seed).sample(chosen, len(chosen))
    with arguments.results.open("a") as results:
        limits = {}
        for package in sorted({_package(mutant) for mutant in chosen}):
            untouched = known.get(f"{UNTOUCHED} of {package}") or _tried(
                f"{UNTOUCHED} of {package}", package, None, results
            )
            if untouched.result != "survived":
                print(f"the program as it is does not pass: {untouched.result}")
                return 2
            limits[package] = round(TOO_LONG * untouched.cpu_s) + 10
        for mutant in in_order:
            if mutant.name not in known:
                package = _package(mutant)
                known[mutant.name] = _tried(mutant.name, package, mutant, results, limits[package])
    _report(chosen, known)
    return 0


def _package(mutant: Mutant) -> str:
    return Path(mutant.path).parts[1]


def _tried(name: str, package: str, mutant: Mutant | None, results: TextIO, limit_s: int | None = None) -> Tried:
    started = time.monotonic()
    is_another = mutant is None or is_another_program(mutant, ROOT)
    tried = trial(package, mutant, ROOT, limit_s) if is_another else Tried(SAME, 0.0)
    line = {"mutant": name, **asdict(tried), "s": round(time.monotonic() - started, 1)}
    print(json.dumps(line), file=results, flush=True)
    return tried


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--modules", nargs="+", choices=MODULES, default=MODULES, metavar="MODULE")
    parser.add_argument(
        "--sample", type=int, default=10**9, help="look at so many places of each module, drawn at random"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--results", type=Path, default=Path("build/mutation.jsonl"))
    arguments = parser.parse_args()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    return arguments


def _known(results: Path) -> dict[str, Tried]:
    if not results.exists():
        return {}
    lines = (json.loads(line) for line in results.read_text().splitlines())
    return {line["mutant"]: Tried(line["result"], line["cpu_s"]) for line in lines}


def _import() -> None:
    for module in MODULES:
        importlib.import_module(f"parallax.{module.replace('/', '.')}")
    for path in sorted((Path(__file__).parents[1] / "unit" / "compare").glob("*.py")):
        importlib.import_module(f"tests.unit.compare.{path.stem}")
    importlib.import_module("tests.unit.findings.decide.answered")


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
