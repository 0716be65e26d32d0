"""Ticks of progress made of rows, for tests that say what each replica reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parallax.source.ticks import NONE_OPEN, NOT_ASKED, OFFSETS, SOME_OPEN, Layout, Row, Tick

_PROBLEMS: dict[object, int] = {}
"""Codes of why a replica was silent: no two have the same."""
_OF_REPLICAS = {*OFFSETS, "topic", "partition", "broker", "observed_at", "policy_at", "open_transactions", "reachable"}


def layout_of(rows: Sequence[Row]) -> Layout:
    """The layout that rows are of; what is said of the first replica of a partition counts for all."""
    first = {(row["topic"], row["partition"]): row for row in reversed(rows)}
    facts = {
        place: tuple((name, str(value)) for name, value in row.items() if name not in _OF_REPLICAS)
        for place, row in first.items()
    }
    replicas = {place: row["replicas"] or sorted(_brokers(rows, place)) for place, row in first.items()}
    return Layout(replicas, facts, {place: row["delete_retention_ms"] for place, row in first.items()})


def _brokers(rows: Sequence[Row], place: tuple[str, int]) -> set[int]:
    return {row["broker"] for row in rows if (row["topic"], row["partition"]) == place}


def tick_of(rows: Sequence[Row]) -> Tick:
    """The tick in which these rows were reported."""
    layout = layout_of(rows)

    def rows_of(at: Iterable[int]) -> list[Row]:
        wanted = {layout.places[i] for i in at}
        return sorted(
            (row for row in rows if (row["topic"], row["partition"]) in wanted),
            key=lambda row: (row["topic"], row["partition"], row["broker"]),
        )

    tick = Tick.blank(layout, rows_of)
    for row in rows:
        at = layout.places.located[row["topic"], row["partition"]]  # type: ignore[index]
        slot = layout.replicas[at].index(row["broker"])
        tick.observed_us[at, slot] = row["observed_at"]
        tick.reachable[at, slot] = row["reachable"]
        problem = row.get("problem"), row.get("missing_right")
        tick.silence[at, slot] = 0 if row["reachable"] else _PROBLEMS.setdefault(problem, 1 + len(_PROBLEMS))
        listed = row.get("open_transactions")
        tick.listed[at, slot] = NOT_ASKED if listed is None else SOME_OPEN if listed else NONE_OPEN
        for n, name in enumerate(OFFSETS):
            tick.offsets[n, at, slot] = -1 if row.get(name) is None else row[name]
    return tick
