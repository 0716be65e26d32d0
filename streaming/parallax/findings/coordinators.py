"""Asks transaction coordinators about producers, to learn whether transactions that leaders hold open will ever end.

It uses the requests of KIP-664.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from parallax.findings.hanging import CoordinatorsSay, Open, Prospect, Standing, judge, opened
from parallax.model import UNKNOWN
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.replica.types import TransactionListing, TransactionListings

STATES = "__transaction_state"
"""Kafka's topic whose leaders are the coordinators."""


def ask(client: ReplicaClient, producer_ids: Sequence[int], timeout_ms: int) -> CoordinatorsSay:
    """Ask every transaction coordinator for the transactions of some producers.

    Args:
        client: asks the brokers.
        producer_ids: the producers; at least one.
        timeout_ms: deadline of each request.

    Returns:
        The transactions of these producers that coordinators list: first those that are over, then those that are not,
        then the latter once more, with their partitions, if a coordinator has described them.
        ``CoordinatorsSay.unanswered`` says why the answers may be incomplete; it is empty only if the leader of every
        partition of the coordinators' topic has answered.
    """
    before = coordinators(client, timeout_ms)
    try:
        listings = client.list_transactions(producer_ids, timeout_ms=timeout_ms)
    except ReplicaError as error:
        return CoordinatorsSay(unanswered={UNKNOWN: str(error)})
    wanted = set(producer_ids)
    # A broker that coordinates it no more may list an earlier state: one that is not over counts before one that is.
    listed = sorted(
        (one for one in listings.transactions if one.producer_id in wanted), key=lambda one: not one.is_over
    )
    unanswered = _unanswered(listings, before, coordinators(client, timeout_ms))
    return CoordinatorsSay((*listed, *_described(client, listed, timeout_ms)), unanswered)


def coordinators(client: ReplicaClient, timeout_ms: int) -> Mapping[int, int] | ReplicaError:
    """The leader of each partition of the coordinators' topic, or the error if they are not known.

    Args:
        client: asks the brokers.
        timeout_ms: deadline of the request.
    """
    try:
        topic = client.metadata([STATES], timeout_ms=timeout_ms)[STATES]
    except ReplicaError as error:
        return error
    return topic.error or {number: one.leader for number, one in topic.partitions.items()}


def _unanswered(
    listings: TransactionListings, before: Mapping[int, int] | ReplicaError, after: Mapping[int, int] | ReplicaError
) -> Mapping[int, str]:
    """Why the coordinators' answers are incomplete: the leader of every partition of their topic must answer.

    The client does not even ask an absent broker that it has never seen. So all may seem to have answered when they
    have not. If a partition moves meanwhile, neither its old nor its new leader may list a transaction.

    Args:
        listings: what the brokers answered, and which did not.
        before: who led each partition before the brokers were asked, or why that is not known.
        after: who led it when they had answered.
    """
    if isinstance(before, ReplicaError):
        return _unknown_coordinators(before)
    if isinstance(after, ReplicaError):
        return _unknown_coordinators(after)
    if not (before and after) or UNKNOWN in {*before.values(), *after.values()}:
        return {UNKNOWN: f"a partition of {STATES} has no leader"}
    if before != after:
        return {UNKNOWN: f"a partition of {STATES} has moved to another coordinator"}
    silent = set(after.values()) - listings.answered
    return {broker: str(listings.unanswered.get(broker, f"broker {broker} was not asked")) for broker in sorted(silent)}


def _unknown_coordinators(why: ReplicaError) -> Mapping[int, str]:
    return {UNKNOWN: f"who coordinates transactions is not known ({why})"}


def _described(
    client: ReplicaClient, listed: Sequence[TransactionListing], timeout_ms: int
) -> list[TransactionListing]:
    """Return ongoing transactions with their partitions; without them where the coordinator does not say."""
    asked: dict[int, list[str]] = {}
    for one in listed:
        if not one.is_over:
            asked.setdefault(one.coordinator, []).append(one.transactional_id)
    found: list[TransactionListing] = []
    for broker, names in asked.items():
        with suppress(ReplicaError):
            found += client.describe_transactions(broker, names, timeout_ms=timeout_ms)
    ids = {one.producer_id for one in listed}
    return [one for one in found if one.producer_id in ids]


def verdicts(client: ReplicaClient, found: Sequence[Open], timeout_ms: int) -> dict[Open, Prospect]:
    """Decide, of transactions that leaders hold open, whether a coordinator will ever end them.

    The coordinators are asked first. Then the leaders are asked again, because a coordinator may have ended a
    transaction in between.

    Args:
        client: asks the brokers.
        found: the transactions, as their leaders hold them.
        timeout_ms: deadline of each request.

    Returns:
        The verdict by transaction; a transaction that is no longer open has none.
    """
    judged = under_way(client, found, timeout_ms)
    lost = [one for one, verdict in judged.items() if verdict.standing is not Standing.GOES_ON]
    still = _still_open(client, lost, timeout_ms)
    kept = {}
    for one, verdict in judged.items():
        if verdict.standing is Standing.GOES_ON or still.get(one):
            kept[one] = verdict
        elif one not in still:
            kept[one] = Prospect(Standing.UNKNOWN, f"broker {one.leader}, which led it, did not answer again")
    return kept


def under_way(client: ReplicaClient, found: Sequence[Open], timeout_ms: int) -> dict[Open, Prospect]:
    """Decide, of each transaction, whether a coordinator has one of its producer under way in its partition.

    Unlike `verdicts` it does not ask whether leaders still hold them open.

    Args:
        client: asks the brokers.
        found: the transactions.
        timeout_ms: deadline of each request.
    """
    if not found:
        return {}
    told = ask(client, sorted({one.producer_id for one in found}), timeout_ms)
    may_describe = _may_describe(client, timeout_ms)
    return {one: judge(one, told, may_describe=may_describe) for one in found}


def _may_describe(client: ReplicaClient, timeout_ms: int) -> bool | None:
    try:
        return client.may_describe_transactions(timeout_ms=timeout_ms)
    except ReplicaError:
        return None


def _still_open(client: ReplicaClient, lost: Iterable[Open], timeout_ms: int) -> dict[Open, bool]:
    """Return whether each is still open; those whose leader does not say are left out."""
    by_leader: dict[int, list[Open]] = {}
    for one in lost:
        by_leader.setdefault(one.leader, []).append(one)
    found: dict[Open, bool] = {}
    for leader, mine in by_leader.items():
        try:
            answers = client.describe_producers(leader, list({one.place for one in mine}), timeout_ms=timeout_ms)
        except ReplicaError:
            continue
        for one in mine:
            if isinstance(states := answers.get(one.place), list):
                now = {other.identity for other in opened(one.place, leader, states)}
                found[one] = one.identity in now
    return found


__all__ = ["STATES", "ask", "coordinators", "under_way", "verdicts"]
