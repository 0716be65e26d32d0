"""Scans: they read whole logs in the background to find the records of some keys.

A probe asks for a scan if it would have to read more of a log than one probe may. Probes come first: scans read only
what the broker's limit leaves.

Each replica that is scanned has a small file, which is replaced as a whole. It says how far the scan is and what it has
found, so a scan goes on after a restart. If the log was replaced since, the file is dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from random import Random
from typing import Any, Protocol

import structlog

from parallax.backoff import backoff
from parallax.errors import one_line
from parallax.findings.index import Indexes
from parallax.findings.keys import Key, KeyScan
from parallax.findings.lanes import Lanes
from parallax.findings.lap import Lap
from parallax.model import TopicPartition
from parallax.moments import now_ms
from parallax.replica.errors import LogTruncated, OffsetOutOfRange, ReplicaError
from parallax.stores import is_remote, rust_path

log = structlog.get_logger(__name__)

_SLICE_BYTES = 8 << 20
"""How much of one log is read before another has its turn, and before the file is written."""
_TRIES = 5
_RETRY_S = 1.0
_RETRY_MAX_S = 30.0

Replica = tuple[int, TopicPartition]
"""A broker, and the partition that it holds."""


class Reads(Protocol):
    """Reads replicas for scans; `parallax.findings.probe.Prober` does it.

    A scan reads a whole log to find the records of some keys.
    """

    def chunks(self, replica: Replica, start: int, end: int, after_epoch: int) -> Iterator[Any]:
        """Yield chunks of a replica's log in ``[start, end)``, as a read_committed consumer gets them.

        Raises:
            LogTruncated: below ``start`` the log holds another leader epoch than ``after_epoch``. It is not the log
                that was read before.
        """

    def is_same_log(self, replica: Replica, lap: Lap) -> bool:
        """Whether a replica's log is still the one that the scan ``lap`` has read so far.

        If not, the scan must begin again.
        """


class LogScans:
    """Reads whole logs in the background to find the records of some keys; each such reading is a *scan*.

    There is one thread for each broker.

    Args:
        reads: reads the replicas.
        indexes: the scans put the offsets that they find there, for the probes.
        folder: where the scans' files are; with None no scan survives the process.
        wait: waits some seconds and returns whether all scans have to stop.
    """

    def __init__(
        self, reads: Reads, indexes: Indexes, folder: str | None, wait: Callable[[float], bool] = lambda _: False
    ) -> None:
        self._reads = reads
        self._indexes = indexes
        self._folder = None if folder is None else Path(folder)
        self._wait = wait
        self._lock = threading.Lock()
        self._laps: dict[Replica, Lap] = {}
        self._looked: set[Replica] = set()
        """The replicas whose file was looked for."""
        self._running: set[int] = set()
        self._errors: dict[int, str] = {}
        self._lanes = Lanes(1, "scan")
        self._draw = Random()  # noqa: S311 - jitter

    def close(self) -> None:
        """Begin no more scans. Scans that are running end once ``wait`` says so."""
        self._lanes.close()

    def want(self, replica: Replica, keys: Collection[Key], start: int, end: int, topic_id: str) -> str:
        """Let a scan look for keys in the whole log of a replica, and return in words how far it has come.

        The text is e.g. "the log of broker 2 is being scanned: 40 %".

        Args:
            replica: the replica.
            keys: the keys to look for, at least one.
            start: the log start.
            end: the offset up to which to look for the keys.
            topic_id: id of the topic; a stored scan of another topic with the same name is not continued.
        """
        broker = replica[0]
        self.recall(replica, topic_id)
        with self._lock:
            lap = self._laps.get(replica)
            if lap is None:
                lap = self._laps[replica] = Lap(start, end, start, topic_id, now_ms())
            lap.want(keys, start, end)
            share = min(lap.share(key) for key in keys)
            error = self._errors.get(broker)
            begin = broker not in self._running
            self._running.add(broker)
        if begin:
            try:
                self._lanes.submit(broker, lambda: self._run(broker))
            except RuntimeError:
                error = "the program ends"
        text = f"the log of broker {broker} is being scanned: {100 * share:.0f} %"
        return text if error is None else f"{text} ({error})"

    def recall(self, replica: Replica, topic_id: str) -> None:
        """Continue the scan of a replica's log that an earlier process has begun.

        It does nothing if that process has left no file, or if another log has replaced the log.

        Args:
            replica: the replica.
            topic_id: id of the topic; a stored scan of another topic with the same name is not continued.
        """
        lap = self._stored(replica, topic_id)
        if lap is None:
            return
        with self._lock:
            self._laps.setdefault(replica, lap)
        index = self._indexes.of(*replica)
        index.learn(lap.found, lap.read_to, lap.epoch)
        index.since_ms = min(index.since_ms, lap.since_ms)

    def began_ms(self, replica: Replica) -> int | None:
        """Return when the scan of a replica's log began, in milliseconds since 1970 UTC.

        None if there is none.
        """
        with self._lock:
            lap = self._laps.get(replica)
            return None if lap is None else lap.since_ms

    def start_again(self, replica: Replica) -> None:
        """Drop everything that scans and probes found in a replica's log, because another log replaced it."""
        self._indexes.of(*replica).forget()
        self.forget(replica)

    def forget(self, replica: Replica) -> None:
        """End the scan of a replica's log, and remove its file.

        The index keeps what scans have found in the log.
        """
        with self._lock:
            self._laps.pop(replica, None)
            self._looked.add(replica)
        self._write(replica, None)

    # The thread of a broker.

    def _run(self, broker: int) -> None:
        failed = 0
        while (replicas := self._of(broker)) and failed < _TRIES:
            for replica in replicas:
                if self._wait(0.0):
                    failed = _TRIES
                    break
                try:
                    self._slice(replica)
                    failed = 0
                    self._errors.pop(broker, None)
                except ReplicaError as error:
                    failed += 1
                    self._errors[broker] = str(error)
                    if self._wait(backoff(failed, _RETRY_S, _RETRY_MAX_S, self._draw)):
                        failed = _TRIES
                        break
                except Exception as error:  # a dead thread would look like a running scan
                    failed = _TRIES
                    self._errors[broker] = f"{type(error).__name__}: {error}"
                    log.exception("a scan failed, by a fault of Parallax; it is tried again", **_about(replica))
                    break
        with self._lock:
            self._running.discard(broker)

    def _of(self, broker: int) -> list[Replica]:
        with self._lock:
            found = [replica for replica, lap in self._laps.items() if replica[0] == broker and lap.keys]
            if not found:
                self._running.discard(broker)
            return found

    def _slice(self, replica: Replica) -> None:
        """Read the next part of a log."""
        with self._lock:
            lap = self._laps.get(replica)
            if lap is None:
                return  # it was forgotten meanwhile
            keys, position, end = list(lap.keys), lap.position, lap.next_end
            epoch = lap.epoch if lap.position == lap.read_to else -1
            comes_round = lap.position == lap.start < lap.read_to
        if comes_round and not self._reads.is_same_log(replica, lap):
            self.start_again(replica)
            return
        scan, reached, size = KeyScan(keys), position, 0
        try:
            for chunk in self._reads.chunks(replica, position, end, epoch):
                scan.add(chunk)
                size += _bytes(chunk)
                reached, epoch = chunk.position, max(epoch, chunk.epoch)
                if size >= _SLICE_BYTES:
                    break
        except LogTruncated as error:
            log.warning("a scan begins again: the log was replaced", **_about(replica), error=one_line(error))
            self.start_again(replica)
            return
        except OffsetOutOfRange:
            self.forget(replica)  # the log start has moved; probes that still wait for a key ask again
            return
        if reached <= position and reached < end:
            raise ReplicaError(f"broker {replica[0]} shows nothing beyond offset {reached} at present")
        with self._lock:
            if self._laps.get(replica) is not lap:
                return  # it was forgotten meanwhile
            known = lap.took(reached, scan.offsets, scan.floors, epoch)
            since, read_to, at = lap.since_ms, lap.read_to, lap.epoch
            document = lap.as_json()
        index = self._indexes.of(*replica)
        if known:
            index.learn(known, read_to, at)
            index.since_ms = min(index.since_ms, since)
        self._write(replica, document)

    # The files.

    def _path(self, replica: Replica) -> Path | None:
        if self._folder is None:
            return None
        broker, (topic, partition) = replica
        name = hashlib.sha256(topic.encode()).hexdigest()[:16]
        return self._folder / f"scan-{broker}-{name}-{partition}.json"

    def _stored(self, replica: Replica, topic_id: str) -> Lap | None:
        """Return what an earlier process left of the scan of a replica, if the log is still the same."""
        path = self._path(replica)
        with self._lock:
            if path is None or replica in self._looked:
                return None
            self._looked.add(replica)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document.get("replica") != _named(replica):
                return None
            lap = Lap.parse(document)
        except (OSError, ValueError, AttributeError):
            return None
        if (lap.topic_id and topic_id and lap.topic_id != topic_id) or not self._reads.is_same_log(replica, lap):
            log.info("a scan begins again: the log is another one", **_about(replica))
            self._write(replica, None)
            return None
        return lap

    def _write(self, replica: Replica, document: dict[str, Any] | None) -> None:
        """Replace the file of a replica, or remove it; on a full disk the scan goes on, but cannot be resumed."""
        path = self._path(replica)
        if path is None:
            return
        try:
            if document is None:
                path.unlink(missing_ok=True)
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = path.with_name(f".{path.name}.{os.getpid()}")
            scratch.write_text(json.dumps(document | {"replica": _named(replica)}), encoding="utf-8")
            scratch.replace(path)
        except OSError as error:
            what = "the scan goes on; after a restart of the job it begins again"
            log.warning("a scan's progress cannot be written", path=str(path), error=one_line(error), what=what)


def _about(replica: Replica) -> dict[str, object]:
    broker, (topic, partition) = replica
    return {"broker": broker, "topic": topic, "partition": partition}


def _named(replica: Replica) -> list[Any]:
    broker, (topic, partition) = replica
    return [broker, topic, partition]


def _bytes(chunk: Any) -> int:
    columns = chunk.columns
    return int(columns.key_size.clip(0).sum()) + int(columns.value_size.clip(0).sum()) + 16 * len(columns)


def folder_of(storage: str) -> str | None:
    """Return the folder of the scans' files below ``storage.path``; None if the storage is remote."""
    return None if is_remote(storage) else str(Path(rust_path(storage)).absolute() / "scans")


__all__ = ["LogScans", "Reads", "Replica", "folder_of"]
