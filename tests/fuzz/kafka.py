"""Kafka's own record classes, in a JVM that is asked over pipes (KafkaRecords.java)."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parallax.jars import class_path, kafka_jars
from parallax.java import KAFKA_NEEDS, find_java

_SOURCE = Path(__file__).with_name("KafkaRecords.java")


@dataclass(frozen=True)
class KafkaRecord:
    """A record as Kafka's consumer hands it out: bytes, None for null, ``#<length>:<sha256>`` for many bytes."""

    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Answer:
    """What was decoded, and the error that ended it; None where there was none."""

    records: list[KafkaRecord]
    error: str | None


class Kafka:
    """The JVM."""

    def __init__(self, log: Path) -> None:
        java = find_java(KAFKA_NEEDS)
        command = [str(java.path), "-Xmx3g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", class_path(kafka_jars()), str(_SOURCE)]
        with log.open("wb") as errors:
            self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert self._read() == "ok", f"the JVM did not start; see {log}"

    def decode(self, data: bytes) -> Answer:
        """All batches, as a consumer reads them."""
        lines, error = self._ask(b"d", data)
        records: list[KafkaRecord] = []
        follows = base = -1
        for line in lines:
            words = line.split(" ")
            if words[0] == "batch":
                base = int(words[1])
                continue
            record = _record(words)
            # A consumer that has come to the batch skips what lies below its position (CompletedFetch).
            if record.offset >= max(follows, base):
                records.append(record)
                follows = record.offset + 1
        return Answer(records, error)

    def clean(self, data: bytes) -> bytes | None:
        """All batches, as the log cleaner writes them again without the last record of each; None where it cannot."""
        lines, error = self._ask(b"c", data)
        if error is not None:
            return None
        return bytes.fromhex(lines[0].removeprefix("log ")) if lines[0] != "log" else b""

    def close(self) -> None:
        """End it."""
        self._jvm.kill()
        self._jvm.communicate()

    def _ask(self, what: bytes, data: bytes) -> tuple[list[str], str | None]:
        assert self._jvm.stdin is not None
        self._jvm.stdin.write(what + struct.pack(">i", len(data)) + data)
        self._jvm.stdin.flush()
        lines: list[str] = []
        while True:
            line = self._read()
            if line == "ok":
                return lines, None
            if line.startswith("error "):
                return lines, line.removeprefix("error ")
            assert line, "the JVM has ended"
            lines.append(line)

    def _read(self) -> str:
        assert self._jvm.stdout is not None
        return self._jvm.stdout.readline().decode().rstrip("\n")


def _record(words: list[str]) -> KafkaRecord:
    assert words[0] == "record", words
    fields = [_bytes(word) for word in words[3:]]
    pairs = tuple(zip(fields[2::2], fields[3::2], strict=True))
    return KafkaRecord(int(words[1]), int(words[2]), fields[0], fields[1], pairs)


def _bytes(word: str) -> Any:
    if word == "-":
        return None
    return bytes.fromhex(word[1:]) if word[0] == "=" else word
