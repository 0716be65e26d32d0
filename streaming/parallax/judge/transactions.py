"""Says how records of transactions ended, or in which ways they may have ended by the evidence."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from parallax.evidence.atoms import End, Fact, Look
from parallax.evidence.room import Room, Span
from parallax.model import UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Records of one producer that surely belong to one transaction.

    Every offset between them holds a known fact or was read in time, so no end marker can lie there.

    Attributes:
        producer: the producer's id.
        offsets: offsets of the records, ascending.
        options: how the records may have ended; one of these is true.
        end_marker: offset of the producer's first known end marker behind the records; `UNKNOWN`: none is known.
        missing: ranges where an end marker may lie that no reader was shown; empty if the end is known.
    """

    producer: int
    offsets: tuple[int, ...]
    options: tuple[End, ...]
    end_marker: int
    missing: tuple[Span, ...] = ()

    @property
    def end(self) -> End | None:
        """How the transaction of these records ended; None if several ends are possible."""
        return self.options[0] if len(self.options) == 1 else None


class Transactions:
    """The records of a partition's transactions in groups, and how each group may have ended.

    An end marker ends a group if it is the producer's first one behind the group, and no lower one can have been there
    unseen.

    Example: a record is at 4, its COMMIT at 7, and 5 and 6 were read in time: it is committed. Counter-example: nobody
    read 5 and 6 in time. An ABORT may have been there, and the COMMIT may end a later transaction: both ends are
    possible.

    Without an end marker behind them, the records are open if the leader says so and no end marker can have been there
    unseen. If the leader holds no transaction open there, they have ended, and nobody knows how.

    *By producer epoch.* With transactions of version 2 (KIP-890), the coordinator raises the producer's epoch with each
    end, and the end marker has the new epoch. So a producer's records of one epoch are of one transaction. The end
    marker of the next epoch ends that transaction and no other, in each partition where it has records.

    A COMMIT shows that its producer is of version 2: it surely ends records of some epoch E, and has epoch E + 1. From
    there on the producer stays of version 2. An ABORT of epoch E + 1 does not show it: in version 1 an ABORT also has a
    new epoch if the coordinator fences the producer.

    The end marker of epoch E + 1 may be known only from another partition. If it is a COMMIT, the records were not
    aborted, and the other way round. They may still be open here, because this partition may not have its marker yet.

    If an unclean election may have removed an end marker, producer epochs are not used. Then the next marker that this
    log holds ends the open transaction, whatever its epoch.

    Example: the producer is of version 2, a record of its epoch 6 is at 4, a COMMIT of epoch 7 at 9, and nobody read 5
    to 8. The record is committed. Counter-example: the COMMIT is of epoch 8. Nobody was shown what ended epoch 6.
    """

    def __init__(
        self,
        facts: Mapping[int, Fact],
        doubted: Mapping[int, int],
        room: Room,
        leader: Look | None,
        elsewhere: Mapping[tuple[int, int], End] | None = None,
    ) -> None:
        """Group the records.

        Args:
            facts: the facts of the current log, by offset.
            doubted: by offset, the producer of each end marker that perhaps is of the current log.
            room: where something may have come and gone unseen.
            leader: what the leader shows; None: it did not answer.
            elsewhere: end markers of other partitions (`Ledger.elsewhere`). None: an unclean election may have removed
                some of this partition, so producer epochs are not used.
        """
        self._room, self._doubted, self._leader = room, doubted, leader
        self.markers: dict[int, list[int]] = defaultdict(list)
        """By producer id, the offsets of its end markers in the current log, ascending."""
        self.of: dict[int, Group] = {}
        """By offset of a record, its group."""
        records: dict[int, list[int]] = defaultdict(list)
        for offset in sorted(facts):
            if facts[offset].end is not None:
                self.markers[facts[offset].producer].append(offset)
            elif facts[offset].transactional:
                records[facts[offset].producer].append(offset)
        for producer, offsets in records.items():
            groups = [
                self._group(facts, producer, offsets[first : last + 1], following)
                for first, last, following in self._runs(producer, offsets)
            ]
            for group in groups if elsewhere is None else self._by_name(facts, groups, elsewhere):
                self.of.update(dict.fromkeys(group.offsets, group))

    def first_end(self, producer: int, offset: int) -> int:
        """The offset of the producer's first known end marker above ``offset``; `UNKNOWN` if none is known."""
        marks = self.markers.get(producer, [])
        at = bisect_right(marks, offset)
        return marks[at] if at < len(marks) else UNKNOWN

    def room_for_an_end(self, producer: int, low: int, high: int) -> bool:
        """Whether an unknown end marker of the producer may lie above ``low`` and below ``high``.

        It is unknown if no reader was shown it, or if it only perhaps is of the current log.
        """
        return self._room.between(low, high) or any(
            low < offset < high and of == producer for offset, of in self._doubted.items()
        )

    def _runs(self, producer: int, offsets: list[int]) -> list[tuple[int, int, int]]:
        """First and last index of each group, and the offset of the next record below the same end marker."""
        runs, first = [], 0
        for at, offset in enumerate(offsets):
            end = self.first_end(producer, offset)
            is_last = at + 1 == len(offsets)
            follows = not is_last and self.first_end(producer, offsets[at + 1]) == end
            if not follows or self.room_for_an_end(producer, offset, offsets[at + 1]):
                runs.append((first, at, offsets[at + 1] if follows else UNKNOWN))
                first = at + 1
        return runs

    def _group(self, facts: Mapping[int, Fact], producer: int, offsets: list[int], following: int) -> Group:
        first, last = offsets[0], offsets[-1]
        end = self.first_end(producer, last)
        stop = following if following != UNKNOWN else end if end != UNKNOWN else self._room.end
        may_hide = following != UNKNOWN or self.room_for_an_end(producer, last, stop)
        options: tuple[End, ...]
        if end != UNKNOWN:
            known = facts[end].end
            options = (End.COMMIT, End.ABORT) if may_hide or known is None else (known,)
        elif self._leader is not None and self._leader.has_ended(producer, first) is False:
            options = (End.OPEN, End.COMMIT, End.ABORT) if may_hide else (End.OPEN,)
        else:
            is_behind = (
                self._leader is None or self._leader.log_end <= last or self._leader.has_ended(producer, first) is None
            )
            options = (End.COMMIT, End.ABORT, *([End.OPEN] if is_behind else []))
        missing: tuple[Span, ...] = ()
        if len(options) > 1:
            doubted = [(o, o + 1) for o, of in self._doubted.items() if last < o < stop and of == producer]
            missing = tuple(sorted({*self._room.spans(last, stop), *doubted})) or ((last + 1, stop + 1),)
        return Group(producer, tuple(offsets), options, end, missing)

    def _by_name(
        self, facts: Mapping[int, Fact], groups: list[Group], elsewhere: Mapping[tuple[int, int], End]
    ) -> Iterator[Group]:
        """The groups, without the options that an end marker of their own name rules out."""
        since = self._version_2_since(facts, groups)
        for group in groups:
            epochs = {facts[offset].producer_epoch for offset in group.offsets}
            name = epochs.pop() + 1
            if since is None or epochs or name <= since or group.end is not None:
                yield group
                continue
            behind = (mark for mark in self.markers.get(group.producer, ()) if mark > group.offsets[-1])
            own = next((mark for mark in behind if facts[mark].producer_epoch == name), UNKNOWN)
            end = facts[own].end if own != UNKNOWN else None
            if end is not None:
                yield replace(group, options=(end,), end_marker=own, missing=())
                continue
            end = elsewhere.get((group.producer, name))
            options = tuple(option for option in group.options if end in (option, None) or option is End.OPEN)
            is_known = len(options) == 1 and options != group.options
            yield replace(
                group,
                options=options,
                end_marker=UNKNOWN if is_known else group.end_marker,
                missing=() if is_known else group.missing,
            )

    @staticmethod
    def _version_2_since(facts: Mapping[int, Fact], groups: list[Group]) -> int | None:
        """The first epoch of a producer all of whose transactions are of version 2; None where none is known."""
        return min(
            (
                epoch + 1
                for group in groups
                if group.end is End.COMMIT and group.end_marker != UNKNOWN
                for epoch in {facts[offset].producer_epoch for offset in group.offsets}
                if facts[group.end_marker].producer_epoch == epoch + 1
            ),
            default=None,
        )
