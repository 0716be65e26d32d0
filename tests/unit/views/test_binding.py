from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from parallax.config import ConfigError, Settings
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import OtherCluster, Unreachable
from parallax.views import binding
from parallax.views.binding import bind, bound_to, id_of, settled, with_cluster
from tests.builders.settings import settings_of
from tests.patience import PATIENCE_S
from tests.unit.replica.servers import Broker, broker, free_port


def of(tmp_path: Path, *ports: int, **kafka: Any) -> Settings:
    servers = [f"127.0.0.1:{port}" for port in ports]
    return settings_of(tmp_path / "data", kafka={"bootstrap.servers": servers, **kafka})


@pytest.fixture
def clusters() -> Any:
    """One broker of each of two clusters."""
    with ExitStack() as stack:
        made: list[Broker] = [stack.enter_context(broker()) for _ in range(2)]
        for one, name in zip(made, ("of-a", "of-b"), strict=True):
            one.cluster = name
        yield made


def test_the_first_start_binds_a_storage_and_it_stays_bound(tmp_path: Path, clusters: list[Broker]) -> None:
    a, b = clusters
    assert bound_to(str(tmp_path / "data")) is None
    assert settled(of(tmp_path, a.port)).kafka["cluster.id"] == "of-a"
    assert bound_to(str(tmp_path / "data")) == "of-a"
    assert settled(of(tmp_path, b.port)).kafka["cluster.id"] == "of-a", (
        "and so cluster B is refused by every connection"
    )


def test_of_two_that_bind_a_storage_at_one_moment_the_first_does_and_the_other_is_refused(
    tmp_path: Path, clusters: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = clusters
    together = Barrier(2, timeout=PATIENCE_S)

    def told_late(storage: str) -> str | None:
        """Both have looked before either binds."""
        known = bound_to(storage)
        if known is None:
            together.wait()
        return known

    monkeypatch.setattr(binding, "bound_to", told_late)
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(settled, (of(tmp_path, a.port), of(tmp_path, b.port))))
    standing = bound_to(str(tmp_path / "data"))
    assert [one.kafka["cluster.id"] for one in found] == [standing, standing]
    loser = found[standing == "of-a"]
    with closing(ReplicaClient(loser.kafka)) as client, pytest.raises(OtherCluster, match="belongs to cluster of-"):
        client.metadata([])


def test_addresses_of_two_clusters_bind_nothing(tmp_path: Path, clusters: list[Broker]) -> None:
    a, b = clusters
    with pytest.raises(ConfigError, match=r"^kafka\.bootstrap\.servers: .* several clusters .*belongs to cluster of-"):
        settled(of(tmp_path, a.port, b.port))
    assert bound_to(str(tmp_path / "data")) is None


def test_the_settings_may_say_which_cluster_it_is(tmp_path: Path, clusters: list[Broker]) -> None:
    a, b = clusters
    settings = of(tmp_path, a.port, b.port, **{"cluster.id": "of-b"})
    assert settled(settings).kafka["cluster.id"] == "of-b"
    assert bound_to(str(tmp_path / "data")) == "of-b"


def test_a_first_start_at_another_cluster_than_the_settings_name_is_refused(
    tmp_path: Path, clusters: list[Broker]
) -> None:
    with pytest.raises(OtherCluster, match="no broker of cluster of-b answered"):
        settled(of(tmp_path, clusters[0].port, **{"cluster.id": "of-b"}))
    assert bound_to(str(tmp_path / "data")) is None


def test_where_nobody_answers_nothing_is_bound(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no broker answered"):
        settled(of(tmp_path, free_port()))
    assert bound_to(str(tmp_path / "data")) is None


def test_a_cluster_without_an_id_binds_nothing(tmp_path: Path, clusters: list[Broker]) -> None:
    clusters[0].cluster = ""
    assert "cluster.id" not in settled(of(tmp_path, clusters[0].port)).kafka
    assert bound_to(str(tmp_path / "data")) is None


def test_settings_that_name_another_cluster_than_the_storage_are_refused(tmp_path: Path) -> None:
    bind(str(tmp_path / "data"), "of-a")
    for take in (with_cluster, settled):
        with pytest.raises(
            ConfigError, match=r"kafka\.cluster\.id: is of-b, and storage\.path belongs to cluster of-a"
        ):
            take(of(tmp_path, 1, **{"cluster.id": "of-b"}))


def test_who_only_looks_binds_nothing(tmp_path: Path) -> None:
    settings = of(tmp_path, 1)
    assert with_cluster(settings) is settings
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cluster_id": 1}', '{"cluster_id": ""}'])
def test_a_binding_that_cannot_be_read_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "data" / "control").mkdir(parents=True)
    (tmp_path / "data" / "control" / "cluster.json").write_text(text)
    with pytest.raises(ConfigError, match=r"control/cluster\.json cannot be read .*parallax storage bind"):
        bound_to(str(tmp_path / "data"))
    bind(str(tmp_path / "data"), "of-a")
    assert bound_to(str(tmp_path / "data")) == "of-a"


@pytest.mark.parametrize("cluster_id", ["", "a b", "a\n", "x" * 256])
def test_what_is_no_clusters_id_is_refused(tmp_path: Path, cluster_id: str) -> None:
    with pytest.raises(ConfigError, match=r"^--cluster: "):
        bind(str(tmp_path), cluster_id)


PACKAGE = Path(__file__).parents[3] / "streaming" / "parallax"
GIVEN = {"views/queries.py", "demo_repair.py"}
"""Called by the job, or while it runs, with the settings that it has bound."""


def test_whoever_asks_brokers_on_behalf_of_a_storage_has_its_cluster() -> None:
    asking = re.compile(r"ReplicaClient\(\w*settings\.kafka")
    knowing = re.compile(r"\b(with_cluster|settled)\(")
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    asks = {name for name, text in sources.items() if asking.search(text)}
    assert asks >= {"job.py", "guard/command.py", "audit/command.py"}
    assert {name for name in asks if not knowing.search(sources[name])} == GIVEN


def test_a_storage_has_an_id_of_its_own_which_stays_the_same_and_moves_with_it(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    made = id_of(one)
    assert re.fullmatch("[0-9a-f]{16}", made)
    assert id_of(other) != made
    bind(one, "of-a")
    bind(one, "of-b")
    moved = Path(one).rename(tmp_path / "moved")
    assert id_of(str(moved)) == made


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"storage_id": 1}', '{"storage_id": "x"}'])
def test_an_id_that_cannot_be_read_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "storage.json").write_text(text)
    with pytest.raises(ConfigError, match=r"^storage\.path: .*control/storage\.json cannot be read.*delete that file"):
        id_of(str(tmp_path))
