"""What ``parallax repair`` does: makes a plan, runs it, shows recorded repairs, resumes one, or undoes one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from parallax.config import Settings
from parallax.errors import one_line, plain
from parallax.findings.finding import Finding, current
from parallax.findings.naming import AT_LEAST, matching, named
from parallax.findings.table import read_events
from parallax.model import UNKNOWN, TopicPartition
from parallax.moments import now_ms
from parallax.repair.atoms import About
from parallax.repair.copies import NOTHING_SAID, Said
from parallax.repair.decide import outdated
from parallax.repair.looking import Lookout, Wanted
from parallax.repair.owner import SILENT_S, in_words, is_alive, myself, phase_in_words
from parallax.repair.plan import FORMAT, Plan, make, wants_copies
from parallax.repair.record import Event, EventKind, Phase, Record, Repair
from parallax.repair.run import RepairCommandError, Run, Say, said, wanted
from parallax.repair.seen import Look, disturbed
from parallax.repair.steps import MoveStep
from parallax.repair.table import RepairTable, read_record
from parallax.repair.undoing import CLOSE, closed, stays, stuck
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.shell import Shell
from parallax.views.binding import settled
from parallax.views.event_log import WrittenMeanwhile
from parallax.views.hash_key import hash_key
from parallax.views.lease import Sight, Step, decide

_PLAN = TypeAdapter(Plan)
_AGAIN = "make a plan by `parallax repair plan ... -o FILE`"
_READ_S = 20.0
"""How long a plan waits until the job has read what is in the log; seconds."""
_LOOK_S = 0.5
"""How often the record of a repair is looked at to see whether its owner lives; seconds."""


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
    config: Path | None = None,
) -> Plan:
    """Look at a partition, and make a plan for its findings and open transactions. This changes nothing.

    Args:
        settings: the job's settings.
        place: the partition.
        said: how transactions ended according to a person: ``commit`` or ``abort``, by a transaction's first offset.
        say: called with a line about how far a long reading is.
        more: what else the person states.
        is_to_lead: whether the plan only changes who leads and mends nothing.
        config: the settings file as it was given, for printed commands.

    Raises:
        ConfigError: the settings name another cluster than that of the storage, or several.
        ReplicaError: no broker answers, or there is no such partition.
        FindingsTableError: the findings cannot be read.
        RepairCommandError: the broker that a person calls right holds no replica of the partition.
    """
    with _lookout(settings, place, say) as (lookout, _):
        shell = Shell.of(settings.kafka, config)
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
        return make(_once_read(lookout, seen), said, shell, more)


def _once_read(lookout: Lookout, first: Look) -> Look:
    """A look at what a copy needs, once the job has read every replica up to where the log ended at a first look.

    It does not wait for ever: the plan then says what is not read yet.
    """
    marks = [one.marks.high_watermark for one in first.replicas.values() if one.marks is not None]
    known_to, until = max(marks, default=UNKNOWN), time.monotonic() + _READ_S
    while True:
        look = replace(lookout.look(Wanted(places=True, doubts=True)), known_to=known_to)
        if look.doubts is None or not look.doubts.unread(known_to) or time.monotonic() > until:
            return look
        time.sleep(_LOOK_S)


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
    made = _plan_of(text, f"repair run {path}")
    _check_chain(made, f"repair run {path}")
    return made


def _plan_of(text: str, what: str) -> Plan:
    if (written := _format_of(text)) not in (None, FORMAT):
        raise RepairCommandError(
            f"{what}: this plan has format {written}, and this version of Parallax reads format {FORMAT}; {_AGAIN}"
        )
    try:
        made = _PLAN.validate_json(text)
    except ValidationError as error:
        raise RepairCommandError(
            f"{what}: this is no plan ({one_line(plain(error.errors()[0]['msg']))}); {_AGAIN}"
        ) from error
    atoms = [atom for step in made.steps if isinstance(step, MoveStep) for proof in step.proof for atom in proof.atoms]
    if any(len(atom.offsets) < (2 if atom.about is About.TRANSACTION else 1) for atom in atoms):
        raise RepairCommandError(f"{what}: this is no plan (a part of a proof lacks an offset); {_AGAIN}")
    numbers = [step.number for step in made.steps]
    if not made.topic or 0 in numbers or numbers != sorted(set(numbers)):
        raise RepairCommandError(f"{what}: this is no plan (it names no topic, or a step's number twice); {_AGAIN}")
    return made


def _format_of(text: str) -> object:
    """The format of a plan that may be of another version of Parallax; None if the text says none."""
    try:
        document = from_json(text)
    except ValueError:  # of a text that is nested too deeply as well
        return None
    return document.get("format") if isinstance(document, dict) else None


def _check_chain(made: Plan, what: str) -> None:
    """Check that each reassignment of a whole plan begins with what the one before it has made.

    Raises:
        RepairCommandError: one does not, as in a plan that somebody has edited.
    """
    before = made.replicas
    for step in made.steps:
        if isinstance(step, MoveStep):
            if step.before != before:
                raise RepairCommandError(
                    f"{what}: this is no plan (step {step.number} begins with replicas {list(step.before)}, and "
                    f"{list(before)} hold it by then); {_AGAIN}"
                )
            before = step.move.replicas


def _recorded(known: Repair, what: str) -> Plan:
    """The plan of a repair that is on record.

    Raises:
        RepairCommandError: it is of another format.
    """
    if (written := known.plan.get("format")) != FORMAT:
        raise RepairCommandError(
            f"{what}: this repair was recorded in format {written}, and this version goes on with format {FORMAT} "
            f"only; {CLOSE}"
        )
    return _plan_of(json.dumps(known.plan), what)


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
                f"repair run: a repair of {made.place.name} is {phase_in_words(other)}; it was begun by "
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
        again = "plan again, with the same options of `parallax repair plan`"
        if (first := made.steps[0].number) > 1:
            again = f"if a step before step {first} was not run, run that first; if all were, {again}"
        raise RepairCommandError(f"repair run: the plan is out of date ({why}): {again}. Nothing was changed")


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
    table, record, known = _known(settings.storage.path, wanted, "resume", say)
    if known.phase is Phase.UNDOING:
        raise RepairCommandError(
            "repair resume: this repair is being undone; go on with that by `parallax repair undo`"
        )
    made, owner = _recorded(known, f"repair resume {wanted}"), myself()
    again = Event(EventKind.RESUMED, known.repair_id, *known.place, now_ms(), owner, reason=f"by {in_words(owner)}")
    with _lookout(settings, made.place, say) as (lookout, client):
        _append(table, record, again, lambda: _check_unchanged(record, known, "resume"))
        return Run(table, record, lookout, client, made, known.repair_id, owner, say).until_it_ends()


def undo(settings: Settings, wanted: str, say: Say) -> Repair:
    """Give a repair up: the partition is assigned to the brokers that held it before the repair.

    A repair that is over is undone if it has left the partition assigned otherwise (`Repair.left`). An end marker that
    the repair wrote stays in the log. Returns the repair's recorded state at the end.

    Args:
        settings: the job's settings; if the partition has to be reassigned, ``repair.mode`` has to be ``on``.
        wanted: the id of the repair, or the beginning of it.
        say: called with a line about each thing that happens.

    Raises:
        RepairCommandError: there is no such repair, it has left nothing to put back, its process is at work, a later
            repair of the partition has to be undone first, or reassigning is not allowed.
        EventLogError: nothing can be recorded.
        ConfigError, ReplicaError, FindingsTableError: as of `plan`, if the partition has to be reassigned.
    """
    table, record, known = _known(settings.storage.path, wanted, "undo", say)
    owner, left = myself(), stays(known)
    if not known.has_moved:
        return _close(table, record, known, "undo", f"nothing is put back: {left}" if left else "nothing was changed")
    check_may_run(settings)
    made = _recorded(known, f"repair undo {wanted}")
    event = Event(EventKind.UNDOING, known.repair_id, *known.place, now_ms(), owner, reason=left)
    with _lookout(settings, made.place, say) as looks:
        _append(table, record, event, lambda: _check_unchanged(record, known, "undo"))
        return Run(table, record, *looks, made, known.repair_id, owner, say).until_it_ends()


def close(storage: str, wanted: str, say: Say) -> Repair:
    """End a repair on record, and change nothing on the cluster. No broker is asked, so it is always possible.

    It is for repairs that cannot be undone (`hindrances`). Returns the repair's recorded state.

    Args:
        storage: ``storage.path``.
        wanted: the id of the repair, or the beginning of it.
        say: called with a line about each thing that happens.

    Raises:
        RepairCommandError: there is no such repair, nothing of it is left to do, or its process is at work.
        EventLogError: nothing can be recorded.
    """
    table, record, known = _known(storage, wanted, "close", say)
    return _close(table, record, known, "close", closed(known))


def _close(table: RepairTable, record: Record, known: Repair, command: str, reason: str) -> Repair:
    event = Event(EventKind.CLOSED, known.repair_id, *known.place, now_ms(), myself(), reason=reason)
    _append(table, record, event, lambda: _check_unchanged(record, known, command))
    return record.repairs[known.repair_id]


def hindrances(settings: Settings, repairs: Collection[Repair]) -> dict[str, str]:
    """By id of a repair that has something left to do: why it can neither go on nor be undone, and what ends it.

    Those that can are left out. If the brokers cannot be asked, it says so.

    Args:
        settings: the job's settings.
        repairs: the repairs.
    """
    some = [one for one in repairs if one.is_open or one.left]
    topics = sorted({one.place.topic for one in some})
    if not topics:
        return {}
    try:
        with closing(ReplicaClient(settings.kafka, timeout_ms=settings.findings.probe_timeout_ms)) as client:
            known = client.metadata(topics)
    except ReplicaError as error:
        return {one.repair_id: f"whether it can be undone is not known: {one_line(error)}" for one in some}
    found = {}
    for one in some:
        topic = known[one.place.topic]
        partition = topic.partitions.get(one.place.partition)
        if topic.error is not None and not isinstance(topic.error, UnknownTopic):
            found[one.repair_id] = f"whether it can be undone is not known: {one_line(topic.error)}"
        elif why := stuck(one, "" if partition is None else topic.topic_id, partition.replicas if partition else ()):
            found[one.repair_id] = why
    return found


def _known(storage: str, wanted: str, command: str, say: Say) -> tuple[RepairTable, Record, Repair]:
    """The table of repairs, what is on record there, and the repair that is meant: nobody is at work on it."""
    table = RepairTable.opened(storage)
    record = Record()
    if table is not None:
        record.take_in(table.news())
    found = matching(record.repairs, wanted)
    if table is None or len(found) != 1:
        problem = "names several repairs" if found else f"is the id of no repair; {AT_LEAST}"
        raise RepairCommandError(f"repair {command}: {wanted!r} {problem}; `parallax repair status` lists them")
    _check_may(record, found[0], command)
    _await_owner(table, record, found[0], command, say)
    _check_may(record, found[0], command)
    return table, record, record.repairs[found[0]]


def _check_may(record: Record, repair_id: str, command: str) -> None:
    """Check that something is left to do of a repair, and that no later one of its partition has to be undone first."""
    known = record.repairs[repair_id]
    if not known.is_open and not (command != "resume" and known.left):
        rest = "; `parallax repair undo` assigns the replicas as they were before it" if known.left else ""
        raise RepairCommandError(f"repair {command}: this repair is {known.phase}; nothing of it is left to do{rest}")
    later = record.later(known)
    if later is not None and command != "close":
        how = f"left the replicas as {list(later.left)}" if later.left else f"is {later.phase}"
        raise RepairCommandError(
            f"repair {command}: repair {later.repair_id[:8]} of {known.place.name} came later, and {how}; undo that "
            "one first"
        )


def _await_owner(table: RepairTable, record: Record, repair_id: str, command: str, say: Say) -> None:
    """Wait until the process that runs a repair is known to have ended; a refusal if it is at work."""
    first, since = record.repairs[repair_id], time.monotonic()
    while True:
        now = record.repairs[repair_id]
        alive = is_alive(now.owner) if now.is_running else False
        watched_s = time.monotonic() - since
        step = Step.GIVE_UP if alive else decide(_sight(first, alive), _sight(now, alive), watched_s, SILENT_S)
        if step is Step.TAKE:
            return
        if step is Step.GIVE_UP:
            raise RepairCommandError(
                f"repair {command}: {in_words(now.owner)} is at work on it; wait until that process has ended"
            )
        if watched_s < _LOOK_S:
            say(
                f"{in_words(now.owner)} may be at work on it, and cannot be looked up from here; if it records nothing "
                f"for {SILENT_S:.0f} s, it has ended"
            )
        time.sleep(_LOOK_S)
        record.take_in(table.news())


def _sight(known: Repair, alive: bool | None) -> Sight:
    """A repair as whoever wants to take it over sees it: its record is what grows while its owner lives."""
    return Sight(1, known.sequence, released=alive is False, owner=known.owner)


def _check_unchanged(record: Record, known: Repair, command: str) -> None:
    """Check that nobody has recorded anything of a repair since it was known that nobody is at work on it."""
    now = record.repairs[known.repair_id]
    if now != known:
        raise RepairCommandError(
            f"repair {command}: {in_words(now.owner)} went on with it meanwhile; see `parallax repair status`"
        )
    _check_may(record, known.repair_id, command)


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
    "close",
    "document",
    "hindrances",
    "place_of",
    "plan",
    "read_plan",
    "read_record",
    "resume",
    "run",
    "said",
    "undo",
]
