"""The cluster's name, links and commands that are put into messages and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from parallax.runbook import RUNBOOK
from parallax.shell import ANYWHERE, Shell


@dataclass(frozen=True, slots=True)
class Places:
    """The cluster's name, the addresses of the runbook and the status page, and how to print commands.

    Attributes:
        cluster: ``alerting.cluster``, the cluster's name for people; may be empty.
        runbook: address of the runbook.
        page: ``alerting.external_url``, the address of the status page; if empty, alerts link to no page.
        shell: how printed commands name the cluster and the job.
    """

    cluster: str = ""
    runbook: str = RUNBOOK
    page: str = ""
    shell: Shell = ANYWHERE

    def named(self, what: str) -> str:
        """The headline ``what`` with the cluster's name, as in ``... (cluster prod)``; unchanged if it has none."""
        return f"{what} (cluster {self.cluster})" if self.cluster else what

    def page_of(self, path: str = "") -> str:
        """The full address of a path on the status page; empty if ``alerting.external_url`` is not set."""
        return f"{self.page.rstrip('/')}/{path}" if self.page else ""

    def page_of_finding(self, finding_id: str) -> str:
        """The full address of the page of the finding ``finding_id``; empty if ``alerting.external_url`` is not set."""
        return self.page_of(f"findings/{quote(finding_id, safe='')}")

    def explain(self, finding_id: str) -> str:
        """The shell command that explains the finding ``finding_id``, ready to be pasted."""
        return self.shell.parallax("findings", "explain", finding_id)


__all__ = ["Places"]
