"""What ``parallax repair`` does: makes a plan, runs it, shows recorded repairs, resumes one, or undoes one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from parallax.config import Settings
from parallax.counts import agreed
from parallax.errors import one_line, plain
from parallax.findings.finding import Finding, current
from parallax.findings.naming import AT_LEAST, matching, named
from parallax.findings.table import read_events
from parallax.model import TopicPartition
from parallax.moments import now_ms
from parallax.repair.copies import NOTHING_SAID, Said
from parallax.repair.decide import outdated
from parallax.repair.looking import Lookout, Wanted
from parallax.repair.owner import in_words, is_at_work, myself
from parallax.repair.plan import FORMAT, Plan, make, wants_copies
from parallax.repair.record import Event, EventKind, Phase, Record, Repair
from parallax.repair.run import RepairCommandError, Run, Say, said, wanted
from parallax.repair.seen import Look, disturbed
from parallax.repair.steps import EndStep, MoveStep
from parallax.repair.table import RepairTable, read_record
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.shell import Shell
from parallax.views.binding import settled
from parallax.views.event_log import WrittenMeanwhile
from parallax.views.hash_key import hash_key

_PLAN = TypeAdapter(Plan)


def place_of(storage: str, finding: str) -> TopicPartition:
    """The partition of a finding.

    Args:
        storage: ``storage.path``.
        finding: the finding's id, or the beginning of it.

    Raises:
        FindingNotNamedError: no finding has that id, or several have.
        FindingsTableError: there is no findings table, or it cannot be read.
    """
    found: Finding = named(current(read_events(storage)), finding)
    return found.place


def plan(
    settings: Settings,
    place: TopicPartition,
    said: Mapping[int, str],
    say: Say,
    more: Said = NOTHING_SAID,
    *,
    is_to_lead: bool = False,
) -> Plan:
    """Look at a partition, and make a plan for its findings and open transactions. This changes nothing.

    Args:
        settings: the job's settings.
        place: the partition.
        said: how transactions ended according to a person: ``commit`` or ``abort``, by a transaction's first offset.
        say: called with a line about how far a long reading is.
        more: what else the person states.
        is_to_lead: whether the plan only changes who leads and mends nothing.

    Raises:
        ConfigError: the settings name another cluster than that of the storage, or several.
        ReplicaError: no broker answers, or there is no such partition.
        FindingsTableError: the findings cannot be read.
        RepairCommandError: the broker that a person calls right holds no replica of the partition.
    """
    with _lookout(settings, place, say) as (lookout, _):
        shell = Shell.of(settings.kafka)
        if is_to_lead:
            return make(lookout.look(Wanted(places=True, doubts=True)), said, shell, more, is_to_lead=True)
        seen = lookout.look()
        if more.right is not None and more.right not in seen.assigned:
            raise RepairCommandError(
                f"--right: broker {more.right} holds no replica of {place.name}; these do: "
                f"{', '.join(map(str, sorted(seen.assigned)))}"
            )
        made = make(seen, said, shell, more)
        if not wants_copies(seen, made):
            return made
        return make(lookout.look(Wanted(places=True, doubts=True)), said, shell, more)


def document(made: Plan) -> dict[str, Any]:
    """A plan as values that JSON can hold; once written to a file, `read_plan` reads the plan back."""
    return asdict(made)


def read_plan(path: Path) -> Plan:
    """Read a plan that ``parallax repair plan`` has written.

    Raises:
        RepairCommandError: there is no such file, or it is no plan of this version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RepairCommandError(f"repair run {path}: it cannot be read ({one_line(error)})") from error
    return _plan_of(text, f"repair run {path}")


def _plan_of(text: str, what: str) -> Plan:
    again = "make a plan by `parallax repair plan ... -o FILE`"
    try:
        made = _PLAN.validate_json(text)
    except ValidationError as error:
        raise RepairCommandError(
            f"{what}: this is no plan ({one_line(plain(error.errors()[0]['msg']))}); {again}"
        ) from error
    if made.format != FORMAT:
        raise RepairCommandError(f"{what}: this plan is of another version of Parallax; {again}")
    numbers = [step.number for step in made.steps]
    if not made.topic or numbers != sorted(set(numbers)):
        raise RepairCommandError(f"{what}: this is no plan (it names no topic, or a step's number twice); {again}")
    return made


def check_may_run(settings: Settings) -> None:
    """Check that the settings allow repairs to run.

    Raises:
        RepairCommandError: ``repair.mode`` is ``off``.
    """
    if settings.repair.mode == "off":
        raise RepairCommandError(
            "repair.mode: it is off, so nothing is changed on the cluster; set it to on to allow it"
        )


def run(settings: Settings, made: Plan, say: Say, ask: Callable[[], None] | None = None) -> Repair:
    """Run a plan, step by step, until all steps are proven or something is not as planned.

    Args:
        settings: the job's settings; ``repair.mode`` has to be ``on``.
        made: the plan.
        say: called with a line about each thing that happens.
        ask: asks a person for consent, once all checks have passed; it must raise an error if the person says no. After
            a yes everything is checked again. None: nobody is asked.

    Returns:
        The repair's recorded state at the end.

    Raises:
        RepairCommandError: the plan may not run. The settings forbid it, it has no steps, another repair of the
            partition is open, a replica is away or behind, or the partition is not as it was when the plan was made.
        EventLogError: nothing can be recorded.
        ConfigError, ReplicaError, FindingsTableError: as of `plan`.
    """
    check_may_run(settings)
    if not made.steps:
        raise RepairCommandError("repair run: the plan has no steps; it says what is missing")
    table, record = RepairTable(settings.storage.path), Record()
    repair_id, owner = uuid4().hex, myself()
    begun = Event(EventKind.BEGUN, repair_id, *made.place, now_ms(), owner, document=document(made))

    def is_free() -> None:
        if (other := record.open_in(made.place)) is not None:
            raise RepairCommandError(
                f"repair run: a repair of {made.place.name} is {other.phase} since it was begun by "
                f"{in_words(other.owner)}; see `parallax repair status`, and resume or undo that one"
            )

    with _lookout(settings, made.place, say) as (lookout, client):

        def check() -> None:
            record.take_in(table.news())
            is_free()
            _check_may_begin(made, lookout.look(wanted(made, doubts=True)))

        check()
        if ask is not None:
            ask()
            check()
        _append(table, record, begun, is_free)
        return Run(table, record, lookout, client, made, repair_id, owner, say).until_it_ends()


def _check_may_begin(made: Plan, look: Look) -> None:
    if why := disturbed(look):
        raise RepairCommandError(f"repair run: {why}; run it once every replica is in sync. Nothing was changed")
    if why := outdated(made, look):
        raise RepairCommandError(f"repair run: the plan is out of date ({why}); plan again. Nothing was changed")


def resume(settings: Settings, wanted: str, say: Say) -> Repair:
    """Go on with a repair that has stopped, or whose process has ended, until all steps are proven or it stops again.

    Args:
        settings: the job's settings; ``repair.mode`` has to be ``on``.
        wanted: the id of the repair, or the beginning of it.
        say: called with a line about each thing that happens.

    Returns:
        The repair's recorded state at the end.

    Raises:
        RepairCommandError: repairs may not run, no or several repairs have that id, the repair is over, given up or
            being undone, or its process is at work.
        EventLogError: nothing can be recorded.
        ConfigError, ReplicaError, FindingsTableError: as of `plan`.
    """
    check_may_run(settings)
    table, record, known = _known(settings, wanted, "resume")
    if known.phase is Phase.UNDOING:
        raise RepairCommandError(
            "repair resume: this repair is being undone; go on with that by `parallax repair undo`"
        )
    made, owner = _plan_of(json.dumps(known.plan), f"repair resume {wanted}"), myself()
    again = Event(EventKind.RESUMED, known.repair_id, *known.place, now_ms(), owner, reason=f"by {in_words(owner)}")
    with _lookout(settings, made.place, say) as (lookout, client):
        _append(table, record, again, lambda: _check_idle(record.repairs[known.repair_id], "resume"))
        return Run(table, record, lookout, client, made, known.repair_id, owner, say).until_it_ends()


def undo(settings: Settings, wanted: str, say: Say) -> Repair:
    """Give a repair up: the partition is assigned to the brokers that held it before the repair.

    An end marker that the repair wrote stays in the log. Returns the repair's recorded state at the end.

    Args:
        settings: the job's settings; if the partition has to be reassigned, ``repair.mode`` has to be ``on``.
        wanted: the id of the repair, or the beginning of it.
        say: called with a line about each thing that happens.

    Raises:
        RepairCommandError: there is no such repair, it is over, its process is at work, or reassigning is not allowed.
        EventLogError: nothing can be recorded.
        ConfigError, ReplicaError, FindingsTableError: as of `plan`, if the partition has to be reassigned.
    """
    table, record, known = _known(settings, wanted, "undo")
    made, owner = _plan_of(json.dumps(known.plan), f"repair undo {wanted}"), myself()
    moved = [step for step in made.steps if isinstance(step, MoveStep) and step.number in known.intended]
    event = partial(Event, repair_id=known.repair_id, topic=known.place.topic, partition=known.place.partition)
    if not moved:
        closed = event(EventKind.CLOSED, at_ms=now_ms(), owner=owner, reason=_stays(made, known))
        _append(table, record, closed, lambda: _check_idle(record.repairs[known.repair_id], "undo"))
        return record.repairs[known.repair_id]
    check_may_run(settings)
    undoing = event(
        EventKind.UNDOING, at_ms=now_ms(), owner=owner, document={"replicas": made.replicas}, reason=_stays(made, known)
    )
    with _lookout(settings, made.place, say) as (lookout, client):
        _append(table, record, undoing, lambda: _check_idle(record.repairs[known.repair_id], "undo"))
        return Run(table, record, lookout, client, made, known.repair_id, owner, say).until_it_ends()


def _stays(made: Plan, known: Repair) -> str:
    """What an undone repair leaves changed."""
    done = [step.number for step in made.steps if isinstance(step, EndStep) and step.number in known.intended]
    if done:
        steps = f"{agreed(len(done), 'step', 'steps')} {', '.join(map(str, done))}"
        return f"nothing is put back: the end markers of {steps}, where they were written, stay in the log"
    return "the replicas are assigned as they were" if known.intended else "nothing was changed"


def _known(settings: Settings, wanted: str, command: str) -> tuple[RepairTable, Record, Repair]:
    table = RepairTable(settings.storage.path, create=False) if RepairTable.is_there(settings.storage.path) else None
    record = Record()
    if table is not None:
        record.take_in(table.news())
    found = matching(record.repairs, wanted)
    if table is None or len(found) != 1:
        problem = "names several repairs" if found else f"is the id of no repair; {AT_LEAST}"
        raise RepairCommandError(f"repair {command}: {wanted!r} {problem}; `parallax repair status` lists them")
    known = record.repairs[found[0]]
    _check_idle(known, command)
    return table, record, known


def _check_idle(known: Repair, command: str) -> None:
    if not known.is_open:
        raise RepairCommandError(f"repair {command}: this repair is {known.phase}; nothing of it is left to do")
    if known.is_running and is_at_work(known.owner, known.at_ms, now_ms()):
        raise RepairCommandError(
            f"repair {command}: {in_words(known.owner)} is at work on it; wait until that process has ended"
        )


def _append(table: RepairTable, record: Record, event: Event, check: Callable[[], None]) -> None:
    """Put an event on record, if a check still passes with all that others have put there."""
    while True:
        record.take_in(table.news())
        check()
        try:
            record.take_in([table.append(event)])
        except WrittenMeanwhile:
            continue
        return


@contextmanager
def _lookout(settings: Settings, place: TopicPartition, say: Say) -> Iterator[tuple[Lookout, ReplicaClient]]:
    settings = settled(settings)
    hasher = ContentHasher(bytes.fromhex(hash_key(settings.storage.path, settings.read)))
    timeout_ms = settings.findings.probe_timeout_ms
    with closing(ReplicaClient(settings.kafka, timeout_ms=timeout_ms)) as client:
        yield Lookout(client, settings, place, hasher, say), client


__all__ = [
    "RepairCommandError",
    "check_may_run",
    "document",
    "place_of",
    "plan",
    "read_plan",
    "read_record",
    "resume",
    "run",
    "said",
    "undo",
]
