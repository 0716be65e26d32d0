"""What an installation may want otherwise: where things are, which series are meant, when an alert fires."""

from __future__ import annotations

from dataclasses import dataclass

from parallax.config import PAGES


@dataclass(frozen=True)
class Parameters:
    """Of the dashboards and the alert rules; durations as Prometheus writes them.

    Attributes:
        pages: where the documents are; runbook links begin there.
        grafana: where Grafana is; empty: alerts link to no dashboard.
        selector: label matchers that each series of the alert rules must meet, e.g. ``namespace="kafka"``.
        gap: for how long after its start a job may not have said yet all that is so, and for how long after the end of
            an outage its last word is looked for.
        remembered: for how long a job that is away is remembered, with its findings.
        absent_for: how long the job may be away.
        stalled_s: seconds without a comparison, or without progress of a query.
        unreachable_for: how long a broker may be away.
        paused_s: seconds that an operator's pause of the reading may last before it is asked about.
        unread_for: how long the first reading may take.
        undecided: how long what has no verdict may be so.
        lag_s: seconds that a view may be behind.
        lag_for: for how long it must be.
        full_for: how long the storage may be full, or an address be another cluster's.
        first_for: how long a replica that is proven wrong may come first without leading: for so long the job may not
            have seen who leads, or what a repair has mended.
        restarts: of a query in 15 minutes.
        undelivered_s: seconds that a receiver of the job's own messages may be out of reach.
        absent_share: of the time that a replica may be absent.
        removal_near_s: seconds that must be left of it, or a quarter of it.
    """

    pages: str = PAGES
    grafana: str = ""
    selector: str = ""
    gap: str = "2m"
    remembered: str = "1d"
    absent_for: str = "5m"
    stalled_s: int = 300
    unreachable_for: str = "5m"
    paused_s: int = 3600
    unread_for: str = "30m"
    undecided: str = "15m"
    lag_s: int = 600
    lag_for: str = "5m"
    full_for: str = "1m"
    first_for: str = "1m"
    restarts: int = 3
    undelivered_s: int = 300
    absent_share: float = 0.5
    removal_near_s: int = 3600

    @property
    def runbook(self) -> str:
        """The address of the runbook."""
        return f"{self.pages}/runbook.md"
