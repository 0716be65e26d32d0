"""Scripts of how a loss goes on: copies, elections, reassignments, and transactions that end elsewhere."""

from __future__ import annotations

from tests.simulation.history import EXPIRATION, FILLER, PLAIN, RETENTION, TOMBSTONE, Op
from tests.simulation.scripts import (
    ABORT,
    COMMIT,
    ROUND,
    SYNC,
    WRITERS,
    Scene,
    back,
    calm,
    forget,
    lost_marker,
    lost_tombstone,
    op,
    seen,
    turn,
)


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
