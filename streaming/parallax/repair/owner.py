"""Names the process that runs a repair (its *owner*), and says whether that process has ended.

A process number means something only in one PID namespace of one running kernel. Two pods of one StatefulSet, or two
containers with one host name, may both have a process 7. So an owner's name says in which *place* it runs: the kernel's
boot id, and the inode of its PID namespace.

- In the same place, the process is looked up, by its number and by its start in clock ticks since the boot. No change
  of the clock moves these. A killed owner is known to have ended immediately.
- In another place, no process can be looked up: on another machine, in another pod or container, or on this machine
  before it was booted again. An owner records something at least every `BEAT_S` seconds, whatever it waits for. It has
  ended once its record has not grown for `SILENT_S` seconds by the clock of the process that watches it. As with the
  lease of a job (`parallax.views.lease.decide`), no two clocks are compared.

An owner may be frozen, or lack the storage, for longer than that, and be taken over from. It reads the record again
right before each change, so it changes nothing afterwards. A request that it has just sent may still arrive, since
Kafka has no request that would be refused then.
"""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from parallax.repair.record import Repair

BEAT_S = 10.0
"""After so many seconds without another event, a repair's process records that it runs."""
SILENT_S = 60.0
"""An owner in another place counts as ended if its record has not grown for so many seconds."""
_PROC = Path("/proc")


def myself() -> str:
    """The name of this process as an owner: user and machine, place, process number, and when the process was started.

    Without ``/proc``, place and start are empty, so others go by the record.
    """
    try:
        place, started = _place(), _started("self")
    except OSError:
        place = started = ""
    return f"{_user()}@{socket.gethostname()}:{place}:{os.getpid()}:{started}"


def is_alive(owner: str) -> bool | None:
    """Whether the process of an owner runs; None if that cannot be known here, because it is of another place.

    Args:
        owner: the owner, as `myself` returned it in that process.
    """
    try:
        _, place, number, started = owner.rsplit(":", 3)
        if not place or place != _place():
            return None
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It is there, and another user's.
    except (OSError, ValueError, OverflowError):
        return None
    try:
        return _started(number) == started
    except OSError:
        return None  # Where hidepid is set, /proc does not show the processes of others.


def in_words(owner: str) -> str:
    """The owner of a repair for people: ``ann@host (process 4711)``."""
    who, *rest = owner.split(":")
    return f"{who} (process {rest[-2]})" if len(rest) > 1 else owner


def is_interrupted(repair: Repair) -> bool:
    """Whether a repair is running by its record, and its process is known to have ended."""
    return repair.is_running and is_alive(repair.owner) is False


def phase_in_words(repair: Repair) -> str:
    """The phase of a repair for people, as in ``stopped``, or ``running, but its process has ended``."""
    return f"{repair.phase}, but its process has ended" if is_interrupted(repair) else str(repair.phase)


def _place() -> str:
    """Where this process's number means something.

    Raises:
        OSError: ``/proc`` does not say, or is that of another PID namespace.
    """
    if (_PROC / "self").readlink().name != str(os.getpid()):
        raise OSError("/proc is that of another PID namespace")
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}.{(_PROC / 'self/ns/pid').stat().st_ino}"


def _started(process: str) -> str:
    """When a process was started, in clock ticks since the boot; empty if it has ended, and waits for its parent.

    Raises:
        OSError: ``/proc`` does not say.
    """
    # The name of the program, in brackets, may hold spaces and brackets (proc_pid_stat(5)).
    fields = (_PROC / process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


__all__ = ["BEAT_S", "SILENT_S", "in_words", "is_alive", "is_interrupted", "myself", "phase_in_words"]
