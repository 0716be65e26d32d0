"""Asks the brokers for the records that a finding is about, when a user of the page presses a button.

It asks for one finding at a time, and stores nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parallax.alerting.page.versions import Payload, Versions, as_asked, offsets_of
from parallax.findings.finding import Finding

if TYPE_CHECKING:
    from parallax.replica.at_offset import AtOffset
    from parallax.replica.client import ReplicaClient


class AskingError(Exception):
    """The brokers could not be asked for a finding's records; the message is one line for people."""


class Asking:
    """Asks each replica of a finding's partition what it has at the finding's offsets.

    Args:
        client: asks the brokers.
        payload: setting ``read.payload``, which says whether keys and values may be shown.
    """

    def __init__(self, client: ReplicaClient, payload: Payload) -> None:
        self._client = client
        self._payload: Payload = payload
        self._lock = threading.Lock()

    def ask(self, finding: Finding) -> Sequence[Versions]:
        """The finding's records as each broker has them now, one `Versions` for each offset, by rising offset.

        A broker that does not answer is included, and marked as silent.

        Raises:
            AskingError: the finding names no offset, its partition no longer exists or cannot be described, or somebody
                else is asking at this moment.
        """
        from parallax.replica.at_offset import Held, at_offset
        from parallax.replica.errors import ReplicaError

        offsets = offsets_of(finding)
        if not offsets:
            raise AskingError("The finding names no offset to ask for.")
        with self._alone():
            try:
                topic = self._client.metadata([finding.topic]).get(finding.topic)
            except ReplicaError as error:
                raise AskingError(f"The brokers do not say where the partition is: {error.problem}") from error
            where = None if topic is None else topic.partitions.get(finding.partition)
            if where is None:
                why = "there is none any more" if topic is None or topic.error is None else topic.error.problem
                raise AskingError(f"{finding.place.name} cannot be asked for: {why}")
            silent: dict[int, AtOffset] = {}
            answers: dict[int, dict[int, AtOffset]] = {}
            for offset in offsets:
                for broker in sorted(where.replicas):
                    # One that does not answer is waited for once.
                    found = silent.get(broker) or at_offset(self._client, broker, finding.place, offset)
                    answers.setdefault(offset, {})[broker] = found
                    if found.held is Held.SILENT:
                        silent[broker] = found
            return [as_asked(o, found, where.leader, finding.broker, self._payload) for o, found in answers.items()]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One asks at a time: however often the button is pressed, the brokers notice little of it."""
        if not self._lock.acquire(blocking=False):
            raise AskingError("Somebody is asking the brokers already: try again in a few seconds.")
        try:
            yield
        finally:
            self._lock.release()
