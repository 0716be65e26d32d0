"""What the decoder makes of a response, beside what Kafka's own classes make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nacl.bindings as nacl

from parallax.replica import kernels
from parallax.replica.decode import ContentHasher, batch_table, decode_slices
from parallax.replica.errors import CorruptBatch, ReplicaError, Unsupported
from parallax.replica.old_format import as_batches, is_old
from tests.fuzz.kafka import Answer, Kafka, KafkaRecord
from tests.unit.replica.batches import sized, varint

HASHER = ContentHasher(bytes(range(16)))

STRICTER = (
    "message of format v",
    "a message format that is not known",
    "its number of records does not fit its size or its offsets",
    "its offsets run backwards",
    "a record's offset lies beyond the batch",
)
"""What is refused although Kafka's consumer hands it out: brokers do not accept it, or no position fits it."""

Row = tuple[Any, ...]


def answers(data: bytes) -> Iterator[memoryview]:
    """What a client gives for a log of these bytes, one answer after the other: an older format begins another one."""
    left = memoryview(data)
    while True:
        answer = as_batches(left) if is_old(left) else left
        yield answer
        table, failure = batch_table(answer)
        left = answer[int(table[-1, kernels.END]) :] if len(table) else answer[:0]
        if failure is not None or not is_old(left):
            return


def ours(data: bytes) -> tuple[list[Row], ReplicaError | None]:
    """Rows and the failure that ended them; any other exception is a fault of the decoder."""
    rows: list[Row] = []
    try:
        for answer in answers(data):
            for columns in decode_slices(answer, hasher=HASHER):
                names = ("offset", "timestamp", "key_hash_hi", "key_hash_lo", "content_hash", "key_size", "value_size")
                kept = columns.kind == 0
                rows += zip(*(getattr(columns, name)[kept].tolist() for name in names), strict=True)
    except (CorruptBatch, Unsupported) as error:
        return rows, error
    return rows, None


def expected(record: KafkaRecord) -> Row:
    """The row that stands for a record, hashed by libsodium."""
    key = record.key
    digest = bytes(16) if key is None else nacl.crypto_shorthash_siphashx24(key, HASHER.key)
    low, high = (int.from_bytes(half, "little", signed=True) for half in (digest[:8], digest[8:]))
    items = b"".join(sized(name) + sized(value) for name, value in record.headers)
    content = sized(record.value) + varint(len(record.headers)) + items
    hashed = int.from_bytes(nacl.crypto_shorthash_siphash24(content, HASHER.key), "little", signed=True)
    sizes = [-1 if field is None else len(field) for field in (key, record.value)]
    return (record.offset, record.timestamp, high, low, hashed, *sizes)


def whole(record: KafkaRecord) -> bool:
    """Whether its bytes were sent, not only their digest."""
    fields = [record.key, record.value, *(field for pair in record.headers for field in pair)]
    return not any(isinstance(field, str) for field in fields)


def disagreement(kafka: Kafka, data: bytes) -> str | None:
    """How the two differ; None where they agree."""
    rows, error = ours(data)
    answer: Answer = kafka.decode(data)
    both = f"ours: {error}; Kafka: {answer.error}"
    if error is None and answer.error is not None:
        return f"accepted, though Kafka refuses it ({both})"
    if error is not None and answer.error is None and not any(text in str(error) for text in STRICTER):
        return f"refused, though Kafka accepts it ({both})"
    theirs = answer.records[: len(rows)] if error is not None else answer.records
    if len(theirs) != len(rows):
        return f"{len(rows)} records where Kafka has {len(answer.records)} ({both})"
    for row, record in zip(rows, theirs, strict=True):
        if whole(record) and row != expected(record):
            return f"another record than Kafka's at offset {record.offset}: {row} against {expected(record)} ({both})"
    return None
