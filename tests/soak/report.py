"""What a soak has come to: figures, checks, and the text of both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from parallax.demo import Outcome
from parallax.findings.finding import Finding
from tests.soak.brokers import Cleaning, Held, Left
from tests.soak.chaos import Blow
from tests.soak.plan import Plan
from tests.soak.tables import Recorded
from tests.soak.watch import Compared, Memory, percentile


@dataclass
class Report:
    """Filled in as the run goes on; ``checks`` says what had to hold, and whether it did."""

    plan: Plan
    seconds: dict[str, float] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    blows: list[Blow] = field(default_factory=list)
    job_starts_s: list[float] = field(default_factory=list)
    """How long the job took from each start to its first comparison, the first start included."""
    query_restarts: int = 0
    compared: Compared | None = None
    suspects: dict[str, int] = field(default_factory=dict)
    recorded: Recorded | None = None
    held: Held | None = None
    cleaning: Cleaning | None = None
    left: dict[str, Left] = field(default_factory=dict)
    """What one broker holds of each topic when the traffic has ended."""
    batches: dict[str, list[float]] = field(default_factory=dict)
    memory: list[Memory] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """Of the healthy part, and not true."""
    explained: list[Finding] = field(default_factory=list)
    """True by a fault of Kafka's own (`tests.soak.hidden`)."""
    faults: Outcome | None = None
    checks: dict[str, bool] = field(default_factory=dict)

    def check(self, name: str, holds: bool) -> None:
        self.checks[name] = self.checks.get(name, True) and holds

    def check_work(self, work: Mapping[str, tuple[str, ...]]) -> None:
        """Check that each topic by which a client shows that it has worked holds records."""
        for what, topics in work.items():
            held = [self.left[topic].records if topic in self.left else 0 for topic in topics]
            self.check(f"there are records of {what}", min(held) > 0)

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(self.checks.values())

    # --- what follows from the figures ------------------------------------------------------------------------------

    def removed(self) -> dict[str, dict[int, int]]:
        """Tombstones and markers of compacted topics that were recorded of each broker and are gone from its logs."""
        if self.recorded is None or self.held is None:
            return {}
        return {
            "tombstones": dict(self.recorded.tombstones - self.held.tombstones),
            "markers": dict(self.recorded.markers - self.held.markers),
        }

    def all_have_cleaned(self, brokers: Iterable[int]) -> bool:
        """Whether of each broker tombstones and markers that were recorded are gone."""
        removed = self.removed()
        return bool(removed) and all(gone.get(broker, 0) > 0 for broker in brokers for gone in removed.values())

    def longest_away_s(self) -> float:
        return max((blow.away_s for blow in self.blows if blow.broker is not None), default=0.0)

    def memory_at(self) -> dict[str, Memory]:
        """The job's memory at the start (half a minute in, as it fills its caches first), in the middle, at the end."""
        if not self.memory:
            return {}
        first = next((m for m in self.memory if m.at_s >= 30), self.memory[0])
        return {"start": first, "middle": self.memory[len(self.memory) // 2], "end": self.memory[-1]}

    def as_document(self) -> dict[str, Any]:
        """Everything, for JSON."""
        outcome = self.faults
        # vars, not asdict, where there is a Counter: asdict would count its items.
        return {
            "passed": self.passed,
            "checks": self.checks,
            "plan": asdict(self.plan),
            "seconds": self.seconds,
            "written": self.written,
            "blows": [asdict(blow) for blow in self.blows],
            "longest_away_s": self.longest_away_s(),
            "job_starts_s": self.job_starts_s,
            "query_restarts": self.query_restarts,
            "compared": asdict(self.compared) if self.compared else None,
            "suspects": self.suspects,
            "recorded": vars(self.recorded) if self.recorded else None,
            "held": vars(self.held) if self.held else None,
            "removed": self.removed(),
            "left": {topic: asdict(left) for topic, left in self.left.items()},
            "cleaning": asdict(self.cleaning) if self.cleaning else None,
            "batch_seconds": {q: _spread(seconds) for q, seconds in self.batches.items()},
            "memory_mib": [asdict(sample) for sample in self.memory],
            "findings": [_as_json(finding) for finding in self.findings],
            "explained": [_as_json(finding) for finding in self.explained],
            "faults_found": [
                {"kind": str(m.expected.kind), "topic": m.expected.topic, "seconds": m.seconds}
                for m in (outcome.matches if outcome else ())
            ],
            "faults_missed": [str(wanted) for wanted in (outcome.missing if outcome else ())],
        }

    def as_text(self) -> str:
        """The report for people."""
        return "\n".join(line for part in (self._run(), self._job(), self._found(), self._verdict()) for line in part)

    def _run(self) -> Iterable[str]:
        yield f"seed {self.plan.seed}: " + ", ".join(f"{name} {s:.0f} s" for name, s in self.seconds.items())
        yield "written:"
        yield from (f"  {count:>8,}  {name}" for name, count in self.written.items())
        kinds = Counter(blow.kind for blow in self.blows)
        yield "survived: " + ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
        yield (
            f"  {sum(blow.leaders_moved for blow in self.blows):,} leaderships moved; the longest absence of a broker "
            f"{self.longest_away_s():.0f} s, delete.retention.ms {self.plan.delete_retention_s:.0f} s"
        )
        if self.cleaning:
            yield (
                f"cleaned: {self.cleaning.passes:,} passes removed {self.cleaning.removed:,} records and markers; "
                f"{self.cleaning.segments_expired:,} segments expired"
            )
        for name, by_broker in self.removed().items():
            yield f"  {name} of compacted topics recorded and gone by now: " + ", ".join(
                f"broker {broker} {n:,}" for broker, n in sorted(by_broker.items())
            )

        yield "left of each topic, read of one broker (records, tombstones among them, end markers):"
        for topic, left in self.left.items():
            yield f"  {left.records:>8,} {left.tombstones:>8,} {left.markers:>8,}  {topic}"

    def _job(self) -> Iterable[str]:
        starts = ", ".join(f"{s:.0f} s" for s in self.job_starts_s)
        yield f"job: from start to first comparison {starts}; queries restarted {self.query_restarts}"
        for query, seconds in self.batches.items():
            of = _spread(seconds)
            yield f"  {query}: {of['count']:.0f} batches, median {of['median']:.1f} s, p99 {of['p99']:.1f} s"
        for when, m in self.memory_at().items():
            yield (
                f"  memory, {when} ({m.at_s:.0f} s, start {m.life}): {m.whole:.0f} MiB = JVM {m.driver_jvm:.0f} + "
                f"driver's Python {m.driver_python:.0f} + {m.worker_count} workers {m.workers:.0f}"
            )
        if self.recorded:
            events = ", ".join(f"{event} {n}" for event, n in sorted(self.recorded.events.items())) or "none"
            yield f"recorded: {self.recorded.records:,} records, {self.recorded.twice} rows twice; events: {events}"
        if self.compared:
            unknown = ", ".join(f"{topic} {n:,}" for topic, n in self.compared.unknown.items()) or "none"
            waiting = ", ".join(f"{reason} {n:,}" for reason, n in self.compared.waiting.items()) or "none"
            yield f"compared: {self.compared.records:,} offsets (both views); left unknown: {unknown}"
            yield f"  waiting for an audit: {waiting}"
        yield "suspects: " + (", ".join(f"{name} {n}" for name, n in self.suspects.items()) or "none")

    def _found(self) -> Iterable[str]:
        for finding in self.explained:
            yield f"true, by an index of Kafka's that ends its search early: {finding.kind}: {finding.summary}"
        for finding in self.findings:
            yield f"FINDING {finding.kind} {finding.topic}-{finding.partition}: {finding.summary}"
            yield f"  evidence: {finding.evidence}"
        if self.faults is None:
            return
        for match in self.faults.matches:
            yield f"found {match.finding.kind} on {match.finding.topic} in {match.seconds:.1f} s"
        for wanted in self.faults.missing:
            yield f"MISSED {wanted.kind} on {wanted.topic}, broker {wanted.broker}"
        for finding in self.faults.unexpected:
            yield f"NOT EXPECTED {finding.kind} on {finding.topic}: {finding.summary}"

    def _verdict(self) -> Iterable[str]:
        for name, holds in self.checks.items():
            yield f"{'ok  ' if holds else 'FAIL'} {name}"

    def write(self, path: str) -> None:
        """Write the document as JSON."""
        with open(path, "w", encoding="utf-8") as out:  # noqa: PTH123 - a path as the command line gave it
            json.dump(self.as_document(), out, indent=2, default=str)


def _spread(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {"count": 0, "median": 0.0, "p99": 0.0, "max": 0.0}
    return {"count": len(seconds), "median": median(seconds), "p99": percentile(seconds, 0.99), "max": max(seconds)}


def _as_json(finding: Finding) -> dict[str, Any]:
    fields = asdict(finding)
    return {name: value for name, value in fields.items() if not isinstance(value, bytes)}
