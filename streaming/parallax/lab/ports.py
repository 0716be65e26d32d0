"""Finds free ports for the lab's brokers, which stop and come back on the same port."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

from parallax.lab.errors import LabError

_FIRST = 10_000

ENVIRONMENT = "PARALLAX_PORTS"
"""The environment variable that names the ports to choose from, as ``10000-12999``.

Give processes that start labs at the same time a range each, for anybody can take the ports of a broker that is down.
"""

_given: set[int] = set()
"""What this process has chosen before. A server need not listen there yet, or may come back."""


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Choose ports on which nobody listens, below the ephemeral range of outgoing connections.

    A broker that was down must find its port free again. By then a port of the ephemeral range could belong to an
    outgoing connection. A port that this process was given before is given again only if no other is left.

    Args:
        count: how many ports.
        host: the address on which they must be free.

    Returns:
        The ports, in no order.

    Raises:
        LabError: there are not enough free ports, or ``PARALLAX_PORTS`` is no range.
    """
    chosen_from = _range()
    candidates = list(chosen_from)
    random.SystemRandom().shuffle(candidates)
    candidates.sort(key=_given.__contains__)
    ports: list[int] = []
    for port in candidates:
        if len(ports) == count:
            break
        if _is_free(host, port):
            ports.append(port)
    if len(ports) < count:
        raise LabError(f"{host} has no {count} free ports from {chosen_from.start} on; stop what listens there")
    _given.update(ports)
    return ports


def _range() -> range:
    given = os.environ.get(ENVIRONMENT)
    if not given:
        return range(_FIRST, _first_ephemeral())
    first, _, last = given.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 1 << 16):
        raise LabError(f"{ENVIRONMENT} is {given!r}; give a range such as 10000-12999, or leave it out")
    return range(int(first), int(last) + 1)


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
