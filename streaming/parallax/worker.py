"""The Python process in which Spark plans a source: it answers Spark first, and imports afterwards.

Such a process has ten seconds to connect back to Spark (``PythonWorkerFactory.createSimpleWorker``), and no setting
makes that longer. The imports take a second or two of processor time, which may exceed ten seconds on a busy machine.
So this module needs only the standard library until it has answered Spark.
"""

from __future__ import annotations

import os
import runpy
import shlex
import socket
import struct
import sys
from pathlib import Path
from typing import Any

PORT, SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"
"""Environment variables: the port on which Spark waits for a Python worker, and the secret that lets it connect.

Spark sets them only if it waits for a worker to connect.
"""

_SCRIPT = """\
#!/bin/sh
[ -n "${port}" ] && exec {python} -m {module} "$@"
exec {python} "$@"
"""


def command(folder: Path) -> str:
    """The command with which Spark starts Python, for ``PYSPARK_PYTHON``: a script that runs this module.

    It is Python itself if no script can be written or executed in the folder.

    Args:
        folder: the folder for the script; it is made if it does not exist.
    """
    try:
        path = _script(folder)
    except OSError:  # The cache of an image is read-only.
        return sys.executable
    return str(path) if os.access(path, os.X_OK) else sys.executable


def _script(folder: Path) -> Path:
    text = _SCRIPT.format(port=PORT, python=shlex.quote(sys.executable), module=__name__)
    path = folder / "python"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".python-{os.getpid()}")
        scratch.write_text(text, encoding="utf-8")
        scratch.chmod(0o755)
        scratch.rename(path)
    return path


def connect(port: int, secret: str) -> tuple[Any, socket.socket]:
    """Connect to Spark and prove with its secret who this process is.

    It does the same as ``pyspark.util.local_connect_and_auth``.

    Args:
        port: the port of this machine on which Spark waits.
        secret: the secret that Spark has given.

    Returns:
        A tuple: the connection as a file for reading and writing, and its socket.

    Raises:
        OSError: Spark no longer waits, or refuses.
    """
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    made = socket.create_connection((host, port), timeout=int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", "15")))
    file = made.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
    said = secret.encode()
    file.write(struct.pack("!i", len(said)) + said)
    file.flush()
    if file.read(6) != struct.pack("!i", 2) + b"ok":
        raise ConnectionRefusedError("Spark does not take the secret that it has given")
    return file, made


def main() -> None:
    """Run the module that Spark names (``-m MODULE``) as if Python had been started with it."""
    port = int(os.environ[PORT])
    connected: list[tuple[Any, Any]] = [connect(port, os.environ[SECRET])]
    from pyspark import worker_util

    otherwise = worker_util.local_connect_and_auth

    def connect_once(where: str | int | None, secret: str | None) -> tuple[Any, Any]:
        return connected.pop() if connected and where == port else otherwise(where, secret)

    worker_util.local_connect_and_auth = connect_once
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
