from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from parallax.findings.explain import runbook_of
from parallax.findings.exposure import Led
from parallax.findings.finding import Finding
from parallax.findings.naming import FindingNotNamedError
from parallax.findings.report import (
    Facts,
    Wanted,
    as_document,
    listed,
    print_explanation,
    print_finding,
    print_findings,
)
from parallax.findings.table import FindingsTable
from parallax.model import NOBODY, FindingKind, FindingStatus
from tests.builders.findings import EVENT


@pytest.fixture
def storage(tmp_path: Path) -> str:
    resolved = replace(EVENT, finding_id="b", topic="payments", status=FindingStatus.RESOLVED)
    FindingsTable(str(tmp_path)).append([EVENT, resolved])
    return str(tmp_path)


def printed(storage: str, output: str, *, everything: bool = False) -> str:
    stream = io.StringIO()
    print_findings(storage, output, Wanted(everything=everything), to=stream)
    return stream.getvalue()


def test_text_lists_what_is_open(storage: str) -> None:
    assert "orders" in printed(storage, "text")
    assert "payments" not in printed(storage, "text")
    assert "payments" in printed(storage, "text", everything=True)


def test_who_leads_is_said_as_of_when_the_replicas_were_asked(tmp_path: Path) -> None:
    event = replace(EVENT, broker=2, exposed=True, evidence=json.dumps({"leader": 2}))
    FindingsTable(str(tmp_path)).append([event])
    assert "broker 2, which led when asked" in printed(str(tmp_path), "text")


def test_json_carries_the_evidence(storage: str) -> None:
    (document,) = json.loads(printed(storage, "json"))
    assert document["kind"] == "content_mismatch"
    assert document["key"] == "k"
    assert document["evidence"] == {"was_readable": False}
    assert document["first_suspected_at"] == "2026-01-02T00:00:00+00:00"


def test_a_finding_that_stands_comes_with_what_to_do(storage: str) -> None:
    where = "docs/runbook.md#values-or-records-that-differ"
    text = printed(storage, "text", everything=True)
    assert text.count(f"What to do: parallax findings explain {EVENT.finding_id[:8]} -c CONFIG") == 1
    assert [document["runbook"] for document in json.loads(printed(storage, "json"))] == [where]


def said_of(stream: io.StringIO) -> str:
    """What was printed, as one line."""
    return " ".join(stream.getvalue().split())


@pytest.mark.parametrize("columns", ["20", "80"])
def test_no_word_and_no_number_is_broken_however_narrow_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    topic = "payments.eu-west-1.customer-orders-by-region.v2"
    answer = {"high_watermark": 1234567890123, "log_end_offset": 1234567890123}
    replicas = {str(broker): answer for broker in range(1001, 1005)} | {"1005": {"error": "it-is-away"}}
    event = replace(
        EVENT, finding_id="e" * 32, topic=topic, evidence=json.dumps({"leader": 1001, "replicas": replicas})
    )
    FindingsTable(str(tmp_path)).append([event])
    shown, explained = io.StringIO(), io.StringIO()
    print_finding(str(tmp_path), "eeee", to=shown)
    print_explanation(str(tmp_path), "eeee", to=explained)
    text = shown.getvalue()
    assert [text.count(f"broker {broker}") > 0 for broker in range(1001, 1006)] == [True] * 5
    assert text.count("1234567890123") == 8
    assert "it-is-away" in text
    assert f"{topic}-0" in text
    assert runbook_of(event) in explained.getvalue().splitlines()


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
    said_in_one = " ".join(text.split())
    assert (
        "Many. First suspected 2026-01-02 00:00:00Z, asked 2026-01-03 00:00:00Z. It counts 100,000 keys." in said_in_one
    )
    assert "For example at offsets 5 (customer-7), 450000, 900000." in said_in_one
    (document,) = json.loads(printed(str(tmp_path), "json"))
    assert document["evidence"]["incident"]["count"] == 100_000


def test_each_finding_is_said_once_and_no_word_is_broken_at_80_columns(tmp_path: Path) -> None:
    every = [
        replace(
            EVENT, finding_id=f"{n:032x}", kind=kind, topic="shop.customers", broker=2, summary=f"{kind} it is. " * 9
        )
        for n, kind in enumerate(FindingKind)
    ]
    FindingsTable(str(tmp_path)).append(every)
    text = printed(str(tmp_path), "text")
    words = text.split()
    assert {str(kind) for kind in FindingKind} | {"confirmed", "shop.customers-0"} <= set(words)
    assert [words.count(str(kind)) for kind in FindingKind] == [10] * len(FindingKind)
    assert max(map(len, text.splitlines())) <= 110, "a headline is longer than that with no name, and wraps by itself"
    assert all(len(line) <= 80 for line in text.splitlines() if line.startswith("    ") and "What to do" not in line)


def test_no_findings_are_said_in_words(tmp_path: Path) -> None:
    FindingsTable(str(tmp_path))
    assert printed(str(tmp_path), "text") == f"No open findings in {tmp_path}.\n"
    assert printed(str(tmp_path), "json") == "[]\n"


def test_a_key_that_is_no_text_is_shown_in_hexadecimal() -> None:
    assert as_document(replace(EVENT, key=b"\xff"))["key"] == "0xff"
    assert as_document(replace(EVENT, key=None))["key"] is None


def test_the_report_starts_neither_spark_nor_the_decoder() -> None:
    code = "import sys, parallax.findings.report; print([m for m in ('pyspark', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


class TestWhatIsAskedFor:
    @pytest.fixture
    def many(self, tmp_path: Path) -> str:
        frozen = replace(
            EVENT,
            finding_id="c" * 32,
            kind=FindingKind.READ_COMMITTED_FROZEN,
            topic="payments",
            first_suspected_at=EVENT.first_suspected_at + timedelta(days=1),
        )
        resolved = replace(EVENT, finding_id="d" * 32, topic="ledger", status=FindingStatus.RESOLVED)
        dismissed = replace(EVENT, finding_id="a" * 32, topic="healthy", status=FindingStatus.DISMISSED)
        FindingsTable(str(tmp_path)).append([EVENT, frozen, resolved, dismissed])
        return str(tmp_path)

    @pytest.mark.parametrize(
        ("wanted", "topics"),
        [
            (Wanted(), ["orders", "payments"]),
            (Wanted(topics=("payments",)), ["payments"]),
            (Wanted(kinds=(FindingKind.CONTENT_MISMATCH,)), ["orders"]),
            (Wanted(statuses=(FindingStatus.RESOLVED,)), ["ledger"]),
            (Wanted(since=EVENT.first_suspected_at + timedelta(seconds=1)), ["payments"]),
            (Wanted(topics=("ledger",)), []),
            (Wanted(topics=("ledger",), everything=True), ["ledger"]),
            (Wanted(everything=True), ["orders", "payments", "ledger"]),
            (Wanted(statuses=(FindingStatus.DISMISSED,), everything=True), ["healthy"]),
        ],
    )
    def test_is_listed_and_nothing_else(self, many: str, wanted: Wanted, topics: list[str]) -> None:
        assert [finding.topic for finding in listed(many, wanted)] == topics

    def test_all_events_of_one_are_shown_with_what_each_broker_answered(self, tmp_path: Path) -> None:
        evidence = {
            "leader": 1,
            "replicas": {
                "1": {
                    "high_watermark": 9,
                    "key": {"visible": None, "complete": True},
                    "markers": [{"offset": 7, "producer_id": 4, "type": "abort"}],
                    "open_transactions": [],
                },
                "2": {"high_watermark": 8, "key": {"visible": {"offset": 3, "value_size": 5}, "complete": True}},
                "3": {"error": "broker 3 is away"},
            },
        }
        first = replace(EVENT, finding_id="e" * 32, summary="It was seen.")
        again = replace(first, summary="It was seen again.", evidence=json.dumps(evidence))
        table = FindingsTable(str(tmp_path))
        table.append([first, again])
        stream = io.StringIO()
        print_finding(str(tmp_path), "eeee", to=stream)
        text = stream.getvalue()
        assert text.index("It was seen.") < text.index("It was seen again.") < text.index("broker 1 (leader)")
        lines = {line.split("  ")[0].strip(): line.split() for line in text.splitlines()}
        assert lines["high watermark"][-2:] == ["9", "8"]
        assert "none" in lines["visible value of the key"]
        assert lines["end markers"][-3:] == ["ABORT", "at", "7"]
        assert "away" in text
        many = replace(EVENT, finding_id="f" * 32, suspect_id="", evidence=json.dumps({"incident": {"count": 40}}))
        proof = {"offset": 60, "key": None, "asked_at_ms": 1_000, **evidence}
        with_one = replace(many, evidence=json.dumps({"incident": {"count": 40}, "proofs": [proof]}))
        for event, answered in ((many, False), (with_one, True)):
            table.append([event])
            print_finding(str(tmp_path), "ffff", to=(stream := io.StringIO()))
            assert ("answered about the key of offset 60, one of many" in said_of(stream)) is answered
            assert ("broker 1 (leader)" in said_of(stream)) is answered, "no table without a row"
        stream = io.StringIO()
        print_finding(str(tmp_path), "eeee", "json", to=stream)
        assert [event["summary"] for event in json.loads(stream.getvalue())] == ["It was seen.", "It was seen again."]

    @pytest.mark.parametrize(
        ("leaning", "instead"), [(["e" * 32], f"; name {'e' * 32} instead"), ([], ""), (["e" * 32, "f" * 32], None)]
    )
    def test_a_suspect_that_was_dismissed_is_said_to_be_no_finding_and_whose_duplicate_it_is(
        self, tmp_path: Path, leaning: list[str], instead: str | None
    ) -> None:
        suspect = replace(
            EVENT,
            finding_id="d" * 32,
            suspect_id="d" * 32,
            status=FindingStatus.DISMISSED,
            summary=f"Not confirmed: duplicate of finding {'e' * 32}.",
            evidence=json.dumps({"leans_on": leaning}),
        )
        FindingsTable(str(tmp_path)).append([replace(EVENT, finding_id="e" * 32), suspect])
        if instead is None:
            instead = f"; name {'e' * 32} or {'f' * 32} instead"
        for prints in (print_finding, print_explanation):
            with pytest.raises(FindingNotNamedError) as refused:
                prints(str(tmp_path), "dddd", to=io.StringIO())
            said = f"'dddd' is no finding: the suspect was dismissed. {suspect.summary.removesuffix('.')}{instead}"
            assert str(refused.value) == said

    def test_what_a_finding_that_is_over_had_said_is_shown_with_when_the_replicas_were_asked(
        self, tmp_path: Path
    ) -> None:
        asked = json.dumps({"asked_at_ms": 1_700_000_000_000})
        first = replace(EVENT, finding_id="e" * 32, summary="Broker 2 shows it.", evidence=asked)
        over = replace(first, status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed: gone.")
        FindingsTable(str(tmp_path)).append([first, over])
        stream = io.StringIO()
        print_finding(str(tmp_path), "eeee", to=stream)
        text = " ".join(stream.getvalue().split())
        assert "It is over. Each line says what the replicas showed when they were asked for it." in text
        assert "confirmed (asked 2023-11-14 22:13:20Z): Broker 2 shows it." in text
        assert "What each broker answered, asked 2023-11-14 22:13:20Z:" in text

    def test_a_repair_that_the_end_of_a_finding_names_is_not_said_twice(self, tmp_path: Path) -> None:
        done, other = "Repair aaaa copied broker 2 again.", "Repair bbbb was given up."
        over = replace(EVENT, finding_id="e" * 32, status=FindingStatus.RESOLVED, summary=f"It was. {done}")
        over = replace(over, evidence=json.dumps({"said": [done]}))
        FindingsTable(str(tmp_path)).append([replace(EVENT, finding_id="e" * 32), over])
        print_finding(str(tmp_path), "eeee", to=(stream := io.StringIO()), repairs=lambda _: (done, other))
        text = " ".join(stream.getvalue().split())
        assert (text.count(done), text.count(other)) == (1, 1)

    def test_each_event_says_what_is_another_than_before_and_whether_consumers_see_it(self, tmp_path: Path) -> None:
        held = replace(EVENT, finding_id="e" * 32, exposed=False, kind=FindingKind.READ_COMMITTED_FROZEN)
        seen = replace(held, exposed=True, kind=FindingKind.ABORTED_RECORD_COMMITTED)
        FindingsTable(str(tmp_path)).append([held, seen, replace(seen, broker=NOBODY)])
        stream = io.StringIO()
        print_finding(str(tmp_path), "eeee", to=stream, repairs=lambda f: (f"Repair of {f.topic}.",))
        text = " ".join(stream.getvalue().split())
        assert "Z confirmed (asked" in text
        assert "Z confirmed as aborted_record_committed, and consumers see it (asked" in text
        assert "Z confirmed, and consumers may see it (asked" in text
        assert f"Repair of {EVENT.topic}." in text

    def test_who_has_nothing_of_what_was_asked_for_is_said_to_have_none(self, tmp_path: Path) -> None:
        record = {"offset": 0, "outcome": "committed", "producer_id": -1}
        replicas = {"1": {"committed": [], "markers": []}, "2": {"committed": [record], "markers": []}}
        event = replace(EVENT, finding_id="e" * 32, evidence=json.dumps({"replicas": replicas}))
        FindingsTable(str(tmp_path)).append([event])
        stream = io.StringIO()
        print_finding(str(tmp_path), "eeee", to=stream)
        (row,) = (line for line in stream.getvalue().splitlines() if "holds, of the offsets asked about" in line)
        assert row.split()[-3:] == ["none", "offset", "0"]
        assert "end markers" not in stream.getvalue()

    def test_a_list_says_that_a_job_goes_on_asking(self, tmp_path: Path) -> None:
        FindingsTable(str(tmp_path)).append([EVENT])
        print_findings(str(tmp_path), to=(stream := io.StringIO()))
        assert "A running job goes on asking, and records only what changes" in stream.getvalue()
        print_explanation(str(tmp_path), EVENT.finding_id, to=(stream := io.StringIO()))
        assert "A running job goes on asking" in " ".join(stream.getvalue().split())

    def test_an_explanation_is_text_or_a_document(self, many: str) -> None:
        texts = []
        for output in ("text", "json"):
            stream = io.StringIO()
            print_explanation(many, "cccc", output, to=stream)
            texts.append(stream.getvalue())
        assert "What consumers see now" in texts[0]
        assert json.loads(texts[1])["finding_id"] == "c" * 32

    def test_what_else_is_on_record_is_told_beside_it(self, many: str) -> None:
        def on_record(finding: Finding) -> Facts:
            name = finding.finding_id
            return Facts((f"{name}: away",), (f"{name}: repaired",), Led((f"{name}: broker 2 led",)))

        texts = []
        for output in ("text", "json"):
            stream = io.StringIO()
            print_explanation(many, "cccc", output, to=stream, on_record=on_record)
            texts.append(stream.getvalue())
        assert f"prove nothing about who is right\n{'c' * 32}: away" in texts[0]
        assert f"On record about repairs\n{'c' * 32}: repaired" in texts[0]
        assert json.loads(texts[1])["on_record"] == [f"{'c' * 32}: away"]
        assert json.loads(texts[1])["repairs"] == [f"{'c' * 32}: repaired"]
        assert f"On record about who may have read it\n{'c' * 32}: broker 2 led" in texts[0]
        assert json.loads(texts[1])["led"] == [f"{'c' * 32}: broker 2 led"]
        assert "What they had seen there: parallax seen --topic" in texts[0]

    def test_an_id_that_names_nothing_is_refused(self, many: str) -> None:
        for command in (print_finding, print_explanation):
            with pytest.raises(FindingNotNamedError, match="the id of no finding"):
                command(many, "ffff")


def test_colours_are_for_a_terminal_whatever_the_environment_says(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    for show in (
        lambda to: print_findings(storage, to=to),
        lambda to: print_finding(storage, EVENT.finding_id, to=to),
        lambda to: print_explanation(storage, EVENT.finding_id, to=to),
    ):
        show(stream := io.StringIO())
        assert stream.getvalue()
        assert "\x1b" not in stream.getvalue()
