"""The cluster's name, links and commands that messages and alerts contain."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from parallax.runbook import RUNBOOK
from parallax.shell import ANYWHERE, Shell


@dataclass(frozen=True, slots=True)
class Places:
    """What alerts need to name the cluster, and to link to the runbook and the status page.

    Attributes:
        cluster: ``alerting.cluster``.
        runbook: address of the runbook.
        page: ``alerting.external_url``; empty: alerts link to no page.
        shell: how commands name the cluster and the job.
    """

    cluster: str = ""
    runbook: str = RUNBOOK
    page: str = ""
    shell: Shell = ANYWHERE

    def named(self, what: str) -> str:
        """A headline to which the cluster's name is added, if it has one."""
        return f"{what} (cluster {self.cluster})" if self.cluster else what

    def page_of(self, path: str = "") -> str:
        """The address of a page of the job; empty if ``alerting.external_url`` is not set."""
        return f"{self.page.rstrip('/')}/{path}" if self.page else ""

    def page_of_finding(self, finding_id: str) -> str:
        """The address of a finding's page; empty if ``alerting.external_url`` is not set."""
        return self.page_of(f"findings/{quote(finding_id, safe='')}")

    def explain(self, finding_id: str) -> str:
        """The command that explains a finding."""
        return self.shell.parallax("findings", "explain", finding_id)


__all__ = ["Places"]
