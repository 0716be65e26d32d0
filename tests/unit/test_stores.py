"""How an object store is reached is said once, and each library is told in its own words."""

from __future__ import annotations

import pytest

from parallax.stores import (
    executor_options,
    hadoop_options,
    hadoop_path,
    is_remote,
    is_s3,
    rust_path,
    set_environment,
)


def test_each_library_has_its_spelling() -> None:
    for uri in ("s3://b/p", "s3a://b/p", "s3n://b/p"):
        assert (rust_path(uri), hadoop_path(uri)) == ("s3://b/p", "s3a://b/p")
        assert is_s3(uri)
        assert is_remote(uri)
    for local in ("/data", "file:/data", "file:///data"):
        assert not is_remote(local)
        assert rust_path(local) == "/data"
    assert is_remote("gs://b/p")
    assert not is_s3("gs://b/p")


def test_what_spark_is_told_of_s3_holds_for_the_others_and_goes_before_the_environment() -> None:
    environment = {"AWS_REGION": "a", "AWS_ACCESS_KEY_ID": "old", "AWS_SESSION_TOKEN": "of the old one"}
    conf = {
        "spark.hadoop.fs.s3a.endpoint": "store:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "b",
        "spark.hadoop.fs.s3a.access.key": "id",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.threads.max": "9",
    }
    set_environment("s3a://tables/job", conf, environment)
    assert environment == {
        "AWS_ENDPOINT_URL": "http://store:9000",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "b",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_CONDITIONAL_PUT": "etag",
    }


def test_the_environment_of_awss_own_tools_is_enough() -> None:
    environment = {"AWS_ENDPOINT_URL_S3": "https://s3", "AWS_ENDPOINT_URL": "https://all", "AWS_DEFAULT_REGION": "eu"}
    set_environment("s3a://tables/job", {}, environment)
    assert environment["AWS_ENDPOINT_URL"] == "https://s3"
    assert environment["AWS_REGION"] == "eu"
    assert "AWS_ALLOW_HTTP" not in environment
    options = hadoop_options(environment)
    assert options["spark.hadoop.fs.s3a.endpoint"] == "https://s3"
    assert options["spark.hadoop.fs.s3a.endpoint.region"] == "eu"
    assert options["spark.hadoop.fs.s3a.path.style.access"] == "true"


def test_no_other_commit_protocol_than_conditional_puts_is_left() -> None:
    environment = {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    set_environment("s3a://tables/job", {}, environment)
    assert environment == {"AWS_CONDITIONAL_PUT": "etag"}


@pytest.mark.parametrize("options", [hadoop_options, executor_options])
def test_no_secret_is_put_into_an_option(options: object) -> None:
    secret = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    given = options(secret | {"AWS_REGION": "eu"})  # type: ignore[operator]
    assert not set(given.values()) & set(secret.values())
    assert "eu" in given.values()


def test_aws_itself_is_reached_by_its_own_host_names() -> None:
    assert "spark.hadoop.fs.s3a.path.style.access" not in hadoop_options({"AWS_REGION": "eu"})
    by_host = {"AWS_ENDPOINT_URL": "https://s3", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}
    assert hadoop_options(by_host)["spark.hadoop.fs.s3a.path.style.access"] == "false"


def test_a_pod_with_a_role_of_its_own_is_known_to_hadoop() -> None:
    options = hadoop_options({"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token"})
    assert options["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith("WebIdentityTokenFileCredentialsProvider")


@pytest.mark.parametrize("storage", ["/var/lib/parallax", "file:///var/lib/parallax", "abfss://tables@account/job"])
def test_where_the_storage_is_no_s3_nothing_of_one_comes_into_the_environment(storage: str) -> None:
    environment: dict[str, str] = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}
    set_environment(storage, {"spark.hadoop.fs.s3a.secret.key": "s"}, environment)
    assert environment == {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}
