"""What a step makes, as text between the tasks of the comparison and its driver."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from parallax.compare.suspect import Accusation, BrokerCoverage, Coverage, DeferredRange, Suspect, UnreadRange
from parallax.model import FindingKind, Rule, UnknownReason


def to_json(suspects: list[Suspect], coverage: Coverage) -> str:
    """Write the suspects and the coverage of one partition."""
    return json.dumps({"suspects": [asdict(s) for s in suspects], "coverage": asdict(coverage)})


def from_json(text: str) -> tuple[list[Suspect], Coverage]:
    """Read what `to_json` wrote."""
    document = json.loads(text)
    return [_suspect(s) for s in document["suspects"]], _coverage(document["coverage"])


def _suspect(fields: dict[str, Any]) -> Suspect:
    accusation = fields["accusation"]
    accusation |= {"rule": Rule(accusation["rule"]), "kind": FindingKind(accusation["kind"])}
    return Suspect(**fields | {"accusation": Accusation(**accusation)})


def _coverage(fields: dict[str, Any]) -> Coverage:
    read_uncommitted, read_committed = fields["compared_up_to"]
    unknown = {UnknownReason(reason): (n[0], n[1]) for reason, n in fields["unknown"].items()}
    unread = tuple(UnreadRange(**span | {"reason": UnknownReason(span["reason"])}) for span in fields["unread"])
    return Coverage(
        **fields
        | {
            "compared_up_to": (read_uncommitted, read_committed),
            "unknown": unknown,
            "unread": unread,
            "deferred": tuple(DeferredRange(**d) for d in fields["deferred"]),
            "brokers": tuple(BrokerCoverage(**b) for b in fields["brokers"]),
        }
    )
