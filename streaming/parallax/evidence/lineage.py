"""Decides which places (offset, leader epoch) are of the partition's current log, by all evidence.

The judge asks only `Lineage` about that. `parallax.evidence.log` decides the same by the answers to one probe alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from parallax.evidence.atoms import NEVER, Look, Place
from parallax.evidence.ledger import Ledger
from parallax.evidence.log import Belongs
from parallax.model import UNKNOWN


class Lineage:
    """Answers whether a place (offset, leader epoch) is of the current log: yes, no or perhaps.

    The current log is that of the leader, and of the replicas in sync with it up to their high watermark. A record that
    was seen at a place of another log proves nothing any more.

    The first of these rules that applies decides about a place:

    1. A record of a newer epoch was shown at the offset, and the leader's log holds that epoch there or beyond: *no*.
       Another leader wrote there.
    2. The leader holds a batch of the place's epoch at its offset or beyond: *yes*. Two logs that hold one place are
       alike below it (KIP-101).
    3. The leader was not asked about the epoch, or leads in an older one: *perhaps*. The leader holds an older epoch at
       the offset or beyond, or says that the next epoch begins at the offset or below: *no*, as in 1.
    4. The leader's log was not seen to have an entry for the epoch: *perhaps*. It may be a copy of a log where the
       epoch's records had been cleaned, or of one that was elected without them.
    5. A replica in sync holds the epoch at the offset or beyond: *yes*.
    6. Some replica was not asked: *perhaps*. A copy of a cleaned log names the first batch that is left as the
       beginning of an epoch, which is too high. A replica that copied earlier knows better.
    7. Nothing from that epoch on is known to have been truncated: *yes*; otherwise *perhaps*.

    These rules may be mistaken in one case. A copy as in 6 names too high an offset as the beginning of an epoch, and
    another log is truncated to that offset. Below it, this log keeps records that an unclean election has removed
    elsewhere (KIP-279 presumes logs without holes). If no replica was read in between, rules 5 and 7 take these records
    for a part of the current log.

    Example: broker 1 showed a record at (7, 3). Broker 2 leads, and says that epoch 3 ends at 6: the record proves
    nothing any more. Counter-example: broker 2 says that epoch 3 ends at 9, and its last batch of epoch 3 is at 5. The
    record at (7, 3) may have been cleaned there. It counts, unless something of epoch 3 is known to be truncated.
    """

    def __init__(
        self, ledger: Ledger, looks: Mapping[int, Look], leader: int, in_sync: frozenset[int], replicas: frozenset[int]
    ) -> None:
        """Prepare the answers.

        Args:
            ledger: all evidence.
            looks: by broker, what was just seen of the replicas that answered.
            leader: the broker that leads.
            in_sync: the brokers in sync with it, with or without itself.
            replicas: the partition's assignment.
        """
        self._ledger = ledger
        self._leader = looks.get(leader)
        self._standing = [looks[b] for b in sorted({leader, *in_sync} & looks.keys())]
        self._is_whole = replicas <= looks.keys()
        self.leader_tops = _tops([self._leader] if self._leader is not None else [])
        """By epoch: the last offset of a batch of it in the leader's log."""
        self.tops = _tops(self._standing)
        """By epoch: the last offset of a batch of it in the log of the leader or of a replica in sync."""
        self._ends: dict[int, int | None] = {}
        self._read_in = frozenset(
            {place.epoch for place, holders in ledger.holders.items() if leader in holders}
            | {reading.epoch for reading in ledger.own.get(leader, ())}
        )
        self._known: dict[Place, Belongs] = {}
        self._entries: dict[int, bool] = {}
        self.cut_epochs = frozenset(place.epoch for place in ledger.facts if self._is_cut(place))
        """The epochs of which something was shown that is not of the current log."""
        self._trusted: dict[int, int] = {}

    def of(self, place: Place) -> Belongs:
        """Whether a place (offset, leader epoch) is of the current log: yes, no or perhaps."""
        if place not in self._known:
            self._known[place] = self._of(place)
        return self._known[place]

    def stands_below(self, epoch: int) -> int:
        """The offset below which a log that was read is surely the same as the current log.

        It is `NEVER`, which no offset reaches, if all of that log is the same.

        Args:
            epoch: the leader epoch of the last batch that was read of that log.
        """
        if epoch not in self._trusted:
            end = self._end(epoch)
            ends = () if end is None else (end,)
            steps = {0, *ends, *(top + 1 for top in self.tops.values()), *self._ledger.at}
            doubtful = (o for o in sorted(steps) if self.of(Place(o, epoch)) is not Belongs.YES)
            self._trusted[epoch] = next(doubtful, NEVER)
        return self._trusted[epoch]

    def _end(self, epoch: int) -> int | None:
        """The highest offset at which an epoch can end in the current log; None: nobody says."""
        if epoch not in self._ends:
            self._ends[epoch] = self._asked(epoch)
        return self._ends[epoch]

    def _asked(self, epoch: int) -> int | None:
        leader = self._leader
        if leader is None or epoch not in leader.ends or epoch > leader.latest_epoch:
            return None  # A leader begins its epoch in its log with the first thing it does: this one is newer.
        # The newest epoch of a log may still grow, so its end says nothing.
        told = [one.end for look in self._standing if epoch < look.latest_epoch and (one := look.ends.get(epoch))]
        # What a leader said of its log then holds of this one, if this one goes on from there.
        before = self._ledger.epoch_ends.get(epoch, ())
        told += [end for end, last in before if last.offset <= self.leader_tops.get(last.epoch, UNKNOWN)]
        return min(told, default=NEVER)

    def _is_known(self, epoch: int) -> bool:
        """Whether the leader's log has an entry of an epoch itself, or was read to hold something of it."""
        if epoch not in self._entries:
            leader = self._leader
            self._entries[epoch] = epoch in self._read_in or (leader is not None and leader.knows(epoch))
        return self._entries[epoch]

    def _is_cut(self, place: Place) -> bool:
        end, held = self._end(place.epoch), _reaching(self.leader_tops, place.offset)
        if end is None or place.epoch in held:
            return False
        # Epochs only grow along a log.
        return place.offset >= end or any(epoch < place.epoch for epoch in held)

    def _of(self, place: Place) -> Belongs:
        held = _reaching(self.leader_tops, place.offset)
        if any(epoch > place.epoch and epoch in held for epoch in self._ledger.at.get(place.offset, ())):
            return Belongs.NO
        if place.epoch in held:
            return Belongs.YES
        if self._end(place.epoch) is None:
            return Belongs.PERHAPS
        if self._is_cut(place):
            return Belongs.NO
        if not self._is_known(place.epoch):
            return Belongs.PERHAPS
        standing = _reaching(self.tops, place.offset)
        if place.epoch in standing:
            return Belongs.YES
        if not self._is_whole:
            return Belongs.PERHAPS
        newer = (epoch for epoch in standing if epoch > place.epoch)
        if any(not any(place.epoch <= cut < epoch for cut in self.cut_epochs) for epoch in newer):
            return Belongs.YES
        return Belongs.PERHAPS if any(cut >= place.epoch for cut in self.cut_epochs) else Belongs.YES


def _tops(looks: list[Look]) -> dict[int, int]:
    """By epoch, the last offset of a batch that one of these shows."""
    found: dict[int, int] = {}
    for look in looks:
        for top in look.tops:
            found[top.epoch] = max(found.get(top.epoch, UNKNOWN), top.offset)
    return found


def _reaching(tops: Mapping[int, int], offset: int) -> set[int]:
    """The epochs of which there is a batch at an offset or beyond."""
    return {epoch for epoch, top in tops.items() if top >= offset}
