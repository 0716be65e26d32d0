"""Fetches the jars that Kafka's test brokers and Spark need, once, into a cache folder.

The lab needs Kafka's jars. Spark needs Delta's and, for S3, those of Hadoop's S3A. Ivy, which pyspark contains, fetches
them from Maven Central.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from parallax.errors import PassingError, SetupError
from parallax.java import KAFKA_NEEDS, find_java

DEFAULT_KAFKA_VERSION = "4.2.1"
DELTA_ARTIFACT = "delta-spark_4.2_2.13"
DELTA_VERSION = "4.4.0"


class NotFetchedError(SetupError, PassingError):
    """Jars could not be fetched: the repository does not answer, or does not have them."""


Progress = Callable[[str], None]
"""Called with a few words on what has just been done."""

# kafka-tools by itself (the benchmarks' ConsumerPerformance): what it asks for is Kafka Connect and Jetty, which
# neither a broker nor that tool needs. slf4j-simple: kafka_2.13 names no SLF4J binding, so brokers would log nothing.
_KAFKA_MODULE = """\
<ivy-module version="2.0">
  <info organisation="parallax" module="lab"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{version}" conf="default->default" transitive="false"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default" transitive="false"/>
  </dependencies>
</ivy-module>
"""


_DELTA_MODULE = """\
<ivy-module version="2.0">
  <info organisation="parallax" module="delta"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.delta" name="{artifact}" rev="{version}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


# The parts of AWS's SDK that S3A needs, and the library whose classes it names, of the versions that Hadoop 3.5.0 was
# built with: 16 MB. What hadoop-aws asks for is the bundle of all of AWS's services, many times as large.
AWS_SDK_VERSION = "2.35.4"
_SDK_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_OF_SDK = f'<dependency org="software.amazon.awssdk" name="{{}}" rev="{AWS_SDK_VERSION}" conf="default->default"/>'
_ACCELERATOR = (
    '<dependency org="software.amazon.s3.analyticsaccelerator" name="analyticsaccelerator-s3" rev="1.3.1" '
    'conf="default->default" transitive="false"/>'
)
_S3_MODULE = """\
<ivy-module version="2.0">
  <info organisation="parallax" module="s3a"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-aws" rev="{hadoop}" conf="default->default" transitive="false"/>
    {sdk}
  </dependencies>
</ivy-module>
"""


def cache_folder() -> Path:
    """The folder for files that are kept between runs, such as jars.

    It is ``PARALLAX_CACHE`` if that environment variable is set, else ``~/.cache/parallax``.
    """
    return Path(os.environ.get("PARALLAX_CACHE") or Path.home() / ".cache" / "parallax")


def kafka_jars(version: str = DEFAULT_KAFKA_VERSION, *, progress: Progress | None = None) -> Path:
    """The folder of Kafka's jars; they are fetched if the cache does not have them yet.

    Args:
        version: a released version of Kafka, such as ``4.2.1``.
        progress: called with a short text for each file that arrives.

    Returns:
        ``<cache>/kafka-<version>``, with every jar of the broker, of the Java clients and of Kafka's tools.

    Raises:
        SetupError: there is no JDK, ``version`` is no version number, or the jars could not be fetched.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SetupError(f"Kafka version {version!r} is not of the form 4.2.1; name a released version")
    module = _KAFKA_MODULE.format(version=version)
    return resolved(f"kafka-{version}", f"Kafka {version}", module, progress)


def delta_jars(*, progress: Progress | None = None) -> Path:
    """The folder of the jars that Spark needs for Delta; they are fetched if the cache does not have them yet.

    Raises:
        SetupError: there is no JDK, or the jars could not be resolved.
    """
    module = _DELTA_MODULE.format(artifact=DELTA_ARTIFACT, version=DELTA_VERSION)
    return resolved(f"delta-{DELTA_VERSION}", f"Delta {DELTA_VERSION}", module, progress)


def s3_jars(*, progress: Progress | None = None) -> Path:
    """The folder of the jars that Hadoop needs to read S3; they are fetched if the cache does not have them yet.

    Raises:
        SetupError: there is no JDK, or the jars could not be resolved.
    """
    version = hadoop_version()
    module = _S3_MODULE.format(hadoop=version, sdk="\n    ".join([_ACCELERATOR, *map(_OF_SDK.format, _SDK_PARTS)]))
    return resolved(f"s3a-{version}", f"Hadoop {version} for S3", module, progress)


def hadoop_version() -> str:
    """The version of Hadoop that is part of the installed pyspark, such as ``3.5.0``.

    Raises:
        SetupError: pyspark's folder has no Hadoop jar.
    """
    for jar in pyspark_jars().glob("hadoop-client-api-*.jar"):
        return jar.stem.removeprefix("hadoop-client-api-")
    raise SetupError("pyspark's jars hold no Hadoop; install pyspark again from PyPI")


def delta_classpath() -> str:
    """A Java class path with Delta's jars; they are fetched if needed.

    Jars that pyspark itself contains are left out.

    Raises:
        SetupError: there is no JDK, or the jars could not be fetched.
    """
    return _beside_pyspark(delta_jars())


def s3_classpath() -> str:
    """A Java class path with the jars that Hadoop needs to read S3; they are fetched if needed.

    Jars that pyspark itself contains are left out.

    Raises:
        SetupError: there is no JDK, or the jars could not be fetched.
    """
    return _beside_pyspark(s3_jars())


def _beside_pyspark(folder: Path) -> str:
    def artifact(jar: Path) -> str:
        return re.sub(r"-\d[\w.\-]*\.jar$", "", jar.name)

    have = {artifact(jar) for jar in pyspark_jars().glob("*.jar")}
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")) if artifact(jar) not in have)


@contextmanager
def made_once(target: Path) -> Iterator[bool]:
    """A ``with`` block in which no other process makes the same file or folder of the cache.

    It yields True if the target is still to be made. Meanwhile the folder around it is locked, so no lock file is left
    behind, and only one process at a time uses Ivy's cache.

    Args:
        target: the file or folder to make.

    Raises:
        SetupError: the folder around the target cannot be written.
    """
    if target.exists():
        yield False
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SetupError(
            f"{target.parent}: {error.strerror}; set PARALLAX_CACHE to a folder that can be written"
        ) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield not target.exists()
    finally:
        os.close(folder)


def resolved(name: str, what: str, module: str, progress: Progress | None = None) -> Path:
    """A folder of jars in the cache; if it is not there yet, Ivy fetches the dependencies of a module into it.

    Args:
        name: name of the folder.
        what: what errors and ``progress`` call the jars.
        module: the text of an ``ivy.xml``, which lists the dependencies.
        progress: called with a short text for each step.

    Raises:
        SetupError: there is no JDK, or the jars could not be resolved.
    """
    folder = cache_folder() / name
    with made_once(folder) as missing:
        if missing:
            _resolve(what, module, folder, progress or (lambda _: None))
    return folder


def _resolve(what: str, module: str, folder: Path, progress: Progress) -> None:
    """Resolve into a folder next to the target and rename it, so that a folder that exists is whole."""
    java = find_java(KAFKA_NEEDS)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        (work / "ivy.xml").write_text(module, encoding="utf-8")
        progress(f"resolving the jars of {what}")
        _run_ivy(java.path, what, work, folder.parent / "ivy", progress)
        _publish(work / "jars", folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(java: Path, what: str, work: Path, ivy_cache: Path, progress: Progress) -> None:
    command: list[str | Path] = [java, "-jar", _ivy_jar(), "-cache", ivy_cache, "-ivy", work / "ivy.xml"]
    command += ["-confs", "default", "-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    settings = os.environ.get("PARALLAX_IVY_SETTINGS")
    if settings:
        command[3:3] = ["-settings", settings]
    problems: list[str] = []
    found = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None  # noqa: S101 - stdout=PIPE; tells the type checker so
        for line in ivy.stdout:
            if re.match(r"\s*found \S+ in ", line):
                found += 1
            elif re.search(r"not found: |UNRESOLVED|Exception|ERROR|SERVER ERROR", line):
                problems.append(" ".join(line.split()).strip(": "))
    size = sum(jar.stat().st_size for jar in (work / "jars").glob("*.jar")) / 1e6
    if ivy.returncode != 0 or problems:
        reason = problems[0] if problems else f"Ivy ended with code {ivy.returncode}"
        there = (
            f"the repositories of {settings} can be reached"
            if settings
            else "Maven Central can be reached, or name a mirror's Ivy settings file in PARALLAX_IVY_SETTINGS"
        )
        raise NotFetchedError(
            f"the jars of {what} could not be resolved ({reason}); check that the version exists and that {there}"
        )
    progress(f"{found} jars of {what}, {size:.0f} MB")


def _ivy_jar() -> Path:
    jars = sorted(pyspark_jars().glob("ivy-*.jar"))
    if not jars:
        raise SetupError("pyspark's jars hold no Ivy; install pyspark again from PyPI")
    return jars[-1]


def pyspark_jars() -> Path:
    """The folder of pyspark's jars, found without importing pyspark."""
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0] if folders else "", "jars")


def _publish(jars: Path, folder: Path) -> None:
    try:
        jars.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # otherwise another process was faster, with the same jars
            raise SetupError(
                f"{folder}: cannot be written ({error.strerror}); set PARALLAX_CACHE to another folder"
            ) from error


def class_path(jars: Path) -> str:
    """The class path of all jars in a folder, for ``java -cp``."""
    return f"{jars}{os.sep}*"


if __name__ == "__main__":
    # For spark-submit --jars.
    sys.stdout.write(os.pathsep.join([delta_classpath(), s3_classpath()]).replace(os.pathsep, ",") + "\n")
