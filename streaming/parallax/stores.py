"""Translates the settings of an object store (S3) for each library that reads or writes there.

All use the environment variables of AWS's own tools. delta-rs and obstore read them by themselves, in any process. The
SDK in Spark's JVM reads only its credentials there; it gets everything else as Hadoop's options. So secrets are only in
the environment or in a settings file, and in no option, log or command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping

HADOOP = "spark.hadoop.fs.s3a."
"""The prefix of the names that options of Hadoop's S3A have in ``spark.conf``."""

_VARIABLES = {
    "endpoint": "AWS_ENDPOINT_URL",
    "endpoint.region": "AWS_REGION",
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
}
"""By option of Hadoop's S3A, the variable of AWS's own tools."""

PUBLIC = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ALLOW_HTTP", "AWS_CONDITIONAL_PUT", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST")
"""Environment variables that hold no secrets, and that Spark's executors need too."""

_OTHER_PROTOCOLS = ("AWS_S3_LOCKING_PROVIDER", "AWS_S3_ALLOW_UNSAFE_RENAME")
"""Variables with which delta-rs would not commit by conditional puts."""

STORES = frozenset({"file", "s3a", "s3", "s3n", "gs", "abfs", "abfss"})
"""Schemes of a storage path that delta-rs, obstore and Hadoop all know; they are written in small letters."""


def is_remote(storage: str) -> bool:
    """Whether a storage path is the URI of an object store, and not a folder on this machine."""
    return "://" in storage and not storage.startswith("file:")


def is_s3(storage: str) -> bool:
    """Whether a storage path is in S3: it begins with ``s3://``, ``s3a://`` or ``s3n://``."""
    return re.match(r"s3[an]?://", storage) is not None


def rust_path(path: str) -> str:
    """A storage path as delta-rs and obstore spell it: with ``s3://``, and without ``file:``."""
    return re.sub(r"^file:(//)?", "", re.sub(r"^s3[an]://", "s3://", path))


def hadoop_path(path: str) -> str:
    """A storage path as Hadoop spells it: with ``s3a://`` for S3."""
    return re.sub(r"^s3n?://", "s3a://", path)


def set_environment(storage: str, conf: Mapping[str, str], environment: MutableMapping[str, str]) -> None:
    """Set AWS's environment variables from ``spark.conf``, so that every library reaches the same store.

    ``spark.conf`` takes precedence over the environment, as in Hadoop. The variables also make delta-rs commit by
    conditional puts, because writers with unlike protocols lose each other's commits. If the storage is not S3, the
    environment stays as it is.

    Args:
        storage: ``storage.path``.
        conf: ``spark.conf`` of the settings.
        environment: the environment of this process, changed in place; processes that it starts inherit it.
    """
    if not is_s3(storage):
        return
    given = {option.removeprefix(HADOOP): value for option, value in conf.items() if option.startswith(HADOOP)}
    if "access.key" in given:
        environment.pop("AWS_SESSION_TOKEN", None)  # that of other keys
    if "endpoint" in given and "://" not in given["endpoint"]:
        scheme = "http" if given.get("connection.ssl.enabled", "true").strip().lower() == "false" else "https"
        given["endpoint"] = f"{scheme}://{given['endpoint']}"
    environment.update({_VARIABLES[name]: value for name, value in given.items() if name in _VARIABLES})
    # The address of S3 alone goes before that of all services, which is the one that all libraries know.
    own = environment.get("AWS_ENDPOINT_URL_S3")
    if own and "endpoint" not in given:
        environment["AWS_ENDPOINT_URL"] = own
    region = environment.get("AWS_DEFAULT_REGION")
    if region:
        environment.setdefault("AWS_REGION", region)
    if environment.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        environment["AWS_ALLOW_HTTP"] = "true"
    environment["AWS_CONDITIONAL_PUT"] = "etag"
    for name in _OTHER_PROTOCOLS:
        environment.pop(name, None)


def hadoop_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Spark options with which Hadoop reaches the store that the environment names, without credentials.

    Hadoop finds credentials in the environment by itself.
    """
    # A checkpoint's files are written aside and renamed: nobody needs to look first what is there.
    options = {"performance.flags": "create,mkdir,delete"}
    endpoint = environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["endpoint"] = endpoint
        # A server of one's own seldom has a host name for each bucket.
        by_host = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() == "true"
        options["path.style.access"] = "false" if by_host else "true"
    if environment.get("AWS_REGION"):
        options["endpoint.region"] = environment["AWS_REGION"]
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        options["aws.credentials.provider"] = (
            "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
        )
    return {HADOOP + name: value for name, value in options.items()}


def executor_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Spark options that pass the store's environment variables to Spark's executors, without secrets.

    The executors have credentials for the store already, by a role or in their own environment.
    """
    return {f"spark.executorEnv.{name}": environment[name] for name in PUBLIC if environment.get(name)}


__all__ = [
    "STORES",
    "executor_options",
    "hadoop_options",
    "hadoop_path",
    "is_remote",
    "is_s3",
    "rust_path",
    "set_environment",
]
