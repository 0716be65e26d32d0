"""What a dry run says that an audit would read."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from parallax.audit.dry import summarise, write
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.source.offsets import Range, Reader

PLANS = [
    PartitionPlan("orders", 0, "id", TopicTraits(), (1, 2)),
    PartitionPlan("orders", 1, "id", TopicTraits(), (1, 2), reasons=("broker 2: refused",)),
]
WANTED = {
    Reader(0, 1, "orders", 0): Range(0, 1000, "id"),
    Reader(1, 1, "orders", 0): Range(0, 900, "id"),
    Reader(0, 1, "orders", 1): Range(0, 100, "id"),
    Reader(0, 2, "orders", 0): Range(500, 1000, "id"),
}


def test_a_brokers_share_is_offsets_times_density_and_the_mean_where_none_was_sampled() -> None:
    found = summarise(PLANS, WANTED, {(1, ("orders", 0)): 10.0}, 1000)
    first, second = found.brokers
    assert (first.broker, first.partitions, first.offsets) == (1, 2, 2000)
    assert first.estimated_bytes == 1900 * 10 + 100 * 10
    assert first.seconds == pytest.approx(20.0)
    assert second.estimated_bytes == 500 * 100
    assert found.seconds == pytest.approx(50.0)


def test_without_a_limit_no_time_is_guessed() -> None:
    assert summarise(PLANS, WANTED, {}, None).seconds is None


def test_the_text_has_a_line_for_each_broker_and_says_what_would_be_unknown() -> None:
    out = io.StringIO()
    write(summarise(PLANS, WANTED, {(1, ("orders", 0)): 1024.0}, 1000), "text", out)
    text = out.getvalue()
    assert "estimated bytes" in text
    assert "2.0 MiB" in text
    assert "orders-1: unknown: broker 2: refused" in text
    assert "at the limit" in text


def test_the_document_holds_the_same() -> None:
    out = io.StringIO()
    write(summarise(PLANS, WANTED, {}, 1000), "json", out)
    document = json.loads(out.getvalue())
    assert [share["broker"] for share in document["brokers"]] == [1, 2]
    assert document["unknown"] == {"orders-1": ["broker 2: refused"]}


def test_where_one_partition_can_be_read_the_exit_code_is_0_and_where_none_can_it_is_unknowns() -> None:
    found = summarise([PLANS[0], replace(PLANS[1], readable=False)], WANTED, {}, None)
    assert (found.partitions, found.readable, found.exit_code) == (2, 1, 0)
    refused = [replace(one, readable=False, reasons=("broker 1, orders-0: not authorized",)) for one in PLANS]
    assert summarise(refused, {}, {}, None).exit_code == 3
