"""A replica that was repaired is healed; one that only lost the trace of what it showed is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.findings.answers import MarkerShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState, Decision, Resolution, decide
from parallax.model import FindingKind
from tests.builders.answers import PRODUCER, answers, marker, record, shows, silent
from tests.builders.claims import claim

SHOWN = claim(FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=1)
HIDDEN = claim(FindingKind.COMMITTED_RECORD_ABORTED, key_hash_lo=1)
NONE = [shows(b, None) for b in (1, 2, 3)]
NEWER = [shows(b, record(40)) for b in (1, 2, 3)]


def ended(c: object, *replicas: ReplicaAnswer, recreated: bool = False) -> Decision:
    said = replace(answers(*replicas), recreated=recreated)
    return decide(c, said, live_only=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("c", [SHOWN, HIDDEN], ids=["shown", "hidden"])
def test_a_record_that_is_gone_was_compacted_though_nothing_newer_may_be_left(c: object) -> None:
    # A tombstone may have come, and been cleaned with it.
    assert ended(c, *NONE).resolution is Resolution.COMPACTED
    assert ended(c, *NEWER).resolution is Resolution.COMPACTED


@pytest.mark.parametrize("replicas", [NONE, NEWER], ids=["none", "newer"])
@pytest.mark.parametrize("c", [SHOWN, HIDDEN], ids=["shown", "hidden"])
def test_a_log_that_was_seen_to_be_replaced_and_shows_what_the_others_show_is_healed(
    c: object, replicas: list[ReplicaAnswer]
) -> None:
    assert ended(c, *replicas, recreated=True).resolution is Resolution.HEALED


@pytest.mark.parametrize("c", [SHOWN, HIDDEN], ids=["shown", "hidden"])
def test_a_value_that_another_is_found_to_show_though_deleted_keeps_none_open_that_lacks_it(c: Claim) -> None:
    stale = shows(1, record(10))
    assert ended(c, stale, *NONE[1:], recreated=True).verdict is ClaimState.CONFIRMED
    for deleted_at, found in ((10, ClaimState.CONFIRMED), (11, ClaimState.DISMISSED)):
        assert ended(replace(c, deleted_at=deleted_at), stale, *NONE[1:]).verdict is found
    healed = ended(replace(c, deleted_at=11), stale, *NONE[1:], recreated=True)
    assert healed.resolution is Resolution.HEALED
    assert "but for values that were deleted at offset 11" in healed.reason


def test_the_end_marker_that_it_lacked_is_proof() -> None:
    marker = (MarkerShown(20, PRODUCER, "abort"),)
    assert ended(HIDDEN, NONE[0], replace(NONE[1], markers=marker), NONE[2]).resolution is Resolution.HEALED
    another = (MarkerShown(20, PRODUCER + 1, "abort"),)
    assert ended(HIDDEN, NONE[0], replace(NONE[1], markers=another), NONE[2]).resolution is Resolution.COMPACTED


def test_a_log_that_begins_above_the_record_lost_it_to_retention() -> None:
    above = [replace(a, log_start_offset=11) for a in NONE]
    assert ended(SHOWN, *above).resolution is Resolution.DELETED


def test_nothing_is_healed_while_a_replica_is_away_or_its_key_was_not_read_whole() -> None:
    assert ended(SHOWN, NONE[0], NONE[1], silent(3)).verdict is ClaimState.PENDING
    above = [replace(a, log_start_offset=11) for a in NONE[:2]]
    assert ended(SHOWN, *above, silent(3)).resolution is Resolution.DELETED
    partly = shows(3, None, complete=False)
    assert ended(SHOWN, NONE[0], NONE[1], partly, recreated=True).resolution is Resolution.COMPACTED


def test_its_end_marker_heals_nothing_while_a_replica_is_away_that_may_show_another_value() -> None:
    marked = replace(NONE[1], markers=(marker(),))
    assert ended(HIDDEN, NONE[0], marked, silent(3)).verdict is ClaimState.PENDING


def test_a_suspect_was_never_shown_to_hold_and_is_not_healed() -> None:
    for c, accused in ((SHOWN, NONE[1]), (HIDDEN, replace(NONE[1], markers=(marker(),)))):
        said = replace(answers(NONE[0], accused, NONE[2]), recreated=True)
        assert decide(c, said).resolution is Resolution.COMPACTED
