"""A probe's answers as looks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.evidence.atoms import End, EpochEnd, Fact, Place
from parallax.evidence.ledger import Ledger, Timely
from parallax.findings.answers import KeyShown, MarkerShown
from parallax.findings.claim import RecordedByViews
from parallax.findings.looks import case_of, looks_of
from parallax.model import FindingKind, Rule, hash_text
from tests.builders.answers import OPEN, PRODUCER, answers, record, replica, silent
from tests.builders.claims import claim

KEY = (3, -5)
CLAIM = claim(FindingKind.MARKER_MISSING)
OF_A_KEY = replace(CLAIM, rule=Rule.LATEST_VALUE, kind=FindingKind.RECORD_MISSING, key_hash_hi=3, key_hash_lo=-5)
ASKED = frozenset({10, 20})


def test_records_and_end_markers_are_facts_at_their_places() -> None:
    held = record(10, "committed", leader_epoch=2, key_hash=hash_text(*KEY), content_hash=hash_text(-7))
    marker = MarkerShown(20, PRODUCER, "abort", 3)
    one = replica(1, committed={10: held}, uncommitted={10: replace(held, outcome="undecided")}, markers=(marker,))
    (look,) = looks_of(CLAIM, answers(one), ASKED).values()
    assert look.facts == {
        Place(10, 2): Fact(Place(10, 2), PRODUCER, True, None, KEY, -7),
        Place(20, 3): Fact(Place(20, 3), PRODUCER, end=End.ABORT),
    }
    assert look.outcomes == {Place(10, 2): End.COMMIT}
    assert look.tops == (Place(10, 2), Place(20, 3))


def test_a_tombstone_has_no_value_and_a_plain_record_no_outcome() -> None:
    plain = record(10, "none", leader_epoch=2, value_size=-1, content_hash=hash_text(9))
    (look,) = looks_of(CLAIM, answers(replica(1, committed={10: plain})), ASKED).values()
    assert (look.facts[Place(10, 2)].value, look.facts[Place(10, 2)].transactional) == (None, False)
    assert look.outcomes == {}


def test_only_what_was_asked_for_the_claim_counts_as_asked() -> None:
    one = replica(1, asked_uncommitted=frozenset({10, 20, 50}))
    (look,) = looks_of(CLAIM, answers(one), ASKED).values()
    assert look.asked == ASKED
    assert look.lacks(Place(10, 0))
    assert not look.lacks(Place(50, 0))


def test_a_key_is_told_of_where_nothing_newer_can_be_overlooked() -> None:
    for complete in (True, False):
        shown = record(10, "none", leader_epoch=0, key_hash=hash_text(*KEY))
        one = replica(1, key=KeyShown(shown, complete, 10))
        (look,) = looks_of(OF_A_KEY, answers(one), ASKED).values()
        assert look.tells_of(KEY) is complete
        assert not look.tells_of((1, 1))


def test_no_answer_gives_no_look_and_a_stable_replica_holds_nothing_open() -> None:
    behind = replica(2, open_transactions=None, last_stable_offset=9)
    stable = replica(3, open_transactions=None)
    found = looks_of(CLAIM, answers(silent(1), behind, stable, replica(4, open_transactions=OPEN)), ASKED)
    assert {broker: look.open for broker, look in found.items()} == {2: None, 3: {}, 4: {PRODUCER: 10}}
    assert [found[broker].has_ended(PRODUCER, 10) for broker in (2, 3, 4)] == [None, True, False]
    assert found[2].has_ended(PRODUCER, 8)


def test_the_leader_leads_in_its_newest_epoch_and_another_log_has_one_behind_each_end() -> None:
    one = replica(1, epoch_ends={4: 60, 5: 100}, epochs_known=frozenset({4}))
    found = looks_of(CLAIM, answers(one, replace(one, broker=2), leader_epoch=7), ASKED)
    assert {broker: look.latest_epoch for broker, look in found.items()} == {1: 7, 2: 5}
    assert found[1].ends == {4: EpochEnd(4, 60), 5: EpochEnd(-1, 100)}
    assert found[1].knows(4)
    assert not found[1].knows(5)


def test_a_log_that_grew_while_its_transactions_were_listed_says_so() -> None:
    for after, has_grown in ((-1, False), (100, False), (101, True)):
        (look,) = looks_of(CLAIM, answers(replica(1, log_end_after=after)), ASKED).values()
        assert look.has_grown is has_grown


SEEN = RecordedByViews(markers={1: "commit", 3: "commit"}, leader_epoch=4)


def test_the_end_marker_that_the_comparison_has_seen_is_known_though_nobody_shows_it() -> None:
    ledger = Ledger(0)
    case_of(replace(CLAIM, recorded=SEEN), answers(replica(1)), ledger)
    assert ledger.facts == {Place(20, 4): Fact(Place(20, 4), PRODUCER, end=End.COMMIT)}
    assert ledger.holders[Place(20, 4)] == {1, 3}
    assert ledger.timely() == [Timely(11, 20, 4)]


UNKNOWN_END = {
    "its end is not proven": (replace(SEEN, end_unproven=True), 1),
    "nobody's is named": (RecordedByViews(leader_epoch=4), 0),
    "its epoch is not known": (replace(SEEN, leader_epoch=-1), 0),
    "all had shown another one": (replace(SEEN, ends={1: "30:4", 3: "30:4"}), 0),
}


@pytest.mark.parametrize("name", UNKNOWN_END)
def test_of_an_end_that_is_not_proven_there_may_be_a_lower_one(name: str) -> None:
    recorded, facts = UNKNOWN_END[name]
    ledger = Ledger(0)
    case_of(replace(CLAIM, recorded=recorded), answers(replica(1)), ledger)
    assert len(ledger.facts) == facts
    assert (ledger.timely() == []) == (name != "all had shown another one")


def test_a_deletion_that_the_comparison_has_seen_is_known_with_the_commit_that_makes_it_sure() -> None:
    recorded = RecordedByViews(leader_epoch=4, end_epoch=5)
    deleted = replace(OF_A_KEY, kind=FindingKind.DELETED_RECORD_RESURRECTED, marker_offset=11, recorded=recorded)
    ledger = Ledger(0)
    case_of(deleted, answers(replica(1)), ledger)
    assert [*ledger.facts.values()] == [
        Fact(Place(10, 4), PRODUCER, True, None, KEY, None),
        Fact(Place(11, 5), PRODUCER, end=End.COMMIT),
    ]
