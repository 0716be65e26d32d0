"""What the job suffers: the conditions that the rules have, for as long as the rules wait, by the job's own metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest
import yaml
from prometheus_client.core import GaugeMetricFamily, Metric

from dashboards.parameters import Parameters
from dashboards.rules import rules
from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.conditions import CONDITIONS, OUTAGE, OVER_S, Samples, Watch, name_of
from parallax.alerting.listing import ALARMS
from parallax.alerting.state import MonitorState
from parallax.findings.hanging import Open
from parallax.findings.hanging_life import Hanging
from parallax.model import TopicPartition

RULES = {
    rule["alert"]: rule
    for group in yaml.safe_load(rules(Parameters()))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
FOR_PROMETHEUS_ALONE = {
    "ParallaxAbsent",
    "ParallaxCoverageUnknown",
    "ParallaxFindingAcknowledged",
    "ParallaxFindingLessGrave",
    "ParallaxFindingWorse",
    "ParallaxFindingsUnlisted",
    "ParallaxGuardHolds",
    "ParallaxGuardOverruled",
    "ParallaxGuardRefused",
    "ParallaxInitialReadingIncomplete",
    "ParallaxLogStartDiffers",
    "ParallaxMessagesUndelivered",
    "ParallaxQueryRestarting",
    "ParallaxReplicaRemovalUnknown",
    "ParallaxSuspectsUndecided",
    "ParallaxUnsafeElection",
    "ParallaxVerdictOverdue",
    "ParallaxViewLagging",
    "ParallaxWatchdog",
}
"""Alerts that `alerting.webhooks` does not send: Prometheus alone evaluates them."""
Series = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]

COMPARES: Series = {"findings_loaded": {(): 1.0}, "findings_writable": {(): 1.0}}


def families(series: Series) -> Iterator[Metric]:
    for name, samples in series.items():
        for labels, value in samples.items():
            family = GaugeMetricFamily(f"parallax_{name}", name, labels=[label for label, _ in labels])
            family.add_metric([text for _, text in labels], value)
            yield family


LATE_COPY = (("broker_id", "2"), ("partition", "0"), ("reason", "no_time"), ("topic", "orders"))


class Looking:
    """A watch, and the time."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.watch = Watch()
        self.states: list[str] = []
        self.about: list[Mapping[str, str]] = []

    def after(self, seconds: float, series: Series) -> list[str]:
        """What is told after some time in which it looked every five seconds, and its heart beats all the time."""
        end = self.now + seconds
        told: list[str] = []
        while self.now < end:
            self.now = min(self.now + 5, end)
            whole = {"heartbeat_timestamp_seconds": {(): self.now}, **COMPARES, **series}
            found = self.watch.look(Samples(families(whole), self.now))
            told, self.states = [one.name for one in found], [one.alertname for one in found]
            self.about = [one.about for one in found]
        return told


def broker(value: float) -> Series:
    return {"broker_reachable": {(("broker_id", "1"),): 1.0, (("broker_id", "2"),): value}}


DOWN = name_of("ParallaxBrokerUnreachable", {"broker_id": "2"})


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_a_condition_is_that_of_its_rule(name: str) -> None:
    condition, rule = CONDITIONS[name], RULES[name]
    assert condition.severity.value == rule["labels"]["severity"]
    assert all(f"parallax_{metric}" in rule["expr"] for metric in condition.metrics)
    minutes = f"{condition.wait_s / 60:.0f}m" if condition.wait_s else None
    assert rule.get("for") in (minutes, None), "where a rule waits, so does the condition"


def test_every_rule_has_a_condition_or_is_named_as_one_for_prometheus_alone() -> None:
    of_findings = {alarm.name for alarm in ALARMS.values()}
    assert RULES.keys() == CONDITIONS.keys() | of_findings | FOR_PROMETHEUS_ALONE
    assert not CONDITIONS.keys() & FOR_PROMETHEUS_ALONE


def test_what_a_job_goes_by_is_among_its_metrics() -> None:
    names = {family.name for family in ParallaxCollector(MonitorState()).of_the_job()}
    later = {"storage_full", "cluster_mismatch", "hanging_transaction_start_timestamp_seconds"}
    wanted = {metric for condition in CONDITIONS.values() for metric in condition.metrics}
    assert {f"parallax_{metric}" for metric in wanted - later} <= names


def test_a_broker_that_is_away_is_told_after_its_time_and_over_a_minute_after_it_is_back() -> None:
    looking = Looking()
    assert looking.after(295, broker(0)) == []
    assert looking.after(10, broker(0)) == [DOWN]
    assert looking.after(OVER_S - 10, broker(1)) == [DOWN]
    assert looking.after(15, broker(1)) == []


def test_a_broker_that_is_back_without_all_replicas_is_no_good_news() -> None:
    looking = Looking()
    looking.after(310, broker(0))
    back = {**broker(1), "replicas_offline": {(("broker_id", "2"),): 3.0}}
    assert looking.after(OVER_S - 10, back) == [DOWN]
    assert looking.about[0]["outcome"].endswith("but not for all of its replicas: these are not compared.")
    offline = name_of("ParallaxReplicaOffline", {"broker_id": "2"})
    assert looking.after(300, back) == [offline]
    assert looking.after(OVER_S + 5, broker(1)) == []


def test_what_passes_in_time_is_told_to_nobody_and_begins_anew() -> None:
    looking = Looking()
    looking.after(290, broker(0))
    looking.after(5, broker(1))
    assert looking.after(290, broker(0)) == []


def test_what_flaps_is_one_message() -> None:
    looking = Looking()
    looking.after(305, broker(0))
    for _ in range(10):
        assert looking.after(30, broker(1)) == [DOWN]
        assert looking.after(5, broker(0)) == [DOWN]


def test_what_the_last_process_told_is_not_over_before_it_has_been_gone_for_a_minute() -> None:
    looking = Looking()
    looking.after(OVER_S + 40, broker(0))
    looking.after(5, broker(1))
    assert looking.watch.can_end
    assert DOWN in looking.watch.pending, "it answered once"
    looking.after(5, broker(0))
    looking.after(OVER_S - 5, broker(1))
    assert DOWN in looking.watch.pending
    looking.after(5, broker(1))
    assert DOWN not in looking.watch.pending


def test_a_job_that_compares_nothing_says_so_and_its_queries_say_no_more() -> None:
    looking = Looking()
    still = {
        "heartbeat_timestamp_seconds": {(): looking.now},
        "query_last_progress_timestamp_seconds": {(("query", "compare"),): looking.now},
    }
    assert looking.after(295, still) == []
    assert looking.watch.is_working
    assert looking.after(10, still) == [name_of("ParallaxStalled", {})]
    assert not looking.watch.is_working


def test_a_job_that_can_compare_no_partition_does_not_work_though_its_heart_beats() -> None:
    looking = Looking()
    looking.after(60, {"partitions_readable": {(): 3.0}})
    assert looking.watch.is_working
    looking.after(5, {"partitions_readable": {(): 0.0}})
    assert not looking.watch.is_working
    looking.after(5, {"partitions_readable": {(): 1.0}})
    assert looking.watch.is_working


def test_of_a_full_disk_that_alone_is_told_and_not_what_comes_of_it() -> None:
    looking = Looking()
    full = {"heartbeat_timestamp_seconds": {(): looking.now}, "storage_full": {(): 1.0}}
    broken = {**full, "findings_writable": {(): 0.0}}
    assert looking.after(600, broken) == [name_of("ParallaxStorageFull", {})]
    assert not looking.watch.is_working


def test_a_job_that_never_compared_is_measured_by_its_start() -> None:
    looking = Looking()
    began = {"heartbeat_timestamp_seconds": {}, "start_time_seconds": {(): looking.now}}
    assert looking.after(305, began) == [name_of("ParallaxStalled", {})]
    assert not looking.watch.is_working
    assert not looking.watch.can_end


def test_a_replica_that_is_away_is_told_by_broker_as_its_time_runs_out() -> None:
    looking = Looking()
    replica = (("broker_id", "2"), ("partition", "0"), ("topic", "orders"))
    other = (("broker_id", "2"), ("partition", "1"), ("topic", "orders"))
    since, bound = looking.now, looking.now + 10_000

    def away() -> Series:
        return {
            "replica_absent_since_timestamp_seconds": {(*one, ("presence", "away")): since for one in (replica, other)},
            "replica_removal_bound_timestamp_seconds": {replica: bound, other: bound},
        }

    story = name_of(OUTAGE, {"broker_id": "2"})
    assert looking.after(4_990, away()) == []
    assert looking.after(20, away()) == [story]
    assert looking.states == [OUTAGE]
    assert looking.after(2_600, away()) == [story], "one that is worse is the same story"
    assert looking.states == ["ParallaxReplicaRemoval"]
    assert looking.after(2_400, away()) == [story]
    late = {"replica_late_timestamp_seconds": {(*replica[:2], ("reason", "passed"), replica[2]): looking.now}}
    assert looking.after(OVER_S + 5, late) == [story], "nor is it another one that the broker is back"
    assert looking.states == ["ParallaxReplicaRemoval"]
    told: Series = {"replica_outage_info": {(("broker_id", "2"), ("outcome", "Nothing was lost.")): 1.0}}
    assert looking.after(OVER_S - 10, told) == [story]
    assert looking.about == [{"broker_id": "2", "outcome": "Nothing was lost."}]
    assert looking.after(20, {}) == []


def outage(broker_id: str, since_s: float, left_s: float, now: float) -> Series:
    """A replica of a broker is absent: for so long by now, and with so much time left."""
    replica = (("broker_id", broker_id), ("partition", "0"), ("topic", "orders"))
    return {
        "replica_absent_since_timestamp_seconds": {(*replica, ("presence", "away")): now - since_s},
        "replica_removal_bound_timestamp_seconds": {replica: now + left_s},
    }


def test_a_broker_whose_outage_is_told_is_not_told_to_be_silent_as_well() -> None:
    looking, end = Looking(), 400.0
    away = {**broker(0), **outage("2", since_s=86_000, left_s=10_000, now=looking.now + end)}
    assert looking.after(end, away) == [name_of("ParallaxReplicaOutage", {"broker_id": "2"})]
    assert DOWN in looking.watch.pending, "so one that was told before it is not over"


def test_a_broker_that_was_told_to_be_silent_before_its_outage_was_stays_so_until_it_answers() -> None:
    looking, story = Looking(), name_of("ParallaxReplicaOutage", {"broker_id": "2"})
    assert looking.after(400, broker(0)) == [DOWN]
    away = outage("2", since_s=86_000, left_s=10_000, now=looking.now)
    assert looking.after(100, {**broker(0), **away}) == [DOWN, story]
    assert looking.after(OVER_S + 5, {**broker(1), **away}) == [story], "its own end is said"


def test_a_broker_is_told_to_be_silent_while_the_outage_of_another_one_is_told() -> None:
    looking, end = Looking(), 400.0
    away = {**broker(0), **outage("1", since_s=86_000, left_s=10_000, now=looking.now + end)}
    assert looking.after(end, away) == [DOWN, name_of("ParallaxReplicaOutage", {"broker_id": "1"})]


def test_an_outage_is_not_over_while_the_broker_is_away_again() -> None:
    looking = Looking()
    replica = (("broker_id", "2"), ("partition", "0"), ("topic", "orders"))

    def away(since: float) -> Series:
        absent = {(replica[0], replica[1], ("presence", "away"), replica[2]): since}
        return {
            "replica_absent_since_timestamp_seconds": absent,
            "replica_removal_bound_timestamp_seconds": {replica: since + 10_000},
        }

    story = name_of(OUTAGE, {"broker_id": "2"})
    first = looking.now
    looking.after(5_010, away(first))
    assert looking.after(OVER_S / 2, {}) == [story]
    again = looking.now
    assert looking.after(OVER_S + 5, away(again)) == [story], "back for half a minute"
    assert looking.after(OVER_S + 5, {}) == []
    assert looking.after(OVER_S + 5, away(looking.now)) == [], "one that is short begins no story"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (broker(1.0), "Broker 2 answers again, and what can be read of it is compared."),
        (
            {**broker(1.0), "replica_late_timestamp_seconds": {LATE_COPY: 1.0}},
            "Broker 2 answers again, and what can be read of it is compared.",
        ),
        (
            {"broker_reachable": {(("broker_id", "1"),): 1.0}},
            "Broker 2 holds no replica any more that is watched.",
        ),
    ],
)
def test_a_broker_that_holds_nothing_any_more_is_not_said_to_answer_again(after: Series, said: str) -> None:
    looking = Looking()
    assert looking.after(400, broker(0.0)) == [DOWN]
    assert looking.about == [{"outcome": ""}], "nothing is said of the end while it does not answer"
    looking.after(OVER_S - 10, after)
    (about,) = looking.about
    assert about["outcome"] == said


@pytest.mark.parametrize("after", [{}, {"broker_reachable": {}}])
def test_how_it_ended_is_left_open_where_no_broker_is_known_any_more(after: Series) -> None:
    looking = Looking()
    looking.after(400, broker(0.0))
    looking.after(OVER_S - 10, after)
    assert looking.about == [{"outcome": ""}]


@pytest.mark.parametrize("reason", ["no_time", "reassigned"])
def test_a_late_copy_that_no_outage_made_is_told_to_nobody(reason: str) -> None:
    replica = (("broker_id", "2"), ("partition", "0"), ("reason", reason), ("topic", "orders"))
    assert Looking().after(600, {"replica_late_timestamp_seconds": {replica: 7.0}}) == []


@pytest.mark.parametrize(
    ("series", "name"),
    [
        ({"storage_full": {(): 1.0}}, "ParallaxStorageFull"),
        ({"cluster_mismatch": {(): 1.0}}, "ParallaxOtherCluster"),
        ({"findings_writable": {(): 0.0}}, "ParallaxFindingsNotWritable"),
    ],
)
def test_what_makes_the_job_blind_is_told_after_its_time_and_ends_its_heartbeat_at_once(
    series: Series, name: str
) -> None:
    looking = Looking()
    looking.after(5, {})
    assert looking.watch.is_working
    assert looking.after(5, series) == []
    assert not looking.watch.is_working
    assert looking.after(CONDITIONS[name].wait_s + 5, series) == [name_of(name, {})]
    assert looking.after(OVER_S + 10, {}) == []
    assert looking.watch.is_working


def test_a_broker_that_was_back_too_late_is_told_until_its_replicas_are_audited() -> None:
    looking = Looking()
    why = ("reason", "before_watch")
    replicas = [(("broker_id", "2"), ("partition", str(number)), why, ("topic", "orders")) for number in (0, 1)]
    late = name_of(OUTAGE, {"broker_id": "2"})
    assert looking.after(5, {"replica_late_timestamp_seconds": dict.fromkeys(replicas, 7.0)}) == [late]
    assert looking.after(OVER_S + 5, {"replica_late_timestamp_seconds": {replicas[1]: 7.0}}) == [late]
    assert looking.after(OVER_S + 5, {}) == []


PLACE = TopicPartition("orders", 0)
QUERY, OF_2 = (("query", "compare"),), (("broker_id", "2"),)
ENDS = [
    ("ParallaxQueryStalled", "query_last_progress_timestamp_seconds", QUERY, 0.0, 1e9, {}, "It makes progress again."),
    ("ParallaxNothingWatched", "nothing_watched", (), 1.0, 0.0, {}, "A topic matches now, and is watched."),
    ("ParallaxReplicaOffline", "replicas_offline", OF_2, 3.0, 0.0, broker(1), "Broker 2 answers for all of its"),
    ("ParallaxReplicaOffline", "replicas_offline", OF_2, 3.0, 0.0, broker(0), "Broker 2 does not answer at all now."),
    ("ParallaxReplicaOffline", "replicas_offline", OF_2, 3.0, None, {"broker_reachable": {(("broker_id", "1"),): 1.0}},
     "Broker 2 holds no replica any more that is watched."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "metric", "labels", "wrong", "right", "more", "said"), ENDS)
def test_an_end_whose_cause_the_job_knows_names_that_one_alone(
    name: str, metric: str, labels: tuple[tuple[str, str], ...], wrong: float, right: float, more: Series, said: str
) -> None:
    looking = Looking()
    assert looking.after(305, {metric: {labels: wrong}, **broker(1)})[0].startswith(name)
    after: Series = {} if right is None else {metric: {labels: right}}
    looking.after(OVER_S - 10, {**after, **broker(1), **more})
    outcome = next(
        about["outcome"] for state, about in zip(looking.states, looking.about, strict=True) if state == name
    )
    assert outcome.startswith(said)


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_an_end_whose_cause_nobody_knows_names_no_two(name: str) -> None:
    assert not re.search(r"[,;] or |watched no longer", CONDITIONS[name].left)


@pytest.mark.parametrize("hangs", [True, False])
def test_a_transaction_that_is_open_for_long_is_said_to_hang_only_where_it_does(hangs: bool) -> None:
    standing = Hanging(Open(PLACE, 1, 7, 0, 60, 0), 60, "why", hangs=hangs, stands_since=1.0).standing_in_words
    labels = (("partition", "0"), ("producer_id", "7"), ("standing", standing), ("topic", "orders"))
    looking = Looking()
    looking.after(5, {"hanging_transaction_start_timestamp_seconds": {labels: 1.0}})
    said = CONDITIONS["ParallaxTransactionHanging"].headline.format_map(
        {**looking.about[0], "topic": "o", "partition": 0}
    )
    assert ("hangs" in said) is hangs
    assert ("longer than its broker allows" in said) is not hangs
