"""Who led at the newest look at what an incident counts, and whether consumers of that leader meet it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.explain import explain
from parallax.findings.finding import Finding, showed_in
from parallax.findings.happenings import News
from parallax.findings.incident import tally_of
from parallax.findings.members import Members, State
from parallax.findings.who_led import NOT_KNOWN, WhoLed
from parallax.model import NOBODY, UNKNOWN, FindingStatus
from parallax.sides import parsed
from tests.builders.answers import NOTHING, answers, newest, replica, silent
from tests.unit.findings.floods import ALONE, DIFFERS, END, Flood, flood, healthy, lost, resurrected, values
from tests.unit.findings.lives import RECHECK_S


def under(leader: int, epoch: int = UNKNOWN) -> Callable[[Claim], Answers]:
    """Broker 2 shows a deleted value, while a broker leads."""
    return lambda claim: replace(resurrected(claim), leader=leader, leader_epoch=epoch)


def single(answering: Callable[[Claim], Answers]) -> Finding:
    """A finding about one key, as other jobs write it."""
    alone = Flood()
    alone.suspect(lost(1_000))
    (finding,) = alone.settle(answering).open
    return replace(finding, sequence=99)


class TestLooks:
    def test_of_a_lower_epoch_say_nothing_of_the_present_leader(self) -> None:
        assert WhoLed(1, 7).then(WhoLed(2, 6)) == WhoLed(1, 7)
        assert NOT_KNOWN.then(WhoLed(1, 7), WhoLed(2, 8), WhoLed(1, 6)) == WhoLed(2, 8)

    def test_come_in_their_order_where_no_epoch_is_known(self) -> None:
        assert WhoLed(1).then(WhoLed(2)) == WhoLed(2)

    def test_that_saw_nobody_change_nothing(self) -> None:
        assert WhoLed(1).then(NOT_KNOWN) == WhoLed(1)


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
def test_an_incident_that_is_made_of_single_findings_goes_by_who_led_at_the_newest_of_them(
    first: int, then: int
) -> None:
    life = Flood()
    for key in range(ALONE + 1):
        life.suspect(lost(key))
        life.settle(under(first if key < ALONE else then))
    (event,) = life.open
    assert event.is_incident
    singles = [e for e in life.table if not e.is_incident and e.status is FindingStatus.CONFIRMED]
    assert [e.exposed for e in singles] == [first == 2] * ALONE + [then == 2]
    assert event.exposed is (then == 2)
    assert ("If broker 2 becomes the leader" in event.summary) is (then == 1)
    assert WhoLed.of(event).leader == then


@pytest.mark.parametrize(("first", "then"), [(1, 3), (2, 3), (3, 2)])
def test_an_incident_that_takes_in_a_single_finding_goes_by_who_led_when_that_was_found(first: int, then: int) -> None:
    life = flood(range(100), under(first), at_once=100)
    life.do(News([single(under(then))]))
    life.wait(1.0)
    (event,) = life.open
    assert (life.counts, event.exposed) == ([101], then == 2)
    assert ("The leader shows it:" if then == 2 else f"Broker {then} leads:") in explain(event).now


def test_a_leader_of_before_is_not_said_to_have_shown_what_is_found_under_another_one() -> None:
    life = flood(range(100), under(3), at_once=100)
    life.do(News([single(under(2))]))
    life.wait(1.0)
    assert showed_in(life.open[0]) == {2}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_finding_of_an_earlier_epoch_tells_an_incident_nothing_of_its_leader(
    restarts: bool,
) -> None:
    early = single(under(2, epoch=6))
    assert early.exposed
    life = flood(range(100), under(3, epoch=7), at_once=100)
    life = life.restarted() if restarts else life
    life.do(News([early]))
    life.wait(1.0)
    (event,) = life.open
    assert (life.counts, event.exposed, WhoLed.of(event).leader) == ([101], False, 3)


def test_an_incident_goes_by_who_led_at_a_newer_look_at_another_one() -> None:
    life = flood(range(100), under(1, epoch=1), at_once=100)
    sides = parsed({"value": (2,), "none": (1, 3)})
    recorded = RecordedByViews(sides=sides, pivot=2)
    life.suspect(*(lost(key, DIFFERS, broker=NOBODY, recorded=recorded) for key in range(200, 300)))
    life.settle(lambda c: replace(values(newest(c.offset), NOTHING), leader=2, leader_epoch=2))
    assert [f.exposed for f in life.open] == [False, True]
    life.suspect(*map(lost, range(300, 500)))
    life.settle(under(1, epoch=1))
    grown = next(e for e in life.open if tally_of(e).count == 300)
    assert (grown.exposed, WhoLed.of(grown)) == (True, WhoLed(2, 2))


def test_an_incident_of_which_some_have_ended_goes_by_who_led_though_others_were_not_decided() -> None:
    life = flood(range(100), under(2, epoch=1), at_once=100)
    assert life.open[0].exposed

    def some_healed(claim: Claim) -> Answers:
        unknown = answers(replica(1, END, key=NOTHING), silent(2), replica(3, END, key=NOTHING))
        return replace(healthy(claim) if claim.key_hash_lo < 10 else unknown, leader=3, leader_epoch=2)

    for _ in range(3):
        life.after(RECHECK_S, some_healed)
    (event,) = life.open
    assert (life.counts, event.exposed) == ([90], False)
    assert "Broker 3 leads:" in explain(event).now


def test_an_incident_of_which_nothing_is_decided_says_nothing_new_of_the_leader() -> None:
    life = flood(range(100), under(2, epoch=1), at_once=100)
    unknown = answers(replica(1, END, key=NOTHING), silent(2), replica(3, END, key=NOTHING), leader=3, leader_epoch=2)
    for _ in range(3):
        life.after(RECHECK_S, lambda _: unknown)
    assert life.open[0].exposed
    assert len([e for e in life.table if e.is_incident]) == 1


def alike(*keys: int, leader: int, leader_epoch: int) -> Callable[[Claim], Answers]:
    """Broker 2 shows deleted values, and broker 3 some of them as well, while a broker leads."""

    def answer(claim: Claim) -> Answers:
        shown = values(newest(3), NOTHING)
        both = {**shown.replicas, 3: replica(3, END, key=newest(3))}
        found = both if claim.key_hash_lo in keys else shown.replicas
        return replace(shown, leader=leader, leader_epoch=leader_epoch, replicas=found)

    return answer


def test_an_incident_that_few_of_many_members_show_on_the_leader_is_exposed() -> None:
    """Not only those of which the answers are kept as examples."""
    (event,) = flood(range(100), alike(50, leader=3, leader_epoch=1), at_once=100).open
    assert event.exposed


def test_what_a_new_leader_shows_of_each_member_is_known_though_only_a_sample_was_asked_about() -> None:
    life = flood(range(300), alike(299, leader=1, leader_epoch=1), at_once=300)
    assert not life.open[0].exposed
    asked: list[int] = []

    def sample(claim: Claim) -> Answers:
        asked.append(claim.key_hash_lo)
        return alike(299, leader=3, leader_epoch=2)(claim)

    life.after(RECHECK_S, sample)
    assert asked
    assert 299 not in asked
    assert life.open[0].exposed


def test_all_members_are_asked_about_once_another_broker_shows_one_of_a_sample() -> None:
    life = flood(range(300), alike(leader=1, leader_epoch=1), at_once=300)
    asked: set[int] = set()

    def copied(claim: Claim) -> Answers:
        asked.add(claim.key_hash_lo)
        return alike(*range(300), leader=1, leader_epoch=1)(claim)

    life.after(RECHECK_S, copied)
    assert len(asked) == 300


def test_a_broker_that_does_not_answer_shows_what_it_showed() -> None:
    members = Members(lost(1).place)
    members.add([lost(1)])
    looks = [(frozenset({2, 3}), frozenset[int]()), (frozenset({2}), frozenset({3, 4})), (frozenset({2}), frozenset())]
    assert [members.see(0, *look) for look in looks] == [False, False, True]
    assert members.meeting(members.are(State.NEW)) == (frozenset({2}), True)


def test_of_a_member_that_was_not_looked_at_nothing_is_known() -> None:
    members = Members(lost(1).place)
    members.add([lost(1), lost(2)])
    members.see(0, frozenset({3}))
    assert members.meeting(members.are(State.NEW)) == (frozenset({3}), False)
    members.add([lost(1)])
    assert members.meeting(members.are(State.NEW)) == (frozenset({3}), False), "it is the same member"
