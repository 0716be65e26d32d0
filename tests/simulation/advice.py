"""What an operator is advised on one finding, as it is printed, held against the oracle.

Every sentence that names a broker is read: one that is not known here fails, so that no advice goes unjudged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.simulation import oracle, properties
from tests.simulation.cluster import Cluster
from tests.simulation.properties import Broken, Said
from tests.simulation.records import End
from tests.simulation.replica import Replica

ADVICE = "advice"

_SOME = r"[Bb]rokers? (?P<{}>\d+(?:, \d+)*(?: (?:and|or) \d+)?)"


def _pattern(text: str, *names: str) -> re.Pattern[str]:
    return re.compile(text.format(*(_SOME.format(name) for name in names)))


_KNOWN: Sequence[re.Pattern[str]] = (
    _pattern("{} is proven wrong", "wrong"),
    _pattern(", {} (?:is|are) right in this", "right"),
    _pattern("{} shows? the same", "wrong"),
    _pattern("{} (?:was|were) read to show the same", "open"),
    _pattern("Nothing is proven of {}", "open"),
    _pattern("It is not known what consumers of {} read", "open"),
    _pattern("Consumers of {} (?!is)", "wrong"),
    _pattern("unless it is of {}", "open"),
    _pattern("Wipe nothing on {}: what is held there may be right", "open"),
    _pattern("{} leads the partition and (?:shows what {} does|lacks it as well): consumers", "leader", "wrong"),
    _pattern("{} leads the partition: consumers", "leader"),
    _pattern(r"{} leads, and must not\.", "leader"),
    _pattern("{} leads: nothing is proven", "leader_unproven"),
    _pattern("{} leads: consumers that read from the leader do not meet it", "spared"),
    _pattern(r"Those that fetch from {} \(client.rack\)", "wrong"),
    _pattern("If {} becomes the leader, consumers", "wrong"),
    _pattern("Once {} leads, consumers read what is right", "right"),
    _pattern("Keep {} from leading", "open"),
    _pattern("[Ll]et {} lead(?:, for a new copy is taken from the leader)?: run", "first"),
    _pattern("[Ll]et {} lead, for consumers of {} [^:]*: run", "first", "leader"),
    _pattern("puts {} first", "first"),
    _pattern("[Cc]heck with kafka-topics.sh --describe that {} leads", "sources"),
    _pattern("[Hh]ave {} drop its copy", "copied"),
    _pattern("[Gg]ive {} a new copy by a plan", "copied"),
    _pattern("Have {} rebuild its index", "wrong"),
    _pattern("{} may be the right one in finding", "open"),
    _pattern("{} holds the transaction open that has ended on {}", "open", "ended"),
    _pattern(r"{} must not\.", "unsafe"),
    _pattern("No finding is against {}", "safe"),
    _pattern("Of {} nobody can tell", "open"),
    # Why nobody is proven right: what was not seen of each. It says nothing of what any of them shows.
    re.compile(r"Which of the others is right is not proven: [^.]*\."),
    _pattern("Only where {} is found right(?:, and no end marker could be written)?: ", "condition"),
)
"""The sentences that name brokers, and what they say of them: see `Advice`."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What is said of brokers.

    Attributes:
        wrong: they show what is wrong, or are to be kept from leading.
        right: they are right in what the finding covers.
        leader: they lead, and show what is wrong.
        leader_unproven: they lead, and nothing is said of what they show.
        spared: they lead, and consumers do not meet what is wrong.
        first: they are to be made the leader.
        sources: of these the leader has to be one, from which a new copy is taken.
        copied: they are to drop their copy, and to get a new one.
        safe: no finding of the partition is against their leading, but for what all replicas share.
        unsafe: they must not lead, by some finding of the partition.
        open: nothing is said of them.
        ended: they have ended a transaction; nothing is said of how.
        condition: of these one is to be found right before anything else of it is done.
        assigned: the replicas of each assignment that is printed, in order.
        everywhere: all replicas show what is wrong.
        unsettled: none is proven wrong any more, and it is said that one may be still.
        exposed: the finding says that consumers of the leader meet it.
        only: what is advised besides, only where a broker is found right, by that broker.
    """

    wrong: frozenset[int] = frozenset()
    right: frozenset[int] = frozenset()
    leader: frozenset[int] = frozenset()
    leader_unproven: frozenset[int] = frozenset()
    spared: frozenset[int] = frozenset()
    first: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()
    copied: frozenset[int] = frozenset()
    safe: frozenset[int] = frozenset()
    unsafe: frozenset[int] = frozenset()
    open: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    condition: frozenset[int] = frozenset()
    assigned: tuple[tuple[int, ...], ...] = ()
    everywhere: bool = False
    unsettled: bool = False
    exposed: bool = False
    only: Mapping[int, Advice] = field(default_factory=dict)


_ASSIGNMENT = re.compile(r'^\{"version".*\}$', re.MULTILINE)


def conditional(steps: Sequence[tuple[int | None, str, str]]) -> dict[int, Advice]:
    """Read the steps that may be done only where a broker is found right, by that broker.

    Args:
        steps: of each, the broker, None where it may be done anyway; what is said; and the lines to run.

    Raises:
        AssertionError: one does not say so in its words as well.
    """
    found: dict[int, Advice] = {}
    for broker in sorted({only for only, *_ in steps if only is not None}):
        mine = [(text, run) for only, text, run in steps if only == broker]
        for text, _ in mine:
            assert read([text], []).condition == {broker}, f"its words do not say only where: {text}"
        found[broker] = read([text for text, _ in mine], [one for _, run in mine for one in _ASSIGNMENT.findall(run)])
    return found


def read(
    sentences: Sequence[str],
    assignments: Sequence[str],
    *,
    exposed: bool = False,
    only: Mapping[int, Advice] | None = None,
) -> Advice:
    """Read an advice as it is printed.

    Args:
        sentences: all that is said, but for what happened.
        assignments: as kafka-reassign-partitions.sh reads them.
        exposed: the finding says that consumers of the leader meet it.
        only: what is advised only where a broker is found right.

    Raises:
        AssertionError: something is said of a broker that is not known here.
    """
    found: dict[str, set[int]] = {}
    for sentence in sentences:
        rest = sentence
        for pattern in _KNOWN:
            for match in pattern.finditer(sentence):
                for name, brokers in match.groupdict(default="").items():
                    found.setdefault(name, set()).update(map(int, re.findall(r"\d+", brokers)))
            rest = pattern.sub("", rest)
        assert not re.search(r"[Bb]rokers? \d", rest), f"no property holds what is said here: {rest}"
    replicas = [tuple(part["replicas"]) for text in assignments for part in json.loads(text)["partitions"]]
    everywhere = any(re.search("all replicas share it|of every replica", sentence) for sentence in sentences)
    everywhere &= not found.get("open")
    named = {name: frozenset(brokers) for name, brokers in found.items()}
    unsettled = any("If one still is" in sentence for sentence in sentences)
    said = Advice(**named, assigned=tuple(replicas), everywhere=everywhere, unsettled=unsettled, exposed=exposed)
    return replace(said, only=only or {})


class Were(NamedTuple):
    """Who was right, and who was wrong, in what a finding says, while it was probed; some were first one, then other.

    Of a transaction one may also be both at one moment: right in its records, and wrong in the value of a key.
    """

    right: frozenset[int]
    wrong: frozenset[int]


@dataclass(frozen=True, slots=True)
class States:
    """The cluster while a probe was on its way: as it was when that began, whenever it moved on, and as it is now.

    Attributes:
        leaders: who led meanwhile.
    """

    clusters: tuple[Cluster, ...]
    compacted: bool

    @property
    def leaders(self) -> frozenset[int]:
        """Who led meanwhile."""
        return frozenset(self.clusters[-1].led[len(self.clusters[0].led) - 1 :])

    def were(self, said: Said) -> Were:
        """Who was ever right, and who was ever wrong, in what a finding says."""
        replicas = self.clusters[-1].replicas
        right = frozenset(b for b in replicas if self.ever_right(said, b))
        return Were(right, frozenset(b for b in replicas if self.ever_wrong(said, b)))

    def ever_wrong(self, said: Said, broker: int) -> bool:
        """Whether a replica was wrong in what a finding names at any of these moments."""
        return any(is_wrong(said, broker, cluster, self.compacted) for cluster in self.clusters)

    def was_yet_to_copy(self, said: Said, broker: int) -> bool:
        """Whether a replica's log ended below what a finding names at any of these moments.

        A replica that is being copied shows its consumers nothing there, right or wrong. If all others share a loss, it
        can copy nothing else: no right replica is left, and that is what an operator is to know.
        """
        logs = [cluster.replicas[broker] for cluster in self.clusters if broker in cluster.replicas]
        return any(log.leo == log.log_start if said.about == "head" else log.leo <= said.offset for log in logs)

    def ever_right(self, said: Said, broker: int) -> bool:
        """Whether a replica was right in what a finding covers at any of these moments."""
        return any(is_right(said, broker, cluster, self.compacted) for cluster in self.clusters)

    def was_only_late(self, said: Said, broker: int) -> bool:
        """Whether a replica lacked, of the key that a finding names, nothing but what was written behind that."""
        logs = ((cluster, cluster.replicas.get(broker)) for cluster in self.clusters)
        return said.about == "key" and any(log is not None and _is_only_late(said, state, log) for state, log in logs)


def is_wrong(said: Said, broker: int, cluster: Cluster, compacted: bool) -> bool:
    """Whether a replica is wrong in what a finding names, or in a transaction of its own that has to do with it."""
    replica, of_it = cluster.replicas.get(broker), replace(said, accused=broker, sides=frozenset())
    if replica is None:
        return False
    if said.about == "cut":
        return properties.was_cut(cluster, of_it) or _lacks_what_was_lost(said, cluster, replica)
    if said.about == "head":
        return replica.log_start > cluster.deleted_to
    # Nobody has to know what lies below the largest log start, but who says so is not mistaken.
    truth = oracle.truth_of(cluster)
    found = [oracle.wrong_in(truth, replica, start, compacted) for start in properties.starts(cluster, replica)]
    if any(_lacks_what_it_superseded(said, truth, replica, wrong) for wrong in found):
        return True
    return any(properties.is_wrong_in(of_it, wrong) for wrong in found) or properties.misleads(of_it, cluster)


def _is_only_late(said: Said, cluster: Cluster, replica: Replica) -> bool:
    """Whether a replica shows no older record of a key than a finding names, and a newer one was written.

    A cleaner that has taken the newer one for the sake of what was truncated since has a cause of its own. Such a
    replica is right in what the finding says, and nobody is to copy it.
    """
    shown = oracle.newest_shown(replica, said.key), oracle.newest_uncommitted(replica, said.key)
    is_newer = any(
        record.key == said.key and record.offset > said.offset for record, _ in oracle.truth_of(cluster).records
    )
    return is_newer and not any(0 <= offset < said.offset for offset in shown)


def _lacks_what_it_superseded(said: Said, truth: oracle.Truth, replica: Replica, wrong: oracle.Wrong) -> bool:
    """Whether a replica lacks the true value of the key of an aborted record, written before it, and any since.

    Who took the record for committed had its cleaner take what it superseded. That stays so when the log was truncated
    behind it, and has ended the transaction rightly since; no other log than a new copy mends it.
    """
    if said.about != "transaction" or said.key is None or said.key not in wrong.unlike:
        return False
    known = truth.of_offset.get(said.offset)
    is_of_it = known is not None and known[0].key == said.key and truth.end_of(said.offset) is End.ABORT
    is_older = 0 <= truth.latest.get(said.key, -1) < said.offset
    return is_of_it and is_older and oracle.newest_shown(replica, said.key) < truth.latest[said.key]


def is_right(said: Said, broker: int, cluster: Cluster, compacted: bool) -> bool:
    """Whether a replica is right in what a finding covers; of a transaction, in those records that are of it in truth.

    What it makes of other transactions of the producer is another matter, though it has taken them for one. So is how
    it had ended records that are there no more, where it shows the true values of their keys, or what was written
    since, or lacks that (which may be wrong for another cause): no consumer and no copy gets anything wrong of it.
    """
    replica = cluster.replicas.get(broker)
    if replica is None or said.about != "transaction":
        return replica is not None and not is_wrong(said, broker, cluster, compacted)
    truth = oracle.truth_of(cluster)
    covered = covered_by(said, truth)
    if not covered:
        return not is_wrong(said, broker, cluster, compacted)
    wrong = oracle.wrong_in(truth, replica, min(covered), compacted)
    hangs = any(span.holds(said.producer_id, offset) for span in wrong.hanging for offset in covered)
    turned = {offset for _, offsets in wrong.turned for offset in covered & offsets}
    keys = {key for o in turned if (key := truth.of_offset[o][0].key) in wrong.unlike}
    unlike = any(max(truth.latest.get(key, -1), oracle.newest_shown(replica, key)) <= max(covered) for key in keys)
    return not hangs and not unlike and not any(_holds(replica, o) for o in turned)


def covered_by(said: Said, truth: oracle.Truth) -> frozenset[int]:
    """The records of the true transactions that a finding covers."""
    end = max(said.marker, said.start + 1, said.offset + 1)
    named = {said.offset, *(range(said.start, end) if said.start >= 0 else ())}
    mine = [t for t in truth.transactions if t.producer_id == said.producer_id and named.intersection(t.offsets)]
    return frozenset(offset for transaction in mine for offset in transaction.offsets)


def _lacks_what_was_lost(said: Said, cluster: Cluster, replica: Replica) -> bool:
    """Whether a log never held some of what the cluster has lost from about an offset on, or holds it no more.

    What was written in a newer epoch than the log that was truncated is of another loss.
    """
    lost = [batch for batch in cluster.lost if batch.last >= said.offset and not 0 <= said.epoch < batch.leader_epoch]
    return any(
        batch.base >= replica.leo or oracle.epoch_at(replica, batch.base) != batch.leader_epoch for batch in lost
    )


def lies(advice: Advice, said: Said, beside: Sequence[tuple[Said, Were]], states: States) -> Iterator[Broken]:
    """What of an advice does not hold at the time of the probe that it rests on.

    Args:
        advice: on one finding.
        said: by that finding.
        beside: said by the others that stand, with who was right and wrong in that when it was reported last.
        states: of the cluster, while the probe was on its way.
    """
    texts = [*_of_what_is_done(advice, said, beside, states), *_of_the_leader(advice, said, states)]
    texts += _of_who_may_lead(advice, said, beside, states)
    if advice.condition or not advice.only.keys() <= advice.ended:
        texts.append("what may be done only where a broker is right is advised anyway, or of one that has not ended it")
    for part in _that_may_be_done(advice, said, states):
        texts += _of_what_is_done(part, said, beside, states)
    for text in texts:
        yield Broken(ADVICE, said.kind, f"{text}; {said}; {advice}")


def _that_may_be_done(advice: Advice, said: Said, states: States) -> Iterator[Advice]:
    """What is advised where a broker is found right, if it is: an operator who finds that out does it."""
    for broker, part in advice.only.items():
        if states.ever_right(said, broker):
            yield replace(part, right=advice.right | {broker})


def _of_what_is_done(advice: Advice, said: Said, beside: Sequence[tuple[Said, Were]], states: States) -> Iterator[str]:
    yield from _of_brokers(advice, said, states)
    yield from _of_copies(advice, states)
    yield from _of_what_is_destroyed(advice, beside, states)


def _of_brokers(advice: Advice, said: Said, states: States) -> Iterator[str]:
    """That all share what an unclean election has lost is true, though the truth does not have it any more."""
    if said.everywhere and states.clusters[-1].lost:
        return
    for broker in sorted(advice.right | advice.first | advice.sources):
        is_copied = broker in advice.first | advice.sources
        if not states.ever_right(said, broker) and (is_copied or not states.was_only_late(said, broker)):
            yield f"broker {broker} is called right and was wrong"
    for broker in sorted(advice.wrong | advice.copied | advice.leader):
        if said.accused is not None and not states.ever_wrong(said, broker):
            yield f"broker {broker} is said to be wrong and was right"
    for broker in sorted(states.clusters[-1].replicas) if advice.everywhere else ():
        if not states.ever_wrong(said, broker) and not states.was_yet_to_copy(said, broker):
            yield f"all replicas are said to share it, and broker {broker} was right"


def _of_who_may_lead(advice: Advice, said: Said, beside: Sequence[tuple[Said, Were]], states: States) -> Iterator[str]:
    """Who is called safe is right in each finding; who must not lead is wrong in one of them.

    What a finding says is of when its replicas were asked last, which for those beside may be some time ago.
    """
    others = [(one, were) for one, were in beside if not one.everywhere]
    for broker in sorted(advice.safe):
        were_right = [states.ever_right(said, broker)]
        were_right += [broker in were.right or states.ever_right(one, broker) for one, were in others]
        if not all(were_right):
            yield f"broker {broker} is called safe to lead and was wrong"
    for broker in sorted(advice.unsafe):
        accusing = [(one, were) for one, were in ((said, states.were(said)), *others) if one.accused is not None]
        if not any(broker in were.wrong or states.ever_wrong(one, broker) for one, were in accusing):
            yield f"broker {broker} is said to have to be kept from leading and was right"


def _of_the_leader(advice: Advice, said: Said, states: States) -> Iterator[str]:
    named = advice.leader | advice.leader_unproven | advice.spared
    if not named <= states.leaders:
        yield f"brokers {sorted(named)} are said to lead, and {sorted(states.leaders)} did"
    for broker in sorted(advice.spared):
        if not states.ever_right(said, broker):
            yield f"consumers are said not to meet it on the leader, and broker {broker} was wrong"
    if (
        not advice.exposed
        and not advice.unsettled
        and all(meets_it(said, cluster, states.compacted) for cluster in states.clusters)
    ):
        yield f"it is said not to be exposed, and consumers of broker {states.clusters[-1].leader} met it"


def meets_it(said: Said, cluster: Cluster, compacted: bool) -> bool:
    """Whether consumers of the leader meet what a finding says: it is wrong in that, and shows what the accused shows.

    Without direction: whether it is one of the sides. Where it does not hold the record of a transaction any more, it
    is none by now, unless it is wrong in that still.
    """
    if said.accused is None:
        held = said.about != "transaction" or _holds(cluster.leading, said.offset)
        return cluster.leader in said.sides and (held or any(_misled_by(said, cluster, cluster.leading)))
    if is_right(said, cluster.leader, cluster, compacted):
        return False
    return cluster.leader == said.accused or _show_alike(said, cluster)


def _show_alike(said: Said, cluster: Cluster) -> bool:
    """Whether the leader and the accused show their consumers the same of what a finding covers."""
    if said.accused not in cluster.replicas:
        return False
    both = cluster.replicas[said.accused], cluster.leading
    if said.about == "transaction":
        accused, leading = (_misled_by(said, cluster, replica) for replica in both)
        return any(leading) and accused == leading
    if said.about == "head":  # what it lacks lies below the offset that is named, the first that the accused has
        return cluster.leading.log_start >= said.offset
    if said.about == "key":
        start = oracle.compared_from(cluster)
        values = [oracle.values_shown(replica, said.key, start) for replica in both]
    else:
        values = [[r for _, r in replica.held(said.offset, said.offset + 1)] for replica in both]
    return values[0] == values[1]


def _misled_by(said: Said, cluster: Cluster, replica: Replica) -> tuple[bool, bool, frozenset[oracle.Key]]:
    """How the transaction of a finding misleads consumers of a replica as it is now.

    It holds them back, or they are shown the record that the finding names as it was not ended, or other values than
    the true ones of keys of records that were. A record that is there no more misleads nobody by itself.
    """
    truth = oracle.truth_of(cluster)
    wrong = oracle.wrong_in(truth, replica, replica.log_start, compacted=True)
    turned = {o for span, offsets in wrong.turned if properties.is_of(span, said) for o in offsets}
    shown = said.offset in turned and said.offset < replica.lso and _shows_otherwise(truth, said, replica)
    hanging = any(properties.is_of(span, said) for span in wrong.hanging)
    return hanging, shown, wrong.unlike & {truth.of_offset[o][0].key for o in turned}


def _shows_otherwise(truth: oracle.Truth, said: Said, replica: Replica) -> bool:
    """Whether a replica holds the record of a finding and shows it otherwise than its transaction ended."""
    was_aborted = truth.end_of(said.offset) is End.ABORT
    return _holds(replica, said.offset) and replica.is_aborted(said.producer_id, said.offset) != was_aborted


def _holds(replica: Replica, offset: int) -> bool:
    return any(record is not None for _, record in replica.held(offset, offset + 1))


def _of_copies(advice: Advice, states: States) -> Iterator[str]:
    members = [frozenset(cluster.replicas) for cluster in states.clusters]
    for replicas in advice.assigned:
        if replicas[0] not in advice.right:
            yield f"broker {replicas[0]} is put first and not called right"
        if not any(frozenset(replicas) in (those, those - advice.copied) for those in members):
            yield f"the assignment to {replicas} is not that of the partition without {sorted(advice.copied)}"
    if not advice.first | advice.sources <= advice.right or len(advice.first) > 1:
        yield "brokers are to lead that are not called right, or several"
    if advice.copied and not advice.sources:
        yield f"{sorted(advice.copied)} are to be copied, and from whom is not said"


def _of_what_is_destroyed(advice: Advice, beside: Sequence[tuple[Said, Were]], states: States) -> Iterator[str]:
    """What is shared by all is lost already. One that is accused was wrong when the other finding was reported last."""
    for other, were in beside if advice.copied else ():
        if other.everywhere or (other.accused in advice.copied and other.accused not in were.right):
            continue
        if not any(states.ever_right(other, broker) for broker in advice.copied):
            continue
        for source in sorted(advice.sources - were.right):
            if not states.ever_right(other, source):
                yield f"a copy of broker {source} destroys what is right in {other}"
