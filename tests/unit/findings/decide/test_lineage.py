"""What a claim rests on is of the log that stands, or not: by leader epochs, or by what lies in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.evidence.atoms import Place
from parallax.evidence.log import Belongs
from parallax.findings.answers import Answers, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide.case import ClaimCase, values_as_far_as_read
from parallax.findings.decide.lineage import has_cut_the_end, has_lost_its_end, is_another_log, rests_on
from parallax.model import FindingKind
from parallax.sides import Shows, Side
from tests.builders.answers import PRODUCER, marker, record, replica, shows, silent
from tests.builders.claims import claim, of_key

EPOCH = 4
ENDED = claim(FindingKind.MARKER_MISSING, recorded=RecordedByViews(leader_epoch=EPOCH, ends={2: f"20:{EPOCH}"}))
"""Its end marker was read at 20 of epoch 4, and its first record at 10."""
DELETED = of_key(FindingKind.DELETED_RECORD_RESURRECTED, offset=20, recorded=RecordedByViews(leader_epoch=EPOCH))


def known(broker: int, end: int, **fields: Any) -> ReplicaAnswer:
    return replica(broker, epoch_ends={EPOCH: end}, epochs_known=frozenset({EPOCH}), **fields)


def case(c: Claim, *asked: ReplicaAnswer, leader: int = 1) -> ClaimCase:
    there = [one for one in asked if one.error is None]
    absent = [one for one in asked if one.error is not None]
    return ClaimCase(c, there[0], there[1:], absent, Answers({}, leader=leader), False)


@pytest.mark.parametrize("c", [ENDED, DELETED], ids=["an end marker", "a tombstone"])
def test_a_claim_rests_on_the_log_that_stands_where_its_epochs_say_so(c: Claim) -> None:
    assert rests_on(case(c, known(2, 30), known(1, 30))) is Belongs.YES
    assert rests_on(case(c, known(2, 30), known(1, 20))) is Belongs.NO
    assert rests_on(case(c, known(2, 30), known(1, 20, log_end_offset=20))) is Belongs.NO, "the leader's log ends there"
    assert rests_on(case(c, known(2, 30), silent(1))) is Belongs.PERHAPS, "a copy may say an offset that is too high"
    assert rests_on(case(c, known(2, 30, epochs_at={20: EPOCH}), silent(1))) is Belongs.YES
    assert rests_on(case(c, replica(2), replica(1))) is Belongs.YES, "nobody says anything of epochs"


def test_a_record_that_is_shown_is_one_of_its_epoch() -> None:
    shown = replace(shows(1, record(20, leader_epoch=EPOCH)), epoch_ends={EPOCH: 30}, epochs_known=frozenset({EPOCH}))
    assert shown.log.held == {Place(20, EPOCH)}
    assert rests_on(case(ENDED, replica(2, epoch_ends={EPOCH: 30}), shown, silent(3))) is Belongs.YES


@pytest.mark.parametrize(
    ("c", "place", "belongs"),
    [
        (ENDED, {"uncommitted": {20: record(20)}}, Belongs.NO),
        (ENDED, {"markers": (marker(20, "commit", PRODUCER + 1),)}, Belongs.NO),
        (ENDED, {"markers": (marker(),)}, Belongs.YES),
        (DELETED, {"uncommitted": {20: record(20, key_hash="1" * 32)}}, Belongs.NO),
        (DELETED, {"markers": (marker(20, "commit"),)}, Belongs.NO),
        (DELETED, {"uncommitted": {20: record(20, key_hash=DELETED.key_text)}}, Belongs.YES),
    ],
)
def test_what_lies_in_its_place_says_so_as_well(c: Claim, place: Any, belongs: Belongs) -> None:
    standing = known(2, 30), known(1, 30)
    assert rests_on(case(c, standing[0], replace(standing[1], **place))) is belongs
    if c is ENDED:
        assert has_cut_the_end(c, replace(standing[0], **place)) is (belongs is Belongs.NO)


def test_a_replica_has_lost_its_end_where_its_own_log_has() -> None:
    assert has_lost_its_end(case(ENDED, known(2, 20)), 2)
    assert has_lost_its_end(case(ENDED, replica(2, epoch_ends={EPOCH: 30})), 2)
    assert not has_lost_its_end(case(ENDED, known(2, 21)), 2)
    assert not has_lost_its_end(case(ENDED, known(3, 20)), 3), "it had not ended it"
    assert has_cut_the_end(ENDED, known(3, 20))


def test_a_replica_has_lost_its_end_where_the_leaders_log_has_before_it_follows() -> None:
    assert has_lost_its_end(case(ENDED, known(1, 20), known(2, 100)), 2)
    assert has_lost_its_end(case(ENDED, known(1, 20, log_end_offset=20), known(2, 100)), 2), "the leader's log ends"
    assert has_lost_its_end(case(ENDED, known(1, 20), silent(2)), 2), "it cannot be asked, and goes by the leader"
    assert not has_lost_its_end(case(ENDED, known(1, 21), known(2, 100)), 2)
    assert not has_lost_its_end(case(ENDED, replica(1), known(2, 100)), 2), "the leader says nothing of the epoch"


def test_a_log_is_another_where_something_else_lies_at_the_transactions_own_places() -> None:
    assert not is_another_log(ENDED, replica(2, uncommitted={10: record(10)}))
    assert is_another_log(ENDED, replica(2, uncommitted={10: record(10, producer_id=PRODUCER + 1)}))
    assert is_another_log(ENDED, replica(2, markers=(marker(10, "commit"),)))
    assert not is_another_log(ENDED, replica(2))


def test_a_log_is_another_where_a_newer_epoch_begins_at_the_record_or_below() -> None:
    assert is_another_log(ENDED, known(2, 10)), "the record is of the end marker's epoch, or of an older one"
    assert not is_another_log(ENDED, known(2, 11)), "the end marker alone was truncated"
    assert not is_another_log(ENDED, known(2, 10, log_end_offset=10)), "it may be behind"
    assert not is_another_log(ENDED, replica(2, epoch_ends={EPOCH: None})), "the record may be of the epoch before"
    behind = replace(ENDED, transaction_start_offset=25, offset=25)
    assert not is_another_log(behind, known(2, 22)), "what lies behind the marker may be of a newer epoch"


def test_who_is_held_back_below_the_accused_is_not_waited_for_where_another_has_come_as_far() -> None:
    accused, as_far, back = shows(2, None), shows(1, None), shows(3, None, last_stable_offset=5)
    assert values_as_far_as_read(case(DELETED, accused, as_far, back)) == {Side(Shows.NO_VALUE): [2, 1]}
    assert values_as_far_as_read(case(DELETED, accused, back)) is None, "nobody can say what it lacks"
    assert values_as_far_as_read(case(DELETED, back, as_far)) is None, "what the others show may come"
    assert values_as_far_as_read(case(DELETED, accused, replica(1), back)) is None, "it did not say"
