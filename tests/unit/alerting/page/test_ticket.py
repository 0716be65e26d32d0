"""A report for a ticket."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from parallax.alerting.page.ticket import write_report
from parallax.config import AlertingSettings
from parallax.errors import SetupError
from parallax.findings.naming import FindingNotNamedError
from parallax.findings.report import Facts
from parallax.model import FindingStatus
from tests.builders.coverage import progress
from tests.pages import Job, shown_again


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path / "job")
    over = shown_again("bb" * 16, topic="over", status=FindingStatus.RESOLVED)
    job.findings.append([shown_again("aa" * 16), shown_again("cc" * 16, topic="audited"), over])
    return job


def test_it_holds_the_findings_that_stand_with_their_evidence(job: Job, tmp_path: Path) -> None:
    assert write_report(job.storage, (), tmp_path / "report.html") == 2
    text = (tmp_path / "report.html").read_text()
    assert "deleted record resurrected in orders-0" in text
    assert "deleted record resurrected in audited-0" in text
    assert "over-0" not in text
    assert text.count("<h3>What to do</h3>") == 2


def test_it_begins_with_a_summary(job: Job, tmp_path: Path) -> None:
    known = shown_again("dd" * 16, topic="known", status=FindingStatus.ACKNOWLEDGED)
    job.findings.append([known, shown_again("ee" * 16, topic="seen", exposed=True)])
    write_report(job.storage, (), tmp_path / "report.html", alerting=AlertingSettings(cluster="blue"))
    head, _, rest = (tmp_path / "report.html").read_text().partition("<article>")
    assert "<h1>Divergence report</h1>" in head
    assert "blue" in head
    facts = dict(re.findall(r"<dt>(.+?)</dt><dd>(.+?)</dd>", head))
    assert facts["Findings"] == "4"
    assert (facts["Open"], facts["Seen by consumers"], facts["Acknowledged"]) == ("3", "1", "1")
    named = re.findall(r"<code>(\w{8})</code>", head)
    assert (named[0], named[-1]) == ("ee" * 4, "dd" * 4), "what consumers see comes first, what is known comes last"
    assert rest.count("<h2>") == 4


def test_what_stands_is_drawn_up_to_the_present_and_may_have_been_asked_about_since(job: Job, tmp_path: Path) -> None:
    found = shown_again("aa" * 16)
    job.findings.append([found])
    since = found.first_suspected_at
    times = [since + timedelta(minutes=minutes) for minutes in (-5, 50, 90)]
    job.record([progress(observed_at=t, recorded_on=t.date()) for t in times])
    write_report(job.storage, ["aaaa"], tmp_path / "report.html", clock=lambda: since + timedelta(minutes=100))
    text = (tmp_path / "report.html").read_text()
    assert "A running job goes on asking" in text
    assert f"to {since + timedelta(minutes=90):%H:%M:%S} UTC" in text


def test_it_loads_nothing_and_leads_to_the_runbook_alone(job: Job, tmp_path: Path) -> None:
    write_report(job.storage, (), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert not re.search(r"(src|action)=", text)
    links = set(re.findall(r'href="([^"#]+)', text))
    assert links == {AlertingSettings().runbook_url}
    assert all(link.startswith("https://") for link in links)
    assert "--bad:" in text
    assert "<gone>" not in text


def test_findings_are_chosen_by_their_ids(job: Job, tmp_path: Path) -> None:
    assert write_report(job.storage, ["bbbb"], tmp_path / "report.html") == 1
    assert "in over-0" in (tmp_path / "report.html").read_text()


def test_it_draws_the_offsets_around_the_time_when_it_was_suspected(job: Job, tmp_path: Path) -> None:
    at = shown_again().first_suspected_at
    times = [at + timedelta(minutes=minutes) for minutes in (-40, -10, 0, 10, 40)]
    job.record([progress(observed_at=t, recorded_on=t.date(), high_watermark=n) for n, t in enumerate(times)])
    write_report(job.storage, ["aaaa"], tmp_path / "report.html", clock=lambda: at + timedelta(minutes=30))
    said = "broker 1, read_uncommitted over time: high watermark from 1 to 3; nothing compared."
    assert f'aria-label="{said}"' in (tmp_path / "report.html").read_text()


def test_it_tells_what_else_is_on_record(job: Job, tmp_path: Path) -> None:
    write_report(
        job.storage,
        ["aaaa"],
        tmp_path / "report.html",
        lambda finding: Facts((f"{finding.topic} <away>", "and back"), ("repaired",)),
    )
    text = (tmp_path / "report.html").read_text()
    assert "On record about repairs</h3><ul><li>repaired</li></ul>" in text
    assert "which prove nothing about who is right</h3><ul><li>orders &lt;away&gt;</li><li>and back</li></ul>" in text


def test_a_file_that_is_there_is_replaced_as_a_whole_or_not_at_all(job: Job, tmp_path: Path) -> None:
    file, before = tmp_path / "report.html", "<!doctype html>\nbefore"
    file.write_text(before)
    with pytest.raises(FindingNotNamedError):
        write_report(job.storage, ["dead"], file)
    assert file.read_text() == before
    write_report(job.storage, (), file)
    assert file.read_text().startswith("<!doctype html>")
    assert "before" not in file.read_text()[:100]
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["report.html"]


@pytest.mark.parametrize("name", ["none/report.html", "job"])
def test_a_file_that_cannot_be_written_is_one_line_and_leaves_nothing(job: Job, tmp_path: Path, name: str) -> None:
    with pytest.raises(
        SetupError, match=r"^--output: [^\n]+; give a file that can be written, in a folder that can be$"
    ):
        write_report(job.storage, (), tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["job"]


def test_where_nothing_stands_it_says_so(tmp_path: Path) -> None:
    job = Job(tmp_path)
    assert write_report(job.storage, (), tmp_path / "report.html") == 0
    assert "<h1>No open finding</h1>" in (tmp_path / "report.html").read_text()
