"""Judges how replicas ended transactions: which show an outcome that is wrong in every possible truth (world)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from parallax.evidence.atoms import End, Fact, Look
from parallax.evidence.log import Belongs
from parallax.judge.case import Case
from parallax.judge.transactions import Group
from parallax.judge.verdicts import NOBODY_ELSE, About, Proof, Undecided, Verdict, World
from parallax.model import UNKNOWN


class Statement(NamedTuple):
    """How a record's transaction ended, by what one replica shows.

    Attributes:
        end: the outcome.
        is_held: whether the replica still shows the record, or lists its transaction as aborted.
    """

    end: End
    is_held: bool


@dataclass
class Outcomes:
    """All verdicts about how transactions ended, by one answer (look) of each replica.

    A replica states how a record's transaction ended in one of three ways:

    - by the outcome with which it shows the record;
    - by its list of aborted transactions;
    - by the producer's next end marker in its log, if it never got the marker that ended the record.

    A statement of a replica counts until another log replaces the log of this replica.

    Example: all read the COMMIT at 7 directly behind the record at 6, and broker 2 lists the transaction as aborted.
    There is one world (possible truth), and 2 is wrong. Counter-example: nobody read offset 6 in time, so between the
    record at 5 and the COMMIT at 7 an ABORT may have been. In one world 2 is wrong; in the other, the replicas that
    show the record as committed are wrong.

    Attributes:
        case: the partition to judge.
        verdicts: what is true of replicas in every world.
        undecided: questions about outcomes that the evidence leaves open.
    """

    case: Case
    verdicts: list[Verdict] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._unread: set[tuple[int, int]] = set()
        self.stated = self._statements()
        done: set[tuple[object, ...]] = set()
        for offset in sorted(self.stated):
            group = self.case.transactions.of.get(offset)
            if group is None or offset < self.case.start or group.options == (End.OPEN,):
                continue
            for verdict in self._of(offset, group, self.stated[offset]):
                name = verdict.accused, group if group.end_marker == UNKNOWN else group.end_marker, verdict.past
                if name not in done:
                    done.add(name)
                    self.verdicts.append(verdict)
        for broker, offset in sorted(self._unread):
            if broker not in self.stated[offset]:
                end = self.case.transactions.first_end(self.case.facts[offset].producer, offset)
                self.undecided.append(Undecided(About.OUTCOME, broker, ((offset, end + 1),), offset=offset))

    def _of(self, offset: int, group: Group, stated: dict[int, Statement]) -> Iterator[Verdict]:
        fact = self.case.facts[offset]
        ends = {broker: {one.end} for broker, one in stated.items()}
        for broker, one in stated.items():
            own = self._own_end_of_held(broker, group, offset) if one.is_held else None
            ends[broker] |= {own} if own is not None else set()
        options = [option for option in group.options if option is not End.OPEN]
        worlds = [World(frozenset(b for b, said in ends.items() if said != {option})) for option in options]
        atoms = [fact.place]
        if group.end_marker != UNKNOWN:
            atoms += [self.case.facts[group.end_marker].place]
        proof = Proof.of(worlds, stated, atoms, group.missing)
        say = partial(
            Verdict,
            about=About.OUTCOME,
            proof=proof,
            key=fact.key,
            offset=offset,
            producer=group.producer,
            end_marker=group.end_marker,
        )
        right = proof.right & self.shows_its_end(group, offset)
        everywhere = self.case.partition.replicas <= proof.wrong
        for broker in sorted(proof.wrong):
            yield say(accused=broker, right=right, everywhere=everywhere, past=not stated[broker].is_held)
        if proof.differing:
            held = {one.end for one in stated.values() if one.is_held}
            yield say(sides=proof.differing, past=len(held) < 2)

    def shows_its_end(self, group: Group, offset: int) -> frozenset[int]:
        """The brokers that are surely right about how a group of records ended; empty if that is not known.

        They show the end marker of the group, and no record of the group with another outcome. A replica that lacks the
        marker is left out, because it may show the true outcome by chance.

        Args:
            group: the records.
            offset: if it is lower than the group's first record, the producer's records from this offset on must not
                have another outcome either.
        """
        if group.end is None or group.end_marker == UNKNOWN:
            return NOBODY_ELSE
        marker, first = self.case.facts[group.end_marker], min(offset, *group.offsets)
        found = set()
        for broker, look in self.case.looks.items():
            others = (
                outcome is not marker.end
                for place, outcome in look.outcomes.items()
                if first <= place.offset < marker.offset and look.facts[place].producer == group.producer
            )
            if marker.place in look.facts and marker.offset < look.last_stable and not any(others):
                found.add(broker)
        return frozenset(found)

    def _own_end_of_held(self, broker: int, group: Group, offset: int) -> End | None:
        """The type of the end marker that a replica holds next behind a record that it holds.

        A cleaner keeps the end marker of a transaction as long as it keeps a record of it. So this is how the replica
        has ended the record, unless its index of aborted transactions was lost: then its cleaner goes by that.
        Only the first marker that anybody knows counts.
        """
        look = self.case.looks[broker]
        own = _next_end(look, group.producer, offset)
        if own is None or own.offset != group.end_marker or own.offset >= look.last_stable:
            return None
        if not look.is_whole and self.case.transactions.room_for_an_end(group.producer, offset, own.offset):
            return None  # It may hold a lower one, for which nobody asked.
        return own.end

    # -- what replicas state -------------------------------------------------------------------------------------------

    def _statements(self) -> dict[int, dict[int, Statement]]:
        """By offset of a record of the current log, what each broker states."""
        case, stated = self.case, defaultdict[int, dict[int, Statement]](dict)
        for broker in sorted(case.partition.replicas & case.looks.keys()):
            look = case.looks[broker]
            for offset, statement in (*self._shown_before(broker, look), *self._given_of_a_part(look)):
                stated[offset][broker] = statement
            for producer, first in look.listed:
                fact = case.facts.get(first)
                if (
                    fact is not None
                    and fact.producer == producer
                    and case.is_of_the_log_that_stands(look, first)
                    and not self._may_be_empty(broker, look, fact)
                ):
                    stated[first].setdefault(broker, Statement(End.ABORT, is_held=True))
        for broker, offset, end in self._ended_behind():
            stated[offset].setdefault(broker, Statement(end, is_held=False))
        return stated

    def _shown_before(self, broker: int, look: Look) -> Iterator[tuple[int, Statement]]:
        """The outcomes of records that a replica was read to show; those of a whole look are among them."""
        case = self.case
        for place, ended in case.ledger.outcomes.get(broker, {}).items():
            fact, is_held = case.facts.get(place.offset), place in look.facts
            if fact is None or fact.place != place or place.offset >= look.last_stable:
                continue
            if not (is_held or look.lacks(place)):
                continue
            if not (look.goes_on(ended.upto, ended.epoch) or self._holds_its_end(broker, look, fact)):
                continue
            if is_held or not self._its_end_was_cut(broker, fact):
                yield place.offset, Statement(ended.end, is_held)

    def _given_of_a_part(self, look: Look) -> Iterator[tuple[int, Statement]]:
        """The outcomes that a replica which was asked for a part gives the records that it was asked for."""
        for place, end in () if look.is_whole else look.outcomes.items():
            if self.case.facts.get(place.offset) == look.facts[place] and place.offset < look.last_stable:
                yield place.offset, Statement(end, is_held=True)

    def _may_be_empty(self, broker: int, look: Look, fact: Fact) -> bool:
        """Whether what a replica lists as aborted may be a batch that was empty when the replica got it.

        A cleaner keeps the last batch of a producer without its records. A replica that copies such a batch never had
        the record, and misleads nobody about it.
        """
        if broker in self.case.ledger.holders[fact.place]:
            return False
        if not look.is_whole:
            return True
        held = next((top for top in look.tops if top.offset >= fact.offset), None)
        return held is not None and held not in look.facts

    def _holds_its_end(self, broker: int, look: Look, fact: Fact) -> bool:
        """Whether a replica's log still holds the end marker by which it showed a transaction to have ended."""
        own = self.case.own_end(broker, fact.producer, fact.offset)
        if own is None or self.case.lineage.of(own) is not Belongs.YES:
            return False
        return look.goes_on(own.offset + 1, own.epoch)

    def _its_end_was_cut(self, broker: int, fact: Fact) -> bool:
        """Whether the end marker by which a replica ended a record's transaction is not of the current log."""
        own = self.case.own_end(broker, fact.producer, fact.offset)
        return own is not None and self.case.lineage.of(own) is Belongs.NO

    def _ended_behind(self) -> Iterator[tuple[int, int, End]]:
        """How replicas ended records whose own end marker they missed: by the next marker that they showed."""
        for broker in sorted(self.case.partition.replicas & self.case.looks.keys()):
            look = self.case.looks[broker]
            yield from self._by_the_next_held(broker, look)
            missed = self._missed(broker, look)
            for offset, marker in missed.items():
                producer = self.case.facts[offset].producer
                own = self.case.own_end(broker, producer, marker)
                # With another end marker between, it may have ended the record by that, and cleaned it.
                if own is None or own.offset != self.case.transactions.first_end(producer, marker):
                    continue
                has_ended = look.open is not None and look.open.get(producer, own.offset) >= own.offset
                end = self.case.facts[own.offset].end if self.case.facts[own.offset].place == own else None
                may_hide = self.case.transactions.room_for_an_end(producer, marker, own.offset)
                if has_ended and end is not None and not may_hide:
                    self._unread.discard((broker, offset))
                    yield broker, offset, end

    def _by_the_next_held(self, broker: int, look: Look) -> Iterator[tuple[int, int, End]]:
        """Records beyond a replica's LSO that it has ended by another marker than the first one of the current log."""
        if not look.is_whole:
            return  # It may hold one in between, for which nobody asked.
        for place, fact in look.facts.items():
            if not fact.transactional or place.offset < look.last_stable or self.case.facts.get(place.offset) != fact:
                continue
            if look.has_ended(fact.producer, place.offset) is not True:
                continue
            own = _next_end(look, fact.producer, place.offset)
            if own is not None and own.end is not None and self._is_of_another(own, fact):
                yield broker, place.offset, own.end

    def _is_of_another(self, marker: Fact, record: Fact) -> bool:
        """Whether an end marker behind a record is known to have ended another transaction."""
        group = self.case.transactions.of.get(record.offset)
        if group is not None and _is_known_elsewhere(group):
            return marker.producer_epoch != record.producer_epoch + 1
        return self.case.transactions.first_end(record.producer, record.offset) not in (UNKNOWN, marker.offset)

    def _missed(self, broker: int, look: Look) -> dict[int, int]:
        """For records that a replica was read to hold: by offset, the record's end marker, which the replica never got.

        The replica was read past the marker before the record can have been cleaned with it, and it showed none. Or it
        held the transaction open beyond the marker.
        """
        case, missed = self.case, dict[int, int]()
        for place, at in case.ledger.begun.get(broker, {}).items():
            fact = case.facts.get(place.offset)
            if fact is None or fact.place != place or not look.lacks(place):
                continue
            group = case.transactions.of.get(place.offset)
            if group is not None and _is_known_elsewhere(group):
                self._unread.add((broker, place.offset))
                continue
            marker = case.transactions.first_end(fact.producer, place.offset)
            if (
                marker == UNKNOWN
                or broker in case.ledger.holders[case.facts[marker].place]
                or marker >= look.high_watermark
            ):
                continue
            self._unread.add((broker, place.offset))
            if any(
                reading.start <= marker < reading.end
                and reading.at <= at + case.ledger.retention
                and look.goes_on(reading.end, reading.epoch)
                for reading in case.ledger.own.get(broker, ())
            ):
                missed[place.offset] = marker
        for (producer, first), upto in case.ledger.held_open.get(broker, {}).items():
            fact = case.facts.get(first)
            marker = case.transactions.first_end(producer, first)
            if fact is None or fact.producer != producer or marker == UNKNOWN or marker >= upto.offset:
                continue
            if look.open is not None and look.open.get(producer) != first and look.goes_on(upto.offset, upto.epoch):
                self._unread.add((broker, first))
                missed.setdefault(first, marker)
        return missed


def _next_end(look: Look, producer: int, offset: int) -> Fact | None:
    """The first end marker of a producer that a replica shows behind a record at ``offset``."""
    ends = (f for f in look.facts.values() if f.end is not None and f.producer == producer and f.offset > offset)
    return min(ends, key=lambda fact: fact.offset, default=None)


def _is_known_elsewhere(group: Group) -> bool:
    """Whether only another partition has shown the end marker of a transaction."""
    return group.end in (End.COMMIT, End.ABORT) and group.end_marker == UNKNOWN
