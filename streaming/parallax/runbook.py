"""Links into the runbook, the document that says for each alert what to do.

The setting `alerting.runbook_url` is its address.
"""

from __future__ import annotations

from parallax import remedies

RUNBOOK = "docs/runbook.md"
"""Path of the runbook in the repository, for links as long as no settings are known."""
HANGING = remedies.HANGING.anchor
"""The anchor of the runbook's section on transactions that no coordinator will end."""


def section(runbook: str, name: str) -> str:
    """The link to one section of the runbook, such as ``docs/runbook.md#parallaxunauthorized``.

    Args:
        runbook: the address of the runbook, or its path.
        name: the anchor of the section's heading, or the name of an alert. An alert's section is named after it.
    """
    return f"{runbook}#{name.lower()}"
