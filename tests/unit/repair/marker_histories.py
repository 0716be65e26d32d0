"""Histories of end markers, played by chance: a log on each broker, a producer, a process that repairs and dies.

Nothing here asks the plan what is right: the cluster knows how each transaction ended, and who wrote which marker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from parallax.findings.hanging import Prospect, Standing
from parallax.model import UNKNOWN, Outcome, RowKind
from parallax.repair.actions import Action, Asked, Put, Wait, Write
from parallax.repair.command import document
from parallax.repair.decide import following, outdated
from parallax.repair.plan import Plan, make
from parallax.repair.record import Event, EventKind, Phase, Record
from parallax.repair.seen import End, Log, Look, Replica, Row, Transaction
from parallax.replica.types import ProducerState, Watermarks
from tests.unit.repair.histories import ID, ME, Recorded
from tests.unit.repair.looks import HANGS, NOW, PLACE, look

BROKERS, PRODUCER = (1, 2, 3), 7
KINDS = {"commit": RowKind.COMMIT, "abort": RowKind.ABORT}
OUTCOME = {"commit": Outcome.COMMITTED, "abort": Outcome.ABORTED}


@dataclass(frozen=True)
class Entry:
    """A record or an end marker of the one producer, or another's record.

    Attributes:
        kind: ``record``, ``other``, ``commit`` or ``abort``.
        transaction: for a record, the number of its transaction; for a marker, that of the one it is meant to end.
        is_ours: whether the repair wrote it.
    """

    kind: str
    transaction: int = 0
    is_ours: bool = False


@dataclass
class Cluster:
    """One partition: the leader's log, how much of it each replica has, and what each has missed of it.

    Attributes:
        truth: by transaction, how its owner ended it; a transaction that is not over is not in it.
        missed: by broker, the offsets that its replica lacks: end markers that a cleaner took elsewhere first.
        errors: what the repair should never have brought about.
    """

    chance: Random
    log: list[Entry] = field(default_factory=list)
    truth: dict[int, str] = field(default_factory=dict)
    missed: dict[int, set[int]] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)
    leader: int = 1
    epoch: int = 9
    down: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def held(self, broker: int) -> list[tuple[int, Entry]]:
        missed = self.missed.get(broker, ())
        return [(at, one) for at, one in enumerate(self.log[: self.reached[broker]]) if at not in missed]

    def open_on(self, broker: int) -> int | None:
        """The first offset of the producer's open transaction, as this replica counts; None if none is open."""
        first = None
        for at, one in self.held(broker):
            if one.kind == "record" and first is None:
                first = at
            elif one.kind in KINDS:
                first = None
        return first

    def outcomes(self, broker: int) -> dict[int, str]:
        """By offset of each record, how this replica shows that it ended: by the next marker that it has."""
        found, waiting = dict[int, str](), list[int]()
        for at, one in self.held(broker):
            if one.kind == "record":
                waiting.append(at)
            elif one.kind in KINDS:
                found |= dict.fromkeys(waiting, one.kind)
                waiting = []
        return found

    @property
    def isr(self) -> set[int]:
        return {b for b in BROKERS if b not in self.down and self.reached[b] == len(self.log)}

    def add(self, entry: Entry) -> None:
        if self.leader > 0:
            self.log.append(entry)
            self.reached[self.leader] = len(self.log)

    def write(self, end: str, leader: int, *, spare: int) -> bool:
        """What a leader does with a request for an end marker: it ends whatever it, or a follower, counts as open.

        Returns:
            Whether it wrote the marker. An error is noted for each transaction that it ends wrongly, but for ``spare``.
        """
        if leader != self.leader or leader in self.down:
            return False
        before = {broker: self.outcomes(broker) for broker in BROKERS}
        self.add(Entry(end, is_ours=True))
        for broker in BROKERS:  # each follower will come to it, so what it does there is judged now
            reached, self.reached[broker] = self.reached[broker], len(self.log)
            for at, how in self.outcomes(broker).items():
                if at in before[broker]:
                    if before[broker][at] != how:
                        self.errors.append(f"broker {broker} lost the outcome of offset {at}")
                elif self.log[at].transaction != spare and self.truth.get(self.log[at].transaction) != how:
                    self.errors.append(f"the marker ends transaction {self.log[at].transaction} by {how} on {broker}")
            self.reached[broker] = reached
        return True

    def tick(self) -> None:
        for broker in BROKERS:
            if broker not in self.down and self.leader > 0:
                self.reached[broker] = len(self.log)

    def elect(self) -> None:
        able = [b for b in BROKERS if b in self.isr]
        if able:
            self.leader = self.chance.choice(able)
            self.epoch += 1

    def disturb(self, begin: Callable[[], None]) -> None:
        """What failures and people do."""
        match self.chance.randrange(6):
            case 0:
                self.down.add(self.leader)
                self.elect()
                if self.leader in self.down:
                    self.down.discard(self.leader)
            case 1:
                self.down.add(self.chance.choice([b for b in BROKERS if b != self.leader]))
            case 2 | 3:
                self.down.clear()
                self.tick()
            case 4:
                self.elect()
            case 5:
                begin()


@dataclass
class History(Recorded):
    """One cluster with a transaction that some replica, or all, hold open, and a process that ends it.

    Attributes:
        change: a change of each look before anything is decided by it; what a broken precondition does not see.
        ended: how it ended: the phase of the repair, or ``no plan``.
        going_on: whether a coordinator will end a transaction of the producer here.
        is_raced: whether the producer began a transaction after the last look and before the marker, which ended it:
            Kafka has no request that would be refused then, so the repair only has to say so.
        says_so: whether the repair said that.
    """

    seed: int
    change: Callable[[Look], Look] = lambda look: look
    ended: str = ""
    is_raced: bool = False
    says_so: bool = False
    going_on: bool = False

    def __post_init__(self) -> None:
        self.chance = chance = Random(self.seed)
        self.cluster = cluster = Cluster(chance, reached=dict.fromkeys(BROKERS, 0))
        self.at_ms, self.asked, self.record, self.newest = NOW, None, Record(), 1
        self.end = chance.choice(("commit", "abort"))
        cluster.leader = chance.choice(BROKERS)
        cluster.truth[1] = self.end
        for _ in range(chance.randrange(3)):
            cluster.add(Entry("other"))
        self.start = len(cluster.log)
        cluster.add(Entry("record", 1))
        self.marker = UNKNOWN
        if chance.random() < 0.7:  # some have its marker; else no replica does
            self.marker = len(cluster.log)
            cluster.add(Entry(self.end, 1))
            for broker in chance.sample(BROKERS, chance.randint(1, 2)):
                cluster.missed[broker] = {self.marker}
        cluster.add(Entry("other"))
        cluster.tick()
        if chance.random() < 0.3:
            self.begin()
            cluster.tick()

    def begin(self) -> None:
        """The producer writes a newer transaction: it goes on, is ended, or hangs, and then only its owner knows how.

        None hangs within one that the leader holds open: for brokers the two are one, and nothing tells them apart.
        """
        cluster, how = self.cluster, self.chance.choice(("commit", "abort"))
        fate = self.chance.choice(("goes on", "ended", "hangs"))
        if cluster.leader < 0 or (fate == "hangs" and cluster.open_on(cluster.leader) is not None):
            return
        self.newest += 1
        cluster.add(Entry("record", self.newest))
        if fate == "goes on":
            self.going_on = True
        else:
            cluster.truth[self.newest] = how
        if fate == "ended":
            cluster.add(Entry(how, self.newest))
            self.going_on = False

    def look(self, asked: frozenset[int] = frozenset()) -> Look:
        """A look that covers what is open, and the transactions from some offsets on."""
        cluster = self.cluster
        replicas, logs, starts = {}, {}, set[int]()
        for broker in BROKERS:
            if broker in cluster.down:
                replicas[broker], logs[broker] = Replica(error="away"), Log(error="away")
                continue
            first, reached, shown = cluster.open_on(broker), cluster.reached[broker], cluster.outcomes(broker)
            stable = reached if first is None else first
            state = ProducerState(PRODUCER, 2, 0, NOW - 60_000, 1, UNKNOWN if first is None else first)
            replicas[broker] = Replica(Watermarks(reached, stable, 0, reached), (state,))
            if first is not None:
                starts.add(first)
            rows = [
                Row(at, KINDS[one.kind], "", "", Outcome.NONE)
                if one.kind in KINDS
                else Row(at, RowKind.RECORD, "", "", OUTCOME[shown[at]] if at in shown else Outcome.UNDECIDED)
                for at, one in cluster.held(broker)
                if one.kind != "other" and at >= self.start
            ]
            logs[broker] = Log(tuple(rows))
        transactions = []
        # Coordinators know of each producer the last transaction alone, and of one that hangs nothing.
        verdict = Prospect(Standing.GOES_ON, "its coordinator says Ongoing") if self.going_on else HANGS
        for start in sorted(starts | asked):
            part = {b: Log(tuple(row for row in log.rows if row.offset >= start), log.error) for b, log in logs.items()}
            transactions.append(Transaction(PRODUCER, start, verdict, part))
        proven = {(PRODUCER, self.start): [End(self.end, "its end marker was read", self.marker, "f1")]}
        known = look(replicas, *transactions, leader=cluster.leader, leader_epoch=cluster.epoch, at_ms=self.at_ms)
        seen = replace(
            known,
            isr=frozenset(cluster.isr),
            findings=frozenset({"f1"} if self.marker != UNKNOWN else ()),
            proven=proven if self.marker != UNKNOWN else {},
        )
        return self.change(seen)

    def play(self, most: int = 120) -> History:
        said = {} if self.marker != UNKNOWN else {self.start: self.end}
        plan = make(self.look(), said)
        mine = frozenset({self.start})
        if not plan.steps or outdated(plan, self.look(mine)):
            self.ended = "no plan"
            return self
        self.put(Event(EventKind.BEGUN, ID, *PLACE, self.at_ms, ME, document=document(plan)))
        for _ in range(most):
            if not self.repair.is_open:
                break
            self.step(plan, self.look(mine))
            self.at_ms += self.chance.choice((200, 1_000, 40_000))
            self.cluster.tick()
        self.ended = str(self.repair.phase)
        return self

    def step(self, plan: Plan, seen: Look) -> None:
        if self.repair.phase is Phase.STOPPED:
            self.cluster.down.clear()
            self.event(EventKind.RESUMED if self.chance.random() < 0.7 else EventKind.CLOSED)
            return
        self.do(following(self.repair, plan, seen, ME, self.asked))
        if self.chance.random() < 0.15:
            self.cluster.disturb(self.begin)
        if self.chance.random() < 0.08:  # killed, and resumed
            self.asked = None

    def do(self, action: Action | None) -> None:
        match action:
            case Put(event=event):
                self.put(event)
                self.says_so |= event.kind is EventKind.STOPPED and "in the moment before the marker" in event.reason
                if event.kind is EventKind.OVER:
                    self.check_over()
            case Write(step=step, leader=leader, marker=marker):
                self.asked = Asked(action, self.at_ms)
                if self.chance.random() < 0.1:
                    return  # it never arrives
                late = self.chance.random() < 0.05
                if late:
                    self.newest += 1
                    self.cluster.add(Entry("record", self.newest))
                    self.going_on = True
                written = self.cluster.write(
                    "commit" if marker.is_commit else "abort", leader, spare=self.newest if late else 0
                )
                self.is_raced |= written and late
                if written and self.chance.random() < 0.8:  # else its answer is lost
                    self.event(EventKind.ANSWERED, step)
            case Wait() | None:
                pass

    def check_over(self) -> None:
        """Every replica shows the transaction as its owner ended it."""
        for broker in BROKERS:
            if self.cluster.outcomes(broker).get(self.start) != self.end:
                self.cluster.errors.append(f"it is over, and broker {broker} does not show {self.end}")


__all__ = ["History"]
