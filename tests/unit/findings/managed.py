"""A cluster that answers what a test says, and suspects to ask it about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from parallax.compare.suspect import Suspect
from parallax.findings.answers import Answers, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.happenings import FindingsStatus
from parallax.model import FindingKind
from parallax.replica.decode import ContentHasher
from tests.builders.answers import NOTHING, answers, newest, replica, silent
from tests.builders.claims import key_suspect, suspect
from tests.patience import PATIENCE_S

HASHER = ContentHasher(bytes(16))


class Cluster:
    """Stands in for the client: the manager asks it for the cluster's id alone."""

    cluster_id = "cluster-a"


class Replicas:
    """Answers probes as the test says; stands beside the real prober, which the end-to-end tests use."""

    def __init__(self, answer: Callable[[Claim], Answers]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.groups: list[int] = []
        self.read_bytes: dict[int, int] = {}

    def probe(self, claims: Sequence[Claim]) -> list[Answers]:
        self.asked += [c.suspect_id for c in claims]
        self.groups.append(len(claims))
        return [self.answer(c) for c in claims]

    def close(self) -> None:
        pass


class Watch:
    """Hears each status that a manager reports.

    Attributes:
        status: the last one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.status = FindingsStatus()
        self._to_look_at = [self.status]

    def __call__(self, status: FindingsStatus) -> None:
        with self._changed:
            self.status = status
            self._to_look_at.append(status)
            self._changed.notify_all()

    def until(self, condition: Callable[[FindingsStatus], bool]) -> FindingsStatus:
        """The first status of which something holds since a call of this came back, also one that was over at once."""
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while not (found := [one for one in self._to_look_at if condition(one)]):
                self._to_look_at = [self.status]
                assert self._changed.wait(end - time.monotonic()), self.status
            self._to_look_at = [self.status]
            return found[0]


def among(accused: ReplicaAnswer, leader: int = 1) -> Answers:
    return answers(replica(1), accused, replica(3), leader=leader)


def away(_: Claim) -> Answers:
    return among(ReplicaAnswer(2, error="broker 2: no answer within 3000 ms; is it paused or overloaded?"))


def unmarked_suspect(**fields: Any) -> Suspect:
    """That broker 2 lacks the end marker, an ABORT, which broker 1 was recorded to show."""
    return suspect(FindingKind.MARKER_MISSING, **({"observations": {"markers": {"1": "abort"}}} | fields))


def showing(*wrong: int, away: Sequence[int] = ()) -> Callable[[Claim], Answers]:
    """Some of three replicas show a value that was deleted, the others none."""

    def answer(_: Claim) -> Answers:
        end = dict.fromkeys(("high_watermark", "last_stable_offset", "log_end_offset"), 10**6)
        made = {b: replica(b, **end, key=newest(3) if b in wrong else NOTHING) for b in (1, 2, 3)}
        made |= {b: silent(b) for b in away}
        return Answers(made, leader=1)

    return answer


def undeleted(key: int) -> Suspect:
    return key_suspect(offset=1_000 + key, key_hash_hi=1, key_hash_lo=key + 1)
