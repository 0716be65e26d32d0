"""Histories of several scripts one in another, with steps left out, and anything else between them."""

from __future__ import annotations

import random

from tests.simulation import aftermaths, scripts
from tests.simulation.history import FILLER, PLAIN, RETENTION, TOMBSTONE, Op, Profile
from tests.simulation.scripts import Scene, op

NAME = "several scripts, one in another"
CLEAN = (
    scripts.several_keys,
    scripts.two_victims,
    scripts.index_lost,
    scripts.head_lost,
    scripts.monitor_away,
    scripts.copied_from_wrong,
    scripts.interleaved,
    scripts.overtaken,
    scripts.cold_start,
    aftermaths.listed_alone,
    aftermaths.lost_meanwhile,
    aftermaths.copied_from_frozen,
    aftermaths.views_apart,
    aftermaths.left_to_the_wrong,
    *(aftermaths.deleted_in_a_transaction, aftermaths.index_of_a_deletion_lost) * 2,
    *(aftermaths.several_partitions,) * 3,
)
UNCLEAN = (*(aftermaths.elected_behind,) * 5, scripts.unlike_markers, scripts.tie)
WRITERS = 2


def profile(seed: int) -> Profile:
    """The profile of a seed."""
    draw = random.Random(f"mixed {seed}")
    brokers = draw.choice(((1, 2), (1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2, 3, 4)))
    return Profile(
        seed=seed,
        healthy=False,
        length=draw.randint(20, 120),
        keys=draw.randint(1, 3),
        writers=WRITERS,
        busy_reader=0.0,
        trims=draw.random() < 0.1,
        moves=True,
        late=False,
        cap=None,
        brokers=brokers,
        compacted=draw.random() > 0.1,
        wipes=True,
        unclean=draw.random() < 0.7,
        reassigns=True,
        siblings=draw.random() < 0.5,
        hosts=brokers,
        kinds=(NAME,),
    )


def generate(p: Profile) -> list[Op]:
    """The operations of a profile."""
    draw = random.Random(f"scripts {p.seed}")
    fitting = [*CLEAN, *(UNCLEAN if p.unclean else ())]
    if not p.compacted:
        # Retention moves each replica's log start at its own time, so nobody can tell a lost head from it.
        fitting.remove(scripts.head_lost)
    pool, ops = [_anything(draw, p) for _ in range(p.length)], list[Op]()
    for _ in range(draw.choice((1, 2, 2, 3))):
        script = draw.choice(fitting)(Scene(random.Random(draw.random()), p.brokers, p.keys, healthy=False))
        left_out, between, mixed = draw.choice((0.0, 0.0, 0.05, 0.15)), draw.choice((0.0, 0.03, 0.1, 0.3)), list[Op]()
        for one in script:
            mixed += [draw.choice(pool)] if draw.random() < between else []
            mixed += [one] if draw.random() >= left_out else []
        at = draw.choice((len(ops), len(ops), draw.randint(0, len(ops))))
        ops[at:at] = mixed
    return ops


def _anything(draw: random.Random, p: Profile) -> Op:
    """Any operation."""
    broker, value = draw.choice(p.brokers), TOMBSTONE if draw.random() < 0.3 else draw.randrange(100, 100_000)
    choices = [
        (6.0, op("write", draw.choice((PLAIN, 0, 1, 0, 1)), draw.randrange(p.keys), value)),
        (1.0, op("write", PLAIN, FILLER, draw.randrange(100))),
        (5.0, op("end", draw.randrange(WRITERS), draw.randrange(2))),
        (3.0, op("tick", draw.choice((30, 200, 200, RETENTION + 1)))),
        (4.0, op("sync")),
        (3.0, op("fetch", broker, draw.choice((1, 2, 50)))),
        (4.0, op("clean", broker)),
        (2.0, op("stop", broker)),
        (2.5, op("start", broker)),
        (0.5, op("checkpoint")),
        (1.0, op("lead", broker)),
        (0.8 * p.unclean, op("usurp", broker)),
        (0.4, op("wipe", broker, draw.randrange(2))),
        (0.4, op("unassign", broker)),
        (0.6, op("assign", broker)),
        (0.3, op("unindex", broker, draw.choice((0, 4, 9)))),
        (0.3, op("fence", draw.randrange(WRITERS))),
        (0.2, op("upgrade", draw.randrange(WRITERS))),
        (0.5, op("end elsewhere", draw.randrange(WRITERS), draw.randrange(2))),
        (0.3 * p.trims, op("trim", draw.randint(1, 3))),
        (0.3 * (not p.compacted), op("lose", broker, draw.randrange(10))),
        (0.2, op("cold")),
        (3.0, op("round", draw.choice((0, 0, draw.randrange(1, 1_000))))),
        (3.0, op("read", draw.randrange(2), broker, draw.choice((1, 3, 1_000)))),
    ]
    return draw.choices([one for _, one in choices], [weight for weight, _ in choices])[0]
