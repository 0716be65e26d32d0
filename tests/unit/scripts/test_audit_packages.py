"""What ``make lint`` says of vulnerable packages: by a pip-audit of the test's own, and by the real one."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.scripts import script_of

FLAWED = {
    "name": "six",
    "version": "1.17.0",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-2"], "fix_versions": ["1.18.0"]}],
}
SOUND = {"name": "rich", "version": "15.0.0", "vulns": []}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_of("audit_packages")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.lock"
    file.write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\n")
    return file


def pip_audit(tmp_path: Path, **said: Any) -> str:
    """A pip-audit that says of each service what it is told to: packages, or a text that it fails with."""
    file = tmp_path / "pip-audit"
    file.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"said = json.loads({json.dumps(said)!r})[sys.argv[sys.argv.index('-s') + 1]]\n"
        "sys.exit(said) if isinstance(said, str) else print(json.dumps({'dependencies': said}))\n"
        "sys.exit(any(one.get('vulns') for one in said))\n"
    )
    file.chmod(0o700)
    return str(file)


@pytest.mark.parametrize(
    ("said", "code", "out", "err"),
    [
        ({"pypi": [SOUND]}, 0, "packages audited by pypi: 1; none is known to be vulnerable\n", ""),
        ({"pypi": [SOUND, FLAWED]}, 1, "", "six 1.17.0: PYSEC-1, CVE-2; mended in 1.18.0\n"),
        ({"pypi": [SKIPPED], "osv": [FLAWED]}, 1, "", "six 1.17.0: PYSEC-1, CVE-2; mended in 1.18.0\n"),
        (
            {"pypi": [SKIPPED, FLAWED]},
            1,
            "not audited: rich: Dependency not found on PyPI\n",
            "six 1.17.0: PYSEC-1, CVE-2; mended in 1.18.0\n",
        ),
        (
            {"pypi": [SKIPPED], "osv": "Traceback\nConnectionError: away"},
            0,
            "not audited: requirements.lock: pypi: Dependency not found on PyPI; osv: ConnectionError: away\n",
            "",
        ),
        (
            {"pypi": [], "osv": []},
            0,
            "not audited: requirements.lock: pypi: it names no package; osv: it names no package\n",
            "",
        ),
    ],
    ids=["none", "one", "known to the second alone", "one and one that is not known", "nobody answers", "empty"],
)
def test_a_vulnerable_package_fails_and_silence_is_said(
    script: ModuleType,
    lock: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    said: dict[str, Any],
    code: int,
    out: str,
    err: str,
) -> None:
    assert script.main(["--lock", str(lock), "--pip-audit", pip_audit(tmp_path, **said)]) == code
    assert capsys.readouterr() == (out, err)


def test_without_pip_audit_it_is_said_that_nothing_was_audited(
    script: ModuleType, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--lock", str(lock), "--pip-audit", "/nowhere/pip-audit"]) == 0
    assert capsys.readouterr().out.startswith("not audited: requirements.lock: pypi: /nowhere/pip-audit: No such file")


@pytest.fixture
def osv() -> Iterator[str]:
    """A server in OSV's words that knows of one vulnerability."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            named = asked["package"]
            events = [{"introduced": "0"}, {"fixed": "1.18.0"}]
            ranges = [{"type": "ECOSYSTEM", "events": events}]
            flaw = {"id": "OSV-1", "affected": [{"package": named, "ranges": ranges}], "summary": "flawed"}
            body = json.dumps({"vulns": [flaw]} if asked["version"] == "1.17.0" else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def test_the_real_one_is_understood(
    script: ModuleType, lock: Path, osv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_osv = ["--lock", str(lock), "--service", "osv", "--osv-url"]
    assert script.main([*by_osv, osv]) == 1
    assert capsys.readouterr().err == "six 1.17.0: OSV-1; mended in 1.18.0\n"
    lock.write_text(lock.read_text().replace("1.17.0", "1.18.0"))
    assert script.main([*by_osv, osv]) == 0
    assert capsys.readouterr().out == "packages audited by osv: 1; none is known to be vulnerable\n"
    assert script.main([*by_osv, "http://127.0.0.1:1/v1/query"]) == 0
    assert capsys.readouterr().out.startswith("not audited: requirements.lock: osv: requests.exceptions.Connection")
