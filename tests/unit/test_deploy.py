"""A systemd unit, an image, a Helm chart and a user for Strimzi, each checked by its own tools."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from typer.testing import CliRunner

from parallax.cli import app
from parallax.commands import guard
from parallax.config import Settings, load
from parallax.lab.waiting import until
from tests.charts import CHART, KUBERNETES, documents, helm, rendered
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "parallax.service"

MOST_EXPOSED = 2.0
"""In systemd's own points, of which 10 is a service without any protection."""


def ran(*command: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **more)


def test_systemd_has_nothing_to_say_against_the_unit(tmp_path: Path) -> None:
    program(tmp_path / "parallax", "#!/bin/sh\n")
    unit = tmp_path / "parallax.service"
    unit.write_text(UNIT.read_text().replace("/opt/parallax/bin/parallax", str(tmp_path / "parallax")))
    verified = ran("systemd-analyze", "verify", unit)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_the_unit_leaves_little_open() -> None:
    said = ran("systemd-analyze", "security", "--offline=true", "--no-pager", UNIT).stdout
    found = re.search(r"Overall exposure level for parallax\.service: ([\d.]+)", said)
    assert found is not None, said
    assert float(found[1]) < MOST_EXPOSED


def test_the_user_of_the_unit_is_made_without_a_shell(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    made = ran("systemd-sysusers", f"--root={tmp_path}", DEPLOY / "systemd" / "parallax.sysusers")
    assert made.returncode == 0, made.stderr
    name, *_, home, shell = (tmp_path / "etc" / "passwd").read_text().strip().split(":")
    assert (name, home, shell) == ("parallax", "/var/lib/parallax", "/usr/sbin/nologin")
    assert re.search("^User=parallax$", UNIT.read_text(), re.MULTILINE)


def test_the_configuration_of_the_units_words_has_the_storage_that_the_unit_gives_the_job(tmp_path: Path) -> None:
    unit = UNIT.read_text()
    (words,) = re.findall(r"^#   /opt/parallax/bin/parallax (init .+)$", unit, re.MULTILINE)
    made = CliRunner().invoke(app, shlex.split(words.replace("/etc/parallax", str(tmp_path))))
    assert made.exit_code == 0, made.output
    (folder,) = re.findall("^StateDirectory=(.+)$", unit, re.MULTILINE)
    assert load(tmp_path / "parallax.yaml").storage.path == f"/var/lib/{folder}"


@pytest.mark.parametrize(
    "file", sorted(file for file in DEPLOY.rglob("*") if file.is_file()), ids=lambda file: file.name
)
def test_no_environment_that_a_shell_does_not_see_holds_a_setting(file: Path) -> None:
    sections = "|".join(Settings.model_fields).upper()
    found = re.findall(rf"PARALLAX_(?:{sections})\w*", file.read_text())
    assert found == [] or (file.parent == CHART and found == ["PARALLAX_SPARK__DRIVER_MEMORY"]), (
        "`kubectl exec` sees a pod's environment, and a shell sees none of a unit's"
    )


def test_the_unit_begins_again_whatever_it_ended_with() -> None:
    unit = UNIT.read_text()
    assert "\nRestart=always\n" in unit
    assert "RestartPreventExitStatus" not in unit, "2 is also a store, a mirror or a disk that comes back by itself"
    assert "\nStartLimitIntervalSec=0\n" in unit


def test_the_words_of_the_unit_fill_the_cache_that_it_reads() -> None:
    unit = UNIT.read_text()
    (read,) = re.findall(r"^Environment=.*?(PARALLAX_CACHE=\S+)", unit, re.MULTILINE)
    (command,) = re.findall(r"^#   runuser .+$", unit, re.MULTILINE)
    assert read in command
    assert "`fetch-jars`" in unit


def test_the_job_may_read_its_configuration_and_nobody_else() -> None:
    unit = UNIT.read_text()
    assert "install -d -m 750 -o root -g parallax /etc/parallax" in unit
    assert "chmod 640 /etc/parallax/parallax.yaml" in unit
    assert "ConfigurationDirectory" not in unit, "systemd gives that folder to root alone"


def test_hadolint_has_nothing_to_say_against_the_image() -> None:
    said = ran(Path(sys.executable).with_name("hadolint"), DEPLOY / "image" / "Containerfile")
    assert (said.returncode, said.stdout) == (0, "")


def test_the_image_is_built_in_a_checkout_that_nobody_has_set_up(tmp_path: Path) -> None:
    script = tmp_path / "checkout" / "deploy" / "image" / "build.sh"
    program(script, (DEPLOY / "image" / "build.sh").read_text())
    program(tmp_path / "bin" / "buildah", "#!/bin/sh\n")
    program(tmp_path / "bin" / "make", f'#!/bin/sh\necho "$@" >{tmp_path}/made\nexit 7\n')
    given = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    done = ran(script, env=given | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    assert done.returncode == 7, done.stderr
    assert (tmp_path / "made").read_text() == f"-C {tmp_path / 'checkout'} setup\n"


def test_a_command_in_the_container_has_a_passwd_entry_as_its_process_has(tmp_path: Path) -> None:
    image = (DEPLOY / "image" / "Containerfile").read_text()
    (installed,) = re.findall(r"^COPY .*entrypoint\.sh (\S+)$", image, re.MULTILINE)
    assert f'ENTRYPOINT ["{installed}"]' in image
    assert installed == "/usr/local/bin/parallax", "what `kubectl exec` finds is what the process began with"
    assert re.search(r"^ENV PATH=\$PATH:/opt/parallax/bin ", image, re.MULTILINE)

    shown = tmp_path / "shown"
    program(tmp_path / "bin" / "getent", "#!/bin/sh\nexit 2\n")
    program(tmp_path / "bin" / "find", "#!/bin/sh\n")
    program(tmp_path / "program", f'#!/bin/sh\ncat "$NSS_WRAPPER_PASSWD" >{shown}\necho "$@"\n')
    text = (DEPLOY / "image" / "entrypoint.sh").read_text()
    program(tmp_path / "parallax", text.replace("/opt/parallax/bin/python", str(tmp_path / "program")))
    (tmp_path / "tmp").mkdir()
    given = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "tmp")}
    for _ in range(2):
        done = ran(tmp_path / "parallax", "audit", "-c", "a b", env=os.environ | given)
        assert (done.returncode, done.stdout) == (0, "-P -m parallax.cli audit -c a b\n"), done.stderr
        *known, last = shown.read_text().splitlines()
        assert known == Path("/etc/passwd").read_text().splitlines()
        assert last.split(":")[2:4] == [str(os.getuid()), str(os.getgid())]
    assert len(list((tmp_path / "tmp").iterdir())) == 1, "one file, however many commands"


def test_strimzis_user_has_the_rights_of_the_document_and_no_more() -> None:
    document = (ROOT / "docs" / "operate" / "security.md").read_text()
    rights = set()
    for command in re.findall(r"kafka-acls\.sh (?:[^\n]|(?<=\\)\n)*", document.split("| without |")[0]):
        of = {"--topic": "topic", "--transactional-id": "transactionalId"}
        resources = [resource for option, resource in of.items() if f"{option} " in command]
        rights |= {(one, operation) for one in resources for operation in re.findall(r"--operation (\w+)", command)}
    (useful,) = re.findall(r"Two more rights are useful, and not\s+needed: `(.+)`", document)
    assert "--cluster" in useful
    rights |= {("cluster", right) for right in re.findall(r"--operation (\w+)", useful)}
    user = yaml.safe_load((DEPLOY / "strimzi" / "kafka-user.yaml").read_text())
    acls = user["spec"]["authorization"]["acls"]
    assert {(one["resource"]["type"], right) for one in acls for right in one["operations"]} == rights
    assert {("topic", "Read"), ("cluster", "DescribeConfigs")} <= rights


def test_the_chart_ships_the_rules_and_dashboards_of_the_project_themselves() -> None:
    shipped = {file.name: file.resolve() for file in (CHART / "files").iterdir()}
    assert set(shipped) == {"parallax-rules.yaml", *(file.name for file in (ROOT / "dashboards").glob("*.json"))}
    assert all(ROOT in file.parents and CHART not in file.parents for file in shipped.values())


def test_the_chart_and_its_schema_know_the_same_values() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(value: Any, allowed: dict[str, Any], path: str) -> None:
        if path.startswith(".config."):  # made of the settings, most of which the values leave out
            return
        if allowed.get("additionalProperties") is not False or not isinstance(value, dict):
            return
        known = set(allowed["properties"]) - {"global"}
        if path != ".config":
            assert known - set(value) <= {"initialDelaySeconds", "timeoutSeconds"}, path
        assert set(value) <= known, path
        for name, below in value.items():
            compare(below, allowed["properties"][name], f"{path}.{name}")

    compare(values, schema, "")


ALL = """
image: {repository: registry.example.org/parallax}
config: {kafka: {bootstrap.servers: "kafka:9092"}, topics: {include: [orders]}}
existingSecret: parallax
clusterCASecret: ca
podMonitor: {enabled: true, additionalLabels: {release: prometheus}}
prometheusRule: {enabled: true, additionalLabels: {release: prometheus}}
dashboards: {enabled: true, annotations: {grafana_folder: Kafka}}
networkPolicy: {enabled: true, ingressFrom: [{namespaceSelector: {}}], egress: [{ports: [{port: 9092}]}]}
podDisruptionBudget: {enabled: true}
extraEnv: [{name: PARALLAX_SPARK__DRIVER_MEMORY, value: 2g}]
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
podLabels: {team: streams}
podSecurityContext: null
extraManifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}]
"""


@pytest.mark.release
@pytest.mark.parametrize("chosen", ["all", "strimzi"])
def test_kubernetes_takes_what_the_chart_renders(tmp_path: Path, chosen: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(ALL if chosen == "all" else (DEPLOY / "strimzi" / "values.yaml").read_text())
    linted = ran(helm(), "lint", "--strict", CHART, "-f", values, "--kube-version", KUBERNETES)
    assert linted.returncode == 0, linted.stdout
    kinds = documents(rendered("p", "-f", values))
    own = {"PodMonitor", "PrometheusRule"}
    for document in (one for kind, many in kinds.items() if kind not in own for one in many):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    settings = tmp_path / "parallax.yaml"
    config = next(one for one in kinds["ConfigMap"] if "parallax.yaml" in one.get("data", {}))
    text = config["data"]["parallax.yaml"].replace("/etc/parallax/secret", str(tmp_path))
    (tmp_path / "password").write_text("secret")
    settings.write_text(text)
    assert str(load(settings).storage.path) == "/data"


@pytest.mark.release
def test_the_values_of_the_page_make_a_job_with_tls_and_users_once_their_lines_are_turned_on(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operate" / "kubernetes.md").read_text()
    (block,) = re.findall(r"(?s)```yaml\n(.*?\n)```\n", page)
    values = tmp_path / "values.yaml"
    values.write_text(re.sub(r"(?m)^( *)#(?=\w)", r"\1", block).replace("HASH", f"$2y$10${'a' * 53}"))
    kinds = documents(rendered("parallax", "-f", values))
    (claim,) = kinds["StatefulSet"][0]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"] == {"storage": "200Gi"}
    (volume,) = (one for one in kinds["StatefulSet"][0]["spec"]["template"]["spec"]["volumes"] if "secret" in one)
    (made,) = re.findall(r"create secret generic (\S+) (.*)", page)
    assert volume["secret"]["secretName"] == made[0]
    text = kinds["ConfigMap"][0]["data"]["parallax.yaml"]
    for key in re.findall(r"--from-file=(\S+)", made[1]):
        (tmp_path / key).write_text("secret")
        assert f"/etc/parallax/secret/{key}" in text
    (tmp_path / "parallax.yaml").write_text(text.replace("/etc/parallax/secret", str(tmp_path)))
    settings = load(tmp_path / "parallax.yaml")
    assert (settings.kafka["security.protocol"], settings.kafka["sasl.password"]) == ("SASL_SSL", "secret")
    assert settings.alerting.users.keys() == {"ann"}


@pytest.mark.release
def test_the_chart_renders_rules_and_dashboards_as_they_are(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(ALL)
    kinds = documents(rendered("p", "-f", values))
    (rule,) = kinds["PrometheusRule"]
    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus" / "parallax-rules.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    boards = [one for one in kinds["ConfigMap"] if "grafana_dashboard" in one["metadata"].get("labels", {})]
    shown = {name: json.loads(text) for board in boards for name, text in board["data"].items()}
    assert shown == {file.name: json.loads(file.read_text()) for file in (ROOT / "dashboards").glob("*.json")}


@pytest.mark.release
def test_the_pod_has_no_rights_and_a_file_system_that_it_cannot_write() -> None:
    pod = documents(rendered("p", "-f", DEPLOY / "strimzi" / "values.yaml"))["StatefulSet"][0]["spec"]["template"][
        "spec"
    ]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod["automountServiceAccountToken"]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/data", "/tmp"}


@pytest.mark.release
@pytest.mark.parametrize(
    ("left_out", "named"),
    [
        ("image.repository", "image.repository"),
        ("config.kafka", "bootstrap.servers"),
        ("config.topics", "config.topics"),
    ],
)
def test_what_the_chart_needs_is_named_where_it_is_missing(tmp_path: Path, left_out: str, named: str) -> None:
    given = yaml.safe_load(ALL)
    *parents, last = left_out.split(".")
    holder = given[parents[0]]
    holder[last] = {} if isinstance(holder[last], dict) else ""
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(given))
    refused = rendered("p", "-f", values)
    assert refused.returncode != 0
    assert named in refused.stderr


@pytest.mark.release
def test_a_value_that_the_chart_does_not_know_is_refused() -> None:
    refused = rendered("p", "-f", DEPLOY / "strimzi" / "values.yaml", "--set", "persistance.size=1Gi")
    assert refused.returncode != 0
    assert "persistance" in refused.stderr


def test_the_operators_application_has_the_pinned_spark_and_starts_what_exists() -> None:
    file = DEPLOY / "spark" / "sparkapplication.yaml"
    spec = yaml.safe_load(file.read_text())["spec"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={spec['sparkVersion']}" in project["dependencies"]
    assert f"apache/spark:{spec['sparkVersion']}-" in file.read_text()
    assert (DEPLOY / "spark" / Path(spec["mainApplicationFile"]).name).is_file()
    slots = spec["executor"]["instances"] * spec["executor"]["cores"]
    assert slots >= 4, "as many as the job has queries"
    assert spec["restartPolicy"]["type"] == "Always"
    for who in ("driver", "executor"):
        assert spec[who]["securityContext"]["runAsNonRoot"] is True
        mounted = {one["name"]: one["mountPath"] for one in spec[who]["volumeMounts"]}
        assert set(mounted) == {one["name"] for one in spec["volumes"]}
    words = "\n".join(
        re.findall(r"^#   ((?:kafka_files|read|storage|alerting): \{.*?\})", file.read_text(), re.MULTILINE)
    )
    said = yaml.safe_load(words)
    assert str(Path(spec["arguments"][-1]).parent) == mounted["config"]
    for secret in (said["read"]["hash_key_file"], *said["kafka_files"].values()):
        assert str(Path(secret).parent) == mounted["secret"]
        assert f"--from-file={Path(secret).name}" in file.read_text()
    assert said["alerting"] == {"metrics_host": "0.0.0.0"}
    assert said["storage"]["path"].startswith("s3a://")


SUBMITTED = """#!/bin/sh
sh -c 'trap "echo stopped; exit 5" TERM; echo started; while :; do sleep 0.05; done' submit.py >>{log} &
wait $!
code=$?
echo ended >>{log}
exit $code
"""
"""A spark-submit whose driver is a child of its own; it says what became of both."""


def test_every_file_says_what_was_not_run() -> None:
    silent = [
        str(file.relative_to(ROOT))
        for file in DEPLOY.rglob("*")
        if file.is_file() and not file.is_symlink() and file.parent.name not in ("templates", "tests")
        if file.suffix != ".json" and file.name != ".helmignore" and "not run" not in file.read_text().lower()
    ]
    assert silent == []


def test_the_line_of_the_page_compiles_the_loops_that_workers_run() -> None:
    line = 'python -c "import parallax.replica.kernels, parallax.compare.quiet"'
    assert f"`{line}`" in (ROOT / "docs" / "operate" / "install.md").read_text()
    _, *words = shlex.split(line)
    ended = ran(sys.executable, *words)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_package_is_installed_from_its_wheel_as_it_is_on_no_index() -> None:
    files = [file for folder in (DEPLOY, ROOT / "docs", ROOT / "streaming") for file in folder.rglob("*")]
    texts = {file: file.read_text() for file in (*files, ROOT / "README.md") if file.suffix in SOURCES}
    assert [str(file) for file, text in texts.items() if re.search(r"pip install [^\n]*kafka-parallax", text)] == []


SOURCES = (".md", ".py", ".sh", ".yaml", ".service")


@pytest.mark.parametrize(("number", "takes_s"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGTERM, 1)])
def test_a_signal_to_submit_ends_the_job_in_order_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, takes_s: int
) -> None:
    log, temporary = tmp_path / "log", tmp_path / "temporary"
    # Where the machine is busy, the job may have ended before the script goes on that has stopped it.
    program(
        tmp_path / "bin" / "pkill", f'#!/bin/sh\n{shutil.which("pkill")} "$@"; code=$?\nsleep {takes_s}; exit $code\n'
    )
    program(tmp_path / "spark" / "bin" / "spark-submit", SUBMITTED.format(log=log))
    program(tmp_path / "made" / "bin" / "python", "#!/bin/sh\necho a.jar\n")
    ran("tar", "-czf", tmp_path / "environment.tar.gz", "-C", tmp_path / "made", ".")
    temporary.mkdir()
    (tmp_path / "parallax.yaml").touch()
    given = {"SPARK_HOME": str(tmp_path / "spark"), "MASTER": "spark://h:7077", "TMPDIR": str(temporary)}
    given |= {"ENVIRONMENT": str(tmp_path / "environment.tar.gz"), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    # A shell cannot trap what it was started to ignore, as everything that runs in the background ignores SIGINT.
    command = ["env", "--default-signal=INT", str(DEPLOY / "spark" / "submit.sh"), str(tmp_path / "parallax.yaml")]
    with subprocess.Popen(command, env=os.environ | given, start_new_session=True) as submit:
        try:
            until(lambda: log.exists() and "started" in log.read_text(), "the driver", timeout=PATIENCE_S)
            submit.send_signal(number)
            assert submit.wait(PATIENCE_S) == 5, "as the job ended"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(submit.pid, signal.SIGKILL)
    assert log.read_text().split() == ["started", "stopped", "ended"]
    assert list(temporary.iterdir()) == []


def program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


_REMOVALS = [
    (UNIT, "systemctl disable --now", "rm -r "),
    (CHART / "values.yaml", "config.guard.mode=off", "helm uninstall"),
    (CHART / "templates" / "NOTES.txt", "config.guard.mode=off", "helm uninstall"),
    (DEPLOY / "spark" / "sparkapplication.yaml", 'guard: {mode: "off"}', "kubectl delete"),
    (ROOT / "docs" / "operate" / "uninstall.md", "systemctl disable --now", "`storage.path`"),
]
"""Of each place that says how to remove Parallax: what stops the guard there, and what deletes the rest."""


@pytest.mark.parametrize(("file", "stop", "delete"), _REMOVALS, ids=lambda one: getattr(one, "name", None))
def test_each_place_stops_the_guard_then_releases_what_it_holds_and_deletes_last(
    file: Path, stop: str, delete: str
) -> None:
    _, _, text = file.read_text().partition("Remove" if file.suffix != ".md" else "# ")
    found = [text.find(one) for one in (stop, "parallax guard release --all", delete)]
    assert -1 < found[0] < found[1] < found[2]
    assert "everything" in inspect.signature(guard.guard_release).parameters


@pytest.mark.parametrize("file", [one for one, *_ in _REMOVALS], ids=lambda file: file.name)
def test_no_place_says_that_topics_are_untouched_whatever_guard_and_repair_did(file: Path) -> None:
    assert re.findall("topics are untouched|Parallax only reads", file.read_text()) == []


def test_a_rolling_restart_waits_for_a_command_that_there_is_and_only_then_restarts() -> None:
    (play,) = yaml.safe_load((DEPLOY / "ansible" / "rolling-restart.yaml").read_text())
    wait, restart = play["tasks"]
    assert (play["serial"], wait["until"], wait["changed_when"]) == (1, "roll.rc == 0", False)
    _, *words = wait["ansible.builtin.command"].replace("{{ node_id }}", "2").split()
    command: Any = typer.main.get_command(app)
    command.commands[words[0]].make_context("roll", words[1:])
    assert restart["ansible.builtin.systemd_service"]["state"] == "restarted"


KUBECTL = """#!/usr/bin/env bash
echo "$*" >> calls
case "$*" in
  *"get pods"*) printf 'pod/my-cluster-broker-4\\npod/my-cluster-broker-5\\n' ;;
  *exec*) grep -c exec calls | grep -qv "^1$" ;;  # the first answer is no
  *"get pod/"*) grep -c annotate calls || true ;;  # each restart makes another pod
esac
"""


def test_a_rolling_restart_of_strimzi_waits_before_each_broker_and_until_it_is_back(tmp_path: Path) -> None:
    script, kubectl = DEPLOY / "strimzi" / "rolling-restart.sh", tmp_path / "kubectl"
    around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PAUSE_S": "0"}
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    done = ran(script, "my-cluster", "kafka", cwd=tmp_path, env=around)
    assert done.returncode == 0, done.stderr
    calls = [line.removeprefix("--namespace kafka ") for line in (tmp_path / "calls").read_text().splitlines()]
    asked = [call.partition(" -- ")[2].split() for call in calls if call.startswith("exec ")]
    assert [words[:3] for words in asked] == [["parallax", "roll", broker] for broker in ("4", "4", "5")]
    command: Any = typer.main.get_command(app)
    command.commands["roll"].make_context("roll", asked[0][2:])
    ends = [call.split()[:2] for call in calls if call.split()[0] in ("annotate", "wait")]
    assert ends == [[what, f"pod/my-cluster-broker-{n}"] for n in (4, 5) for what in ("annotate", "wait")]
    kubectl.write_text(KUBECTL.replace('grep -c exec calls | grep -qv "^1$"', "false"))
    late = ran(script, "my-cluster", "kafka", cwd=tmp_path, env=around | {"PATIENCE_S": "0"})
    assert (late.returncode, late.stderr) == (
        1,
        "rolling-restart.sh: gave up after 0 s: broker 4 may not be restarted\n",
    )
