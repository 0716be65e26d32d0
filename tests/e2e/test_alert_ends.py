"""What a real Alertmanager makes of ends that Prometheus says again for a quarter of an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from parallax.lab.waiting import until
from tests.e2e.alerting import Labels, alert, of_finding, sending
from tests.e2e.prometheus import INSTALLED


def of_acknowledgement(alertname: str, at: int) -> Labels:
    """The labels of an alert about a finding that somebody acknowledged at a time."""
    place = {"topic": "orders", "partition": "0", "finding_id": "f1"}
    return alert(alertname, cluster="outgrown", **place, outgrown=str(at))


if INSTALLED:

    def test_chat_hears_no_second_time_of_a_change_because_an_end_is_said_again(
        tmp_path: Path,
    ) -> None:
        known, again = (of_acknowledgement("ParallaxFindingAcknowledged", at) for at in (60, 120))
        worse, still_worse = (of_acknowledgement("ParallaxFindingWorse", at) for at in (60, 90))
        began = datetime.now(UTC)
        ended = {"labels": known, "startsAt": began.isoformat(), "endsAt": (began + timedelta(seconds=1)).isoformat()}
        with sending(tmp_path) as seen:

            def said() -> list[str]:
                """What chat was told about the finding."""
                return [title.rpartition(" ")[2] for title in seen.titles if "another" not in title]

            def tell(labels: Labels, summary: str) -> None:
                seen.alertmanager.post({"labels": labels, "annotations": {"summary": summary}})

            def settled(partition: int) -> None:
                """Each group has had its turn: another one, which is told of afterwards, is in its second."""
                for name in ("first", "second"):
                    summary = f"another-{partition}-{name}"
                    tell(of_finding("another", partition, name), summary)
                    until(lambda: any(summary in one for one in seen.titles), summary)  # noqa: B023

            tell(of_finding("outgrown"), "begins")
            until(lambda: said() == ["begins"], "its begin")
            tell(known, "acknowledged")
            until(lambda: said()[1:] == ["acknowledged"], "its acknowledgement")
            tell(worse, "worse")
            seen.alertmanager.post(ended)
            until(lambda: said()[2:] == ["worse"], "it to be worse")
            tell(still_worse, "still-worse")
            until(lambda: said()[3:] == ["still-worse"], "it to be worse again")
            seen.alertmanager.post(ended)
            settled(1)
            assert said()[4:] == [], "an end that is said again is no change"
            tell(again, "acknowledged-again")
            until(lambda: said()[4:] == ["acknowledged-again"], "the next acknowledgement")
