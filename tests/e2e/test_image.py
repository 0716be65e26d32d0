"""The image, built as deploy/image says, and run as the chart's rendered files say, by its page's words alone."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from parallax.lab.admin import topic_config
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.waiting import until
from parallax.lab.watched import recorded_by
from tests.charts import documents, rendered
from tests.e2e.job_process import expected_places, places, standing
from tests.e2e.kafka_tools import run_as_written
from tests.e2e.pod import Identity, Pod
from tests.e2e.secured import add_user, addresses, brokers_with_tls, granting

ROOT = Path(__file__).parents[2]
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
REPOSITORY = "localhost/parallax-tested"
GIB = 1 << 30
PAGE = (ROOT / "docs" / "operate" / "kubernetes.md").read_text()
PLAIN, SECURED = "as the chart says", "as OpenShift decides, with TLS and rights"
AS_OPENSHIFT_DECIDES = Identity(user=123_456, group=0, volumes=123_456)
"""Ids of the namespace, which no file of the image knows."""
JOB, REPAIRER = "parallax", "parallax-repair"
PASSWORDS = {JOB: "only-reads", REPAIRER: "repairs"}

pytestmark = [pytest.mark.release, pytest.mark.alone, pytest.mark.timeout(3000)]


@pytest.fixture(scope="module")
def image() -> str:
    """The image, of which the machine that built it is no part: one of its names."""
    options = f"--isolation chroot -v {AUTHORITIES}:/run/ca.crt:ro --build-arg PIP_CERT=/run/ca.crt"
    version = yaml.safe_load((ROOT / "deploy" / "helm" / "parallax" / "Chart.yaml").read_text())["appVersion"]
    name = f"{REPOSITORY}:{version}"
    subprocess.run(
        [ROOT / "deploy" / "image" / "build.sh", name], env=os.environ | {"BUILDAH_OPTIONS": options}, check=True
    )
    return name


def values(servers: str, case: str) -> dict[str, Any]:
    """The values of the page, for this registry and these brokers; for `SECURED` its lines are turned on."""
    (block,) = re.findall(r"(?s)```yaml\n(.*?)\n```\n", PAGE)
    if case == SECURED:
        block = re.sub(r"(?m)^( *)#(?=\w)", r"\1", block)
    given: dict[str, Any] = yaml.safe_load(block)
    given["image"]["repository"] = REPOSITORY
    given["config"]["kafka"]["bootstrap.servers"] = servers
    given["config"]["topics"] = {"pattern": ".*(frozen|orders)"}
    given["config"]["alerting"]["users"]["ann"] = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    return given


def secret(config: dict[str, Any], tls: Path) -> dict[str, str]:
    """The files of the Secret that the settings of a job name, and those of repairs."""
    made = {"hash-key": "5a" * 16}
    if "kafka_files" not in config:
        return made
    of_repair = {
        "kafka": config["kafka"] | {"sasl.username": REPAIRER},
        "kafka_files": {"sasl.password": "/etc/parallax/secret/repair-password"},
        "storage": {"path": "/data"},
        "repair": {"mode": "on"},
    }
    return made | {
        "ca.crt": (tls / "ca.pem").read_text(),
        "password": PASSWORDS[JOB],
        "repair-password": PASSWORDS[REPAIRER],
        "repair.yaml": yaml.safe_dump(config | of_repair),
    }


OF_A_LAB = """
config:
  read: {metadata_refresh_ms: 1000, progress_interval_ms: 5000, hash_key_file: /etc/parallax/secret/hash-key}
  audit: {unread_delay_s: 0}
existingSecret: parallax
extraEnv: [{name: PARALLAX_ALERTING__CLUSTER, value: lab}]
"""
"""What topics need whose deletions go after a second; and a Secret and a variable, which are to be seen to arrive."""


@pytest.fixture(params=[PLAIN, SECURED])
def case(request: pytest.FixtureRequest) -> str:
    """Which ids the pod gets, and what the brokers ask for."""
    return str(request.param)


@pytest.fixture
def pod(case: str, image: str, cluster: Cluster, tmp_path: Path) -> Iterator[Pod]:
    """The pod of what the chart renders."""
    servers = addresses(cluster) if case == SECURED else cluster.bootstrap_servers
    given = [tmp_path / "values.yaml", tmp_path / "lab.yaml"]
    for file, text in zip(given, (yaml.safe_dump(values(servers, case)), OF_A_LAB), strict=True):
        file.write_text(text)
    options: list[str | Path] = [option for file in given for option in ("-f", file)]
    identity = None
    if case == SECURED:
        identity = AS_OPENSHIFT_DECIDES
        options += ["--set", "podSecurityContext=null"]
    kinds = documents(rendered("parallax", *options))
    config = yaml.safe_load(kinds["ConfigMap"][0]["data"]["parallax.yaml"])
    with Pod(kinds, {"parallax": secret(config, tmp_path)}, tmp_path, identity) as pod:
        yield pod


@pytest.fixture
def cluster(case: str, tmp_path: Path) -> Iterator[Cluster]:
    with brokers_with_tls(tmp_path) if case == SECURED else Cluster() as made:
        made.create_topic("orders", config={"cleanup.policy": "compact"})
        if case == SECURED:
            for name, password in PASSWORDS.items():
                add_user(made.admin, name, password)
            of_a_job = granting("security.md").replace("orders customers", "'*'")
            for commands in (of_a_job, of_a_job.replace(f"User:{JOB}", f"User:{REPAIRER}"), granting("repair.md")):
                run_as_written(commands, tmp_path, BROKER=made.brokers[1].address)
        yield made


def test_by_the_readme_and_the_rendered_files_a_divergence_is_found_and_all_is_removed(
    pod: Pod, cluster: Cluster, case: str
) -> None:
    data = str(pod.volume("data"))
    pod.start()
    notes = (ROOT / "deploy" / "helm" / "parallax" / "templates" / "NOTES.txt").read_text()
    for command in in_the_pod(notes, "check", "findings"):
        done = pod.execute(*command)
        assert done.returncode == 0, (command, done.stdout + done.stderr)
    assert not Path(data, "hash_key").exists(), "the Secret's is used"
    assert page("ann") == 200
    with pytest.raises(urllib.error.HTTPError, match="401"):
        page("bob")

    played = SCENARIOS["frozen"].run(cluster, topic_prefix="image.", await_observed=recorded_by(data))
    until(lambda: places(standing(data)) == expected_places(played.expected), "the finding", timeout=420)
    (found,) = standing(data)
    explained = pod.execute("parallax", "findings", "explain", found.finding_id, "-c", "/etc/parallax/parallax.yaml")
    assert explained.returncode == 0, explained.stderr
    assert "read_committed" in explained.stdout
    if case == SECURED:
        for command in in_the_pod(PAGE, "repair plan", "repair run"):
            words = [found.finding_id if word == "ID" else word for word in command]
            done = pod.execute(*words, *(["--yes"] if "run" in words else []))
            assert done.returncode == 0, (words, done.stdout + done.stderr)
        until(lambda: [one.status for one in standing(data)] == ["resolved"], "the end of the finding")
        assert pod.execute("tar", "--version").returncode == 0, "kubectl cp needs it"
    untouched = written_and_set(cluster)
    assert_it_ends_in_its_grace(pod)

    pod.start()
    released = pod.execute("parallax", "guard", "release", "--all", "-c", "/etc/parallax/parallax.yaml")
    assert released.returncode == 0, released.stderr
    assert [one.finding_id for one in standing(data)] == [found.finding_id]
    assert_it_ends_in_its_grace(pod)
    assert written_and_set(cluster) == untouched
    log = pod.log.read_text()
    assert "Traceback" not in log
    assert '"level": "critical"' not in log


def in_the_pod(text: str, *wanted: str) -> list[list[str]]:
    """The commands of Parallax that a text tells a user to run in the pod, one for each beginning that is wanted."""
    told = [line.partition(" -- ")[2] for line in text.splitlines() if " exec " in line]
    found = [one.split() for name in wanted for one in told if one.startswith(f"parallax {name}")]
    assert len(found) == len(wanted), told
    return found


def page(user: str) -> int:
    """Ask for the status page as somebody of this name; gives the status of the answer."""
    login = base64.b64encode(f"{user}:secret".encode()).decode()
    request = urllib.request.Request("http://127.0.0.1:9464/", headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(answer.status)


def assert_it_ends_in_its_grace(pod: Pod) -> None:
    code, took_s = pod.delete()
    print(f"ended with {code} after {took_s:.1f} s; its processes had {pod.peak / GIB:.2f} GiB")
    assert code == 0
    assert took_s < pod.grace_s
    assert pod.liveness.failures == []
    assert pod.startup.failures == []
    assert pod.peak < pod.memory_limit


def written_and_set(cluster: Cluster) -> dict[str, Any]:
    """What a monitor must not touch: how much is in each topic, their settings, and who consumes in groups."""
    topics = sorted(name for name in cluster.admin.list_topics(timeout=30).topics if not name.startswith("__"))
    latest = {TopicPartition(topic, 0): OffsetSpec.latest() for topic in topics}
    ends = {place.topic: asked.result().offset for place, asked in cluster.admin.list_offsets(latest).items()}
    groups = [group.group_id for group in cluster.admin.list_consumer_groups().result().valid]
    return {"ends": ends, "settings": {topic: topic_config(cluster, topic) for topic in topics}, "groups": groups}
