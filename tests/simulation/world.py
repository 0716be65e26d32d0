"""One history, run: the cluster, the monitor, and what must hold."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from parallax.audit.result import Result
from parallax.config import CompareSettings
from parallax.findings.claim import Claim
from parallax.findings.finding import Finding as Event
from parallax.findings.finding import claim_of, current, was_only_shown
from parallax.findings.incidents import ALONE
from parallax.kinds import KEY_KINDS, TRANSACTION_KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus, Rule, UnknownReason
from tests.simulation import audits, events, leads, oracle
from tests.simulation.advice import States
from tests.simulation.audits import settled
from tests.simulation.cluster import Cluster, Coordinator
from tests.simulation.content import key_of_halves
from tests.simulation.expected import (
    Divergence,
    lost,
    must_be_found_early,
    must_be_reported_as_truncated,
    outcome_explains,
)
from tests.simulation.history import EXPIRATION, NO_KEY, RETENTION, TOMBSTONE, Op, Profile, stir, with_kills
from tests.simulation.judging import Judge
from tests.simulation.kinds import generate, profile
from tests.simulation.monitor import Finding, Monitor, Told
from tests.simulation.probe import probe
from tests.simulation.properties import ONE_CAUSE, Broken, Ended
from tests.simulation.readers import RC
from tests.simulation.records import End, Limits
from tests.simulation.replica import Replica

GRACE = 300
ROUNDS = 4
"""Full rounds on a cluster at rest, half a grace period apart, within which everything is found and decided."""


class Violation(AssertionError):  # noqa: N818 - it is what a property says, not an error of the program
    """A property that did not hold."""


@dataclass
class World:
    """A cluster and its monitor, driven by the operations of a history."""

    profile: Profile
    trace: list[str] | None = None
    watching: ClassVar[type[Monitor]] = Monitor
    """What reads the replicas, and judges."""
    cluster: Cluster = field(init=False)
    monitor: Monitor = field(init=False)
    done: Counter[str] = field(default_factory=Counter)
    """What was done to the cluster and the monitor that a quiet life does not hold, by name."""

    def __post_init__(self) -> None:
        seed = self.profile.seed
        self.cluster = Cluster(Limits(RETENTION, EXPIRATION), self.profile.brokers, writers=4)
        settings = CompareSettings(grace_ms=GRACE)
        if self.profile.cap is not None:
            # Below what a user may set, so that the cap bites in a short history.
            settings = settings.model_copy(update={"state_cap_bytes": self.profile.cap})
        self.settings = settings
        began_late = self.profile.wipes or self.profile.reassigns or self.profile.unclean or bool(self.profile.kinds)
        self.monitor = self._monitor(eventful=began_late)
        self.judge = Judge(self.cluster, self.profile)
        self.begun = 0
        self.proven: dict[str, tuple[Cluster, ...]] = {}
        """By suspect, the cluster as it was probed for its own finding, for an incident says again what that proved."""
        self.reported: dict[str, tuple[Cluster, ...]] = {}
        """By suspect, the cluster as it was probed for what an incident says of it, and whenever it says so again."""
        self.seen_cuts: Counter[int] = Counter()
        self.order = random.Random(seed)
        self.level = dict.fromkeys(self.cluster.replicas, self.cluster.now)

    def _monitor(self, *, eventful: bool = True, audits: bool = False) -> Monitor:
        """A monitor that has read nothing yet."""
        p = self.profile
        return self.watching(
            self.cluster,
            self.settings,
            seed=p.seed,
            late=p.late and not audits,
            compacted=p.compacted,
            deletes=p.trims or not p.compacted,
            wired=p.wired and not audits,
            shared=p.shared and not audits,
            eventful=eventful,
            alone=p.alone,
            hear=partial(self._hear, is_recorded=not audits),
        )

    def _hear(self, event: Event, told: Told, seen: tuple[Cluster, ...], *, is_recorded: bool) -> None:
        """An event is on record, or of an audit: hold what is advised on it against the cluster as it was probed.

        An incident advises on all of its members, though nothing may be new of most of them.
        """
        singles = told.singles
        for one in singles:
            # A confirmed one is judged by its own moments, in `apply`.
            if was_only_shown(one) or (one.stands and one.status is not FindingStatus.CONFIRMED):
                self._check_at_all(one, (*self.monitor.events, *singles), seen)
        if not event.stands or self.profile.healthy:
            return
        # An explanation knows what is in the table: of the others what they said there last.
        beside = [one for one in current(self.monitor.table).values() if one.stands]
        known = {one.finding_id: one for one in self.monitor.events if one.status is not FindingStatus.DISMISSED}
        known |= {one.finding_id: one for one in (*beside, *told.again, *singles) if not one.is_incident}
        advice = events.advice(event, beside)
        stands = {name: events.said(one) for name, one in known.items() if one.stands}
        kept = copy.deepcopy(seen)
        for one in (*told.again, *singles):
            if one.stands:
                of_it = self.reported if one in told.again else self.proven
                earlier = of_it.get(one.suspect_id, ()) if event.is_incident else ()
                states = States((*earlier, *seen), self.profile.compacted)
                self.judge.advised(advice, one.finding_id, stands, states, is_recorded=is_recorded)
                self.reported[one.suspect_id] = (*earlier, *kept)
        if not event.is_incident:
            self.proven[event.suspect_id] = kept

    def run(self, ops: Sequence[Op]) -> None:
        """Apply the operations, let the cluster come to rest, and check what must have been found.

        Raises:
            Violation: a property does not hold; its text says which and where.
        """
        for op in ops:
            self.apply(op)
        self.settle()

    def apply(self, op: Op) -> None:
        """Apply one operation and check what it confirmed."""
        if op[0] in SEEING and not self.profile.healthy:
            self.judge.note()  # What is suspected in it was read before anything moves on, and may be over then.
        self.begun = max(0, len(self.judge.moments) - 1)
        found = self.do(op)
        if self.trace is not None:
            self.trace.append(self._describe(op))
        for finding in found or ():
            self._check(finding)
        self._check_properties()
        self.judge.suspect([claim.suspect_id for claim in self.monitor.pending])

    def do(self, op: Op) -> Iterable[Finding] | None:
        """Apply one operation; returns what it confirmed."""
        name, a, b, c = op
        found = None
        if self._possible(name, a, b):
            if name in _COUNTED:
                self._count(name, a, b, c)
            found = _OPERATIONS[name](self, a, b, c)
            if name in ("read", "round"):
                self.judge.read(self.monitor.begun())
        self._see_cuts()
        if name not in _READS:
            self._see_level()
            if self.monitor.pending:
                self.judge.note()
        return found

    def _check_properties(self) -> None:
        """Fail with the first property that did not hold."""
        if self.judge.broken:
            raise Violation(str(self.judge.broken[0]))

    def _see_level(self) -> None:
        """Note when each replica lacked nothing; only a healthy history asks for it."""
        for broker in self.cluster.replicas if self.profile.healthy else ():
            if not self.cluster.behind(broker):
                self.level[broker] = self.cluster.now

    def _see_cuts(self) -> None:
        for broker, cuts in self.cluster.cuts.items():
            for cut in cuts[self.seen_cuts[broker] :]:
                self.monitor.lose_sight(broker, cut.start)
                # What its cleaner took below, it took for the sake of what is gone: that was read in time, as it was.
                self.judge.new_log(broker)
                self.done["did logs truncated below what was committed"] += 1
            self.seen_cuts[broker] = len(cuts)

    def _count(self, name: str, a: int, b: int, c: int) -> None:
        """Count an operation that hurts, where it will have an effect."""
        up = name in ("stop", "lead") and self.cluster.replicas[a].up
        self.done["did broker outages"] += name == "stop" and up
        self.done["did leader moves asked for"] += name == "lead" and up
        self.done["did DeleteRecords"] += name == "trim"
        self.done["did micro-batches lost and run again"] += name == "batch" and bool(b)
        self.done["did micro-batches with rows repeated"] += name == "batch" and bool(c)
        self.done["did probes on a moving cluster"] += name in ("probe", "round") and a != 0

    def _possible(self, name: str, a: int, b: int) -> bool:
        broker = b if name == "read" else a
        if name == "assign":
            return broker in self.cluster.away and broker not in self.cluster.retired
        if name == "read" and broker in self.cluster.away:
            return True
        return name not in _OF_A_BROKER or broker in self.cluster.replicas

    def stirring(self, seed: int) -> Callable[[], bool] | None:
        """What to call between two questions of a probe, says whether it moved; None where the cluster stands still."""
        if seed == 0:
            return None
        draw = random.Random(seed)

        def between() -> bool:
            op = stir(draw, self.profile.hosts)
            if op is not None:
                self.judge.note()
                self.do(op)
                self.judge.note()
            return op is not None

        return between

    def rounds_at_rest(self) -> Iterator[int]:
        """All brokers up and level, the coordinator as well; then the numbers of full rounds, each after it."""
        self.cluster.coordinator = Coordinator.KNOWING
        for broker in [b for b in self.cluster.away if b not in self.cluster.retired]:
            self.apply(("assign", broker, 0, 0))
        for broker in self.cluster.replicas:
            self.apply(("start", broker, 0, 0))
        for number in range(ROUNDS):
            self.apply(("sync", 0, 0, 0))
            self.apply(("tick", GRACE // 2, 0, 0))
            self.apply(("round", 0, 0, 0))
            yield number

    def settle(self) -> None:
        """A cluster at rest for some rounds, and what must be known of it then."""
        for number in self.rounds_at_rest():
            if number == 0 and self.profile.cap is None:
                self._check_found(must_be_found_early(self.cluster, self.monitor.shown))
        self._check_coverage()
        pending = [claim for claim in self.monitor.pending if not self._is_held_back(claim)]
        if pending:
            why = [(claim, probe(self.cluster, claim).reason) for claim in pending]
            raise Violation(f"still pending on a cluster at rest: {why}")
        if self.profile.cap is None:
            self._check_found(must_be_reported_as_truncated(self.cluster, self.monitor.shown))
        self.judge.end(self._look_again(), events.unknown(self.monitor), self.monitor.shown)
        self._check_who_may_lead()
        self._pass_time(1)  # An audit settles what was read past before it began.
        self._audit()
        findings = self._look_again()
        if not self.profile.late:
            self.judge.audited(findings, events.unknown(self.monitor), self.monitor.shown)
            self._check_who_may_lead()
        self.judge.once(findings.standing)
        self._check_one_cause()
        self._check_properties()

    def _check_who_may_lead(self) -> None:
        """Hold who is said to be safe to lead against the oracle: by the table, as commands do, and as the job does."""
        coverage, pending = settled(self.monitor.coverage, self.monitor.audited), len(self.monitor.pending)
        for known in (current(self.monitor.table).values(), self.monitor.lifecycle.standing()):
            found = leads.judged(self.cluster.replicas, list(known), coverage, pending)
            self.judge.lead(found, random.Random(self.profile.seed))

    def _look_again(self) -> Ended:
        """Have all findings looked at again; returns what has become of them."""
        confirmed = len(self.monitor.confirmed)
        findings = events.at_the_end(self.monitor)
        for finding in self.monitor.confirmed[confirmed:]:
            self._check(finding)
        return findings

    def _audit(self) -> None:
        """Audit the partition: read all from the log starts, look twice, compare, probe."""
        cluster = self.cluster
        audit = self._monitor(audits=True)
        started_at = cluster.now
        for look in range(2):
            if look:
                self._pass_time(GRACE + 1)
            for broker in cluster.replicas:
                audit.progress(broker)
            for view, broker in audit.positions:
                audit.read(view, broker)
            audit.batch()
        found = audit.probe()
        for finding in found:
            self._check(finding, audit)
        if not all(replica.up for replica in cluster.replicas.values()) or audit.pending:
            return
        verdict = audits.ended(audit, started_at)
        consistent = verdict is not None and verdict.result == Result.CONSISTENT
        ended_to = verdict.compared_up_to[RC] if verdict is not None else 0
        self.judge.audit(events.become(audit), "consistent" if consistent else "otherwise", ended_to)
        if not self.profile.late:
            self._hand_over(audit)
            self.monitor.audited = verdict or self.monitor.audited
        self.done[f"did audits that said {verdict.result if verdict is not None else 'unknown'}"] += 1

    def _hand_over(self, audit: Monitor) -> None:
        """Have the job look into what its audit suspects."""
        self.judge.suspect(list(audit.raised))
        for finding in self.monitor.offer(audit.raised.values()):
            self._check(finding)

    def _is_held_back(self, claim: Claim) -> bool:
        """Whether the accused is frozen, and a finding says so, before what would decide the claim.

        At the claim's offset it then shows its consumers nothing; and what it shows of a key is not compared with
        those that have come further, for what deleted or replaced the value may lie behind. So it is where nobody is
        accused about a key, those that are not frozen show the same, and one that is shows another value, or none yet:
        that ends when all show the same. Or whether others are frozen so, which would have to bear witness: all of
        them, whether reported or not (what pins them may begin below their log start), or those of which it is
        reported. Or whether all have lost what is claimed, and nothing was written in its place yet.
        """
        pivot, freezes = claim.pivot, FindingKind.READ_COMMITTED_FROZEN
        if self._ends_beyond_all(claim) or self._waits_for_an_end(claim):
            return True
        if self.cluster.lost and self.cluster.replicas[pivot].lso <= claim.first_offset:
            return True
        if claim.kind is FindingKind.LOG_TRUNCATED and all(
            replica.leo < claim.lost_to for replica in self.cluster.replicas.values()
        ):
            return True
        frozen = {f.broker for f in self.monitor.confirmed if f.kind == freezes}
        last = {event.finding_id: event for event in self.monitor.events}
        # One that is accused of a transaction, and holds it open since its end was truncated, is not reported anew.
        frozen |= {event.broker for event in last.values() if event.stands and self._holds_open(event)}
        # Nor is one whose transaction goes on by the coordinator: how it ends may yet decide what lies behind.
        frozen |= {p.pivot for p in self.monitor.pending if p.kind is freezes and self._waits_for_an_end(p)}
        if any(event.status is FindingStatus.SPREAD and event.kind is freezes for event in last.values()):
            frozen = set(self.cluster.replicas)  # It is reported of one, and says that all are.
        behind = {b for b, replica in self.cluster.replicas.items() if replica.lso <= claim.first_offset}
        at = claim.first_offset
        is_held = any(one is not None for r in self.cluster.replicas.values() for _, one in r.held(at, at + 1))
        # How a record ended shows by its key alone where no replica holds it any more.
        is_of_the_key = claim.rule is Rule.LATEST_VALUE or not is_held
        if claim.key is not None and is_of_the_key and claim.broker == NOBODY and frozen:
            key = key_of_halves(*claim.key)
            shown = {b: oracle.values_shown(replica, key, 0)[0] for b, replica in self.cluster.replicas.items()}
            going_on = {value for b, value in shown.items() if b not in frozen}
            # Where they differ, they decide it, and one of them is asked last.
            return len(going_on) < 2 and (pivot in behind or set(shown.values()) != going_on)
        # How it ended other records of the transaction may be what would decide the claim.
        stops_within = self.cluster.replicas[pivot].lso < claim.marker_offset
        if pivot in frozen and (pivot in behind or stops_within or claim.rule is Rule.LATEST_VALUE):
            return True
        if self._may_be_decided_behind(claim, frozen):
            return True
        others = set(self.cluster.replicas) - {pivot}
        return pivot not in behind and bool(behind) and (behind == others or behind <= frozen)

    def _holds_open(self, event: Event) -> bool:
        """Whether an event accuses a replica of a transaction that it holds open now, whatever it did before."""
        replica = self.cluster.replicas.get(event.broker)
        is_of_one = replica is not None and event.kind in TRANSACTION_KINDS
        return is_of_one and claim_of(event).producer_id in replica.open_transactions()

    def _ends_beyond_all(self, claim: Claim) -> bool:
        """Whether a transaction that is open in truth holds all consumers back before what is left of the claim's.

        Consumers of a replica get no record at or above its last stable offset, and no outcome of one. So where no
        replica holds a record of the claim's transaction below, nobody is shown one, and nothing decides the claim.
        """
        replicas = self.cluster.replicas.values()
        stable = oracle.truth_of(self.cluster).stable_below(max(r.hw for r in replicas), 0)
        if stable > claim.marker_offset or any(replica.lso != stable for replica in replicas):
            return False
        shown = {batch.producer_id for replica in replicas for batch, _ in replica.held(claim.begins_at, stable)}
        return claim.producer_id not in shown

    def _waits_for_an_end(self, claim: Claim) -> bool:
        """Whether a transaction that goes on keeps the pivot's consumers below what is claimed, and its end decides it.

        On the replicas it may begin lower than in truth: all that have lost the end marker of their producer's
        transaction before hold both open as one. They do not differ, so none of them is found frozen.
        """
        replica = self.cluster.replicas.get(claim.pivot)
        if replica is None or replica.lso > claim.first_offset or claim.marker_offset >= 0:
            return False
        begun = {first: producer_id for producer_id, (_, first) in replica.open_transactions().items()}
        return bool(begun) and self.cluster.coordinator_state(begun[min(begun)]) == "Ongoing"

    def _may_be_decided_behind(self, claim: Claim, frozen: set[int]) -> bool:
        """Whether the accused holds the record no more, and its key's value is left to one that is frozen below it.

        What deleted that value on the accused may lie where the frozen one has not come to. A claim on a transaction
        names no key: the probe asks for those of its records, one after the other.
        """
        replicas = self.cluster.replicas
        accused, offset = replicas[claim.pivot], claim.first_offset
        if any(record is not None for _, record in accused.held(offset, offset + 1)):
            return False
        behind = [replicas[b] for b in frozen if replicas[b].lso < accused.lso]
        for key in self._keys_of(claim) if behind else ():
            own = oracle.values_shown(accused, key, 0)[0]
            if any(oracle.values_shown(replica, key, 0)[0] not in (None, own) for replica in behind):
                return True
        return False

    def _keys_of(self, claim: Claim) -> set[int | None]:
        """The key that a claim names, or else those that its transaction has written."""
        if claim.key is not None:
            return {key_of_halves(*claim.key)}
        keys = set[int | None]()
        for batch in self.cluster.history:
            if batch.producer_id == claim.producer_id and batch.last >= claim.first_offset >= 0:
                if batch.control:
                    break
                keys.update(record.key for record in batch.records)
        return keys

    def _check_found(self, divergences: Iterable[Divergence]) -> None:
        for divergence in divergences:
            if not any(_matches(divergence, finding) for finding in self.monitor.confirmed):
                raise Violation(f"missed: {divergence}; confirmed: {self.monitor.confirmed}")

    def _check_one_cause(self) -> None:
        """What a wrong outcome explains is not reported a second time as a difference of a key.

        Where its finding ended, and the values still differ, the key is reported instead; where the key was reported
        first, it has to give way. A finding about a transaction
        that begins behind the record says nothing of it: the producer's earlier ones may have been ended wrongly as
        well. Nor does one whose missed marker lies below the record: that one ended another transaction, and the marker
        of the record's own was lost for itself. Nor does one on a replica that the difference does not name: what two
        others show has a cause of its own, and so has what is left of a difference without that replica. Nor does a
        freeze that was over by then: what its replica shows behind it is how the transaction has ended there.
        """
        standing = [f for f in self.monitor.confirmed if f.claim.kind in TRANSACTION_KINDS]
        for finding in self.monitor.confirmed:
            causes = {
                f.broker
                for f in standing
                if f.producer_id == finding.producer_id
                and f.broker in finding.named
                and not self.monitor.had_ended(f, finding)
                and not self.monitor.gave_way(finding, f)
                and not self.monitor.refined(finding, f)
                and not _had_thawed(f, finding.before)
                and f.claim.transaction_start_offset <= finding.offset
                and (f.claim.marker_offset < 0 or finding.offset < f.claim.marker_offset)
            }
            rest = [side for side in self.monitor.sides_by_now(finding) if side - causes]
            again = finding.claim.kind in KEY_KINDS and causes and (finding.broker in causes or len(rest) < 2)
            if again and outcome_explains(self.cluster, finding.offset):
                text = f"{finding} is about a record whose outcome is wrong"
                self.judge.broken.append(Broken(ONE_CAUSE, finding.kind, text))

    def _check_coverage(self) -> None:
        """What has been read everywhere has a verdict: nothing stays unknown on a cluster at rest."""
        replicas = self.cluster.replicas.values()
        level = (min(r.hw for r in replicas), min(r.lso for r in replicas))
        compared = tuple(max(0, offset) for offset in self.monitor.coverage.compared_up_to)
        # Where an end marker was lost by all, or a log was copied again from a replica that lacks one, the last stable
        # offset has stepped back behind what had been read.
        may_step_back = self.cluster.lost or self.monitor.given_up
        enough = compared == level or (may_step_back and all(c >= e for c, e in zip(compared, level, strict=True)))
        if self.profile.cap is None and not self.profile.late and not enough:
            raise Violation(f"not compared up to {level} on a cluster at rest: {self.monitor.coverage}")
        for span in self.monitor.coverage.unread:
            is_lost = span.reason is UnknownReason.LOST_UNREAD
            if is_lost and (held := [r.id for r in replicas if any(True for _ in r.held(span.start, span.end))]):
                raise Violation(f"said to be on no replica, and {held} hold some of it: {span}")
        # What was deleted before anybody read it stays unknown, and what a replica held whose reader began at its end.
        is_whole = self.profile.healthy and not self.profile.trims and not self.profile.late
        left = self._unknown_for_good() if is_whole else {}
        if left:
            raise Violation(f"unknown without need on a healthy cluster at rest: {left}; {self.monitor.coverage}")

    def _unknown_for_good(self) -> dict[str, tuple[int, int]]:
        """What was read past and has no verdict, and no audit would give it one."""
        coverage = self.monitor.coverage.settled(lambda span: span.may_be_audited)
        left = {str(reason): views for reason, views in coverage.unknown.items() if any(views)}
        left.pop(UnknownReason.NOT_READ_YET, None)
        return left

    def tally(self) -> Counter[str]:
        """What the history held, for the report of a long run; names begin with the group that they belong to."""
        counts = self.done.copy()
        counts.update(f"lost {what}" for what in lost(self.cluster))
        counts.update(f"kind {name}" for name in self.profile.kinds)
        counts.update({" ".join(how): places for how, places in self.judge.places.items()})
        counts.update(self.judge.said_to_lead)
        counts.update(f"confirmed {finding.kind}" for finding in self.monitor.confirmed)
        counts["ran suspects raised"] += len(self.monitor.suspects)
        counts["ran suspects dismissed"] += len(self.monitor.dismissed)
        for status, times in self.monitor.probed_again.items():
            counts[f"ran suspects probed again after they were {status}"] += times
        counts["ran micro-batches"] += self.monitor.steps
        counts["did cleaner passes"] += sum(r.passes for r in self.cluster.replicas.values())
        counts["ran reads decoded from bytes"] += self.monitor.reads_decoded
        counts["ran suspects of a value raised while a replica was away"] += self.monitor.raised_early
        counts["ran transactions known by an aborted list alone"] += self.monitor.listed_alone
        counts["did topics that are not compacted"] += not self.profile.compacted
        counts["did readers that begin at the log end"] += self.profile.late
        counts["did a state of a few hundred bytes"] += self.profile.cap is not None
        return counts

    def _check(self, finding: Finding, monitor: Monitor | None = None) -> None:
        if self.profile.healthy:
            raise Violation(f"false alarm on a healthy cluster: {finding}")
        event, *before = [
            e for e in reversed((monitor or self.monitor).events) if e.suspect_id == finding.claim.suspect_id
        ]
        stood = next((e.stands for e in before if e.finding_id == event.finding_id), False)
        self.judge.confirm(events.said(event), finding.claim.suspect_id, self.begun, stood=stood)

    def _check_at_all(self, event: Event, others: Iterable[Event], seen: Sequence[Cluster]) -> None:
        """A finding that is over when it is reported, or about all replicas: who it names was wrong at some time."""
        if self.profile.healthy:
            raise Violation(f"false alarm on a healthy cluster ({event.status}): {event.summary}")
        self.judge.shown(events.said(event, others), seen)

    def _pass_time(self, ms: int) -> None:
        while ms > 0:
            part = min(ms, RETENTION // 4)
            self.keep_level(part)
            self.cluster.tick(part)
            self.judge.pass_time(part)
            self._see_level()
            ms -= part

    def keep_level(self, ms: int) -> None:
        """On a healthy cluster no replica stays behind for longer than markers and tombstones are kept."""
        if self.profile.healthy and any(self.cluster.now + ms - t > RETENTION // 2 for t in self.level.values()):
            for broker in self.cluster.replicas:
                self.cluster.start(broker)
            self.cluster.sync()

    def _describe(self, op: Op) -> str:
        replicas = " | ".join(
            f"{'*' if r.id == self.cluster.leader else ''}{r.id}{'' if r.up else ' down'} "
            f"start={r.log_start} hw={r.hw} lso={r.lso} leo={r.leo} {_log(r)}"
            for r in self.cluster.replicas.values()
        )
        return f"{op}  t={self.cluster.now}  {replicas}"


def _log(replica) -> str:
    parts = []
    for batch in replica.batches:
        txn = f"p{batch.producer_id}" if batch.transactional else ""
        if batch.control:
            parts.append(f"{batch.base}:{txn}{batch.marker.name if batch.marker is not None else 'EMPTY'}")
        else:
            parts.append(f"{batch.base}:{txn}" + ",".join(f"{r.key}={r.value}" for r in batch.records))
    return "[" + " ".join(parts) + "]"


def _had_thawed(finding: Finding, cluster: Cluster) -> bool:
    """Whether a finding is of a freeze, and its replica had come past the transaction in this state of the cluster."""
    replica = cluster.replicas.get(finding.broker)
    is_freeze = finding.kind == FindingKind.READ_COMMITTED_FROZEN
    return is_freeze and replica is not None and replica.lso > finding.offset


def _matches(divergence: Divergence, finding: Finding) -> bool:
    named = {finding.broker} if finding.broker != NOBODY else set(finding.named)
    if finding.kind not in divergence.kinds or divergence.broker not in named:
        return False
    if finding.kind == FindingKind.LOG_TRUNCATED:
        # It says of all that its log had shown from its offset on that it is lost, though some was truncated later.
        covered = range(finding.offset, finding.claim.lost_to)
        return finding.offset in divergence.offsets or divergence.offsets <= frozenset(covered)
    return finding.producer_id == divergence.producer_id and (
        finding.kind == FindingKind.READ_COMMITTED_FROZEN
        or finding.offset in divergence.offsets
        or finding.claim.transaction_start_offset in divergence.offsets
    )


def _write(w: World, writer: int, key: int, value: int) -> None:
    w.cluster.write([(key, None if value == TOMBSTONE else value)], None if writer < 0 else writer)


def _pair(w: World, writer: int, key: int, value: int) -> None:
    records = [(key, None if value == TOMBSTONE else value), (key + 1, None if value % 3 == 0 else value)]
    w.cluster.write(records, None if writer < 0 else writer)


def _put(w: World, key: int, value: int, _c: int) -> None:
    record = (None if key == NO_KEY else key, None if value == TOMBSTONE else value)
    w.done["did idempotent writes"] += w.cluster.write([record], idempotent=True)


def _wipe(w: World, broker: int, restart: int, _c: int) -> None:
    if not w.cluster.wipe(broker):
        return
    w.monitor.give_up(broker)
    w.judge.new_log(broker)
    w.done["did disks replaced"] += 1
    if restart:
        w.cluster.start(broker)


def _unassign(w: World, broker: int, _b: int, _c: int) -> None:
    if w.cluster.unassign(broker):
        w.monitor.give_up(broker)
        w.judge.new_log(broker)
        w.level.pop(broker, None)
        w.done["did replicas reassigned"] += 1


def _retire(w: World, broker: int, _b: int, _c: int) -> None:
    _unassign(w, broker, 0, 0)
    if broker in w.cluster.away:
        w.cluster.retired.add(broker)
        w.done["did replicas taken off for good"] += 1


def _usurp(w: World, broker: int, _b: int, _c: int) -> None:
    if w.cluster.usurp(broker):
        w.monitor.forget(*w.cluster.replicas)
        w.done["did unclean elections"] += 1


def _harm(w: World, broker: int, what: str, happen: Callable[[], bool]) -> None:
    """Something is lost from a log, maybe after it was read."""
    before = w.judge.now()
    if happen():
        w.judge.harm(before, broker, max(w.monitor.positions.get((view, broker), 0) for view in (0, 1)))
        w.done[f"did {what}"] += 1


def _lose(w: World, broker: int, tenths: int, _c: int) -> None:
    what = "batches lost from a log that is not compacted"
    _harm(w, broker, what, lambda: w.cluster.replicas[broker].lose(tenths))


def _unindex(w: World, broker: int, tenths: int, _c: int) -> None:
    what = "indexes of aborted transactions lost"
    _harm(w, broker, what, lambda: w.cluster.damage(broker, lambda replica: replica.lose_index(tenths)))


def _behead(w: World, broker: int, _b: int, _c: int) -> None:
    w.done["did heads of logs lost"] += w.cluster.damage(broker, Replica.lose_head)


def _cold(w: World, _a: int, _b: int, _c: int) -> None:
    """The monitor is replaced by one that was just set up."""
    w.monitor = w._monitor()
    for broker in w.cluster.replicas:
        w.judge.new_log(broker)
    w.done["did monitors set up again"] += 1


def _kill(w: World, _a: int, _b: int, _c: int) -> None:
    """The job ends at once and begins again: what it had found is what its tables hold."""
    w.monitor.restart()
    w.done["did jobs killed"] += 1


def _coordinate(w: World, how: int, _b: int, _c: int) -> None:
    w.cluster.coordinator = Coordinator(how)


_COUNTED = frozenset({"stop", "lead", "trim", "batch", "probe", "round"})

"""What may raise a suspect and confirm it at once, while the cluster moves on."""

_READS = frozenset({"read", "progress", "batch"})
"""What changes nothing on the cluster."""

_OF_A_BROKER = frozenset(
    {
        "fetch",
        "clean",
        "lose",
        "stop",
        "start",
        "lead",
        "progress",
        "read",
        "wipe",
        "unassign",
        "retire",
        "assign",
        "usurp",
        "unindex",
        "behead",
    }
)

_OPERATIONS: dict[str, Callable[[World, int, int, int], Iterable[Finding] | None]] = {
    "write": _write,
    "pair": _pair,
    "put": _put,
    "end": lambda w, writer, end, _: w.cluster.end(writer, End(end)) and None,
    "end elsewhere": lambda w, writer, end, _: w.cluster.end_elsewhere(writer, End(end)) and None,
    "fence": lambda w, writer, *_: w.cluster.fence(writer) and None,
    "upgrade": lambda w, writer, *_: w.cluster.upgrade(writer) and None,
    "tick": lambda w, ms, *_: w._pass_time(ms),
    "fetch": lambda w, broker, batches, _: w.cluster.fetch(broker, batches) and None,
    "sync": lambda w, *_: w.cluster.sync(),
    "clean": lambda w, broker, *_: (w.profile.compacted and w.cluster.clean(broker)) and None,
    "lose": _lose,
    "unindex": _unindex,
    "behead": _behead,
    "cold": _cold,
    "kill": _kill,
    "coordinator": _coordinate,
    "audit": lambda w, *_: w._audit(),
    "stop": lambda w, broker, *_: w.cluster.stop(broker) and None,
    "start": lambda w, broker, *_: w.cluster.start(broker) and None,
    "wipe": _wipe,
    "unassign": _unassign,
    "retire": _retire,
    "usurp": _usurp,
    "assign": lambda w, broker, *_: w.cluster.assign(broker) and None,
    "checkpoint": lambda w, *_: w.cluster.checkpoint(),
    "lead": lambda w, broker, *_: w.cluster.lead(broker) and None,
    "trim": lambda w, share, *_: w.cluster.trim(w.cluster.leading.hw * share // 4),
    "read": lambda w, view, broker, limit: w.monitor.read(view, broker, limit) and None,
    "progress": lambda w, broker, *_: w.monitor.progress(broker),
    "batch": lambda w, share, crash, repeat: w.monitor.batch(share / 10, bool(crash), bool(repeat)),
    "probe": lambda w, seed, *_: w.monitor.probe(w.stirring(seed)),
    "round": lambda w, seed, *_: w.monitor.round(w.order, w.stirring(seed)),
}


def run(seed: int, healthy: bool, alone: int = ALONE, kills: int = 0) -> World:
    """Draw the history of a seed and run it.

    Args:
        seed: of the history.
        healthy: whether nothing befalls it that makes replicas diverge.
        alone: see `Monitor.alone`.
        kills: see `Profile.kills`.

    Raises:
        Violation: with the seed, and the shortest history found that still fails.
    """
    p = replace(profile(seed, healthy), alone=alone, kills=kills)
    ops = with_kills(p, generate(p))
    world = World(p)
    try:
        world.run(ops)
    except Exception as error:
        raise Violation(explain(p, ops, error)) from error
    return world


def fails(ops: Sequence[Op], p: Profile, like: Exception) -> bool:
    """Whether the history still fails in the same way: the same property, or the same exception."""
    try:
        World(p).run(ops)
    except Exception as error:  # noqa: BLE001 - any crash of the product is a failure too
        return _signature(error) == _signature(like)
    return False


def _signature(error: Exception) -> tuple[type, str]:
    return type(error), str(error).split(":", 1)[0]


def shrink(ops: list[Op], p: Profile, like: Exception) -> list[Op]:
    """Leave out operations for as long as the history still fails in the same way."""
    size = max(1, len(ops) // 2)
    while size:
        start = 0
        while start < len(ops):
            shorter = ops[:start] + ops[start + size :]
            if fails(shorter, p, like):
                ops = shorter
            else:
                start += size
        size //= 2
    return ops


def explain(p: Profile, ops: list[Op], error: Exception) -> str:
    """The failure, the command that reproduces it, and its shortest history step by step."""
    short = shrink(list(ops), p, error)
    world = World(p, trace=[])
    try:
        world.run(short)
    except Exception as last:  # noqa: BLE001 - it is being reported
        error = last
    mode = "healthy" if p.healthy else "faulty"
    command = f"python -m tests.simulation --mode {mode} --seed {p.seed} --count 1 --alone {p.alone} --kills {p.kills}"
    lines = [
        f"{type(error).__name__}: {error}",
        f"reproduce: {command}",
        f"{p}",
        f"shrunken history ({len(short)} of {len(ops)} operations): {short}",
        *(f"  {line}" for line in world.trace or ()),
    ]
    return "\n".join(lines)


SEEING = frozenset({"round", "read", "probe", "audit"})
"""In these something is read."""
