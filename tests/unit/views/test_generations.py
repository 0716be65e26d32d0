"""Checkpoints on an object store: generations, of which one put decides which counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from parallax.views import fencing
from parallax.views.checkpoints import Checkpoint
from parallax.views.fencing import FencedError
from parallax.views.generations import Generation, Generations, dispensable, newest
from parallax.views.objects import Objects, StoreError

STORAGE = "s3a://bucket/job"


@pytest.fixture
def store() -> Objects:
    return Objects(STORAGE, MemoryStore())


def generations(store: Objects, epoch: int) -> Generations:
    return Generations(store, STORAGE, "q", epoch)


def fill(store: Objects, generation: str, batches: int = 3) -> None:
    """As Spark writes it: all but the last batch done, the last one planned."""
    folder = f"checkpoints/q/{generation}"
    store.put(f"{folder}/metadata", b'{"id":"0f45ab6e-8a56-47bc-8b49-cd3dc75eff07"}')
    for batch in range(batches):
        store.put(f"{folder}/offsets/{batch}", b'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"tick":1}\n-')
    for batch in range(batches - 1):
        store.put(f"{folder}/commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
    store.put(f"{folder}/offsets/.7.tmp", b"half")
    store.put(f"{folder}/segments/segment-1", b"state")
    store.put(f"{folder}/segments/at-0", b"manifest")


def names(store: Objects, generation: str) -> set[str]:
    prefix = f"checkpoints/q/{generation}/"
    return {one.name.removeprefix(prefix) for one in store.below(prefix.rstrip("/"))}


def test_names_sort_as_generations_do() -> None:
    known = [Generation(1, 1), Generation(1, 2), Generation(2, 1), Generation(10, 1)]
    assert [Generation.parse(name) for name in sorted(one.name for one in known)] == known
    assert Generation.parse("offsets") is None


def test_what_has_not_begun_does_not_count() -> None:
    assert newest(["0000000001-0001.json", "0000000002-0001.copying", "0000000001-0002.broken", "x.json"]) == (1, 1)
    assert newest([]) is None


def test_the_last_broken_generations_stay_and_those_of_another_job_are_not_touched() -> None:
    objects = [f"000000000{n}-0001.{end}" for n in range(1, 7) for end in ("json", "broken")]
    objects += ["0000000005-0002.json", "0000000004-0002.copying"]
    gone = dispensable(objects, Generation(5, 2), kept=2)
    assert gone == [f"000000000{n}-0001" for n in (1, 2, 3)] + ["0000000004-0002"]


def test_the_next_job_goes_on_from_a_copy_of_its_own_and_removes_what_it_has_copied(store: Objects) -> None:
    assert generations(store, 1).location() == f"{STORAGE}/checkpoints/q/0000000001-0001"
    fill(store, "0000000001-0001")
    whole = names(store, "0000000001-0001") - {"offsets/.7.tmp"}
    assert generations(store, 2).location().endswith("/0000000002-0001")
    assert names(store, "0000000002-0001") == whole
    assert names(store, "0000000001-0001") == set()
    assert generations(store, 2).location().endswith("/0000000002-0001"), "it is begun once"


def test_a_job_that_dies_while_it_copies_leaves_what_the_next_one_starts_from(
    store: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations(store, 1).location()
    fill(store, "0000000001-0001")
    with monkeypatch.context() as patch:
        patch.setattr(Generations, "_mark", lambda *_: (_ for _ in ()).throw(StoreError("gone")))
        with pytest.raises(StoreError):
            generations(store, 2).location()
    assert names(store, "0000000002-0001")
    assert generations(store, 3).location().endswith("/0000000003-0001")
    assert "offsets/2" in names(store, "0000000003-0001")
    assert names(store, "0000000002-0001") == set()


def test_a_job_that_was_taken_over_begins_nothing_that_counts(store: Objects) -> None:
    old = generations(store, 1)
    old.location()
    generations(store, 2).location()
    old.set_aside("it was frozen")
    assert generations(store, 3).location().endswith("/0000000003-0001")
    assert json.loads(store.get("checkpoints/q/0000000003-0001.json") or b"")["from"] == "0000000002-0001"
    with pytest.raises(FencedError):
        generations(store, 1).location()


@pytest.fixture
def held() -> Iterator[None]:
    fencing.hold(STORAGE, 1)
    yield None
    fencing.release(STORAGE)


@pytest.mark.usefixtures("held")
def test_a_healthy_checkpoint_is_left_alone_and_a_broken_one_set_aside_in_one_line(store: Objects) -> None:
    checkpoint = Checkpoint(STORAGE, "q", objects=store)
    first = checkpoint.location()
    assert checkpoint.mend(0) is None, "it is empty"
    fill(store, "0000000001-0001")
    assert checkpoint.mend(50) is None
    assert checkpoint.location() == first
    store.put("checkpoints/q/0000000001-0001/offsets/2", b"v1\n{")
    line = checkpoint.mend(0)
    assert line is not None
    assert len(line.splitlines()) == 1
    assert first in line
    assert checkpoint.location().endswith("/0000000001-0002")
    assert checkpoint.mend(0) is None
    assert store.get("checkpoints/q/0000000001-0001/offsets/2") == b"v1\n{", "people may look at it"


@pytest.mark.usefixtures("held")
def test_failures_in_a_row_are_laid_to_the_checkpoint_once_and_only_if_the_store_works(
    store: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(STORAGE, "q", hopeless_after=3, objects=store)
    checkpoint.location()
    fill(store, "0000000001-0001")

    def refuse(*_: object) -> None:
        raise StoreError("read only")

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "put", refuse)
        assert checkpoint.mend(3) is None
    assert "failed 3 times" in (checkpoint.mend(3) or "")
    assert checkpoint.mend(4) is None


@pytest.mark.usefixtures("held")
def test_another_check_sees_the_state_beside_the_logs(store: Objects) -> None:
    def lacks(path: Path) -> str | None:
        return None if any((path / "segments").glob("at-*")) else "it holds no state"

    checkpoint = Checkpoint(STORAGE, "q", check=lacks, objects=store)
    checkpoint.location()
    fill(store, "0000000001-0001")
    assert checkpoint.mend(0) is None
    store.delete(["checkpoints/q/0000000001-0001/segments/at-0"])
    assert "no state" in (checkpoint.mend(0) or "")
