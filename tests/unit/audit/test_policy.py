"""What recorded progress tells of a topic's cleanup policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from parallax.audit.plan import PolicyHistory, TopicTraits
from parallax.audit.policy import compact_by_now, needs_no_cleaner, policy_histories
from parallax.model import FindingKind, TopicPartition
from parallax.source import schema
from parallax.views.tables import PROGRESS, RECORDED_ON, create_tables, rust_uri
from tests.builders.claims import key_suspect, suspect

START = datetime(2026, 5, 1, tzinfo=UTC)
PLACE = TopicPartition("o'rders", 0)


def look(second: int, policy: str | None, end: int, asked: int | None = None, **more: Any) -> dict[str, Any]:
    at = START + timedelta(seconds=second)
    row = {"topic": PLACE.topic, "partition": 0, "broker": 1, "observed_at": at, "reachable": True, "leader": 1}
    row |= {"log_end_offset": end, "topic_id": "id", "cleanup_policy": policy, RECORDED_ON: at.date()}
    return row | {"policy_at": START + timedelta(seconds=second if asked is None else asked)} | more


@pytest.fixture
def told(tmp_path: Path) -> Any:
    def record(*looks: dict[str, Any]) -> dict[Any, PolicyHistory]:
        create_tables(str(tmp_path))
        fields = schema.PROGRESS.append(pa.field(RECORDED_ON, pa.date32()))
        write_deltalake(rust_uri(str(tmp_path), PROGRESS), pa.Table.from_pylist(list(looks), fields), mode="append")
        return policy_histories(str(tmp_path), [PLACE.topic])

    return record


def test_nothing_is_known_before_anything_was_recorded(tmp_path: Path) -> None:
    assert policy_histories(str(tmp_path), ["orders"]) == {}
    assert policy_histories(str(tmp_path), []) == {}


def test_a_log_is_uncompacted_from_its_end_when_the_policy_was_first_seen_without_compact(told: Any) -> None:
    assert told(look(0, "delete", 4), look(9, "delete", 8)) == {(PLACE, "id"): PolicyHistory(4)}


def test_one_that_was_compacted_is_so_from_the_first_look_after_the_last_at_that_policy(told: Any) -> None:
    looks = look(0, "delete", 4), look(9, "compact,delete", 8), look(19, "delete", 15), look(29, "delete", 20)
    assert told(*looks) == {(PLACE, "id"): PolicyHistory(15, was_compacted=True)}


def test_a_policy_that_compacts_still_leaves_nothing(told: Any) -> None:
    assert told(look(0, "delete", 4), look(9, "compact", 8)) == {}


def test_a_policy_of_before_that_is_told_again_is_no_later_look(told: Any) -> None:
    # Another broker's row still carries what was asked for before.
    looks = look(0, "delete", 4), look(9, "compact", 8), look(12, "delete", 9, asked=0), look(19, "delete", 15)
    assert told(*looks) == {(PLACE, "id"): PolicyHistory(15, was_compacted=True)}


def test_a_follower_does_not_tell_how_far_the_log_goes(told: Any) -> None:
    looks = look(0, "delete", 2, broker=2), look(1, "delete", 5), look(2, None, 7)
    assert told(*looks) == {(PLACE, "id"): PolicyHistory(5)}


def test_a_topic_that_was_re_created_has_a_history_of_its_own(told: Any) -> None:
    looks = look(0, "compact", 4, topic_id="old"), look(9, "delete", 1)
    assert told(*looks) == {(PLACE, "id"): PolicyHistory(1)}


def test_a_policy_that_was_changed_while_it_was_audited_is_noticed() -> None:
    fixed, compacted, hidden = TopicTraits(compacted=False), TopicTraits(), TopicTraits(unknown="no right to see it")
    before = {"a": fixed, "b": fixed, "c": compacted, "d": fixed}
    assert compact_by_now(before, {"a": fixed, "b": compacted, "c": compacted, "d": hidden}) == {"b", "d"}


def test_only_suspects_that_rest_on_nothing_being_compacted_fall_with_that() -> None:
    assert needs_no_cleaner(key_suspect(FindingKind.RECORD_MISSING, key_hash_lo=0))
    assert needs_no_cleaner(suspect(FindingKind.MARKER_MISSING, observations={"uncompacted": True}))
    assert not needs_no_cleaner(key_suspect(FindingKind.RECORD_MISSING))
    assert not needs_no_cleaner(suspect(FindingKind.CONTENT_MISMATCH))
