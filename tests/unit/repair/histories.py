"""Histories of copies, played by chance: a cluster, a process that repairs and dies, people and failures in between.

A plan is run whole, or one step after the other by repairs of their own, in its order or not; what these leave is
undone. Meanwhile it is asked again and again which broker may be restarted. Nothing here asks the plan what is right:
the cluster knows which copies are, and who deletes what.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from parallax.findings.leading import may_lead
from parallax.model import Outcome
from parallax.repair.actions import Action, Asked, Assign, Cancel, Elect, Put, Wait
from parallax.repair.claims import Claim
from parallax.repair.command import document
from parallax.repair.decide import following, outdated
from parallax.repair.layout import Layout
from parallax.repair.leading import Doubts
from parallax.repair.plan import Plan, make
from parallax.repair.record import Event, EventKind, Phase, Record, Repair
from parallax.repair.seen import Look
from parallax.repair.steps import MoveStep
from tests.builders.findings import evidence, finding
from tests.simulation.leads import Controller, restarted
from tests.simulation.properties import Place
from tests.unit.repair.looks import NOW, PLACE, look, record, replica
from tests.unit.repair.seeing import claim

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
        known_for: how many looks of a running repair have shown a finding about the other value.
        worsened: who has been given a wrong copy by somebody else, until it is copied again.
        is_swapped: whether roles were swapped during the reassignment that is under way.
        was_apart: whether the log of the leader began later than another one then.
        has_forgotten: whether a leader has lost the other value; what lacks it is right as long as nobody knows.
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
    known_for: int = 0
    worsened: set[int] = field(default_factory=set)
    is_swapped: bool = False
    was_apart: bool = False
    has_forgotten: bool = False
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
        return any(one.is_whole and (one.is_right or self.has_forgotten > one.is_wrong) for one in self.copies.values())

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
        self.worsened -= set(replicas) - self.copies.keys()
        for broker in replicas:
            self.copies.setdefault(broker, Copy(0))
        self.settle()

    def cancel(self) -> str:
        """Let the controller cancel what is under way, if anything is; why it refuses that, else empty."""
        if self.target is None:
            return ""
        if self.isr.isdisjoint(self.assigned):
            return "it would need an unclean election"
        was_right, gone = self.has_right, set(self.target) - set(self.assigned)
        self.target, self.is_swapped = None, False
        for broker in gone:
            del self.copies[broker]
        if self.leader in gone:
            self.elect()
        elif gone:
            self.epoch += 1
        if was_right and not self.has_right:
            self.errors.append("no right copy is left")
        return ""

    def settle(self) -> None:
        """Let the controller end a reassignment whose replicas are all in sync."""
        if self.target is None or not set(self.target) <= self.isr:
            return
        was_right, had_other, start = self.has_right, self.has_other, self.start
        before, self.assigned, self.target, self.is_swapped = self.holders, self.target, None, False
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
        if had_other and not self.has_other and self.is_ours and (self.was_suspected or self.known_for > 3):
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

    def forget(self) -> bool:
        """The leader loses the other value; whether it held it."""
        leads = self.copies.get(self.leader, Copy(has_other=False))
        had, leads.has_other = leads.has_other, False
        self.has_forgotten |= had
        return had

    def swap(self) -> None:
        """Copies are made again that no finding knows of yet: a wrong one of a right one, and the other way around."""
        whole = [broker for broker in self.copies if broker in self.isr]
        mended, worse = ([b for b in whole if self.copies[b].is_wrong is is_wrong] for is_wrong in (True, False))
        if mended and worse:
            pair = self.chance.choice(mended), self.chance.choice(worse)
            for broker in pair:
                self.copies[broker].is_wrong = not self.copies[broker].is_wrong
            self.worsened.add(pair[1])
            self.is_swapped = self.target is not None
            self.epoch += 2 * (self.leader in pair)  # it led no more while it was copied

    def go_by(self) -> None:
        """Let time pass between a look and what is done after it, which may come late."""
        self.disturb()
        if not self.is_swapped:  # else no request was in time to stop it
            self.tick()

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
    """The record of repairs, the id of the present one, and the clock that dates its events."""

    at_ms: int
    record: Record
    repair_id = ID

    @property
    def repair(self) -> Repair:
        return self.record.repairs[self.repair_id]

    def put(self, event: Event) -> None:
        self.record.take_in([event])

    def event(self, kind: EventKind, step: int = 0) -> None:
        self.put(Event(kind, self.repair_id, *PLACE, self.at_ms, ME, step))


@dataclass
class History(Recorded):
    """One cluster, and a process that repairs it.

    Attributes:
        claim: what the finding says, for as long as it stands.
        other: what a second one says of the other value, once the suspect is judged.
        suspected, judged: at which looks the suspect is raised, and judged.
        asked_of: who was wrong and who was right when the finding's replicas were asked last.
        ended: how it ended: the phase of the last repair, or ``no plan``.
        counts: how often something was said, or done.
    """

    seed: int
    ended: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        count = self.chance.choice((2, 3, 3))
        assigned = tuple(self.chance.sample(BROKERS, count))
        wrong = frozenset(self.chance.sample(assigned, self.chance.randint(1, count - 1)))
        self.claim = claim("f1", wrong, frozenset(assigned) - wrong, WRONG_AT)
        copies = {broker: Copy(is_wrong=broker in wrong) for broker in assigned}
        if self.chance.random() < 0.3:
            for one in copies.values():
                one.start = self.chance.choice((0, 0, 10))
        holding = frozenset(assigned)
        if self.chance.random() < 0.3:
            holding = frozenset(self.chance.sample(assigned, self.chance.randint(1, count)))
        for broker, one in copies.items():
            one.has_other = broker in holding
        self.forgetting = Random(-self.seed)
        self.suspected = self.chance.randrange(30)
        self.judged, self.looks = self.suspected + self.chance.randrange(30), 0
        self.cluster = Cluster(self.chance, copies, assigned, self.chance.choice(assigned), assigned)
        self.at_ms, self.asked, self.record = NOW, None, Record()
        self.min_isr = self.chance.randint(1, count)
        self.asked_of = wrong, frozenset(assigned) - wrong
        self.other = self.of_other()

    def of_other(self) -> Claim:
        """What a finding about the other value says of the replicas."""
        holding = frozenset(b for b, one in self.cluster.copies.items() if one.has_other)
        return claim("f2", self.cluster.copies.keys() - holding, holding, WRONG_AT - 1, showing=holding)

    def look(self) -> Look:
        cluster = self.cluster
        self.looks += 1
        differs = len({one.has_other for one in cluster.copies.values() if one.is_whole}) > 1
        cluster.is_suspected = differs and self.looks > self.suspected
        is_judged = cluster.is_suspected and self.looks > self.judged
        is_running = self.repair_id in self.record.repairs and self.repair.is_running
        cluster.known_for = cluster.known_for + 1 if is_judged and is_running else 0
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
            there = ((WRONG_AT, copy.is_wrong), (WRONG_AT - 1, copy.has_other))
            shown[broker] = {offset: record(offset, Outcome.NONE) for offset, is_there in there if is_there}
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
        parts = [plan]
        if self.chance.random() < 0.4:
            parts = [plan.only(step.number) for step in plan.steps]
            if self.chance.random() < 0.3:
                self.chance.shuffle(parts)
        begun = dict[str, Plan]()
        for number, part in enumerate(parts):
            if self.chance.random() < 0.1:
                self.cluster.swap()
            if outdated(part, self.look()):
                continue
            self.repair_id = f"{number:032x}"
            begun[self.repair_id] = part
            self.put(Event(EventKind.BEGUN, self.repair_id, *PLACE, self.at_ms, ME, document=document(part)))
            self.go_on(part, most)
            if self.repair.is_open or (parts[1:] and self.chance.random() < 0.25):
                break
        if parts[1:] and begun and not self.repair.is_open and self.chance.random() < 0.7:
            self.undo(begun, most)
        self.ended = str(self.repair.phase) if begun else "no plan"
        return self

    def undo(self, begun: dict[str, Plan], most: int) -> None:
        """Undo what repairs that are over have left, the last one first, as `parallax repair undo` lets a person."""
        for known in reversed([one for one in self.record.repairs.values() if one.left]):
            if self.record.later(known) is not None:
                self.cluster.errors.append(f"{known.repair_id} cannot be undone, and is the last")
                return
            self.repair_id = known.repair_id
            self.event(EventKind.UNDOING)
            self.go_on(begun[known.repair_id], most)
            if self.repair.is_open:
                return
            if self.repair.phase is not Phase.CLOSED:  # it was resumed instead
                self.counts["over again"] += 1
                return
            self.counts["undone"] += 1

    def go_on(self, plan: Plan, most: int) -> None:
        for _ in range(most):
            if not self.repair.is_open:
                return
            self.befall()
            seen = self.look()
            if self.chance.random() < 0.02:
                self.min_isr += 1
            is_disturbed = self.chance.random() < 0.12
            if is_disturbed:
                self.cluster.go_by()
            self.step(plan, seen)
            if self.repair.phase is Phase.CLOSED and not is_disturbed:
                self.check_undone(plan, seen)
            if self.chance.random() < 0.1:
                self.ask()
            if self.chance.random() < 0.2:
                self.roll()
            self.at_ms += self.chance.choice((200, 200, 1_000, 40_000))
            self.cluster.tick()

    def befall(self) -> None:
        """What befalls replicas between two looks."""
        if self.chance.random() < 0.02:
            self.cluster.behead()
        if self.chance.random() < 0.01:
            self.cluster.swap()
        if self.forgetting.random() < 0.01 and self.cluster.forget():
            self.other = self.of_other()

    def ask(self) -> None:
        """The job asks the replicas of its finding again: it does not know of a copy that is not whole or not there."""
        there = {b for b in self.cluster.isr if self.cluster.copies[b].is_whole}
        wrong = frozenset(b for b in there if self.cluster.copies[b].is_wrong)
        self.asked_of = wrong, frozenset(there) - wrong

    def roll(self) -> None:
        """Ask of each broker whether it may be restarted, and hold it against who would lead."""
        cluster, (wrong, right) = self.cluster, self.asked_of
        if cluster.leader < 0 or cluster.leader not in cluster.isr:
            return
        holders = tuple(cluster.holders)
        sides = {"no value": sorted(right), f"value at offset {WRONG_AT}": sorted(wrong)}
        known = evidence(sides, sorted(wrong | right), cluster.leader, assigned=list(holders))
        found = may_lead(holders, [finding(broker=min(wrong), offset=WRONG_AT, evidence=known)] if wrong else [])
        told = {b: [Place(b, "value")] for b in wrong & set(holders) if cluster.copies[b].is_wrong}
        before = Controller(
            holders, cluster.leader, set(cluster.isr), None, self.min_isr, may_be_unclean=False, away=set(cluster.down)
        )
        cluster.errors += map(str, restarted(found, told, before, self.counts))

    def step(self, plan: Plan, seen: Look) -> None:
        if self.repair.phase is Phase.STOPPED:
            if self.chance.random() < 0.3:
                self.cluster.down.clear()
                self.asked = None  # by another process
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
            case Assign() | Cancel() | Elect():
                self.asked = Asked(action, self.at_ms)
                if self.chance.random() < 0.05 and not self.cluster.is_swapped:
                    return  # it never arrives
                if isinstance(action, Elect):
                    self.cluster.prefer()
                    self.cluster.is_led_by_ours = self.cluster.leader in {step.source for step in moves(plan)}
                    return
                if isinstance(action, Cancel):
                    self.counts["cancelled too late"] += self.cluster.target is None
                    self.asked = replace(self.asked, refusal=self.cluster.cancel())
                    return
                self.cluster.assign(action.replicas, ours=True)
                if action.step and self.chance.random() < 0.9:  # else its answer is lost
                    self.event(EventKind.ANSWERED, action.step)

    def check_left(self, action: Action | None, plan: Plan, seen: Look) -> None:
        """A wrong copy is deleted only while enough others are left, by the settings that the look has shown."""
        if not isinstance(action, Assign) or seen.layout is None:
            return
        mine = [step for step in moves(plan) if step.number == action.step and step.move.replicas == action.replicas]
        dropped = any(step.dropped for step in mine)
        if dropped and len(action.replicas) < max(2, seen.layout.min_isr):
            self.cluster.errors.append(f"{len(action.replicas)} are left, and min.insync.replicas is {self.min_isr}")

    def check_undone(self, plan: Plan, seen: Look) -> None:
        """Who held it holds it again; a broker that helped out stays where a finding is new to the plan."""
        cluster = self.cluster
        if seen.findings - {*plan.findings}:
            return
        if self.repair.intended and (cluster.target, cluster.assigned) != (None, plan.replicas):
            cluster.errors.append(f"{plan.replicas} held it, it is undone, and these do: {cluster.holders}")

    def check_over(self, plan: Plan) -> None:
        """Those that were copied anew are right; what somebody else has made wrong meanwhile is another finding's."""
        copies = self.cluster.copies
        copied = {b for step in plan.steps if isinstance(step, MoveStep) for b in step.move.copied}
        anew = self.claim.wrong & copied & copies.keys() - self.cluster.worsened
        wrong = sorted(broker for broker in anew if copies[broker].is_wrong)
        if wrong:
            self.cluster.errors.append(f"it is over, and brokers {wrong} are wrong")


def moves(plan: Plan) -> list[MoveStep]:
    return [step for step in plan.steps if isinstance(step, MoveStep)]


__all__ = ["History"]
