"""The scenarios that can be played on the lab's brokers, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.scenarios import scripts
from parallax.lab.scenarios.conductor import (
    AwaitObserved,
    Conductor,
    ExpectedFinding,
    OutageKind,
    Say,
    ScenarioResult,
    Write,
)
from parallax.lab.scenarios.group_offset import OFFSETS_TOPIC, GroupConductor, group_offset_resurrected
from parallax.lab.traffic import ProducerKind

_ALL: Mapping[str, Write] = {
    "tombstone": scripts.deleted_record_resurrected,
    "abort": scripts.aborted_record_committed,
    "commit": scripts.committed_record_aborted,
    "deletion": scripts.aborted_deletion_committed,
    "frozen": scripts.read_committed_frozen,
}
"""Scripts by the suffix of their topic."""


@dataclass(frozen=True)
class Scenario:
    """A named set of scripts, each with a topic of its own, that are played together in one outage of broker 2.

    A script makes the replicas of its topic diverge in one way.

    Attributes:
        name: the scenario's name.
        scripts: the scripts, by the suffix of the topic on which each is played. The topic's name is ``topic_prefix``
            of `run` and this suffix, e.g. ``tombstone``.
        diverges: False for the control: the same scripts with a longer ``delete.retention.ms``, so that nothing is
            lost.
        conductor: the class that plays the scripts.
    """

    name: str
    scripts: Mapping[str, Write]
    diverges: bool = True
    conductor: type[Conductor] = Conductor

    def run(
        self,
        cluster: Cluster,
        *,
        producer: ProducerKind = "legacy",
        topic_prefix: str = "",
        say: Say = lambda _: None,
        await_observed: AwaitObserved | None = None,
        hold_s: float = 3.0,
        outage: OutageKind = "kill",
    ) -> ScenarioResult:
        """Play the scenario; returns when its state was verified on each broker.

        Args:
            cluster: three brokers, all up.
            producer: which client writes the transactions: ``legacy`` or ``java`` (`parallax.lab.traffic`).
            topic_prefix: put in front of each topic's suffix; no topic of the cluster may begin so yet.
            say: called with what happens, a line at a time.
            await_observed: called with (topic, offset, broker) before the brokers may clean that offset; it must return
                once a job has recorded the offset.
            hold_s: without ``await_observed``: how many seconds to wait between the last end marker and the first
                cleaning.
            outage: how broker 2 goes away: ``kill`` (SIGKILL), ``stop`` (SIGTERM) or ``pause`` (SIGSTOP).

        Returns:
            The topics, and the divergences that a job should find.

        Raises:
            ScenarioFailed: the brokers did not diverge as planned; the text says what each shows.
            LabError: brokers or producers failed on the way.
        """
        conductor = self.conductor(
            self.name,
            self.scripts,
            cluster,
            diverges=self.diverges,
            producer=producer,
            topic_prefix=topic_prefix,
            say=say,
            await_observed=await_observed,
            hold_s=hold_s,
            outage=outage,
        )
        return conductor.play()


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("all", _ALL),
        Scenario("resurrected", {"tombstone": _ALL["tombstone"]}),
        Scenario("aborted-committed", {"abort": _ALL["abort"]}),
        Scenario("committed-aborted", {"commit": _ALL["commit"]}),
        Scenario("deletion-committed", {"deletion": _ALL["deletion"]}),
        Scenario("frozen", {"frozen": _ALL["frozen"]}),
        Scenario("group-offset", {OFFSETS_TOPIC: group_offset_resurrected}, conductor=GroupConductor),
        Scenario("healthy", _ALL, diverges=False),
    )
}
"""Every scenario by its name on the command line; `parallax.lab.named` says what each does."""


def scenario(name: str) -> Scenario:
    """The scenario of a given name, such as ``resurrected``.

    Raises:
        LabError: there is none of that name; the text lists those that exist.
    """
    try:
        return SCENARIOS[name]
    except KeyError:
        raise LabError(f"there is no scenario {name!r}; choose one of {', '.join(SCENARIOS)}") from None


__all__ = ["SCENARIOS", "ExpectedFinding", "Scenario", "ScenarioResult", "scenario"]
