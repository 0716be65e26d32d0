"""Links to the sections of the runbook.

The setting `alerting.runbook_url` says where the runbook is. A section says what to do about one alert.
"""

from __future__ import annotations

RUNBOOK = "docs/runbook.md"
"""Where it is as long as no settings are known: in the project."""
HANGING = "a-transaction-that-hangs"
"""The section on transactions that no coordinator will end."""


def section(runbook: str, name: str) -> str:
    """The link to a section of the runbook.

    Args:
        runbook: the address of the runbook, or its path.
        name: the anchor of the heading, or the name of an alert, whose section has the same name.
    """
    return f"{runbook}#{name.lower()}"
