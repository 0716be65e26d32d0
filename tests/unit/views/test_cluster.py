"""What is said of a Spark cluster's workers, and what the driver arranges for them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from parallax.config import SparkSettings
from parallax.errors import SetupError
from parallax.views.cluster import check_master, cluster_conf, home_of_planners, is_cluster, what_is_wrong_here, why


@pytest.mark.parametrize(
    ("master", "wanted"),
    [("local[4]", False), ("local", False), ("local-cluster[2,1,512]", True), ("spark://a:7077", True), ("yarn", True)],
)
def test_only_a_local_master_runs_its_tasks_here(master: str, wanted: bool) -> None:
    assert is_cluster(master) is wanted


def test_a_relative_path_of_the_workers_python_leads_to_the_drivers_own_on_the_driver() -> None:
    folder = home_of_planners("./environment/bin/python")
    assert folder is not None
    command = ["./environment/bin/python", "-c", "import sys; print(sys.prefix)"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == sys.prefix


@pytest.mark.parametrize("python", ["/opt/parallax/bin/python", "python3"])
def test_any_other_path_is_the_same_on_the_driver(python: str) -> None:
    assert home_of_planners(python) is None


def test_what_is_authenticated_is_encrypted_as_well() -> None:
    plain = SparkSettings(master="spark://a:7077")
    secret = SparkSettings(master="spark://a:7077", conf={"spark.authenticate": "true"})
    assert "spark.network.crypto.enabled" not in cluster_conf(plain)
    assert cluster_conf(secret)["spark.network.crypto.enabled"] == "true"
    assert cluster_conf(SparkSettings(master="yarn"))["spark.network.crypto.enabled"] == "true"


def test_a_master_that_is_not_there_is_one_line_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SetupError, match=r"^spark\.master: spark://127.*Connection refused"):
            check_master(master)


def test_of_several_masters_one_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Error from python worker:\n  No module named 'parallax'\nPYTHONPATH was", "lacks parallax"),
        ('java.io.IOException: Cannot run program "/no/python": error=2', "there is no /no/python on a worker"),
        (
            "worker:\n  this worker has Parallax a, and the job is Parallax b; give both the same\nP",
            "give both the same",
        ),
        ("something\nelse", "a task of the workers failed (something else)"),
    ],
)
def test_a_failure_of_a_worker_is_one_line_that_names_the_option(text: str, said: str) -> None:
    line = why(text)
    assert said in line
    assert line.startswith("spark.")
    assert "\n" not in line


def test_a_worker_says_which_file_or_folder_of_the_driver_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "mark").touch()
    assert isinstance(what_is_wrong_here(str(tmp_path), "mark", {}), tuple)
    lacking = what_is_wrong_here(str(tmp_path), "mark", {"ssl.ca.location": "/nowhere/ca.pem"})
    assert lacking.startswith("ssl.ca.location: /nowhere/ca.pem cannot be read on the worker ")
    other = what_is_wrong_here(str(tmp_path), "another", {})
    assert other.startswith(f"storage.path: {tmp_path} of the driver is not there on the worker ")
