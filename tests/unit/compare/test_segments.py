from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from parallax.compare.segments import LARGE, Manifest, Segment, StateGoneError, States, Store, bucket_of
from parallax.compare.state import PartitionState
from parallax.model import TopicPartition


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(str(tmp_path))
    made.prepare()
    return made


def place(n: int) -> TopicPartition:
    return TopicPartition("orders", n)


def state(floor: int, unmatched: int = 0) -> PartitionState:
    made = PartitionState()
    made.partition["floor"] = floor
    if unmatched:
        made.content = np.zeros(unmatched, made.content.dtype)
        made.content["offset"] = np.arange(unmatched) + floor
    return made


def floor(states: States, n: int) -> int:
    return int(states.get(place(n)).partition["floor"][0, 0])


def put(states: States, n: int, after: PartitionState) -> None:
    states.put(place(n), states.get(place(n)), after)


def test_what_was_saved_is_loaded_again(store: Store) -> None:
    states = store.load({3: None})[3]
    put(states, 0, state(5))
    put(states, 1, state(7))
    segment = store.save([states])[3]
    again = store.load({3: segment})[3]
    assert (floor(again, 0), floor(again, 1)) == (5, 7)
    assert again.get(place(2)).partition["floor"][0, 0] == PartitionState().partition["floor"][0, 0]


def test_what_has_not_changed_goes_into_the_next_segment_as_it_was(store: Store) -> None:
    first = store.load({3: None})[3]
    for n in range(5):
        put(first, n, state(n))
    second = store.load({3: store.save([first])[3]})[3]
    put(second, 2, state(20))
    put(second, 9, state(90))
    third = store.load({3: store.save([second])[3]})[3]
    assert [floor(third, n) for n in (0, 1, 2, 3, 4, 9)] == [0, 1, 20, 3, 4, 90]
    assert third.rows().num_rows == 6


def test_a_segment_that_buckets_share_is_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = store.load({1: None, 2: None})
    put(loaded[1], 0, state(5))
    put(loaded[2], 1, state(7))
    segments = store.save(list(loaded.values()))
    assert segments[1].name == segments[2].name
    read: list[str] = []
    import parallax.compare.segments as module

    checked = module._checked
    monkeypatch.setattr(module, "_checked", lambda files, name: read.append(name) or checked(files, name))
    again = store.load(dict(segments))
    assert (floor(again[1], 0), floor(again[2], 1), read) == (5, 7, [segments[1].name])
    assert again[1].get(place(1)).partition["floor"][0, 0] == PartitionState().partition["floor"][0, 0]


def test_a_large_state_has_a_file_of_its_own_that_stays_while_it_does_not_change(store: Store, tmp_path: Path) -> None:
    large = state(1, LARGE)
    states = store.load({3: None})[3]
    put(states, 0, large)
    first = store.save([states])[3]
    assert len(first.files) == 1
    again = store.load({3: first})[3]
    before = again.get(place(0))
    after = before.copy()
    after.partition["floor"] = 9
    again.put(place(0), before, after)
    second = store.save([again])[3]
    assert second.files == first.files
    assert second.name != first.name
    last = store.load({3: second})[3]
    assert floor(last, 0) == 9
    assert len(last.get(place(0)).content) == LARGE


def test_a_segment_that_was_changed_is_none(store: Store, tmp_path: Path) -> None:
    states = store.load({3: None})[3]
    put(states, 0, state(5))
    segment = store.save([states])[3]
    (file,) = tmp_path.rglob(segment.name)
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    with pytest.raises(ValueError, match="is not what was written"):
        store.load({3: segment})


KEPT = Manifest(16, {3: Segment("segment-a", ("unmatched-b",)), 4: Segment("segment-c")}, 7)


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert Manifest.from_json(KEPT.to_json()) == KEPT


def test_no_character_of_a_manifest_can_be_another_one() -> None:
    text = KEPT.to_json()
    for at, character in enumerate(text):
        for other in {chr(ord(character) ^ 1), "7"} - {character}:
            garbled = text[:at] + other + text[at + 1 :]
            with contextlib.suppress(ValueError):
                assert Manifest.from_json(garbled) == KEPT, garbled


def test_a_manifest_of_an_earlier_version_has_no_checksum_and_is_taken_over() -> None:
    earlier = '{"buckets":16,"segments":{"3":["segment-a","unmatched-b"],"4":["segment-c"]},"number":7}'
    assert Manifest.from_json(earlier) == KEPT


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "{}", '{"checksum":[]}'])
def test_what_is_no_manifest_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="manifest"):
        Manifest.from_json(text)


def test_files_that_no_manifest_names_are_removed_by_the_next_start(store: Store, tmp_path: Path) -> None:
    states = store.load({3: None})[3]
    put(states, 0, state(5))
    kept = store.save([states])
    store.commit("a", Manifest().with_segments(kept))
    put(states, 0, state(6))
    lost = store.save([states])[3]
    again = Store(str(tmp_path))
    again.prepare()
    assert floor(again.load(dict(again.manifest("a").segments))[3], 0) == 5
    assert not list(tmp_path.rglob(lost.name))
    with pytest.raises(StateGoneError):
        again.manifest("b")


def test_a_bucket_is_the_same_in_every_process() -> None:
    assert [bucket_of("orders", n, 16) for n in range(4)] == [0, 6, 12, 10]
