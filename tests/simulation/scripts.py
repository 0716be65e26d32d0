"""What befalls a partition in a script: what is written, who is away, what is cleaned, and what gets lost by it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulation.history import EXPIRATION, FILLER, PLAIN, RETENTION, TOMBSTONE, Op

WRITERS = 4
ABORT, COMMIT = 0, 1
CUT_SHORT = 150


@dataclass(slots=True)
class Scene:
    """What a script may use: brokers by id, keys below ``keys``."""

    draw: random.Random
    brokers: tuple[int, ...]
    keys: int
    healthy: bool

    def some(self, count: int) -> list[int]:
        """That many brokers, or as many as leave one."""
        return self.draw.sample(self.brokers, min(count, len(self.brokers) - 1))

    def key(self) -> int:
        """Any key."""
        return self.draw.randrange(self.keys)

    def value(self) -> int:
        """A value that nothing else is likely to write."""
        return self.draw.randrange(100, 100_000)

    def perhaps(self, ops: list[Op], chance: float = 0.5) -> list[Op]:
        """These operations, or none."""
        return ops if self.draw.random() < chance else []


SYNC: Op = ("sync", 0, 0, 0)
ROUND: Op = ("round", 0, 0, 0)


def op(name: str, a: int = 0, b: int = 0, c: int = 0) -> Op:
    """An operation."""
    return name, a, b, c


def calm(s: Scene) -> list[Op]:
    """All up and level, no transaction open."""
    ops = [op("start", b) for b in s.brokers] + [SYNC]
    return ops + [op("end", w, s.draw.randrange(2)) for w in range(WRITERS)] + [SYNC]


def seen(s: Scene, chance: float = 0.7) -> list[Op]:
    """Perhaps the monitor reads everything."""
    return s.perhaps([SYNC, ROUND], chance)


def turn(s: Scene, ms: int, seed: int = 0) -> list[Op]:
    """Close the segment, replicate, clean all once; perhaps the monitor looks on."""
    order = s.draw.sample(s.brokers, len(s.brokers))
    ops = [op("tick", ms), op("write", PLAIN, FILLER, s.draw.randrange(100)), SYNC]
    return [*ops, *(op("clean", b) for b in order), *s.perhaps([op("round", seed)], 0.3)]


def forget(s: Scene) -> list[Op]:
    """Clean until what was superseded, deleted or aborted is gone with its tombstones and markers."""
    ops: list[Op] = []
    for _ in range(s.draw.randint(3, 4)):
        ops += turn(s, s.draw.choice((200, RETENTION + 1)))
    return ops + turn(s, RETENTION + 1)


def back(s: Scene, brokers: list[int]) -> list[Op]:
    """Brokers come back, at once or a batch at a time."""
    ops = [op("start", b) for b in brokers]
    for b in brokers:
        ops += s.perhaps([op("fetch", b, 1), op("read", s.draw.randrange(2), b, 1_000), op("fetch", b, 2)], 0.3)
    return [*ops, SYNC]


def lost_tombstone(s: Scene, away: list[int]) -> list[Op]:
    """A tombstone comes and goes while some are away."""
    key = s.key()
    ops = [*calm(s), op("write", PLAIN, key, s.value()), SYNC, *seen(s), *(op("stop", b) for b in away)]
    return [*ops, op("write", PLAIN, key, TOMBSTONE), *seen(s), *forget(s), *back(s, away)]


def lost_marker(s: Scene, away: list[int], keys: int = 1) -> list[Op]:
    """An end marker comes and goes while some are away; the next transaction of the producer may end otherwise."""
    writer, end = s.draw.randrange(WRITERS), s.draw.randrange(2)
    mine = [s.draw.randrange(s.keys) if keys == 1 else k for k in range(keys)]
    ops = [*calm(s), *(op("write", PLAIN, k, s.value()) for k in mine if s.draw.random() < 0.7)]
    ops += [op("write", writer, k, s.draw.choice((s.value(), s.value(), TOMBSTONE))) for k in mine]
    ops += [SYNC, *seen(s), *(op("stop", b) for b in away), op("end", writer, end)]
    ops += [op("write", PLAIN, k, s.value()) for k in mine if s.draw.random() < 0.3]
    ops += [*seen(s), *s.perhaps([op("tick", EXPIRATION)], 0.4), *forget(s)]
    if s.draw.random() < 0.75:
        other = 1 - end if s.draw.random() < 0.8 else end
        ops += [op("write", writer, s.key(), s.value()), op("end", writer, other)]
    return [*ops, *back(s, away)]


def lost(s: Scene, away: list[int]) -> list[Op]:
    """Any loss."""
    return lost_tombstone(s, away) if s.draw.random() < 0.4 else lost_marker(s, away)


def several_keys(s: Scene) -> list[Op]:
    """A transaction of two or three keys is ended wrongly on one replica; one of the keys is written again later."""
    s.keys = max(s.keys, 3)
    ops = lost_marker(s, s.some(1), keys=s.draw.choice((2, 2, 3)))
    ops += [*seen(s), op("write", PLAIN, s.draw.randrange(2), s.value()), SYNC]
    return [*ops, *seen(s), *forget(s), *seen(s)]


def two_victims(s: Scene) -> list[Op]:
    """Two replicas lose the same at once, or one after the other."""
    if s.draw.random() < 0.7:
        return lost(s, s.some(2))
    return [*lost(s, s.some(1)), *lost(s, s.some(1))]


def index_lost(s: Scene) -> list[Op]:
    """The index of aborted transactions of a segment is gone when one broker, or one after another, starts again."""
    writer, key = s.draw.randrange(WRITERS), s.key()
    ops = [*calm(s), op("write", PLAIN, key, s.value()), op("write", writer, key, s.value()), op("end", writer, ABORT)]
    ops += s.perhaps([op("write", writer, s.key(), s.value()), op("end", writer, s.draw.randrange(2))])
    ops += [SYNC, *seen(s, 0.4), *s.perhaps(turn(s, 200), 0.3)]
    which = list(s.brokers) if s.draw.random() < 0.25 else s.some(s.draw.choice((1, 1, 2)))
    for b in which:
        ops += [op("stop", b), op("unindex", b, s.draw.randrange(10)), *s.perhaps([ROUND], 0.3), op("start", b), SYNC]
    return [*ops, *s.perhaps([op("lead", s.draw.choice(s.brokers))]), *s.perhaps(forget(s))]


def head_lost(s: Scene) -> list[Op]:
    """The first segment of a log is gone when its broker starts again."""
    victim, ops = s.some(1), calm(s)
    for _ in range(s.draw.randint(2, 4)):
        ops += [op("write", PLAIN, s.key(), s.draw.choice((s.value(), s.value(), TOMBSTONE))), op("tick", CUT_SHORT)]
    ops += [op("write", PLAIN, FILLER, 1), SYNC, *seen(s, 0.6), op("stop", victim[0]), op("behead", victim[0])]
    return [*ops, *s.perhaps([ROUND], 0.3), *back(s, victim), *s.perhaps([op("lead", victim[0]), SYNC], 0.3)]


def monitor_away(s: Scene) -> list[Op]:
    """Nobody reads for longer than tombstones and markers are kept, and something is lost meanwhile."""
    ops = [o for o in lost(s, s.some(1)) if o[0] not in ("round", "read")]
    at = s.draw.randint(0, len(ops) // 2)
    return [*ops[:at], *seen(s), *ops[at:], op("tick", RETENTION), *seen(s)]


def copied_from_wrong(s: Scene) -> list[Op]:
    """One that has lost something leads, and others are copied from it: some, or one after another all."""
    victim = s.some(1)
    rest = [b for b in s.brokers if b not in victim]
    ops = [*lost(s, victim), *seen(s, 0.8), op("lead", victim[0]), SYNC]
    for b in rest if s.draw.random() < 0.6 else rest[:1]:
        if s.draw.random() < 0.5:
            ops += [op("wipe", b, 1), SYNC]
        else:
            ops += [op("unassign", b), *s.perhaps([ROUND], 0.3), op("assign", b), SYNC]
        ops += seen(s, 0.5)
    return [*ops, *s.perhaps([op("lead", s.draw.choice(s.brokers))]), *s.perhaps(forget(s), 0.3)]


def coordinator_states(s: Scene) -> list[Op]:
    """The coordinator does not answer, knows nothing, or is still writing to other partitions, around a lost marker."""
    ops = lost_marker(s, s.some(1))
    for _ in range(s.draw.randint(1, 3)):
        ops.insert(s.draw.randint(0, len(ops)), op("coordinator", s.draw.randrange(4)))
    return ops


def interleaved(s: Scene) -> list[Op]:
    """A follower catches up over interleaved transactions, batch by batch, and probes run between any two requests."""
    away = s.some(1)
    writers = s.draw.sample(range(WRITERS), 2)
    ops = [*calm(s), *s.perhaps([op("write", writers[0], s.key(), s.value()), SYNC]), op("stop", away[0])]
    for _ in range(s.draw.randint(3, 8)):
        w = s.draw.choice(writers)
        ops.append(op("write", w, s.key(), s.value()) if s.draw.random() < 0.6 else op("end", w, s.draw.randrange(2)))
    ops += [SYNC, *seen(s), op("start", away[0])]
    for _ in range(s.draw.randint(2, 8)):
        ops += [op("fetch", away[0], 1), op("tick", s.draw.choice((30, 150, 300)))]
        ops += s.perhaps([op(s.draw.choice(("round", "probe")), s.draw.randrange(1, 1_000))], 0.6)
        ops += s.perhaps([op("write", s.draw.choice(writers), s.key(), s.value())], 0.3)
        ops += s.perhaps([op("end", s.draw.choice(writers), s.draw.randrange(2))], 0.3)
    return ops


def unlike_markers(s: Scene) -> list[Op]:
    """An unclean election leaves ABORT on one replica and COMMIT on another at the same offset."""
    behind = s.some(1)[0]
    writer, end = s.draw.randrange(WRITERS), s.draw.randrange(2)
    ops = [*calm(s), *s.perhaps([op("write", PLAIN, s.key(), s.value())]), op("write", writer, s.key(), s.value())]
    ops += [SYNC, *seen(s), op("stop", behind), op("end", writer, end), SYNC, *seen(s, 0.8), op("usurp", behind)]
    ops += [op("end", writer, 1 - end), *s.perhaps([op("write", PLAIN, s.key(), s.value())]), *seen(s, 0.6)]
    return [*ops, *back(s, [b for b in s.brokers if s.draw.random() < 0.7]), *s.perhaps(forget(s), 0.3)]


def tie(s: Scene) -> list[Op]:
    """Two replicas hold unlike records at an offset while the others are away, and then return."""
    one, other = s.draw.sample(s.brokers, 2)
    rest, key = [b for b in s.brokers if b not in (one, other)], s.key()
    ops = [*calm(s), op("lead", one), SYNC, *(op("stop", b) for b in [*rest, other])]
    ops += [op("write", PLAIN, key, s.value()), *s.perhaps([op("write", PLAIN, s.key(), s.value())]), *seen(s, 0.8)]
    ops += [op("usurp", other), op("write", PLAIN, key, s.value()), *seen(s, 0.8)]
    ops += s.perhaps([op("start", one), *seen(s, 0.3)], 0.6)
    return [*ops, *back(s, rest), *seen(s), op("start", one), SYNC]


def overtaken(s: Scene) -> list[Op]:
    """The cleaner and newer writes of the key overtake the scan of a log that a probe has begun."""
    key, away = s.key(), s.some(1)
    ops = lost_tombstone(s, away) if not s.healthy else [op("write", PLAIN, key, s.value()), SYNC, *seen(s)]
    for _ in range(s.draw.randint(1, 3)):
        ops += [op("write", PLAIN, key, s.draw.choice((s.value(), TOMBSTONE))), SYNC, op("tick", 200)]
        ops += [op("write", PLAIN, FILLER, 1), SYNC, op("round", s.draw.randrange(1, 1_000))]
        ops += [op("clean", s.draw.choice(s.brokers)), op("probe", s.draw.randrange(1, 1_000))]
    return ops


def cold_start(s: Scene) -> list[Op]:
    """The monitor is set up at some moment of a loss."""
    ops = lost(s, s.some(1)) if not s.healthy else [*calm(s), *forget(s)]
    ops.insert(s.draw.randint(0, len(ops)), op("cold"))
    return ops


def audited(s: Scene) -> list[Op]:
    """The partition is audited at some moments of a loss."""
    ops = lost(s, s.some(s.draw.choice((1, 1, 2)))) if not s.healthy else [*calm(s), *forget(s)]
    for _ in range(s.draw.randint(1, 2)):
        ops.insert(s.draw.randint(0, len(ops)), op("audit"))
    return ops


def replication_factor(s: Scene) -> list[Op]:
    """Any loss, on two, four or five replicas."""
    return lost(s, s.some(s.draw.randint(1, 3)))
