"""Jobs that get other labels, by their settings or by Prometheus, and jobs that go: what is scraped each minute.

Each has one finding, which ends an hour before the end unless the job is gone by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.rules.promtool import Values, series

MINUTES = 180
CHANGES = 30
"""The minute at which something happens."""
ENDS = MINUTES - 60
"""The minute at which the finding of a job is over."""

EU = {"cluster": "eu", "job": "parallax", "instance": "a"}
_LOADS = 2
"""Minutes from a start until the findings are loaded."""


@dataclass(frozen=True)
class Phase:
    """A time in which a job has the same labels.

    Attributes:
        labels: of its target.
        minutes: in which it is scraped.
        started: the minute at which it was started.
        is_target: whether Prometheus knows the target when the job does not answer any more.
    """

    labels: dict[str, str]
    minutes: range
    started: int = 0
    is_target: bool = False


@dataclass(frozen=True)
class Case:
    """What happens, and which alerts there are.

    Attributes:
        name: of the case.
        jobs: the phases of each, by its storage.
        absent: the labels of each alert ParallaxAbsent that fires at the end; none fires else.
    """

    name: str
    jobs: dict[str, list[Phase]]
    absent: list[dict[str, str]] = field(default_factory=list)

    def series(self) -> dict[str, Values]:
        """All of them."""
        found: dict[str, list[float | None]] = {}
        for storage, phases in self.jobs.items():
            for phase in phases:
                for name, values in _series(storage, phase).items():
                    kept = found.setdefault(name, [None] * MINUTES)
                    kept[:] = [new if new is not None else old for old, new in zip(kept, values, strict=True)]
        return dict(found)

    def standing(self, minute: int) -> list[tuple[str, float]]:
        """The findings that have an alert, at a minute: those of a job that is gone have it for longer."""
        gone = {storage for storage, phases in self.jobs.items() if phases[-1].minutes.stop < ENDS}
        return [(f'{{finding_id="{one}"}}', 1.0) for one in self.jobs if minute < ENDS or one in gone]


def _series(storage: str, phase: Phase) -> dict[str, Values]:
    def values(value: float, first: int = 0) -> list[float | None]:
        return [value if n in phase.minutes and n >= first else None for n in range(MINUTES)]

    loaded = phase.started + (_LOADS if phase.started else 0)
    state = [one and float(n < ENDS) for n, one in enumerate(values(1.0, loaded))]
    beats = [one and 60.0 * n for n, one in enumerate(values(1.0, loaded))]
    up = [1.0 if n in phase.minutes else 0.0 if n >= phase.minutes.stop else None for n in range(MINUTES)]
    place = {"topic": "orders", "partition": "0", "finding_id": storage, "state": "confirmed"}
    of_target = {name: value for name, value in phase.labels.items() if name != "cluster"}
    return {
        series("up", of_target): up if phase.is_target else values(1.0),
        **{
            series(name, phase.labels | labels): one
            for name, labels, one in (
                ("build_info", {"version": "1", "pyspark": "4", "delta": "4"}, values(1.0)),
                ("storage_info", {"storage_id": storage}, values(1.0)),
                ("start_time_seconds", {}, values(60.0 * phase.started)),
                ("findings_loaded", {}, values(1.0, loaded)),
                ("heartbeat_timestamp_seconds", {}, beats),
                ("finding_state", place, state),
            )
        },
    }


def _renamed(*, restarts: bool, until: int = MINUTES, **labels: str) -> list[Phase]:
    """A job that has other labels from a minute on."""
    back = CHANGES + 3 * restarts
    stays = labels.keys() == {"cluster"}
    return [
        Phase(EU, range(CHANGES)),
        Phase(EU | labels, range(back, until), started=back if restarts else 0, is_target=stays or until < MINUTES),
    ]


_US = {"cluster": "us", "job": "parallax", "instance": "b"}
_ANOTHER = {"cluster": "europe", "job": "monitoring/parallax", "instance": "10.0.0.7:9464"}


def cases() -> list[Case]:
    """All of them."""
    return [
        Case("the cluster is given another name by the settings", {"f1": _renamed(restarts=True, cluster="europe")}),
        Case("the cluster is given another name by Prometheus", {"f1": _renamed(restarts=False, cluster="europe")}),
        Case("the job and its address are relabelled", {"f1": _renamed(restarts=False, job="p", instance="a.example")}),
        Case("all of it, by Prometheus", {"f1": _renamed(restarts=False, **_ANOTHER)}),
        Case("all of it, with a start", {"f1": _renamed(restarts=True, **_ANOTHER)}),
        Case("a job goes for good", {"f1": [Phase(EU, range(CHANGES))]}, [{"cluster": "eu"}]),
        Case(
            "it goes, and Prometheus knows it", {"f1": [Phase(EU, range(CHANGES), is_target=True)]}, [{"cluster": "eu"}]
        ),
        Case(
            "it is renamed, and goes for good",
            {"f1": _renamed(restarts=True, until=MINUTES - 40, **_ANOTHER)},
            [{"cluster": "europe"}],
        ),
        Case(
            "of two clusters one goes",
            {"f1": [Phase(EU, range(CHANGES))], "f2": [Phase(_US, range(MINUTES))]},
            [{"cluster": "eu"}],
        ),
        Case(
            "of two clusters one goes while the other is renamed",
            {"f1": _renamed(restarts=True, **_ANOTHER), "f2": [Phase(_US, range(CHANGES))]},
            [{"cluster": "us"}],
        ),
        Case(
            "of two jobs of a cluster one goes while the other gets another address",
            {
                "f1": _renamed(restarts=True, instance="c"),
                "f2": [Phase(EU | {"instance": "b"}, range(CHANGES), is_target=True)],
            },
            [EU | {"instance": "b"}],
        ),
    ]
