"""Suspects that half-cleaned tombstones raise by the thousand are cleared by one reading."""

from __future__ import annotations

from parallax.audit.sift import MANY, cleared, many
from parallax.model import FindingKind
from tests.builders.answers import record
from tests.builders.claims import key_suspect


def test_only_where_there_are_many_of_one_replica_is_its_log_read() -> None:
    flood = [key_suspect(key_hash_lo=key) for key in range(1, MANY + 2)]
    few = [key_suspect(key_hash_lo=key, broker=3) for key in range(1, MANY)]
    other = [key_suspect(FindingKind.VISIBILITY_MISMATCH, key_hash_lo=key, broker=1) for key in range(1, MANY + 2)]
    assert many([*flood, *few, *other]) == {(("orders", 0), 2): flood}


def test_what_shows_a_value_that_the_tombstone_deletes_is_left_to_the_probe() -> None:
    nothing, deleted, newer, old = (key_suspect(offset=50, key_hash_lo=key) for key in range(1, 5))
    live = {
        (0, 1): None,
        (0, 2): record(50, value_size=-1),
        (0, 3): record(60),
        (0, 4): record(30),
    }
    found = cleared([nothing, deleted, newer, old], live)
    assert found == {s.suspect_id for s in (nothing, deleted, newer)}
