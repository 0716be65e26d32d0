"""``parallax run``: its exit code tells an init system whether another start can help."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parallax.cli import app
from parallax.config import ConfigError
from parallax.errors import SetupError, is_passing
from parallax.jars import NotFetchedError
from parallax.job import InterruptedJobError, JobError, lock_storage
from parallax.replica.errors import DeadlineExceeded, NotABroker, OtherCluster, ReplicaError, Unreachable
from parallax.views.objects import StoreError

AGAIN, NEVER = 1, 2


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Nothing is left of what a job that ran in this process does on a signal."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "parallax.yaml"
    file.write_text(
        "kafka: {bootstrap.servers: '127.0.0.1:1'}\ntopics: {include: [orders]}\n"
        f"storage: {{path: {tmp_path}/data}}\nread: {{request_timeout_ms: 300}}\n"
    )
    return file


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InterruptedJobError("it is in use"), AGAIN),
        (NotFetchedError("Maven Central does not answer"), AGAIN),
        (Unreachable("no broker answered"), AGAIN),
        (DeadlineExceeded("no broker answered"), AGAIN),
        (caused(ConfigError("cannot be read"), StoreError("the store refuses connections")), AGAIN),
        (caused(JobError("cannot be written"), OSError(errno.ENOSPC, "No space left on device")), AGAIN),
        (caused(JobError("cannot be written"), OSError(errno.EACCES, "Permission denied")), NEVER),
        (SetupError("there is no JDK"), NEVER),
        (ConfigError("storage.path: is empty"), NEVER),
        (OtherCluster("another cluster answers"), NEVER),
        (NotABroker("a controller answers"), NEVER),
        (ReplicaError("an option is unknown"), NEVER),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else str(one),
)
def test_it_ends_for_good_only_for_what_somebody_has_to_mend(
    monkeypatch: pytest.MonkeyPatch, config: Path, error: Exception, code: int
) -> None:
    def run(*_: object) -> None:
        raise error

    monkeypatch.setattr("parallax.job.run_until_signal", run)
    ended = CliRunner().invoke(app, ["run", "-c", str(config)])
    assert ended.exit_code == code
    assert ended.stderr == f"parallax: {error}\n"
    assert is_passing(error) is (code == AGAIN)


def test_brokers_that_do_not_answer_are_a_reason_to_start_it_again(config: Path) -> None:
    ended = CliRunner().invoke(app, ["run", "-c", str(config)])
    assert (ended.exit_code, "127.0.0.1:1" in ended.stderr) == (AGAIN, True), ended.output


def test_so_is_a_storage_that_another_job_still_has(config: Path, tmp_path: Path) -> None:
    lock = lock_storage(str(tmp_path / "data"))
    assert lock is not None
    ended = CliRunner().invoke(app, ["run", "-c", str(config)])
    lock.close()
    assert (ended.exit_code, "is in use by the job with pid" in ended.stderr) == (AGAIN, True), ended.output
