"""Suspects that half-cleaned tombstones raise by the thousand are cleared by one reading."""

from __future__ import annotations

from parallax.audit.sift import MANY, cleared, many
from parallax.compare.suspect import Accusation, Suspect
from parallax.findings.answers import RecordShown
from parallax.model import FindingKind, Rule


def suspect(key: int, broker: int = 2, kind: FindingKind = FindingKind.DELETED_RECORD_RESURRECTED) -> Suspect:
    return Suspect("orders", 0, Accusation(Rule.LATEST_VALUE, kind, broker, 50, key_hash_lo=key), {}, 0)


def test_only_where_there_are_many_of_one_replica_is_its_log_read() -> None:
    flood = [suspect(i) for i in range(1, MANY + 2)]
    few = [suspect(i, broker=3) for i in range(1, MANY)]
    other = [suspect(i, broker=1, kind=FindingKind.VISIBILITY_MISMATCH) for i in range(1, MANY + 2)]
    assert many([*flood, *few, *other]) == {(("orders", 0), 2): flood}


def test_what_shows_a_value_that_the_tombstone_deletes_is_left_to_the_probe() -> None:
    nothing, deleted, newer, old = (suspect(i) for i in range(1, 5))
    live = {
        (0, 1): None,
        (0, 2): RecordShown(50, "none", value_size=-1),
        (0, 3): RecordShown(60, "none", value_size=5),
        (0, 4): RecordShown(30, "none", value_size=5),
    }
    found = cleared([nothing, deleted, newer, old], live)
    assert found == {s.suspect_id for s in (nothing, deleted, newer)}
