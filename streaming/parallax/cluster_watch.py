"""Checks regularly that no address of a broker leads to another cluster, and logs each that does.

Answers of another cluster are refused everywhere (`parallax.replica.identity`), so the tables stay right. But nobody
would notice the wrong address while other addresses answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from parallax.errors import one_line
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import OtherCluster

log = structlog.get_logger(__name__)

EVERY_S = 10.0

Mismatches = Mapping[str, str]
"""By address, ``host:port``: the id of the other cluster that answers there; empty where it gives none."""


class ClusterWatch:
    """A thread that asks every ten seconds which cluster answers at each address.

    The addresses are those of ``bootstrap.servers``, and those that the brokers advertise.

    Args:
        client: client of the cluster that the job watches.
        on_look: called each time with the addresses at which another cluster answers.
    """

    def __init__(self, client: ReplicaClient, on_look: Callable[[Mismatches], None]) -> None:
        self._client = client
        self._on_look = on_look
        self._seen: Mismatches = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clusters", daemon=True)

    def start(self) -> None:
        """Start the thread. It asks immediately, and then every `EVERY_S` seconds."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the thread, and wait for it up to ``timeout_s`` seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

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

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - a fault in one look must not be the last of them
                what = "which cluster answers there is asked again"
                log.warning("the addresses could not be asked for their cluster", error=one_line(error), what=what)
            if self._stop.wait(EVERY_S):
                return


__all__ = ["EVERY_S", "ClusterWatch", "Mismatches"]
