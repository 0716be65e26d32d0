"""Puts the reason of a verdict into the past tense, for reports on what is over."""

from __future__ import annotations

import re

PAST = {
    "are": "were",
    "begin": "began",
    "begins": "began",
    "can": "could",
    "cannot": "could not",
    "deletes": "deleted",
    "do": "did",
    "does": "did",
    "ends": "ended",
    "explains": "explained",
    "gives": "gave",
    "go": "went",
    "goes": "went",
    "has": "had",
    "have": "had",
    "hide": "hid",
    "hides": "hid",
    "hold": "held",
    "holds": "held",
    "is": "was",
    "lack": "lacked",
    "lacks": "lacked",
    "lie": "lay",
    "lies": "lay",
    "lists": "listed",
    "now": "then",
    "reach": "reached",
    "reaches": "reached",
    "say": "said",
    "says": "said",
    "show": "showed",
    "shows": "showed",
    "stand": "stood",
    "stands": "stood",
    "takes": "took",
}
"""The present-tense words of the reasons in `parallax.findings.decide`."""

_MODALS = ("can", "cannot", "could", "may", "might", "must", "shall", "should", "will", "would")
"""Words before a verb that keeps its form: ``can show`` is ``could show``."""
_INFINITIVE = "".join(rf"(?<!\b{word} )" for word in ("not", "never", "to", *_MODALS))
_NAME = r"(?<![\w.-])({words})(?![\w.-])(?! does not exist| was deleted)"
"""A whole word that is neither a topic nor a part of one."""
_PRESENT = re.compile(_INFINITIVE + _NAME.format(words="|".join(PAST)) + "(?! marker)")


def in_past(reason: str) -> str:
    """Return a reason in the past tense, e.g. ``broker 2 shows no value`` as ``broker 2 showed no value``."""
    return _PRESENT.sub(lambda found: PAST[found[0]], reason)
