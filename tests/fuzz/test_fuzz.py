"""Bytes nobody expects: what is decoded of them, beside Kafka's own classes, and at what cost.

``PARALLAX_FUZZ_SEED`` draws other cases; a failure names the seed of its case.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from parallax.replica.decode import decode
from tests.fuzz import agreement, cases
from tests.fuzz.kafka import Kafka
from tests.unit.replica.batches import Batch, Record, sized, varint
from tests.unit.replica.old_messages import CODECS, ROWS, message, wrapped

SEED = int(os.environ.get("PARALLAX_FUZZ_SEED", "20261122"))
MIB = 1 << 20
BOUND = 128 * MIB
"""What decoding may take beside the response itself: a window, its columns, and what the codec needs."""
ROOT = Path(__file__).resolve().parents[2]


LONGEST_S = 1.0
"""What a response of a few kilobytes may take of the processor; usually it is milliseconds."""


def spent(data: bytes) -> float:
    """Seconds of the processor that decoding takes: the least of some tries, as the first may load what it runs."""
    least = math.inf
    for _ in range(5):
        began = time.thread_time()
        agreement.ours(data)
        least = min(least, time.thread_time() - began)
        if least < LONGEST_S:
            break
    return least


def check(kafka: Kafka, first: int, count: int) -> None:
    for seed in range(first, first + count):
        data = cases.drawn_response(Random(seed))
        assert spent(data) < LONGEST_S, f"seed {seed}"
        problem = agreement.disagreement(kafka, data)
        assert problem is None, f"seed {seed}: {problem}"


def test_what_is_decoded_is_what_kafkas_own_classes_decode(kafka: Kafka) -> None:
    check(kafka, SEED, 500)


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_what_is_decoded_is_what_kafkas_own_classes_decode_of_many_responses(kafka: Kafka) -> None:
    check(kafka, SEED + 1_000_000, 50_000)


OLD = [(magic, codec) for magic in (0, 1) for codec in (0, *CODECS)]
"""Formats before today's, and codecs; 0 for none."""


def old(magic: int, codec: int) -> bytes:
    if not codec:
        return b"".join(message(magic, *row) for row in ROWS)
    return wrapped(magic, codec, ROWS) + wrapped(magic, codec, [(400, 9, b"k", b"v")])


@pytest.mark.parametrize(("magic", "codec"), OLD)
def test_old_messages_are_what_kafkas_own_classes_decode(kafka: Kafka, magic: int, codec: int) -> None:
    data = old(magic, codec)
    assert len(agreement.ours(data)[0]) == len(ROWS) + bool(codec)
    for mixed in (data, data + Batch(500, [Record(b"k")], epoch=-1).encode(), Batch(1, [Record(b"k")]).encode() + data):
        assert agreement.disagreement(kafka, mixed) is None


def measured(tmp_path: Path, data: bytes, end: int) -> dict[str, Any]:
    """Decode in a process of its own, through the reader."""
    path = tmp_path / "response"
    path.write_bytes(data)
    command = [sys.executable, "-m", "tests.fuzz.measure", str(path), str(end)]
    path_of_ours = os.pathsep.join([str(ROOT / "streaming"), str(ROOT)])
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path_of_ours}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(f"{len(data) / 1024:.0f} KB: {result}")
    return result


SHAPES = {
    "one record": [1200 * MIB],
    "large records": [40 * MIB] * 30,
    "records of 1 KiB": [1024] * 1_200_000,
}


def disarmed(tmp_path: Path, codec: int, sizes: list[int], kept: int) -> None:
    data = cases.bomb(codec, sizes)
    result = measured(tmp_path, data, len(sizes))
    assert (result["error"], result["rows"], result["position"]) == ("", len(sizes), len(sizes))
    assert result["peak"] < BOUND + 2 * len(data)
    assert result["kept"] < kept
    assert result["seconds"] < 400


def test_a_batch_of_35_kilobytes_that_inflates_to_a_gigabyte_is_read_in_bounded_memory(tmp_path: Path) -> None:
    assert len(cases.bomb(4, SHAPES["one record"])) < 120_000
    disarmed(tmp_path, 4, SHAPES["one record"], kept=64 * MIB)


@pytest.mark.release
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_of_any_codec_that_inflates_to_a_gigabyte_is_read_in_bounded_memory(
    tmp_path: Path, codec: int, shape: str
) -> None:
    disarmed(tmp_path, codec, SHAPES[shape], kept=64 * MIB)


def test_a_large_response_leaves_no_large_buffer_behind(tmp_path: Path) -> None:
    noise = Random(SEED).randbytes(150 * MIB)
    data = Batch(0, [Record(b"k", noise)]).encode()
    result = measured(tmp_path, data, 1)
    assert (result["error"], result["rows"]) == ("", 1)
    assert result["kept"] < len(data) + 24 * MIB  # the response itself is the test's


@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
def test_a_large_batch_with_bits_flipped_is_refused_in_bounded_memory(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    codec = random.choice((1, 2, 3, 4))
    changed = bytearray(cases.bomb(codec, [48 * MIB, 100, 40 * MIB, 100]))
    for _ in range(3):
        changed[random.randrange(61, len(changed))] ^= 1 << random.randrange(8)
    result = measured(tmp_path, cases.sealed(bytes(changed)), 4)
    assert result["peak"] < BOUND + 300 * MIB * (codec == 2)
    assert result["rows"] <= 4


def odd_batch() -> bytes:
    """Records in forms that the cleaner does not keep: names that are no text, over-long lengths, -2 for null."""
    names = [b"ok", b"\xff\xfe", b"\xed\xa0\x80x", b"\xe2\x82", b"caf\xc3\xa9", b"\xf0\x9f\x98\x80", b"\xc0\xaf"]
    records = []
    for delta, name in enumerate(names):
        value = b"\x8a\x80\x00value" if delta % 2 else varint(-2)
        header = varint(1) + sized(name) + varint(-7)
        body = b"\0" + varint(3) + b"".join([b"%c" % (2 * delta | 0x80), b"\x00", sized(b"k%d" % delta), value, header])
        records.append(varint(len(body)) + body)
    records.append(Record(b"last", b"", delta=len(names)).encode())
    return Batch(40, last_delta=len(names), count=len(records), body=b"".join(records)).encode()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(odd_batch(), id="odd"),
        *(pytest.param(wrapped(magic, codec, ROWS), id=f"v{magic}-{codec}") for magic, codec in OLD if codec),
        *(pytest.param(n, id=str(n)) for n in range(40)),
    ],
)
def test_a_record_that_a_broker_has_cleaned_has_the_content_that_it_had(kafka: Kafka, data: Any) -> None:
    """The cleaner's own code writes the batch again; before and after are one record to the comparison."""
    if isinstance(data, int):
        random = Random(SEED + data)
        made = (cases.drawn_batch(random, 7).encode() for _ in range(1000))
        data = next(batch for batch in made if agreement.ours(batch)[1] is None and kafka.clean(batch))
    before, error = agreement.ours(data)
    assert error is None
    cleaned = kafka.clean(data)
    assert cleaned is not None
    after, error = agreement.ours(cleaned)
    assert error is None
    left = {row[0]: row for row in after}
    given = next(agreement.answers(data))
    assert left == {row[0]: row for row in before if row[0] in left}
    assert set(left) == {row[0] for row in before} - {decode(given, hasher=agreement.HASHER).next_offset - 1}
