"""``parallax demo``: plays five divergences and a healthy control on three brokers, and checks what a job finds.

The job is the same as that of ``parallax run``. The demo plays the scenarios, watches, and compares the findings with
the divergences that it made.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import structlog
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from parallax.config import ConfigError, Settings, validate
from parallax.demo_repair import Mended, mend
from parallax.findings.finding import Finding, current
from parallax.findings.report import as_document, key_text
from parallax.findings.table import FindingsTableError, read_events
from parallax.guard.command import read_record
from parallax.guard.holds import SETTINGS, Event, EventKind, open_holds
from parallax.guard.table import GuardTable
from parallax.job import Job
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.named import SUMMARIES
from parallax.lab.scenarios import SCENARIOS, ExpectedFinding
from parallax.lab.scenarios.conductor import AwaitObserved
from parallax.lab.scenarios.guarded import GUARDED, HELD, OPEN
from parallax.lab.traffic import ProducerKind
from parallax.lab.waiting import until
from parallax.model import FindingStatus, IsolationLevel
from parallax.output import as_json
from parallax.output import console as console_of
from parallax.replica.client import ReplicaClient
from parallax.shell import Shell
from parallax.source.offsets import Reader
from parallax.views.binding import bound_to
from parallax.views.event_log import EventLogError

DIVERGING_PREFIX = "demo."
CONTROL_PREFIX = "control."
GUARD_PREFIX = "guard."
_POSITIONS_TITLE = "recorded up to: read_uncommitted / read_committed"
_FOUND_WITHIN_S = 60.0
_QUERY = """\
    SELECT offset, CAST(payload.key AS string) AS key, value_size FROM delta.`{table}`
    WHERE broker = 2 AND kind = 0 AND outcome <> 2 AND topic = '{topic}' ORDER BY offset"""
_QUIET_S = 5.0
"""How many seconds the job watches on after the last expected finding, for one that should not come."""


@dataclass
class Board:
    """The content of the demo's screen: a title and the events so far, with their times.

    The demo's threads add events, and the display draws them.

    Attributes:
        title: the title.
        started: when the demo began, in monotonic seconds.
        steps: the events in their order: how many seconds after ``started`` each was, and its text.
        lock: held while an event is added.
    """

    title: str
    started: float = field(default_factory=time.monotonic)
    steps: list[tuple[float, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, text: str) -> None:
        """Add the line ``text`` to the events on the screen, with the present time."""
        with self.lock:
            self.steps.append((time.monotonic() - self.started, text))


def run_demo(
    kafka_version: str,
    producer: ProducerKind,
    data: Path | None,
    picture: TextIO | None,
    *,
    stay: bool = False,
    guard: bool = False,
    repair: bool = False,
    output: str = "text",
) -> int:
    """Run the demo; returns the exit code: 0 if exactly the expected findings were confirmed, 1 if not.

    With ``repair`` it is 0 only if each divergence was repaired as well, and consumers of the broker that was wrong
    then get the right data. With ``guard`` it is 0 only if the guard held the right topics and put their settings back.

    Args:
        kafka_version: Kafka's version.
        producer: the client that writes transactions: ``legacy`` or ``java`` (`parallax.lab.traffic`).
        data: folder for the tables, which is kept; None for a new temporary folder.
        picture: stream to which an SVG of what the terminal showed is written.
        stay: leave brokers and job running until Ctrl+C, so that somebody can look at the status page.
        guard: play each script twice in one outage: on a topic that the job guards, and on one that it does not.
        repair: repair each finding; then let the broker that was wrong lead, and read from it as a consumer does.
        output: ``text`` or ``json``. With ``json``, a document comes at the end, and texts for people go to standard
            error.

    Raises:
        LabError: the brokers or a scenario failed.
        JobError: the job could not start.
        ConfigError: ``data`` is the storage of a job on another cluster.
    """
    if data is not None and bound_to(str(data)) is not None:
        raise ConfigError(f"--data: {data} is the storage of another job; give a new folder")
    is_json = output == "json"
    if guard:  # the board shows what it does and what is found
        quiet = [_not_told, *structlog.get_config()["processors"]]
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING), processors=quiet)
    if is_json:
        structlog.configure(logger_factory=lambda *_: structlog.WriteLogger(sys.stderr))
    console = console_of(
        sys.stderr if is_json else sys.stdout, record=picture is not None, width=132 if picture else None
    )
    folder = data or Path(tempfile.mkdtemp(prefix="parallax-demo-"))
    board = Board(f"Parallax demo: Kafka {kafka_version}, {producer} transactions")
    with _display(console, board) as show, Cluster(kafka_version, progress=board.say) as cluster:
        settings = demo_settings(cluster.bootstrap_servers, folder, guard=guard, repair=repair)
        job = Job(settings, board.say)
        show(job)
        watch = _GuardWatch(settings, board) if guard else None
        mended = Mended()
        try:
            job.start()
            expected = _play(cluster, job, producer, board) if watch is None else watch.play(cluster, job, producer)
            _await_findings(folder, expected, board)
            if watch is not None:
                watch.await_release()
            if repair:
                mend(cluster, settings, standing(folder), mended, board.say)
            if stay:
                _stay(job, board)
        finally:
            job.stop()
            if watch is not None:
                watch.stop()
        board.say("stopped")
    outcome = judge(expected, standing(folder))
    _report(console, outcome, board, folder, watch)
    mended.report(console)
    if is_json:
        held = {} if watch is None else {"held": watch.held, "not_as_it_should_be": watch.wrong}
        done = {"repaired": mended.repaired, "not_repaired": mended.wrong} if repair else {}
        print(as_json(_document(outcome, board, folder) | held | done))  # noqa: T201 - what the command is for
    if picture is not None:
        picture.write(console.export_svg(title="parallax demo"))
    wrong = mended.wrong if watch is None else watch.wrong
    return 0 if outcome.as_expected and not wrong else 1


def _not_told(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Leave out of the log what the board says in its own words."""
    if event.get("event") == "finding" or event.get("about") == "guard":
        raise structlog.DropEvent
    return event


def demo_settings(bootstrap_servers: str, folder: Path, *, guard: bool = False, repair: bool = False) -> Settings:
    """The settings of the demo's job.

    Args:
        bootstrap_servers: the lab's brokers.
        folder: the job's storage path.
        guard: whether a guard acts on some of the topics.
        repair: whether repairs are allowed.
    """
    guarded: dict[str, Any] = {
        "guard": {
            "mode": "act",
            "topics": [f"{GUARD_PREFIX}{HELD}{suffix}" for suffix in SCENARIOS["all"].scripts],
            # A day's outage in a minute: its topics keep tombstones for 20 s.
            "clock_skew_ms": 0,
            "settle_s": 5,
            "stagger_s": 0,
            "min_free_percent": 1,
        }
    }
    return validate(
        (guarded if guard else {})
        | ({"repair": {"mode": "on"}} if repair else {})
        | {
            "kafka": {"bootstrap.servers": bootstrap_servers},
            "topics": {"pattern": r"(demo|control|guard)\..*"},
            "storage": {"path": str(folder)},
            "read": {"payload": "key", "metadata_refresh_ms": 1000} | ({"progress_interval_ms": 1000} if guard else {}),
            "alerting": {"metrics_host": "127.0.0.1", "metrics_port": 0},
            # Its topics keep tombstones for less time than a micro-batch takes: all would be audited again and again.
            "audit": {"unread_delay_s": 0},
        },
        where="demo",
    )


def _recorded_by(job: Job) -> AwaitObserved:
    """Waits until the job has recorded what was written."""

    def await_observed(topic: str, offset: int, broker: int) -> None:
        until(
            lambda: job.has_recorded(topic, 0, broker, offset),
            f"the job to record {topic} of broker {broker} up to offset {offset}",
            timeout=60,
        )

    return await_observed


def _play(cluster: Cluster, job: Job, producer: ProducerKind, board: Board) -> Sequence[ExpectedFinding]:
    """Play the healthy control, then the divergences; each step waits until the job has recorded what was written."""
    for name, prefix in (("healthy", CONTROL_PREFIX), ("all", DIVERGING_PREFIX)):
        board.say(f"scenario {name}: {SUMMARIES[name]}")
        result = SCENARIOS[name].run(
            cluster, producer=producer, topic_prefix=prefix, say=board.say, await_observed=_recorded_by(job)
        )
        board.say(f"scenario {name} is on the brokers after {result.seconds['whole']:.0f} s")
    return result.expected


class _GuardWatch:
    """The scripts on topics that are held and on others; nothing waits for the guard, which is only watched.

    Attributes:
        held: topics that every broker has shown as held.
        wrong: what was not held, and whose settings are not as they were; a line for each.
    """

    def __init__(self, settings: Settings, board: Board) -> None:
        self._settings = settings
        self._board = board
        self._path = settings.storage.path
        self._before: dict[str, list[object]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="watch", daemon=True)
        self.held: list[str] = []
        self.wrong: list[str] = []

    def play(self, cluster: Cluster, job: Job, producer: ProducerKind) -> Sequence[ExpectedFinding]:
        """Play the scripts; gives what diverges of it."""
        self._board.say("five topics that a guard holds and five that it does not, one outage")
        self._thread.start()
        observed = _recorded_by(job)

        def await_observed(topic: str, offset: int, broker: int) -> None:
            if topic not in self._before:  # before broker 2 goes: each script waits for what it has written first
                self._before[topic] = self._shown(topic)
            observed(topic, offset, broker)

        result = GUARDED.run(
            cluster, producer=producer, topic_prefix=GUARD_PREFIX, say=self._board.say, await_observed=await_observed
        )
        took = result.seconds["whole"]
        self._board.say(f"five have diverged, and the five that were held have not, after {took:.0f} s")
        return result.expected

    def await_release(self) -> None:
        """Wait until everything is put back, and compare the settings of all ten topics with what they were."""
        try:
            until(lambda: not open_holds(read_record(self._path)[0]), "the guard to put the settings back", timeout=60)
        except (LabError, EventLogError) as error:
            self._board.say(str(error))
        self.stop()
        names = [f"{GUARD_PREFIX}{half}{suffix}" for half in (OPEN, HELD) for suffix in SCENARIOS["all"].scripts]
        self.held = sorted({e.topic for e in read_record(self._path)[1] if e.kind is EventKind.HELD})
        different = [name for name in names if self._before.get(name) != self._shown(name)]
        self.wrong = [f"NOT HELD: {name}" for name in names if HELD in name and name not in self.held]
        self.wrong += [f"HELD, AND SHOULD NOT BE: {name}" for name in self.held if OPEN in name]
        self.wrong += [f"SETTINGS NOT AS THEY WERE: {name}" for name in different]
        alike = len(names) - len(different)
        self._board.say(f"settings compared on every broker: those of {alike} of {len(names)} topics are as they were")

    def stop(self) -> None:
        """Tell no more."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _shown(self, topic: str) -> list[object]:
        """The settings that the guard may touch, as each broker shows them; those that are away are left out."""
        with closing(ReplicaClient(self._settings.kafka)) as client:
            brokers = sorted(client.brokers())
            return [(broker, client.own_configs(broker, [topic], SETTINGS)[topic]) for broker in brokers]

    def _tell(self) -> None:
        """Say what the guard puts on record, as it does."""
        table: GuardTable | None = None
        is_last = False
        while not is_last:
            is_last = self._done.wait(0.5)
            try:
                table = table or GuardTable(self._path, create=False)
                for event in table.news():
                    self._say(event)
            except EventLogError:
                continue  # it makes the table with its first event

    def _say(self, event: Event) -> None:
        if event.kind is EventKind.HELD:
            what = "tombstones and end markers are kept for longer" if event.level == 1 else "nothing of it is cleaned"
            self._board.say(f"HELD {event.topic}: {what}")
        elif event.kind is EventKind.RELEASED:
            self._board.say(f"RELEASED {event.topic}: its settings are put back")
        elif event.kind in (EventKind.REFUSED, EventKind.OVERRULED, EventKind.ABANDONED):
            self._board.say(f"{event.kind} {event.topic}: {event.reason}")


def _await_findings(folder: Path, expected: Sequence[ExpectedFinding], board: Board) -> None:
    """Wait until the expected findings are open, then some more for any that is not expected."""

    def all_found() -> bool:
        return judge(expected, standing(folder)).missing == ()

    try:
        until(all_found, "the expected findings", timeout=_FOUND_WITHIN_S, interval=0.3)
    except LabError as error:
        board.say(str(error))
        return
    board.say(f"all expected findings are confirmed; watching {_QUIET_S:.0f} s more for any that should not come")
    time.sleep(_QUIET_S)


def _stay(job: Job, board: Board) -> None:
    board.say(f"the status page is at http://127.0.0.1:{job.metrics_port}/; Ctrl+C ends the demo")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


# --- what was found against what was made ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """An expected finding together with the confirmed finding that matches it."""

    expected: ExpectedFinding
    finding: Finding

    @property
    def seconds(self) -> float:
        """How many seconds the job took to confirm the finding.

        The time begins when the broker could first be read to show the divergence.
        """
        return max(0.0, self.finding.decided_at.timestamp() - self.expected.readable_at)


@dataclass(frozen=True)
class Outcome:
    """The result of the demo.

    Attributes:
        matches: the expected findings that were confirmed.
        missing: the expected findings that were not confirmed.
        unexpected: the confirmed findings that nobody expected.
    """

    matches: tuple[Match, ...]
    missing: tuple[ExpectedFinding, ...]
    unexpected: tuple[Finding, ...]

    @property
    def as_expected(self) -> bool:
        """Whether exactly the expected findings were confirmed."""
        return not self.missing and not self.unexpected


def standing(folder: Path) -> list[Finding]:
    """All findings of the findings table, also those that are over, except dismissed ones; each as its last event.

    The list is empty while there is no table yet.

    Args:
        folder: the storage path of the demo's job.
    """
    try:
        events = read_events(str(folder))
    except FindingsTableError:
        return []
    return [finding for finding in current(events).values() if finding.status is not FindingStatus.DISMISSED]


def judge(expected: Sequence[ExpectedFinding], found: Sequence[Finding]) -> Outcome:
    """Match the confirmed findings with the expected ones.

    A finding matches if kind, topic, partition and broker are the same. It counts even if it is resolved by now,
    because compaction on the accused replica may have removed the last trace.

    Args:
        expected: the expected findings.
        found: the findings of the findings table; dismissed ones are ignored.
    """
    left = [finding for finding in found if finding.status is not FindingStatus.DISMISSED]
    matches, missing = [], []
    for wanted in expected:
        place = (wanted.kind, wanted.topic, wanted.partition, wanted.broker)
        match = next((f for f in left if (f.kind, f.topic, f.partition, f.broker) == place), None)
        if match is None:
            missing.append(wanted)
        else:
            left.remove(match)
            matches.append(Match(wanted, match))
    return Outcome(tuple(matches), tuple(missing), tuple(left))


# --- the screen -----------------------------------------------------------------------------------------------------


class _display:  # noqa: N801 - used like a function
    """A live screen on a terminal; plain lines, as they come, anywhere else."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._job: Job | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._lines, daemon=True)
        self._live = Live(get_renderable=self._screen, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Callable[[Job], None]:
        if self._console.is_terminal:
            self._live.start()
        else:
            self._thread.start()
        return self._show

    def _show(self, job: Job) -> None:
        self._job = job

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._console.is_terminal:
            self._live.stop()
            for line in self._board.steps:
                self._console.print(_step(*line))
        else:
            self._thread.join()

    def _lines(self) -> None:
        shown, reported = 0, set[tuple[str, str]]()
        while True:
            last = self._stop.is_set()
            while shown < len(self._board.steps):
                self._console.print(_step(*self._board.steps[shown]))
                shown += 1
            for finding in self._job.findings() if self._job else ():
                mark = (finding.finding_id, str(finding.kind))
                if finding.is_open and mark not in reported:
                    reported.add(mark)
                    at = time.monotonic() - self._board.started
                    self._console.print(_step(at, f"FOUND {finding.kind}: {finding.summary}"))
            if last:
                return
            self._stop.wait(0.25)

    def _screen(self) -> Any:
        steps = Group(*(_step(*line) for line in self._board.steps[-14:]))
        parts: list[Any] = [Panel(steps, title=self._board.title, title_align="left")]
        if self._job is not None:
            parts.append(_positions(self._job))
            parts.append(_found_table([f for f in self._job.findings() if f.is_open], title="findings so far"))
        return Group(*parts)


def _step(at: float, text: str) -> Text:
    style = (
        "bold red"
        if text.startswith("FOUND")
        else "bold green"
        if text.startswith(("HELD", "RELEASED", "REPAIRED"))
        else ""
    )
    return Text.assemble((f"{at:6.1f} s  ", "dim"), (text, style))


def _positions(job: Job) -> Table:
    """Return what each replica shows a consumer of either isolation level: how far it lets each read."""
    seen = job.positions()
    brokers = sorted({reader.broker for reader in seen})
    table = _table(_POSITIONS_TITLE, "partition", *(f"broker {b}" for b in brokers))
    for topic, partition in sorted({reader.place for reader in seen}):
        cells = []
        for broker in brokers:
            reads = [seen.get(Reader(int(level), broker, topic, partition)) for level in IsolationLevel]
            cells.append(" / ".join("-" if position is None else str(position.offset) for position in reads))
        table.add_row(f"{topic}-{partition}", *cells)
    return table


def _found_table(findings: Sequence[Finding], title: str) -> Table:
    table = _table(title, "kind", "partition", "broker")
    for finding in findings:
        table.add_row(*_place(finding))
    return table


def _place(finding: Finding) -> tuple[Text, str, str]:
    return Text(str(finding.kind), style="bold red"), f"{finding.topic}-{finding.partition}", str(finding.broker)


def _table(title: str, *columns: str) -> Table:
    """A table that shows all of its text: what is wider than its column goes on below."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


# --- the report -----------------------------------------------------------------------------------------------------


def _document(outcome: Outcome, board: Board, folder: Path) -> dict[str, Any]:
    """Give what `_report` says, for programs; findings as ``parallax findings --format json`` has them."""
    return {
        "as_expected": outcome.as_expected,
        "found": [as_document(match.finding) | {"found_in_s": match.seconds} for match in outcome.matches],
        "missing": [asdict(wanted) for wanted in outcome.missing],
        "unexpected": [as_document(finding) for finding in outcome.unexpected],
        "seconds": time.monotonic() - board.started,
        "data": folder,
    }


def _report(console: Console, outcome: Outcome, board: Board, folder: Path, watch: _GuardWatch | None = None) -> None:
    table = _table("confirmed findings", "kind", "partition", "broker", "key", "found in")
    for match in outcome.matches:
        key = key_text(match.finding) or match.expected.key
        table.add_row(*_place(match.finding), key, f"{match.seconds:.1f} s")
    console.print(table)
    for match in outcome.matches:
        console.print(Text.assemble((f"{match.finding.topic}: ", "bold"), match.finding.summary))
    for wanted in outcome.missing:
        console.print(Text(f"MISSED: {wanted.kind} on {wanted.topic}, broker {wanted.broker}", style="bold"))
    for finding in outcome.unexpected:
        console.print(Text(f"NOT EXPECTED: {finding.kind} on {finding.topic}: {finding.summary}", style="bold"))
    if outcome.matches:
        seconds = [match.seconds for match in outcome.matches]
        console.print(
            f"From readable on broker 2 to confirmed: median {median(seconds):.1f} s, longest {max(seconds):.1f} s; "
            f"the whole demo took {time.monotonic() - board.started:.0f} s."
        )
    spared = "none in the healthy control"
    if watch is not None:
        console.print(_side_by_side(outcome, watch))
        spared = "none on the five topics that were held"
        for line in watch.wrong:
            console.print(Text(line, style="bold"))
    verdict = f"exactly the expected divergences, and {spared}" if outcome.as_expected else "NOT as expected"
    console.print(f"{len(outcome.matches)} found: {verdict}.")
    console.print(f"The tables are in {folder}. The findings with their evidence:", soft_wrap=True)
    listed = Shell.of(None, data=str(folder)).parallax("findings", "--format", "json")
    console.print(f"    {listed}", soft_wrap=True)
    console.print("What a read_committed consumer of broker 2 would see of a topic (Spark SQL):", soft_wrap=True)
    topic = "demo.tombstone" if watch is None else f"{GUARD_PREFIX}{OPEN}tombstone"
    console.print(_QUERY.format(table=folder / "read_committed", topic=topic), soft_wrap=True)


def _side_by_side(outcome: Outcome, watch: _GuardWatch) -> Table:
    """What one outage did to topics of equal settings, of which a guard held one half."""
    found = [match.finding for match in outcome.matches] + list(outcome.unexpected)
    by_topic = {finding.topic: finding for finding in found}
    table = _table("one outage, equal settings", "script", "not held", "held by the guard")
    for suffix in SCENARIOS["all"].scripts:
        cells = []
        for half in (OPEN, HELD):
            topic = f"{GUARD_PREFIX}{half}{suffix}"
            finding = by_topic.get(topic)
            alike = Text("alike on all brokers" if half == OPEN or topic in watch.held else "NOT HELD")
            cells.append(
                alike if finding is None else Text(f"broker {finding.broker}: {finding.kind}", style="bold red")
            )
        table.add_row(suffix, *cells)
    return table


__all__ = ["Match", "Outcome", "demo_settings", "judge", "run_demo"]
