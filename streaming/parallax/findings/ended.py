"""What is said of a finding that is over: what it was, what ended it, and what consumers of the accused could see.

Every receiver, the page and the command line take these words. They say only what the deciding probe was answered, or
a repair on record has proven. That something has healed is said only if that is what ended the finding. Why a record is
gone from a log is not guessed: a cleaner and a new copy look alike. Who led is added from the recorded progress
(`parallax.findings.led`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision, Resolution
from parallax.findings.members import MemberGroup
from parallax.findings.summary import asked_in_words, counted_in_words
from parallax.findings.tense import in_past
from parallax.kinds import KINDS, OPEN_KINDS, SHOWING_OLDER, Variant, effect_of
from parallax.model import NOBODY, FindingKind
from parallax.moments import from_milliseconds

READ_THERE = "Consumers that read it there"
"""How the sentence begins that says what consumers of a wrong replica could see. No code looks for it in a text."""


HEALED, NOT_HEALED = "Healed:", "Not healed:"
FOR_CONSUMERS = "Over for consumers:"
OVERWRITTEN = "Over, because something newer was written:"
BY_WORD = "Repaired by a person's word:"
BEGINNINGS = (HEALED, FOR_CONSUMERS, OVERWRITTEN, BY_WORD, NOT_HEALED)
"""The words by which the sentence begins that says how a finding ended. The runbook says what each means.

Only what a repair on record has ended begins with what that repair did.
"""


class Repairs(NamedTuple):
    """What is on record of the repairs of a finding, as sentences.

    Attributes:
        mended: of those that have ended the finding, by proof.
        begun: of those whose change the cluster has taken, without proof of what came of it.
    """

    mended: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()


NO_REPAIR = Repairs()
"""What is on record where no repair is."""


class EndText(NamedTuple):
    """The text about a finding that is over, and what of it comes from elsewhere than the deciding probe.

    Attributes:
        text: what the finding was, how and when it ended, and whether the replica is right again.
        is_seen_said: whether the text says what consumers of a wrong replica could see.
        repairs: the sentences in it about the finding's repairs.
        is_older_over: whether the accused had shown an older value of the key, and was seen to show it no longer. The
            record itself was gone before.
    """

    text: str
    is_seen_said: bool
    repairs: tuple[str, ...]
    is_older_over: bool


class _End(NamedTuple):
    """The words on one way in which a finding ends.

    Attributes:
        clause: behind what the finding was, in a title; empty where the finding's own reason says it.
        text: a format with ``reason``, ``broker``, ``repaired``, and ``seen``: what consumers could see.
    """

    clause: str
    text: str


_ENDS: Mapping[Resolution, _End] = {
    Resolution.HEALED: _End("the replicas agree again", f"{HEALED} {{reason}}."),
    Resolution.UNPROVEN: _End(
        "the difference is gone, and nothing proves what is left",
        f"{NOT_HEALED} {{reason}}. No end marker was seen there that proved that outcome: what was shown then may "
        "have been wrong.",
    ),
    Resolution.BY_WORD: _End(
        "it was repaired by a person's word",
        f"{BY_WORD} {{reason}}. {{repaired}} Nobody proved which was right.",
    ),
    Resolution.DIFFERS: _End(
        "the replicas differ otherwise now",
        f"{NOT_HEALED} {{reason}}. The replicas still differed in that key, and what broker {{broker}} showed was "
        "another divergence.",
    ),
    Resolution.COMPACTED: _End("what had shown it is gone", f"{NOT_HEALED} {{reason}}. {{seen}}"),
    Resolution.INCOMPARABLE: _End(
        "nothing is left to compare",
        f"{NOT_HEALED} {{reason}}. Nothing was left that showed whether what broker {{broker}} showed was right.",
    ),
    Resolution.DELETED: _End("the record is gone", f"{NOT_HEALED} {{reason}}. {{seen}}"),
    Resolution.SUPERSEDED: _End(
        "it was overwritten",
        f"{OVERWRITTEN} {{reason}}. {{seen}}",
    ),
    Resolution.EXPLAINED: _End(
        "another finding reports it now", f"{NOT_HEALED} {{reason}}. That finding says who is wrong."
    ),
    Resolution.PART: _End("an incident reports it now", f"{NOT_HEALED} {{reason}}."),
    Resolution.GONE: _End("", f"{NOT_HEALED} {{reason}}."),
}
_SEEN = f"{READ_THERE} {{could}}."
_HELD_BACK = (
    "While broker {broker} held the transaction open, consumers in read_committed got nothing beyond it there. They "
    "were shown nothing wrong."
)
"""What is said of consumers instead where a transaction was open: a freeze shows nobody anything."""
_TRACELESS = (
    Resolution.COMPACTED,
    Resolution.DIFFERS,
    Resolution.INCOMPARABLE,
    Resolution.DELETED,
    Resolution.SUPERSEDED,
)
_WITHOUT_DIRECTION = (
    f"{NOT_HEALED} {{reason}}. What had shown the difference is gone. Which side was wrong was never proven, and what "
    "is left may be wrong."
)
"""Of a finding that accuses nobody, after an end in `_TRACELESS`."""
_SUPERSEDED = (
    f"{NOT_HEALED} {{reason}}. Which side was right was never proven; what was shown then had been written since."
)
_NO_TRACE = (Resolution.COMPACTED, Resolution.DELETED)
_OPEN_NO_MORE = f"{FOR_CONSUMERS} {{reason}}. {{seen}} Its record is gone from broker {{broker}}."
"""A freeze ends with its transaction, whatever is left of that."""
_SEEN_HERE, _REPAIRED_HERE = "{seen}", "{repaired}"
_REPAIRED = "{repaired} {seen}"
_REPLACED = "{repaired} What broker {broker} had shown is gone from its log. {seen}"
_BY_A_REPAIR = (Resolution.UNPROVEN, Resolution.COMPACTED, Resolution.INCOMPARABLE, Resolution.DELETED)
"""Ends that do not show by themselves that the replica is right. A repair on record says why nothing is left."""


def clause(
    resolution: str | None,
    reason: str,
    kind: FindingKind,
    *,
    is_directed: bool,
    is_repaired: bool,
    is_older_over: bool = False,
) -> str:
    """Return how a finding ended, in a clause for a title: ``it was repaired``. Empty if nothing says it.

    Args:
        resolution: how it ended, a `Resolution`; None if the finding's event does not say.
        reason: why the deciding probe found it over; empty if the event does not say.
        kind: the finding's kind.
        is_directed: whether the finding accuses a broker.
        is_repaired: whether a repair on record has ended it.
        is_older_over: as `EndText.is_older_over`.
    """
    was_open = kind in OPEN_KINDS
    if is_repaired and (resolution == Resolution.HEALED or (was_open and resolution in _NO_TRACE)):
        return "it was repaired"
    if was_open and resolution in _NO_TRACE:
        return "the transaction is no longer open"
    if is_repaired and is_directed and resolution in _BY_A_REPAIR:
        return "a repair replaced what was wrong"
    if is_older_over:
        return "it shows that value no longer"
    return next((end.clause or reason for how, end in _ENDS.items() if how == resolution), "")


def resolved(
    claim: Claim,
    decision: Decision,
    answers: Answers,
    repaired: Repairs = NO_REPAIR,
    variant: str = Variant.PLAIN,
    shown: int | None = None,
) -> EndText:
    """Say what a finding was, how and when it ended, and whether the replica is right again.

    Args:
        claim: what the finding claimed.
        decision: the decision that ended it.
        answers: the answers that the decision is based on.
        repaired: what is on record of the finding's repairs.
        variant: what the finding was about (`parallax.findings.alike.variant_of`).
        shown: the offset that the finding's texts and commands named; None for that of its record.
    """
    was = _was(claim, variant, claim.first_offset if shown is None else shown)
    form = _form(claim, decision, is_repaired=bool(repaired.mended))
    seen = (_HELD_BACK if claim.kind in OPEN_KINDS else _SEEN).format(
        broker=claim.broker, could=effect_of(claim.kind, variant).could
    )
    mended = " ".join(repaired.mended)
    is_older_over = _is_older_over(claim, decision, answers, variant, shown)
    reason = f"broker {claim.broker} does not show the value at offset {shown} any more" if is_older_over else None
    how = form.format(reason=_past(decision, answers, reason), broker=claim.broker, seen=seen, repaired=mended)
    said = (*(repaired.mended if _REPAIRED_HERE in form else ()), *repaired.begun)
    return EndText(" ".join(filter(None, (was, how, *repaired.begun))), _SEEN_HERE in form, said, is_older_over)


def dismissed(decision: Decision, answers: Answers) -> str:
    """Say in a sentence why and when a suspect was dismissed.

    If it is a duplicate, the sentence names the finding that reports the same.
    """
    reason = _past(decision, answers)
    return f"{reason[:1].upper()}{reason[1:]}."


def _is_older_over(claim: Claim, decision: Decision, answers: Answers, variant: str, shown: int | None) -> bool:
    key = answers.replicas[claim.broker].key if claim.broker in answers.replicas else None
    is_read = key is not None and key.complete and (key.visible is None or key.visible.offset != shown)
    return is_read and shown is not None and variant in SHOWING_OLDER and decision.resolution in _NO_TRACE


def _past(decision: Decision, answers: Answers, reason: str | None = None) -> str:
    """Return the reason of something that is over, with the time of the probe.

    It is that of the decision unless another one is given.
    """
    reason = in_past(reason or decision.reason)
    if not answers.asked_at_ms:
        return reason
    return f"{reason}, {asked_in_words(from_milliseconds(answers.asked_at_ms))}"


def _was(claim: Claim, variant: str, shown: int) -> str:
    has_direction = claim.broker != NOBODY or "{broker}" not in KINDS[claim.kind].was
    effect = effect_of(claim.kind if has_direction else FindingKind.VISIBILITY_MISMATCH, variant)
    was = (effect.on_all if claim.spread else effect).was
    partition = f"{claim.topic}-{claim.partition}"
    return was.format(broker=claim.broker, partition=partition, offset=claim.first_offset, shown=shown)


def _form(claim: Claim, decision: Decision, *, is_repaired: bool) -> str:
    """Return the format of the sentences that say how a finding ended."""
    was_open = claim.kind in OPEN_KINDS
    if was_open and decision.resolution in _NO_TRACE:
        return _REPAIRED if is_repaired else _OPEN_NO_MORE
    if decision.resolution is Resolution.SUPERSEDED and not claim.spread:
        return _SUPERSEDED
    if claim.broker == NOBODY and decision.resolution in _TRACELESS:
        return _WITHOUT_DIRECTION
    if is_repaired and decision.resolution is Resolution.HEALED:
        return _REPAIRED_HERE
    if is_repaired and claim.broker != NOBODY and decision.resolution in _BY_A_REPAIR:
        return _REPLACED
    return _ENDS[decision.resolution].text


def incident_over(
    group: MemberGroup, ended: Mapping[str, int], at: datetime, repaired: Repairs = NO_REPAIR, *, had_spread: bool
) -> tuple[str, str]:
    """Return a sentence that says how an incident ended, and its resolution.

    The resolution is healed only if all members have healed.

    Args:
        group: the kind, the partition and the accused of the incident.
        ended: by resolution, how many members ended with it.
        at: when the replicas were asked about the last of them.
        repaired: what is on record of the incident's repairs.
        had_spread: whether every replica showed it.
    """
    not_healed = [name for name in ended if name != Resolution.HEALED]
    resolution = not_healed[0] if not_healed else str(Resolution.HEALED)
    clauses = {str(how): f": {end.clause or 'it is not there any more'}" for how, end in _ENDS.items()}
    clauses[Resolution.HEALED] = " healed"
    each = "; ".join(f"{number:,}{clauses[name]}" for name, number in sorted(ended.items()))
    partition, what = group.place.name, counted_in_words(group)
    was = f"The replicas of {partition} differed in many {what}."
    if group.broker != NOBODY:
        who = "Every replica" if had_spread else f"Broker {group.broker}"
        was = f"{who} showed many {what} of {partition} wrongly."
    how = "Not healed" if not_healed else "Healed"
    none = f"none of the {what} of {partition} was shown wrongly any more"
    over = f"{how}: {none}{f' ({each})' if each else ''}, {asked_in_words(at)}."
    return " ".join((was, over, *repaired.mended, *repaired.begun)), resolution
