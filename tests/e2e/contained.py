"""Becomes the process of a container: run by ``unshare --mount --pid --fork``, it knows the standard library alone.

What it is to become is a JSON document in the file that it is given. It puts the container's mounts in place, changes
the root, lets go of all rights, and executes the container's program, which is then process 1 of its own namespace.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
DEVICES = ("null", "zero", "full", "random", "urandom")


def mount(*words: str | Path) -> None:
    """Run ``mount``."""
    subprocess.run(["mount", *map(str, words)], check=True)


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Show a file or a folder at another place; what is missing there is made, as a runtime makes it."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--bind", source, target)
    if read_only:
        mount("-o", "remount,bind,ro", target)


def furnish(root: Path, wanted: dict[str, Any]) -> None:
    """Put in place what a runtime puts into every container, then what the pod mounts."""
    mount("--make-rprivate", "/")
    mount("--bind", root, root)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev")
    for device in DEVICES:
        bind(Path("/dev", device), root / "dev" / device)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (root / "dev" / name).symlink_to(f"/proc/self/fd/{number}")
    (root / "dev" / "fd").symlink_to("/proc/self/fd")
    (root / "dev" / "shm").mkdir()
    mount("-t", "tmpfs", "-o", "mode=1777,size=64m", "tmpfs", root / "dev" / "shm")
    for file in ("/etc/resolv.conf", "/etc/hosts"):
        bind(Path(file), root / file.lstrip("/"), read_only=True)
    for one in sorted(wanted["mounts"], key=lambda one: one["target"].count("/")):
        bind(Path(one["source"]), root / one["target"].lstrip("/"), read_only=one["read_only"])
    if wanted["read_only_root"]:
        mount("-o", "remount,bind,ro", root)


def give_up_rights(user: int, group: int, groups: list[int]) -> None:
    """Become a user without any capability, who can never have one again."""
    libc = ctypes.CDLL(None, use_errno=True)
    capability = 0
    while libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if not capability or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "rights are not given up")
    os.setgroups(groups)
    os.setgid(group)
    os.setuid(user)


def become(wanted: dict[str, Any]) -> None:
    """Become the container's process; returns never."""
    root = Path(wanted["root"])
    furnish(root, wanted)
    os.chroot(root)
    os.chdir(wanted["folder"])
    give_up_rights(wanted["user"], wanted["group"], wanted["groups"])
    os.execvpe(wanted["command"][0], wanted["command"], wanted["environment"])


if __name__ == "__main__":
    become(json.loads(Path(sys.argv[1]).read_text()))
