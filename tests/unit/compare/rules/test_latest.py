"""I3 on arrays: which absences nothing explains, how long they wait, and who is accused of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.observations import ABORT, COMMIT, Array
from parallax.compare.rules import latest
from parallax.compare.rules.arrays import table
from parallax.compare.state import CANDIDATE, DISPUTED, MARKER, NEVER, NULL_KEY, PENDING, TOMBSTONE, UNLIKE, new_broker
from parallax.model import NOBODY, UNKNOWN, FindingKind

A, B, C, D = 1, 2, 4, 8
ALL = A | B | C


def pending(**fields: Any) -> Array:
    row = {"offset": 5, "producer_id": -1, "key_hash_hi": 1, "key_hash_lo": 2, "visible": A | C, "aborted": 0}
    return table(PENDING, 1, **(row | fields))


NO_MARKERS = table(MARKER, 0)


def absent(rows: Array, members: int = ALL, strict_from: int = NEVER, markers: Array = NO_MARKERS) -> bool:
    return len(latest.absences(rows, members, markers, strict_from=strict_from, passed_at=70)) == 1


def candidate(**fields: Any) -> Array:
    row = {"offset": 5, "producer_id": -1, "key_hash_hi": 1, "key_hash_lo": 2, "visible": A | C, "horizon": UNKNOWN}
    return table(CANDIDATE, 1, **(row | fields))


class TestAbsences:
    def test_a_record_that_one_holds_and_another_lacks_is_an_absence(self) -> None:
        assert absent(pending())
        assert absent(pending(visible=B))
        made = latest.absences(pending(flags=TOMBSTONE), ALL, NO_MARKERS, strict_from=NEVER, passed_at=70)[0]
        assert (made["offset"], made["passed_at"], made["horizon"], made["flags"]) == (5, 70, UNKNOWN, TOMBSTONE)

    def test_a_record_that_all_show_or_none_shows_is_none(self) -> None:
        assert not absent(pending(visible=ALL))
        assert not absent(pending(visible=0))
        assert not absent(pending(visible=D))
        assert not absent(pending(visible=ALL | D))

    def test_only_the_replica_set_counts(self) -> None:
        assert not absent(pending(visible=A | B), A | B)
        assert absent(pending(visible=A | D), A | B)

    def test_what_anyone_shows_as_aborted_is_a_matter_of_outcome(self) -> None:
        assert not absent(pending(aborted=B))
        assert not absent(pending(visible=A, aborted=B))
        assert not absent(pending(visible=A, aborted=D))
        assert not absent(pending(flags=DISPUTED))

    @pytest.mark.parametrize("doubt", [{"aborted": B}, {"flags": TOMBSTONE | DISPUTED}], ids=["aborted", "disputed"])
    def test_a_tombstone_that_one_has_surely_committed_is_an_absence_whoever_aborted_it(
        self, doubt: dict[str, Any]
    ) -> None:
        tombstone = pending(**({"producer_id": 7, "visible": A, "flags": TOMBSTONE} | doubt))
        commit = table(MARKER, 1, offset=6, producer_id=7, type=COMMIT, shown=A)
        assert absent(tombstone, markers=commit)
        assert not absent(tombstone), "without its COMMIT it may have been aborted"
        assert not absent(tombstone, markers=table(MARKER, 1, offset=6, producer_id=7, type=COMMIT, shown=C))
        assert not absent(tombstone, strict_from=5, markers=commit)
        two = pending(producer_id=7, visible=A, aborted=B, flags=TOMBSTONE | DISPUTED | UNLIKE)
        assert not absent(two, markers=commit), "of unlike records nobody can say whose is what"
        value = pending(**({"producer_id": 7, "visible": A} | doubt | {"flags": DISPUTED}))
        assert not absent(value, markers=commit), "of a value who lacks it may have cleaned it as aborted"

    def test_a_record_without_a_key_counts_only_where_nothing_is_compacted(self) -> None:
        assert not absent(pending(flags=NULL_KEY))
        assert not absent(pending(flags=NULL_KEY), strict_from=6)
        assert absent(pending(flags=NULL_KEY), strict_from=5)


class TestUnexplained:
    def explained(self, **fields: Any) -> bool:
        return len(latest.unexplained(candidate(), [latest.superseding(pending(**({"visible": A} | fields)))])) == 0

    def test_a_later_committed_record_of_the_key_explains(self) -> None:
        assert self.explained(offset=6)
        assert self.explained(offset=6, visible=D)
        assert not self.explained(offset=5)
        assert not self.explained(offset=4)

    def test_another_key_an_aborted_record_and_one_without_key_do_not(self) -> None:
        assert not self.explained(offset=6, key_hash_hi=9)
        assert not self.explained(offset=6, key_hash_lo=9)
        assert not self.explained(offset=6, visible=0, aborted=A)
        assert not self.explained(offset=6, visible=A, aborted=B)
        assert not self.explained(offset=6, flags=NULL_KEY)

    def test_candidates_explain_one_another(self) -> None:
        both = np.concatenate([candidate(), candidate(offset=8), candidate(offset=3, key_hash_lo=7)])
        assert latest.unexplained(both, [both])["offset"].tolist() == [8, 3]

    def test_one_without_a_key_is_never_explained(self) -> None:
        rows = candidate(flags=NULL_KEY, key_hash_hi=0, key_hash_lo=0)
        assert len(latest.unexplained(rows, [pending(offset=9, key_hash_hi=0, key_hash_lo=0)])) == 1

    def test_nothing_stays_nothing(self) -> None:
        assert len(latest.unexplained(candidate()[:0], [pending(offset=9)])) == 0


class TestHorizon:
    def brokers(self, *rows: dict[str, Any]) -> Array:
        made = np.concatenate([new_broker(i) for i in range(len(rows))])
        for broker, fields in zip(made, rows, strict=True):
            broker["member"] = True
            for name, value in fields.items():
                broker[name] = value
        return made

    def reported(self, *at: int) -> Array:
        return self.brokers(*({"reported_at": t, "stable_told": 10 * i} for i, t in enumerate(at, 1)))

    def horizon(self, brokers: Array, **fields: Any) -> int:
        return int(latest.set_horizons(candidate(**({"passed_at": 100} | fields)), brokers)["horizon"][0])

    def test_it_is_the_highest_stable_offset_reported_after_all_had_passed(self) -> None:
        assert self.horizon(self.reported(101, 102, 103)) == 30
        assert self.horizon(self.reported(102, 103, 101)) == 30

    def test_until_all_that_are_reachable_have_reported_it_is_not_known(self) -> None:
        assert self.horizon(self.reported(101, 100, 103)) == UNKNOWN
        brokers = self.reported(101, 100, 103)
        brokers["reachable"][1] = False
        assert self.horizon(brokers) == 30
        brokers["reachable"] = False
        assert self.horizon(brokers) == UNKNOWN

    def test_one_that_has_left_the_set_does_not_matter(self) -> None:
        brokers = self.reported(101, 102, 50)
        brokers["member"][2] = False
        assert self.horizon(brokers) == 20

    def test_a_horizon_once_set_stays(self) -> None:
        assert self.horizon(self.reported(101, 102, 103), horizon=7) == 7

    def test_the_input_is_left_alone(self) -> None:
        rows = candidate(passed_at=100)
        latest.set_horizons(rows, self.reported(101, 102, 103))
        assert rows["horizon"][0] == UNKNOWN

    def test_ripe_when_all_that_lack_it_have_been_read_up_to_it(self) -> None:
        def ripe(horizon: int, *at: int, **fields: Any) -> bool:
            positions = np.full(32, -1)
            positions[: len(at)] = at
            return bool(latest.ripe(candidate(horizon=horizon, **fields), positions, ALL)[0])

        assert ripe(9, 0, 9, 0)
        assert not ripe(9, 9, 8, 9)
        assert not ripe(UNKNOWN, 9, 9, 9)
        assert not ripe(9, 9, 9, 8, visible=A)
        assert ripe(9, 0, 9, 0, visible=A, aborted=C)


class TestSurelyCommitted:
    def sure(self, *ends: tuple[int, int, int, int], **fields: Any) -> bool:
        offsets, producers, types, shown = zip(*ends, strict=True) if ends else ((),) * 4
        markers = table(MARKER, len(ends), offset=offsets, producer_id=producers, type=types, shown=shown)
        row = {"producer_id": 9, "flags": TOMBSTONE, "visible": A | C} | fields
        return bool(latest.surely_committed(candidate(**row), markers)[0])

    def test_a_record_of_no_transaction_is(self) -> None:
        assert self.sure(producer_id=-1)

    def test_one_whose_commit_lies_directly_behind_it_is_for_there_is_no_room_for_a_lower_end(self) -> None:
        assert self.sure((6, 9, COMMIT, A))
        assert self.sure((3, 9, ABORT, A), (6, 9, COMMIT, C), (7, 9, ABORT, A))

    def test_so_of_the_first_producer_that_a_cluster_knows(self) -> None:
        assert not self.sure(producer_id=0)
        assert self.sure((6, 0, COMMIT, A), producer_id=0)

    def test_one_whose_commit_lies_further_up_may_have_had_a_lower_end_that_was_lost(self) -> None:
        assert not self.sure()
        assert not self.sure((7, 9, COMMIT, A | C))

    def test_what_lies_directly_behind_it_must_end_it_and_be_shown_by_one_that_shows_it(self) -> None:
        assert not self.sure((6, 9, ABORT, A))
        assert not self.sure((6, 8, COMMIT, A))
        assert not self.sure((6, 9, COMMIT, B))

    def test_two_markers_at_one_offset_prove_nothing(self) -> None:
        assert not self.sure((6, 9, COMMIT, A), (6, 9, ABORT, B))


class TestVerdicts:
    MISSING, MISMATCH = FindingKind.RECORD_MISSING, FindingKind.VISIBILITY_MISMATCH
    RESURRECTED = FindingKind.DELETED_RECORD_RESURRECTED

    def judged(self, visible: int, members: int = ALL, strict_from: int = NEVER, **fields: Any) -> list[tuple]:
        sure = np.array([fields.pop("sure", True)])
        rows = candidate(visible=visible, **fields)
        return [(v.row, v.slot, v.kind) for v in latest.judge(rows, members, strict_from=strict_from, sure=sure)]

    def test_a_tombstone_accuses_each_that_lacks_it(self) -> None:
        assert self.judged(A | C, flags=TOMBSTONE) == [(0, 1, self.RESURRECTED)]
        assert self.judged(A, flags=TOMBSTONE) == [(0, 1, self.RESURRECTED), (0, 2, self.RESURRECTED)]

    @pytest.mark.parametrize("visible", [A, A | C, A | B])
    def test_a_tombstone_that_may_have_to_be_aborted_accuses_nobody_however_many_show_it(self, visible: int) -> None:
        assert self.judged(visible, flags=TOMBSTONE, sure=False) == [(0, NOBODY, self.MISMATCH)]

    @pytest.mark.parametrize("members", [A | B, ALL, ALL | D])
    @pytest.mark.parametrize("visible", [A, A | B, A | C | D])
    def test_a_value_accuses_nobody_however_many_show_it(self, visible: int, members: int) -> None:
        assert self.judged(visible, members=members) == [(0, NOBODY, self.MISMATCH)]

    @pytest.mark.parametrize("flags", [0, TOMBSTONE, NULL_KEY])
    def test_where_nothing_is_compacted_every_absence_is_a_missing_record(self, flags: int) -> None:
        missing = [(0, 1, self.MISSING), (0, 2, self.MISSING)]
        assert self.judged(A, strict_from=5, flags=flags) == missing
        assert self.judged(A, strict_from=6, flags=flags) != missing
