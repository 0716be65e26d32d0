"""What goes into the lifecycle of findings (events), and what the lifecycle wants to be done (actions).

`parallax.findings.lifecycle` takes one event after the other and returns actions. It does no IO itself.
"""

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
from parallax.findings.members import MemberRow
from parallax.findings.renewed import Renewed
from parallax.model import TopicPartition
from parallax.moments import utc_text


class Moment(NamedTuple):
    """The present moment, by a clock for waiting and by a clock for writing down.

    Attributes:
        monotonic: seconds of the monotonic clock, for waiting.
        at: the time of day in UTC, for what is written.
    """

    monotonic: float
    at: datetime


# Events.


@dataclass(frozen=True, slots=True)
class Loaded:
    """An event for `Lifecycle.handle`: the findings table was read at the start. It comes first, and only once.

    Attributes:
        events: all events of the table, the oldest first.
        members: all rows of the table ``members``, the oldest first.
    """

    events: Sequence[Finding]
    members: Sequence[MemberRow] = ()


@dataclass(frozen=True, slots=True)
class Suspected:
    """An event for `Lifecycle.handle`: the comparison has written suspects to their table.

    Attributes:
        claims: one claim for each suspect. Suspects that the lifecycle knows already are ignored.
    """

    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class Answered:
    """An event for `Lifecycle.handle`: probes have finished, with answers or with a failure.

    Attributes:
        results: each probe with what was answered: one `Answers` for each of the probe's claims, in their order; None
            if the probe failed.
    """

    results: Sequence[tuple[Probe, Sequence[Answers] | None]]


@dataclass(frozen=True, slots=True)
class Committed:
    """An event for `Lifecycle.handle`: what the last `Append` that it returned holds is in the tables.

    Attributes:
        events: its events, with the sequence numbers that they got in the table.
    """

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """An event for `Lifecycle.handle`: the last `Append` that it returned failed, or perhaps failed.

    Attributes:
        error: why, in one line for people; None if another process has appended first, which is no fault.
    """

    error: str | None


@dataclass(frozen=True, slots=True)
class News:
    """An event for `Lifecycle.handle`: the findings table holds events that this process has not seen before.

    Attributes:
        events: acknowledgements that commands have appended, and events of this process whose commit seemed to have
            failed.
    """

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Changed:
    """An event for `Lifecycle.handle`: replicas may have another log than the last look of their findings has shown.

    Attributes:
        replicas: which replicas, and since when (`parallax.findings.renewed`).
    """

    replicas: Renewed


@dataclass(frozen=True, slots=True)
class Tick:
    """An event for `Lifecycle.handle`: time has passed, so that a probe or an `Append` may be due.

    No replica is looked at here. A *tick* of the table ``progress`` is another thing.
    """


Event = Loaded | Suspected | Answered | Committed | NotCommitted | News | Changed | Tick


# Actions.


@dataclass(frozen=True, slots=True)
class Probe:
    """An action that `Lifecycle.handle` returns: ask the brokers about claims on one replica of one partition.

    Attributes:
        claims: the claims to ask about.
        tasks: for each claim the number under which it waits for its own probe (`parallax.findings.tasks`). Empty where
            the claims come from a page.
        page: the page whose members the claims are; None where each claim waits for its own probe.
    """

    claims: tuple[Claim, ...]
    tasks: tuple[int, ...]
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """An action that `Lifecycle.handle` returns: append to the tables ``members`` and ``findings``.

    Attributes:
        events: events of findings, all in one commit.
        members: rows of ``members``, in a commit before that: an incident's event counts what is written.
    """

    events: tuple[Finding, ...]
    members: tuple[MemberRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """An action that `Lifecycle.handle` returns: report an error that was raised while a claim was judged.

    The claim is judged again later. No other claim waits for that.
    """

    claim: Claim
    error: Exception


Action = Probe | Append | Broken


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """The result of a finding's last probe, if that probe left the finding as it was.

    Attributes:
        at: when the replicas were asked.
        unknown: why nobody can tell whether the finding is still true; empty if it is still true.
    """

    at: datetime
    unknown: str = ""

    @property
    def in_words(self) -> str:
        """The result in words, e.g. ``asked again 2026-01-02 14:03:10Z: it is still true``."""
        answer = f"nobody can tell whether it is still true ({self.unknown})" if self.unknown else "it is still true"
        return f"asked again {utc_text(self.at)}: {answer}"


@dataclass(frozen=True, slots=True)
class FindingsStatus:
    """What metrics and the status page show of findings; a finding counts once it is in the table.

    Attributes:
        open: findings that are not over and that nobody has acknowledged.
        acknowledged: findings that are not over and are acknowledged.
        ended: the last events of the findings that ended last.
        confirmed_total: by `Label`, how often findings were confirmed, in the whole findings table.
        pending: by partition, how many suspects wait for a verdict.
        waits: by partition, why suspects of it are pending: the reason of one that was probed, if any was.
        judging_errors_total: how often judging a claim raised an error.
        unlisted_total: by topic, for how many claims a probe found that no coordinator lists their producer.
        probe_bytes: by broker id, how many bytes of records probes have read since the process started.
        second_opinions: by `parallax.findings.second_opinion.Agreement` of the second opinion with a probe's verdict,
            the number of claims since the process started.
        last_probe_at: when the last probe finished, seconds since 1970 UTC; None before the first.
        asked_again: by finding id, the result of the last probe since the start that left the finding as it was. Only
            for findings that are not over. Incidents are left out, because they are asked about page by page.
        unconfirmed: by finding id, the brokers whose replicas may have been changed since the finding was last seen to
            be true, e.g. by a repair. Whether they are still wrong is not known yet. Others have no entry.
        error: why findings cannot be written or read at present; None where they can.
        skipped: how many rows of the tables suspects, members and findings are ignored: a newer version wrote them.
    """

    open: tuple[Finding, ...] = ()
    acknowledged: tuple[Finding, ...] = ()
    ended: tuple[Finding, ...] = ()
    confirmed_total: Mapping[Label, int] = field(default_factory=dict)
    dismissed_total: int = 0
    resolved_total: int = 0
    pending: Mapping[TopicPartition, int] = field(default_factory=dict)
    waits: Mapping[TopicPartition, str] = field(default_factory=dict)
    probes_total: int = 0
    judging_errors_total: int = 0
    unlisted_total: Mapping[str, int] = field(default_factory=dict)
    probe_bytes: Mapping[int, int] = field(default_factory=dict)
    second_opinions: Mapping[str, int] = field(default_factory=dict)
    last_probe_at: float | None = None
    asked_again: Mapping[str, AskedAgain] = field(default_factory=dict)
    unconfirmed: Mapping[str, frozenset[int]] = field(default_factory=dict)
    error: str | None = None
    skipped: int = 0

    @property
    def standing(self) -> tuple[Finding, ...]:
        """The findings that are not over, acknowledged or not."""
        return (*self.open, *self.acknowledged)
