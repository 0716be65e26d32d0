from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from parallax.config import GuardSettings, ReadSettings
from parallax.guard import late
from parallax.guard.absences import Late
from parallax.guard.account import on_record
from parallax.guard.holds import Absentee, Event, EventKind
from parallax.guard.table import GuardTable
from parallax.model import TopicPartition
from tests.builders.absences import absence
from tests.unit.guard.looking import HOUR, PLACE, START, tick
from tests.unit.guard.recording import ALL, history, write

MINUTE = 60_000
SINCE = "2023-11-14 22:23:20 UTC at the latest (it lacked nothing at 2023-11-14 22:22:19 UTC)"
BACK = f"Broker 2 was away from {SINCE} to"


def facts(storage: Path, at: int, place: TopicPartition = PLACE, skew: int = 0) -> list[str]:
    read = ReadSettings(request_timeout_ms=1000)
    suspected = datetime.fromtimestamp((START + at) / 1000, UTC)
    return on_record(str(storage), place, suspected, read, GuardSettings(clock_skew_ms=skew))


def returned(storage: Path, after: int, **said: int) -> None:
    """Broker 2 is away from the tenth minute on, and is back after some more, with all that was written."""
    ticks = history(away_from=10 * MINUTE, until=(10 + after) * MINUTE, **said)
    at = (10 + after) * MINUTE
    write(storage, *ticks, tick(at, dict.fromkeys(ALL, 10 + at // MINUTE), ALL, **said))


def test_nothing_is_said_where_nobody_was_absent(tmp_path: Path) -> None:
    assert facts(tmp_path, HOUR) == []
    write(tmp_path, *history(away_from=HOUR, until=20 * MINUTE))
    assert facts(tmp_path, HOUR) == []


def test_an_absence_within_its_bound_is_said_to_be_so(tmp_path: Path) -> None:
    returned(tmp_path, 5)
    (said,) = facts(tmp_path, HOUR)
    assert said.startswith(f"{BACK} 2023-11-14 22:28:20 UTC: what it lacked was kept until 2023-11-14 23:22:")
    assert said.endswith("at least, and it was back before.")


def test_an_absence_past_its_bound_is_said_to_be_so(tmp_path: Path) -> None:
    returned(tmp_path, 5, retention=2 * MINUTE)
    (said,) = facts(tmp_path, HOUR)
    assert said.startswith(f"{BACK} 2023-11-14 22:28:20 UTC: what it lacked was kept until 2023-11-14 22:24:")
    assert said.endswith("at least, and it copied records after that.")


def test_a_bound_before_the_absence_is_no_time_until_which_anything_was_kept(tmp_path: Path) -> None:
    returned(tmp_path, 5, retention=2 * MINUTE)
    (said,) = facts(tmp_path, HOUR, skew=5 * MINUTE)
    assert said == (
        f"{BACK} 2023-11-14 22:28:20 UTC: what it lacked may have been cleaned from the first moment on "
        "(delete.retention.ms less guard.clock_skew_ms leaves no time), and it copied records."
    )


def test_what_is_kept_still_is_told_in_the_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    returned(tmp_path, 5)
    monkeypatch.setattr("time.time", lambda: (START + 12 * MINUTE) / 1000)
    (said,) = facts(tmp_path, 12 * MINUTE)
    assert f"{SINCE} on: what it lacks is kept until 2023-11-14 23:22:" in said


def test_one_that_lasts_and_what_came_later_or_elsewhere(tmp_path: Path) -> None:
    returned(tmp_path, 5)
    (said,) = facts(tmp_path, 12 * MINUTE)
    assert said.startswith(f"Broker 2 was away from {SINCE} on: what it lacked was kept until")
    assert facts(tmp_path, 5 * MINUTE) == [], "what came later explains nothing"
    assert facts(tmp_path, HOUR, TopicPartition("orders", 1)) == []


def test_what_no_audit_has_compared_and_what_the_guard_did(tmp_path: Path) -> None:
    was = absence(3, since_ms=START, retention_ms=MINUTE, bound_ms=START + MINUTE)
    late.save(str(tmp_path), [Late(PLACE, 3, START + 2 * MINUTE, was)])
    table = GuardTable(str(tmp_path))
    for kind, reason in (
        (EventKind.INTENDED, "absent"),
        (EventKind.HELD, ""),
        (EventKind.OVERRULED, "somebody else's: delete.retention.ms=1"),
        (EventKind.RELEASING, "overruled"),
        (EventKind.RELEASED, ""),
        (EventKind.REFUSED, "not authorized: ALTER_CONFIGS on the topic is needed\nkafka-configs.sh"),
    ):
        table.append(Event(kind, "h", "orders", "a", START, 2, (), (Absentee(0, 3),), reason))
    at = "2023-11-14 22:13:20 UTC"
    unheard, began, held, changed, ends, refused = facts(tmp_path, HOUR)
    assert unheard == (
        "Of the replica of broker 3, as seen at 2023-11-14 22:15:20 UTC: it copied its log late and may have missed "
        "tombstones or end markers. `parallax lead orders` says which audit ends that doubt."
    ), "one place says that"
    assert began == f"The guard began at {at} to hold the topic for broker 3."
    assert held == f"The guard held the topic from {at} on (nothing is cleaned)."
    assert changed.startswith(f"Somebody else changed settings that the guard held at {at} (somebody else's: delete.")
    assert ends == f"The guard began to put its settings back at {at} (overruled)."
    assert refused == (
        f"The guard did not hold the topic for broker 3 at {at}: not authorized: ALTER_CONFIGS on the topic is needed."
    )


def test_one_that_was_back_while_its_topic_was_held_is_said_to_be_so(tmp_path: Path) -> None:
    returned(tmp_path, 5, retention=2 * MINUTE)
    table = GuardTable(str(tmp_path))
    for at, kind in ((10 * MINUTE + 30_000, EventKind.HELD), (20 * MINUTE, EventKind.RELEASING)):
        table.append(Event(kind, "h", "orders", "a", START + at, 2, (), shown=(1, 3)))
    said = facts(tmp_path, HOUR)[0]
    assert said.startswith(f"{BACK} 2023-11-14 22:28:20 UTC: what it lacked was kept until 2023-11-14 22:2")
    assert said.endswith("at least, and it was back while nothing was cleaned yet.")


def test_one_that_was_away_and_then_behind_is_said_to_have_been_both(tmp_path: Path) -> None:
    ticks = history(away_from=10 * MINUTE, until=12 * MINUTE)
    write(
        tmp_path,
        *ticks,
        tick(12 * MINUTE, {1: 22, 2: 19, 3: 22}, (1, 3)),
        tick(13 * MINUTE, dict.fromkeys(ALL, 23), ALL),
    )
    (said,) = facts(tmp_path, HOUR)
    assert said.startswith(f"Broker 2 was away, then behind from {SINCE} to 2023-11-14 22:26:20 UTC: ")


def copied_before_it_was_in_sync(storage: Path, **said: int) -> None:
    """Broker 2 is away for two minutes, has all of the leader's log again then, and is in sync a minute later."""
    ticks = history(away_from=10 * MINUTE, until=12 * MINUTE, **said)
    copied = tick(12 * MINUTE, {1: 22, 2: 22, 3: 22}, (1, 3), **said)
    write(storage, *ticks, copied, tick(13 * MINUTE, dict.fromkeys(ALL, 23), ALL, **said))


def test_a_bound_is_of_what_a_replica_lacked_before_it_copied_anything(tmp_path: Path) -> None:
    copied_before_it_was_in_sync(tmp_path, retention=2 * MINUTE)
    (said,) = facts(tmp_path, HOUR, skew=5_000)
    assert said == (
        f"Broker 2 was away, then behind from {SINCE} to 2023-11-14 22:26:20 UTC: what it lacked was kept until "
        "2023-11-14 22:24:14 UTC at least, and it copied records after that."
    )


def test_where_no_time_is_left_an_absence_has_no_bound_whatever_was_copied_since(tmp_path: Path) -> None:
    copied_before_it_was_in_sync(tmp_path, retention=15_000)
    (said,) = facts(tmp_path, HOUR, skew=MINUTE)
    assert said.endswith(
        "what it lacked may have been cleaned from the first moment on "
        "(delete.retention.ms less guard.clock_skew_ms leaves no time), and it copied records."
    )


def test_one_that_copied_in_steps_each_in_time_is_said_to_have_missed_nothing(tmp_path: Path) -> None:
    ticks = history(away_from=10 * MINUTE, until=12 * MINUTE, retention=4 * MINUTE)
    some = tick(12 * MINUTE, {1: 22, 2: 21, 3: 22}, (1, 3), retention=4 * MINUTE)
    write(tmp_path, *ticks, some, tick(13 * MINUTE, dict.fromkeys(ALL, 23), ALL, retention=4 * MINUTE))
    (said,) = facts(tmp_path, HOUR)
    assert "to 2023-11-14 22:26:20 UTC: what it lacked was kept until 2023-11-14 22:26:19 UTC" in said
    assert said.endswith("at least, and it copied nothing that may have been cleaned before.")


def test_an_absence_begins_when_the_broker_fell_silent_and_not_when_it_was_out_of_sync(tmp_path: Path) -> None:
    silent = tick(10 * MINUTE, {1: 20, 2: None, 3: 20}, ALL)
    ticks = [*history(away_from=HOUR, until=10 * MINUTE), silent]
    out = tick(11 * MINUTE, {1: 21, 2: None, 3: 21}, (1, 3))
    write(tmp_path, *ticks, out, tick(12 * MINUTE, dict.fromkeys(ALL, 22), ALL))
    (said,) = facts(tmp_path, HOUR)
    assert said.startswith("Broker 2 was away from 2023-11-14 22:23:20 UTC at the latest (it lacked nothing at ")
    assert " to 2023-11-14 22:25:20 UTC: " in said
