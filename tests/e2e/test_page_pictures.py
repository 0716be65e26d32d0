"""The page in each state that people meet it in: pictures to look at, in ``build/page``, and nobody is kept out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from parallax.model import FindingKind
from tests.e2e.browsing import NAME, PHONE, address, browser, healthy, job, opened, stalled, starting, without_a_broker
from tests.pages import Job, shown_again

__all__ = ["address", "browser", "job"]

PICTURES = Path(__file__).parents[2] / "build" / "page"
FOUND = {
    "demo.deleted": FindingKind.DELETED_RECORD_RESURRECTED,
    "demo.aborted": FindingKind.ABORTED_RECORD_COMMITTED,
    "demo.committed": FindingKind.COMMITTED_RECORD_ABORTED,
    "demo.frozen": FindingKind.READ_COMMITTED_FROZEN,
    "demo.missing": FindingKind.RECORD_MISSING,
}


def five_findings(job: Job) -> None:
    for topic in (*FOUND, "demo.healthy"):
        job.follow(topic)
    job.find(*(shown_again(f"{n:032x}", topic=t, kind=k, exposed=n == 0) for n, (t, k) in enumerate(FOUND.items())))


@dataclass(frozen=True)
class View:
    """What is opened, and the heading that it has.

    Attributes:
        heading: a part of it.
        happens: to a job of its own; where it is None, the job of ten thousand partitions is shown.
        path: of the page.
        options: of the browser's context.
    """

    heading: str
    happens: Callable[[Job], None] | None
    path: str = "/"
    options: tuple[tuple[str, Any], ...] = ()


DARK, SMALL = ("color_scheme", "dark"), ("viewport", PHONE)
VIEWS = {
    "healthy": View("All replicas agree", healthy),
    "starting": View("Starting: 2 of 5 steps done", starting),
    "blind": View("broker 3 does not answer", without_a_broker),
    "blind-stalled": View("nothing has been compared for 20 min", stalled),
    "five-findings": View("5 open findings: 1 seen by consumers", five_findings),
    "frozen-partition": View("orders, partition 0", None, "/topics/orders/0"),
    "ten-thousand-partitions": View("1 open finding", None),
    "phone": View("5 open findings", five_findings, options=(SMALL,)),
    "phone-dark": View("5 open findings", five_findings, options=(SMALL, DARK)),
    "phone-frozen": View("orders, partition 0", None, "/topics/orders/0", (SMALL,)),
    "phone-finding": View("deleted record resurrected", None, f"/findings/{NAME}", (SMALL,)),
    "dark": View("5 open findings", five_findings, options=(DARK,)),
    "dark-frozen": View("orders, partition 0", None, "/topics/orders/0", (DARK,)),
}


SOME = {"five-findings", "frozen-partition", "phone-dark"}
"""Each kind of page, screen and colours once: the others are of the long proofs."""


@pytest.mark.parametrize("name", [n if n in SOME else pytest.param(n, marks=pytest.mark.release) for n in VIEWS])
def test_it_is_pictured_says_what_stands_and_keeps_nobody_out(
    browser: Browser, request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    view = VIEWS[name]
    if view.happens is None:
        look(browser, request.getfixturevalue("address"), name, view)
        return
    job = Job(tmp_path)
    view.happens(job)
    with job.served() as address:
        look(browser, address, name, view)


def look(browser: Browser, address: str, name: str, view: View) -> None:
    for page in opened(browser, base_url=address, **dict(view.options)):
        page.goto(view.path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("body")).to_contain_text(re.compile(re.escape(view.heading), re.IGNORECASE))
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is beyond the screen"
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
