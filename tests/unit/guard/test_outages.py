"""How the outage of a broker ends, in words: on the clock's own looks, with the time going on as they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parallax.audit.result import Result
from parallax.guard.absences import Absence, Presence, Unclear
from parallax.guard.endings import Outage
from parallax.guard.outages import headline, outage_in_words
from parallax.model import TopicPartition
from parallax.shell import Shell
from tests.builders.absences import absence
from tests.unit.guard.looking import HOUR, LOOK, PLACE, SKEW, START, tick
from tests.unit.guard.recording import ALL, REST, history, write
from tests.unit.guard.watching import MINUTE, OTHER, Watching

SHORT = TopicPartition("short", 0)


def reassigned(watching: Watching) -> None:
    watching.see(10 * MINUTE, tick(10 * MINUTE, {1: 12, 3: 12, 4: 12}, (1, 3, 4)))


def not_compacted(watching: Watching) -> None:
    watching.see(10 * MINUTE, tick(10 * MINUTE, {1: 12, 2: None, 3: 12}, REST, policy="delete"))


def deleted(watching: Watching) -> None:
    for at in range(3 * MINUTE, 20 * MINUTE, MINUTE):
        if watching.said.absent:
            watching.see(at, tick(at, {1: 12, 3: 12}, REST, place=OTHER))


def test_of_replicas_whose_time_nobody_knows_it_is_not_said_that_they_were_late() -> None:
    outage = Outage(2, 0, absent=frozenset({PLACE, SHORT}), late=frozenset({SHORT}), doubtful=frozenset({SHORT}))
    over = replace(outage, ended_ms=MINUTE, verdicts={SHORT: Result.CONSISTENT})
    assert headline(over, (), (), 0) == "Broker 2 is back, and nobody can tell whether in time (short)"
    assert "too late" not in over.outcome
    assert over.outcome.startswith("Of 1 replica of broker 2 (short) nobody can tell whether it was back in time.")
    both = replace(over, late=frozenset({PLACE, SHORT}))
    assert headline(both, (), (), 0) == "Broker 2 was back too late (orders, short)"
    assert both.outcome.startswith("Broker 2 was back too late: it copied something late of orders-0. Of 1 replica of")


@pytest.mark.parametrize("ends", [reassigned, not_compacted, deleted])
def test_a_broker_that_never_came_back_is_not_said_to_be_back(tmp_path: Path, ends: Any) -> None:
    watching = Watching(tmp_path)
    watching.away()
    ends(watching)
    assert watching.outcome.startswith("Broker 2 holds none of its replicas any more that were absent (orders)")
    assert "is back" not in watching.headline
    assert watching.told == ["a broker is away", "the outage of a broker is over"]


def test_of_replicas_that_were_taken_off_meanwhile_it_is_told_beside_those_that_are_back(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.both(0, {1: 10, 2: 10, 3: 10}, ALL)
    watching.both(2_000, {1: 12, 2: None, 3: 12}, REST)
    at = MINUTE
    watching.see(at, tick(at, dict.fromkeys(ALL, 12), ALL), tick(at, {1: 12, 3: 12, 4: 12}, (1, 3, 4), place=OTHER))
    assert watching.outcome.startswith(
        "Broker 2 was back in time: 1 replica of it (orders) has copied nothing that may"
    )
    assert "1 replica of it (orders) is not there any more" in watching.outcome
    assert "Nothing is to be done" not in watching.outcome


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_replica_of_which_no_verdict_is_known_is_gone_only_where_it_was_seen_to_be(is_gone: bool) -> None:
    place = TopicPartition("orders", 0)
    gone = frozenset({place}) if is_gone else frozenset()
    over = Outage(2, 0, late=frozenset({place}), gone=gone, is_recalled=True, ended_ms=MINUTE)
    assert ("not there any more" in over.outcome) is is_gone
    assert ("What an audit found in 1 partition (orders-0) is not on record here" in over.outcome) is not is_gone


def test_what_an_audit_came_to_before_a_restart_takes_away_that_nothing_was_lost(tmp_path: Path) -> None:
    before = Watching(tmp_path)
    before.late()
    before.audit(2 * HOUR + 10, p0=Result.DIVERGED)
    watching = Watching(tmp_path, 2 * HOUR + 15)
    watching.audit(2 * HOUR + 20, p1=Result.CONSISTENT)
    assert "found no difference" in watching.outcome
    assert "nothing was lost" not in watching.outcome
    assert "The job was started in it" in watching.outcome


def test_a_finding_takes_away_that_nothing_was_lost_and_is_not_named_in_what_comes_later(
    tmp_path: Path,
) -> None:
    watching = Watching(tmp_path)
    watching.late()
    watching.differing = [PLACE, SHORT]
    watching.audit(2 * HOUR + 10, p0=Result.CONSISTENT, p1=Result.CONSISTENT)
    assert "nothing was lost" not in watching.outcome
    assert watching.outcome.endswith("Findings have messages of their own.")
    assert " stand" not in watching.outcome


def test_a_finding_that_comes_while_the_end_is_told_takes_away_that_nothing_is_to_be_done(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.away()
    watching.see(2 * MINUTE, tick(2 * MINUTE, dict.fromkeys(ALL, 12), ALL))
    assert watching.outcome.endswith("Nothing is to be done.")
    watching.differing = [PLACE]
    watching.see(2 * MINUTE + 5_000, tick(2 * MINUTE + 5_000, dict.fromkeys(ALL, 12), ALL))
    assert watching.outcome.endswith("Findings have messages of their own.")


def test_one_that_is_late_again_after_its_audit_has_no_verdict_until_the_next(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.late()
    watching.audit(2 * HOUR + 10, p0=Result.CONSISTENT)
    watching.both(2 * HOUR + 1_000, {1: 14, 2: None, 3: 14}, REST)
    watching.both(4 * HOUR, dict.fromkeys(ALL, 14), ALL)
    (outage,) = watching.said.outages
    assert outage.verdicts == {}


def test_nothing_is_said_of_its_end_while_an_outage_lasts(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.away()
    assert watching.outcome == ""


def mixed(watching: Watching, at: int, ends: dict[int, int | None], isr: tuple[int, ...]) -> None:
    """Looks at a topic that keeps deletions for an hour, and at one that keeps them for no time."""
    watching.see(at, tick(at, ends, isr), tick(at, ends, isr, place=SHORT, retention=SKEW + LOOK))


def test_a_topic_of_which_nobody_can_tell_was_not_back_in_time_and_is_kept_until_no_time(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    mixed(watching, 0, {1: 10, 2: 10, 3: 10}, ALL)
    for at in (2_000, 30_000):
        mixed(watching, at, {1: 12, 2: None, 3: 12}, REST)
    (away,) = [one for one in watching.logged if one["event"] == "a broker is away"]
    assert (away["kept_until"], away["not_known_of"]) == ("2023-11-14 23:13:14 UTC", "short")
    assert "unless it is back by now" in away["what"], "the line may be written after it is"
    (outage,) = watching.said.outages
    said = outage_in_words(outage, watching.said.absent, (), (START + 30_000) / 1000)
    assert "What it lacks of orders-0 is kept until" in said
    assert "short" not in said, "it raises no alert"
    mixed(watching, MINUTE, dict.fromkeys(ALL, 12), ALL)
    assert watching.outcome.startswith(
        "Broker 2 was back in time: 1 replica of it (orders) has copied nothing that may"
    )
    assert "Of 1 replica of broker 2 (short) nobody can tell whether it was back in time" in watching.outcome
    assert "Nothing is to be done" not in watching.outcome


def test_an_outage_names_what_is_due_first_when_the_rest_is_and_the_command_that_helps() -> None:
    places = [TopicPartition("stock", 0), *(TopicPartition("orders", number) for number in range(5))]
    bounds = [6 * MINUTE, *[24 * HOUR] * 5]
    absent = [absence(2, *place, bound_ms=bound, since_ms=0) for place, bound in zip(places, bounds, strict=True)]
    outage = Outage(2, 0, away_ms=0, absent=frozenset(places))
    shell = Shell(config="a.yaml")
    assert outage_in_words(outage, absent, (), 0.0, shell=shell) == (
        "What it lacks of stock-0 is kept until 1970-01-01 00:06:00 UTC at least, and what 5 other replicas lack until "
        "1970-01-02 00:00:00 UTC (delete.retention.ms, less guard.clock_skew_ms). After that, tombstones and end "
        "markers may be gone from the others, and to bring it back is not enough any more: have it copy those "
        "partitions again before it leads, or have them audited once it is back. Until then, bring it back, or pause "
        "the cleaning of stock (where ALTER_CONFIGS is missing, parallax guard status then says what to run): "
        "parallax guard hold stock -c a.yaml"
    )
    both = [replace(one, bound_ms=6 * MINUTE) for one in absent]
    said = outage_in_words(outage, both, (), 0.0, shell=shell)
    assert said.startswith("What it lacks of orders-0, orders-1, orders-2 and 3 more is kept until 1970-01-01 00:06:00")
    assert said.endswith(": parallax guard hold TOPIC -c a.yaml")
    behind = [replace(one, presence=Presence.BEHIND) for one in absent]
    said = outage_in_words(replace(outage, away_ms=None), behind, (), 0.0, shell=shell)
    assert "Until then, where that takes longer, pause the cleaning of stock (" in said


def test_a_message_says_before_its_time_is_over_what_helps_afterwards() -> None:
    place = TopicPartition("stock", 0)
    outage, away = Outage(2, 0, away_ms=0, absent=frozenset({place})), absence(2, *place, bound_ms=MINUTE, since_ms=0)
    copied = "is not enough any more: have it copy those partitions again before it leads"
    for now in (0.0, 3600.0):
        assert copied in outage_in_words(outage, [away], (), now)
    assert "ring it back, or" not in outage_in_words(outage, [away], (), 3600.0)


def too_late(watching: Watching) -> None:
    """Broker 2 comes back too late with one partition; of another one nobody can tell."""
    mixed(watching, 0, {1: 10, 2: 10, 3: 10}, ALL)
    mixed(watching, 2_000, {1: 12, 2: None, 3: 12}, REST)
    mixed(watching, 2 * HOUR, dict.fromkeys(ALL, 12), ALL)


IN_DOUBT = "Of 1 replica of broker 2 (short) nobody can tell whether it was back in time"


def test_the_end_names_what_came_late_and_leaves_no_doubt_that_an_audit_has_settled(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    too_late(watching)
    watching.audit(2 * HOUR + 10, {PLACE: Result.CONSISTENT, SHORT: Result.CONSISTENT})
    assert watching.outcome == (
        "Broker 2 was back too late: it copied something late of orders-0. An audit compared 2 partitions (orders-0, "
        "short-0) since and found no difference: nothing was lost there that shows."
    )


def test_a_doubt_of_which_an_audit_says_nothing_is_left_at_the_end(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    too_late(watching)
    watching.audit(2 * HOUR + 10, p0=Result.CONSISTENT)
    assert "An audit compared 1 partition (orders-0) since" in watching.outcome
    assert IN_DOUBT in watching.outcome


@pytest.mark.parametrize("began", [-MINUTE, 10])
def test_only_an_audit_that_began_after_the_copy_settles_a_doubt(tmp_path: Path, began: int) -> None:
    watching = Watching(tmp_path)
    too_late(watching)
    watching.audit(2 * HOUR + 10, p0=Result.CONSISTENT)
    watching.audit(2 * HOUR + began, {SHORT: Result.CONSISTENT})
    assert (IN_DOUBT in watching.outcome) is (began < 0)


def test_an_audit_while_the_replica_is_away_settles_no_doubt(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    mixed(watching, 0, {1: 10, 2: 10, 3: 10}, ALL)
    mixed(watching, 2_000, {1: 10, 2: None, 3: 10}, REST)
    watching.audit(3_000, {SHORT: Result.CONSISTENT})
    mixed(watching, MINUTE, dict.fromkeys(ALL, 10), ALL)
    assert IN_DOUBT in watching.outcome


def test_a_doubt_that_ends_while_the_end_is_told_is_left_out_of_it(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    mixed(watching, 0, {1: 10, 2: 10, 3: 10}, ALL)
    mixed(watching, 2_000, {1: 12, 2: None, 3: 12}, REST)
    mixed(watching, MINUTE, dict.fromkeys(ALL, 12), ALL)
    assert IN_DOUBT in watching.outcome
    watching.audit(2 * MINUTE, {SHORT: Result.CONSISTENT})
    assert watching.outcome == (
        "Broker 2 was back in time: 1 replica of it (orders) has copied nothing that may have been cleaned before. An "
        "audit compared 1 partition (short-0) since and found no difference: nothing was lost there that shows."
    )


def test_of_an_outage_of_none_but_such_topics_it_is_not_said_that_it_was_back_in_time(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    for at, end, isr in ((0, 12, ALL), (2_000, None, REST), (MINUTE, 12, ALL)):
        watching.see(at, tick(at, {1: 12, 2: end, 3: 12}, isr, retention=SKEW))
    assert watching.outcome.startswith("Of 1 replica of broker 2 (orders) nobody can tell")
    assert "Broker 2 was back in time" not in watching.outcome


def test_the_log_tells_away_back_and_over_in_this_order(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.away()
    watching.see(2 * MINUTE, tick(2 * MINUTE, {1: 12, 2: 11, 3: 12}, REST))
    watching.see(2 * MINUTE + 1_000, tick(2 * MINUTE + 1_000, dict.fromkeys(ALL, 12), ALL))
    assert watching.told == ["a broker is away", "a broker is back", "the outage of a broker is over"]
    assert {one["complete_until"] for one in watching.logged if "complete_until" in one} == {"2023-11-14 22:13:19 UTC"}


@pytest.mark.parametrize("presence", [None, 10])
def test_the_log_tells_nothing_of_an_outage_that_is_over_within_seconds(tmp_path: Path, presence: int | None) -> None:
    watching = Watching(tmp_path)
    watching.see(0, tick(0, {1: 10, 2: 10, 3: 10}, ALL))
    for at in (2_000, 6_000, 11_000):
        watching.see(at, tick(at, {1: 12, 2: presence, 3: 12}, REST))
    watching.see(13_000, tick(13_000, dict.fromkeys(ALL, 12), ALL))
    assert watching.told == []


def test_of_an_outage_that_outlasts_a_restart_it_is_said_since_when_it_is_known_to_be_in_time(tmp_path: Path) -> None:
    write(tmp_path, *history(away_from=60_000, until=180_000))
    watching = Watching(tmp_path, 180_000)
    assert watching.headline == "Broker 2 is away (orders)"
    watching.see(200_000, tick(200_000, dict.fromkeys(ALL, 200), ALL))
    assert "may have been cleaned before since the job was started again." in watching.outcome
    assert "Nothing is to be done" not in watching.outcome


def test_what_is_said_of_a_broker_that_is_back_and_copies_is_of_one_state(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.late()
    (outage,), (late, *_) = watching.said.outages, watching.said.late
    doubtful = replace(late, absence=replace(late.absence, unclear=Unclear.BEFORE_WATCH))
    behind = replace(late.absence, place=OTHER, presence=Presence.BEHIND, bound_ms=START + 9 * HOUR)
    lasting = replace(outage, away_ms=None, ended_ms=None, absent=frozenset({OTHER}))
    now = (START + 2 * HOUR) / 1000
    said = outage_in_words(lasting, [behind], [doubtful], now)
    assert "nobody can tell whether it was back in time" in said
    assert "still copies what the others keep for it" in said
    assert "Bring it back" not in said
    again = replace(lasting, away_ms=START + 2 * HOUR)
    assert headline(again, [replace(behind, presence=Presence.AWAY)], [doubtful], now).startswith("Broker 2 is away (")


def test_the_title_of_an_outage_names_first_what_is_due_first(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.away()
    (one,) = (one for one in watching.said.absent if one.place == PLACE)

    def of(topic: str, left: int | None) -> Absence:
        bound = None if left is None else START + left
        return replace(one, place=TopicPartition(topic, 0), bound_ms=bound, unclear=None)

    absent = [of("a", 24 * HOUR), of("b", None), of("c", 24 * HOUR), of("urgent", 2 * HOUR), of("no time", -HOUR)]
    lasting = Outage(2, 0, absent=frozenset(each.place for each in absent), away_ms=START)
    assert headline(lasting, absent, [], START / 1000).endswith("(urgent, a, c and 2 more)")


@pytest.mark.parametrize("is_audited", [True, False])
def test_the_alert_of_an_outage_says_whether_the_job_audits_what_was_late(tmp_path: Path, is_audited: bool) -> None:
    watching = Watching(tmp_path)
    watching.late()
    (outage,) = watching.said.outages
    said = outage_in_words(outage, (), watching.said.late, (START + 2 * HOUR) / 1000, is_audited=is_audited)
    assert ("The job audits those partitions by itself." in said) is is_audited
    assert ("The job does not audit those partitions for that (audit.unread_delay_s is 0)." in said) is not is_audited
