"""Free ports for brokers that are stopped and come back on the same port."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from parallax.lab.errors import LabError

_FIRST = 10_000


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Choose ports nobody listens on, below the range from which outgoing connections take theirs.

    A broker that is down for a while must find its port free again; a port of the ephemeral range could by then
    belong to any connection.

    Raises:
        LabError: not enough free ports.
    """
    candidates = list(range(_FIRST, _first_ephemeral()))
    random.SystemRandom().shuffle(candidates)
    ports: list[int] = []
    for port in candidates:
        if len(ports) == count:
            break
        if _is_free(host, port):
            ports.append(port)
    if len(ports) < count:
        raise LabError(f"{host} has no {count} free ports from {_FIRST} on; stop what listens there")
    return ports


def _first_ephemeral() -> int:
    """Where the ephemeral range begins: Linux says it, elsewhere it is IANA's 49152."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 49_152


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind((host, port))
        except OSError:
            return False
        return True
