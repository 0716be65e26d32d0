"""Judges what replicas hold at single offsets, and where their logs begin."""

from __future__ import annotations

from collections.abc import Iterator

from parallax.evidence.atoms import End, Fact, Place
from parallax.evidence.log import Belongs
from parallax.judge.case import Case
from parallax.judge.verdicts import About, Proof, Undecided, Verdict, World


def records(case: Case) -> Iterator[Verdict | Undecided]:
    """Judge what replicas hold at single offsets: yields verdicts, or which evidence is missing for one.

    - A replica that shows a record which is not of the current log is wrong, unless the current log's record there is
      the same to consumers. If nobody was shown the current log's record, it may have been the same. Then it is unknown
      whether the replica is wrong.
    - Replicas that show two contents at one place differ: a disk changed bytes. Replicas that show records of two
      leader epochs at one offset differ too, if nobody can say which of the two is of the current log.
    - In a topic that is not compacted, a replica is wrong if it lacks a record of the current log above its log start.
      It may lack an aborted record.

    A verdict is about the offset alone, and names no key. What replicas show of the record's key is judged by `keys`.

    Example: broker 3 shows (7, 2), and the leader's log holds (7, 3): broker 3 is wrong. Counter-example: broker 3
    shows nothing at 7 in a compacted topic. Its cleaner may have removed it.
    """
    for broker, look in case.looks.items():
        for place, fact in look.facts.items():
            is_cut = place.offset >= case.start and case.lineage.of(place) is Belongs.NO
            if not is_cut or _is_alike(fact, case.facts.get(place.offset)):
                continue
            if place.offset not in case.facts and _may_have_gone(case, fact):
                yield Undecided(About.RECORD, broker, ((place.offset, place.offset + 1),), offset=place.offset)
                continue
            newer = [Place(place.offset, epoch) for epoch in case.ledger.at[place.offset]]
            proof = Proof.of([World(frozenset({broker}))], {broker}, newer)
            yield Verdict(about=About.RECORD, proof=proof, accused=broker, offset=place.offset, producer=fact.producer)
    yield from _unlike(case)
    if not case.partition.compacted:
        yield from _lost(case)


def _is_alike(fact: Fact, stands: Fact | None) -> bool:
    """Whether the current log's fact at the same offset is the same to consumers, written twice by two leaders.

    Consumers are shown a record's key and value, and not who wrote it. How it ended is a verdict of its own.
    """
    if stands is None or fact.end is not stands.end:
        return False
    if fact.end is not None:
        return fact.producer == stands.producer
    return (fact.key, fact.value) == (stands.key, stands.value)


def _may_have_gone(case: Case, fact: Fact) -> bool:
    """Whether the current log may have held a fact like this one at its offset, until a cleaner removed it.

    It may where there is room for it. A record that was superseded may have gone before anybody read it.
    """
    if case.room.between(fact.offset - 1, fact.offset + 1):
        return True
    if fact.end is not None:
        return False
    newer = (f for f in case.facts.values() if f.end is None and f.key == fact.key and f.offset > fact.offset)
    return case.room.between(fact.offset, case.top) or any(newer)


def _unlike(case: Case) -> Iterator[Verdict]:
    """Two contents at one offset, and nobody can say which is the log's."""
    unlike = {place.offset for place in case.ledger.unlike}
    for offset, epochs in case.ledger.at.items():
        if offset < case.start or (len(epochs) == 1 and offset not in unlike):
            continue
        held: dict[object, frozenset[int]] = {}
        for broker, look in case.looks.items():
            for epoch in epochs:
                fact = look.facts.get(Place(offset, epoch))
                if fact is not None and case.lineage.of(fact.place) is not Belongs.NO:
                    held[fact] = held.get(fact, frozenset()) | {broker}
        if len(held) > 1:
            every = frozenset[int]().union(*held.values())
            worlds = [World(every - holders) for holders in held.values()]
            places = [Place(offset, epoch) for epoch in epochs]
            proof = Proof.of(worlds, every, places, [(offset, offset + 1)])
            yield Verdict(about=About.RECORD, proof=proof, sides=every, offset=offset)


def _lost(case: Case) -> Iterator[Verdict | Undecided]:
    """Records that a replica lacks in a topic that is not compacted.

    Aborted ones are left out, since nobody misses them.
    """
    held = {broker: {place.offset for place in look.facts} for broker, look in case.looks.items()}
    for offset, fact in case.facts.items():
        if fact.end is not None:
            continue
        read = {b for b, look in case.looks.items() if max(case.start, look.log_start) <= offset < look.high_watermark}
        lacking = frozenset(b for b in read if offset not in held[b] and case.looks[b].lacks(fact.place))
        if not lacking:
            continue
        group = case.transactions.of.get(offset) if fact.transactional else None
        options = (End.COMMIT,) if group is None else group.options
        holders = frozenset(broker for broker, look in case.looks.items() if fact.place in look.facts)
        worlds = [World(lacking if option is not End.ABORT else frozenset()) for option in options]
        missing = () if group is None else group.missing
        proof = Proof.of(worlds, lacking | holders, [fact.place], missing)
        for broker in sorted(proof.wrong):
            yield Verdict(
                about=About.RECORD,
                proof=proof,
                accused=broker,
                right=holders,
                everywhere=not holders and lacking >= case.partition.replicas,
                offset=offset,
            )
        for broker in sorted(lacking & proof.unknown):
            yield Undecided(About.RECORD, broker, missing, offset=offset)


def heads(case: Case) -> Iterator[Verdict]:
    """Judge where logs begin: yields a verdict about each replica whose log begins too high.

    A log begins too high if another log has begun lower, in a topic whose policy only compacts. A replica whose log
    begins as low as any log has is right. An empty log is neither right nor wrong: it begins at 0 until its replica has
    got the first answer of the leader.

    Example: the policy only compacts, broker 1 begins at 0, and broker 2 at 40. Broker 2 has lost its head.
    Counter-example: the policy deletes as well.
    """
    head = case.ledger.head
    if case.partition.deletes or head is None or not case.partition.compacted:
        return
    holding = {broker: look for broker, look in case.looks.items() if look.log_end > look.log_start}
    late = frozenset(broker for broker, look in holding.items() if look.log_start > head)
    for broker in sorted(late):
        proof = Proof.of([World(late)], holding)
        yield Verdict(
            about=About.HEAD,
            proof=proof,
            accused=broker,
            right=proof.right,
            everywhere=late >= case.partition.replicas,
            offset=case.looks[broker].log_start,
        )
