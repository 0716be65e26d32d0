"""What a disk may lose or change in the log of a broker that is down: records, their content, an index.

The broker has to be stopped cleanly. After a crash it would check the log when it starts, and copy what is lost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from kafka.record.util import calc_crc32c

from parallax.lab.cluster import Cluster

RIGHT, WRONG = "right", "wrong"
"""A value, and what `change_record` makes of it; they are of one length, so that nothing else in the log moves."""
_HEADER = struct.Struct(">qi")
"""Of a batch: its first offset, and how many bytes follow (DefaultRecordBatch of Kafka)."""
_EPOCH, _CRC, _COVERED = 12, 17, 21
"""Where in a batch are its leader epoch, its checksum, and the first byte that the checksum covers."""


def lose_record(lab: Cluster, broker: int, topic: str, offset: int) -> None:
    """Take the batch that begins at an offset out of the log of partition 0."""
    _rewrite(lab, broker, topic, offset, lambda _: b"")


def change_record(lab: Cluster, broker: int, topic: str, offset: int, epoch: int | None = None) -> None:
    """Make `RIGHT` `WRONG` in the batch that begins at an offset of partition 0, and maybe make it of another epoch."""

    def changed(batch: bytes) -> bytes:
        assert RIGHT.encode() in batch
        covered = batch[_COVERED:].replace(RIGHT.encode(), WRONG.encode())
        head = bytearray(batch[:_COVERED])
        struct.pack_into(">I", head, _CRC, calc_crc32c(covered))
        if epoch is not None:
            struct.pack_into(">i", head, _EPOCH, epoch)
        return bytes(head) + covered

    _rewrite(lab, broker, topic, offset, changed)


def lose_index(lab: Cluster, broker: int, topic: str) -> None:
    """Remove the index of aborted transactions of partition 0."""
    lost = list(_folder(lab, broker, topic).glob("*.txnindex"))
    assert any(file.stat().st_size for file in lost), "the index was on the disk"
    for file in lost:
        file.unlink()


def _folder(lab: Cluster, broker: int, topic: str) -> Path:
    assert not lab.brokers[broker].running
    return lab.brokers[broker].folder / "data" / f"{topic}-0"


def _rewrite(lab: Cluster, broker: int, topic: str, offset: int, change: Callable[[bytes], bytes]) -> None:
    files = sorted(_folder(lab, broker, topic).glob("*.log"))
    log = max(file for file in files if int(file.stem) <= offset)
    batches = dict(_batches(log.read_bytes()))
    batches[offset] = change(batches[offset])
    log.write_bytes(b"".join(batches.values()))
    for kind in (".index", ".timeindex"):  # they name positions in the file; a broker that starts writes them again
        log.with_suffix(kind).unlink(missing_ok=True)


def _batches(log: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(log):
        offset, size = _HEADER.unpack_from(log, at)
        yield offset, log[at : at + _HEADER.size + size]
        at += _HEADER.size + size
