"""The settings of the always-on job: one YAML file, overridden by environment variables, validated as a whole.

Every unknown key is an error. Environment variables are named ``PARALLAX_<SECTION>__<NAME>``, e.g.
``PARALLAX_STORAGE__PATH``. Kafka's own options keep Kafka's spelling under ``kafka:``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)


class ConfigError(ValueError):
    """A setting that cannot be used; its text is one line that names the option and what to do."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSettings(_Section):
    """Which partitions are watched."""

    include: list[str] = Field(default_factory=list, description="Topic names to watch.")
    pattern: str | None = Field(None, description="Regular expression; topics that match whole are watched too.")
    brokers: list[int] | None = Field(None, description="Broker ids to read; all that host a replica by default.")

    @model_validator(mode="after")
    def _something_to_watch(self) -> Self:
        if not self.include and self.pattern is None:
            raise ValueError("name at least one topic in topics.include, or give topics.pattern")
        return self


class ReadSettings(_Section):
    """How the replicas are read."""

    starting_offsets: Literal["earliest", "latest"] = "earliest"
    max_bytes_per_trigger: int = Field(
        64 << 20, ge=1 << 16, description="Bytes per broker and micro-batch; a record counts for at least 100."
    )
    payload: Literal["hash", "key", "full"] = "hash"
    hash_key: str | None = Field(None, description="32 hex digits; made and kept in the storage path when unset.")
    request_timeout_ms: int = Field(3000, ge=100)
    metadata_refresh_ms: int = Field(5000, ge=100)
    grouping: Literal["all", "isolation", "broker", "reader"] = Field(
        "isolation", description="Which readers share a streaming query: all, one query per isolation level, ..."
    )
    trigger_ms: int = Field(1000, ge=0)
    progress_interval_ms: int = Field(2000, ge=100)

    @field_validator("hash_key")
    @classmethod
    def _hex(cls, value: str | None) -> str | None:
        if value is not None and (len(value) != 32 or any(c not in "0123456789abcdefABCDEF" for c in value)):
            raise ValueError("must be 32 hexadecimal digits (128 bits)")
        return value


class StorageSettings(_Section):
    """Where the Delta tables and the checkpoints live."""

    path: str = Field(..., description="Folder or URI of the tables and checkpoints.")
    retention_hours: float = Field(168.0, gt=0, description="Rows of the views older than this are deleted.")
    maintenance_interval_s: float = Field(900.0, gt=0, description="How often files are compacted and vacuumed.")


class CompareSettings(_Section):
    """How the views are compared."""

    trigger_ms: int = Field(1000, ge=0)
    max_rows_per_trigger: int = Field(1_000_000, ge=1, description="Recorded rows that a micro-batch compares.")
    grace_ms: int = Field(3000, ge=0, description="How long a last stable offset may trail before it is a suspect.")
    state_cap_bytes: int = Field(64 << 20, ge=1 << 16, description="Cap of unmatched state per topic partition.")


class FindingSettings(_Section):
    """How suspects are confirmed."""

    probe_timeout_ms: int = Field(3000, ge=100)
    probe_retry_ms: int = Field(1000, ge=10)
    recheck_interval_s: float = Field(30.0, gt=0, description="How often open findings are probed again.")
    max_scan_bytes: int = Field(64 << 20, ge=1 << 16, description="Bytes that one probe may read from a replica.")
    max_bytes_per_second: int = Field(
        10 << 20, ge=1 << 16, le=1 << 34, description="Read from each broker by all probes together, at most."
    )


class AuditSettings(_Section):
    """The batch comparison, by the job and by ``parallax audit``."""

    interval_s: float = Field(0.0, ge=0, description="How often the job audits the brokers; 0: never.")
    topics: list[str] = Field(default_factory=list, description="Topics that the job audits; all watched by default.")
    max_bytes_per_second: int = Field(10 << 20, ge=0, description="Read from each broker at most; 0: no limit.")
    unread_delay_s: float = Field(
        60.0,
        ge=0,
        description="How long after it was noticed the job audits a partition with offsets that were not read in time; "
        "0: never.",
    )
    confirm_timeout_s: float = Field(30.0, gt=0, description="How long probes may take before a suspect is unknown.")


class AlertingSettings(_Section):
    """How findings are reported."""

    metrics_host: str = "0.0.0.0"  # noqa: S104 - an exporter is scraped from elsewhere
    metrics_port: int = Field(9464, ge=0, le=65535)


class SupervisorSettings(_Section):
    """How the queries are kept alive."""

    restart_backoff_ms: int = Field(1000, ge=0)
    restart_backoff_max_ms: int = Field(60000, ge=0)
    no_progress_deadline_s: float = Field(120.0, gt=0)


class SparkSettings(_Section):
    """The local Spark session; ``conf`` is passed through."""

    master: str = "local[4]"
    driver_memory: str = "1g"
    driver_java_options: str = Field(
        "-XX:+UseSerialGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000",
        description="Options of Spark's JVM; by default only what runs ten times as often as usual is compiled best.",
    )
    conf: dict[str, str] = Field(default_factory=dict)


class Settings(BaseSettings):
    """All settings; see conf/parallax.yaml for the annotated reference."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix="PARALLAX_", env_nested_delimiter="__")

    kafka: dict[str, str]
    topics: TopicSettings
    storage: StorageSettings
    read: ReadSettings = Field(default_factory=ReadSettings)
    compare: CompareSettings = Field(default_factory=CompareSettings)
    findings: FindingSettings = Field(default_factory=FindingSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    alerting: AlertingSettings = Field(default_factory=AlertingSettings)
    supervisor: SupervisorSettings = Field(default_factory=SupervisorSettings)
    spark: SparkSettings = Field(default_factory=SparkSettings)

    @field_validator("kafka", mode="before")
    @classmethod
    def _bootstrap(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not value.get("bootstrap.servers"):
            raise ValueError("kafka: bootstrap.servers is missing; write host:port[,host:port]")
        return {str(k): _option_text(v) for k, v in value.items()}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file (which comes in as the initial values)."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def load(path: str | Path) -> Settings:
    """Read and validate a settings file.

    Raises:
        ConfigError: the file is missing, is not YAML, or holds a setting that is unknown or ill-typed.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give the file with -c") from error
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must hold a mapping of sections (kafka, topics, storage, ...)")
    return validate(document, where=str(path))


def validate(document: dict[str, Any], where: str = "settings") -> Settings:
    """Validate settings that are already a mapping.

    Raises:
        ConfigError: with one line naming every offending option.
    """
    written = {section: value for section, value in document.items() if value is not None}  # "read:" with all commented
    try:
        return Settings(**written)
    except ValidationError as error:
        parts = []
        for item in error.errors(include_url=False, include_input=False):
            option = ".".join(str(p) for p in item["loc"]) or "settings"
            unknown = item["type"] == "extra_forbidden"
            reason = "unknown setting; remove it or correct its name" if unknown else item["msg"]
            parts.append(f"{option}: {reason}")
        raise ConfigError(f"{where}: " + "; ".join(parts)) from error


__all__ = ["ConfigError", "Settings", "load", "validate"]
