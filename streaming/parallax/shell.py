"""Writes the commands that messages suggest to a person; they can be pasted into a shell unchanged."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PLACEHOLDER = "HOST:9092"
"""What a printed command has in place of the cluster's address if no settings are known."""
_LOGIN = "admin.properties"
"""The file that Kafka's tools read to log in, as printed commands name it."""

NEED_SETTINGS = frozenset(
    {
        "audit",
        "check",
        "findings readers",
        "guard hold",
        "guard release",
        "lead",
        "repair plan",
        "repair resume",
        "repair run",
        "repair undo",
        "roll",
        "run",
        "seen",
        "show-record",
    }
)
"""The commands that take the settings file, and not the storage path (``--data``) in its place."""


@dataclass(frozen=True, slots=True)
class Shell:
    """What a printed command needs to know: the cluster's address, how to log in, and how Parallax was started.

    Attributes:
        servers: ``bootstrap.servers``; a placeholder if no settings are known.
        has_login: whether Kafka's tools need a file of client properties (`admin.properties`) to connect.
        config: the settings file as the user gave it after ``-c``; a placeholder if none is known.
        data: the storage path, if the user gave that instead of a settings file.
        program: the command that starts Parallax.
    """

    servers: str = PLACEHOLDER
    has_login: bool = False
    config: str = "CONFIG"
    data: str | None = None
    program: str = "parallax"

    @classmethod
    def of(cls, kafka: Mapping[str, str] | None, config: object = None, data: str | None = None) -> Self:
        """The `Shell` for a user who has given these settings.

        Args:
            kafka: Kafka's options; None or without ``bootstrap.servers`` if the cluster is not known.
            config: the settings file as the user gave it; None without one.
            data: the storage path as the user gave it; None without one.
        """
        known = kafka or {}
        addresses = known.get("bootstrap.servers", PLACEHOLDER)
        protocol = known.get("security.protocol") or next(iter(re.findall(r"(\w+)://", addresses)), "PLAINTEXT")
        return cls(
            servers=re.sub(r"\w+://", "", addresses),
            has_login=protocol.upper() != "PLAINTEXT",
            config="CONFIG" if config is None else str(config),
            data=data,
            program=_program(),
        )

    @property
    def is_known(self) -> bool:
        """Whether the cluster's address is known, so that printed commands need no placeholder."""
        return self.servers != PLACEHOLDER

    def brokers(self, login: str = "--command-config") -> str:
        """The options that connect one of Kafka's tools to the cluster, such as ``--bootstrap-server host:9092``.

        Nobody knows which version of the tools will run. So an option is one that each version has, even if the newest
        warn that it is deprecated.

        Args:
            login: the tool's option for a file of client properties. All tools have ``--command-config`` from Kafka 4.2
                on; before, the console producer has only ``--producer.config``, and kafka-leader-election.sh only
                ``--admin.config``.
        """
        said = f"--bootstrap-server {shlex.quote(self.servers)}"
        return f"{said} {login} {_LOGIN}" if self.has_login else said

    def parallax(self, *words: object) -> str:
        """A command of Parallax with the options that name this job, such as ``parallax check -c conf.yaml``.

        Commands that need the settings file (`NEED_SETTINGS`) get ``-c``, the others ``--data`` if the user gave it.

        Args:
            words: the command and its arguments; each is quoted if a shell needs that.
        """
        said = [str(word) for word in words]
        needs_settings = not NEED_SETTINGS.isdisjoint({said[0], " ".join(said[:2])})
        options = self.options if self.data is None or needs_settings else shlex.join(("--data", self.data))
        return f"{self.program} {shlex.join(said)} {options}"

    @property
    def options(self) -> str:
        """The options by which commands of Parallax get the settings file, such as ``-c conf.yaml``."""
        return shlex.join(("-c", self.config))


ANYWHERE = Shell()
"""For commands that are printed without any settings: placeholders name the cluster and the job."""


def file_from(name: str, text: str) -> str:
    """Shell lines that write a text into a new file of the working directory (a here-document).

    Args:
        name: the file's name.
        text: its content, such as the JSON that a Kafka tool reads.
    """
    return f"cat > {shlex.quote(name)} <<'END'\n{text}\nEND"


def _program() -> str:
    """``parallax`` if the shell finds the running program by that name, else its whole path."""
    started = Path(sys.argv[0])
    found = shutil.which("parallax")
    if started.name != "parallax" or (found is not None and os.path.realpath(found) == os.path.realpath(started)):
        return "parallax"
    return shlex.quote(os.path.abspath(started))  # noqa: PTH100 - a link stays what it was started by


__all__ = ["ANYWHERE", "NEED_SETTINGS", "PLACEHOLDER", "Shell", "file_from"]
