"""Many suspects of one cause, and what the replicas answer about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from parallax.findings import held, incidents
from parallax.findings.answers import Answers, KeyShown
from parallax.findings.claim import Claim
from parallax.findings.finding import Finding
from parallax.findings.happenings import Answered
from parallax.findings.incident import tally_of
from parallax.model import FindingKind
from tests.builders.answers import NOTHING, answers, newest, replica
from tests.builders.claims import of_key
from tests.unit.findings.lives import Life

RESURRECTED, DIFFERS = FindingKind.DELETED_RECORD_RESURRECTED, FindingKind.VISIBILITY_MISMATCH
END = 10_000_000
ALONE = incidents.ALONE


def lost(key: int, kind: FindingKind = RESURRECTED, **fields: Any) -> Claim:
    """Broker 2 lacks the tombstone of a key, which lies at offset 1000 + key."""
    of = {"name": f"key-{key}", "offset": 1_000 + key, "key_hash_hi": 1, "key_hash_lo": key, "raised_at_ms": 10**12}
    return of_key(kind, **(of | fields))


def values(second: KeyShown, others: KeyShown, leader: int = 1) -> Answers:
    """What broker 2 shows of the key, and what brokers 1 and 3 do."""
    keys = {1: others, 2: second, 3: others}
    return answers(*(replica(broker, END, key=key) for broker, key in keys.items()), leader=leader)


def resurrected(_: Claim) -> Answers:
    return values(newest(3), NOTHING)


def healthy(_: Claim) -> Answers:
    return values(NOTHING, NOTHING)


def everywhere(_: Claim) -> Answers:
    return values(newest(3), newest(3))


class Flood(Life):
    """A life that counts what is asked about, and checks with each answer that little is asked about at a time."""

    asked = 0

    def settle(self, answering: Callable[[Claim], Answers]) -> Flood:
        """Answer until nothing is asked any more at this moment."""
        while self.probes:
            probes, self.probes = self.probes, []
            assert sum(len(p.claims) for p in probes if p.page is not None) <= incidents.PAGES * held.PAGE
            self.asked += sum(len(p.claims) for p in probes)
            self.do(Answered([(probe, [answering(c) for c in probe.claims]) for probe in probes]))
        return self

    def after(self, seconds: float, answering: Callable[[Claim], Answers]) -> Flood:
        self.wait(seconds)
        return self.settle(answering)

    @property
    def open(self) -> list[Finding]:
        return list(self.machine.status().open)

    @property
    def counts(self) -> list[int]:
        return [tally_of(f).count for f in self.open]


def flood(keys: Iterable[int], answering: Callable[[Claim], Answers] = resurrected, *, at_once: int = 256) -> Flood:
    life = Flood()
    claims = [lost(key) for key in keys]
    for start in range(0, len(claims), at_once):
        life.suspect(*claims[start : start + at_once])
        life.settle(answering)
    return life


def objects(root: object) -> int:
    """How many claims, answers, and dictionary or list entries hang on an object."""
    import gc

    seen: set[int] = set()
    todo: list[Any] = [root]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type) or type(one).__module__ in ("numpy", "pyarrow.lib"):
            continue
        if isinstance(one, (int, str, float, bytes)) or (callable(one) and not hasattr(one, "__self__")):
            continue
        if type(one).__name__ == "module":
            continue
        seen.add(id(one))
        todo += gc.get_referents(one)
    return len(seen)
