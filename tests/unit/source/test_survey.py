from __future__ import annotations

import struct

import pytest

from parallax.source.survey import bytes_per_offset


def batch(base: int, last: int, size: int) -> bytes:
    """A record batch's header (KIP-98) and as many bytes as it says."""
    return struct.pack(">qiibIhi", base, size - 12, 0, 2, 0, 0, last - base).ljust(size, b"\0")


def test_density_is_bytes_over_offsets() -> None:
    records = batch(100, 109, 500) + batch(110, 119, 300)
    assert bytes_per_offset(memoryview(records), 100) == pytest.approx(40.0)


def test_holes_of_compaction_count_as_offsets() -> None:
    assert bytes_per_offset(memoryview(batch(100, 1099, 1000)), 100) == pytest.approx(1.0)


def test_a_batch_that_is_cut_off_counts_by_its_header() -> None:
    assert bytes_per_offset(memoryview(batch(0, 9, 500)[:100]), 0) == pytest.approx(50.0)


@pytest.mark.parametrize("records", [b"", b"\0" * 20, b"\0" * 61])
def test_nothing_to_measure_gives_none(records: bytes) -> None:
    assert bytes_per_offset(memoryview(records), 5) is None
