"""When the replicas of a finding stand otherwise than before."""

from __future__ import annotations

import pytest

from parallax.sides import Shows, Side, parsed, showing_a_value_below, sides_differ

NONE, OLD, NEW = "no value", "value at offset 3", "value at offset 17"


@pytest.mark.parametrize(
    ("before", "now", "differ"),
    [
        ({NONE: [1], OLD: [2]}, {NONE: (1,), OLD: (2,)}, False),
        ({NONE: [1], OLD: [2]}, {NONE: [1], NEW: [2]}, False),
        ({NONE: [1], OLD: [2, 3]}, {NONE: [1], OLD: [2]}, False),
        ({NONE: [1], OLD: [2]}, {NONE: [1], OLD: [2, 3]}, True),
        ({NONE: [1, 3], OLD: [2]}, {NONE: [1], OLD: [2, 3]}, True),
        ({NONE: [1], OLD: [2, 3]}, {NONE: [1], OLD: [2], NEW: [3]}, True),
        ({NONE: [1], OLD: [2], NEW: [3]}, {NONE: [1], NEW: [2, 3]}, True),
        ({NONE: [1], OLD: [2]}, {NONE: [2], OLD: [1]}, True),
        ({NONE: [1], OLD: [2]}, {OLD: [1], NEW: [2]}, True),
        ({"committed": [1], "aborted": [2]}, {"a value": [1], NONE: [2]}, False),
        ({"open": [2], "ended": [1]}, {"open": [2], "ended, as it was read": [1]}, False),
        ({}, {NONE: [1], OLD: [2]}, False),
    ],
    ids=[
        "the same",
        "another offset",
        "one was not read",
        "one was not read before",
        "one went over",
        "a third side",
        "two have come together",
        "changed sides",
        "one shows a value now",
        "told by other things",
        "known otherwise",
        "not known before",
    ],
)
def test_when_replicas_stand_otherwise(before: dict[str, list[int]], now: dict[str, list[int]], differ: bool) -> None:
    assert sides_differ(parsed(before), parsed(now)) is differ


@pytest.mark.parametrize(("offset", "brokers"), [(3, set()), (4, {2}), (17, {2}), (18, {2, 3})])
def test_who_shows_a_value_that_was_written_below_an_offset(offset: int, brokers: set[int]) -> None:
    assert showing_a_value_below(parsed({NONE: [1], OLD: [2], NEW: [3]}), offset) == brokers


OF_A_KIND = [Side(shows, 7 if shows.endswith("at offset") else -1) for shows in Shows if shows is not Shows.CONTENT]


@pytest.mark.parametrize(
    "side",
    [*OF_A_KIND, Side(Shows.NO_VALUE, 4), Side(Shows.CONTENT, content="abort of producer 5")],
    ids=lambda side: side.text,
)
def test_a_side_is_read_from_tables_as_it_was_written(side: Side) -> None:
    assert Side.parse(side.text) == side


@pytest.mark.parametrize(
    "text", ["value at offset ", "value at offset 1x", "record at offset -1", f"value at offset 1{0:019}"]
)
def test_a_side_that_names_no_offset_where_it_says_so_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no offset"):
        Side.parse(text)
