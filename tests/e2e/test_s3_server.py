"""What is asked of an object store, shown on a real S3 server, and on one that does not honour conditional puts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from parallax.check import Result, _storage
from parallax.compare.segments import Manifest, Store
from parallax.job import JobError, take_lease, take_over
from parallax.stores import rust_path, set_environment
from parallax.views import fencing
from parallax.views.control import create_document, read_document, write_document
from parallax.views.fencing import FencedError, hold, raise_fence, release
from parallax.views.filesystem import filesystem
from parallax.views.maintenance import Maintenance
from parallax.views.objects import Objects
from parallax.views.tables import VIEWS, create_tables, rust_uri
from parallax.views.unused import remove_unused
from tests.s3_server import S3Server

pytestmark = pytest.mark.release
"""On a machine that has never built the server, that takes two minutes of its processor."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch, S3Server(tmp_path_factory.mktemp("s3")) as server:
        reach(server, patch)
        yield server


def reach(server: S3Server, patch: pytest.MonkeyPatch) -> None:
    """Have this process reach a server."""
    for name in ("AWS_ALLOW_HTTP", "AWS_CONDITIONAL_PUT"):
        patch.setenv(name, "")
    for name, value in server.environment.items():
        patch.setenv(name, value)
    set_environment("s3a://any", {}, os.environ)


@pytest.fixture
def storage(server: S3Server) -> str:
    return server.uri(uuid4().hex)


ROWS = pa.table({"a": [1]})


def test_the_put_of_a_second_writer_is_refused(storage: str) -> None:
    first, second = Objects(storage), Objects(storage)
    assert first.create("a", b"1")
    assert not second.create("a", b"2")
    assert second.get("a") == b"1"


def test_of_many_that_put_at_once_one_is_taken(storage: str) -> None:
    store = Objects(storage)
    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(lambda n: store.create(f"a/{n // 8}", str(n).encode()), range(400)))
    assert [sum(taken[n * 8 : n * 8 + 8]) for n in range(50)] == [1] * 50


def test_an_entry_of_a_tables_log_that_is_there_is_not_replaced(storage: str) -> None:
    uri = rust_path(f"{storage}/t")
    write_deltalake(uri, ROWS)
    entry = "_delta_log/00000000000000000001.json"
    stale = DeltaTable(uri)
    foreign = b'{"commitInfo":{"timestamp":1}}\n{"txn":{"appId":"other","version":1}}\n'
    assert Objects(uri).create(entry, foreign)
    write_deltalake(stale, ROWS, mode="append")
    assert Objects(uri).get(entry) == foreign
    assert DeltaTable(uri).version() == 2


def test_a_commit_that_looked_before_the_fence_of_another_job_is_refused(storage: str) -> None:
    uri = rust_path(f"{storage}/t")
    write_deltalake(uri, ROWS)
    raise_fence(uri, 1)
    hold(storage, 1)
    try:
        old = DeltaTable(uri)
        marks = CommitProperties(app_transactions=fencing.epoch_marks(old))
        raise_fence(uri, 2)
        with pytest.raises(CommitFailedError):
            write_deltalake(old, ROWS, mode="append", commit_properties=marks)
        with pytest.raises(FencedError):
            fencing.commit(
                lambda: DeltaTable(uri), lambda t, p: write_deltalake(t, ROWS, mode="append", commit_properties=p)
            )
    finally:
        release(storage)
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 1


def test_a_lease_and_its_fences_are_on_every_table(storage: str) -> None:
    first = take_lease(storage, lambda _: None)
    try:
        take_over(storage, "0" * 32, first.epoch)
        first.release()
        second = take_lease(storage, lambda _: None)
        take_over(storage, "0" * 32, second.epoch)
        tables = {name for name in Objects(storage).children("")[0] if name != "lease"}
        assert {"suspects", "findings", "audits", "notifications", "replica_progress", *VIEWS} == tables
        assert {DeltaTable(rust_uri(storage, t)).transaction_version(fencing.EPOCH) for t in tables} == {2}
        with pytest.raises(JobError, match="taken over"):
            take_over(storage, "0" * 32, 1)
    finally:
        release(storage)


def test_files_are_written_read_and_removed_beside_a_table(storage: str) -> None:
    uri = rust_path(f"{storage}/t")
    rows = pa.table({"a": list(range(100_000))})
    write_deltalake(uri, rows)
    files = filesystem(uri)
    with files.open_output_stream("never-committed.parquet") as out:
        pq.write_table(rows, out)
    with files.open_input_file("never-committed.parquet") as source:
        assert pq.read_table(source).equals(rows)
    assert remove_unused(uri, 1, full=True) == 0, "somebody may be about to commit it"
    assert remove_unused(uri, 0, full=True) == 1
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 100_000


def test_upkeep_runs_on_the_tables(storage: str) -> None:
    from parallax.config import StorageSettings

    create_tables(storage)
    done = {}
    Maintenance(StorageSettings(path=storage), done.__setitem__).run_once()
    assert len(done) == 3
    assert None not in done.values()


def test_a_state_of_the_comparison_is_kept(storage: str) -> None:
    store = Store(f"{storage}/checkpoints/compare/1")
    store.prepare()
    segments = store.save([store.load({3: None})[3]])
    manifest = Manifest().with_segments(segments)
    store.commit("mark", manifest)
    again = Store(f"{storage}/checkpoints/compare/1")
    again.prepare()
    assert again.manifest("mark") == manifest
    assert again.load({3: segments[3]})[3].rows().num_rows == 0


def test_check_says_whether_a_store_will_do(
    server: S3Server, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _storage(storage).result is Result.FINE
    assert Objects(storage).below() == [], "nothing is left"
    line = _storage("s3a://no-such-bucket/x")
    assert line.result is Result.WRONG
    assert "NoSuchBucket" in line.text
    with monkeypatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        line = _storage(storage)
        assert line.result is Result.WRONG
        assert "SignatureDoesNotMatch" in line.text
        assert server.ACCESS_KEY not in line.text
    with monkeypatch.context() as patch, S3Server(tmp_path, conditional=False) as other:
        reach(other, patch)
        line = _storage(other.uri("x"))
        assert line.result is Result.WRONG
        assert "If-None-Match" in line.text
        with pytest.raises(JobError, match="If-None-Match"):
            take_lease(other.uri("y"), lambda _: None)


def test_a_small_document_is_put_once_replaced_and_read(storage: str) -> None:
    create_document(storage, "one.json", {"a": 1})
    create_document(storage, "one.json", {"a": 2})
    assert read_document(storage, "one.json") == {"a": 1}
    write_document(storage, "one.json", {"a": 3})
    assert read_document(storage, "one.json") == {"a": 3}
