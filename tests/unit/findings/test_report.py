from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_findings_table import EVENT

from parallax.findings.report import as_document, print_findings
from parallax.findings.table import FindingsTable
from parallax.model import FindingStatus


@pytest.fixture
def storage(tmp_path: Path) -> str:
    resolved = replace(EVENT, finding_id="b", topic="payments", status=FindingStatus.RESOLVED)
    FindingsTable(str(tmp_path)).append([EVENT, resolved])
    return str(tmp_path)


def printed(storage: str, output: str, *, everything: bool = False) -> str:
    stream = io.StringIO()
    print_findings(storage, output, everything=everything, to=stream)
    return stream.getvalue()


def test_text_lists_what_is_open(storage: str) -> None:
    assert "orders" in printed(storage, "text")
    assert "payments" not in printed(storage, "text")
    assert "payments" in printed(storage, "text", everything=True)


def test_json_carries_the_evidence(storage: str) -> None:
    (document,) = json.loads(printed(storage, "json"))
    assert document["kind"] == "content_mismatch"
    assert document["key"] == "k"
    assert document["evidence"] == {}
    assert document["first_suspected_at"] == "2026-01-02T00:00:00+00:00"


def test_a_finding_that_stands_comes_with_what_to_do(storage: str) -> None:
    where = "docs/runbook.md#another-record-or-none"
    text = printed(storage, "text", everything=True)
    assert text.count(f"What to do: {where}") == 1
    assert [document["runbook"] for document in json.loads(printed(storage, "json"))] == [where]


def test_an_incident_is_listed_with_its_count_and_examples(tmp_path: Path) -> None:
    said = {
        "incident": {
            "count": 100_000,
            "lowest_offset": 5,
            "highest_offset": 900_000,
            "samples": [
                {
                    "offset": offset,
                    "key_hash": "",
                    "suspect_id": f"s{offset}",
                    "kind": str(EVENT.kind),
                    "rule": str(EVENT.rule),
                    "broker": 2,
                    "producer_id": -1,
                    "marker_offset": -1,
                    "recorded": {},
                    "raised_at_ms": 0,
                }
                for offset in (5, 450_000, 900_000)
            ],
        },
        "proofs": [{"offset": 5, "key": "customer-7"}],
    }
    event = replace(EVENT, suspect_id="", key=None, summary="Many.", evidence=json.dumps(said))
    FindingsTable(str(tmp_path)).append([event])
    text = printed(str(tmp_path), "text")
    assert "100,000" in text
    assert "1. Many. For example at offsets 5 (customer-7), 450000, 900000." in text
    (document,) = json.loads(printed(str(tmp_path), "json"))
    assert document["evidence"]["incident"]["count"] == 100_000


def test_no_findings_are_said_in_words(tmp_path: Path) -> None:
    FindingsTable(str(tmp_path))
    assert printed(str(tmp_path), "text") == "No open findings.\n"
    assert printed(str(tmp_path), "json") == "[]\n"


def test_a_key_that_is_no_text_is_shown_in_hexadecimal() -> None:
    assert as_document(replace(EVENT, key=b"\xff"))["key"] == "0xff"
    assert as_document(replace(EVENT, key=None))["key"] is None


def test_the_report_starts_neither_spark_nor_the_decoder() -> None:
    code = "import sys, parallax.findings.report; print([m for m in ('pyspark', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
