"""The commands that a page shows name the cluster and the job, so that they can be pasted."""

from __future__ import annotations

import html

from parallax.alerting.page.render import Renderer
from parallax.alerting.status import Condition, Status
from parallax.findings.report import NO_FACTS
from parallax.shell import Shell
from tests.samples import finding

STATUS = Status(Condition.FINDINGS, "1 open finding", False, None, (), (), (), ())

SHELL = Shell.of({"bootstrap.servers": "kafka-1:9092"}, "/etc/parallax/night shift.yaml")


def test_the_page_of_a_finding_shows_commands_for_this_job_and_cluster() -> None:
    one = finding("aaaa")
    page = html.unescape(Renderer(shell=SHELL).finding(one, [one], [one], NO_FACTS, STATUS, token="", user=""))
    job = "-c '/etc/parallax/night shift.yaml'"
    assert f"parallax show-record --topic orders --partition 0 --offset 17 {job}" in page
    assert f"parallax findings acknowledge aaaa --reason ... {job}" in page
    assert "CONFIG" not in page
