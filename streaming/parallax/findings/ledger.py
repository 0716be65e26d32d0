"""Keeps the last state of each finding and suspect in memory, from the events of the findings table.

Its memory is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from parallax.evidence.atoms import Place
from parallax.findings.claim import Claim, explains, is_of_another_topic
from parallax.findings.finding import Finding, asked_ms, claim_of, is_gone, leans_on, sides_of
from parallax.findings.incident import is_part_of_incident
from parallax.findings.left import claims_left
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, FindingStatus, Rule, TopicPartition
from parallax.moments import milliseconds
from parallax.sides import sides_differ

K = TypeVar("K")
V = TypeVar("V")
HANDLED = 100_000
"""How many suspects' verdicts are remembered. If a forgotten suspect is raised again, it is probed again."""
RESOLVED_FOR = timedelta(hours=24)
"""How long a resolved finding is still checked, in case it comes back."""
ENDED = 1000
"""How many findings that are over are kept, for reports on how they ended."""
LEANING = 10_000
"""How many dismissals that rest on a finding are kept, the newest. They are judged again once it ends."""

Key = tuple[int, int]
"""The two halves of a key's hash."""
Label = tuple[str, str, str, int, int]
"""Kind, severity, topic, partition, broker."""


@dataclass(frozen=True, slots=True)
class Handled:
    """The last verdict on one suspect, as an event of the findings table says it.

    Attributes:
        finding_id: the id of the event that holds the verdict: a finding's id, or that of a dismissed suspect.
        decided_ms: when it was decided, milliseconds since 1970 UTC.
        asked_ms: when the replicas were asked, milliseconds since 1970 UTC. A suspect that is raised after that time is
            probed again.
        dismissals: how often the suspect was dismissed so far.
    """

    finding_id: str
    decided_ms: int
    asked_ms: int
    dismissals: int


class FindingLedger:
    """Keeps the last state of each finding and suspect.

    The caller has to give it every event of the findings table.
    """

    def __init__(self) -> None:
        self.stand = 0
        """How many findings are not over, acknowledged or not."""
        self.confirmed: dict[Label, int] = {}
        self.dismissed = 0
        self.resolved = 0
        self.ended: OrderedDict[str, Finding] = OrderedDict()
        """The events by which findings ended, by id; those of the last `ENDED`."""
        self._lacked: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._cut: OrderedDict[tuple[str, tuple[Place, ...]], None] = OrderedDict()
        self._proven_in: OrderedDict[str, int] = OrderedDict()
        self._otherwise: dict[str, dict[int, datetime]] = {}
        self._standing: dict[str, Finding] = {}
        self._handled: OrderedDict[str, Handled] = OrderedDict()
        self._transactions: dict[TopicPartition, dict[str, Claim]] = {}
        self._cuts: dict[TopicPartition, dict[str, Claim]] = {}
        self._keys: dict[tuple[TopicPartition, Key], dict[str, Finding]] = {}
        self._undirected: dict[tuple[TopicPartition, int], dict[str, Finding]] = {}
        self._undirected_keys: dict[tuple[TopicPartition, Key], dict[str, Finding]] = {}
        self._leaning: dict[str, dict[str, Claim]] = {}
        self._leant_on: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def add(self, event: Finding, now: datetime | None = None) -> list[Claim]:
        """Add an event of the findings table; returns the claims that must be judged because of it.

        - Suspects that were dismissed because of this finding, if it may no longer explain them.
        - Suspects about other replicas that show what this finding proved wrong, if it is over.
        - The suspect that the event dismisses, if the finding that explains it is over by now.

        Args:
            event: the event.
            now: the present time; None: the time at which the event was decided.
        """
        if event.is_incident:
            self._count(event)
            self._standing[event.finding_id] = event
            return [] if event.stands else self._freed(event.finding_id)
        dismissed = event.status is FindingStatus.DISMISSED
        before = self._handled.get(event.suspect_id)
        times = before.dismissals if before is not None else 0
        decided_ms = milliseconds(event.decided_at)
        handled = Handled(event.finding_id, decided_ms, asked_ms(event), times + dismissed)
        _remember(self._handled, event.suspect_id, handled)
        self._stand_alone(event.suspect_id)
        if dismissed:
            self.dismissed += 1
            return self._lean(event)
        known = self._standing.get(event.finding_id)
        self._count(event)
        self._note_undirected(event)
        self._standing[event.finding_id] = event
        self._note_transaction(event)
        self._note_cut(event)
        self._note_key(event)
        freed: list[Claim] = []
        if known is not None and event.finding_id in self._leaning and explains_less(known, event):
            freed = self._freed(event.finding_id)
        at = now or event.decided_at
        return freed + [claim for claim in claims_left(event) if not self.is_looked_at(claim, at, freed)]

    def is_repeated(self, event: Finding) -> bool:
        """Whether an event dismisses a suspect because of the same findings as at the suspect's last dismissal.

        Such an event is not written. Each audit raises the suspect again, and once in the table is enough.
        """
        names = leans_on(event)
        return bool(names) and set(self._leant_on.get(event.suspect_id, ())) == set(names)

    def is_looked_at(self, claim: Claim, at: datetime, freed: Iterable[Claim] = ()) -> bool:
        """Whether a difference without direction about a key needs no new suspect, because its key is watched already.

        The key is watched if a finding about it is still checked, or if another suspect about it will be judged.

        Args:
            claim: the new suspect, which a finding left when it ended. The answer is no if it accuses a replica.
            at: the present time.
            freed: other suspects that will be judged because the same finding ended.
        """
        if claim.broker != NOBODY:
            return False
        known = [f for f in self.undirected_about(claim) if not is_of_another_topic(claim_of(f), claim)]
        if any(f.stands or (f.decided_at >= at - RESOLVED_FOR and not is_gone(f)) for f in known):
            return True
        return any(c.broker == NOBODY and (c.key, c.rule) == (claim.key, claim.rule) for c in freed)

    def standing(self, finding_id: str) -> Finding | None:
        """Return the last event of the finding ``finding_id``. None if the finding is no longer checked.

        A resolved finding is still checked for a while.
        """
        return self._standing.get(finding_id)

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over all findings that are still checked."""
        return iter(list(self._standing.values()))

    def handled(self, suspect_id: str) -> Handled | None:
        """Return the last verdict on the suspect ``suspect_id``; None where there was none, or it is forgotten."""
        return self._handled.get(suspect_id)

    def note_lack(self, name: str, offset: int, lacked: int) -> None:
        """Remember the offset of a value that a replica lacks because it shows a record's outcome wrongly.

        `lacked` returns it. It is remembered until the process ends, or until many newer ones were added.

        Args:
            name: id of the finding; for a member of an incident, id of its suspect.
            offset: offset of the record that has the wrong outcome.
            lacked: offset of the value that the replica lacks.
        """
        _remember(self._lacked, (name, offset), lacked)

    def lacked(self, name: str, offset: int) -> int | None:
        """Return the offset of the lacked value that `note_lack` was given; None where there is none.

        Args:
            name: id of the finding; for a member of an incident, id of its suspect.
            offset: offset of the record that has the wrong outcome.
        """
        return self._lacked.get((name, offset))

    def note_cut(self, name: str, proofs: tuple[Place, ...]) -> None:
        """Remember that what proves a finding is not part of the current log; `is_cut` says it.

        It is remembered until the process ends, or until many newer ones were added.

        Args:
            name: id of the finding; for a member of an incident, id of its suspect.
            proofs: the places that together prove it (`Claim.proofs`).
        """
        _remember(self._cut, (name, proofs), None)

    def is_cut(self, name: str, proofs: tuple[Place, ...]) -> bool:
        """Whether what proves a finding was seen not to be part of the current log.

        Args:
            name: id of the finding; for a member of an incident, id of its suspect.
            proofs: the places that together prove it (`Claim.proofs`).
        """
        return (name, proofs) in self._cut

    def note_proven(self, name: str, leader_epoch: int) -> None:
        """Remember in which leader epoch a probe has proven a finding; `proven_in` returns it.

        It is remembered until the process ends, or until many newer ones were added.

        Args:
            name: id of the finding; for a member of an incident, id of its suspect.
            leader_epoch: the leader's epoch when the replicas were asked.
        """
        _remember(self._proven_in, name, leader_epoch)

    def proven_in(self, name: str) -> int:
        """Return the leader epoch in which this process has last proven a finding; -1 where it is not known.

        Args:
            name: id of the finding; for a member of an incident, id of its suspect.
        """
        return self._proven_in.get(name, UNKNOWN)

    def note_otherwise(self, finding_id: str, brokers: Iterable[int], at: datetime) -> None:
        """Remember that brokers were seen to show otherwise than the accused of a finding; `otherwise` returns it.

        It is remembered until the finding is forgotten, or the process ends.

        Args:
            finding_id: id of the finding.
            brokers: the brokers that were seen to show otherwise.
            at: when they were asked.
        """
        self._otherwise.setdefault(finding_id, {}).update(dict.fromkeys(brokers, at))

    def otherwise(self, finding_id: str) -> Mapping[int, datetime]:
        """Return by broker the last look that `note_otherwise` was given of a finding.

        Args:
            finding_id: id of the finding.
        """
        return self._otherwise.get(finding_id, {})

    def causes(self, place: TopicPartition) -> Mapping[str, Claim]:
        """Return the claims of a partition's open findings about transactions, by finding id.

        Such a transaction may be the cause of a claim on a key's value.
        """
        there = self._transactions.get(place, {})
        return {name: claim for name, claim in there.items() if self._standing[name].stands}

    def cuts(self, place: TopicPartition) -> Mapping[str, Claim]:
        """Return the claims of a partition's open findings about truncated logs, by finding id.

        Such a finding may report the truncation already that a new claim is about.
        """
        there = self._cuts.get(place, {})
        return {name: claim for name, claim in there.items() if self._standing[name].stands}

    def about_key(self, place: TopicPartition, key: Key) -> list[Finding]:
        """Return the findings that accuse a replica of showing a key wrongly and are still checked.

        One of them may be the cause of another claim about the key.
        """
        return list(self._keys.get((place, key), {}).values())

    def undirected(self, place: TopicPartition, offset: int) -> list[Finding]:
        """Return the findings that are about an offset, accuse nobody, and are still checked.

        One of them may report the difference already that a new suspect is about.
        """
        return list(self._undirected.get((place, offset), {}).values())

    def undirected_about(self, claim: Claim) -> list[Finding]:
        """Return the findings about the latest value of a claim's key that accuse nobody and are still checked.

        There are none if the claim itself is about something else.
        """
        if claim.key is None or claim.rule is not Rule.LATEST_VALUE:
            return []
        return list(self._undirected_keys.get((claim.place, claim.key), {}).values())

    def has_cause_of(self, claim: Claim) -> bool:
        """Whether a finding that is still checked explains a claim on a key's value.

        It is a finding about a transaction or, if the claim accuses nobody, one that accuses a replica about the same
        key. A resolved finding is still checked for a while. The claim is kept as long, because it may be true without
        the finding.
        """
        if claim.key is not None and claim.broker == NOBODY and self.about_key(claim.place, claim.key):
            return True
        return any(explains(cause, claim) for cause in self._transactions.get(claim.place, {}).values())

    def forget(self, finding_id: str) -> None:
        """Drop the resolved finding ``finding_id``: it is no longer checked, and explains no other claim."""
        self._otherwise.pop(finding_id, None)
        finding = self._standing.pop(finding_id, None)
        if finding is not None:
            self._forget_transaction(finding)
            _forget(self._cuts, finding.place, finding_id)
            self._forget_key(finding)
            self._forget_undirected(finding)

    def _note_end(self, event: Finding) -> None:
        self.ended.pop(event.finding_id, None)
        if not event.stands:
            self.ended[event.finding_id] = event
        if len(self.ended) > ENDED:
            self.ended.popitem(last=False)

    def _count(self, event: Finding) -> None:
        self._note_end(event)
        known = self._standing.get(event.finding_id)
        was_open = known is not None and known.is_open
        self.stand += int(event.stands) - int(known is not None and known.stands)
        if event.status is FindingStatus.RESOLVED:
            self.resolved += not is_part_of_incident(event)
        elif event.is_open and (known is None or not was_open or _says_otherwise(known, event)):
            label = (str(event.kind), str(event.severity), event.topic, event.partition, event.broker)
            self.confirmed[label] = self.confirmed.get(label, 0) + 1

    def _note_transaction(self, event: Finding) -> None:
        if event.kind in TRANSACTION_KINDS:
            self._transactions.setdefault(event.place, {})[event.finding_id] = claim_of(event)
        else:
            self._forget_transaction(event)

    def _forget_transaction(self, event: Finding) -> None:
        _forget(self._transactions, event.place, event.finding_id)

    def _note_cut(self, event: Finding) -> None:
        if event.kind is FindingKind.LOG_TRUNCATED:
            self._cuts.setdefault(event.place, {})[event.finding_id] = claim_of(event)

    def _note_key(self, event: Finding) -> None:
        self._forget_key(event)
        if (key := event.accused_key) is not None:
            self._keys.setdefault((event.place, key), {})[event.finding_id] = event

    def _forget_key(self, event: Finding) -> None:
        _forget(self._keys, (event.place, (event.key_hash_hi, event.key_hash_lo)), event.finding_id)

    def _note_undirected(self, event: Finding) -> None:
        self._forget_undirected(event)
        if event.broker != NOBODY:
            return
        self._undirected.setdefault((event.place, event.offset), {})[event.finding_id] = event
        if event.rule is Rule.LATEST_VALUE:
            key = event.key_hash_hi, event.key_hash_lo
            self._undirected_keys.setdefault((event.place, key), {})[event.finding_id] = event

    def _forget_undirected(self, event: Finding) -> None:
        # A finding may come to name another record of its transaction.
        for one in (event, self._standing.get(event.finding_id, event)):
            _forget(self._undirected, (event.place, one.offset), event.finding_id)
            _forget(self._undirected_keys, (event.place, (one.key_hash_hi, one.key_hash_lo)), event.finding_id)

    def _lean(self, event: Finding) -> list[Claim]:
        """Keep a dismissal that leans on findings; it is void where one of them is over."""
        names = leans_on(event)
        if not names:
            return []
        findings = [self._standing.get(name) for name in names]
        if not all(finding is not None and finding.stands for finding in findings):
            return [claim_of(event)]
        for name in names:
            self._leaning.setdefault(name, {})[event.suspect_id] = claim_of(event)
        self._leant_on[event.suspect_id] = names
        if len(self._leant_on) > LEANING:
            self._stand_alone(next(iter(self._leant_on)))
        return []

    def _stand_alone(self, suspect_id: str) -> None:
        for finding_id in self._leant_on.pop(suspect_id, ()):
            leaning = self._leaning[finding_id]
            del leaning[suspect_id]
            if not leaning:
                del self._leaning[finding_id]

    def free(self, finding_id: str, which: Callable[[Claim], bool]) -> list[Claim]:
        """Return suspects that were dismissed because a finding explained them, so that they are judged again.

        Each is returned by one call only, with `Claim.freed` set.

        Args:
            finding_id: the finding.
            which: returns whether a suspect is wanted; the others stay dismissed.
        """
        freed = {name: claim for name, claim in self._leaning.get(finding_id, {}).items() if which(claim)}
        for suspect_id in freed:
            self._stand_alone(suspect_id)
        return [replace(claim, freed=True) for claim in freed.values()]

    def _freed(self, finding_id: str) -> list[Claim]:
        return self.free(finding_id, lambda _: True)


def _forget(index: dict[Any, dict[str, Any]], where: Any, finding_id: str) -> None:
    """Remove a finding from an index, and a place of the index that becomes empty."""
    there = index.get(where, {})
    there.pop(finding_id, None)
    if not there:
        index.pop(where, None)


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    """Keep the newest `HANDLED` of what was noted."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > HANDLED:
        memory.popitem(last=False)


def explains_less(known: Finding, event: Finding) -> bool:
    """Whether suspects that a finding explained may need a probe of their own after its next event.

    A finding explains suspects that have the same cause, and these are dismissed. They may need a probe of their own
    once the finding

    - is over,
    - accuses another replica or nobody, or is of another kind or rule,
    - is about another transaction, end marker or record, or no longer about one of its keys,
    - no longer says the same of all replicas,
    - accuses nobody, and other replicas are on its sides.

    Args:
        known: the event before.
        event: the later event.
    """
    if not known.stands or not event.stands:
        return known.stands
    before, now = claim_of(known), claim_of(event)
    if _is_about(before) != _is_about(now) or not _keys(before) <= _keys(now) or (before.spread and not now.spread):
        return True
    return event.broker == NOBODY and bool(sides_of(event)) and sides_differ(sides_of(known), sides_of(event))


def _is_about(claim: Claim) -> tuple[object, ...]:
    """Return what a finding must still be about to explain what it did; any record identifies a transaction."""
    record = UNKNOWN if claim.kind in TRANSACTION_KINDS else claim.offset
    transaction = claim.producer_id, claim.transaction_start_offset, claim.marker_offset
    return claim.broker, claim.kind, claim.rule, record, *transaction


def _keys(claim: Claim) -> set[str]:
    return {claim.key_text, *claim.recorded.keys} - {""}


def _says_otherwise(known: Finding, event: Finding) -> bool:
    """Whether an open finding has become another kind, or accuses where it accused nobody."""
    return known.kind is not event.kind or (known.broker == NOBODY and event.broker != NOBODY)
