"""A real S3 server for tests: Versity's S3 gateway over a folder, built from its Go module.

It is one program without a service beside it, starts in a fraction of a second, keeps objects as files, and does what
is needed here: ``If-None-Match: *`` is refused where there is an object, also under concurrent puts
(``test_s3_server.py``). Python's own S3 servers (moto) are mocks within a test's process, and S3Mock for the JVM knows
no conditional puts of many writers at once.

Built once into Parallax's cache. A machine without Go gets one from the Go module proxy, where toolchains are modules
like any other (https://go.dev/doc/toolchain): a zip that Python unpacks.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from parallax.jars import cache_folder, made_once
from parallax.lab.ports import free_ports
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog

MODULE, VERSION = "github.com/versity/versitygw", "v1.8.0"

_GO = "1.26.8"
_GO_SHA256 = {"amd64": "30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7"}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def server_program() -> Path:
    """The server's program, built when it is not in the cache yet."""
    folder = cache_folder() / f"versitygw-{VERSION}"
    with made_once(folder) as missing:
        if missing:
            go = shutil.which("go") or str(_toolchain() / "bin" / "go")
            work = Path(tempfile.mkdtemp(prefix=".versitygw-", dir=folder.parent))
            try:
                # The module names the least version of Go that it needs; an older one fetches it by itself.
                environment = {**os.environ, "GOBIN": str(work), "GOTOOLCHAIN": "auto", "CGO_ENABLED": "0"}
                command = [go, "install", "-trimpath", f"{MODULE}/cmd/versitygw@{VERSION}"]
                subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                work.chmod(0o755)
                work.rename(folder)
            except subprocess.CalledProcessError as error:
                raise RuntimeError(f"{MODULE} could not be built: {error.stderr[-500:]}") from error
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return folder / "versitygw"


def _toolchain() -> Path:
    """A Go toolchain from the Go module proxy."""
    architecture = _ARCHITECTURES[platform.machine()]
    name = f"v0.0.1-go{_GO}.linux-{architecture}"
    folder = cache_folder() / f"go-{_GO}"
    if not folder.exists():
        proxy = os.environ.get("GOPROXY", "https://proxy.golang.org").split(",")[0]
        work = Path(tempfile.mkdtemp(prefix=".go-", dir=folder.parent))
        try:
            archive, _ = urllib.request.urlretrieve(f"{proxy}/golang.org/toolchain/@v/{name}.zip", work / "go.zip")
            content = Path(archive).read_bytes()
            expected = _GO_SHA256.get(architecture)
            assert expected in (None, hashlib.sha256(content).hexdigest()), "not the toolchain that was asked for"
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(work)
            (inner,) = (work / "golang.org").iterdir()
            for program in (*(inner / "bin").iterdir(), *(inner / "pkg" / "tool").rglob("*")):
                program.chmod(0o755)  # the zip of a module keeps no permissions
            inner.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


class S3Server:
    """An S3 server on a free port of 127.0.0.1; stopped at the end, and with the process that started it.

    Args:
        folder: holds its objects and its log.
        conditional: whether it honours conditional puts; without, it keeps no metadata by which it could.
    """

    ACCESS_KEY, SECRET_KEY = "parallax-lab", "lab-secret-of-nobody"
    BUCKET = "parallax"

    def __init__(self, folder: Path, *, conditional: bool = True) -> None:
        self._folder, self._conditional = folder, conditional
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client needs, as AWS's own tools read it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": self.SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }

    def uri(self, prefix: str) -> str:
        """A ``storage.path`` on it."""
        return f"s3a://{self.BUCKET}/{prefix}"

    @property
    def objects(self) -> Path:
        """The folder in which the bucket's objects are files."""
        return self._folder / "buckets" / self.BUCKET

    def start(self) -> Self:
        """Start it, or start it again on its port; returns once it answers."""
        self.objects.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "ROOT_ACCESS_KEY": self.ACCESS_KEY, "ROOT_SECRET_KEY": self.SECRET_KEY}
        metadata = ["--sidecar", str(self._folder / "metadata")] if self._conditional else ["--nometa"]
        (self._folder / "metadata").mkdir(exist_ok=True)
        command = [str(server_program()), "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", *metadata]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder / "buckets")],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog = self._watchdog or Watchdog()
        self._watchdog.guard([self._process.pid])
        until(self._answers, f"the S3 server ({self._folder / 'server.log'})")
        return self

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "it ended"
        try:
            with urllib.request.urlopen(f"{self.endpoint}/", timeout=5):
                return True
        except urllib.error.HTTPError:
            return True  # who asks is not known to it
        except OSError:
            return False

    def stop(self) -> None:
        """Stop it; its objects stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if self._watchdog is not None:
            self._watchdog.guard(())
            self._watchdog.close()
            self._watchdog = None


__all__ = ["S3Server", "server_program"]
