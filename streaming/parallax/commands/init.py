"""``parallax init``: write settings, alert rules, dashboards and the runbook into a folder."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from parallax.commands.numbers import TOPIC
from parallax.commands.shared import Format, OutputFormat, one_line_errors
from parallax.output import as_json
from parallax.shell import Shell
from parallax.stores import is_remote


@one_line_errors
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Folder to write into. Default: this folder.")
    ] = Path(),
    servers: Annotated[
        str, typer.Option("--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster's brokers.")
    ] = "127.0.0.1:9092",
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic to watch; may be repeated. Default: all that do not begin with _.", **TOPIC),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="storage.path: a folder (below this one, if relative), or s3a://bucket/prefix. Default: DIR/data."
        ),
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Write a configuration, alert rules, dashboards and the runbook into a folder.

    If one of the files exists, nothing is written. If the storage is a bucket, a new key for all hashes is written too
    (file hash_key).
    """
    import yaml

    from parallax.config import ConfigError, load, validate
    from parallax.replica.options import protocol_of
    from parallax.shipped import CONFIG, Choices, configuration, write_out

    kept = str(folder / "data") if storage is None else storage
    choices = Choices(servers, tuple(topic or ()), _absolute(kept), _hash_key_file(folder, kept))
    try:
        document = yaml.safe_load(configuration(choices))
    except (yaml.YAMLError, UnicodeError):
        raise ConfigError("DIR and options of init: one has a character that a settings file cannot hold") from None
    protocol_of(validate(document, where=CONFIG).kafka)
    written = write_out(folder, choices)
    if output is Format.json:
        typer.echo(as_json({"config": written[0], "files": written, "keep": choices.hash_key_file}))
    else:
        for file in written:
            typer.echo(str(file))
    settings = load(written[0])
    if output is Format.text:
        typer.echo(_next(written), err=True)
    if choices.hash_key_file is not None:
        typer.echo(
            f"\nKeep {choices.hash_key_file}, and let none but the job's user read it: it is the key of all hashes in "
            f"{settings.storage.path}.\nWithout it these tables cannot be used any more.",
            err=True,
        )


def _absolute(storage: str) -> str:
    """A storage path that means the same in every working directory; a URI stays as it is.

    Raises:
        ConfigError: it is empty, or begins with the home of a user who does not exist.
    """
    from parallax.config import ConfigError, storage_path

    if not storage.strip():
        raise ConfigError("--storage: is empty; write a folder or s3a://bucket/prefix, or leave it out")
    try:
        storage_path(storage)
    except ValueError as error:
        raise ConfigError(f"--storage: {error}") from None
    if is_remote(storage) or storage.startswith("file:"):
        return storage
    try:
        return os.path.abspath(Path(storage).expanduser())  # noqa: PTH100 - without ..; links stay links
    except RuntimeError as error:
        raise ConfigError(f"--storage: {error}; write the whole path") from None


def _hash_key_file(folder: Path, storage: str) -> str | None:
    """The file for the key of all hashes; None where the storage keeps the key, or the environment gives it."""
    from parallax.config import variable_of
    from parallax.shipped import HASH_KEY

    given = any(variable_of(("read", name)) for name in ("hash_key", "hash_key_file"))
    return None if given or not is_remote(storage) else str((folder / HASH_KEY).absolute())


def _next(written: Sequence[Path]) -> str:
    """What to do with what was written, in lines that can be pasted."""
    shell, folder = Shell.of(None, written[0]), written[0].parent.absolute()

    def start(program: str, config: str, storage: str, port: int, *more: str) -> str:
        # By default it keeps its data in ./data, and that may be the job's storage.
        options = {"config.file": config, storage: "data"}
        given = (f"--{name}={shlex.quote(str(folder / program / file))}" for name, file in options.items())
        return " ".join((program, *given, f"--web.external-url=http://{socket.gethostname()}:{port}", *more))

    return f"""
Next (if your brokers ask for TLS or a password, first set both under kafka in {written[0].absolute()}):
  {shell.parallax("check")}
  {shell.parallax("run")}
The status page is then at http://127.0.0.1:9464/. For another port set alerting.metrics_port there, and that port in
{folder / "prometheus" / "prometheus.yml"}.

For alerts, put your addresses into the lines marked FILL IN of these files, and start (Debian calls the second
prometheus-alertmanager):
  {start("prometheus", "prometheus.yml", "storage.tsdb.path", 9090)}
  {start("alertmanager", "alertmanager.yaml", "storage.path", 9093, "--cluster.listen-address=")}
Links in messages lead to --web.external-url: put the name there by which people reach this machine. Without
--cluster.listen-address= an Alertmanager listens on port 9094 for others.
If you run one of them already, the head of its file says what to take over.

For Grafana, import the JSON files of {folder / "grafana"}.
What to do when an alert fires: {folder / "docs" / "runbook.md"}"""
