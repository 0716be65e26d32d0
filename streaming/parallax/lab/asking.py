"""Repeats a request to the brokers until they carry it out or refuse it.

While a leader or the controller is being elected, brokers do neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from parallax.lab.errors import LabError

SECONDS = 30.0
"""How long one request may take."""
_ON_THE_MOVE_S = 4 * SECONDS
"""After which no request is made again: a broker's JVM may have yet to start."""

_PASSING = frozenset(
    {
        KafkaError._NOENT,  # noqa: SLF001 - librdkafka's word for a partition without a leader
        KafkaError._DESTROY_BROKER,  # noqa: SLF001 - and for a broker that it drops, which may be back immediately
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


def answers(ask: Callable[[], Mapping[Any, Future[Any]]], what: str, *, done_before: Collection[int] = ()) -> list[Any]:
    """Make an AdminClient's request, again if an election is under way; returns the result of each of its futures.

    Args:
        ask: makes the request with a timeout of 30 s (`SECONDS`). It must be safe to repeat, because it is called again
            while a leader or the controller is being elected.
        what: what is requested, as the subject of "failed" in an error, e.g. ``the deletion``.
        done_before: error codes, such as "unknown topic" for a deletion, that count as success from the second call on:
            the first call had done it already.

    Raises:
        LabError: the brokers refuse, or have neither done nor refused it after two minutes.
    """
    deadline = time.monotonic() + _ON_THE_MOVE_S
    repeated_done: Collection[int] = ()
    while True:
        try:
            return [_result(future, repeated_done) for future in ask().values()]
        except KafkaException as error:
            refusal = error.args[0]
            if refusal.code() not in _PASSING or time.monotonic() >= deadline:
                raise LabError(f"{what} failed ({refusal.str()})") from error
        repeated_done = done_before
        time.sleep(0.2)


def _result(future: Future[Any], repeated_done: Collection[int]) -> Any:
    try:
        return future.result(2 * SECONDS)
    except KafkaException as error:
        if error.args[0].code() in repeated_done:
            return None
        raise


__all__ = ["SECONDS", "answers"]
