"""Who answers at an address: a connection counts only if it leads to the intended cluster and broker.

An address may come to lead elsewhere: one of a pod, of a container, a name in DNS. The answers to most requests do not
show it, since two clusters have brokers and topics of the same names. So each new connection is asked, once.
"""

from __future__ import annotations

import threading

from parallax.replica.connection import Connection, Deadline
from parallax.replica.errors import OtherCluster, Unreachable
from parallax.replica.options import Address


class Identity:
    """Knows the cluster of a client, and refuses any other; thread-safe.

    Args:
        cluster_id: the cluster's id; None to accept the id of the first cluster that answers, and then no other.

    Attributes:
        cluster_id: the cluster's id; None as long as no broker has given one.
    """

    def __init__(self, cluster_id: str | None) -> None:
        self.cluster_id = cluster_id
        self._lock = threading.Lock()
        self._untold: set[int] = set()

    def check(self, target: int | Address, connection: Connection, deadline: Deadline) -> None:
        """Refuse a connection on which another cluster or broker answers.

        A broker without DESCRIBE_CONFIGS on the cluster does not say which one it is. It is asked once and then
        believed. Every broker gives its cluster's id, and needs no right for that.

        Args:
            target: who is meant: a broker by its id, or any broker at an address.
            connection: a new connection to it.
            deadline: for all of this.

        Raises:
            OtherCluster: another cluster answers.
            Unreachable: another broker of the cluster answers.
            OSError: nobody answered.
            BrokerTooOld, NotABroker: what answers cannot be asked.
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
