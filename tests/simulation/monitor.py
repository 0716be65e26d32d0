"""The monitor's life against the model: reads at any time, tables, micro-batches, crashes, probes.

What a reader gets is what a consumer of that one replica gets. The comparison, the life of suspects and findings, and
the probe's questions and decision are the product's; the comparison's state goes through bytes after every
micro-batch, as it does in a state store.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from parallax.compare.observations import Observations
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.withheld import is_withholding
from parallax.config import CompareSettings, FindingSettings
from parallax.findings import finding as findings
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, claim_from_row
from parallax.findings.finding import claim_of
from parallax.findings.happenings import (
    Action,
    Answered,
    Append,
    Committed,
    Event,
    Loaded,
    Moment,
    Probe,
    Suspected,
    Tick,
)
from parallax.findings.history import KeyHistory, read_logs
from parallax.findings.incident import decided, group_of
from parallax.findings.incidents import ALONE
from parallax.findings.lifecycle import Lifecycle
from parallax.findings.members import MemberRow
from parallax.findings.requests import Wants
from parallax.findings.table import as_read
from parallax.model import FindingStatus, ReadEvent, Rule
from tests.builders.policies import never_compacted
from tests.simulation.cluster import Cluster
from tests.simulation.content import key_of_halves
from tests.simulation.probe import ask
from tests.simulation.readers import PARTITION, RC, TOPIC, Readers, Row
from tests.simulation.singles import Singles
from tests.simulation.together import taken_in

EPOCH = datetime(1970, 1, 1, 0, 0, 0, 500, tzinfo=UTC)
"""When the cluster's clock stood at 0, so that events are decided on the clock on which suspects are raised.

Half a millisecond later, for what a float makes of a whole one may lie below it.
"""
PASSES = 5
"""How often one round of probes asks again at most: some verdicts take several probes."""
TOGETHER = 4
"""Every so many micro-batches are taken in together with others as well."""
WAIT_S = 61.0
"""Seconds on the lifecycle's clock from one pass to the next: longer than the longest wait of a suspect."""
RECHECK_S = 2 * PASSES * WAIT_S


class Told(NamedTuple):
    """What an event says of single keys and transactions.

    Attributes:
        singles: what is new of them.
        again: of an incident, the members that stood before and stand, which it reports once more.
    """

    singles: list[findings.Finding]
    again: list[findings.Finding]


@dataclass(frozen=True, slots=True)
class Finding:
    """A suspect that the probe has confirmed."""

    kind: str
    broker: int
    producer_id: int
    offset: int
    key: int | None
    reason: str
    confirmed_at: int
    claim: Claim = field(repr=False)
    before: Cluster = field(repr=False)
    """The cluster as it was when the probe began."""
    sides: tuple[frozenset[int], ...] = ()
    """The brokers that it says show the same, for each of what they show."""

    @property
    def named(self) -> frozenset[int]:
        """The brokers that it says of what they show."""
        return frozenset().union(*self.sides)


@dataclass
class Monitor(Readers):
    """The readers, the comparison and the probe, over one partition."""

    settings: CompareSettings
    _: KW_ONLY
    delivered: list[Row] = field(default_factory=list)
    suspects: list[Any] = field(default_factory=list)
    raised: dict[str, Claim] = field(default_factory=dict)
    raised_again: dict[str, int] = field(default_factory=dict)
    """By suspect that had its verdict, when it was raised again and not yet probed for that."""
    probed_again: Counter[FindingStatus] = field(default_factory=Counter)
    """How many suspects were probed since they were raised again, by the verdict that they had had."""
    events: list[findings.Finding] = field(default_factory=list)
    """What the findings table would hold, in order; of an incident, what it says of each key or transaction."""
    table: list[findings.Finding] = field(default_factory=list)
    """What the findings table would hold, as it is."""
    members: list[MemberRow] = field(default_factory=list)
    """What the table of members would hold."""
    confirmed: list[Finding] = field(default_factory=list)
    dismissed: list[tuple[Claim, str]] = field(default_factory=list)
    cuts_before: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    """By finding that has ended: how often the log of each broker had been truncated by then, and its log start."""
    coverage: Any = None
    audited: Any = None
    """How the last audit with a verdict ended; see `tests.simulation.audits`."""
    steps: int = 0
    taken_in_together: int = 0
    """How many of the steps were of a quiet partition."""
    compacted: bool = True
    raised_early: int = 0
    """Suspects of a value that were raised while a replica was away, or had not been read so far."""
    alone: int = ALONE
    """More of a kind about one replica are an incident; with 0 each is."""
    hear: Callable[[findings.Finding, Told, tuple[Cluster, ...]], None] | None = None
    """Called with each event as the table holds it, what it says of each key, and the cluster as the probe saw it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state = self.unread.to_bytes()
        self.lifecycle = self._life()
        self.singles = Singles()
        self.requests = 0
        self.clock = 0.0
        self.todo: deque[Action] = deque()
        self.random = random.Random(self.seed)
        self.known_members: tuple[int, ...] = ()
        self.members_known_at = -1

    # -- comparing ---------------------------------------------------------------------------------------------------

    def batch(self, take: float = 1.0, crash: bool = False, repeat: bool = False) -> None:
        """One micro-batch of the comparison.

        Args:
            take: share of each queue that the batch gets; 1.0 takes everything.
            crash: the batch is computed, lost, and computed again from the same state and rows.
            repeat: rows that were delivered before come once more.
        """
        fresh: list[Row] = []
        names = list(self.queues)
        self.random.shuffle(names)
        for name in names:
            queue = self.queues[name]
            count = len(queue) if take >= 1.0 else self.random.randint(0, round(len(queue) * min(1.0, 2 * take)))
            fresh += [queue.popleft() for _ in range(count)]
        again = sorted(self.random.sample(range(len(self.delivered)), min(4, len(self.delivered)))) if repeat else []
        rows = [self.delivered[i] for i in again] + fresh
        # A row that reports a truncated log is the one kind that may not come again: docs/contribute/theory.md.
        self.delivered += [row for row in fresh if row.get("event") != ReadEvent.LOG_TRUNCATED]
        if rows:
            self._follow_members(fresh)
            self._follow_cuts(fresh)
            self._step(rows, crash)

    def _follow_cuts(self, rows: list[Row]) -> None:
        """What comes in one micro-batch with the news that a log was truncated is not compared."""
        cut = {(row["view"], row["broker"]) for row in rows if row.get("event") == ReadEvent.LOG_TRUNCATED}
        for row in rows if cut else ():
            if (row.get("view"), row["broker"]) in cut:
                self.shown.known_from = max(self.shown.known_from, row["offset"])

    def _follow_members(self, rows: list[Row]) -> None:
        """Where a replica has left or joined, what was read before is compared without it, or not at all."""
        sets = [(row["observed_at"], row["replicas"]) for row in rows if row.get("replicas")]
        known_at, replicas = max(sets, default=(-1, ()))
        if known_at > self.members_known_at:  # Of two sets of one moment the first one counts.
            self.members_known_at = known_at
            members = tuple(sorted(replicas))
            if self.known_members not in ((), members):
                self.forget(*self.cluster.replicas, *self.cluster.away)
            self.known_members = members

    def _step(self, rows: list[Row], crash: bool) -> None:
        seen = Observations.of(TOPIC, PARTITION, rows)
        before = PartitionState.from_bytes(self.state)
        options = {"from_log_start": not self.late}
        result = self.step_of(before, seen, **options)
        state = result.state.to_bytes()
        if crash:
            assert before.to_bytes() == self.state, "a step must not write into its input"
            again = self.step_of(PartitionState.from_bytes(self.state), seen, **options)
            assert again.state.to_bytes() == state, "a replayed batch must leave the same state"
            assert again.suspects == result.suspects, "a replayed batch must raise the same suspects"
        is_due = self.steps % TOGETHER == 0
        together = taken_in(self.state, seen, self.settings, self.cluster.now) if is_due else None
        if together is not None and not is_withholding(result.state):
            assert result.suspects == [], "a partition that raises something is not quiet"
            assert together == (state, result.coverage), "what is taken in together is what a step makes of it"
            self.taken_in_together += 1
        self.steps += 1
        self.state = state
        self.coverage = result.coverage
        self.suspects += result.suspects
        common = min((self.positions[RC, b] for b in self.cluster.replicas), default=0)
        values = [s for s in result.suspects if s.accusation.rule is Rule.LATEST_VALUE]
        self.raised_early += sum(s.accusation.offset >= common for s in values)
        # What is to be probed at once is probed when the history says so.
        self._suspect([claim_from_row(s.as_row()) for s in result.suspects])

    def step_of(self, state: PartitionState, seen: Observations, **options: Any) -> StepResult:
        """What the comparison makes of a micro-batch."""
        return step(state, seen, self.settings, self.cluster.now, **options)

    def _suspect(self, claims: list[Claim]) -> None:
        verdicts = {event.suspect_id for event in self.events}
        again = [c for c in claims if c.suspect_id in verdicts and self.lifecycle.is_new(c)]
        self.raised_again |= {claim.suspect_id: claim.raised_at_ms for claim in again}
        self.raised |= {claim.suspect_id: claim for claim in claims}
        self._take(self._handle(Suspected(claims)))

    # -- confirming --------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> list[Claim]:
        """Suspects that have no verdict yet."""
        return [claim for name, claim in self.raised.items() if self.lifecycle.waits(name) is not None]

    def probe(self, between: Callable[[], bool] | None = None) -> list[Finding]:
        """Let the lifecycle probe whatever waits, a few times; returns what was confirmed now.

        Args:
            between: called between any two requests, says whether the cluster has moved; None asks everything in one
                moment.
        """
        confirmed = len(self.confirmed)
        for _ in range(PASSES):
            self.clock += WAIT_S
            due = self._handle(Tick())
            self._take(due)
            if not (due or self.todo):
                break
            while self.todo:
                self._ask(self.todo.popleft(), between)
        return self.confirmed[confirmed:]

    def offer(self, claims: Iterable[Claim]) -> list[Finding]:
        """Take in what an audit suspects, as the job's own audits hand it over; returns what was confirmed now."""
        self._suspect(list(claims))
        return self.probe()

    def _life(self) -> Lifecycle:
        life = Lifecycle(FindingSettings(recheck_interval_s=RECHECK_S), random.Random(self.seed), self.alone)
        life.cluster_id = "simulated"
        return life

    def restart(self) -> None:
        """The process ends, and what lives in its memory begins again from the tables."""
        self.lifecycle = self._life()
        self.todo.clear()
        self._take(self._handle(Loaded(self.table, self.members)))
        known = decided(self.table, self.members)
        read = [claim for name, claim in self.raised.items() if claim.raised_at_ms >= known.get(name, 0)]
        self._take(self._handle(Suspected(read)))

    def _handle(self, event: Event) -> list[Action]:
        now = Moment(self.clock, EPOCH + timedelta(milliseconds=self.cluster.now))
        return self.lifecycle.handle(event, now)

    def _take(self, actions: Sequence[Action], seen: tuple[Cluster, ...] = ()) -> None:
        """Keep probes for later; write events at once, since nothing else may be handed in before they are committed.

        Args:
            actions: what the lifecycle asks for.
            seen: the states of the cluster in which the answers were given that led to it; its present one if empty.
        """
        appends = [action for action in actions if isinstance(action, Append)]
        self.todo += [action for action in actions if not isinstance(action, Append)]
        for append in appends:
            self._take(self._append(append, seen or (self.cluster,)), seen)

    def _ask(self, action: Action, between: Callable[[], bool] | None) -> None:
        assert isinstance(action, Probe), f"the judging of a claim raised: {action}"
        self._note_again(action.claims)
        seen = [self.cluster if between is None else copy.deepcopy(self.cluster)]

        def moving() -> None:
            self.requests += 1
            if between is not None and between():
                seen.append(copy.deepcopy(self.cluster))

        answers = ask(self.cluster, action.claims, moving, self._history, self._policy, self.asking)
        self.heard(action.claims, answers, seen)
        self._take(self._handle(Answered([(action, answers)])), tuple(seen))

    def asking(self, wants: Wants) -> Wants:
        """What each replica is asked for, of what a probe asks it for."""
        return wants

    def heard(self, claims: Sequence[Claim], answers: Sequence[Answers], seen: Sequence[Cluster]) -> None:
        """A probe was made of a cluster that was in these states meanwhile."""

    @property
    def unread(self) -> PartitionState:
        """What the comparison knows before anything was read: the topic's cleanup policy."""
        return PartitionState() if self.compacted else never_compacted()

    @property
    def _policy(self) -> str:
        """The topic's cleanup policy, as the brokers say it."""
        return ",".join(["compact"] * self.compacted + ["delete"] * self.deletes)

    def _note_again(self, claims: Iterable[Claim]) -> None:
        """Count those that are probed because they were raised again."""
        for claim in claims:
            if self.raised_again.get(claim.suspect_id) == claim.raised_at_ms:
                del self.raised_again[claim.suspect_id]
                had = next(e.status for e in reversed(self.events) if e.suspect_id == claim.suspect_id)
                self.probed_again[had] += 1

    def _history(self) -> KeyHistory:
        """What the table of the read_committed view holds of keys."""
        offsets = {name: tuple(sorted(set(found), reverse=True)) for name, found in self.recorded.items()}
        return KeyHistory(read_logs(self.events_read), offsets)

    def _append(self, action: Append, seen: tuple[Cluster, ...]) -> list[Action]:
        """Commit events; returns what the lifecycle asks for then."""
        numbered = [replace(e, sequence=len(self.table) + 1 + i) for i, e in enumerate(action.events)]
        assert [as_read(event) for event in numbered] == numbered, "what is written must be what is read"
        self.members += action.members
        self.table += numbered
        then = self._handle(Committed(numbered))
        events = []
        for event in numbered:
            singles = self._singles_of(event)
            events += singles
            if self.hear is not None:
                again = self.singles.standing(event) if event.is_incident else []
                self.hear(event, Told(singles, [one for one in again if one not in singles]), seen)
        self.events += events
        for event in events:
            claim = claim_of(event)
            if event.status is FindingStatus.CONFIRMED:
                self.confirmed.append(_finding(event, claim, self.cluster.now, seen[0]))
            elif event.status is FindingStatus.DISMISSED:
                self.dismissed.append((claim, event.summary))
            elif event.status is FindingStatus.RESOLVED:
                self.cuts_before[event.finding_id] = self.cluster.lost_so_far()
        return then

    def _singles_of(self, event: findings.Finding) -> list[findings.Finding]:
        """An event; that of an incident as the events of its members."""
        if not event.is_incident:
            return [event]
        last = {row.key: row for row in self.members}.values()
        return self.singles.of(event, [row for row in last if row.is_proven and row.group == group_of(event)])

    def had_ended(self, first: Finding, later: Finding) -> bool:
        """Whether a finding had ended by the time at which another one was confirmed as what it says."""
        ended = first.claim.suspect_id, FindingStatus.RESOLVED
        at = [int(1000 * e.decided_at.timestamp()) for e in self.events if (e.suspect_id, e.status) == ended]
        return bool(at) and at[0] <= later.confirmed_at

    def refined(self, first: Finding, later: Finding) -> bool:
        """Whether these are what one finding said first, and what it says since."""
        ids = {event.suspect_id: event.finding_id for event in self.events if event.status is FindingStatus.CONFIRMED}
        return ids.get(first.claim.suspect_id) == ids.get(later.claim.suspect_id)

    def sides_by_now(self, finding: Finding) -> tuple[frozenset[int], ...]:
        """Who shows what, by the last event of a finding that says so; as it was confirmed where none does."""
        mine = [e for e in self.events if e.suspect_id == finding.claim.suspect_id and findings.sides_of(e)]
        return tuple(map(frozenset, findings.sides_of(mine[-1]).values())) if mine else finding.sides

    def gave_way(self, first: Finding, later: Finding) -> bool:
        """Whether a finding was reported before another one, and is over."""
        known = [(event.suspect_id, event.status) for event in self.events]
        said, other = ((one.claim.suspect_id, FindingStatus.CONFIRMED) for one in (first, later))
        mine = [status for name, status in known if name == first.claim.suspect_id]
        last = [status for status in mine if status is not FindingStatus.DISMISSED][-1]
        return last is FindingStatus.RESOLVED and known.index(said) < known.index(other)

    def round(self, order: random.Random, between: Callable[[], bool] | None = None) -> list[Finding]:
        """One full round: every reader reads to its end, progress, a batch, a probe."""
        names = list(self.positions)
        order.shuffle(names)
        for view, broker in names:
            self.read(view, broker)
        self.tick(awaited=self.coverage is not None and self.coverage.awaits_report)
        self.batch()
        return self.probe(between)


def _finding(event: findings.Finding, claim: Claim, now: int, before: Cluster) -> Finding:
    return Finding(
        str(event.kind),
        event.broker,
        claim.producer_id,
        claim.first_offset,
        None if claim.key is None else key_of_halves(*claim.key),
        event.summary,
        now,
        claim,
        before,
        tuple(frozenset(side) for side in json.loads(event.evidence)["sides"].values()),
    )
