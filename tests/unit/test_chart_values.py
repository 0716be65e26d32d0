"""Odd values of the Helm chart: each is refused in words, or renders what Kubernetes takes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import kubernetes_validate
import pytest
import yaml
from pydantic import BaseModel, SecretStr

from parallax.config import SECRETS, Settings, validate
from parallax.shipped import Choices, configuration
from tests.charts import CHART, KUBERNETES, documents, helm, rendered

pytestmark = pytest.mark.release

LEAST: dict[str, Any] = {
    "image": {"repository": "registry.example.org/parallax"},
    "config": {"kafka": {"bootstrap.servers": "kafka:9092"}, "topics": {"include": ["orders"]}},
}
HASH = "$2y$10$" + "a" * 53
OWN = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which kubernetes-validate does not know."""
EVERYTHING = {name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "networkPolicy")} | {
    name: {"enabled": True} for name in ("dashboards", "podDisruptionBudget")
}


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings, the second of which wins."""
    both = dict(first)
    for name, value in second.items():
        held = both.get(name)
        both[name] = joined(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return both


@pytest.fixture
def chart(tmp_path: Path) -> Any:
    """A function that renders the chart with these values besides the least; gives the result of ``helm template``."""

    def render(values: Mapping[str, Any], release: str = "p") -> Any:
        file = tmp_path / "values.yaml"
        file.write_text(json.dumps(joined(LEAST, values)))  # quoted wherever it is text
        return rendered(release, "-f", file)

    return render


def taken(result: Any) -> dict[str, list[dict[str, Any]]]:
    """The objects, each of which Kubernetes takes."""
    kinds = documents(result)
    for document in (one for kind, many in kinds.items() if kind not in OWN for one in many):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    for document in (one for many in kinds.values() for one in many):
        assert isinstance(document["metadata"]["name"], str)
        assert all(isinstance(label, str) for label in document["metadata"].get("labels", {}).values())
    return kinds


def refusal(result: Any) -> str:
    """What the chart says against the values."""
    assert result.returncode != 0, result.stdout
    assert "nil pointer" not in result.stderr
    assert "YAML parse error" not in result.stderr
    return str(result.stderr)


@pytest.mark.parametrize("monitor", ["podMonitor", "serviceMonitor"])
def test_prometheus_logs_in_where_the_metrics_ask_for_a_password(chart: Any, monitor: str) -> None:
    users = {"config": {"alerting": {"users": {"ann": HASH}}}, monitor: {"enabled": True}}
    assert f"{monitor}.basicAuthSecret" in refusal(chart(users))
    ((made,),) = (
        many
        for kind, many in taken(chart(joined(users, {monitor: {"basicAuthSecret": "scrape"}}))).items()
        if kind in OWN
    )
    ((endpoint,),) = (made["spec"][name] for name in ("podMetricsEndpoints", "endpoints") if name in made["spec"])
    assert endpoint["basicAuth"] == {
        "username": {"name": "scrape", "key": "username"},
        "password": {"name": "scrape", "key": "password"},
    }


@pytest.mark.parametrize("monitor", ["podMonitor", "serviceMonitor"])
def test_probes_and_monitors_speak_tls_where_the_page_does(chart: Any, monitor: str) -> None:
    files = {"tls_certificate_file": "/etc/parallax/secret/tls.crt", "tls_key_file": "/etc/parallax/secret/tls.key"}
    values = {"existingSecret": "a", "config": {"alerting": files}, monitor: {"enabled": True}}
    assert f"{monitor}.tlsConfig" in refusal(chart(values))
    trusted = {"serverName": "parallax", "ca": {"secret": {"name": "ca", "key": "ca.crt"}}}
    kinds = taken(chart(joined(values, {monitor: {"tlsConfig": trusted}})))
    ((made,),) = (many for kind, many in kinds.items() if kind in OWN)
    ((endpoint,),) = (made["spec"][name] for name in ("podMetricsEndpoints", "endpoints") if name in made["spec"])
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", trusted)
    (container,) = kinds["StatefulSet"][0]["spec"]["template"]["spec"]["containers"]
    assert {container[f"{name}Probe"]["httpGet"]["scheme"] for name in ("startup", "liveness", "readiness")} == {
        "HTTPS"
    }


def places(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, dict) and (*above, name) != ("config",):
            yield from places(value, (*above, name))


def test_no_value_that_is_null_renders_what_kubernetes_does_not_take(chart: Any) -> None:
    for place in places(yaml.safe_load((CHART / "values.yaml").read_text())):
        null: Any = None
        for name in reversed(place):
            null = {name: null}
        given = chart(joined(joined(EVERYTHING, {"serviceMonitor": {"enabled": False}}), null))
        if given.returncode:
            refusal(given)
        else:
            taken(given)


WORDS = ("123", "true", "null", "1e3")


@pytest.mark.parametrize("word", WORDS)
def test_a_name_that_yaml_would_take_for_something_else_stays_a_name(chart: Any, word: str) -> None:
    values = {
        "existingSecret": word,
        "clusterCASecret": word,
        "priorityClassName": word,
        "persistence": {"storageClass": word},
        "serviceAccount": {"name": word},
        "nameOverride": word,
        "commonLabels": {"team": word},
        "podLabels": {"app.kubernetes.io/version": word},
        "podAnnotations": {"checksum/config": "mine"},
    }
    (made,) = taken(chart(values, "p"))["StatefulSet"]
    pod = made["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["serviceAccountName"]) == (word, word)
    assert {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one} == {word}
    assert made["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == word
    assert made["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/version"] == word
    claimed = taken(chart({"persistence": {"existingClaim": word}, "fullnameOverride": "p"}, word.replace("null", "n")))
    (volume,) = (
        one
        for one in claimed["StatefulSet"][0]["spec"]["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in one
    )
    assert volume["persistentVolumeClaim"]["claimName"] == word


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"fullnameOverride": "Foo_Bar"}, "fullnameOverride"),
        ({"fullnameOverride": "1rel"}, "fullnameOverride"),
        ({"nameOverride": "a b"}, "nameOverride"),
        ({"persistence": {"accessModes": []}}, "accessModes"),
        ({"podDisruptionBudget": {"enabled": True, "maxUnavailable": "foo"}}, "maxUnavailable"),
        ({"podDisruptionBudget": {"enabled": True, "maxUnavailable": -3}}, "maxUnavailable"),
        ({"podLabels": {"app.kubernetes.io/name": "other"}}, "/podLabels"),
        ({"podMonitor": {"enabled": True, "additionalLabels": {"app.kubernetes.io/instance": "x"}}}, "podMonitor"),
        ({"commonLabels": {"team": "a b"}}, "commonLabels"),
        ({"existingSecret": "Not_A_Name"}, "existingSecret"),
        ({"podMonitor": {"interval": "fast"}}, "interval"),
        ({"persistence": {"size": "much"}}, "size"),
        ({"persistence": {"size": "0Gi"}}, "size"),
        ({"resources": {"limits": {"memory": "lots"}}}, "memory"),
        ({"serviceMonitor": {"interval": "0s"}}, "interval"),
        ({"terminationGracePeriodSeconds": 10**9}, "terminationGracePeriodSeconds"),
        ({"image": {"repository": "Registry/Parallax"}}, "repository"),
        ({"image": {"repository": "parallax:0.1.0"}}, "repository"),
        ({"extraManifests": [{}]}, "extraManifests"),
        ({"extraEnv": [{"value": "x"}]}, "extraEnv"),
        ({"securityContext": {"runAsUser": 0}}, "podSecurityContext.runAsUser: 0 is root"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_kubernetes_would_refuse_is_refused_and_named(chart: Any, values: dict[str, Any], named: str) -> None:
    assert named in refusal(chart(values))


FILES = {"kafka_files": {"sasl.password": "/etc/parallax/secret/password"}}
CA = {"kafka": {"ssl.ca.location": "/etc/parallax/cluster-ca/ca.crt"}}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"config": {"storage": {"path": "/etc/parallax/data"}}}, "config.storage.path: /etc/parallax/data is on no"),
        ({"config": {"storage": {"path": "/data/../var"}}}, "config.storage.path"),
        ({"config": {"storage": {"path": ".parallax/data"}}}, "config.storage.path"),
        ({"config": {"storage": {"path": "file:///tmp/x"}}}, "config.storage.path"),
        ({"config": {"storage": {"path": "/database"}}}, "config.storage.path"),
        ({"config": FILES}, "existingSecret: a file below /etc/parallax/secret"),
        ({"config": CA}, "clusterCASecret: a file below /etc/parallax/cluster-ca"),
        *(
            ({"extraEnv": [{"name": name, "value": "1"}]}, f"extraEnv: {name} sets what the chart sets")
            for name in ("PARALLAX_ALERTING__METRICS_PORT", "parallax_storage__path", "PARALLAX_" + "ALERTING")
        ),
        ({"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}, "extraVolumes: the chart itself has a volume named tmp"),
        ({"extraVolumeMounts": [{"name": "x", "mountPath": "/data/"}]}, "extraVolumeMounts: the chart itself mounts"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_values_that_contradict_each_other_are_refused_in_words(chart: Any, values: dict[str, Any], named: str) -> None:
    assert named in refusal(chart(values))


def secrets_of(model: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of all settings that the program keeps secret."""
    for name, field in model.model_fields.items():
        kinds = {field.annotation, *get_args(field.annotation)}
        if SecretStr in kinds:
            yield (*above, name)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from secrets_of(kind, (*above, name))


SECRET_PLACES = [
    *secrets_of(Settings),
    *(("kafka", name) for name in (*SECRETS, "ssl.key.pem")),
    ("spark", "conf", "spark.hadoop.fs.s3a.secret.key"),
]


@pytest.mark.parametrize("place", SECRET_PLACES, ids=".".join)
def test_no_secret_gets_into_a_config_map(chart: Any, place: tuple[str, ...]) -> None:
    *above, name = place
    given: Any = {name: "0" * 32}
    for part in reversed(above):
        given = {part: [{"name": "a", **given}] if part == "webhooks" else given}
    said = refusal(chart({"config": given}))
    assert f"{name}: the settings are in a ConfigMap" in said
    assert "0" * 32 not in said


def test_a_place_below_the_volume_or_below_one_of_the_users_own_is_none_to_refuse(chart: Any) -> None:
    (made,) = taken(chart({"config": {"storage": {"path": "/data/a"}}}))["StatefulSet"]
    assert made["spec"]["volumeClaimTemplates"]
    own = {
        "config": {"storage": {"path": "file:///mine/a"}},
        "extraVolumes": [{"name": "mine", "hostPath": {"path": "/x"}}],
        "extraVolumeMounts": [{"name": "mine", "mountPath": "/mine"}],
    }
    (made,) = taken(chart(own))["StatefulSet"]
    assert "volumeClaimTemplates" not in made["spec"]
    assert "/etc/parallax/secret" not in str(made)
    taken(chart({"config": FILES | CA, "existingSecret": "a", "clusterCASecret": "b"}))


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"read": {"trigger_ms": "soon"}}, "/config/read/trigger_ms"),
        ({"read": {"trigger_ms": -1}}, "/config/read/trigger_ms"),
        ({"read": {"triger_ms": 1}}, "triger_ms"),
        ({"guard": {"mode": "sometimes"}}, "/config/guard/mode"),
        ({"alerting": {"webhooks": [{"nmae": "a"}]}}, "nmae"),
    ],
    ids=json.dumps,
)
def test_the_chart_refuses_what_the_settings_would(chart: Any, config: dict[str, Any], named: str) -> None:
    assert named in refusal(chart({"config": config}))


def test_what_the_configuration_that_init_writes_sets_is_taken_whole(chart: Any) -> None:
    """All settings with their defaults, so far as they have one."""
    read = yaml.safe_load(configuration(Choices("kafka:9092", ["orders"], "/data")))
    taken(chart({"config": read}))
    defaults = validate(read).model_dump(mode="json", exclude_none=True, exclude={"kafka"})
    taken(chart({"config": defaults}))


def test_large_numbers_are_written_without_an_exponent(chart: Any) -> None:
    large = {
        "terminationGracePeriodSeconds": 86_400,
        "temporary": {"sizeLimit": 10**10},
        "persistence": {"size": 10**12},
        "config": {"kafka": {"socket.receive.buffer.bytes": 10**8}, "read": {"max_bytes_per_second": 10**9}},
    }
    result = chart(large)
    (made,) = taken(result)["StatefulSet"]
    assert "e+" not in result.stdout
    assert made["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == str(10**12)


def test_no_two_releases_make_an_object_of_one_name(chart: Any) -> None:
    boards = {"dashboards": {"enabled": True}}
    first = {(kind, one["metadata"]["name"]) for kind, many in taken(chart(boards, "parallax")).items() for one in many}
    for name in sorted(name.replace(".", "-") for kind, name in first if kind == "ConfigMap" and name != "parallax"):
        other = taken(chart(boards, name))
        assert not first & {(kind, one["metadata"]["name"]) for kind, many in other.items() for one in many}


@pytest.mark.parametrize("release", ["my.release", "1rel"])
def test_a_release_whose_name_no_service_can_have_needs_another(chart: Any, release: str) -> None:
    assert "fullnameOverride" in refusal(chart({}, release))
    taken(chart({"fullnameOverride": "parallax"}, release))


@pytest.mark.parametrize(
    "values",
    [
        {"persistence": {"size": "500M"}},
        {"persistence": {"size": "1Pi"}, "temporary": {"sizeLimit": 1_000_000_000}},
        {"podMonitor": {"enabled": True, "interval": "1h"}},
        {"serviceMonitor": {"enabled": True, "interval": "1m30s"}},
        {"probes": {"liveness": {"initialDelaySeconds": 0}}},
        {"podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"}},
        {"podDisruptionBudget": {"enabled": True, "maxUnavailable": 0}},
        {"config": {"repair": {"mode": "on"}}},
    ],
    ids=json.dumps,
)
def test_what_kubernetes_takes_is_not_refused(chart: Any, values: dict[str, Any]) -> None:
    taken(chart(values))


def test_a_label_is_given_once_and_the_users_own_wins(chart: Any) -> None:
    own = {"app.kubernetes.io/version": "mine"}
    values = joined(EVERYTHING, {"commonLabels": {"team": "a"}, "podLabels": own, "dashboards": {"labels": own}})
    result = chart(values)
    taken(result)
    for text in result.stdout.split("\n---\n"):
        labels = [line for line in text.split("\n  labels:")[-1].splitlines() if "app.kubernetes.io/version" in line]
        assert len(labels) <= 1 or "template:" in text


def test_no_volume_is_claimed_for_tables_in_an_object_store(chart: Any) -> None:
    (made,) = taken(chart({"config": {"storage": {"path": "s3a://bucket/prefix"}}}))["StatefulSet"]
    assert "volumeClaimTemplates" not in made["spec"]
    assert {"name": "data", "emptyDir": {}} in made["spec"]["template"]["spec"]["volumes"]


def test_a_storage_class_of_a_dash_is_none(chart: Any) -> None:
    (made,) = taken(chart({"persistence": {"storageClass": "-"}}))["StatefulSet"]
    assert made["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == ""


def notes(values: Mapping[str, Any], folder: Path) -> str:
    """What ``helm install`` prints at its end; without a cluster it does not, so an object of a copy holds it."""
    shutil.copytree(CHART, folder / "chart")
    templates = folder / "chart" / "templates"
    text = (templates / "NOTES.txt").read_text()
    (templates / "_notes.tpl").write_text('{{ define "notes" }}' + text + "{{ end }}")
    (templates / "notes.yaml").write_text('kind: Notes\ntext: {{ include "notes" . | toJson }}\n')
    (folder / "values.yaml").write_text(json.dumps(joined(LEAST, values)))
    command: list[str | Path] = [helm(), "template", "p", folder / "chart", "--kube-version", KUBERNETES]
    command += ["-f", folder / "values.yaml", "-s", "templates/notes.yaml"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return str(yaml.safe_load(said)["text"])


def test_the_notes_name_the_brokers_and_release_what_the_guard_holds_before_the_removal(tmp_path: Path) -> None:
    said = notes({"config": {"kafka": {"bootstrap.servers": ["a:1", "b:2"]}}}, tmp_path)
    assert said.startswith("Parallax reads a:1,b:2. ")
    assert (
        -1
        < said.find("config.guard.mode=off")
        < said.find("guard release --all")
        < said.find("helm uninstall")
        < said.find("kubectl delete pvc")
    )


def test_the_notes_name_the_prefix_where_the_tables_are_in_an_object_store(tmp_path: Path) -> None:
    said = notes({"config": {"storage": {"path": "s3a://bucket/prefix"}}}, tmp_path)
    assert "s3a://bucket/prefix" in said
    assert "pvc" not in said
