"""Histories: lists of plain operations on a cluster and its monitor, drawn from a seed, replayable and shrinkable.

An operation is a tuple of a name and integers. One that is impossible where it stands does nothing, so any sublist
of a history is a history, and shrinking is leaving out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parallax.findings.incidents import ALONE

RETENTION = 2_000
EXPIRATION = 5_000
BROKERS = (1, 2, 3)
TOMBSTONE = -1
NO_KEY = -1
PLAIN = -1
FILLER = 90

Op = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Profile:
    """How a history is drawn."""

    seed: int
    healthy: bool
    length: int
    keys: int
    writers: int
    busy_reader: float
    trims: bool
    moves: bool
    late: bool
    """The readers begin at the end of the log."""
    cap: int | None
    """Bytes of state, where it is kept very small."""
    brokers: tuple[int, ...]
    compacted: bool = True
    """The topic is compacted; if not, nothing is ever cleaned, and a replica may lose a batch for no reason at all."""
    wired: bool = False
    """What replicas hold is read as bytes, by the product's own reader and decoder."""
    shared: bool = False
    """One Fetch serves both isolation levels of a replica."""
    idempotent: bool = False
    """Some writes come from an idempotent producer; in a topic that is not compacted some have no key."""
    wipes: bool = False
    """Disks are replaced by empty ones."""
    unclean: bool = False
    """Replicas that are not in sync come to lead; only in faulty histories."""
    reassigns: bool = False
    """The partition is taken from a broker and given back to it."""
    hosts: tuple[int, ...] = BROKERS
    """The brokers that operations are drawn for."""
    kinds: tuple[str, ...] = ()
    """What else befalls it, by the names of tests/simulation/kinds.py."""
    alone: int = ALONE
    """More findings of a kind about one replica are an incident; with 0 each is."""
    siblings: bool = False
    """Other partitions have a part in each transaction, and their end markers are read."""
    kills: int = 0
    """In so many operations the monitor's job is killed once, and begins again from its tables; with 0 never."""


def profile(seed: int, healthy: bool) -> Profile:
    """The profile of a seed."""
    draw = random.Random(seed * 2 + healthy)
    return Profile(
        seed=seed,
        healthy=healthy,
        length=draw.randint(10, 60),
        keys=draw.randint(1, 4),
        writers=draw.choice((0, 2, 2, 3, 4)),
        busy_reader=draw.choice((0.1, 0.3, 0.6)),
        trims=draw.random() < 0.15,
        moves=draw.random() < 0.5,
        late=draw.random() < 0.1,
        cap=draw.choice((400, 1_000, 3_000)) if draw.random() < 0.1 else None,
        brokers=BROKERS[:2] if draw.random() < 0.15 else BROKERS,
        compacted=seed % 8 != 6,
        **_later_kinds(seed, healthy),
    )


EVENTFUL = frozenset({0, 2, 6, 11, 13, 14, 15})
"""The seeds, modulo 16, whose histories hold what the model learnt later: the others stay as they were."""


def _later_kinds(seed: int, healthy: bool) -> dict[str, Any]:
    """What a history holds beside, from draws of its own."""
    draw = random.Random(f"kinds {seed} {healthy}")
    wired = draw.random() < 1 / 8
    kinds = {"idempotent": draw.random() < 0.5, "wipes": draw.random() < 0.4, "reassigns": draw.random() < 0.4}
    kinds["unclean"] = draw.random() < 0.3 and not healthy
    return {"wired": wired, **{kind: has and seed % 16 in EVENTFUL for kind, has in kinds.items()}}


def generate(p: Profile) -> list[Op]:
    """The operations of a profile."""
    draw = random.Random(p.seed * 7 + 1)
    ops: list[Op] = []
    outages = draw.choice((0, 1, 1, 1, 2))
    at = sorted(draw.randrange(p.length // 2, p.length) for _ in range(outages))
    for i in range(p.length):
        while at and at[0] == i:
            at.pop(0)
            ops += with_noise(draw, p, _outage(draw, p))
        ops += step(draw, p)
    return _eventful(p, ops)


def with_kills(p: Profile, ops: list[Op]) -> list[Op]:
    """The history with the job killed now and then, each time before an operation."""
    if not p.kills:
        return ops
    draw = random.Random(f"kills {p.seed}")
    return [one for op in ops for one in (*([("kill", 0, 0, 0)] if draw.randrange(p.kills) == 0 else ()), op)]


def _eventful(p: Profile, ops: list[Op]) -> list[Op]:
    """The history with what was added to the model later, at places of its own."""
    draw = random.Random(f"events {p.seed}")
    if p.idempotent:
        for _ in range(draw.randint(1, 8)):
            key = NO_KEY if not p.compacted and draw.random() < 0.5 else draw.randrange(p.keys)
            value = TOMBSTONE if draw.random() < 0.3 else draw.randrange(100)
            ops.insert(draw.randint(0, len(ops)), ("put", key, value, 0))
    for _ in range(p.wipes * draw.randint(1, 2)):
        ops.insert(draw.randint(0, len(ops)), ("wipe", draw.choice(BROKERS), draw.randrange(2), 0))
    for _ in range(p.reassigns * draw.randint(1, 2)):
        broker, at = draw.choice(BROKERS), draw.randint(0, len(ops))
        ops.insert(at, ("unassign", broker, 0, 0))
        ops.insert(min(len(ops), at + draw.choice((1, 2, 5, 20))), ("assign", broker, 0, 0))
    for _ in range(p.unclean * draw.randint(1, 2)):
        at = draw.randint(0, len(ops))
        ops[at:at] = with_noise(draw, p, _usurped(draw, p))
    return ops


def _usurped(draw: random.Random, p: Profile) -> list[Op]:
    """One replica falls behind; the others die, and it leads on without what it lacks."""
    behind = draw.choice(BROKERS)
    ops: list[Op] = [("sync", 0, 0, 0), ("stop", behind, 0, 0)]
    for _ in range(draw.randint(1, 4)):
        ops.append(_write(draw, p))
        if draw.random() < 0.3:
            ops.append(("end", draw.randrange(4), draw.randrange(2), 0))
    ops.append(("sync", 0, 0, 0))
    if draw.random() < 0.7:
        ops.append(("round", 0, 0, 0))
    ops.append(("usurp", behind, 0, 0))
    ops += [_write(draw, p) for _ in range(draw.randint(0, 5))]
    if draw.random() < 0.3:
        ops.append(("end", draw.randrange(4), draw.randrange(2), 0))
    return [*ops, *(("start", b, 0, 0) for b in draw.sample(BROKERS, draw.randint(0, 3)))]


def with_noise(draw: random.Random, p: Profile, ops: list[Op]) -> Iterator[Op]:
    noise = draw.choice((0.0, 0.03, 0.1, 0.4))
    for op in ops:
        if draw.random() < noise:
            yield from step(draw, p)
        if draw.random() < p.busy_reader:
            yield from _look(draw, p.hosts)
        yield op


def step(draw: random.Random, p: Profile) -> list[Op]:
    if draw.random() < p.busy_reader:
        return _look(draw, p.hosts)
    broker = draw.choice(p.hosts)
    choices = [
        (5, lambda: [_write(draw, p)]),
        (3, lambda: [("end", draw.randrange(4), draw.randrange(2), 0)]),
        (3, lambda: [("tick", draw.choice((1, 30, 150, 500)), 0, 0)]),
        (4, lambda: [("fetch", broker, draw.choice((1, 2, 50)), 0)]),
        (3, lambda: [("sync", 0, 0, 0)]),
        (3, lambda: [("clean", broker, 0, 0)]),
        (3, lambda: turn(draw, hosts=p.hosts)),
        (1, lambda: [("stop", broker, 0, 0)]),
        (1.5, lambda: [("start", broker, 0, 0)]),
        (0.5, lambda: [("checkpoint", 0, 0, 0)]),
        (0.7 * p.moves, lambda: [("lead", broker, 0, 0)]),
        (0.5 * p.trims, lambda: [("trim", draw.randint(1, 3), 0, 0)]),
        (1.0 * (not p.compacted and not p.healthy), lambda: [("lose", broker, draw.randrange(10), 0)]),
    ]
    return draw.choices([c for _, c in choices], [w for w, _ in choices])[0]()


def _look(draw: random.Random, hosts: tuple[int, ...]) -> list[Op]:
    broker = draw.choice(hosts)
    choices = [
        (6, ("read", draw.randrange(2), broker, draw.choice((1, 3, 1_000)))),
        (1, ("progress", broker, 0, 0)),
        (2, ("batch", draw.choice((3, 5, 10)), draw.randrange(4) == 0, draw.randrange(6) == 0)),
        (1, ("probe", draw.choice((0, draw.randrange(1, 1_000))), 0, 0)),
        (1, ("round", draw.choice((0, draw.randrange(1, 1_000))), 0, 0)),
    ]
    return [draw.choices([c for _, c in choices], [w for w, _ in choices])[0]]


def stir(draw: random.Random, hosts: tuple[int, ...] = BROKERS) -> Op | None:
    """What may happen on the cluster between two questions of a probe."""
    broker = draw.choice(hosts)
    return draw.choices(
        [
            None,
            ("fetch", broker, draw.choice((1, 50)), 0),
            ("sync", 0, 0, 0),
            ("clean", broker, 0, 0),
            ("tick", draw.choice((1, 150)), 0, 0),
            ("write", draw.randrange(-1, 4), draw.randrange(3), draw.choice((TOMBSTONE, 7))),
            ("end", draw.randrange(4), draw.randrange(2), 0),
            ("lead", broker, 0, 0),
        ],
        [8, 4, 1, 3, 2, 2, 2, 0.3],
    )[0]


def _write(draw: random.Random, p: Profile) -> Op:
    writer = draw.randrange(p.writers) if p.writers and draw.random() < 0.5 else PLAIN
    value = TOMBSTONE if draw.random() < 0.3 else draw.randrange(100)
    return ("pair" if draw.random() < 0.1 else "write", writer, draw.randrange(p.keys), value)


def turn(draw: random.Random, ms: int = 200, hosts: tuple[int, ...] = BROKERS) -> list[Op]:
    """Close the segment, replicate, and clean the brokers once."""
    brokers = list(hosts)
    draw.shuffle(brokers)
    filler: Op = ("write", PLAIN, FILLER, draw.randrange(100))
    return [("tick", ms, 0, 0), filler, ("sync", 0, 0, 0), *(("clean", b, 0, 0) for b in brokers)]


def _lose(draw: random.Random) -> list[Op]:
    return [op for _ in range(draw.randint(3, 5)) for op in turn(draw, draw.choice((200, RETENTION + 1)))] + turn(
        draw, RETENTION + 1
    )


def _outage(draw: random.Random, p: Profile) -> list[Op]:
    """An outage around something that is written meanwhile, and cleaning until nothing of it is left.

    In a healthy history the broker is back before the delete retention is over (see ``World.keep_level``).
    """
    away, key, writer = draw.choice(BROKERS), draw.randrange(p.keys), draw.randrange(4)
    expire: list[Op] = [("tick", EXPIRATION, 0, 0)] if draw.random() < 0.4 else []
    calm: list[Op] = [("start", b, 0, 0) for b in BROKERS] + [("sync", 0, 0, 0)]
    calm += [("end", w, draw.randrange(2), 0) for w in range(4)]
    stop: list[Op] = [("sync", 0, 0, 0), ("stop", away, 0, 0)]
    start: list[Op] = [("start", away, 0, 0), ("sync", 0, 0, 0)]
    seen: list[Op] = [("sync", 0, 0, 0), ("round", 0, 0, 0)] if draw.random() < 0.8 else []
    value = draw.randrange(100)
    if draw.random() < 0.3:
        written: list[Op] = [("write", PLAIN, key, value), *stop, ("write", PLAIN, key, TOMBSTONE)]
        return [*calm, *written, *seen, *_lose(draw), *start]
    end = draw.randrange(2)
    first: Op = ("write", writer, key, draw.choice((value, TOMBSTONE)))
    over: list[Op] = [("write", PLAIN, key, value + 1)] if draw.random() < 0.7 else []
    ops = [*calm, ("write", PLAIN, key, value), first, *seen, *stop, ("end", writer, end, 0), *over, *seen]
    second: list[Op] = []
    other = end if draw.random() < 0.25 else 1 - end
    if draw.random() < 0.7:
        second = [("write", writer, draw.randrange(p.keys), value), ("end", writer, other, 0)]
    early = draw.random() < (0.7 if writer % 2 == 0 else 0.2)
    lose = [*expire, *_lose(draw)]
    return ops + (second + lose if early else lose + second) + start
