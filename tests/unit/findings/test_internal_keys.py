from __future__ import annotations

import struct

import pytest

from parallax.findings.internal_keys import key_in_words
from parallax.lab.scenarios.group_offset import offset_key


def test_the_key_of_a_committed_offset_names_group_topic_and_partition() -> None:
    words = key_in_words("__consumer_offsets", offset_key("billing", "orders", 7))
    assert words == "the offset of consumer group billing for orders-7"


def test_the_key_of_a_groups_metadata_names_the_group() -> None:
    assert key_in_words("__consumer_offsets", b"\0\2\0\7billing") == "the metadata of consumer group billing"


@pytest.mark.parametrize("key", [None, b"", b"\0\1\0\7bill", b"\0\1\xff\xff", struct.pack(">hh1s", 9, 1, b"g")])
def test_what_is_not_understood_is_left_out(key: bytes | None) -> None:
    assert key_in_words("__consumer_offsets", key) is None


def test_other_topics_keys_are_not_read() -> None:
    assert key_in_words("orders", offset_key("billing", "orders", 7)) is None
