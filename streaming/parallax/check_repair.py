"""A part of ``parallax check``: which repairs are not over, and which permissions repairs have."""

from __future__ import annotations

from collections.abc import Iterator

from parallax.check_line import Line, Result
from parallax.config import Settings
from parallax.errors import one_line
from parallax.repair.owner import phase_in_words
from parallax.repair.record import Phase
from parallax.repair.table import read_record
from parallax.replica.changes import MARKER_RIGHTS, MOVE_RIGHTS, RATE_RIGHT, MayRepair
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.views.event_log import EventLogError

_ABOUT = "repair"


def repairs(client: ReplicaClient, settings: Settings) -> Iterator[Line]:
    """Yield a line for each repair that is not over, and one on the permissions that repairs need.

    If ``repair.mode`` is ``off``, the line on permissions is left out.
    """
    try:
        record = read_record(settings.storage.path)
    except EventLogError as error:
        yield Line(_ABOUT, Result.UNKNOWN, f"what is being repaired is not known ({one_line(error)}).")
    else:
        for one in record.repairs.values():
            if one.is_open:
                what = (
                    f"a repair of {one.place.name} is {phase_in_words(one)}{f' ({one.reason})' if one.reason else ''}"
                )
                undo = f"`parallax repair undo {one.repair_id[:8]}`"
                how = f"by {undo}"
                if one.phase is not Phase.UNDOING:
                    how = f"by `parallax repair resume {one.repair_id[:8]}`, or give it up {how}"
                yield Line(_ABOUT, Result.NOTE, f"{what}; go on with it {how}.")
    if settings.repair.mode == "off":
        return
    try:
        may = client.may_repair()
    except ReplicaError as error:
        yield Line(_ABOUT, Result.UNKNOWN, f"what it may do could not be asked ({one_line(error)}).")
        return
    yield _rights(may)


def _rights(may: MayRepair | None) -> Line:
    """What a user with these permissions can repair."""
    if may is None:
        problem = f"whether {MARKER_RIGHTS} is granted is not known: grant DESCRIBE on the cluster as well"
        return Line(_ABOUT, Result.UNKNOWN, f"repair.mode is on. {problem}.")
    if not (may.mark or may.move):
        return Line(_ABOUT, Result.WRONG, f"repair.mode is on. {MARKER_RIGHTS} is missing: nothing can be repaired.")
    missing = [] if may.mark else [f"to write end markers, {MARKER_RIGHTS} is missing"]
    if not may.move:
        missing.append(f"to copy, or to move leadership, {MOVE_RIGHTS} is missing")
    elif not may.rates:
        missing.append(f"to copy where a replication throttle is set, {RATE_RIGHT} is missing")
    if missing:
        return Line(_ABOUT, Result.NOTE, f"repair.mode is on: {'; '.join(missing)}.")
    return Line(_ABOUT, Result.FINE, "repair.mode is on, and it has its rights on the cluster.")


__all__ = ["repairs"]
