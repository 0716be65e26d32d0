"""What may befall a partition that random operations hardly ever bring about: one short script for each kind.

Each is drawn from a stream of its own, is mixed with random operations, and fits any number of replicas. A kind is
counted in the totals of a long run by its name.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation import history
from tests.simulation.history import EXPIRATION, FILLER, PLAIN, RETENTION, TOMBSTONE, Op, Profile, step, with_noise

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


def listed_alone(s: Scene) -> list[Op]:
    """A lost COMMIT becomes an ABORT, and the records are cleaned: what is left is an entry of the aborted list.

    One of the others may keep what the cleaners of the rest have taken; and the monitor may come only then.
    """
    victim, key, writer = s.some(1)[0], s.key(), s.draw.choice((1, 3))
    others = [b for b in s.brokers if b != victim]
    keeper = s.draw.choice(others) if len(others) > 1 and s.draw.random() < 0.8 else -1
    cleaners = [b for b in others if b != keeper]
    ops = [*calm(s), op("lead", cleaners[0]), op("write", PLAIN, key, s.value())]
    ops += [op("write", writer, key, s.draw.choice((s.value(), TOMBSTONE))), SYNC, *seen(s, 0.3), op("stop", victim)]
    ops += [op("end", writer, COMMIT), *s.perhaps([op("write", PLAIN, key, s.value())]), *seen(s, 0.3)]
    for _ in range(4):
        ops += [op("tick", RETENTION + 1), op("write", PLAIN, FILLER, 1), SYNC, *(op("clean", b) for b in cleaners)]
    ops += [op("write", writer, s.key(), s.value()), op("end", writer, ABORT), *back(s, [victim]), *seen(s, 0.3)]
    ops += [op("tick", 200), op("write", PLAIN, FILLER, 1), SYNC, op("clean", victim), *seen(s, 0.3)]
    return [*ops, op(s.draw.choice(("cold", "audit"))), *seen(s, 0.5), *s.perhaps(forget(s), 0.3)]


def lost_meanwhile(s: Scene) -> list[Op]:
    """A tombstone is lost by one replica while another is away, or frozen, and the monitor looks on."""
    if len(s.brokers) < 3:
        return lost_tombstone(s, s.some(1))
    victim, away, leader = s.draw.sample(s.brokers, 3)
    writer, key, frozen = s.draw.choice((1, 3)), s.key(), s.draw.random() < 0.5
    ops = [*calm(s), op("lead", leader), op("write", PLAIN, key, s.value())]
    ops += [op("write", writer, s.key(), s.value()), SYNC, ROUND, op("stop", away), op("end", writer, COMMIT)]
    ops += [*(op("write", PLAIN, k, s.value()) for k in range(s.keys) if k != key), *forget(s)]
    if frozen:
        ops += [*back(s, [away]), ROUND, op("tick", 500), ROUND]
    ops += [op("stop", victim), op("write", PLAIN, key, TOMBSTONE), op("sync"), ROUND, *forget(s), *back(s, [victim])]
    for _ in range(3):
        ops += [ROUND, op("tick", 150)]
    return [*ops, *back(s, [away])]


def copied_from_frozen(s: Scene) -> list[Op]:
    """One that has missed an end marker leads, and all others are copied from it before anybody looks again."""
    victim, writer, end, key = s.some(1)[0], s.draw.choice((1, 3)), s.draw.randrange(2), s.key()
    ops = [*calm(s), op("write", writer, key, s.value()), SYNC, *seen(s), op("stop", victim), op("end", writer, end)]
    ops += [op("write", PLAIN, key, s.value()), SYNC, ROUND, *forget(s), *s.perhaps([ROUND])]
    ops += [op("start", victim), SYNC, op("lead", victim), SYNC]
    for b in (b for b in s.brokers if b != victim):
        ops += [op("wipe", b, 1), SYNC] if s.draw.random() < 0.5 else [op("unassign", b), op("assign", b), SYNC]
    ops += s.perhaps([op("write", PLAIN, s.key(), s.value()), SYNC])
    for _ in range(4):
        ops += [ROUND, op("tick", 150)]
    return ops


def views_apart(s: Scene) -> list[Op]:
    """One has missed an end marker, and its two views come to be compared one after the other, in parts or whole."""
    victim, writer, end = s.some(1)[0], s.draw.randrange(WRITERS), s.draw.randrange(2)
    mine = [s.key() for _ in range(s.draw.randint(1, 3))]
    ops = [*calm(s), *(op("write", writer, k, s.value()) for k in mine), SYNC, *seen(s), op("stop", victim)]
    ops += [op("end", writer, end), *(op("write", PLAIN, k, s.value()) for k in mine if s.draw.random() < 0.8)]
    ops += [*seen(s, 0.3), *turn(s, 200), *turn(s, 200), *seen(s), *forget(s)]
    ops += [op("write", writer, s.key(), s.value()), op("end", writer, 1 - end), *seen(s), op("start", victim), SYNC]
    for view in s.draw.sample((0, 1), 2):
        ops += s.perhaps([op("read", view, victim, s.draw.randint(1, 12)), op("batch", 10)])
        ops += [op("read", view, victim, 1_000), op("batch", 10), *s.perhaps([op("probe")], 0.3)]
    return [*ops, ROUND]


def deleted_in_a_transaction(s: Scene) -> list[Op]:
    """The end marker of a transaction that deletes keys comes and goes while one is away; others may be copied from it.

    The producer's next transaction ends otherwise, so the replica that was away has ended the deletion by that marker:
    it has kept a value that was deleted, or deleted one that was not. Then some or all others are copied from it.
    """
    victim, writer, end = s.some(1)[0], s.draw.randrange(WRITERS), s.draw.randrange(2)
    deleted = [s.key() for _ in range(s.draw.choice((1, 1, 2)))]
    ops = [*calm(s), *(op("write", PLAIN, k, s.value()) for k in deleted), SYNC, *seen(s, 0.8)]
    ops += [op("write", writer, k, TOMBSTONE) for k in deleted]
    ops += s.perhaps([op("write", writer, s.key(), s.value())], 0.2)
    ops += [SYNC, *seen(s, 0.8), op("stop", victim), op("end", writer, end), *seen(s, 0.8)]
    ops += [*s.perhaps([op("tick", EXPIRATION)], 0.6), *forget(s)]
    ops += [op("write", writer, s.key(), s.value()), op("end", writer, 1 - end)]
    ops += [*back(s, [victim]), *seen(s, 0.6), *s.perhaps(forget(s), 0.6), *seen(s, 0.5)]
    return [*ops, *_spread(s, [victim]), *s.perhaps([op("write", PLAIN, deleted[0], s.value())], 0.15)]


def index_of_a_deletion_lost(s: Scene) -> list[Op]:
    """A transaction that deletes keys is aborted, and a replica's index of aborted transactions lost: it has deleted.

    Its cleaner takes the value for the sake of the tombstone. Then some or all others may be copied from it.
    """
    victims, writer = s.some(s.draw.choice((1, 1, 2))), s.draw.randrange(WRITERS)
    deleted = [s.key() for _ in range(s.draw.choice((1, 1, 2)))]
    ops = [*calm(s), *(op("write", PLAIN, k, s.value()) for k in deleted), *seen(s)]
    ops += [op("write", writer, k, TOMBSTONE) for k in deleted]
    ops += [*s.perhaps([op("write", writer, s.key(), s.value())], 0.3), op("end", writer, ABORT), SYNC, *seen(s, 0.6)]
    for b in victims:
        ops += [op("stop", b), *(op("unindex", b, tenths) for tenths in (0, 4, 9)), op("start", b), SYNC, *seen(s, 0.4)]
    ops += [*s.perhaps(forget(s), 0.7), *seen(s)]
    return [*ops, *_spread(s, victims), *s.perhaps([op("write", PLAIN, deleted[0], s.value())], 0.15)]


def left_to_the_wrong(s: Scene) -> list[Op]:
    """Some have lost something, and one that has not, or all of these, are taken off the partition for good."""
    victims = s.some(s.draw.choice((1, 1, 2)))
    right = [b for b in s.brokers if b not in victims]
    ops = [*s.draw.choice((lost_tombstone, lost_marker, lost_marker))(s, victims), *seen(s, 0.8)]
    for b in s.draw.choice((right, right, right[:1])):
        ops += [*s.perhaps([op("lead", s.draw.choice(victims)), SYNC]), op("retire", b), *seen(s, 0.6)]
    return [*ops, *s.perhaps(forget(s), 0.4), *seen(s, 0.5), *s.perhaps(_written(s, 0, 2), 0.3)]


def several_partitions(s: Scene) -> list[Op]:
    """An end marker comes and goes while some are away; another partition of the transaction has one as well, or first.

    The producer may have ended transactions before that were read, of version 1 too; it may be fenced, or go on with
    version 2. So one end marker of a name may be of several transactions, or of one.
    """
    away, writer, end = s.some(s.draw.choice((1, 1, 2))), s.draw.randrange(WRITERS), s.draw.randrange(2)

    def transaction(how: int) -> list[Op]:
        ends = [*s.perhaps([op("fence", writer)], 0.5 if how == ABORT else 0.0), op("end", writer, how)]
        first = s.perhaps([op("end elsewhere", writer, how), *seen(s, 0.3)], 0.4)
        return [op("write", writer, s.key(), s.draw.choice((s.value(), s.value(), TOMBSTONE))), *first, *ends]

    between: list[list[Op]] = [[], [], [op("fence", writer)], [op("upgrade", writer)]]
    ops = [*calm(s), *(op("write", PLAIN, k, s.value()) for k in range(s.keys)), *seen(s)]
    for _ in range(s.draw.randint(0, 3)):
        ops += [*transaction(s.draw.choice((COMMIT, COMMIT, ABORT))), *s.draw.choice(between), *seen(s, 0.5)]
    late = [op("write", writer, s.key(), s.draw.choice((s.value(), s.value(), TOMBSTONE))) for _ in range(2)]
    ops += [*late, SYNC, *seen(s, 0.5), *(op("stop", b) for b in away)]
    gone = s.perhaps([op("end elsewhere", writer, end), *seen(s, 0.3)], 0.3)
    gone += [*s.draw.choice(([op("end", writer, end)], [op("end", writer, end)], [op("fence", writer)])), *seen(s, 0.3)]
    gone += [*s.perhaps([op("tick", EXPIRATION)], 0.5), *forget(s), *s.draw.choice(between)]
    for _ in range(s.draw.choice((1, 1, 2))):
        gone += [*transaction(1 - end), *s.draw.choice(between)]
    nobody_reads = s.draw.random() < 0.6
    ops += [o for o in gone if not (nobody_reads and o[0] in ("round", "read"))]
    ops += [*back(s, away), *seen(s), *s.perhaps([op("cold")], 0.2), *s.perhaps(forget(s)), *seen(s)]
    return [*ops, *s.perhaps(_spread(s, away), 0.3)]


def _spread(s: Scene, victims: list[int]) -> list[Op]:
    """A victim leads, and some others, or all, are copied from it; or nothing."""
    others = [b for b in s.brokers if b not in victims]
    copied = s.draw.choice(((), others[:1], others))
    ops = [op("lead", victims[0]), SYNC] if copied else []
    for b in copied:
        ops += [op("wipe", b, 1), SYNC] if s.draw.random() < 0.5 else [op("unassign", b), op("assign", b), SYNC]
        ops += seen(s, 0.4)
    return [*ops, *s.perhaps(forget(s), 0.4), *seen(s, 0.5)]


def elected_behind(s: Scene) -> list[Op]:
    """A loss is found, or suspected; then one that had stayed behind leads, by an unclean election, with an older log.

    It went before what decides was written, or with it, or behind it; the new log may be short or long. Of two
    replicas it is the accused, or the one that is right, that stays behind later on; so it is of more now and then.
    """
    order = s.draw.sample(s.brokers, len(s.brokers))
    victim, leader = order[0], order[-1]
    early = len(order) > 2 and s.draw.random() < 0.8
    heir, writer = order[1] if early else s.draw.choice((victim, leader)), s.draw.randrange(WRITERS)
    ops = [*calm(s), op("lead", leader), *(op("write", PLAIN, k, s.value()) for k in range(s.keys)), *seen(s, 0.8)]
    lose = s.draw.choice((_missed_end, _missed_end, _missed_end, _missed_tombstone, _index_gone))
    steps, room = lose(s, victim, writer)
    if early:
        steps.insert(s.draw.randint(0, room), [SYNC, *seen(s, 0.3), op("stop", heir)])
    ops += [o for step in steps for o in step]
    looks: list[Op] = [SYNC, ROUND, op("tick", 160), ROUND, op("tick", 160), ROUND]
    ops += looks[: s.draw.choice((6, 6, 6, 6, 4, 2))]
    ops += s.perhaps(_meanwhile(s, victim, leader, writer), 0.4)
    if not early:
        ops += [SYNC, op("stop", heir), *_written(s, writer, s.draw.randint(1, 3)), *seen(s)]
    ops += [op("usurp", heir), *_written(s, writer, s.draw.choice((0, 0, 1, 1, 2, 2, 3, 5, 8)))]
    ops += s.perhaps([ROUND, *s.perhaps([op("tick", 160), ROUND])])
    for b in s.draw.sample([b for b in order if b != heir], len(order) - 1):
        ops += s.perhaps([*_returns(s, b), *seen(s, 0.4)], 0.8)
    ops += [SYNC, *s.perhaps([ROUND, op("tick", 160), ROUND], 0.7)]
    ops += _written(s, writer, s.draw.choice((0, 0, 0, 1, 3)))
    ops += s.perhaps(turn(s, 200), 0.3) if s.draw.random() < 0.7 else forget(s)
    return [*ops, *s.perhaps([op("kill")], 0.15), *seen(s)]


Steps = tuple[list[list[Op]], int]
"""How something is lost, and before how many of these steps another one may have gone."""


def _missed_end(s: Scene, victim: int, writer: int) -> Steps:
    """An end marker comes and goes while the victim is away."""
    end, mine = s.draw.randrange(2), [s.key() for _ in range(s.draw.choice((1, 1, 2)))]
    first = [op("write", writer, k, s.draw.choice((s.value(), s.value(), TOMBSTONE))) for k in mine]
    over = [op("write", PLAIN, k, s.value()) for k in mine if end == COMMIT or s.draw.random() < 0.3]
    other = [op("write", writer, s.key(), s.value()), op("end", writer, 1 - end if s.draw.random() < 0.9 else end)]
    gone = [*seen(s, 0.8), *s.perhaps([op("tick", EXPIRATION)], 0.7), *forget(s)]
    stop, ends = [SYNC, *seen(s), op("stop", victim)], [op("end", writer, end)]
    return [first, stop, ends, over, gone, s.perhaps(other), back(s, [victim])], 5


def _missed_tombstone(s: Scene, victim: int, writer: int) -> Steps:
    """A tombstone comes and goes while the victim is away: a plain one, or that of a transaction that is committed."""
    key, stop = s.key(), [SYNC, *seen(s), op("stop", victim)]
    plain: list[Op] = [op("write", PLAIN, key, TOMBSTONE)]
    deleted = s.draw.choice((plain, [op("write", writer, key, TOMBSTONE), op("end", writer, COMMIT)]))
    gone = [*seen(s, 0.8), *forget(s)]
    return [[op("write", PLAIN, key, s.value())], stop, deleted, gone, back(s, [victim])], 4


def _index_gone(s: Scene, victim: int, writer: int) -> Steps:
    """The victim has lost its index of aborted transactions when it starts again."""
    first = [op("write", PLAIN, s.key(), s.value()), op("write", writer, s.key(), s.value())]
    gone = [op("stop", victim), *(op("unindex", victim, tenths) for tenths in (0, 4, 9)), *s.perhaps([ROUND], 0.3)]
    after = s.perhaps([op("write", PLAIN, s.key(), s.value())])
    return [first, [op("end", writer, ABORT)], after, [SYNC, *seen(s, 0.2)], [*gone, *back(s, [victim])]], 2


def _written(s: Scene, writer: int, count: int) -> list[Op]:
    """So many records and ends, most of the producer that wrote before."""
    ops: list[Op] = []
    for _ in range(count):
        value = TOMBSTONE if s.draw.random() < 0.3 else s.value()
        kind = s.draw.random()
        if kind < 0.35:
            ops.append(op("write", PLAIN, s.key(), value))
        elif kind < 0.6:
            ops.append(op("write", writer, s.key(), value))
        else:
            ops.append(op("end", writer if kind < 0.95 else s.draw.randrange(WRITERS), s.draw.randrange(2)))
    return ops


def _meanwhile(s: Scene, victim: int, leader: int, writer: int) -> list[Op]:
    """What may happen to the accused, to one that is right and to the job before the election."""
    away = [op(s.draw.choice(("stop", "wipe", "unassign")), s.draw.choice((victim, leader)))]
    others = [[op("kill")], [op("audit")], [op("clean", victim)], _written(s, writer, 2), [op("lead", victim)]]
    return [*s.draw.choice((away, *others)), *seen(s)]


def _returns(s: Scene, broker: int) -> list[Op]:
    """A broker comes back: with its log, with an empty disk, or by a reassignment, which may not be over yet."""
    how = s.draw.random()
    if how < 0.7:
        return [op("start", broker), *s.perhaps([SYNC], 0.6)]
    if how < 0.85:
        return [op("wipe", broker, 1), *s.perhaps([SYNC], 0.6)]
    return [op("unassign", broker), *s.perhaps([ROUND], 0.3), *s.perhaps([op("assign", broker), SYNC], 0.6)]


Script = Callable[[Scene], list[Op]]

KINDS: dict[str, tuple[Script, bool]] = {
    "transactions of several keys": (several_keys, False),
    "two victims": (two_victims, False),
    "two, four or five replicas": (replication_factor, False),
    "a lost index of aborted transactions": (index_lost, False),
    "a lost head of a log": (head_lost, False),
    "a monitor that was away": (monitor_away, False),
    "replicas copied from a wrong one": (copied_from_wrong, False),
    "states of the coordinator": (coordinator_states, False),
    "interleaved transactions while a follower catches up": (interleaved, True),
    "unlike markers at one offset": (unlike_markers, False),
    "a tie of contents": (tie, False),
    "a scan that the cleaner overtakes": (overtaken, True),
    "a cold start": (cold_start, True),
    "audits": (audited, True),
}
"""By name: the script, and whether nothing is lost by it where replicas are never away for long."""
LATER: dict[str, Script] = {
    "an aborted list alone": listed_alone,
    "a tombstone lost while another is away": lost_meanwhile,
}
"""Kinds that came later: of faulty histories, from draws of their own, so that the others stay as they were."""
LATEST: dict[str, Script] = {
    "all copied from a frozen one": copied_from_frozen,
}
"""The same, of seeds from `SINCE` on only."""
NEWEST: dict[str, Script] = {
    "the views of one that missed an end marker, apart": views_apart,
}
"""The same, of seeds from `NEWLY` on only."""
ELECTED: dict[str, Script] = {
    "an unclean election after a loss": elected_behind,
}
"""The same, of seeds from `ELECTING` on only: every second of these has it, and most of those have little else."""
DELETING: dict[str, Script] = {
    "a deletion in a transaction whose end is lost": deleted_in_a_transaction,
}
"""The same, of seeds from `DELETED` on only: every second of these has it."""
LEAVING: dict[str, Script] = {
    "a lost index of an aborted deletion": index_of_a_deletion_lost,
    "those that are right leave the assignment": left_to_the_wrong,
}
"""The same, of seeds from `LEFT` on only: every second of these has each."""
WIDENING: dict[str, Script] = {
    "transactions of several partitions": several_partitions,
}
"""The same, of seeds from `WIDE` on only: all of these have it, and nothing else that came later."""
UNCLEAN = frozenset({"unlike markers at one offset", "a tie of contents", *ELECTED})
SILENT = frozenset({"a monitor that was away"})
"""Kinds in which nobody may read but where the script says so."""

SINCE = 1_920_000_000
NEWLY = 1_970_000_000
ELECTING = 2_000_000_000
DELETED = 2_100_000_000
LEFT = 2_200_000_000
WIDE = 2_300_000_000
FIRST = 100_000_000
"""Seeds from here on have such histories; those below keep what they had before there were any."""


def profile(seed: int, healthy: bool) -> Profile:
    """The profile of any seed."""
    if seed < FIRST:
        return history.profile(seed, healthy)
    draw = random.Random(f"script {seed} {healthy}")
    kinds = draw.sample(fitting(healthy), draw.choice((1, 1, 1, 2)))
    several = "two, four or five replicas" in kinds or draw.random() < 0.15
    brokers = draw.choice(((1, 2), (1, 2, 3, 4), (1, 2, 3, 4, 5))) if several else (1, 2, 3)
    if "two victims" in kinds and len(brokers) == 2:
        brokers = (1, 2, 3)
    late = [] if healthy else _later(seed)
    length = draw.randint(0, 20)
    if ELECTED.keys() & {*late} and random.Random(f"little else {seed}").random() < 0.7:
        kinds, length = [], length // 5  # What else is written afterwards, and cleaned, would end what was found.
    return Profile(
        seed=seed,
        healthy=healthy,
        length=length,
        keys=draw.randint(1, 4),
        writers=draw.choice((0, 2, 4)),
        busy_reader=0.0 if SILENT & set(kinds) else draw.choice((0.05, 0.2, 0.5)),
        trims=draw.random() < 0.05,
        moves=draw.random() < 0.3,
        late=False,
        cap=None,
        brokers=brokers,
        wired=draw.random() < 1 / 8,
        unclean=bool(UNCLEAN & {*kinds, *late}),
        wipes="replicas copied from a wrong one" in kinds,
        hosts=brokers,
        siblings=seed >= WIDE,
        kinds=(*sorted(kinds), *late),
    )


def _later(seed: int) -> list[str]:
    if seed >= WIDE:
        return list(WIDENING)
    draw = random.Random(f"later {seed}")
    names = [*LATER, *(LATEST if seed >= SINCE else ()), *(NEWEST if seed >= NEWLY else ())]
    names = [name for name in names if draw.random() < 1 / 12]
    names += [name for name in (ELECTED if seed >= ELECTING else ()) if draw.random() < 1 / 2]
    names += [name for name in (DELETING if seed >= DELETED else ()) if draw.random() < 1 / 2]
    return names + [name for name in (LEAVING if seed >= LEFT else ()) if draw.random() < 1 / 2]


def fitting(healthy: bool) -> list[str]:
    """The kinds that a healthy or a faulty history can be of."""
    return [name for name, (_, harmless) in KINDS.items() if harmless or not healthy]


def every(healthy: bool) -> list[str]:
    """All kinds that a healthy or a faulty history can be of."""
    return fitting(healthy) + ([] if healthy else list(LATER))


def generate(p: Profile) -> list[Op]:
    """The operations of any profile."""
    if not p.kinds:
        return history.generate(p)
    draw = random.Random(f"operations {p.seed} {p.healthy}")
    ops = [o for _ in range(p.length) for o in step(draw, p)]
    for name in p.kinds:
        late = LATER | LATEST | NEWEST | ELECTED | DELETING | LEAVING | WIDENING
        make = late[name] if name in late else KINDS[name][0]
        script = make(Scene(random.Random(f"{name} {p.seed}"), p.brokers, p.keys, p.healthy))
        at = draw.randint(0, len(ops))
        mixed = script if draw.random() < 0.5 else list(with_noise(draw, p, script))
        ops[at:at] = mixed
    return ops
