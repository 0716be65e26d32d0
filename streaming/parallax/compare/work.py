"""What the comparison's planning process gives to its Spark tasks: settings, and the files to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from parallax.compare.segments import Manifest
from parallax.config import CompareSettings
from parallax.views.commits import DataFile

STRETCH = 1_000_000
"""The most rows of a stretch, unless a single commit has more. A Spark task has no more rows than that in memory."""


@dataclass(frozen=True)
class Options:
    """The settings of the comparison's Spark source, as its ``option("settings", ...)`` carries them.

    Attributes:
        storage: folder or URI of the tables (``storage.path``).
        parallelism: the highest number of Spark tasks of a micro-batch.
        compare: settings of the comparison.
        from_log_start: whether readers begin at the log start; otherwise they begin at the log end.
        checkpoint: folder or URI of the query's checkpoint; the comparison's state lies in it.
        brokers: ids of the brokers that are read (``topics.brokers``); only their replicas are compared. None for all.
        hash_key: the 16 secret bytes with which the views' keys and contents are hashed. They are no part of the JSON
            text; the option ``hash.key`` carries them.
    """

    storage: str
    parallelism: int
    compare: CompareSettings
    from_log_start: bool = True
    checkpoint: str = ""
    brokers: Sequence[int] | None = None
    hash_key: bytes = field(default=bytes(16), repr=False)

    def to_json(self) -> str:
        """The options as JSON text."""
        document = {"storage": self.storage, "parallelism": self.parallelism, "from_log_start": self.from_log_start}
        document |= {"checkpoint": self.checkpoint, "brokers": self.brokers}
        return json.dumps(document | {"compare": self.compare.model_dump()})

    @classmethod
    def from_json(cls, text: str, hash_key: bytes = bytes(16)) -> Options:
        """The options from the text that `to_json` wrote, and the hash key."""
        document = json.loads(text)
        return cls(**document | {"compare": CompareSettings(**document["compare"]), "hash_key": hash_key})


@dataclass(frozen=True)
class Stretch:
    """Successive commits of a micro-batch, of all tables, with at most `STRETCH` rows: a Spark task has room for them.

    Attributes:
        files: the files to read, each with the name of its table, in the order of their commits.
        until_ms: the time of the last commit in the stretch (`parallax.views.order`).
    """

    files: tuple[tuple[str, DataFile], ...]
    until_ms: int


@dataclass(frozen=True)
class Work:
    """One micro-batch, as all of its Spark tasks need to know it.

    Attributes:
        stretches: all commits of the micro-batch, in order, in groups of about a million rows (`Stretch`).
        since: a hash of the Spark offset where the micro-batch begins (`parallax.compare.segments.offset_mark`).
        until: a hash of the Spark offset where the micro-batch ends.
        manifest: names the files that hold the comparison's state at the Spark offset ``since``.
        now_ms: when the micro-batch was planned, milliseconds since 1970 UTC.
    """

    stretches: tuple[Stretch, ...]
    since: str
    until: str
    manifest: Manifest
    now_ms: int


__all__ = ["STRETCH", "Options", "Stretch", "Work"]
