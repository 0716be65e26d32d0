"""The status page in a browser, and jobs that it shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from parallax.model import UnknownReason
from parallax.supervisor import QueryReport
from tests.builders.coverage import BROKERS, coverage, progress
from tests.pages import Job, shown_again

# What a page shows within a moment takes longer where others use the processor.
expect.set_options(timeout=60_000)

NAME = "f0" * 16
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "chromium is missing; install Debian's package chromium"
    with sync_playwright() as playwright:
        # Chromium does not make a sandbox for root, as whom tests run in a container.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=180_000)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Ten thousand partitions, of which one has a finding, one is unknown and one stands still on a broker."""
    job = Job(tmp_path_factory.mktemp("job"))
    job.follow("orders", 3)
    job.follow("payments", 9_900)
    for topic in range(97):
        job.follow(f"topic-{topic:02}")
    job.state.update_coverage([coverage("topic-07", unknown={UnknownReason.RETENTION_GAP: (7, 7)})])
    job.find(shown_again())
    begin = datetime.now(UTC) - timedelta(minutes=20)
    job.record(
        [
            progress(
                broker=broker,
                observed_at=(at := begin + timedelta(seconds=10 * tick)),
                recorded_on=at.date(),
                high_watermark=100 + tick,
                last_stable_offset=110 if broker == 3 else 100 + tick,
            )
            for tick in range(110)
            for broker in BROKERS
        ]
    )
    return job


@pytest.fixture(scope="module")
def address(job: Job) -> Iterator[str]:
    with job.served() as address:
        yield address


def opened(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page of which nothing may fail unseen: no error of a script, nothing that its policy blocks."""
    context = browser.new_context(**options)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    assert said == []


def healthy(job: Job) -> None:
    job.follow()


def starting(job: Job) -> None:
    job.state.update_query(QueryReport("compare", up=True))


def without_a_broker(job: Job) -> None:
    job.follow()
    job.state.update_progress([progress(broker=3, reachable=False)])


def stalled(job: Job) -> None:
    job.follow()
    long_ago = int((datetime.now(UTC) - timedelta(minutes=20)).timestamp() * 1000)
    job.state.update_coverage([replace(coverage(), compared_at=long_ago)])
