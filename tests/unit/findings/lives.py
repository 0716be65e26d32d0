"""A suspect's life on a clock that the test moves, and what the replicas answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Self

from parallax.config import FindingSettings
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.finding import Finding, Repaired, never_repaired
from parallax.findings.happenings import (
    Answered,
    Append,
    Broken,
    Committed,
    Loaded,
    Moment,
    NotCommitted,
    Probe,
    Suspected,
    Tick,
)
from parallax.findings.incident import decided
from parallax.findings.lifecycle import Lifecycle
from parallax.findings.members import MemberRow
from parallax.findings.table import as_read
from parallax.model import FindingKind
from tests.builders.answers import NOTHING, PRODUCER, answers, newest, replica, silent
from tests.builders.claims import of_key
from tests.unit.findings.replies import missing, wrong

START = datetime(2026, 1, 1, tzinfo=UTC)
RETRY_S, RECHECK_S = 1.0, 30.0
MARKER = FindingKind.MARKER_MISSING
COMMITTED_WRONGLY = FindingKind.ABORTED_RECORD_COMMITTED
RESURRECTED = FindingKind.DELETED_RECORD_RESURRECTED


def value(name: str = "v", **fields: Any) -> Claim:
    # Its COMMIT lies directly behind the tombstone at 10: it was surely committed.
    return of_key(RESURRECTED, name, **({"producer_id": PRODUCER, "marker_offset": 11} | fields))


def away(_: Claim) -> Answers:
    return answers(replica(1), silent(2), replica(3))


def gone(_: Claim) -> Answers:
    return answers(gone="the topic orders does not exist any more")


def old_value(c: Claim) -> Answers:
    """Broker 2 shows a value that the others have deleted; of a transaction, a wrong outcome."""
    if c.kind is not RESURRECTED:
        return wrong(c)
    old, none = newest(3), NOTHING
    return answers(replica(1, key=none), replica(2, key=old), replica(3, key=none))


def only_recorded(_: Claim) -> Answers:
    """Who can be asked shows the old value, and the one that showed the tombstone is away."""
    old = newest(3)
    return answers(silent(1), replica(2, key=old), replica(3, key=old), leader=2)


def deleted(_: Claim) -> Answers:
    """No replica shows the key any more."""
    return answers(*(replica(b, key=NOTHING) for b in (1, 2, 3)))


Answering = Callable[[Claim], Answers]


class NoJitter(Random):
    def random(self) -> float:
        return 0.0


class Life:
    """A lifecycle whose probes are answered when the test says, and whose events are kept in a list."""

    def __init__(
        self,
        events: Sequence[Finding] = (),
        now: float = 0.0,
        repaired: Repaired = never_repaired,
        members: Sequence[MemberRow] = (),
    ) -> None:
        self.now = now
        self.machine = Lifecycle(
            FindingSettings(probe_retry_ms=int(RETRY_S * 1000), recheck_interval_s=RECHECK_S),
            NoJitter(),
            repaired=repaired,
        )
        self.machine.cluster_id = "c"
        self.table, self.members = list(events), list(members)
        self.raised: dict[str, Claim] = {}
        self.broken: list[Broken] = []
        self.probes: list[Probe] = []
        self.full = False
        self.do(Loaded(list(events), list(members)))

    def restarted(self, seconds: float = 0.0) -> Self:
        """The life that a job begins with from the tables of this one, some seconds later."""
        return type(self)(self.table, self.now + seconds, members=self.members)

    @property
    def moment(self) -> Moment:
        return Moment(self.now, START + timedelta(seconds=self.now))

    def do(self, event: Any) -> None:
        for action in self.machine.handle(event, self.moment):
            if isinstance(action, Probe):
                self.probes.append(action)
            elif isinstance(action, Broken):
                self.broken.append(action)
            elif self.full:
                self.do(NotCommitted("no space left"))
            else:
                self.commit(action)

    def commit(self, append: Append) -> None:
        numbered = [replace(e, sequence=len(self.table) + 1 + i) for i, e in enumerate(append.events)]
        assert [as_read(event) for event in numbered] == numbered, "what is written must be what is read"
        self.members += append.members
        self.table += numbered
        self.do(Committed(numbered))

    def suspect(self, *claims: Claim) -> None:
        self.raised |= {claim.suspect_id: claim for claim in claims}
        self.do(Suspected(claims))

    def suspected_before(self, *claims: Claim) -> None:
        """Suspects as a job reads them from their table when it starts."""
        known = decided(self.table, self.members)
        self.suspect(*(c for c in claims if c.raised_at_ms >= known.get(c.suspect_id, 0)))

    def answer(self, answering: Answering) -> list[str]:
        """Answer all probes that were asked for in one batch; returns the suspects asked about."""
        probes, self.probes = self.probes, []
        self.do(Answered([(probe, [answering(c) for c in probe.claims]) for probe in probes]))
        return [c.suspect_id for probe in probes for c in probe.claims]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.do(Tick())

    def until_asked(self, answering: Answering) -> list[str]:
        """Wait until the next probe is due, and answer it."""
        due = self.machine.next_due(self.now)
        assert due is not None
        self.wait(due - self.now)
        return self.answer(answering)

    def confirmed(self, *claims: Claim, answering: Answering = missing) -> Life:
        self.suspect(*claims)
        self.answer(answering)
        return self

    def until_asked_within(self, seconds: float, answering: Answering) -> list[str]:
        """The same for a while; returns all suspects asked about."""
        asked, end = [], self.now + seconds
        while (due := self.machine.next_due(self.now)) is not None and due <= end:
            asked += self.until_asked(answering)
        self.now = end
        return asked

    @property
    def statuses(self) -> list[str]:
        return [str(e.status) for e in self.table]

    @property
    def last(self) -> Finding:
        return self.table[-1]

    def waits(self, name: str = "s") -> str:
        return self.machine.waits(name) or ""
