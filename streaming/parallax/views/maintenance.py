"""Upkeep of the tables: few large files instead of many small ones, old rows dropped, a short transaction log.

Nothing here conflicts with the queries that append, or breaks the comparison, which reads the tables as a stream:

- Compaction commits ``dataChange = false``. The comparison passes over that, as Delta's streaming reader does. Appends
  conflict with nothing.
- Retention drops whole dates (partition ``recorded_on``). That is a delete of metadata at partition boundaries. A
  reader with ``ignoreDeletes`` or ``skipChangeCommits`` passes over it.
- Sharing (`parallax.views.sharing`) commits ``dataChange = false`` too, and the rows that are read stay the same.
- So does `parallax.views.unkept`, which takes out rows that the comparison has done with.
- Files and log entries that are no longer current stay for ``KEPT``, so a reader may be behind by that much. Files that
  a failed Spark task left, and that are in no commit, stay as long. If the comparison is further behind, the files that
  it needs stay for ``LONGEST`` at most (`parallax.views.commits.Followed`).

delta-rs does all of it, as it does the appends. On an object store two libraries that commit to one table without a
shared protocol lose commits.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from parallax import moments
from parallax.config import StorageSettings
from parallax.errors import one_line
from parallax.model import ReadEvent, TopicPartition
from parallax.source.schema import VIEW
from parallax.views import fencing, order
from parallax.views.appending import add, written
from parallax.views.blocks import Blocks
from parallax.views.commits import Followed, TableLog
from parallax.views.compaction import compact
from parallax.views.parquet import BROKER
from parallax.views.positions import last_rows, open_table, position_rows
from parallax.views.settled import Settled
from parallax.views.shared import borrowed_on
from parallax.views.sharing import Saved, share
from parallax.views.tables import PROGRESS, RECORDED_ON, VIEWS, TableSize, rust_uri
from parallax.views.unkept import Looked, drop_agreed
from parallax.views.unused import remove_unused

log = structlog.get_logger(__name__)

KEPT = timedelta(hours=2)
"""How long a file stays after compaction replaced it, and a log entry after a checkpoint covers it."""

LONGEST = timedelta(hours=24)
"""How old the oldest commit that the comparison has not read may become. Its files are kept until then."""

_BEHIND = timedelta(hours=1)
"""A comparison that is less behind than this needs no files to be kept. They stay anyway."""


class Maintenance:
    """Does the upkeep of all tables at regular times, in a thread of its own.

    Args:
        settings: where the tables are, how often there is upkeep, and how long rows stay.
        on_done: called after each table's upkeep, with the table's name, and how many files and bytes it has then. None
            takes the place of the second if the upkeep failed.
        others: by name, the upkeep of other tables; each is called with the storage path and the oldest date to keep.
        followed: called with the storage path; returns by table name how far the comparison has read each table.
        on_shared: called with the name of a view and what was taken out of it, if ``storage.record`` is not ``rows``.
        compared: returns the partitions in which nothing is open, or None as long as that is not known. Rows of all
            others stay.
    """

    def __init__(
        self,
        settings: StorageSettings,
        on_done: Callable[[str, TableSize | None], None] | None = None,
        others: Mapping[str, Callable[[str, date], object]] | None = None,
        followed: Callable[[str], Mapping[str, Followed]] = lambda _: {},
        on_shared: Callable[[str, Saved], None] = lambda _, __: None,
        compared: Callable[[], Mapping[TopicPartition, Settled] | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._others = others or {}
        self._followed = followed
        self._began_s = time.monotonic()
        self._on_done = on_done or (lambda _, __: None)
        self._on_shared = on_shared
        self._compared = compared
        self._looked: dict[str, Looked] = {name: {} for name in VIEWS}
        self._passed = {name: set[date]() for name in VIEWS}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that runs the upkeep of the tables at each interval.

        The first run comes after one interval.
        """
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the timer of the upkeep, and wait for a run that is going on.

        If the run lasts longer than this waits, it goes on in its thread.

        Args:
            timeout_s: how many seconds to wait, at most.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def run_once(self, today: date | None = None) -> None:
        """Do the upkeep of every table once.

        If it fails for a table, that is logged, and the upkeep of the other tables goes on.

        Args:
            today: the date from which the age of rows is counted; None for the present one.
        """
        storage = self._settings.path
        now = datetime.now(UTC) if today is None else datetime.combine(today, datetime.min.time(), UTC)
        oldest = oldest_kept(now.date(), self._settings.retention_hours)
        settled = (now - timedelta(hours=self._settings.settled_hours)).date()
        for name in (*VIEWS, PROGRESS):
            if self._stop.is_set():
                return  # Spark is being stopped: what fails then says nothing of the table
            try:
                self._look_after(storage, name, oldest, settled)
                size: TableSize | None = size_of(storage, name)
            except Exception as error:  # noqa: BLE001 - upkeep that fails once is tried again; the job goes on
                if self._stop.is_set():
                    return
                log.warning("upkeep failed; it is tried again", table=name, error=one_line(error))
                size = None
            self._on_done(name, size)
        for name, look_after in self._others.items():
            if self._stop.is_set():
                return
            try:
                look_after(storage, oldest)
            except Exception as error:  # noqa: BLE001 - as above
                log.warning("upkeep failed; it is tried again", table=name, error=one_line(error))

    def _run(self) -> None:
        while not self._stop.wait(self._settings.maintenance_interval_s):
            self.run_once()

    def _reduce(self, storage: str, name: str, settled: date) -> None:
        """Take rows out that replicas show alike, of dates that have ended before ``settled`` began."""
        pattern = re.compile(self._settings.differing_topics)

        def is_chosen(topic: str) -> bool:
            return pattern.fullmatch(topic) is not None

        if self._settings.record == "blocks":
            dropped = drop_agreed(storage, name, is_chosen, self._compared, settled, self._looked[name])
            if dropped is None:
                return  # What is shared now would have no other chance.
            self._tell("rows that all replicas show alike are not kept", name, dropped)
            # One view borrows of the other, so what waits in either is shared in neither.
            settled = min([settled, *(on for its in self._looked.values() for on, waits in its.items() if waits)])
        saved = share(storage, name, is_chosen, settled, self._passed[name])
        self._tell("rows that replicas show alike are stored once", name, saved)

    def _tell(self, what: str, name: str, saved: Saved) -> None:
        if saved.rows:
            log.info(what, table=name, rows=saved.rows, bytes=saved.size)
            self._on_shared(name, saved)

    def _look_after(self, storage: str, name: str, oldest: date, settled: date) -> None:
        if drop_older(storage, name, oldest):
            log.info("old rows were dropped (storage.retention_hours)", table=name, before=oldest.isoformat())
        compact(storage, name)
        if name in VIEWS and self._settings.record != "rows":
            self._reduce(storage, name, settled)
        followed = self._followed(storage).get(name)
        age_s = None if followed is None else self._behind_s(storage, name, followed)
        kept_s = KEPT.total_seconds()
        if followed is None or age_s is None:
            remove_unused(rust_uri(storage, name), int(kept_s // 3600), full=True)
            shorten_log(storage, name)
            return
        # A file is older than its commit, by a micro-batch.
        hours, versions = math.ceil((age_s + kept_s) / 3600), [followed.version] * followed.is_standing
        remove_unused(rust_uri(storage, name), hours, full=True, versions=versions)
        open_table(storage, name).create_checkpoint()
        TableLog(storage, name).shorten(followed.version, time.time() - kept_s)

    def _behind_s(self, storage: str, name: str, followed: Followed) -> float | None:
        """The age, in seconds, of the first commit that a follower still needs; None if nothing is kept for it."""
        first = followed.version if followed.is_standing else followed.version + 1
        written_at = TableLog(storage, name).written_at(first)
        if written_at is None:
            return None  # not made yet; or it is too late
        age_s = time.time() - written_at
        if age_s <= _BEHIND.total_seconds():
            return None
        hours = round(age_s / 3600, 1)
        # A job that was stopped for days begins with what it left.
        if min(age_s, time.monotonic() - self._began_s) > LONGEST.total_seconds():
            log.warning(
                "the comparison is too far behind: what it needs is kept no longer, and it begins again",
                table=name,
                behind_h=hours,
            )
            return None
        log.info("files are kept for the comparison, which is behind", table=name, behind_h=hours)
        return age_s


def size_of(storage: str, name: str) -> TableSize:
    """How many files a table consists of, and how many bytes these have.

    Args:
        storage: ``storage.path``.
        name: name of the table.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
    """
    sizes: Any = pa.table(open_table(storage, name).get_add_actions(flatten=True))["size_bytes"]
    return TableSize(len(sizes), int(pc.sum(sizes).as_py() or 0))


def oldest_kept(today: date, retention_hours: float) -> date:
    """The oldest date whose rows are kept: retention drops all dates before it.

    Args:
        today: the age of rows is counted from the beginning of this day.
        retention_hours: ``storage.retention_hours``.
    """
    return today - timedelta(days=-(-retention_hours // 24))


def drop_older(storage: str, name: str, oldest: date) -> bool:
    """Drop all rows of dates before ``oldest`` from a table.

    The last position of a reader that has been idle since then is recorded again, so that the reader goes on there.

    Args:
        storage: ``storage.path``.
        name: name of the table.
        oldest: the oldest date that stays. Older ones stay of which another table borrows rows.

    Returns:
        Whether there were rows to drop.
    """
    table = open_table(storage, name)
    dates = {p.get(RECORDED_ON) for p in table.partitions()}
    # What is lent to another table stays until that has dropped its own.
    oldest = min([oldest, *map(date.fromisoformat, borrowed_on(storage, name))])
    if not any(text is not None and date.fromisoformat(str(text)) < oldest for text in dates):
        return False
    if name in VIEWS:
        _carry_positions(storage, name, table, oldest)
    fencing.commit(
        lambda: open_table(storage, name),
        lambda newest, properties: newest.delete(
            f"{RECORDED_ON} < '{oldest.isoformat()}'", commit_properties=properties
        ),
    )
    return True


def _carry_positions(storage: str, name: str, table: Any, oldest: date) -> None:
    """Record again, under today's date, the positions that would be dropped with the old dates.

    They get the commit time of the rows that they repeat (`parallax.views.order`), so rows that a reader records
    meanwhile come after them. Positions of a topic that was deleted, or has a successor of its name, are left out.
    Otherwise the row of the old topic would be the last of its reader, and set it back.
    """
    files = order.files_of(table)
    rows = position_rows(table, VIEW.names, files)
    is_old = pc.less(rows[RECORDED_ON], _day(oldest))
    old, young = rows.filter(is_old), rows.filter(pc.invert(is_old))
    busy, ids = set(last_rows(young)), _topic_ids(rows)
    last = {reader: row for reader, row in last_rows(old).items() if reader not in busy}
    told = dict(zip(last, old["position"].take(list(last.values())).to_pylist(), strict=True)) if last else {}
    idle = [
        row
        for reader, row in last.items()
        if told[reader]["event"] != ReadEvent.TOPIC_DELETED
        and told[reader]["topic_id"] in (None, "", ids.get(reader[0]))
    ]
    if idle:
        dates: Any = files[f"partition.{RECORDED_ON}"]
        at_ms = order.last_of(files.filter(pc.less(dates, _day(oldest))))
        carried, recorded_on, actions = old.take(idle), moments.today(), []
        for broker in sorted(set(carried[BROKER].to_pylist())):
            its = carried.filter(pc.equal(carried[BROKER], broker))
            places = map(TopicPartition, its["topic"].to_pylist(), its["partition"].to_pylist())
            values = {BROKER: str(broker), RECORDED_ON: recorded_on}
            actions.append(written(storage, name, its, values, at_ms, Blocks.of_positions(places).told()))
        fencing.commit(lambda: open_table(storage, name), add(actions, [BROKER, RECORDED_ON]))


def _day(of: date) -> Any:
    return pa.scalar(of, pa.date32())


def _topic_ids(rows: Any) -> dict[str, str]:
    """The newest id of each topic, by name, from position rows."""
    ids: Any = pc.struct_field(rows["position"], "topic_id")
    known: Any = pa.table({"topic": rows["topic"], "id": ids})
    told = known.filter(pc.field("id") != "")  # A comparison with null keeps no row.
    return dict(zip(told["topic"].to_pylist(), told["id"].to_pylist(), strict=True))


def shorten_log(storage: str, name: str) -> None:
    """Write a checkpoint of a table's log, and delete entries older than ``delta.logRetentionDuration``.

    Each commit lists the log's folder, and an always-on job makes some commits a second. Spark's own clean-up deletes
    whole days only. By then a listing takes longer than a micro-batch. delta-rs deletes by the duration.

    Args:
        storage: ``storage.path``.
        name: name of the table.
    """
    table = open_table(storage, name)
    table.create_checkpoint()
    table.cleanup_metadata()


__all__ = ["KEPT", "LONGEST", "Maintenance", "drop_older", "oldest_kept", "shorten_log"]
