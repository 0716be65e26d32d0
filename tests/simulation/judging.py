"""Holds what the monitor says in one history against the oracle, at every moment that counts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from parallax.findings.leading import Fitness
from tests.simulation import advice, kinds, leads, oracle, properties
from tests.simulation.cluster import Cluster
from tests.simulation.expected import Shown
from tests.simulation.history import RETENTION, Profile
from tests.simulation.oracle import Wrong
from tests.simulation.properties import Broken, Ended, Place, Said, Unknown

OFTEN = RETENTION // 2
"""Replicas that are read at shorter intervals than this (ms) hide nothing: tombstones and markers are kept longer."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the monitor tells at the end, before its last audit or after that, and what its readers were given."""

    findings: Ended
    unknown: Unknown
    shown: Shown
    audited: bool


@dataclass
class Judge:
    """What was wrong when, how well was it watched, and which properties did not hold.

    Attributes:
        moments: in what replicas were wrong while something was suspected.
        since: by suspect, the first of the moments that count for it.
        told: the same, of each suspect that was confirmed, for as long as its finding stands.
        read_at: by view and broker, when a reader was last at its end, in ms.
        gap_at: by broker, when it had last not been read for too long, in ms.
        dark_at: by broker, when it had last been down, or not been read for too long, in ms.
        harmed: what was lost after it had been read, by broker: only an audit reads it again.
        were: by finding, who was right and who was wrong in it when it was reported last.
        broken: the properties that did not hold, in order.
        places: how many are wrong at the end, before and after an audit, by what is told of them.
        told_of: by broker, in what it is wrong at the end, and an operator is told of it.
        said_to_lead: how often what was said of who may lead, and who may be restarted.
    """

    cluster: Cluster
    profile: Profile
    moments: list[dict[int, Wrong]] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    read_at: dict[tuple[int, int], int] = field(default_factory=dict)
    gap_at: Counter[int] = field(default_factory=Counter)
    dark_at: Counter[int] = field(default_factory=Counter)
    harmed: set[tuple[str, object]] = field(default_factory=set)
    were: dict[str, advice.Were] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    told_of: dict[int, list[Place]] = field(default_factory=dict)
    said_to_lead: Counter[str] = field(default_factory=Counter)
    remembering: oracle.Remembering = field(default_factory=oracle.Remembering)

    def now(self) -> dict[int, Wrong]:
        """By broker, in what its replica is wrong at this moment."""
        return self.remembering.judge(self.cluster, self.profile.compacted)

    # -- moments -----------------------------------------------------------------------------------------------------

    def note(self) -> dict[int, Wrong]:
        """Remember this moment."""
        now = self.now()
        if not self.moments or self.moments[-1] != now:
            self.moments.append(now)
        return now

    def suspect(self, names: Sequence[str]) -> None:
        """These suspects stand since now."""
        for name in names:
            if name not in self.since:
                self.note()
                self.since[name] = len(self.moments) - 1

    def confirm(self, said: Said, suspect: str, begun: int, *, stood: bool = False) -> None:
        """A suspect was confirmed, or a finding that stands was reported again, with more to say of it.

        Args:
            said: what the finding says.
            suspect: its name.
            begun: the number of the moment at which the operation began that confirmed it, if it was raised in that.
            stood: the finding stood before.
        """
        self.note()
        first = self.told.get(suspect, begun) if stood else self.since.get(suspect, begun)
        first = self.told[suspect] = min(first, len(self.moments) - 1)
        broken = properties.confirmed(said, self.moments[max(0, first) :], self.cluster)
        if broken is not None:
            self.broken.append(broken)

    def shown(self, said: Said, seen: Sequence[Cluster]) -> None:
        """Something over, or about all replicas, was reported: one that it names was wrong in it at some time.

        Args:
            said: what was reported.
            seen: the cluster as the probe saw it, question after question: an answer is of the moment of its question.
        """
        self.note()
        if said.everywhere and any(properties.lost_by_an_election(said, state) for state in (*seen, self.cluster)):
            return
        if (broken := properties.confirmed(said, self.moments, self.cluster)) is not None:
            self.broken.append(broken)

    def advised(
        self,
        told: advice.Advice,
        finding: str,
        standing: Mapping[str, Said],
        states: advice.States,
        *,
        is_recorded: bool = True,
    ) -> None:
        """An operator is advised so on a finding, by a probe that saw the cluster in these states.

        Args:
            told: the advice.
            finding: its id.
            standing: what is said by it, and by the others that stand, by their ids.
            states: of the cluster, while the probe was on its way.
            is_recorded: it is on record; if not, others are advised on beside what is, as it was reported before.
        """
        said = standing[finding]
        if is_recorded:
            self.were[finding] = states.were(said)
        unknown = advice.Were(frozenset(), frozenset(self.cluster.replicas))
        beside = [(other, self.were.get(name, unknown)) for name, other in standing.items() if name != finding]
        self.broken += advice.lies(told, said, beside, states)

    # -- how well it is watched --------------------------------------------------------------------------------------

    def read(self, positions: dict[tuple[int, int], int]) -> None:
        """Readers stand at these positions, by view and broker, and have just tried to read on."""
        for (view, broker), position in positions.items():
            replica = self.cluster.replicas.get(broker)
            if replica is not None and position >= (replica.hw, replica.lso)[view]:
                self.read_at[view, broker] = self.cluster.now

    def pass_time(self, ms: int) -> None:
        """So much time has gone by; of a broker that is down nothing can be missed."""
        now = self.cluster.now
        for broker, replica in self.cluster.replicas.items():
            for view in (0, 1):
                if not replica.up:
                    self.dark_at[broker] = now
                    self.read_at[view, broker] = self.read_at.get((view, broker), 0) + ms
                elif now - self.read_at.get((view, broker), 0) > OFTEN:
                    self.gap_at[broker] = self.dark_at[broker] = now

    def new_log(self, broker: int) -> None:
        """The broker begins a log of which nothing was read, or gave up what explained what it lacks."""
        self.gap_at[broker] = self.cluster.now

    def harm(self, before: dict[int, Wrong], broker: int, position: int) -> None:
        """Something was lost from a log that had been read up to a position."""
        truth, now = oracle.truth_of(self.cluster), self.now()
        mine = {broker: now[broker]} if broker in now else {}
        known = set(properties.places(truth, {broker: before[broker]})) if broker in before else set()
        for place in properties.places(truth, mine):
            if place not in known and (place.offset < position):
                self.harmed |= {name_of(place)} | {("key", k) for k in _keys(truth, place)}

    # -- the end -----------------------------------------------------------------------------------------------------

    def end(self, findings: Ended, unknown: Unknown, shown: Shown) -> None:
        """Judge what stands at the end.

        A transaction that was ended wrongly is known once it was reported, though nothing may be left of it by now; a
        key whose value differs must be reported still.

        Args:
            findings: what has become of them.
            unknown: what is counted as unknown.
            shown: what the readers were given.
        """
        now, truth = self.now(), oracle.truth_of(self.cluster)
        if self.profile.healthy and now:
            raise AssertionError(f"the model itself diverged without a fault: {now}")
        unharmed = {broker: self._without_harmed(wrong) for broker, wrong in now.items()}
        for said in findings.healed:
            seen = unharmed if said.about == "cut" else now
            if (broken := properties.healed(said, self.cluster, seen, findings.standing)) is not None:
                self.broken.append(broken)
        # Elsewhere one that is held back cannot be judged, and a finding on it stands until it can be.
        for said in findings.standing if not kinds.ELECTED.keys().isdisjoint(self.profile.kinds) else ():
            if said.accused is not None and said.accused not in self.cluster.replicas:
                continue  # That it holds no replica any more has to be seen twice: it is over after the audit.
            if (broken := properties.stands(said, now, self.cluster, findings.standing)) is not None:
                self.broken.append(broken)
        if self.profile.late:
            return  # What lies below where it began is none of its business.
        self._hold_all("wrong", truth, now, Told(findings, unknown, shown, audited=False))

    def _without_harmed(self, wrong: Wrong) -> Wrong:
        """In what a replica is wrong but for records that it lost after they were read: no truncation took these."""
        return replace(wrong, offsets=frozenset(o for o in wrong.offsets if ("record", o) not in self.harmed))

    def audited(self, findings: Ended, unknown: Unknown, shown: Shown) -> None:
        """Judge what stands after an audit at the end: what it has settled is known.

        What was lost after it had been read, or unread, is to be known where the replicas differ in it still.

        Args:
            findings: what has become of them.
            unknown: what is counted as unknown still.
            shown: what the readers of the stream were given.
        """
        now, truth = self.now(), oracle.truth_of(self.cluster)
        for said in findings.standing:
            if said.accused is not None and said.accused in self.cluster.retired:
                self.broken.append(Broken(properties.NEVER_RIGHT, said.kind, f"{said} holds no replica any more"))
        self._hold_all("audited", truth, now, Told(findings, unknown, shown, audited=True))

    def _hold_all(self, when: str, truth: oracle.Truth, now: dict[int, Wrong], told: Told) -> None:
        """Hold what is told against all places that are wrong."""
        self.told_of = {}
        for place in properties.places(truth, now):
            how = self._hold(place, truth, now, told)
            self.places[when, how] += 1
            # By a deletion or by a loss: nobody can ever tell, so nobody is told of a doubt. Logs begin apart wherever
            # the policy deletes, for each broker does so at its own time. Nor is one told of what no consumer gets yet,
            # on any replica: that is so wherever a transaction goes on.
            decided = self._decided(properties.difference(self.cluster, truth, place))
            furthest = max(self.cluster.replicas, key=lambda b: self.cluster.replicas[b].log_start)
            is_deleted_somewhere = self._is_below_all(truth, replace(place, broker=furthest))
            is_doubt = told.unknown.holds(decided) and not is_deleted_somewhere
            if how in leads.KNOWABLE and (how != leads.UNKNOWN_RANGE or is_doubt):
                self.told_of.setdefault(place.broker, []).append(place)

    def lead(self, found: Mapping[int, Fitness], draw: random.Random) -> None:
        """It is said at the end who may lead: hold it against what an operator is told of besides."""
        self.broken += leads.lies(found, self.told_of, draw, self.said_to_lead)

    def _hold(self, place: Place, truth: oracle.Truth, now: dict[int, Wrong], told: Told) -> str:
        """Hold what is told against a place that is wrong; returns by what it is known, or why it need not be."""
        if any(properties.covers(said, place, truth, now) for said in told.findings.standing):
            return "a finding"
        if place.what == "outcome" and any(properties.covers(said, place, truth, now) for said in told.findings.gone):
            return "a finding of which nothing is left"
        if self._may_be_deleted_everywhere(truth, place):
            return "nothing: it may have been deleted on all"
        if self._began_above(truth, place, told.shown):
            return "nothing: every log began above it before anybody read it"
        harmed = name_of(place) in self.harmed
        if harmed and not told.audited:
            return "nothing: it was lost after it was read"
        # One that has left since may have been the only one to hold what decides it.
        watched = all(at < place.begun for at in self.gap_at.values())
        in_time = any(self.dark_at[b] < place.begun for b in self.cluster.replicas)
        seen = watched or was_shown(told.shown, truth, now[place.broker], place, in_time=in_time)
        offsets = properties.difference(self.cluster, truth, place)
        how = _excused(offsets, told.unknown, seen=seen and not harmed)
        # No audit compares what nobody's consumers are shown yet, nor does it read what no log has left.
        audited = told.audited or told.unknown.was_audited(self._decided(offsets), place.begun)
        audited = audited or self._ends_below_all(truth, place, told.shown)
        # What the cap of the state left out was read and not compared; an audit sees only what is left of it. Nor does
        # it see how a transaction was ended of which nothing is left; who was watched all the time has it found before.
        gone = place.what == "outcome" and not watched and not properties.holds(self.cluster, now, place)
        over = gone or self.profile.cap is not None
        if how is None and audited and (harmed or not seen or over):
            shows = properties.shows(self.cluster, truth, now, place, self.profile.compacted)
            how = None if shows else "nothing: no replica shows it any more"
        if how is None and not seen and place.key is not None:
            # Which of those that differ is wrong about a key nobody can tell who came too late; that they differ, yes.
            about = (said for said in told.findings.standing if said.key == place.key)
            how = next(("a finding on the key" for _ in about), None)
        text = f"{place}; {now[place.broker]}"
        if how is None:
            what = f"{place.what}{'' if seen else ', unread meanwhile'}{', after an audit' if told.audited else ''}"
            self.broken.append(Broken(properties.KNOWN, what, text))
        elif watched and self._was_read(place) and self.profile.cap is None and not self._is_below_all(truth, place):
            self.broken.append(Broken(properties.NEEDLESS, place.what, text))
        return how or "nothing"

    def _was_read(self, place: Place) -> bool:
        """Whether what is wrong was not lost after it was read, nor as a record on all logs before it was."""
        is_held = any(True for r in self.cluster.replicas.values() for _ in r.held(place.offset, place.offset + 1))
        return name_of(place) not in self.harmed and (place.what != "record" or is_held)

    def _misleads_nobody(self, place: Place, truth: oracle.Truth, now: dict[int, Wrong]) -> bool:
        """Whether no other replica holds a record of a wrong outcome, and all show one newer record of each key."""
        others = [replica for broker, replica in self.cluster.replicas.items() if broker != place.broker]
        for offset in _decided_by_ends(truth, now[place.broker], place):
            key = truth.of_offset[offset][0].key
            newest = {oracle.newest_shown(replica, key) for replica in self.cluster.replicas.values()}
            is_held = any(record is not None for one in others for _, record in one.held(offset, offset + 1))
            if is_held or len(newest) > 1 or newest.pop() <= offset:
                return False
        return True

    def _decided(self, offsets: set[int]) -> set[int]:
        """Those of the offsets that some replica shows its read_committed consumers."""
        return {o for o in offsets if any(r.log_start <= o < r.lso for r in self.cluster.replicas.values())}

    def once(self, standing: Sequence[Said]) -> None:
        """No cause is reported twice: judge what stands after all of it was looked at again."""
        self.broken += properties.repeated(standing, self.now())

    def _began_above(self, truth: oracle.Truth, place: Place, shown: Shown) -> bool:
        """Whether every log begins above what decides a place, and no reader was given any of its key or outcome."""
        if place.key is not None:
            is_read = any(seen.get(place.key) for seen in shown.visible.values())
        else:
            is_read = any(place.offset <= offset <= place.last for seen in shown.outcomes.values() for offset in seen)
        return not is_read and self._begin_above(truth, place)

    def _begin_above(self, truth: oracle.Truth, place: Place) -> bool:
        """Whether every log begins above the record that decides a key, or above all records of a wrong outcome."""
        decides = place.last if place.key is None else truth.latest.get(place.key, -1)
        return decides >= 0 and all(log.log_start > decides for log in self.cluster.replicas.values())

    def _ends_below_all(self, truth: oracle.Truth, place: Place, shown: Shown) -> bool:
        """Whether every log begins above the end of a transaction that hangs, and no reader was given that end.

        An audit reads no more of it than a first reading does: that it is open, and where consumers stop.
        """
        if place.what != "progress" or place.span is None:
            return False
        ends = properties.ends_of(truth, place.span)
        given = {offset for seen in shown.markers.values() for _, offset in seen}
        lowest = min(log.log_start for log in self.cluster.replicas.values())
        return bool(ends) and max(ends) < lowest and ends.isdisjoint(given)

    def _is_below_all(self, truth: oracle.Truth, place: Place) -> bool:
        """Whether nobody can tell a loss from a deletion: by the policy, or by a client, on all replicas alike.

        A lost head of the leader's log moves every log start. So does DeleteRecords, and it leaves no other trace.
        """
        return self._may_be_deleted(truth, place) or self._begin_above(truth, place)

    def _may_be_deleted_everywhere(self, truth: oracle.Truth, place: Place) -> bool:
        """Whether every log begins above what is wrong where the policy deletes: that is what retention does.

        One that has lost its head leads, and the others have followed: below where all begin nothing is promised.
        """
        return all(self._may_be_deleted(truth, replace(place, broker=broker)) for broker in self.cluster.replicas)

    def _may_be_deleted(self, truth: oracle.Truth, place: Place) -> bool:
        """Whether what is wrong lies below the log start where the policy deletes: nobody can tell a loss from that.

        A key's record, or all records of a transaction. A lost head is to be a finding where the policy does not
        explain it, and unknown where it does.
        """
        start = self.cluster.replicas[place.broker].log_start
        if place.what == "outcome" and place.span is not None:
            return self.profile.trims and place.last < start
        return self.profile.trims and place.what == "key" and truth.latest.get(place.key, -1) < start

    def audit(self, findings: Ended, result: str, ended_to: int) -> None:
        """An audit of the partition, whose replicas are all up, ended so; it compared outcomes up to an offset.

        A wrong outcome is told by a finding that is over when it is reported as well, where its records mislead nobody:
        no other replica holds one, and all show the same newer record of its key, whoever leads.
        """
        truth, now = oracle.truth_of(self.cluster), self.now()
        for place in properties.uncovered(truth, now, findings.standing):
            is_told = any(properties.covers(said, place, truth, now) for said in findings.gone)
            if is_told and place.what == "outcome" and self._misleads_nobody(place, truth, now):
                continue
            if any(offset >= ended_to for offset in _decided_by_ends(truth, now[place.broker], place)):
                continue
            if result == "consistent" and properties.shows(self.cluster, truth, now, place, self.profile.compacted):
                text = f"{place}; {now[place.broker]}"
                self.broken.append(Broken(properties.KNOWN, f"{place.what}, consistent in an audit", text))


def _decided_by_ends(truth: oracle.Truth, wrong: Wrong, place: Place) -> set[int]:
    """The records in a place of which the replica shows another outcome than the truth."""
    turned = properties.turned_of(truth, wrong, place.key) if place.span is None else wrong.turned
    return {offset for span, offsets in turned if place.span in (None, span) for offset in offsets}


def _excused(offsets: set[int], unknown: Unknown, *, seen: bool) -> str | None:
    """By what offsets are counted as unknown; what waits for an audit is no excuse for what was seen."""
    if unknown.holds(offsets):
        return "an unknown range"
    return "an audit that has not ended" if unknown.until_audited and not seen else None


def was_shown(shown: Shown, truth: oracle.Truth, wrong: Wrong, place: Place, *, in_time: bool) -> bool:
    """Whether a reader was given what decides: the end marker and a record of the transaction, or the key's record.

    A transaction decides a key where it was ended wrongly for a record of that key, unless the readers were given a
    newer one of that replica: then that decides, or what supersedes it. An end marker that was read when
    others may have been cleaned already decides an outcome only where there is no room for another one before it.

    Args:
        shown: what readers were given.
        truth: of the cluster.
        wrong: what the replica is wrong in.
        place: where.
        in_time: some replica was read at short intervals since what decides was written.
    """
    if place.key is not None:
        newest = max((o for o, _ in shown.visible.get(place.broker, {}).get(place.key, [])), default=-1)
        spans = [span for span, turned in properties.turned_of(truth, wrong, place.key) if max(turned) >= newest]
        if spans:
            return any(_end_was_shown(shown, truth, place.broker, span, wrong, in_time=in_time) for span in spans)
        decides = truth.latest.get(place.key, -1)
        others = [seen.get(place.key, []) for b, seen in shown.visible.items() if b != place.broker]
        return decides >= shown.known_from and any(offset == decides for seen in others for offset, _ in seen)
    return place.span is not None and _end_was_shown(shown, truth, place.broker, place.span, wrong, in_time=in_time)


def _end_was_shown(
    shown: Shown, truth: oracle.Truth, broker: int, span: oracle.Span, wrong: Wrong, *, in_time: bool
) -> bool:
    if broker in shown.skipped or span.first < shown.known_from:
        return False
    markers = {m for b, seen in shown.markers.items() if b != broker for m in seen}
    wrongly = {o for o, end in shown.outcomes.get(broker, {}).items() if end is not truth.end_of(o)}
    is_open = span in wrong.hanging
    mine = {o for _, o in shown.transactional.get(broker, set())} if is_open else wrongly
    return any(
        (t.producer_id, t.marker) in markers
        and any(in_time or is_open or offset + 1 == t.marker for offset in mine.intersection(t.offsets))
        for t in truth.transactions
        if t.marker != span.end and any(span.holds(t.producer_id, offset) for offset in t.offsets)
    )


def name_of(place: Place) -> tuple[str, object]:
    """A place, whichever broker it is on."""
    if place.what == "key":
        return "key", place.key
    return (place.what, place.offset) if place.span is None else (place.what, place.span.first)


def _keys(truth: oracle.Truth, place: Place) -> set[oracle.Key]:
    if place.span is not None:
        return properties.keys_of(truth, place.span)
    return {truth.of_offset[place.offset][0].key} if place.offset in truth.of_offset else set()
