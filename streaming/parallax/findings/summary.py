"""A finding in one plain English sentence or two, for whoever is on call."""

from __future__ import annotations

from collections.abc import Sequence

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision, Resolution
from parallax.findings.internal_keys import key_in_words
from parallax.model import FindingKind, Rule

_SHOWS = {
    FindingKind.MARKER_MISSING: "Broker {broker} never got the end marker of the transaction of producer {producer_id} "
    "that starts at offset {start} of {partition}; {others} did.",
    FindingKind.READ_COMMITTED_FROZEN: "The last stable offset of {partition} on broker {broker} stands at {lso}, held "
    "by a transaction of producer {producer_id} that has ended on {others}.",
    FindingKind.ABORTED_RECORD_COMMITTED: "Broker {broker} shows the rolled-back record at offset {offset} of "
    "{partition} as committed; it was aborted on {others}.",
    FindingKind.COMMITTED_RECORD_ABORTED: "Broker {broker} hides the committed record at offset {offset} of "
    "{partition} as aborted; it was committed on {others}.",
    FindingKind.DELETED_RECORD_RESURRECTED: "Broker {broker} still shows a value of {partition} (offset {shown}) whose "
    "key was deleted at offset {offset}; {others} show none.",
    FindingKind.RECORD_MISSING: "Broker {broker} lacks the record at offset {offset} of {partition}, the latest value "
    "of its key on {others}.",
    FindingKind.VISIBILITY_MISMATCH: "Broker {broker} shows another latest value for the key of offset {offset} of "
    "{partition} than {others}.",
    FindingKind.CONTENT_MISMATCH: "The record at offset {offset} of {partition} on broker {broker} is not the one that "
    "{others} hold there.",
    FindingKind.LOG_TRUNCATED: "The log of {partition} on broker {broker} was cut off at offset {offset}: what it had "
    "shown from there on is lost or replaced.",
}

_UNLIKE_OUTCOMES = (
    (
        "Whether the record at offset {offset} of {partition} was committed or aborted is not the same on broker "
        "{broker} as on other replicas, and no end marker was read that says which is right."
    ),
    "may read it the wrong way round",
)
"""For a difference of outcome without a direction: what is shown, and what consumers may meet."""

_CONSUMERS = {
    FindingKind.MARKER_MISSING: "may read that transaction's records the wrong way round, or nothing beyond them",
    FindingKind.READ_COMMITTED_FROZEN: "in read_committed get nothing beyond that offset",
    FindingKind.ABORTED_RECORD_COMMITTED: "read data that was rolled back",
    FindingKind.COMMITTED_RECORD_ABORTED: "in read_committed never see that record",
    FindingKind.DELETED_RECORD_RESURRECTED: "read a record that was deleted",
    FindingKind.RECORD_MISSING: "miss that record",
    FindingKind.VISIBILITY_MISMATCH: "read another value than the other replicas hold",
    FindingKind.CONTENT_MISMATCH: "read another record than the other replicas hold",
    FindingKind.LOG_TRUNCATED: "miss what was cut off",
}


def summary(claim: Claim, kind: FindingKind, answers: Answers) -> str:
    """Say what the accused shows, what the others show, and what a consumer of the accused meets."""
    shows, consumers = _SHOWS[kind], _CONSUMERS[kind]
    if kind is FindingKind.VISIBILITY_MISMATCH and claim.rule is Rule.OUTCOME:
        shows, consumers = _UNLIKE_OUTCOMES
    accused = answers.replicas.get(claim.broker)
    lso = accused.last_stable_offset if accused is not None else -1
    live = accused.key.live if accused is not None and accused.key is not None else None
    sentence = shows.format(
        broker=claim.broker,
        partition=f"{claim.topic}-{claim.partition}",
        others=_others(claim, answers),
        offset=claim.first_offset,
        producer_id=claim.producer_id,
        start=claim.transaction_start_offset,
        lso=lso,
        shown=live.offset if live is not None else "?",
    )
    if (words := key_in_words(claim.topic, answers.key)) is not None:
        sentence = f"{sentence} The key is {words}."
    if answers.leader == claim.broker:
        return f"{sentence} It leads the partition: consumers {consumers}."
    return f"{sentence} If it becomes the leader, consumers {consumers}."


_RESOLVED = {
    Resolution.HEALED: "Resolved: {reason}.",
    Resolution.COMPACTED: "Resolved, not healed: {reason}. Compaction has taken the record with which broker {broker} "
    "showed the difference; consumers that read it before were misled, those that read now are not.",
    Resolution.DELETED: "Resolved, not healed: {reason}. What showed the difference was deleted with the start of the "
    "log; consumers that read it before were misled, those that read now are not.",
    Resolution.SPREAD: "Resolved, not healed: {reason}. All replicas show now what broker {broker} shows: those that "
    "were right have been copied anew from a wrong one, and consumers of any of them are misled.",
    Resolution.GONE: "Resolved, not healed: {reason}.",
}


def resolved(claim: Claim, decision: Decision) -> str:
    """Say why a finding does not stand any more, and whether that means that the replica is right again."""
    return _RESOLVED[decision.resolution].format(reason=decision.reason, broker=claim.broker)


def _others(claim: Claim, answers: Answers) -> str:
    asked = sorted(b for b, a in answers.replicas.items() if b != claim.broker and a.error is None)
    return _broker_words(asked or sorted(set(claim.recorded.outcomes) - {claim.broker}))


def _broker_words(brokers: Sequence[int]) -> str:
    if not brokers:
        return "the other replicas"
    if len(brokers) == 1:
        return f"broker {brokers[0]}"
    return f"brokers {', '.join(map(str, brokers[:-1]))} and {brokers[-1]}"
