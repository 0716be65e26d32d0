"""Histories of copies, played by chance: a cluster, a process that repairs and dies, people and failures in between.

Nothing here asks the plan what is right: the cluster knows which copies are, and who deletes what.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from parallax.model import Outcome
from parallax.repair.actions import Action, Asked, Assign, Elect, Put, Wait
from parallax.repair.claims import Claim
from parallax.repair.command import document
from parallax.repair.decide import following, outdated
from parallax.repair.layout import Layout
from parallax.repair.leading import Doubts
from parallax.repair.plan import Plan, make
from parallax.repair.record import Event, EventKind, Phase, Record, Repair
from parallax.repair.seen import Look
from parallax.repair.steps import MoveStep
from tests.unit.repair.looks import NOW, PLACE, look, record, replica

BROKERS, PARTS, WRONG_AT = (1, 2, 3, 4), 4, 17
ME, ID = "me@here:1:1", "a" * 32


@dataclass
class Copy:
    """A copy of the partition.

    Attributes:
        parts: how much of it there is.
        is_wrong: whether a part came from a wrong one.
        start: its log start offset.
        has_other: whether it shows another value that is right, of which the finding says nothing.
    """

    parts: int = PARTS
    is_wrong: bool = False
    start: int = 0
    has_other: bool = True

    @property
    def is_right(self) -> bool:
        return not self.is_wrong and self.has_other

    @property
    def is_whole(self) -> bool:
        return self.parts >= PARTS


@dataclass
class Cluster:
    """One partition, as brokers and their controller have it.

    Attributes:
        target: what it is being reassigned to.
        is_ours: whether the repair asked for that.
        is_led_by_ours: whether the repair had the present leader elected.
        is_suspected: whether a suspect, or a finding, is about the other value by now.
        was_suspected: whether one was when the repair asked for its last reassignment.
        was_apart: whether the log of the leader began later than another one then.
        errors: what the repair should never have brought about.
    """

    chance: Random
    copies: dict[int, Copy]
    assigned: tuple[int, ...]
    leader: int
    original: tuple[int, ...] = ()
    epoch: int = 5
    down: set[int] = field(default_factory=set)
    target: tuple[int, ...] | None = None
    is_ours: bool = False
    is_led_by_ours: bool = False
    is_suspected: bool = False
    was_suspected: bool = False
    was_apart: bool = False
    errors: list[str] = field(default_factory=list)

    @property
    def isr(self) -> set[int]:
        return {b for b in self.holders if b not in self.down and self.copies[b].is_whole}

    @property
    def holders(self) -> list[int]:
        """In the order in which metadata name them."""
        wanted = self.target or self.assigned
        return [*wanted, *(b for b in self.assigned if b not in wanted)]

    @property
    def has_right(self) -> bool:
        """Whether a right copy is left."""
        return any(one.is_whole and one.is_right for one in self.copies.values())

    @property
    def has_other(self) -> bool:
        """Whether the other right value is on some replica."""
        return any(one.is_whole and one.has_other for one in self.copies.values())

    @property
    def start(self) -> int:
        """From which offset on some replica has all."""
        return min((one.start for one in self.copies.values() if one.is_whole), default=0)

    def assign(self, replicas: tuple[int, ...], *, ours: bool) -> None:
        if self.target is not None:  # the one before is given up: what it added goes, unless it is wanted
            for broker in set(self.target) - set(self.assigned) - set(replicas):
                self.copies.pop(broker, None)
        self.target, self.is_ours, self.was_suspected = replicas, ours, self.is_suspected
        self.was_apart = self.leader in self.copies and self.copies[self.leader].start > self.start
        for broker in replicas:
            self.copies.setdefault(broker, Copy(0))
        self.settle()

    def settle(self) -> None:
        """Let the controller end a reassignment whose replicas are all in sync."""
        if self.target is None or not set(self.target) <= self.isr:
            return
        was_right, had_other, start = self.has_right, self.has_other, self.start
        before, self.assigned, self.target = self.holders, self.target, None
        gone = [b for b in before if b not in self.assigned]
        for broker in gone:
            copy = self.copies.pop(broker)
            if self.is_ours and copy.is_right and broker in self.original:
                self.errors.append(f"the right copy of broker {broker} was deleted")
        if self.leader in gone:
            self.elect()
        elif gone:
            self.epoch += 1
        if was_right and not self.has_right and self.is_ours:
            self.errors.append("no right copy is left")
        if had_other and not self.has_other and self.is_ours and self.was_suspected:
            self.errors.append("the other right value is gone, and a suspect named it")
        if self.start > start and self.is_ours and self.was_apart:
            self.errors.append(f"nobody holds what lies before offset {self.start}")

    def elect(self, wanted: int | None = None) -> None:
        able = [b for b in self.assigned if b in self.isr]
        self.is_led_by_ours = False
        self.leader = wanted if wanted in able else able[0] if able else -1
        self.epoch += 1

    def prefer(self) -> None:
        first = self.assigned[0]
        if self.target is None and first in self.isr and first != self.leader:
            self.elect(first)

    def tick(self) -> None:
        """Copy some more."""
        for broker in self.holders:
            copy = self.copies[broker]
            if not copy.is_whole and broker not in self.down and self.leader in self.isr:
                copy.parts += 1
                copy.is_wrong |= self.copies[self.leader].is_wrong
                copy.has_other, copy.start = self.copies[self.leader].has_other, self.copies[self.leader].start
        self.follow()
        self.settle()

    def follow(self) -> None:
        """Followers delete what lies before the log start of their leader."""
        start = self.start
        for broker in self.isr if self.leader in self.isr else ():
            self.copies[broker].start = max(self.copies[broker].start, self.copies[self.leader].start)
        if self.start > start and self.is_led_by_ours:
            self.errors.append(f"our leader had all delete what lies before offset {self.start}")

    def behead(self) -> None:
        """Some follower loses the head of its log."""
        followers = [one for broker, one in self.copies.items() if broker != self.leader]
        if followers:
            self.chance.choice(followers).start += 10

    def disturb(self) -> None:
        """What failures and people do."""
        match self.chance.randrange(8):
            case 0 | 1 if self.leader > 0:
                self.down.add(self.leader)
                self.elect()
            case 2:
                self.down.add(self.chance.choice(self.assigned))
                if self.leader in self.down:
                    self.elect()
            case 3 | 4:
                self.down.clear()
                if self.leader < 0:
                    self.elect()
                self.settle()
            case 5:
                self.prefer()
            case 6 if self.chance.random() < 0.3:
                some = self.chance.sample(BROKERS, self.chance.randint(2, 3))
                if self.leader in some:
                    self.assign(tuple(some), ours=False)
            case 7 if self.target is not None and self.chance.random() < 0.3:
                self.assign(self.assigned, ours=False)


class Recorded:
    """The record of one repair, and the clock that dates its events."""

    at_ms: int
    record: Record

    @property
    def repair(self) -> Repair:
        return self.record.repairs[ID]

    def put(self, event: Event) -> None:
        self.record.take_in([event])

    def event(self, kind: EventKind, step: int = 0) -> None:
        self.put(Event(kind, ID, *PLACE, self.at_ms, ME, step))


@dataclass
class History(Recorded):
    """One cluster, and a process that repairs it.

    Attributes:
        claim: what the finding says, for as long as it stands.
        other: what a second one says of the other value, once the suspect is judged.
        suspected, judged: at which looks the suspect is raised, and judged.
        ended: how it ended: the phase of the repair, or ``no plan``.
    """

    seed: int
    ended: str = ""

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        count = self.chance.choice((2, 3, 3))
        assigned = tuple(self.chance.sample(BROKERS, count))
        wrong = frozenset(self.chance.sample(assigned, self.chance.randint(1, count - 1)))
        self.claim = Claim("f1", wrong, frozenset(assigned) - wrong, (WRONG_AT,))
        copies = {broker: Copy(is_wrong=broker in wrong) for broker in assigned}
        if self.chance.random() < 0.3:
            for one in copies.values():
                one.start = self.chance.choice((0, 0, 10))
        holding = frozenset(assigned)
        if self.chance.random() < 0.3:
            holding = frozenset(self.chance.sample(assigned, self.chance.randint(1, count)))
        for broker, one in copies.items():
            one.has_other = broker in holding
        self.other = Claim("f2", frozenset(assigned) - holding, holding, (WRONG_AT - 1,))
        self.suspected = self.chance.randrange(30)
        self.judged, self.looks = self.suspected + self.chance.randrange(30), 0
        self.cluster = Cluster(self.chance, copies, assigned, self.chance.choice(assigned), assigned)
        self.at_ms, self.asked, self.record = NOW, None, Record()
        self.min_isr = self.chance.randint(1, count)

    def look(self) -> Look:
        cluster = self.cluster
        self.looks += 1
        differs = len({one.has_other for one in cluster.copies.values() if one.is_whole}) > 1
        cluster.is_suspected = differs and self.looks > self.suspected
        is_judged = cluster.is_suspected and self.looks > self.judged
        doubts = Doubts(("1 suspect is being checked",) if cluster.is_suspected and not is_judged else ())
        free = {b: 9 << 30 for b in BROKERS if b not in cluster.down}
        sizes = {b: copy.parts for b, copy in cluster.copies.items() if b in free}
        layout = Layout(free, sizes, {} if cluster.target is None else {PLACE: cluster.target}, self.min_isr)
        replicas, shown = {}, {}
        for broker in cluster.holders:
            copy = cluster.copies[broker]
            if broker in cluster.down:
                replicas[broker] = replace(replica(), error="away")
                continue
            end = 20 * copy.parts // PARTS
            replicas[broker] = replica(log_end=end, stable=end, start=copy.start)
            shown[broker] = {WRONG_AT: record(WRONG_AT, Outcome.NONE)} if copy.is_wrong else {}
        known = look(replicas, leader=cluster.leader, leader_epoch=cluster.epoch, at_ms=self.at_ms)
        stands = any(copy.is_wrong for copy in cluster.copies.values())
        return replace(
            known,
            transactions=(),
            assigned=tuple(cluster.holders),
            isr=frozenset(cluster.isr),
            findings=frozenset(({"f1"} if stands else set()) | ({"f2"} if is_judged else set())),
            claims=((self.claim,) if stands else ()) + ((self.other,) if is_judged else ()),
            doubts=doubts,
            layout=layout,
            shown=shown,
        )

    def play(self, most: int = 400) -> History:
        plan = make(self.look(), {})
        if not plan.steps or outdated(plan, self.look()):
            self.ended = "no plan"
            return self
        self.put(Event(EventKind.BEGUN, ID, *PLACE, self.at_ms, ME, document=document(plan)))
        for _ in range(most):
            if not self.repair.is_open:
                break
            if self.chance.random() < 0.02:
                self.cluster.behead()
            seen = self.look()
            if self.chance.random() < 0.02:
                self.min_isr += 1
            if self.chance.random() < 0.12:
                self.cluster.disturb()  # between the look and what is done after it
            self.step(plan, seen)
            self.at_ms += self.chance.choice((200, 200, 1_000, 40_000))
            self.cluster.tick()
        self.ended = str(self.repair.phase)
        return self

    def step(self, plan: Plan, seen: Look) -> None:
        if self.repair.phase is Phase.STOPPED:
            if self.chance.random() < 0.3:
                self.cluster.down.clear()
                self.event(self.chance.choice((EventKind.RESUMED, EventKind.RESUMED, EventKind.UNDOING)))
            return
        action = following(self.repair, plan, seen, ME, self.asked)
        self.check_left(action, plan, seen)
        self.do(action, plan)
        if self.chance.random() < 0.05:  # killed, and resumed
            self.asked = None

    def do(self, action: Action | None, plan: Plan) -> None:
        match action:
            case Put(event=event):
                self.put(event)
                if event.kind is EventKind.OVER:
                    self.check_over(plan)
            case Wait() | None:
                pass
            case Assign() | Elect():
                self.asked = Asked(action, self.at_ms)
                if self.chance.random() < 0.05:
                    return  # it never arrives
                if isinstance(action, Elect):
                    self.cluster.prefer()
                    self.cluster.is_led_by_ours = self.cluster.leader in {step.source for step in moves(plan)}
                    return
                self.cluster.assign(action.replicas, ours=True)
                if action.step and self.chance.random() < 0.9:  # else its answer is lost
                    self.event(EventKind.ANSWERED, action.step)

    def check_left(self, action: Action | None, plan: Plan, seen: Look) -> None:
        """A wrong copy is deleted only while enough others are left, by the settings that the look has shown."""
        if not isinstance(action, Assign) or seen.layout is None:
            return
        dropped = any(step.dropped for step in moves(plan) if step.number == action.step)
        if dropped and len(action.replicas) < max(2, seen.layout.min_isr):
            self.cluster.errors.append(f"{len(action.replicas)} are left, and min.insync.replicas is {self.min_isr}")

    def check_over(self, plan: Plan) -> None:
        """Those that were copied anew are right; what somebody else has made wrong meanwhile is another finding's."""
        copies = self.cluster.copies
        anew = self.claim.wrong & set(plan.replicas) & copies.keys()
        wrong = sorted(broker for broker in anew if copies[broker].is_wrong)
        if wrong:
            self.cluster.errors.append(f"it is over, and brokers {wrong} are wrong")


def moves(plan: Plan) -> list[MoveStep]:
    return [step for step in plan.steps if isinstance(step, MoveStep)]


__all__ = ["History"]
