"""The options of ``kafka-replica`` and ``kafka-progress``: checks them and makes typed values, asking no broker."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parallax.model import IsolationLevel
from parallax.replica.errors import BadOption
from parallax.source.offsets import Range, Reader, from_json

BOTH = "both"
PAYLOADS = ("hash", "key", "full")
SHARED = "shared"
NO_KEY = "0" * 32
"""The hash key if none is given. Hashes of all runs can then be compared, and anybody can compute them."""

_IGNORED = {"path"}  # Spark adds it for load(path)


def matches(pattern: str | None, topic: str) -> bool:
    """Whether a topic is to be read because its whole name matches a pattern; False without a pattern.

    Kafka's internal topics, such as ``__consumer_offsets``, never match: they are read only if they are named.
    """
    return pattern is not None and not topic.startswith("__") and re.fullmatch(pattern, topic) is not None


@dataclass(frozen=True)
class SourceOptions:
    """The options that both sources understand.

    Attributes:
        kafka: Kafka's own options, their names without the prefix ``kafka.``.
        topics: names of topics to read; may be empty if there is a pattern.
        pattern: a regular expression: topics whose whole name matches are read too, except Kafka's internal ones. None
            for none.
        brokers: ids of the brokers to read; None for all that host a replica.
        timeout_ms: how long one request to a broker may take, in ms.
        metadata_refresh_ms: how old, in ms, the list of topics and replicas becomes before the brokers are asked for it
            again.
        patience_ms: how long, in ms, a plan waits for a broker that has answered in time so far. A slower broker is
            left out of the plan, and takes part again once it has answered.
        retry_ms: first pause, in ms, before a broker that failed is asked again; it doubles up to ``retry_max_ms``.
        retry_max_ms: longest pause, in ms.
        trigger_ms: time, in ms, from the start of one micro-batch to the next, if the source itself waits for it
            (`parallax.source.due`); None if only Spark's trigger decides.
    """

    kafka: Mapping[str, str]
    topics: tuple[str, ...]
    pattern: str | None
    brokers: tuple[int, ...] | None
    timeout_ms: int = 3000
    metadata_refresh_ms: int = 5000
    patience_ms: int = 500
    retry_ms: int = 500
    retry_max_ms: int = 5000
    trigger_ms: int | None = None


@dataclass(frozen=True)
class ReplicaOptions(SourceOptions):
    """The options of ``kafka-replica``, with those of `SourceOptions`.

    Attributes:
        isolations: the isolation levels to read; each gets what a consumer of that level would get.
        with_isolation: whether rows have the column ``isolation`` (``isolation.level`` is ``both``).
        starting: where reading begins in a partition that was never read: ``earliest`` or ``latest``.
        max_bytes: how much one micro-batch reads of one broker at one isolation level, at most; None for no limit. It
            counts compressed bytes, or 100 for each record if that is more.
        payload: what of a record is kept: ``hash`` (only hashes), ``key`` (the key too), or ``full`` (all of it).
        hash_key: 16 bytes, the secret key of the hashes.
        feedback: path of the file in which the sink writes the recorded positions (``parallax.source.feedback``); None
            when the source is used without a sink.
        fetch_bytes: size of one Fetch response, at most.
        parallelism: how many Spark tasks read one broker at one isolation level, at most.
        ranges: for a batch read whose ranges another process has planned, the range of each reader; None to read every
            replica from its log start to its end.
        tells_failures: what a batch read does if reading fails in the middle of a range. If set, it ends the range
            there with a row that says why (`parallax.source.columns.Position`), and goes on with the other ranges.
            Otherwise the whole read fails.
        max_bytes_per_second: how many bytes of Fetch responses one broker sends in a second, at most; one Spark task
            then reads all of the broker. None for no limit. Two reads at the same time each have the whole limit.
        shared: whether one Fetch serves both isolation levels up to the last stable offset (``fetch`` is ``shared``;
            `parallax.source.sharing`).
        paused: path of the file in which the job names the brokers that are not to be read
            (``parallax.source.feedback``); None if it pauses none.
        meter: folder in which Spark tasks write how much they have read (``parallax.source.pace``); None to write
            nothing.
    """

    isolations: tuple[IsolationLevel, ...] = (IsolationLevel.READ_COMMITTED,)
    with_isolation: bool = False
    starting: str = "earliest"
    max_bytes: int | None = None
    payload: str = "hash"
    hash_key: bytes = field(default=bytes(16), repr=False)
    feedback: str | None = None
    fetch_bytes: int = 8 << 20
    parallelism: int = 2
    ranges: Mapping[Reader, Range] | None = None
    tells_failures: bool = False
    max_bytes_per_second: int | None = None
    meter: str | None = None
    shared: bool = False
    paused: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProgressOptions(SourceOptions):
    """The options of ``kafka-progress``, with those of `SourceOptions`.

    Attributes:
        awaited: path of the file that names the partitions of which the comparison waits for a report (`AwaitedFile`).
            With it, rows that only repeat earlier rows are not recorded. None to record every tick.
    """

    awaited: str | None = None


_COMMON = {
    "brokers",
    "topics",
    "topics.pattern",
    "request.timeout.ms",
    "metadata.refresh.ms",
    "planning.patience.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "trigger.ms",
}
_REPLICA = _COMMON | {
    "isolation.level",
    "startingoffsets",
    "endingoffsets",
    "maxbytespertrigger",
    "payload",
    "hash.key",
    "feedback.path",
    "fetch",
    "fetch.max.bytes",
    "parallelism",
    "ranges",
    "onfailure",
    "maxbytespersecond",
    "meter.path",
    "paused.path",
}
_PROGRESS = _COMMON | {"awaited.path"}
_SPELLING = {
    "startingoffsets": "startingOffsets",
    "endingoffsets": "endingOffsets",
    "maxbytespertrigger": "maxBytesPerTrigger",
    "maxbytespersecond": "maxBytesPerSecond",
    "onfailure": "onFailure",
}


def replica_options(options: Mapping[str, str]) -> ReplicaOptions:
    """The validated options of ``kafka-replica``.

    Args:
        options: as given to Spark; upper and lower case in names are the same, as in Spark.

    Raises:
        BadOption: an option is unknown, missing or of a wrong type.
    """
    given, common = _split(options, _REPLICA)
    _one_of(given, "endingoffsets", "latest", ("latest",))
    isolation = _one_of(given, "isolation.level", "read_committed", (*(i.option for i in IsolationLevel), BOTH))
    shared = _one_of(given, "fetch", "separate", ("separate", SHARED)) == SHARED
    if shared and isolation != BOTH:
        raise _bad("fetch", f"is {SHARED!r}, which needs both isolation levels; set isolation.level to {BOTH}")
    return ReplicaOptions(
        **common,
        isolations=tuple(i for i in IsolationLevel if isolation in (i.option, BOTH)),
        with_isolation=isolation == BOTH,
        starting=_one_of(given, "startingoffsets", "earliest", ("earliest", "latest")),
        max_bytes=_integer(given, "maxbytespertrigger", None, 1),
        payload=_one_of(given, "payload", "hash", PAYLOADS),
        hash_key=_key(given.get("hash.key", NO_KEY)),
        feedback=given.get("feedback.path"),
        fetch_bytes=_integer(given, "fetch.max.bytes", 8 << 20, 1024) or 0,
        parallelism=_integer(given, "parallelism", os.cpu_count() or 1, 1) or 1,
        ranges=_ranges(given.get("ranges")),
        tells_failures=_one_of(given, "onfailure", "fail", ("fail", "tell")) == "tell",
        max_bytes_per_second=_integer(given, "maxbytespersecond", None, 1),
        meter=given.get("meter.path"),
        shared=shared,
        paused=given.get("paused.path"),
    )


def progress_options(options: Mapping[str, str]) -> ProgressOptions:
    """The validated options of ``kafka-progress``.

    Args:
        options: as given to Spark; upper and lower case in names are the same, as in Spark.

    Raises:
        BadOption: an option is unknown, missing or of a wrong type.
    """
    given, common = _split(options, _PROGRESS)
    return ProgressOptions(**common, awaited=given.get("awaited.path"))


def _split(options: Mapping[str, str], known: set[str]) -> tuple[dict[str, str], dict[str, Any]]:
    given = {name.lower(): str(value) for name, value in options.items()}
    kafka = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    own = {name: value for name, value in given.items() if not name.startswith("kafka.") and name not in _IGNORED}
    _refuse_unknown(own, known)
    if not kafka.get("bootstrap.servers"):
        raise _bad("kafka.bootstrap.servers", "is missing; write host:port[,host:port]")
    topics = tuple(part.strip() for part in own.get("topics", "").split(",") if part.strip())
    pattern = own.get("topics.pattern")
    if not topics and pattern is None:
        raise _bad("topics", "is missing; name the topics to read, separated by commas, or give topics.pattern")
    return own, {
        "kafka": kafka,
        "topics": topics,
        "pattern": None if pattern is None else _regular(pattern),
        "brokers": _brokers(own.get("brokers")),
        "timeout_ms": _integer(own, "request.timeout.ms", 3000, 1),
        "metadata_refresh_ms": _integer(own, "metadata.refresh.ms", 5000, 1),
        "patience_ms": _integer(own, "planning.patience.ms", 500, 1),
        "retry_ms": _integer(own, "retry.backoff.ms", 500, 1),
        "retry_max_ms": _integer(own, "retry.backoff.max.ms", 1000, 1),
        "trigger_ms": _integer(own, "trigger.ms", None, 0),
    }


def _refuse_unknown(own: Iterable[str], known: set[str]) -> None:
    for name in own:
        if name not in known:
            names = ", ".join(sorted(_SPELLING.get(option, option) for option in known))
            raise _bad(name, f"is no option of this source; it knows kafka.*, {names}")


def _bad(option: str, problem: str) -> BadOption:
    name = _SPELLING.get(option, option)
    return BadOption(f"option {name} {problem}", option=name)


def _one_of(given: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = given.get(name, default).lower()
    if value not in allowed:
        raise _bad(name, f"is {value!r}; it must be one of {', '.join(allowed)}")
    return value


def _integer(given: Mapping[str, str], name: str, default: int | None, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d+", text.strip()) or int(text) < least:
        raise _bad(name, f"is {text!r}; it must be a whole number of at least {least}")
    return int(text)


def _brokers(text: str | None) -> tuple[int, ...] | None:
    if text is None or not text.strip():
        return None
    if not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", text):
        raise _bad("brokers", f"is {text!r}; write broker ids separated by commas, such as 1,2,3")
    return tuple(sorted({int(part) for part in text.split(",")}))


def _regular(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise _bad("topics.pattern", f"is not a regular expression ({error})") from error
    return pattern


def _ranges(text: str | None) -> dict[Reader, Range] | None:
    if text is None:
        return None
    try:
        return from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _bad("ranges", "must be an offset of this source in JSON (parallax.source.offsets)") from error


def _key(text: str) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
        raise _bad("hash.key", "must be 32 hexadecimal digits (128 bits)")
    return bytes.fromhex(text)
