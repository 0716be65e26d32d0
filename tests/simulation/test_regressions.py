"""Histories that once failed, shrunken: each holds a mistake that was made in the product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.explain import explain
from parallax.findings.finding import Finding, claim_of, evidence_of, sides_of
from parallax.findings.incident import tally_of
from parallax.findings.requests import Question, Recreated
from parallax.model import NOBODY, FindingStatus, Severity, UnknownReason
from parallax.sides import as_document, standing
from tests.simulation import kinds, probe
from tests.simulation.cluster import Cluster
from tests.simulation.histories import FAULTY, HEALTHY, OLDER_LOGS, SEEDS, SEEDS_WITH_KILLS, SHRUNKEN, THREE_SIDES
from tests.simulation.history import BROKERS
from tests.simulation.monitor import RECHECK_S
from tests.simulation.ops import OF_FOUR, ROUND, STANDARD, looked_at_again, parse
from tests.simulation.records import Aborted, End
from tests.simulation.replica import Replica
from tests.simulation.world import Violation, World, run

COMMIT_TO_ABORT = (
    "write -1 2 5; write 1 1 7; sync; stop 3; end 1 1; write -1 1 8; tick 200; write -1 90 1; sync; clean "
    "1; tick 2001; write -1 90 1; sync; clean 1; tick 2001; write -1 90 1; sync; clean 1; tick 2001; "
    "write -1 90 1; sync; clean 1; write 1 0 9; end 1; start 3; sync; tick 200; write -1 90 1; sync; "
    "clean 3; cold"
)
"""Replica 3 lost the COMMIT of offset 1 and has aborted and cleaned it; replica 2 still shows it. Nobody had read."""

_CLEANED = "tick 2001; write -1 90 1; sync; clean 1; " * 5
_TURNED = "write 1 0 9; end 1; start 3; sync; tick 200; write -1 90 1; sync; clean 3; cold"
LOST_WITH_ITS_TOMBSTONE = {
    "the first record": ("write -1 1 5; write 1 1 -1; sync; stop 3; end 1 1; ", "committed_record_aborted"),
    "a later one, and the first is cleaned on all": (
        (
            "write -1 1 5; write 1 2 7; write 1 1 -1; sync; stop 3; end 1 1; write -1 2 8; tick 200; "
            "write -1 90 1; sync; clean 2; "
        ),
        "deleted_record_resurrected",
    ),
    "one that is cleaned on all": (
        (
            "write -1 1 5; write 1 1 -1; sync; stop 3; end 1 1; tick 200; write -1 90 1; sync; clean 2; tick 2001; "
            "write -1 90 1; sync; clean 2; "
        ),
        "visibility_mismatch",
    ),
}
"""Replica 3 lost the COMMIT of a tombstone, and has aborted and cleaned it; 2 holds the COMMIT. The report on it."""

_LOOKED = "tick 2001; write -1 90 1; sync; clean 1; round; " * 4
_LOST = f"stop 2; write -1 1 -1; round; {_LOOKED}start 2; sync; round; tick 150; round; tick 150; round"
MEANWHILE = {
    "away": f"write -1 1 5; sync; round; stop 3; {_LOST}",
    "frozen": (
        "write -1 1 5; write 1 0 4; sync; round; stop 3; end 1 1; write -1 0 1; "
        f"{_LOOKED}start 3; sync; round; tick 500; round; {_LOST}"
    ),
}
"""Replica 2 lost a tombstone while replica 3 is away, or its last stable offset stands still."""

RIGHT_ALL_THE_SAME = (
    "write 1 1 7; sync; stop 3; end 1; tick 200; write -1 90 1; sync; clean 1; clean 2; tick 2001; write "
    "-1 90 1; sync; clean 1; clean 2; tick 2001; write -1 90 1; sync; clean 1; clean 2; write 1 2 8; end "
    "1 1; write -1 2 9; tick 200; write -1 90 1; sync; clean 1; tick 2001; write -1 90 1; sync; clean 1; "
    "tick 2001; write -1 90 1; sync; clean 1; tick 2001; write -1 90 1; sync; clean 1; write 1 0 9; end "
    "1; start 3; sync; tick 200; write -1 90 1; sync; clean 3; cold"
)
"""Replica 3 lost an ABORT and a COMMIT, and has aborted only what was aborted. 2 holds the COMMIT, but no ABORT."""


def shown_by_side(event: Finding) -> dict[str, list[int]]:
    """Who showed what when an event was decided, as the table has it."""
    return as_document(sides_of(event))


@pytest.mark.parametrize("name", FAULTY)
def test_faulty(name: str) -> None:
    World(FAULTY[name].profile).run(FAULTY[name].parsed())


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(name: str) -> None:
    World(HEALTHY[name].profile).run(HEALTHY[name].parsed())


@pytest.mark.parametrize("name", SHRUNKEN)
def test_shrunken(name: str) -> None:
    World(SHRUNKEN[name].profile).run(SHRUNKEN[name].parsed())


def test_what_waits_for_one_that_is_held_back_is_right_to_wait_only_where_that_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history = SHRUNKEN["a value waits for one that is held back by a transaction whose outcome is reported of it"]
    monkeypatch.setattr(World, "_holds_open", lambda *_: False)
    with pytest.raises(Violation, match="still pending"):
        World(history.profile).run(history.parsed())


def test_an_entry_of_the_aborted_list_over_a_commit_is_a_wrong_outcome() -> None:
    world = World(STANDARD)
    world.run(parse(COMMIT_TO_ABORT))
    assert [(f.kind, f.broker, f.offset) for f in world.monitor.confirmed] == [("committed_record_aborted", 3, 1)]
    assert world.done["did audits that said diverged"] == 1


@pytest.mark.parametrize("name", LOST_WITH_ITS_TOMBSTONE)
def test_a_deleted_value_that_an_aborted_tombstone_brought_back_is_found(name: str) -> None:
    text, kind = LOST_WITH_ITS_TOMBSTONE[name]
    world = World(STANDARD)
    world.run(parse(text + _CLEANED + _TURNED))
    assert [f.kind for f in world.monitor.confirmed] == [kind]
    assert all(3 in {f.broker, *f.named} for f in world.monitor.confirmed)
    assert world.done["did audits that said diverged"] == 1


@pytest.mark.parametrize("name", MEANWHILE)
def test_one_replica_that_is_away_or_frozen_does_not_hide_what_another_has_lost(name: str) -> None:
    world = World(STANDARD)
    for op in parse(MEANWHILE[name]):
        world.apply(op)
    found = [f.broker for f in world.monitor.confirmed if f.kind == "deleted_record_resurrected"]
    assert found == [2]
    world.settle()


@pytest.mark.parametrize("frozen", [1, 3, 4])
def test_a_frozen_replica_that_shows_the_value_hides_no_difference_between_the_others(
    frozen: int,
) -> None:
    """2 alone has deleted the key, and nothing of that is left; one of the three that show the value is frozen."""
    world = World(replace(STANDARD, brokers=(1, 2, 3, 4)))
    others = "".join(f"stop {b}; " for b in (1, 3, 4) if b != frozen)
    deleted = "write -1 1 -1; tick 5001" + "".join(f"; write -1 90 {n}; clean 2; tick 2001" for n in range(6))
    played(world, f"lead 2; write -1 1 9; write 2 3 5; sync; stop {frozen}; end 2 0; sync; {others}{deleted}", 0)
    played(world, "start 1; start 3; start 4; sync; cold; sync; round; tick 400; round; tick 400; round", 10)
    standing = {(str(e.kind), e.broker): shown_by_side(e) for e in world.monitor.lifecycle.standing()}
    assert standing.keys() == {("read_committed_frozen", frozen), ("visibility_mismatch", -1)}
    assert standing["visibility_mismatch", -1] == {"no value": [2], "value at offset 0": [1, 3, 4]}
    world.settle()


def _lap(times: int, *brokers: int) -> str:
    return ("tick 1500; write -1 90 1; sync; " + "".join(f"clean {b}; " for b in brokers) + "round; ") * times


_FORGOTTEN = "tick 2001; write -1 90 1; sync; clean 1; clean 3; " * 7
_IN_A_ROW = (
    f"write 0 0 5; sync; round; stop 2; end 0; sync; round; {_FORGOTTEN}start 2; sync; write 0 1 6; write 0 2 7; sync; "
    f"round; tick 150; round; stop 2; end 0; sync; round; {_FORGOTTEN}write 0 3 8; end 0 1; start 2; sync; "
)
"""Replica 2 missed the ABORT of two transactions in a row, and the COMMIT of a third at 20 ended both."""


@pytest.mark.parametrize("cut", ["", "read 0 2 8; read 1 2 19; progress 1; progress 2; progress 3; batch 10; probe; "])
def test_a_transaction_is_one_finding_wherever_the_rows_of_its_end_are_cut(cut: str) -> None:
    world = World(STANDARD)
    for op in parse(f"{_IN_A_ROW}{cut}round; tick 150; round; tick 150; round"):
        world.apply(op)
    found = {(f.broker, f.claim.transaction_start_offset, f.claim.marker_offset) for f in world.monitor.confirmed}
    assert found == {(2, 0, 1), (2, 9, 11)}
    world.settle()


def test_a_right_replica_whose_entry_reaches_over_a_commit_is_not_accused() -> None:
    world = World(STANDARD)
    world.run(parse(RIGHT_ALL_THE_SAME))
    assert [(a.first, a.last) for a in world.cluster.replicas[3].aborted] == [(0, 13)]
    assert (6, 101) in [(b.base, b.producer_id) for b in world.cluster.replicas[2].batches if b.marker is not None]
    assert world.monitor.confirmed == []


def test_a_right_outcome_by_a_higher_marker_is_not_accused_by_another_transactions_marker() -> None:
    """The true end marker was cleaned everywhere before anybody read, and on one replica an ABORT that came later."""
    fill, pause = "tick 2001; write -1 90 9; sync; clean 2; ", "clean 3; "
    text = (
        "lead 3; write 0 1 11; sync; stop 1; end 0 1; write -1 1 22; sync; clean 2; "
        f"{pause}{fill}{pause}{fill}{pause}write 0 2 33; end; write -1 2 66; sync; clean 2; {pause}"
        f"write -1 90 31; sync; clean 2; {pause}{fill}{pause}{fill}{pause}write 0 4 55; end 0 1; sync; "
        f"{fill * 5}lead 2; start 1; sync; cold; round; tick 300; round"
    )
    world = World(STANDARD)
    world.run(parse(text))
    first, last = world.cluster.replicas[1], world.cluster.replicas[3]
    assert not first.is_aborted(100, 0), "as it was committed"
    assert (6, 100) in [(b.base, b.producer_id) for b in last.batches if b.marker is not None]
    assert world.monitor.confirmed == []


_ALL_READ = (
    "".join(f"read {view} {broker} 1000; " for broker in BROKERS for view in (0, 1))
    + "".join(f"progress {broker}; " for broker in BROKERS)
    + "batch 10; "
)
_SUSPECTED = f"{THREE_SIDES}{_ALL_READ}tick 500; {_ALL_READ}"


def test_a_newer_value_is_not_called_right_while_the_one_that_has_deleted_it_is_away() -> None:
    world = World(STANDARD)
    for op in parse(f"{_SUSPECTED}stop 3; probe; start 3; sync; round; tick 500; round; audit; round"):
        world.apply(op)
    world.settle()
    assert {(f.kind, f.broker) for f in world.monitor.confirmed} == {("visibility_mismatch", NOBODY)}
    (stands,) = world.monitor.lifecycle.standing()
    assert sorted(evidence_of(stands)["sides"].values()) == [[1], [2], [3]]


def test_a_difference_of_which_every_replica_was_copied_from_a_wrong_one_has_not_healed() -> None:
    moves = "unassign 3; round; assign 3; sync; round; tick 300; round; unassign 2; round; assign 2; sync; round"
    world = World(STANDARD)
    world.run(parse(f"{_SUSPECTED}stop 3; probe; start 3; sync; round; {moves}; tick 300; round"))
    assert [f.broker for f in world.monitor.confirmed] == [NOBODY] * len(world.monitor.confirmed)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.status, stands.severity, stands.exposed) == (FindingStatus.UNSETTLED, Severity.WARNING, False)
    for op in parse("write -1 0 33; sync; round"):
        world.apply(op)
    world.settle()
    assert world.monitor.lifecycle.standing() == []
    assert evidence_of(world.monitor.events[-1])["resolution"] == "superseded"


def _looked_at_again(world: World, times: int = 3, factor: int = 1) -> None:
    for _ in range(times):
        world.monitor.clock += RECHECK_S * factor
        world.apply(ROUND)


def _last_events(world: World) -> set[tuple[str, str, int]]:
    """Status, kind and broker of the last event of each finding."""
    last = {e.finding_id: e for e in world.monitor.events if e.status is not FindingStatus.DISMISSED}
    return {(str(e.status), str(e.kind), e.broker) for e in last.values()}


_MOVING = replace(STANDARD, wipes=True, reassigns=True, moves=True)
_COPIED_FROM_2 = "lead 2; wipe 1 1; sync; round; wipe 3 1; sync; round; "
_TWO_ROLLED_BACK = (
    f"round; write -1 2 4; write 0 0 5; write 0 1 6; sync; round; stop 2; end 0; sync; round; {_lap(9, 1, 3)}"
    "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round; "
)


def test_what_ends_with_its_replica_is_said_of_that_one_and_accuses_no_other() -> None:
    world = World(_MOVING)
    lost = f"round; write -1 1 4; write 0 0 5; sync; round; stop 2; stop 3; end 0; sync; round; {_lap(9, 1)}"
    turned = "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; start 3; sync; round; tick 150; round; "
    for op in parse(f"{lost}{turned}unassign 2; round"):
        world.apply(op)
    _looked_at_again(world)
    _looked_at_again(world, factor=11)
    wrong = "aborted_record_committed"
    assert _last_events(world) == {("resolved", wrong, 2), ("confirmed", wrong, 3)}
    world.settle()


@pytest.mark.parametrize("rewritten", ["", f"write -1 0 7; sync; round; {_lap(3, 1, 2, 3)}"], ids=["held", "cleaned"])
@pytest.mark.parametrize("away", [False, True], ids=["all asked", "one away"])
def test_a_loss_has_spread_though_the_accused_is_unassigned_before_that_is_seen(rewritten: str, away: bool) -> None:
    """And though the record that its finding names was cleaned, and another of the transaction was not."""
    world = World(_MOVING)
    left = "lead 1; stop 3; unassign 2; round" if away else "lead 1; unassign 2; round"
    for op in parse(f"{_TWO_ROLLED_BACK}{rewritten}{_COPIED_FROM_2}{left}"):
        world.apply(op)
    _looked_at_again(world)
    if away:
        assert _last_events(world) == {("confirmed", "aborted_record_committed", 2)}, "one that may be right is away"
        for op in parse("start 3; sync; round"):
            world.apply(op)
        _looked_at_again(world)
    assert {status for status, _, _ in _last_events(world)} == {"spread"}
    world.settle()
    assert [stands.status for stands in world.monitor.lifecycle.standing()] == [FindingStatus.SPREAD]


def test_a_difference_stays_open_between_the_others_when_the_one_asked_last_is_unassigned() -> None:
    world = World(STANDARD)
    for op in parse(f"{_SUSPECTED}stop 3; probe; start 3; sync; round"):
        world.apply(op)
    (reported,) = world.monitor.lifecycle.standing()
    world.apply(("unassign", claim_of(reported).pivot, 0, 0))
    _looked_at_again(world)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.finding_id, stands.status) == (reported.finding_id, FindingStatus.CONFIRMED)
    assert set(world.cluster.replicas) >= standing(sides_of(stands)) > set()
    world.settle()


def test_who_shows_what_its_lacked_marker_says_is_not_accused_by_those_that_are_away() -> None:
    lost = "write 0 1 4097; sync; stop 5; write 0 0 96; end; sync; round; usurp 5; end 0 1; write -1 0 38208; round; "
    back = "tick 150; start 2; start 3; sync; round; write -1 1 5; sync; "
    gone = "".join(f"tick 2001; write -1 90 {n}; sync; clean 2; clean 3; clean 5; " for n in range(4))
    world = World(kinds.profile(500001919, healthy=False))
    world.run(parse(f"{lost}{back}{gone}write 0 2 7; end 0 1; sync; start 1; start 4; sync; round; round"))
    assert {finding.kind for finding in world.monitor.confirmed} == {"log_truncated"}


def test_unlike_records_are_not_dismissed_while_a_replica_that_was_read_to_differ_is_away() -> None:
    on_one = "lead 1; write 0 0 11; sync; round; stop 2; stop 3; write -1 0 22; checkpoint; tick 300; round; "
    on_two = "usurp 2; end 0 1; write -1 3 5; start 3; fetch 3 50; fetch 3 50; tick 300; round; tick 300; round"
    world = World(replace(STANDARD, unclean=True))
    for op in parse(on_one + on_two):
        world.apply(op)
    assert "content_mismatch" in [claim.kind for claim in world.monitor.pending]
    for op in parse("start 1; round"):
        world.apply(op)
    assert "content_mismatch" in [finding.kind for finding in world.monitor.confirmed]


def test_a_truncated_log_has_healed_though_it_loses_a_later_record_on_its_own() -> None:
    cut = "write 2 0 11; sync; stop 2; end 2 1; sync; round; usurp 2; end 2; start 3; write -1 0 22; write 3 0 33; "
    lost = "fetch 3 50; round; end 3; sync; round; lose 3 4; write -1 90 1; write -1 90 2; write 2 0 36; sync; trim 1"
    p = replace(STANDARD, brokers=(1, 2, 3, 4), hosts=(1, 2, 3, 4), compacted=False, trims=True, unclean=True)
    World(p).run(parse(cut + lost))


def test_a_head_that_all_logs_have_lost_between_two_ticks_is_found_by_shared_readings() -> None:
    p = replace(kinds.profile(100000089, healthy=False), shared=True)
    World(p).run(kinds.generate(p))


@pytest.mark.parametrize(
    "healthy", [pytest.param(True, id="healthy", marks=pytest.mark.release), pytest.param(False, id="faulty")]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_that_once_failed(seed: int, healthy: bool) -> None:
    run(seed, healthy)


@pytest.mark.parametrize("seed", SEEDS_WITH_KILLS)
def test_a_seed_that_once_failed_where_the_job_is_killed(seed: int) -> None:
    run(seed, healthy=False, alone=0, kills=8)


@pytest.mark.parametrize("name", OLDER_LOGS)
def test_what_is_known_of_a_log_is_held_against_nobody_once_an_older_one_leads(name: str) -> None:
    run(OLDER_LOGS[name], healthy=False)


def test_an_incident_says_again_of_a_key_what_the_probe_of_its_own_finding_has_proven() -> None:
    run(1930010230, healthy=False, alone=1)


def test_an_incident_counts_what_is_proven_while_its_first_event_is_written() -> None:
    run(2115000055, healthy=False, alone=0)


def test_an_incident_that_comes_to_count_more_is_reported_by_who_leads_then() -> None:
    run(2216000041, healthy=False, alone=0)


def test_what_was_proven_of_one_that_has_left_is_over_where_the_last_one_is_held_back() -> None:
    run(3002008127, healthy=False, alone=0)


def test_a_tombstone_that_an_election_cut_accuses_nobody_who_shows_another_record_there() -> None:
    world = World(replace(STANDARD, seed=7, unclean=True, keys=4))
    ops = parse(
        "write -1 2 11875; sync; round; stop 1; stop 2; write -1 2 -1; tick 200; write -1 90 23; clean 3; "
        "read 1 3 1000; read 0 3 1000; progress 3; batch 10; usurp 2; start 1; write -1 90 68; sync; read 1 1 "
        "1; write -1 90 41; tick 200; write -1 90 6; sync; clean 2; clean 1; round; start 3; sync; round; "
        "tick 150; round; tick 150; round"
    )
    world.run(ops)
    told = [event for event in world.monitor.events if event.stands]
    assert {event.broker for event in told} == {NOBODY, 3}


@pytest.mark.parametrize("wired", [False, True], ids=["model", "bytes"])
def test_what_a_log_of_an_older_epoch_replaced_unseen_is_unknown_until_an_audit(
    wired: bool,
) -> None:
    """Broker 2 wrote offset 1 in an epoch of its own; after a second unclean election it has that of 1, and goes on."""
    world = World(replace(STANDARD, unclean=True, wired=wired))
    ops = parse(
        "write -1 0 10; sync; round; stop 2; write -1 1 11; sync; usurp 2; write -1 2 22; round; usurp 1; "
        "write -1 3 33; start 2; start 3; sync; round; tick 150; sync; round"
    )
    for op in ops:
        world.apply(op)
    assert world.monitor.coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING)[0] > 0
    world.settle()


def test_a_replica_that_is_put_right_is_accused_no_more_though_it_was_copied_before() -> None:
    """2 misses the ABORT of two records, and the producer's COMMIT ends both. 3 is copied from 2, and 2 from 1."""
    world = World(replace(STANDARD, seed=7, reassigns=True, keys=4))
    ops = parse(
        "write -1 1 5; sync; round; write 0 1 10; write 0 2 11; sync; round; stop 2; end 0 0; sync; round; tick 5000; "
        "write -1 90 1; sync; clean 1; clean 3; tick 200; write -1 90 2; sync; clean 1; clean 3; tick 2001; "
        "write -1 90 3; sync; clean 1; clean 3; write 0 0 12; end 0 1; sync; start 2; sync; round; tick 150; round; "
        "lead 2; sync; round; unassign 3; sync; round; assign 3; sync; round; tick 5000; round; "
        "lead 1; sync; round; unassign 2; sync; round; assign 2; sync; round; tick 30000; round; tick 60000; round"
    )
    for op in ops:
        world.apply(op)
    assert [(event.broker, str(event.status)) for event in world.monitor.events] == [
        (2, "confirmed"),
        (2, "resolved"),
        (3, "confirmed"),
    ]
    world.settle()
    assert {event.broker for event in world.monitor.lifecycle.standing()} == {3}


_INDEX_LOST = "stop 2; unindex 2 0; unindex 2 1; start 2; sync; round; round; tick 61; round; "
_ROLLED_BACK = "write -1 90 4; sync; round; round; {}; sync; end 0 0; sync; write -1 90 5; write -1 90 6; sync; "


def _looked_at(world: World, text: str) -> None:
    for op in parse(text.removesuffix("; ")):
        world.apply(op)
    _looked_at_again(world, 1)


def _lapped(times: int, *brokers: int) -> str:
    return f"tick 1500; write -1 90 1; sync; {''.join(f'clean {b}; ' for b in brokers)}round; " * times


def _rebuilt(replica: Replica) -> None:
    """Its index of aborted transactions is what its log says."""
    began: dict[int, int] = {}
    replica.aborted = []
    for batch in (b for b in replica.batches if b.transactional):
        if not batch.control:
            began.setdefault(batch.producer_id, batch.base)
        elif (start := began.pop(batch.producer_id, None)) is not None and batch.marker is End.ABORT:
            replica.aborted.append(Aborted(batch.producer_id, start, batch.last))


def test_an_index_that_is_rebuilt_brings_back_nothing_that_the_cleaner_has_taken_by_it() -> None:
    """2 shows keys 0 and 1 as a rolled-back transaction has them; its cleaner takes the committed value of key 1."""
    world = World(STANDARD)
    _looked_at(world, f"round; write -1 1 4; {_ROLLED_BACK.format('pair 0 0 7')}{_INDEX_LOST}")
    _looked_at(world, _lapped(2, 2))
    _looked_at(world, "stop 2")
    _rebuilt(world.cluster.replicas[2])
    _looked_at(world, "start 2; sync; round")
    _looked_at_again(world)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker, stands.offset) == ("outcome_contradicts_marker", 2, 3)
    assert stands.summary.startswith("Broker 2 lacks a value of the key of offset 3 of t-0 that another shows")
    world.settle()


MISSED_A_TOMBSTONE = (
    "round; write -1 0 4; write -1 90 4; sync; round; round; stop 2; write -1 0 -1; sync; round; "
    + "tick 1500; write -1 90 1; sync; clean 1; clean 3; round; " * 8
    + "start 2; sync; round; tick 150; round"
)
MISSED_AN_ABORT = (
    "round; write -1 0 4; write -1 90 4; sync; round; round; write 0 0 7; sync; round; stop 2; end 0 0; sync; round; "
    + "tick 1500; write -1 90 1; sync; clean 1; clean 3; round; " * 8
    + "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
)
PUT_RIGHT = {
    "copied again": "lead 3; sync; tick 100; round; wipe 2 1; sync; tick 100; round",
    "moved": "lead 3; sync; tick 100; round; unassign 2; tick 100; round; assign 2; sync; tick 100; round",
    "taken off": "unassign 2; tick 100; round",
}


@pytest.mark.parametrize("how", PUT_RIGHT)
@pytest.mark.parametrize("missed", [MISSED_A_TOMBSTONE, MISSED_AN_ABORT], ids=["tombstone", "abort"])
def test_one_that_was_copied_from_the_accused_is_accused_once_that_is_right_or_gone(missed: str, how: str) -> None:
    """2 has missed it, 1 is copied from 2, and 2 is put right."""
    world = World(STANDARD)
    for op in parse(missed):
        world.apply(op)
    looked_at_again(world, 1)
    for op in parse("lead 2; wipe 1 1; sync; tick 100; round"):
        world.apply(op)
    looked_at_again(world, 2)
    assert [event.broker for event in world.monitor.lifecycle.standing()] == [2]
    for op in parse(PUT_RIGHT[how]):
        world.apply(op)
    looked_at_again(world, 4)
    assert [event.broker for event in world.monitor.lifecycle.standing()] == [1]
    if how != "taken off":
        world.settle()  # Which would give 2 a new copy of 1.


def test_an_index_is_not_said_to_be_rebuilt_once_the_cleaner_has_taken_the_end_marker() -> None:
    world = World(STANDARD)
    _looked_at(world, f"round; write -1 1 4; {_ROLLED_BACK.format('pair 0 0 7')}{_INDEX_LOST}")
    (before,) = world.monitor.lifecycle.standing()
    assert "rebuild" in " ".join(step.text for step in explain(before).steps)
    _looked_at(world, _lapped(4, 2))
    _looked_at_again(world)
    assert [b.marker for b in world.cluster.replicas[2].batches if b.marker is not None] == []
    (after,) = world.monitor.lifecycle.standing()
    assert (after.kind, after.broker) == (before.kind, 2)
    assert "rebuild" not in " ".join(step.text for step in explain(after).steps)


def test_a_value_lost_by_a_wrong_outcome_is_not_over_once_all_were_copied_from_its_replica() -> None:
    """2 shows a rolled-back tombstone as committed, and its cleaner takes the value before it; then all are copies."""
    world = World(STANDARD)
    for op in parse(MISSED_THE_ABORT_OF_A_DELETION):
        world.apply(op)
    looked_at_again(world, 1)
    for op in parse("round" + "; tick 1500; write -1 90 1; sync; clean 2; round" * 6):
        world.apply(op)
    looked_at_again(world, 2)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, str(stands.status)) == (2, "confirmed")
    for op in parse("lead 2; wipe 1 1; sync; tick 100; round; wipe 3 1; sync; tick 100; round"):
        world.apply(op)
    looked_at_again(world, 3)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, str(stands.status)) == (2, "unsettled")
    assert "no replica shows the value of offset 0 any more" in stands.summary
    world.settle()


def test_outcomes_without_direction_differ_as_long_as_any_record_of_the_transaction_does() -> None:
    """Keys 0 and 1 are of one transaction, which 1 shows as aborted and 2 as committed. Key 0 is written again."""
    world = World(STANDARD)
    far = "".join(f"write -1 {91 + i % 2} {i}; " for i in range(70))
    begun = f"write -1 0 4; write -1 1 4; write -1 90 1; pair 0 0 7; {far}sync; stop 2; lead 3; end 0 0; sync; "
    lapped = "tick 1500; write -1 90 1; sync; clean {}; round; "
    for op in parse(
        f"{begun}{'tick 1500; write -1 90 1; sync; clean 3; ' * 8}"
        "write 0 3 8; end 0 1; write -1 90 2; sync; start 2; sync; tick 150; round; round"
    ):
        world.apply(op)
    looked_at_again(world, 2)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker, stands.offset) == ("visibility_mismatch", NOBODY, 3)
    for op in parse(f"write -1 0 55; {lapped.format(2) * 4}{lapped.format(3) * 3}write -1 0 56; sync; round"):
        world.apply(op)
    looked_at_again(world, 3)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.offset, str(stands.status)) == ("visibility_mismatch", 4, "confirmed")
    world.settle()
    assert len(world.monitor.lifecycle.standing()) == 1


MISSED_THE_ABORT_OF_A_DELETION = (
    "round; write -1 0 4; write -1 90 4; sync; round; round; write 0 0 -1; sync; round; stop 2; end 0 0; sync; round; "
    + "tick 1500; write -1 90 1; sync; clean 1; clean 3; round; " * 8
    + "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
)


def played(world: World, text: str, looks: int) -> None:
    for op in parse(text):
        world.apply(op)
    looked_at_again(world, looks)


def test_a_key_that_was_written_again_alike_keeps_no_outcome_without_direction_open() -> None:
    world = World(STANDARD)
    far = "".join(f"write -1 {91 + i % 2} {i}; " for i in range(70))
    begun = (
        f"write -1 0 4; write -1 1 4; write -1 90 1; pair 0 0 7; {far}write -1 1 77; sync; stop 2; lead 3; end 0 0; "
    )
    lapped = "tick 1500; write -1 90 1; sync; clean {}; round; "
    played(
        world,
        f"{begun}sync; {'tick 1500; write -1 90 1; sync; clean 3; ' * 8}"
        "write 0 3 8; end 0 1; write -1 90 2; sync; start 2; sync; tick 150; round; round",
        2,
    )
    again = "".join(lapped.format(broker) * times for broker, times in ((2, 4), (3, 3), (1, 3)))
    played(world, f"write -1 0 55; {again}write -1 0 56; sync; round", 20)
    assert [f.offset for f in world.monitor.lifecycle.standing()] == []
    world.settle()


_ENDED_LATER = "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
A_LATE_ABORT = "round; write -1 0 4; {}write -1 90 4; sync; round; round; {}sync; round; stop 2; end 0 0; sync; round; "


def test_the_value_of_a_transaction_that_a_finding_leaves_gives_no_direction() -> None:
    """1 and 4 have lost the index that hides a second transaction of the key; 1 is copied again from another."""
    world = World(OF_FOUR)
    lapped = "tick 1500; write -1 90 1; sync; clean 1; clean 3; clean 4; round; " * 8
    played(world, f"{A_LATE_ABORT.format('', 'write 0 0 7; ')}{lapped}{_ENDED_LATER}", 1)
    played(
        world,
        "write 1 0 9; write -1 90 3; sync; round; end 1 0; write -1 90 3; write -1 91 4; sync; round; round; round; "
        "lead 3; sync; round; round; tick 61; round; stop 1; stop 4",
        0,
    )
    for broker in (1, 4):
        replica = world.cluster.replicas[broker]
        replica.aborted = [entry for entry in replica.aborted if entry.producer_id != 101]
    played(world, "start 1; start 4; sync; round; round; tick 61; round", 2)
    played(world, "round" + "; tick 1500; write -1 90 1; sync; clean 3; round" * 3, 1)
    played(world, "wipe 2 1; sync; tick 100; round", 5)
    played(world, "wipe 1 1; sync; tick 100; round", 5)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker) == ("visibility_mismatch", NOBODY)
    world.settle()
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.kind, stands.broker) == ("outcome_contradicts_marker", 4)


def _stands(world: World) -> list[tuple[str, int]]:
    return [(str(event.kind), event.broker) for event in world.monitor.lifecycle.standing()]


LATE_ABORT = (
    "round; {before}write -1 90 4; sync; round; round; {written}sync; round; stop {away}; end 0 0; sync; round; "
)
"""A transaction is rolled back while a replica is away."""
FORGOTTEN = "tick 1500; write -1 90 1; sync; clean {0}; round; " * 8
TAKEN_FOR_ITS_END = "write 0 3 8; end 0 1; write -1 90 2; sync; round; start 2; sync; round; tick 150; round"
CLEANED = "round" + "; tick 1500; write -1 90 1; sync; clean {0}; round" * 6
COPIED = "lead {0}; sync; tick 100; round; wipe {1} 1; sync; tick 100; round"


def _a_copy_of_one_that_was_cleaned(
    world: World, before: str = "write -1 0 4; ", written: str = "write 0 0 -1; "
) -> None:
    """2 shows a rolled-back deletion as committed, its cleaner takes the value before, and 1 is copied from it."""
    begun = LATE_ABORT.format(before=before, written=written, away=2)
    _looked_at(world, begun + FORGOTTEN.format(1) + TAKEN_FOR_ITS_END)
    _looked_at(world, CLEANED.format(2))
    _looked_at(world, "lead 2; wipe 1 1; sync; tick 100; round")
    looked_at_again(world, 2)


def test_a_copy_that_lacks_the_values_of_many_keys_of_a_transaction_is_reported_for_each() -> None:
    world = World(STANDARD)
    keys = range(100, 120)
    before = "".join(f"write -1 {key} 4; " for key in keys)
    _a_copy_of_one_that_was_cleaned(world, before, "".join(f"write 0 {key} -1; " for key in keys))
    _looked_at(world, COPIED.format(3, 2))
    looked_at_again(world, 20)
    (stands,) = world.monitor.lifecycle.standing()
    assert (stands.broker, tally_of(stands).count) == (-1, len(keys))


def test_a_replica_that_copies_a_right_log_is_not_accused_by_another_producers_end_marker() -> None:
    """2 missed the ABORT of one transaction. Its disk is replaced, and it has come to where another one is open."""
    world = World(STANDARD)
    begun = "round; write -1 90 4; sync; round; round; write 0 0 7; write 1 5 3; sync; round; stop 2; end 0 0; sync; "
    written = "".join(f"write -1 {key} 4; " for key in (6, 7, 8, 9))
    more = f"round; {written}sync; round; end 1 1; write -1 91 3; sync; round; "
    read = "".join(f"read 0 {b} 999; read 1 {b} 999; progress {b}; " for b in BROKERS) + "batch 10"
    for op in parse(f"{begun}{more}{_lapped(9, 1, 3)}start 2; sync; " + "; tick 150; ".join([read] * 5)):
        world.apply(op)
    assert ("read_committed_frozen", 2) in [(str(claim.kind), claim.broker) for claim in world.monitor.pending]
    for op in parse("wipe 2 1; fetch 2 5; probe; sync; round"):
        world.apply(op)
    looked_at_again(world, 2)
    assert _stands(world) == []
    world.settle()


def test_who_is_right_about_a_key_is_not_accused_by_what_an_end_leaves_on_it_while_it_is_away() -> None:
    """1 is a copy of the accused, and away when that is right again. What 2 and 3 show of the key was rolled back."""
    world = World(STANDARD)

    def done(text: str, looks: int) -> None:
        for op in parse(text):
            world.apply(op)
        looked_at_again(world, looks)

    begun = LATE_ABORT.format(before="write -1 0 4; ", written="write 0 0 7; ", away=2)
    done(begun + FORGOTTEN.format(1) + TAKEN_FOR_ITS_END, 1)
    done(COPIED.format(2, 1), 3)
    newer = (
        "lead 1; sync; write -1 0 5; write 1 0 9; write -1 90 1; sync; round; round; stop 2; stop 3; end 1 0; round; "
    )
    taken = "write 1 3 8; end 1 1; write -1 90 2; start 2; start 3; sync; round"
    done(newer + "tick 1500; write -1 90 1; clean 1; " * 8 + taken, 0)
    done("lead 3; sync; stop 1; tick 100; round; wipe 2 1; sync; tick 100; round", 4)
    done("start 1; sync; tick 100; round", 8)
    wrong = {("aborted_record_committed", 2), ("aborted_record_committed", 3)}
    assert set(_stands(world)) == wrong
    assert {event.broker for event in world.monitor.events if event.status is FindingStatus.CONFIRMED} <= {2, 3}


def test_a_finding_on_a_transaction_leaves_what_another_shows_of_any_record_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1, a copy of the accused, has cleaned one of two records; the readers of 2 saw that its log was replaced."""
    answer = probe._answer

    def seen_replaced(cluster: Cluster, question: Question, *more: Any) -> Any:
        if isinstance(question, Recreated):
            return question.broker == 2
        return answer(cluster, question, *more)

    monkeypatch.setattr(probe, "_answer", seen_replaced)
    world = World(STANDARD)
    begun = LATE_ABORT.format(before="write -1 1 4; ", written="write 0 0 7; write 0 1 8; ", away=2)
    _looked_at(world, begun + FORGOTTEN.format(1) + TAKEN_FOR_ITS_END)
    _looked_at(world, COPIED.format(2, 1))
    looked_at_again(world, 1)
    _looked_at(world, "lead 3; sync; write -1 1 9; sync; round; " + _lapped(6, 1, 3) + "round")
    looked_at_again(world, 1)
    _looked_at(world, COPIED.format(3, 2))
    looked_at_again(world, 7)
    assert _stands(world) == [("aborted_record_committed", 1)]


@pytest.mark.parametrize("written", ["", "write -1 5 5; "], ids=["directly behind", "further up"])
@pytest.mark.parametrize(
    "new", ["write -1 4 4; write -1 5 6; end 0 1; write -1 2 7", "end 0 1"], ids=["longer", "short"]
)
def test_who_contradicted_an_end_marker_that_an_unclean_election_has_cut_is_accused_no_more(
    written: str, new: str
) -> None:
    """2 lost its index and showed the rolled-back record; 3, elected uncleanly, commits it: all logs are equal then."""
    world = World(STANDARD)
    lost = f"write 0 1 9; sync; stop 3; round; {written}end 0 0; sync; stop 2; unindex 2 0; start 2; sync; round; "
    _looked_at(world, f"{lost}tick 200; round")
    assert _stands(world) == [("outcome_contradicts_marker", 2)]
    _looked_at(world, f"usurp 3; {new}; start 1; start 2; sync; round; tick 400; round; tick 400; round")
    assert "outcome_contradicts_marker" not in dict(_stands(world))
    (ended,) = [e for e in world.monitor.events if e.status is FindingStatus.RESOLVED]
    assert evidence_of(ended)["resolution"] in ("outcome_not_proven", "healed")
    assert "log start" not in ended.summary, "nothing was deleted"
    world.settle()


@pytest.mark.parametrize("cap", [3000, 700], ids=["kept", "left out"])
def test_a_deletion_whose_commit_does_not_fit_the_state_is_found_or_unknown(cap: int) -> None:
    """1 misses the COMMIT and aborts the deletion; 3 copies what is left, and is read behind nine later end markers."""
    world = World(replace(STANDARD, cap=cap))
    begun = "write -1 1 9; stop 3; write 3 1 -1; sync; stop 1; end 3 1; round; tick 200; "
    rows = "tick 700; round; tick 700; round; tick 700; round; "
    cleaned = "".join(f"write -1 90 {value}; clean 2; {rows}" for value in (1, 2, 3))
    back = (
        "write -1 90 4; clean 2; write 3 2 7; end 3 0; start 1; sync; clean 1; stop 2; start 3; sync; start 2; sync; "
    )
    later = "".join(f"write 0 3 {value}; end 0 1; " for value in range(8)) + "sync; "
    first = "".join(f"read {v} {b} {4 if (v, b) == (1, 3) else 1000}; " for b in BROKERS for v in (0, 1))
    told = "progress 1; progress 2; progress 3; batch 10; probe; "
    rest = "read 1 3 1000; batch 10; probe; stop 2; round; tick 200; round"
    _looked_at(world, f"{begun}{cleaned}{back}{later}{first}batch 10; {told}tick 100; {told}{rest}")
    found = ("deleted_record_resurrected", 3) in _stands(world)
    assert found or any(world.monitor.coverage.unknown[UnknownReason.DEFERRED])
    world.settle()


def test_what_all_logs_lost_before_it_was_read_is_unknown_for_good() -> None:
    """3 alone holds it and loses it; 1 and 2 copy what is left. An audit sees no difference, and settles nothing."""
    world = World(replace(STANDARD, compacted=False))
    _looked_at(world, "write -1 1 4; sync; round; stop 1; stop 2; write -1 2 5; lose 3 9; write -1 3 6; tick 100")
    _looked_at(world, "start 1; start 2; sync; tick 200; round; sync; tick 200; round; tick 200; round; audit; round")
    spans = [s for s in world.monitor.coverage.unread if s.reason is UnknownReason.LOST_UNREAD]
    assert {(s.view, s.start, s.end) for s in spans} == {(0, 1, 2), (1, 1, 2)}
    assert world.monitor.confirmed == []
    world.settle()
