"""The alert rules about findings and suspects.

A finding is one alert, by cluster, topic, partition and its id. What is said of it comes from ``parallax_finding_info``
when the message is written, so a finding that is refined stays the same alert. Its state is one of five, so that no two
alerts are about the same thing. While a job is away, or has not loaded its findings yet, the last state counts: a job
that is down resolves nothing, whatever other jobs there are.

An alert that ends fires once more, in words of the past. A message that it is resolved has the annotations of that last
time, so that nobody reads there that the replicas differ.

One that somebody has acknowledged keeps its alert, and has a second one, by which Alertmanager suppresses the first
(`dashboards.routes`): if the first ended, Alertmanager would send that it is resolved.
"""

from __future__ import annotations

from typing import Any

from dashboards.alerts import BEHIND, FOR, WHERE, Alerts
from dashboards.expressions import FINDING, FORMER, HEARD, SAID, STANDS
from dashboards.partition import UID as PARTITION
from parallax.alerting.listing import ALARMS

WORSE = "ParallaxFindingWorse"
"""The alert about a finding that has become worse than what somebody acknowledged."""

_EXPLAIN = "parallax findings explain {{ $labels.finding_id }} -c CONFIG"
_ENDS, _IS_KNOWN = "eq $value 0.0", "ge $value 0.0"
"""Of an alert's value (`Expressions.ended`): it fires for the last time, and the job says what came of it."""
_ASK = f"`{_EXPLAIN}` says what became of it."


class FindingAlerts(Alerts):
    """Makes these rules for some parameters."""

    def rules(self) -> list[dict[str, Any]]:
        """All of them, as Prometheus loads them."""
        return [
            # In this group, and first: the alerts below go by what was recorded a moment ago.
            {"record": HEARD, "expr": self._e.heard()},
            {"record": FORMER, "expr": self._e.former()},
            {"record": STANDS, "expr": self._e.state()},
            {"record": SAID, "expr": self._e.said()},
            *(
                self._about(alarm.name, self._e.in_state(state), alarm.severity.value)
                for state, alarm in ALARMS.items()
            ),
            self._acknowledged(),
            self._about(WORSE, self._worse(), "critical", "Worse than was acknowledged: "),
            self._alert(
                "ParallaxFindingsUnlisted",
                f"max by (cluster) ({self._e.known('findings_unlisted')}) > 0",
                "critical",
                f"More findings are open{FOR} than alerts name one by one",
                "{{ $value }} more findings are open than are listed. `parallax findings list -c CONFIG` shows all of "
                "them.",
                (f"More findings were open{FOR} than alerts name one by one", "Each has an alert of its own now."),
            ),
            self._lasting(
                "ParallaxSuspectsUndecided",
                self._p.undecided,
                lambda known: f"min by (cluster, topic, partition) ({known('suspects_pending')}) > 0",
                "warning",
                f"Suspects in {WHERE}{FOR} cannot be decided",
                f"For {self._p.undecided} there have been suspects without a verdict, now {{{{ $value }}}}: a replica "
                "that is needed does not answer, or its log is still being scanned.",
                past=(f"Suspects in {WHERE}{FOR} could not be decided for a time", "None is without a verdict now."),
            ),
            self._alert(
                "ParallaxTransactionHanging",
                "time() - min by (cluster, topic, partition, producer_id) "
                f"({self._e.known('hanging_transaction_start_timestamp_seconds')})",
                "warning",
                f"A transaction of {WHERE}{FOR} hangs",
                "For {{ $value | humanizeDuration }} a transaction of producer {{ $labels.producer_id }} has been open "
                "that hangs, or takes longer than any may. read_committed consumers of the partition get nothing "
                "beyond it, on any replica, and the log is not cleaned beyond it. `parallax check -c CONFIG` says "
                "whether it hangs, and only then how to end it.",
            ),
        ]

    def _acknowledged(self) -> dict[str, Any]:
        """It ends with the alert that it suppresses, and not before: that one would be sent again, as its last word."""
        name = "ParallaxFindingAcknowledged"
        was, ask = f"A finding of {WHERE}{FOR} was acknowledged", f"It is over, or is worse than was known. {_ASK}"
        stood = f'max by ({FINDING}) (ALERTS{{alertname="{name}", alertstate="firing"}})'
        series = f"parallax_finding_acknowledgement_info{{finding_id=%q}}[{self._p.remembered}]"
        asked = f'query (printf "topk(1, last_over_time({series}))" $labels.finding_id)'
        return self._alert(
            name,
            f"({self._e.stands('finding_acknowledged')}) or ({self._e.ended()} and on ({FINDING}) {stood})",
            "info",
            f"{{{{ if {_ENDS} }}}}{was}{{{{ else }}}}A finding of {WHERE}{FOR} is acknowledged; it stands{{{{ end }}}}",
            f"{{{{ with {asked} }}}}{{{{ with first . }}}}{{{{ .Labels.by }}}}: {{{{ .Labels.comment }}}}"
            "{{ end }}{{ end }}",
            (was, _said("{{ .Labels.summary }}", ask, when=_ENDS)),
            **self._leads(),
        )

    def _leads(self) -> dict[str, str]:
        """Where to go from an alert about a finding."""
        place = "var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}"
        dashboard = {"dashboard_url": f"{self._p.grafana}/d/{PARTITION}?{place}"} if self._p.grafana else {}
        return {"command": _EXPLAIN, **dashboard}

    def _about(self, name: str, expr: str, severity: str, before: str = "") -> dict[str, Any]:
        """An alert about findings in the words of the job; its value is 1, or one of `Expressions.ended`."""
        more = {label: _said(f"{{{{ .Labels.{label} }}}}") for label in ("kind", "broker_id", "record_offset")}
        more["kind_runbook_url"] = f"{self._p.runbook}#{_said('{{ .Labels.runbook }}')}"
        turn, headline, summary = (f"{{{{ .Labels.{label} }}}}" for label in ("turn", "headline", "summary"))
        more["turn"] = _said(turn, when=_ENDS)
        left = f"It is over, or has changed and has another alert. {_ASK}"
        return self._alert(
            name,
            expr,
            severity,
            f"{_said(f'{before or turn}{headline}', f'Divergence of {WHERE}', when=_IS_KNOWN)}{BEHIND}",
            _said(summary, left, when=_IS_KNOWN),
            (
                f"{_said(f'{turn}{headline}', f'Replicas of {WHERE} differed', when=_ENDS)}{BEHIND}",
                _said(summary, left, when=_ENDS),
            ),
            **more,
            **self._leads(),
        )

    def _worse(self) -> str:
        """Findings that stand, and were acknowledged and are not any more; from then on, for as long as they stand.

        Alertmanager does not send an alert again that it has sent before it suppressed it: this one is another alert,
        and another one for each acknowledgement that the finding has outgrown.
        """
        acknowledged = self._e.of("finding_acknowledged")
        was = f"(max by ({FINDING}) (max_over_time({acknowledged}[{self._p.remembered}])) > 0)"
        ended = f"{was} unless on ({FINDING}) ({self._e.stands('finding_acknowledged')})"
        ended = f'count_values by ({FINDING}) ("outgrown", {ended})'
        alerts = f'ALERTS{{alertname="{WORSE}", alertstate="firing"}}'
        said = f"max by ({FINDING}, outgrown) (last_over_time({alerts}[{self._p.remembered}]))"
        now = f"(({ended}) or ({said} unless on ({FINDING}) {was})) and on ({FINDING}) {STANDS}"
        over = f"max by ({FINDING}, outgrown) ({alerts}) * on ({FINDING}) group_left () ({self._e.ended()})"
        return f"({now}) or {over}"


def _said(template: str, otherwise: str = "", *, when: str = "") -> str:
    """A template of the last word of a finding (`SAID`); something else where there is none, or a condition fails."""
    asked = f'query (printf "{SAID}{{finding_id=%q}}" $labels.finding_id)'
    asked = f"and ({when}) ({asked})" if when else asked
    other = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    return f"{{{{ with {asked} }}}}{{{{ with first . }}}}{template}{{{{ end }}}}{other}{{{{ end }}}}"
