"""Makes the plan of a repair: steps for all findings of a partition, from a look at that partition. Pure.

Steps that write end markers come first, since they copy nothing and need the present leader. The findings that no end
marker mends get steps that copy wrong replicas again from a right one (`parallax.repair.copies`). A person reads the
plan before it is run. So each step says what it needs, what it changes, and what is true if it fails half-way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Discriminator

from parallax.counts import brokers_text
from parallax.findings.cleared import proven_end
from parallax.findings.finding import Finding
from parallax.findings.hanging import abort_command
from parallax.findings.shown import Shown
from parallax.guard.decide import INTERNAL
from parallax.kinds import OPEN_KINDS
from parallax.model import TopicPartition
from parallax.moments import time_text
from parallax.remedies import Act
from parallax.repair.copies import NOTHING_SAID, Said, copies
from parallax.repair.indexes import indexes
from parallax.repair.leadership import leadership
from parallax.repair.markers import not_over, not_safe
from parallax.repair.seen import End, Look, Transaction, disturbed
from parallax.repair.steps import EndStep, MoveStep, PersonStep, Step
from parallax.replica.changes import MARKER_RIGHTS
from parallax.shell import ANYWHERE, Shell

FORMAT = 5
"""The version of a plan's document; another version of Parallax may be unable to read it."""
_MARKER_BYTES = 78
"""The size of a control batch with one end marker."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: one list of steps for all findings of a partition that can be repaired.

    Attributes:
        format: version of the plan's document.
        cluster_id: id of the cluster that the plan is for.
        topic_id: Kafka's id of the topic.
        made_at: when the plan was made, ISO 8601 UTC.
        leader: id of the broker that led when the plan was made.
        leader_epoch: the leader epoch when the plan was made; under another leader, plan again.
        replicas: ids of the brokers that hold the partition, the preferred leader first.
        findings: the ids of the partition's findings that are not over.
        steps: in the order in which they are run.
        instead: steps that only a person can do, each of which ends one finding without a copy.
        missing: why there is no step for some finding or transaction; each is a sentence that says what to do.
        note: why no step is needed, a sentence; empty if one is.
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
    steps: tuple[Annotated[EndStep | MoveStep, Discriminator("kind")], ...] = ()
    instead: tuple[PersonStep, ...] = ()
    missing: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a plan that takes the partition for good from a broker without a step that calls its replica wrong."""
        for step in self.steps:
            if isinstance(step, MoveStep) and {*step.move.gone} - {*step.dropped} & {*self.replicas}:
                raise ValueError(f"step {step.number} deletes a copy that it does not call wrong")

    @property
    def place(self) -> TopicPartition:
        """The partition that the plan is about."""
        return TopicPartition(self.topic, self.partition)

    def only(self, number: int) -> Plan:
        """A copy of the plan that keeps only the step with the number ``number``.

        Raises:
            KeyError: the plan has no step of that number.
        """
        steps = tuple(step for step in self.steps if step.number == number)
        if not steps:
            raise KeyError(number)
        return replace(self, steps=steps)


def proofs(findings: Iterable[Finding]) -> dict[tuple[int, int], list[End]]:
    """How transactions ended according to findings' proofs, by (producer id, first offset) of the transaction.

    A transaction has several ends if the proofs contradict each other.
    """
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


def make(
    look: Look,
    said: Mapping[int, str],
    shell: Shell = ANYWHERE,
    more: Said = NOTHING_SAID,
    *,
    is_to_lead: bool = False,
) -> Plan:
    """Make a plan from a look at a partition; `Plan.missing` says what cannot be repaired, and why.

    Args:
        look: a look at the partition, with all transactions that some replica holds open, and its findings.
        said: how transactions ended according to a person: ``commit`` or ``abort``, by a transaction's first offset.
        shell: how the commands in the plan's texts name the cluster.
        more: what else the person states.
        is_to_lead: whether the plan only changes who leads and mends nothing.
    """
    steps: list[Step] = []
    missing: list[str] = []
    note = ""
    why = disturbed(look)
    if why:
        missing.append(f"{why[:1].upper()}{why[1:]}. Plan again when every replica is in sync and answers.")
    elif is_to_lead:
        leads = leadership(look, shell, more)
        steps, missing, note = [*leads.steps], [*leads.missing], leads.note
    else:
        steps, open_still = _ends(look, said, shell)
        moves, lacking = copies(look, ended_by(steps), len(steps), shell, more)
        steps += moves
        copied = {broker for step in moves for broker in step.wrong}
        # A replica that holds one open and is copied again gets the end that its source has.
        missing += [text for text, holders in open_still if not (holders and holders <= copied)]
        missing += [*_unmatched(look, said), *lacking]
        if not (steps or missing or look.findings):
            note = "There is nothing to repair: no finding is open here, and no transaction hangs."
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
        () if is_to_lead else indexes(look, shell),
        tuple(missing),
        note,
    )


def wants_copies(look: Look, made: Plan) -> bool:
    """Whether some finding needs a copy, because none of the plan's end markers mends it.

    If so, make the plan again from a look that also has a `Layout`, which says where copies may go.
    """
    return any(not one.is_ended_by(ended_by(made.steps)) for one in look.claims)


def ended_by(steps: Iterable[Step]) -> dict[tuple[int, int], frozenset[int]]:
    """By transaction that steps end, as producer id and first offset: the brokers that hold it open until then.

    Args:
        steps: some steps of a plan.
    """
    return {
        (step.producer_id, step.start_offset): frozenset(step.holders) for step in steps if isinstance(step, EndStep)
    }


def new_to(made: Plan, look: Look) -> str:
    """That there are findings which a plan does not know, a phrase; empty if there are none.

    Args:
        made: the plan.
        look: a look at its partition.
    """
    new = sorted(look.findings - set(made.findings))
    return f"there is a finding that the plan does not know: {', '.join(new)}" if new else ""


def _ends(look: Look, said: Mapping[int, str], shell: Shell) -> tuple[list[Step], list[tuple[str, set[int]]]]:
    """The end markers that can be written; and why others cannot, with the brokers that hold the transaction open."""
    over = sorted((one for one in look.transactions if not one.goes_on), key=lambda one: one.start_offset)
    if over and look.place.topic in INTERNAL:
        text = (
            f"{look.place.topic} is Kafka's own: its coordinators keep in memory what they made of it, which no end "
            "marker written here changes."
        )
        return [], [(text, {b for one in over for b in look.holders(one.producer_id, one.start_offset)})]
    steps: list[Step] = []
    missing = []
    for one in over:
        end = _end_of(look, one, said.get(one.start_offset), ended_by(steps).keys())
        if isinstance(end, str):
            text = f"The transaction of producer {one.producer_id} from offset {one.start_offset}: {end}."
            missing.append((text, set(look.holders(one.producer_id, one.start_offset))))
        else:
            steps.append(_step(len(steps) + 1, look, one, end, shell))
    return steps, missing


def _unmatched(look: Look, said: Mapping[int, str]) -> list[str]:
    there = {one.start_offset for one in look.transactions if not one.goes_on}
    return [
        f"No transaction that is over is open from offset {offset} on: nothing is ended there."
        for offset in sorted(said.keys() - there)
    ]


def _end_of(look: Look, one: Transaction, said: str | None, before: Collection[tuple[int, int]]) -> End | str:
    """How a transaction ended; a phrase on what is missing where it may not be ended so."""
    if why := not_over(one):  # nobody is asked how one ended that may go on
        return why
    end = _proven_or_said(one, look.proven.get((one.producer_id, one.start_offset), ()), said)
    return end if isinstance(end, str) else not_safe(look, one, end.type, end.marker_offset, before) or end


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
    if shown - {said}:
        other = " and ".join(sorted(shown))
        return f"--outcome {said} contradicts the end marker that a replica shows behind it ({other})"
    return End(said, "whoever made this plan says so")


def _step(number: int, look: Look, one: Transaction, end: End, shell: Shell) -> EndStep:
    holders = look.holders(one.producer_id, one.start_offset)
    word, place = end.type.upper(), look.place
    knows = "no coordinator knows its producer" not in one.verdict.why
    others = sorted(set(look.assigned) - set(holders))
    named = (
        f"the transaction of producer {one.producer_id} that {brokers_text(holders)} "
        f"{'holds' if len(holders) == 1 else 'hold'} open from offset {one.start_offset} of {place.name} on."
    )
    shown = "visible to" if end.type == "commit" else "hidden from"
    return EndStep(
        number=number,
        producer_id=one.producer_id,
        start_offset=one.start_offset,
        end=end.type,
        proof=end.proof,
        finding=end.finding,
        marker_offset=end.marker_offset,
        holders=tuple(holders),
        act=Act.END_MARKER,
        title=Act.END_MARKER.begin(marker=f"a {word} marker", transaction=named),
        needs=(
            f"the transaction was ended by {word}: {end.proof}",
            f"it is over: {one.verdict.why}",
            f"{MARKER_RIGHTS} for the user of the settings",
            "every replica in sync, and as many as min.insync.replicas asks for",
        ),
        changes=f"Its records become {shown} read_committed consumers of {brokers_text(holders)}, which may read on "
        f"from offset {one.start_offset}. {_no_change(others)}The marker is one more offset in the log of every "
        "replica.",
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
    return f"Consumers of {brokers_text(others)} see no change. " if others else ""


def _by_hand(look: Look, one: Transaction, end: End, shell: Shell) -> str:
    leads = look.leader in look.holders(one.producer_id, one.start_offset)
    if end.type == "abort" and leads:
        return abort_command(look.place, one.start_offset, shell)
    if end.type == "abort":
        return "None: kafka-transactions.sh aborts only what the leader holds open."
    return "None: kafka-transactions.sh writes no COMMIT marker."


__all__ = ["FORMAT", "Plan", "ended_by", "make", "new_to", "proofs", "wants_copies"]
