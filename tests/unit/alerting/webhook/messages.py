"""Messages to receivers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from parallax.alerting.places import Places
from parallax.alerting.webhook.outbox import Message, Outbox, Pace
from parallax.findings.finding import Finding
from parallax.model import FindingStatus

LAB = Places(cluster="lab")


def message(*findings: Finding, over: tuple[Finding, ...] = (), places: Places = LAB) -> Message:
    outbox = Outbox(Pace(repeat_s=3600), Random(1), places)
    outbox.observe([*findings, *over], 1000.0)
    ended = [replace(one, status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed: gone.") for one in over]
    outbox.observe(findings, 1001.0, ended)
    found = outbox.due(2000.0)
    assert found is not None
    return found
