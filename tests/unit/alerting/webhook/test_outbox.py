"""What a receiver is told, and when: every state once, nothing lost while it cannot be reached, and few messages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest

from parallax.alerting.conditions import OUTAGE, Suffered
from parallax.alerting.listing import FindingState, Turn
from parallax.alerting.webhook.alerts import Status, group_of
from parallax.alerting.webhook.outbox import MOST_GROUPS, OTHERS, Message, Outbox, Pace
from parallax.findings.acknowledge import acknowledged
from parallax.findings.finding import Finding
from parallax.model import FindingStatus
from tests.builders.findings import finding

PACE = Pace(repeat_s=3600, wait_s=10, interval_s=30, retry_s=1, retry_most_s=300)


class Told:
    """An outbox, a clock, and what was delivered of it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.outbox = Outbox(PACE, Random(1))
        self.open: list[Finding] = []

    def observe(self, *open_findings: Finding) -> bool:
        self.open = list(open_findings)
        return self.outbox.observe(self.open, self.now)

    def after(self, seconds: float) -> Message | None:
        self.now += seconds
        return self.outbox.due(self.now)

    def delivered(self, seconds: float) -> Message:
        message = self.after(seconds)
        assert message is not None
        self.outbox.delivered(message, self.now)
        return message

    def again(self) -> Outbox:
        """The outbox of the next process, made of what is on record."""
        outbox = Outbox(PACE, Random(1))
        outbox.restore(self.outbox.alerts, self.outbox.told, self.now)
        return outbox


@pytest.fixture
def told() -> Told:
    return Told()


def ids(message: Message) -> list[str]:
    return [alert.name for alert in message.alerts]


def test_the_findings_of_a_partition_go_in_one_message_after_a_short_wait(told: Told) -> None:
    told.observe(finding("a"))
    assert told.after(9) is None
    told.observe(finding("a"), finding("b"))
    message = told.delivered(1)
    assert (ids(message), message.is_firing) == (["a", "b"], True)
    assert told.after(3599) is None


def test_each_partition_has_messages_of_its_own(told: Told) -> None:
    told.observe(finding("a"), finding("b", topic="payments"))
    assert {told.delivered(10).group.topic, told.delivered(0).group.topic} == {"orders", "payments"}


def test_what_still_stands_is_told_again(told: Told) -> None:
    told.observe(finding("a"))
    first = told.delivered(10)
    second = told.delivered(3600)
    assert ids(second) == ["a"]
    assert second.key != first.key, "the receiver must not take it for the first"


def test_the_end_is_told_once_and_the_next_incident_is_a_new_one(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.observe()
    message = told.delivered(30)
    assert (ids(message), message.is_firing) == (["a"], False)
    assert told.outbox.next_at(told.now) == float("inf")
    told.observe(finding("b"))
    assert told.after(9) is None
    assert ids(told.delivered(1)) == ["b"]


def test_a_message_says_what_is_over_beside_what_still_stands(told: Told) -> None:
    told.observe(finding("a"), finding("b"))
    told.delivered(10)
    told.observe(finding("b"))
    message = told.delivered(30)
    assert [(alert.name, alert.ends_at is None) for alert in message.alerts] == [("b", True), ("a", False)]
    assert told.after(30) is None


def test_a_finding_that_is_refined_is_no_news_and_one_that_consumers_see_now_is(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.observe(replace(finding("a"), summary="another text"))
    assert told.after(1000) is None
    told.observe(replace(finding("a"), exposed=True))
    message = told.delivered(10)
    assert message.alerts[0].state is FindingState.EXPOSED
    told.observe(replace(finding("a"), status=FindingStatus.SPREAD))
    assert told.after(29) is None, "two messages about an incident are an interval apart"
    assert told.delivered(1).alerts[0].state is FindingState.SPREAD


def test_what_one_election_changes_of_a_partition_goes_in_one_message(told: Told) -> None:
    first, second = finding("a"), finding("b")
    told.observe(first, second)
    told.delivered(10)
    assert told.after(600) is None
    told.observe(replace(first, exposed=True), second)
    assert told.after(2) is None
    told.observe(replace(first, exposed=True), replace(second, exposed=True))
    message = told.delivered(8)
    assert [alert.state for alert in message.alerts] == [FindingState.EXPOSED] * 2
    assert told.after(1000) is None


def test_a_finding_that_ends_and_begins_as_another_goes_in_one_message(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    assert told.after(600) is None
    told.observe()
    assert told.after(1) is None
    told.observe(finding("incident"))
    message = told.delivered(9)
    assert [(alert.name, alert.ends_at is None) for alert in message.alerts] == [("incident", True), ("a", False)]
    assert told.after(1000) is None


def test_the_gravest_finding_comes_first(told: Told) -> None:
    told.observe(finding("a"), replace(finding("b"), exposed=True))
    assert ids(told.delivered(10)) == ["b", "a"]


def test_a_finding_that_is_over_before_anybody_could_be_told_is_told_as_over(told: Told) -> None:
    told.observe(finding("a"))
    told.observe()
    message = told.delivered(10)
    assert (ids(message), message.is_firing) == (["a"], False)


def test_what_was_not_taken_is_tried_again_later_and_later_with_the_same_key(told: Told) -> None:
    told.observe(finding("a"))
    message = told.after(10)
    assert message is not None
    waits = []
    for _ in range(12):
        waits.append(told.outbox.failed(message, told.now))
        assert told.after(waits[-1] - 0.01) is None
        again = told.after(0.02)
        assert again is not None
        assert again.key == message.key
    assert waits[0] <= 1 < waits[1] <= 2 < waits[2]
    assert 200 < waits[-1] <= 300


def test_a_receiver_that_asks_to_be_left_alone_is_for_an_hour_at_most(told: Told) -> None:
    told.observe(finding("a"))
    message = told.after(10)
    assert message is not None
    assert told.outbox.failed(message, told.now, asked_for_s=120) == 120
    assert told.after(119) is None
    assert told.after(1) is not None
    assert told.outbox.failed(message, told.now, asked_for_s=1e9) == 3600


def test_after_an_outage_of_the_receiver_one_message_says_how_things_stand(told: Told) -> None:
    told.observe(finding("a"))
    message = told.after(10)
    assert message is not None
    told.outbox.failed(message, told.now)
    told.observe(finding("b"))
    message = told.delivered(5)
    assert [(alert.name, alert.ends_at is None) for alert in message.alerts] == [("b", True), ("a", False)]
    assert told.after(1000) is None


SPREAD = replace(finding("a"), status=FindingStatus.SPREAD)
EXPOSED = replace(finding("a"), exposed=True)
UNSETTLED = replace(finding("a"), status=FindingStatus.UNSETTLED)


@pytest.mark.parametrize(
    ("first", "missed", "then", "words", "rounds"),
    [
        (EXPOSED, finding("a"), SPREAD, "It has become worse: ", 1),
        (finding("a"), EXPOSED, finding("a"), "", 1),
        (EXPOSED, UNSETTLED, EXPOSED, "", 1),
        (UNSETTLED, EXPOSED, SPREAD, "It has become worse: ", 2),
        (SPREAD, finding("a"), EXPOSED, "", 1),
        (finding("a"), UNSETTLED, EXPOSED, "It has become worse: ", 1),
        (SPREAD, EXPOSED, finding("a"), "Less grave now: ", 0),
        (finding("a"), EXPOSED, EXPOSED, "It has become worse: ", 1),
    ],
)
def test_a_receiver_that_may_have_missed_a_change_is_told_only_what_is_true_for_it(
    told: Told, first: Finding, missed: Finding, then: Finding, words: str, rounds: int
) -> None:
    told.observe(first)
    told.delivered(10)
    told.observe(missed)
    message = told.after(400)
    assert message is not None
    told.outbox.failed(message, told.now)
    told.outbox = told.again()
    told.observe(then)
    again = told.after(400)
    assert again is not None
    summary = again.alerts[0].annotations["summary"]
    turn = next((one for one in Turn if summary.startswith(one)), "")
    assert (turn, again.rounds) == (words, rounds), "it is asked for once more where it may be graver than it was told"
    told.outbox.failed(again, told.now)
    third = told.after(400)
    assert third is not None
    assert (third.rounds, third.alerts[0].annotations["summary"]) == (rounds, summary), "a message that is tried again"


def test_what_becomes_of_an_acknowledged_finding_is_no_message_unless_it_is_worse(told: Told) -> None:
    known = [acknowledged(one, "known", "ann", datetime(2026, 1, 2, tzinfo=UTC)) for one in (EXPOSED, finding("a"))]
    told.observe(EXPOSED)
    told.delivered(10)
    told.observe(known[0])
    told.delivered(60)
    told.observe(known[1])
    assert told.after(3600) is None
    told.observe(SPREAD)
    assert told.delivered(60).alerts[0].annotations["summary"].startswith("It has become worse: ")


def test_what_changes_while_a_message_is_on_its_way_is_told_by_the_next(told: Told) -> None:
    told.observe(finding("a"), finding("b"))
    message = told.after(10)
    assert message is not None
    told.observe(finding("b"), finding("c"))
    told.outbox.delivered(message, told.now)
    again = told.delivered(30)
    assert [(alert.name, alert.ends_at is None) for alert in again.alerts] == [
        ("b", True),
        ("c", True),
        ("a", False),
    ]


def test_a_finding_that_comes_back_while_its_end_is_told_is_told_once_more(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.observe()
    message = told.after(30)
    assert message is not None
    told.observe(finding("a"))
    told.outbox.delivered(message, told.now)
    assert told.delivered(30).is_firing


def test_the_next_process_tells_what_the_last_one_could_not_and_nothing_twice(told: Told) -> None:
    told.observe(finding("a"), finding("b", topic="payments"), finding("c", topic="refunds"))
    assert told.delivered(10).group.topic == "orders"
    told.outbox = told.again()
    told.observe(finding("a"), finding("b", topic="payments"))
    messages = [told.delivered(10), told.delivered(0)]
    assert [(ids(m), m.is_firing) for m in messages] == [(["b"], True), (["c"], False)]
    assert told.after(1000) is None


def test_a_message_that_was_sent_and_not_noted_has_the_same_key_in_the_next_process(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.observe(replace(finding("a"), exposed=True))
    message = told.after(30)
    assert message is not None
    told.outbox = told.again()
    told.observe(replace(finding("a"), exposed=True))
    again = told.after(10)
    assert again is not None
    assert again.key == message.key


def test_a_mass_incident_is_a_bounded_number_of_messages_and_all_of_it_ends(told: Told) -> None:
    everything = [finding(f"f{n}", partition=n) for n in range(10_000)]
    told.observe(*everything)
    messages = [told.delivered(10), *(told.delivered(0) for _ in range(MOST_GROUPS))]
    assert told.after(1000) is None
    assert sum(len(message.alerts) for message in messages) == 10_000
    (rest,) = [message for message in messages if message.group == OTHERS]
    assert len(rest.alerts) == 10_000 - MOST_GROUPS
    told.observe()
    ends = [told.delivered(10), *(told.delivered(0) for _ in range(MOST_GROUPS))]
    assert not any(message.is_firing for message in ends)
    assert told.outbox.alerts == []


def test_a_clock_that_is_set_back_delays_nothing(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.now -= 86_400
    told.observe(replace(finding("a"), exposed=True))
    assert told.delivered(30).is_firing


def test_only_what_changes_is_to_be_recorded(told: Told) -> None:
    assert told.observe(finding("a"))
    assert not told.observe(finding("a"))
    assert told.observe()
    assert not told.observe()


def test_it_is_known_since_when_something_waits(told: Told) -> None:
    began = told.now
    told.observe(finding("a"))
    told.after(50)
    assert told.outbox.waiting_since() == [began]
    told.delivered(0)
    assert told.outbox.waiting_since() == []


def known(of: Finding) -> Finding:
    return acknowledged(of, "known", "ann", of.decided_at)


def test_an_acknowledged_finding_is_told_as_that_once_and_not_again(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.observe(known(finding("a")))
    message = told.delivered(30)
    assert (ids(message), message.status) == (["a"], Status.ACKNOWLEDGED)
    assert told.outbox.next_at(told.now) == float("inf"), "who knows of it is not called every few hours"
    told.outbox = told.again()
    told.observe(known(finding("a")))
    assert told.after(100_000) is None


def test_a_partition_of_which_one_finding_is_acknowledged_is_told_again_for_the_other(told: Told) -> None:
    told.observe(finding("a"), known(replace(finding("b"), exposed=True)))
    assert ids(told.delivered(10)) == ["a", "b"]
    assert told.delivered(3600).status is Status.FIRING


def test_an_acknowledgement_of_one_finding_is_sent_and_the_others_go_on_asking(told: Told) -> None:
    told.observe(finding("a"), finding("b"), finding("c"))
    told.delivered(10)
    told.observe(finding("a"), known(finding("b")), finding("c"))
    message = told.after(30)
    assert message is not None
    assert (ids(message), message.status, message.is_in_part) == (["b", "a", "c"], Status.ACKNOWLEDGED, True)
    told.outbox.failed(message, told.now)
    message = told.delivered(30)
    assert (ids(message), message.status, message.rounds) == (["b", "a", "c"], Status.ACKNOWLEDGED, 0)
    assert told.after(30) is None, "one message"
    again = told.delivered(3600)
    assert (ids(again), again.status, again.rounds) == (["a", "c", "b"], Status.FIRING, 0)
    told.observe(known(finding("a")), known(finding("b")), replace(finding("c"), exposed=True))
    assert told.delivered(30).status is Status.FIRING, "one has become worse"
    told.observe(known(finding("a")), known(finding("b")))
    whole = told.delivered(30)
    assert (whole.status, whole.is_in_part, whole.rounds) == (Status.ACKNOWLEDGED, False, 1)


def test_a_receiver_that_may_have_been_told_of_an_acknowledgement_is_asked_anew(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.observe(known(finding("a")))
    message = told.after(30)
    assert message is not None
    assert (message.status, message.rounds) == (Status.ACKNOWLEDGED, 0)
    told.outbox = told.again()  # It was killed before it heard whether that was taken.
    told.observe(finding("a"))
    message = told.delivered(30)
    assert (message.status, message.rounds) == (Status.FIRING, 1)


def test_what_becomes_worse_than_was_acknowledged_is_told_though_its_state_is_the_same(told: Told) -> None:
    told.observe(finding("a"))
    told.delivered(10)
    told.observe(known(finding("a")))
    told.delivered(30)
    told.outbox = told.again()
    told.observe(replace(finding("a"), summary="It counts more."))
    message = told.delivered(30)
    assert (message.status, message.rounds) == (Status.FIRING, 1)
    told.outbox = told.again()
    assert told.delivered(3600).rounds == 1


def test_an_acknowledged_finding_that_heals_is_told_as_over(told: Told) -> None:
    told.observe(known(finding("a")))
    told.delivered(10)
    ended = replace(finding("a"), status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed: gone.")
    told.outbox.observe([], told.now, [ended])
    message = told.delivered(30)
    assert message.status is Status.RESOLVED
    assert message.alerts[0].annotations["description"] == "Broker 2 showed it. Healed: gone."
    assert (
        message.alerts[0].annotations["summary"] == "Broker 2 still showed a deleted record of orders-0; that is over"
    )


def suffered(name: str = "ParallaxBrokerUnreachable", **labels: str) -> Suffered:
    return Suffered(name, labels, datetime(2026, 1, 2, tzinfo=UTC))


def test_what_the_job_suffers_is_one_incident_and_ends_only_once_that_is_known(told: Told) -> None:
    down = suffered(broker_id="2")
    told.outbox.observe_job([down], told.now, {down.name}, can_end=True)
    message = told.delivered(10)
    assert (message.group, message.status) == (group_of(down), Status.FIRING)
    assert message.alerts[0].annotations["summary"] == "Parallax cannot reach broker 2"
    told.outbox = told.again()
    told.outbox.observe_job([], told.now, (), can_end=False)
    assert told.after(100) is None, "a job that starts knows nothing yet"
    told.outbox.observe_job([], told.now, {down.name}, can_end=True)
    assert told.after(100) is None, "it is wrong, and has not been so for long since the start"
    told.outbox.observe_job([], told.now, (), can_end=True)
    message = told.delivered(30)
    assert message.status is Status.RESOLVED
    assert message.alerts[0].annotations["summary"] == "Parallax could not reach broker 2"


def test_findings_and_what_the_job_suffers_end_each_other_not(told: Told) -> None:
    told.observe(finding("a"))
    down = suffered(broker_id="2")
    told.outbox.observe_job([down], told.now, (), can_end=True)
    assert {told.delivered(10).group, told.delivered(0).group} == {group_of(down), finding("a").place}
    told.observe()
    assert ids(told.delivered(30)) == ["a"]
    assert told.after(100) is None


def test_each_condition_of_the_job_is_an_incident_of_its_own_that_names_what_it_is_about(told: Told) -> None:
    away = [suffered(broker_id="2"), suffered(broker_id="3")]
    told.outbox.observe_job(away, told.now, (), can_end=True)
    messages = [told.delivered(10), told.delivered(0)]
    assert [m.alerts[0].annotations["summary"][-8:] for m in messages] == ["broker 2", "broker 3"]
    told.outbox.observe_job([*away, suffered("ParallaxStorageFull")], told.now, (), can_end=True)
    full = told.delivered(10)
    assert [alert.alertname for alert in full.alerts] == ["ParallaxStorageFull"]
    assert full.group not in {message.group for message in messages}
    told.outbox.observe_job([away[1]], told.now, (), can_end=True)
    over = {told.delivered(30).group, told.delivered(0).group}
    assert over == {messages[0].group, full.group}


def test_an_incident_that_becomes_critical_asks_anew_where_a_receiver_can_take_one_on(told: Told) -> None:
    told.outbox.observe_job([suffered("ParallaxReplicaOutage", broker_id="2")], told.now, (), can_end=True)
    assert told.delivered(10).rounds == 0
    told.outbox.observe_job([suffered("ParallaxReplicaRemoval", broker_id="2")], told.now, (), can_end=True)
    assert told.delivered(30).rounds == 1
    told.outbox.observe_job([], told.now, (), can_end=True)
    assert told.delivered(30).rounds == 1


def test_an_outage_that_is_over_before_its_first_message_has_none(told: Told) -> None:
    one = suffered(OUTAGE, broker_id="2")._replace(about={"headline": "Broker 2 is away (orders)", "now": "Wait."})
    told.outbox.observe_job([one], told.now, {one.name}, can_end=True)
    assert told.after(5) is None
    over = one._replace(about={**one.about, "outcome": "Broker 2 was back in time."})
    for _ in range(3):
        told.outbox.observe_job([over], told.now, {one.name}, can_end=True)
        assert told.after(5) is None, "nobody is told that it fires"
    told.outbox.observe_job([], told.now, (), can_end=True)
    assert (told.after(100), told.outbox.alerts, told.outbox.told) == (None, [], {})


def test_of_an_outage_it_is_told_that_it_begins_once_that_it_is_worse_and_what_came_of_it(told: Told) -> None:
    def stage(name: str, headline: str, outcome: str = "") -> None:
        said = {"headline": headline, "now": "Wait.", "outcome": outcome}
        one = suffered(name, broker_id="2")._replace(about=said)
        told.outbox.observe_job([one], told.now, {one.name}, can_end=True)

    stage(OUTAGE, "Broker 2 is away (orders)")
    messages = [told.delivered(10)]
    stage("ParallaxReplicaRemoval", "Broker 2 is away (orders)")
    messages.append(told.delivered(30))
    for headline in ("Broker 2 has been away for too long (orders)", "Broker 2 was back too late (orders)"):
        stage("ParallaxReplicaRemoval", headline)
        assert told.after(300) is None, "it goes on"
    told.outbox = told.again()
    stage(OUTAGE, "Broker 2 was back too late (orders)", "An audit found no difference.")
    assert told.after(300) is None
    told.outbox.observe_job([], told.now, (), can_end=True)
    messages.append(told.delivered(30))
    assert [(m.alerts[0].alertname, m.status) for m in messages] == [
        (OUTAGE, Status.FIRING),
        ("ParallaxReplicaRemoval", Status.FIRING),
        ("ParallaxReplicaRemoval", Status.RESOLVED),
    ]
    assert messages[-1].alerts[0].annotations["description"] == "An audit found no difference."
    assert told.after(10_000) is None
