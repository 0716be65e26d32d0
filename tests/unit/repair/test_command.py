"""The command over a real table and a made cluster: who may run what, and what is on record after it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parallax.commands import repair as repair_command
from parallax.commands.repair import in_words
from parallax.config import Settings
from parallax.repair import command
from parallax.repair import run as runs
from parallax.repair.command import RepairCommandError, document, resume, run, undo
from parallax.repair.owner import myself
from parallax.repair.plan import FORMAT, Plan, make
from parallax.repair.record import Event, EventKind, Phase, Record, Repair
from parallax.repair.seen import End, Look
from parallax.repair.table import RepairTable, read_record
from parallax.replica.changes import EndMarker
from parallax.replica.errors import Unauthorized, Unreachable
from parallax.shell import ANYWHERE
from parallax.views.binding import bind
from tests.builders.settings import settings_of
from tests.patience import PATIENCE_S
from tests.unit.repair.commands import config, invoked, standing_in
from tests.unit.repair.looks import MARKER, PLACE, START, look, mended
from tests.unit.repair.moves import PLAN as MOVES
from tests.unit.repair.seeing import seen

PROVEN = {(7, START): [End("commit", "", MARKER, "f1")]}
PLAN = make(look(proven=PROVEN), {})
AWAY = "ann@elsewhere:7:1.00"


class Cluster:
    """Broker 2 holds the transaction open until a marker is written.

    Attributes:
        written: what was.
        fails: what a request for a marker raises, before it is written.
        loses: what it raises after it was written.
        seen: how the partition looks before; by default as it was planned.
    """

    def __init__(self) -> None:
        self.written: list[EndMarker] = []
        self.fails: Exception | None = None
        self.loses: Exception | None = None
        self.seen = look(proven=PROVEN)
        self.on_look = lambda: None

    def look(self, _: object = None) -> Look:
        self.on_look()
        return mended() if self.written else self.seen

    def write_end_marker(self, leader: int, marker: EndMarker) -> None:
        assert leader == 1
        if self.fails is not None:
            raise self.fails
        self.written.append(marker)
        if self.loses is not None:
            raise self.loses


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(command, "SILENT_S", 0.0)
    return standing_in(Cluster(), monkeypatch)


def settings(folder: Path, mode: str = "on") -> Settings:
    return settings_of(folder, repair={"mode": mode})


def kinds(folder: Path) -> list[EventKind]:
    return [event.kind for event in RepairTable(str(folder), create=False).news()]


def left_by(folder: Path, owner: str, *more: EventKind, plan: Plan = PLAN) -> str:
    """What a process that was killed has left on record; gives the id."""
    table, how = RepairTable(str(folder)), {"producer_epoch": 3, "coordinator_epoch": 1, "below": 20}
    for kind in (EventKind.BEGUN, *more):
        told = document(plan) if kind is EventKind.BEGUN else how if kind is EventKind.INTENDED else {}
        table.append(Event(kind, "a" * 32, *PLACE, 1, owner, int(kind is EventKind.INTENDED), told))
    return "aaaa"


def test_a_plan_is_run_to_its_end_and_each_step_of_that_is_on_record(cluster: Cluster, tmp_path: Path) -> None:
    said: list[str] = []
    over = run(settings(tmp_path), PLAN, said.append)
    assert over.phase is Phase.OVER
    assert cluster.written == [EndMarker(PLACE, 7, 3, 1, is_commit=True)]
    assert [str(kind) for kind in kinds(tmp_path)] == ["begun", "kept", "intended", "answered", "proven", "over"]
    assert said[-2] == "Step 1: done, and every replica shows it (end marker at offset 20)."


def test_while_repairs_are_off_nothing_is_looked_at_or_put_on_record(cluster: Cluster, tmp_path: Path) -> None:
    off = settings(tmp_path, "off")
    for refused in (lambda: run(off, PLAN, print), lambda: resume(off, "aaaa", print)):
        with pytest.raises(RepairCommandError, match="it is off, so nothing is changed"):
            refused()
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_is_out_of_date_is_not_begun(cluster: Cluster, tmp_path: Path) -> None:
    cluster.seen = replace(cluster.seen, leader=3, leader_epoch=10)
    again = "plan again, with the same options of `parallax repair plan`. Nothing was changed"
    second = replace(PLAN, steps=(replace(PLAN.steps[0], number=2),))
    before = f"if a step before step 2 was not run, run that first; if all were, {again}"
    for plan, what in ((PLAN, again), (second, before)):
        with pytest.raises(RepairCommandError, match="the plan is out of date") as refused:
            run(settings(tmp_path), plan, print)
        assert str(refused.value).endswith(f"): {what}")
    assert read_record(str(tmp_path)).repairs == {}


def test_nobody_is_asked_before_all_that_refuses_the_plan_was_checked(cluster: Cluster, tmp_path: Path) -> None:
    asked: list[str] = []
    away = "broker 3 is not in sync in orders-0: away, behind, or being copied; run it once every replica is in sync"
    refused = [
        (away, replace(cluster.seen, isr=frozenset({1, 2}))),
        ("the plan is out of date (", replace(cluster.seen, leader=3)),
    ]
    for text, looks in refused:
        cluster.seen = looks
        with pytest.raises(RepairCommandError) as raised:
            run(settings(tmp_path), PLAN, lambda _: None, lambda: asked.append("?"))
        assert text in str(raised.value)
    with pytest.raises(RepairCommandError, match="the plan has no steps"):
        run(settings(tmp_path), make(look(), {}), lambda _: None, lambda: asked.append("?"))
    assert asked == []


def test_what_changes_while_a_person_is_asked_is_seen(cluster: Cluster, tmp_path: Path) -> None:
    def answer() -> None:
        cluster.seen = replace(cluster.seen, isr=frozenset({1, 2}))

    with pytest.raises(RepairCommandError, match="broker 3 is not in sync"):
        run(settings(tmp_path), PLAN, lambda _: None, answer)
    assert (cluster.written, kinds(tmp_path)) == ([], [])


def test_who_says_no_changes_nothing(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plan = config(tmp_path), tmp_path / "plan"
    plan.write_text(json.dumps(document(PLAN)))
    monkeypatch.setattr(repair_command, "_is_at_a_terminal", lambda: True)
    ended = invoked("run", plan, "-c", path, answer="n\n")
    assert (ended.exit_code, "Run it?" in ended.stderr, cluster.written) == (1, True, [])
    cluster.seen = replace(cluster.seen, isr=frozenset({1, 2}))
    ended = invoked("run", plan, "-c", path, answer="y\n")
    assert (ended.exit_code, "Run it?" in ended.stderr) == (2, False)
    assert "broker 3 is not in sync" in ended.stderr


def test_a_plan_without_steps_is_not_begun(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RepairCommandError, match="the plan has no steps"):
        run(settings(tmp_path), make(look(), {}), print)


def test_one_that_is_refused_stops_and_keeps_others_out_until_it_is_given_up(cluster: Cluster, tmp_path: Path) -> None:
    cluster.fails = Unauthorized("not authorized: ALTER on the cluster is needed")
    stopped = run(settings(tmp_path), PLAN, lambda _: None)
    assert (stopped.phase, "ALTER on the cluster is needed" in stopped.reason) == (Phase.STOPPED, True)
    cluster.fails = None
    with pytest.raises(RepairCommandError, match="resume or undo that one"):
        run(settings(tmp_path), PLAN, print)
    closed = undo(settings(tmp_path), stopped.repair_id[:6], print)
    assert closed.phase is Phase.CLOSED
    assert closed.reason == "nothing is put back: the end markers of step 1, where they were written, stay in the log"
    with pytest.raises(RepairCommandError, match="nothing of it is left to do"):
        resume(settings(tmp_path), stopped.repair_id, print)
    assert run(settings(tmp_path), PLAN, lambda _: None).phase is Phase.OVER


def test_an_answer_that_is_lost_is_made_up_for_by_looking(cluster: Cluster, tmp_path: Path) -> None:
    cluster.loses = Unreachable("it broke")
    said: list[str] = []
    assert run(settings(tmp_path), PLAN, said.append).phase is Phase.OVER
    assert len(cluster.written) == 1
    assert "whether the marker was written is not known (it broke); it is looked for" in said


@pytest.mark.parametrize("was_written", [False, True])
def test_one_that_was_killed_is_resumed_and_writes_what_is_not_there_yet(
    cluster: Cluster, tmp_path: Path, was_written: bool
) -> None:
    name = left_by(tmp_path, AWAY, EventKind.KEPT, EventKind.INTENDED)
    before = [EndMarker(PLACE, 7, 3, 1, is_commit=True)] * was_written
    cluster.written += before
    assert resume(settings(tmp_path), name, lambda _: None).phase is Phase.OVER
    assert len(cluster.written) == 1


def test_nobody_takes_over_from_a_process_that_is_at_work(cluster: Cluster, tmp_path: Path) -> None:
    name = left_by(tmp_path, command.myself(), EventKind.KEPT)
    for refused in (lambda: resume(settings(tmp_path), name, print), lambda: undo(settings(tmp_path), name, print)):
        with pytest.raises(RepairCommandError, match="is at work on it; wait until that process has ended"):
            refused()


def test_an_owner_that_cannot_be_looked_up_is_taken_over_from_once_it_records_nothing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SILENT_S", 1.0)
    name, said = left_by(tmp_path, AWAY, EventKind.KEPT), list[str]()
    began = time.monotonic()
    assert resume(settings(tmp_path), name, said.append).phase is Phase.OVER
    assert time.monotonic() - began >= 1.0
    assert said[0] == (
        "ann@elsewhere (process 7) may be at work on it, and cannot be looked up from here; if it records nothing "
        "for 1 s, it has ended"
    )


@pytest.mark.parametrize("takes_over", [resume, undo])
def test_an_owner_that_cannot_be_looked_up_and_still_records_is_at_work(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes_over: Callable[..., Repair]
) -> None:
    monkeypatch.setattr(command, "SILENT_S", 30.0)
    name = left_by(tmp_path, AWAY, EventKind.KEPT)

    def beat(_: str) -> None:
        table = RepairTable(str(tmp_path))
        table.news()
        table.append(Event(EventKind.BEAT, "a" * 32, *PLACE, 1, AWAY))

    with pytest.raises(RepairCommandError, match="is at work on it; wait until that process has ended"):
        takes_over(settings(tmp_path), name, beat)
    assert cluster.written == []


def test_a_repair_records_that_it_runs_while_a_look_takes_long_and_nobody_takes_it_over(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BEAT_S", 0.05)
    monkeypatch.setattr(command, "SILENT_S", PATIENCE_S)
    monkeypatch.setattr(command, "is_alive", lambda _: None)  # as in another container
    refused: list[str] = []

    def slow() -> None:
        known = [one for one in read_record(str(tmp_path)).repairs.values() if one.is_kept]
        if not known or refused:
            return
        try:
            undo(settings(tmp_path), known[0].repair_id, lambda _: None)
        except RepairCommandError as error:
            refused.append(str(error))

    cluster.on_look = slow
    assert run(settings(tmp_path), PLAN, lambda _: None).phase is Phase.OVER
    assert ["is at work on it" in text for text in refused] == [True]
    assert EventKind.BEAT in kinds(tmp_path)


def test_the_beats_of_a_repair_are_never_first_where_it_records_something_slowly(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BEAT_S", 0.001)
    append = RepairTable.append

    def slowly(table: RepairTable, event: Event) -> Event:
        if threading.current_thread() is threading.main_thread():
            time.sleep(0.1)
        return append(table, event)

    monkeypatch.setattr(RepairTable, "append", slowly)
    assert run(settings(tmp_path), PLAN, lambda _: None).phase is Phase.OVER


def test_a_beat_or_another_repair_meanwhile_makes_nobody_decide_again(cluster: Cluster, tmp_path: Path) -> None:
    looks = list[int]()

    def beaten() -> None:
        looks.append(1)
        table = RepairTable(str(tmp_path))
        for known in [one for one in record_of(table).repairs.values() if one.place == PLACE]:
            table.append(Event(EventKind.BEAT, known.repair_id, *PLACE, 1, known.owner))
            table.append(Event(EventKind.BEGUN, "b" * 32, "other", 0, 1, AWAY))

    cluster.on_look = beaten
    assert run(settings(tmp_path), PLAN, lambda _: None).phase is Phase.OVER
    assert len(looks) < 10, "each look came to an event"


def test_who_was_taken_over_from_during_a_look_asks_for_no_change(cluster: Cluster, tmp_path: Path) -> None:
    def taken_over() -> None:
        table = RepairTable(str(tmp_path))
        known = record_of(table).open_in(PLACE)
        if known is not None and known.intended and known.owner != AWAY:
            table.append(Event(EventKind.RESUMED, known.repair_id, *PLACE, 1, AWAY))

    cluster.on_look = taken_over
    with pytest.raises(RepairCommandError, match="has taken this repair over"):
        run(settings(tmp_path), PLAN, print)
    assert (cluster.written, kinds(tmp_path)[-1]) == ([], EventKind.RESUMED)


def record_of(table: RepairTable) -> Record:
    record = Record()
    record.take_in(table.news())
    return record


def test_who_was_taken_over_from_changes_nothing_any_more(cluster: Cluster, tmp_path: Path) -> None:
    def taken_over() -> None:
        record, table = Record(), RepairTable(str(tmp_path))
        record.take_in(table.news())
        if (known := record.open_in(PLACE)) is not None and known.is_kept and known.owner != AWAY:
            table.append(Event(EventKind.RESUMED, known.repair_id, *PLACE, 1, AWAY))

    cluster.on_look = taken_over
    with pytest.raises(RepairCommandError, match="has taken this repair over"):
        run(settings(tmp_path), PLAN, lambda _: None)
    assert cluster.written == []


def test_undo_of_what_has_changed_nothing_says_so(cluster: Cluster, tmp_path: Path) -> None:
    assert undo(settings(tmp_path), left_by(tmp_path, AWAY), print).reason == "nothing was changed"


def edited(file: Path, times: int = 1, **step: str) -> Path:
    """A plan in which somebody has changed its step, or written it more than once."""
    made = document(PLAN)
    file.write_text(json.dumps(made | {"steps": [made["steps"][0] | step] * times}))
    return file


def test_wrong_usage_is_one_line_and_exit_code_2(cluster: Cluster, tmp_path: Path) -> None:
    path, plan, broken = config(tmp_path), tmp_path / "plan", tmp_path / "broken"
    plan.write_text(json.dumps(document(PLAN)))
    broken.write_text("{")
    deep, astray = tmp_path / "deep", tmp_path / "astray"
    deep.write_text("[" * 200_000)
    moved = json.loads(json.dumps(document(MOVES)))
    for atom in (one for step in moved["steps"] for proof in step["proof"] for one in proof["atoms"]):
        atom["offsets"] = []
    astray.write_text(json.dumps(moved))
    older = tmp_path / "older"
    older.write_text(json.dumps({"format": FORMAT - 1}))
    left_by(tmp_path / "data", AWAY)
    place = ("--topic", "orders", "--partition", 0)
    for words, text in {
        ("plan",): "give a finding, or --topic and --partition",
        ("plan", ""): "the id of the finding is empty",
        ("plan", "abcd", *place): "give a finding, or --topic and --partition",
        ("plan", *place, "--outcome", "commit"): "give one --offset with each --outcome",
        (
            "plan",
            *place,
            "--outcome",
            "commit",
            "--outcome",
            "abort",
            "--offset",
            4,
            "--offset",
            4,
        ): "give one --offset",
        ("plan", *place, "-o", tmp_path / "no" / "file"): "give a file that can be written",
        ("plan", *place, "--right", 9): "--right: broker 9 holds no replica of orders-0; these do: ",
        ("plan", *place, "--right", "-1"): "--right",
        ("plan", *place, "--right", 10**19): "--right",
        ("plan", "--topic", "orders", "--partition", 10**19): "--partition",
        ("run", tmp_path / "none"): "cannot be read",
        ("run", broken): "this is no plan",
        ("run", deep): "this is no plan",
        ("run", astray): "this is no plan (a part of a proof lacks an offset)",
        ("run", edited(tmp_path / "case", end="COMMIT")): "this is no plan",
        ("run", edited(tmp_path / "twice", times=2)): "this is no plan",
        ("run", older): "this plan has format 4, and this version of Parallax reads format 5; make a plan by",
        ("run", plan, "--step", 7): "the plan has no step 7; it has 1",
        ("run", plan): "nobody is there to be asked; give --yes",
        ("resume", "beef"): "is the id of no repair",
        ("undo", ""): "is the id of no repair",
    }.items():
        ended = invoked(*words, "-c", path)
        assert (ended.exit_code, text in ended.stderr) == (2, True), (words, ended.output)
        assert ended.stderr.rstrip().splitlines()[-1].startswith("parallax: "), ended.stderr


def test_a_plan_goes_through_a_file_to_its_end_and_status_tells_of_it(cluster: Cluster, tmp_path: Path) -> None:
    path, plan = config(tmp_path), tmp_path / "plan"
    planned = invoked(
        "plan", "--topic", "orders", "--partition", 0, "--outcome", "commit", "--offset", 4, "-o", plan, "-c", path
    )
    assert planned.exit_code == 0, planned.output
    assert "Step 1. Write a COMMIT marker for the transaction of producer 7" in planned.stdout
    bind(str(tmp_path / "data"), "one")
    assert invoked("status", "-c", path).stdout.startswith("nothing was repaired, by what is on record in ")
    ended = invoked("run", plan, "--step", 1, "--yes", "-c", path)
    assert (ended.exit_code, "orders-0: over, 1 of 1 steps done" in ended.stdout) == (0, True), ended.output
    (told,) = json.loads(invoked("status", "-c", path, "--format", "json").stdout)
    assert (told["phase"], told["done"], told["topic"]) == ("over", [1], "orders")


def test_status_says_of_a_repair_whose_process_was_killed_that_it_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.written == []
    place = myself().rsplit(":", 2)[0]
    left_by(tmp_path / "data", f"{place}:4194000:1", EventKind.KEPT, EventKind.INTENDED)
    status = ("status", "--data", tmp_path / "data")
    assert "orders-0: running, but its process has ended, 0 of 1 steps done" in invoked(*status).stdout
    (told,) = json.loads(invoked(*status, "--format", "json").stdout)
    assert (told["phase"], told["is_interrupted"]) == ("running", True)
    with pytest.raises(RepairCommandError, match="a repair of orders-0 is running, but its process has ended; it was"):
        run(settings(tmp_path / "data"), PLAN, print)


def test_a_plans_warning_comes_first_and_its_commands_can_be_pasted() -> None:
    text = in_words(make(seen(), {}), None, ANYWHERE)
    lines = text.splitlines()
    (step_2,) = (n for n, line in enumerate(lines) if line.startswith("Step 2."))
    assert lines[step_2 + 1].startswith("  warning:  2 replicas are left")
    assert all(lines[n - 1] == "  by hand:" for n, line in enumerate(lines) if line.startswith("cat > "))
    assert text.count("\ncat > ") == 4


def test_what_is_missing_is_exit_code_3(cluster: Cluster, tmp_path: Path) -> None:
    cluster.seen = look()
    planned = invoked("plan", "--topic", "orders", "--partition", 0, "-c", config(tmp_path))
    assert planned.exit_code == 3, planned.output
    assert "Missing: The transaction of producer 7 from offset 4: nothing proves" in planned.stdout
