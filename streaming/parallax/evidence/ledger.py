"""Collects all evidence about one partition in one object, the `Ledger`, so that all who judge use the same evidence.

Rows from readers and answers from probes are recorded by the same methods.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from parallax.evidence.atoms import NEVER, End, Ended, Fact, Look, Place, Reading, Stable
from parallax.model import UNKNOWN


class Timely(NamedTuple):
    """A range of offsets that was read before a cleaner can have removed a tombstone or an end marker there.

    Attributes:
        start: first offset of the range.
        end: one past the last offset of the range.
        epoch: leader epoch of the last batch that was read.
    """

    start: int
    end: int
    epoch: int


@dataclass
class Ledger:
    """All evidence about one partition: which replica showed what, and which offsets were read when.

    Evidence is only added, with one exception: when a replica's log is replaced, `replaced` drops what that log said of
    itself. Facts and readings of any replica stay, and `Lineage` says which of them are of the current log.

    Attributes:
        retention: the lowest value that the topic's ``delete.retention.ms`` had, in ms.
        facts: by place, the record or end marker that was shown there.
        at: by offset, the leader epochs in which something was shown there.
        holders: by place, the brokers whose present log has shown the fact there.
        unlike: places where two different records or end markers were shown.
        outcomes: by broker and place of a record, how its transaction ended by what the broker showed.
        begun: by broker, the places of the transactional records that it has shown, each with the time of reading in
            ms.
        readings: readings of any replica of which it is not certain yet whether they were in time (`timely`).
        own: by broker, the readings of its present log.
        written: pairs (time in ms, the leader's high watermark), ascending. By that time, nothing above that high
            watermark had been cleaned.
        stable: the reports of last stable offsets.
        epoch_ends: by epoch, pairs (the offset where it ends in a leader's log, the last place of that log).
        held_open: by broker, and by (producer, first offset) of each transaction that the broker listed as open: the
            place up to which its log had been replicated then.
        elsewhere: by producer id and producer epoch, the type of an end marker that was read in another partition.
        log_starts: by broker, the log start offset that it reported last.
        head: the lowest log start of any log that held records.
    """

    retention: int
    facts: dict[Place, Fact] = field(default_factory=dict)
    at: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    holders: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    unlike: set[Place] = field(default_factory=set)
    outcomes: dict[int, dict[Place, Ended]] = field(default_factory=lambda: defaultdict(dict))
    begun: dict[int, dict[Place, int]] = field(default_factory=lambda: defaultdict(dict))
    readings: list[Reading] = field(default_factory=list)
    _timely: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    own: dict[int, list[Reading]] = field(default_factory=lambda: defaultdict(list))
    written: list[tuple[int, int]] = field(default_factory=list)
    stable: set[Stable] = field(default_factory=set)
    epoch_ends: dict[int, set[tuple[int, Place]]] = field(default_factory=lambda: defaultdict(set))
    held_open: dict[int, dict[tuple[int, int], Place]] = field(default_factory=lambda: defaultdict(dict))
    elsewhere: dict[tuple[int, int], End] = field(default_factory=dict)
    log_starts: dict[int, int] = field(default_factory=dict)
    head: int | None = None

    def fact(self, fact: Fact, broker: int, at: int) -> None:
        """Record that a broker's replica has shown a record or an end marker.

        Args:
            fact: the record or end marker.
            broker: the broker.
            at: when it was read, in ms.
        """
        known = self.facts.setdefault(fact.place, fact)
        if (joined := known.joined(fact)) is not None:
            self.facts[fact.place] = joined
        else:
            self.unlike.add(fact.place)
        self.holders[fact.place].add(broker)
        self.at[fact.place.offset].add(fact.place.epoch)
        if self.facts[fact.place].transactional:
            self.begun[broker][fact.place] = at

    def read(self, broker: int, reading: Reading) -> None:
        """Record that a broker's replica was read from one offset to another; an empty range is ignored."""
        if reading.end > reading.start:
            self.readings.append(reading)
            self.own[broker].append(reading)

    def ended(self, broker: int, place: Place, ended: Ended) -> None:
        """Record with which outcome a broker has shown a record to its read_committed consumers.

        Args:
            broker: the broker.
            place: place of the record.
            ended: the outcome, with how far the replica had been read.
        """
        self.outcomes[broker][place] = ended

    def led(self, at: int, high_watermark: int) -> None:
        """Record the high watermark that the leader reported at the time ``at``, in ms.

        Call it in the order of time.
        """
        self.written.append((at, max(high_watermark, self.written[-1][1]) if self.written else high_watermark))

    def is_stable(self, stable: Stable) -> None:
        """Record that a last stable offset was reported; one of a log without batches is ignored."""
        if stable.epoch >= 0 and stable.high_watermark > 0:
            self.stable.add(stable)

    def started(self, broker: int, log_start: int, log_end: int) -> None:
        """Record at which offsets a broker's log starts and ends, each time that the broker reports them.

        A new log start replaces the one before. That of a log with records may also lower `Ledger.head`.

        Args:
            broker: the broker.
            log_start: its log start offset.
            log_end: its log end offset.
        """
        self.log_starts[broker] = log_start
        if log_end > log_start:
            self.begun_below(log_start + 1)

    def begun_below(self, offset: int) -> None:
        """Record that some replica's log held records and began below ``offset``: at ``offset`` - 1 or lower."""
        self.head = offset - 1 if self.head is None else min(self.head, offset - 1)

    def look(self, look: Look, *, leads: bool) -> None:
        """Record all evidence that one replica's answer gives.

        If the replica was asked for a part of its log, only the facts and its log start are recorded.

        Args:
            look: the answer.
            leads: whether the replica is the leader.
        """
        for fact in look.facts.values():
            self.fact(fact, look.broker, look.at)
        self.started(look.broker, look.log_start, look.log_end)
        if look.is_whole:
            self._whole(look, leads=leads)

    def _whole(self, look: Look, *, leads: bool) -> None:
        decided_in = look.epoch_at(look.last_stable - 1)
        for place, end in look.outcomes.items():
            self.ended(look.broker, place, Ended(end, look.last_stable, decided_in))
        top = look.high_watermark
        epoch = look.epoch_at(top - 1)
        last = look.tops[-1].epoch if look.tops else UNKNOWN
        self.read(look.broker, Reading(look.log_start, top, look.at, last))
        self.is_stable(Stable(look.log_start, look.last_stable, top, epoch))
        for producer, first in (look.open or {}).items():
            self.held_open[look.broker][producer, first] = Place(top, epoch)
        if leads:
            self.led(look.at, top)
            self._led_in(look)

    def _led_in(self, look: Look) -> None:
        """Keep where epochs end in a leader's log, which wrote the beginning of its own epoch itself."""
        if look.tops:
            for epoch, found in look.ends.items():
                if found is not None and epoch < look.tops[-1].epoch:
                    self.epoch_ends[epoch].add((found.end, look.tops[-1]))

    def part(self, keys: Collection[Hashable], producers: Collection[int], offsets: Collection[int]) -> Ledger:
        """A copy of the ledger with only the evidence about some keys, producers and offsets.

        At the offsets of facts that are left out, the copy does not know what was there, unless somebody read there in
        time (`timely`). The lowest and the highest fact of each epoch are always kept: they show whether anything of
        the epoch was truncated.

        Args:
            keys: keys whose records are kept, with everything that the writers of these records wrote in transactions.
            producers: producers of whom everything is kept.
            offsets: offsets at which everything is kept.
        """
        writers = {f.producer for f in self.facts.values() if f.transactional and f.key in keys}
        writers |= {*producers} - {UNKNOWN}
        ends = {p for epoch in {p.epoch for p in self.facts} for p in _ends(p for p in self.facts if p.epoch == epoch)}
        kept = {
            place: fact
            for place, fact in self.facts.items()
            if place in ends
            or place.offset in offsets
            or fact.producer in writers
            or (fact.end is None and fact.key in keys)
        }
        found = Ledger(self.retention)
        found.facts = kept
        for place in kept:
            found.at[place.offset].add(place.epoch)
            found.holders[place] = {*self.holders[place]}
        found.unlike = self.unlike & kept.keys()
        for broker, outcomes in self.outcomes.items():
            found.outcomes[broker] = {place: ended for place, ended in outcomes.items() if place in kept}
        for broker, begun in self.begun.items():
            found.begun[broker] = {place: at for place, at in begun.items() if place in kept}
        for broker, held in self.held_open.items():
            found.held_open[broker] = {name: upto for name, upto in held.items() if name[0] in writers}
        found.readings, found.written = [*self.readings], [*self.written]
        found.own.update({broker: [*readings] for broker, readings in self.own.items()})
        found._timely.update({epoch: [*spans] for epoch, spans in self._timely.items()})
        found.stable, found.log_starts, found.head = {*self.stable}, {**self.log_starts}, self.head
        found.epoch_ends.update({epoch: {*told} for epoch, told in self.epoch_ends.items()})
        found.elsewhere = {name: end for name, end in self.elsewhere.items() if name[0] in writers}
        return found

    def seen_whole(self, span: Timely) -> None:
        """Record that no record or end marker came and went unseen in a range of offsets.

        The range then counts as read in time.

        Args:
            span: the offsets, and the leader epoch of the log that was read.
        """
        self._timely[span.epoch].append((span.start, span.end))

    def timely(self) -> list[Timely]:
        """The ranges that were read in time: before a cleaner can have removed a tombstone or an end marker there.

        It is enough that one replica was read in time. Whether a reading was in time depends on the leader's high
        watermark ``retention`` milliseconds before the reading. Once the leader has reported a high watermark later
        than the reading, the result is final, and is kept.
        """
        told = self.written[-1][0] if self.written else UNKNOWN
        past = [reading for reading in self.readings if reading.at < told]
        self.readings = [reading for reading in self.readings if reading.at >= told]
        for start, end, epoch in self._in_time(past):
            self._timely[epoch] = _joined([*self._timely[epoch], (start, end)])
        kept = [Timely(start, end, epoch) for epoch, spans in self._timely.items() for start, end in spans]
        return [*kept, *self._in_time(self.readings)]

    def timely_of(self, broker: int) -> list[Timely]:
        """The ranges of the broker's present log that its own readings have read in time.

        A range is read in time if no cleaner can have removed a tombstone or an end marker there before.
        """
        return list(self._in_time(self.own.get(broker, ())))

    def _in_time(self, readings: Iterable[Reading]) -> Iterator[Timely]:
        for reading in readings:
            low = self.cleaned_to(reading.at)
            if low is not None and max(reading.start, low) < reading.end:
                yield Timely(max(reading.start, low), reading.end, reading.epoch)

    def cleaned_to(self, at: int) -> int | None:
        """The offset up to which cleaners can have removed tombstones and end markers by a given time, in ms.

        None if the leader reported no high watermark within ``retention`` before that time.
        """
        first = bisect_left(self.written, at - self.retention, key=itemgetter(0))
        return self.written[first][1] if first < len(self.written) and self.written[first][0] <= at else None

    def replaced(self, broker: int, start: int = 0, epoch: int = NEVER) -> None:
        """Drop what a broker's log showed from an offset on, because the broker has another log there now.

        Args:
            broker: the broker whose log was replaced.
            start: the offset from which on the log is another one; 0: all of it.
            epoch: the newest leader epoch that was read of the old log. What was seen in a newer epoch is of the
                present log, and stays.
        """
        self.outcomes[broker] = {
            place: kept
            for place, ended in self.outcomes[broker].items()
            if (kept := self._left(broker, place, ended, start, epoch)) is not None
        }
        self.begun[broker] = {p: at for p, at in self.begun[broker].items() if p.offset < start or p.epoch > epoch}
        self.held_open[broker] = {
            name: upto for name, upto in self.held_open[broker].items() if upto.offset <= start or upto.epoch > epoch
        }
        if start == 0:
            self.own[broker] = []
            for holders in self.holders.values():
                holders.discard(broker)

    def _left(self, broker: int, place: Place, ended: Ended, start: int, epoch: int) -> Ended | None:
        """What is left of an outcome that a log showed before it was truncated.

        The outcome stays if its end lies below the truncation.
        """
        if ended.epoch > epoch or ended.upto <= start:
            return ended
        ends = self.ends_behind(broker, self.facts[place].producer, place.offset)
        below = [end for end in ends if end.offset < start]
        return Ended(ended.end, min(below).offset + 1, min(below).epoch) if below else None

    def ends_behind(self, broker: int, producer: int, offset: int) -> list[Place]:
        """The places above ``offset`` at which the broker has shown end markers of the producer, in any order.

        Only end markers of the broker's present log count.
        """
        return [
            place
            for place, holders in self.holders.items()
            if place.offset > offset
            and broker in holders
            and (fact := self.facts[place]).end is not None
            and fact.producer == producer
        ]


def _ends(places: Iterable[Place]) -> set[Place]:
    """The lowest and the highest of some places."""
    every = sorted(places)
    return {every[0], every[-1]} if every else set()


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same offsets in as few spans as can be, rising."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
