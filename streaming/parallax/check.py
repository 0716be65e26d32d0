"""Checks everything that a job needs, for ``parallax check``: each thing is fine, wrong, or not known now.

It changes nothing. A thing is wrong if it keeps a job from starting, or from reading something. What is merely worth
knowing is a note.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from parallax.check_groups import consumer_groups
from parallax.check_line import Line, Result, exit_code, some
from parallax.check_receivers import receivers
from parallax.check_repair import repairs
from parallax.check_replicas import log_directories, out_of_sync, silent_replicas
from parallax.check_strimzi import reverted
from parallax.check_transactions import coordinators_hidden, lost_transactions, open_transactions
from parallax.config import ConfigError, Settings
from parallax.counts import agreed, counted
from parallax.errors import SetupError, one_line
from parallax.guard.absences import Absences, leaves_no_time
from parallax.guard.command import read_record
from parallax.guard.decide import INTERNAL
from parallax.guard.holds import Record, open_holds, stranded
from parallax.guard.table import GuardTable
from parallax.guard.timekeeper import clock_of, recorded
from parallax.guard.words import summed
from parallax.guard.words import unwatched_in_words as too_short_in_words
from parallax.java import find_java
from parallax.model import TopicPartition
from parallax.moments import FOREVER_MS, roughly, span_text
from parallax.preflight import by_broker, check_folder, watched
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import NotABroker, OtherCluster, ReplicaError, Unauthorized
from parallax.replica.options import Address, parse
from parallax.replica.types import Greeting
from parallax.shell import Shell
from parallax.source.survey import check_brokers
from parallax.stores import is_remote, rust_path, set_environment
from parallax.tls import of_server
from parallax.views.binding import with_cluster
from parallax.views.event_log import EventLogError
from parallax.views.hash_key import hash_key
from parallax.views.lease import NOT_HONOURED
from parallax.views.objects import Objects, StoreError
from parallax.views.outages import Outage, longest_outages
from parallax.views.pause import PauseError, in_words, paused
from parallax.views.watching import job_runs, unwatched_in_words

_CONFIGS = ("cleanup.policy", "delete.retention.ms", "remote.storage.enable")
_SOON_DAYS = 14
"""A certificate that ends within so many days is worth a note."""


def check(
    settings: Settings, doing: Callable[[str], None] = lambda _: None, config: Path | None = None
) -> Iterator[Line]:
    """Check everything that a job needs, and yield one line for each thing.

    Args:
        settings: the settings of the job.
        doing: is called with what is asked next, in a few words, before each question that may take its time.
        config: the settings file as it was given, for printed commands.
    """
    doing("looking for Java")
    yield _jdk()
    doing("trying the storage")
    set_environment(settings.storage.path, settings.spark.conf, os.environ)
    storage = _storage(settings.storage.path)
    yield storage
    is_usable = storage.result is not Result.WRONG  # what else it holds would be a second line of one cause
    if settings.storage.gives_up:
        yield Line("storage.record", Result.NOTE, settings.storage.gives_up)
    runs = is_usable and job_runs(settings.storage.path)
    if is_usable:
        yield from _job(settings.storage.path)
        yield from _hashes(settings)
    doing("trying the port of the page and the receivers of messages")
    yield _port(settings, runs=runs)
    yield from receivers(settings.alerting, job_runs=runs)
    if is_usable:
        doing("asking the workers of Spark")
        yield from _workers(settings)
        doing("reading what the job has recorded")
        yield from _absences(settings)
        yield from _paused(settings.storage.path)
    try:
        bound = with_cluster(settings) if is_usable else settings
        client = ReplicaClient(bound.kafka, timeout_ms=settings.read.request_timeout_ms)
    except ConfigError as error:
        yield Line("cluster", Result.WRONG, f"{one_line(error)}.")
        return
    with closing(client):
        doing("asking the cluster for its topics")
        try:
            known = client.metadata()
            if settings.topics.include:
                known |= client.metadata(settings.topics.include)
        except ReplicaError as error:
            yield Line("cluster", Result.WRONG, one_line(error))
            return
        yield Line(
            "cluster", Result.FINE, f"its id is {client.cluster_id}, and it shows {counted(len(known), 'topic')}."
        )
        doing("asking each address of bootstrap.servers")
        yield from _addresses(client.clusters(), parse(settings.kafka).bootstrap)
        yield from _cluster(client, settings, known, doing, Shell.of(settings.kafka, config))


def _addresses(found: Mapping[Address, str | ReplicaError], given: Collection[Address]) -> Iterator[Line]:
    """Which addresses lead to somebody else, and which of those in the settings to nobody.

    Args:
        found: what each address answered by itself.
        given: those of ``bootstrap.servers``; of the others, brokers' own, each broker's line says that it is away.
    """
    for (host, port), answer in found.items():
        about = f"address {host}:{port}"
        if isinstance(answer, OtherCluster):
            hint = "correct kafka.bootstrap.servers, or what the broker advertises."
            yield Line(about, Result.WRONG, f"{answer.problem}; {hint}")
        elif isinstance(answer, NotABroker):
            yield Line(about, Result.WRONG, f"{answer.problem}.")
        elif isinstance(answer, ReplicaError) and (host, port) in given:
            yield Line(about, Result.NOTE, f"{answer.problem}; the job uses the other addresses meanwhile.")


def _jdk() -> Line:
    try:
        java = find_java()
    except SetupError as error:
        return Line("JDK", Result.WRONG, one_line(error))
    return Line("JDK", Result.FINE, f"{java.path} is Java {java.release}.")


def _storage(path: str) -> Line:
    if is_remote(path):
        return _store(Objects(path))
    try:
        check_folder(path)
    except SetupError as error:
        return Line("storage", Result.WRONG, f"{error}.")
    return Line("storage", Result.FINE, f"{rust_path(path)} can be written.")


def _store(objects: Objects) -> Line:
    """An object store: one object is put, refused when it is put again, and removed."""
    probe = f".parallax-check-{uuid4()}"
    try:
        objects.create(probe, b"1")
        is_refused = not objects.create(probe, b"2")
        objects.below("lease")
        objects.delete([probe])
    except StoreError as error:
        problem = f"{error}; correct the address, the credentials or their rights (docs/operate/security.md)."
        return Line("storage", Result.WRONG, problem)
    if not is_refused:
        return Line("storage", Result.WRONG, f"{objects.uri}: {NOT_HONOURED}.")
    return Line("storage", Result.FINE, f"{objects.uri} can be written, and refuses a put where there is an object.")


def _job(path: str) -> Iterator[Line]:
    """Whether a job watches; nothing if nobody can tell."""
    if said := unwatched_in_words(path):
        yield Line("job", Result.NOTE, f"{said}.")
    elif job_runs(path):
        yield Line("job", Result.FINE, "one runs on this storage.")


def _paused(path: str) -> Iterator[Line]:
    """What an operator does not want read."""
    try:
        standing = paused(path)
    except PauseError as error:
        yield Line("pause", Result.WRONG, f"{one_line(error)}.")
        return
    for text in in_words(standing):
        yield Line("pause", Result.NOTE, f"the job does not read {text}; parallax resume ends that.")


def _hashes(settings: Settings) -> Iterator[Line]:
    """The key of all hashes, where there is one by now: the job makes it at its first start."""
    read, path = settings.read, settings.storage.path
    try:
        if read.hash_key is None and read.hash_key_file is None and not (Path(rust_path(path)) / "hash_key").exists():
            return
        hash_key(path, read)
    except (ConfigError, OSError) as error:
        yield Line("hash key", Result.WRONG, f"{one_line(error)}.")
    else:
        yield Line("hash key", Result.FINE, "it can be used, and no table was written with another one.")


def _absences(settings: Settings) -> Iterator[Line]:
    """Replicas that were away when the job recorded anything last, and until when they miss nothing."""
    from deltalake.exceptions import DeltaError
    from pyarrow import ArrowException

    now = time.time()
    try:
        absences = recorded(settings.storage.path, clock_of(settings), int(now * 1000))
    except (DeltaError, OSError, ArrowException) as error:
        yield Line("absences", Result.UNKNOWN, f"the recorded progress cannot be read ({one_line(error)}).")
        return
    if said := summed(Absences(tuple(absences)), now):
        yield Line("absences", Result.NOTE, f"by what was recorded last, absent replicas: {said}.")


def _port(settings: Settings, *, runs: bool | None) -> Line:
    """Whether the page can be served: where a job runs on this storage, its page has the port."""
    from parallax.alerting.server import MetricsServerError, _bound  # takes its time

    alerting = settings.alerting
    host, port = alerting.metrics_host, alerting.metrics_port
    try:
        if alerting.tls_certificate_file is not None and alerting.tls_key_file is not None:
            of_server(alerting.tls_certificate_file, alerting.tls_key_file)
    except (OSError, ValueError) as error:
        problem = f"alerting.tls_certificate_file and tls_key_file cannot be loaded ({one_line(error)})."
        return Line("metrics", Result.WRONG, problem)
    try:
        with _bound(host, port):
            return Line("metrics", Result.FINE, f"{host}:{port} is free.")
    except MetricsServerError as error:
        if getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
            return Line("metrics", Result.WRONG, f"{one_line(error)}.")
        taken, choose = f"{host}:{port} is in use", "choose another alerting.metrics_port."
        if runs is False:
            return Line("metrics", Result.WRONG, f"{taken} by something else, since no job runs here; {choose}")
        return Line("metrics", Result.NOTE, f"{taken}: {'the job runs.' if runs else f'by the job, or {choose}'}")


def _workers(settings: Settings) -> Iterator[Line]:
    """What the workers of a Spark cluster lack; a local job has none."""
    from parallax.views.cluster import check_workers, is_cluster  # takes its time, as all of Spark does

    if not is_cluster(settings.spark.master):
        return
    from parallax.views.session import build_session

    if settings.spark.conf.get("spark.authenticate") != "true" and settings.spark.master.startswith("spark://"):
        problem = "whoever reaches the driver's ports can read the tasks, and Kafka's password in them; set it."
        yield Line("spark", Result.NOTE, f"spark.authenticate is not true: {problem}")
    try:
        spark = build_session(settings.spark, storage=settings.storage.path, name="parallax-check")
        try:
            yield Line("spark", Result.FINE, f"{check_workers(spark, settings)}.")
        finally:
            spark.stop()
    except (SetupError, OSError) as error:
        yield Line("spark", Result.WRONG, f"{one_line(error)}.")


def _cluster(
    client: ReplicaClient,
    settings: Settings,
    known: Mapping[str, TopicMetadata],
    doing: Callable[[str], None],
    shell: Shell,
) -> Iterator[Line]:
    try:
        topics = watched(known, settings)
    except ReplicaError as error:
        yield Line("topics", Result.WRONG, one_line(error))
        return
    if not topics:
        if not any(not name.startswith("_") for name in known):
            problem = "the cluster shows no topic: it has none yet, or DESCRIBE on them is missing"
            yield Line("topics", Result.UNKNOWN, f"{problem}. One that is created later is watched by itself.")
            return
        problem = f"no topic that may be seen matches {settings.topics.pattern!r}; correct it, or grant DESCRIBE."
        yield Line("topics", Result.WRONG, f"topics.pattern: {problem}")
        return
    yield from _named(client, settings, known)
    yield from _alone(topics, set(settings.topics.brokers or ()))
    refused: dict[str, Unauthorized] = {t.name: t.error for t in topics if isinstance(t.error, Unauthorized)}
    silent: set[int] = set()
    addresses = client.brokers()
    for broker, places in sorted(by_broker(topics, settings).items()):
        if broker not in addresses:
            yield _ghost(broker, places)
            silent.add(broker)
            continue
        host, port = addresses[broker]
        doing(f"asking broker {broker} at {host}:{port} about {counted(len(places), 'replica')}")
        line, answers, shown = _broker(client, broker, f"{host}:{port}", places)
        yield line
        yield from silent_replicas(broker, answers)
        if shown is not None and shown.certificate_ends is not None:
            yield _certificate(broker, shown.certificate_ends)
        if line.result is not Result.FINE:
            silent.add(broker)
        for place, answer in answers.items():
            if isinstance(answer, Unauthorized):
                refused.setdefault(place.topic, answer)
    doing("asking the brokers for their log directories")
    yield from log_directories(client, by_broker(topics, settings), silent)
    yield from out_of_sync(topics)
    yield from _topics(client, settings, topics, refused, silent, doing, shell)


def _named(client: ReplicaClient, settings: Settings, known: Mapping[str, TopicMetadata]) -> Iterator[Line]:
    """What the settings name apart from the topics, and the cluster does not have."""
    try:
        check_brokers(client, known, settings.topics.brokers or ())
    except ReplicaError as error:
        yield Line("brokers", Result.WRONG, f"{one_line(error)}.")
    for name in settings.audit.topics:
        if name not in known:
            problem = (
                f"audit.topics: topic {name!r} is not on the cluster, or DESCRIBE on it is missing: no audit runs."
            )
            yield Line("audit", Result.NOTE, problem)


def _alone(topics: Sequence[TopicMetadata], chosen: Collection[int]) -> Iterator[Line]:
    """The partitions of which the settings let one replica be read, though there are others."""
    alone = [
        f"{topic.name}-{number}"
        for topic in topics
        for number, partition in topic.partitions.items()
        if len(partition.replicas) > 1 == len(set(chosen).intersection(partition.replicas))
    ]
    if alone:
        problem = f"topics.brokers lets one replica of {some(alone)} be read: nothing is compared there"
        yield Line("brokers", Result.WRONG, f"{problem}. Add the brokers of the others.")


def _ghost(broker: int, places: Sequence[TopicPartition]) -> Line:
    """A broker that partitions are assigned to, and that the cluster does not have."""
    shown = some([place.name for place in places])
    problem = f"it is no live broker of the cluster, and {shown} are assigned to it: their replicas there are absent"
    hint = "start it, or, if it is gone for good, reassign them (kafka-reassign-partitions.sh)."
    return Line(f"broker {broker}", Result.UNKNOWN, f"{problem}; {hint}")


def _broker(
    client: ReplicaClient, broker: int, address: str, places: Sequence[TopicPartition]
) -> tuple[Line, Mapping[TopicPartition, object], Greeting | None]:
    began = time.monotonic()
    try:
        answers = client.watermarks(broker, places)
        took = (time.monotonic() - began) * 1000
        shown = client.greeting(broker)
    except Unauthorized as error:
        return Line(f"broker {broker}", Result.WRONG, one_line(error)), {}, None
    except ReplicaError as error:
        problem = f"{one_line(error)}: what its replicas hold is unknown."
        return Line(f"broker {broker}", Result.UNKNOWN, problem), {}, None
    by = f" by {shown.tls}" if shown.tls else ""
    text = f"{address} answered{by} in {took:.0f} ms and speaks as Kafka {'.'.join(map(str, shown.version))} does"
    return (
        Line(
            f"broker {broker}",
            Result.FINE,
            f"{text}; {len(places)} of its replicas {agreed(len(places), 'is', 'are')} watched.",
        ),
        answers,
        shown,
    )


def _certificate(broker: int, ends: int) -> Line:
    """How long the certificate of a broker holds."""
    days = (ends - time.time()) / 86_400
    until = f"its certificate ends on {datetime.fromtimestamp(ends, UTC):%Y-%m-%d}"
    if days < _SOON_DAYS:
        return Line(f"broker {broker}", Result.NOTE, f"{until}, in {days:.0f} days; renew it.")
    return Line(f"broker {broker}", Result.FINE, f"{until}.")


def _topics(
    client: ReplicaClient,
    settings: Settings,
    topics: Sequence[TopicMetadata],
    refused: Mapping[str, Unauthorized],
    silent: set[int],
    doing: Callable[[str], None],
    shell: Shell,
) -> Iterator[Line]:
    doing(f"asking for the settings of {counted(len(topics), 'topic')}")
    try:
        configs = client.topic_configs([t.name for t in topics if t.name not in refused], _CONFIGS)
    except ReplicaError as error:
        configs = {topic.name: error for topic in topics}
    doing("asking for the rights of the guard and of repairs")
    yield from _guard(client, settings, topics, configs, silent)
    yield from repairs(client, settings)
    doing("asking for consumer groups")
    yield from consumer_groups(client)
    doing("asking the brokers and coordinators for open transactions")
    yield from coordinators_hidden(client, settings)
    found = open_transactions(client, topics, silent)
    lost = lost_transactions(client, settings, found, shell)
    doing("reading what the job has recorded of outages")
    outages = _outages(settings.storage.path)
    for topic in sorted(topics, key=lambda t: t.name):
        about = f"topic {topic.name}"
        if (missing := refused.get(topic.name)) is not None:
            yield Line(about, Result.WRONG, f"{one_line(missing)}; grant it, or nobody watches this topic.")
            continue
        given = configs.get(topic.name)
        if not isinstance(given, dict):
            right = "its settings cannot be read" if given is None else one_line(given)
            yield Line(about, Result.WRONG, f"{right}; without DESCRIBE_CONFIGS its logs are taken for compacted.")
        else:
            yield Line(about, *_exposure(topic, given, outages, settings))
        if mine := found.get(topic.name):
            count = len({one.producer_id for one in mine})
            yield Line(
                about, Result.FINE, f"it is transactional; transactions of {counted(count, 'producer')} are open now."
            )
        yield from lost.get(topic.name, ())
    # What there is to say of all such topics is long, and said once.
    short = {
        topic.name: _retention_ms(given)
        for topic in topics
        if isinstance(given := configs.get(topic.name), dict) and _is_too_short(topic, given, settings)
    }
    if said := too_short_in_words(short, is_audited=settings.audit.takes_up_unread):
        yield Line("guard.clock_skew_ms", Result.NOTE, f"{said}.")


def _guard(
    client: ReplicaClient,
    settings: Settings,
    topics: Sequence[TopicMetadata],
    configs: Mapping[str, Mapping[str, str] | ReplicaError],
    silent: set[int],
) -> Iterator[Line]:
    """What is held that nothing puts back, and the permissions of the guard where there is one."""
    mode = settings.guard.mode
    yield from _stranded(settings)
    if mode == "off":
        return
    yield from reverted(client, mode)
    names = sorted(topic.name for topic in topics if _may_be_held(topic.name, settings, configs.get(topic.name)))
    wrong: list[str] = []
    if hidden := [name for name in names if not isinstance(configs.get(name), dict)]:
        wrong.append(f"DESCRIBE_CONFIGS on {some(hidden)} is missing: no bound is known there, and nothing is held.")
    try:
        may = client.may_alter_configs(names) if names else {}
    except ReplicaError as error:
        yield Line("guard", Result.UNKNOWN, f"what it may do could not be asked ({one_line(error)}).")
        return
    if fixed := [name for name in names if may.get(name) is False]:
        problem = "settings are not changed there, and guard.mode act would only advise"
        wrong.append(f"ALTER_CONFIGS on {some(fixed)} is missing: {problem}.")
    if settings.guard.min_free_percent > 0 and (spaceless := _spaceless(client, topics, silent)):
        wrong.append(f"{spaceless}: where space is not known nothing is held, unless guard.min_free_percent is 0.")
    for problem in wrong:
        yield Line("guard", Result.WRONG, f"guard.mode is {mode}. {problem}")
    if not wrong:
        yield Line(
            "guard",
            Result.FINE,
            f"guard.mode is {mode}, and it has its rights on {counted(len(names), 'compacted topic')}.",
        )


def _stranded(settings: Settings) -> Iterator[Line]:
    mode, storage = settings.guard.mode, settings.storage.path
    try:
        record = read_record(storage)[0] if GuardTable.is_there(storage) else Record()
    except EventLogError as error:
        yield Line("guard", Result.UNKNOWN, f"what is held is not known ({one_line(error)}).")
        return
    for hold in open_holds(record):
        if said := stranded(hold.topic, mode):
            yield Line("guard", Result.WRONG, f"{said}.")


def _may_be_held(name: str, settings: Settings, given: Mapping[str, str] | ReplicaError | None) -> bool:
    guard = settings.guard
    if (guard.topics and name not in guard.topics) or (name in INTERNAL and not guard.internal_topics):
        return False
    return not isinstance(given, dict) or "compact" in given.get("cleanup.policy", "delete")


def _spaceless(client: ReplicaClient, topics: Sequence[TopicMetadata], silent: set[int]) -> str:
    """Why a broker does not say how much space there is; empty if all that answer do."""
    places: dict[int, TopicPartition] = {}
    for topic in topics:
        for number, partition in topic.partitions.items():
            for broker in partition.replicas:
                places.setdefault(broker, TopicPartition(topic.name, number))
    for broker, place in sorted(places.items()):
        if broker in silent:
            continue
        try:
            client.log_dirs(broker, [place])
        except ReplicaError as error:
            return one_line(error)
    return ""


def _outages(storage: str) -> Mapping[int, Outage]:
    """The longest outage that is recorded of each broker; none where nothing can be read."""
    from deltalake.exceptions import DeltaError
    from pyarrow import ArrowException

    try:
        return longest_outages(storage)
    except (DeltaError, OSError, ArrowException):
        return {}


def _exposure(
    topic: TopicMetadata, given: Mapping[str, str], outages: Mapping[int, Outage], settings: Settings
) -> tuple[Result, str]:
    hosting = {broker for partition in topic.partitions.values() for broker in partition.replicas}
    replicas = max((len(p.replicas) for p in topic.partitions.values()), default=0)
    count = counted(len(topic.partitions), "partition")
    if given.get("remote.storage.enable") == "true":
        return Result.NOTE, f"{count}: what is in tiered storage is one copy for all replicas, so it stays unknown."
    if replicas < 2:
        return Result.NOTE, f"{count}, one replica each: there is nothing to compare."
    policy = given.get("cleanup.policy", "delete")
    if "compact" not in policy:
        return Result.FINE, f"{count}, {replicas} replicas, cleanup.policy {policy}: compared record by record."
    kept = timedelta(milliseconds=_retention_ms(given))
    if _is_too_short(topic, given, settings):
        short = f"deletions are kept for {_long(kept)} (delete.retention.ms), too short a time to watch absent replicas"
        return Result.NOTE, f"{count}, {replicas} replicas: {short}."
    text = (
        f"{count}, {replicas} replicas, cleanup.policy {policy}: a broker that is away for longer than "
        f"delete.retention.ms ({_long(kept)}) may miss tombstones and end markers for good."
    )
    away = [(outage.took, broker) for broker, outage in outages.items() if broker in hosting]
    if not away:
        return Result.FINE, text
    took, broker = max(away)
    said = f"broker {broker} did not answer for {roughly(took.total_seconds())}"
    if not outages[broker].is_over:
        said += ", and has not answered since"
    if took > kept:
        return Result.NOTE, f"{text} By what is recorded, {said}: raise it, and audit the topic."
    return Result.FINE, f"{text} The longest outage on record: {said}."


def _retention_ms(given: Mapping[str, str]) -> int:
    return min(int(given.get("delete.retention.ms", "86400000")), FOREVER_MS)


def _is_too_short(topic: TopicMetadata, given: Mapping[str, str], settings: Settings) -> bool:
    """Whether a topic that is compared by key keeps deletions for too short a time to watch who is away."""
    is_watched = "compact" in given.get("cleanup.policy", "delete") and given.get("remote.storage.enable") != "true"
    is_watched &= any(len(partition.replicas) > 1 for partition in topic.partitions.values())
    skew_ms, look_ms = settings.guard.clock_skew_ms, settings.read.request_timeout_ms
    return is_watched and leaves_no_time(_retention_ms(given), skew_ms, look_ms)


def _long(span: timedelta) -> str:
    return span_text(span.total_seconds())


__all__ = ["Line", "Result", "check", "exit_code"]
