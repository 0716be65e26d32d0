"""Checks regularly that no address of a broker leads to another cluster, and logs each that does.

Answers of another cluster are refused everywhere (`parallax.replica.identity`), so the tables stay right. But nobody
would notice the wrong address while other addresses answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from parallax.errors import one_line
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import OtherCluster
from parallax.rounds import Rounds

log = structlog.get_logger(__name__)

EVERY_S = 10.0

Mismatches = Mapping[str, str]
"""By address, ``host:port``: the id of the other cluster that answers there; empty where it gives none."""


class ClusterWatch(Rounds):
    """A thread that asks every ten seconds which cluster answers at each address.

    The addresses are those of ``bootstrap.servers``, and those that the brokers advertise.

    Args:
        client: client of the cluster that the job watches.
        on_look: called each time with the addresses at which another cluster answers.
    """

    def __init__(self, client: ReplicaClient, on_look: Callable[[Mismatches], None]) -> None:
        super().__init__("clusters", EVERY_S, is_prompt=True)
        self._client = client
        self._on_look = on_look
        self._seen: Mismatches = {}

    def look(self) -> None:
        """Ask at each address which cluster answers, and log the addresses for which that has changed."""
        found = {
            f"{host}:{port}": error.cluster_id
            for (host, port), error in self._client.clusters().items()
            if isinstance(error, OtherCluster)
        }
        for address in found.keys() - self._seen.keys():
            log.error(
                "another cluster answers at an address",
                address=address,
                its_cluster=found[address] or "unknown",
                cluster=self._client.cluster_id,
                what="nothing is read there, and what is on record stays; correct kafka.bootstrap.servers, or what "
                "the broker advertises",
            )
        for address in self._seen.keys() - found.keys():
            log.warning("no other cluster answers at an address any more; it is read again", address=address)
        self._seen = found
        self._on_look(found)

    def failed(self, error: Exception) -> None:
        """Log that the addresses could not be asked.

        Args:
            error: what the look has raised.
        """
        what = "which cluster answers there is asked again"
        log.warning("the addresses could not be asked for their cluster", error=one_line(error), what=what)


__all__ = ["EVERY_S", "ClusterWatch", "Mismatches"]
