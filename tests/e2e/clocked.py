"""One outage of the lab's scripts with a clock beside it: what its bounds say, and when what they are about does go.

The clock and its pointed reads are the job's own, without Spark. When a tombstone or an end marker is gone is told by
the lab's own reading of each broker, which decodes with other code.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field

from parallax.config import FindingSettings
from parallax.guard.clock import Clock
from parallax.guard.looks import Look
from parallax.guard.pointed import PointedReads
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.scenarios.conductor import Conductor, _Act
from parallax.lab.scenarios.stage import LEADER, SURVIVORS, VICTIM
from parallax.lab.traffic import ProducerKind, transactional_producers
from parallax.model import TopicPartition
from parallax.replica.errors import ReplicaError
from parallax.replica.types import Watermarks

RETENTION_MS = 20_000
LEAD_MS = 60_000
LOOK_MS = METADATA_MS = 1_000
_EVERY_S = 0.3


@dataclass
class Seen:
    """What was seen of one topic; seconds since 1970 UTC.

    Attributes:
        held_at: when a reading of a broker began that showed everything for the last time.
        gone_at: when one had come that did not, the first of any broker.
        bounds: each bound that the clock gave until then, and when.
        plain: the last bound that would have been given by looks alone.
        horizon: the last that was read from the batches; None where none was.
    """

    held_at: float = 0.0
    gone_at: float = 0.0
    bounds: list[tuple[float, float]] = field(default_factory=list)
    plain: float = 0.0
    horizon: float | None = None


class ClockedConductor(Conductor):
    """Plays until what the victim lacks is gone, and watches that."""

    def begin(self) -> None:
        self.seen: dict[str, Seen] = defaultdict(Seen)
        self._clock = Clock(0, LOOK_MS, METADATA_MS)
        self._reads = PointedReads(self._client, LEAD_MS, FindingSettings())
        self._ends = threading.Event()

    def watch(self) -> dict[str, Seen]:
        """Play the outage up to where everything is cleaned."""
        self.begin()
        thread = threading.Thread(target=self._follow, daemon=True)
        with ExitStack() as stack:
            stack.callback(self._client.close)
            self._create_topics()
            thread.start()
            stack.callback(thread.join, 20)
            stack.callback(self._ends.set)
            producers = stack.enter_context(transactional_producers(self._cluster, self._producer, list(self._scripts)))
            acts = [self._act(topic, write, producers[topic]) for topic, write in self._scripts.items()]
            self._before(acts)
            self._take_away(acts)
            self._while_away(acts)
            self._clean(acts)
        return self.seen

    def _config(self) -> dict[str, str]:
        return super()._config() | {"delete.retention.ms": str(RETENTION_MS)}

    def _is_cleaned(self, act: _Act) -> bool:
        seen, began = self.seen[act.stage.topic], time.time()
        views = [self._read(broker, act.stage.topic) for broker in SURVIVORS]
        if all(view.holds(offset) for view in views for offset in act.cleaning.evidence):
            seen.held_at = began
        elif not seen.gone_at:
            seen.gone_at = time.time()
        wanted = [*act.cleaning.superseded, *act.cleaning.evidence]
        return not any(view.holds(offset) for view in views for offset in wanted)

    # --- the clock ----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._ends.wait(_EVERY_S):
            try:
                self._clock.observe(self._looks())
                self._clock.read(self._reads.round(self._clock.absences()))
            except ReplicaError:
                continue
            self._note()

    def _looks(self) -> list[Look]:
        topics = self._client.metadata(sorted(self._scripts))
        places = [TopicPartition(topic, 0) for topic in self._scripts]
        marks = {broker: self._marks(broker, places) for broker in (LEADER, VICTIM, 3)}
        now_ms = int(time.time() * 1000)
        looks = []
        for place in places:
            partition = topics[place.topic].partitions[0]
            for broker in partition.replicas:
                said = marks[broker].get(place)
                is_there = isinstance(said, Watermarks)
                looks.append(
                    Look(
                        place,
                        broker,
                        now_ms,
                        said.high_watermark if isinstance(said, Watermarks) and is_there else None,
                        said.log_end_offset if isinstance(said, Watermarks) and is_there else None,
                        partition.leader,
                        partition.leader_epoch,
                        partition.isr,
                        partition.replicas,
                        topics[place.topic].topic_id,
                        "compact",
                        now_ms,
                        RETENTION_MS,
                    )
                )
        return looks

    def _marks(self, broker: int, places: Collection[TopicPartition]) -> dict[TopicPartition, object]:
        try:
            return dict(self._client.watermarks(broker, list(places), timeout_ms=LOOK_MS))
        except ReplicaError:
            return {}

    def _note(self) -> None:
        now = time.time()
        for one in self._clock.absences():
            seen = self.seen[one.place.topic]
            if one.broker == VICTIM and one.bound_ms is not None and not seen.gone_at:
                seen.bounds.append((now, one.bound_ms / 1000))
                seen.plain = (one.since_ms + (one.retention_ms or 0)) / 1000
                # Where a broker does not answer in time what was read is void, and read again.
                seen.horizon = seen.horizon if one.horizon_ms is None else one.horizon_ms / 1000


def watched(cluster: Cluster, producer: ProducerKind, say: Callable[[str], None] = lambda _: None) -> dict[str, Seen]:
    """Play the five scripts' outage on a cluster with a clock beside it; broker 2 is down in the end."""
    conductor = ClockedConductor(
        "clocked",
        SCENARIOS["all"].scripts,
        cluster,
        diverges=True,
        producer=producer,
        topic_prefix="clocked.",
        say=say,
        await_observed=None,
        hold_s=3.0,
        outage="kill",
    )
    return conductor.watch()


def in_words(seen: dict[str, Seen]) -> str:
    """A line for each topic: seconds from its latest bound to when something was first seen to be gone."""
    lines = []
    for topic, one in sorted(seen.items()):
        last = max((bound for _, bound in one.bounds), default=float("nan"))
        plain = one.gone_at - one.plain
        after = f"gone {one.gone_at - last:.1f} s after the bound, {plain:.1f} s after that by looks alone"
        told = "read" if one.horizon is not None else "not read"
        lines.append(f"{topic}: {after}; it was all there until {one.held_at - last:.1f} s after; horizon {told}")
    return "\n".join(lines)


__all__ = ["Seen", "in_words", "watched"]


if __name__ == "__main__":
    import sys

    version, kind = sys.argv[1:]
    with Cluster(version) as lab:
        print(in_words(watched(lab, "java" if kind == "java" else "legacy", print)))
