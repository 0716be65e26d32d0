"""What every history must hold: the monitor's events against the oracle.

Four properties. **Sound**: a finding with a direction names a replica that was wrong, in what it names, between
suspicion and confirmation; one without names replicas of which at least one was. **Never the right one**: a replica
that is right is never accused. **Known or unknown**: what is wrong at the end is covered by an open finding, or
counted as unknown, and not so without need. **Ends right**: nothing ends as healed while a replica is wrong in what it
covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.simulation import oracle
from tests.simulation.cluster import Cluster
from tests.simulation.oracle import Key, Span, Truth, Wrong, compared_from, epoch_at, records_of
from tests.simulation.records import End
from tests.simulation.replica import Replica

SOUND = "sound"
NEVER_RIGHT = "never the right one"
KNOWN = "known or unknown"
NEEDLESS = "unknown without need"
ENDS_RIGHT = "ends right"
ONE_CAUSE = "one cause, one finding"

Moment = Mapping[int, Wrong]


@dataclass(frozen=True, slots=True)
class Said:
    """What a finding says, as far as it can be held against the truth.

    Attributes:
        kind: the product's word for it; only for texts.
        accused: the broker that is said to be wrong; None where nobody is accused.
        sides: brokers that differ, where nobody is accused.
        about: ``transaction``, ``key``, ``record`` (an offset), ``cut`` (a log that gave up what it had shown) or
            ``head`` (a log that begins at the offset, and should not).
        marker: offset of the end marker that ends the transaction as it names it; -1 where it names none.
        everywhere: it says that all replicas are wrong alike.
        cut_since: brokers whose log was truncated, or has lost its first records, since it ended.
        alike: brokers that it says show the value of the key that the accused shows.
        many: it is about many keys or transactions, of which it names one.
        epoch: of a log that was truncated, the leader epoch of the last record that it had shown; -1 of others.
    """

    kind: str
    accused: int | None
    sides: frozenset[int]
    about: str
    producer_id: int = -1
    start: int = -1
    offset: int = -1
    key: Key = None
    marker: int = -1
    everywhere: bool = False
    cut_since: frozenset[int] = frozenset()
    alike: frozenset[int] = frozenset()
    many: bool = False
    epoch: int = -1

    @property
    def brokers(self) -> frozenset[int]:
        """Everybody that is named."""
        return self.sides if self.accused is None else frozenset({self.accused})


@dataclass(frozen=True, slots=True)
class Broken:
    """A property that did not hold."""

    name: str
    what: str
    """The kind that was said, or the kind of wrong that was not."""
    text: str

    def __str__(self) -> str:
        return f"{self.name} ({self.what}): {self.text}"


@dataclass(frozen=True, slots=True)
class Ended:
    """What has become of all findings.

    Attributes:
        standing: they stand.
        healed: they ended as healed, or accused nobody and ended.
        gone: they ended as nothing is left to be seen of them, and the event says that this is not healed.
    """

    standing: tuple[Said, ...]
    healed: tuple[Said, ...]
    gone: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """What the monitor says that it does not know; ranges of offsets, of either view, without their ends.

    Attributes:
        ranges: that it could not compare.
        until_audited: that it read too late to know what had been there; no excuse for what it was shown all the same.
        audited_at: when the last audit that had a verdict began, in ms.
        audited_to: it has compared what lies below this offset.
    """

    ranges: tuple[tuple[int, int], ...]
    until_audited: tuple[tuple[int, int], ...]
    audited_at: int = -1
    audited_to: int = 0

    def holds(self, offsets: Iterable[int]) -> bool:
        """Whether one of these offsets could not be compared."""
        return any(start <= offset < end for offset in offsets for start, end in self.ranges)

    def was_audited(self, offsets: Iterable[int], since: int) -> bool:
        """Whether an audit has compared these offsets since then."""
        return since <= self.audited_at and all(offset < self.audited_to for offset in offsets)


def is_of(span: Span, said: Said) -> bool:
    """Whether a finding names a record in a transaction of a replica."""
    if said.producer_id < 0:
        return True
    return span.holds(said.producer_id, said.offset) or span.holds(said.producer_id, said.start)


def _is_named(span: Span, said: Said) -> bool:
    """Whether a finding names a transaction, or one that it is part of: cleaners drop the end markers between two."""
    within = 0 <= said.start <= span.first and span.end <= said.marker and span.producer_id == said.producer_id
    return within or is_of(span, said)


def is_wrong_in(said: Said, wrong: Wrong) -> bool:
    """Whether a replica is wrong in the keys or the transaction that a finding names."""
    if said.about == "transaction":
        # A difference without direction names who shows the record, and by that the key, otherwise.
        named = said.accused is None and said.key is not None and said.key in wrong.unlike
        return named or any(is_of(span, said) for span in wrong.spans)
    if said.about == "record":
        return said.offset in wrong.offsets
    return (said.key is not None and said.key in wrong.unlike) or said.offset in wrong.offsets


def was_cut(cluster: Cluster, said: Said) -> bool:
    """Whether a log of a broker that is named gave up what it had held from about there on.

    It was truncated, or nothing was kept of it and an unclean election has lost some of what it held: a log that has
    an offset in a leader epoch has, or had, what was written there in that epoch.
    """
    cuts = [c for b in said.brokers for c in cluster.cuts.get(b, ())]
    logs = [log for b in said.brokers for log in cluster.dropped.get(b, ())]
    lost = [b for b in cluster.lost if b.last >= said.offset]
    held = any(b.base < log.leo and epoch_at(log, b.base) == b.leader_epoch for b in lost for log in logs)
    return held or any(c.end > said.offset for c in cuts)


def confirmed(said: Said, moments: Iterable[Moment], cluster: Cluster) -> Broken | None:
    """Hold a confirmed finding against what was wrong between suspicion and confirmation."""
    if said.about == "cut":
        return None if was_cut(cluster, said) else Broken(NEVER_RIGHT, said.kind, f"{said} was not truncated")
    if said.about == "head":
        # What all share is of those that are left: the one that lost it first may be none of them any more.
        named = cluster.replicas if said.everywhere else said.brokers & cluster.replicas.keys()
        starts = [cluster.replicas[b].log_start for b in named]
        unexplained = any(start > cluster.deleted_to for start in starts)
        return None if unexplained else Broken(NEVER_RIGHT, said.kind, f"{said} lacks nothing")
    seen = list(moments)
    said = _of_its_key(said, oracle.truth_of(cluster))
    if any(is_wrong_in(said, moment[b]) for moment in seen for b in said.brokers if b in moment):
        return None
    if any(_is_unlike_by_it(said, moment, cluster) for moment in seen):
        return None
    if misleads(said, cluster) or (seen and _differ_where_they_stop(said, seen[-1], cluster)):
        return None
    if said.accused is None:
        return Broken(SOUND, said.kind, f"{said}: none of them was wrong in that; wrong was {_texts(seen)}")
    if not any(said.accused in moment for moment in seen):
        return Broken(NEVER_RIGHT, said.kind, f"{said}: it was right; wrong was {_texts(seen)}")
    return Broken(SOUND, said.kind, f"{said}: it was not wrong in that; wrong was {_texts(seen)}")


def _is_unlike_by_it(said: Said, moment: Moment, cluster: Cluster) -> bool:
    """Whether the accused shows a key otherwise than the truth, and holds no more the record of it that is named.

    What its wrong outcome made of the key is still there, and nothing else of the transaction has to be.
    """
    replica = cluster.replicas.get(said.accused) if said.accused is not None else None
    if said.about != "transaction" or replica is None or said.accused not in moment:
        return False
    is_held = any(record is not None for _, record in replica.held(said.offset, said.offset + 1))
    return not is_held and said.key in moment[said.accused].unlike


def _of_its_key(said: Said, truth: Truth) -> Said:
    """A difference in how a record ended is one in its key, whether or not the finding knows the key."""
    known = truth.of_offset.get(said.offset)
    if said.key is not None or said.accused is not None or said.about != "transaction" or known is None:
        return said
    return replace(said, key=known[0].key)


def _differ_where_they_stop(said: Said, now: Moment, cluster: Cluster) -> bool:
    """Whether two that are said to differ in a key do, to consumers that are kept at one offset for good.

    The oracle calls nobody wrong in a key that is written again further up: what a replica lacks below may have been
    cleaned for the sake of that, and is made up for where its consumers come there. These do not come there, and one of
    the two values is not what was written up to where they stop. Which one, nobody says.
    """
    if said.accused is not None or said.about != "key":
        return False
    named = [cluster.replicas[broker] for broker in said.sides & now.keys() & cluster.replicas.keys()]
    stopped = [replica for replica in named if now[replica.id].stops_at is not None]
    shown = {(replica.lso, oracle.values_shown(replica, said.key, 0)[0]) for replica in stopped}
    return len(shown) > len({replica.lso for replica in stopped})


def stands(said: Said, now: Moment, cluster: Cluster, standing: Sequence[Said]) -> Broken | None:
    """Hold a finding that stands after it was looked at again against what is wrong now, and what stands beside it.

    What it says of all replicas is of what they have come to; of many keys it names one, which may have healed. And
    what is shown to those alone whom an open transaction keeps below what it speaks of, or below what was written of
    the key since, may go on being said, where another finding speaks of that transaction. What was proven of a replica
    that is copied anew stands until its log has come there, for until then it shows nothing that could end it.
    """
    if said.everywhere or said.many:
        return None
    is_of_a_log = said.accused not in cluster.replicas or said.about in ("cut", "head")
    if not is_of_a_log and said.accused is not None and cluster.replicas[said.accused].leo <= said.offset:
        return None
    held = [cluster.replicas[b] for b in said.brokers & now.keys() & cluster.replicas.keys()]
    truth = oracle.truth_of(cluster)
    if said.about == "key" and any(_may_not_be_compared(said, replica, now, standing, truth) for replica in held):
        return None
    if said.about == "transaction" and said.accused in now and said.key in now[said.accused].unlike:
        return None  # The record is gone by now, and what its wrong outcome made of the key is not.
    return confirmed(said, [now], cluster)


def misleads(said: Said, cluster: Cluster) -> bool:
    """Whether one that is named misleads its consumers: by an outcome, or by a value that was superseded by then.

    The accused shows the outcome of the record otherwise than its transaction ended; or a replica shows a value behind
    which the truth has a newer record of the key, or a deletion, that its consumers have passed
    (`oracle.shows_superseded`). That is between the replica and the truth alone: where the logs of others begin, maybe
    of one that is down, is no matter. Nobody has to know what lies below the largest log start, but who says so is not
    mistaken.
    """
    truth = oracle.truth_of(cluster)
    named = [cluster.replicas[broker] for broker in said.brokers & cluster.replicas.keys()]
    if said.key is not None and any(
        oracle.shows_superseded(truth, replica, said.key, start)
        for replica in named
        for start in starts(cluster, replica)
    ):
        return True
    if said.about != "transaction" or said.accused is None:
        return False
    turned = [oracle.turned_in(truth, replica, replica.log_start, replica.lso) for replica in named]
    return any(said.offset in offsets for found in turned for _, offsets in found)


def starts(cluster: Cluster, replica: Replica) -> frozenset[int]:
    """From where on a replica is judged by what it shows: where all are compared, and where its own log begins."""
    return frozenset({compared_from(cluster), replica.log_start})


def lost_by_an_election(said: Said, cluster: Cluster) -> bool:
    """Whether what a finding says of all replicas is what an unclean election has taken from the cluster.

    Nobody is wrong then, for all hold what the leader holds, whom the election has made that. But a record that was
    acknowledged is gone; or the end of a transaction is, of which its producer was told. It hangs on the leader then,
    or has ended there since by another marker, and nobody knows whether that one says the same.
    """
    if said.kind == "record_missing":
        return any(b.base <= said.offset <= b.last for b in cluster.lost)
    log, began = cluster.leading, (said.producer_id, said.start)
    begun = {(producer_id, first) for producer_id, (_, first) in log.open_transactions().items()}
    begun |= {(one.producer_id, one.first) for one in log.ended}
    mine = [b for b in cluster.lost if b.marker is not None and b.producer_id == said.producer_id]
    return said.about == "transaction" and began in begun and any(b.base > said.start for b in mine)


def healed(said: Said, cluster: Cluster, now: Moment, open_now: Iterable[Said]) -> Broken | None:
    """Hold a finding that ended as healed against what is wrong now.

    What an open finding speaks of is another divergence of the same key, which came later. So is what a log shows that
    was truncated since (an unclean election), or has lost its head: it may have lost what had healed it. And so is
    what a replica lacks of a key of which it shows a record that was written after what the finding speaks of; or of
    which it shows nothing by now, and lacks what was written since. A log whose head is back lacks no record of it; one
    that holds again what was truncated shows no record there that is not the true one. And so is what is shown to those
    alone whom an open transaction keeps below what the finding speaks of, where an open finding speaks of that
    transaction.
    """
    standing, truth = list(open_now), oracle.truth_of(cluster)
    for broker in sorted((said.brokers & now.keys()) - said.cut_since):
        mine = [place for place in places(truth, {broker: now[broker]}) if _was_of(said, place, truth, now)]
        if mine and all(any(covers(one, place, truth, now) for one in standing) for place in mine):
            continue
        if said.about == "key" and oracle.newest_shown(cluster.replicas[broker], said.key) > said.offset:
            continue
        if _lacks_a_later_one(said, cluster.replicas[broker], truth):
            continue
        if said.about == "key" and _is_kept_below(said, cluster.replicas[broker], now, standing, truth):
            continue
        if mine if said.about in ("cut", "head") else _is_wrong_still(said, now[broker], truth):
            return Broken(ENDS_RIGHT, said.kind, f"{said} ended as healed; broker {broker} is wrong: {now[broker]}")
    return None


def _lacks_a_later_one(said: Said, replica: Replica, truth: Truth) -> bool:
    """Whether a replica shows nothing of the key any more, and lacks what was written after the finding's record."""
    is_gone = said.about == "key" and oracle.newest_shown(replica, said.key) < 0
    return is_gone and truth.latest.get(said.key, -1) > said.offset


def _is_wrong_still(said: Said, wrong: Wrong, truth: Truth) -> bool:
    """As `is_wrong_in`; by how a record was ended only where it is of the transaction that the finding spoke of.

    A replica that was copied anew may hold that one and an earlier one of its producer as one: how it shows the other
    is another divergence.
    """
    if said.about != "transaction" or said.accused is None or not 0 <= said.start <= said.marker:
        return is_wrong_in(said, wrong)
    if any(is_of(span, said) for span in wrong.hanging):
        return True
    transaction = truth.of_offset[said.offset][1] if said.offset in truth.of_offset else None
    named = {*range(said.start, said.marker), *(transaction.offsets if transaction is not None else ())}
    return any(is_of(span, said) and not named.isdisjoint(turned) for span, turned in wrong.turned)


def _is_kept_below(said: Said, replica: Replica, now: Moment, standing: Sequence[Said], truth: Truth) -> bool:
    """Whether only consumers that are known not to come so far are shown what was before that of which was spoken."""
    if replica.lso > said.offset or oracle.newest_uncommitted(replica, said.key) <= said.offset:
        return False
    return _is_stopped_as_said(replica, now, standing, truth)


def _may_not_be_compared(said: Said, replica: Replica, now: Moment, standing: Sequence[Said], truth: Truth) -> bool:
    """Whether a replica's consumers are known not to come to what decides the key: no finding on it can end then.

    A cleaner goes up to the last stable offset of its own log. So a replica that was copied from one that had come
    further may lack what that one's cleaner took for the sake of the newer record, and the oracle calls it neither
    right nor wrong in the key (`oracle._compare_keys`). What was said before that holds until its consumers go on.
    """
    is_behind = truth.latest.get(said.key, -1) >= replica.lso
    kept = is_behind and _is_stopped_as_said(replica, now, standing, truth)
    return kept or _is_kept_below(said, replica, now, standing, truth)


def _is_stopped_as_said(replica: Replica, now: Moment, standing: Sequence[Said], truth: Truth) -> bool:
    """Whether an open transaction keeps a replica's consumers from going on, and a finding speaks of each that does."""
    stops = [place for place in places(truth, {replica.id: now[replica.id]}) if place.what == "progress"]
    return bool(stops) and all(any(covers(one, place, truth, now) for one in standing) for place in stops)


def _was_of(said: Said, place: Place, truth: Truth, now: Moment) -> bool:
    """Whether a finding that has ended spoke of a place: one about a truncated log, of all records beyond."""
    if said.about == "cut":
        return place.what == "record" and place.offset >= said.offset
    return covers(said, place, truth, now)


@dataclass(frozen=True, slots=True)
class Place:
    """One thing in which one replica is wrong: a key, an offset, a transaction."""

    broker: int
    what: str
    key: Key = None
    offset: int = -1
    last: int = -1
    """Of an outcome, the highest offset of a record that is shown so, where ``offset`` is the lowest."""
    span: Span | None = None
    begun: int = 0
    """When it can have become so at the earliest: the time of the record or the marker that decides, in ms."""


def places(truth: Truth, now: Moment) -> Iterator[Place]:
    """Everything that is wrong, one by one."""
    for broker, wrong in now.items():
        for key in sorted(wrong.keys, key=repr):
            yield Place(broker, "key", key, begun=_begun(truth, key, wrong))
        for offset in sorted(wrong.offsets):
            yield Place(broker, "record", offset=offset, begun=truth.written_at.get(offset, 0))
        for span, offsets in wrong.turned:
            yield Place(
                broker, "outcome", span=span, offset=min(offsets), last=max(offsets), begun=_ended_at(truth, span)
            )
        for span in sorted(wrong.hanging, key=lambda s: s.first):
            if wrong.stops_at is not None:
                yield Place(broker, "progress", span=span, offset=span.first, begun=_ended_at(truth, span))


def _begun(truth: Truth, key: Key, wrong: Wrong) -> int:
    times = [_ended_at(truth, span) for span in wrong.spans if key in keys_of(truth, span)]
    if key in truth.latest:
        times.append(truth.written_at[truth.latest[key]])
    return min(times, default=0)


def _ended_at(truth: Truth, span: Span) -> int:
    return min((truth.written_at[marker] for marker in ends_of(truth, span)), default=0)


def ends_of(truth: Truth, span: Span) -> set[int]:
    """The offsets at which the truth has ended what a transaction of a replica holds."""
    return {t.marker for t in truth.transactions if t.marker is not None and _overlap(t.offsets, t.producer_id, span)}


def _overlap(offsets: Iterable[int], producer_id: int, span: Span) -> bool:
    return any(span.holds(producer_id, offset) for offset in offsets)


def keys_of(truth: Truth, span: Span) -> set[Key]:
    """The keys that a transaction of a replica wrote, and the true transactions in it."""
    mine = [t for t in truth.transactions if _overlap(t.offsets, t.producer_id, span)]
    return {truth.of_offset[offset][0].key for t in mine for offset in t.offsets}


def turned_of(truth: Truth, wrong: Wrong, key: Key) -> list[tuple[Span, frozenset[int]]]:
    """By transaction that a replica has ended wrongly, the records of a key that it shows so.

    A transaction of a replica that spans several of the truth has ended some of them rightly.
    """
    mine = ((span, frozenset(o for o in turned if truth.of_offset[o][0].key == key)) for span, turned in wrong.turned)
    return [(span, turned) for span, turned in mine if turned]


def covers(said: Said, place: Place, truth: Truth, now: Moment) -> bool:
    """Whether a finding that is open speaks of a place."""
    if place.broker not in said.brokers | said.alike and not said.everywhere:
        return False
    if said.about == "transaction":
        if place.span is not None:
            return _is_named(place.span, said)
        spans = [s for wrong in now.values() for s in wrong.spans if _is_named(s, said)]
        if place.what == "key":
            named = said.key is not None and place.key == said.key
            turned = {o for wrong in now.values() for s, part in wrong.turned if _is_named(s, said) for o in part}
            # It stands for all records of its transaction, also where the accused's cleaner has taken what showed that.
            turned |= {o for t in truth.transactions if t.producer_id == said.producer_id for o in _named_of(t, said)}
            return named or any(truth.of_offset[offset][0].key == place.key for offset in turned)
        return any(s.first <= place.offset <= s.end for s in spans)
    if said.about == "head":
        return place.what == "key" and truth.latest.get(place.key, -1) < said.offset
    if place.what == "key":
        return place.key == said.key and said.key is not None
    keys = set() if place.span is None else keys_of(truth, place.span)
    return place.offset == said.offset or (said.key is not None and said.key in keys)


def _named_of(transaction: oracle.Transaction, said: Said) -> Iterable[int]:
    """The records of a true transaction that a finding covers which accuses a replica of it."""
    is_accusing = said.accused is not None and said.start >= 0
    return (o for o in transaction.offsets if is_accusing and said.start <= o <= said.marker)


def uncovered(truth: Truth, now: Moment, open_now: Iterable[Said]) -> Iterator[Place]:
    """What is wrong and no open finding speaks of."""
    standing = list(open_now)
    for place in places(truth, now):
        if not any(covers(said, place, truth, now) for said in standing):
            yield place


def difference(cluster: Cluster, truth: Truth, place: Place) -> set[int]:
    """The offsets at which a replica differs in a place: of records, and of what ended their transactions.

    Of a key: its latest records, and those that the replica has ended wrongly: one that it holds no more may have
    superseded what it should show.
    """
    replica = cluster.replicas[place.broker]
    offsets = {place.offset} - {-1}
    ahead = [r for r in cluster.replicas.values() if r.lso > replica.lso]
    if place.what == "progress" and place.span is not None and all(r.log_start > place.span.first for r in ahead):
        # Nobody else's log can tell how that ended any more; what is known is how far its consumers do not come.
        offsets |= {replica.lso}
    if place.what == "key":
        start = compared_from(cluster)
        turned = {o for _, part in oracle.turned_in(truth, replica, start, replica.lso) for o in part}
        offsets |= records_of(truth, replica, start, place.key)
        offsets |= {o for o in turned if truth.of_offset[o][0].key == place.key}
    if place.span is not None:
        offsets |= {o for t in truth.transactions if _overlap(t.offsets, t.producer_id, place.span) for o in t.offsets}
    theirs = {(t.producer_id, o): t.marker for t in truth.transactions for o in t.offsets if o in offsets}
    mine = {e.marker for e in replica.ended if any(p == e.producer_id and e.first <= o <= e.marker for p, o in theirs)}
    return offsets | mine | {marker for marker in theirs.values() if marker is not None}


def _texts(moments: Iterable[Moment]) -> str:
    texts = {f"{broker}: {wrong}" for moment in moments for broker, wrong in moment.items()}
    return "; ".join(sorted(texts)) or "nobody"


def shows(cluster: Cluster, truth: Truth, now: Moment, place: Place, compacted: bool) -> bool:
    """Whether the replicas as they stand differ there; if not, nobody who comes only now can tell.

    Of a key: another one that is right shows another value, but for what each has aborted: on a healthy cluster others
    lack that as well. Or an emptied end marker lies behind the record.
    Of an outcome: a replica shows the record wrongly, and another one shows the true outcome or holds the true marker.
    Or its aborted list says that a transaction begins there, and another one shows that record as committed. The true
    marker alone says nothing against a replica that holds it as well, behind another one: it may end a later
    transaction, which wrote no record there, and the others may have cleaned the end of the first.
    Of a transaction that hangs: another one does not hang in it, by an end that is below its high watermark.
    """
    others = [r for b, r in cluster.replicas.items() if b != place.broker]
    if place.what == "key":
        right = [r for r in others if r.id not in now or place.key not in now[r.id].keys]
        start, mine = oracle.compared_from(cluster), cluster.replicas[place.broker]
        shown = oracle.values_shown(mine, place.key, start)
        unlike = any(oracle.values_shown(r, place.key, start) != shown for r in right)
        turned = turned_of(truth, now[place.broker], place.key)
        return unlike or any(_has_an_emptied_end(mine, span) for span, _ in turned)
    if place.what == "progress" and place.span is not None:
        producer = place.span.producer_id
        telling = [r for r in others if not _ends_unshown(r, producer)]
        hanging = {s.producer_id for r in telling if r.id in now for s in now[r.id].hanging}
        return any(r.id not in now for r in telling) or (bool(telling) and producer not in hanging)
    if place.what == "record":
        held = [r for r in others if not compacted or _holds(r, place.offset)]
        return any(r.id not in now or place.offset not in now[r.id].offsets for r in held)
    offsets = [o for span, turned in now[place.broker].turned for o in turned if place.span in (None, span)]
    mine = [o for o in offsets if _holds(cluster.replicas[place.broker], o)]
    entries = {a.first for a in cluster.replicas[place.broker].aborted}
    listed = [o for o in entries.intersection(offsets) if truth.end_of(o) is End.COMMIT]
    if any(_holds(r, o) and _tells_outcome(r, truth, o) for o in listed for r in others):
        return True
    ended = {o for o in mine if _ended_before(cluster.replicas[place.broker], truth, o)}
    return any(_tells_outcome(r, truth, o, by_marker=o not in ended) for o in mine for r in others)


def holds(cluster: Cluster, now: Moment, place: Place) -> bool:
    """Whether a replica holds a record still of a transaction that it has ended wrongly."""
    replica = cluster.replicas[place.broker]
    turned = (part for span, part in now[place.broker].turned if span == place.span)
    return any(_holds(replica, offset) for part in turned for offset in part)


def _ends_unshown(replica: Replica, producer: int) -> bool:
    """Whether a log has an end marker of a producer that no follower has yet: nobody is shown it."""
    ends = [b.base for b in replica.batches if b.marker is not None and b.producer_id == producer]
    return bool(ends) and max(ends) >= replica.hw


def _ended_before(replica: Replica, truth: Truth, offset: int) -> bool:
    """Whether a replica holds the true end marker of a record, and between the two another one of its producer."""
    transaction = truth.of_offset[offset][1]
    if transaction is None or transaction.marker is None:
        return False
    ends = {b.base for b in replica.batches if b.marker is not None and b.producer_id == transaction.producer_id}
    return transaction.marker in ends and any(offset < end < transaction.marker for end in ends)


def _has_an_emptied_end(replica: Replica, span: Span) -> bool:
    """Whether a transaction of a replica goes on over an end marker that was emptied when it got it."""
    emptied = [b for b in replica.batches if b.control and b.marker is None and span.holds(b.producer_id, b.base)]
    held = {r.offset for b in replica.batches if b.producer_id == span.producer_id for r in b.records}
    return any(o in held for b in emptied for o in range(span.first, b.base))


def _holds(replica: Replica, offset: int) -> bool:
    return any(record.offset == offset for batch in replica.batches for record in batch.records)


def _tells_outcome(replica: Replica, truth: Truth, offset: int, *, by_marker: bool = True) -> bool:
    transaction = truth.of_offset[offset][1]
    if transaction is None:
        return False
    # A log that was not truncated far enough may hold at that offset an end marker that the truth does not have.
    true = transaction.marker, transaction.producer_id, transaction.end
    marked = transaction.end is not None and any((b.base, b.producer_id, b.marker) == true for b in replica.batches)
    if marked and by_marker:
        return True
    if _has_lost_its_entry(replica, transaction.producer_id, offset):
        return False
    listed = replica.is_aborted(transaction.producer_id, offset)
    return listed if transaction.end is End.ABORT else not listed and _holds(replica, offset)


def _has_lost_its_entry(replica: Replica, producer_id: int, offset: int) -> bool:
    """Whether a replica has aborted a record, and shows it as committed since its index is lost.

    That shows the true outcome by chance alone, where it had missed the true end marker: the one that it shows says
    otherwise. The same is seen where the transaction was aborted, and all others are right.
    """
    as_ended = {e.end for e in replica.ended if e.producer_id == producer_id and e.first <= offset <= e.marker}
    return End.ABORT in as_ended and not replica.is_aborted(producer_id, offset)


def repeated(standing: Sequence[Said], now: Moment) -> list[Broken]:
    """What is said twice.

    Of a key without direction, though each replica that is wrong about it is accused already. Of a replica, that it has
    ended a transaction otherwise than one end marker says: whatever lies below that is one transaction to it.
    """
    found = _twice_of_a_transaction(standing)
    for said in standing:
        if said.accused is not None or said.about != "key":
            continue
        wrong = {broker for broker, one in now.items() if said.key in one.unlike}
        others = [o for o in standing if o.accused is not None and o.about == "key" and o.key == said.key]
        accused = {
            broker for other in others for broker in (wrong if other.everywhere else other.brokers | other.alike)
        }
        if wrong and wrong <= accused:
            found.append(Broken(ONE_CAUSE, said.kind, f"{said}; accused already: {sorted(wrong)}"))
    return found


def _twice_of_a_transaction(standing: Sequence[Said]) -> list[Broken]:
    found, known = [], dict[tuple[int, int, int], Said]()
    for said in standing:
        if said.accused is None or said.about != "transaction" or said.marker < 0:
            continue
        cause = said.accused, said.producer_id, said.marker
        if cause in known:
            found.append(Broken(ONE_CAUSE, said.kind, f"{said}; said already: {known[cause]}"))
        known.setdefault(cause, said)
    return found
