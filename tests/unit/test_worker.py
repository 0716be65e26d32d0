"""The process that plans a source answers Spark before it imports anything, and is then what Spark asked for."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from parallax.worker import PORT, SECRET
from parallax.worker import command as started_by

SLOW = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
from pyspark.worker_util import get_sock_file_to_executor
with get_sock_file_to_executor(timeout=None) as file:
    file.write(__name__.encode() + b" is here")
    file.flush()
"""


def answer(made: socket.socket, secret: bytes) -> None:
    """What Spark does with a connection: it looks at the secret, and agrees."""
    (size,) = struct.unpack("!i", made.recv(4, socket.MSG_WAITALL))
    assert made.recv(size, socket.MSG_WAITALL) == secret
    made.sendall(struct.pack("!i", 2) + b"ok")


def test_spark_is_answered_while_the_module_still_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text(SLOW)
    may_go_on = tmp_path / "go on"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        environment = {
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            SECRET: "between us",
            PORT: str(server.getsockname()[1]),
        }
        command = [started_by(tmp_path / "bin"), "-m", "slow_to_import", str(may_go_on)]
        with subprocess.Popen(command, env=environment) as process:
            made, _ = server.accept()
            with made:
                made.settimeout(60)
                answer(made, b"between us")
                may_go_on.touch()
                said = made.makefile("rb").read()
        assert struct.unpack("!i", said[:4]) == (process.pid,)
        assert (said[4:], process.returncode) == (b"__main__ is here", 0)


def test_whoever_is_not_waited_for_is_python_itself(tmp_path: Path) -> None:
    command = [
        started_by(tmp_path),
        "-c",
        "import sys; print(sys.argv, sys.executable, 'parallax.worker' in sys.modules)",
        "x",
    ]
    environment = {name: value for name, value in os.environ.items() if name != PORT}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"['-c', 'x'] {sys.executable} False"


def test_the_command_is_written_once_and_again_where_it_is_another(tmp_path: Path) -> None:
    written = Path(started_by(tmp_path))
    before = written.stat().st_mtime_ns
    assert started_by(tmp_path) == str(written)
    assert written.stat().st_mtime_ns == before
    written.write_text("something else")
    started_by(tmp_path)
    assert sys.executable in written.read_text()


def test_a_secret_that_spark_does_not_take_ends_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {**os.environ, SECRET: "wrong", PORT: str(server.getsockname()[1])}
        command = [started_by(tmp_path), "-m", "this_is_never_imported"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            made, _ = server.accept()
            with made:
                made.recv(4)
            _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "this_is_never_imported" not in said


def test_where_nothing_can_be_executed_python_is_started_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert started_by(tmp_path) == sys.executable


def test_where_no_script_can_be_written_python_is_started_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder can be made below a file")
    assert started_by(tmp_path / "cache" / "python-1") == sys.executable
