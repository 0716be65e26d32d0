"""A pod as its manifests say, run on this machine as a kubelet runs it: by namespaces, mounts and a changed root.

Done as there: the command, the environment, user, group and ``fsGroup``, no capability and none to be had, a root that
is read only, each volume with the modes that a kubelet gives it, process 1 of a namespace of its own, probes at their
periods and with their deadlines, SIGTERM and its grace. Not done: a network of its own, the limits of cgroups, seccomp.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog

CONTAINED = Path(__file__).with_name("contained.py")
Document = Mapping[str, Any]


def ran(*command: str | Path) -> str:
    """What a command prints; it must succeed."""
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout.strip()


@dataclass
class Container:
    """An image's root file system, and what the image says about starting it."""

    name: str

    @classmethod
    def of(cls, image: str) -> Self:
        """A container of an image that this machine holds."""
        return cls(ran("buildah", "from", "--pull-never", image))

    def __post_init__(self) -> None:
        self.root = Path(ran("buildah", "mount", self.name))
        said = json.loads(ran("buildah", "inspect", self.name))["OCIv1"]["config"]
        self.entrypoint: list[str] = said["Entrypoint"]
        self.folder: str = said["WorkingDir"]
        self.environment = dict(line.split("=", 1) for line in said["Env"])
        self.user, _, self.group = said["User"].partition(":")

    def remove(self) -> None:
        """Let go of it."""
        ran("buildah", "rm", self.name)


@dataclass
class Identity:
    """As whom a container's process runs."""

    user: int
    group: int
    volumes: int
    """``fsGroup``: whose the volumes are."""

    @classmethod
    def of(cls, context: Document) -> Self:
        """As a pod's ``securityContext`` says."""
        assert context["runAsNonRoot"]
        return cls(context["runAsUser"], context["runAsGroup"], context["fsGroup"])


@dataclass
class Probe:
    """A probe and what it has come to."""

    path: str
    port: int
    period_s: float
    timeout_s: float
    threshold: int
    passed: threading.Event = field(default_factory=threading.Event)
    failed_in_a_row: int = 0
    failures: list[str] = field(default_factory=list)
    """Since it passed for the first time."""

    @classmethod
    def of(cls, said: Document, ports: Mapping[str, int]) -> Self:
        """As a container's specification says; what it leaves out is Kubernetes' default."""
        get = said["httpGet"]
        assert get["scheme"] == "HTTP"
        port = ports[get["port"]]
        return cls(
            get["path"], port, said.get("periodSeconds", 10), said.get("timeoutSeconds", 1), said["failureThreshold"]
        )

    def ask(self) -> None:
        """Ask once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
        try:
            connection.request("GET", self.path)
            status = connection.getresponse().status
            wrong = "" if 200 <= status < 400 else f"{self.path} answers {status}"
        except OSError as error:
            wrong = f"{self.path}: {error}"
        finally:
            connection.close()
        if not wrong:
            self.passed.set()
            self.failed_in_a_row = 0
            return
        self.failed_in_a_row += 1
        if self.passed.is_set():
            self.failures.append(wrong)


class Pod:
    """The pod of a StatefulSet of one: its volumes outlive it, and it can be started again.

    Args:
        rendered: what the chart renders, by kind.
        secrets: the Secrets that it names, by name: contents by key.
        folder: where its volumes are.
        identity: as whom it runs where the manifest does not say so, as OpenShift decides.
    """

    def __init__(
        self,
        rendered: Mapping[str, Sequence[Document]],
        secrets: Mapping[str, Mapping[str, str]],
        folder: Path,
        identity: Identity | None = None,
    ) -> None:
        (self._set,) = rendered["StatefulSet"]
        self._maps = {one["metadata"]["name"]: one for one in rendered["ConfigMap"]}
        self._secrets = secrets
        self._spec = self._set["spec"]["template"]["spec"]
        (self._said,) = self._spec["containers"]
        self.identity = identity or Identity.of(self._spec["securityContext"])
        self._folder = folder
        self._container = Container.of(self._said["image"])
        self.grace_s: float = self._spec["terminationGracePeriodSeconds"]
        gib = re.fullmatch(r"(\d+)Gi", self._said["resources"]["limits"]["memory"])
        assert gib is not None
        self.memory_limit = int(gib[1]) << 30
        self.peak = 0
        """The most memory that its processes had at once, bytes."""
        self.log = folder / "log"
        self._process: psutil.Popen | None = None
        self._first: psutil.Process | None = None
        """Process 1 of its namespace: with it, the kernel ends all that is in there."""
        self._watchdog: Watchdog | None = None
        self._gone = threading.Event()
        self._threads: list[threading.Thread] = []

    # --- volumes ----------------------------------------------------------------------------------------------------

    def volume(self, name: str) -> Path:
        """Where a volume is on this machine."""
        return self._folder / name

    def _furnish(self) -> None:
        """Make the volumes that there are not yet; claims outlive a pod, the others are new with each."""
        claims = {one["metadata"]["name"] for one in self._set["spec"].get("volumeClaimTemplates", ())}
        for name in claims:
            self.volume(name).mkdir(parents=True, exist_ok=True)
            self._give(self.volume(name))
        for said in self._spec["volumes"]:
            place = self.volume(said["name"])
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            if "emptyDir" in said:
                place.chmod(0o777)
                self._give(place)
            elif "configMap" in said:
                self._write(place, self._maps[said["configMap"]["name"]]["data"], 0o644)
            else:
                secret = said["secret"]
                self._write(place, self._secrets[secret["secretName"]], secret["defaultMode"])

    def _write(self, place: Path, contents: Mapping[str, str], mode: int) -> None:
        """Write files as a kubelet does: each is a link through another link, which changes all of them in one step."""
        (place / "..now").mkdir()
        (place / "..data").symlink_to("..now")
        for key, text in contents.items():
            (place / "..now" / key).write_text(text)
            (place / "..now" / key).chmod(mode | 0o440)
            os.chown(place / "..now" / key, 0, self.identity.volumes)
            (place / key).symlink_to(f"..data/{key}")

    def _give(self, place: Path) -> None:
        """Give a volume to ``fsGroup``, as a kubelet does at each mount."""
        for folder, _, files in os.walk(place):
            os.chown(folder, -1, self.identity.volumes)
            Path(folder).chmod(Path(folder).stat().st_mode | 0o2770)
            for file in files:
                path = Path(folder, file)
                os.chown(path, -1, self.identity.volumes)
                path.chmod(path.stat().st_mode | 0o660)

    # --- its process ------------------------------------------------------------------------------------------------

    @property
    def _rights(self) -> Document:
        context: Document = self._said["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        return context

    @property
    def _environment(self) -> dict[str, str]:
        name = f"{self._set['metadata']['name']}-0"
        given = {one["name"]: one["value"] for one in self._said.get("env", ())}
        assert "envFrom" not in self._said
        return {"HOSTNAME": name} | self._container.environment | given

    def _mounts(self) -> list[dict[str, Any]]:
        return [
            {
                "source": str(self.volume(one["name"]) / one.get("subPath", "")),
                "target": one["mountPath"],
                "read_only": one.get("readOnly", False),
            }
            for one in self._said["volumeMounts"]
        ]

    def start(self) -> Self:
        """Start it; returns once its readiness probe passes."""
        self._furnish()
        wanted = {
            "root": str(self._container.root),
            "mounts": self._mounts(),
            "read_only_root": self._rights["readOnlyRootFilesystem"],
            "user": self.identity.user,
            "group": self.identity.group,
            "groups": [self.identity.volumes],
            "environment": self._environment,
            "folder": self._container.folder,
            "command": [*self._said.get("command", self._container.entrypoint), *self._said["args"]],
        }
        specification = self._folder / "container.json"
        specification.write_text(json.dumps(wanted))
        command = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", sys.executable]
        with self.log.open("ab") as log:
            self._process = psutil.Popen(
                [*command, str(CONTAINED), str(specification)], stdout=log, stderr=log, start_new_session=True
            )
        (first,) = until(self._process.children, "its first process")
        self._first = first
        self._watchdog = self._watchdog or Watchdog()
        self._watchdog.guard([first.pid])
        self._gone.clear()
        self._watch()
        until(self.is_ready, f"the pod to be ready ({self.log})", timeout=600)
        return self

    def _watch(self) -> None:
        ports = {one["name"]: one["containerPort"] for one in self._said["ports"]}
        self.startup, self.liveness, self.readiness = (
            Probe.of(self._said[f"{name}Probe"], ports) for name in ("startup", "liveness", "readiness")
        )
        probes = (self.startup, self.liveness, self.readiness)
        self._threads = [threading.Thread(target=self._probe, args=[probe]) for probe in probes]
        self._threads.append(threading.Thread(target=self._weigh))
        for thread in self._threads:
            thread.start()

    def _probe(self, probe: Probe) -> None:
        while not self._gone.wait(probe.period_s):
            if probe is self.startup or self.startup.passed.is_set():
                probe.ask()
            if probe is not self.readiness and probe.failed_in_a_row >= probe.threshold:
                self._kill()  # a kubelet starts it again then; here it is a failure
            if probe is self.startup and probe.passed.is_set():
                return

    def _weigh(self) -> None:
        while not self._gone.wait(5):
            self.peak = max(self.peak, sum(map(_memory, self._processes())))

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        try:
            return self._process.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def is_ready(self) -> bool:
        """Whether traffic would be sent to it; fails where it has ended."""
        assert self._process is not None
        assert self._process.poll() is None, f"it ended: {self.log.read_text()[-3000:]}"
        return self.readiness.passed.is_set() and self.readiness.failed_in_a_row < self.readiness.threshold

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as ``kubectl exec`` does: as its user, without its entry point."""
        assert self._first is not None
        who = self.identity
        enter = ["nsenter", "--target", str(self._first.pid), "--mount", "--pid", "--ipc", "--uts", "--root", "--wd"]
        become = ["setpriv", f"--reuid={who.user}", f"--regid={who.group}", f"--groups={who.volumes}"]
        become += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        environment = ["env", "-i", *(f"{name}={value}" for name, value in self._environment.items())]
        whole = [*enter, *become, *environment, *command]
        return subprocess.run(whole, capture_output=True, text=True, timeout=600, check=False)

    def delete(self) -> tuple[int, float]:
        """End it as ``kubectl delete pod`` does; gives its exit code (137 where it was killed), and the seconds."""
        assert self._process is not None
        assert self._first is not None
        self._gone.set()
        asked = time.monotonic()
        self._first.terminate()
        try:
            code = self._process.wait(self.grace_s)
        except psutil.TimeoutExpired:
            self._kill()
            code = 137
        for thread in self._threads:
            thread.join()
        return int(code), time.monotonic() - asked

    def _kill(self) -> None:
        assert self._process is not None
        assert self._first is not None
        self._first.kill()
        self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._gone.set()
        if self._process is not None and self._process.poll() is None:
            self._kill()
        for thread in self._threads:
            thread.join()
        if self._watchdog is not None:
            self._watchdog.guard(())
            self._watchdog.close()
        self._container.remove()


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


__all__ = ["Container", "Identity", "Pod", "Probe", "ran"]
