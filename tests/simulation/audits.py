"""How an audit of the simulated partition ended, and what it settles: by the product's own words for that."""

from __future__ import annotations

from parallax.audit.ledger import Ended
from parallax.audit.result import Result
from parallax.compare.replicas import ended_up_to, retained_from
from parallax.compare.rules.outcome import open_disputes
from parallax.compare.state import PartitionState
from parallax.compare.suspect import Coverage
from parallax.model import FindingKind, UnknownReason
from tests.reasons import UNTIL_AUDITED
from tests.simulation.monitor import Monitor
from tests.simulation.readers import RC, RU


def ended(audit: Monitor, started_at: int) -> Ended | None:
    """The end of an audit as the job keeps it; None where something of what it compared is left open.

    Args:
        audit: after its last look, with its suspects probed.
        started_at: in ms, on the cluster's clock.
    """
    replicas = audit.cluster.replicas.values()
    ends = max(r.hw for r in replicas), max(r.lso for r in replicas)
    state = PartitionState.from_bytes(audit.state)
    if not all(replica.up for replica in replicas) or audit.pending or _is_left_open(audit, state, ends):
        return None
    compared = audit.coverage.compared_up_to
    return Ended(
        started_at,
        audit.cluster.now,
        str(Result.DIVERGED if audit.confirmed else Result.CONSISTENT),
        max(retained_from(state), 0),
        (min(compared[RU], ends[RU]), min(compared[RC], ends[RC], ended_up_to(state))),
    )


def _is_left_open(audit: Monitor, state: PartitionState, ends: tuple[int, int]) -> bool:
    """Whether an audit would give a reason why there may be more than was seen."""
    waiting = (state.candidates["offset"] < ends[RC]).any()
    disputed = (state.pending["offset"][open_disputes(state.pending)] < ends[RC]).any()
    behind = any(read_to < end for read_to, end in zip(audit.coverage.compared_up_to, ends, strict=True))
    head_found = any(suspect.kind is FindingKind.LOG_HEAD_MISSING for suspect in audit.suspects)
    told = UNTIL_AUDITED | ({UnknownReason.LOG_START_DIFFERS} if head_found else set())
    unknown = any(max(views) > 0 for reason, views in audit.coverage.unknown.items() if reason not in told)
    return bool(waiting or disputed or behind or unknown)


def settled(coverage: Coverage, verdict: Ended | None) -> Coverage:
    """The coverage without what the last audit with a verdict has compared."""
    return coverage if verdict is None else coverage.settled(verdict.covers)
