"""Who owns a repair, and whether that process has ended: here, in another PID namespace, on another machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from parallax.repair import owner as module
from parallax.repair.owner import in_words, is_alive, myself

NAME = "import sys; from parallax.repair.owner import myself; print(myself(), flush=True); sys.stdin.readline()"
NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def started(*before: str) -> tuple[subprocess.Popen[str], str]:
    """A process that runs until it is given a line, and its name as an owner."""
    words = [*before, sys.executable, "-c", NAME]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def test_a_process_is_alive_until_it_has_ended() -> None:
    child, owner = started()
    assert is_alive(owner) is True
    child.communicate("\n")
    assert is_alive(owner) is False


def test_a_killed_process_has_ended_though_its_parent_has_not_asked_for_it() -> None:
    child, owner = started()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_alive(owner) is False
    child.communicate()


def test_a_number_that_was_given_out_again_is_another_process() -> None:
    assert is_alive(f"{myself().rpartition(':')[0]}:1") is False


def test_nothing_is_known_of_a_process_in_another_pid_namespace_with_the_same_host_name() -> None:
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace may be made here")
    child, owner = started(*NAMESPACE)
    here = f"from parallax.repair.owner import is_alive; print(is_alive({myself()!r}))"
    there = subprocess.run([*NAMESPACE, sys.executable, "-c", here], capture_output=True, text=True, check=True)
    assert f"@{socket.gethostname()}:" in owner
    assert (is_alive(owner), there.stdout.strip()) == (None, "None"), "the number means another process, or none"
    child.communicate("\n")


def test_nothing_is_known_of_a_process_of_another_boot_or_machine() -> None:
    who, place, *rest = myself().split(":")
    assert is_alive(":".join((who, f"0{place[1:]}" if place[0] != "0" else f"1{place[1:]}", *rest))) is None


@pytest.mark.parametrize("owner", ["ann@elsewhere:7:1.00", "", "ann@here::7:", "ann@here:-:x:y"])
def test_nothing_is_known_of_a_process_that_says_no_place(owner: str) -> None:
    assert is_alive(owner) is None


def test_without_proc_or_with_that_of_another_namespace_no_process_is_looked_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = myself()
    (tmp_path / "self").symlink_to("1234567")
    for proc in (tmp_path / "none", tmp_path):
        monkeypatch.setattr(module, "_PROC", proc)
        assert (is_alive(mine), is_alive(myself())) == (None, None)


def test_it_is_named_for_people() -> None:
    assert in_words("ann@elsewhere:5045fb10.4026531836:7:100") == "ann@elsewhere (process 7)"
    assert in_words("ann@elsewhere:7:1.00") == "ann@elsewhere (process 7)"
    assert in_words("ann") == "ann"
