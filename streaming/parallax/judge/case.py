"""The input of the judge: one answer (look) of each replica, and all evidence about the partition.

It derives from these what the current log is, how transactions ended, and how far cleaners may have come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from parallax.evidence.atoms import Fact, Look, Place
from parallax.evidence.ledger import Ledger
from parallax.evidence.lineage import Lineage
from parallax.evidence.log import Belongs
from parallax.evidence.room import Room
from parallax.judge.transactions import Transactions
from parallax.model import UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """What the cluster reported of a partition while its replicas were asked.

    Attributes:
        leader: the broker that leads.
        in_sync: the brokers in sync.
        replicas: the brokers of its assignment.
        compacted: whether the topic's policy compacts.
        deletes: whether records may be deleted from the head of the log, by the policy or on request.
        unclean: whether a replica that is not in sync may become leader, so that all replicas may lose end markers.
    """

    leader: int
    in_sync: frozenset[int]
    replicas: frozenset[int]
    compacted: bool
    deletes: bool
    unclean: bool


@dataclass
class Case:
    """One partition to judge: one answer (look) of each replica, and all evidence.

    The replicas are asked one after another, while one broker leads. If the leader changes meanwhile, the answers
    cannot be used.

    Attributes:
        ledger: all evidence about the partition, including what the looks show.
        partition: what the cluster says of the partition.
        looks: by broker, what its replica shows; brokers that did not answer are left out.
        latest_stable: the highest LSO that was known after the last look.
        lineage: which places are of the current log.
        room: the offsets where something may have come and gone unseen.
        transactions: how transactions ended.
    """

    ledger: Ledger
    partition: Partition
    looks: Mapping[int, Look]
    latest_stable: int = UNKNOWN
    lineage: Lineage = field(init=False)
    room: Room = field(init=False)
    transactions: Transactions = field(init=False)

    def __post_init__(self) -> None:
        ledger, p = self.ledger, self.partition
        self.lineage = Lineage(ledger, self.looks, p.leader, p.in_sync, p.replicas)
        self.top = max((look.high_watermark for look in self.looks.values()), default=0)
        """The furthest high watermark of any replica: only offsets below it are judged."""
        self.room = Room(ledger, self.lineage, self.top, compacted=p.compacted)
        self.start = self._start()
        """The highest log start of any replica: records below it may have been deleted, and nothing is judged there.

        It is 0 if records may not be deleted.
        """
        self.facts: dict[int, Fact] = {}
        """The facts that are of the current log, by offset; all below ``top``."""
        self.doubted: list[Fact] = []
        """The facts that perhaps are of the current log, and those of which two contents were shown."""
        for place, fact in ledger.facts.items():
            belongs = self.lineage.of(place)
            if belongs is Belongs.PERHAPS or (belongs is Belongs.YES and place in ledger.unlike):
                self.doubted.append(fact)
            elif belongs is Belongs.YES and place.offset < self.top:
                self.facts[place.offset] = fact
        doubted = {fact.offset: fact.producer for fact in self.doubted if fact.end is not None}
        elsewhere = None if p.unclean else ledger.elsewhere
        self.transactions = Transactions(self.facts, doubted, self.room, self.looks.get(p.leader), elsewhere)
        self.cleaned_to = max(self._surely_stable(), self.latest_stable)
        """The offset up to which cleaners may have come at most."""
        self._shown: dict[int, dict[Hashable, list[Fact]]] = {}
        self._ends: dict[tuple[int, int], list[Place]] | None = None

    def _start(self) -> int:
        if not self.partition.deletes:
            return 0
        told = [start for broker, start in self.ledger.log_starts.items() if broker in self.partition.replicas]
        return max([0, *told, *(look.log_start for look in self.looks.values())])

    def _surely_stable(self) -> int:
        """The first record that is surely open in truth; no cleaner comes further, whatever holds a replica back."""
        end = self.top
        standing = {self.partition.leader, *self.partition.in_sync} & self.looks.keys()
        for producer in {producer for broker in standing for producer in self.looks[broker].open or ()}:
            unended = (
                offset
                for offset, fact in self.facts.items()
                if fact.producer == producer
                and fact.transactional
                and self.transactions.first_end(producer, offset) == UNKNOWN
            )
            first = min(unended, default=end)
            for broker in standing:
                begins = (self.looks[broker].open or {}).get(producer)
                if (
                    begins is not None
                    and begins <= first
                    and not self.transactions.room_for_an_end(producer, first, self.top)
                ):
                    end = min(end, first)
        return end

    def shown(self, broker: int) -> dict[Hashable, list[Fact]]:
        """By key, the records that the broker's look shows, newest first; end markers are left out."""
        if broker not in self._shown:
            found: dict[Hashable, list[Fact]] = defaultdict(list)
            for fact in self.looks[broker].facts.values():
                if fact.end is None:
                    found[fact.key].append(fact)
            for records in found.values():
                records.sort(key=lambda fact: -fact.offset)
            self._shown[broker] = found
        return self._shown[broker]

    def own_end(self, broker: int, producer: int, offset: int) -> Place | None:
        """The place of a producer's first end marker above an offset in the broker's present log.

        None if no such marker was read there.

        Args:
            broker: the broker.
            producer: the producer's id.
            offset: only markers above this offset count.
        """
        if self._ends is None:
            self._ends = defaultdict(list)
            for place, holders in self.ledger.holders.items():
                if self.ledger.facts[place].end is not None:
                    for holder in holders:
                        self._ends[holder, self.ledger.facts[place].producer].append(place)
        return min((end for end in self._ends.get((broker, producer), ()) if end.offset > offset), default=None)

    def is_of_the_log_that_stands(self, look: Look, offset: int) -> bool:
        """Whether a replica shows consumers, up to an offset, the current log, apart from what was cleaned.

        For an offset at or above its high watermark the answer is no: consumers are shown nothing there, and the
        replica may still hold the end of a log that the other replicas have truncated.

        Args:
            look: what the replica shows.
            offset: the offset, included.
        """
        if offset >= look.high_watermark:
            return False
        held = next((top for top in look.tops if top.offset >= offset), None)
        if held is not None:
            return self.lineage.of(Place(offset, held.epoch)) is Belongs.YES
        if not look.is_whole:
            return False
        return not look.tops or self.lineage.of(look.tops[-1]) is Belongs.YES
