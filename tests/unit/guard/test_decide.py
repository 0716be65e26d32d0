from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from parallax.guard.absences import Absence, Presence, Unclear
from parallax.guard.decide import AGAIN_MS, TAKES_MS, Action, Alter, Append, Guard, Rules
from parallax.guard.holds import (
    LAG,
    NO_LAG,
    RATIO,
    RETENTION,
    Absentee,
    Event,
    EventKind,
    Phase,
    commands,
    is_marked,
    is_same,
)
from parallax.guard.seen import Shown, TopicSeen
from parallax.model import TopicPartition
from tests.builders.absences import absence

NOW = 1_700_000_000_000
HOUR = 3_600_000
RULES = Rules(
    may_act=True,
    lead_ms=HOUR,
    max_hold_ms=48 * HOUR,
    min_free_percent=10.0,
    settle_ms=60_000,
    stagger_ms=30_000,
    mark=77,
)
FIRST = {RETENTION: (str(24 * HOUR), True), RATIO: ("0.5", False), LAG: (str(NO_LAG), False)}


def away(left: int | None, topic: str = "orders", broker: int = 2, **said: Any) -> Absence:
    """For an hour; the cleaner waits for a day, of which so much is left."""
    known = {"since_ms": NOW - HOUR, "retention_ms": 24 * HOUR, "bound_ms": None if left is None else NOW + left}
    return absence(broker, topic, **(known | said))


class Table:
    """A guard, the topics it sees, and the events that it has had recorded."""

    def __init__(self, rules: Rules = RULES, topics: Iterable[str] = ("orders",)) -> None:
        self.guard = Guard(rules)
        self.now = NOW
        self.events: list[Event] = []
        self.free: float | None = 50.0
        self.settings = {topic: {b: dict(FIRST) for b in (1, 3)} for topic in topics}
        self.ids = dict.fromkeys(topics, "a")
        self.absent: list[Absence] = []

    def seen(self) -> dict[str, TopicSeen]:
        return {
            topic: TopicSeen(
                self.ids[topic],
                {b: {name: Shown(*value) for name, value in own.items()} for b, own in brokers.items()},
                frozenset(brokers),
                is_in_sync=not self.absent,
                free_percent=self.free,
                in_sync=frozenset(Absentee(0, b) for b in range(1, 9)) - {Absentee(0, a.broker) for a in self.absent},
            )
            for topic, brokers in self.settings.items()
        }

    def tick(self, after: int = 1_000) -> list[Action]:
        self.now += after
        actions = self.guard.tick(self.now, self.seen(), self.absent)
        for action in actions:
            if isinstance(action, Append):
                self.events.append(action.event)
                self.guard.take_in([action.event])
        return actions

    def put(self, settings: dict[str, str | None], topic: str = "orders", brokers: Iterable[int] = (1, 3)) -> None:
        """What the cluster does with a change."""
        for broker in brokers:
            for name, value in settings.items():
                self.settings[topic][broker][name] = (value, True) if value is not None else FIRST[name]

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Alter):
                self.guard.asked(action, self.now)
                self.put(dict(action.settings), action.topic)
                self.guard.answered(action)

    def run(self, rounds: int = 6) -> list[str]:
        began = len(self.events)
        for _ in range(rounds):
            self.do(self.tick())
        return [str(event.kind) for event in self.events[began:]]

    def own(self, topic: str = "orders") -> dict[str, str | None]:
        return {name: value if own else None for name, (value, own) in self.settings[topic][1].items()}


FIRST_OWN = {RETENTION: str(24 * HOUR), RATIO: None, LAG: None}


def held(left: int = HOUR // 4) -> Table:
    table = Table()
    table.absent = [away(left)]
    assert table.run() == ["intended", "held"]
    return table


def test_a_bound_that_is_far_away_changes_nothing() -> None:
    table = Table()
    table.absent = [away(23 * HOUR)]
    assert table.run() == []


def test_the_first_level_keeps_tombstones_for_longer_and_the_second_pauses_cleaning() -> None:
    first = held(HOUR * 3 // 4).own()
    assert int(first[RETENTION] or 0) >= 72 * HOUR
    assert (first[RATIO], first[LAG]) == (None, None)
    second = held().own()
    assert (second[RATIO], second[LAG]) == ("1.0", str(NO_LAG - 2 * 77))


def test_a_hold_goes_up_a_level_when_its_bound_comes_nearer() -> None:
    table = held(HOUR * 3 // 4)
    table.absent = [away(HOUR // 4)]
    assert table.run() == ["intended", "held"]
    assert table.own()[RATIO] == "1.0"


def test_nothing_is_changed_before_it_is_on_record() -> None:
    table = Table()
    table.absent = [away(60_000)]
    (intent,) = table.tick()
    assert isinstance(intent, Append)
    assert intent.event.kind is EventKind.INTENDED
    assert [type(action) for action in table.tick()] == [Alter]


def test_held_means_that_every_broker_shows_it() -> None:
    table = Table()
    table.absent = [away(60_000)]
    table.tick()
    (alter,) = table.tick()
    assert isinstance(alter, Alter)
    table.guard.asked(alter, table.now)
    table.put(dict(alter.settings), brokers=(1,))
    table.guard.answered(alter)
    assert table.run() == ["set"]
    table.put(dict(alter.settings), brokers=(3,))
    assert table.run() == ["held"]


def test_a_request_without_an_answer_is_made_again_after_a_while() -> None:
    table = Table()
    table.absent = [away(60_000)]
    table.tick()
    (alter,) = table.tick()
    assert isinstance(alter, Alter)
    table.guard.asked(alter, table.now)
    assert table.tick() == []
    assert table.tick(AGAIN_MS) == [alter]


@pytest.mark.parametrize("stops_after", range(8))
def test_a_guard_that_dies_at_any_step_goes_on_from_what_is_on_record(stops_after: int) -> None:
    table = Table()
    table.absent = [away(60_000)]
    for _ in range(stops_after):
        table.do(table.tick())
    table.guard = Guard(RULES)
    table.guard.take_in(table.events)
    table.run(8)
    assert table.guard.record.holds["orders"].phase is Phase.HELD
    table.absent = []
    table.tick(RULES.settle_ms)
    table.guard = Guard(RULES)
    table.guard.take_in(table.events)
    for _ in range(5):
        table.do(table.tick(RULES.settle_ms))
    assert table.own() == FIRST_OWN
    assert not table.guard.record.holds["orders"].is_open


def intended() -> Table:
    """An intent of a process that died before it asked for anything, days ago."""
    table = Table()
    table.absent = [away(60_000)]
    (intent,) = table.tick()
    assert isinstance(intent, Append)
    table.guard = Guard(RULES)
    table.guard.take_in(table.events)
    table.now += 2 * RULES.max_hold_ms
    return table


def asked_of(table: Table, rounds: int = 10) -> list[Mapping[str, str | None]]:
    """The changes that are asked for in some rounds."""
    sent = []
    for _ in range(rounds):
        actions = table.tick()
        sent += [action.settings for action in actions if isinstance(action, Alter)]
        table.do(actions)
    return sent


@pytest.mark.parametrize("left", [None, -1])
def test_an_intent_that_no_absence_needs_any_more_is_closed_without_a_change(left: int | None) -> None:
    table = intended()
    table.absent = [] if left is None else [away(left)]
    assert asked_of(table) == []
    assert [str(event.kind) for event in table.events] == ["intended", "releasing", "released"]
    assert table.own() == FIRST_OWN
    table.absent = [away(table.now - NOW + 60_000)]
    assert table.run() == ["intended", "held"], "and it spends no absence"


def test_an_intent_to_pause_cleaning_that_is_needed_no_more_is_not_carried_out() -> None:
    table = held(HOUR * 3 // 4)
    table.absent = [away(HOUR // 4)]
    (intent,) = table.tick()
    assert isinstance(intent, Append)
    table.guard = Guard(RULES)
    table.guard.take_in(table.events)
    table.now, table.absent = table.now + TAKES_MS + HOUR, []
    assert all(RATIO not in sent for sent in asked_of(table))
    table.now += RULES.settle_ms
    table.run()
    assert table.own() == FIRST_OWN


def test_an_intent_whose_absence_still_needs_it_is_carried_out_by_the_next_process() -> None:
    table = Table()
    table.absent = [away(HOUR // 4)]
    table.tick()
    table.guard = Guard(RULES)
    table.guard.take_in(table.events)
    table.now += TAKES_MS + 1
    assert table.run() == ["held"]


def test_it_lets_go_once_all_have_been_in_sync_for_a_while() -> None:
    table = held()
    table.absent = []
    assert table.run() == []
    table.now += RULES.settle_ms
    assert table.run() == ["releasing", "released"]
    assert table.own() == FIRST_OWN


def test_topics_are_let_go_one_after_the_other() -> None:
    table = Table(topics=("orders", "others"))
    table.absent = [away(60_000), away(60_000, "others")]
    table.run()
    table.absent = []
    table.tick()
    table.now += RULES.settle_ms
    table.run()
    assert [hold.is_open for hold in table.guard.record.holds.values()] == [False, True]
    table.now += RULES.stagger_ms
    table.run()
    assert [hold.is_open for hold in table.guard.record.holds.values()] == [False, False]


@pytest.mark.parametrize("to", ["1000", None])
def test_a_person_wins_and_all_else_is_put_back(to: str | None) -> None:
    table = held()
    table.put({RETENTION: to})
    assert table.run() == ["overruled", "releasing", "released"]
    assert table.own()[RATIO] is table.own()[LAG] is None
    assert table.own()[RETENTION] in (to, str(24 * HOUR))
    assert table.run() == [], "and nothing is held for this absence again"


def test_a_tool_that_reverts_a_hold_is_told_of_and_not_fought() -> None:
    table = held()
    table.put(FIRST_OWN)
    assert table.run(20) == ["overruled", "releasing", "released"]
    assert "somebody else's" in table.events[-3].reason


def test_a_change_that_never_comes_is_not_asked_for_for_ever() -> None:
    table = Table()
    table.absent = [away(60_000)]
    table.tick()
    (alter,) = table.tick()
    assert isinstance(alter, Alter)
    table.guard.asked(alter, table.now)
    table.guard.answered(alter)
    assert table.run() == ["set"]
    table.now += TAKES_MS
    assert table.run() == ["overruled", "releasing", "released"]


@pytest.mark.parametrize("why", ["space", "expired"])
def test_a_hold_is_bounded_and_not_taken_up_again_for_the_same_absence(why: str) -> None:
    table = held()
    if why == "space":
        table.free = 5.0
    else:
        table.now += RULES.max_hold_ms
        table.absent = [away(RULES.max_hold_ms + HOUR // 4)]
    assert table.run() == ["releasing", "released"]
    assert [e.reason for e in table.events if e.kind is EventKind.RELEASING] == [why]
    table.free = 50.0
    assert table.run(20) == []
    table.absent = []
    table.tick()
    table.now += RULES.settle_ms
    assert table.run(2) == ["in_sync"]
    table.absent = [away(table.now - NOW + HOUR // 4)]
    assert table.run() == ["intended", "held"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({RETENTION: "86400011"}, "held by another guard"),
        ({LAG: str(NO_LAG - 22)}, "held by another guard"),
    ],
)
def test_what_others_may_count_on_is_refused_once(change: dict[str, str | None], says: str) -> None:
    table = Table()
    table.absent = [away(60_000)]
    table.put(change)
    assert table.run(10) == ["refused"]
    assert says in table.events[0].reason


def test_a_finite_compaction_lag_is_put_off_where_it_is_allowed() -> None:
    table = Table(replace(RULES, may_shorten=frozenset({"orders"})))
    table.absent = [away(60_000)]
    table.put({LAG: "604800000"})
    assert table.run() == ["intended", "held"]


@pytest.mark.parametrize("free", [None, 5.0])
def test_without_space_or_without_knowing_it_nothing_is_held(free: float | None) -> None:
    table = Table()
    table.absent, table.free = [away(60_000)], free
    assert table.run(10) == ["refused"]
    assert "space" in table.events[0].reason


def test_internal_topics_are_held_only_where_that_is_wanted() -> None:
    for wanted, kinds in ((False, ["refused"]), (True, ["intended", "held"])):
        table = Table(replace(RULES, internal_topics=wanted), topics=("__consumer_offsets",))
        table.absent = [away(60_000, "__consumer_offsets")]
        assert table.run() == kinds


def test_an_adviser_says_what_it_would_do_and_never_asks_for_it() -> None:
    table = Table(replace(RULES, may_act=False))
    table.absent = [away(60_000)]
    actions = [action for _ in range(10) for action in table.tick()]
    assert not [action for action in actions if isinstance(action, Alter)]
    (advice,) = table.events
    assert advice.kind is EventKind.ADVISED
    assert "--add-config delete.retention.ms=" in advice.reason


def test_what_is_lost_already_is_not_held() -> None:
    table = Table()
    table.absent = [away(-1)]
    assert table.run() == []


def test_without_a_bound_a_replica_is_held_for_after_a_quarter_of_the_retention() -> None:
    table = Table()
    unknown = away(None, unclear=Unclear.BEFORE_WATCH, retention_ms=40_000)
    table.absent = [replace(unknown, since_ms=NOW - 5_000)]
    assert [action for _ in range(4) for action in table.tick()] == []
    table.absent = [replace(unknown, since_ms=NOW - 10_000)]
    assert table.run() == ["intended", "held"]


def test_where_the_retention_is_not_known_for_long_enough_it_is_held_for_at_once() -> None:
    table = Table()
    table.absent = [away(None, unclear=Unclear.SETTINGS, since_ms=NOW - 1_000, retention_ms=None)]
    assert table.run() == ["intended", "held"]


def test_a_replica_that_copies_its_log_is_held_for_at_once() -> None:
    table = Table()
    table.absent = [away(None, presence=Presence.COPYING, unclear=Unclear.COPYING)]
    assert table.run() == ["intended", "held"]


def level_for(left: int, **said: Any) -> int:
    table = Table()
    (intent,) = table.guard.tick(NOW, table.seen(), [away(left, **said)])
    assert isinstance(intent, Append)
    return intent.event.level


def test_where_nothing_near_is_stamped_more_time_is_enough() -> None:
    near = HOUR * 2 // 5
    assert level_for(near) == 2
    assert level_for(near, read_ms=NOW - 1_000) == 1
    assert level_for(near, read_ms=NOW - 1_000, horizon_ms=NOW + HOUR) == 1
    assert level_for(near, read_ms=NOW - 1_000, horizon_ms=NOW + near) == 2


def test_a_reading_that_is_old_is_none() -> None:
    assert level_for(HOUR * 2 // 5, read_ms=NOW - HOUR // 4) == 2
    assert level_for(HOUR * 2 // 5, read_ms=NOW - 20_000, retention_ms=120_000) == 2


def test_shortly_before_the_bound_cleaning_is_paused_whether_or_not_anything_is_stamped() -> None:
    assert level_for(HOUR // 5, read_ms=NOW - 1_000) == 2
    assert level_for(20_000, read_ms=NOW - 1_000, retention_ms=40_000) == 2


def test_a_ratio_that_somebody_sets_soon_after_a_hold_is_what_the_next_one_puts_back() -> None:
    table = held()
    table.absent = []
    table.now += 2 * RULES.settle_ms
    table.run()
    table.now += 2 * RULES.settle_ms
    assert table.run()[-1:] == ["released"]
    table.put({RATIO: "0.25"})
    table.absent = [away(HOUR // 4, bound_ms=table.now + HOUR // 4)]
    assert table.run() == ["intended", "held"]
    assert table.own()[RATIO] == "1.0"
    (ratio,) = (change for change in table.guard.record.holds["orders"].changes if change.name == RATIO)
    assert ratio.before == "0.25"


def test_another_topic_of_the_same_name_is_left_alone() -> None:
    table = held()
    table.ids["orders"], table.absent = "b", []
    table.put(FIRST_OWN)
    assert table.run() == ["abandoned"]


@pytest.mark.parametrize("topic_id", ["", "b"], ids=["deleted", "created again"])
def test_what_was_advised_for_a_topic_that_is_gone_is_said_no_more(topic_id: str) -> None:
    table = Table(replace(RULES, may_act=False))
    table.absent = [away(60_000)]
    assert table.run(1) == ["advised"]
    table.ids["orders"], table.absent = topic_id, []
    assert table.run(1) == ["in_sync"]
    assert not table.guard.record.refused


def test_a_guards_values_that_came_to_another_topic_are_put_back() -> None:
    table = held()
    table.ids["orders"], table.absent = "b", []
    assert table.run() == ["releasing", "released"]
    assert table.own() == FIRST_OWN


def test_a_request_that_comes_after_the_hold_is_put_back_as_well() -> None:
    table = held()
    mine = table.own()
    table.absent = []
    table.tick()
    table.now += RULES.settle_ms
    table.run()
    table.put(mine)
    assert table.run() == ["releasing", "released"]
    assert table.own() == FIRST_OWN


def test_a_person_asks_for_a_hold_and_for_its_end() -> None:
    table = Table()
    table.guard.take_in([Event(EventKind.ASKED_HOLD, "", "orders", "", NOW)])
    assert table.run() == ["intended", "held"]
    table.now += RULES.settle_ms
    assert table.run() == [], "though all are in sync"
    table.guard.take_in([Event(EventKind.ASKED_RELEASE, "", "orders", "", NOW)])
    assert table.run() == ["releasing", "released", "in_sync"]
    assert table.run() == []


def test_who_asks_for_a_hold_is_told_again_why_there_is_none() -> None:
    table = Table()
    table.absent, table.free = [away(60_000)], 5.0
    assert table.run() == ["refused"]
    table.guard.take_in([Event(EventKind.ASKED_HOLD, "", "orders", "", NOW)])
    assert table.run() == ["refused"]


def test_a_refusal_of_the_cluster_ends_the_hold() -> None:
    table = Table()
    table.absent = [away(60_000)]
    table.tick()
    (alter,) = table.tick()
    assert isinstance(alter, Alter)
    table.guard.asked(alter, table.now)
    table.guard.answered(alter, "not authorized: ALTER_CONFIGS on the topic is needed")
    assert table.run() == ["refused", "releasing", "released"]
    first, *by_hand = table.guard.record.refused["orders"].reason.splitlines()
    assert first == "not authorized: ALTER_CONFIGS on the topic is needed"
    assert by_hand[0].startswith("kafka-configs.sh"), "as with advise"
    assert table.run() == [], "it is not tried again for this absence"
    assert table.run() == []


def test_the_pause_of_another_guard_is_not_ended() -> None:
    table = held()
    table.put({RETENTION: "360000011", LAG: str(NO_LAG - 22)})
    table.absent = []
    assert table.run() == ["overruled", "releasing", "released"]
    assert table.own()[RATIO] == "1.0"


def test_values_are_known_by_their_marks() -> None:
    assert is_marked(RETENTION, "259200077")
    assert not is_marked(RETENTION, "86400000")
    assert is_marked(LAG, str(NO_LAG - 2))
    assert not is_marked(LAG, str(NO_LAG))
    assert not is_marked(RATIO, "1")
    assert is_same("1", "1.0")
    assert not is_same("1", None)


def test_the_same_is_said_as_commands() -> None:
    base = "kafka-configs.sh --bootstrap-server HOST:9092 --alter --entity-type topics --entity-name orders"
    assert commands("orders", {RETENTION: "5", RATIO: None}) == (
        f"{base} --add-config {RETENTION}=5\n{base} --delete-config {RATIO}"
    )


class Hidden(Table):
    """One whose topics' settings are not shown."""

    unreadable = ""

    def seen(self) -> dict[str, TopicSeen]:
        return {
            topic: replace(one, settings={} if self.unreadable else one.settings, unreadable=self.unreadable)
            for topic, one in super().seen().items()
        }


def test_what_cannot_be_read_is_not_held_and_that_is_said_once() -> None:
    table = Hidden()
    table.unreadable = "not authorized: DESCRIBE_CONFIGS on the topic is needed"
    table.absent = [away(60_000)]
    assert table.run() == ["refused"]
    assert table.guard.record.refused["orders"].reason == table.unreadable
    table.unreadable = ""
    assert table.run() == ["intended", "held"], "the right is there by now"
    assert table.guard.record.refused == {}


def test_what_cannot_be_put_back_is_said_once_and_is_put_back_as_soon_as_it_can() -> None:
    table = Hidden()
    table.absent = [away(60_000)]
    assert table.run() == ["intended", "held"]
    table.unreadable = "not authorized: DESCRIBE_CONFIGS on the topic is needed"
    table.absent = []
    table.now += 120_000
    assert table.run() == ["refused"]
    assert "nothing can be put back" in table.guard.record.refused["orders"].reason
    table.unreadable = ""
    table.now += 120_000
    assert table.run() == ["releasing", "released"]
    assert (table.own(), table.guard.record.refused) == (FIRST_OWN, {})


def test_a_refusal_to_put_settings_back_is_said_once_and_tried_again() -> None:
    table = held()
    table.guard.take_in([Event(EventKind.ASKED_RELEASE, "", "orders", "", table.now)])
    said = []
    for _ in range(30):
        for action in table.tick():
            if isinstance(action, Alter):
                table.guard.asked(action, table.now)
                table.guard.answered(action, "not authorized: ALTER_CONFIGS on the topic is needed")
            else:
                said.append(str(action.event.kind))
    assert said == ["releasing", "refused"]
    assert "nothing can be put back: not authorized" in table.guard.record.refused["orders"].reason
    assert table.run(15) == ["released"]
    assert (table.own(), table.guard.record.refused) == (FIRST_OWN, {})


def test_what_a_person_asked_for_and_was_refused_is_not_done_later() -> None:
    table = Table()
    table.free = 5.0
    table.guard.take_in([Event(EventKind.ASKED_HOLD, "", "orders", "", NOW)])
    assert table.run() == ["refused"]
    table.free = 50.0
    assert table.run() == []


def test_a_person_may_have_more_of_what_is_held_already() -> None:
    table = held(HOUR * 3 // 4)
    assert table.own()[RATIO] is None
    table.guard.take_in([Event(EventKind.ASKED_HOLD, "", "orders", "", NOW)])
    assert table.run() == ["intended", "held"]
    assert table.own()[RATIO] == "1.0"


def let_go(table: Table, kind: str = "released") -> None:
    """All are in sync again, and the hold ends."""
    table.absent = []
    table.tick()
    table.now += RULES.settle_ms
    assert table.run()[-1:] == [kind]


def test_a_release_that_is_asked_for_while_it_is_put_back_says_nothing_of_the_next_outage() -> None:
    table = held()
    table.guard.take_in([Event(EventKind.ASKED_RELEASE, "", "orders", "", table.now)])
    table.do(table.tick())
    assert table.events[-1].kind is EventKind.RELEASING
    table.guard.take_in([Event(EventKind.ASKED_RELEASE, "", "orders", "", table.now)])
    let_go(table, "in_sync")
    table.absent = [away(table.now - NOW + HOUR // 4)]
    assert table.run() == ["intended", "held"]


def test_another_partition_of_a_broker_whose_absence_is_spent_is_the_same_absence() -> None:
    table = held()
    table.put({RATIO: "0.5"})
    assert table.run()[-1] == "released"
    another = replace(away(HOUR // 4), place=TopicPartition("orders", 7))
    table.absent = [*table.absent, another]
    assert table.run() == []
    table.absent = [replace(another, broker=3)]
    assert table.run() == ["intended", "held"], "that of another broker is not"


def test_a_hold_is_not_raised_while_space_is_not_known() -> None:
    table = held(HOUR * 3 // 4)
    table.free, table.absent = None, [away(HOUR // 4)]
    assert table.run() == ["refused"]
    assert "space is not known" in table.events[-1].reason
    assert table.own()[RATIO] is None


def test_a_pause_of_a_persons_stays_when_a_later_hold_that_does_not_touch_it_ends() -> None:
    table = held()
    let_go(table)
    table.now += 720 * HOUR
    table.put({RATIO: "1.0"})
    table.absent = [away(HOUR, bound_ms=table.now + HOUR * 3 // 4)]
    assert table.run() == ["intended", "held"]
    let_go(table)
    assert table.run() == []
    assert table.own() == {**FIRST_OWN, RATIO: "1.0"}


def test_a_pause_of_a_persons_that_was_there_when_a_hold_began_stays_whatever_comes_late() -> None:
    table = held()
    let_go(table)
    table.now += 720 * HOUR
    table.put({RATIO: "1.0"})
    table.absent = [away(HOUR, bound_ms=table.now + HOUR // 4)]
    assert table.run() == ["intended", "held"]
    mine = table.own()
    let_go(table)
    table.put(mine)
    assert table.run() == ["releasing", "released"]
    assert table.own() == {**FIRST_OWN, RATIO: "1.0"}


def test_a_request_that_comes_late_during_a_hold_that_does_not_touch_it_is_put_back_after_it() -> None:
    table = held()
    mine = table.own()
    let_go(table)
    table.absent = [away(HOUR, bound_ms=table.now + HOUR * 3 // 4)]
    assert table.run() == ["intended", "held"]
    table.put(mine)
    table.now += HOUR // 4
    let_go(table)
    table.run()
    assert table.own() == FIRST_OWN


@pytest.mark.parametrize("lag", [None, "604800000", str(NO_LAG)])
def test_the_ratio_of_a_topic_that_was_created_anew_is_its_own(lag: str | None) -> None:
    table = held()
    table.ids["orders"], table.absent = "b", []
    table.put({**FIRST_OWN, RATIO: "1.0", LAG: lag})
    assert table.run() == ["abandoned"]
    assert table.own() == {**FIRST_OWN, RATIO: "1.0", LAG: lag}


@pytest.mark.parametrize("is_over", [False, True])
def test_a_pause_of_a_topic_that_was_created_anew_shortly_after_a_hold_is_not_ended(is_over: bool) -> None:
    table = held()
    if is_over:
        let_go(table)
    table.ids["orders"], table.absent = "b", []
    table.put(FIRST_OWN)
    assert table.run() == ([] if is_over else ["abandoned"])
    table.put({RATIO: "1.0"})
    assert table.run() == []
    assert table.own()[RATIO] == "1.0"


def test_the_guards_mark_on_a_re_created_topic_is_put_back_without_the_ratio() -> None:
    table = held()
    table.ids["orders"], table.absent = "b", []
    table.put({RATIO: "1.0", LAG: None})
    assert table.run() == ["releasing", "released"]
    assert table.own() == {**FIRST_OWN, RATIO: "1.0"}


def test_an_overruled_pause_that_comes_late_to_a_re_created_topic_is_put_back() -> None:
    table = held()
    paused = table.own()
    table.put({RATIO: "0.001"})
    table.do(table.tick())
    assert table.events[-1].kind is EventKind.OVERRULED
    table.ids["orders"], table.absent = "b", []
    table.put(paused)
    assert table.run()[-1] == "released"
    assert table.own()[RATIO] == "0.001"
    assert table.own()[LAG] is None


def test_a_pause_by_hand_soon_after_a_hold_has_expired_is_not_ended() -> None:
    table = held()
    table.now += RULES.max_hold_ms
    assert table.run() == ["releasing", "released"]
    table.put({RATIO: "1.0", LAG: str(NO_LAG)})
    assert table.run() == []
    assert table.own() == {**FIRST_OWN, RATIO: "1.0", LAG: str(NO_LAG)}


PROMISE = {LAG: "604800000"}


def test_a_topic_that_may_not_be_paused_is_held_at_level_one_and_refuses_the_second_once() -> None:
    table = Table()
    table.absent = [away(60_000)]
    table.put({**PROMISE})
    assert table.run(10) == ["intended", "held", "refused"]
    assert "a promise to delete" in table.events[-1].reason
    assert [event.level for event in table.events] == [1, 1, 2]
    assert table.own()[RATIO] is None
    assert int(table.own()[RETENTION] or 0) >= 72 * HOUR
    let_go(table)
    assert table.own() == {**FIRST_OWN, **PROMISE}


def test_where_neither_level_can_be_held_that_is_refused_once() -> None:
    table = Table()
    table.absent = [away(60_000)]
    table.put({**PROMISE, RETENTION: str(2**62)})
    assert table.run(10) == ["refused"]
    assert "a promise to delete" in table.events[0].reason


def test_who_asks_for_a_pause_that_may_not_be_is_refused() -> None:
    table = Table()
    table.put({**PROMISE})
    table.guard.take_in([Event(EventKind.ASKED_HOLD, "", "orders", "", NOW)])
    assert table.run(10) == ["refused"]
    assert "a promise to delete" in table.events[0].reason


def test_an_adviser_says_what_can_be_done_where_cleaning_may_not_be_paused() -> None:
    table = Table(replace(RULES, may_act=False))
    table.absent = [away(60_000)]
    table.put({**PROMISE})
    assert table.run(10) == ["advised"]
    assert RATIO not in table.events[0].reason
    assert "a promise to delete" in table.events[0].reason


def test_a_replica_that_was_in_sync_is_held_for_again_though_another_is_still_away() -> None:
    table = Table()
    table.absent = [away(HOUR // 4), away(HOUR // 4, broker=4)]
    assert table.run() == ["intended", "held"]
    table.now += RULES.max_hold_ms
    table.absent = [away(-1), away(-1, broker=4)]
    assert table.run() == ["releasing", "released"]
    table.absent = [away(-1, broker=4)]
    table.tick()
    table.now += RULES.settle_ms // 2
    near = table.now - NOW + HOUR // 2
    table.absent = [away(near), away(near, broker=4)]
    assert table.run() == [], "it was not in sync for long enough"
    table.absent = [away(near, broker=4)]
    assert table.run() == []
    table.now += RULES.settle_ms
    assert table.run() == ["in_sync"]
    table.guard = Guard(RULES)
    table.guard.take_in(table.events)
    table.absent = [away(near), away(near, broker=4)]
    assert table.run() == ["intended", "held"]
    assert table.guard.record.holds["orders"].absent == {Absentee(0, 2)}
