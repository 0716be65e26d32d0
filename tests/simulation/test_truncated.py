"""What an unclean election has cut proves nothing any more of the log that stands, whatever was found by it before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.findings.finding import Finding
from parallax.findings.incidents import ALONE
from tests.simulation.ops import OF_FOUR, STANDARD, looked_at_again, parse
from tests.simulation.world import World

LOOKS = "sync; round; tick 400; round; tick 400; round"


def cleaned(by: int, times: int) -> str:
    """A broker cleans all that is older than delete.retention.ms, and what it shows is read in time."""
    looks = "tick 700; round; " * 3
    return "tick 200; " + "".join(f"write -1 90 {n}; clean {by}; round; {looks}" for n in range(times))


class Life:
    """One history; a property that does not hold raises."""

    def __init__(self, *, four: bool = False, alone: int = ALONE) -> None:
        profile = OF_FOUR if four else STANDARD
        self.world = World(replace(profile, unclean=True, wipes=True, reassigns=True, alone=alone))

    def after(self, text: str, looks: int = 0) -> Life:
        for op in parse(text.strip().strip(";")):
            self.world.apply(op)
        looked_at_again(self.world, looks)
        return self

    def found(self) -> list[tuple[str, int, str]]:
        """What stands: kind, accused and status; without the logs that were truncated, which are always reported."""
        standing: list[Finding] = list(self.world.monitor.lifecycle.standing())
        said = [(str(e.kind), e.broker, str(e.status)) for e in standing if e.kind != "log_truncated"]
        return sorted(said)


def test_a_deletion_accuses_no_log_with_another_record_in_place_of_its_tombstone() -> None:
    """1 alone had deleted the key; 2, elected uncleanly, has a COMMIT of the producer where the deletion had one."""
    life = Life().after(
        "write -1 1 9; sync; round; stop 2; stop 3; write 0 1 -1; end 0 1; round; tick 200; "
        + "".join(f"write -1 90 {n}; clean 1; tick 2001; " for n in range(4))
    )
    life.after(
        "usurp 2; write 0 2 7; end 0 1; write -1 2 8; start 3; sync; tick 200; write -1 90 1; sync; clean 2; clean 3; "
        "round; tick 400; round"
    )
    assert life.found() == []
    life.after("start 1; sync; round; tick 400; round; tick 400; round", 2)
    assert life.found() == [("visibility_mismatch", -1, "confirmed")]
    life.world.settle()


@pytest.mark.parametrize("records", [0, 1, 2, 3])
@pytest.mark.parametrize("deletes", ["write 0 1 -1; end 0 1", "write -1 1 -1; write -1 3 3"], ids=["ended", "plain"])
def test_a_deletion_that_was_cut_accuses_nobody_however_long_the_new_log_is(records: int, deletes: str) -> None:
    """2 had missed the deletion, and was rightly accused. In the log that stands there is none; 1 has lost the key."""
    life = Life().after(f"lead 1; write -1 1 9; sync; round; stop 3; stop 2; {deletes}; round; {cleaned(1, 4)}")
    life.after(f"start 2; {LOOKS}")
    assert life.found() == [("deleted_record_resurrected", 2, "confirmed")]
    written = "".join(f"write -1 {2 + n} 7; " for n in range(records))
    life.after(f"usurp 3; {written}start 2; start 1; {LOOKS}", 2)
    assert life.found() == [("visibility_mismatch", -1, "confirmed")]
    life.world.settle()


ROLLED_BACK = "lead 1; write -1 1 3; write 0 1 {value}; sync; round; stop 3; {also}stop 2; end 0 {end}; round; "
TURNED = "write 0 3 5; end 0 {other}; start 2; " + LOOKS


@pytest.mark.parametrize(
    ("value", "end", "kind"),
    [(9, 0, "aborted_record_committed"), (-1, 1, "committed_record_aborted")],
    ids=["an ABORT was cut", "a COMMIT was cut"],
)
@pytest.mark.parametrize("also", ["", "wipe 1 1; "], ids=["the witness returns", "the witness is copied anew"])
def test_an_outcome_whose_end_marker_was_cut_accuses_nobody_and_has_not_spread(
    value: int, end: int, kind: str, also: str
) -> None:
    """2 was accused of another end than that of 1. 3, elected uncleanly, ends the transaction as 2 had."""
    begun = ROLLED_BACK.format(value=value, end=end, also="")
    life = Life().after(begun + cleaned(1, 7) + TURNED.format(other=1 - end))
    assert life.found() == [(kind, 2, "confirmed")]
    life.after(
        f"usurp 3; write -1 4 4; end 0 {1 - end}; write -1 2 7; write -1 3 7; start 2; {also}start 1; {LOOKS}", 3
    )
    assert {(kind, broker) for kind, broker, _ in life.found()} <= {("visibility_mismatch", -1)}
    life.world.settle()


def test_an_outcome_whose_end_marker_was_cut_has_not_spread_to_those_that_are_left() -> None:
    life = Life(four=True).after(ROLLED_BACK.format(value=9, end=0, also="stop 4; ") + cleaned(1, 7))
    life.after(TURNED.format(other=1))
    life.after("usurp 3; write 0 4 4; end 0 1; write -1 2 7; start 2; start 4; start 1; sync; round; tick 400; round")
    life.after("unassign 1; round; tick 400; round", 2)
    assert life.found() == []
    life.world.settle()


@pytest.mark.parametrize("away", [False, True], ids=["all are there", "one is away"])
def test_a_transaction_that_goes_on_in_the_log_that_is_left_has_not_ended_by_a_cut_marker(away: bool) -> None:
    """2 had missed the COMMIT, and was rightly accused. 3, elected uncleanly, never got it; the producer goes on."""
    begun = "lead 1; write -1 1 3; write 1 1 9; sync; round; stop 3; stop 2; end 1 1; write -1 1 10; round; "
    life = Life().after(f"{begun}{cleaned(1, 7)}start 2; sync; {LOOKS}", 1)
    assert life.found() == [("read_committed_frozen", 2, "confirmed")]
    life.after(f"usurp 3; tick 100; write 1 4 4; write -1 2 7; start 2; {'' if away else 'start 1; '}{LOOKS}", 2)
    assert [one for one in life.found() if one[2] == "spread"] == []
    life.after(f"{'start 1; ' if away else ''}{LOOKS}", 2)
    assert life.found() == []
    life.after("write 1 2 5; end 1 1; sync; round; write -1 1 77; write -1 3 78; sync; round; tick 400; round", 2)
    assert life.found() == []
    life.world.settle()


def test_who_never_got_the_first_record_of_a_transaction_is_no_witness_that_it_has_ended() -> None:
    """1 alone had begun it, and is elected uncleanly; 4, truncated to where its own first batch lay, gets the rest."""
    life = Life(four=True).after(
        "lead 1; write 2 0 104; stop 1; stop 4; write -1 90 47; write -1 90 28; tick 2001; write -1 90 71; sync; "
        "clean 2; round; start 4; sync; round; usurp 1; start 2; start 3; start 4; sync; round; tick 150; round; "
        "tick 400; round; tick 400; round; tick 400; round",
        1,
    )
    assert life.found() == []
    life.after("write 2 1 5; sync; tick 400; round; tick 400; round", 1)
    assert life.found() == []


def test_a_log_that_was_replaced_unnoticed_does_not_lack_what_it_shows() -> None:
    """The logs of 1 and 2 were cut, and grew to just where their readers stand; an audit suspects a key of them."""
    again = "tick 2001; write -1 90 1; sync; clean 3; "
    life = Life(four=True).after(
        "write 1 0 -1; sync; stop 4; stop 3; end 1; tick 200; write -1 90 46; write -1 90 99; sync; clean 1; "
        "tick 2001; write -1 90 85; clean 1; tick 2001; write -1 90 67; sync; clean 1; write 1 0 76536; end 1 1; "
        "start 4; sync; round; round; round"
    )
    life.after(
        "usurp 3; unassign 4; assign 4; sync; round; round; round; round; start 1; start 2; end 1; write 3 0 10322; "
        f"sync; stop 4; end 3 1; write -1 0 93037; {again * 3}start 4; sync; audit"
    )
    assert life.found() == [("read_committed_frozen", 4, "confirmed")]


@pytest.mark.parametrize("new", [1, 2, 3])
@pytest.mark.parametrize("restart", ["", "kill; "], ids=["goes on", "is restarted"])
def test_a_log_that_was_cut_and_has_grown_again_is_reported_once_and_where_it_was_cut(new: int, restart: str) -> None:
    """It is noticed twice: its end lies below the position, and at the next record its leader epochs begin below."""
    life = Life().after("lead 1; write -1 1 1; write -1 2 1; sync; stop 3; " + "write -1 3 3; " * 6 + "sync; round")
    life.after("usurp 3; " + "write -1 4 4; " * new + f"start 1; start 2; {LOOKS}; {restart}")
    for _ in range(2):
        found = [e for e in life.world.monitor.lifecycle.standing() if e.kind == "log_truncated"]
        assert sorted((e.broker, e.offset) for e in found) == [(1, 2), (2, 2)]
        life.after(f"write -1 4 6; {LOOKS}")
    life.world.settle()


def test_a_second_election_that_cuts_an_epoch_below_the_first_is_a_finding_of_its_own() -> None:
    """3 was away since offset 2 of the epoch, 2 since offset 4: each is elected, 2 before 3."""
    begun = "lead 1; write -1 1 1; write -1 2 1; sync; stop 3; write -1 3 3; write -1 3 4; sync; stop 2; "
    life = Life().after(begun + "write -1 1 5; write -1 1 6; sync; round; usurp 2; start 1; " + LOOKS)

    def cut() -> list[tuple[int, int]]:
        standing = life.world.monitor.lifecycle.standing()
        return sorted((e.broker, e.offset) for e in standing if e.kind == "log_truncated")

    assert cut() == [(1, 4)]
    life.after(
        f"usurp 3; write -1 4 4; start 1; start 2; {LOOKS}; write -1 4 5; write -1 4 6; write -1 4 7; {LOOKS}", 2
    )
    assert cut() == [(1, 2), (1, 4), (2, 2)]
    life.world.settle()


def test_a_log_is_truncated_though_an_older_one_took_its_place_before() -> None:
    """3 alone wrote epoch 4, and was read; 1 leads with its older tail; then 2 does, who has neither."""
    life = Life().after(
        "lead 1; write -1 1 1; sync; write -1 2 2; write -1 2 3; stop 1; stop 2; write -1 3 4; round; "
        "usurp 1; start 3; sync; round"
    )
    life.after(f"usurp 2; write -1 4 5; write -1 4 6; write -1 4 7; start 1; start 3; {LOOKS}")
    found = [e for e in life.world.monitor.lifecycle.standing() if e.kind == "log_truncated"]
    assert sorted((e.broker, e.offset) for e in found) == [(1, 1), (3, 1)]
    life.world.settle()


COPIED_FROM_FROZEN = "lead 2; sync; wipe 1 1; sync; wipe 3 1; sync; "
GOES_ON = f"write 0 3 5; {LOOKS}"


def _frozen_with_an_unread_end(*, four: bool = False, also: str = "") -> Life:
    """Cold: 2 lacks an ABORT that 1 and 3 have cleaned before anybody read it; a fourth has the first record alone."""
    aged = "".join(f"write -1 90 {n}; sync; clean 1; clean 3; tick 2001; " for n in range(6))
    life = Life(four=four).after(
        f"lead 1; write -1 4 4; {also}write 0 1 9; sync; {'stop 4; ' if four else ''}stop 2; end 0 0; sync; tick 5001; "
        f"{aged}"
        "start 2; sync; cold; round; tick 400; round; tick 400; round; tick 400; round"
    )
    assert life.found() == [("read_committed_frozen", 2, "confirmed")]
    return life


def test_a_suspect_that_was_cleared_is_not_found_to_have_spread_when_it_is_asked_about_again() -> None:
    """Its transaction goes on: nobody had proven that it has ended, and a restart proves nothing."""
    life = Life().after(
        "stop 2; stop 3; write -1 90 80; write -1 90 99; write -1 90 96; round; usurp 2; write -1 0 -1; "
        "write 1 0 81813; round; wipe 1 1; start 3; tick 200; write -1 90 54; sync; round; tick 2001; round"
    )
    assert life.found() == []
    life.after("kill; sync; tick 150; round; tick 150; round")
    assert life.found() == []


@pytest.mark.parametrize("end", [0, 1], ids=["aborted", "committed"])
def test_a_spread_freeze_is_over_once_nobody_holds_it_open_whatever_its_true_outcome(
    end: int,
) -> None:
    """Cold: 2 lacks an ABORT that 1 and 3 have cleaned, and which were copied from it; then it is ended by hand."""
    life = _frozen_with_an_unread_end(also="write -1 1 8; ").after(f"{COPIED_FROM_FROZEN}round; tick 400; round", 1)
    assert life.found() == [("read_committed_frozen", 2, "spread")]
    life.world.cluster.writers[0].open = True
    life.after(f"end 0 {end}; sync; {LOOKS}", 3)
    assert life.found() == [("read_committed_frozen", 2, "unsettled")]


@pytest.mark.parametrize("restart", ["", "kill; "], ids=["goes on", "is restarted"])
def test_a_freeze_that_has_spread_is_not_over_because_its_producer_writes_again(restart: str) -> None:
    """1 and 3 had cleaned an ABORT that nobody read, and are copies of 2, which lacks it."""
    life = _frozen_with_an_unread_end()
    life.after(f"{COPIED_FROM_FROZEN}round; tick 400; round", 1)
    assert life.found() == [("read_committed_frozen", 2, "spread")]
    life.after(restart + GOES_ON, 3)
    assert life.found() == [("read_committed_frozen", 2, "spread")]
    assert not [e for e in life.world.monitor.events if e.status == "resolved"]
    life.after(f"end 0 0; {LOOKS}", 3)
    assert life.found() == [("read_committed_frozen", 2, "unsettled")]


def test_a_freeze_that_all_copied_unseen_has_not_healed_when_its_producer_writes_again() -> None:
    life = _frozen_with_an_unread_end().after(f"{COPIED_FROM_FROZEN}{GOES_ON}", 3)
    assert "read_committed_frozen" in [kind for kind, _, status in life.found() if status in ("spread", "unsettled")]
    assert not [e for e in life.world.monitor.events if e.status == "resolved"]
    life.world.settle()


@pytest.mark.parametrize("seen", [True, False], ids=["seen to go on", "not seen to go on"])
def test_a_freeze_in_a_truncated_log_accuses_nobody_whether_or_not_it_was_seen_to_go_on(
    seen: bool,
) -> None:
    """4 never got the ABORT that 1 and 3 have cleaned, is elected uncleanly, and the producer goes on."""
    life = _frozen_with_an_unread_end(four=True)
    begun = "usurp 4; tick 100; write 0 4 4; write -1 2 7; start 2; start 1; start 3; "
    life.after(f"{begun}{LOOKS if seen else 'sync'}", 3 * seen)
    life.after(f"end 0 1; {LOOKS}", 3)
    assert life.found() == [("read_committed_frozen", 2, "unsettled")]
    again = "".join(f"write -1 {key} 6; " for key in (1, 4, 2, 90)) + "sync; clean 1; clean 2; clean 3; clean 4; "
    life.after(f"tick 2001; {again}round; tick 2001; {again}{LOOKS}", 3)
    assert life.found() == []
    life.world.settle()


@pytest.mark.parametrize("alone", [0, 16], ids=["of many", "by itself"])
@pytest.mark.parametrize(("value", "end"), [(9, 0), (-1, 1)], ids=["rolled back", "a deletion"])
def test_an_outcome_whose_end_marker_was_cut_is_no_finding_where_all_show_the_same(
    value: int, end: int, alone: int
) -> None:
    life = Life(alone=alone).after(
        ROLLED_BACK.format(value=value, end=end, also="") + cleaned(1, 7) + TURNED.format(other=1 - end)
    )
    life.after(
        f"usurp 3; write -1 4 4; end 0 {1 - end}; write -1 1 55; write -1 2 7; write -1 3 7; start 2; start 1; {LOOKS}",
        2,
    )
    assert life.found() == []


def test_who_holds_what_the_leader_holds_is_accused_no_more_while_its_witnesses_are_away() -> None:
    """1 had missed an ABORT, and 4, elected uncleanly, never had it: both hold the transaction open."""
    life = Life(four=True).after(
        "write 3 0 -1; sync; stop 1; stop 4; end 3; sync; tick 2001; write -1 90 30; clean 2; tick 2001; "
        "write -1 90 2; sync; clean 2; tick 2001; write -1 90 29; clean 2; write 3 1 68152; end 3 1; start 1; sync; "
        "round; round; round"
    )
    assert life.found() == [("aborted_record_committed", 1, "confirmed")]
    life.after(f"usurp 4; start 1; sync; {LOOKS}; {LOOKS}", 5)
    assert life.found() == [("read_committed_frozen", 1, "spread")]


@pytest.mark.parametrize("alone", [0, 16], ids=["of many", "by itself"])
def test_a_value_with_an_accused_is_not_also_an_outcome_without_direction(alone: int) -> None:
    """3 had lost its index, which explained that they differ; 1 missed the deletion of the same key."""
    life = Life(four=True, alone=alone).after(
        "lead 2; write -1 1 6; write 0 1 5; sync; end; sync; stop 3; unindex 3 9; start 3; stop 1; write -1 1 -1; "
        "sync; round; tick 200; write -1 90 67; clean 2; tick 2001; write -1 90 20; sync; clean 2; clean 3"
    )
    life.world.settle()
    assert life.found() == [("deleted_record_resurrected", 1, "confirmed")]
