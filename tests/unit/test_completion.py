"""Completion in a real bash: what may come next is offered, and nothing else happens."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("parallax")
_COMPLETES = """\
eval "$(parallax --show-completion)"
[[ "$(complete -p parallax)" == *"-F _parallax_completion parallax" ]] || exit 1
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_parallax_completion parallax
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(home: Path, *words: str) -> list[str]:
    """What bash offers for the last word, in a home where nothing is yet."""
    given = " ".join(map(shlex.quote, ("parallax", *words)))
    environment = {**os.environ, "HOME": str(home), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    command = ["bash", "--norc", "-c", _COMPLETES.format(words=given)]
    ended = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (
            ("",),
            {
                "run",
                "show-record",
                "init",
                "check",
                "pause",
                "resume",
                "audit",
                "demo",
                "findings",
                "report",
                "guard",
                "lead",
                "roll",
                "seen",
                "repair",
                "storage",
                "lab",
                "fetch-jars",
            },
        ),
        (("fi",), {"findings"}),
        (("lab", ""), {"up", "down", "stop", "restart", "status", "config", "scenario"}),
        (("findings", ""), {"list", "show", "explain", "readers", "acknowledge"}),
        (("guard", ""), {"status", "hold", "release"}),
        (("repair", ""), {"plan", "run", "status", "resume", "undo", "close"}),
        (("check", "--"), {"--config", "--format", "--help"}),
        (("check", "-c", "none.yaml", "--f"), {"--format"}),
        (("lab", "down", "--"), {"--name", "--format", "--help"}),
        (("check", "--format", ""), {"text", "json"}),
        (("demo", "--producer", ""), {"legacy", "java"}),
        (("audit", "--from", "t"), {"tables"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "offers",
)
def test_bash_offers_what_may_come_next_and_nothing_is_written(
    tmp_path: Path, words: tuple[str, ...], offered: set[str]
) -> None:
    assert set(completed(tmp_path, *words)) == offered
    assert list(tmp_path.iterdir()) == []


def test_completing_loads_no_settings_no_spark_and_no_client(tmp_path: Path) -> None:
    asked = {"_PARALLAX_COMPLETE": "complete_bash", "COMP_WORDS": "parallax run --c", "COMP_CWORD": "2"}
    loads = {**os.environ, **asked, "PYTHONPROFILEIMPORTTIME": "1"}
    ended = subprocess.run([PROGRAM], env=loads, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["--config"]
    loaded = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "parallax.cli" in loaded
    heavy = {"pyspark", "yaml", "kafka", "confluent_kafka", "deltalake", "parallax.config", "parallax.job"}
    assert loaded & heavy == set()


def test_installing_adds_the_completion_to_bash_and_does_no_more(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    asked = "parallax --install-completion && . ~/.bashrc && complete -p parallax"
    command = ["bash", "--norc", "-c", asked]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].endswith("-F _parallax_completion parallax")
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {".bashrc", ".bash_completions/parallax.sh"}
