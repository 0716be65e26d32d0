from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallax.model import ReadEvent
from parallax.source.offsets import Range, Reader, from_json, to_json

topics = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=20)
readers = st.builds(Reader, st.sampled_from([0, 1]), st.integers(0, 9), topics, st.integers(0, 99))
ranges = st.builds(
    Range,
    st.integers(0, 1 << 60),
    st.integers(0, 1 << 60),
    st.sampled_from(["", "sgfabykLSCuD7o8AMq_svg"]),
    st.sampled_from(list(ReadEvent)),
    st.booleans(),
    st.just(""),
)


@given(st.dictionaries(readers, ranges, max_size=20))
def test_an_offset_survives_the_offset_log(offset: dict[Reader, Range]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offset)))) == offset


@given(st.dictionaries(readers, ranges, max_size=20))
def test_the_same_offset_is_always_the_same_text(offset: dict[Reader, Range]) -> None:
    shuffled = dict(reversed(offset.items()))
    assert json.dumps(to_json(offset)) == json.dumps(to_json(shuffled))


def test_an_offset_of_another_version_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="delete the checkpoint"):
        from_json({"version": 0, "readers": {}})


def test_a_range_with_news_is_not_empty_even_without_records() -> None:
    assert Range(5, 5, "").empty
    assert not Range(5, 5, "", ReadEvent.TOPIC_DELETED, fresh=True).empty
    assert not Range(5, 6, "").empty
