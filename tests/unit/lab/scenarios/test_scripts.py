"""What each script writes, when, and what it takes for wrong and for right."""

from __future__ import annotations

from itertools import count

import pytest

from parallax.lab.scenarios import scripts
from parallax.lab.scenarios.stage import Cleaning, Outage, Return
from parallax.lab.view import Record, ReplicaView
from parallax.model import FindingKind, Outcome


class Notes:
    """Takes a stage's place and writes down what it is asked to do; each write has the next offset."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._offsets = count()

    def put(self, key: str, value: str | None) -> int:
        return self._note("put" if value is not None else "delete")

    def begin(self) -> None:
        self.done.append("begin")

    def send(self, key: str, value: str | None) -> int:
        return self._note("send")

    def commit(self) -> int:
        return self._note("commit")

    def abort(self) -> int:
        return self._note("abort")

    def keep(self) -> None:
        self.done.append("keep")

    def _note(self, what: str) -> int:
        offset = next(self._offsets)
        self.done.append(f"{what}@{offset}")
        return offset


def view(*records: tuple[int, str, str | None, Outcome], lso: int, aborted: set[int] | None = None) -> ReplicaView:
    by_offset = {offset: Record(offset, key, value, -1, outcome) for offset, key, value, outcome in records}
    return ReplicaView(2, "t", 10, lso, by_offset, {}, aborted or set())


N, C, A, U = Outcome.NONE, Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNDECIDED

CASES = [
    (
        scripts.deleted_record_resurrected,
        [["put@0"], ["delete@1"], []],
        Cleaning([0], [1]),
        view((0, "customer-7", "alive", N), lso=10),
        view(lso=10),
        (FindingKind.DELETED_RECORD_RESURRECTED, 0),
    ),
    (
        scripts.aborted_record_committed,
        [["begin", "send@0"], ["abort@1"], ["begin", "send@2", "commit@3"]],
        Cleaning([0], [1]),
        view((0, "transfer-1", "rolled back", C), (2, "transfer-2", "booked", C), lso=10),
        view((2, "transfer-2", "booked", C), lso=10),
        (FindingKind.ABORTED_RECORD_COMMITTED, 0),
    ),
    (
        scripts.committed_record_aborted,
        [["put@0", "begin", "send@1"], ["commit@2"], ["begin", "send@3", "abort@4"]],
        Cleaning([0], [1, 2]),
        view((0, "order-5", "open", N), (1, "order-5", None, A), lso=10, aborted={1}),
        view(lso=10, aborted={3}),
        (FindingKind.COMMITTED_RECORD_ABORTED, 1),
    ),
    (
        scripts.aborted_deletion_committed,
        [["put@0", "begin", "send@1"], ["abort@2"], ["begin", "send@3", "commit@4", "keep"]],
        Cleaning([1], [2]),
        view((0, "price-3", "10", N), (1, "price-3", None, C), (3, "price-4", "12", C), lso=10),
        view((0, "price-3", "10", N), (3, "price-4", "12", C), lso=10),
        (FindingKind.ABORTED_RECORD_COMMITTED, 1),
    ),
    (
        scripts.read_committed_frozen,
        [["begin", "send@0"], ["commit@1", "put@2"], []],
        Cleaning([0], [1]),
        view((0, "account-9", "100", U), (2, "account-9", "120", N), lso=0),
        view((2, "account-9", "120", N), lso=10),
        (FindingKind.READ_COMMITTED_FROZEN, 0),
    ),
]


@pytest.mark.parametrize(
    ("write", "phases", "cleaning", "diverged", "sound", "verdict"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_a_script_writes_in_its_phases_and_tells_wrong_from_right(
    write: object,
    phases: list[list[str]],
    cleaning: Cleaning,
    diverged: ReplicaView,
    sound: ReplicaView,
    verdict: tuple[FindingKind, int],
) -> None:
    notes = Notes()
    script = write(notes)  # type: ignore[operator]
    steps = []
    for phase in phases:
        steps.append(next(script))
        assert notes.done == phase
        notes.done.clear()
    assert steps[:2] == [Outage(), cleaning]
    home = steps[2]
    assert isinstance(home, Return)
    assert (home.wrong(diverged), home.right(diverged)) == (True, False)
    assert (home.wrong(sound), home.right(sound)) == (False, True)
    with pytest.raises(StopIteration) as end:
        next(script)
    assert (end.value.value.kind, end.value.value.offset) == verdict
