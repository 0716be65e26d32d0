"""Make what a release is made of, and check what it promises: the last step of ``make release``.

Into the folder ``--out``: the wheel, built twice from the commit and the same both times; an SBOM (CycloneDX) of the
environment that this wheel gets; the notices of third parties, packages of Python and jars. Each check is a line; exit
code 1 where one fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LICENCE = re.compile(r"(?:^|/)(?:licen[cs]e|notice|copying)[^/]*$", re.IGNORECASE)
_PATIENCE_S = 1800


class UnfitError(Exception):
    """Something that a release must not be made with; the text says what, and what to do."""


@dataclass(frozen=True, slots=True)
class Part:
    """A third party's package or jar: its licence as it names it, and the texts that it brings."""

    name: str
    version: str
    licence: str
    texts: tuple[str, ...]


def run(command: Sequence[str], **more: str) -> str:
    """Run a command, with more environment; return what it prints.

    Raises:
        UnfitError: it fails.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            cwd=ROOT,
            env=os.environ | more,
            umask=0o022,  # the modes of files are in the wheel
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnfitError(f"{Path(command[0]).name}: {error}") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise UnfitError(f"{' '.join(Path(word).name for word in command[:3])}: {last[:300]}")
    return done.stdout


def committed() -> str:
    """The commit that is released; what is not committed would be in no release.

    Raises:
        UnfitError: something is not.
    """
    if changed := run(["git", "status", "--porcelain"]).strip():
        raise UnfitError(f"not committed: {changed.splitlines()[0][3:]}; commit it or put it away")
    return run(["git", "rev-parse", "HEAD"]).strip()


def dated(version: str, changelog: str) -> str:
    """The day of a version in the changelog.

    Raises:
        UnfitError: its newest section is of another version, or has no day.
    """
    newest = re.search(r"^## (\S+)(?: \(([^)]*)\))?", changelog, re.MULTILINE)
    if newest is None or newest[1] != version:
        raise UnfitError(f"CHANGELOG.md: the newest section is {newest[1] if newest else 'missing'}, not {version}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2] or ""):
        raise UnfitError(f"CHANGELOG.md: {version} is {newest[2] or 'without a day'}; write its day (YYYY-MM-DD)")
    return newest[2]


ELSEWHERE = {
    "deploy/helm/parallax/Chart.yaml": (r"^version: (\S+)", r"^appVersion: (\S+)"),
    "deploy/spark/sparkapplication.yaml": (r"^  image: \S+:(\S+)",),
}
"""Where the version is written in addition to pyproject.toml. Image and wheel are built with pyproject.toml's."""


def agreed(version: str, root: Path = ROOT) -> str:
    """The files that name the version as well as pyproject.toml: all name the same.

    Raises:
        UnfitError: one names another version, or none where it should.
    """
    for file, places in ELSEWHERE.items():
        text = (root / file).read_text()
        for place in places:
            found = re.findall(place, text, re.MULTILINE)
            if found != [version]:
                raise UnfitError(f"{file}: the version is {', '.join(found) or 'missing'}, not {version}; write it")
    return ", ".join(ELSEWHERE)


def kept(version: str, stored: Path = ROOT / "tests" / "stored") -> str:
    """The archive by which the tests of later releases take over what this one leaves.

    Raises:
        UnfitError: there is none.
    """
    archive = stored / f"{version}.tar.xz"
    if not archive.is_file():
        raise UnfitError(f"no {archive.name} in tests/stored; run `python scripts/stored_state.py` on a demo's tables")
    return archive.name


def wheel(out: Path) -> Path:
    """The wheel of the commit: built of two exports of it, in two folders, it is the same.

    Raises:
        UnfitError: it cannot be built, or the two differ.
    """
    when = run(["git", "log", "-1", "--format=%ct"]).strip()
    made = []
    with tempfile.TemporaryDirectory() as scratch:
        for folder in (Path(scratch, "one"), Path(scratch, "another")):
            archive = subprocess.run(["git", "archive", "HEAD"], capture_output=True, check=True, cwd=ROOT).stdout
            folder.mkdir()
            subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
            pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
            run([*pip, "-w", str(folder / "made"), str(folder)], SOURCE_DATE_EPOCH=when)
            (one,) = (folder / "made").glob("*.whl")
            made.append((one.name, one.read_bytes()))
    (name, content), (_, again) = made
    if content != again:
        raise UnfitError(f"{name}: two builds of the same commit differ")
    (out / name).write_bytes(content)
    return out / name


def environment(built: Path, folder: Path) -> Path:
    """A new environment that has the wheel with the versions of requirements.lock; returns its python.

    Raises:
        UnfitError: it cannot be installed.
    """
    run([sys.executable, "-m", "venv", str(folder)])
    python = folder / "bin" / "python"
    locked = re.findall(
        r"^([a-z0-9][^ ;]*==[^ \\]+(?: ; [^\\]*[^ \\])?)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(locked) + "\n")
    run([str(python), "-m", "pip", "install", "-q", "-c", str(constraints), str(built)])
    return python


def sbom(python: Path, tools: Path, out: Path) -> int:
    """Write the SBOM of an environment; returns how many components it has.

    Raises:
        UnfitError: it could not be made, or does not hold the project.
    """
    run([sys.executable, "-m", "pip", "install", "-q", "--target", str(tools), "-r", str(ROOT / "scripts/publish.txt")])
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--of", "JSON", "--output-reproducible"]
    run([*command, "-o", str(out), "--pyproject", str(ROOT / "pyproject.toml"), str(python)], PYTHONPATH=str(tools))
    document = json.loads(out.read_text())
    names = {one["name"] for one in document.get("components", ())} | {document["metadata"]["component"]["name"]}
    if not {"kafka-parallax", "pyspark", "confluent-kafka"} <= names:
        raise UnfitError(f"{out.name}: it does not hold the project and what it needs")
    whole = with_jars(document, jar_folders(python))
    out.write_text(json.dumps(whole, indent=2) + "\n")
    return len(whole["components"])


def jar_folders(python: Path) -> list[Path]:
    """Where an environment has its jars; fetched where they are not there yet.

    Raises:
        UnfitError: they cannot be.
    """
    asked = "from parallax import jars; print(jars.pyspark_jars(), jars.delta_jars(), jars.s3_jars(), sep='\\n')"
    return [Path(line) for line in run([str(python), "-c", asked]).splitlines()]


def packages(python: Path) -> Iterator[Part]:
    """What an environment has in addition to the project and pip, by the metadata of each."""
    (folder,) = python.parents[1].glob("lib/python*/site-packages")
    for info in sorted(folder.glob("*.dist-info")):
        about = HeaderParser().parsestr((info / "METADATA").read_text("utf-8", "replace"))
        named = about["License-Expression"] or next(
            (one.split(" :: ")[-1] for one in about.get_all("Classifier", ()) if one.startswith("License :: OSI")), ""
        )
        licence = named or (about["License"] or "").strip().splitlines()[:1]
        texts = [f for f in sorted(info.rglob("*")) if f.is_file() and _LICENCE.search(str(f.relative_to(info)))]
        if about["Name"] == "pyspark":  # those of the jars that it brings
            texts += sorted((folder / "pyspark" / "licenses").glob("*"))
        if about["Name"] not in {"kafka-parallax", "pip", "setuptools"}:
            yield Part(
                about["Name"],
                about["Version"],
                licence if isinstance(licence, str) else "".join(licence) or "see its text",
                tuple(file.read_text("utf-8", "replace") for file in texts),
            )


def jars(folders: Sequence[Path]) -> Iterator[Part]:
    """The jars of some folders, each once, by what they hold of licences and notices."""
    for jar in _once(folders):
        name, version = _of_jar(jar)
        with zipfile.ZipFile(jar) as held:
            names = [n for n in held.namelist() if re.match(r"(META-INF/)?[^/]*$", n) and _LICENCE.search(n)]
            texts = tuple(held.read(name).decode("utf-8", "replace") for name in sorted(names))
            poms = [held.read(n).decode("utf-8", "replace") for n in held.namelist() if n.endswith(f"/{name}/pom.xml")]
        named = re.search(r"<license>\s*<name>([^<]+)</name>", "".join(poms))
        yield Part(name, version, named[1].strip() if named else "see its text or project", texts)


def _once(folders: Sequence[Path]) -> list[Path]:
    return sorted({file.name: file for folder in folders for file in folder.glob("*.jar")}.values())


def _of_jar(jar: Path) -> tuple[str, str]:
    """Name and version, by the file's name."""
    found = re.fullmatch(r"(.+?)-(\d[^/]*)", jar.stem)
    return (found[1], found[2]) if found else (jar.stem, "")


def _group(jar: Path, name: str) -> str:
    """The group of a jar by what Maven wrote into it of this name; empty where it wrote nothing."""
    with zipfile.ZipFile(jar) as held:
        found = [re.fullmatch(rf"META-INF/maven/([^/]+)/{re.escape(name)}/pom\.properties", n) for n in held.namelist()]
    return next((one[1] for one in found if one), "")


def with_jars(document: dict[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """An SBOM with the jars of some folders as well."""
    added = [
        {
            "type": "library",
            "bom-ref": f"jar:{jar.name}",
            "name": name,
            "version": version,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(jar.read_bytes()).hexdigest()}],
            **({"group": group, "purl": f"pkg:maven/{group}/{name}@{version}"} if group else {}),
        }
        for jar in _once(folders)
        for name, version in (_of_jar(jar),)
        for group in (_group(jar, name),)
    ]
    return {**document, "components": [*document["components"], *added]}


def notices(parts: Sequence[Part]) -> str:
    """One document: what each is licensed under, then each text once, with those that bring it."""
    bringing: dict[str, list[str]] = {}
    for part in parts:
        for text in part.texts:
            bringing.setdefault(text.strip(), []).append(f"{part.name} {part.version}".strip())
    lines = ["# Third-party notices", "", "| what | version | licence |", "|---|---|---|"]
    lines += [f"| {p.name} | {p.version} | {p.licence.replace('|', '/')} |" for p in parts]
    for text, names in bringing.items():
        lines += ["", f"## {', '.join(names)}", "", *(f"    {line}".rstrip() for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def release(out: Path, *, trial: bool) -> int:
    """Make a release in a folder, a line for each step; return the exit code."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    failed = 0

    def step(what: str, does: Callable[[], str], *, may_fail: bool = False) -> None:
        nonlocal failed
        try:
            print(f"ok     {what}: {does()}", flush=True)
        except UnfitError as error:
            failed += not may_fail
            print(f"{'note  ' if may_fail else 'wrong '} {what}: {error}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        python = Path(scratch, "environment", "bin", "python")
        built: list[Path] = []

        def built_twice() -> str:
            built.append(wheel(out))
            return f"{built[0].name}, sha256 {hashlib.sha256(built[0].read_bytes()).hexdigest()}"

        def listed() -> str:
            if not built:
                raise UnfitError("there is no wheel")
            environment(built[0], python.parents[1])
            count = sbom(python, Path(scratch, "tools"), out / f"kafka-parallax-{version}.cdx.json")
            return f"{count} components"

        def told() -> str:
            parts = [*packages(python), *jars(jar_folders(python))]
            (out / "THIRD-PARTY-NOTICES.md").write_text(notices(parts))
            silent = [part.name for part in parts if not part.texts]
            return f"{len(parts)} parts; {len(silent)} bring no text of their own"

        step("everything is committed", committed, may_fail=trial)
        step(
            "the changelog has the version and its day",
            lambda: dated(version, (ROOT / "CHANGELOG.md").read_text()),
            may_fail=trial,
        )
        step("all files name this version", lambda: agreed(version))
        step("what it leaves is kept for the tests of later releases", lambda: kept(version))
        step("the wheel is the same when built again", built_twice)
        step("SBOM", listed)
        step("third-party notices", told)
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a release; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    options.add_argument("--trial", action="store_true", help="no day and nothing uncommitted is a note, no failure")
    chosen = options.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    return release(chosen.out, trial=chosen.trial)


if __name__ == "__main__":
    sys.exit(main())
