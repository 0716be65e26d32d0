"""A member of an incident counts where, and as what, the last probe of it says."""

from __future__ import annotations

from dataclasses import replace

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.finding import evidence_of
from parallax.findings.groups import group_of_claim
from parallax.findings.incident import counted, is_led, tally_of
from parallax.findings.members import Members, State
from parallax.model import NOBODY, FindingKind, FindingStatus, Rule
from tests.builders.answers import answers, newest, record, replica
from tests.unit.findings.floods import END, RESURRECTED, Flood, flood, healthy, lost
from tests.unit.findings.lives import RECHECK_S
from tests.unit.findings.transactions import Answering, missed, shows
from tests.unit.findings.transactions import flood as flood_of_transactions


def left(_: Claim) -> Answers:
    """Broker 2 holds no replica any more. The others were copied from it, and show what it showed."""
    shown = (replica(broker, END, key=newest(3)) for broker in (1, 3))
    return answers(*shown, gone="broker 2 holds no replica of orders-0 any more", pivot=1)


def on_all(_: Claim) -> Answers:
    return answers(*(replica(broker, END, key=newest(3)) for broker in (1, 3)))


def rounds(life: Flood, answering: Answering, times: int = 4) -> Flood:
    for _ in range(times):
        life.after(RECHECK_S, answering)
    return life


def said(life: Flood) -> list[tuple[FindingKind, int, FindingStatus, int]]:
    return [(f.kind, f.broker, f.status, tally_of(f).count) for f in life.open]


class TestOfAnAccusedThatIsGone:
    def test_are_an_incident_of_the_one_that_was_asked_in_its_place(self) -> None:
        life = rounds(flood(range(40)), left)
        assert said(life) == [(RESURRECTED, 1, FindingStatus.SPREAD, 40)]
        (before,) = (e for e in life.table if e.broker == 2 and e.status is FindingStatus.RESOLVED)
        assert evidence_of(before)["resolution"] == "explained"

    def test_stay_one_however_few_they_are_and_after_a_restart(self) -> None:
        life = flood(range(40))
        rounds(life, lambda claim: left(claim) if claim.key_hash_lo < 3 else healthy(claim))
        assert said(life) == [(RESURRECTED, 1, FindingStatus.SPREAD, 3)]
        after = rounds(life.restarted(), on_all)
        assert said(after) == [(RESURRECTED, 1, FindingStatus.SPREAD, 3)]
        assert rounds(after, healthy).open == []


def test_one_that_has_spread_is_met_on_the_leader_whatever_others_of_its_incident_are() -> None:
    members = Members(lost(1).place)
    members.add([lost(1)], State.WRONG)
    group = group_of_claim(lost(1))
    assert not is_led(counted(group, members), shows=False)
    members.add([lost(2)], State.SPREAD)
    tally = counted(group, members)
    assert (tally.count, tally.status) == (2, FindingStatus.CONFIRMED)
    assert is_led(tally, shows=False)


class TestOfWhichNothingProvesTheDirectionAnyMore:
    def by_others(self, claim: Claim) -> Answers:
        others = {b: shows(b, claim, "aborted", "abort") for b in (1, 3)}
        return Answers(others | {2: shows(2, claim, "committed", None)}, leader=1)

    def truncated(self, claim: Claim) -> Answers:
        """Another record lies where the end marker was: it was truncated. The outcomes differ still."""
        of_another = {claim.marker_offset: record(claim.marker_offset, producer_id=claim.producer_id + 1)}
        shown = {b: shows(b, claim, "committed" if b == 2 else "aborted", None) for b in (1, 2, 3)}
        return Answers({b: replace(one, uncommitted=of_another) for b, one in shown.items()}, leader=1)

    def test_are_an_incident_that_accuses_nobody(self) -> None:
        life = flood_of_transactions(40, self.by_others, missed)
        assert [f.broker for f in life.open] == [2]
        rounds(life, self.truncated)
        assert [(f.kind, f.broker, f.rule) for f in life.open] == [
            (FindingKind.VISIBILITY_MISMATCH, NOBODY, Rule.OUTCOME)
        ]
        assert life.counts == [40]
