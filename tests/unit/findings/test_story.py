"""One finding from rows to its end, as docs/contribute/walkthrough.md says it: broker 2 has missed a tombstone.

The cluster is that of the simulation. All else is the program: comparison, questions, decision, events, listing.
"""

from __future__ import annotations

from typing import Any

import pytest

from parallax.alerting.listing import headline, state_of
from parallax.findings.explain import explain
from parallax.findings.finding import Finding, evidence_of
from parallax.findings.requests import Ask
from tests.simulation import probe
from tests.simulation.ops import STANDARD, looked_at_again, parse
from tests.simulation.world import World

MISSED = """
write -1 1 9; sync; round; stop 2; write -1 1 -1; write -1 90 1; sync; round; tick 3000; write -1 90 2; sync; clean 1;
clean 3; tick 3000; write -1 90 3; sync; clean 1; clean 3; start 2; sync;
round; tick 400; round; tick 400; round
"""
"""``K=alive`` at 0; broker 2 goes away; the tombstone of K at 1 is read on 1 and 3, and cleaned there with 0."""
COPIED = "wipe 2 1; sync; round; tick 200; round"
"""Broker 2 gets a new copy from the leader, 1."""


def of_a_suspect(suspect: Any) -> str:
    seen = suspect.accusation.observations
    return (
        f"suspect: {suspect.kind} on broker {suspect.broker}, the tombstone at {suspect.accusation.offset}, epoch "
        f"{seen['leader_epoch']}, was shown by {seen['record_shown_by']} and not by {seen['not_shown_by']}"
    )


def of_an_event(event: Finding) -> list[str]:
    evidence = evidence_of(event)
    proof = {name: said for name, said in evidence.get("proven_by", {}).items() if name != "read_ms"}
    said = [f"event: {event.status} {event.kind} on broker {event.broker}, offset {event.offset}"]
    said += [f"proof: {proof}"] if proof else []
    if event.stands:
        return [*said, f"alert: {state_of(event)}: {headline(state_of(event), event)}"]
    return [*said, f"end: {evidence['resolution']}: {evidence['reason']}"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom a probe asks for what of the key, in order."""
    lines: list[str] = []
    answer = probe._answer

    def noted(cluster: Any, question: Any, *more: Any) -> Any:
        if isinstance(question, Ask):
            what = [name for name in ("offsets", "markers", "keys", "epochs") if getattr(question.wants, name, None)]
            lines.append(f"ask {list(question.brokers)}: {', '.join(what) or 'the ends of the log'}")
        return answer(cluster, question, *more)

    monkeypatch.setattr(probe, "_answer", noted)
    return lines


STORY = """
suspect: deleted_record_resurrected on broker 2, the tombstone at 1, epoch 0, was shown by [1, 3] and not by [2]
ask [2]: offsets, keys, epochs
ask [1, 3]: offsets, keys, epochs
ask [2]: offsets, keys, epochs
event: confirmed deleted_record_resurrected on broker 2, offset 1
proof: {'what': 'tombstone', 'offset': 1, 'leader_epoch': 0, 'read_on': [1, 3]}
alert: confirmed: Broker 2 still shows a deleted record of t-0
"""
END = """
event: resolved deleted_record_resurrected on broker 2, offset 1
end: healed: broker 2 shows no live value of the key
"""


def test_a_missed_tombstone_is_suspected_asked_about_proven_reported_and_over_in_this_order(asked: list[str]) -> None:
    world = World(STANDARD)
    for op in parse(MISSED):
        world.apply(op)
    trace = [of_a_suspect(suspect) for suspect in world.monitor.suspects] + asked
    trace += [line for event in world.monitor.events for line in of_an_event(event)]
    print("\n".join(trace))
    assert trace == STORY.strip().splitlines()
    (finding,) = world.monitor.lifecycle.standing()
    assert explain(finding).proof.startswith(
        "Deleted by the tombstone at offset 1, epoch 0, that brokers 1 and 3 had shown by "
    )
    known = len(world.monitor.events)
    for op in parse(COPIED):
        world.apply(op)
    looked_at_again(world, 2)
    assert [line for event in world.monitor.events[known:] for line in of_an_event(event)] == END.strip().splitlines()
