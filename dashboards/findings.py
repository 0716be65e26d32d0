"""The alert rules about findings and suspects.

A finding is one alert, by cluster, topic, partition and its id. What is said of it comes from ``parallax_finding_info``
when the message is written, so a finding that is refined stays the same alert. Its state is one of five, so that no two
alerts are about the same thing. While a job is away, or has not loaded its findings yet, the last state counts: a job
that is down resolves nothing, whatever other jobs there are.

An alert that ends fires once more, in words of the past. A message that it is resolved has the annotations of that last
time, so that nobody reads there that the replicas differ. Where nobody has said that it is over, they say that.

A page goes on until its finding is over, whatever becomes of it, and one that becomes worse begins another. One that
somebody has acknowledged has a second alert, by which Alertmanager suppresses the first (`dashboards.routes`): if the
first ended, Alertmanager would send that it is resolved. So it is with one that has paged and is less grave by now. One
that becomes worse than what was acknowledged, or critical again, has another one, which suppresses the first as well,
and the end of the acknowledgement that it has outgrown.
"""

from __future__ import annotations

from typing import Any

from dashboards.alerts import BEHIND, FOR, NOBODY_KNOWS, NUMBER, WHERE, Alerts, agreed, command
from dashboards.expressions import ACKNOWLEDGED, ELECTION, HAPPENED, OUTGROWN, SAID, SHOWN, STANDS, STATES
from dashboards.partition import UID as PARTITION
from parallax.alerting.conditions import CONDITIONS
from parallax.alerting.leaders import Choice
from parallax.alerting.listing import ALARMS, Turn
from parallax.model import Severity
from parallax.shell import ANYWHERE

WORSE = "ParallaxFindingWorse"
"""The alert about a finding that has become worse than what somebody acknowledged, or than a ticket says."""
LESS = "ParallaxFindingLessGrave"
"""The note about a finding that still pages, and is less grave. Its page says nothing new by itself."""
KNOWN = "ParallaxFindingAcknowledged"
"""The alert about a finding that somebody has acknowledged."""

_EXPLAIN = f"parallax findings explain {{{{ $labels.finding_id }}}} {ANYWHERE.options}"
"""The command where the job has said nothing; otherwise it names that itself (label ``command``)."""
_HAPPENED = "It has happened: "
"""Before the end of an alert about a danger that has become real (annotation ``resolved_turn``)."""
_IS_OPEN = f"eq $value {float(Choice.UNCONFIRMED)}"
"""Whether the replica that an election makes the leader is wrong is not known yet."""
_ENDS, _IS_KNOWN = "eq $value 0.0", "ge $value 0.0"
"""Of an alert's value (`Expressions.ended`): it fires for the last time, and the job says how it ended."""
_UNSAID = "{{ if eq $value -1.0 }}"
_TURN = f"{_UNSAID}{NOBODY_KNOWS}{{{{ end }}}}"
"""What comes before an end of which the job has not said anything."""
_IS_OUTGROWN = f"eq $value {float(OUTGROWN)}"
_OUTGROWN = f"{{{{ if {_IS_OUTGROWN} }}}}{Turn.WORSE}{{{{ end }}}}"
"""What comes before the end of an acknowledgement whose finding is open."""
_LAST = f"or ({_ENDS}) ({_IS_OUTGROWN})"
"""The alert about an acknowledgement fires for the last time, and what its finding is now is known."""
_ASK = "The annotation `command` has the command that says what became of it."
"""The job names that command with its own settings file; a text of the rules cannot."""


class FindingAlerts(Alerts):
    """Makes these rules for some parameters."""

    def rules(self) -> list[dict[str, Any]]:
        """All of them, as Prometheus loads them."""
        return [
            {"record": STATES, "expr": self._e.states()},
            {"record": STANDS, "expr": self._e.state()},
            {"record": SHOWN, "expr": self._e.shown()},
            {"record": SAID, "expr": self._e.said()},
            {"record": ACKNOWLEDGED, "expr": self._e.acknowledged()},
            {"record": ELECTION, "expr": self._e.election(self._p.first_for)},
            # What suppresses others comes last. Prometheus sends rule by rule, and a group may have its turn between:
            # an alert that outlasts what suppresses it would be sent once more when all is over. The end of one that is
            # still suppressed is not sent, but Prometheus says each end again after a minute.
            *self._by_state(is_critical=True),
            self._about(LESS, self._e.eased(LESS), "info", Turn.LESS),
            self._about(WORSE, self._e.outgrown(WORSE), "critical", Turn.WORSE),
            *self._by_state(is_critical=False),
            self._acknowledged(),
            self._alert(
                "ParallaxFindingsUnlisted",
                f"max by (cluster) ({self._e.of('findings_unlisted')}) > 0",
                "critical",
                f"More findings are open{FOR} than alerts name one by one",
                f"{NUMBER} more {agreed('finding is', 'findings are')} open than are listed. "
                f"`{command('findings', 'list')}` shows all of them.",
                (f"More findings were open{FOR} than alerts name one by one", "Each has an alert of its own now."),
            ),
            self._lasting(
                "ParallaxSuspectsUndecided",
                self._p.undecided,
                lambda known: (
                    f"max by (cluster, topic, partition) ({known('suspects_pending', told_with='findings_loaded')}) > 0"
                ),
                "warning",
                f"Suspects in {WHERE}{FOR} cannot be decided",
                f"For {self._p.undecided} there have been suspects without a verdict, now {NUMBER}. A replica "
                "that is needed may not answer, or may not be read, or its log is still being scanned: the job's log "
                "says which.",
                past=(f"Suspects in {WHERE}{FOR} could not be decided for a time", "None is without a verdict now."),
            ),
            self._unsafe_election(),
            self._alert(
                "ParallaxTransactionHanging",
                "time() - min by (cluster, topic, partition, producer_id) "
                f"({self._e.of('hanging_transaction_start_timestamp_seconds')})",
                "warning",
                f"A transaction of {WHERE}{FOR} is open for long on all replicas",
                "For {{ $value | humanizeDuration }} a transaction of producer {{ $labels.producer_id }} has been "
                "open. read_committed consumers of the partition get nothing beyond it, on any replica, and the log is "
                f"not cleaned beyond it. `{command('check')}` says whether it hangs, and only then how to end it.",
                (
                    f"A transaction of {WHERE}{FOR} was open for long on all replicas",
                    CONDITIONS["ParallaxTransactionHanging"].left,
                ),
            ),
        ]

    def _unsafe_election(self) -> dict[str, Any]:
        """What it says goes by the value, a `Choice`; with its last word it says whether the replica was elected.

        A replica that may have been changed since it was proven wrong is not called wrong. It is no silence either: the
        danger is over only once the finding is, or the election would choose another.
        """
        next_one = "It is in sync and comes first in the assignment, so the next election of preferred leaders, which "
        next_one += "brokers hold every five minutes by default, moves leadership to it."
        how = f"`{command('lead', '{{ $labels.topic }}')}` says"
        wrong = f"Broker {{{{ $labels.broker_id }}}} is proven wrong and does not lead. {next_one} {how} how to keep "
        wrong += "it from leading, or what is missing for that."
        open_ = (
            "Broker {{ $labels.broker_id }} does not lead. It was proven wrong, and may have been changed since, as "
        )
        open_ += f"by a repair: it is being asked again. {next_one} If this lasts, {how} what is known of it."
        elected = f"broker {{{{ $labels.broker_id }}}}, which is wrong, was elected leader of {WHERE}{FOR}"
        summary = f"{{{{ if {_IS_OPEN} }}}}Whether the next election of {WHERE}{FOR} makes a wrong replica the leader "
        summary += f"is not known yet{{{{ else }}}}The next election of {WHERE}{FOR} makes a wrong replica the leader"
        left = f"The findings about {WHERE} say what that means for its consumers, and what to run."
        name = "ParallaxUnsafeElection"
        return self._alert(
            name,
            self._e.elected(name),
            "warning",
            f"{summary}{{{{ end }}}}",
            f"{{{{ if {_IS_OPEN} }}}}{open_}{{{{ else }}}}{wrong}{{{{ end }}}}",
            (
                _if_elected(f"{_HAPPENED}{elected}", f"Parallax warns no longer of the next election of {WHERE}{FOR}"),
                _if_elected(left, f"{how} who leads there now, and who may."),
            ),
            wait=self._p.first_for,
            turn=_if_elected(_HAPPENED),
            has_last_word=True,
        )

    def _by_state(self, *, is_critical: bool) -> list[dict[str, Any]]:
        return [
            self._about(alarm.name, self._e.in_state(state), alarm.severity.value)
            for state, alarm in ALARMS.items()
            if (alarm.severity is Severity.CRITICAL) is is_critical
        ]

    def _acknowledged(self) -> dict[str, Any]:
        """It ends with the alert that it suppresses, and not before: that one would be sent again, as its last word."""
        ask = f"It is over, or is worse than was known. {_ASK}"
        left = f"{_UNSAID}{self._silence}{{{{ else }}}}{_said('{{ .Labels.summary }}', ask, when=_LAST)}{{{{ end }}}}"
        was = _said("{{ .Labels.headline }}", f"A finding of {WHERE} was acknowledged", when=_LAST)
        open_ = f"{{{{ else if not ({_ENDS}) }}}}Acknowledged, still open: "
        before = f"{{{{ if {_IS_OUTGROWN} }}}}{Turn.WORSE}{open_}{{{{ end }}}}"
        known = f"{{{{ if {_LAST} }}}}was acknowledged{{{{ else }}}}is acknowledged and still open{{{{ end }}}}"
        other = f"A finding of {WHERE} {known}"
        said = _said(f"{before}{{{{ .Labels.headline }}}}", other)
        series = f"parallax_finding_acknowledgement_info{{finding_id=%q}}[{self._p.remembered}]"
        asked = f'query (printf "topk(1, last_over_time({series}))" $labels.finding_id)'
        return self._says(
            KNOWN,
            self._e.each_acknowledged(KNOWN),
            "info",
            f"{said}{BEHIND}",
            f"{{{{ with {asked} }}}}{{{{ with first . }}}}By {{{{ .Labels.by }}}}: {{{{ .Labels.comment }}}}"
            "{{ end }}{{ end }}",
            (f"{_TURN}{_OUTGROWN}{was}{BEHIND}", left),
            resolved_turn=f"{_TURN}{_OUTGROWN}",
            **self._leads(),
        )

    @property
    def _silence(self) -> str:
        """What is said of an alert that ends for want of news."""
        return f"Parallax has said nothing of it for {self._p.remembered}, or since a start. {_ASK}"

    def _leads(self) -> dict[str, str]:
        """Where to go from an alert about a finding."""
        place = "var-topic={{ $labels.topic }}&var-partition={{ $labels.partition }}"
        dashboard = {"dashboard_url": f"{self._p.grafana}/d/{PARTITION}?{place}"} if self._p.grafana else {}
        # A job of an earlier version names no command.
        command = f"{{{{ with .Labels.command }}}}{{{{ . }}}}{{{{ else }}}}{_EXPLAIN}{{{{ end }}}}"
        links = {"command": _unless_over(_said(command, _EXPLAIN)), "page_url": _said("{{ .Labels.page_url }}")}
        return links | dashboard

    def _about(self, name: str, expr: str, severity: str, before: str = "") -> dict[str, Any]:
        """An alert about findings in the words of the job; its value is 1, or one of `Expressions.ended`."""
        more = {label: _said(f"{{{{ .Labels.{label} }}}}") for label in ("kind", "broker_id", "record_offset")}
        more["kind_runbook_url"] = _unless_over(f"{self._p.runbook}#{_said('{{ .Labels.runbook }}')}")
        turn, headline, summary = (f"{{{{ .Labels.{label} }}}}" for label in ("turn", "headline", "summary"))
        # Where neither its end nor a change was said, it ends for want of news.
        more["resolved_turn"] = _at_the_end(_said(turn, NOBODY_KNOWS, when=_ENDS))
        left = self._silence
        other = f"{{{{ with .Labels.turn }}}}When {name} ended, the finding had not. {{{{ . }}}}{{{{ end }}}}"
        was = _said(f"{other}{headline}", f"{NOBODY_KNOWS}replicas of {WHERE} differed", when=_ENDS)
        first = f"{{{{ if {_ENDS} }}}}{other}{{{{ else }}}}{before or turn}{{{{ end }}}}"
        return self._says(
            name,
            expr,
            severity,
            f"{_said(f'{first}{headline}', f'Divergence of {WHERE}', when=_IS_KNOWN)}{BEHIND}",
            _said(summary, left, when=_IS_KNOWN),
            (_at_the_end(f"{was}{BEHIND}"), _at_the_end(_said(summary, left, when=_ENDS))),
            **more,
            **self._leads(),
        )


def _at_the_end(template: str) -> str:
    """What an alert says when it fires for the last time, and not before: who prints it says nothing of an end."""
    return f"{{{{ if le $value 0.0 }}}}{template}{{{{ end }}}}"


def _if_elected(wrong: str, otherwise: str = "") -> str:
    """A template of an alert's last word: the wrong replica was elected, or something else."""
    return f"{{{{ if eq $value {float(HAPPENED)} }}}}{wrong}{{{{ else }}}}{otherwise}{{{{ end }}}}"


def _unless_over(template: str) -> str:
    """What to do about a finding; nothing once the job has said what came of it: a receiver may print all there is."""
    return f"{{{{ if not ({_ENDS}) }}}}{template}{{{{ end }}}}"


def _said(template: str, otherwise: str = "", *, when: str = "") -> str:
    """A template of the last word of a finding (`SAID`); something else where there is none, or a condition fails."""
    asked = f'query (printf "{SAID}{{finding_id=%q}}" $labels.finding_id)'
    asked = f"and ({when}) ({asked})" if when else asked
    other = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    return f"{{{{ with {asked} }}}}{{{{ with first . }}}}{template}{{{{ end }}}}{other}{{{{ end }}}}"
