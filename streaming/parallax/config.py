"""Reads and validates the settings of the always-on job: a YAML file, overridden by environment variables.

Every unknown key is an error. Environment variables are named ``PARALLAX_<SECTION>__<NAME>``, as in
``PARALLAX_STORAGE__PATH``. A list in a variable is JSON, or its parts are separated by commas; a mapping is JSON.
Kafka's own options keep Kafka's spelling under ``kafka:``.
"""

from __future__ import annotations

import json
import math
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from parallax.addresses import NO_ADDRESS, brokers, is_address, names_a_user, shown
from parallax.counts import named
from parallax.errors import is_text, one_line, option_name, plain
from parallax.model import MAX_BYTES, MAX_SECONDS, topic_name
from parallax.shipped import REPOSITORY
from parallax.stores import STORES, is_remote

_PREFIX = "PARALLAX_"
_NOT_SETTINGS = frozenset({"CACHE", "IVY_SETTINGS", "PORTS", "RELEASE", "TESTS_MOUNT"})
"""Environment variables that are no settings, without the prefix: of the lab, the jars, executors and the tests."""
_NOT_SETTINGS_EITHER = ("CLEANER_", "FUZZ_")
"""How those of some tests begin."""
_OF_A_SERVICE = re.compile(r"(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
"""What Kubernetes sets in every container for a service whose name begins with ``parallax``."""
_ADDRESS_OF_A_SERVICE = re.compile(r"(tcp|udp|sctp)://")

SECRETS = (
    "sasl.password",
    "sasl.jaas.config",
    "ssl.key.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
)
"""Kafka's options whose values are shown nowhere, and taken as they are written."""

_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")

PAGES = f"{REPOSITORY}/docs"
"""Address of the documents that alerts link to; an installation may set another."""

_LEAST_RATE = 1 << 16
"""The lowest limit in bytes a second; a lower one would hold back single batches of records."""
_MAX_MS = (1 << 31) - 1
"""The longest time, in milliseconds, that sockets and threads can wait."""
_MAX_HOURS = 1e6


class ConfigError(ValueError):
    """A setting cannot be used.

    The text is one line that names the option and says what to do.
    """


def _named(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError("is empty or holds a NUL; write a name")
    if not is_text(value):
        raise ValueError("holds what is no UTF-8 text; write a name")
    return value


_Name = Annotated[str, AfterValidator(_named)]
_Topic = Annotated[str, AfterValidator(topic_name)]
_MOST_OF_A_NAME = 255
_MOST_OF_A_PATH = 4095
"""Bytes, NAME_MAX and PATH_MAX of Linux."""


_HOLDS_A_PASSWORD = re.compile(r"[A-Za-z][\w+.-]*://[^@]*:[^@]*@")
"""A URI with who logs in, as s3a://name:password@bucket; abfss://container@account holds none."""


def storage_path(value: str) -> str:
    """Check the path of a job's storage, a folder or a URI; returns it unchanged.

    Raises:
        ValueError: no file system can have such a path, its store is not supported, or it holds a password.
    """
    _named(value)
    scheme, separator, rest = value.partition("://")
    if separator and "/" not in scheme:
        if scheme not in STORES:
            written = f"is a URI of {scheme}://, which is no store that tables can be kept on"
            raise ValueError(f"{written}; write a folder or s3a://bucket/prefix")
        if scheme == "file" and not rest.startswith("/"):
            raise ValueError("names a host, and no folder of this machine; write file:///folder, or the folder alone")
        if scheme != "file" and not rest.partition("/")[0]:
            raise ValueError("names no bucket; write s3a://bucket/prefix")
    if not separator and re.match(f"(?:{'|'.join(STORES)}):", value) and not value.startswith("file:/"):
        raise ValueError("is no URI; write two slashes behind the colon, as s3a://bucket/prefix")
    longest = max(len(part.encode()) for part in value.split("/"))
    if not is_remote(value) and (longest > _MOST_OF_A_NAME or len(value.encode()) > _MOST_OF_A_PATH):
        raise ValueError("is too long for a file system; write a shorter one")
    if _HOLDS_A_PASSWORD.match(value):
        raise ValueError("holds a password before an @; leave it out, and give it under spark.conf")
    return value


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("holds characters that cannot be printed; write a name")
    return value.strip()


_Label = Annotated[str, AfterValidator(_one_line)]


def _kinds(annotation: Any) -> set[Any]:
    """The types that an annotation names, its parts' as well."""
    return {annotation}.union(*map(_kinds, get_args(annotation))) if get_origin(annotation) else {annotation}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        # Else true is 1, and false is 0, which has a meaning of its own for many settings.
        given = value if isinstance(value, list) else [value]
        kinds = _kinds(cls.model_fields[info.field_name or ""].annotation)
        if any(isinstance(one, bool) for one in given) and kinds & {int, float} and bool not in kinds:
            raise ValueError("is true or false, and no number; write a number")
        return value


def _regular_expression(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression ({error}); correct it") from error
    return value


class TopicSettings(_Section):
    """Which topics are watched, and on which brokers."""

    include: list[_Topic] = Field(
        default_factory=list,
        description="Names of the topics to watch. Give names, a pattern, or both.",
    )
    pattern: Annotated[str, AfterValidator(_regular_expression)] | None = Field(
        None,
        description="Regular expression. Topics whose whole name matches are watched too.",
    )
    brokers: list[int] | None = Field(
        None,
        description="Ids of the brokers to read. By default Parallax reads every broker that hosts a replica. It "
        "never waits for the replicas of other brokers. Name at least two of each partition: one alone is compared "
        "with none.",
    )

    @field_validator("brokers")
    @classmethod
    def _some(cls, value: list[int] | None) -> list[int] | None:
        if value == []:
            raise ValueError("names no broker; write broker ids, or leave it out to read all")
        return value

    @model_validator(mode="after")
    def _something_to_watch(self) -> Self:
        if not self.include and self.pattern is None:
            raise ValueError("name at least one topic in topics.include, or give topics.pattern")
        return self

    @property
    def wanted(self) -> str:
        """The settings that say which topics are watched, with their values, e.g. ``topics.pattern (orders.*)``."""
        said = [f"topics.include ({named(self.include)})"] if self.include else []
        return " or ".join(said + ([f"topics.pattern ({self.pattern})"] if self.pattern is not None else []))


class ReadSettings(_Section):
    """How the replicas are read, and what the tables hold of their records."""

    starting_offsets: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Where the first run begins on each replica: at its log start, or at its end.",
    )
    max_bytes_per_trigger: int = Field(
        64 << 20,
        ge=1 << 16,
        le=MAX_BYTES,
        description="What one micro-batch reads from each broker at most. A record counts for at least 100 bytes.",
    )
    max_bytes_per_second: int = Field(
        0,
        ge=0,
        le=MAX_BYTES,
        description="What Parallax reads from each broker at most, for both isolation levels together. 0: no limit.",
    )
    payload: Literal["hash", "key", "full"] = Field(
        "hash",
        description="What the tables hold of records. hash: only keyed hashes, so no key or value leaves the cluster. "
        "key: keys too. full: values and headers too.",
    )
    hash_key: SecretStr | None = Field(
        None,
        description="Key of the hashes, 32 hexadecimal digits. By default Parallax makes one and keeps it in "
        "storage.path. Where storage.path is a URI, a key or its file is required.",
    )
    hash_key_file: str | None = Field(
        None,
        description="File that holds the hash key. Keep it apart from the tables: who has both can test guesses of "
        "values.",
    )
    request_timeout_ms: int = Field(
        3000,
        ge=100,
        le=_MAX_MS,
        description="Deadline of each request to a broker.",
    )
    metadata_refresh_ms: int = Field(
        5000,
        ge=100,
        le=_MAX_MS,
        description="How often Parallax looks for new topics and partitions.",
    )
    grouping: Literal["all", "isolation", "broker", "reader"] = Field(
        "isolation",
        description="Which readers share a streaming query. all: one query. isolation: one for each isolation level. "
        "broker: one for each broker. reader: one for each broker and isolation level. More queries "
        "isolate better and cost more for each micro-batch. With broker or reader, a broker that joins "
        "the cluster is read from the next start of the job.",
    )
    fetch: Literal["separate", "shared"] = Field(
        "separate",
        description="Whether each isolation level fetches for itself (separate), or one Fetch serves both up to the "
        "last stable offset (shared). shared reads half the bytes. It needs grouping all or broker.",
    )
    trigger_ms: int = Field(
        1000,
        ge=0,
        le=_MAX_MS,
        description="Time from the start of one micro-batch of reading to the next. It is 250 ms for 5 s after a "
        "broker is back.",
    )
    progress_interval_ms: int = Field(
        2000,
        ge=100,
        le=_MAX_MS,
        description="How often Parallax asks each replica for its offsets and open transactions. It does so every "
        "250 ms for 5 s after a broker is back, or once the comparison waits for the answer.",
    )

    @field_validator("hash_key")
    @classmethod
    def _hex(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch("[0-9a-fA-F]{32}", value.get_secret_value()):
            raise ValueError("must be 32 hexadecimal digits (128 bits)")
        return value

    @field_validator("max_bytes_per_second")
    @classmethod
    def _enough(cls, value: int) -> int:
        if 0 < value < _LEAST_RATE:
            raise ValueError(f"must be 0 (no limit) or at least {_LEAST_RATE}: less than a batch of records a second")
        return value

    @model_validator(mode="after")
    def _in_one_query(self) -> Self:
        if self.fetch == "shared" and self.grouping not in ("all", "broker"):
            raise ValueError(
                f"fetch is shared, and grouping is {self.grouping}, which reads each isolation level in a query of its "
                "own; set grouping to all or broker"
            )
        return self

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.hash_key is not None and self.hash_key_file is not None:
            raise ValueError("give hash_key or hash_key_file, not both")
        return self


class StorageSettings(_Section):
    """Where the Delta tables and checkpoints are, and how long rows are kept."""

    path: Annotated[str, AfterValidator(storage_path)] = Field(
        ".parallax/data",
        description="Folder or URI of the Delta tables and checkpoints, such as s3a://bucket/prefix. A bucket is "
        "reached as AWS's own tools reach it (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, a role), "
        "or by spark.conf.",
    )
    retention_hours: float = Field(
        168.0,
        gt=0,
        le=_MAX_HOURS,
        description="Parallax deletes recorded rows that are older, and suspects that had their verdict.",
    )
    maintenance_interval_s: float = Field(
        900.0,
        gt=0,
        le=MAX_SECONDS,
        description="How often Parallax merges small files and removes old ones.",
    )
    record: Literal["rows", "differing", "blocks"] = Field(
        "rows",
        description="`rows` keeps what each replica showed. `differing` keeps a row that several replicas, or both "
        "views, showed alike only once, from storage.settled_hours on. Commands, page and audits read "
        "the same either way; programs of your own that read the tables do not. `blocks` keeps only sums of what all "
        "replicas showed alike. Commands, page and audits of the tables then say of it that it is not kept. What "
        "differs stays whole.",
    )
    differing_topics: Annotated[str, AfterValidator(_regular_expression)] = Field(
        ".*",
        description="Regular expression. storage.record: differing or blocks holds for topics whose whole name "
        "matches.",
    )
    settled_hours: float = Field(
        24.0,
        gt=0,
        le=_MAX_HOURS,
        description="With storage.record: differing or blocks, every row of a date stays until all of them are so old. "
        "With blocks a date waits up to three days more for what is open in a partition.",
    )

    @property
    def gives_up(self) -> str:
        """What the value of ``storage.record`` gives up, in one sentence for people; empty if it gives nothing up."""
        if self.record != "blocks":
            return ""
        return (
            f"blocks: {self.settled_hours:g} h after the end of a date the tables no longer say of single records what "
            "all replicas showed alike; then only an audit of the brokers compares these again."
        )

    @model_validator(mode="after")
    def _settled_first(self) -> Self:
        # From the end of a date: retention drops it after whole days, and an upkeep must come before.
        most = 24 * math.ceil(self.retention_hours / 24) - self.maintenance_interval_s / 3600
        if self.record != "rows" and self.settled_hours >= most:
            raise ValueError(
                f"settled_hours is not below {most:g}, so retention_hours would drop rows before an upkeep that comes "
                f"each {self.maintenance_interval_s / 3600:g} h settles them; lower settled_hours or "
                "maintenance_interval_s, or raise retention_hours by whole days"
            )
        return self


class CompareSettings(_Section):
    """Intervals, grace period and limits of the comparison."""

    trigger_ms: int = Field(
        200,
        ge=0,
        le=_MAX_MS,
        description="Least time from the start of one micro-batch of comparing to the next, which begins as soon as "
        "something was recorded. On an object store Parallax looks every 500 ms for that.",
    )
    max_rows_per_trigger: int = Field(
        10_000_000,
        ge=1,
        le=MAX_BYTES,
        description="Recorded rows that one micro-batch compares at most. A task reads about a million together.",
    )
    grace_ms: int = Field(
        3000,
        ge=0,
        le=_MAX_MS,
        description="How long a replica's last stable offset may trail the others', or its log begin above theirs, "
        "before it is a suspect. An audit waits as long before its second look at the brokers.",
    )
    state_cap_bytes: int = Field(
        64 << 20,
        ge=1 << 16,
        le=MAX_BYTES,
        description="Most state that Parallax keeps for a partition whose replicas differ. What exceeds it is deferred "
        "and counts as unknown.",
    )


class FindingSettings(_Section):
    """How probes confirm suspects and check findings again."""

    probe_timeout_ms: int = Field(
        3000,
        ge=100,
        le=_MAX_MS,
        description="Deadline of each request of a probe.",
    )
    probe_retry_ms: int = Field(
        500,
        ge=10,
        le=_MAX_MS,
        description="First wait before an unanswered probe is repeated. It doubles up to a minute.",
    )
    recheck_interval_s: float = Field(
        30.0,
        gt=0,
        le=MAX_SECONDS,
        description="How often Parallax probes open findings again, to see whether they are resolved.",
    )
    max_scan_bytes: int = Field(
        64 << 20,
        ge=1 << 16,
        le=MAX_BYTES,
        description="What one probe reads from a replica at most, to look for the records of keys.",
    )
    max_bytes_per_second: int = Field(
        10 << 20,
        ge=1 << 16,
        le=1 << 34,
        description="What all probes together read from each broker at most.",
    )
    hanging_after_s: float = Field(
        60.0,
        ge=0,
        le=MAX_SECONDS,
        description="How long a transaction may hold back read_committed on all replicas before Parallax asks the "
        "coordinators whether it hangs. 0: never.",
    )


def _as_word(value: object) -> object:
    """YAML 1.1, which PyYAML reads, takes a bare ``off`` for false, and ``on`` for true."""
    return {False: "off", True: "on"}[value] if isinstance(value, bool) else value


_AS_WORD = BeforeValidator(_as_word)


class GuardSettings(_Section):
    """When the guard holds topics, to keep what an absent replica still lacks."""

    mode: Annotated[Literal["off", "advise", "act"], _AS_WORD] = Field(
        "off",
        description="off: the guard does nothing. advise: it says what it would do. act: it changes settings of "
        "topics while a replica is absent.",
    )
    lead_s: float = Field(
        3600.0,
        gt=0,
        le=MAX_SECONDS,
        description="The guard acts when an absent replica may miss something within this time. At half of it, it may "
        "pause cleaning.",
    )
    max_hold_hours: float = Field(
        72.0,
        gt=0,
        le=_MAX_HOURS,
        description="How long the guard holds a topic at most.",
    )
    min_free_percent: float = Field(
        15.0,
        ge=0,
        le=100,
        description="Free space that every log directory with a replica must have. With less, the guard holds nothing "
        "and releases what it holds. 0: it does not look.",
    )
    settle_s: float = Field(
        300.0,
        ge=0,
        le=MAX_SECONDS,
        description="How long all replicas must be in sync before the guard releases a topic.",
    )
    stagger_s: float = Field(
        60.0,
        ge=0,
        le=MAX_SECONDS,
        description="Time between the releases of two topics.",
    )
    topics: list[_Topic] = Field(
        default_factory=list,
        description="Topics that the guard looks after. Empty: all watched topics.",
    )
    internal_topics: bool = Field(
        False,
        description="Whether the guard also holds __consumer_offsets and __transaction_state.",
    )
    compaction_lag_topics: list[_Topic] = Field(
        default_factory=list,
        description="Topics whose finite max.compaction.lag.ms the guard may extend. That setting is often a promise "
        "to delete.",
    )
    clock_skew_ms: int = Field(
        60_000,
        ge=0,
        le=_MAX_MS,
        description="How far the brokers' clocks may differ from this machine's. The guard acts that much earlier.",
    )


class RepairSettings(_Section):
    """Whether a person may repair partitions with ``parallax repair run``."""

    mode: Annotated[Literal["off", "on"], _AS_WORD] = Field(
        "off",
        description="Whether parallax repair run may write into partitions. Plans can be made in both modes. The job "
        "itself never repairs.",
    )


class AuditSettings(_Section):
    """What the job audits by itself, and limits that ``parallax audit`` has too."""

    interval_s: float = Field(
        0.0,
        ge=0,
        le=MAX_SECONDS,
        description="How often the job audits everything that the brokers show. 0: never.",
    )
    topics: list[_Topic] = Field(
        default_factory=list,
        description="Topics that this audit compares. Empty: all watched topics.",
    )
    max_bytes_per_second: int = Field(
        10 << 20,
        ge=0,
        le=MAX_BYTES,
        description="What an audit reads from each broker at most. 0: no limit.",
    )
    unread_delay_s: float = Field(
        60.0,
        ge=0,
        le=MAX_SECONDS,
        description="How long the job waits before it audits a partition that it could not compare in full: offsets "
        "were not read in time, or a replica copied them late. 0: it never does.",
    )
    spot_checks: int = Field(
        32,
        ge=0,
        le=1000,
        description="Aborted records of each partition that Parallax reads again on a broker that came back. They "
        "show whether its index of aborted transactions is intact. 0: none.",
    )
    confirm_timeout_s: float = Field(
        30.0,
        gt=0,
        le=MAX_SECONDS,
        description="How long probes of an audit may take. A suspect without an answer by then is unknown.",
    )

    @property
    def takes_up_unread(self) -> bool:
        """Whether the job audits by itself the partitions that it could not compare in full (``unread_delay_s``)."""
        return self.unread_delay_s > 0


def _of_address(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not is_address(value.get_secret_value()):
        raise ValueError(NO_ADDRESS)
    return value


def _readable(value: str | None) -> str | None:
    if value is not None:
        try:
            Path(value).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise ValueError(f"cannot be read ({reason}); give the path of a file") from None
    return value


def _file_of_address(value: str | None) -> str | None:
    if value is not None and not is_address(Path(value).read_text(encoding="utf-8").strip()):
        raise ValueError(f"what it holds {NO_ADDRESS}")
    return value


class WebhookSettings(_Section):
    """A receiver of messages about findings and about the job.

    Each secret is given as text, or as the path of a file that holds it.
    """

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        description="Name of the receiver, for logs and metrics.",
    )
    format: Literal["alertmanager", "slack", "pagerduty"] = Field(
        "alertmanager",
        description="Shape of the messages: Alertmanager's webhook version 4, Slack, or PagerDuty's Events API v2.",
    )
    url: SecretStr | None = Field(
        None,
        description="Address of the receiver, http:// or https://. PagerDuty has a default, its own in the US. "
        "In the EU write https://events.eu.pagerduty.com/v2/enqueue.",
    )
    url_file: str | None = Field(
        None,
        description="File that holds the address.",
    )
    secret: SecretStr | None = Field(
        None,
        description="Signs each message, in the header X-Parallax-Signature.",
    )
    secret_file: str | None = Field(
        None,
        description="File that holds the secret.",
    )
    routing_key: SecretStr | None = Field(
        None,
        description="PagerDuty's integration key. Required with format pagerduty, with or without url.",
    )
    routing_key_file: str | None = Field(
        None,
        description="File that holds the integration key.",
    )
    ca_file: str | None = Field(
        None,
        description="PEM file of certificates that the receiver's certificate is checked against. Default: the "
        "system's.",
    )
    timeout_ms: int = Field(
        5000,
        ge=100,
        le=60_000,
        description="Deadline of each message.",
    )

    @field_validator("url")
    @classmethod
    def _address(cls, value: SecretStr | None) -> SecretStr | None:
        return _of_address(value)

    @field_validator("url_file", "secret_file", "routing_key_file", "ca_file")
    @classmethod
    def _is_readable(cls, value: str | None) -> str | None:
        return _readable(value)

    @field_validator("url_file")
    @classmethod
    def _holds_an_address(cls, value: str | None) -> str | None:
        return _file_of_address(value)

    @field_validator("ca_file")
    @classmethod
    def _of_certificates(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(value)
        except ssl.SSLError as error:
            raise ValueError(f"cannot be used as PEM ({error.reason or error}); give one of certificates") from None
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for option in ("url", "secret", "routing_key"):
            if getattr(self, option) is not None and getattr(self, f"{option}_file") is not None:
                raise ValueError(f"give {option} or {option}_file, not both")
        is_pagerduty = self.format == "pagerduty"
        if is_pagerduty != (self.routing_key is not None or self.routing_key_file is not None):
            raise ValueError("routing_key (or routing_key_file) goes with format: pagerduty, and with no other")
        if not is_pagerduty and self.url is None and self.url_file is None:
            raise ValueError("url (or url_file) is missing; write where messages are to be posted")
        return self


class AlertingSettings(_Section):
    """The status page, metrics, messages and the heartbeat."""

    cluster: _Label = Field(
        "",
        description="Name of the cluster: a label of every metric and message. Empty: no label.",
    )
    metrics_host: _Name = Field(
        "127.0.0.1",
        description="Address that the status page and /metrics listen on. Write 0.0.0.0 if Prometheus runs on another "
        "host. There the page stays closed while alerting.users is empty.",
    )
    metrics_port: int = Field(
        9464,
        ge=0,
        le=65535,
        description="Port of the status page, /metrics, /livez and /readyz. 0: any free port.",
    )
    users: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Who may see the page and the metrics, and acknowledge findings. By name, the bcrypt hash of the "
        "password (htpasswd -nBC 10 NAME).",
    )
    tls_certificate_file: str | None = Field(
        None,
        description="PEM file of the server's certificate. With it and its key, page and metrics use HTTPS.",
    )
    tls_key_file: str | None = Field(
        None,
        description="PEM file of the certificate's key, without a password.",
    )
    series: Literal["auto", "all", "differing"] = Field(
        "auto",
        description="Which partitions have metrics of their own: all, or only those with something to report "
        "(differing). auto: all up to 6,000 replicas, differing with more.",
    )
    webhooks: list[WebhookSettings] = Field(
        default_factory=list,
        description="Receivers of messages about findings and about the job, without an Alertmanager. Each "
        "has a name of its own.",
    )
    repeat_hours: float = Field(
        4.0,
        ge=0.1,
        le=_MAX_HOURS,
        description="How often receivers are reminded of what is still open.",
    )
    runbook_url: str = Field(
        f"{PAGES}/runbook.md",
        description="Address of the runbook in messages.",
    )
    external_url: str = Field(
        "",
        description="Address of the page as people reach it, such as https://parallax.example.org. Messages link to "
        "it.",
    )
    heartbeat_url: SecretStr | None = Field(
        None,
        description="Address that Parallax requests (GET) while the job really compares: a dead man's switch, such as "
        "healthchecks.io. Not while all reading is paused, or no partition can be compared.",
    )
    heartbeat_url_file: str | None = Field(
        None,
        description="File that holds the address. Who knows the address can fake the heartbeat.",
    )
    heartbeat_interval_s: float = Field(
        60.0,
        ge=1,
        le=MAX_SECONDS,
        description="Time between two heartbeats.",
    )

    @field_validator("external_url")
    @classmethod
    def _page(cls, value: str) -> str:
        if value and (not is_address(value) or names_a_user(value) or shown(value) != value):
            raise ValueError("is no address of the page; write http:// or https://, a host, and a path without a query")
        return value

    @field_validator("runbook_url")
    @classmethod
    def _runbook(cls, value: str) -> str:
        if not is_address(value) or names_a_user(value) or "#" in value:
            raise ValueError("is no address of the runbook; write http:// or https://, a host, and a path without a #")
        return value

    @field_validator("heartbeat_url")
    @classmethod
    def _address(cls, value: SecretStr | None) -> SecretStr | None:
        return _of_address(value)

    @field_validator("heartbeat_url_file")
    @classmethod
    def _holds_an_address(cls, value: str | None) -> str | None:
        return _file_of_address(_readable(value))

    @field_validator("users")
    @classmethod
    def _hashed(cls, value: dict[str, str]) -> dict[str, str]:
        for number, (name, known) in enumerate(value.items(), 1):
            if not name or ":" in name or not name.isprintable():
                raise ValueError("a name is empty, or holds what HTTP's basic authentication cannot send; give another")
            if not _BCRYPT.fullmatch(known):
                # Without the name: it may be the password.
                raise ValueError(f"number {number}: is no bcrypt hash; make one with `htpasswd -nBC 10 NAME`")
        return value

    @model_validator(mode="after")
    def _heartbeat_given_once(self) -> Self:
        if self.heartbeat_url is not None and self.heartbeat_url_file is not None:
            raise ValueError("give heartbeat_url or heartbeat_url_file, not both")
        return self

    @model_validator(mode="after")
    def _with_key(self) -> Self:
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise ValueError("give tls_certificate_file and tls_key_file, both or neither")
        return self

    @field_validator("webhooks")
    @classmethod
    def _named_apart(cls, value: list[WebhookSettings]) -> list[WebhookSettings]:
        if len({one.name for one in value}) < len(value):
            raise ValueError("two have the same name; give each its own")
        return value


class SupervisorSettings(_Section):
    """When a query that failed or hangs is restarted."""

    restart_backoff_ms: int = Field(
        1000,
        ge=0,
        le=_MAX_MS,
        description="First wait before a failed query is restarted. It doubles with each failure.",
    )
    restart_backoff_max_ms: int = Field(
        60000,
        ge=0,
        le=_MAX_MS,
        description="Longest such wait.",
    )
    no_progress_deadline_s: float = Field(
        120.0,
        gt=0,
        le=MAX_SECONDS,
        description="A query that makes no progress for so long is restarted.",
    )


_MASTER = re.compile(
    r"local|local\[([1-9]\d*|\*)(\s*,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|\S+://\S+", re.ASCII
)
"""What Spark knows, https://spark.apache.org/docs/latest/submitting-applications.html#master-urls."""


def _master(value: str) -> str:
    if not _MASTER.fullmatch(value):
        raise ValueError("is no master of Spark; write local[4], spark://host:port, yarn or k8s://...")
    return value


def _memory(value: str) -> str:
    if not re.fullmatch("[1-9][0-9]{0,12}[kKmMgGtT]?", value):
        raise ValueError("is no size; write a number and k, m or g, as 1g")
    return value


class SparkSettings(_Section):
    """The master, memory and options of the Spark session."""

    master: Annotated[str, AfterValidator(_master)] = Field(
        "local[4]",
        description="Spark's master. local[4] has more task slots than two cores: a task that waits for a broker "
        "delays no other. Or spark://host:7077, yarn, k8s://...",
    )
    driver_memory: Annotated[str, AfterValidator(_memory)] = Field(
        "1g",
        description="Heap of Spark's JVM.",
    )
    driver_java_options: str = Field(
        "-XX:+UseSerialGC -Xms128m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30 "
        "-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=60000 "
        "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000",
        description="Options of Spark's JVM. By default it compiles fully only what runs very often, and returns "
        "unused heap.",
    )
    conf: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Options of Spark, passed on unchanged. On a cluster, spark.pyspark.python names a Python that "
        "has Parallax.",
    )  # may hold passwords


class _Environment(EnvSettingsSource):
    """Reads the environment: what cannot be parsed is left as it is, so that it is refused under its option's name."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        del field_name
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            decoded = value
        is_one = decoded is not None and not isinstance(decoded, list | dict)
        if is_one and not value.lstrip().startswith(("[", "{")) and _is_list(field):
            return [part.strip() for part in value.split(",")]
        return decoded


def _is_list(field: FieldInfo | None) -> bool:
    kind = field.annotation if field is not None else None
    return any(get_origin(one) is list for one in (kind, *get_args(kind)))


class Settings(BaseSettings):
    """All settings of the job, validated; conf/parallax.yaml explains each of them."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix=_PREFIX, env_nested_delimiter="__")

    # Holds passwords, so it is left out where settings are printed.
    kafka: dict[str, str] = Field(
        repr=False,
        description="Kafka's own options, passed to every connection. Brokers must be reachable at the addresses that "
        "they advertise.",
    )
    kafka_files: dict[str, str] = Field(
        default_factory=dict,
        description="Kafka's options whose values are in files, read at the start: {sasl.password: "
        "/run/kafka-password}.",
    )
    topics: TopicSettings
    storage: StorageSettings = Field(default_factory=StorageSettings)
    read: ReadSettings = Field(default_factory=ReadSettings)
    compare: CompareSettings = Field(default_factory=CompareSettings)
    findings: FindingSettings = Field(default_factory=FindingSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    guard: GuardSettings = Field(default_factory=GuardSettings)
    repair: RepairSettings = Field(default_factory=RepairSettings)
    alerting: AlertingSettings = Field(default_factory=AlertingSettings)
    supervisor: SupervisorSettings = Field(default_factory=SupervisorSettings)
    spark: SparkSettings = Field(default_factory=SparkSettings)

    @model_validator(mode="before")
    @classmethod
    def _with_files(cls, values: Any) -> Any:
        """Take in the options that are in files; a line's end behind a value is not part of it."""
        files = values.get("kafka_files") if isinstance(values, dict) else None
        kafka = values.get("kafka") if isinstance(values, dict) else None
        if not isinstance(files, dict) or not isinstance(kafka, dict):
            return values
        read = {}
        for name, path in files.items():
            if name in kafka:
                raise ValueError(f"{option_name(name)} is given by kafka and by kafka_files; keep one")
            try:
                read[name] = Path(str(path)).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, ValueError) as error:
                # Without the path: it may be the secret itself.
                problem = f"cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'}); give the path of a file"
                raise ValueError(f"kafka_files: {option_name(name)}: {problem}") from None
        return {**values, "kafka": kafka | read}

    @field_validator("kafka", mode="before")
    @classmethod
    def _bootstrap(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("must be a mapping of Kafka's options")
        if not value.get("bootstrap.servers"):
            raise ValueError("bootstrap.servers is missing; write host:port[,host:port]")
        value = {**value, "bootstrap.servers": _joined(value["bootstrap.servers"])}
        for name in SECRETS:
            if not isinstance(value.get(name, ""), str):
                raise ValueError(f"{name} is not text; write it in quotes, so that it is taken as it is")
        for name, option in value.items():
            if not isinstance(option, str | bool | int) or not is_text(str(option)):
                raise ValueError(f"{option_name(name)} is not text; write it in quotes, or leave it out")
        try:
            brokers(str(value["bootstrap.servers"]))
        except ValueError as error:
            raise ValueError(f"bootstrap.servers: {error}") from None
        return {str(k): _option_text(v) for k, v in value.items()}

    @model_validator(mode="after")
    def _can_keep_a_hash_key(self) -> Self:
        if is_remote(self.storage.path) and self.read.hash_key is None and self.read.hash_key_file is None:
            raise ValueError("read.hash_key must be set where storage.path is a URI; write 32 hexadecimal digits")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let environment variables override the values of the settings file (a hook that Pydantic calls).

        The file's values are the arguments with which the settings are made.
        """
        del env_settings, dotenv_settings, file_secret_settings
        return _Environment(settings_cls), init_settings


class _Loader(yaml.SafeLoader):
    """Loads Kafka's options as they are written: YAML would make 83 of the user name 0123, and a date of others."""

    def construct_document(self, node: yaml.Node) -> Any:
        """Construct the document of its nodes.

        Raises:
            yaml.MarkedYAMLError: a mapping has two keys of one name; the last would win in silence.
        """
        for key, place in _given_twice(node, (), set()):
            raise yaml.MarkedYAMLError(problem=f"{_shown(place)} is given twice", problem_mark=key.start_mark)
        if isinstance(node, yaml.MappingNode):
            node.value = [(k, _as_written(v) if k.value == "kafka" else v) for k, v in node.value]
        return super().construct_document(node)


def _given_twice(
    node: yaml.Node, place: tuple[int | str, ...], seen: set[int]
) -> Iterator[tuple[yaml.Node, tuple[int | str, ...]]]:
    """The second of two keys of one name, and its place, wherever mappings are."""
    if id(node) in seen:  # by an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for number, one in enumerate(node.value):
            yield from _given_twice(one, (*place, number), seen)
    if isinstance(node, yaml.MappingNode):
        known = set()
        for key, value in node.value:
            name = (key.tag, str(key.value))
            if name in known and key.tag != _MERGED:
                yield key, (*place, name[1])
            known.add(name)
            yield from _given_twice(value, (*place, name[1]), seen)


_REWRITTEN = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))
_MERGED = "tag:yaml.org,2002:merge"


def _as_written(node: yaml.Node) -> yaml.Node:
    """Copy the options with each number and date as text; a secret that is one stays so, and is refused."""
    if isinstance(node, yaml.SequenceNode):
        return yaml.SequenceNode(node.tag, [_as_written(one) for one in node.value], node.start_mark, node.end_mark)
    if not isinstance(node, yaml.MappingNode):
        return node
    options = [(k, _as_written(v) if k.tag == _MERGED else _as_text(k, v)) for k, v in node.value]
    return yaml.MappingNode(node.tag, options, node.start_mark, node.end_mark)


def _as_text(name: yaml.Node, node: yaml.Node) -> yaml.Node:
    if node.tag not in _REWRITTEN or name.value in SECRETS:
        return node
    return yaml.ScalarNode("tag:yaml.org,2002:str", node.value, node.start_mark, node.end_mark)


def _joined(servers: Any) -> Any:
    """Addresses that are written as a list, as Kafka's clients take them."""
    if not isinstance(servers, list):
        return servers
    for one in servers:
        if not isinstance(one, str) or not is_text(one):
            raise ValueError("bootstrap.servers holds what is no text; write [host:port, host:port], without spaces")
    return ",".join(servers)


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _place(error: Exception) -> str:
    """Where a text is no YAML, and why.

    No word of the text itself is shown: it may be a password.
    """
    if not isinstance(error, yaml.MarkedYAMLError):
        return "a value that cannot be read, or nested too deeply"
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    reason = re.sub(r"(['\"]).*\1", "...", error.problem or error.context or "cannot be read", flags=re.DOTALL)
    return one_line(f"{where}{reason}")


def load(path: str | Path) -> Settings:
    """Read and validate a settings file.

    Args:
        path: the file.

    Raises:
        ConfigError: the file is missing, is not YAML, or holds a setting that is unknown or ill-typed.
    """
    if Path(path) == Path():  # what is left of an empty name
        raise ConfigError("-c: an empty name, or this folder; give the file with the settings")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (at byte {error.start}); save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason}); give the file with -c") from error
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, RecursionError) as error:  # a date that is none
        raise ConfigError(f"{path}: not YAML ({_place(error)}); correct it") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must hold a mapping of sections (kafka, topics, storage, ...)")
    return validate(document, where=str(path))


def validate(document: dict[str, Any], where: str = "settings") -> Settings:
    """The settings from a mapping, overridden by environment variables, if all of them are valid.

    Args:
        document: the settings by section, as the file has them.
        where: what errors call the source of the settings, such as the file's path.

    Raises:
        ConfigError: a setting is wrong; the text is one line that names every such option.
    """
    written = {str(name): value for name, value in document.items() if value is not None}  # "read:" with all commented
    wrong = [f"{name}: {_UNKNOWN_VARIABLE}" for name in _unknown_variables()]
    try:
        settings = Settings(**written)
    except ValidationError as error:
        wrong += [_wrong(item) for item in error.errors(include_url=False, include_input=False)]
        raise ConfigError(f"{where}: " + "; ".join(wrong)) from error
    if wrong:
        raise ConfigError("; ".join(wrong))
    return settings


_UNKNOWN_VARIABLE = (
    f"an environment variable that sets nothing; unset it, or write {_PREFIX}<SECTION>__<NAME> with a section of "
    + ", ".join(Settings.model_fields)
)


def _unknown_variables() -> Iterator[str]:
    for variable, value in os.environ.items():
        name = variable.upper().removeprefix(_PREFIX)
        section, _, _ = name.partition("__")
        is_setting = section.lower() in Settings.model_fields
        is_known = name in _NOT_SETTINGS or name.startswith(_NOT_SETTINGS_EITHER)
        is_service = _OF_A_SERVICE.fullmatch(name) or _ADDRESS_OF_A_SERVICE.match(value)
        if name != variable.upper() and not (is_setting or is_known or is_service):
            yield variable


def _wrong(item: Any) -> str:
    """What is wrong with one option, and the environment variable that it came from."""
    option = _shown(item["loc"]) or "settings"
    unknown = item["type"] == "extra_forbidden"
    reason = "unknown setting; remove it or correct its name" if unknown else plain(item["msg"])
    variable = variable_of(item["loc"])
    if variable is None:
        return one_line(f"{option}: {reason}")
    if item["type"] in ("dict_type", "model_type", "list_type") or item["loc"] == ("kafka",):
        shape = '["a", "b"] or a,b' if item["type"] == "list_type" else '{"name": "value"}'
        reason = f"{reason}; write it as {shape}"
    return one_line(f"{option} (environment variable {variable}): {reason}")


def _shown(place: tuple[int | str, ...]) -> str:
    """An option's place, without what may be a secret: what follows a name, and is no user."""
    if place[:2] == ("alerting", "users"):
        place = place[:2]
    return ".".join(str(part) if isinstance(part, int) else option_name(part) for part in place)


def variable_of(place: tuple[int | str, ...]) -> str | None:
    """The name of the environment variable that sets an option now; None if no variable does.

    It may be the variable of the whole section or list that the option is part of.

    Args:
        place: the names that lead to the option, as ``("storage", "path")``.
    """
    given = {name.upper(): name for name in os.environ}
    for length in range(len(place), 0, -1):
        wanted = _PREFIX + "__".join(str(part) for part in place[:length])
        if (found := given.get(wanted.upper())) is not None:
            return found
    return None


__all__ = ["ConfigError", "Settings", "load", "storage_path", "validate", "variable_of"]
