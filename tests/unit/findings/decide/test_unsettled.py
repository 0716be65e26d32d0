"""Replicas that differed and agree: a finding without direction ends by proof, or by what was written since."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import KeyShown, ReplicaAnswer
from parallax.findings.claim import Claim, Differed, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, Resolution, decide, differed
from parallax.model import NOBODY, FindingKind, Rule
from parallax.sides import parsed
from tests.builders.answers import NOTHING, answers, record, replica, shows, silent
from tests.builders.claims import of_key, of_offset

EVERYWHERE = (1, 2, 3)
AGREED = (ClaimState.DISMISSED, Resolution.AGREED)
SIDES = {"no value": (1,), "value at offset 10": (2, 3)}
TOMBSTONE = record(30, value_size=-1, producer_id=-1)


DIFFERED = Differed(10, 100)


def of_value(before: Differed | None = DIFFERED, **recorded: Any) -> Claim:
    """Some showed the value at 10, and one none; all stood at 100 then."""
    known = RecordedByViews(**({"sides": SIDES, "pivot": 2, "differed": before} | recorded))
    return of_key(FindingKind.VISIBILITY_MISMATCH, broker=NOBODY, recorded=known)


def found(c: Claim, *replicas: ReplicaAnswer) -> Decision:
    """What a finding that is checked again has become."""
    return decide(c, answers(*replicas), live_only=True)


def ended(c: Claim, *replicas: ReplicaAnswer) -> tuple[ClaimState, Resolution]:
    decision = found(c, *replicas)
    return decision.verdict, decision.resolution


class TestAKey:
    @pytest.mark.parametrize("offset", [None, 10, 40])
    def test_of_which_all_show_the_same_stays_open(self, offset: int | None) -> None:
        value = None if offset is None else record(offset, producer_id=-1)
        assert ended(of_value(), *(shows(b, value) for b in EVERYWHERE)) == AGREED
        assert found(of_value(), *(shows(b, value) for b in EVERYWHERE)).is_unsettled

    @pytest.mark.parametrize("newer", [record(100, producer_id=-1), record(120, value_size=-1, producer_id=-1)])
    def test_ends_by_what_was_written_since(self, newer: Any) -> None:
        level = {"last_stable_offset": 200, "high_watermark": 200, "log_end_offset": 200}
        written = [replica(b, key=KeyShown(newer, True, newer.offset), **level) for b in EVERYWHERE]
        assert ended(of_value(), *written) == (ClaimState.DISMISSED, Resolution.SUPERSEDED)
        assert ended(of_value(None), *written) == AGREED, "an earlier version has not said when they differed"
        one_behind = [*written[:2], shows(3, record(10, producer_id=-1))]
        assert found(of_value(), *one_behind).verdict is ClaimState.PENDING

    @pytest.mark.parametrize(("outcome", "is_over"), [("none", True), ("committed", False)])
    def test_ends_by_it_also_where_one_that_is_held_back_has_it_above(self, outcome: str, is_over: bool) -> None:
        c, level = of_value(), {"high_watermark": 200, "log_end_offset": 200}
        newer = record(100, outcome, producer_id=-1, key_hash=c.key_text)
        written = [shows(b, newer, last_stable_offset=200, **level) for b in (1, 2)]
        held_back = shows(3, record(10, producer_id=-1), last_stable_offset=50, uncommitted={100: newer}, **level)
        got = ended(c, *written, held_back)
        assert (got == (ClaimState.DISMISSED, Resolution.SUPERSEDED)) is is_over
        assert is_over or got[0] is ClaimState.PENDING

    def test_of_which_they_show_otherwise_than_they_did_differs_still(self) -> None:
        older, newer = record(10, producer_id=-1), record(20, outcome="committed")
        got = found(of_value(), shows(1, newer), shows(2, older), shows(3, older))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)
        assert got.sides == parsed({"value at offset 10": (2, 3), "value at offset 20": (1,)})

    def test_of_which_one_that_is_behind_shows_an_older_value_waits_for_it(self) -> None:
        newer = shows(1, record(150), last_stable_offset=200)
        assert found(of_value(), newer, shows(2, record(10)), shows(3, record(10))).verdict is ClaimState.PENDING
        deleted = shows(1, None, last_stable_offset=200)
        assert found(of_value(), deleted, shows(2, record(10)), shows(3, record(10))).verdict is ClaimState.PENDING

    def test_ends_once_every_log_begins_above_what_differed(self) -> None:
        above = [replica(b, log_start_offset=11, key=NOTHING) for b in EVERYWHERE]
        assert ended(of_value(), *above) == (ClaimState.DISMISSED, Resolution.DELETED)
        assert ended(of_value(), *above[:2], shows(3, None)) == AGREED
        assert ended(of_value(Differed(20, 100)), *above) == AGREED, "one had a record of the key behind the claim's"

    def test_ends_by_a_tombstone_behind_all_that_differed(self) -> None:
        none = [shows(1, None), shows(2, None)]
        assert ended(of_value(), *none, shows(3, TOMBSTONE)) == (ClaimState.DISMISSED, Resolution.HEALED)
        assert ended(of_value(Differed(30, 100)), *none, shows(3, TOMBSTONE)) == AGREED
        of_a_transaction = replace(TOMBSTONE, outcome="committed", producer_id=9)
        assert ended(of_value(), *none, shows(3, of_a_transaction)) == AGREED

    def test_ends_where_every_log_is_of_a_newer_leader_epoch_from_there_on(self) -> None:
        def line(broker: int, end: int | None) -> ReplicaAnswer:
            return replica(broker, key=NOTHING, epoch_ends={4: end})

        c = of_value(leader_epoch=4)
        assert ended(c, *(line(b, 10) for b in EVERYWHERE)) == (ClaimState.DISMISSED, Resolution.HEALED)
        assert ended(c, line(1, 10), line(2, 10), line(3, 11)) == AGREED
        three = of_value(leader_epoch=4, sides={**SIDES, "value at offset 5": (4,)})
        assert ended(three, *(line(b, 10) for b in EVERYWHERE)) == AGREED, "the two others differed all the same"
        older = of_value(Differed(10, 100, oldest=5), leader_epoch=4)
        assert ended(older, *(line(b, 10) for b in EVERYWHERE)) == AGREED, "nobody fetches an older value again"
        assert Differed.parse({"newest": 10, "below": 100, "epoch": -1}) == Differed(10, 100, oldest=0), "of any age"

    def test_waits_for_a_replica_that_is_away_or_was_not_read_whole(self) -> None:
        none = [shows(1, None), shows(2, None)]
        assert found(of_value(), *none, silent(3)).verdict is ClaimState.PENDING
        unread = replica(3, key=KeyShown(None, False, complete_from=50))
        assert found(of_value(), *none, unread).verdict is ClaimState.PENDING

    def test_whose_sides_agree_is_unsettled_though_another_is_behind(self) -> None:
        older, alike = record(5, producer_id=-1), [shows(1, None), shows(2, None)]
        behind = shows(3, older, last_stable_offset=8)
        for rule in (Rule.OUTCOME, Rule.LATEST_VALUE):
            c = replace(of_value(sides=parsed({"no value": (1,), "value at offset 10": (2,)})), rule=rule)
            assert ended(c, *alike, behind) == AGREED
            assert found(c, *alike, behind).reason.endswith("brokers 1 and 2 show the same of the key")
            assert ended(c, *alike, shows(3, older, last_stable_offset=50)) == AGREED
            assert found(c, *alike, shows(3, older)).verdict is ClaimState.CONFIRMED, "it is as far as they are"
            assert found(c, *alike, silent(3)).verdict is ClaimState.PENDING, "nobody knows what it shows"
            unread = replica(3, key=KeyShown(None, False, complete_from=50))
            assert found(c, *alike, unread).verdict is ClaimState.PENDING, "nor here"
            not_past = shows(2, None, last_stable_offset=8)
            assert found(c, alike[0], not_past, behind).verdict is ClaimState.PENDING, "it shows what was before"
            unlike = shows(2, record(10, producer_id=-1))
            assert found(c, alike[0], unlike, behind).verdict is not ClaimState.DISMISSED
            on_a_side = replace(c.recorded, sides=parsed({"no value": (1, 2), "value at offset 5": (3,)}))
            assert found(replace(c, recorded=on_a_side), *alike, behind).verdict is ClaimState.PENDING, "it differed"

    def test_waits_while_others_than_the_one_that_was_asked_last_differ(self) -> None:
        newer, old = record(40, producer_id=-1), record(10, producer_id=-1)
        assert found(of_value(), shows(1, newer), shows(2, newer), shows(3, old)).verdict is not ClaimState.DISMISSED


def of_record(before: Differed | None) -> Claim:
    known = RecordedByViews(sides=parsed({"record a": (1,), "record b": (2, 3)}), pivot=1, differed=before)
    return of_offset(broker=NOBODY, recorded=known)


def holds(broker: int, *, epoch: int = 1, content: str = "aa", key: str = "k") -> ReplicaAnswer:
    held = record(content_hash=content, leader_epoch=epoch, key_hash=key, producer_id=-1)
    return replica(broker, uncommitted={10: held}, asked_uncommitted=frozenset({10}))


class TestAnOffset:
    def test_at_which_all_hold_the_same_stays_open(self) -> None:
        assert ended(of_record(Differed(10, 100)), *(holds(b) for b in EVERYWHERE)) == AGREED
        assert ended(of_record(None), *(holds(b) for b in EVERYWHERE)) == AGREED

    @pytest.mark.parametrize(("epoch", "resolution"), [(5, Resolution.HEALED), (4, Resolution.AGREED)])
    def test_has_healed_where_the_newer_leader_epoch_has_replaced_the_others(
        self, epoch: int, resolution: Resolution
    ) -> None:
        held = [holds(b, epoch=epoch) for b in EVERYWHERE]
        assert ended(of_record(Differed(10, 100, 5)), *held)[1] is resolution

    def test_that_is_held_no_more_is_over_only_where_it_was_of_one_key(self) -> None:
        gone = [replica(b) for b in EVERYWHERE]
        assert ended(of_record(Differed(10, 100, one_key=True)), *gone)[1] is Resolution.COMPACTED
        assert ended(of_record(Differed(10, 100)), *gone) == AGREED

    def test_is_over_once_every_log_begins_above_it(self) -> None:
        above = [replica(b, log_start_offset=11) for b in EVERYWHERE]
        assert ended(of_record(Differed(10, 100)), *above)[1] is Resolution.DELETED
        assert ended(of_record(Differed(10, 100)), *above[:2], holds(3)) == AGREED


class TestWhatIsRemembered:
    def test_of_a_key_is_the_newest_record_and_how_far_all_had_come(self) -> None:
        given = answers(shows(1, record(30)), shows(2, None), silent(3))
        assert differed(of_value(None), given) == Differed(30, 100, oldest=30)
        assert differed(of_value(Differed(40, 90, oldest=7)), given) == Differed(40, 100, oldest=7)
        assert differed(of_value(Differed(40, 190)), given) == Differed(40, 190, oldest=30)

    def test_of_an_offset_is_the_epoch_that_replaces_the_others_and_whether_one_key_was_meant(self) -> None:
        c = of_record(None)
        new, old = holds(1, epoch=5), holds(2, epoch=4, content="bb")
        assert differed(c, answers(new, old)) == Differed(10, 100, 5, one_key=True)
        tie = holds(3, epoch=5, content="cc", key="other")
        assert differed(c, answers(new, old, tie)) == Differed(10, 100, -1, one_key=False)

    def test_of_nobody_who_answered_is_what_was_known(self) -> None:
        assert differed(of_value(Differed(1, 2)), answers(silent(1))) == Differed(1, 2)

    def test_is_written_with_a_finding_and_read_again(self) -> None:
        known = RecordedByViews(differed=Differed(1, 2, 3, one_key=True))
        assert RecordedByViews.parse(json.dumps(known.as_json())) == replace(known, pivot=-1)
        for text in ('{"differed": 1}', '{"differed": {"newest": 1}}', "{}"):
            assert RecordedByViews.parse(text).differed is None
