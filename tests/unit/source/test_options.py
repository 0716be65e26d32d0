from __future__ import annotations

import pytest

from parallax.model import IsolationLevel
from parallax.replica.errors import BadOption
from parallax.source.options import progress_options, replica_options

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "topics": "orders, customers"}


def test_the_least_that_is_needed_gives_the_defaults() -> None:
    options = replica_options(LEAST)
    assert options.kafka == {"bootstrap.servers": "localhost:9092"}
    assert options.topics == ("orders", "customers")
    assert options.isolations == (IsolationLevel.READ_COMMITTED,)
    assert options.starting == "earliest"
    assert options.max_bytes is None
    assert options.brokers is None


def test_names_are_compared_without_regard_to_case() -> None:
    assert replica_options(LEAST | {"STARTINGOFFSETS": "latest", "maxBytesPerTrigger": "7"}).max_bytes == 7


def test_both_isolation_levels_come_with_a_column_that_tells_them_apart() -> None:
    options = replica_options(LEAST | {"isolation.level": "both"})
    assert options.isolations == (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
    assert options.with_isolation


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("statringOffsets", "latest", "is no option of this source"),
        ("startingOffsets", "yesterday", "must be one of earliest, latest"),
        ("isolation.level", "serializable", "must be one of read_uncommitted, read_committed, both"),
        ("maxBytesPerTrigger", "64MB", "must be a whole number"),
        ("maxBytesPerTrigger", "0", "at least 1"),
        ("request.timeout.ms", "-1", "must be a whole number"),
        ("brokers", "one", "broker ids separated by commas"),
        ("hash.key", "secret", "32 hexadecimal digits"),
        ("payload", "some", "must be one of hash, key, full"),
        ("topics.pattern", "(", "is not a regular expression"),
    ],
)
def test_a_bad_option_is_one_line_that_names_it(name: str, value: str, message: str) -> None:
    with pytest.raises(BadOption, match=message) as caught:
        replica_options(LEAST | {name: value})
    assert name.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", list(LEAST))
def test_what_is_needed_and_missing_is_named(missing: str) -> None:
    given = {name: value for name, value in LEAST.items() if name != missing}
    with pytest.raises(BadOption, match=f"{missing} is missing"):
        replica_options(given)


def test_the_hash_key_does_not_show_in_the_options_text() -> None:
    options = replica_options(LEAST | {"hash.key": "ab" * 16})
    assert options.hash_key == b"\xab" * 16
    assert "\\xab" not in repr(options)


def test_progress_refuses_what_only_records_need() -> None:
    assert progress_options(LEAST).patience_ms == 500
    with pytest.raises(BadOption, match="payload is no option"):
        progress_options(LEAST | {"payload": "full"})
