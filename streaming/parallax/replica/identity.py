"""Who answers at an address: a connection counts only if it leads to the cluster, and to the broker, that is meant.

An address may go to somebody else (a pod's, a container's, a name in DNS), and nothing in the answers to most requests
shows it: two clusters have brokers and topics of the same names. So each new connection is asked, once.
"""

from __future__ import annotations

import threading

from parallax.replica.connection import Connection, Deadline
from parallax.replica.errors import OtherCluster, Unreachable
from parallax.replica.options import Address


class Identity:
    """The cluster of a client; thread-safe.

    Args:
        cluster_id: the cluster's id; None to take that of the first who answers, and then no other.

    Attributes:
        cluster_id: the same; None as long as nobody has told one.
    """

    def __init__(self, cluster_id: str | None) -> None:
        self.cluster_id = cluster_id
        self._lock = threading.Lock()
        self._untold: set[int] = set()

    def check(self, target: int | Address, connection: Connection, deadline: Deadline) -> None:
        """Refuse a connection on which somebody else answers.

        A broker that does not tell which one it is, for want of DESCRIBE_CONFIGS on the cluster, is asked once and
        believed. Every broker tells its cluster, and needs no right for that.

        Args:
            target: who is meant: a broker by its id, or whoever is at an address.
            connection: a new one to it.
            deadline: for all of it.

        Raises:
            OtherCluster: who answers belongs to another cluster.
            Unreachable: another broker of the cluster answers.
            OSError: nobody answered.
            BrokerTooOld, NotABroker: who answers cannot be asked.
        """
        told = connection.cluster_id(deadline)
        with self._lock:
            wanted = self.cluster_id = self.cluster_id or told or None
        if wanted is not None and told != wanted:
            raise _another(told, wanted, connection.address, target)
        if not isinstance(target, int) or target in self._untold:
            return
        is_another = connection.is_another(target, deadline)
        if is_another:
            host, port = connection.address
            raise Unreachable(f"another broker answers at {host}:{port}, its address in the metadata", broker=target)
        if is_another is None:
            self._untold.add(target)


def _another(told: str, wanted: str, address: Address, target: int | Address) -> OtherCluster:
    shown = f"belongs to cluster {told}" if told else "does not say which cluster it belongs to"
    problem = f"{address[0]}:{address[1]} {shown}, not to {wanted}"
    return OtherCluster(problem, cluster_id=told, broker=target if isinstance(target, int) else None)
