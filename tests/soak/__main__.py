"""Run a soak: ``python -m tests.soak --minutes 10 --seed 1``; the Makefile's ``soak`` does.

Exit code 0 only if nothing was found in the healthy part, and then each injected fault and nothing else.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from parallax.lab.errors import LabError
from tests.soak.plan import FAULTS, Plan
from tests.soak.run import soak


def main() -> int:
    """The command."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that brokers and job are stopped in any case
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:7.1f} s  {text}", flush=True)

    plan = Plan(arguments.seed, arguments.minutes * 60, tuple(arguments.faults), arguments.clients)
    again = f"make soak SEED={plan.seed} MINUTES={arguments.minutes:g}"
    say(f"seed {plan.seed} (again: {again}{' ARGS=--clients' if plan.real_clients else ''})")
    folder = Path(tempfile.mkdtemp(prefix="parallax-soak-"))
    try:
        report = soak(plan, folder, say, version=arguments.kafka_version)
    except (LabError, AssertionError) as error:
        notes = "; ".join(getattr(error, "__notes__", ()))
        say(f"the soak could not be run to its end: {error} {notes}")
        return 1
    print(report.as_text())
    if arguments.report:
        report.write(arguments.report)
    if report.passed:
        shutil.rmtree(folder, ignore_errors=True)
    print("PASSED" if report.passed else "FAILED")
    return 0 if report.passed else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the healthy part lasts")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="drawn when not given")
    parser.add_argument(
        "--clients", action="store_true", help="let Kafka Streams, Connect and MirrorMaker 2 do the work of the writers"
    )
    parser.add_argument("--report", help="write the report as JSON to this file")
    parser.add_argument("--kafka-version", help="of the brokers")
    parser.add_argument("--faults", nargs="*", choices=FAULTS, default=FAULTS, help="which are injected afterwards")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
