"""What recorded progress can say of a last stable offset, and what it cannot."""

from __future__ import annotations

from typing import Any

from parallax.audit.recorded import not_watched_long_enough


def tick(broker: int, second: float, stable: int, high: int = 9, *, reachable: bool = True) -> dict[str, Any]:
    return {
        "broker": broker,
        "observed_at": int(second * 1_000_000),
        "reachable": reachable,
        "last_stable_offset": stable,
        "high_watermark": high,
    }


def test_a_last_stable_offset_that_was_seen_once_behind_the_others_is_unknown() -> None:
    (reason,) = not_watched_long_enough([tick(1, 0, 9), tick(2, 0, 4)], 3000)
    assert "broker 2 is 4, another's 9" in reason
    assert "0.0 s" in reason


def test_one_that_was_watched_for_the_grace_period_is_judged() -> None:
    assert not_watched_long_enough([tick(1, 0, 9), tick(2, 0, 4), tick(2, 3, 4)], 3000) == ()


def test_one_that_was_seen_to_move_is_not_frozen() -> None:
    assert not_watched_long_enough([tick(1, 0, 9), tick(2, 0, 3), tick(2, 1, 4)], 3000) == ()


def test_a_replica_that_is_behind_as_a_whole_or_open_like_the_others_is_not_meant() -> None:
    assert not_watched_long_enough([tick(1, 0, 9), tick(2, 0, 4, high=4)], 3000) == ()
    assert not_watched_long_enough([tick(1, 0, 4), tick(2, 0, 4)], 3000) == ()
    assert not_watched_long_enough([tick(1, 0, 9), tick(2, 0, -1, -1, reachable=False)], 3000) == ()
