from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from parallax.findings.sight import LogSeen, Sight, What, document, in_words, saw, sights
from parallax.model import IsolationLevel, Outcome, RowKind

RC, RU = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def clock(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def record(offset: int, value: int | None = 7, outcome: Outcome = Outcome.NONE, **other: Any) -> dict[str, Any]:
    base = {
        "partition": 0,
        "broker": 2,
        "kind": int(RowKind.RECORD),
        "offset": offset,
        "timestamp": clock(0),
        "leader_epoch": 3,
        "outcome": int(outcome),
        "content_hash": -1,
        "key_size": 1,
        "value_size": -1 if value is None else value,
        "position": None,
    }
    return base | other


def read(to: int, at: int, event: str = "ok", **marks: Any) -> dict[str, Any]:
    said = {"event": event, "topic_id": "A", "log_start_offset": 0, "last_stable_offset": to, "high_watermark": to}
    row = record(to, kind=int(RowKind.POSITION), timestamp=clock(at), position=said | marks)
    return row | {"broker": marks.get("broker", 2)}


def one(rows: list[dict[str, Any]], at: int, offset: int | None = None, isolation: IsolationLevel = RC) -> Sight:
    (found,) = sights(rows, isolation, clock(at), offset)
    return found


BEGUN = read(0, 0, "partition_added")
KEY = [BEGUN, record(1), read(4, 10), record(5, None), read(8, 20)]
"""Of one key: a value, and later its tombstone."""


def test_the_newest_record_of_a_key_that_was_read_by_then_counts() -> None:
    assert (one(KEY, 9).what, one(KEY, 9).why) == (What.NOTHING, "no record of the key was shown")
    assert (one(KEY, 10).what, one(KEY, 19).row.offset) == (What.RECORD, 1)  # type: ignore[union-attr]
    assert (one(KEY, 20).what, one(KEY, 20).read_to) == (What.TOMBSTONE, 8)


def test_a_record_without_key_and_value_is_no_tombstone() -> None:
    nothing, value = ([BEGUN, record(1, size, key_size=-1), read(4, 10)] for size in (None, 1))
    assert (one(nothing, 10, 1).what, document(one(nothing, 10, 1))["record"]["key_size"]) == (What.RECORD, -1)
    assert saw(one(nothing, 10, 1)).startswith("a record without a value, without a key at offset 1, ")
    assert saw(one(value, 10, 1)).startswith("a value of 1 byte (content ffffffffffffffff), without a key at offset 1")


@pytest.mark.parametrize(
    ("outcome", "isolation", "what"),
    [
        (Outcome.COMMITTED, RC, What.RECORD),
        (Outcome.ABORTED, RC, What.NOTHING),
        (Outcome.ABORTED, RU, What.RECORD),
        (Outcome.UNDECIDED, RU, What.RECORD),
    ],
)
def test_what_is_aborted_is_seen_by_read_uncommitted_alone(
    outcome: Outcome, isolation: IsolationLevel, what: What
) -> None:
    assert one([BEGUN, record(1, outcome=outcome), read(4, 10)], 10, isolation=isolation).what is what
    assert one([BEGUN, record(1, outcome=outcome), read(4, 10)], 10, 1, isolation).what is what


def test_what_a_log_has_given_up_is_seen_no_more() -> None:
    truncated = [BEGUN, record(1), record(5), read(8, 10), read(4, 20, "log_truncated"), record(4, 9), read(6, 30)]
    shown = [one(truncated, at).row for at in (10, 20, 30)]
    assert [row and row.offset for row in shown] == [5, 1, 4]
    for event in ("topic_recreated", "topic_deleted", "not_hosted"):
        assert one([BEGUN, record(1), read(4, 10), record(5), read(0, 20, event)], 20).what is What.NOTHING
    other = read(2, 20, topic_id="B")
    assert one([BEGUN, record(1), read(4, 10), record(1, 2), other], 20).row.value_size == 2  # type: ignore[union-attr]


def test_of_a_key_of_which_the_views_hold_nothing_nobody_can_tell_unless_all_was_read() -> None:
    late = one([read(6, 10), read(8, 20)], 20)
    assert (late.what, late.why) == (
        What.UNKNOWN,
        "the views hold no record of the key, and only what was read from offset 6",
    )
    begun = read(6, 5, "partition_added", log_start_offset=None)
    assert one([begun, read(7, 10, log_start_offset=6), read(8, 20, log_start_offset=7)], 20).what is What.NOTHING
    before = one(KEY, 0)
    assert before.read_to == 0
    assert one([read(6, 10)], 5).why == "nothing that was read by then is in the views"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (1, "a value of 7 bytes (content ffffffffffffffff) at offset 1, written 2026-01-01 00:00:00Z"),
        (2, "nothing: the replica held no record there when it was read"),
        (3, "nothing: a COMMIT marker"),
        (4, "nothing: it was held back at the last stable offset 4"),
        (9, "nothing: the replica showed nothing from offset 9 on"),
    ],
)
def test_at_an_offset_it_is_said_what_was_there(offset: int, expected: str) -> None:
    row = {1: [record(1)], 3: [record(3, kind=int(RowKind.COMMIT))]}.get(offset, [])
    end = read(4, 10, last_stable_offset=4, high_watermark=9)
    found = one([BEGUN, *row, end], 10, offset)
    assert saw(found) == expected


def test_a_reader_that_never_moved_is_judged_by_what_its_replica_told_of_its_log() -> None:
    stuck = read(0, 0, "partition_added", log_start_offset=-1, last_stable_offset=-1, high_watermark=-1)
    told = {(0, 2): LogSeen(clock(5), log_start=0, last_stable=0, high_watermark=9)}
    (at_it,) = sights([stuck], RC, clock(10), 0, told)
    (of_key,) = sights([stuck], RC, clock(10), None, told)
    assert (at_it.what, at_it.why) == (What.NOTHING, "it was held back at the last stable offset 0")
    assert of_key.why == "no record of the key was shown; it was held back at the last stable offset 0"
    assert one([stuck], 10, 0).what is one([stuck], 10).what is What.UNKNOWN
    (lags,) = sights([stuck], RU, clock(10), 0, told)
    assert (lags.what, lags.why) == (What.UNKNOWN, "it was read up to offset 0 only")
    (older,) = sights([read(4, 10)], RC, clock(10), 9, told)
    assert older.why == "the replica showed nothing from offset 4 on", "the younger of both counts"


def test_rows_that_are_not_kept_leave_it_unknown_what_was_there_and_never_say_nothing() -> None:
    rows = [BEGUN, record(1), read(4, 10), read(8, 20, "not_kept"), record(9), read(10, 30)]
    of_key, at_it = one(rows, 20), one(rows, 20, 6)
    assert (of_key.what, at_it.what) == (What.UNKNOWN, What.UNKNOWN)
    why = "what was read from offset 8 (storage.record: blocks keeps no rows below in which all replicas agreed)"
    assert at_it.why == f"the views hold only {why}"
    assert of_key.why == (f"a newer record of the key than that at offset 1 may be missing: the views hold all {why}")
    assert one(rows, 10).what is What.RECORD, "before that all was there"
    assert one(rows, 30).row.offset == 9, "and from then on"  # type: ignore[union-attr]
    assert one(rows, 30, 1).what is What.RECORD, "a row that is there was shown"
    assert one([BEGUN, read(8, 20, "not_kept")], 20).why == f"the views hold no record of the key, and only {why}"
    back = [*rows, read(5, 40, "log_truncated"), record(5), read(6, 50)]
    assert one(back, 50).row.offset == 5, "what was read again is there"  # type: ignore[union-attr]


def test_an_offset_that_was_not_read_is_not_known() -> None:
    assert one([BEGUN, read(4, 10, last_stable_offset=9, high_watermark=9)], 10, 5).what is What.UNKNOWN
    assert one([read(6, 10), read(8, 20)], 20, 2).what is What.UNKNOWN
    begun = read(6, 5, "partition_added", log_start_offset=None)
    seen = [one([begun, read(8, 20, log_start_offset=3)], 20, offset) for offset in (2, 4, 7)]
    assert [found.what for found in seen] == [What.NOTHING, What.UNKNOWN, What.NOTHING]
    assert seen[0].why == "the log began at offset 3"
    assert one([BEGUN, read(4, 10, log_start_offset=9)], 10, 6).why == "the log began at offset 9", "it cannot be read"


def test_what_a_log_start_has_passed_since_may_have_been_shown_before() -> None:
    """As `parallax seen` has it: rows that are not kept, or that retention has dropped, were not absent."""
    said = {"log_start_offset": 50}
    gone = [BEGUN, read(8, 20, "not_kept"), read(60, 30, **said)]
    dropped = [read(8, 20), read(60, 30, **said)]
    carried = [read(8, 20, **said), read(60, 30, **said)]
    for rows in (gone, dropped, carried, gone[1:]):
        assert one(rows, 30, 6).what is one(rows, 30).what is What.UNKNOWN
    (later,) = sights(gone[:2], RC, clock(40), 6, {(0, 2): LogSeen(clock(35), 50, 60, 60)})
    assert later.what is What.UNKNOWN, "nor does the table of progress say it"
    assert one([BEGUN, read(8, 20), read(60, 30, **said)], 30, 6).why.startswith("the replica held no record there")


def test_rows_behind_the_end_of_their_range_count_as_read() -> None:
    assert one([BEGUN, read(4, 10), record(1)], 10).what is What.RECORD


def test_each_replica_is_said_for_itself() -> None:
    rows = [BEGUN, read(0, 0, "partition_added", broker=1), record(1), read(4, 10), read(4, 10, broker=1)]
    assert [(found.broker, found.what) for found in sights(rows, RC, clock(10))] == [
        (1, What.NOTHING),
        (2, What.RECORD),
    ]
    (_, second) = sights(rows, RC, clock(10))
    assert in_words(second).startswith("broker 2: a value of 7 bytes")
    assert in_words(second).endswith("(read up to offset 4 at 2026-01-01 00:00:10Z)")
    assert document(second)["record"]["content_hash"] == "f" * 16
