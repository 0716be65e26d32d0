"""What people are told of a finding or an outage from its begin to its end, by a real Prometheus and Alertmanager."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from parallax.alerting.listing import ALARMS, FindingState, Turn, over_in_words, state_of
from parallax.alerting.places import Places
from parallax.alerting.state import MonitorState
from parallax.audit.result import Result
from parallax.findings.acknowledge import acknowledged
from parallax.findings.finding import Finding
from parallax.findings.in_brief import was_in_words
from parallax.guard.absences import Absence, Absences, Late
from parallax.guard.outages import Outages
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus, Severity, TopicPartition
from parallax.shell import Shell
from tests.builders.absences import absence
from tests.builders.coverage import coverage, progress
from tests.builders.findings import finding
from tests.e2e.alerting import watching
from tests.e2e.prometheus import INSTALLED

if INSTALLED:

    def test_an_acknowledged_finding_is_not_over_and_asks_again_when_it_is_worse(tmp_path: Path) -> None:
        wrong = finding("f1")
        with watching(tmp_path) as seen:

            def firing(path: str, name: str) -> list[dict[str, Any]]:
                """The messages of which an alert of a name fires."""
                about = ("firing", name)
                alerts = ((body, one) for body in seen.bodies(path) for one in body["alerts"])
                return [body for body, one in alerts if (one["status"], one["labels"]["alertname"]) == about]

            def acknowledgements() -> set[str]:
                """The acknowledgements that Alertmanager knows to stand."""
                known = seen.alertmanager.alerts(["alertname = ParallaxFindingAcknowledged"])
                return {alert["labels"]["outgrown"] for alert in known}

            def is_known(finding: Finding) -> None:
                """Somebody acknowledges it: nothing is over."""
                event = acknowledged(finding, "known since March", "ann", datetime.now(UTC))
                before = acknowledgements()
                seen.acknowledged(event)
                name = ALARMS[state_of(event)].name

                def states() -> list[str]:
                    return [alert["status"]["state"] for alert in seen.alertmanager.alerts([f"alertname = {name}"])]

                # The one before goes on for a moment once it is outgrown, and what is worse suppresses as well.
                until(lambda: acknowledgements() - before, "the acknowledgement to be known")
                until(lambda: states() == ["suppressed"], "it to be suppressed")

            def outgrown() -> set[str]:
                """The acknowledgements of which somebody was told that it is worse than they knew."""
                alerts = [one for body in firing("/page", "ParallaxFindingWorse") for one in body["alerts"]]
                return {one["labels"]["outgrown"] for one in alerts if "outgrown" in one["labels"]}

            seen.stands(wrong)
            until(lambda: firing("/page", "ParallaxDivergenceConfirmed"), "the page")
            is_known(wrong)
            until(lambda: firing("/note", "ParallaxFindingAcknowledged"), "the note")
            (note,) = firing("/note", "ParallaxFindingAcknowledged")
            assert "ann" in json.dumps(note["alerts"][0]["annotations"])
            assert "known since March" in json.dumps(note["alerts"][0]["annotations"])
            exposed = replace(wrong, exposed=True)
            seen.stands(exposed)
            until(lambda: len(outgrown()) == 1, "it to page again, and say that it is worse")
            is_known(exposed)
            seen.stands(exposed)
            until(lambda: len(outgrown()) == 2, "it to page once more, though its state is the same")
            pages = seen.bodies("/page")
            assert {page["status"] for page in pages} == {"firing"}
            fire = [[one for one in page["alerts"] if one["status"] == "firing"] for page in pages]
            names = [[one["labels"]["alertname"] for one in alerts] for alerts in fire]
            assert names == [["ParallaxDivergenceConfirmed"], *[["ParallaxFindingWorse"]] * 2], "one message of each"
            said = fire[1][0]["annotations"]["summary"]
            assert said.startswith(Turn.WORSE)
            assert "; the leader is wrong" in said, "of the new state"
            seen.is_over()

            def resolved() -> list[dict[str, Any]]:
                pages = [body for body in seen.bodies("/page") if body["status"] == "resolved"]
                return [one for page in pages for one in page["alerts"]]

            until(lambda: len(resolved()) == 3, "each page to be resolved")
            until(lambda: seen.ends, "people to be told of the end")
            seen.settled()
            assert len(seen.ends) == 1, "one finding has one end"
            assert {one["annotations"]["resolved_summary"] for one in resolved()} == {
                f"{over_in_words(was_in_words(wrong))} (cluster lab)"
            }

    def test_a_finding_that_is_less_grave_ends_no_page_and_pages_again_when_it_is_worse(tmp_path: Path) -> None:
        exposed = finding("f1", exposed=True)
        agreed = {"evidence": '{"resolution": "agreed"}', "exposed": False}
        unsettled = replace(exposed, status=FindingStatus.UNSETTLED, **agreed)
        with watching(tmp_path, ends_all=True) as seen:

            def told(path: str) -> list[tuple[str, str]]:
                """Each message of a receiver: how it stands, and what its first alert says."""
                return [(body["status"], body["alerts"][0]["annotations"]["summary"]) for body in seen.bodies(path)]

            def is_suppressed(name: str) -> bool:
                known = seen.alertmanager.alerts([f"alertname = {name}"])
                return bool(known) and all(one["status"]["state"] == "suppressed" for one in known)

            def is_less_grave(times: int) -> None:
                """The finding is less grave, for so long that an end would have been sent."""
                seen.stands(unsettled)
                until(lambda: len(told("/ticket")) == times, "the ticket")
                until(lambda: is_suppressed("ParallaxDivergenceExposed"), "the page to go on, suppressed")
                seen.settled()

            seen.stands(exposed)
            until(lambda: told("/page"), "the page")
            is_less_grave(1)
            assert len(told("/page")) == 1, told("/page")
            seen.stands(exposed)
            until(lambda: len(told("/page")) == 2, "it to page once more")
            assert told("/page")[1][0] == "firing"
            assert told("/page")[1][1].startswith(f"{Turn.WORSE}Broker 2 still shows")
            until(lambda: len(told("/ticket")) == 2, "the ticket to say so")
            assert told("/ticket")[1][1].startswith(
                "When ParallaxDivergenceUnsettled ended, the finding had not. It has"
            )
            is_less_grave(3)
            seen.acknowledged(acknowledged(unsettled, "known since March", "ann", datetime.now(UTC)))
            until(lambda: told("/note"), "the note")
            assert len(told("/page")) == 2
            seen.is_over(replace(unsettled, status=FindingStatus.RESOLVED))
            for path, count in (("/page", 4), ("/ticket", 4), ("/note", 2)):
                until(lambda: len(told(path)) >= count, f"the end at {path}")  # noqa: B023
                assert len(told(path)) == count
                status, said = told(path)[-1]
                assert status == "resolved"
                over = f"{over_in_words(was_in_words(exposed))} (cluster lab)"
                assert said == over, path
            until(lambda: seen.ends, "people to be told of the end")
            assert seen.ends == [f"[RESOLVED] {over}"], "one finding has one end"
            stages = [title.split()[0] for title in seen.titles]
            assert [stage for stage, _ in groupby(stages)] == ["[FIRING]", "[ACKNOWLEDGED]", "[RESOLVED]"]
            # An end and a begin of one moment may come to a group as two: one message more, of a group's turn between.
            assert len(stages) in (6, 7), stages

    def test_a_finding_that_becomes_worse_pages_once_more_and_its_end_resolves_both_pages(tmp_path: Path) -> None:
        confirmed = finding("f1")
        exposed = replace(confirmed, exposed=True, summary="Broker 2 shows it, and leads.")
        over = replace(exposed, status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed.")
        with watching(tmp_path) as seen:

            def events() -> list[tuple[str, str]]:
                """What PagerDuty was sent, each as what it does and to which incident."""
                return [(one["event_action"], one["dedup_key"]) for one in seen.bodies("/pagerduty")]

            seen.stands(confirmed)
            until(lambda: len(events()) == 1, "the page")
            seen.stands(exposed)
            until(lambda: len(events()) == 2, "the next page")
            seen.settled()
            (first, second) = events()
            assert (first[0], second[0]) == ("trigger", "trigger")
            assert first[1] != second[1], "somebody may have taken on the first incident: only another one calls again"
            (now,) = seen.bodies("/page")[1]["alerts"]
            assert now["annotations"]["summary"].startswith(f"{Turn.WORSE}Broker 2 still shows")
            assert now["annotations"]["description"] == exposed.summary
            seen.is_over(over)
            until(lambda: len(events()) == 4, "both to be resolved")
            assert sorted(events()[2:]) == sorted(("resolve", key) for _, key in (first, second))
            was = f"{over_in_words(was_in_words(confirmed))} (cluster lab)"
            until(lambda: seen.ends, "people to be told of the end")
            for body in seen.bodies("/page")[2:]:
                (one,) = body["alerts"]
                said = one["annotations"]
                assert (said["summary"], said["description"]) == (was, over.summary), "what is known by then"
            seen.settled()
            assert seen.ends == [f"[RESOLVED] {was}"], "one finding has one end"
            first, worse, *between, last = seen.chat
            # The ends of both alerts may come to a group as two: one message more, while the other still fires.
            assert [one["title"].split()[0] for one in between] in ([], ["[FIRING]"])
            assert worse["title"].startswith(f"[FIRING] {Turn.WORSE}")
            for one in (first, worse):
                assert one["text"].count("Runbook: ") == 1, "the finding is told once, whatever alerts it has"
            assert f"docs/runbook.md#{ALARMS[FindingState.CONFIRMED].name.lower()}\n" in first["text"]
            assert f"docs/runbook.md#{ALARMS[FindingState.EXPOSED].name.lower()}\n" in worse["text"]
            assert last["text"].count(over.summary) == 1

    def test_people_hear_that_a_finding_which_still_pages_is_less_grave_and_nobody_is_paged_again(
        tmp_path: Path,
    ) -> None:
        confirmed = finding("f1", summary="Broker 2 shows it.")
        exposed = replace(confirmed, exposed=True, summary="Broker 2 shows it, and leads.")
        over = replace(confirmed, status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed.")
        with watching(tmp_path) as seen:
            seen.stands(exposed)
            until(lambda: seen.chat, "people to be told")
            seen.stands(confirmed)
            until(lambda: len(seen.chat) == 2, "people to be told that it is less grave")
            seen.settled()
            less = seen.chat[1]
            assert less["title"].startswith(f"[FIRING] {Turn.LESS}Broker 2 still shows a deleted record of orders-0")
            assert less["text"].count(confirmed.summary) == 1
            assert len(seen.bodies("/page")) == 1
            seen.is_over(over)
            until(lambda: seen.ends, "people to be told of the end")
            seen.settled()
            assert seen.ends == [f"[RESOLVED] {over_in_words(was_in_words(confirmed))} (cluster lab)"]
            stages = [title.split()[0] for title in seen.titles]
            assert [stage for stage, _ in groupby(stages)] == ["[FIRING]", "[RESOLVED]"]
            assert len(stages) in (3, 4), "the alerts of a finding end one after the other"

    def test_a_resolved_alert_says_in_each_annotation_that_it_is_worse_or_what_healed_it(tmp_path: Path) -> None:
        places = Places("lab", page="https://monitor.example", shell=Shell(config="/etc/parallax.yaml"))
        warning = finding("f1", severity=Severity.WARNING, kind=FindingKind.MARKER_MISSING)
        exposed = finding("f1", sequence=2, kind=FindingKind.ABORTED_RECORD_COMMITTED, exposed=True)
        healed = replace(
            exposed, sequence=3, status=FindingStatus.RESOLVED, summary="Broker 2 showed a record. Healed: it does not."
        )
        with watching(tmp_path, places=places) as seen:

            def of(path: str, status: str) -> list[dict[str, str]]:
                """The annotations of the alerts of a status."""
                return [one["annotations"] for one in seen.alerts(status, path)]

            seen.stands(warning)
            until(lambda: of("/ticket", "firing"), "the ticket")
            seen.stands(exposed)
            until(lambda: of("/page", "firing"), "the page")
            (said,) = until(lambda: of("/ticket", "resolved"), "the end of the ticket")
            worse = "It has become worse: Broker 2 shows a rolled-back record of orders-0 as committed"
            for annotation in ("summary", "resolved_summary"):
                assert said[annotation].startswith(f"When ParallaxMarkerMissing ended, the finding had not. {worse}")
            (now,) = of("/page", "firing")[-1:]
            assert now["summary"].startswith(worse), "no two alerts have one summary"
            for one in (*of("/ticket", "firing")[:1], now):
                assert {text for name, text in one.items() if name.startswith("resolved_")} <= {""}
                assert "over" not in json.dumps({name: text for name, text in one.items() if "runbook" not in name})
                assert one["command"] == "parallax findings explain f1 -c /etc/parallax.yaml"
                assert one["page_url"] == "https://monitor.example/findings/f1"
            seen.is_over(healed)
            (said,) = until(lambda: of("/page", "resolved"), "the end of the page")
            for before in ("", "resolved_"):
                assert "showed a rolled-back record of orders-0 as committed; that is over" in said[f"{before}summary"]
                assert said[f"{before}description"] == healed.summary
            assert "is over" not in json.dumps(of("/ticket", "resolved"))

    def test_an_alert_about_the_job_or_a_broker_leads_to_page_and_runbook_and_its_end_to_the_page(
        tmp_path: Path,
    ) -> None:
        shell = Shell.of({"bootstrap.servers": "kafka:9092"}, "/etc/parallax.yaml")
        places, state = Places("lab", page="https://monitor.example", shell=shell), MonitorState(shell=shell)
        state._started_at -= 600
        compared = replace(coverage(), compared_at=int(time.time() * 1000))

        def asked(second: int, *, reachable: bool) -> None:
            state.update_progress([progress(broker=2, reachable=reachable, observed_at=at + timedelta(seconds=second))])

        with watching(tmp_path, state, places, waits=False) as seen:

            def said(title: str) -> list[str]:
                """The lines of the messages to Slack with such a title."""
                return [
                    line for one in seen.chat if one["title"].startswith(title) for line in one["text"].splitlines()
                ]

            unreachable, stalled = "Parallax cannot reach broker 2", "Parallax runs but compares nothing"
            at = datetime.now(UTC)
            asked(0, reachable=False)
            state.update_coverage([replace(compared, compared_at=compared.compared_at - 600_000)])
            for name, title in (("ParallaxBrokerUnreachable", unreachable), ("ParallaxStalled", stalled)):
                lines = until(lambda: said(f"[FIRING] {title}"), name)  # noqa: B023
                assert lines.count("Page: https://monitor.example/") == 1, lines
                assert [line.partition("#")[2] for line in lines if line.startswith("Runbook: ")] == [name.lower()]
            asked(1, reachable=True)
            state.update_coverage([compared])
            for title in ("Parallax could not reach broker 2", "Parallax compared nothing"):
                lines = until(lambda: said(f"[RESOLVED] {title}"), title)  # noqa: B023
                assert lines[-1] == "Page: https://monitor.example/", lines

    def test_an_outage_is_one_story_from_its_begin_to_what_came_of_it(tmp_path: Path) -> None:
        state, place, known = MonitorState(), TopicPartition("orders", 0), Outages()
        # A job that has just been started, or has compared nothing yet, says nothing: its last word would count.
        state._started_at -= 600
        state.update_coverage([replace(coverage(), compared_at=int(time.time() * 1000))])
        with watching(tmp_path, state) as seen:

            def told() -> list[tuple[str, str]]:
                """Which alert each message is about, and how it stands."""
                return [
                    (one["labels"]["alertname"], one["status"])
                    for body in seen.bodies("/page", "/ticket")
                    for one in body["alerts"]
                    if one["labels"]["alertname"].startswith("ParallaxReplica")
                ]

            def is_away(since_s: float, until_s: float, *late: Late) -> Absence:
                """The replica has been away for so long, and has so long."""
                now = time.time()
                since, bound = int((now - since_s) * 1000), int((now + until_s) * 1000)
                one = absence(2, *place, since_ms=since, retention_ms=86_400_000, bound_ms=bound)
                said(() if late else (one,), late)
                return one

            def said(absent: tuple[Absence, ...], late: tuple[Late, ...]) -> None:
                state.update_progress([progress(broker=2)])
                known.see(absent, late, int(time.time() * 1000))
                state.update_absences(Absences(absent, late, known.all))

            is_away(43_200, 36_000)
            begun, worse = ("ParallaxReplicaOutage", "firing"), ("ParallaxReplicaRemoval", "firing")
            until(lambda: told() == [begun], "it to be told that it begins")
            is_away(86_400, 3_000)
            until(lambda: told() == [begun, worse], "it to be told that it is worse")
            away = is_away(86_400, -60)
            headline = 'parallax_replica_outage_info{headline=~".*too late.*"}'
            late = Late(place, 2, int(time.time() * 1000), away)
            is_away(86_400, -60, late)
            until(lambda: seen.prometheus.now(headline), "it to be back too late")
            known.audited({place: Result.CONSISTENT})
            said((), ())
            ended = 'parallax_replica_outage_info{outcome=~"Broker 2 was back too late.*"}'
            until(lambda: seen.prometheus.now(ended), "what came of it to be known")
            seen.settled()
            assert told() == [begun, worse], "nothing is told of what lies between"
            state.update_absences(Absences())
            resolved = {("ParallaxReplicaOutage", "resolved"), ("ParallaxReplicaRemoval", "resolved")}
            until(lambda: resolved <= set(told()), "the end to be told")
            assert len(told()) == 4, "each receiver was told of two things"
            for one in seen.alerts("resolved", "/page", "/ticket"):
                assert one["annotations"]["resolved_summary"] == "The outage of broker 2 is over (cluster lab)"
                assert "found no difference" in one["annotations"]["resolved_description"]
