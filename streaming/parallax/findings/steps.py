"""The steps that a person should take about a finding, in order: each with a text, and often with commands.

Parallax advises a copy only from a replica that the finding proves right. Another finding of the partition may prove
that replica wrong about something else. Then Parallax advises no copy, because the copy would spread that error.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from parallax.counts import brokers_text
from parallax.findings.cleared import proven_end
from parallax.findings.finding import has_spread, is_unsettled
from parallax.findings.grounds import Grounds, Leads, one_of
from parallax.findings.leading import leads_wrongly
from parallax.findings.moves import Purpose
from parallax.findings.repair import Repair, delete_again, rebuild_index, show_record, show_transaction
from parallax.kinds import OPEN_KINDS, TOMBSTONE_KINDS
from parallax.model import NOBODY, FindingKind
from parallax.remedies import Act


@dataclass(frozen=True, slots=True)
class Step:
    """One step that a person should take about a finding.

    Attributes:
        text: what to do, and why.
        run: the shell commands for it; empty where there are none.
        act: which step of a repair this is; ``text`` then has the line `Act.line`. None if it repairs nothing itself.
        only_where_right: the broker whose replica a person must first find right, because no evidence proves it; the
            text says so too. None: the step has no such condition.
    """

    text: str
    run: str = ""
    act: Act | None = None
    only_where_right: int | None = None


def steps(known: Grounds) -> tuple[Step, ...]:
    """Return the steps that a person should take about a finding that is not over, in order.

    They name the plan of its repair (`_planned`). They do not if all replicas show the same, because no copy helps.
    They do not either if another finding has to be settled before anything is copied.
    """
    finding = known.finding
    if has_spread(finding):
        return _where_all_share_it(known)
    if is_unsettled(finding):
        again = Act.WRITE_AGAIN.line()
        compare = _compare(known, "what the replicas show", f". Where it is wrong, {again}: that ends the finding.")
        return (
            replace(compare, act=Act.WRITE_AGAIN),
            _acknowledge(known, "Where it is right, acknowledge the finding."),
        )
    if finding.broker == NOBODY:
        return (_compare(known, "what the sides show"), _write_again(), _by_word(known))
    if known.is_of_the_index:
        return _rebuild(known)
    first = _who_leads(known)
    if finding.kind is FindingKind.LOG_TRUNCATED:
        return (first, _LOST, _acknowledge(known, _NOT_WRITTEN))
    if known.if_right is not None:
        return (first, *_find_out(known, known.if_right))
    if not known.right:
        find = "Find out which replica is right before any is copied or wiped: the evidence does not prove it. "
        return (first, _compare(known, "what they show", lead=find), _by_word(known))
    is_in_place = finding.kind in OPEN_KINDS
    in_place = (_in_place(known),) if is_in_place else ()
    if known.repair is None:
        return (first, *in_place, Step(_wait_for_others(known)))
    copied = _copy_again(known, known.repair, known.sources)
    return (
        first,
        *in_place,
        *((_only(step, f"Only where {_NO_MARKER}") for step in copied) if is_in_place else copied),
        Step(_BY_ITSELF),
        *_reorder(known, known.repair),
    )


def _compare(known: Grounds, what: str, rest: str = ".", lead: str = "") -> Step:
    """Return a step with two commands: one shows the answers to a probe, the other the records as they are now."""
    finding, shell = known.finding, known.shell
    more = ("--format", "json") if finding.is_incident else ()
    shown = shell.parallax("findings", "show", finding.finding_id, *more)
    return Step(f"{lead}Compare {what} with the system that wrote it{rest}", f"{shown}\n{show_record(finding, shell)}")


def _by_word(known: Grounds) -> Step:
    after = "" if known.finding.broker != NOBODY else f" {_AFTER_IT[known.finding.is_incident]}"
    text = (
        f"Once you know which replica is right, {Act.COPY.line(wrong='those that are wrong')}, taken from it: give its "
        f"broker to the plan in place of BROKER. A wrong choice deletes what was right.{after}"
    )
    return _planned(known, text, Act.COPY, "--right", "BROKER")


_AFTER_IT = (
    "The finding ends once its replicas are seen to show the same, and says that it was repaired by your word.",
    "No evidence says that you were right, so the finding, which is about many, stays until you acknowledge it.",
)
"""Of a finding that names no broker, by whether it is an incident."""


def _by_plan(known: Grounds, right: int | None = None) -> Step:
    """Return the step that has the accused copied again by a plan.

    Args:
        known: what is known of the replicas.
        right: the broker that a person has to find right, because no evidence proves it.
    """
    line = Act.COPY.begin(wrong=f"broker {known.finding.broker}")
    text = f"{line} by a plan, which checks each step before it makes it."
    return _planned(known, text, Act.COPY, *_by_whose_word(right))


def _by_whose_word(right: int | None) -> tuple[str, ...]:
    return () if right is None else ("--right", str(right))


def _acknowledge(known: Grounds, text: str) -> Step:
    reason = ("--reason", "...")
    return Step(text, known.shell.parallax("findings", "acknowledge", known.finding.finding_id, *reason))


def _rebuild(known: Grounds) -> tuple[Step, ...]:
    """Return the steps for a wrong index in a right log: stop the broker and rebuild the index, without a copy."""
    holds = (
        "No copy is needed for that: its log holds the end marker. If its cleaner has taken values by the wrong "
        "index, the finding stays open afterwards and says so."
    )
    if known.finding.is_incident:
        holds = "That takes no copy where its log holds the end markers."
    broker = known.finding.broker
    line = Act.REBUILD_INDEX.begin(wrong=f"broker {broker}")
    run = f"{rebuild_index(known.finding.place, broker, known.unlisted)}\n{show_record(known.finding, known.shell)}"
    index = f"{line}. The last command shows whether it has: with the same outcome on each broker. {holds}"
    if not known.right:
        index += " Another broker leads while it is stopped: what consumers read of that is not proven."
        return (Step(index, run, Act.REBUILD_INDEX), _by_word(known))
    line = Act.COPY.line(wrong="it")
    by_plan = f"Only where its index is right again and the finding stays open, {line} by a plan."
    copied = (_planned(known, by_plan, Act.COPY),) if known.sources else ()
    steps = (_who_leads(known), Step(index, run, Act.REBUILD_INDEX), *copied)
    return (*steps, *_reorder(known, known.repair)) if known.repair is not None and _has_to_lead(known) else steps


def _write_again() -> Step:
    """Return the step that puts all replicas right, whichever is wrong."""
    return Step(f"{Act.WRITE_AGAIN.begin()}, a value or a deletion: every replica copies that.", act=Act.WRITE_AGAIN)


_LOST = Step(
    f"{Act.WRITE_AGAIN.begin(what='what was lost')} by the system that wrote it, unless another replica holds it "
    "still: wipe none before that is known.",
    act=Act.WRITE_AGAIN,
)

_NOT_WRITTEN = "Where nothing can be written, acknowledge the finding."


_END_IT = (
    f"{Act.END_MARKER.begin()} that every replica holds open. The plan says whether it is proven to be committed or "
    "aborted, else what is missing; an ABORT of what was committed loses it. Wipe no replica, above all none that did "
    "not answer: one that has ended it may be right."
)
_LOWER = (
    "Let a broker lead whose log begins lower and is not empty: the others take over the log start of the one that "
    "leads, and lose what lies below."
)


def _where_all_share_it(known: Grounds) -> tuple[Step, ...]:
    if known.finding.kind in OPEN_KINDS:
        return (
            _planned(known, _END_IT, Act.END_MARKER),
            _acknowledge(known, "Where it cannot be ended, acknowledge the finding."),
        )
    acknowledge, deleted = _acknowledge(known, _NOT_WRITTEN), _delete_again(known)
    if known.silent:
        spare = f"Wipe nothing on {brokers_text(known.silent)}: what is held there may be right."
        return (Step(spare), *deleted, _write_again(), acknowledge)
    again = Step(f"{Act.WRITE_AGAIN.begin()}: no copy of a replica can repair it.", act=Act.WRITE_AGAIN)
    return (*deleted, again, acknowledge)


def _planned(known: Grounds, text: str, act: Act, *options: str) -> Step:
    """Return a step that ``parallax repair`` plans and runs, with what it says of running; options are the plan's."""
    finding, shell = known.finding, known.shell
    file = f"{finding.topic}-{finding.partition}.plan"
    plan = shell.parallax("repair", "plan", finding.finding_id, *options, "-o", file)
    run = shell.parallax("repair", "run", file)
    return Step(f"{text} {_RUN_IT}", f"{plan}\n{run}", act)


_RUN_IT = "parallax repair run asks before it changes anything. It runs only with repair.mode: on; the default is off."


def _in_place(known: Grounds) -> Step:
    """Return the step that writes an end marker once more: it repairs what a copy would, and copies nothing."""
    known_as = proven_end(known.shown)
    if known_as is None:
        text = (
            f"Once you know whether the transaction was committed or aborted, {Act.END_MARKER.line()}, which copies "
            f"nothing: the plan names the options that say so, and how to run it."
        )
    else:
        text = (
            f"The transaction is proven to have ended by {known_as.upper()}: {Act.END_MARKER.line()}, which copies "
            f"nothing. The plan says whether that is safe now: read it first."
        )
    return _planned(known, text, Act.END_MARKER)


def _has_to_lead(known: Grounds) -> bool:
    """Whether leadership has to go to a replica that is right."""
    return bool(known.sources) and known.shown.leader not in known.sources


def _who_leads(known: Grounds) -> Step:
    finding, repair = known.finding, known.repair
    if known.leads in (Leads.ACCUSED, Leads.ALIKE) and not known.sources:
        if finding.kind is FindingKind.LOG_HEAD_MISSING:
            return Step(
                f"{_LOWER} See which one that is.", known.shell.parallax("findings", "show", finding.finding_id)
            )
        return Step(
            f"{leads_wrongly(known.shown.leader)} But elect no other yet: none is proven right by every finding."
        )
    if repair is None or not _has_to_lead(known):
        keep = f"Keep {brokers_text(known.shown.alike)} from leading"
        how = "no preferred election, and do not restart the present leader. The command says what else it takes"
        return Step(f"{keep}: {how}.", known.shell.parallax("lead", finding.topic))
    return _let_lead(known, repair, _why_first(known))


_FROM_THE_LEADER = ", for a new copy is taken from the leader"


def _why_first(known: Grounds) -> str:
    """Return why another replica has to lead before anything else is done, as a clause; it may be empty.

    It is the copy only where the next step is one: a freeze ends by an end marker, a wrong index is rebuilt in place,
    and what a truncated log has lost is written again. There it is what consumers of the present leader get.
    """
    if not known.is_of_the_index and known.finding.kind not in (*OPEN_KINDS, FindingKind.LOG_TRUNCATED):
        return _FROM_THE_LEADER
    is_wrong = known.leads in (Leads.ACCUSED, Leads.ALIKE)
    return f", for consumers of broker {known.shown.leader} {known.consumers}" if is_wrong else ""


def _let_lead(known: Grounds, repair: Repair, why: str) -> Step:
    how = f"run an assignment of all replicas, which copies nothing and puts broker {repair.first} first, and then "
    if not repair.moves[Purpose.LEAD].is_new:
        how = "run "
    run = repair.run(Purpose.LEAD, known.shell)
    line = Act.LEAD.begin(right=f"broker {repair.first}")
    return Step(f"{line}{why}: {how}the preferred election.", run, Act.LEAD)


def _find_out(known: Grounds, repair: Repair) -> tuple[Step, ...]:
    """Return how to find out whether a broker that has ended a transaction is right, and what to do only if it is."""
    shell, finding, broker = known.shell, known.finding, known.finding.broker
    find = (
        "Find out which replica is right before any is copied or wiped: the evidence does not prove it. Broker "
        f"{broker} holds the transaction open that has ended on {brokers_text(known.candidates)}: see its first "
        "record and its end marker on each broker, what each holds of its producer, and what its coordinator says (ID "
        "is the transactional id that the list names). Ask the system that wrote it whether it was committed or "
        "aborted: who has ended it so is right in this. Where none has, copy none."
    )
    shown = shell.parallax("findings", "show", finding.finding_id)
    look = Step(find, f"{shown}\n{show_transaction(finding, known.shown.replicas, shell)}")
    is_led = known.shown.leader == repair.first
    lead = () if is_led else (_let_lead(known, repair, _FROM_THE_LEADER),)
    copied = (*lead, *_copy_again(known, repair, (repair.first,)))
    only = (_where_right(step, repair.first) for step in copied)
    return (look, _in_place(known), *only, Step(_BY_ITSELF), *_reorder(known, repair))


_NO_MARKER = "no end marker could be written"


def _where_right(step: Step, right: int) -> Step:
    """Return a step that may be done only if a broker is found right, as the alternative to an end marker."""
    return replace(_only(step, f"Only where broker {right} is found right, and {_NO_MARKER}"), only_where_right=right)


def _only(step: Step, when: str) -> Step:
    """Return a step that is to be done only on a condition."""
    return replace(step, text=f"{when}: {step.text[:1].lower()}{step.text[1:]}")


def _wait_for_others(known: Grounds) -> str:
    named = " and ".join(f"{other.finding_id} ({other.kind})" for other in known.beside)
    first = "that one" if len(known.beside) == 1 else "those"
    return (
        f"Have nothing copied or wiped yet: broker {known.finding.broker} may be the right one in finding {named} of "
        f"this partition. Settle {first} first; where each waits for the other, {Act.WRITE_AGAIN.line()}."
    )


def _copy_again(known: Grounds, repair: Repair, sources: Collection[int]) -> tuple[Step, ...]:
    """Return the steps by which the accused copies the leader, which has to be one of ``sources``."""
    shell, broker = known.shell, known.finding.broker
    said = None if known.sources else repair.first
    replicas = ", ".join(map(str, repair.assigned))
    check = (
        f"Check with kafka-topics.sh --describe that {one_of(sources)} leads, and that the replicas are still "
        f"{replicas}, in any order."
    )
    drop = (
        f"By hand instead: {Act.DROP.line(wrong=f'broker {broker}')}: assign the partition to the others. Go on when "
        "the last command, run again, says that it is completed. The partition has one replica less until the next "
        "step is done."
    )
    copied: tuple[Step, ...] = (
        _by_plan(known, said),
        Step(drop, repair.run(Purpose.DROP, shell), Act.DROP),
        Step(
            f"By hand: {Act.COPY.line(wrong='it')}. Assign the partition to all of them again.",
            repair.run(Purpose.COPY, shell),
            Act.COPY,
        ),
    )
    if repair.leaves_one:
        copied = (_planned(known, _STAND_IN, Act.STAND_IN, *_by_whose_word(said)),)
    deleted = _delete_again(known)
    if deleted:
        copied = tuple(_only(step, "Only where no deletion could be written") for step in copied)
    return (Step(check, repair.describe(shell)), *deleted, *copied)


_STAND_IN = (
    f"{Act.STAND_IN.begin(wrong='the accused')}, and then {Act.COPY.line(wrong='it')}: one replica alone would be left "
    "otherwise. The plan names that broker, and has the commands."
)


def _delete_again(known: Grounds) -> tuple[Step, ...]:
    """Return the step that makes a copy unnecessary after a missed deletion: every replica takes over a new one."""
    finding = known.finding
    if finding.kind not in TOMBSTONE_KINDS:
        return ()
    if finding.is_incident:
        shown = known.shell.parallax("findings", "show", finding.finding_id, "--format", "json")
        each = f"{_DELETE_AGAIN} Write it for each key of this finding: the commands show which these are."
        return (Step(each, f"{shown}\n{show_record(finding, known.shell)}", Act.DELETE_AGAIN),)
    run = delete_again(finding, known.shell)
    by = _BY_DEFAULT if run else "Kafka's console producer cannot be given this key: have its own producer write it."
    return (Step(f"{_DELETE_AGAIN} {by}", run, Act.DELETE_AGAIN),)


def _reorder(known: Grounds, repair: Repair) -> tuple[Step, ...]:
    """Return the step that lets the accused be the preferred leader again, once it is right."""
    if Purpose.ORDER not in repair.moves:
        return ()
    said = f"When the finding is resolved, {Act.ORDER.line()}: {repair.assigned[0]} comes first."
    return (Step(said, repair.run(Purpose.ORDER, known.shell), Act.ORDER),)


_BY_ITSELF = "The finding is resolved by itself once the replicas are seen to agree."
_DELETE_AGAIN = (
    f"Where the system that wrote it still has the key deleted, {Act.DELETE_AGAIN.line()}: that needs no copy."
)
_BY_DEFAULT = (
    "The tool picks the partition as Java's producer does by default: where the topic's producers pick it otherwise, "
    "have one of them write it."
)


__all__ = ["Step", "steps"]
