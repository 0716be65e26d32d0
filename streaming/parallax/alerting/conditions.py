"""What may be wrong with the job itself, and when that is worth a message: the same conditions as in the alert rules.

Without Prometheus, the webhooks report them. `CONDITIONS` lists all of them by name, e.g. ``ParallaxQueryStalled``.
Each is evaluated on the metrics that its alert rule uses. Conditions of single partitions are only in the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from prometheus_client.core import Metric

from parallax.alerting.blind import STALLED_S, Cause
from parallax.guard.absences import NO_OUTAGE
from parallax.guard.endings import ANSWERS, NOT_HELD, OVER, SERVES_IN_PART, SERVES_NONE, SERVES_WHOLE
from parallax.model import MissingRight, Severity
from parallax.shell import Shell

_LASTS_S = 300.0
"""How many seconds a condition must be true before it is reported, if it may end by itself."""
_STORAGE_S = 60.0
_PAUSED_S = 3600.0
_ABSENT_SHARE = 0.5
_NEAR_SHARE = 0.75
_NEAR_S = 3600.0
OVER_S = 60.0
"""How many seconds a condition must be gone before it is over. So one that comes and goes is one message."""

_WARNING, _CRITICAL = Severity.WARNING, Severity.CRITICAL
_PROGRESS = "query_last_progress_timestamp_seconds"
_HEARTBEAT, _START = "heartbeat_timestamp_seconds", "start_time_seconds"
_READABLE = "partitions_readable"

Labels = tuple[tuple[str, str], ...]
"""Names and values of labels, by name."""


class Samples:
    """The job's metrics at one moment, by name, for conditions to be evaluated on.

    Args:
        families: the metric families that a collector gave.
        now: the moment, seconds since 1970 UTC.
    """

    def __init__(self, families: Iterable[Metric], now: float) -> None:
        self.now = now
        self._values: dict[str, dict[Labels, float]] = {}
        for family in families:
            for sample in family.samples:
                name = sample.name.removeprefix("parallax_")
                self._values.setdefault(name, {})[tuple(sorted(sample.labels.items()))] = sample.value

    def of(self, metric: str) -> Mapping[Labels, float]:
        """The values of a metric's samples, each by its labels. Empty if the metric has no sample.

        Args:
            metric: its name without ``parallax_``.
        """
        return self._values.get(metric, {})


Found = Callable[[Samples], Iterable[Mapping[str, str]]]
"""A function that returns, from the samples of a moment, the labels of each thing that is wrong."""


class Condition(NamedTuple):
    """One thing that may be wrong with a job, with its texts. Its key in `CONDITIONS` is the name of its alert rule.

    Its section of the runbook has the same name.

    Attributes:
        metrics: names of the metrics that decide whether it is true, without ``parallax_``.
        found: called with the samples of a moment; yields the labels of each thing for which the condition is true
            then, e.g. of each broker.
        wait_s: for how many seconds the condition has to be true before it is reported.
        severity: how urgent the message about it is.
        headline: what is wrong, in a few words; a format, whose fields are labels.
        was: the headline in the past tense.
        description: what it means, and what to do; a format, whose fields are labels and `fields`.
        left: what a message says once the condition has ended and nobody knows how; a format like the description.
        cause: why the job does not see replicas while the condition is true; None if it sees them.
        about: a metric whose labels are further fields of the formats. They are taken from the sample of that metric
            that has all labels of the condition. Its label ``outcome`` says how the condition ended, once that is
            known.
        ended: called with later samples and the condition's labels; returns how the condition ended, a format like the
            description, or an empty text if the samples do not say. None if no samples ever say it.
        worsens: the name of the condition that this one makes worse. Receivers get both as one alert, with the text of
            the graver one.
        lasts: called like ``found``; yields the labels of things for which a condition that is reported stays so,
            although ``found`` no longer yields them. None if there are none.
    """

    metrics: tuple[str, ...]
    found: Found
    wait_s: float
    severity: Severity
    headline: str
    was: str
    description: str
    left: str
    cause: Cause | None = None
    about: str | None = None
    ended: Callable[[Samples, Mapping[str, str]], str] | None = None
    worsens: str | None = None
    lasts: Found | None = None

    @property
    def is_blind(self) -> bool:
        """Whether the job sees no replica at all while the condition is true; then it sends no heartbeat."""
        return self.cause is not None and self.cause.hides_all


def _where(metric: str, is_wrong: Callable[[float], bool], *by: str) -> Found:
    """What has a sample that is wrong, by some of its labels."""
    return lambda samples: (_only(labels, by) for labels, value in samples.of(metric).items() if is_wrong(value))


def _since(metric: str, seconds: float, *by: str) -> Found:
    """What has a time that lies further back than some seconds."""
    return lambda samples: (
        _only(labels, by) for labels, value in samples.of(metric).items() if samples.now - value > seconds
    )


def _only(labels: Labels, by: Iterable[str]) -> dict[str, str]:
    return {name: value for name, value in labels if name in by}


def _reached(samples: Samples, labels: Mapping[str, str]) -> str:
    """How it ended that a broker did not answer: a broker that holds nothing any more has no sample."""
    answers = {dict(found)["broker_id"]: value for found, value in samples.of("broker_reachable").items()}
    if not answers or answers.get(labels["broker_id"]) == 0:
        return ""
    if labels["broker_id"] not in answers:
        return NOT_HELD
    if samples.of(_OFFLINE).get((("broker_id", labels["broker_id"]),)):
        return SERVES_IN_PART
    return ANSWERS


def _served(samples: Samples, labels: Mapping[str, str]) -> str:
    """How it ended that a broker did not answer for some of its replicas."""
    answers = {dict(found)["broker_id"]: value for found, value in samples.of("broker_reachable").items()}
    if not answers:
        return ""
    if labels["broker_id"] not in answers:
        return NOT_HELD
    if answers[labels["broker_id"]] == 0:
        return SERVES_NONE
    return SERVES_WHOLE if samples.of(_OFFLINE).get((("broker_id", labels["broker_id"]),)) == 0 else ""


def _goes_on(samples: Samples, labels: Mapping[str, str]) -> str:
    """How it ended that a query made no progress."""
    at = samples.of(_PROGRESS).get((("query", labels["query"]),))
    return "" if at is None or samples.now - at > STALLED_S else "It makes progress again."


def _watches(samples: Samples, _: Mapping[str, str]) -> str:
    """How it ended that no topic matched."""
    return "A topic matches now, and is watched." if samples.of("nothing_watched").get(()) == 0 else ""


def _stalled(samples: Samples) -> Iterator[Mapping[str, str]]:
    times = samples.of(_HEARTBEAT) or samples.of(_START)
    if times and samples.now - max(times.values()) > STALLED_S:
        yield {}


_ABSENT, _BOUND = "replica_absent_since_timestamp_seconds", "replica_removal_bound_timestamp_seconds"
_OFFLINE = "replicas_offline"
_HANGING = "hanging_transaction_start_timestamp_seconds"
_LATE, _OUTAGE = "replica_late_timestamp_seconds", "replica_outage_info"


def _outage(is_wrong: Callable[[float, float], bool], is_late: Callable[[str], bool]) -> Found:
    """Brokers by a replica that is absent, or was back too late.

    Args:
        is_wrong: by the share of the time that is over until what it lacks may be gone, and the seconds that are left.
        is_late: by the reason of a late copy.
    """

    def found(samples: Samples) -> Iterator[Mapping[str, str]]:
        bounds = samples.of(_BOUND)
        for labels, since in samples.of(_ABSENT).items():
            bound = bounds.get(tuple(one for one in labels if one[0] != "presence"))
            if bound is None:
                continue
            share = (samples.now - since) / (bound - since) if bound > since else inf
            if is_wrong(share, bound - samples.now):
                yield _only(labels, ("broker_id",))
        for labels in samples.of(_LATE):
            if is_late(dict(labels)["reason"]):
                yield _only(labels, ("broker_id",))

    return found


def _is_near(share: float, left: float) -> bool:
    return left <= 0 or (left < _NEAR_S and share > _NEAR_SHARE)


PAUSED_ALL = "all"
"""The label ``broker_id`` of a pause of all brokers."""
OUTAGE, REMOVAL = "ParallaxReplicaOutage", "ParallaxReplicaRemoval"
UNREACHABLE = "ParallaxBrokerUnreachable"

CONDITIONS: Mapping[str, Condition] = {
    "ParallaxStalled": Condition(
        (_HEARTBEAT, _START),
        _stalled,
        0.0,
        _CRITICAL,
        "Parallax runs but compares nothing",
        "Parallax compared nothing for a while",
        f"Nothing has come out of the comparison for {STALLED_S:.0f} s: nobody watches the replicas.",
        cause=Cause.STALLED,
        left="It compares again. What was written meanwhile is compared as far as it is still there.",
    ),
    "ParallaxQueryStalled": Condition(
        (_PROGRESS,),
        _since(_PROGRESS, STALLED_S, "query"),
        0.0,
        _CRITICAL,
        "Query {query} of Parallax makes no progress",
        "Query {query} of Parallax made no progress for a while",
        f"The streaming query has made none for {STALLED_S:.0f} s; what it reads or compares is not watched.",
        cause=Cause.QUERY_STALLED,
        left="Parallax reports it no longer. The first line of the page says whether the job compares.",
        ended=_goes_on,
    ),
    "ParallaxFindingsNotWritable": Condition(
        ("findings_writable",),
        _where("findings_writable", lambda value: value == 0),
        _LASTS_S,
        _CRITICAL,
        "Parallax cannot keep its findings",
        "Parallax could not keep its findings for a while",
        "The findings table cannot be read or written; suspects stay pending, and no new finding is reported.",
        cause=Cause.FINDINGS_FAIL,
        left="They can be read and written again. Suspects that waited can be decided now.",
    ),
    "ParallaxStorageFull": Condition(
        ("storage_full",),
        _where("storage_full", lambda value: value > 0),
        _STORAGE_S,
        _CRITICAL,
        "The storage of Parallax is full",
        "The storage of Parallax was full for a while",
        "Nothing is recorded. The job's log names the disk. Free space there, but delete nothing below storage.path: "
        "the job then goes on by itself.",
        cause=Cause.STORAGE_FULL,
        left="There is space again, and recording goes on. What was cleaned meanwhile was never seen.",
    ),
    "ParallaxOtherCluster": Condition(
        ("cluster_mismatch",),
        _where("cluster_mismatch", lambda value: value > 0),
        _STORAGE_S,
        _CRITICAL,
        "Another cluster answers at an address of bootstrap.servers",
        "Another cluster answered at an address of bootstrap.servers",
        "Parallax refuses its answers. Correct bootstrap.servers, or bring the right brokers back.",
        cause=Cause.OTHER_CLUSTER,
        left="No address that is asked now answers as another cluster.",
    ),
    "ParallaxNothingWatched": Condition(
        ("nothing_watched",),
        _where("nothing_watched", lambda value: value > 0),
        _LASTS_S,
        _WARNING,
        "Parallax watches nothing: no topic matches",
        "Parallax watched nothing for a while: no topic matched",
        "For 5 minutes no topic has been there that topics.include names or topics.pattern matches. Correct them, or "
        "stop the job where no such topic is to come.",
        cause=Cause.NOTHING_WATCHED,
        left="Parallax reports it no longer. Which topics match: {check}",
        ended=_watches,
    ),
    UNREACHABLE: Condition(
        ("broker_reachable",),
        _where("broker_reachable", lambda value: value == 0, "broker_id"),
        _LASTS_S,
        _WARNING,
        "Parallax cannot reach broker {broker_id}",
        "Parallax could not reach broker {broker_id}",
        "It has not answered for 5 minutes; its replicas are not compared.",
        left="Nothing says any more that broker {broker_id} does not answer.",
        cause=Cause.BROKER_AWAY,
        ended=_reached,
    ),
    "ParallaxReplicaOffline": Condition(
        (_OFFLINE,),
        _where(_OFFLINE, lambda value: value > 0, "broker_id"),
        _LASTS_S,
        _WARNING,
        "Broker {broker_id} answers, but not for all of its replicas",
        "Broker {broker_id} did not answer for all of its replicas",
        "For 5 minutes it has not answered for some of them, as when a log directory is offline. They are not read, "
        "and not compared. Which these are: {check}",
        left="Parallax reports it no longer. Whether the broker answers for all of its replicas: {check}",
        cause=Cause.REPLICA_OFFLINE,
        ended=_served,
    ),
    "ParallaxUnauthorized": Condition(
        ("unauthorized_replicas",),
        _where("unauthorized_replicas", lambda value: value > 0, "topic", "reason"),
        0.0,
        _CRITICAL,
        "Parallax is not authorized to read {topic}",
        "Parallax was not authorized to read {topic}",
        "{remedy} What its replicas hold is unknown until then.",
        left="No replica of {topic} that is watched is refused any more.",
        cause=Cause.UNAUTHORIZED,
    ),
    "ParallaxReadingPaused": Condition(
        ("reading_paused_timestamp_seconds",),
        _since("reading_paused_timestamp_seconds", _PAUSED_S, "broker_id"),
        0.0,
        _WARNING,
        "An operator has paused reading; brokers: {broker_id}",
        "An operator had paused reading; brokers: {broker_id}",
        "What is not read is unknown, and what is cleaned meanwhile stays so. To have it read on: {resume}",
        cause=Cause.PAUSED,
        left="It is read on. What was cleaned meanwhile was never seen, and stays unknown.",
    ),
    OUTAGE: Condition(
        (_ABSENT, _BOUND, _LATE),
        _outage(lambda share, left: left <= 0 or share > _ABSENT_SHARE, lambda reason: reason not in NO_OUTAGE),
        0.0,
        _WARNING,
        "{headline}",
        "The outage of broker {broker_id} is over",
        "{now}",
        left=OVER,
        about=_OUTAGE,
        # A broker that is away again is not back.
        lasts=_outage(lambda *_: True, lambda _: False),
    ),
    REMOVAL: Condition(
        (_ABSENT, _BOUND, _LATE),
        _outage(_is_near, lambda reason: reason == "passed"),
        0.0,
        _CRITICAL,
        "{headline}{danger}",
        "The outage of broker {broker_id} is over",
        "{now}",
        left=OVER,
        about=_OUTAGE,
        worsens=OUTAGE,
    ),
    "ParallaxTransactionHanging": Condition(
        (_HANGING,),
        _where(_HANGING, lambda _: True, "topic", "partition"),
        0.0,
        _WARNING,
        "A transaction of {topic}-{partition} {standing}",
        "A transaction of {topic}-{partition} was open for long on all replicas",
        "Consumers in read_committed get nothing beyond it until it ends. Whether it hangs, and only then how to end "
        "it: {check}",
        cause=Cause.HANGING,
        left="It is reported no longer. The job's log says why.",
        about=_HANGING,
    ),
    "ParallaxGuardStopped": Condition(
        ("guard_works",),
        _where("guard_works", lambda value: value == 0),
        _LASTS_S,
        _CRITICAL,
        "The guard of Parallax can do nothing",
        "The guard of Parallax could do nothing for a while",
        "It cannot read its events, or ask the cluster. What it holds stays held; nothing new is.",
        left="It reads its events and asks the cluster again.",
    ),
    "ParallaxFindingsSkipped": Condition(
        ("findings_skipped_rows",),
        _where("findings_skipped_rows", lambda value: value > 0),
        0.0,
        _WARNING,
        "Parallax leaves out findings that a newer version wrote",
        "Parallax left out findings that a newer version had written",
        "They raise no alert. Run the newer version again.",
        left="None is left out any more.",
    ),
}
"""All conditions, by the names of their alert rules."""
_SAID_BY = {
    "ParallaxQueryStalled": frozenset({"ParallaxStalled", "ParallaxStorageFull"}),
    "ParallaxStalled": frozenset({"ParallaxStorageFull"}),
    "ParallaxFindingsNotWritable": frozenset({"ParallaxStorageFull"}),
    UNREACHABLE: frozenset({OUTAGE, REMOVAL}),
}
"""Conditions that say no more than others: none begins to be reported while one of the others is, of the same broker.

What is reported already goes on until it is over, for nothing would tell its end otherwise. Of a broker that does not
answer the rules do the same. The other ones Alertmanager inhibits.
"""


UNSAID = {
    "headline": "A broker was away for long",
    "standing": "is open for long on all replicas",
    "now": "What it lacks may be gone from the others, or will be; the page says of which topics.",
}
"""What the formats of conditions say for a label that no sample has (`Condition.about`)."""


DANGER = ": it may miss deletions"
"""What is said of an outage that has become a danger, until its end is known (``{danger}``)."""
REJECTED = "The brokers reject the user, the password or the mechanism: mend the SASL settings, no right."
MISSING = "The right that is missing is {reason}: grant it (kafka-acls.sh)."
"""What ends that the brokers refuse to have a topic read (``{remedy}``): formats, by what they refuse."""


def fields(shell: Shell, labels: Mapping[str, str]) -> dict[str, str]:
    """The fields of conditions' texts that no label gives: commands that are ready to be pasted, and texts.

    Args:
        shell: how commands name the job.
        labels: the labels of what a condition is true of, e.g. the broker that is paused.
    """
    broker, reason = labels.get("broker_id", PAUSED_ALL), labels.get("reason", "")
    resume = ("resume",) if broker == PAUSED_ALL else ("resume", "--broker", broker)
    remedy = (REJECTED if reason == MissingRight.CREDENTIALS else MISSING).format(reason=reason)
    said = {"remedy": remedy, "danger": DANGER}
    return {"resume": shell.parallax(*resume), "check": shell.parallax("check"), **said}


class Suffered(NamedTuple):
    """One condition that is true now.

    Attributes:
        alertname: the condition's key in `CONDITIONS`.
        labels: labels that say what it is true of, such as a broker's id.
        since: when it began to be true.
        about: further labels for its texts (`Condition.about`), which may change while the condition lasts.
    """

    alertname: str
    labels: Mapping[str, str]
    since: datetime
    about: Mapping[str, str] = MappingProxyType({})

    @property
    def story(self) -> str:
        """The name under which conditions are reported as one.

        It is the name of the condition that this one makes worse (`Condition.worsens`), or else this one's own.
        """
        return CONDITIONS[self.alertname].worsens or self.alertname

    @property
    def name(self) -> str:
        """The text that identifies what is reported: the condition's `story` and labels (`name_of`)."""
        return name_of(self.story, self.labels)


def name_of(alertname: str, labels: Mapping[str, str]) -> str:
    """A condition and its labels as one text, like a PromQL selector: ``Name{broker_id="2"}``.

    Args:
        alertname: the condition's key in `CONDITIONS`.
        labels: the labels by name.
    """
    matchers = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{alertname}{{{matchers}}}"


def _about(one: Suffered, samples: Samples) -> Mapping[str, str]:
    """What is known of it by now; what nobody says any more stays as it was."""
    condition = CONDITIONS[one.alertname]
    said: dict[str, str] = {}
    if condition.about is not None:
        found = [dict(labels) for labels in samples.of(condition.about)]
        said = next((labels for labels in reversed(found) if one.labels.items() <= labels.items()), {})
    if condition.ended is not None:
        said = said | {"outcome": condition.ended(samples, one.labels).format_map(one.labels)}
    return {**one.about, **said}


def _says_all_of(other: Suffered, one: Suffered) -> bool:
    """Whether a condition says all that another one says; one without labels is about the whole job."""
    return other.alertname in _SAID_BY.get(one.alertname, ()) and other.labels.items() <= one.labels.items()


class Watch:
    """Finds the conditions to report: `look` gets the job's samples, again and again.

    It remembers since when each condition is true.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Suffered, float, float]] = {}
        self._wrong_at: dict[str, float] = {}
        self._compared_at: float | None = None
        self._reported: frozenset[str] = frozenset()
        self.is_working = False
        """Whether, when it last looked, the job compared at least one partition, and nothing made it blind."""
        self.can_end = False
        """Whether what is not wrong is over: not before the job has been comparing for a minute."""

    @property
    def pending(self) -> frozenset[str]:
        """The conditions that were true within the last minute, however shortly, by reported name (`Suffered.name`)."""
        return frozenset(self._wrong_at)

    def look(self, samples: Samples) -> list[Suffered]:
        """Take in the samples of a moment, and return the conditions to report now.

        A condition is reported once it has been true for its `Condition.wait_s` seconds, until it has not been true for
        a minute. It does not begin to be reported while another condition is that explains it. It is left out while
        one is reported that makes it worse.
        """
        now = samples.now
        wrong = [(name, labels) for name, one in CONDITIONS.items() for labels in one.found(samples)]
        for alertname, labels in wrong:
            one = Suffered(alertname, labels, datetime.fromtimestamp(now, UTC))
            key = name_of(alertname, labels)
            first, since, _ = self._seen.get(key, (one, now, now))
            self._seen[key] = first, since, now
            self._wrong_at[one.name] = now
        for alertname, condition in CONDITIONS.items():
            for labels in condition.lasts(samples) if condition.lasts is not None else ():
                key = name_of(alertname, labels)
                if key in self._seen:
                    one, since, _ = self._seen[key]
                    self._seen[key] = one, since, now
                    self._wrong_at[one.name] = now
        self._wrong_at = {name: at for name, at in self._wrong_at.items() if now - at < OVER_S}
        waited = {
            key: (one, since, last)
            for key, (one, since, last) in self._seen.items()
            if last - since >= CONDITIONS[one.alertname].wait_s
        }
        # What did not last begins again; what did is over after a while.
        self._seen = {
            key: seen for key, seen in self._seen.items() if now - seen[2] < (OVER_S if key in waited else 1e-9)
        }
        for key, (one, since, last) in self._seen.items():
            self._seen[key] = one._replace(about=_about(one, samples)), since, last
        names = {alertname for alertname, _ in wrong}
        is_blind = any(CONDITIONS[name].is_blind for name in names) or 0.0 in samples.of(_READABLE).values()
        self.is_working = self._compares(samples) and not is_blind
        held = {key: self._seen[key][0] for key in waited if key in self._seen}
        worse = {one.name for one in held.values() if CONDITIONS[one.alertname].worsens}
        reported = {
            key: one
            for key, one in held.items()
            if (key in self._reported or not any(_says_all_of(other, one) for other in held.values()))
            and (one.alertname != one.story or one.name not in worse)
        }
        self._reported = frozenset(reported)
        return list(reported.values())

    def _compares(self, samples: Samples) -> bool:
        compares = bool(samples.of(_HEARTBEAT)) and bool(samples.of("findings_loaded"))
        if compares and self._compared_at is None:
            self._compared_at = samples.now
        self.can_end = self._compared_at is not None and samples.now - self._compared_at >= OVER_S
        return compares
