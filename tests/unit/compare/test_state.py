"""The state between micro-batches: what is written is read, and nothing else is."""

from __future__ import annotations

import struct
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.compare.state import (
    CONTENT,
    DEFERRED,
    DISPUTED,
    EARLY,
    ENDED,
    NAMELESS,
    NEVER,
    NOWHERE,
    NULL_KEY,
    PARTITION,
    PENDING,
    RAISED_IDS,
    REPORTED,
    TOMBSTONE,
    UNMATCHED,
    PartitionState,
    kept,
    new_broker,
)
from parallax.model import UNKNOWN


@given(st.lists(st.integers(0, 50), min_size=15, max_size=15), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_a_state_survives_its_bytes(lengths: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    state = PartitionState()
    for f, length in zip(fields(PartitionState), lengths, strict=True):
        dtype = f.metadata["dtype"]
        setattr(state, f.name, np.frombuffer(random.bytes(length * dtype.itemsize), dtype))
    for back in (
        PartitionState.from_bytes(state.to_bytes()),
        PartitionState.from_bytes(state.head_bytes(), state.unmatched_bytes),
    ):
        assert back.to_bytes() == state.to_bytes()
        assert back.nbytes == state.nbytes
        assert back.has_unmatched_of(state)


def test_each_flag_is_a_bit_of_its_own() -> None:
    flags = (TOMBSTONE, NULL_KEY, NAMELESS, DISPUTED, REPORTED, EARLY)
    assert [flag.bit_count() for flag in flags] == [1] * len(flags)
    assert len(set(flags)) == len(flags)
    assert max(flags) <= np.iinfo(PENDING["flags"]).max


def test_what_is_unmatched_is_asked_for_only_where_there_is_any() -> None:
    def unasked() -> bytes:
        raise AssertionError

    assert PartitionState.from_bytes(PartitionState().head_bytes(), unasked).is_settled


def test_a_state_of_which_a_part_is_missing_is_refused() -> None:
    state = PartitionState(content=np.zeros(3, CONTENT))
    with pytest.raises(ValueError, match="0 bytes of what is unmatched where 60 were announced"):
        PartitionState.from_bytes(state.head_bytes(), lambda: b"")
    with pytest.raises(ValueError, match="comparison state"):
        PartitionState.from_bytes(state.head_bytes())


def test_a_row_more_or_another_one_is_not_the_same_unmatched_state() -> None:
    state = PartitionState(content=np.zeros(3, CONTENT))
    assert state.has_unmatched_of(PartitionState(content=np.zeros(3, CONTENT)))
    assert not state.has_unmatched_of(PartitionState(content=np.zeros(4, CONTENT)))
    assert not state.has_unmatched_of(PartitionState(content=np.ones(3, CONTENT)))


def test_no_bytes_are_a_fresh_state() -> None:
    assert PartitionState.from_bytes(b"").to_bytes() == PartitionState().to_bytes()


@pytest.mark.parametrize("data", [b"junk", b"PXC\x01", PartitionState().to_bytes() + b"x"])
def test_bytes_that_are_no_state_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="comparison state"):
        PartitionState.from_bytes(data)


def test_another_version_is_refused_with_what_to_do() -> None:
    data = bytearray(PartitionState().to_bytes())
    data[3] = 99
    with pytest.raises(ValueError, match=r"version 99 .* delete the comparison's checkpoint"):
        PartitionState.from_bytes(bytes(data))


def test_nothing_is_known_of_a_new_broker_but_that_it_is_there() -> None:
    row = new_broker(5)[0]
    assert row["broker"] == 5
    assert row["reachable"]
    assert list(row["position"]) == [-1, -1]


def test_only_the_place_and_the_id_of_a_new_broker_are_no_unknowns() -> None:
    row = new_broker(5)
    known = {"broker": [5], "member": [False], "reachable": [True], "topic_id": [[0, 0]]}
    known |= {"begun": [[False, False]]}
    assert {name: row[name].tolist() for name in known} == known
    for name in row.dtype.names or ():
        assert name in known or (row[name] == UNKNOWN).all(), name


def test_nothing_is_judged_of_a_fresh_state() -> None:
    row = PartitionState().partition
    unknown = {name: [UNKNOWN] for name in ("members_at", "passed_at", "policy_at", "retention_ms")}
    unknown |= {
        name: [UNKNOWN] for name in ("deletes", "head", "deleted_to", "withheld_since", "withheld_until", *ENDED)
    }
    by_view = ("begun_from", "read_to", "bound_at", "bound", "next_bound_at", "next_bound")
    unknown |= {name: [[UNKNOWN, UNKNOWN]] for name in by_view}
    known = {"topic_id": [0], "members_known": [False], "floor": [[0, 0]], "skipped": [[0, 0]], "strict_from": [NEVER]}
    known |= {"unmarked": [list(NOWHERE)], "hidden_to": [0], "withheld": [NEVER]}
    known |= {"differed": [False], "keyed": [False]}
    assert {name: row[name].tolist() for name in row.dtype.names or ()} == unknown | known


@pytest.mark.parametrize("name", [*UNMATCHED, "disputes"])
def test_a_state_with_anything_unmatched_is_not_settled(name: str) -> None:
    dtype = PartitionState.__dataclass_fields__[name].metadata["dtype"]
    assert PartitionState().is_settled
    assert PartitionState(told=np.zeros(1, RAISED_IDS), deferred=np.zeros(1, DEFERRED)).is_settled
    assert not PartitionState(**{name: np.zeros(1, dtype)}).is_settled


def test_a_table_of_which_all_rows_are_kept_is_not_copied() -> None:
    table = np.zeros(3, CONTENT)
    assert kept(table, np.array([True, True, True])) is table
    assert len(kept(table, np.array([True, False, True]))) == 2


def test_another_layout_is_another_version() -> None:
    """A job that is started again reads what the program before it wrote: who changes the sizes changes the version."""
    sizes = [f.metadata["dtype"].itemsize for f in fields(PartitionState)]
    assert (PartitionState().to_bytes()[:4], sizes) == (
        b"PXC\x0d",
        [276, 160, 16, 34, 17, 26, 8, 58, 42, 20, 45, 61, 60, 25, 58],
    )


@pytest.mark.parametrize(
    ("version", "first_new", "new"), [(12, "keyed", ()), (11, "withheld", ("recent_sums", "going", "sums"))]
)
def test_a_state_of_the_versions_before_is_gone_on_with(version: int, first_new: str, new: tuple[str, ...]) -> None:
    state = PartitionState(content=np.ones(3, CONTENT), told=np.ones(2, RAISED_IDS))
    state.partition["topic_id"], state.partition["head"] = 7, 5
    then = [(f.name, getattr(state, f.name)) for f in fields(PartitionState)]
    then = [(name, table) for name, table in then if name not in new]
    row = state.partition.tobytes()[: PARTITION.fields[first_new][1]] if PARTITION.fields else b""
    counts = struct.pack(f"<B{len(then)}Q", version, *(len(table) for _, table in then))
    tables = [row if name == "partition" else table.tobytes() for name, table in then]
    head = sum(name not in UNMATCHED for name, _ in then)
    for back in (
        PartitionState.from_bytes(b"PXC" + counts + b"".join(tables)),
        PartitionState.from_bytes(b"PXC" + counts + b"".join(tables[:head]), lambda: b"".join(tables[head:])),
    ):
        assert back.to_bytes() == state.to_bytes()
