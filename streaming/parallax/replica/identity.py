"""Checks that a connection leads to the intended cluster and broker.

The address of a pod or a container, or a name in DNS, may lead to another broker after a while. Most answers would not
show that, since two clusters may have brokers with the same ids, and topics of the same names. So each new connection
is checked once.
"""

from __future__ import annotations

import threading

from parallax.replica.connection import Connection, Deadline
from parallax.replica.errors import OtherCluster, Unreachable
from parallax.replica.options import Address


class Identity:
    """The cluster that a client's connections must lead to; checks each new connection. Thread-safe.

    Args:
        cluster_id: the cluster's id; None to accept the first cluster that answers, and later no other.

    Attributes:
        cluster_id: the cluster's id; None until a broker has given one.
    """

    def __init__(self, cluster_id: str | None) -> None:
        self.cluster_id = cluster_id
        self._lock = threading.Lock()
        self._untold: set[int] = set()

    def check(self, target: int | Address, connection: Connection, deadline: Deadline) -> None:
        """Raise an error if another cluster or broker than the intended one answers on a connection.

        Every broker gives its cluster's id, and the user needs no permission for that. If the user lacks
        DESCRIBE_CONFIGS on the cluster, a broker does not give its own id. Then it is assumed to be the intended
        broker.

        Args:
            target: who should answer: a broker by its id, or any broker at an address.
            connection: a new connection to it.
            deadline: by when this must end.

        Raises:
            OtherCluster: another cluster answers.
            Unreachable: another broker of the cluster answers.
            OSError: nobody answered.
            BrokerTooOld, NotABroker: the process that answers cannot be asked.
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
