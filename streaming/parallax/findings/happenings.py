"""The events that `lifecycle` takes in, and the actions that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.finding import Finding
from parallax.findings.held import Page
from parallax.findings.ledger import Label
from parallax.model import TopicPartition


class Moment(NamedTuple):
    """The present moment by two clocks: monotonic seconds, for waiting; UTC, for what is written."""

    monotonic: float
    at: datetime


# Events.


@dataclass(frozen=True, slots=True)
class Loaded:
    """An event for the lifecycle: the whole findings table, oldest first, handed in once before all else."""

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Suspected:
    """An event for the lifecycle: suspects that were written to their table; known ones are ignored."""

    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class Answered:
    """An event for the lifecycle: probes came back.

    Each has answers in the order of its claims, or None if it failed.
    """

    results: Sequence[tuple[Probe, Sequence[Answers] | None]]


@dataclass(frozen=True, slots=True)
class Committed:
    """An event for the lifecycle: the last `Append` is in the table, and its events have numbers."""

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """An event for the lifecycle: nothing of the last `Append` is in the table, or nobody can read it.

    Attributes:
        error: one line for people; None where another process was faster, which is no fault.
    """

    error: str | None


@dataclass(frozen=True, slots=True)
class News:
    """An event for the lifecycle: others have appended to the findings table.

    They are acknowledgements, and events of this process that seemed not to be written.
    """

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Tick:
    """An event for the lifecycle: time has passed, so that something may be due."""


Event = Loaded | Suspected | Answered | Committed | NotCommitted | News | Tick


# Actions.


@dataclass(frozen=True, slots=True)
class Probe:
    """An action: ask the brokers about claims that accuse one replica of one partition.

    Attributes:
        claims: what to ask about.
        tasks: numbers by which the answers find their claims again; none where the claims are a page of many.
        page: the page of many; None for single claims.
    """

    claims: tuple[Claim, ...]
    tasks: tuple[int, ...]
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """An action: append events to the findings table, in one commit."""

    events: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """An action: report that the judging of a claim raised an error.

    The claim is judged again later, and other claims do not wait for it.
    """

    claim: Claim
    error: Exception


Action = Probe | Append | Broken


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """The last answer of the replicas about a finding that stayed as it was.

    Attributes:
        at: when they were asked.
        unknown: why the answers left it open whether the finding is still true; empty where it is.
    """

    at: datetime
    unknown: str = ""

    @property
    def in_words(self) -> str:
        """Say when the replicas were asked, and what came of it: ``asked again 2026-01-02 14:03:10Z: it stands``."""
        answer = f"nobody can tell whether it stands ({self.unknown})" if self.unknown else "it stands"
        return f"asked again {self.at:%Y-%m-%d %H:%M:%SZ}: {answer}"


@dataclass(frozen=True, slots=True)
class FindingsStatus:
    """The state of the findings as committed, for metrics.

    Attributes:
        open: findings that are not over and that nobody has acknowledged.
        acknowledged: findings that are not over and are acknowledged.
        ended: the events by which findings ended, of the last ones that did.
        confirmed_total: how often a finding was confirmed, by `Label`; counted over the whole table.
        pending: suspects that wait for a verdict, by partition.
        undecided: why each suspect that is probed by itself is still pending, by its id; empty text before the first
            probe.
        judging_errors_total: how often the judging of a claim raised an error.
        unlisted_total: by topic, for how many claims a probe found that no coordinator lists the producer.
        probe_bytes: bytes of records that probes have read, by broker id, since the process started.
        second_opinions: claims on which the second opinion gave an answer, by how that agrees with the probe's
            (`parallax.findings.second_opinion.Agreement`), since the process started.
        last_probe_at: when a probe last came back, seconds since 1970 UTC; None before the first.
        asked_again: by id: when each finding that is not over was asked about again since the start, and what came of
            it. Incidents are left out, because they are asked about in parts.
        error: why findings cannot be written or read at present; None where they can.
        skipped: rows of both tables that are left out because a newer version wrote them.
    """

    open: tuple[Finding, ...] = ()
    acknowledged: tuple[Finding, ...] = ()
    ended: tuple[Finding, ...] = ()
    confirmed_total: Mapping[Label, int] = field(default_factory=dict)
    dismissed_total: int = 0
    resolved_total: int = 0
    pending: Mapping[TopicPartition, int] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    probes_total: int = 0
    judging_errors_total: int = 0
    unlisted_total: Mapping[str, int] = field(default_factory=dict)
    probe_bytes: Mapping[int, int] = field(default_factory=dict)
    second_opinions: Mapping[str, int] = field(default_factory=dict)
    last_probe_at: float | None = None
    asked_again: Mapping[str, AskedAgain] = field(default_factory=dict)
    error: str | None = None
    skipped: int = 0

    @property
    def standing(self) -> tuple[Finding, ...]:
        """The findings that are not over, acknowledged or not."""
        return (*self.open, *self.acknowledged)
