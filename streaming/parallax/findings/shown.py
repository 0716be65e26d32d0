"""Holds the evidence of one finding, for what says who is right and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parallax.findings.about import VARIANT
from parallax.findings.answers import ABORTED
from parallax.findings.claim import is_direct_end
from parallax.findings.finding import Finding, evidence_of
from parallax.findings.who_led import WhoLed
from parallax.kinds import SHOWING_OLDER
from parallax.model import NOBODY, UNKNOWN, FindingKind
from parallax.sides import Side, against, outcomes_on, parsed


@dataclass(frozen=True, slots=True)
class Shown:
    """The evidence of one finding's last event, as JSON values by broker; all functions of this module read it.

    Attributes:
        finding: the finding's last event, which holds the evidence.
        leader: the leader's broker id when the replicas were asked; `NOBODY` where it is not known.
        sides: the brokers on each side of the difference.
        assigned: the replicas in the order of their assignment, the preferred leader first; by broker id where the
            order is not known.
        replicas: by broker, its answer to the probe, as JSON values.
        markers: by broker, the type of the end marker that the views recorded of it: ``commit`` or ``abort``.
        outcomes: by broker, the outcome that the views recorded of it: ``committed`` or ``aborted``.
        was_accused: the brokers that an earlier finding accused of the same, and that may still be wrong.
        was_deletion: whether a replica was seen to hold a tombstone as the record of the finding's transaction.
        ``beside``: the brokers other than the accused that showed the accused's value of the key when they were last
            asked, where that is older than the finding's record; else empty. Of an incident those that have shown the
            same as the accused for some member.
        led: the leader when the replicas were last asked; of an incident, when members were last asked about.
        leads_alike: of an incident, the broker that led when members were last asked about and showed one of them as
            the accused does; `NOBODY` if the leader did not, or was the accused.
    """

    finding: Finding
    leader: int
    sides: Mapping[Side, frozenset[int]]
    assigned: tuple[int, ...]
    replicas: Mapping[int, Mapping[str, Any]]
    markers: Mapping[int, str]
    outcomes: Mapping[int, str]
    was_accused: frozenset[int]
    beside: frozenset[int] = frozenset()
    leads_alike: int = NOBODY
    led: int = NOBODY
    was_deletion: bool = False

    @classmethod
    def of(cls, finding: Finding) -> Shown:
        """Parse the evidence of a finding's last event."""
        evidence = evidence_of(finding)
        recorded, replicas = evidence.get("recorded") or {}, _by_broker(evidence.get("replicas"))
        of_key = frozenset(recorded.get("beside") or ()) if evidence.get(VARIANT) in SHOWING_OLDER else frozenset()
        many = evidence.get("incident")
        of_members = frozenset(many.get("beside") or ()) if isinstance(many, dict) else frozenset()
        led = WhoLed.of(finding).leader
        return cls(
            finding=finding,
            leader=int(evidence.get("leader", NOBODY)),
            sides={side: frozenset(brokers) for side, brokers in parsed(evidence.get("sides")).items()},
            assigned=_in_order(evidence.get("assigned") or (), replicas),
            replicas=replicas,
            markers=_by_broker(recorded.get("markers")),
            outcomes=_by_broker(recorded.get("outcomes")),
            was_accused=frozenset(recorded.get("was_accused") or ()),
            beside=of_key | of_members,
            led=led,
            was_deletion=recorded.get("was_deletion") is True,
            leads_alike=led if finding.exposed and led in of_members else NOBODY,
        )

    @property
    def alike(self) -> frozenset[int]:
        """The accused, and the brokers that the finding's proof shows to be wrong in the same way."""
        finding, accused = self.finding, self.finding.broker
        is_of_the_index = finding.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER
        if is_of_the_index and not is_direct_end(finding.offset, finding.marker_offset):
            # Another replica may hold a lower end marker, by which the outcome that both show is right.
            return frozenset({accused})
        return self.beside.union({accused}, *(side for side in self.sides.values() if accused in side))

    @property
    def showing(self) -> frozenset[int]:
        """The accused, and the brokers whose replicas answered the probe with the same as the accused.

        An outcome that was only recorded does not count. The log that showed it may have been replaced.
        """
        said = outcomes_on(self.sides, self.finding.broker)
        others = (self.alike & self.answered) - {self.finding.broker}
        shown = frozenset(broker for broker in others if not said or live_outcomes(self, broker))
        return shown | {self.finding.broker}

    @property
    def showing_now(self) -> frozenset[int]:
        """The brokers in ``showing``, and the leader of an incident that shows a member as the accused does."""
        return self.showing | ({self.leads_alike} - {NOBODY})

    @property
    def against(self) -> list[frozenset[int]]:
        """The brokers that show something else than the accused: one set for each side other than the accused's."""
        return against(self.sides, self.finding.broker)

    @property
    def answered(self) -> frozenset[int]:
        """The brokers whose replicas answered the probe."""
        return frozenset(broker for broker, answer in self.replicas.items() if answer.get("error") is None)


def _by_broker(part: Mapping[str, Any] | None) -> dict[int, Any]:
    return {int(broker): value for broker, value in (part or {}).items()}


def _in_order(assigned: Iterable[int], replicas: Iterable[int]) -> tuple[int, ...]:
    """Return all replicas that were asked, with those first whose order is known."""
    asked = sorted(replicas)
    return tuple(dict.fromkeys([*(broker for broker in assigned if broker in asked), *asked]))


def live_outcomes(shown: Shown, broker: int) -> set[str]:
    """Return which outcomes a broker's replica shows now for the finding's transaction, by its records and its list.

    Args:
        shown: the evidence of the finding.
        broker: id of the broker.
    """
    finding, answer = shown.finding, shown.replicas.get(broker, {})
    producer, start = finding.producer_id, finding.transaction_start_offset
    found = outcomes_of_records(shown, broker)
    listed = ((one["producer_id"], one["first_offset"]) for one in answer.get("aborted", ()))
    if start != UNKNOWN and (producer, start) in listed:
        found.add(ABORTED)
    return found


def outcomes_of_records(shown: Shown, broker: int) -> set[str]:
    """Return which outcomes a broker's replica shows of the finding's records that it holds now.

    Args:
        shown: the evidence of the finding.
        broker: id of the broker.
    """
    finding = shown.finding
    named = {finding.offset, finding.transaction_start_offset} - {UNKNOWN}
    return {
        record["outcome"]
        for record in shown.replicas.get(broker, {}).get("committed", ())
        if record["offset"] in named and record["producer_id"] == finding.producer_id
    }


__all__ = ["Shown", "live_outcomes", "outcomes_of_records"]
