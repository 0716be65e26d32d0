"""A status page of a job that is none: a state and tables that tests fill, served as the job serves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from parallax.alerting.page.asking import Asking
from parallax.alerting.server import MetricsServer
from parallax.alerting.state import MonitorState
from parallax.config import AlertingSettings
from parallax.findings.finding import Finding
from parallax.findings.happenings import FindingsStatus
from parallax.findings.table import FindingsTable
from parallax.model import FindingStatus, IsolationLevel, MissingRight
from parallax.replica.at_offset import AtOffset, Held, Record, Served
from parallax.replica.types import PartitionMetadata, TopicMetadata, Watermarks
from parallax.supervisor import QueryReport
from parallax.views.tables import PROGRESS, RECORDED_ON
from tests.builders.coverage import BROKERS, coverage, progress
from tests.builders.findings import AT, evidence, finding

PASSWORD = "correct horse"
USERS = {"ann": "$2b$04$ndeAqjWOVrtc7q.mHNJkduv78vdo2ZEQUjl4XVTmmVXy9FCzBfAhG"}
"""Ann, with that password."""


def shown_again(name: str = "f0" * 16, **more: Any) -> Finding:
    """A deleted record that broker 3 shows again; brokers 1, which leads, and 2 do not."""
    answer = {"high_watermark": 100, "last_stable_offset": 100, "log_start_offset": 0, "log_end_offset": 100}
    none = answer | {"key": {"visible": None, "live": None, "newest_offset": -1, "complete": True}}
    value = {"offset": 17, "value_size": 4, "outcome": "none"}
    shown = answer | {"key": {"visible": value, "live": value, "newest_offset": 17, "complete": True}}
    shows = {
        "sequence": 0,
        "broker": 3,
        "key": b"customer <b>42</b>",
        "summary": "Broker 3 shows the record at offset 17, which was deleted & is <gone> on brokers 1 and 2.",
        "evidence": evidence({"no value": [1, 2], "value at offset 17": [3]}, {1: none, 2: none, 3: shown}),
        "decided_at": AT + timedelta(seconds=9),
    }
    return finding(name, **shows | more)


class Job:
    """What the page of a job shows.

    Args:
        storage: an empty folder.
    """

    def __init__(self, storage: Path) -> None:
        self.storage = str(storage)
        self.state = MonitorState()
        self.findings = FindingsTable(self.storage)
        self.state.update_findings(FindingsStatus())

    def follow(self, topic: str = "orders", partitions: int = 1) -> None:
        """Partitions that are read, compared and consistent."""
        self.state.update_query(QueryReport("compare", up=True))
        self.state.update_progress([progress(topic, p, b) for p in range(partitions) for b in BROKERS])
        for level in IsolationLevel:
            self.state.update_positions(level, {(topic, p, b): 100 for p in range(partitions) for b in BROKERS})
        self.state.update_coverage([coverage(topic, p) for p in range(partitions)])

    def find(self, *findings: Finding) -> None:
        """Findings that stand."""
        self.findings.append(findings)
        self.state.update_findings(
            FindingsStatus(
                open=tuple(f for f in findings if f.is_open), acknowledged=tuple(f for f in findings if not f.is_open)
            )
        )

    def record(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of progress in their table."""
        schema = pa.schema(
            [
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("broker", pa.int32()),
                ("observed_at", pa.timestamp("us", "UTC")),
                ("reachable", pa.bool_()),
                ("log_start_offset", pa.int64()),
                ("high_watermark", pa.int64()),
                ("last_stable_offset", pa.int64()),
                ("problem", pa.string()),
                (RECORDED_ON, pa.date32()),
            ]
        )
        table = pa.Table.from_pylist([{n: row.get(n) for n in schema.names} for row in rows], schema=schema)
        write_deltalake(f"{self.storage}/{PROGRESS}", table, mode="append", partition_by=[RECORDED_ON])

    @contextmanager
    def served(self, *, asking: Any = None, **settings: Any) -> Iterator[str]:
        """The page, for as long as the block runs; gives its address without the last slash."""
        alerting = AlertingSettings(metrics_port=0, **settings)
        server = MetricsServer(self.state, alerting, self.storage, asking=asking)
        scheme = "https" if alerting.tls_key_file else "http"
        try:
            yield f"{scheme}://127.0.0.1:{server.port}"
        finally:
            server.close()


class Replicas:
    """A client of three brokers: the first two hold nothing at any offset, the third a record; counts who asks."""

    def __init__(self, payload: str = "hash") -> None:
        self.asked = 0
        self.asking = Asking(self, payload)  # type: ignore[arg-type]

    def metadata(self, topics: list[str]) -> dict[str, TopicMetadata]:
        self.asked += 1
        return {topic: TopicMetadata(topic, "", {0: PartitionMetadata(1, 0, BROKERS, BROKERS)}) for topic in topics}


def shown_by(client: object, broker: int, place: object, offset: int) -> AtOffset:
    """What one of `Replicas` has at any offset, in place of `parallax.replica.at_offset.at_offset`."""
    record = Record(1_000, 5, -1, -1, False, b"the key", b"the <value>", 7, 11, ())
    served = dict.fromkeys(IsolationLevel, Served.SHOWN if broker == 3 else Served.NOT_SHOWN)
    held = Held.RECORD if broker == 3 else Held.NOTHING
    return AtOffset(held, Watermarks(100, 100, 0, 100), None, record if broker == 3 else None, served)


HOSTILE = (
    "\"><script>document.title = 'taken'</script>"
    "<img src=x onerror=\"document.title = 'taken'\"> '-->]]></style></title>"
    "</textarea></pre></svg><base href=//elsewhere.example> javascript:alert(1) {{ 7 * 7 }} {% raw %} &lt;b&gt;"
)
"""What would act in each place of a page, were it taken for HTML there."""
HOSTILE_NAME = HOSTILE.replace("/", "|")
"""The same as a part of an address."""
PLAIN = "plain"


def named_by(storage: Path, text: str, name: str, status: FindingStatus = FindingStatus.CONFIRMED) -> Job:
    """A job in which whatever others can name or word has a text: topics, errors, keys, evidence, acknowledgements.

    Args:
        storage: an empty folder.
        text: for all that is shown as text.
        name: for the topic, which is a part of addresses as well.
        status: of its one finding.
    """
    job = Job(storage)
    job.follow(name)
    rows = [progress(name, 0, n, reachable=False, problem=text) for n in BROKERS[1:2]]
    job.state.update_progress(rows)
    job.state.update_refusals([(name, -1, -1)], MissingRight.READ, text)
    answer = {"error": text, "key": {"visible": None, "live": None, "complete": False, "outcome": text}, text: text}
    sides, by = {text: [1, 2], f"{text} too": [3]}, {"reason": text, "by": text}
    told = evidence(sides, dict.fromkeys(BROKERS, answer), acknowledgement=by)
    worded = {"topic": name, "key": text.encode(), "summary": text, "evidence": told, "status": status}
    job.find(shown_again(**worded))
    known = job.state.snapshot().findings
    job.state.update_findings(replace(known, error=text))
    at = AT
    job.record([progress(name, 0, n, observed_at=at, recorded_on=at.date()) for n in BROKERS])
    return job
