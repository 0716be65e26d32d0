"""Blocks: the footer of each file of the views tells what its rows add up to, and of which ranges."""

from __future__ import annotations

import base64
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parallax.model import CONTENT_VERSION, ReadEvent, RowKind, TopicPartition
from parallax.replica.digests import BLOCK, JOINED_BITS
from parallax.source.schema import VIEW
from parallax.views import recording
from parallax.views.appending import Appender
from parallax.views.blocks import RANGE, AddingUp, Blocks, blocks_of
from parallax.views.compaction import compact
from parallax.views.packed import packed
from tests.unit.views.recorded import KEY, piece, position, recorded, rows


def told(storage: Path | str, file: recording.Recorded) -> Blocks:
    view = ("read_uncommitted", "read_committed")[file.isolation]
    return blocks_of(pq.read_metadata(f"{storage}/{view}/{file.path}").metadata)


def sums(blocks: Blocks) -> dict[tuple[TopicPartition, int], tuple[int, int, int]]:
    """By partition and 4,096 offsets, which no part goes beyond: records, and both halves of the sum."""
    found: dict[tuple[TopicPartition, int], tuple[int, int, int]] = {}
    for part in blocks.digests.parts:
        place = blocks.ranges["place"][part["range"]] if len(blocks.ranges) else part["range"]
        name = blocks.places[place], int(part["block_end"] - 1) >> JOINED_BITS
        count, low, high = found.get(name, (0, 0, 0))
        more = int(part["records"]), int(part["low"]), int(part["high"])
        found[name] = count + more[0], (low + more[1]) % 2**64, (high + more[2]) % 2**64
    return found


def of_rows(*batches: pa.RecordBatch) -> Blocks:
    adding = AddingUp(KEY)
    for batch in batches:
        adding.take(batch)
    return adding.blocks([])


def test_a_file_tells_what_its_rows_add_up_to_and_the_ranges_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [piece("t", 0, 4000, 4200), piece("t", 0, 4000, 4150, 1), piece("u", 0, 5, 9)]
    batches = [rows("t", 0, range(4000, 4100)), rows("t", 0, range(4100, 4200)), rows("u", 0, range(5, 8))]
    both = [*batches, rows("t", 0, range(4000, 4150), 1)]
    ends = [position(pieces[0], 4200), position(pieces[2], 9), position(pieces[1], 4150)]
    uncommitted, committed = recorded(tmp_path, monkeypatch, pieces, [*both, *ends])
    found = told(tmp_path, uncommitted)
    t, u = TopicPartition("t", 0), TopicPartition("u", 0)
    assert {name: count for name, (count, _, _) in sums(found).items()} == {(t, 0): 96, (t, 1): 104, (u, 0): 3}
    assert sums(found) == sums(of_rows(*batches))
    names = [(found.places[r["place"]], *(int(r[n]) for n in ("start", "end", "epoch"))) for r in found.ranges]
    assert names == [(t, 4000, 4200, 3), (u, 5, 9, 3)]
    assert [found.topic_ids[r["topic_id"]] for r in found.ranges] == ["id of t", "id of u"]
    assert found.ranges["whole"].all()
    assert {name[1]: count for name, (count, _, _) in sums(told(tmp_path, committed)).items()} == {0: 96, 1: 54}


@pytest.mark.parametrize("event", [ReadEvent.UNREACHABLE, ReadEvent.LOG_START_ADVANCED, ReadEvent.BATCH_SKIPPED])
def test_a_range_that_was_not_read_whole_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: ReadEvent
) -> None:
    pieces = [piece("t", 0, 0, 9), piece("t", 1, 0, 9)]
    ends = [position(pieces[0], 4, event), position(pieces[1], 9)]
    (file,) = recorded(tmp_path, monkeypatch, pieces, [rows("t", 0, range(4)), rows("t", 1, range(9)), *ends])
    found = told(tmp_path, file)
    assert found.ranges["end"].tolist() == [4, 9]
    assert found.ranges["whole"].tolist() == [False, True]


def test_a_range_without_rows_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = piece("t", 0, 3, 9)
    (file,) = recorded(tmp_path, monkeypatch, [one], [position(one, 9)])
    found = told(tmp_path, file)
    assert (found.places, len(found.digests.parts)) == ((TopicPartition("t", 0),), 0)
    assert (found.ranges["start"][0], found.ranges["end"][0]) == (3, 9)


def test_rows_of_several_partitions_in_one_record_batch_are_told_apart() -> None:
    parts = [rows("t", 0, range(3)), rows("t", 1, range(2)), rows("u", 1, range(4)), rows("t", 2, range(1))]
    whole = pa.Table.from_batches(parts).combine_chunks().to_batches()
    assert sums(of_rows(*whole)) == sums(of_rows(*parts))
    assert len(sums(of_rows(*whole))) == 4


def test_ranges_that_go_on_from_each_other_are_merged_and_others_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [("t", 0, 5), ("u", 0, 9), ("t", 5, 9), ("t", 9, 9), ("u", 10, 12), ("t", 9, 20), ("t", 20, 21)]
    made = []
    for topic, start, end in spans:
        one = piece(topic, 0, start, end)
        event = ReadEvent.UNREACHABLE if end == 21 else ReadEvent.OK
        its = [rows(topic, 0, range(start, end))] if end > start else []
        (file,) = recorded(tmp_path, monkeypatch, [one], [*its, position(one, end, event)])
        made.append(told(tmp_path, file))
    whole, names = Blocks.concat(made), ("start", "end", "whole")
    found = whole.joined()
    ranges = [(found.places[one["place"]].topic, *(one[name].item() for name in names)) for one in found.ranges]
    assert ranges == [("t", 0, 20, True), ("t", 20, 21, False), ("u", 0, 9, True), ("u", 10, 12, True)]
    assert sums(found) == sums(whole)
    assert found.digests.parts["range"].tolist() == [0, 1, 2, 3]
    assert Blocks.none().joined().places == ()


def test_what_is_told_is_what_is_read() -> None:
    before = of_rows(rows("t", 0, range(4000, 5000)), rows("ü", 1, range(3)))
    told_as = {key.encode(): value.encode() for key, value in before.told().items()}
    after = blocks_of(told_as)
    assert after.places == before.places
    assert np.array_equal(after.digests.parts, before.digests.parts)
    assert Blocks.none().told() == {}


def test_several_files_of_which_one_has_no_sums_have_none_together() -> None:
    one = of_rows(rows("t", 0, range(9)))
    assert Blocks.concat([one, one]).places == one.places
    for several in ([Blocks.none(), one], [one, Blocks.none()]):
        assert Blocks.concat(several).places == ()


def test_a_file_of_another_version_tells_nothing() -> None:
    assert blocks_of(None).places == ()
    assert blocks_of({b"parallax.commits": b"AAAA"}).places == ()
    other = base64.b64encode(zlib.compress(b'{"format": 99}\n'))
    assert blocks_of({b"parallax.blocks": other}).places == ()


def test_a_file_with_larger_blocks_that_have_a_number_tells_where_they_end() -> None:
    made = of_rows(rows("t", 0, range(4000, 9000))).joined()
    tables = [np.empty(0, RANGE), made.digests.parts.copy(), made.digests.moves]
    tables[1]["block_end"] = [0, 1, 2]
    head = {"format": 1, "block_bits": 12, "content": int(CONTENT_VERSION), "places": [("t", 0)], "topic_ids": []}
    text = packed({**head, "rows": [len(one) for one in tables]}, tables)
    found = blocks_of({b"parallax.blocks": text.encode()})
    assert found.digests.parts["block_end"].tolist() == [4096, 8192, 12288]
    assert sums(found) == sums(made)
    other = packed({**head, "content": 99, "rows": [len(one) for one in tables]}, tables)
    assert blocks_of({b"parallax.blocks": other.encode()}).places == ()


def test_a_footer_that_is_garbled_tells_nothing() -> None:
    whole = of_rows(rows("t", 0, range(9))).told()["parallax.blocks"].encode()
    raw = zlib.decompress(base64.b64decode(whole))
    garbled = [b"", b"{", b"[1]\n", b"\xff\xfe\n", raw[:-1], raw + b"1", raw.replace(b'[["t", 0]]', b"7")]
    garbled += [raw.replace(b'"rows": [0', b'"rows": [-1'), raw.replace(b'"rows": [', b'"rows": [0, ')]
    texts = [b"AAAA", b"abc", whole[:-5], *(base64.b64encode(zlib.compress(one)) for one in garbled)]
    assert [blocks_of({b"parallax.blocks": one}).places for one in (whole, *texts)] == [
        (TopicPartition("t", 0),),
        *[()] * len(texts),
    ]


def test_compaction_joins_what_the_rows_of_its_files_add_up_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, made, at = random.Random(3), [], 0
    for batch, size in enumerate((4900, 5000, 5100, 5200)):
        topic = draw.choice(("t", "u"))
        one = piece(topic, 0, at, at + size)
        written = recorded(
            tmp_path, monkeypatch, [one], [rows(topic, 0, range(at, at + size)), position(one, at + size)]
        )
        Appender(str(tmp_path), "read_uncommitted").append_files(written, "query", batch)
        made.append(told(tmp_path, written[0]))
        at += size
    assert compact(str(tmp_path), "read_uncommitted") == 4
    (file,) = set(tmp_path.glob("read_uncommitted/**/joined-*.parquet"))
    found, before = blocks_of(pq.read_metadata(file).metadata), Blocks.concat(made)
    assert sums(found) == sums(before)
    pieces = {(part["range"], part["block_end"] - 1 >> JOINED_BITS) for part in before.digests.parts}
    assert len(before.digests.parts) > 20_000 // BLOCK > len(found.digests.parts) == len(pieces)
    assert [(r["start"], r["end"], found.places[r["place"]]) for r in found.ranges] == [
        (r["start"], r["end"], before.places[r["place"]]) for r in before.ranges
    ]
    data = pq.read_table(file)
    of_records: Any = pa.array([kind != RowKind.POSITION for kind in data["kind"].to_pylist()])
    kept = data.filter(of_records)
    assert sums(of_rows(*kept.select([n for n in VIEW.names if n != "broker"]).to_batches())) == sums(before)
