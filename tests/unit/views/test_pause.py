from __future__ import annotations

import threading
from pathlib import Path

import pytest

from parallax.source.feedback import ALL
from parallax.views import pause as pauses
from parallax.views.pause import Paused, PauseError, PauseWatch, in_words, pause, paused, resume
from tests.patience import PATIENCE_S


def test_nothing_is_paused_where_nobody_has_paused_anything(tmp_path: Path) -> None:
    assert paused(str(tmp_path)) == {}
    assert paused(str(tmp_path / "not there")) == {}


def test_a_pause_is_kept_with_the_tables_until_it_is_ended(tmp_path: Path) -> None:
    storage = str(tmp_path / "data")
    pause(storage, [2], "disk  is\nfull", "ann", now=60.0)
    assert in_words(paused(storage)) == ["broker 2 since 1970-01-01 00:01 UTC, by ann: disk is full"]
    assert resume(storage, [2]) == paused(storage) == {}


def test_who_is_paused_already_stays_so_since_then(tmp_path: Path) -> None:
    storage = str(tmp_path)
    pause(storage, [2], "first", "ann", now=1.0)
    standing = pause(storage, [1, 2], "second", "bob", now=2.0)
    assert {broker: (one.since, one.reason) for broker, one in standing.items()} == {
        1: (2.0, "second"),
        2: (1.0, "first"),
    }


def test_all_brokers_are_one_pause_and_are_ended_together(tmp_path: Path) -> None:
    storage = str(tmp_path)
    pause(storage, [3], "one", "ann")
    assert set(pause(storage, [], "all", "ann")) == {ALL, 3}
    with pytest.raises(PauseError, match="--broker: 2 is not paused by itself; all brokers are"):
        resume(storage, [2])
    assert set(paused(storage)) == {ALL, 3}
    assert resume(storage, []) == {}


@pytest.mark.parametrize("reason", ["", " \n", "x" * 501])
def test_a_pause_needs_a_reason(tmp_path: Path, reason: str) -> None:
    with pytest.raises(PauseError, match="--reason"):
        pause(str(tmp_path), [], reason, "ann")


@pytest.mark.parametrize("since", ['"x"', "NaN", "1e300", "-1e20", "null", "[]"])
def test_a_time_that_no_calendar_has_is_a_broken_switch(tmp_path: Path, since: str) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "paused.json").write_text(f'{{"1": {{"since": {since}, "by": "ann", "reason": "why"}}}}')
    with pytest.raises(PauseError, match=r"^storage.path: .*paused.json cannot be read .*remove it"):
        paused(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    ['{"1": {"since": 1, "by": 1, "reason": null}}', '{"99999999999": {}}', '{"1": null}', "[" * 200_000],
    ids=["types", "no broker", "nothing", "deep"],
)
def test_so_is_one_whose_parts_are_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "paused.json").write_text(text)
    with pytest.raises(PauseError, match="remove it"):
        paused(str(tmp_path))


def test_a_store_that_is_none_is_one_line() -> None:
    for look in (paused, lambda storage: pause(storage, [1], "why", "ann")):
        with pytest.raises(PauseError, match=r"^storage.path: "):
            look("s3a:///p")


def test_a_broken_switch_leaves_things_as_they_were_and_is_reported(tmp_path: Path) -> None:
    storage, looks, failures = str(tmp_path), [], []
    watch = PauseWatch(storage, looks.append, failures.append)
    pause(storage, [1], "why", "ann")
    watch.look()
    (tmp_path / "control" / "paused.json").write_text("[1]")
    watch.look()
    assert [set(look) for look in looks] == [{1}]
    assert len(failures) == 1
    assert "control/paused.json cannot be read" in failures[0]


def test_a_look_that_cannot_be_handed_on_is_reported_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "EVERY_S", 0.01)
    is_full, has_failed, seen, failures = threading.Event(), threading.Event(), threading.Event(), []

    def on_look(standing: Paused) -> None:
        if is_full.is_set():
            raise OSError(28, "No space left on device")
        if standing:
            seen.set()

    def on_failure(problem: str) -> None:
        failures.append(problem)
        has_failed.set()

    watch = PauseWatch(str(tmp_path), on_look, on_failure)
    watch.start()
    is_full.set()
    pause(str(tmp_path), [1], "why", "ann")
    assert has_failed.wait(PATIENCE_S)
    assert not seen.is_set()
    is_full.clear()
    assert seen.wait(PATIENCE_S)
    watch.stop()
    assert failures[0] == "OSError: [Errno 28] No space left on device"


def test_a_start_that_cannot_hand_on_what_is_paused_fails(tmp_path: Path) -> None:
    def on_look(_: Paused) -> None:
        raise NotADirectoryError("feedback is a file")

    with pytest.raises(NotADirectoryError):
        PauseWatch(str(tmp_path), on_look, lambda _: None).start()
