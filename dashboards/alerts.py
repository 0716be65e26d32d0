"""What an alert rule is made of, whatever it is about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dashboards.expressions import HAPPENED, OPTIONS, PAGE, Expressions, Heard
from dashboards.parameters import Parameters
from parallax.alerting.conditions import CONDITIONS, DANGER, MISSING, PAUSED_ALL, REJECTED, UNSAID
from parallax.model import MissingRight
from parallax.shell import ANYWHERE

WHERE = "{{ $labels.topic }}-{{ $labels.partition }}"
"""The partition of an alert, in its annotations."""
FOR = "{{ with $labels.cluster }} of cluster {{ . }}{{ end }}"
"""Its cluster, where it has a name."""
BEHIND = "{{ with $labels.cluster }} (cluster {{ . }}){{ end }}"
"""The same behind a sentence."""

NOBODY_KNOWS = "Nobody knows whether this is over: "
"""Before what an alert was about that ends for want of news (annotation ``resolved_turn``)."""
_UNHEARD, _ELSE, _END = "{{ if eq $value -1.0 }}", "{{ else }}", "{{ end }}"
_LAST = f"{{{{ if eq $value 0.0 {float(HAPPENED)} }}}}"
"""An alert with a last word fires for the last time (`Expressions.elected`)."""
_SILENT = (
    "Whether it goes on is not known: a job that watches the cluster is not scraped, or has compared nothing since its "
    "start."
)


def _of_job(recorded: str, label: str, otherwise: str) -> str:
    """What the job of an alert's target, or else of its cluster, says of itself (`Expressions.of_job`)."""
    target = f'printf "{recorded}{{cluster=%q, job=%q, instance=%q}}" $labels.cluster $labels.job $labels.instance'
    return f"{{{{ range query ({target}) }}}}{{{{ .Labels.{label} }}}}{{{{ else }}}}{otherwise}{{{{ end }}}}"


JOB_OPTIONS = _of_job(OPTIONS, "options", ANYWHERE.options)
"""The options of a printed command, as the job has them. If they are not known, a person fills them in."""
JOB_PAGE = _of_job(PAGE, "page_url", "")
"""The address of the job's status page. Empty if none is known."""


def command(*words: str) -> str:
    """A command of Parallax in an annotation, such as ``parallax check -c /etc/parallax.yaml``."""
    return f"{ANYWHERE.program} {' '.join(words)} {JOB_OPTIONS}"


NUMBER = '{{ printf "%.0f" $value }}'
"""An alert's value where it counts something. Printed as it is, 12345678 would be 1.2345678e+07."""
_ONE = f'{{{{ if ne $labels.broker_id "{PAUSED_ALL}" }}}} --broker {{{{ $labels.broker_id }}}}{{{{ end }}}}'
RESUME = command(f"resume{_ONE}")
"""What ends a pause, of the alert's broker or of all."""
_MISSING = MISSING.format(reason="{{ $labels.reason }}")
REMEDY = f'{{{{ if eq $labels.reason "{MissingRight.CREDENTIALS}" }}}}{REJECTED}{{{{ else }}}}{_MISSING}{{{{ end }}}}'
"""What ends a refusal."""
_DANGER = f"{{{{ if $value }}}}{DANGER}{{{{ end }}}}"

Past = tuple[str, str]
"""What a resolved alert says: what was the matter, and what its end means or leaves open."""

Known = Callable[..., str]
"""`Expressions.known`, for the time that the alert waits."""


def agreed(one: str, many: str) -> str:
    """A word of an annotation: ``one`` if the alert's value is 1, else ``many``."""
    return f"{{{{ if eq $value 1.0 }}}}{one}{{{{ else }}}}{many}{{{{ end }}}}"


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
        past: Past | None = None,
        *,
        wait: str | None = None,
        heard: Heard | None = None,
        turn: str = "",
        has_last_word: bool = False,
    ) -> dict[str, Any]:
        """An alert that goes on while its job says nothing (`Expressions.or_unheard`), and then says so.

        What the job's own messages speak of as well says there what it was (`CONDITIONS`). If ``expr`` itself goes on
        so and fires once more at the end, the alert has a last word and says its end then. Where ``turn`` is not empty
        by the last word, nothing is over.
        """
        was, left = past or Of(name, self._p).past
        now, meaning = summary, description
        if has_last_word:
            now, meaning = (f"{_LAST}{end}{_ELSE}{said}{_END}" for end, said in ((was, now), (left, meaning)))
        past = f"{_UNHEARD}{NOBODY_KNOWS}{summary}{_ELSE}{was}{_END}", f"{_UNHEARD}{_SILENT}{_ELSE}{left}{_END}"
        said = f"{_UNHEARD}{_SILENT}{_ELSE}{meaning}{_END}"
        turn = f"{_UNHEARD}{NOBODY_KNOWS}{f'{_ELSE}{turn}' if turn else ''}{_END}"
        lasts = expr if has_last_word else self._e.or_unheard(expr, name, heard)
        return self._says(name, lasts, severity, now, said, past, wait=wait, resolved_turn=turn)

    def _says(
        self,
        name: str,
        expr: str,
        severity: str,
        summary: str,
        description: str,
        past: Past,
        *,
        wait: str | None = None,
        **more: str,
    ) -> dict[str, Any]:
        """An alert that fires while its expression is so, and no longer."""
        annotations = {"summary": summary, "description": description}
        annotations |= {"resolved_summary": past[0], "resolved_description": past[1]}
        annotations |= {"page_url": JOB_PAGE, "runbook_url": f"{self._p.runbook}#{name.lower()}"} | more
        rule: dict[str, Any] = {"alert": name, "expr": expr, "labels": {"severity": severity}}
        return rule | ({"for": wait} if wait else {}) | {"annotations": annotations}

    def _lasting(
        self,
        name: str,
        wait: str,
        expr: Callable[[Known], str],
        *said: str,
        past: Past | None = None,
        heard: Heard | None = None,
        turn: str = "",
    ) -> dict[str, Any]:
        """An alert about what has lasted for a time."""
        severity, summary, description = said
        known = expr(partial(self._e.known, wait=wait))
        return self._alert(name, known, severity, summary, description, past, wait=wait, heard=heard, turn=turn)


class _Templates(dict[str, str]):
    """For the name of a label, the template of its value; beside what is given."""

    def __missing__(self, name: str) -> str:
        return f"{{{{ $labels.{name} }}}}"


class Of:
    """The texts of a condition that the job's own messages have as well (`CONDITIONS`), as templates."""

    def __init__(self, name: str, parameters: Parameters) -> None:
        self._condition = CONDITIONS[name]
        self._labels = _Templates({"resume": RESUME, "check": command("check"), "remedy": REMEDY, "danger": _DANGER})
        self._gap = parameters.gap
        if self._condition.about is not None:
            said = {
                label: said_of(self._condition.about, label, parameters.remembered, text)
                for label, text in UNSAID.items()
            }
            self._labels |= said

    @property
    def present(self) -> tuple[str, str]:
        """What it is, and what it means."""
        one = self._condition
        return f"{one.headline.format_map(self._labels)}{BEHIND}", one.description.format_map(self._labels)

    @property
    def past(self) -> Past:
        """What it was, and what its end leaves open."""
        one = self._condition
        left = one.left.format_map(self._labels)
        if one.about is not None:
            left = said_of(one.about, "outcome", self._gap, left, ", outcome!=''")
        return f"{one.was.format_map(self._labels)}{BEHIND}", left


def said_of(metric: str, label: str, within: str, otherwise: str, where: str = "") -> str:
    """A label of the newest recent series for the alert's broker; the series' value is its time.

    Without such a series the text is ``otherwise``. ``where`` holds more matchers of the series.
    """
    series = f"parallax_{metric}{{cluster=%q, broker_id=%q{where}}}[{within}]"
    asked = f'printf "topk(1, last_over_time({series}))" $labels.cluster $labels.broker_id'
    found = f"{{{{ .Labels.{label} }}}}"
    return f"{{{{ range query ({asked}) }}}}{found}{{{{ else }}}}{otherwise}{{{{ end }}}}"
