"""What transaction coordinators say of producers: their transactions, and which partitions these end in (KIP-664)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from parallax.model import UNKNOWN
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.replica.types import TransactionListing

_UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""The states of a transaction that some partition has an end marker still to get of."""


@dataclass(frozen=True, slots=True)
class Told:
    """What all coordinators together said.

    Attributes:
        transactions: of the producers asked about; where one is there twice, the later one has its partitions.
        unanswered: by broker that said nothing, why; by -1, why nobody could be asked.
    """

    transactions: tuple[TransactionListing, ...] = ()
    unanswered: Mapping[int, str] = field(default_factory=dict)

    @property
    def silent(self) -> str:
        """Why some said nothing; empty where all answered."""
        return "; ".join(self.unanswered.values())


def ask(client: ReplicaClient, producer_ids: Sequence[int], timeout_ms: int) -> Told:
    """Ask every coordinator about producers; what is not said is reported, not guessed.

    Args:
        client: asks the brokers.
        producer_ids: at least one.
        timeout_ms: deadline of each request.
    """
    try:
        listings = client.list_transactions(producer_ids, timeout_ms=timeout_ms)
    except ReplicaError as error:
        return Told(unanswered={UNKNOWN: str(error)})
    wanted = set(producer_ids)
    listed = [one for one in listings.transactions if one.producer_id in wanted]
    unanswered = {broker: str(error) for broker, error in listings.unanswered.items()}
    return Told((*listed, *_described(client, listed, timeout_ms)), unanswered)


def _described(
    client: ReplicaClient, listed: Sequence[TransactionListing], timeout_ms: int
) -> list[TransactionListing]:
    """Those that are under way, with their partitions; a coordinator that does not say leaves it at the listing."""
    asked: dict[int, list[str]] = {}
    for one in listed:
        if one.state in _UNDER_WAY:
            asked.setdefault(one.coordinator, []).append(one.transactional_id)
    found: list[TransactionListing] = []
    for broker, names in asked.items():
        with suppress(ReplicaError):
            found += client.describe_transactions(broker, names, timeout_ms=timeout_ms)
    ids = {one.producer_id for one in listed}
    return [one for one in found if one.producer_id in ids]


__all__ = ["Told", "ask"]
