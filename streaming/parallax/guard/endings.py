"""How an outage of a broker ended, as a value and in words for people. Pure.

Log lines, alerts and the status page take their words about the end of an outage from here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parallax.audit.result import Result
from parallax.counts import agreed, counted, named
from parallax.model import TopicPartition

OVER = "No watched replica of it is absent or waits for an audit. Findings have messages of their own."
"""What the end of an outage means, if nothing else is known about it."""


class Ending(StrEnum):
    """How an outage ended, e.g. with all replicas back in time."""

    IN_TIME = "in_time"
    """Every replica was back in time, as far as that is known."""
    LATE = "late"
    """Some replicas were back too late, and were audited."""
    GONE = "gone"
    """The broker holds no watched replica any more."""
    UNKNOWN = "unknown"
    """Nobody knows whether the broker was back in time, e.g. because the job was restarted meanwhile."""


ANSWERS = "Broker {broker_id} answers again, and what can be read of it is compared."
"""What ended it that a broker did not answer; a format, like the four below.

Whether it was back in time is another matter, which the alert on its outage speaks of.
"""
SERVES_IN_PART = "Broker {broker_id} answers again, but not for all of its replicas: these are not compared."
SERVES_WHOLE = "Broker {broker_id} answers for all of its replicas again. What was cleaned meanwhile was never seen."
SERVES_NONE = "Broker {broker_id} does not answer at all now."
NOT_HELD = "Broker {broker_id} holds no replica any more that is watched."
"""Its replicas were taken off, or their topics were deleted."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage: the time in which replicas of one broker are absent, and what became of these replicas.

    The sets name replicas of that broker by their partitions.

    Attributes:
        since_ms: when the first absent replica was last known to lack nothing, milliseconds since 1970 UTC.
        away_ms: since when the first of the replicas has not answered, milliseconds since 1970 UTC; None if all answer.
        absent: the replicas that were absent at some time of the outage.
        late: the replicas that are late, or may be: they copied something after their bound, or while no bound could be
            relied on.
        doubtful: those of ``late`` of which nobody can say whether they were back in time, because no bound could be
            relied on when they copied.
        untold: those of ``absent`` of which no look can say whether they are back in time, because
            ``delete.retention.ms`` of their topic is too short (`Unclear.NO_TIME`). An audit may still say that nothing
            was lost (``verdicts``).
        gone: at the end of the outage, those of ``absent`` and ``late`` that no longer exist, or are no longer watched.
        differ: those of ``absent`` and ``late`` in whose partitions a finding was not over when the outage ended.
        verdicts: by partition of ``late`` and ``untold``, the result of an audit that began after the replica had
            copied what it lacked.
        is_recalled: whether the outage had begun before the job was started. Results of audits before the start are not
            known then.
        ended_ms: when all replicas were back or gone, and the late ones audited; None while the outage lasts.
    """

    broker: int
    since_ms: int
    away_ms: int | None = None
    absent: frozenset[TopicPartition] = frozenset()
    late: frozenset[TopicPartition] = frozenset()
    doubtful: frozenset[TopicPartition] = frozenset()
    untold: frozenset[TopicPartition] = frozenset()
    gone: frozenset[TopicPartition] = frozenset()
    differ: frozenset[TopicPartition] = frozenset()
    verdicts: Mapping[TopicPartition, Result] = field(default_factory=dict)
    is_recalled: bool = False
    ended_ms: int | None = None

    @property
    def places(self) -> frozenset[TopicPartition]:
        """The partitions of all replicas that were absent or late in the outage."""
        return self.absent | self.late

    def without_verdicts(self, places: Collection[TopicPartition]) -> Outage:
        """Return a copy without the results of audits of some partitions, which are to be audited once more."""
        return replace(self, verdicts={place: one for place, one in self.verdicts.items() if place not in places})

    @property
    def topics(self) -> str:
        """The topics of the outage's replicas in words: the first few names, and how many more there are.

        Topics that are gone are left out, unless all are.
        """
        return named(place.topic for place in self.left_of(self.places))

    def left_of(self, places: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of some of its partitions that are not gone; all of them if all are."""
        return places - self.gone or places

    @property
    def ending(self) -> Ending | None:
        """The way in which the outage ended; None while it lasts."""
        if self.ended_ms is None:
            return None
        if self.late:
            return Ending.LATE
        if self.places <= self.gone:
            return Ending.GONE
        return Ending.UNKNOWN if self.is_recalled or self.places <= self.gone | self.untold else Ending.IN_TIME

    @property
    def outcome(self) -> str:
        """Sentences that say how the outage ended and whether replicas were back in time; empty while it lasts.

        The text is written at the end of the outage and sent later. So it does not say which findings are open.
        """
        ending = self.ending
        if ending is None:
            return ""
        said = _of_late(self) if self.late else []
        gone = self.gone - self.late
        untold = self.untold - self.late - gone
        back = self.places - self.late - gone - untold
        untold -= self.verdicts.keys()
        if ending is Ending.GONE:
            said.append(
                f"Broker {self.broker} holds none of its replicas any more that were absent ({self.topics}): {_TAKEN}."
            )
        elif ending is not Ending.LATE and back:
            copied = f"{of_it(back)} {agreed(len(back), 'has', 'have')} copied nothing"
            if back == self.places:
                copied = "none of its replicas has copied anything"
            since = " since the job was started again" if self.is_recalled else ""
            said.append(f"Broker {self.broker} was back in time: {copied} that may have been cleaned before{since}.")
        said += _of_audits(self)
        if untold:
            them = agreed(len(untold), "it was", "they were")
            said.append(
                f"Of {of_it(untold, f'broker {self.broker}')} nobody can tell whether {them} back in time: deletions "
                "are kept for no longer than clocks may be apart (delete.retention.ms, guard.clock_skew_ms)."
            )
        if gone and ending is not Ending.GONE:
            said.append(f"{of_it(gone)} {agreed(len(gone), 'is', 'are')} not there any more: {_TAKEN}.")
        if self.is_recalled:
            said.append("The job was started in it: what audits found before that has messages of its own.")
        if self.differ:
            said.append("Findings have messages of their own.")
        if ending is Ending.IN_TIME and back == self.places and not self.differ:
            said.append("Nothing is to be done.")
        return " ".join(said)


_TAKEN = "taken off the broker, or their topics were deleted, or are not compacted any more"


def _of_late(outage: Outage) -> list[str]:
    said, known = [], outage.late - outage.doubtful
    if known:
        said.append(f"Broker {outage.broker} was back too late: it copied something late of {_partitions(known)}.")
    if doubtful := outage.late - known:
        them = agreed(len(doubtful), "it was", "they were")
        said.append(f"Of {of_it(doubtful, f'broker {outage.broker}')} nobody can tell whether {them} back in time.")
    return said


def _of_audits(outage: Outage) -> list[str]:
    """What audits have said of replicas that were late, or may have been, by the time of asking."""
    late, verdicts, said = outage.late, outage.verdicts, []
    differ = [place for place in verdicts if verdicts[place] is Result.DIVERGED]
    agree = [place for place in verdicts if verdicts[place] is Result.CONSISTENT]
    gone = late & outage.gone - verdicts.keys()
    unheard = late - outage.gone - verdicts.keys()
    if differ:
        said.append(
            f"An audit found that {counted(len(differ), 'partition')} differed "
            f"({_partitions(differ)}); each finding has a message of its own."
        )
    if agree:
        is_known = not outage.is_recalled and not outage.differ.intersection(agree)
        said.append(
            f"An audit compared {counted(len(agree), 'partition')} ({_partitions(agree)}) since and found no difference"
            f"{': nothing was lost there that shows' if is_known else ''}."
        )
    if gone:
        are, were = agreed(len(gone), "is", "are"), agreed(len(gone), "its topic was", "their topics were")
        said.append(
            f"{counted(len(gone), 'replica')} {are} not there any more: taken off the broker, or {were} deleted or "
            "re-created."
        )
    if unheard:
        where = f"{counted(len(unheard), 'partition')} ({_partitions(unheard)})"
        said.append(f"What an audit found in {where} is not on record here: findings say where replicas differ.")
    return said


def _partitions(places: Iterable[TopicPartition]) -> str:
    return named(place.name for place in places)


def of_it(places: Collection[TopicPartition], it: str = "it") -> str:
    """Return a phrase that counts replicas of a broker and names their topics: ``2 replicas of it (orders, payments)``.

    Args:
        places: the partitions of the replicas.
        it: what the phrase calls the broker, e.g. ``broker 2``.
    """
    return f"{counted(len(places), 'replica')} of {it} ({named(place.topic for place in places)})"


__all__ = ["ANSWERS", "NOT_HELD", "OVER", "SERVES_IN_PART", "Ending", "Outage", "of_it"]
