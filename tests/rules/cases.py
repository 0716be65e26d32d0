"""When each rule fires: a case of its own for each, with the first scrape at which it does, and at which it ends.

All cases are scraped and evaluated every 15 s at once, each as a cluster of its own, called by the alert and the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dashboards.expressions import seconds
from parallax.alerting.conditions import NO_OUTAGE, OUTAGE
from parallax.alerting.listing import Turn
from tests.rules.promtool import ALERTS, Values, series

STEP_S = 15
STEPS = 262
BEGAN = 4
"""The step at which what is wrong begins."""

PARTITION = {"topic": "orders", "partition": "0"}
REPLICA = PARTITION | {"broker_id": "2"}
FINDING = PARTITION | {"finding_id": "f1"}
WAITS = {rule["alert"]: seconds(rule["for"]) // STEP_S for rule in ALERTS if "for" in rule}
"""Steps that a rule waits."""


@dataclass
class Case:
    """One case of one alert.

    Attributes:
        alert: its name.
        name: of the case.
        given: values by metric and labels, those of its cluster and target excluded.
        fires: the first step at which it fires; None where it never does.
        ends: the first step afterwards at which it does not; None where it goes on.
    """

    alert: str
    name: str
    given: Mapping[str, Values]
    fires: int | None
    ends: int | None = None
    start: Values = field(default_factory=lambda: [-7200.0] * STEPS)

    @property
    def cluster(self) -> str:
        """Its label ``cluster``."""
        return f"{self.alert}: {self.name}"

    def series(self) -> dict[str, Values]:
        """All of its series."""
        target = f'cluster="{self.cluster}", job="parallax", instance="a"'
        storage = series("storage_info", {"storage_id": self.cluster})
        there = [None if value is None else 1.0 for value in self.start]
        given = {series("start_time_seconds", {}): self.start, storage: there, **self.given}
        return {one.replace("{", f"{{{target}, ").replace(", }", "}"): values[:STEPS] for one, values in given.items()}

    def is_firing(self, step: int) -> bool:
        """Whether it fires at a step."""
        return self.fires is not None and self.fires <= step and (self.ends is None or step < self.ends)


@dataclass
class Lasting:
    """What a rule that waits is about: a series, what it is while that is so, and what it is else.

    Attributes:
        good: None where there is no such series then.
        other: the labels that another one has to whose series it may change; empty where there is none.
        last_words: how many steps longer it fires, to say how it has ended.
    """

    metric: str
    labels: Mapping[str, str]
    bad: float
    good: float | None
    other: Mapping[str, str] = field(default_factory=dict)
    last_words: int = 0


_OTHER_TOPIC = {"topic": "payments"}
LASTING = {
    "ParallaxSuspectsUndecided": Lasting("suspects_pending", PARTITION, 2, None, _OTHER_TOPIC),
    "ParallaxCoverageUnknown": Lasting(
        "unknown_offsets",
        PARTITION | {"isolation_level": "read_committed", "reason": "skipped"},
        40,
        0,
        {"reason": "deferred"},
    ),
    "ParallaxUnsafeElection": Lasting("preferred_leader_unsafe", REPLICA, 1, None, _OTHER_TOPIC, last_words=1),
    "ParallaxVerdictOverdue": Lasting("verdict_waiting_seconds", PARTITION, 700, 0, _OTHER_TOPIC),
    "ParallaxInitialReadingIncomplete": Lasting("initial_reading_complete", PARTITION, 0, 1, _OTHER_TOPIC),
    "ParallaxLogStartDiffers": Lasting(
        "unknown_offsets",
        PARTITION | {"isolation_level": "read_committed", "reason": "log_start_differs"},
        5,
        0,
        _OTHER_TOPIC,
    ),
    "ParallaxBrokerUnreachable": Lasting(
        "broker_reachable", {"broker_id": "2"}, 0, 1, {"broker_id": "3"}, last_words=1
    ),
    "ParallaxReplicaOffline": Lasting("replicas_offline", {"broker_id": "2"}, 3, 0, {"broker_id": "3"}, last_words=1),
    "ParallaxViewLagging": Lasting(
        "view_lag_seconds", REPLICA | {"isolation_level": "read_committed"}, 700, 0, _OTHER_TOPIC
    ),
    "ParallaxReplicaRemovalUnknown": Lasting(
        "replica_removal_bound_unknown", REPLICA | {"reason": "before_watch"}, 1, None, {"broker_id": "3"}
    ),
    "ParallaxGuardStopped": Lasting("guard_works", {}, 0, 1),
    "ParallaxFindingsNotWritable": Lasting("findings_writable", {}, 0, 1),
    "ParallaxStorageFull": Lasting("storage_full", {}, 1, 0),
    "ParallaxNothingWatched": Lasting("nothing_watched", {}, 1, 0),
    "ParallaxOtherCluster": Lasting("cluster_mismatch", {}, 1, 0),
}
"""The rules that wait, but for ParallaxAbsent, which is about what is not there."""


def _lasting(alert: str, one: Lasting) -> Iterator[Case]:
    wait = WAITS[alert]
    hold = wait // 3
    end = BEGAN + wait
    key = series(one.metric, one.labels)

    def values(is_bad: Iterator[int] | range, *, away: range = range(0)) -> Values:
        bad = set(is_bad)
        return [None if step in away else one.bad if step in bad else one.good for step in range(STEPS)]

    def start(away: range, then: float) -> Values:
        return [None if step in away else -7200.0 if step < away.start else then for step in range(STEPS)]

    always = range(BEGAN, STEPS)
    yield Case(alert, "it lasts", {key: values(always)}, end)
    yield Case(alert, "two samples are nothing", {key: values(range(BEGAN, BEGAN + 2))}, None)
    yield Case(alert, "it ends a scrape before its time", {key: values(range(BEGAN, end))}, None)
    yield Case(alert, "it ends after its time", {key: values(range(BEGAN, end + 3))}, end, end + 3 + one.last_words)
    break_ = BEGAN + wait // 2
    broken = (step for step in always if step != break_)
    yield Case(alert, "a break has it begin again", {key: values(broken)}, break_ + 1 + wait)
    failed = range(break_, break_ + 1)
    yield Case(alert, "a failed scrape does not", {key: values(always, away=failed)}, end, start=start(failed, -7200.0))
    away = range(end + 4, end + 3 + hold)
    yield Case(
        alert,
        "nor does a restart of the job once it fires",
        {key: values(always, away=away)},
        end,
        start=start(away, away.stop * STEP_S),
    )
    dead = range(end - hold - 1, STEPS)
    yield Case(
        alert, "a job that dies before is no reason", {key: values(always, away=dead)}, None, start=start(dead, 0)
    )
    if one.other:
        changed = end - 2
        before = values(range(BEGAN, STEPS), away=range(changed, STEPS))
        after = values(range(BEGAN, STEPS), away=range(changed))
        given = {key: before, series(one.metric, {**one.labels, **one.other}): after}
        yield Case(alert, "another series of the same does not go on with it", given, changed + wait)


def _at(first: float | None, then: float | None, step: int = BEGAN, *, until: int = STEPS) -> Values:
    """A value that changes at a step, and is the first again."""
    return [then if step <= n < until else first for n in range(STEPS)]


def _since(step: int, *, until: int = STEPS) -> Values:
    """The time of a step, from then on."""
    return [float(step * STEP_S) if step <= n < until else None for n in range(STEPS)]


def _only_until(given: Mapping[str, Values], step: int) -> dict[str, Values]:
    """The same, and the last values from a step on."""
    return {one: [*values[:step], *[values[step]] * (STEPS - step)] for one, values in given.items()}


def _moving(until: int) -> Values:
    """A time that is always now, and stands still from a step on."""
    return [float(min(n, until) * STEP_S) for n in range(STEPS)]


def _finding(alert: str, state: str) -> Case:
    loaded = {"findings_loaded": [1.0] * STEPS}
    given = {
        series("finding_state", FINDING | {"state": one}): _at(0.0, float(one == state), until=200)
        for one in ("spread", "exposed", "confirmed", "unsettled", "warning")
    }
    # Once more, to say what came of it.
    return Case(alert, f"a finding is {state}", {**{series(m, {}): v for m, v in loaded.items()}, **given}, BEGAN, 201)


def _absence(alert: str, fires: int, ends: int | None) -> Case:
    """A replica is away for twenty minutes and more, and may miss something after that."""
    until = 120
    return Case(
        alert,
        "a replica is away",
        {
            series("replica_absent_since_timestamp_seconds", REPLICA | {"presence": "away"}): _at(0.0, None, until),
            series("replica_removal_bound_timestamp_seconds", REPLICA): _at(1200.0, None, until),
        },
        fires,
        ends or until,
    )


def _others() -> Iterator[Case]:
    yield _finding("ParallaxLossComplete", "spread")
    yield _finding("ParallaxDivergenceExposed", "exposed")
    yield _finding("ParallaxDivergenceConfirmed", "confirmed")
    yield _finding("ParallaxDivergenceUnsettled", "unsettled")
    yield _finding("ParallaxMarkerMissing", "warning")
    # It is at once, for it keeps another alert from being sent.
    yield Case(
        "ParallaxFindingAcknowledged",
        "somebody acknowledges a finding, and it becomes worse",
        {
            series("findings_loaded", {}): [1.0] * STEPS,
            series("finding_state", FINDING | {"state": "confirmed"}): [1.0] * STEPS,
            series("finding_acknowledged", FINDING): _at(0.0, float(BEGAN * STEP_S), until=200),
        },
        BEGAN,
        201,
    )
    for name, again, ends in (("then it is over", 220, 221), ("then it is again", 150, 221)):
        yield Case(
            "ParallaxFindingWorse",
            f"it is not acknowledged any more, {name}",
            {
                series("findings_loaded", {}): [1.0] * STEPS,
                **{
                    series("finding_state", FINDING | {"state": state}): _at(float(state == "confirmed"), 0.0, 220)
                    for state in ("confirmed", "exposed")
                },
                series("finding_acknowledged", FINDING): [
                    60.0 if 4 <= n < 100 else float(again * STEP_S) if again <= n < 220 else 0.0 for n in range(STEPS)
                ],
            },
            100,
            ends,
        )
    less = {
        series("findings_loaded", {}): [1.0] * STEPS,
        series("finding_state", FINDING | {"state": "exposed"}): [
            float(4 <= n < 50 or 100 <= n < 130) for n in range(STEPS)
        ],
        series("finding_state", FINDING | {"state": "unsettled"}): [
            float(50 <= n < 100 or 130 <= n < 150) for n in range(STEPS)
        ],
    }
    what = "it is exposed, less grave, exposed again, less grave again, and over"
    yield Case("ParallaxDivergenceExposed", what, less, 4, 151)
    yield Case("ParallaxFindingWorse", what, less, 101, 151)
    yield Case("ParallaxDivergenceUnsettled", what, {**less, **_only_until(less, 120)}, 50, 101)
    yield Case("ParallaxFindingsUnlisted", "more than are listed", {series("findings_unlisted", {}): _at(0, 3)}, BEGAN)
    hanging = series("hanging_transaction_start_timestamp_seconds", PARTITION | {"producer_id": "4000"})
    unsafe = series("preferred_leader_unsafe", REPLICA)
    one = [1.0 if BEGAN <= step < 100 else None for step in range(STEPS)]
    first = BEGAN + WAITS["ParallaxUnsafeElection"]
    yield Case("ParallaxUnsafeElection", "the wrong one comes first", {unsafe: one}, first, 101)
    mended: Values = [2.0 if step > 50 else value for step, value in enumerate(one)]
    mended[100:] = [None] * (STEPS - 100)
    yield Case("ParallaxUnsafeElection", "it was repaired and is not looked at yet", {unsafe: mended}, first, 101)
    elected: Values = [1.0 if BEGAN <= step < 100 else 0.0 if step >= 100 else None for step in range(STEPS)]
    yield Case("ParallaxUnsafeElection", "it is elected", {unsafe: elected}, first, 101)
    over = [1.0 if BEGAN <= step < 97 else None for step in range(STEPS)]
    killed: Values = [-7200.0 if step < 99 else None for step in range(STEPS)]
    what = "another one comes first, and then the job is killed"
    yield Case("ParallaxUnsafeElection", what, {unsafe: over}, first, 98, killed)
    soon = [1.0 if step in (4, 5, 50, 51) else None for step in range(STEPS)]
    yield Case("ParallaxUnsafeElection", "it is elected, or mended, within seconds", {unsafe: soon}, None)
    wait = WAITS["ParallaxUnsafeElection"]
    rolled: Values = [1.0 if step % 12 < wait and 20 <= step < 60 else None for step in range(STEPS)]
    what = "a rolling restart elects each restarted replica within a minute"
    yield Case("ParallaxUnsafeElection", what, {unsafe: rolled}, None)
    lasts: Values = [1.0 if value or step >= 100 else None for step, value in enumerate(rolled)]
    what = "after a rolling restart one is not elected, and that lasts"
    yield Case("ParallaxUnsafeElection", what, {unsafe: lasts}, 100 + wait)
    yield Case("ParallaxTransactionHanging", "one hangs", {hanging: _since(BEGAN, until=200)}, BEGAN, 200)
    # More than an hour, so that a scrape at the hour is none.
    paused = series("reading_paused_timestamp_seconds", {"broker_id": "2"})
    yield Case("ParallaxReadingPaused", "an operator forgets it", {paused: _since(BEGAN)}, BEGAN + 241)
    lag = series("view_lag_seconds", REPLICA | {"isolation_level": "read_committed"})
    for whom, fires in (("2", None), ("all", None), ("3", BEGAN + WAITS["ParallaxViewLagging"])):
        pause = series("reading_paused_timestamp_seconds", {"broker_id": whom})
        yield Case("ParallaxViewLagging", f"a pause of {whom}", {lag: _at(0, 700), pause: _since(BEGAN)}, fires)
    right = series("unauthorized_replicas", {"topic": "orders", "reason": "read"})
    yield Case("ParallaxUnauthorized", "a right is missing", {right: _at(0, 3, until=200)}, BEGAN, 200)
    yield _absence(OUTAGE, 41, None)
    yield _absence("ParallaxReplicaRemoval", 61, None)
    for alert in (OUTAGE, "ParallaxReplicaRemoval"):
        late = series("replica_late_timestamp_seconds", REPLICA | {"reason": "passed"})
        told = series("replica_outage_end_timestamp_seconds", {"broker_id": "2"})
        ends = {told: [3_000.0 if 200 <= n < 212 else None for n in range(STEPS)]}
        yield Case(alert, "until an audit", {late: _since(BEGAN, until=200)}, BEGAN, 200)
        yield Case(alert, "and until it is told what came of it", {late: _since(BEGAN, until=200), **ends}, BEGAN, 212)
        yield Case(alert, "an end alone is none", ends, None)
    for reason in NO_OUTAGE:
        copied = series("replica_late_timestamp_seconds", REPLICA | {"reason": reason})
        yield Case(OUTAGE, f"no outage made it late: {reason}", {copied: _since(BEGAN)}, None)
    held = series("guard_hold_start_timestamp_seconds", {"topic": "orders"})
    yield Case("ParallaxGuardHolds", "a topic is held", {held: _since(BEGAN, until=200)}, BEGAN, 200)
    refused = series("guard_refused", {"topic": "orders", "kind": "refused"})
    yield Case("ParallaxGuardRefused", "it may not", {refused: _at(1, 1)}, 0)
    overruled = series("guard_events_total", {"kind": "overruled"})
    yield Case("ParallaxGuardOverruled", "the first time ever", {overruled: _at(0, 1)}, BEGAN, BEGAN + 240)
    up, there = series("up", {}), series("build_info", {"version": "1", "pyspark": "4", "delta": "4"})
    is_up = _at(1, 0)
    yield Case(
        "ParallaxAbsent",
        "a job dies",
        {up: is_up, there: _at(1, None)},
        BEGAN + WAITS["ParallaxAbsent"],
        start=_at(-7200, None),
    )
    yield Case(
        "ParallaxAbsent",
        "it is started again",
        {up: _at(1, 0, until=BEGAN + 19), there: _at(1, None, until=BEGAN + 19)},
        None,
    )
    beats = series("heartbeat_timestamp_seconds", {})
    yield Case("ParallaxStalled", "it stands still", {beats: _moving(BEGAN)}, BEGAN + 21)
    query = series("query_last_progress_timestamp_seconds", {"query": "compare"})
    yield Case("ParallaxQueryStalled", "it stands still", {query: _moving(BEGAN)}, BEGAN + 21)
    restarts = series("query_restarts_total", {"query": "compare"})
    often = [float(min(max(0, n - BEGAN), 4)) for n in range(STEPS)]
    yield Case("ParallaxQueryRestarting", "four times", {restarts: often}, BEGAN + 4, BEGAN + 61)
    for word, steps in _AWAY.items():
        away = range(60, 60 + steps)
        thrice = [None if n in away else float(min(max(0, n - 56), 3)) if n < 60 else 0.0 for n in range(STEPS)]
        start = [None if n in away else -7200.0 if n < 60 else float(STEP_S * away.stop) for n in range(STEPS)]
        what = f"three times, then the job is killed, and is back after {word}"
        yield Case("ParallaxQueryRestarting", what, {restarts: thrice}, None, start=start)
        none = [None if n in away else 0.0 for n in range(STEPS)]
        what = f"nobody has, and the job is killed, and is back after {word}"
        yield Case("ParallaxGuardOverruled", what, {overruled: none}, None, start=start)
    pending = series("webhook_pending_seconds", {"receiver": "on-call"})
    waits = [float(max(0, n - BEGAN) * STEP_S) for n in range(STEPS)]
    yield Case("ParallaxMessagesUndelivered", "it takes none", {pending: waits}, BEGAN + 21)
    skipped = series("findings_skipped_rows", {})
    yield Case("ParallaxFindingsSkipped", "of a newer version", {skipped: _at(0, 2)}, BEGAN)


@dataclass
class Immediate:
    """What a rule that does not wait is about, and when its alert fires.

    Attributes:
        given: the series, for a condition that is so from `BEGAN` until a step.
        fires: the first step at which it fires.
        once_more: steps for which it goes on when the job says that it is over, to say what came of it.
    """

    given: Callable[[int], Mapping[str, Values]]
    fires: int = BEGAN
    once_more: int = 0


def _while(metric: str, labels: Mapping[str, str], bad: float, good: float | None) -> Immediate:
    return Immediate(lambda until: {series(metric, labels): _at(good, bad, until=until)})


def _standing(metric: str, labels: Mapping[str, str]) -> Immediate:
    """A time that stands still from `BEGAN` until a step, and is always now else."""

    def given(until: int) -> Mapping[str, Values]:
        return {series(metric, labels): [STEP_S * float(BEGAN if BEGAN <= n < until else n) for n in range(STEPS)]}

    return Immediate(given, BEGAN + 21)


def _in_state(state: str) -> Immediate:
    def given(until: int) -> Mapping[str, Values]:
        return {series("finding_state", FINDING | {"state": state}): _at(0.0, 1.0, until=until)}

    return Immediate(given, once_more=1)


def _known(until: int) -> Mapping[str, Values]:
    acknowledged = _at(0.0, float(BEGAN * STEP_S), until=until)
    return {series("finding_acknowledged", FINDING): acknowledged, **_in_state("confirmed").given(until)}


def _worse(until: int) -> Mapping[str, Values]:
    state = series("finding_state", FINDING | {"state": "confirmed"})
    return {**_known(20), state: _at(0.0, 1.0, until=until)}


def _absent(until: int) -> Mapping[str, Values]:
    began = float(BEGAN * STEP_S)
    return {
        series("replica_absent_since_timestamp_seconds", REPLICA | {"presence": "away"}): _at(
            None, began - 7200, until=until
        ),
        series("replica_removal_bound_timestamp_seconds", REPLICA): _at(None, began + 7185, until=until),
    }


def _eased(until: int) -> Mapping[str, Values]:
    """A finding that was exposed before, by the job's word, and still pages."""
    info = series("finding_info", FINDING | {"turn": Turn.LESS})
    return {**_in_state("confirmed").given(until), info: _at(None, 7.0)}


IMMEDIATE = {
    "ParallaxLossComplete": _in_state("spread"),
    "ParallaxDivergenceExposed": _in_state("exposed"),
    "ParallaxDivergenceConfirmed": _in_state("confirmed"),
    "ParallaxDivergenceUnsettled": _in_state("unsettled"),
    "ParallaxMarkerMissing": _in_state("warning"),
    "ParallaxFindingAcknowledged": Immediate(_known, once_more=1),
    "ParallaxFindingWorse": Immediate(_worse, 20, once_more=1),
    "ParallaxFindingLessGrave": Immediate(_eased, once_more=1),
    "ParallaxFindingsUnlisted": _while("findings_unlisted", {}, 3, 0),
    "ParallaxTransactionHanging": _while(
        "hanging_transaction_start_timestamp_seconds", PARTITION | {"producer_id": "4000"}, BEGAN * STEP_S, None
    ),
    "ParallaxReadingPaused": _while("reading_paused_timestamp_seconds", {"broker_id": "2"}, -3600.0, None),
    "ParallaxUnauthorized": _while("unauthorized_replicas", {"topic": "orders", "reason": "read"}, 3, 0),
    OUTAGE: Immediate(_absent),
    "ParallaxReplicaRemoval": _while(
        "replica_late_timestamp_seconds", REPLICA | {"reason": "passed"}, BEGAN * STEP_S, None
    ),
    "ParallaxGuardHolds": _while("guard_hold_start_timestamp_seconds", {"topic": "orders"}, BEGAN * STEP_S, None),
    "ParallaxGuardRefused": _while("guard_refused", {"topic": "orders", "kind": "refused"}, 1, None),
    "ParallaxStalled": _standing("heartbeat_timestamp_seconds", {}),
    "ParallaxQueryStalled": _standing("query_last_progress_timestamp_seconds", {"query": "compare"}),
    "ParallaxMessagesUndelivered": _while("webhook_pending_seconds", {"receiver": "on-call"}, 700, 0),
    "ParallaxFindingsSkipped": _while("findings_skipped_rows", {}, 2, 0),
}
"""The rules that neither wait nor count what happened in a time; ParallaxWatchdog is about nothing."""
_AWAY = {"30 s": 2, "4 min": 16, "20 min": 80}
_SETTLED = 9
"""Steps from a start of the job until its silence about something counts."""


def _killed(alert: str, one: Immediate) -> Iterator[Case]:
    """A job is killed while something is the matter, or after it, and is back after a time."""

    def case(name: str, until: int, away: range, ends: int | None, *, fires: int | None = one.fires) -> Case:
        def alive(values: Values) -> Values:
            return [None if n in away else value for n, value in enumerate(values)]

        start = [-7200.0 if n < away.start else float(STEP_S * away.stop) for n in range(STEPS)]
        job = {"findings_loaded": [1.0] * STEPS, "heartbeat_timestamp_seconds": _moving(STEPS)}
        target = series("build_info", {"version": "1", "pyspark": "4", "delta": "4"})
        given = {series(metric, {}): values for metric, values in job.items()} | {target: [1.0] * STEPS}
        values = {series: alive(values) for series, values in {**given, **one.given(until)}.items()}
        return Case(alert, name, values, fires, ends, alive(start))

    for word, steps in _AWAY.items():
        back = f"the job is killed, and is back after {word}"
        away = range(60, 60 + steps)
        yield case(f"{back}; it goes on", STEPS, away, None)
        over = away.stop + (one.once_more or _SETTLED)
        yield case(f"{back}; it is over by then", 60, away, over)
        away = range(102, 102 + steps)
        yield case(f"it is over, then {back}", 100, away, 100 + one.once_more)
        if one.fires > BEGAN + 1 and not one.once_more:
            away = range(one.fires - 1, one.fires - 1 + steps)
            yield case(f"before its time {back}", away.start, away, None, fires=None)


def cases() -> list[Case]:
    """All cases."""
    return [
        *(case for alert, one in LASTING.items() for case in _lasting(alert, one)),
        *(case for alert, one in IMMEDIATE.items() for case in _killed(alert, one)),
        *_others(),
    ]
