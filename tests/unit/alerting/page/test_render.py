"""The commands that a page shows name the cluster and the job, so that they can be pasted."""

from __future__ import annotations

import html
import json
import re

from parallax.alerting.page.render import Renderer
from parallax.alerting.status import Condition, Status
from parallax.findings.report import NO_FACTS
from parallax.shell import Shell
from tests.builders.findings import finding

STATUS = Status(Condition.FINDINGS, "1 open finding", "", False, None, (), (), (), ())

SHELL = Shell.of({"bootstrap.servers": "kafka-1:9092"}, "/etc/parallax/night shift.yaml")


def test_the_page_of_a_finding_shows_commands_for_this_job_and_cluster() -> None:
    one = finding("aaaa")
    page = html.unescape(Renderer(shell=SHELL).finding(one, [one], [one], NO_FACTS, STATUS, token="", user=""))
    job = "-c '/etc/parallax/night shift.yaml'"
    assert f"parallax show-record --topic orders --partition 0 --offset 17 {job}" in page
    assert f"parallax findings acknowledge aaaa --reason ... {job}" in page
    assert "CONFIG" not in page


def test_the_page_of_what_is_over_names_and_shows_the_record_that_it_was_about() -> None:
    """The deletion at offset 1 was missed, so that the value at offset 0 was back."""
    key = {"visible": None, "complete": True, "newest_offset": 1}
    replicas = {"1": {"key": key}, "2": {"key": key}}
    over = finding("aaaa", offset=1, evidence=json.dumps({"replicas": replicas, "record_offset": 0}))
    page = html.unescape(Renderer(shell=SHELL).finding(over, [over], [over], NO_FACTS, STATUS, token="", user=""))
    assert re.search(r"<dt>Offset of the record</dt>\s*<dd[^>]*>0<", page)
    assert "--partition 0 --offset 0 " in page
    assert "<strong>Offset 0</strong>" in page
