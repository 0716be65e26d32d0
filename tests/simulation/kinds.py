"""What may befall a partition that random operations hardly ever bring about: one short script for each kind.

Each is drawn from a stream of its own, is mixed with random operations, and fits any number of replicas. A kind is
counted in the totals of a long run by its name.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation import aftermaths, history, mixed, scripts
from tests.simulation.history import Op, Profile, step, with_noise
from tests.simulation.scripts import Scene

Script = Callable[[Scene], list[Op]]

KINDS: dict[str, tuple[Script, bool]] = {
    "transactions of several keys": (scripts.several_keys, False),
    "two victims": (scripts.two_victims, False),
    "two, four or five replicas": (scripts.replication_factor, False),
    "a lost index of aborted transactions": (scripts.index_lost, False),
    "a lost head of a log": (scripts.head_lost, False),
    "a monitor that was away": (scripts.monitor_away, False),
    "replicas copied from a wrong one": (scripts.copied_from_wrong, False),
    "states of the coordinator": (scripts.coordinator_states, False),
    "interleaved transactions while a follower catches up": (scripts.interleaved, True),
    "unlike markers at one offset": (scripts.unlike_markers, False),
    "a tie of contents": (scripts.tie, False),
    "a scan that the cleaner overtakes": (scripts.overtaken, True),
    "a cold start": (scripts.cold_start, True),
    "audits": (scripts.audited, True),
}
"""By name: the script, and whether nothing is lost by it where replicas are never away for long."""
LATER: dict[str, Script] = {
    "an aborted list alone": aftermaths.listed_alone,
    "a tombstone lost while another is away": aftermaths.lost_meanwhile,
}
"""Kinds that came later: of faulty histories, from draws of their own, so that the others stay as they were."""
LATEST: dict[str, Script] = {
    "all copied from a frozen one": aftermaths.copied_from_frozen,
}
"""The same, of seeds from `SINCE` on only."""
NEWEST: dict[str, Script] = {
    "the views of one that missed an end marker, apart": aftermaths.views_apart,
}
"""The same, of seeds from `NEWLY` on only."""
ELECTED: dict[str, Script] = {
    "an unclean election after a loss": aftermaths.elected_behind,
}
"""The same, of seeds from `ELECTING` on only: every second of these has it, and most of those have little else."""
DELETING: dict[str, Script] = {
    "a deletion in a transaction whose end is lost": aftermaths.deleted_in_a_transaction,
}
"""The same, of seeds from `DELETED` on only: every second of these has it."""
LEAVING: dict[str, Script] = {
    "a lost index of an aborted deletion": aftermaths.index_of_a_deletion_lost,
    "those that are right leave the assignment": aftermaths.left_to_the_wrong,
}
"""The same, of seeds from `LEFT` on only: every second of these has each."""
WIDENING: dict[str, Script] = {
    "transactions of several partitions": aftermaths.several_partitions,
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
MIXED = 2_400_000_000
FIRST = 100_000_000
"""Seeds from here on have such histories; those below keep what they had before there were any."""


def profile(seed: int, healthy: bool) -> Profile:
    """The profile of any seed."""
    if seed < FIRST:
        return history.profile(seed, healthy)
    if seed >= MIXED and not healthy:
        return mixed.profile(seed)
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
    if p.kinds == (mixed.NAME,):
        return mixed.generate(p)
    draw = random.Random(f"operations {p.seed} {p.healthy}")
    ops = [o for _ in range(p.length) for o in step(draw, p)]
    for name in p.kinds:
        late = LATER | LATEST | NEWEST | ELECTED | DELETING | LEAVING | WIDENING
        make = late[name] if name in late else KINDS[name][0]
        script = make(Scene(random.Random(f"{name} {p.seed}"), p.brokers, p.keys, p.healthy))
        at = draw.randint(0, len(ops))
        ops[at:at] = script if draw.random() < 0.5 else list(with_noise(draw, p, script))
    return ops
