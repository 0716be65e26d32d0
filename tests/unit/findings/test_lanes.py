"""A broker that hangs holds up nothing but itself."""

from __future__ import annotations

import threading

import pytest

from parallax.findings.lanes import Lanes, Silence


def test_work_that_hangs_about_one_broker_holds_up_no_other() -> None:
    lanes = Lanes(2, "test")
    hang = threading.Event()
    try:
        stuck = [lanes.submit(2, lambda: hang.wait(60)) for _ in range(8)]
        assert lanes.submit(1, lambda: "done").result(30) == "done"
        assert not any(future.done() for future in stuck)
    finally:
        hang.set()
        lanes.close()


def test_closed_lanes_take_nothing_and_give_up_what_has_not_begun() -> None:
    lanes = Lanes(1, "test")
    hang, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        hang.wait(60)

    lanes.submit(2, work)
    waiting = lanes.submit(2, work)
    assert begun.wait(30)
    lanes.close()
    hang.set()
    assert waiting.cancelled()
    with pytest.raises(RuntimeError):
        lanes.submit(1, work)


def test_a_broker_that_did_not_answer_is_left_alone_and_then_tried_by_one_at_a_time() -> None:
    now = [100.0]
    silence = Silence(3.0, lambda: now[0])
    assert silence.of(2) is None
    silence.timed_out(2)
    now[0] += 1
    assert silence.of(2) == 1.0
    assert silence.of(1) is None
    now[0] += 3
    assert silence.of(2) is None, "one may try"
    assert silence.of(2) == 4.0, "the others are answered at once"
    silence.timed_out(2)
    now[0] += 2
    assert silence.of(2) == 6.0
    silence.heard(2)
    assert silence.of(2) is None
