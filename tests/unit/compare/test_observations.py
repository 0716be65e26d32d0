"""What a micro-batch showed, as columns: what is missing has its default, and joining keeps every row in its place."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from parallax.compare.observations import (
    EVENT_CODE,
    EVENTS,
    Columns,
    Observations,
    OpenTransactions,
    ProgressRows,
    ReplicaSets,
    ViewRows,
    topic_id_code,
)
from parallax.model import ReadEvent
from tests.unit.compare.history import RC, RU, everywhere, record, shown, tick


def as_rows(columns: Columns) -> list[dict[str, Any]]:
    return [{name: getattr(columns, name)[i].item() for name in columns.dtypes()} for i in range(len(columns))]


class TestTopicIds:
    def test_an_id_has_the_same_code_in_every_run(self) -> None:
        """It is in the comparison's state: another code would be another topic to it."""
        assert topic_id_code("4jA8Y6bTQnuc1cZcd3wEYQ") == 3687201573813289586
        assert topic_id_code("4jA8Y6bTQnuc1cZcd3wEYR") == -2454899732763267334

    @pytest.mark.parametrize("unknown", [None, ""])
    def test_one_that_is_not_known_is_none(self, unknown: str | None) -> None:
        assert topic_id_code(unknown) == 0


def test_the_code_of_no_event_is_that_of_a_row_that_tells_none() -> None:
    assert [EVENTS[EVENT_CODE[str(event)]] for event in ReadEvent] == list(ReadEvent)
    assert as_rows(ViewRows.from_rows([{}]))[0]["event"] == EVENT_CODE[ReadEvent.OK]


class TestColumns:
    def test_what_a_row_of_a_view_does_not_tell_is_not_known(self) -> None:
        unknown = ("broker", "offset", "producer_id", "producer_epoch", "key_size", "value_size", "leader_epoch")
        optional = ("high_watermark", "last_stable_offset", "log_start_offset")
        assert as_rows(ViewRows.from_rows([{}])) == [
            dict.fromkeys(ViewRows.dtypes(), 0) | dict.fromkeys(unknown + optional, -1) | {"content_version": 1}
        ]

    def test_what_a_row_of_progress_does_not_tell_is_not_known(self) -> None:
        known = {"observed_at": 0, "reachable": False, "described": False}
        assert as_rows(ProgressRows.from_rows([{}])) == [dict.fromkeys(ProgressRows.dtypes(), -1) | known]
        assert as_rows(OpenTransactions.from_rows([{}])) == [
            {"broker": -1, "observed_at": 0, "producer_id": -1, "start_offset": -1}
        ]
        assert as_rows(ReplicaSets.from_rows([{}])) == [{"broker": -1, "observed_at": 0}]

    def test_columns_that_are_not_given_are_as_long_as_the_first_that_is(self) -> None:
        made = OpenTransactions.of({"producer_id": [7, 8]})
        assert made.producer_id.tolist() == [7, 8]
        assert made.start_offset.tolist() == [-1, -1]
        assert made.start_offset.dtype == np.int64
        assert len(OpenTransactions.of({})) == 0
        assert OpenTransactions.of({}, 3).broker.tolist() == [-1, -1, -1]

    def test_joined_rows_follow_each_other_whatever_is_empty_among_them(self) -> None:
        first, second = (ReplicaSets.of({"observed_at": at, "broker": at}) for at in ([1, 2], [3]))
        none = ReplicaSets.none()
        assert (len(none), len(ReplicaSets.concat([])), len(ReplicaSets.concat([none, none]))) == (0, 0, 0)
        assert as_rows(ReplicaSets.concat([none, first])) == as_rows(first)
        assert ReplicaSets.concat([first, none, second]).broker.tolist() == [1, 2, 3]
        assert ReplicaSets.concat([second, first]).observed_at.tolist() == [3, 1, 2]

    def test_rows_are_taken_by_mask_index_and_slice(self) -> None:
        rows = ReplicaSets.of({"observed_at": [5, 6, 7], "broker": [1, 2, 3]})
        for index in (np.array([False, True, True]), np.array([1, 2]), slice(1, None)):
            assert as_rows(rows.take(index)) == [{"observed_at": 6, "broker": 2}, {"observed_at": 7, "broker": 3}]

    def test_bytes_are_read_back_only_for_as_many_rows_as_were_written(self) -> None:
        rows = ReplicaSets.of({"observed_at": [5, 6], "broker": [1, 2]})
        data = rows.to_bytes()
        assert len(data) == 2 * (8 + 4)
        assert as_rows(ReplicaSets.from_bytes(data, 2)) == as_rows(rows)
        with pytest.raises(ValueError, match="24 bytes do not hold 1 rows of 12 bytes in all"):
            ReplicaSets.from_bytes(data, 1)


class TestObservations:
    def test_rows_are_distinguished_by_what_they_say(self) -> None:
        views = [*shown(RU, 1, [record(4, "K", "V")], 5), *shown(RC, 2, [], 3, event=ReadEvent.LOG_TRUNCATED)]
        (first, *_), (second, *_) = tick(8, everywhere(5), open={1: [(9, 4), (7, 2)]}), tick(9, everywhere(6))
        observed = Observations.of("t", 3, [*views, first, second])
        assert (observed.topic, observed.partition) == ("t", 3)
        assert list(zip(observed.rows.broker.tolist(), observed.rows.offset.tolist(), strict=True)) == [
            (1, 4),
            (1, 5),
            (2, 3),
        ]
        assert observed.rows.event.tolist() == [0, 0, EVENT_CODE[ReadEvent.LOG_TRUNCATED]]
        assert observed.progress.observed_at.tolist() == [8, 9]
        assert as_rows(observed.open_transactions) == [
            {"broker": 1, "observed_at": 8, "producer_id": 9, "start_offset": 4},
            {"broker": 1, "observed_at": 8, "producer_id": 7, "start_offset": 2},
        ]
        sets = [(r["observed_at"], r["broker"]) for r in as_rows(observed.replica_sets)]
        assert sets == [(at, broker) for at in (8, 9) for broker in (1, 2, 3)]

    def test_that_no_transaction_is_open_is_known_and_that_there_is_no_list_is_not(self) -> None:
        row = {"broker": 1, "observed_at": 8, "reachable": True}
        observed = Observations.of("t", 0, [{**row, "open_transactions": ()}, row])
        assert observed.progress.described.tolist() == [True, False]

    def test_parts_of_one_partition_are_joined_in_their_order(self) -> None:
        parts = [
            Observations.of("t", 3, shown(RU, b, [], b) + tick(b, everywhere(b), open={1: [(b, 0)]})) for b in (1, 2)
        ]
        joined = Observations.concat(parts)
        assert (joined.topic, joined.partition) == ("t", 3)
        for part in ("rows", "progress", "open_transactions", "replica_sets"):
            for f in fields(getattr(joined, part)):
                wanted = np.concatenate([getattr(getattr(p, part), f.name) for p in parts])
                assert getattr(getattr(joined, part), f.name).tolist() == wanted.tolist(), (part, f.name)
        assert as_rows(Observations.concat(parts[:1]).rows) == as_rows(parts[0].rows)

    @pytest.mark.parametrize(
        "others", [[], [Observations("t", 0), Observations("t", 1)], [Observations("t", 0), Observations("u", 0)]]
    )
    def test_nothing_and_parts_of_several_partitions_cannot_be_joined(self, others: list[Observations]) -> None:
        with pytest.raises(ValueError, match="same topic partition"):
            Observations.concat(others)
