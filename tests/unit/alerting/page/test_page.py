"""The status page over HTTP: what it shows, to whom, and who may act on it."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from parallax.alerting.page.lanes_over_time import LEGEND as OVER_TIME
from parallax.alerting.page.offset_lanes import LEGEND
from parallax.alerting.page.ticket import write_report
from parallax.alerting.server import MetricsServer, MetricsServerError
from parallax.config import AlertingSettings
from parallax.findings.explain import explain
from parallax.findings.finding import current
from parallax.findings.table import read_events
from parallax.model import NOBODY, FindingKind, FindingStatus, IsolationLevel, UnknownReason
from parallax.replica.types import TopicMetadata
from tests.asking import ask
from tests.builders.coverage import BROKERS, coverage, progress
from tests.pages import PASSWORD, USERS, Job, Replicas, shown_again, shown_by
from tests.patience import PATIENCE_S

NAME = "f0" * 16


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    job.follow()
    return job


@pytest.fixture
def page(job: Job) -> Iterator[str]:
    with job.served(users=USERS) as address:
        yield address


def token(page: str) -> str:
    found = re.search(r'name="token" value="([0-9a-f]+)"', ask(page, f"/findings/{NAME}", password=PASSWORD).text)
    assert found is not None
    return found.group(1)


def acknowledged(job: Job) -> bool:
    return current(read_events(job.storage))[NAME].status is FindingStatus.ACKNOWLEDGED


def heading(text: str) -> str:
    """The first line of a page."""
    found = re.search(r'<h1 id="status"><span aria-hidden="true">.</span> (.+?)</h1>', text)
    assert found is not None
    return found.group(1)


def test_the_first_page_says_what_stands(job: Job) -> None:
    job.find(shown_again(exposed=True))
    with job.served() as page:
        answer = ask(page)
    assert answer.status == 200
    assert heading(answer.text) == "1 open finding: 1 seen by consumers"
    assert "deleted record resurrected" in answer.text
    assert 'href="/topics/orders"' in answer.text


def test_of_a_healthy_cluster_it_says_that_all_replicas_agree(job: Job) -> None:
    with job.served() as page:
        assert heading(ask(page).text) == "All replicas agree"


def test_the_title_says_what_the_first_line_says_and_so_does_readyz(job: Job, tmp_path: Path) -> None:
    away = Job(tmp_path / "away")
    away.follow()
    away.state.update_progress([progress(broker=3, reachable=False)])
    found = Job(tmp_path / "found")
    found.follow()
    found.find(shown_again())
    for one, condition in ((job, "agree"), (away, "unknown"), (found, "findings"), (Job(tmp_path / "new"), "starting")):
        with one.served(cluster="blue") as page:
            text, ready = ask(page).text, json.loads(ask(page, "/readyz").text)
        said = heading(text)
        assert f"<title>{said} · Parallax · blue</title>" in text
        assert (ready["condition"], ready["text"].partition(": broker 3")[0]) == (condition, said)


def test_what_is_still_being_loaded_is_said_to_be(tmp_path: Path) -> None:
    job = Job(tmp_path)
    with job.served() as page:
        text = ask(page).text
        job.state.update_progress([progress(broker=b) for b in BROKERS])
        assert "Nothing has been recorded yet." in ask(page, "/topics/orders/0").text
    assert heading(text) == "Starting: 1 of 5 steps done"
    assert "<dt>The monitor</dt><dd>starts</dd>" in text
    assert "No such topic." not in text
    assert "<dd>none</dd>" not in text
    assert text.count("not known yet: it is being loaded") == 3


@pytest.mark.parametrize("path", ["/topics/orders", "/topics/orders/0"])
def test_until_the_brokers_were_asked_it_is_not_known_what_the_job_follows(tmp_path: Path, path: str) -> None:
    job = Job(tmp_path)
    with job.served() as page:
        before = ask(page, path)
        job.follow("payments")
        after = ask(page, path)
    assert (before.status, "<h1>Not known yet</h1>" in before.text) == (503, True)
    assert "does not follow" not in before.text
    assert after.status == 404
    assert "The job does not follow" in after.text


@pytest.mark.parametrize("path", ["/", "/topics/orders", "/topics/orders/0"])
def test_while_nothing_is_compared_no_page_says_that_no_offset_lacks_a_verdict(tmp_path: Path, path: str) -> None:
    job = Job(tmp_path)
    job.state.update_progress([progress(broker=b) for b in BROKERS])
    without = re.compile(r"(?:[Ww]ithout a verdict(?:</dt><dd>|\">)|class=\"why\"><b class=\"unseen\">)([^<]*)<")
    with job.served() as page:
        before = without.findall(ask(page, path).text)
        job.follow()
        after = without.findall(ask(page, path).text)
    assert {said.partition(":")[0] for said in before} == {"not known yet"}
    assert {said.strip() for said in after} == {"none"}


def test_a_monitor_that_can_compare_no_partition_is_not_said_to_work(job: Job) -> None:
    with job.served() as page:
        assert "<dt>The monitor</dt><dd>works" in ask(page).text
        job.state.update_progress([progress(broker=b, reachable=False) for b in BROKERS])
        said = ask(page).text.partition("<dt>The monitor</dt>")[2].partition("</dd>")[0]
        assert json.loads(ask(page, "/readyz").text)["status"] == "ok", "the job is ready once the brokers are"
    assert "works" not in said
    assert "compares nothing now: no partition can be compared" in said


def test_findings_that_are_over_have_a_list(job: Job) -> None:
    over = shown_again("0a" * 16, topic="over", status=FindingStatus.RESOLVED)
    job.findings.append([over, shown_again("0b" * 16, topic="slip", status=FindingStatus.DISMISSED)])
    job.find(shown_again())
    with job.served() as page:
        link = re.search(r'href="(/findings\?[^"]+)"', ask(page).text)
        assert link is not None
        resolved, every = ask(page, link.group(1)).text, ask(page, "/findings").text
        assert "slip-0" in ask(page, "/findings?state=dismissed").text
    assert ("over-0" in resolved, "orders-0" in resolved, "slip-0" in resolved) == (True, False, False)
    assert ("over-0" in every, "orders-0" in every, "slip-0" in every) == (True, True, False)
    assert "resolved <time" in resolved


def test_who_leads_a_partition_and_who_is_in_sync_is_on_its_page(job: Job) -> None:
    with job.served() as page:
        assert "Leader and in-sync replicas are not known yet." in ask(page, "/topics/orders/0").text
        job.state.update_progress([progress(broker=b, leader=2, isr=[2, 1]) for b in BROKERS])
        text = ask(page, "/topics/orders/0").text
        assert "Consumers read broker 2, which leads it. In sync: 2, 1." in text
        assert re.findall(r'data-label="Role">(?:<strong>)?([a-z ]+)', text) == ["in sync", "leader", "not in sync"]
        job.state.update_progress([progress(broker=b, leader=-1, isr=[2]) for b in BROKERS])
        assert "No broker leads it" in ask(page, "/topics/orders/0").text


def test_who_must_not_lead_a_partition_is_on_its_page(job: Job) -> None:
    job.find(shown_again())
    job.state.update_progress([progress(broker=b, leader=1, isr=[1, 2, 3]) for b in BROKERS])
    with job.served() as page:
        text, explained = ask(page, "/topics/orders/0").text, ask(page, f"/findings/{shown_again().finding_id}").text
    assert text.count("may lead: ") == 1
    assert "may lead: unsafe (finding f0f0f0f0: consumers of it" in text
    assert "Broker 3 must not. No finding is against brokers 1 and 2." in explained


def test_what_was_read_after_the_broker_reported_is_said_to_be(job: Job) -> None:
    job.state.update_positions(IsolationLevel.READ_UNCOMMITTED, {("orders", 0, 1): 120})
    with job.served() as page:
        text = ask(page, "/topics/orders/0").text
    assert text.count("read since 100 was reported") == 1


def test_what_is_unknown_and_why_is_on_the_first_page(job: Job) -> None:
    job.state.update_coverage([coverage(unknown={UnknownReason.RETENTION_GAP: (1200, 34)})])
    with job.served() as page:
        assert "1,200 read later than delete.retention.ms allows" in ask(page).text


def test_what_the_cluster_says_is_never_taken_for_html(job: Job) -> None:
    job.find(shown_again())
    with job.served() as page:
        texts = [ask(page, path).text for path in ("/", f"/findings/{NAME}", "/topics/orders/0")]
    for text in texts:
        assert "is &lt;gone&gt; on brokers 1 and 2" in text
        assert "<gone>" not in text


def test_a_finding_is_explained_with_its_evidence_side_by_side(job: Job) -> None:
    job.find(shown_again())
    with job.served(runbook_url="https://wiki.example/runbook") as page:
        text = ask(page, f"/findings/{NAME}").text
    assert 'href="https://wiki.example/runbook#' in text
    for heading in ("What happened", "What consumers see now", "Who is right", "What to do"):
        assert f"<h2>{heading}</h2>" in text
    assert '<th scope="col">broker 1 (leader)</th><th scope="col">broker 2</th><th scope="col">broker 3</th>' in text
    assert '<th scope="row">visible value of the key</th><td>none</td><td>none</td><td>offset 17</td>' in text
    assert "parallax findings acknowledge" in text
    assert "<form" not in text


def test_of_a_finding_without_direction_every_page_says_that_consumers_may_see_it(job: Job, tmp_path: Path) -> None:
    job.find(shown_again(broker=NOBODY, exposed=True))
    write_report(job.storage, (), tmp_path / "report.html")
    texts = [(tmp_path / "report.html").read_text()]
    with job.served() as page:
        texts += [ask(page, path).text for path in ("/", "/findings", f"/findings/{NAME}", "/topics/orders/0")]
    for text in texts:
        assert "consumers may see it" in text
        assert "consumers see it" not in text
    assert heading(texts[1]) == "1 open finding: 1 perhaps seen by consumers"
    assert "Whether consumers read the wrong one is not known" in texts[3]


def test_a_partitions_page_says_above_its_lanes_what_they_show_and_since_when_one_is_frozen(job: Job) -> None:
    found = shown_again(kind=FindingKind.READ_COMMITTED_FROZEN)
    job.find(found)
    at = datetime.now(UTC) - timedelta(minutes=5)
    job.record([progress(broker=b, observed_at=at, recorded_on=at.date()) for b in BROKERS])
    with job.served() as page:
        text = ask(page, "/topics/orders/0").text
    for legend, lanes in ((LEGEND, 'class="timeline lanes"'), (OVER_TIME, 'class="timeline over"')):
        before = text.partition(lanes)[0]
        assert all(f"{key.sign} {key.means}" in before for key in legend)
    since = f"first suspected {found.first_suspected_at:%Y-%m-%d %H:%M:%S} UTC"
    assert f"read committed frozen, {since}" in text, "the table"
    assert f"100, frozen, {since}" in text, "its lane"


def test_of_a_frozen_replica_page_and_explain_name_the_same_broker_time_and_steps(job: Job) -> None:
    answers = {str(b): {"last_stable_offset": 41 if b == 3 else 100, "open_transactions": []} for b in BROKERS}
    evidence = {"leader": 1, "sides": {"ended": [1, 2], "open": [3]}, "replicas": answers}
    found = shown_again(kind=FindingKind.READ_COMMITTED_FROZEN, evidence=json.dumps(evidence), summary="It is frozen.")
    job.find(found)
    at = datetime.now(UTC) - timedelta(minutes=5)
    stable = {1: 100, 2: 100, 3: 41}
    rows = [progress(broker=b, observed_at=at, recorded_on=at.date(), last_stable_offset=stable[b]) for b in BROKERS]
    job.record(rows)
    said = explain(found)
    with job.served() as page:
        partition, of_finding = (unescape(ask(page, path).text) for path in ("/topics/orders/0", f"/findings/{NAME}"))
    since = f"first suspected {found.first_suspected_at:%Y-%m-%d %H:%M:%S} UTC"
    lane = partition.partition("<strong>broker 3, read_committed</strong>")[2].partition("</p>")[0]
    assert lane.endswith(f"41, 59 behind the furthest replica, frozen, {since}")
    assert since in said.asked
    for part in (said.asked, said.now, said.after, said.right, *(step.text for step in said.steps)):
        assert part in of_finding
    assert "broker 3" in said.after
    assert said.steps


def test_a_topic_and_a_partition_have_their_pages(job: Job) -> None:
    job.follow("a.topic-with_all", 250)
    with job.served() as page:
        topic = ask(page, "/topics/a.topic-with_all?page=3").text
        partition = ask(page, "/topics/a.topic-with_all/249").text
    assert "201 to 250 of 250" in topic
    assert 'href="?page=2"' in topic
    assert "a.topic-with_all</a>, partition 249" in partition


def test_a_table_is_searched_by_name_and_state(job: Job) -> None:
    job.follow("audited", 12)
    job.find(shown_again())
    with job.served() as page:
        assert 'href="/topics/audited"' not in ask(page, "/?state=diverged").text
        assert 'href="/topics/orders"' not in ask(page, "/?name=AUD").text
        assert 'href="/topics/orders"' in ask(page, "/?name=+orders+").text
        assert "No such topic." in ask(page, "/?name=none").text
        assert 'href="/topics/orders"' in ask(page, "/?state=nonsense&page=-3").text


@pytest.mark.parametrize("name", ["audited-0", "resurrected", "broker+2", "cc", "Customer"])
def test_findings_are_searched_by_what_is_known_of_them(job: Job, name: str) -> None:
    job.find(
        shown_again("cc" * 16, topic="audited", broker=2, key=b"customer 7"),
        shown_again("dd" * 16, kind=FindingKind.READ_COMMITTED_FROZEN, key=None),
    )
    with job.served() as page:
        text = ask(page, f"/findings?name={name}&state=confirmed").text
    assert ("in audited-0" in text, "in orders-0" in text) == (True, False)


@pytest.mark.parametrize(
    "path", ["/topics/none", "/topics/orders/77", "/findings/beef", "/topics/orders/x", "/static/../auth.py", "/else"]
)
def test_what_is_not_there_is_a_page_that_says_so(job: Job, path: str) -> None:
    with job.served() as page:
        assert ask(page, path).status == 404


def test_nothing_is_loaded_from_elsewhere_and_nobody_may_frame_it(job: Job) -> None:
    with job.served() as page:
        answer = ask(page)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "http" not in re.sub(r"127\.0\.0\.1", "", answer.text).replace("http-equiv", "")


@pytest.mark.parametrize("path", ["/", "/metrics", f"/findings/{NAME}", "/static/page.css"])
def test_with_users_nothing_is_shown_without_a_password(page: str, path: str) -> None:
    assert ask(page, path).status == 401
    assert ask(page, path, password="wrong").status == 401
    assert ask(page, path).headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Bearer x", "Basic " + b64encode(b"\xff:\xff").decode()])
def test_a_header_that_is_no_password_is_refused(page: str, header: str) -> None:
    assert ask(page, Authorization=header).status == 401


def test_a_password_that_is_right_is_let_in_again_and_again(page: str) -> None:
    assert [ask(page, "/metrics", password=PASSWORD).status for _ in range(3)] == [200] * 3


def test_probes_are_answered_without_a_password(page: str) -> None:
    assert ask(page, "/livez").status == 200
    assert ask(page, "/readyz").status == 200


def test_to_other_hosts_the_page_is_closed_while_there_are_no_users(job: Job) -> None:
    with job.served(metrics_host="0.0.0.0") as page:
        assert ask(page).status == 403
        assert "alerting.users" in ask(page).text
        assert ask(page, "/metrics").status == 200


def test_a_name_of_another_host_that_leads_here_is_not_answered(job: Job) -> None:
    with job.served() as page:
        assert ask(page, Host="evil.example").status == 403
        for host in ("localhost:9464", "LOCALHOST", "localhost."):
            assert ask(page, Host=host).status == 200
        assert ask(page, Host="[::1]:9464").status == 200


def test_a_finding_is_acknowledged_by_who_is_logged_in(job: Job, page: str) -> None:
    job.find(shown_again())
    answer = ask(
        page, f"/findings/{NAME}/acknowledge", password=PASSWORD, form={"token": token(page), "reason": "known"}
    )
    assert (answer.status, answer.headers["location"]) == (303, f"/findings/{NAME}")
    event = current(read_events(job.storage))[NAME]
    assert event.status is FindingStatus.ACKNOWLEDGED
    assert json.loads(event.evidence)["acknowledgement"] | {"at": ""} == {"reason": "known", "by": "ann", "at": ""}
    assert "It is acknowledged." in ask(page, f"/findings/{NAME}", password=PASSWORD).text


def test_a_finding_that_was_acknowledged_meanwhile_is_not_again(job: Job, page: str) -> None:
    job.find(shown_again())
    form = {"token": token(page), "reason": "known"}
    assert ask(page, f"/findings/{NAME}/acknowledge", password=PASSWORD, form=form).status == 303
    assert ask(page, f"/findings/{NAME}/acknowledge", password=PASSWORD, form=form).status == 400
    assert len([e for e in read_events(job.storage) if e.status is FindingStatus.ACKNOWLEDGED]) == 1


@pytest.mark.parametrize("reason", ["", "x" * 501])
def test_a_reason_that_cannot_be_kept_is_said_to_be_beside_the_field(job: Job, page: str, reason: str) -> None:
    job.find(shown_again())
    form = {"token": token(page), "reason": reason}
    answer = ask(page, f"/findings/{NAME}/acknowledge", password=PASSWORD, form=form)
    assert answer.status == 400
    assert 'role="alert">say in 1 to 500 characters' in answer.text
    assert not acknowledged(job)


@pytest.mark.parametrize(
    "headers",
    [{"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "https://evil.example"}],
)
def test_a_form_that_another_site_sends_is_refused(job: Job, page: str, headers: dict[str, str]) -> None:
    job.find(shown_again())
    form = {"token": token(page), "reason": "known"}
    assert ask(page, f"/findings/{NAME}/acknowledge", password=PASSWORD, form=form, **headers).status == 403
    assert not acknowledged(job)


def test_a_form_without_this_pages_token_is_refused(job: Job, page: str) -> None:
    job.find(shown_again(), shown_again("a1" * 16))
    other = re.search(r'name="token" value="([0-9a-f]+)"', ask(page, f"/findings/{'a1' * 16}", password=PASSWORD).text)
    assert other is not None
    for given in ("", "ä", other.group(1)):
        form = {"token": given, "reason": "known"}
        assert ask(page, f"/findings/{NAME}/acknowledge", password=PASSWORD, form=form).status == 403
    assert not acknowledged(job)


def test_without_users_nobody_can_act(job: Job) -> None:
    job.find(shown_again())
    with job.served() as page:
        assert ask(page, f"/findings/{NAME}/acknowledge", form={"token": "", "reason": "known"}).status == 403
    assert not acknowledged(job)


def test_the_brokers_are_asked_by_a_click_of_who_is_logged_in_alone(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parallax.replica.at_offset.at_offset", shown_by)
    job.find(shown_again())
    replicas = Replicas()
    with job.served(users=USERS, asking=replicas.asking) as page:
        assert "Ask the brokers now" in ask(page, f"/findings/{NAME}", password=PASSWORD).text
        path = f"/findings/{NAME}/records"
        assert ask(page, path, form={"token": token(page)}).status == 401
        assert ask(page, path, password=PASSWORD, form={"token": "no"}).status == 403
        elsewhere = {"token": token(page)}
        assert ask(page, path, password=PASSWORD, form=elsewhere, Sec_Fetch_Site="cross-site").status == 403
        assert ask(page, path, password=PASSWORD).status == 405
        assert replicas.asked == 0
        answer = ask(page, path, password=PASSWORD, form={"token": token(page)})
    assert (answer.status, replicas.asked) == (200, 1)
    assert "the brokers differ in what is there" in answer.text
    assert '<th scope="col">Broker 1 (leader)</th>' in answer.text
    assert '<th scope="col">Broker 3 (accused)</th>' in answer.text


@pytest.mark.parametrize(
    ("payload", "seen"), [("hash", (False, False)), ("key", (True, False)), ("full", (True, True))]
)
def test_of_a_record_the_page_shows_what_the_tables_may_hold(
    job: Job, monkeypatch: pytest.MonkeyPatch, payload: str, seen: tuple[bool, bool]
) -> None:
    monkeypatch.setattr("parallax.replica.at_offset.at_offset", shown_by)
    job.find(shown_again())
    with job.served(users=USERS, asking=Replicas(payload).asking) as page:
        form = {"token": token(page)}
        text = ask(page, f"/findings/{NAME}/records", password=PASSWORD, form=form).text
    assert ("the key" in text, "the &lt;value&gt;" in text) == seen
    assert "<value>" not in text


def test_without_users_the_page_asks_no_broker(job: Job) -> None:
    job.find(shown_again())
    replicas = Replicas()
    with job.served(asking=replicas.asking) as page:
        assert "Ask the brokers now" not in ask(page, f"/findings/{NAME}").text
        assert ask(page, f"/findings/{NAME}/records", form={"token": ""}).status == 403
    assert replicas.asked == 0


def test_brokers_that_cannot_be_asked_are_said_to_be(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.find(shown_again())
    replicas = Replicas()
    with job.served(users=USERS, asking=replicas.asking) as page:
        form = {"token": token(page)}
        monkeypatch.setattr(replicas, "metadata", lambda topics: {t: TopicMetadata(t, "", {}) for t in topics})
        answer = ask(page, f"/findings/{NAME}/records", password=PASSWORD, form=form)
        assert "orders-0 cannot be asked for: there is none any more" in answer.text
        with replicas.asking._alone():
            busy = ask(page, f"/findings/{NAME}/records", password=PASSWORD, form=form)
    assert (answer.status, busy.status) == (503, 503)
    assert "Somebody is asking the brokers already" in busy.text


def test_a_form_that_is_far_too_long_is_not_read(job: Job, page: str) -> None:
    job.find(shown_again())
    form = {"token": token(page), "reason": "x" * 30_000}
    assert ask(page, f"/findings/{NAME}/acknowledge", password=PASSWORD, form=form).status == 413


def test_findings_that_cannot_be_read_are_said_to_be(tmp_path: Path) -> None:
    job = Job(tmp_path / "there")
    job.storage = str(tmp_path / "gone")
    with job.served() as page:
        answer = ask(page, f"/findings/{NAME}")
    assert answer.status == 503
    assert "no findings table" in answer.text


def self_signed(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(made, check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = self_signed(folder)
    locked = folder / "locked.pem"
    lock = ["openssl", "ec", "-in", str(key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(lock, check=True, capture_output=True)
    return cert, key, locked


def test_it_is_served_by_tls(job: Job, certificate: tuple[Path, Path, Path]) -> None:
    cert, key, _ = certificate
    with job.served(tls_certificate_file=str(cert), tls_key_file=str(key)) as page:
        assert page.startswith("https://")
        assert ask(page).status == 200


def shown(address: str) -> str:
    """The certificate that a new connection is shown."""
    port = urlsplit(address).port
    assert port is not None
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=PATIENCE_S)


def test_a_certificate_that_is_renewed_is_shown_without_a_restart(job: Job, tmp_path: Path) -> None:
    names = ("old", "new")
    for name in names:
        (tmp_path / name).mkdir()
    old, new = (self_signed(tmp_path / name) for name in names)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(old[0], cert)
    shutil.copy(old[1], key)
    with job.served(tls_certificate_file=str(cert), tls_key_file=str(key)) as page:
        assert shown(page) == old[0].read_text()
        kept = HTTPSConnection("127.0.0.1", urlsplit(page).port, context=ssl._create_unverified_context())
        kept.request("GET", "/livez")
        kept.getresponse().read()
        cert.write_text(new[0].read_text())
        assert shown(page) == old[0].read_text(), "a certificate without its key is half of a renewal"
        key.write_text(new[1].read_text())
        assert shown(page) == new[0].read_text()
        cert.write_text("-----BEGIN")
        assert shown(page) == new[0].read_text(), "half of a file changes nothing"
        kept.request("GET", "/livez")
        assert kept.getresponse().read()
        kept.close()


def test_a_key_that_cannot_be_loaded_is_one_line(job: Job, certificate: tuple[Path, Path, Path]) -> None:
    cert, _, locked = certificate
    for key in (str(locked), str(cert), "/nowhere.pem"):
        settings = AlertingSettings(metrics_port=0, tls_certificate_file=str(cert), tls_key_file=key)
        with pytest.raises(MetricsServerError, match=r"^alerting\.tls_certificate_file and tls_key_file: [^\n]+$"):
            MetricsServer(job.state, settings, job.storage)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"users": {"ann": "plain"}}, "number 1: is no bcrypt hash"),
        ({"users": {"a:b": USERS["ann"]}}, "what HTTP's basic authentication cannot send"),
        ({"tls_key_file": "key.pem"}, "both or neither"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AlertingSettings.model_validate(given)
