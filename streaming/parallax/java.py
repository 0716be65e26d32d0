"""Finds a Java that can run Kafka's brokers and Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from parallax.errors import SetupError

KAFKA_NEEDS = range(17, 25)
"""Kafka 4's brokers need Java 17 (KIP-1013). The upper end is the newest that Kafka 4.x is built for."""

SPARK_NEEDS = (17, 21)
"""Spark 4 supports these two long-term releases of Java."""


@dataclass(frozen=True)
class Java:
    """A ``java`` program that was found, and its version.

    Attributes:
        path: the program.
        version: its feature release, such as 17.
        release: its whole release, such as ``17.0.15``.
    """

    path: Path
    version: int
    release: str


def find_java(accept: Container[int] = SPARK_NEEDS) -> Java:
    """Find the ``java`` to use: that of ``JAVA_HOME`` if it is set, else the first on the ``PATH``.

    Args:
        accept: the accepted feature releases; by default those that Spark supports, which suit Kafka too.

    Raises:
        SetupError: there is no JDK, it does not start, or its release is not accepted.
    """
    path = _launcher()
    release = _release(path)
    version = _feature(release)
    if version not in accept:
        raise SetupError(f"{path} is Java {version}; a JDK 17 or 21 is needed: install one and set JAVA_HOME to it")
    return Java(path, version, release)


def _launcher() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not path.is_file():
            raise SetupError(f"JAVA_HOME={home} holds no bin/java; set it to the folder of a JDK 17 or 21")
        return path
    found = shutil.which("java")
    if found is None:
        raise SetupError("no Java was found; install a JDK 17 or 21, or set JAVA_HOME to one")
    return Path(found)


def _feature(release: str) -> int:
    """``17.0.15`` is 17, and ``1.8.0_392`` is 8 (JEP 223)."""
    numbers = re.findall(r"\d+", release)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _release(path: Path) -> str:
    """Ask the launcher for its version, which is between the quotes of its first line."""
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{path} -version failed ({error}); install a JDK 17 or 21 and set JAVA_HOME to it") from error
    match = re.search(r'version "(\d[^"\s/]*)"', answer.stderr + answer.stdout)
    if match is None:
        raise SetupError(f"{path} -version names no version; install a JDK 17 or 21 and set JAVA_HOME to it")
    return match.group(1)
