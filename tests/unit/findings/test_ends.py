"""What ends a finding, or a suspect, and what does not: another topic of the name, a replica that is taken off."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from parallax.compare.observations import topic_id_code
from parallax.findings import ended
from parallax.findings.answers import Answers, KeyShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.finding import Finding, claim_of, evidence_of, was_explained
from parallax.findings.happenings import News
from parallax.findings.incident import tally_of
from parallax.findings.ledger import FindingLedger
from parallax.findings.questions import ProbeReading, driven, questions
from parallax.findings.requests import Ask, Where, Whereabouts
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.sides import parsed
from tests.builders.answers import NOTHING, newest, record, replica, silent
from tests.builders.claims import KEY, claim, of_key
from tests.unit.findings.floods import Flood, lost, resurrected
from tests.unit.findings.lives import RECHECK_S, Answering, Life, value

OLD, NEW = "of the topic that was", "of the topic that is"
UNLIKE = RecordedByViews(sides=parsed({"value at offset 12": (1, 2), "no value at offset 12": (3,)}), pivot=1)
UNDIRECTED = of_key(FindingKind.VISIBILITY_MISMATCH, "n", broker=NOBODY, offset=12, recorded=UNLIKE)


def holding(offset: int, size: int = 5) -> KeyShown:
    """The key's newest record is at an offset."""
    return KeyShown(RecordShown(offset, "none", value_size=size, key_hash=f"{KEY:032x}"), True, offset)


def values(leader: int = 3, **shown: KeyShown) -> Answers:
    """What each broker shows of the key: ``b2=NOTHING``."""
    made = {}
    for name, key in shown.items():
        seen = key.visible
        held = {} if seen is None else {seen.offset: seen}
        broker = int(name.removeprefix("b"))
        made[broker] = replica(broker, key=key, committed=held, asked=frozenset(range(100)), stable_after=100)
    return Answers(made, leader=leader, isr=tuple(made))


def by(where: Whereabouts, showing: Callable[[], Answers]) -> Answering:
    """A probe of a partition that is where the metadata say, as `questions` asks it."""

    def answer(claim: Claim) -> Answers:
        gone, pivot = where.gone_for(claim), where.pivot_of(claim)
        if gone is not None and pivot == claim.pivot:
            return Answers({}, gone=gone)
        return replace(showing(), gone=gone, pivot=NOBODY if pivot == claim.pivot else pivot)

    return answer


def at(*replicas: int, topic_id: str = "") -> Whereabouts:
    return Whereabouts(replicas, replicas, replicas[-1], topic_id)


def ended_as(event: Finding) -> tuple[FindingStatus, str]:
    return event.status, evidence_of(event)["resolution"]


class TestATopicThatWasReCreatedUnderItsName:
    """All replicas of the new topic hold the same."""

    def test_is_not_accused_by_a_finding_on_the_one_before(self) -> None:
        recorded = RecordedByViews(topic_id=str(topic_id_code(OLD)))
        life = Life().confirmed(
            value(recorded=recorded), answering=lambda _: values(1, b1=NOTHING, b2=holding(3), b3=NOTHING)
        )
        assert claim_of(life.last).recorded.topic_id == recorded.topic_id
        same = by(at(1, 2, 3, topic_id=NEW), lambda: values(1, b1=holding(3), b2=holding(3), b3=holding(3)))
        life.until_asked(same)
        assert life.statuses == ["confirmed"], "asked once more"
        life.until_asked(same)
        assert ended_as(life.last) == (FindingStatus.RESOLVED, "object_gone")
        assert "was deleted and re-created" in life.last.summary
        for _ in range(3):
            life.until_asked(same)
        assert life.machine.standing() == []

    def test_is_not_accused_by_a_suspect_on_the_one_before(self) -> None:
        life = Life()
        life.suspect(value(recorded=RecordedByViews(topic_id=str(topic_id_code(OLD)))))
        away = replace(values(b2=holding(3), b3=holding(3)), isr=(2, 3))
        away = replace(away, replicas={1: silent(1), **away.replicas})
        life.answer(by(at(1, 2, 3, topic_id=NEW), lambda: away))
        life.until_asked(by(at(1, 2, 3, topic_id=NEW), lambda: away))
        assert life.statuses == ["dismissed"]

    def test_has_none_of_a_difference_without_direction_of_the_one_before(self) -> None:
        recorded = replace(UNLIKE, topic_id=str(topic_id_code(OLD)))
        life = Life().confirmed(
            replace(UNDIRECTED, recorded=recorded),
            answering=lambda _: values(b1=holding(12), b2=holding(12), b3=NOTHING),
        )
        for _ in range(2):
            life.until_asked(by(at(1, 2, 3, topic_id=NEW), lambda: values(b1=NOTHING, b2=NOTHING, b3=NOTHING)))
        assert ended_as(life.last) == (FindingStatus.RESOLVED, "object_gone")

    @pytest.mark.parametrize(("read", "now"), [("", NEW), (OLD, OLD), (OLD, "")])
    def test_is_another_only_where_both_ids_are_known(self, read: str, now: str) -> None:
        recorded = RecordedByViews(topic_id=str(topic_id_code(read)) if read else "")
        assert at(1, 2, 3, topic_id=now).gone_for(value(recorded=recorded)) is None

    def test_ends_the_members_of_an_incident_though_others_of_its_group_are_of_the_new_topic(self) -> None:
        def of(topic: str, key: int) -> Claim:
            return lost(key, recorded=RecordedByViews(topic_id=str(topic_id_code(topic))))

        def asked(claim: Claim) -> Answers:
            gone = at(1, 2, 3, topic_id=NEW).gone_for(claim)
            return resurrected(claim) if gone is None else Answers({}, gone=gone)

        life = Flood()
        life.suspect(*(of(OLD, key) for key in range(40)))
        life.settle(resurrected)
        life.suspect(*(of(NEW, key) for key in range(40, 70)))
        life.settle(resurrected)
        for _ in range(4):
            life.after(RECHECK_S, asked)
        assert life.counts == [30]

    def test_is_accused_by_its_own_suspect_where_a_finding_is_open_on_the_one_before(self) -> None:
        def of(topic: str) -> Claim:
            recorded = replace(UNLIKE, topic_id=str(topic_id_code(topic)))
            return replace(UNDIRECTED, suspect_id=topic, recorded=recorded)

        def differing(topic: str) -> Answering:
            return by(at(1, 2, 3, topic_id=topic), lambda: values(b1=holding(12), b2=holding(12), b3=NOTHING))

        life = Life().confirmed(of(OLD), answering=differing(OLD))
        life.suspect(of(NEW))
        for _ in range(12):
            life.until_asked(differing(NEW))
        assert [stands.suspect_id for stands in life.machine.standing()] == [NEW]


class TestOfAPartitionThatLosesTheReplica:
    def test_that_was_accused_first_a_loss_that_has_spread_stands(self) -> None:
        life = Life().confirmed(value(), answering=lambda _: values(b1=NOTHING, b2=holding(3), b3=NOTHING))
        life.until_asked(lambda _: values(b1=holding(3), b2=holding(3), b3=holding(3)))
        assert life.last.status is FindingStatus.SPREAD
        for replicas in ((1, 3, 4), (1, 3, 4), (1, 2, 3)):
            life.until_asked(by(at(*replicas), lambda r=replicas: values(**{f"b{b}": holding(3) for b in r})))
        assert [f.status for f in life.machine.standing()] == [FindingStatus.SPREAD]
        for _ in range(2):
            life.until_asked(by(at(1, 3, 4), lambda: values(b1=holding(20), b3=holding(20), b4=holding(20))))
        assert ended_as(life.last) == (FindingStatus.RESOLVED, "superseded")

    def test_that_a_finding_accuses_alone_it_ends(self) -> None:
        life = Life().confirmed(value(), answering=lambda _: values(b1=NOTHING, b2=holding(3), b3=NOTHING))
        for _ in range(2):
            life.until_asked(by(at(1, 3, 4), lambda: values(b1=NOTHING, b3=NOTHING, b4=NOTHING)))
        assert ended_as(life.last) == (FindingStatus.RESOLVED, "object_gone")

    def test_that_a_finding_accuses_it_suspects_those_left_if_none_comes_to_its_proof(
        self,
    ) -> None:
        life = Life().confirmed(value(), answering=lambda _: values(b1=NOTHING, b2=holding(3), b3=NOTHING))

        def left(stops_at: int, **shown: KeyShown) -> Answering:
            held = values(**shown)
            stopped = {b: replace(a, last_stable_offset=stops_at) for b, a in held.replicas.items()}
            return by(at(*stopped), lambda: replace(held, replicas=stopped))

        for _ in range(2):
            life.until_asked(left(10, b1=NOTHING, b3=NOTHING))
        assert ended_as(life.last) == (FindingStatus.RESOLVED, "object_gone")
        assert evidence_of(life.last)["shown_by"] == [1, 3]
        for _ in range(3):
            life.until_asked(left(10, b1=NOTHING, b3=NOTHING))
        assert sum(life.machine.status().pending.values()) == 2
        for _ in range(3):
            life.until_asked(left(100, b3=holding(3)))
        (stands,) = life.machine.standing()
        assert (stands.broker, stands.kind, stands.status) == (3, value().kind, FindingStatus.SPREAD)

    def test_that_a_finding_accuses_stays_lost_if_all_others_were_copied_from_it_meanwhile(self) -> None:
        life = Life().confirmed(value(), answering=lambda _: values(b1=NOTHING, b2=holding(3), b3=NOTHING))
        for _ in range(3):
            life.until_asked(by(at(1, 3, 4), lambda: values(b1=holding(3), b3=holding(3), b4=holding(3))))
        assert life.statuses == ["confirmed", "spread"]

    def test_that_was_asked_last_a_difference_of_the_others_stands(self) -> None:
        life = Life().confirmed(UNDIRECTED, answering=lambda _: values(b1=holding(12), b2=holding(12), b3=NOTHING))
        left = by(at(2, 3, 4), lambda: values(b2=holding(12), b3=NOTHING, b4=NOTHING))
        for _ in range(3):
            life.until_asked(left)
        (stands,) = life.machine.standing()
        assert (stands.status, stands.broker) == (FindingStatus.CONFIRMED, NOBODY)
        assert evidence_of(stands)["sides"] == {"no value": [3, 4], "value at offset 12": [2]}
        assert claim_of(stands).pivot == 2

    def test_that_was_asked_last_and_alone_on_its_side_what_it_showed_may_be_lost(self) -> None:
        recorded = replace(UNLIKE, sides=parsed({"value at offset 12": (1,), "no value at offset 12": (2, 3)}))
        life = Life().confirmed(
            replace(UNDIRECTED, recorded=recorded), answering=lambda _: values(b1=holding(12), b2=NOTHING, b3=NOTHING)
        )
        for _ in range(3):
            life.until_asked(by(at(2, 3, 4), lambda: values(b2=NOTHING, b3=NOTHING, b4=NOTHING)))
        assert [f.status for f in life.machine.standing()] == [FindingStatus.UNSETTLED]

    def test_that_would_be_asked_last_a_suspect_is_proven_on_the_others(self) -> None:
        life = Life()
        life.suspect(UNDIRECTED)
        life.answer(by(at(2, 3, 4), lambda: values(b2=holding(12), b3=NOTHING, b4=NOTHING)))
        assert [(f.status, f.broker) for f in life.table] == [(FindingStatus.CONFIRMED, NOBODY)]

    @pytest.mark.parametrize(
        ("where", "pivot"),
        [
            (Whereabouts((1, 2, 3), (2, 3), 3), 1),
            (Whereabouts((2, 3, 4), (2, 3, 4), 3), 2),
            (Whereabouts((2, 3, 4), (3, 4), 3), 3),
            (Whereabouts((3, 4), (3, 4), 4), 3),
            (Whereabouts((4, 5), (5,), 5), 5),
        ],
    )
    def test_one_is_asked_in_its_place_that_answers_and_stood_beside_it(self, where: Whereabouts, pivot: int) -> None:
        assert where.pivot_of(UNDIRECTED) == pivot

    def test_claims_with_one_pivot_are_asked_of_replicas_of_their_own_once_it_is_gone(self) -> None:
        last: list[int] = []

        def answer(question: Any) -> Any:
            if isinstance(question, Where):
                return at(2, 3, 4)
            assert isinstance(question, Ask)
            last.extend(question.brokers[:1] if len(question.brokers) == 1 else ())
            return {b: ProbeReading(replica(b)) for b in question.brokers}

        accusing = replace(value("gone"), broker=1, key_hash_lo=6)
        other = replace(UNLIKE, sides=parsed({"value at offset 12": (1, 3), "no value at offset 12": (2,)}))
        beside = replace(UNDIRECTED, suspect_id="beside", recorded=other)
        spread = replace(accusing, suspect_id="spread", spread=True)
        got = driven(questions([accusing, UNDIRECTED, beside, spread], 0), answer)
        assert [answers.gone is not None for answers in got] == [True, False, False, False]
        assert [answers.pivot for answers in got] == [NOBODY, 2, 3, 2]
        assert last == [2, 3]


class TestAReplicaThatIsRightAgainWhileAnotherIsNot:
    """2 showed a value that was deleted, and 1 has been copied from it since."""

    def copied(self) -> Life:
        life = Life().confirmed(value(), answering=lambda _: values(b1=NOTHING, b2=holding(3), b3=NOTHING))
        life.until_asked(lambda _: values(b1=holding(3), b2=holding(3), b3=NOTHING))
        return life

    def stands(self, life: Life) -> list[tuple[int, FindingKind]]:
        return [(f.broker, f.kind) for f in life.machine.standing()]

    def test_is_accused_no_more_and_the_other_is_judged_by_itself(self) -> None:
        life = self.copied()
        for _ in range(2):
            life.until_asked(lambda _: values(b1=holding(3), b2=NOTHING, b3=NOTHING))
        assert self.stands(life) == [(1, FindingKind.DELETED_RECORD_RESURRECTED)]
        assert evidence_of(life.last)["sides"] == {"no value": [2, 3], "value at offset 3": [1]}
        life = life.restarted()
        assert self.stands(life) == [(1, FindingKind.DELETED_RECORD_RESURRECTED)]
        life.until_asked(lambda _: values(b1=NOTHING, b2=NOTHING, b3=NOTHING))
        assert ended_as(life.last) == (FindingStatus.RESOLVED, "healed")
        for _ in range(20):
            life.until_asked(lambda _: values(b1=NOTHING, b2=NOTHING, b3=NOTHING))
        assert len(life.table) == 5

    def test_is_so_though_the_job_ends_before_the_other_was_judged(self) -> None:
        life = self.copied()
        while life.last.status is not FindingStatus.RESOLVED:
            life.until_asked(lambda _: values(b1=holding(3), b2=NOTHING, b3=NOTHING))
        life = life.restarted()
        assert self.stands(life) == []
        assert sum(life.machine.status().pending.values()) == 1
        life.until_asked(lambda _: values(b1=holding(3), b2=NOTHING, b3=NOTHING))
        assert self.stands(life) == [(1, FindingKind.DELETED_RECORD_RESURRECTED)]
        assert not life.restarted().machine.status().pending

    def test_is_so_though_that_one_was_away_when_it_came_to_be_right(self) -> None:
        life = self.copied()
        away = values(b2=NOTHING, b3=NOTHING)
        away = replace(away, replicas={1: silent(1), **away.replicas})
        for _ in range(3):
            life.until_asked(lambda _: away)
        assert sum(life.machine.status().pending.values()) == 1
        for _ in range(3):
            life.until_asked(lambda _: values(b1=holding(3), b2=NOTHING, b3=NOTHING))
        assert self.stands(life) == [(1, FindingKind.DELETED_RECORD_RESURRECTED)]

    def test_is_so_though_its_log_was_not_read_through_when_the_accused_came_to_be_right(self) -> None:
        life = self.copied()
        scanned = KeyShown(None, False, complete_from=50)
        for _ in range(3):
            life.until_asked(lambda _: values(b1=scanned, b2=NOTHING, b3=NOTHING))
        for _ in range(3):
            life.until_asked(lambda _: values(b1=holding(3), b2=NOTHING, b3=NOTHING))
        assert self.stands(life) == [(1, FindingKind.DELETED_RECORD_RESURRECTED)]

    def test_or_that_is_gone_leaves_the_other_to_be_judged(self) -> None:
        life = self.copied()
        for _ in range(4):
            life.until_asked(by(at(1, 3), lambda: values(b1=holding(3), b3=NOTHING)))
        assert self.stands(life) == [(1, FindingKind.DELETED_RECORD_RESURRECTED)]

    def test_leaves_nothing_where_the_other_was_put_right_as_well(self) -> None:
        life = self.copied()
        for _ in range(4):
            life.until_asked(lambda _: values(b1=NOTHING, b2=NOTHING, b3=NOTHING))
        assert life.statuses == ["confirmed", "confirmed", "resolved"]

    def test_leaves_no_second_finding_where_the_other_was_suspected_of_the_same(self) -> None:
        life = self.copied()
        life.suspect(replace(value("w"), broker=1))
        for _ in range(6):
            life.until_asked(lambda _: values(b1=holding(3), b2=NOTHING, b3=NOTHING))
        assert self.stands(life) == [(1, FindingKind.DELETED_RECORD_RESURRECTED)]

    def test_leaves_many_where_it_was_an_incident(self) -> None:
        keys = range(5, 25)
        life = Flood()
        life.suspect(
            *[replace(TestADifferenceThatWasExplained.accusing, suspect_id=f"G{k}", key_hash_lo=k) for k in keys]
        )
        life.settle(lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=holding(5)))
        for _ in range(4):
            life.after(RECHECK_S, lambda _: values(2, b1=holding(5), b2=NOTHING, b3=holding(5)))
        assert [(f.broker, tally_of(f).count) for f in life.machine.standing()] == [(3, 20)]
        for _ in range(4):
            life.after(RECHECK_S, lambda _: values(2, b1=holding(5), b2=NOTHING, b3=NOTHING))
        assert [(f.broker, tally_of(f).count) for f in life.machine.standing()] == [(1, 20)]


class TestADifferenceThatWasExplained:
    """K: 1 shows W@12, 2 nothing, 3 V@5, which was deleted at 8: 3 is accused, and of 1 and 2 nothing is proven."""

    accusing = of_key(FindingKind.DELETED_RECORD_RESURRECTED, "G", broker=3, offset=8)
    undirected = replace(
        UNDIRECTED,
        suspect_id="F",
        recorded=replace(UNLIKE, sides=parsed({"value at offset 12": (1,), "no value at offset 12": (2, 3)})),
    )

    def reported(self, first: KeyShown) -> Life:
        life = Life()
        life.suspect(self.accusing, self.undirected)
        life.answer(lambda _: values(2, b1=first, b2=NOTHING, b3=holding(5)))
        for _ in range(8):
            life.until_asked(lambda _: values(2, b1=first, b2=NOTHING, b3=holding(5)))
        assert {(f.suspect_id, f.broker) for f in life.machine.standing()} == {("F", NOBODY), ("G", 3)}
        return life

    def asked(self, life: Life, **shown: KeyShown) -> list[Finding]:
        for _ in range(30):
            life.until_asked(lambda _: values(2, **shown))
        return life.machine.standing()

    def test_is_open_again_once_what_explained_a_part_of_it_has_ended(self) -> None:
        life = self.reported(holding(12))
        assert [f.suspect_id for f in self.asked(life, b1=NOTHING, b2=NOTHING, b3=holding(5))] == ["G"]
        explained = next(e for e in reversed(life.table) if e.suspect_id == "F")
        assert was_explained(explained)
        life = life.restarted()
        (stands,) = self.asked(life, b1=NOTHING, b2=NOTHING, b3=NOTHING)
        assert (stands.suspect_id, stands.status) == ("F", FindingStatus.UNSETTLED)

    def test_is_looked_at_once_more_though_the_job_was_down_for_days_when_that_had_ended(self) -> None:
        life = self.reported(holding(12))
        self.asked(life, b1=NOTHING, b2=NOTHING, b3=holding(5))
        while life.machine.standing():
            life.until_asked(lambda c: values(2, b1=NOTHING, b2=NOTHING, b3=NOTHING if c.broker == 3 else holding(5)))
        life = life.restarted(25 * 3600)
        (stands,) = self.asked(life, b1=NOTHING, b2=NOTHING, b3=NOTHING)
        assert (stands.suspect_id, stands.status) == ("F", FindingStatus.UNSETTLED)
        much_later = life.now + 31 * 86400
        assert Life(life.table[:-1], much_later).machine.next_due(much_later) is None

    def test_is_looked_at_as_long_as_an_incident_stands_that_explains_a_part_of_it(self) -> None:
        accusing = [replace(self.accusing, suspect_id=f"G{key}", key_hash_lo=key) for key in range(5, 25)]
        life = Flood()
        life.suspect(*accusing)
        life.settle(lambda _: values(2, b1=holding(12), b2=NOTHING, b3=holding(5)))
        life.suspect(self.undirected)
        for _ in range(4):
            life.after(RECHECK_S, lambda _: values(2, b1=holding(12), b2=NOTHING, b3=holding(5)))
        assert {f.broker for f in life.machine.standing()} == {NOBODY, 3}
        for hours in (1, 1, 25, 1):
            life.after(hours * 3600, lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=holding(5)))
        (stands,) = life.machine.standing()
        assert stands.is_incident
        for _ in range(40):
            life.after(RECHECK_S, lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=NOTHING))
        (stands,) = life.machine.standing()
        assert (stands.suspect_id, stands.status) == ("F", FindingStatus.UNSETTLED)

    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("hours", [0, 30])
    def test_and_that_an_incident_counts_counts_again_once_the_explaining_incident_has_ended(
        self, hours: int, restarted: bool
    ) -> None:
        keys = range(5, 25)
        accusing = [replace(self.accusing, suspect_id=f"G{key}", key_hash_lo=key) for key in keys]
        undirected = [replace(self.undirected, suspect_id=f"F{key}", key_hash_lo=key) for key in keys]
        life = Flood()
        life.suspect(*accusing)
        life.settle(lambda _: values(2, b1=holding(12), b2=NOTHING, b3=holding(5)))
        life.suspect(*undirected)
        for _ in range(4):
            life.after(RECHECK_S, lambda _: values(2, b1=holding(12), b2=NOTHING, b3=holding(5)))
        assert {(f.broker, f.is_incident) for f in life.machine.standing()} == {(NOBODY, True), (3, True)}
        for _ in range(4):
            life.after(RECHECK_S, lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=holding(5)))
        (stands,) = life.machine.standing()
        assert (stands.broker, tally_of(stands).count) == (3, 20), "one cause, one finding"
        life.after(hours * 3600, lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=holding(5)))
        if restarted:
            life = life.restarted()
        for _ in range(40):
            life.after(RECHECK_S, lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=NOTHING))
        (stands,) = life.machine.standing()
        assert (stands.broker, stands.status) == (NOBODY, FindingStatus.UNSETTLED)
        assert tally_of(stands).count == 20

    def test_stays_over_where_what_explained_it_said_all_of_it(self) -> None:
        two_sides = RecordedByViews(sides=parsed({"value at offset 5": (3,), "no value at offset 5": (1, 2)}), pivot=3)
        life = Life().confirmed(
            replace(self.undirected, offset=5, recorded=two_sides),
            answering=lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=holding(5)),
        )
        assert [f.broker for f in life.machine.standing()] == [NOBODY]
        life.suspect(self.accusing)
        life.answer(lambda _: values(2, b1=NOTHING, b2=NOTHING, b3=holding(5)))
        assert [f.suspect_id for f in self.asked(life, b1=NOTHING, b2=NOTHING, b3=holding(5))] == ["G"]
        assert self.asked(life, b1=NOTHING, b2=NOTHING, b3=NOTHING) == []


class TestADifferenceThatAnEndLeaves:
    """2 showed a deleted value of a key; it ends as 1 and 2 show a newer record, which 3 lacks."""

    accusing = replace(TestADifferenceThatWasExplained.accusing, suspect_id="f", broker=2, offset=70)

    def left(self, life: Life) -> Life:
        life.suspect(self.accusing)
        life.answer(lambda _: values(b1=NOTHING, b2=holding(60), b3=NOTHING))
        while life.table[-1].suspect_id != "f" or life.table[-1].stands:
            life.until_asked(lambda _: self.now)
        away = {b: silent(b) for b in (1, 2)}
        for _ in range(3):
            life.until_asked(lambda _: replace(self.now, replicas={**self.now.replicas, **away}))
        assert sum(life.machine.status().pending.values()) == 1, "it waits"
        return life

    @property
    def now(self) -> Answers:
        return values(b1=holding(80), b2=holding(80), b3=NOTHING)

    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("days", [None, 4])
    def test_is_judged_though_another_of_the_key_was_over_long_before(self, days: int | None, restarted: bool) -> None:
        life = Life()
        if days is not None:
            was = replace(UNDIRECTED, suspect_id="was")
            life = life.confirmed(was, answering=lambda _: values(b1=holding(12), b2=holding(12), b3=NOTHING))
            evidence = json.dumps(evidence_of(life.last) | {"resolution": "superseded"})
            ended = replace(life.last, status=FindingStatus.RESOLVED, evidence=evidence, sequence=2)
            life.table.append(ended)
            life.do(News([ended]))
            for _ in range(days):
                life.wait(86400)
                life.answer(lambda _: values(b1=holding(60), b2=holding(60), b3=holding(60)))
        life = self.left(life)
        if restarted:
            life = life.restarted()
        for _ in range(40):
            life.until_asked(lambda _: self.now)
        (stands,) = life.machine.standing()
        assert (stands.kind, stands.broker, stands.offset) == (FindingKind.VISIBILITY_MISMATCH, NOBODY, 80)

    def test_is_one_with_a_suspect_on_another_record_of_the_key_that_shows_the_same(self) -> None:
        life = Life()
        life.suspect(self.accusing)
        life.answer(lambda _: values(b1=NOTHING, b2=holding(60), b3=NOTHING))
        away = replace(self.now, replicas={**self.now.replicas, 3: silent(3)})
        sides = {"value at offset 80": (1, 2), "no value at offset 80": (3,)}
        other = replace(UNDIRECTED, suspect_id="other", offset=75, recorded=RecordedByViews(sides=sides, pivot=1))
        life.suspect(other)
        life.answer(lambda _: away)
        for _ in range(40):
            life.until_asked(lambda _: self.now)
        (stands,) = life.machine.standing()
        assert (stands.kind, stands.broker) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)


class TestAnOutcomeOfATransactionOfOneKey:
    """2 has rolled back what was committed, or committed what was rolled back, as all others did not."""

    def claim(self, kind: FindingKind, number: int = 0) -> Claim:
        right, wrong = (
            ("committed", "aborted") if kind is FindingKind.COMMITTED_RECORD_ABORTED else ("aborted", "committed")
        )
        marker = "commit" if right == "committed" else "abort"
        first = 20 + 3 * number
        return claim(
            kind,
            f"t-{number}",
            offset=first,
            transaction_start_offset=first,
            marker_offset=first + 1,
            key_hash_lo=number + 1,
            raised_at_ms=10**12,
            recorded=RecordedByViews(outcomes={1: right, 2: wrong, 3: right}, markers={1: marker, 3: marker}),
        )

    def shown(self, claim: Claim, broker: int, outcome: str | None, key: KeyShown, size: int = 5) -> ReplicaAnswer:
        record = RecordShown(claim.offset, outcome or "", producer_id=7, value_size=size, key_hash=claim.key_text)
        held = {} if outcome is None else {claim.offset: record}
        return replica(broker, committed=held, asked=frozenset({claim.offset}), key=key, stable_after=100)

    def probe(self, *shown: tuple[str | None, KeyShown], size: int = 5) -> Answering:
        def answer(claim: Claim) -> Answers:
            of = replace(claim, offset=claim.transaction_start_offset) if claim.producer_id == 7 else claim
            all_shown = {b: self.shown(of, b, *one, size) for b, one in enumerate(shown, start=1)}
            return Answers(all_shown, leader=1, isr=(1, 2, 3))

        return answer

    @pytest.mark.parametrize("count", [1, 20])
    def test_is_unsettled_once_the_value_that_it_has_cost_is_gone_from_all(self, count: int) -> None:
        def whole(claim: Claim) -> Answers:
            value = record(claim.offset, "committed", key_hash=claim.key_text)
            right = "committed", KeyShown(value, True, claim.offset)
            return self.probe(right, ("aborted", NOTHING), right)(claim)

        def cleaned(claim: Claim) -> Answers:
            given = whole(claim)
            return replace(given, replicas={**given.replicas, 2: self.shown(claim, 2, None, NOTHING)})

        life = Flood()
        life.suspect(*[self.claim(FindingKind.COMMITTED_RECORD_ABORTED, n) for n in range(count)])
        life.settle(whole)
        for answering in (whole, cleaned, cleaned, self.probe((None, NOTHING), (None, NOTHING), (None, NOTHING))):
            for _ in range(2):
                life.after(RECHECK_S, answering)
        (stands,) = life.machine.standing()
        assert (stands.broker, stands.status, stands.is_incident) == (2, FindingStatus.UNSETTLED, count > 1)

    @pytest.mark.parametrize("count", [1, 16, 20])
    def test_is_not_seen_by_a_value_that_was_deleted_since_however_many_keys_another_shows(self, count: int) -> None:
        old = newest(3)
        life = Flood()
        life.suspect(self.claim(FindingKind.ABORTED_RECORD_COMMITTED))
        right = "aborted", old
        for _ in range(3):
            life.after(RECHECK_S, self.probe(right, ("committed", NOTHING), right, size=-1))
        assert [f.broker for f in life.machine.standing()] == [2]
        accused = replace(TestADifferenceThatWasExplained.accusing, offset=60)
        life.suspect(*[replace(accused, suspect_id=f"d-{k}", key_hash_lo=k) for k in range(1, count + 1)])
        for _ in range(60):
            life.after(RECHECK_S, self.probe((None, NOTHING), (None, NOTHING), (None, old)))
        assert {f.broker for f in life.machine.standing()} == {3}


def test_a_difference_is_looked_at_for_a_day_after_its_end_unless_its_topic_is_gone() -> None:
    about = replace(UNDIRECTED, recorded=replace(UNLIKE, topic_id="1"))
    life = Life().confirmed(about, answering=lambda _: values(b1=holding(12), b2=holding(12), b3=NOTHING))
    ledger, at = FindingLedger(), life.last.decided_at
    ledger.add(life.last)
    assert ledger.is_looked_at(about, at + timedelta(days=9)), "it stands"
    assert not ledger.is_looked_at(replace(about, recorded=replace(UNLIKE, topic_id="2")), at)
    assert not ledger.is_looked_at(replace(about, key_hash_lo=6), at)
    for resolution, hours, is_so in (("superseded", 23, True), ("superseded", 25, False), ("object_gone", 1, False)):
        evidence = json.dumps(evidence_of(life.last) | {"resolution": resolution})
        ledger.add(replace(life.last, status=FindingStatus.RESOLVED, evidence=evidence))
        assert ledger.is_looked_at(about, at + timedelta(hours=hours)) is is_so


def test_a_part_of_a_transaction_ends_with_the_whole_though_nobody_can_decide_it_any_more() -> None:
    """2 shows 19 as committed, and shows 10 so too; one ABORT at 20 ended both, as it turns out later."""
    recorded = RecordedByViews(outcomes={1: "aborted", 2: "committed"}, markers={1: "abort"})
    part = claim(FindingKind.ABORTED_RECORD_COMMITTED, "part", offset=19, transaction_start_offset=19)
    part = replace(part, recorded=recorded)
    wrong = replica(2, committed={19: record(19, "committed")}, asked=frozenset({10, 19}))

    def shown(other: ReplicaAnswer) -> Answering:
        return lambda _: Answers({1: other, 2: wrong}, leader=2, isr=(1, 2))

    right = replica(1, committed={19: record(19, "aborted")}, asked=frozenset({10, 19}))
    life = Life().confirmed(part, answering=shown(right))
    life.confirmed(replace(part, suspect_id="whole", transaction_start_offset=10), answering=shown(right))
    assert life.statuses == ["confirmed", "confirmed"]
    for _ in range(4):
        life.until_asked(shown(replica(1, last_stable_offset=5)))
    (stands,) = life.machine.standing()
    assert stands.transaction_start_offset == 10
    (ended,) = (event for event in life.table if was_explained(event))
    assert ended.transaction_start_offset == 19


def test_the_runbook_says_by_which_words_each_end_begins() -> None:
    """And every text on an end begins by one of them, or by what a repair did."""
    runbook = " ".join((Path(__file__).parents[3] / "docs" / "runbook.md").read_text().split())
    for beginning in ended.BEGINNINGS:
        assert f'"{beginning}"' in runbook
    formats = [value for name, value in vars(ended).items() if name.isupper() and "{reason}" in str(value)]
    texts = [*(one.text for one in ended._ENDS.values()), *(one for one in formats if isinstance(one, str))]
    assert len(texts) > len(ended._ENDS)
    assert {next((one for one in ended.BEGINNINGS if text.startswith(one)), text) for text in texts} == {
        *ended.BEGINNINGS
    }
    assert set(re.findall(r'"((?:Over|Healed|Not healed|Repaired)[^"]*:)"', runbook)) == {*ended.BEGINNINGS}
