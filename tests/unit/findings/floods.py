"""Many suspects of one cause, and what the replicas answer about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from parallax.findings import held, incidents
from parallax.findings.answers import Answers, KeyShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.finding import Finding
from parallax.findings.happenings import Answered
from parallax.findings.incident import tally_of
from parallax.model import FindingKind, Rule
from tests.unit.findings.lives import Life

RESURRECTED, DIFFERS = FindingKind.DELETED_RECORD_RESURRECTED, FindingKind.VISIBILITY_MISMATCH
END = 10_000_000
ALONE = incidents.ALONE


def lost(key: int, **fields: Any) -> Claim:
    """Broker 2 lacks the tombstone of a key, which lies at offset 1000 + key."""
    known = Claim(
        suspect_id=f"key-{key}",
        rule=Rule.LATEST_VALUE,
        kind=RESURRECTED,
        topic="t",
        partition=0,
        broker=2,
        offset=1_000 + key,
        key_hash_hi=1,
        key_hash_lo=key,
        raised_at_ms=10**12,
    )
    return replace(known, **fields)


def replica(broker: int, key: KeyShown | None = None, **fields: Any) -> ReplicaAnswer:
    base = {"high_watermark": END, "last_stable_offset": END, "log_start_offset": 0, "log_end_offset": END, "key": key}
    return ReplicaAnswer(broker, **(base | fields))


def answers(claim: Claim, second: KeyShown, others: KeyShown, leader: int = 1) -> Answers:
    return Answers({1: replica(1, others), 2: replica(2, second), 3: replica(3, others)}, leader=leader)


def shown(offset: int) -> KeyShown:
    return KeyShown(RecordShown(offset, "none", value_size=5), True, offset)


NONE = KeyShown(None, True)


def resurrected(claim: Claim) -> Answers:
    return answers(claim, shown(3), NONE)


def healthy(claim: Claim) -> Answers:
    return answers(claim, NONE, NONE)


def everywhere(claim: Claim) -> Answers:
    return answers(claim, shown(3), shown(3))


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
