"""What an audit says of a partition, and the exit code that this comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.audit.ledger import has_verdict
from parallax.audit.result import NO_MORE, AuditReport, Compared, PartitionResult, Result, Stopped, judge, merged
from parallax.model import NOBODY, FindingKind
from tests.builders.claims import key_suspect
from tests.unit.audit.results import PLAN, SUSPECT, WHOLE, found


def test_all_compared_and_nothing_found_is_consistent() -> None:
    assert judge(PLAN, WHOLE, [], {}, [found("other")]).result is Result.CONSISTENT


def test_a_suspect_that_a_probe_has_dismissed_leaves_it_consistent() -> None:
    assert judge(PLAN, WHOLE, [SUSPECT], {}, []).result is Result.CONSISTENT


def test_a_confirmed_finding_is_diverged_whatever_else_is_unknown() -> None:
    one = judge(PLAN, Compared(waiting=3), [SUSPECT], {SUSPECT.suspect_id: "asked once more"}, [found()])
    assert one.result is Result.DIVERGED
    assert len(one.findings) == 1
    assert len(one.reasons) == 2


def test_beyond_a_transaction_that_may_hang_all_is_unknown_and_below_it_is_settled() -> None:
    beyond = replace(PLAN, beyond=("nothing is compared in read_committed from offset 4 on",))
    one = judge(beyond, WHOLE, [], {}, [])
    assert (one.result, one.reasons) == (Result.UNKNOWN, beyond.beyond)
    assert has_verdict(one)
    assert has_verdict(judge(beyond, WHOLE, [], {}, [found()]))
    assert not has_verdict(judge(beyond, Compared(waiting=3), [], {}, []))
    assert not has_verdict(judge(beyond, None, [], {}, []))
    assert not has_verdict(judge(PLAN, Compared(waiting=3), [], {}, []))


def test_what_is_lost_on_all_replicas_is_unknown_and_leaves_the_verdict_on_the_rest() -> None:
    one = judge(PLAN, replace(WHOLE, lost=2), [], {}, [])
    assert one.result is Result.UNKNOWN
    assert one.reasons == one.beyond
    assert one.reasons[0].startswith("no replica holds 2 offsets that nothing may have removed")
    assert has_verdict(one)
    assert not has_verdict(judge(PLAN, replace(WHOLE, lost=2, waiting=3), [], {}, []))


def test_a_suspect_without_a_verdict_is_unknown_and_says_why() -> None:
    one = judge(PLAN, WHOLE, [SUSPECT], {SUSPECT.suspect_id: "broker 2 could not be asked"}, [])
    assert one.result is Result.UNKNOWN
    assert one.reasons == ("unproven suspect: record_missing on broker 2 at offset 7: broker 2 could not be asked",)


def test_a_suspect_that_accuses_nobody_is_said_to_have_no_direction() -> None:
    suspect = replace(SUSPECT, accusation=replace(SUSPECT.accusation, broker=NOBODY))
    one = judge(PLAN, WHOLE, [suspect], {suspect.suspect_id: "broker 1 is away"}, [])
    assert one.reasons == ("unproven suspect: record_missing without direction at offset 7: broker 1 is away",)


@pytest.mark.parametrize(
    ("compared", "reason"),
    [
        (
            Compared(stopped=(Stopped(2, 1, 4, 10, "unreachable"),)),
            "broker 2 was read as read_committed up to offset 4",
        ),
        (
            Compared(stopped=(Stopped(2, 0, -1, 10, NO_MORE),)),
            "(its high watermark was no higher: it is behind another replica; audit again once it has caught up)",
        ),
        (Compared(waiting=1), "1 difference cannot be judged"),
        (Compared(disputes=(5, 6)), "outcome of 2 records differs (offsets 5, 6)"),
        (Compared(deferred=9), "9 offsets were left out at the cap of compare.state_cap_bytes"),
        (
            Compared(skipped=2),
            "the tables no longer keep the rows (storage.record: blocks; audit the brokers), or nothing",
        ),
        (Compared(broken="no common order"), "no common order"),
        (Compared(overflow=True), "one audit asks about so many suspects only"),
        (None, "it was not compared"),
    ],
)
def test_whatever_was_left_out_is_unknown_and_said(compared: Compared | None, reason: str) -> None:
    one = judge(PLAN, compared, [], {}, [])
    assert one.result is Result.UNKNOWN
    assert reason in one.reasons[0]


def test_many_undecided_suspects_are_counted() -> None:
    many = [key_suspect(FindingKind.RECORD_MISSING, offset=offset) for offset in range(10)]
    one = judge(PLAN, WHOLE, many, {s.suspect_id: "?" for s in many}, [])
    assert one.reasons[-1] == "7 more unproven suspects"


def test_the_second_round_keeps_what_ended_a_reader_in_the_first() -> None:
    before = Compared(stopped=(Stopped(2, 0, 4, 10, "unreachable"),), rows=5)
    after = Compared(stopped=(Stopped(2, 0, 4, 10, NO_MORE),), rows=2)
    assert merged(before, after).stopped == before.stopped
    assert merged(before, after).rows == 7
    assert merged(before, Compared()).stopped == ()


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((), 3),
        ((Result.CONSISTENT,), 0),
        ((Result.CONSISTENT, Result.UNKNOWN), 3),
        ((Result.UNKNOWN, Result.DIVERGED, Result.CONSISTENT), 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst_partition(results: tuple[Result, ...], code: int) -> None:
    partitions = tuple(PartitionResult("orders", i, result) for i, result in enumerate(results))
    assert AuditReport("brokers", 0.0, 1.0, partitions).exit_code == code
