"""Asks each broker in a thread of its own, so that a slow broker delays no other.

A planning call gives each broker a question and waits a short while. A broker that has not answered by then is still
being asked in its own thread, and the next planning call uses its answer. If a broker fails, its *circuit* opens: its
thread asks it again after a pause, which doubles each time. Nobody waits for the broker until it has answered again.
Then those who wait for its return are woken (`Brokers.is_back`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import SystemRandom
from typing import Generic, TypeVar

from parallax.backoff import backoff
from parallax.replica.errors import ReplicaError

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_DRAW = SystemRandom()

_WANTED_S = 10.0
"""For how many seconds after a question a broker that has failed is asked again."""


@dataclass(frozen=True)
class Failure:
    """Why a broker has not answered, and since when.

    Attributes:
        error: what went wrong; its text is one line for people.
        since: when the present series of failures began, in monotonic seconds.
    """

    error: ReplicaError
    since: float


class BrokerWatch(Generic[Question, Answer]):
    """Asks one broker in a thread of its own.

    After a failure its *circuit* is open: the thread asks the last question again after a pause, for as long as
    somebody wants to know. The answer closes the circuit and is dropped: the next question gets a newer one.

    Args:
        broker: the broker's id, for the name of the thread.
        ask: asks the broker a question; has to end by a deadline of its own, and to raise ``ReplicaError`` on failure.
        retry_s: first pause after a failure, in seconds.
        retry_max_s: longest pause, in seconds.
        answered: a condition that is notified whenever an answer or a failure has come.

    Attributes:
        returns: how many times the broker has answered after a failure.
    """

    def __init__(
        self,
        broker: int,
        ask: Callable[[Question], Answer],
        retry_s: float,
        retry_max_s: float,
        answered: threading.Condition,
    ) -> None:
        self.failure: Failure | None = None
        self.returns = 0
        self._ask = ask
        self._retry_s, self._retry_max_s = retry_s, retry_max_s
        self._answered = answered
        self._question: Question | None = None
        self._wanted_at = 0.0
        self._answer: Answer | None = None
        self._asking = False
        self._waited_in_vain = False
        self._failures = 0
        self._retry_at = 0.0
        self._closed = False
        self._wake = threading.Condition()
        threading.Thread(target=self._run, name=f"broker-{broker}", daemon=True).start()

    @property
    def awaited(self) -> bool:
        """Whether a caller should wait for this broker's answer.

        It should if the broker is being asked, its last question did not fail, and it answered the last caller in time.
        """
        return self._asking and self.failure is None and not self._waited_in_vain

    def submit(self, question: Question) -> None:
        """Let the broker's thread ask a question, and do not wait for the answer (`take`).

        If the broker is still being asked, nothing is done. If its last question failed, the thread asks again by
        itself once the pause is over.
        """
        with self._wake:
            self._question, self._wanted_at = question, time.monotonic()
            self._asking = self._asking or self.failure is None
            self._wake.notify()

    def gave_up(self) -> None:
        """Note that a caller waits no longer; if there is no answer yet, the broker counts as slow.

        Later callers do not wait for a slow broker until it has answered.
        """
        self._waited_in_vain = self._asking

    def take(self) -> Answer | None:
        """The broker's newest answer; None if no answer has come since the last call."""
        answer, self._answer = self._answer, None
        return answer

    def close(self) -> None:
        """End the thread that asks the broker."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._asking and not self._closed:
                    self._wake.wait(self._retry())
                if self._closed:
                    return
                question = self._question
            assert question is not None  # noqa: S101 - held by the loop above
            self._ask_once(question)

    def _retry(self) -> float | None:
        """Ask the last question again if its pause is over; else return for how long to wait, None for a question."""
        now = time.monotonic()
        if self.failure is None or now - self._wanted_at > _WANTED_S:
            return None
        self._asking = now >= self._retry_at
        return max(0.0, self._retry_at - now)

    def _ask_once(self, question: Question) -> None:
        answer: Answer | None = None
        error: ReplicaError | None = None
        try:
            answer = self._ask(question)
        except ReplicaError as problem:
            error = problem
        except Exception as problem:  # noqa: BLE001 - a fault in one broker's answer must not end its thread
            error = ReplicaError(f"{type(problem).__name__}: {problem}")
        with self._wake:
            if answer is None:
                self._failed(error or ReplicaError("it was not asked"))
            else:
                self.returns += self.failure is not None
                self._answer = answer if self.failure is None else None
                self.failure, self._failures, self._retry_at = None, 0, 0.0
                self._waited_in_vain = False
            self._asking = False
        with self._answered:
            self._answered.notify_all()

    def _failed(self, error: ReplicaError) -> None:
        since = self.failure.since if self.failure else time.monotonic()
        self.failure = Failure(error, since)
        self._failures += 1
        self._retry_at = time.monotonic() + backoff(self._failures, self._retry_s, self._retry_max_s, _DRAW)


class Brokers(Generic[Question, Answer]):
    """Asks all brokers of a cluster, each in a thread of its own (`BrokerWatch`).

    Args:
        ask: asks one broker, given its id and the question. It has to end by a deadline of its own, and to raise
            ``ReplicaError`` on failure.
        retry_s: first pause after a failure, in seconds.
        retry_max_s: longest pause, in seconds.
    """

    def __init__(self, ask: Callable[[int, Question], Answer], retry_s: float, retry_max_s: float) -> None:
        self._ask = ask
        self._pauses = retry_s, retry_max_s
        self._answered = threading.Condition()
        self._watches: dict[int, BrokerWatch[Question, Answer]] = {}
        self._returns = 0

    def ask(self, questions: Mapping[int, Question], patience_s: float) -> dict[int, Answer]:
        """Ask several brokers, and wait for those that answered the last call in time.

        Args:
            questions: the question for each broker, by its id.
            patience_s: how many seconds this call waits, at most.

        Returns:
            The answers that have come, by broker id. The answer of a slow broker may belong to an earlier question.
        """
        self._returns = self._returned()
        for broker, question in questions.items():
            self._watch(broker).submit(question)
        watches = {broker: self._watches[broker] for broker in questions}
        deadline = time.monotonic() + patience_s
        with self._answered:
            while any(watch.awaited for watch in watches.values()):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._answered.wait(left)
        for watch in watches.values():
            watch.gave_up()
        taken = {broker: watch.take() for broker, watch in watches.items()}
        return {broker: answer for broker, answer in taken.items() if answer is not None}

    def is_back(self, patience_s: float) -> bool:
        """Wait until a broker that had failed has answered since the last call of `ask`.

        Args:
            patience_s: how many seconds this call waits, at most.

        Returns:
            Whether one has.
        """
        with self._answered:
            return self._answered.wait_for(lambda: self._returned() != self._returns, patience_s)

    def _returned(self) -> int:
        return sum(watch.returns for watch in self._watches.values())

    def failures(self) -> dict[int, Failure]:
        """Why each broker whose circuit is open does not answer, by broker id."""
        found = {broker: watch.failure for broker, watch in self._watches.items()}
        return {broker: failure for broker, failure in found.items() if failure is not None}

    def close(self) -> None:
        """End the threads that ask the brokers."""
        for watch in self._watches.values():
            watch.close()

    def _watch(self, broker: int) -> BrokerWatch[Question, Answer]:
        if broker not in self._watches:
            self._watches[broker] = BrokerWatch(
                broker, lambda question: self._ask(broker, question), *self._pauses, self._answered
            )
        return self._watches[broker]
