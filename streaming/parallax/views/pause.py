"""The switch with which an operator stops a job from reading records, of all brokers or of some.

It is a file next to the tables, so it outlives the job and the machine that the job runs on. The job looks at it every
two seconds and informs its sources (`parallax.source.feedback`). Readers keep their positions. Offsets that are written
during the pause are unknown until they are read. They stay unknown if something may have been cleaned there before
(`parallax.compare.unread`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from parallax.errors import is_text, one_line
from parallax.rounds import Rounds
from parallax.source.feedback import ALL
from parallax.views.control import FOLDER, read_document, refusals, write_document

EVERY_S = 2.0
"""Every how many seconds a job looks at the switch."""

_FILE = "paused.json"
_MOST_OF_A_REASON = 500


class PauseError(Exception):
    """The file that pauses reading (the *switch*) cannot be read or changed.

    The text says why and what to do, in one line.
    """


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator's order not to read a broker, or any broker.

    Attributes:
        since: when it was given, in seconds since 1970 UTC.
        by: who gave it.
        reason: why.
    """

    since: float
    by: str
    reason: str


Paused = Mapping[int, Pause]
"""The pauses that are on, by broker id; `parallax.source.feedback.ALL` means all brokers."""


def called(broker: int) -> str:
    """The broker of a pause as text for people: ``2``, or ``all`` for -1 (`ALL`), all brokers."""
    return "all" if broker == ALL else str(broker)


def in_words(standing: Paused) -> list[str]:
    """A phrase for each pause that is on: which broker, since when, by whom, and why; in the order of the brokers.

    Args:
        standing: the pauses that are on, by broker id.
    """
    found = []
    for broker, one in sorted(standing.items()):
        since = datetime.fromtimestamp(one.since, UTC)
        whom = "all brokers" if broker == ALL else f"broker {broker}"
        found.append(f"{whom} since {since:%Y-%m-%d %H:%M} UTC, by {one.by}: {one.reason}")
    return found


def paused(storage: str) -> Paused:
    """The pauses that are on now, by broker id.

    Args:
        storage: ``storage.path``.

    Raises:
        PauseError: the switch cannot be read.
    """
    try:
        document = read_document(storage, _FILE)
        standing = {} if document is None else document
        return {_broker(broker): _checked(Pause(**pause)) for broker, pause in standing.items()}
    except refusals(ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise PauseError(
            f"storage.path: {storage}: {FOLDER}/{_FILE} cannot be read ({one_line(error)}); "
            "remove it to have all brokers read"
        ) from error


def _broker(text: str) -> int:
    broker = int(text)
    if not ALL <= broker < 1 << 31:
        raise ValueError(f"{broker} is no broker's id")
    return broker


def _checked(one: Pause) -> Pause:
    """The same pause, if its parts have the right types.

    Raises:
        TypeError: a part of it is of another type.
        ValueError: no calendar has such a time, or OverflowError.
    """
    if not isinstance(one.by, str) or not isinstance(one.reason, str):
        raise TypeError("who paused it and why must be text")
    datetime.fromtimestamp(one.since, UTC)
    return one


def pause(storage: str, brokers: Collection[int], reason: str, by: str, now: float | None = None) -> Paused:
    """Pause the reading of some brokers, or of all if ``brokers`` is empty.

    A broker that is paused already keeps its earlier pause.

    Args:
        storage: ``storage.path``.
        brokers: ids of the brokers.
        reason: why, for other people.
        by: who pauses the reading.
        now: seconds since 1970 UTC; None for the present time.

    Returns:
        All pauses that are on now.

    Raises:
        PauseError: no reason is given, or the switch cannot be read or changed.
    """
    said = " ".join(reason.split())
    if not said or len(said) > _MOST_OF_A_REASON or not is_text(said):
        raise PauseError(f"--reason: say in 1 to {_MOST_OF_A_REASON} characters why nothing is to be read")
    new = Pause(time.time() if now is None else now, by, said)
    standing = {**dict.fromkeys(brokers or (ALL,), new), **paused(storage)}
    _write(storage, standing)
    return standing


def resume(storage: str, brokers: Collection[int]) -> Paused:
    """Resume the reading of some brokers, or of all if ``brokers`` is empty.

    Args:
        storage: ``storage.path``.
        brokers: ids of the brokers.

    Returns:
        The pauses that are still on.

    Raises:
        PauseError: a named broker has no pause of its own, or the switch cannot be read or changed.
    """
    before = paused(storage)
    for broker in brokers:
        if broker not in before:
            among = "all brokers are, leave --broker out" if ALL in before else "look at parallax check"
            raise PauseError(f"--broker: {broker} is not paused by itself; {among}")
    standing = {broker: one for broker, one in before.items() if brokers and broker not in brokers}
    _write(storage, standing)
    return standing


def _write(storage: str, standing: Paused) -> None:
    try:
        write_document(storage, _FILE, {str(broker): asdict(one) for broker, one in standing.items()})
    except refusals() as error:
        raise PauseError(f"storage.path: {storage}: {one_line(error)}; it must be one that can be written") from error


class PauseWatch(Rounds):
    """Looks every two seconds for which brokers an operator has paused reading, in a thread of its own.

    The file that says so is called the *switch*.

    Args:
        storage: ``storage.path``.
        on_look: called after each look with the pauses that are on.
        on_failure: called with the reason if a look, or ``on_look``, failed; the pauses stay as they were.
    """

    def __init__(self, storage: str, on_look: Callable[[Paused], None], on_failure: Callable[[str], None]) -> None:
        super().__init__("pause", EVERY_S)
        self._storage = storage
        self._on_look = on_look
        self._on_failure = on_failure

    def start(self) -> None:
        """Look at the switch once, and then every two seconds.

        Raises:
            OSError: ``on_look`` has failed, because what it writes to cannot be written.
        """
        self.look()
        super().start()

    def look(self) -> None:
        """Look at the switch once, and report a switch that cannot be read.

        Raises:
            OSError: ``on_look`` has failed, because what it writes to cannot be written.
        """
        try:
            standing = paused(self._storage)
        except PauseError as error:
            self._on_failure(str(error))
        else:
            self._on_look(standing)

    def failed(self, error: Exception) -> None:
        """Report that a look has failed.

        Args:
            error: what the look has raised.
        """
        self._on_failure(f"{type(error).__name__}: {one_line(error)}")


__all__ = ["EVERY_S", "Pause", "PauseError", "PauseWatch", "Paused", "called", "in_words", "pause", "paused", "resume"]
