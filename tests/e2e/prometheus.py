"""A real Prometheus and a real Alertmanager (Debian's packages)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import psutil
import yaml

from parallax.lab.ports import free_ports
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog
from tests.rules.receivers import turned_on

ROOT = Path(__file__).parents[2]
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager") or ""
INSTALLED = bool(shutil.which("prometheus") and ALERTMANAGER)
"""A machine with nothing but Python and a JDK has none of them; continuous integration installs them (.ci/run)."""

_STEP_S = 5


class _Service:
    """A program that answers at ``/-/ready`` once it is ready."""

    def __init__(self, name: str, folder: Path, port: int, command: list[str]) -> None:
        self.port = port
        self.log = folder / f"{name}.log"
        self._name = name
        self._command = command
        self._watchdog = Watchdog()

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = psutil.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        self._watchdog.guard([self._process.pid])
        until(self._is_ready, f"{self._name} to be ready ({self.log})")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(120)
        self._watchdog.guard(())
        self._watchdog.close()

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        try:
            return bool(self.get("/-/ready"))
        except OSError:
            return False

    def get(self, path: str) -> str:
        """What it answers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=120) as answer:
            return str(answer.read().decode())


class Alertmanager(_Service):
    """Routes as the shipped configuration says, to a receiver of the tests.

    Args:
        folder: for its files.
        receiver: the port of the receiver.
        is_quick: it waits for seconds where the configuration says half a minute.
        speaks: the configuration's examples are receivers of what is wrong as well: Slack and PagerDuty, in its words.
        ends_all: the receiver of notes is told of their end as well.
        group_by: a label by which a user groups instead; empty: the shipped ones.
    """

    def __init__(
        self,
        folder: Path,
        receiver: int,
        *,
        is_quick: bool = False,
        speaks: bool = False,
        ends_all: bool = False,
        group_by: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        config = folder / "alertmanager.yaml"
        shipped = (ROOT / "deploy/alertmanager/alertmanager.yaml").read_text()
        if is_quick:
            shipped = re.sub(r"group_(wait|interval): \d+s", r"group_\1: 1s", shipped)
        if group_by:
            shipped = re.sub(r"group_by:\n(  - \w+\n)+", f"group_by: [{group_by}]\n", shipped)
        if ends_all:
            shipped = shipped.replace("send_resolved: false", "send_resolved: true")
        if speaks:
            shipped = _with_examples(shipped, f"http://127.0.0.1:{receiver}")
        config.write_text(shipped.replace("http://127.0.0.1:9465/", f"http://127.0.0.1:{receiver}/"))
        shutil.copy(ROOT / "deploy/alertmanager/parallax.tmpl", folder)
        options = [f"--config.file={config}", f"--storage.path={folder}", f"--web.listen-address=127.0.0.1:{port}"]
        super().__init__("alertmanager", folder, port, [ALERTMANAGER, *options, "--cluster.listen-address="])

    def alerts(self, matchers: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The alerts that it knows to stand, suppressed or not.

        Args:
            matchers: as the configuration writes them; the alerts that meet all of them.
        """
        asked = urllib.parse.urlencode([("filter", matcher) for matcher in matchers])
        found: list[dict[str, Any]] = json.loads(self.get(f"/api/v2/alerts?{asked}"))
        return found

    def decided(self) -> int:
        """About how many alerts it has decided whether they are active or suppressed."""
        counts = re.findall(
            r'^alertmanager_marked_alerts{state="(?:active|suppressed)"} (\d+)', self.get("/metrics"), re.MULTILINE
        )
        return sum(map(int, counts))

    def post(self, *alerts: Mapping[str, Any]) -> None:
        """Say what a Prometheus would say: alerts that stand for an hour where they have no ``endsAt``.

        Raises:
            urllib.error.HTTPError: one of them is none.
        """
        ends = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v2/alerts",
            json.dumps([{"endsAt": ends} | alert for alert in alerts]).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120):
            pass


def _with_examples(shipped: str, to: str) -> str:
    """The configuration with Slack and PagerDuty turned on by its words, which post to an address instead."""
    services = {
        "chat": "slack_configs",
        "chat-note": "slack_configs",
        "page": "pagerduty_configs",
        "ticket": "pagerduty_configs",
    }
    document = yaml.safe_load(shipped)
    for receiver in document["receivers"]:
        if (service := services.get(receiver["name"])) is not None:
            on = yaml.safe_load(turned_on(shipped, service, [receiver["name"]]))["receivers"]
            (said,) = next(one for one in on if one["name"] == receiver["name"])[service]
            if service == "slack_configs":
                del said["api_url_file"]
                said["api_url"] = f"{to}/slack"
            else:
                del said["routing_key_file"]
                said |= {"routing_key": "0" * 32, "url": f"{to}/pagerduty"}
            receiver[service] = [said]
    return yaml.safe_dump(document)


class Prometheus(_Service):
    """Scrapes every five seconds whatever port it is told of, with the shipped rules; forgets everything in the end.

    Args:
        folder: for its files.
        alertmanager: the port of the one that it tells of alerts.
        every_s: how often it scrapes, and looks at the rules.
        waits: an alert waits for as long as its rule says; if not, for a second.
    """

    def __init__(
        self, folder: Path, alertmanager: int | None = None, every_s: int = _STEP_S, *, waits: bool = True
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        self._targets = folder / "targets.json"
        self._targets.write_text("[]")
        self.began = time.time()
        document = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
        document["global"] = {"scrape_interval": f"{every_s}s", "evaluation_interval": f"{every_s}s"}
        rules = folder / "parallax-rules.yaml"
        shipped = (ROOT / "deploy/prometheus/parallax-rules.yaml").read_text()
        rules.write_text(shipped if waits else re.sub(r"(?m)^    for: \w+$", "    for: 1s", shipped))
        document["rule_files"] = [str(rules)]
        (scrape,) = document["scrape_configs"]
        del scrape["static_configs"]
        scrape["file_sd_configs"] = [{"files": [str(self._targets)], "refresh_interval": "1s"}]
        (sent_to,) = document["alerting"]["alertmanagers"]
        sent_to["static_configs"] = [] if alertmanager is None else [{"targets": [f"127.0.0.1:{alertmanager}"]}]
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(document))
        options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        listens = f"--web.listen-address=127.0.0.1:{port}"
        super().__init__("prometheus", folder, port, ["prometheus", *options, listens])

    def scrape(self, port: int) -> None:
        """Scrape a port of this machine from now on, and nothing else."""
        self._targets.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}"]}]))

    def ever(self, query: str) -> list[dict[str, Any]]:
        """The series that a query has had since this Prometheus began, with their values.

        Raises:
            AssertionError: the query is wrong, in Prometheus' words.
        """
        now = time.time()
        step = max(_STEP_S, (now - self.began) / 10_000)
        asked = urllib.parse.urlencode({"query": query, "start": self.began, "end": now, "step": step})
        try:
            answer = self.get(f"/api/v1/query_range?{asked}")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        found: list[dict[str, Any]] = json.loads(answer)["data"]["result"]
        return found

    def now(self, query: str) -> list[dict[str, Any]]:
        """The series that a query has now."""
        found: list[dict[str, Any]] = json.loads(self.get(f"/api/v1/query?{urllib.parse.urlencode({'query': query})}"))[
            "data"
        ]["result"]
        return found

    def scraped(self) -> list[str]:
        """When it has last scraped what it scrapes."""
        # Beside its value, each series has the time of the query.
        return [one["value"][1] for one in self.now("timestamp(up)")]

    def looked(self) -> list[str]:
        """When it has last looked at the rules."""
        return [group["lastEvaluation"] for group in json.loads(self.get("/api/v1/rules"))["data"]["groups"]]


def awaited(prometheus: Prometheus, query: str) -> list[dict[str, Any]]:
    """Wait until a query has had a series.

    A query at this moment may have one that a query over time has not: that one looks at whole steps only.

    Returns:
        What `Prometheus.ever` has then.
    """
    return until(lambda: prometheus.ever(query), f"{query} to have data")
