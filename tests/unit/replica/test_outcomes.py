from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parallax.model import IsolationLevel, Outcome
from parallax.replica.decode import ContentHasher, decode
from parallax.replica.outcomes import outcomes

from .batches import CONTROL, TRANSACTIONAL, Batch, Record, marker, transactional

HASHER = ContentHasher(bytes(16))


def decided(batches: list[Batch], aborted: list[tuple[int, int]], **options: object) -> list[int]:
    columns = decode(b"".join(b.encode() for b in batches), hasher=HASHER, **options)  # type: ignore[arg-type]
    return outcomes(columns, aborted).tolist()


def as_kafka(batches: list[Batch], aborted: list[tuple[int, int]]) -> list[int]:
    """The rule of Kafka's consumer, written the slow and plain way."""
    waiting = sorted(aborted, key=lambda item: item[1])
    open_aborted: set[int] = set()
    result = []
    for batch in batches:
        control = bool(batch.flags & CONTROL)
        is_abort = control and bool(batch.records) and batch.records[0].key == b"\0\0\0\0"
        verdict = Outcome.NONE
        if batch.producer >= 0:
            while waiting and waiting[0][1] <= batch.last:
                open_aborted.add(waiting.pop(0)[0])
            if is_abort:
                open_aborted.discard(batch.producer)
            if control:
                verdict = Outcome.ABORTED if is_abort else Outcome.COMMITTED
            elif batch.flags & TRANSACTIONAL:
                verdict = Outcome.ABORTED if batch.producer in open_aborted else Outcome.COMMITTED
        result += [int(verdict)] * len(batch.records)
    return result


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Batch], list[tuple[int, int]]]:
    """Interleaved transactions with lost markers and lost batches, and any list of aborted transactions."""
    batches: list[Batch] = []
    at = 0
    for _ in range(draw(st.integers(0, 14))):
        producer = draw(st.integers(-1, 3))
        kind = draw(st.sampled_from(["data", "plain", "commit", "abort", "empty"]))
        if kind == "data" and producer >= 0:
            batches.append(transactional(at, producer, draw(st.integers(1, 3))))
        elif kind in ("commit", "abort") and producer >= 0:
            batches.append(marker(at, producer, commit=kind == "commit"))
        elif kind == "empty":
            batches.append(Batch(at, [], last_delta=0, flags=TRANSACTIONAL | CONTROL, producer=max(producer, 0)))
        else:
            batches.append(Batch(at, [Record(b"k", b"v")], producer=producer))
        at = batches[-1].last + 1 + draw(st.integers(0, 1))
    aborted = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, at)), max_size=6))
    return batches, aborted


@given(histories())
def test_outcomes_are_those_of_kafkas_consumer(history: tuple[list[Batch], list[tuple[int, int]]]) -> None:
    assert decided(*history) == as_kafka(*history)


@given(histories(), st.integers(0, 20))
def test_batches_below_the_start_still_count_as_for_kafkas_consumer(
    history: tuple[list[Batch], list[tuple[int, int]]], start: int
) -> None:
    batches, _ = history
    offsets = [b.base + r.delta for b in batches for r in b.records]
    wanted = [o for o, offset in zip(as_kafka(*history), offsets, strict=True) if offset >= start]
    assert decided(*history, start=start) == wanted


def test_a_producers_later_commit_is_not_hidden_by_its_earlier_abort() -> None:
    batches = [transactional(0, 7), marker(1, 7, commit=False), transactional(2, 7), marker(3, 7, commit=True)]
    assert decided(batches, [(7, 0)]) == [Outcome.ABORTED, Outcome.ABORTED, Outcome.COMMITTED, Outcome.COMMITTED]


def test_a_lost_abort_marker_turns_the_aborted_record_into_a_committed_one() -> None:
    batches = [transactional(0, 7), transactional(2, 7), marker(3, 7, commit=True)]
    assert decided(batches, []) == [Outcome.COMMITTED] * 3


def test_an_empty_control_batch_decides_nothing() -> None:
    empty = Batch(1, [], last_delta=0, flags=TRANSACTIONAL | CONTROL, producer=7)
    assert decided([transactional(0, 7), empty, transactional(2, 7)], [(7, 0)]) == [Outcome.ABORTED] * 2


def test_read_uncommitted_leaves_transactional_records_undecided_and_markers_decided() -> None:
    batches = [transactional(0, 7), Batch(1, [Record(b"k", b"v")]), marker(2, 7, commit=False)]
    columns = decode(b"".join(b.encode() for b in batches), hasher=HASHER)
    found = outcomes(columns, [(7, 0)], IsolationLevel.READ_UNCOMMITTED).tolist()
    assert found == [Outcome.UNDECIDED, Outcome.NONE, Outcome.ABORTED]
