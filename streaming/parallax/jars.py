"""The JDK and the jars: Delta's for Spark, Kafka's for the lab, resolved once into a cache folder.

Resolution is done by the Ivy that pyspark bundles, so neither Maven nor a running Spark session is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_KAFKA_VERSION = "4.2.1"
SPARK_JDKS = (17, 21)
DELTA_COORDINATES = "io.delta:delta-spark_4.2_2.13:4.4.0"

Say = Callable[[str], None]


class JarsError(RuntimeError):
    """No usable JDK, or jars that could not be resolved; the text is one line that says what to do."""


@dataclass(frozen=True)
class Jdk:
    """A Java installation: the path of its ``java`` and its feature version (17, 21, ...)."""

    java: Path
    version: int


def find_jdk(allowed: Sequence[int] = SPARK_JDKS) -> Jdk:
    """Return the JDK of JAVA_HOME, or else of PATH.

    Raises:
        JarsError: there is none, or its version is not one of ``allowed``.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = "install a JDK " + " or ".join(map(str, allowed)) + " and set JAVA_HOME to it"
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on PATH"
        raise JarsError(f"JDK not found ({where}); {wanted}")
    text = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', text)
    version = int(match.group(1)) if match else 0
    if version not in allowed:
        raise JarsError(f"{found} is version {version or 'unknown'}; {wanted}")
    return Jdk(Path(found), version)


def cache_folder() -> Path:
    """Return the folder that holds jars: ``$PARALLAX_CACHE``, or ``~/.cache/parallax``."""
    return Path(os.environ.get("PARALLAX_CACHE") or Path.home() / ".cache" / "parallax")


def kafka_jars(version: str = DEFAULT_KAFKA_VERSION, say: Say | None = None) -> Path:
    """Return the folder of Kafka's broker and tool jars of a version, resolving them the first time.

    Raises:
        JarsError: no JDK, or the version cannot be resolved.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise JarsError(f"Kafka version {version!r} is not of the form 4.2.1; correct --kafka-version")
    wanted = [f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}"]
    return _resolved(f"kafka-{version}", wanted, say)


def delta_jars(say: Say | None = None) -> Path:
    """Return the folder of the jars that Spark needs for Delta, resolving them the first time.

    Raises:
        JarsError: no JDK, or the jars cannot be resolved.
    """
    return _resolved("delta-" + DELTA_COORDINATES.rsplit(":", 1)[1], [DELTA_COORDINATES], say)


def delta_classpath(say: Say | None = None) -> str:
    """Return Delta's jars, without those that pyspark brings itself, as a Java class path.

    Raises:
        JarsError: see ``delta_jars``.
    """
    import pyspark

    def artifact(jar: Path) -> str:
        return re.sub(r"-\d[\w.\-]*\.jar$", "", jar.name)

    have = {artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    own = (jar for jar in sorted(delta_jars(say).glob("*.jar")) if artifact(jar) not in have)
    return os.pathsep.join(str(jar) for jar in own)


def _resolved(name: str, coordinates: Sequence[str], say: Say | None) -> Path:
    folder = cache_folder() / "jars" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    if say:
        say(f"resolving {name} jars (once, kept in {folder.parent})")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as scratch:
        jars = Path(scratch) / "jars"
        jars.mkdir()
        for coordinate in coordinates:
            _retrieve(coordinate, jars, say)
        if not any(jars.iterdir()):
            raise JarsError(f"{name}: resolution brought no jar; are the package registries reachable?")
        try:
            jars.rename(folder)
        except OSError as error:  # another process was first: its folder is whole
            if not folder.is_dir():
                raise JarsError(f"{folder}: cannot be made ({error.strerror}); set PARALLAX_CACHE") from error
    return folder


def _retrieve(coordinate: str, into: Path, say: Say | None) -> None:
    import pyspark  # only for the place of its jars; importing it starts nothing

    ivy = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not ivy:
        raise JarsError("pyspark's jars hold no Ivy; install the locked pyspark (make setup)")
    group, module, version = coordinate.split(":")
    command = [
        str(find_jdk(range(17, 26)).java), "-jar", str(ivy[-1]),
        "-cache", str(cache_folder() / "ivy"),
        "-dependency", group, module, version,
        "-confs", "default",
        "-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    tail: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            tail = [*tail[-30:], line.strip()]
            match = re.search(r"\[SUCCESSFUL ?\] (\S+?)!", line)
            if match and say:
                say(f"  {match.group(1)}")
    if process.returncode != 0 or any("UNRESOLVED DEPENDENCIES" in line for line in tail):
        reason = next((line for line in tail if "not found" in line or "UNRESOLVED" in line), tail[-1] if tail else "")
        raise JarsError(f"{coordinate} cannot be resolved ({reason.strip(': ')}); check the version and the network")
