"""Decides which consumer groups may have read what a finding says is wrong, by their committed offsets.

A committed offset says how far a group has read, not when, and not from which broker.

- A group that has not come to the wrong offsets has not read them.
- A group that has passed them may have read them from a wrong leader.
- If a group's committed offset is above the high watermark when the wrong broker began to lead, the group has committed
  since that time. Nobody can read beyond the high watermark.

All functions are pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from parallax.counts import counted
from parallax.findings.about import SAID, SEEN_SAID, WAS_READABLE
from parallax.findings.ended import READ_THERE
from parallax.findings.finding import (
    Finding,
    asked_at,
    claim_of,
    effect_in,
    evidence_of,
    has_spread,
    is_blocking,
    is_proof_past,
    is_shown_elsewhere,
    is_unsettled,
    showed_in,
)
from parallax.findings.incident import shown_of, wrong_offsets
from parallax.findings.onset import SINCE_EPOCH, Onset, onsets_in
from parallax.findings.shown import Shown
from parallax.kinds import KINDS, OPEN_KINDS, Extent
from parallax.model import NOBODY, UNKNOWN, FindingStatus
from parallax.moments import utc_text

STALE = timedelta(seconds=10)
"""By how much the leader in a progress row may be older than the row. The list of replicas is read again each 5 s."""


@dataclass(frozen=True, slots=True)
class Reign:
    """A period in which one broker led a partition without a break, as progress rows show it.

    A progress row is a look at one moment. But the leader in it may be that of some seconds before (`STALE`). So the
    period may have begun, or ended, that much before the earlier of two looks.

    Attributes:
        since: the first look at which the broker led.
        until: the last look at which it led.
        epochs: its first and its last leader epoch in this period.
        began_at: the broker's own high watermark when it was first seen to lead; -1 where that is not known.
        after: the last look before ``since``, at which it did not lead; None where no earlier look is on record.
        ended_by: the first look after ``until``, at which it did not lead; None where no later look was read.
    """

    broker: int
    since: datetime
    until: datetime
    epochs: tuple[int, int]
    began_at: int = UNKNOWN
    after: datetime | None = None
    ended_by: datetime | None = None

    @property
    def began(self) -> tuple[datetime | None, datetime]:
        """When it began: between these two moments. The first is None if it is not known."""
        return None if self.after is None else self.after - STALE, self.since

    @property
    def ended(self) -> tuple[datetime, datetime | None]:
        """When it ended: between these two moments. The second is None if no look shows an end."""
        return self.until - STALE, self.ended_by

    def in_words(self, over: datetime | None = None) -> str:
        """When it began and ended, for a sentence, e.g. ``began to lead between A and B, and stopped ...``.

        Args:
            over: when what the broker showed was over; None if it is not. Who led later does not matter.
        """
        (after, by), (ended_after, ended_by) = self.began, self.ended
        began = f"led already at the first look on record, {utc_text(by)}"
        if after is not None:
            began = f"began to lead between {utc_text(after)} and {utc_text(by)}"
        ended = f"led still at {utc_text(self.until)}"
        if over is not None and self.until >= over:
            ended = f"led still when it was over, {utc_text(over)}"
        elif ended_by is not None:
            ended = f"stopped between {utc_text(ended_after)} and {utc_text(ended_by)}"
        return f"{began}, and {ended} ({self.epochs_in_words})"

    @property
    def epochs_in_words(self) -> str:
        """Its leader epochs for a sentence: ``leader epoch 5`` or ``leader epochs 5 to 7``."""
        first, last = self.epochs
        return f"leader epoch {first}" if first == last else f"leader epochs {first} to {last}"


def reigns(rows: Iterable[Mapping[str, Any]]) -> list[Reign]:
    """Return the periods in which brokers led a partition, in the order of time.

    Consecutive leader epochs of one broker are joined into one `Reign`.

    Args:
        rows: one for each leader epoch, in the order of time, with the columns leader, leader_epoch, since, until and
            began_at. Rows without a leader are left out.
    """
    found: list[Reign] = []
    looked: datetime | None = None
    leads = NOBODY
    for row in rows:
        broker, epoch = int(row["leader"]), int(row["leader_epoch"])
        began_at = UNKNOWN if row["began_at"] is None else int(row["began_at"])
        if found and leads == broker != NOBODY:
            last = found.pop()
            found.append(replace(last, until=max(last.until, row["until"]), epochs=(last.epochs[0], epoch)))
        else:
            if found and leads != NOBODY:
                found.append(replace(found.pop(), ended_by=row["since"]))
            if broker >= 0:
                found.append(Reign(broker, row["since"], row["until"], (epoch, epoch), began_at, looked))
        leads = broker if broker >= 0 else NOBODY
        looked = row["until"]
    return found


def wrong_brokers(finding: Finding) -> frozenset[int]:
    """The brokers from which consumers may have read what a finding says is wrong.

    They are the brokers that any probe has seen to show it: the accused, and those that show the same. If the finding
    accuses nobody, they are the brokers on all sides. If it has spread or is unsettled, they are all replicas.
    """
    shown, asked = Shown.of(finding), frozenset().union(*(one.replicas for one in shown_of(finding)))
    if is_proof_past(finding):
        return asked | showed_in(finding)
    if finding.broker == NOBODY:
        return (frozenset().union(*shown.sides.values()) or asked) | showed_in(finding)
    return shown.showing | showed_in(finding)


@dataclass(frozen=True, slots=True)
class Span:
    """The range of offsets that consumers of a wrong replica could read wrongly, or could not get to.

    Attributes:
        first: the lowest offset.
        last: the highest offset; None where it is not known, or the range has no end.
    """

    first: int
    last: int | None

    @property
    def in_words(self) -> str:
        """For a sentence: ``at offset 7``, ``at offsets 7 to 9``, ``below offset 9`` or ``from offset 7 on``."""
        if self.last is None:
            return f"from offset {self.first} on"
        if self.first == 0 and self.last > 0:
            return f"below offset {self.last + 1}"
        return f"at offset {self.first}" if self.first == self.last else f"at offsets {self.first} to {self.last}"


def affected(finding: Finding) -> Span:
    """The range of offsets that a finding says are wrong, e.g. all from a truncation on."""
    if finding.is_incident:
        lowest, highest = wrong_offsets(finding) or (0, None)
        if KINDS[finding.kind].extent is Extent.VALUE:
            # Its members' offsets are those of the deletions. What was deleted lies anywhere below.
            return Span(0, None if highest is None else max(highest - 1, 0))
        return Span(lowest, highest)
    match KINDS[finding.kind].extent:
        case Extent.BELOW:
            return Span(0, max(finding.offset - 1, 0))
        case Extent.FROM:
            return Span(finding.offset, None)
        case _ if is_blocking(finding):
            return Span(min(finding.record_offset, int(evidence_of(finding)["blocked_at"])), None)
        case Extent.STOPPED:
            return Span(finding.transaction_start_offset, None)
        case Extent.RECORD | Extent.VALUE:
            return Span(finding.record_offset, finding.record_offset)


class Came(StrEnum):
    """How far a consumer group has read, compared with the offsets that a finding says are wrong."""

    NOT_YET = "not_yet"
    """It has not come to what is wrong."""
    WITHIN = "within"
    """It is among the offsets that are wrong."""
    PAST = "past"
    """It is past them; it may have read them at any time."""
    PAST_SINCE = "past_since"
    """It is past them, and has committed since a wrong replica began to lead."""


def came(committed: int, span: Span, wrong: Collection[Reign]) -> Came:
    """Return how far a consumer group has read, compared with the offsets that are wrong.

    Args:
        committed: the group's committed offset: that of the next record that it will read.
        span: the offsets that are wrong.
        wrong: the periods in which wrong replicas led.
    """
    if committed <= span.first:
        return Came.NOT_YET
    if span.last is not None and committed <= span.last:
        return Came.WITHIN
    return Came.PAST_SINCE if committed_since(committed, wrong) else Came.PAST


def committed_since(committed: int, wrong: Iterable[Reign]) -> tuple[Reign, ...]:
    """Return those of the periods that had begun when a consumer group committed its offset.

    That is certain if the committed offset is above the high watermark at the period's beginning. Whether the period
    had ended by then is not known.

    Args:
        committed: the group's committed offset: that of the next record that it will read.
        wrong: the periods in which wrong replicas led.
    """
    return tuple(reign for reign in wrong if UNKNOWN < reign.began_at < committed)


def wrong_reigns(finding: Finding, found: Iterable[Reign]) -> list[Reign]:
    """Return those of some periods in which a replica led that is wrong in what a finding says.

    A log that was truncated had what it lost for as long as it led in the epoch of that. Left out are periods that had
    ended before that was written which proves a replica wrong, or before the last look at which their broker showed
    otherwise.

    Args:
        finding: the finding's last event.
        found: the periods in which brokers led the partition around the time of the finding.
    """
    wrong, onsets = wrong_brokers(finding), _onsets(finding)
    since = max(claim_of(finding).lost_epoch + 1, int(evidence_of(finding).get(SINCE_EPOCH, UNKNOWN)))
    mine = (reign for reign in found if reign.broker in wrong and reign.epochs[1] >= since)
    return [reign for reign in mine if not _ended_before(reign, onsets.get(reign.broker, Onset()))]


def _is_open(finding: Finding) -> bool:
    """Whether a finding does not prove which replica is wrong."""
    return finding.broker == NOBODY or is_unsettled(finding)


def _onsets(finding: Finding) -> dict[int, Onset]:
    """By broker, since when it shows what a finding reports; empty where nobody is proven to be wrong."""
    return {} if _is_open(finding) else onsets_in(evidence_of(finding))


def _ended_before(reign: Reign, onset: Onset) -> bool:
    return onset.after is not None and reign.ended_by is not None and reign.ended_by <= onset.after


class Showed(StrEnum):
    """Whether a broker is known to have shown what a finding says is wrong while it led."""

    YES = "yes"
    """It showed it, for all of that time or a part of it."""
    PERHAPS = "perhaps"
    """It may have: it is not known which replica is wrong, or since when this one was."""


class WrongLeader(NamedTuple):
    """A broker that led and is wrong in what a finding says.

    Attributes:
        reign: when it led.
        clause: what is known of it then, as a relative clause such as ``shows it``.
        showed: whether it is known to have shown what is wrong while it led.
    """

    reign: Reign
    clause: str
    showed: Showed


def wrong_leaders(finding: Finding, found: Iterable[Reign]) -> list[WrongLeader]:
    """Return each of the `wrong_reigns` with what is known of its broker then.

    Args:
        finding: the finding's last event.
        found: the periods in which brokers led the partition around the time of the finding.
    """
    now = Shown.of(finding).showing_now if finding.stands else frozenset()
    onsets, has_it = _onsets(finding), has_spread(finding)
    return [
        WrongLeader(
            reign, *_shown(finding, reign, onsets.get(reign.broker, Onset()), is_now=has_it or reign.broker in now)
        )
        for reign in wrong_reigns(finding, found)
    ]


def _shown(finding: Finding, reign: Reign, onset: Onset, *, is_now: bool) -> tuple[str, Showed]:
    """Return what is known of a broker that led, as a clause, and whether it showed while it led what is wrong.

    Args:
        finding: the finding's last event.
        reign: the period in which the broker led, one of `wrong_reigns`.
        onset: since when the broker shows it.
        is_now: whether it shows it now.
    """
    if _is_open(finding):
        return "may be wrong" if finding.stands else "may have been wrong", Showed.PERHAPS
    shows, has_shown, showed, have_shown = _SHOWING[finding.kind in OPEN_KINDS]
    if not is_now:
        shows = has_shown = showed
    is_first = reign.broker == finding.broker or (onset == Onset() and is_now and not has_spread(finding))
    if onset.by is not None and (reign.ended_by is None or reign.ended[0] >= onset.by):
        if onset.after is None or reign.since >= onset.by:
            return shows, Showed.YES
        return f"{has_shown} since a time between {utc_text(onset.after)} and {utc_text(onset.by)}", Showed.YES
    if onset.after is not None:
        return f"showed otherwise at {utc_text(onset.after)} and may {have_shown} after that", Showed.PERHAPS
    unknown = f"may {have_shown} (it is not known since when it did)"
    return (shows, Showed.YES) if is_first else (unknown, Showed.PERHAPS)


_SHOWING = {
    False: ("shows it", "has shown it", "showed it", "have shown it"),
    True: ("holds it open", "has held it open", "held it open", "have held it open"),
}
"""What a wrong broker does, has done, did and may have done. Whether it holds an ended transaction open is the key."""


class Led(NamedTuple):
    """When wrong replicas of a finding led, as sentences.

    Attributes:
        reigns: when each of them led, or that none did; empty where nothing is on record.
        seen: what consumers could read there, and at which offsets; empty if no wrong replica led.
        is_wrong: whether one of them led while it was wrong; None if that is not known.
    """

    reigns: tuple[str, ...] = ()
    seen: str = ""
    is_wrong: bool | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them, in order."""
        return tuple(filter(None, (*self.reigns, self.seen)))

    def unsaid(self, finding: Finding) -> tuple[str, ...]:
        """Return those sentences that the text of a finding does not have, as its evidence says."""
        evidence = evidence_of(finding)
        said = {*evidence.get(SAID, ()), *((self.seen,) if evidence.get(SEEN_SAID) else ())}
        return tuple(one for one in self.sentences if one not in said)

    def added_to(self, finding: Finding) -> Finding:
        """Return the event with these sentences behind its text, and noted in its evidence."""
        evidence, unsaid = evidence_of(finding), self.unsaid(finding)
        evidence[SAID] = [*evidence.get(SAID, ()), *unsaid]
        evidence[SEEN_SAID] = bool(evidence.get(SEEN_SAID) or self.seen)
        if self.is_wrong is not None:
            evidence[WAS_READABLE] = self.is_wrong
        text = " ".join((finding.summary, *unsaid))
        return replace(finding, summary=text, evidence=json.dumps(evidence, separators=(",", ":")))


NOTHING_KNOWN = Led()
"""What is known of leaders where nothing is on record."""


def was_readable(finding: Finding) -> bool | None:
    """Return whether consumers could read what a finding that is over says was wrong.

    They could if a wrong replica led. The result is None if that is not known, as for events of an earlier version, or
    where the recorded progress could not be read.
    """
    found = evidence_of(finding).get(WAS_READABLE)
    return found if isinstance(found, bool) else None


def led_in_words(finding: Finding, found: Collection[Reign], most: int | None = None) -> Led:
    """Return when wrong replicas of a finding led, and which offsets consumers got from them.

    Args:
        finding: the finding's last event.
        found: the periods in which brokers led the partition around the time of the finding.
        most: at most so many periods are named, the last ones, and the earlier ones counted; None names all.
    """
    if not found:
        return NOTHING_KNOWN
    mine = wrong_leaders(finding, found)
    since = min(reign.since for reign in found)
    if not mine:
        none = f"By what is on record since {utc_text(since)}, no replica led that was seen to show it."
        if not wrong_brokers(finding).isdisjoint(reign.broker for reign in found):
            none = f"By what is on record since {utc_text(since)}, no replica led after it had begun to show it."
        return Led((none,), is_wrong=False)
    over = asked_at(finding) if finding.status is FindingStatus.RESOLVED else None
    first = 0 if most is None else max(len(mine) - most, 0)
    said = [f"Broker {one.reign.broker}, which {one.clause}, {one.reign.in_words(over)}." for one in mine[first:]]
    if first:
        said.insert(0, f"Before, such replicas led {counted(first, 'time')} more.")
    where = "" if is_shown_elsewhere(finding) else f", {affected(finding).in_words}"
    effect = effect_in(finding)
    # Where nobody is proven to be wrong, each of them showed its own side while it led: consumers got different data.
    is_wrong = True if _is_open(finding) or any(one.showed is Showed.YES for one in mine) else None
    seen = f"{READ_THERE} {effect.consumers if finding.stands else effect.could}{where}."
    return Led(tuple(said), seen, is_wrong=is_wrong)


__all__ = [
    "NOTHING_KNOWN",
    "Came",
    "Led",
    "Reign",
    "Showed",
    "Span",
    "WrongLeader",
    "affected",
    "came",
    "committed_since",
    "led_in_words",
    "reigns",
    "was_readable",
    "wrong_brokers",
    "wrong_leaders",
    "wrong_reigns",
]
