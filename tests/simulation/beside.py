"""The second opinion of a seed, by itself or beside the product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from parallax.findings.incidents import ALONE
from tests.simulation import kinds, oracle, properties
from tests.simulation.expected import Shown
from tests.simulation.history import with_kills
from tests.simulation.monitor import Monitor
from tests.simulation.properties import Ended, Unknown
from tests.simulation.second import MISSED, UNSOUND, Mistake, Second, Watching
from tests.simulation.world import Violation, World


@dataclass
class Beside(Second):
    """A history with the product and the judge: where do they say something else?"""

    watching: ClassVar[type[Monitor]] = Watching

    def __post_init__(self) -> None:
        super().__post_init__()
        real = self.judge.audited

        def audited(findings: Ended, unknown: Unknown, shown: Shown) -> None:
            self._compare(findings)
            real(findings, unknown, shown)

        self.judge.audited = audited  # type: ignore[method-assign]

    def settle(self) -> None:
        """As the product's own histories end."""
        World.settle(self)

    def _audit(self) -> None:
        World._audit(self)

    def _compare(self, findings: Ended) -> None:
        """Count, for each place that is wrong at the end, what either says; the product after an audit."""
        self.conclude()
        if self.profile.late or self.profile.cap is not None:
            return
        now, truth = self.judge.now(), oracle.truth_of(self.cluster)
        for place in properties.places(truth, now):
            theirs = [one for one in findings.standing if properties.covers(one, place, truth, now)]
            gone = place.what == "outcome" and any(properties.covers(one, place, truth, now) for one in findings.gone)
            product = "nothing"
            if theirs:
                product = "accused" if any(one.accused is not None for one in theirs) else "a difference"
            elif gone:
                product = "accused, and gone"
            ours = (self.how(place, truth, now) or MISSED).split(":")[0]
            if ours != product:
                self.counts[f"beside {place.what}: judge {ours}, product {product}"] += 1
        for one in findings.standing:
            if properties.stands(one, now, self.cluster, findings.standing) is not None:
                self.counts[f"beside a finding of the product stands wrongly: {one.kind}"] += 1


def opinion(seed: int, healthy: bool, alone: int = ALONE, kills: int = 0, *, kind: type[Second] = Second) -> Second:
    """Run the history of a seed with the judge, by itself or beside the product.

    Args:
        seed: of the history.
        healthy: nothing befalls it that makes replicas diverge.
        alone: see `Profile.alone`.
        kills: see `Profile.kills`.
        kind: by itself (`Second`), beside the product (`Beside`), or by what that suspects (`Planned`).

    Raises:
        Violation: a look said what is not true, or the last one missed something.
    """
    p = replace(kinds.profile(seed, healthy), alone=alone, kills=kills)
    world = kind(p)
    try:
        world.run(with_kills(p, kinds.generate(p)))
    except Violation:
        if kind is Second:
            raise
        world.counts["beside the product breaks a property"] += 1
    if healthy and world.last is not None and any(not verdict.past for verdict in world.last.verdicts):
        world.mistakes.append(Mistake(f"{UNSOUND} on a healthy cluster", str(world.last.verdicts[0])))
    world.counts["judged ms"] += round(world.seconds * 1000)
    if world.mistakes:
        command = f"python -m tests.simulation --second-opinion --mode {'healthy' if healthy else 'faulty'}"
        lines = [
            f"second opinion: {world.mistakes[0]}",
            f"reproduce: {command} --seed {seed} --count 1 --alone {alone} --kills {kills}",
            *(f"  and {mistake}" for mistake in world.mistakes[1:4]),
        ]
        raise Violation("\n".join(lines))
    return world
