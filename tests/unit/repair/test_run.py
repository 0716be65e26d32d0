"""Copies by the command line over a made cluster: through a file, refused, undone, and by a person's word."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from parallax.model import TopicPartition
from parallax.moments import now_ms
from parallax.repair import command
from parallax.repair.command import document as plan_document
from parallax.repair.looking import NOTHING_MORE, Wanted
from parallax.repair.plan import FORMAT
from parallax.repair.record import Event, EventKind, Repair
from parallax.repair.seen import Look
from parallax.repair.table import RepairTable, read_record
from parallax.repair.undoing import CLOSE, stuck
from parallax.replica.errors import Unauthorized, Unreachable
from tests.unit.repair.commands import config, invoked, standing_in
from tests.unit.repair.looks import PLACE
from tests.unit.repair.moves import OTHER, PLAN, at
from tests.unit.repair.seeing import WRONG, claim


class Cluster:
    """Broker 3 leads and is wrong; a change is done at once.

    Attributes:
        asked: the assignments that were asked for.
        fails: what the next assignment raises, and whether it is done all the same.
    """

    def __init__(self) -> None:
        self.assigned, self.leader, self.epoch = (3, 1, 2), 3, 9
        self.wrong, self.claim = {3}, WRONG
        self.asked: list[tuple[int, ...]] = []
        self.fails: list[tuple[BaseException, bool]] = []
        self.automation = ""

    def look(self, wanted: Wanted = NOTHING_MORE) -> Look:
        shown = {broker: OTHER for broker in self.assigned if broker in self.wrong}
        seen = at(self.assigned, leader=self.leader, epoch=self.epoch, shown=shown)
        assert seen.layout is not None
        layout = replace(seen.layout, automation=self.automation)
        looks_for_places = wanted.places or wanted.offsets is not None
        layout = layout if looks_for_places else None
        return replace(seen, at_ms=now_ms(), claims=(self.claim,), layout=layout)

    def reassign(self, place: TopicPartition, replicas: tuple[int, ...]) -> None:
        assert place == PLACE
        error, is_done = self.fails.pop() if self.fails else (None, True)
        if is_done:
            self.asked.append(replicas)
            self.epoch += bool(set(self.assigned) - set(replicas))
            self.wrong &= set(replicas)
            self.assigned = replicas
        if error is not None:
            raise error

    def elect(self, place: TopicPartition) -> bool:
        assert place == PLACE
        self.leader, self.epoch = self.assigned[0], self.epoch + 1
        return True


class KilledError(BaseException):
    """The process is killed."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return standing_in(Cluster(), monkeypatch)


def planned(folder: Path, *more: object) -> tuple[Path, Path]:
    path, plan = config(folder), folder / "plan"
    made = invoked("plan", "--topic", "orders", "--partition", 0, "-o", plan, "-c", path, *more)
    assert made.exit_code == 0, made.output
    return path, plan


def test_a_copy_goes_through_a_file_and_each_change_is_on_record_before_it_is_asked_for(
    cluster: Cluster, tmp_path: Path
) -> None:
    path, plan = planned(tmp_path)
    ended = invoked("run", plan, "--yes", "-c", path)
    assert (ended.exit_code, "orders-0: over, 4 of 4 steps done" in ended.stdout) == (0, True), ended.output
    assert cluster.asked == [(1, 3, 2), (1, 2), (1, 3, 2), (3, 1, 2)]
    assert (cluster.leader, cluster.wrong) == (1, set())
    kinds = [event.kind for event in RepairTable(str(tmp_path / "data"), create=False).news()]
    step = [EventKind.INTENDED, EventKind.ANSWERED, EventKind.PROVEN]
    assert kinds == [EventKind.BEGUN, EventKind.KEPT, *step * 4, EventKind.OVER]


@pytest.mark.parametrize(
    ("step", "move"),
    [
        (1, {"replicas": [1]}),
        (1, {"replicas": [3, 2]}),
        (1, {"replicas": [2, 3], "gone": [1]}),
        (1, {"purpose": "order", "replicas": [1], "gone": [2, 3]}),
        (2, {"purpose": "copy", "replicas": [1], "gone": [2], "copied": []}),
        (3, {"gone": [2]}),
    ],
    ids=["one more", "another", "the right one", "as if for the order", "as if it stood in", "not as it says"],
)
def test_a_plan_that_was_edited_to_delete_a_right_copy_is_no_plan(
    cluster: Cluster, tmp_path: Path, step: int, move: dict[str, object]
) -> None:
    path, plan = planned(tmp_path)
    made = json.loads(plan.read_text())
    made["steps"] = made["steps"][step:]
    made["steps"][0]["move"] |= move
    plan.write_text(json.dumps(made))
    refused = invoked("run", plan, "--yes", "-c", path)
    assert (refused.exit_code, "this is no plan" in refused.stderr) == (2, True), refused.output
    assert (cluster.asked, RepairTable.is_there(str(tmp_path / "data"))) == ([], False)


def test_an_answer_that_is_lost_is_made_up_for_by_looking(cluster: Cluster, tmp_path: Path) -> None:
    path, plan = planned(tmp_path)
    cluster.fails = [(Unreachable("it broke"), True)]
    ended = invoked("run", plan, "--yes", "-c", path)
    assert ended.exit_code == 0, ended.output
    assert "whether the partition is being reassigned is not known (it broke); it is looked for" in ended.stderr
    assert cluster.asked == [(1, 3, 2), (1, 2), (1, 3, 2), (3, 1, 2)], "nothing was asked for twice"


def test_what_is_refused_stops_it_and_undo_puts_back_what_was_assigned(cluster: Cluster, tmp_path: Path) -> None:
    path, plan = planned(tmp_path)
    refused = Unauthorized("not authorized: ALTER on the cluster is needed")
    cluster.fails = [(refused, False), (Unreachable("-"), True)]
    ended = invoked("run", plan, "--yes", "--format", "json", "-c", path)
    told = json.loads(ended.stdout)
    assert (ended.exit_code, told["phase"], told["done"]) == (1, "stopped", [1])
    assert "the cluster refused it: not authorized: ALTER on the cluster is needed" in told["reason"]
    resumed = invoked("undo", told["id"][:8], "--format", "json", "-c", path)
    back = json.loads(resumed.stdout)
    assert (resumed.exit_code, back["phase"]) == (0, "closed"), resumed.output
    assert back["reason"].startswith("the replicas are assigned as they were: [3, 1, 2]")
    assert cluster.asked == [(1, 3, 2), (3, 1, 2)]


def test_a_reason_that_is_a_sentence_ends_with_one_full_stop(cluster: Cluster, tmp_path: Path) -> None:
    path, plan = planned(tmp_path)
    cluster.fails = [(Unauthorized("it is not allowed."), False)]
    assert "it is not allowed.\n" in invoked("run", plan, "--yes", "-c", path).stderr


def test_undo_needs_repairs_to_be_on_where_anything_is_to_be_put_back(cluster: Cluster, tmp_path: Path) -> None:
    path, plan = planned(tmp_path)
    cluster.fails = [(Unauthorized("no"), False)]
    told = json.loads(invoked("run", plan, "--yes", "--format", "json", "-c", path).stdout)
    ended = invoked("undo", told["id"][:8], "-c", config(tmp_path, "off"))
    assert (ended.exit_code, "repair.mode: it is off" in ended.stderr) == (2, True)


def test_a_person_says_who_is_right_and_that_cruise_control_is_paused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.claim = claim("f1", {3}, by_word={2: frozenset({3})}, missing="nothing proves it")
    cluster.automation = "its topic"
    words = ("plan", "--topic", "orders", "--partition", 0, "-c", config(tmp_path))
    for more, text in (
        ((), "Missing: Finding f1: nothing proves it."),
        (("--right", 2), "Pause its self-healing and its executor, and plan again with --automation-paused."),
    ):
        ended = invoked(*words, *more)
        assert (ended.exit_code, text in ended.stdout) == (3, True), ended.output
    path, plan = planned(tmp_path, "--right", 2, "--automation-paused")
    assert invoked("run", plan, "--yes", "-c", path).exit_code == 0
    assert cluster.asked == [(2, 3, 1), (2, 1), (2, 3, 1), (3, 1, 2)]


def known_id(folder: Path) -> str:
    return list(read_record(str(folder / "data")).repairs)[-1]


def stepped(path: Path, plan: Path, number: int) -> dict[str, object]:
    """Run one step of a plan alone; gives the repair as the command prints it."""
    ended = invoked("run", plan, "--step", number, "--yes", "--format", "json", "-c", path)
    assert ended.exit_code == 0, ended.output
    return dict(json.loads(ended.stdout))


@pytest.mark.parametrize("last", [1, 2, 3])
def test_what_steps_that_were_run_alone_have_left_is_put_back_by_undo(
    cluster: Cluster, tmp_path: Path, last: int
) -> None:
    path, plan = planned(tmp_path)
    done = [stepped(path, plan, number) for number in range(1, last + 1)]
    left = [[1, 3, 2], [1, 2], [1, 3, 2]][last - 1]
    assert (done[-1]["phase"], done[-1]["done"], done[-1]["left_assigned"]) == ("over", [last], left)
    assert f"the replicas stay {left} until `parallax repair undo` assigns them as they were" in str(done[-1]["reason"])
    (told,) = json.loads(invoked("status", "--format", "json", "-c", path).stdout)[-1:]
    assert told | {"hindered": None} == done[-1]
    assert "whether it can be undone is not known: " in told["hindered"], "no broker answers here"
    back = invoked("undo", str(done[-1]["id"])[:8], "--format", "json", "-c", path)
    assert (back.exit_code, json.loads(back.stdout)["phase"]) == (0, "closed"), back.output
    assert json.loads(back.stdout)["left_assigned"] is None
    assert cluster.assigned == (3, 1, 2)
    again = invoked("undo", str(done[-1]["id"])[:8], "-c", path)
    assert (again.exit_code, "this repair is closed; nothing of it is left to do" in again.stderr) == (2, True)
    asked = list(cluster.asked)
    for one in reversed(done[:-1]):
        assert invoked("undo", str(one["id"])[:8], "-c", path).exit_code == 0, (
            "it finds that nothing is left to put back"
        )
    assert cluster.asked == asked


def test_repairs_of_a_partition_are_undone_in_the_reverse_of_their_order(cluster: Cluster, tmp_path: Path) -> None:
    path, plan = planned(tmp_path)
    first, second = (str(stepped(path, plan, number)["id"])[:8] for number in (1, 2))
    refused = invoked("undo", first, "-c", path)
    assert refused.exit_code == 2
    assert f"repair {second} of orders-0 came later, and left the replicas as [1, 2]; undo that one" in refused.stderr
    cluster.fails = [(Unauthorized("no"), False)]
    assert invoked("undo", second, "-c", path).exit_code == 1
    refused = invoked("undo", first, "-c", path)
    assert (refused.exit_code, f"repair {second} of orders-0 came later, and is stopped" in refused.stderr) == (2, True)
    assert [invoked("undo", one, "-c", path).exit_code for one in (second, first)] == [0, 0]
    assert (cluster.assigned, cluster.asked[-1]) == ((3, 1, 2), (3, 1, 2))


def test_a_repair_of_all_steps_leaves_nothing_to_undo_and_one_of_a_step_nothing_to_resume(
    cluster: Cluster, tmp_path: Path
) -> None:
    path, plan = planned(tmp_path)
    one = str(stepped(path, plan, 1)["id"])
    refused = invoked("resume", one, "-c", path)
    hint = "this repair is over; nothing of it is left to do; `parallax repair undo` assigns the replicas as they were"
    assert (refused.exit_code, hint in refused.stderr) == (2, True), refused.output
    assert invoked("undo", one, "-c", path).exit_code == 0
    cluster.leader = 3
    assert invoked("run", plan, "--yes", "-c", path).exit_code == 0
    for word in ("undo", "resume"):
        refused = invoked(word, known_id(tmp_path), "-c", path)
        assert (refused.exit_code, "this repair is over; nothing of it is left to do\n" in refused.stderr) == (2, True)


def test_a_step_that_needs_another_first_is_not_begun_alone(cluster: Cluster, tmp_path: Path) -> None:
    path, plan = planned(tmp_path)
    for number, text in (
        (2, "its replicas are [3, 1, 2], and the step begins with [1, 3, 2]"),
        (3, "begins with [1, 2]"),
    ):
        refused = invoked("run", plan, "--step", number, "--yes", "-c", path)
        assert (refused.exit_code, text in refused.stderr) == (2, True), refused.output
    assert (cluster.asked, RepairTable(str(tmp_path / "data")).news()) == ([], [])


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("kind", [EventKind.INTENDED, EventKind.UNDOING])
def test_a_step_or_its_undoing_that_was_killed_around_its_request_is_undone(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: EventKind, is_done: bool
) -> None:
    path, plan = planned(tmp_path)
    name = str(stepped(path, plan, 1)["id"]) if kind is EventKind.UNDOING else ""
    cluster.fails = [(KilledError(), is_done)]
    with pytest.raises(KilledError):
        invoked("undo", name, "-c", path) if name else invoked("run", plan, "--step", 1, "--yes", "-c", path)
    assert RepairTable(str(tmp_path / "data")).news()[-1].kind is kind
    monkeypatch.setattr(command, "is_alive", lambda _: False)
    back = invoked("undo", known_id(tmp_path), "--format", "json", "-c", path)
    assert (back.exit_code, json.loads(back.stdout)["phase"]) == (0, "closed"), back.output
    assert (cluster.assigned, cluster.leader) == ((3, 1, 2), 1 if name else 3)


def test_what_cannot_go_on_nor_be_undone_is_closed_and_the_cluster_is_left_alone(
    cluster: Cluster, tmp_path: Path
) -> None:
    path, plan = planned(tmp_path)
    name = str(stepped(path, plan, 1)["id"])
    table = RepairTable(str(tmp_path / "data"))
    begun = next(event for event in table.news() if event.kind is EventKind.BEGUN)
    older = replace(begun, repair_id="b" * 32, document={**begun.document, "format": FORMAT - 1})
    stopped = replace(older, kind=EventKind.STOPPED, reason="it was stopped", owner="")
    for event in (older, replace(older, kind=EventKind.INTENDED, step=1, document={}), stopped):
        table.append(replace(event, sequence=0))
    asked = list(cluster.asked)
    for word in ("undo", "resume"):
        refused = invoked(word, "bbbb", "-c", path)
        why = (
            f"was recorded in format {FORMAT - 1}, and this version goes on with format {FORMAT} only; `parallax repair"
        )
        assert (refused.exit_code, why in refused.stderr) == (2, True), refused.output
    listed = invoked("status", "--data", tmp_path / "data").stdout
    assert "bbbbbbbb orders-0: stopped, 0 of 1 steps done" in listed
    ended = json.loads(invoked("close", "bbbb", "--data", tmp_path / "data", "--format", "json").stdout)
    assert ended["phase"] == "closed"
    assert ended["reason"] == "nothing is put back; the replicas stay as they are, and were [3, 1, 2] before it"
    assert (cluster.asked, read_record(str(tmp_path / "data")).open_in(PLACE)) == (asked, None)
    assert invoked("close", "bbbb", "-c", path).exit_code == 2, "nothing of it is left to do"
    assert invoked("close", name, "-c", config(tmp_path, "off")).exit_code == 0, "one that is over and left something"


@pytest.mark.parametrize(
    ("topic_id", "assigned", "why"),
    [
        ("id", (3, 1, 2), ""),
        ("id", (1, 2), ""),
        ("id", (1, 2, 3), ""),
        ("", (), "the topic does not exist any more"),
        ("new", (3, 1, 2), "the topic was deleted and created again"),
        ("id", (1, 4, 2), "somebody has the partition reassigned: its replicas are [1, 4, 2]"),
        ("id", (3, 1, 2, 4), "the partition has more replicas than before it: [3, 1, 2, 4] instead of [3, 1, 2]"),
    ],
)
def test_it_is_said_why_a_repair_cannot_be_undone_and_what_ends_it(
    topic_id: str, assigned: tuple[int, ...], why: str
) -> None:
    document = json.loads(json.dumps(plan_document(PLAN)))
    repair = Repair("a" * 32, PLACE, document, "me", 0, 0, 0)
    told = stuck(repair, topic_id, assigned)
    assert told == (f"{why}. It cannot be undone: {CLOSE}" if why else "")
    older = stuck(replace(repair, plan=document | {"format": 2}), topic_id, assigned)
    assert older.startswith(f"it was recorded in format 2, and this version goes on with format {FORMAT} only. It")


def test_a_repair_whose_record_is_ahead_of_the_clock_is_resumed_and_its_waits_end(
    cluster: Cluster, tmp_path: Path
) -> None:
    path, plan = planned(tmp_path)
    cluster.fails = [(Unauthorized("no"), False)]
    name = str(json.loads(invoked("run", plan, "--yes", "--format", "json", "-c", path).stdout)["id"])
    table = RepairTable(str(tmp_path / "data"), create=False)
    last = table.news()[-1]
    table.append(replace(last, at_ms=now_ms() + 86_400_000, sequence=0))
    ended = json.loads(invoked("undo", name, "--format", "json", "-c", path).stdout)
    assert (ended["phase"], cluster.assigned) == ("closed", (3, 1, 2))


def test_close_ends_a_repair_on_record_and_asks_no_broker(tmp_path: Path) -> None:
    data = tmp_path / "data"
    begun = Event(EventKind.BEGUN, "a" * 32, *PLACE, now_ms(), "", document=plan_document(PLAN))
    table = RepairTable(str(data))
    table.append(begun)
    for kind, step in ((EventKind.INTENDED, 1), (EventKind.STOPPED, 0)):
        table.append(replace(begun, kind=kind, step=step, document={}))
    ended = invoked("close", "aaaa", "--data", data)
    assert (ended.exit_code, "the replicas stay as they are, and were [3, 1, 2]" in ended.stdout) == (0, True)
    assert invoked("close", "aaaa", "--data", data).exit_code == 2
