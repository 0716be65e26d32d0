"""Times of any 64 bits, as text."""

from __future__ import annotations

import pytest

from parallax.moments import from_milliseconds, milliseconds, moment, span_text, time_text, utc_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01 00:00:00 UTC"),
        (1_764_000_000_999, "2025-11-24 16:00:00 UTC"),
        (253_402_300_799_000, "9999-12-31 23:59:59 UTC"),
        (253_402_300_800_000, "after the year 9999 (253402300800000 ms)"),
        (2**63 - 1, f"after the year 9999 ({2**63 - 1} ms)"),
        (-(2**63), f"before the year 1 ({-(2**63)} ms)"),
    ],
)
def test_a_time_beyond_the_calendar_is_said_to_be_so(ms: int, text: str) -> None:
    assert time_text(ms) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (1, "1 s"),
        (90, "90 s"),
        (600, "10 min"),
        (9000, "2.5 h"),
        (86400, "24 h"),
        (604800, "7 days"),
        (3.2e9, "37,037 days"),
    ],
)
def test_a_length_of_time_is_said_in_a_unit_that_fits(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


def test_each_time_is_read_as_it_is_printed() -> None:
    at = from_milliseconds(1_767_323_054_000)
    assert {moment(text) for text in (utc_text(at), time_text(milliseconds(at)), at.isoformat())} == {at}
    assert moment("2026-01-02 05:04:14+02:00") == moment("2026-01-02T03:04:14") == at
    assert moment("2026-01-02") == moment("2026-01-02T00:00:00Z")
