"""The alert rules and routes, checked and run by promtool and amtool (of Prometheus and of Alertmanager)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dashboards.alerts import JOB_OPTIONS
from parallax.shell import ANYWHERE
from tests.rules import healthy, promtool, receivers, renamed
from tests.rules.cases import FINDING, IMMEDIATE, LASTING, PARTITION, STEP_S, STEPS, WAITS, cases
from tests.rules.healthy import DAY
from tests.rules.promtool import ALERTS, ROOT, RULES

METRICS = (ROOT / "docs/reference/metrics.md").read_text()


def amtool(*arguments: str) -> str:
    done = subprocess.run(["amtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def firing(alert: str) -> str:
    """The cases of an alert that fire, by their cluster."""
    chosen = f'alertname="{alert}", alertstate="firing", cluster=~"{alert}: .*"'
    return f"count by (cluster) (ALERTS{{{chosen}}})"


def documents_of_the_cases() -> Iterator[dict[str, object]]:
    """Which cases of each alert fire, at each step at which one begins or ends, at the one before, and now and then."""
    found = cases()
    for alert in sorted({case.alert for case in found}):
        of_it = [case for case in found if case.alert == alert]
        turns = {step for case in of_it for step in (case.fires, case.ends) if step is not None}
        steps = {*range(0, STEPS, 10), *turns, *(step - 1 for step in turns if step)}
        given = {series: values for case in of_it for series, values in case.series().items()}
        yield promtool.document(
            given,
            (
                (firing(alert), step, [(f'{{cluster="{case.cluster}"}}', 1) for case in of_it if case.is_firing(step)])
                for step in sorted(step for step in steps if step < STEPS)
            ),
            step_s=STEP_S,
        )


# A machine with nothing but Python and a JDK has no promtool; continuous integration installs it (.ci/run).
if shutil.which("promtool"):

    def test_promtool_accepts_the_rules() -> None:
        promtool.run("check", "rules", str(RULES))

    def test_the_rules_fire_and_hold_as_their_tests_say(tmp_path: Path) -> None:
        contents = [promtool.read_tests(path) for path in (ROOT / "deploy/prometheus/tests").glob("*.yaml")]
        assert {file for one in contents for file in one["rule_files"]} == {f"../{RULES.name}"}
        promtool.run_tests(tmp_path, *contents)

    @pytest.mark.release
    def test_they_do_with_all_rules_at_once_as_who_takes_them_over_runs_them() -> None:
        promtool.run("test", "rules", *(str(path) for path in (ROOT / "deploy/prometheus/tests").glob("*.yaml")))

    def test_each_rule_fires_in_its_cases_after_its_time_and_not_before(tmp_path: Path) -> None:
        promtool.run_tests(tmp_path, *documents_of_the_cases())

    def test_an_unsafe_election_says_what_is_not_known_yet_and_at_its_end_who_was_elected(
        tmp_path: Path,
    ) -> None:
        target = {"cluster": "c", "job": "parallax", "instance": "a"}
        replica = {"topic": "orders", "partition": "0", "broker_id": "2"}
        given: dict[str, list[float | None]] = {
            promtool.series("preferred_leader_unsafe", target | replica): [*[1.0] * 10, *[2.0] * 5, *[0.0] * 9],
            promtool.series("start_time_seconds", target): [-7200.0] * 24,
            promtool.series("heartbeat_timestamp_seconds", target): [15.0 * step for step in range(24)],
            promtool.series("build_info", target): [1.0] * 24,
        }
        content = promtool.document(given, (), step_s=STEP_S)
        over = "Parallax warns no longer of the next election of orders-0 of cluster c"
        lead = f"`parallax lead orders {ANYWHERE.options}` says who leads there now, and who may."
        open_ = (
            "Broker 2 does not lead. It was proven wrong, and may have been changed since, as by a repair: it is being "
            "asked again. It is in sync and comes first in the assignment, so the next election of preferred leaders, "
            "which brokers hold every five minutes by default, moves leadership to it. If this lasts, `parallax lead "
            f"orders {ANYWHERE.options}` says what is known of it."
        )
        unknown = "Whether the next election of orders-0 of cluster c makes a wrong replica the leader is not known yet"
        happened = "It has happened: broker 2, which is wrong, was elected leader of orders-0 of cluster c"
        meaning = "The findings about orders-0 say what that means for its consumers, and what to run."
        runbook = next(one for one in ALERTS if one["alert"] == "ParallaxUnsafeElection")["annotations"]["runbook_url"]

        def says(summary: str, description: str, past: str, left: str, turn: str) -> dict[str, str]:
            names = ("summary", "description", "resolved_summary", "resolved_description", "resolved_turn")
            told = dict(zip(names, (summary, description, past, left, turn), strict=True))
            return told | {"page_url": "", "runbook_url": runbook}

        content["tests"][0]["alert_rule_test"] = [
            {
                "eval_time": f"{step * STEP_S}s",
                "alertname": "ParallaxUnsafeElection",
                "exp_alerts": [
                    {
                        "exp_labels": replica | {"cluster": "c", "severity": "warning"},
                        "exp_annotations": annotations,
                    }
                ],
            }
            for step, annotations in (
                (12, says(unknown, open_, over, lead, "")),
                (15, says(happened, meaning, happened, meaning, "It has happened: ")),
            )
        ] + [{"eval_time": f"{16 * STEP_S}s", "alertname": "ParallaxUnsafeElection", "exp_alerts": []}]
        promtool.run_tests(tmp_path, content)

    @pytest.mark.parametrize("case", renamed.cases(), ids=lambda case: case.name)
    def test_a_job_is_known_under_other_labels_and_one_that_has_gone_is_absent(
        case: renamed.Case, tmp_path: Path
    ) -> None:
        absent = 'ALERTS{alertname="ParallaxAbsent", alertstate="firing"}'
        standing = 'count by (finding_id) (ALERTS{alertname="ParallaxDivergenceConfirmed"})'
        last = renamed.MINUTES - 1
        gone = [(promtool.series("absent", {"severity": "critical", **labels}), 1.0) for labels in case.absent]
        asked = [
            *((standing, n, case.standing(n)) for n in (1, *range(renamed.CHANGES - 1, last, 4))),
            (f"max without (alertname, alertstate) ({absent})", last, [(one[one.index("{") :], v) for one, v in gone]),
            *((absent, n, []) for n in range(renamed.CHANGES + 5)),
            *((absent, n, []) for n in range(last) if not gone),
        ]
        promtool.run_tests(tmp_path, promtool.document(case.series(), asked, step_s=60))

    def test_what_an_alert_says_last_is_true_of_what_is_so_then(tmp_path: Path) -> None:
        job = {"cluster": "c", "job": "parallax", "instance": "a"}
        two, steps, ends = {"broker_id": "2"}, 60, 40

        def until(first: float | None, then: float | None) -> list[float | None]:
            return [first if n < ends else then for n in range(steps)]

        given: dict[str, list[float | None]] = {
            promtool.series(name, job | labels): values
            for name, labels, values in (
                ("build_info", {}, until(1, 1)),
                ("findings_loaded", {}, until(1, 1)),
                ("start_time_seconds", {}, until(-7200, -7200)),
                ("heartbeat_timestamp_seconds", {}, [15.0 * n for n in range(steps)]),
                ("replicas_offline", two, until(3, None)),
                ("broker_reachable", two, until(1, 0)),
                ("replicas_offline", {"broker_id": "3"}, until(3, 0)),
                ("broker_reachable", {"broker_id": "3"}, until(1, 1)),
                ("finding_state", FINDING | {"state": "confirmed"}, until(1, 0)),
                ("finding_state", FINDING | {"state": "exposed"}, until(0, 1)),
                ("finding_acknowledged", FINDING, until(15, 0)),
                ("replica_late_timestamp_seconds", PARTITION | two | {"reason": "passed"}, until(15, None)),
                ("replica_outage_info", two | {"headline": "Broker 2 is away", "now": "Now."}, until(15, None)),
                ("replica_outage_info", two | {"headline": "Broker 2 is back", "now": "In time."}, until(None, 16)),
                ("replica_outage_end_timestamp_seconds", two, until(None, 600)),
                ("reading_paused_timestamp_seconds", {"broker_id": "2"}, until(-7200, -7200)),
                ("reading_paused_timestamp_seconds", {"broker_id": "all"}, until(-7200, -7200)),
                ("unauthorized_replicas", {"topic": "orders", "reason": "credentials"}, until(12345678, 12345678)),
                ("unauthorized_replicas", {"topic": "orders", "reason": "read"}, until(1, 1)),
                ("findings_unlisted", {}, until(1234567, 1234567)),
            )
        }
        said = promtool.said(tmp_path, given, ends * STEP_S, STEP_S)
        offline = said["ParallaxReplicaOffline"]
        assert [one["resolved_turn"] for one in offline] == ["It has become worse: ", ""]
        assert offline[0]["resolved_description"] == "Broker 2 does not answer at all now."
        assert offline[1]["resolved_description"].startswith("Broker 3 answers for all of its replicas again.")
        (known,) = said["ParallaxFindingAcknowledged"]
        assert known["resolved_turn"] == "It has become worse: "
        assert known["resolved_summary"].startswith("It has become worse: ")
        (removal,) = said["ParallaxReplicaRemoval"]
        assert removal["summary"] == "Broker 2 is back (cluster c)"
        paused = [one["description"] for one in said["ParallaxReadingPaused"]]
        assert ["--broker 2 -c" in one for one in paused] == [True, False]
        assert "resume -c" in paused[1]
        rejected, missing = (one["description"] for one in said["ParallaxUnauthorized"])
        assert rejected.startswith("12345678 replicas")
        assert "password" in rejected
        assert "acl" not in rejected
        assert "read: grant it (kafka-acls.sh)" in missing
        assert said["ParallaxFindingsUnlisted"][0]["description"].startswith("1234567 more")

    @pytest.mark.parametrize("others", [True, False], ids=["beside another cluster", "alone"])
    def test_a_dead_job_is_absent_and_its_alerts_stand_for_as_long_as_prometheus_has_its_target(
        others: bool, tmp_path: Path
    ) -> None:
        minutes, dies, unlisted = 31 * 60, 60, 29 * 60
        given: dict[str, list[float | None]] = {}
        for cluster in ("a", "b") if others else ("a",):
            stops = dies if cluster == "a" else minutes
            target = {"job": "parallax", "instance": cluster}
            up = [1.0 if n < stops else 0.0 if n < unlisted else None for n in range(minutes)]
            given[promtool.series("up", target)] = up
            is_a = float(cluster == "a")
            for name, labels, value, step in (
                ("build_info", {"version": "1"}, 1.0, 0),
                ("findings_loaded", {}, 1.0, 0),
                ("start_time_seconds", {}, 0.0, 0),
                ("heartbeat_timestamp_seconds", {}, 0.0, 60),
                ("storage_info", {"storage_id": cluster}, 1.0, 0),
                ("broker_reachable", {"broker_id": "2"}, 1.0 - is_a, 0),
                ("finding_state", FINDING | {"state": "exposed"}, is_a, 0),
                ("finding_acknowledged", FINDING, 60.0 * is_a, 0),
                ("finding_info", FINDING | {"headline": "H"}, 60.0, 0),
            ):
                if cluster == "a" or "finding_id" not in labels:
                    values = [value + step * n if n < stops else None for n in range(minutes)]
                    given[promtool.series(name, {"cluster": cluster} | target | labels)] = values
        names = ["Absent", "BrokerUnreachable", "DivergenceExposed", "FindingAcknowledged"]
        fires = 'count by (alertname, cluster) (ALERTS{alertname!="ParallaxWatchdog", alertstate="firing"})'
        standing = [(f'{{alertname="Parallax{name}", cluster="a"}}', 1.0) for name in names]
        at = (dies + 10, 24 * 60, dies + 24 * 60 - 3, dies + 24 * 60 + 3, dies + 24 * 60 + 30, unlisted - 1)
        said = ('count(finding:parallax_said{finding_id="f1", headline="H"})', unlisted - 1, [("{}", 1.0)])
        nobody = [('{alertname="ParallaxAbsent"}', 1.0)] * (not others)
        asked = [*((fires, n, standing) for n in at), said, (fires, unlisted + 20, nobody)]
        # Each turn falls on a multiple of three minutes, and no rule has a shorter time that matters here.
        promtool.run_tests(tmp_path, promtool.document(given, asked, step_s=60, evaluated_s=180))

    def test_a_rule_is_not_pending_of_what_is_no_more_though_the_job_has_just_been_started(tmp_path: Path) -> None:
        given, asked = {}, []
        for alert, one in LASTING.items():
            told = {"start_time_seconds": 0.0, "findings_loaded": 1.0, "heartbeat_timestamp_seconds": 0.0}
            own = {"cluster": alert, "job": "parallax", "instance": "a"}
            values = [one.bad if 1 <= n < 4 else one.good for n in range(24)]
            given |= {promtool.series(name, own): [value] * 24 for name, value in told.items()}
            given[promtool.series("storage_info", own | {"storage_id": alert})] = [1.0] * 24
            given[promtool.series(one.metric, own | one.labels)] = values
            pending = f'count(ALERTS{{alertname="{alert}", cluster="{alert}", alertstate!="firing"}})'
            asked += [(pending, 3, [("{}", 1)] if WAITS[alert] > 2 else []), (pending, 4, []), (pending, 19, [])]
        promtool.run_tests(tmp_path, promtool.document(given, asked, step_s=STEP_S))

    @pytest.mark.parametrize("minutes", [2 * DAY, pytest.param(healthy.WEEK, marks=pytest.mark.release)])
    def test_nothing_fires_in_a_quiet_week(minutes: int, tmp_path: Path) -> None:
        fired = 'max_over_time(ALERTS{alertname!="ParallaxWatchdog", alertstate="firing"}[7d])'
        content = promtool.document(healthy.week(minutes), [(fired, minutes - 1, [])], step_s=60, evaluated_s=300)
        promtool.run_tests(tmp_path, content)


def test_the_series_of_the_cases_and_of_the_week_are_those_that_the_job_exposes() -> None:
    reference = {
        metric: {"job", "instance", "cluster", *re.findall(r"`(\w+)`", labels)}
        for metric, labels in re.findall(r"^\| `(parallax_\w+)` \| \w+ \| ([^|]*) \|", METRICS, re.MULTILINE)
    }
    minutes = healthy.week(minutes=DAY // 2)
    used = [*minutes, *(series for case in cases() for series in case.series())]
    assert len(used) > 300
    for series in used:
        name, labels = series.rstrip("}").split("{")
        if name != "up":
            assert set(re.findall(r"(\w+)=\"", labels)) <= reference[name], series


def test_no_alert_prints_its_value_as_prometheus_writes_a_large_number() -> None:
    printed = [
        (alert["alert"], found)
        for alert in ALERTS
        for text in alert["annotations"].values()
        for found in re.findall(r"\{\{-? *(\$value[^}]*|\.Value[^}]*) *-?\}\}", text)
    ]
    assert printed
    assert {found.strip() for _, found in printed} == {"$value | humanizeDuration"}


def test_each_rule_has_a_case_in_which_it_fires() -> None:
    fire = {case.alert for case in cases() if case.fires is not None}
    assert fire == {rule["alert"] for rule in ALERTS} - {"ParallaxWatchdog"}


def test_each_rule_that_waits_has_all_the_cases_of_one() -> None:
    assert LASTING.keys() == {rule["alert"] for rule in ALERTS if "for" in rule} - {"ParallaxAbsent"}
    assert not [rule["alert"] for rule in ALERTS if "min_over_time" in rule["expr"]], "it says nothing of a time"


def test_each_rule_that_does_not_wait_looks_back_at_nothing_and_has_the_cases_of_a_killed_job() -> None:
    immediate = {rule["alert"] for rule in ALERTS if "for" not in rule} - {"ParallaxWatchdog"}
    counting = {rule["alert"] for rule in ALERTS if "increase(" in rule["expr"]}
    assert immediate - counting == IMMEDIATE.keys()
    assert not [one["alert"] for one in ALERTS if one["alert"] in immediate and "_over_time(" in one["expr"]]


def test_every_alert_has_its_annotations_and_a_section_in_the_runbook() -> None:
    runbook = (ROOT / "docs/runbook.md").read_text()
    sections = {title.lower() for title in re.findall(r"^## (\w+)$", runbook, re.MULTILINE)}
    others = {"ParallaxWatchdog": "none", "ParallaxFindingAcknowledged": "info", "ParallaxFindingLessGrave": "info"}
    for alert in ALERTS:
        name = alert["alert"]
        assert name.startswith("Parallax")
        assert alert["labels"]["severity"] in ({others[name]} if name in others else {"critical", "warning"})
        said = {"summary", "description", "resolved_summary", "resolved_description", "page_url", "runbook_url"}
        of_a_finding = {"kind", "broker_id", "record_offset", "resolved_turn", "kind_runbook_url", "command"}
        if name == "ParallaxFindingAcknowledged":
            said |= {"command", "resolved_turn"}
        elif "finding:parallax_" in alert["expr"]:
            said |= of_a_finding
        elif name not in ("ParallaxAbsent", "ParallaxWatchdog"):
            said |= {"resolved_turn"}
        assert set(alert["annotations"]) == said
        assert alert["annotations"]["runbook_url"].endswith(f"docs/runbook.md#{name.lower()}")
        assert name.lower() in sections
        for text in alert["annotations"].values():
            words = "check|run|audit|pause|resume|report|show-record|findings|guard|storage"
            filled_in = re.sub(r"\{\{.*?\}\}", "X", text.replace(JOB_OPTIONS, ANYWHERE.options))
            commands = re.findall(rf"\bparallax (?:{words})\b[^.,:;`]*", filled_in)
            assert [one for one in commands if " -c CONFIG" not in one] == [], "it cannot be pasted"
        assert alert["annotations"]["resolved_summary"] != alert["annotations"]["summary"]
        texts = [text.replace(JOB_OPTIONS, "") for text in alert["annotations"].values()]
        templates = [text for text in texts if "query" in text]
        assert max(map(len, templates), default=0) < 500, f"{name}: nobody can review such a template"


if shutil.which("amtool"):

    def test_amtool_accepts_the_routes_and_routes_by_severity() -> None:
        routes = str(ROOT / "deploy/alertmanager/alertmanager.yaml")
        assert "SUCCESS" in amtool("check-config", routes)
        for labels, receiver in (
            (["severity=critical", "alertname=ParallaxDivergenceConfirmed"], "chat,page"),
            (["severity=critical", "alertname=ParallaxDivergenceConfirmed", "finding_id=f1"], "chat,page"),
            (["severity=warning", "alertname=ParallaxMarkerMissing"], "chat,ticket"),
            (["severity=info", "alertname=ParallaxFindingAcknowledged"], "chat,note"),
            (["severity=info", "alertname=ParallaxFindingLessGrave", "finding_id=f1"], "chat-note,note"),
            (["severity=none", "alertname=ParallaxWatchdog"], "dead-man"),
            (["severity=high", "alertname=DiskFull"], "chat,page"),
        ):
            assert amtool("config", "routes", "test", f"--config.file={routes}", *labels).strip() == receiver

    @pytest.mark.parametrize("service", ["webhook_configs", "slack_configs", "pagerduty_configs", "email_configs"])
    def test_amtool_accepts_each_service_once_its_lines_are_turned_on(service: str, tmp_path: Path) -> None:
        text = (ROOT / "deploy/alertmanager/alertmanager.yaml").read_text()
        with_it = {"webhook_configs": ["page"], "pagerduty_configs": ["page", "ticket"]}.get(
            service, ["chat", "chat-note"]
        )
        if service != "webhook_configs":
            text = receivers.turned_on(text, service, with_it)
        (tmp_path / "alertmanager.yaml").write_text(text)
        shutil.copy(ROOT / "deploy/alertmanager/parallax.tmpl", tmp_path)
        assert "SUCCESS" in amtool("check-config", str(tmp_path / "alertmanager.yaml"))
        first = next(one for one in yaml.safe_load(text)["receivers"] if one["name"] == with_it[0])
        assert first.keys() == {"name", service}
        block = text.partition(f"- name: {with_it[0]}")[2].partition("- name: ")[0]
        asked = receivers.FILL_IN.findall(block)
        assert len(asked) == {"email_configs": 3}.get(service, 1)
        assert set(asked) <= first[service][0].keys()
        if service == "slack_configs":
            assert first[service][0]["fallback"] == first[service][0]["title"], "what a notification shows"

    @pytest.mark.parametrize("known_first", [True, False])
    def test_what_somebody_acknowledged_heads_no_title_while_another_finding_asks_for_somebody(
        known_first: bool, tmp_path: Path
    ) -> None:
        began = ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]
        critical = _fires("ParallaxDivergenceExposed", "f2", "Broker 3 shows X", began[known_first])
        known = _fires("ParallaxFindingAcknowledged", "f1", "Acknowledged, still open: Y", began[not known_first])
        assert _title(tmp_path, critical, known) == "[FIRING] Broker 3 shows X (and 1 more finding)"
        assert _title(tmp_path, known) == "[ACKNOWLEDGED] Still open: Y"
        own = _fires("ParallaxDivergenceUnsettled", "f1", "Y", "2026-01-01T09:00:00Z")
        assert _title(tmp_path, own, known) == "[ACKNOWLEDGED] Still open: Y", "it is not suppressed yet"
        assert _title(tmp_path, own, known, critical) == "[FIRING] Broker 3 shows X (and 1 more finding)"


def _fires(alertname: str, finding_id: str, summary: str, began: str) -> dict[str, object]:
    """An alert of a message of Alertmanager."""
    labels = {"alertname": alertname, "finding_id": finding_id}
    return {"status": "firing", "labels": labels, "annotations": {"summary": summary}, "startsAt": began}


def test_what_a_person_wrote_formats_nothing_in_slack_and_is_as_it_was_elsewhere(tmp_path: Path) -> None:
    one = _fires("ParallaxFindingAcknowledged", "f1", "Acknowledged, still open: Y", "2026-01-01T08:00:00Z")
    reason = "By ann <!channel>: a *known* loss & <https://a.example|harmless> -> ticket"
    command = "parallax findings explain f1 -c '/etc/*&/p.yaml'"
    worse = _fires("ParallaxDivergenceExposed", "f2", "A <b> & *c*", "2026-01-01T09:00:00Z")
    one["annotations"] = {"summary": "Acknowledged, still open: Y", "description": reason}
    worse["annotations"] = {"summary": "A <b> & *c*", "command": command}
    text = _rendered(tmp_path, "text", one, worse)
    assert reason in text
    assert f"Run: {command}" in text
    slack = _rendered(tmp_path, "slack.text", one, worse)
    assert (
        "By ann &lt;!channel&gt;: a \u2217known\u2217 loss &amp; &lt;https://a.example|harmless&gt; -&gt; ticket"
        in slack
    )
    assert "Run: parallax findings explain f1 -c '/etc/*&amp;/p.yaml'" in slack, "it is copied as it was"
    assert _rendered(tmp_path, "slack.title", one, worse) == (
        "[FIRING] A &lt;b&gt; &amp; \u2217c\u2217 (and 1 more finding)"
    )


def _title(folder: Path, *alerts: dict[str, object]) -> str:
    """The title of a chat's message about some alerts."""
    return _rendered(folder, "title", *alerts)


def _rendered(folder: Path, template: str, *alerts: dict[str, object]) -> str:
    """A text of a chat's message about some alerts, by one of the shipped templates."""
    data = folder / "data.json"
    data.write_text(
        json.dumps({"status": "firing", "alerts": [{"fingerprint": str(n), **a} for n, a in enumerate(alerts)]})
    )
    glob = f"--template.glob={ROOT / 'deploy/alertmanager/parallax.tmpl'}"
    text = f'--template.text={{{{ template "parallax.{template}" . }}}}'
    return amtool("template", "render", glob, text, f"--template.data={data}").strip()
