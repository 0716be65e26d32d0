"""What others name or word is text on every page, whatever it holds: it makes no element, no attribute, no address."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from parallax.alerting.page.ticket import write_report
from parallax.model import FindingStatus
from tests.asking import ask
from tests.pages import HOSTILE, HOSTILE_NAME, PASSWORD, PLAIN, USERS, Job, named_by

NAME = "f0" * 16
USER = HOSTILE.replace(":", ";")
"""A user who signs in: the name ends at the first colon."""


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, its addresses, and its text.

    Attributes:
        elements: what opens and closes, in order.
        addresses: what leads or loads.
        text: all that is shown.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, ...]] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.text += data


def overview(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page).text


def searched(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page, f"/?name={quote(name)}&state={quote(text)}&page={quote(text)}").text


def topic(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page, f"/topics/{quote(name, safe='')}").text


def partition(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page, f"/topics/{quote(name, safe='')}/0").text


def one_finding(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page, f"/findings/{NAME}").text


def findings(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page, f"/findings?name={quote(name)}").text


def no_topic(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page, f"/topics/none{quote(name, safe='')}").text


def no_finding(job: Job, name: str, text: str) -> str:
    with job.served(cluster=text) as page:
        return ask(page, f"/findings/{quote(name, safe='')}").text


def form(job: Job, name: str, text: str) -> str:
    user = USER if text == HOSTILE else text
    with job.served(cluster=text, users={user: USERS["ann"]}) as page:
        return ask(page, f"/findings/{NAME}", user=user, password=PASSWORD).text


def refused_reason(job: Job, name: str, text: str) -> str:
    user = USER if text == HOSTILE else text
    with job.served(cluster=text, users={user: USERS["ann"]}) as page:
        shown = ask(page, f"/findings/{NAME}", user=user, password=PASSWORD).text
        given = re.search(r'name="token" value="([0-9a-f]+)"', shown)
        assert given is not None
        reason = (text * 600)[:-1]
        sent = {"token": given.group(1), "reason": reason[: max(600, len(text) * 2)]}
        return ask(page, f"/findings/{NAME}/acknowledge", form=sent, user=user, password=PASSWORD).text


def report(job: Job, name: str, text: str) -> str:
    file = Path(job.storage) / "report.html"
    assert write_report(job.storage, (), file) == 1
    return file.read_text()


PAGES = (
    overview,
    searched,
    topic,
    partition,
    findings,
    one_finding,
    no_topic,
    no_finding,
    form,
    refused_reason,
    report,
)


@pytest.mark.parametrize("of", PAGES, ids=lambda of: of.__name__)
def test_a_hostile_text_changes_no_element_of_a_page_and_is_there_as_text(
    tmp_path: Path, of: Callable[[Job, str, str], str]
) -> None:
    plain = Skeleton(of(named_by(tmp_path / "plain", PLAIN, PLAIN), PLAIN, PLAIN))
    hostile = Skeleton(of(named_by(tmp_path / "hostile", HOSTILE, HOSTILE_NAME), HOSTILE_NAME, HOSTILE))
    assert hostile.elements == plain.elements
    assert "onerror=" in hostile.text
    assert "49" not in re.findall(r"javascript:alert\(1\) (\S+)", hostile.text)
    assert all(re.match(r"/(?!/)|[?#]|https://", address) for address in hostile.addresses), hostile.addresses


def test_an_acknowledgement_is_shown_as_it_was_worded(tmp_path: Path) -> None:
    job = named_by(tmp_path, HOSTILE, HOSTILE_NAME, FindingStatus.ACKNOWLEDGED)
    shown = Skeleton(one_finding(job, HOSTILE_NAME, HOSTILE))
    assert "It is acknowledged." in shown.text
    assert " ".join(HOSTILE.split()) in " ".join(shown.text.split())


def test_what_a_page_may_do_is_the_same_whatever_it_shows(tmp_path: Path) -> None:
    job = named_by(tmp_path, HOSTILE, HOSTILE_NAME)
    with job.served(cluster=HOSTILE) as page:
        for path in ("/", f"/topics/{quote(HOSTILE_NAME, safe='')}", f"/findings/{NAME}", "/else"):
            answer = ask(page, path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'; style-src 'self'; script-src 'self'" in policy
            assert "elsewhere" not in "".join(answer.headers.values())
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert ask(page, "/readyz").headers["content-type"] == "application/json"
        assert ask(page, "/metrics").headers["content-type"].startswith("text/plain")
