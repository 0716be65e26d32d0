"""What an alert rule is made of, whatever it is about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dashboards.expressions import Expressions
from dashboards.parameters import Parameters

WHERE = "{{ $labels.topic }}-{{ $labels.partition }}"
"""The partition of an alert, in its annotations."""
FOR = "{{ with $labels.cluster }} of cluster {{ . }}{{ end }}"
"""Its cluster, where it has a name."""

Known = Callable[..., str]
"""`Expressions.known`, for the time that the alert waits."""


class Alerts:
    """Makes alert rules for some parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._e = Expressions(parameters)

    def _alert(
        self,
        name: str,
        expr: str,
        severity: str,
        summary: str,
        description: str,
        *,
        wait: str | None = None,
        **more: str,
    ) -> dict[str, Any]:
        annotations = {"summary": summary, "description": description}
        annotations |= {"runbook_url": f"{self._p.runbook}#{name.lower()}"} | more
        rule: dict[str, Any] = {"alert": name, "expr": expr, "labels": {"severity": severity}}
        return rule | ({"for": wait} if wait else {}) | {"annotations": annotations}

    def _lasting(self, name: str, wait: str, expr: Callable[[Known], str], *said: str) -> dict[str, Any]:
        """An alert about what has lasted for a time."""
        severity, summary, description = said
        return self._alert(name, expr(partial(self._e.known, wait=wait)), severity, summary, description, wait=wait)
