"""Makes the HTML of the status page and of reports from what the job knows. It asks no broker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from parallax.alerting.audited import last_audits
from parallax.alerting.blind import stopped
from parallax.alerting.leaders import may_lead
from parallax.alerting.page import glance
from parallax.alerting.page.glance import Partition, State
from parallax.alerting.page.lanes_over_time import LEGEND as OVER_TIME_LEGEND
from parallax.alerting.page.lanes_over_time import Drawn
from parallax.alerting.page.life import moments, phases
from parallax.alerting.page.offset_lanes import LEGEND, drawn_lanes
from parallax.alerting.page.topic_map import Topic, topic_map
from parallax.alerting.page.versions import Versions, of_evidence
from parallax.alerting.starting import Stage
from parallax.alerting.state import Snapshot
from parallax.alerting.status import Condition, Status
from parallax.alerting.unknown import words as reason_words
from parallax.counts import agreed, counted
from parallax.findings.explain import explain, runbook_of
from parallax.findings.finding import Finding, asked_at, evidence_of, shown_offset
from parallax.findings.happenings import AskedAgain
from parallax.findings.in_brief import seen, seen_counts
from parallax.findings.incident import group_of, tally_of
from parallax.findings.report import NO_FACTS, OVER, Facts, key_text, sections
from parallax.findings.side_by_side import answers_of
from parallax.findings.summary import asked_in_words, counted_in_words
from parallax.guard.words import audit_in_words, in_words, late_in_short, late_in_words, summed, unwatched_in_words
from parallax.model import FindingStatus, TopicPartition
from parallax.moments import roughly
from parallax.runbook import RUNBOOK
from parallax.shell import ANYWHERE, Shell
from parallax.views.pause import in_words as paused_in_words

PER_PAGE = 100
TOPICS_PER_PAGE = 300
TOPICS_IN_WORDS = 20
"""How many topics that need somebody are put in words. With more, the table shows only signs and colours."""
MOST_FINDINGS = 100
_SIGNS = {
    State.DIVERGED: "✗",
    State.UNAUTHORIZED: "⊘",
    State.UNREACHABLE: "↯",
    State.BEHIND: "…",
    State.UNKNOWN: "?",
    State.LOADING: "↻",
    State.NOT_FULLY_COMPARED: "◐",
    State.CONSISTENT: "✓",
}
"""The signs of states. Each state is shown by a word, a sign and a colour."""
_MARKS = {
    Condition.FINDINGS: "✗",
    Condition.UNKNOWN: "?",
    Condition.STARTING: "↻",
    Condition.AGREE_IN_PART: "◐",
    Condition.AGREE: "✓",
}
"""The signs of the cluster's conditions."""
_STAGES = {Stage.DONE: "✓", Stage.UNDER_WAY: "↻", Stage.TO_COME: "○"}
"""The signs of how far a step of the start is."""


_environment = Environment(
    loader=PackageLoader("parallax.alerting.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
Row = TypeVar("Row", Topic, Partition, Finding)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of a long table a user wants to see. It is read from the address of the page.

    Attributes:
        name: rows are wanted whose name contains this text; empty for all.
        state: rows are wanted that have this state; empty for all.
        page: number of the page of the table, from 1.
    """

    name: str = ""
    state: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str], states: Collection[str] = tuple(State)) -> Wanted:
        """Read from the parameters of a page's address which rows are wanted.

        A parameter without a meaning is ignored, e.g. ``page=x``.

        Args:
            query: the parameters of the address.
            states: the states that rows of the table may have.
        """
        page = query.get("page", "1")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) < 7 else 1
        state = query.get("state", "")
        return cls(query.get("name", "").strip()[:249], state if state in states else "", max(1, number))


@dataclass(frozen=True, slots=True)
class Shown(Generic[Row]):
    """One page of a table with many rows, after the search.

    Attributes:
        rows: the rows on this page.
        total: how many rows the search has found on all pages.
        page: the number of this page, from 1.
        name: the text that was searched for; empty if none was.
        state: the state that was asked for; empty if none was.
        per_page: the most rows on a page.
        next: the first row of the next page; None if this page is the last.
    """

    rows: Sequence[Row]
    total: int
    page: int
    name: str
    state: str
    per_page: int = PER_PAGE
    next: Row | None = None

    @property
    def pages(self) -> int:
        """How many pages the table has."""
        return max(1, -(-self.total // self.per_page))

    @property
    def first(self) -> int:
        """Number of the first row on the page, from 1."""
        return (self.page - 1) * self.per_page + 1

    @property
    def last(self) -> int:
        """Number of the last row on the page."""
        return self.first + len(self.rows) - 1

    def link(self, page: int) -> str:
        """The address of the page with the number ``page`` of the same table, with the same search."""
        given = {"name": self.name, "state": self.state, "page": str(page)}
        return "?" + urlencode({name: value for name, value in given.items() if value})


def shown(rows: Sequence[Row], wanted: Wanted, name_of: Callable[[Row], str], per_page: int = PER_PAGE) -> Shown[Row]:
    """The page of a table that the user wants: rows that match the search, as many as fit.

    Args:
        rows: all rows of the table.
        wanted: what the user searches for, and which page of it.
        name_of: gives the text of a row in which the name is searched.
        per_page: the most rows on a page.
    """
    found = [
        row
        for row in rows
        if wanted.name.lower() in name_of(row).lower() and (not wanted.state or wanted.state in _states_of(row))
    ]
    page = min(wanted.page, max(1, -(-len(found) // per_page)))
    first, end = (page - 1) * per_page, page * per_page
    following = found[end] if end < len(found) else None
    return Shown(found[first:end], len(found), page, wanted.name, wanted.state, per_page, following)


def _searched(finding: Finding) -> str:
    """Where a search among findings looks: partition, kind, broker, id and key."""
    kind = str(finding.kind).replace("_", " ")
    place = f"{finding.topic}-{finding.partition}"
    return f"{place} {kind} {finding.kind} broker {finding.broker} {finding.finding_id} {key_text(finding) or ''}"


def _states_of(row: Topic | Partition | Finding) -> Collection[str]:
    if isinstance(row, Finding):
        return {row.status}
    if isinstance(row, Topic):
        return row.states
    return {replica.state for replica in row.replicas.values()}


class Renderer:
    """Makes the HTML pages of one job.

    Args:
        cluster: the cluster's name for people.
        runbook: address of the runbook.
        live: whether the pages are served by a running job; False for a report in a file.
        shell: how printed commands name the cluster and the job.
    """

    def __init__(
        self, cluster: str = "", runbook: str = RUNBOOK, *, live: bool = True, shell: Shell = ANYWHERE
    ) -> None:
        self._shell = shell
        self._runbook = runbook
        self._common: dict[str, Any] = {
            "cluster": cluster,
            "live": live,
            "signs": _SIGNS,
            "reason_words": reason_words,
            "seen": seen,
            "over_time_legend": OVER_TIME_LEGEND,
            "words": lambda text: str(text).replace("_", " "),
            "run": shell.parallax,
            "topic_link": lambda topic: f"/topics/{quote(topic, safe='')}",
            "partition_link": lambda place: f"/topics/{quote(place.topic, safe='')}/{place.partition}",
            "mark": lambda status: _MARKS[status.condition],
            "stages": _STAGES,
            "at": lambda seconds: datetime.fromtimestamp(seconds, UTC),
            "loading": "not known yet: it is being loaded",
            "roughly": roughly,
            "finding_link": lambda finding: f"/findings/{finding.finding_id}",
        }

    def page(self, template: str, **values: Any) -> str:
        """The HTML of one whole page.

        Args:
            template: the name of the template.
            **values: the values that it shows, by name in the template.
        """
        return _environment.get_template(template).render(**self._common, now=datetime.now(UTC), **values)

    def overview(self, snapshot: Snapshot, status: Status, wanted: Wanted) -> str:
        """The HTML of the first page: the cluster's status, the open findings, and the table of topics."""
        topics = topic_map(glance.verdicts(snapshot))
        standing = glance.standing_findings(snapshot)
        heartbeat = snapshot.heartbeat
        return self.page(
            "overview.html",
            status=status,
            taken_at=snapshot.taken_at,
            findings=[f for f in standing if f.is_open],
            acknowledged=[f for f in standing if not f.is_open],
            loaded=snapshot.findings_loaded,
            compared_any=bool(snapshot.coverage),
            most=MOST_FINDINGS,
            more_findings=counted(sum(f.is_open for f in standing) - MOST_FINDINGS, "more finding"),
            states=topics.states,
            unknown=topics.unknown,
            pending=sum(snapshot.findings.pending.values()),
            compared="" if heartbeat is None else f"{max(0.0, snapshot.taken_at - heartbeat):.0f} s ago",
            refused=glance.refused_topics(snapshot),
            held=", ".join(f"{hold.topic} ({hold.phase})" for hold in snapshot.guard.holds[:PER_PAGE])
            if snapshot.guard
            else "",
            not_held=", ".join(f"{event.topic} ({event.kind})" for event in snapshot.guard.refused[:PER_PAGE])
            if snapshot.guard
            else "",
            absences=summed(snapshot.absences, snapshot.taken_at),
            late=late_in_words(snapshot.absences.late, snapshot.audits_at, snapshot.taken_at, snapshot.shell),
            unwatched=unwatched_in_words(snapshot.absences.unwatched, is_audited=snapshot.audits_at is not None),
            paused=paused_in_words(snapshot.paused),
            brokers=topics.brokers,
            in_words=TOPICS_IN_WORDS,
            not_known=glance.NOT_KNOWN,
            stopped=stopped(snapshot),
            table=shown(topics.topics, wanted, lambda topic: topic.name, TOPICS_PER_PAGE),
        )

    def findings(self, known: Iterable[Finding], status: Status, wanted: Wanted) -> str:
        """The HTML of the table of all findings, the newest first, also those that are over.

        Dismissed ones are included only if the user asks for that state.
        """
        listed = [f for f in known if f.status is not FindingStatus.DISMISSED or wanted.state == f.status]
        listed.sort(key=lambda finding: finding.decided_at, reverse=True)
        return self.page(
            "findings.html",
            status=status,
            statuses=tuple(FindingStatus),
            table=shown(listed, wanted, _searched),
        )

    def topic(self, snapshot: Snapshot, status: Status, topic: str, wanted: Wanted) -> str | None:
        """The HTML of a topic's page: the cluster's status and the table of partitions.

        None if no partition is known.
        """
        partitions = glance.partitions(snapshot, topic)
        if not partitions:
            return None
        return self.page(
            "topic.html",
            topic=topic,
            status=status,
            brokers=sorted({broker for one in partitions for broker in one.replicas}),
            table=shown(partitions, wanted, lambda one: str(one.place.partition)),
        )

    def partition(
        self, snapshot: Snapshot, status: Status, place: TopicPartition, over_time: Drawn | None, timeline_error: str
    ) -> str | None:
        """The HTML of a partition's page; None if the partition is not known.

        Args:
            snapshot: what the job knows.
            status: the cluster's status.
            place: the partition.
            over_time: the drawing of the last hour; None if there is none.
            timeline_error: why there is none; empty if the recorded progress could be read.
        """
        found = [one for one in glance.partitions(snapshot, place.topic) if one.place == place]
        if not found:
            return None
        return self.page(
            "partition.html",
            status=status,
            one=found[0],
            leads=may_lead(snapshot).get(place, {}),
            lanes=drawn_lanes(found[0]),
            lanes_legend=LEGEND,
            audit=audit.in_words if (audit := last_audits(snapshot).get(place)) else "",
            absence_in_words=lambda absence: in_words(absence, snapshot.taken_at),
            late_in_short=late_in_short,
            audit_of_late=audit_in_words([place], snapshot.audits_at, snapshot.taken_at, snapshot.shell),
            over_time=over_time,
            timeline_error=timeline_error,
        )

    def finding(
        self,
        finding: Finding,
        events: Sequence[Finding],
        standing: Iterable[Finding],
        on_record: Facts,
        status: Status,
        *,
        token: str,
        user: str,
        problem: str = "",
        said: str = "",
        again: AskedAgain | None = None,
        can_ask: bool = False,
    ) -> str:
        """The HTML of a finding's page with its evidence, and with forms to act on it.

        Args:
            finding: the finding's last event.
            events: all its events.
            standing: the findings that are not over.
            on_record: what tables other than the findings table say about it.
            status: the cluster's status.
            token: the secret text for the forms; empty leaves the forms out.
            user: who is logged in, as the page names this person.
            problem: why the form that was just sent was refused; empty if none was.
            said: what the person had written in that form, so that it need not be written again.
            again: what the replicas answered when they were last probed again; None if they were not.
            can_ask: whether the page may offer to ask the brokers for the finding's records.
        """
        values = finding_values(finding, events, standing, self._runbook, on_record, self._shell)
        values["again"] = "" if again is None else again.in_words
        given = {"token": token, "user": user, "problem": problem, "said": said, "can_ask": can_ask}
        return self.page("finding.html", **values, **given, status=status)

    def asked(
        self, finding: Finding, found: Sequence[Versions], problem: str, status: Status, *, token: str, asked_s: float
    ) -> str:
        """The HTML page of what brokers have just answered to a user who asked for a finding's records.

        Args:
            finding: the finding that was asked about.
            found: for each offset, the record as each broker has it.
            problem: why nothing was found; empty if something was.
            status: the cluster's status.
            token: the secret text for the form that asks again.
            asked_s: when brokers were asked, seconds since 1970 UTC.
        """
        given = {"versions": found, "problem": problem, "token": token, "asked_s": asked_s}
        return self.page("asked.html", finding=finding, status=status, **given)


def report(reported: Sequence[Mapping[str, Any]], cluster: str = "") -> str:
    """The HTML of a report that a ticket can hold: one file, which loads nothing from elsewhere.

    Args:
        reported: for each finding what `finding_values` returns, and its drawing as ``over_time``. Findings that are
            not over come first.
        cluster: the cluster's name for people.
    """
    style = Markup((files("parallax.alerting.page") / "static" / "page.css").read_text(encoding="utf-8"))  # noqa: S704
    findings = [one["finding"] for one in reported]
    summary = {
        "Findings": f"{len(findings):,}",
        "Open": f"{sum(f.is_open for f in findings):,}",
        **{words.capitalize(): f"{n:,}" for words, n in seen_counts(f for f in findings if f.is_open).items()},
        "Acknowledged": f"{sum(f.stands and not f.is_open for f in findings):,}",
        "Over": f"{sum(not f.stands for f in findings):,}",
        "Partitions": f"{len({f.place for f in findings}):,}",
    }
    return Renderer(cluster, live=False).page("report.html", reported=reported, summary=summary, style=style)


def finding_values(
    finding: Finding,
    events: Sequence[Finding],
    standing: Iterable[Finding],
    runbook: str = RUNBOOK,
    on_record: Facts = NO_FACTS,
    shell: Shell = ANYWHERE,
    asked_on: str = "",
) -> dict[str, Any]:
    """Everything that a page or a report shows about a finding, by name in the template finding_body.html.

    Args:
        finding: the finding's last event.
        events: all events of this finding; there may be events of other findings among them.
        standing: the last events of all findings. The advice takes other open findings of the partition into account.
        runbook: the address of the runbook, or its path.
        on_record: what tables other than the findings table say about the finding.
        shell: how printed commands name the cluster and the job.
        asked_on: a text to add after the time of the last probe, if the finding is open or acknowledged.
    """
    explained = replace(explain(finding, standing, shell), runbook=runbook_of(finding, runbook))
    if asked_on and finding.stands:
        explained = replace(explained, asked=f"{explained.asked} {asked_on}")
    count = f"{tally_of(finding).count:,}" if finding.is_incident else None
    mine = [event for event in events if event.finding_id == finding.finding_id]
    versions, more = of_evidence(finding)
    return {
        "finding": finding,
        "moments": moments(mine),
        "phases": phases(mine),
        "versions": versions,
        "more_versions": f"{counted(more, 'more offset')} {agreed(more, 'is', 'are')} in the evidence." if more else "",
        "explained": explained,
        "sections": sections(finding, explained, on_record),
        "answers": answers_of(evidence_of(finding)),
        "asked": asked_in_words(asked_at(finding)),
        "over": "" if finding.stands else OVER,
        "facts": {
            "First suspected": f"{finding.first_suspected_at:%Y-%m-%d %H:%M:%S} UTC",
            "Offset of the record": None if finding.is_incident else shown_offset(finding),
            "Key": key_text(finding),
            counted_in_words(group_of(finding)).capitalize(): count,
            "Producer id": None if finding.producer_id < 0 else finding.producer_id,
        },
    }
