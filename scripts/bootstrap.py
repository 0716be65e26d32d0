"""Prepare everything that the Makefile's commands need: virtual environment, packages, Delta's and Kafka's jars.

Runs with the standard library only. What is there already is left alone, so the second run takes about a second.
Exit code 2 and one line where the machine lacks something.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
PYTHONS = ((3, 11), (3, 13))
JDKS = (17, 21)


class SetupError(Exception):
    """Something that only the user can put right; the text says what."""


def say(text: str) -> None:
    """Print a line of progress to standard error immediately."""
    print(f"[setup] {text}", file=sys.stderr, flush=True)


def check_python() -> None:
    """Raise SetupError unless this interpreter is one that Parallax runs on."""
    low, high = PYTHONS
    if not low <= sys.version_info[:2] <= high:
        have = ".".join(map(str, sys.version_info[:3]))
        raise SetupError(f"Python {have} found, 3.11 to 3.13 needed; name one with PYTHON=/path/to/python3.12")


def check_java() -> None:
    """Raise SetupError unless JAVA_HOME or PATH leads to a JDK that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = "install a JDK 17 or 21 and set JAVA_HOME to it"
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on PATH"
        raise SetupError(f"JDK not found ({where}); {wanted}")
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', text)
    if not found or int(found.group(1)) not in JDKS:
        raise SetupError(f"{java} is version {found.group(1) if found else 'unknown'}; {wanted}")


def stamp_of_lock() -> str:
    """Return what the installed packages depend on: the lock file and the interpreter."""
    return hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()


def run_with_progress(command: list[str], doing: str, *, notable: re.Pattern[str]) -> None:
    """Run a command, counting its notable lines on a terminal; on failure show the last of its output."""
    started = time.monotonic()
    tail: list[str] = []
    count = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as process:
        for line in process.stdout or ():
            tail = [*tail[-15:], line.rstrip()]
            count += notable.search(line) is not None
            if sys.stderr.isatty():
                print(f"\r[setup] {doing}: {count}\033[K", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if process.returncode != 0:
        raise SetupError(f"{doing} failed: " + " | ".join(part for part in tail if part)[-1500:])
    say(f"{doing}: done in {time.monotonic() - started:.0f} s")


def install_packages() -> None:
    """Make the virtual environment and install the locked packages and the project into it."""
    stamp = VENV / ".parallax-stamp"
    if stamp.exists() and stamp.read_text() == stamp_of_lock():
        return
    say(f"virtual environment in {VENV.name}/ (about 1.2 GB, a minute or two the first time)")
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    notable = re.compile(r"^Collecting ")
    run_with_progress([*pip, "install", "--require-hashes", "-r", str(LOCK)], "packages", notable=notable)
    run_with_progress([*pip, "install", "--no-deps", "-e", str(ROOT)], "parallax", notable=notable)
    stamp.write_text(stamp_of_lock())


def warm_up() -> None:
    """Compile the project's modules and its numba kernels, so that no process that Spark starts has to."""
    stamp = VENV / ".parallax-warm"
    kernels = sorted((ROOT / "streaming").rglob("*.py"))
    state = hashlib.sha256(b"".join(path.read_bytes() for path in kernels) + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == state:
        return
    say("compiling modules and kernels (about 30 s, once for each change of them)")
    python = str(VENV / "bin" / "python")
    subprocess.run([python, "-m", "compileall", "-q", str(ROOT / "streaming")], check=True)
    subprocess.run([python, "-c", "import parallax.source.reading, parallax.compare.together"], check=True)
    stamp.write_text(state)


def fetch_jars(kafka_version: str) -> None:
    """Have the project resolve the jars it runs on; it keeps them in its cache folder."""
    command = [str(VENV / "bin" / "parallax"), "fetch-jars", "--kafka-version", kafka_version]
    if subprocess.run(command, check=False).returncode != 0:
        raise SetupError("Delta's or Kafka's jars could not be fetched (see the line above)")


def main() -> int:
    """Prepare the machine; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kafka-version", default="4.2.1")
    options.add_argument("--packages-only", action="store_true", help="no JDK check, no jars (enough for lint)")
    chosen = options.parse_args()
    try:
        check_python()
        if not chosen.packages_only:
            check_java()
        install_packages()
        if not chosen.packages_only:
            # Either keeps one core busy for most of the time, and neither needs the other.
            with ThreadPoolExecutor(1) as beside:
                warm = beside.submit(warm_up)
                fetch_jars(chosen.kafka_version)
            warm.result()
    except SetupError as error:
        say(str(error))
        return 2
    except subprocess.CalledProcessError as error:
        say(f"{' '.join(map(str, error.cmd))} failed with exit code {error.returncode}; is python's venv installed?")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
