"""The status page in a real browser: by eye, by keyboard, on a phone, in the dark, and with ten thousand partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from parallax.alerting.page.glance import CALM, State
from parallax.alerting.page.lanes_over_time import LEGEND as OVER_TIME
from parallax.alerting.page.offset_lanes import LEGEND
from parallax.alerting.page.ticket import write_report
from parallax.findings.finding import current
from parallax.findings.table import FindingsTable, read_events
from parallax.lab.waiting import until
from parallax.model import FindingStatus, MissingRight, UnknownReason
from parallax.supervisor import QueryReport
from tests.builders.coverage import BROKERS, broker, coverage, progress
from tests.e2e.browsing import NAME, PHONE, address, browser, healthy, job, opened, stalled, starting, without_a_broker
from tests.pages import HOSTILE, HOSTILE_NAME, PASSWORD, USERS, Job, Replicas, named_by, shown_again, shown_by

__all__ = ["address", "browser", "job"]


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    yield from opened(browser, base_url=address)


@pytest.mark.parametrize("path", ["/", "/topics/orders", "/topics/orders/0", "/findings", f"/findings/{NAME}", "/else"])
def test_no_page_keeps_anybody_out(browser: Browser, address: str, path: str, scheme: str) -> None:
    context = browser.new_context(base_url=address, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(path)
    found = Axe().run(page)
    context.close()
    assert found.violations_count == 0, found.generate_report()


def test_no_report_keeps_anybody_out(browser: Browser, job: Job, scheme: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_report(job.storage, (), file)
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", level=1)).to_have_text("Divergence report")
    expect(page.get_by_role("link", name=re.compile("runbook"))).to_have_attribute("href", re.compile("^https://"))
    found = Axe().run(page)
    context.close()
    assert found.violations_count == 0, found.generate_report()


def test_a_partition_with_a_finding_is_two_steps_from_the_first_page(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("✗ 1 open finding")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="orders"))
    expect(row.get_by_text("1 of 3 diverged")).to_be_visible()
    row.get_by_role("link", name="orders").click()
    page.get_by_role("rowheader", name="0", exact=True).get_by_role("link").click()
    expect(page.get_by_role("heading", name="orders, partition 0")).to_be_visible()
    page.get_by_role("link", name=re.compile("deleted record resurrected")).click()
    expect(page.get_by_role("heading", name="What to do")).to_be_visible()


def test_a_replica_that_stands_still_is_seen_and_said(page: Page) -> None:
    page.goto("/topics/orders/0")
    frozen = page.get_by_role("img", name=re.compile("broker 3, read_committed over time"))
    expect(frozen).to_be_visible()
    expect(frozen).to_have_attribute("aria-label", re.compile("99 behind the furthest replica, has not moved since"))
    expect(page.locator("p.lane.stuck")).to_have_count(1)
    wedge = frozen.locator(".lag.alarm").bounding_box()
    assert wedge is not None
    assert wedge["height"] > 20
    assert page.locator("svg.timeline.over .lag.alarm").count() == 1


PAINT = "one => ['fill', 'stroke', 'strokeDasharray', 'opacity'].map(name => getComputedStyle(one)[name])"
"""How something is drawn."""


def test_the_legend_of_the_lanes_stands_above_them_and_shows_what_is_drawn_as_it_is_drawn(page: Page) -> None:
    page.goto("/topics/orders/0")
    for drawing, keys in (("lanes", LEGEND), ("over", OVER_TIME)):
        figure = page.locator("figure").filter(has=page.locator(f"svg.timeline.{drawing}"))
        legend, first = figure.locator(".legend").bounding_box(), figure.locator("svg.timeline").first.bounding_box()
        assert legend is not None
        assert first is not None
        assert legend["y"] + legend["height"] <= first["y"]
        for key in keys:
            sign = figure.get_by_role("listitem").filter(has_text=re.compile(f"{re.escape(key.means)}$")).locator("svg")
            expect(sign).to_be_visible()
            drawn = figure.locator(f'svg.timeline [class="{key.drawn}"]')
            if drawn.count():
                assert sign.locator("> *").evaluate(PAINT) == drawn.first.evaluate(PAINT), key.means


def test_the_values_over_time_are_unfolded_by_the_keyboard_and_stay_so_when_the_page_follows(page: Page) -> None:
    page.goto("/topics/orders/0")
    summary = page.get_by_text("The values as a table")
    summary.focus()
    page.keyboard.press("Enter")
    table = page.get_by_role("table", name="Where consumers may read up to")
    expect(table.get_by_role("row").last.get_by_role("cell").last).to_contain_text("110")
    page.evaluate(
        """async () => {
            const answer = await (await fetch(location.href)).text();
            const page = new DOMParser().parseFromString(answer, "text/html");
            page.querySelector("figure.over-time").setAttribute("data-news", "");
            take(page);
        }"""
    )
    expect(page.locator("figure[data-news]")).to_have_count(1)
    expect(table).to_be_visible()
    expect(page.get_by_text("The values as a table")).to_be_focused()


def test_the_lanes_of_a_partition_show_who_stands_behind(browser: Browser, tmp_path: Path, scheme: str) -> None:
    job = Job(tmp_path)
    job.follow()
    ends = {"high_watermark": 1_000_000, "log_end_offset": 1_000_000, "last_stable_offset": 1_000_000}
    job.state.update_progress([progress(broker=b, **ends) for b in BROKERS[:2]])
    job.state.update_progress([progress(broker=3, **ends | {"last_stable_offset": 999_500})])
    with job.served() as address:
        for page in opened(browser, base_url=address, color_scheme=scheme):
            page.goto("/topics/orders/0")
            shown = page.get_by_role("img", name=re.compile("last stable offset 999,500, 500 behind the furthest"))
            expect(shown).to_be_visible()
            expect(shown.get_by_text("999,500, 500 behind")).to_be_visible()
            assert shown.locator(".lag").count() == 1
            violations = Axe().run(page)
            assert violations.violations_count == 0, violations.generate_report()


def test_every_link_is_reached_by_the_keyboard_and_seen_to_be(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "orders":
            break
    else:
        raise AssertionError("the topic was not reached")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/topics/payments", "/topics/orders/0", f"/findings/{NAME}"])
def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, address: str, path: str) -> None:
    for page in opened(browser, base_url=address, viewport=PHONE):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert (
            page.locator("table.stack, table.map td").evaluate_all(
                "all => all.filter(t => t.getBoundingClientRect().right > innerWidth).length"
            )
            == 0
        )


def test_nor_is_it_on_the_narrowest_phone_with_the_longest_name_of_a_topic(browser: Browser, tmp_path: Path) -> None:
    longest, job = "x" * 249, Job(tmp_path)
    job.follow(longest)
    job.find(shown_again(topic=longest, summary=f"It differs in {longest}-0."))
    with job.served() as address:
        for page in opened(browser, base_url=address, viewport={"width": 320, "height": 640}):
            for path in ("/", f"/topics/{longest}", f"/topics/{longest}/0", "/findings", f"/findings/{NAME}"):
                page.goto(path)
                assert page.evaluate("document.documentElement.scrollWidth") <= 320, path


@pytest.mark.parametrize("path", ["/topics/orders", "/topics/orders/0"])
def test_on_a_phone_each_cell_of_a_table_is_seen_and_has_its_heading(browser: Browser, address: str, path: str) -> None:
    for page in opened(browser, base_url=address, viewport=PHONE):
        page.goto(path)
        cells = page.locator("table.stack tbody tr").first.locator("td")
        assert cells.count() >= 4
        for cell in cells.all():
            box = cell.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= PHONE["width"]
            assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") not in ("none", '": "')
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def tile(page: Page, topic: str, broker: int) -> Locator:
    """What stands about a topic on a broker."""
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=topic, exact=True))
    return row.get_by_role("cell").nth(broker - 1)


def test_each_tile_of_the_map_leads_to_its_topic_and_is_named_to_a_screen_reader(page: Page) -> None:
    page.goto("/?name=orders")
    assert page.get_by_role("columnheader").all_text_contents() == [
        "Topic",
        *(f"Broker {broker}" for broker in BROKERS),
        "Offsets without a verdict",
    ]
    expect(tile(page, "orders", 3)).to_have_text("3 ✗ 1 of 3 diverged")
    expect(tile(page, "orders", 1)).to_have_text("1 ✓ consistent")
    # The link of the topic lies over its whole line.
    tile(page, "orders", 2).click(force=True)
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()


def in_every_state(job: Job) -> None:
    """A topic for each state that a replica can be in, named by it."""
    job.state.update_progress([progress("loading", 0, b) for b in BROKERS])
    for state in set(State) - {State.LOADING}:
        job.follow(state)
    job.find(shown_again(topic="diverged"))
    job.state.update_refusals([("unauthorized", 0, 3)], MissingRight.READ, "not authorized")
    ahead = [broker(b, read_uncommitted=100 if b == 3 else 100_000) for b in BROKERS]
    job.state.update_coverage([coverage("behind", brokers=ahead)])
    job.state.update_coverage([coverage("unknown", unknown={UnknownReason.SKIPPED: (7, 7)})])
    job.state.update_coverage([coverage("not_fully_compared", unknown={UnknownReason.BEFORE_FIRST_READING: (7, 7)})])


def test_states_are_told_apart_without_colour_and_what_is_harmless_is_no_alarm(
    browser: Browser, tmp_path: Path, scheme: str
) -> None:
    job = Job(tmp_path)
    in_every_state(job)
    with job.served() as address:
        for page in opened(browser, base_url=address, color_scheme=scheme):
            page.goto("/")
            states = set(State) - {State.UNREACHABLE}
            shown = {state: tile(page, state, 3) for state in states}
            signs = {str(one.locator("i").text_content()).removeprefix("3 ") for one in shown.values()}
            assert len(signs) == len(states)
            colours = {state: one.evaluate("one => getComputedStyle(one).color") for state, one in shown.items()}
            alarms = {page.evaluate(_RESOLVED.format(name)) for name in ("bad", "warn", "back")}
            assert {state for state, colour in colours.items() if colour in alarms} == states - CALM
            violations = Axe().run(page)
            assert violations.violations_count == 0, violations.generate_report()


@pytest.mark.parametrize("path", ["/", f"/findings/{NAME}"])
def test_a_critical_finding_has_the_colour_of_an_alarm(browser: Browser, address: str, path: str, scheme: str) -> None:
    for page in opened(browser, base_url=address, color_scheme=scheme):
        page.goto(path)
        severity = page.get_by_text("critical", exact=True).first
        expect(severity).to_be_visible()
        shown = severity.evaluate("one => getComputedStyle(one).color")
        assert shown == page.evaluate(_RESOLVED.format("bad"))


def test_the_map_is_filtered_by_a_link_and_the_filter_stands_in_the_address(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="3 not fully compared").click()
    assert page.url.endswith("/?state=not_fully_compared#topics")
    expect(page.get_by_role("rowheader")).to_have_text(["topic-07"])
    expect(page.get_by_role("combobox", name="State")).to_have_value("not_fully_compared")


def test_ten_thousand_partitions_do_not_freeze_it(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_text("29,996 consistent")).to_be_visible()
    page.get_by_role("searchbox", name="Topic").fill("payments")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("rowheader", name="payments").get_by_role("link").click()
    expect(page.get_by_text("1 to 100 of 9900")).to_be_visible()
    assert page.locator("*").count() < 5_000
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("101 to 200 of 9900")).to_be_visible()


def test_the_page_of_ten_thousand_partitions_opens_in_under_a_second(page: Page) -> None:
    def is_quick() -> bool:
        page.goto("/")
        took, size = page.evaluate(_OPENED)
        assert size < 10_000
        return bool(took < 1_000)

    # What is busy beside it says nothing about the page.
    until(is_quick, "the page to be open in a second")


_OPENED = """(([one]) => [one.loadEventStart, one.encodedBodySize])(performance.getEntriesByType("navigation"))"""


def test_what_is_in_view_stays_where_it_is_when_the_page_follows(browser: Browser, tmp_path: Path) -> None:
    job = Job(tmp_path)
    for number in range(100):
        job.follow(f"topic-{number:02}")
    with job.served() as address:
        for page in opened(browser, base_url=address, viewport=PHONE):
            page.clock.install()
            page.goto("/")
            row = page.get_by_role("link", name="topic-60")
            row.evaluate("one => one.scrollIntoView({block: 'start'})")
            before = row.bounding_box()
            job.find(shown_again(topic="topic-99"))
            page.clock.run_for(10_500)
            expect(page.get_by_role("heading", level=1)).to_have_text("✗ 1 open finding")
            after = row.bounding_box()
            assert before is not None
            assert after is not None
            assert abs(after["y"] - before["y"]) < 2


def agreeing(browser: Browser, tmp_path: Path, script: str = "") -> Iterator[tuple[Job, Page]]:
    """A job whose replicas agree, and its page, whose clock the test moves; ``script`` runs before the page's own."""
    job = Job(tmp_path)
    job.follow()
    with job.served() as address:
        for page in opened(browser, base_url=address):
            page.clock.install()
            if script:
                page.add_init_script(script)
            page.goto("/")
            yield job, page


def test_it_follows_what_happens_without_being_loaded_again(browser: Browser, tmp_path: Path) -> None:
    for shown, page in agreeing(browser, tmp_path):
        expect(page.get_by_role("heading", level=1)).to_have_text("✓ All replicas agree")
        shown.find(shown_again())
        page.clock.run_for(10_500)
        expect(page.get_by_role("heading", level=1)).to_have_text("✗ 1 open finding")
        expect(page).to_have_title(re.compile("^1 open"))


def in_part(job: Job) -> None:
    job.follow()
    job.state.update_coverage([coverage(partition=1, unknown={UnknownReason.BEFORE_FIRST_READING: (9, 9)})])


def without_a_query(job: Job) -> None:
    job.follow()
    job.state.update_query(QueryReport("progress", up=False))


def found(job: Job) -> None:
    job.follow()
    job.find(shown_again(), shown_again("a1" * 16, exposed=True))


def acknowledged(job: Job) -> None:
    job.follow()
    job.find(shown_again(status=FindingStatus.ACKNOWLEDGED))


BAD, WARN, GOOD, PLAIN = "bad", "warn", "good", "text"


@pytest.mark.parametrize(
    ("happens", "says", "colour", "why"),
    [
        (healthy, "All replicas agree", GOOD, ""),
        (starting, "Starting: 2 of 5 steps done", PLAIN, "Ask the brokers what they hold: under way"),
        (in_part, "All replicas agree in 1 of 2 partitions", PLAIN, "; 1 is known in part"),
        (without_a_broker, "Cannot tell whether the replicas agree", WARN, "broker 3 does not answer"),
        (without_a_query, "Cannot tell whether the replicas agree", WARN, "query progress is down"),
        (found, "2 open findings: 1 seen by consumers", BAD, ""),
        (acknowledged, "1 acknowledged finding is open", WARN, "; no other difference was found"),
        (stalled, "Cannot tell whether the replicas agree", WARN, "nothing has been compared for 20 min"),
    ],
)
def test_the_first_line_and_the_title_say_what_stands(
    browser: Browser,
    tmp_path: Path,
    scheme: str,
    happens: Callable[[Job], None],
    says: str,
    colour: str,
    why: str,
) -> None:
    job = Job(tmp_path)
    happens(job)
    with job.served() as address:
        for page in opened(browser, base_url=address, color_scheme=scheme):
            page.goto("/")
            first = page.locator("main > *").first
            heading = first.get_by_role("heading", level=1)
            expect(heading).to_have_text(re.compile(f"^. {re.escape(says)}(; .*)?$"))
            assert page.title() == f"{says} · Parallax"
            expect(first).to_contain_text(why)
            wanted, shown = (page.evaluate(script) for script in (_RESOLVED.format(colour), _SHOWN))
            assert shown == wanted
            violations = Axe().run(page)
            assert violations.violations_count == 0, violations.generate_report()
            if job.state.snapshot().coverage:
                page.goto("/topics/orders")
                expect(page.locator("p.standing")).to_contain_text(says)


def test_a_step_that_is_done_under_way_or_to_come_is_told_by_its_sign_and_its_word(
    browser: Browser, tmp_path: Path
) -> None:
    job = Job(tmp_path)
    starting(job)
    with job.served() as address:
        page = browser.new_page()
        page.goto(address)
        steps = page.locator(".steps li").all_inner_texts()
        page.close()
    assert [step[0] for step in steps] == ["✓", "✓", "↻", "○", "○"]
    assert [step.partition(": ")[2] for step in steps] == ["done", "done", "under way", "to come", "to come"]


_SHOWN = "getComputedStyle(document.querySelector('h1')).color"
_RESOLVED = """(() => {{ const one = document.body.appendChild(document.createElement('i'));
one.style.color = 'var(--{})'; const color = getComputedStyle(one).color; one.remove(); return color; }})()"""


def test_it_says_that_the_job_does_not_answer_any_more(browser: Browser, tmp_path: Path) -> None:
    job = Job(tmp_path)
    context = browser.new_context()
    page = context.new_page()
    page.clock.install()
    with job.served() as address:
        page.goto(address)
    page.clock.run_for(10_500)
    expect(page.get_by_role("status")).to_have_text("Parallax does not answer: this is out of date.")
    expect(page).to_have_title(re.compile("^Parallax does not answer"))
    expect(page.locator(".standing")).to_have_class("standing unknown")
    context.close()


def test_a_job_that_hangs_is_told_as_one_that_does_not_answer_until_it_does(browser: Browser, tmp_path: Path) -> None:
    for _, page in agreeing(browser, tmp_path):
        page.route("**/*", lambda route: None)
        page.clock.run_for(10_500)
        page.clock.run_for(30_500)
        headline = page.get_by_role("heading", level=1)
        expect(headline).to_have_text("Parallax does not answer. Its last word: ✓ All replicas agree")
        page.unroute_all()
        page.clock.run_for(10_500)
        expect(headline).to_have_text("✓ All replicas agree")
        expect(page).to_have_title(re.compile("^All replicas agree"))


@pytest.mark.parametrize("busy", ["text is selected", "a field has the focus", "it is hidden"])
def test_the_first_line_goes_on_whatever_somebody_does_on_it(browser: Browser, tmp_path: Path, busy: str) -> None:
    hidden = "Object.defineProperty(document, 'hidden', {get: () => true})" if busy == "it is hidden" else ""
    for shown, page in agreeing(browser, tmp_path, hidden):
        if busy == "text is selected":
            page.get_by_role("heading", level=1).dblclick()
        if busy == "a field has the focus":
            page.get_by_role("searchbox", name="Topic").focus()
        shown.find(shown_again())
        page.clock.run_for(10_500)
        expect(page.get_by_role("heading", level=1)).to_have_text("✗ 1 open finding")
        expect(page).to_have_title(re.compile("^1 open finding"))


def test_without_scripts_it_is_as_whole(browser: Browser, address: str) -> None:
    for page in opened(browser, base_url=address, java_script_enabled=False):
        page.goto("/?name=topic-07")
        expect(page.get_by_text("7 read later than delete.retention.ms allows").last).to_be_visible()


def test_a_finding_is_acknowledged_with_a_reason(browser: Browser, tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.follow()
    job.find(shown_again())
    login = {"username": "ann", "password": PASSWORD}
    with job.served(users=USERS) as address:
        for page in opened(browser, base_url=address, http_credentials=login):
            page.goto(f"/findings/{NAME}")
            page.get_by_label("Why no more alarm is wanted").fill("the disk is being replaced")
            page.get_by_role("button", name="Acknowledge as ann").click()
            expect(page.get_by_text("It is acknowledged.")).to_be_visible()
    event = current(read_events(job.storage))[NAME]
    assert event.status is FindingStatus.ACKNOWLEDGED
    assert event.summary.endswith("Acknowledged by ann: the disk is being replaced.")


def test_a_click_asks_for_the_record_of_a_finding_and_no_difference_is_said_by_colour_alone(
    browser: Browser, tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parallax.replica.at_offset.at_offset", shown_by)
    job = Job(tmp_path)
    job.follow()
    job.find(shown_again())
    login = {"username": "ann", "password": PASSWORD}
    replicas = Replicas("full")
    with job.served(users=USERS, asking=replicas.asking) as address:
        for page in opened(browser, base_url=address, http_credentials=login, viewport=PHONE, color_scheme=scheme):
            page.goto(f"/findings/{NAME}")
            newest = page.get_by_role("region", name="Newest record of the key")
            row = newest.get_by_role("row", name="offset (differs)")
            assert row.get_by_role("cell").all_inner_texts() == ["A no record", "A no record", "B 17"]
            assert replicas.asked == 0
            page.get_by_role("button", name="Ask the brokers now").click()
            page.wait_for_load_state()
            at = page.get_by_role("region", name="Offset 17")
            assert at.get_by_role("row", name="value").get_by_role("cell").last.inner_text() == "the <value>"
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            expect(page.get_by_text("Asked 20")).to_be_visible()
            assert replicas.asked == 1
            page.get_by_role("button", name="Ask again").click()
            until(lambda: replicas.asked == 2, "the brokers to be asked again")
            expect(page.get_by_text("Asked 20")).to_be_visible()


def test_another_site_cannot_make_a_browser_acknowledge(browser: Browser, tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.find(shown_again())
    login = {"username": "ann", "password": PASSWORD}
    with job.served(users=USERS) as address:
        context = browser.new_context(http_credentials=login)
        page = context.new_page()
        page.goto(f"{address}/findings/{NAME}")
        token = page.locator("input[name=token]").get_attribute("value")
        trap = _TRAP.format(address=address, name=NAME, token=token)
        page.route("http://localhost/", lambda route: route.fulfill(content_type="text/html", body=trap))
        page.goto("http://localhost/")
        with page.expect_response(re.compile("acknowledge$")) as answer:
            page.get_by_role("button").click()
        assert answer.value.status == 403
        context.close()
    assert current(read_events(job.storage))[NAME].status is FindingStatus.CONFIRMED


_TRAP = """<form method="post" action="{address}/findings/{name}/acknowledge">
<input name="token" value="{token}"><input name="reason" value="nothing to see"><button>Win</button></form>"""


@pytest.mark.parametrize("path", ["/", "/topics/{}", "/topics/{}/0", "/findings", f"/findings/{NAME}", "/?name={}"])
def test_a_name_that_is_a_script_is_read_and_not_run(browser: Browser, tmp_path: Path, path: str) -> None:
    job = named_by(tmp_path, HOSTILE, HOSTILE_NAME)
    with job.served(cluster=HOSTILE) as address:
        asked: list[str] = []
        for page in opened(browser, base_url=address):
            page.on("request", lambda request: asked.append(request.url))
            page.clock.install()
            page.goto(path.format(quote(HOSTILE_NAME, safe="")), wait_until="networkidle")
            # It loads itself again by a script, which takes what it got into the page.
            with page.expect_response(re.compile("^" + re.escape(address))):
                page.clock.run_for(10_500)
            expect(page.locator("body")).to_contain_text("<script>document.title = 'taken'</script>")
            assert page.title() != "taken"
            assert page.locator("img:not([role]), base, script:not([src]), [onerror]").count() == 0
            assert all(url.startswith(f"{address}/") for url in asked), asked


def test_commands_of_a_finding_are_seen_whole(browser: Browser, tmp_path: Path) -> None:
    """A line that is longer than its box wraps: what is cut at the edge looks like all there is."""
    evidence = json.dumps({"leader": 1, "replicas": {"1": {}, "2": {}, "3": {}}})
    FindingsTable(str(tmp_path)).append(
        [shown_again("a" * 32, topic="orders-of-the-whole-world." * 8, evidence=evidence)]
    )
    file = tmp_path / "report.html"
    write_report(str(tmp_path), (), file)
    for page in opened(browser, viewport={"width": 1300, "height": 900}):
        page.goto(file.as_uri())
        boxes = page.locator("pre").all()
        assert boxes
        for box in boxes:
            assert box.evaluate("e => e.scrollWidth <= e.clientWidth"), box.inner_text()


def test_a_report_of_names_that_are_scripts_runs_and_loads_nothing(browser: Browser, tmp_path: Path) -> None:
    job = named_by(tmp_path / "job", HOSTILE, HOSTILE_NAME)
    file = tmp_path / "report.html"
    write_report(job.storage, (), file)
    asked: list[str] = []
    for page in opened(browser):
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri(), wait_until="networkidle")
        expect(page.locator("body")).to_contain_text("<script>document.title = 'taken'</script>")
        assert page.title().startswith("Divergence report")
        assert asked == [file.as_uri()]
