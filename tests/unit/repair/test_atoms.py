"""What a finding's evidence says that each replica showed, and what a look says that it shows now."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import (
    Answers,
    KeyShown,
    MarkerShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.shown import Shown
from parallax.model import FindingKind, Outcome, RowKind
from parallax.repair.atoms import (
    BEGINS_ABOVE,
    BEGINS_BELOW,
    ENDED,
    NO_VALUE,
    NOTHING,
    OPEN,
    UNDECIDED,
    About,
    Atom,
    atoms_of,
    record_text,
    value_text,
)
from parallax.repair.claims import claims
from parallax.repair.seen import Row, contradicted, now
from tests.builders.findings import finding
from tests.unit.repair.looks import look, replica, state

RECORD = RecordShown(4, "committed", 9, 7, 1, key_hash="k", content_hash="c", value_size=1)
LATER = replace(RECORD, offset=8, content_hash="d")
DELETED = replace(RECORD, offset=8, value_size=-1)
COMMIT = MarkerShown(6, 7, "commit")


def answer(broker: int, **more: Any) -> ReplicaAnswer:
    marks = {"high_watermark": 20, "last_stable_offset": 20, "log_start_offset": 0, "log_end_offset": 20}
    return ReplicaAnswer(broker, **(marks | more))


def shown(kind: FindingKind, *answers: ReplicaAnswer, **fields: Any) -> Shown:
    evidence = Answers({one.broker: one for one in answers}, leader=1).evidence()
    known = {"kind": kind, "offset": 4, "producer_id": 7, "evidence": json.dumps(evidence)}
    return Shown.of(finding(**(known | fields)))


def says(made: Shown) -> dict[tuple[int, About], str]:
    return {(atom.broker, atom.about): atom.shows for atom in atoms_of(made)}


def key(visible: RecordShown | None, *, complete: bool = True) -> KeyShown:
    return KeyShown(visible, complete)


def test_of_a_key_each_replica_shows_one_value_or_none_and_a_tombstone_is_none() -> None:
    three = (answer(1, key=key(DELETED)), answer(2, key=key(RECORD)), answer(3, key=key(None, complete=False)))
    made = shown(FindingKind.DELETED_RECORD_RESURRECTED, *three, offset=8)
    of_key = {broker: text for (broker, about), text in says(made).items() if about is About.KEY}
    assert of_key == {1: NO_VALUE, 2: value_text(4, RECORD.fingerprint)}, "what was not read to its end says nothing"
    assert {atom.offsets for atom in atoms_of(made)} == {(4, 8)}


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ({}, NO_VALUE),
        ({4: (Outcome.NONE, True)}, "the value at offset 4 [of]"),
        ({4: (Outcome.NONE, True), 8: (Outcome.NONE, False)}, NO_VALUE),
        ({4: (Outcome.NONE, True), 8: (Outcome.ABORTED, True)}, "the value at offset 4 [of]"),
        ({4: (Outcome.COMMITTED, True), 8: (Outcome.COMMITTED, True)}, "the value at offset 8 [of]"),
    ],
    ids=["none", "a value", "deleted", "not replaced", "replaced"],
)
def test_now_the_newest_visible_record_is_a_keys_value(rows: dict[int, tuple[Outcome, bool]], text: str) -> None:
    there = {at: Row(at, RowKind.RECORD, "", "", outcome, "of", has_value) for at, (outcome, has_value) in rows.items()}
    seen = look({2: replica()}, shown={2: there})
    assert now(seen, Atom(2, About.KEY, (4, 8), "")) == text
    assert now(seen, Atom(1, About.KEY, (4, 8), "")) == "", "who does not answer says nothing"
    assert now(seen, Atom(2, About.KEY, (4, 20), "")) == "", "what is not there yet says nothing"


def test_of_an_outcome_the_record_and_the_end_marker_count_and_an_aborted_one_is_none() -> None:
    asked = {"asked": frozenset({4}), "asked_uncommitted": frozenset({4, 6})}
    right = answer(1, committed={4: RECORD}, uncommitted={4: RECORD}, markers=(COMMIT,), **asked)
    hidden = replace(RECORD, outcome="aborted")
    wrong = answer(2, committed={4: hidden}, uncommitted={4: hidden}, **asked)
    undecided = answer(3, uncommitted={4: RECORD}, asked_uncommitted=frozenset({4, 6}))
    places = {"transaction_start_offset": 4, "marker_offset": 6}
    made = shown(FindingKind.COMMITTED_RECORD_ABORTED, right, wrong, undecided, **places)
    at = {(atom.broker, *atom.offsets): atom.shows for atom in atoms_of(made)}
    assert at == {
        (1, 4): record_text(RECORD.fingerprint),
        (1, 6): "a COMMIT marker",
        (2, 4): NOTHING,
        (2, 6): NOTHING,
        (3, 4): UNDECIDED,
        (3, 6): NOTHING,
    }


def test_of_an_open_transaction_it_counts_who_holds_it_and_of_a_head_where_the_log_begins() -> None:
    held = answer(2, open_transactions=(OpenTransaction(7, 4),))
    places = {"transaction_start_offset": 4, "marker_offset": 6}
    made = shown(FindingKind.MARKER_MISSING, answer(1, open_transactions=()), held, answer(3), **places)
    assert says(made) == {(1, About.TRANSACTION): ENDED, (2, About.TRANSACTION): OPEN}, "who could not say says nothing"
    (atom,) = (one for one in atoms_of(made) if one.broker == 2)
    seen = look({1: replica(), 2: replica(), 3: replica()})
    for open_from, text in ((-1, ENDED), (4, OPEN), (5, OPEN), (6, ENDED)):
        there = replace(replica(), producers=(state(open_from),))
        assert now(replace(seen, replicas={2: there}), atom) == text
    head = shown(FindingKind.LOG_HEAD_MISSING, answer(1), answer(2, log_start_offset=4))
    assert list(says(head).values()) == [BEGINS_BELOW, BEGINS_ABOVE]
    (_, atom) = atoms_of(head)
    for start, text in ((3, BEGINS_BELOW), (4, BEGINS_ABOVE)):
        assert now(replace(seen, replicas={2: replica(start=start)}), atom) == text


def test_of_unlike_records_at_one_offset_all_that_replicas_show_alike_counts() -> None:
    other = replace(RECORD, timestamp=10)
    asked = frozenset({4})
    one, two = (answer(b, uncommitted={4: r}, asked_uncommitted=asked) for b, r in ((1, RECORD), (2, other)))
    made = shown(FindingKind.CONTENT_MISMATCH, one, two, answer(3, asked_uncommitted=asked))
    texts = [record_text(RECORD.fingerprint), record_text(other.fingerprint), NOTHING]
    assert list(says(made).values()) == texts
    aborted = Row(4, RowKind.RECORD, "", "", Outcome.ABORTED, RECORD.fingerprint)
    seen = look({1: replica()}, shown={1: {4: aborted}})
    assert now(seen, atoms_of(made)[0]) == texts[0]
    assert now(seen, replace(atoms_of(made)[0], about=About.SEEN)) == NOTHING


def test_an_end_marker_may_be_cleaned_but_a_record_may_not_and_something_has_to_be_left() -> None:
    asked = {"asked": frozenset({4}), "asked_uncommitted": frozenset({4, 6})}
    right = answer(1, committed={4: RECORD}, uncommitted={4: RECORD}, markers=(COMMIT,), **asked)
    places = {"transaction_start_offset": 4, "marker_offset": 6, "broker": 2}
    made = shown(FindingKind.COMMITTED_RECORD_ABORTED, right, answer(2, **asked), **places)
    (claim,) = claims([made.finding])
    proof = claim.proofs(1, None)
    there = Row(4, RowKind.RECORD, "", "", Outcome.COMMITTED, RECORD.fingerprint)
    seen = look({1: replica(), 2: replica()}, claims=(claim,), shown={1: {4: there}, 2: {}})
    assert contradicted(seen, proof, 1, (2,)) == ""
    gone = contradicted(
        replace(seen, shown={1: {6: Row(6, RowKind.COMMIT, "", "", Outcome.NONE)}, 2: {}}), proof, 1, ()
    )
    assert gone.startswith("broker 1 shows no record at offset 4, and showed a record when the finding was judged")
    only = replace(proof[0], atoms=tuple(atom for atom in proof[0].atoms if atom.offsets == (6,)))
    assert "nothing is left by which broker 2 and broker 1 differed" in contradicted(seen, (only,), 1, ())
    assert contradicted(replace(seen, claims=()), proof, 2, ()) == "", "a finding that is over does not count"
