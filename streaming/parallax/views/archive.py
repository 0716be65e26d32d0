"""The class-data archive that makes Spark's JVM start faster (JEP 350): its path, and the options to use it.

A fresh job loads and verifies some twenty thousand classes before its first commit. An archive halves the processor
time for that. `parallax.rehearsal` makes the archive; a job without one starts more slowly, and works the same.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from parallax.jars import cache_folder, delta_classpath, pyspark_jars
from parallax.java import Java


def archive_file(jdk: Java) -> Path:
    """The path of the class-data archive for a JDK and the jars that Spark runs with, whether it exists or not.

    An empty file there says that no archive can be made. An archive fits one JDK and one class path only, which the JVM
    checks. So the path depends on both.

    Args:
        jdk: the JDK that runs Spark.

    Raises:
        SetupError: Delta's jars cannot be resolved.
    """
    jars = [*sorted(pyspark_jars().glob("*.jar")), *map(Path, delta_classpath().split(os.pathsep))]
    parts = [jdk.release, str(jdk.path.resolve())]
    parts += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    mark = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_folder() / f"spark-classes-{mark}.jsa"


def archive_options(file: Path) -> str:
    """The JVM's options to use a class-data archive; empty if the file does not exist or holds no archive.

    The JVM ignores an archive that does not fit, without a message.

    Args:
        file: path of the archive (`archive_file`).
    """
    if not file.is_file() or not file.stat().st_size:
        return ""
    return f"-XX:SharedArchiveFile={file} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


__all__ = ["archive_file", "archive_options"]
