"""What stands in a partition, and what the cluster shows of it, in; one plan of steps, or what is missing, out. Pure.

So far there is one kind of step: an end marker in place, for a transaction that replicas hold open although it is over.
Whoever reads a plan decides by it, so each step says what it needs and changes, and what is true if it fails half-way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from parallax.findings.cleared import Shown, proven_end
from parallax.findings.finding import Finding
from parallax.findings.grounds import OPEN_KINDS, in_words
from parallax.findings.hanging import Standing, abort_command
from parallax.guard.decide import INTERNAL
from parallax.model import UNKNOWN, TopicPartition
from parallax.moments import time_text
from parallax.repair.seen import OUTCOMES, End, Look, Transaction, disturbed
from parallax.replica.changes import MARKER_RIGHTS
from parallax.shell import ANYWHERE, Shell

FORMAT = 1
"""Of a plan's document; another version of Parallax may not know it."""
_MARKER_BYTES = 78
"""A control batch with one end marker in it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: an end marker for one transaction.

    Attributes:
        number: its place in the plan, from 1.
        producer_id: whose transaction it is.
        start_offset: where that begins.
        end: ``commit`` or ``abort``.
        proof: what says that it ended so.
        finding: the id of the finding that does; empty where a person says so.
        marker_offset: where its end marker was read; -1 where none was.
        holders: the brokers that hold it open.
        title: what it does, a sentence.
        needs: what has to be there, each a phrase.
        changes: what it changes, a sentence.
        takes: how long, and how much is written.
        half_way: what is true if it fails half-way.
        undo: how it is undone.
        by_hand: how to do the same without Parallax.
        warning: what to do first, where that is possible; may be empty.
    """

    number: int
    producer_id: int
    start_offset: int
    end: str
    proof: str
    finding: str
    marker_offset: int
    holders: tuple[int, ...]
    title: str
    needs: tuple[str, ...]
    changes: str
    takes: str
    half_way: str
    undo: str
    by_hand: str
    warning: str = ""

    @property
    def identity(self) -> tuple[int, int, str]:
        """What makes it the same step in another plan."""
        return self.producer_id, self.start_offset, self.end


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan for everything in a partition that can be repaired.

    Attributes:
        format: of its document.
        cluster_id: of the cluster that it is for.
        topic_id: of the topic that was looked at.
        made_at: when, ISO 8601 UTC.
        leader_epoch: under which it was made; another leader is another plan.
        replicas: as they are assigned.
        findings: the ids of those that stand about the partition.
        steps: in the order in which they are run.
        missing: why there is no step for something, each a sentence that says what to do.
    """

    format: int
    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    made_at: str
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    findings: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    def only(self, number: int) -> Plan:
        """The plan with one of its steps alone.

        Raises:
            KeyError: it has no step of that number.
        """
        steps = tuple(step for step in self.steps if step.number == number)
        if not steps:
            raise KeyError(number)
        return replace(self, steps=steps)


def proofs(findings: Iterable[Finding]) -> dict[tuple[int, int], list[End]]:
    """By producer and start of a transaction, how findings prove that it ended; several where they contradict."""
    found: dict[tuple[int, int], list[End]] = {}
    for finding in findings:
        if finding.kind not in OPEN_KINDS or not finding.stands:
            continue
        end = proven_end(Shown.of(finding))
        if end is not None:
            proof = f"its end marker was read directly behind its first record, at offset {finding.marker_offset}"
            one = End(end, proof, finding.marker_offset, finding.finding_id)
            found.setdefault((finding.producer_id, finding.transaction_start_offset), []).append(one)
    return found


def make(look: Look, said: Mapping[int, str], shell: Shell = ANYWHERE) -> Plan:
    """Make a plan of a look.

    Args:
        look: at the partition, with all transactions that some replica holds open.
        said: by start offset, ``commit`` or ``abort`` where a person says how a transaction ended.
        shell: how commands name the cluster.
    """
    steps: list[Step] = []
    missing: list[str] = []
    over = [one for one in look.transactions if not one.goes_on]
    why = disturbed(look)
    if why:
        missing.append(f"{why[:1].upper()}{why[1:]}. Plan again when every replica is in sync and answers.")
    elif over and look.place.topic in INTERNAL:
        missing.append(
            f"{look.place.topic} is Kafka's own: its coordinators keep in memory what they made of it, which no end "
            "marker written here changes."
        )
    else:
        for one in sorted(over, key=lambda one: one.start_offset):
            end = _end_of(look, one, said.get(one.start_offset))
            if isinstance(end, str):
                missing.append(f"The transaction of producer {one.producer_id} from offset {one.start_offset}: {end}.")
            else:
                steps.append(_step(len(steps) + 1, look, one, end, shell))
        missing += _unmatched(look, said)
    return Plan(
        FORMAT,
        look.cluster_id,
        look.place.topic,
        look.topic_id,
        look.place.partition,
        time_text(look.at_ms),
        look.leader,
        look.leader_epoch,
        look.assigned,
        tuple(sorted(look.findings)),
        tuple(steps),
        tuple(missing),
    )


def _unmatched(look: Look, said: Mapping[int, str]) -> list[str]:
    there = {one.start_offset for one in look.transactions if not one.goes_on}
    return [
        f"No transaction that is over is open from offset {offset} on: nothing is ended there."
        for offset in sorted(said.keys() - there)
    ]


def _end_of(look: Look, one: Transaction, said: str | None) -> End | str:
    """How a transaction ended; a phrase on what is missing where it may not be ended so."""
    if why := _not_over(one):  # nobody is asked how one ended that may go on
        return why
    end = _proven_or_said(one, look.proven.get((one.producer_id, one.start_offset), ()), said)
    return end if isinstance(end, str) else not_safe(look, one, end.type, end.marker_offset) or end


def _not_over(one: Transaction) -> str:
    return "" if one.verdict.standing is Standing.HANGS else f"whether it is over is not known: {one.verdict.why}"


def _proven_or_said(one: Transaction, proven: Collection[End], said: str | None) -> End | str:
    types = {end.type for end in proven}
    if len(types) > 1:
        return "findings prove that it was committed, and that it was aborted; end it only when that is settled"
    shown = {kind for log in one.logs.values() for _, kind in log.ends[:1]}
    if proven:
        end = min(proven, key=lambda end: end.finding)
        if said not in (None, end.type):
            return f"--outcome {said} contradicts finding {end.finding}, which proves {end.type}; leave it out"
        near = {kind for log in one.logs.values() for at, kind in log.ends if at == end.marker_offset}
        if near - {end.type}:
            return f"finding {end.finding} proves {end.type}, and a replica shows another end marker there"
        return end
    if said is None:
        return (
            "nothing proves whether it was committed or aborted. Ask the owner of its producer, and plan again with "
            f"--outcome commit (or abort) --offset {one.start_offset}"
        )
    if len(shown) == 1 and shown != {said}:
        return f"--outcome {said} contradicts the end marker that a replica shows behind it ({shown.pop()})"
    return End(said, "whoever made this plan says so")


def not_safe(look: Look, one: Transaction, end: str, marker_offset: int) -> str:
    """Why an end marker may not be written for a transaction, as a phrase; empty where it may.

    A marker ends whatever its producer has open in the partition. So nothing else of that producer may be open on any
    replica, and nothing else may have been taken for part of the transaction by those that hold it open.
    """
    if why := _not_over(one):
        return why
    newer = look.open_of(one.producer_id) - {one.start_offset}
    if newer:
        return (
            f"its producer has another transaction open, from offset {min(newer)} on, which an end marker would end as "
            "well. Wait until that is over, or stop the producer, and plan again"
        )
    for broker, log in sorted(one.logs.items()):
        if log.error:
            return f"what broker {broker} holds of it could not be read ({log.error})"
    holders = look.holders(one.producer_id, one.start_offset)
    read = [log.ends[0][0] for broker, log in one.logs.items() if log.ends and broker not in holders]
    bound = min(read, default=UNKNOWN) if marker_offset == UNKNOWN else marker_offset
    for broker in holders:
        last = max((row.offset for row in one.logs[broker].records), default=one.start_offset)
        if bound != UNKNOWN and last > bound:
            return (
                f"broker {broker} takes the record at offset {last}, of a later transaction, for part of it: one end "
                "marker cannot end both rightly. Have the replica copied again"
            )
    wrong = _otherwise(look, one, end)
    return f"{wrong}; one of the two is wrong about it" if wrong else ""


def _otherwise(look: Look, one: Transaction, end: str) -> str:
    """That a replica which has ended the transaction shows its first record otherwise."""
    holders = look.holders(one.producer_id, one.start_offset)
    for broker, log in sorted(one.logs.items()):
        first = next((row for row in log.records if row.offset == one.start_offset), None)
        if broker in holders or first is None:
            continue
        if first.outcome is not OUTCOMES[end]:
            return f"broker {broker} shows its first record as {first.outcome.name.lower()}"
    return ""


def _step(number: int, look: Look, one: Transaction, end: End, shell: Shell) -> Step:
    holders = look.holders(one.producer_id, one.start_offset)
    word, place = end.type.upper(), look.place
    knows = "no coordinator knows its producer" not in one.verdict.why
    others = sorted(set(look.assigned) - set(holders))
    shown = "visible to" if end.type == "commit" else "hidden from"
    return Step(
        number,
        one.producer_id,
        one.start_offset,
        end.type,
        end.proof,
        end.finding,
        end.marker_offset,
        tuple(holders),
        title=f"Write a {word} marker for the transaction of producer {one.producer_id} that {in_words(holders)} "
        f"{'holds' if len(holders) == 1 else 'hold'} open from offset {one.start_offset} of {place.name} on.",
        needs=(
            f"the transaction was ended by {word}: {end.proof}",
            f"it is over: {one.verdict.why}",
            f"{MARKER_RIGHTS} for the user of the settings",
            "every replica in sync, and as many as min.insync.replicas asks for",
        ),
        changes=f"Its records become {shown} read_committed consumers of {in_words(holders)}, which may read on from "
        f"offset {one.start_offset}. {_no_change(others)}The marker is one more offset in the log of every replica.",
        takes=f"Less than a second, and {_MARKER_BYTES} bytes on each replica. Nothing is copied.",
        half_way="The leader has written the marker or it has not. If no answer comes, Parallax looks for it in the "
        "log; a replica that has not fetched it yet gets it as it gets any record.",
        undo="Not at all: what is in a log stays there. That is why the outcome has to be proven first.",
        by_hand=_by_hand(look, one, end, shell),
        warning="If its producer begins a transaction in this partition between the last look and the marker, the "
        "marker ends that one too, and Parallax says so. Stop the producer first if you can."
        if knows
        else "",
    )


def _no_change(others: Collection[int]) -> str:
    return f"Consumers of {in_words(others)} see no change. " if others else ""


def _by_hand(look: Look, one: Transaction, end: End, shell: Shell) -> str:
    leads = look.leader in look.holders(one.producer_id, one.start_offset)
    if end.type == "abort" and leads:
        return abort_command(look.place, one.start_offset, shell)
    if end.type == "abort":
        return "None: kafka-transactions.sh aborts only what the leader holds open."
    return "None: kafka-transactions.sh writes no COMMIT marker."


__all__ = ["FORMAT", "Plan", "Step", "make", "not_safe", "proofs"]
